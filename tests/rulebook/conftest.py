"""One file of one's own, installed as a package, for the tests of what the rulebook promises."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from installed import install

OWN = Path(__file__).parents[1] / "own"


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install a module of ``tests/own`` by its name, a group of entry points, and its entries.

    Entries are ``name = module:thing`` without the module: ``added("two_buttons",
    "contstim.importers", "two-buttons = read_two_buttons")``. Further files of ``tests/own`` may be
    named.
    """

    def add(module: str, group: str, *entries: str, files: tuple[str, ...] = ()) -> None:
        points = "\n".join(entry.replace("= ", f"= {module}:") for entry in entries)
        texts = {name: (OWN / name).read_text("utf-8") for name in (f"{module}.py", *files)}
        text = texts.pop(f"{module}.py")
        install(tmp_path / "site", monkeypatch, module, text, {group: points}, texts)
        monkeypatch.chdir(tmp_path)

    return add


@pytest.fixture
def run() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command in a process of its own, which sees nothing but what is installed."""
    code = "import sys; from contstim.cli import main; sys.exit(main())"

    def run_command(*words: object) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-c", code, *map(str, words)]
        return subprocess.run(line, capture_output=True, text=True, check=False)

    return run_command
