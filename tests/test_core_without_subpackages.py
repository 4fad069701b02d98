"""The core works without the subpackages that import it."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SURROUNDINGS = ("experiment", "adaptive", "training", "benchmarks")

#: Imports every module of a copy that belongs to the core, and runs commands there. Other packages
#: are imported once for all copies, which are folders of the working folder.
SCRIPT = """
import importlib, os, pkgutil, sys

def run(surroundings, *commands):
    sys.path[0] = os.getcwd()
    for name in [name for name in sys.modules if name.partition(".")[0] == "contstim"]:
        del sys.modules[name]
    import contstim
    from contstim.cli import main

    assert contstim.__path__ == [os.path.join(os.getcwd(), "contstim")]
    outside = tuple(f"contstim.{name}" for name in surroundings.split(","))
    for module in pkgutil.walk_packages(contstim.__path__, "contstim."):
        if not module.name.startswith(outside) and module.name != "contstim.__main__":
            importlib.import_module(module.name)
    for name in contstim.__all__:
        getattr(contstim, name)
    for command in commands:
        assert main(command.split()) == 0, command

sys.path.insert(0, "")
surroundings, *commands = sys.argv[1:]
top = os.getcwd()
for folder in sorted(os.listdir(top)):
    os.chdir(os.path.join(top, folder))
    print("folder", folder, flush=True)
    run(surroundings, *(commands if folder == "core" else commands[:3]))
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


def copy_without(folder: Path, missing: tuple[str, ...]) -> None:
    """Copy the package without some of its packages."""
    ignored = shutil.ignore_patterns("__pycache__", *missing)
    shutil.copytree(ROOT / "contstim", folder / "contstim", ignore=ignored)
    (folder / "contstim" / "bundled").symlink_to(ROOT / "models" / "bundled")


def test_core_commands_run_without_optional_subpackages(tmp_path: Path) -> None:
    """All commands run without all four packages, and the first three without each of them."""
    copy_without(tmp_path / "core", SURROUNDINGS)
    for missing in SURROUNDINGS:
        copy_without(tmp_path / f"without_{missing}", (missing,))
    command = [sys.executable, "-c", SCRIPT, ",".join(SURROUNDINGS), *COMMANDS]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    listed = done.stdout.partition("folder without")[0]
    assert done.stdout.count("  synthesize  ") == 1 + len(SURROUNDINGS)
    surrounding = ("experiment", "review", "watch", "preregister", "benchmark", "reproduce")
    for command in (*surrounding, "publish"):
        assert f"  {command}  " not in listed
    for path in ("pairs.csv", "triplets.csv", "trials.csv", "results/report.html"):
        assert (tmp_path / "core" / path).stat().st_size > 0
