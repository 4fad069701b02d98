"""Add the built documentation of one version to a site with all versions.

Usage: python tools/add_version.py HTML SITE

Each version is copied to a folder, ``SITE/VERSION``. ``SITE/versions.js`` lists all versions, the
newest first, and ``SITE/index.html`` redirects to the newest. The site needs no server.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path


def add_version(html: Path, site: Path) -> str:
    """Copy the documentation in `html` to the folder of its version in `site`.

    The list of versions and the start page of the site are written again.

    Returns
    -------
    str
        The version.
    """
    version = read_version(html)
    shutil.rmtree(site / version, ignore_errors=True)
    shutil.copytree(html, site / version, ignore=shutil.ignore_patterns(".doctrees", ".buildinfo"))
    versions = sorted(
        (path.parent for path in site.glob("*/objects.inv")), key=sort_key, reverse=True
    )
    entries = [
        {
            "version": folder.name,
            "pages": sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.html")),
        }
        for folder in versions
    ]
    site.joinpath("versions.js").write_text(
        f"window.contstimVersions = {json.dumps(entries, indent=0)};\n", "utf-8"
    )
    newest = versions[0].name
    site.joinpath("index.html").write_text(
        f'<!doctype html><meta charset="utf-8"><title>contstim</title>'
        f'<meta http-equiv="refresh" content="0; url={newest}/index.html">'
        f'<a href="{newest}/index.html">contstim {newest}</a>\n',
        "utf-8",
    )
    return version


def read_version(html: Path) -> str:
    """Read the version from the Sphinx inventory of a built documentation."""
    header = (html / "objects.inv").read_bytes().splitlines()[2].decode("utf-8")
    return header.removeprefix("# Version: ").strip()


def sort_key(folder: Path) -> list[int]:
    """Return the numbers of a version, so that 0.10 is sorted after 0.9."""
    return [int(number) for number in re.findall(r"\d+", folder.name)]


if __name__ == "__main__":
    html_folder, site_folder = map(Path, sys.argv[1:])
    print(f"{site_folder}/{add_version(html_folder, site_folder)}/index.html")
