"""Fixtures that install an extension as a package and run commands."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_packages import install

from contstim.cli import main

EXTENSIONS = Path(__file__).parents[1] / "extensions"


@pytest.fixture
def add_extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that installs a module of ``tests/extensions`` as a package.

    It takes the name of the module, a group of entry points and its entries, which are
    ``name = module:thing`` without the module: ``add_extension("two_buttons",
    "contstim.importers", "two-buttons = read_two_buttons")``. ``files`` are further files of
    ``tests/extensions``.
    """

    def add(module: str, group: str, *entries: str, files: tuple[str, ...] = ()) -> None:
        points = "\n".join(entry.replace("= ", f"= {module}:") for entry in entries)
        texts = {name: (EXTENSIONS / name).read_text("utf-8") for name in (f"{module}.py", *files)}
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
