"""The guide's tables of calibration are those of the stored simulations."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "calibration"


@pytest.mark.parametrize("part", ["errors", "shapes"])
def test_the_guide_has_what_the_command_prints(part):
    command = [sys.executable, str(FOLDER / "run.py"), part, "--only-show"]
    stored = [*command, "--out", str(FOLDER / f"{part}.csv")]
    printed = subprocess.run(stored, capture_output=True, text=True, check=True).stdout
    assert printed.count("\n") > 15
    assert printed.strip() in (ROOT / "docs" / "inference.md").read_text("utf-8")
