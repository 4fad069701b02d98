"""Consistency of the stated versions and of the references of the paper."""

import shutil
from pathlib import Path

from release import VERSION_PATTERNS, check_metadata, read_versions

ROOT = Path(__file__).parents[2]


def _copy(folder: Path) -> Path:
    for name in (*VERSION_PATTERNS, "paper/paper.md", "paper/paper.bib"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def test_release_metadata_is_consistent() -> None:
    assert check_metadata(ROOT) == []
    assert "none" not in read_versions(ROOT).values()


def test_different_versions_are_reported(tmp_path: Path) -> None:
    cff = _copy(tmp_path) / "CITATION.cff"
    cff.write_text(cff.read_text("utf-8").replace("version: 0.1.0", "version: 0.2.0"), "utf-8")
    (line,) = check_metadata(tmp_path)
    assert line.startswith("versions differ: ")
    assert "CITATION.cff 0.2.0" in line


def test_missing_and_uncited_sources_are_reported(tmp_path: Path) -> None:
    bib = _copy(tmp_path) / "paper" / "paper.bib"
    bib.write_text(bib.read_text("utf-8").replace("{golan2020,", "{nobody1999,"), "utf-8")
    assert check_metadata(tmp_path) == [
        "paper.bib lacks golan2020",
        "paper.md does not cite nobody1999",
    ]
