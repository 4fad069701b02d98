"""A folder that was published, made once."""

from pathlib import Path

import pytest
from folders import write_all

from contstim.cli import main


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Choices, scores and about.toml, and ``out``, published of them; two sentences withheld."""
    folder = write_all(tmp_path_factory.mktemp("published"), secret=2)
    command = ["publish", str(folder / "choices.csv"), "--about", str(folder / "about.toml")]
    command += ["--scores", str(folder / "scores.csv"), "--date", "2026-11-25"]
    assert main([*command, "--out", str(folder / "out")]) == 0
    return folder
