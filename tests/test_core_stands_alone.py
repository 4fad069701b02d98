"""The core works without the packages that surround it, which import it and not the reverse."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SURROUNDINGS = ("experiment", "adaptive", "training", "benchmarks")

#: Imports every module of a copy that belongs to the core, and runs commands there.
SCRIPT = """
import importlib, pkgutil, sys
import contstim
from contstim.cli import main

surroundings, *commands = sys.argv[1:]
outside = tuple(f"contstim.{name}" for name in surroundings.split(","))
for module in pkgutil.walk_packages(contstim.__path__, "contstim."):
    if not module.name.startswith(outside) and module.name != "contstim.__main__":
        importlib.import_module(module.name)
for name in contstim.__all__:
    getattr(contstim, name)
print(contstim.__path__[0])
for command in commands:
    assert main(command.split()) == 0, command
"""

DATA = "contstim/data"
COMMANDS = (
    "--help",
    "models --help",
    "models list",
    f"score --model contstim:bigram --model contstim:trigram {DATA}/pool.txt --out scores.csv",
    "select natural scores.csv --per-pair 2 --out pairs.csv",
    "synthesize --pair contstim:bigram contstim:trigram --limit 1 --out triplets.csv",
    "design trials --natural pairs.csv --groups 1 --participants 2 --out trials.csv",
    f"evaluate {DATA}/choices.csv --model contstim:bigram --model contstim:trigram --out results",
)


def _run_without(
    folder: Path, missing: tuple[str, ...], commands: tuple[str, ...]
) -> subprocess.CompletedProcess[str]:
    """Run commands in a copy of the package that lacks some of its packages."""
    ignored = shutil.ignore_patterns("__pycache__", *missing)
    shutil.copytree(ROOT / "contstim", folder / "contstim", ignore=ignored)
    (folder / "contstim" / "bundled").symlink_to(ROOT / "models" / "bundled")
    command = [sys.executable, "-c", SCRIPT, ",".join(SURROUNDINGS), *commands]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == str(folder / "contstim")
    return done


@pytest.mark.parametrize("missing", SURROUNDINGS)
def test_the_core_imports_without_one_package(missing: str, tmp_path: Path) -> None:
    _run_without(tmp_path, (missing,), COMMANDS[:3])


def test_the_core_works_without_all_four(tmp_path: Path) -> None:
    listed = _run_without(tmp_path, SURROUNDINGS, COMMANDS).stdout
    assert "  synthesize  " in listed
    surrounding = ("experiment", "review", "watch", "preregister", "benchmark", "reproduce")
    for command in (*surrounding, "publish"):
        assert f"  {command}  " not in listed
    for path in ("pairs.csv", "triplets.csv", "trials.csv", "results/report.html"):
        assert (tmp_path / path).stat().st_size > 0
