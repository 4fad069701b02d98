"""Put a built documentation into a folder of versions: ``python tools/add_version.py HTML SITE``.

Each version gets a folder of its own. ``SITE/versions.js`` names them all, newest first, and
``SITE/index.html`` leads to the newest. The folder can be opened from a disk or served as it is.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path


def add_version(html: Path, site: Path) -> str:
    """Copy `html` to its version's folder in `site`, list all versions, return the version."""
    version = version_of(html)
    shutil.rmtree(site / version, ignore_errors=True)
    shutil.copytree(html, site / version, ignore=shutil.ignore_patterns(".doctrees", ".buildinfo"))
    versions = sorted(
        (path.parent for path in site.glob("*/objects.inv")), key=order_of, reverse=True
    )
    listed = [
        {
            "version": folder.name,
            "pages": sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.html")),
        }
        for folder in versions
    ]
    site.joinpath("versions.js").write_text(
        f"window.contstimVersions = {json.dumps(listed, indent=0)};\n", "utf-8"
    )
    newest = versions[0].name
    site.joinpath("index.html").write_text(
        f'<!doctype html><meta charset="utf-8"><title>contstim</title>'
        f'<meta http-equiv="refresh" content="0; url={newest}/index.html">'
        f'<a href="{newest}/index.html">contstim {newest}</a>\n',
        "utf-8",
    )
    return version


def version_of(html: Path) -> str:
    """Return the version that a built documentation states in its inventory."""
    header = (html / "objects.inv").read_bytes().splitlines()[2].decode("utf-8")
    return header.removeprefix("# Version: ").strip()


def order_of(folder: Path) -> list[int]:
    """Return a key by which 0.10 comes after 0.9, and a version without numbers before both."""
    return [int(number) for number in re.findall(r"\d+", folder.name)]


if __name__ == "__main__":
    made = add_version(Path(sys.argv[1]), Path(sys.argv[2]))
    print(f"{sys.argv[2]}/{made}/index.html")
