"""The examples in docstrings produce their stated output."""

import doctest
from importlib import import_module
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from contstim.models.registry import FAMILIES

ROOT = Path(__file__).parents[2]
MODULES = [
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
    for path in sorted((ROOT / "contstim").rglob("*.py"))
    if "\n    >>> " in path.read_text("utf-8")
]


def test_modules_with_doctests_are_found() -> None:
    assert len(MODULES) >= 8


@pytest.mark.parametrize("name", MODULES)
def test_doctests_of_a_module(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some write files, and some register things of their own
    monkeypatch.setattr("contstim.models.registry.FAMILIES", dict(FAMILIES))
    try:
        found = doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    finally:
        plt.close("all")
    assert found.attempted > 0
    assert found.failed == 0
