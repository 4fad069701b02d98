"""Several versions of the documentation in one folder."""

import json
from pathlib import Path

from add_version import add_version


def _make_version(folder: Path, version: str, *pages: str) -> Path:
    for page in ("index.html", *pages):
        path = folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(version, "utf-8")
    header = f"# Sphinx inventory version 2\n# Project: contstim\n# Version: {version}\n# zlib\n"
    (folder / "objects.inv").write_bytes(header.encode() + b"\x00")
    return folder


def _read_versions(site: Path) -> list[dict[str, object]]:
    text = (site / "versions.js").read_text("utf-8")
    return list(json.loads(text.removeprefix("window.contstimVersions = ").removesuffix(";\n")))


def test_versions_are_listed_newest_first_with_their_pages(tmp_path: Path) -> None:
    site = tmp_path / "site"
    for version in ("0.10.0", "0.9.1"):
        add_version(_make_version(tmp_path / version, version, "about/cite.html"), site)
    assert [entry["version"] for entry in _read_versions(site)] == ["0.10.0", "0.9.1"]
    assert _read_versions(site)[0]["pages"] == ["about/cite.html", "index.html"]
    assert "url=0.10.0/index.html" in (site / "index.html").read_text("utf-8")


def test_rebuilt_version_is_replaced(tmp_path: Path) -> None:
    site = tmp_path / "site"
    add_version(_make_version(tmp_path / "a", "0.1.0", "old.html"), site)
    add_version(_make_version(tmp_path / "b", "0.1.0", "new.html"), site)
    assert [entry["pages"] for entry in _read_versions(site)] == [["index.html", "new.html"]]
    assert not (site / "0.1.0" / "old.html").exists()
