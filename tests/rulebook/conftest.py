"""One file of one's own, installed as a package, for the tests of what the rulebook promises."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from installed import install

from contstim.cli import main

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
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command; `test_custom_family_in_worker_processes` tests another process."""

    def run_command(*words: object) -> subprocess.CompletedProcess[str]:
        arguments = [*map(str, words)]
        capsys.readouterr()
        status = main(arguments)
        printed = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, status, printed.out, printed.err)

    return run_command
