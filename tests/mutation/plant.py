"""Plant faults one at a time in a copy of the package, and run tests/combinations on each.

Every fault of faults.toml replaces one text of a file by another. It is caught if a test of the
combinations fails. The tests listed with a fault run first. A text that is no longer in its file,
or that is there more than once, is an error: write the fault anew. Exit status 1 if a fault is not
caught.

    python tests/mutation/plant.py              all faults
    python tests/mutation/plant.py 3 17         only faults 3 and 17
    python tests/mutation/plant.py --quick      only the tests that are listed with a fault
    python tests/mutation/plant.py --check      only look for the texts
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
import tomllib
from multiprocessing.connection import Connection
from pathlib import Path

import matplotlib.pyplot  # noqa: F401  imported before the package, see `run_tests`
import pandas  # noqa: F401
import pytest
import torch  # noqa: F401

ROOT = Path(__file__).parents[2]
COMBINATIONS = Path("tests/combinations")


def main() -> int:
    """Plant the faults that were asked for; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="*", type=int)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    faults = tomllib.loads((Path(__file__).parent / "faults.toml").read_text("utf-8"))["fault"]
    numbered = [*enumerate(faults, start=1)]
    lost = [n for n, f in numbered if (ROOT / f["file"]).read_text("utf-8").count(f["old"]) != 1]
    for number in lost:
        fault = faults[number - 1]
        print(f"{number}: not exactly once in {fault['file']}: {fault['old']!r}", file=sys.stderr)
    if arguments.check or lost:
        return bool(lost)
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_repository(Path(folder))
        for number, fault in numbered:
            if arguments.numbers and number not in arguments.numbers:
                continue
            start = time.monotonic()
            test = run_with_fault(copy, fault, arguments.quick)
            missed += test is None
            found = f"caught by {test}" if test else "NOT CAUGHT"
            seconds = time.monotonic() - start
            print(
                f"{number:3} {fault['kind']}: {fault['file']}: {found}, {seconds:.0f} s", flush=True
            )
    return bool(missed)


def copy_repository(folder: Path) -> Path:
    """Return a copy of the package and of the tests that run; the rest is linked."""
    copy = folder / "copy"
    copy.mkdir()
    shutil.copytree(ROOT / "contstim", copy / "contstim")
    shutil.copytree(ROOT / COMBINATIONS, copy / COMBINATIONS)
    for path in (ROOT / "tests").iterdir():
        if path.name not in (COMBINATIONS.name, "mutation", "__pycache__"):
            (copy / "tests" / path.name).symlink_to(path)
    for name in ("models", "tools", "experiments", "pyproject.toml"):
        (copy / name).symlink_to(ROOT / name)
    return copy


def run_with_fault(copy: Path, fault: dict[str, str], quick: bool) -> str | None:
    """Return the test that fails with a fault planted; None if all pass."""
    file = copy / fault["file"]
    source = file.read_text("utf-8")
    file.write_text(source.replace(fault["old"], fault["new"]), "utf-8")
    first = [str(COMBINATIONS / test) for test in fault["tests"].split()]
    names = {test.partition("::")[0] for test in first}
    others = [f"{COMBINATIONS}/{path.name}" for path in (copy / COMBINATIONS).glob("test_*.py")]
    try:
        for tests in [first] if quick else [first, sorted({*others} - names)]:
            reader, writer = multiprocessing.Pipe(duplex=False)
            process = multiprocessing.get_context("fork").Process(
                target=run_tests, args=(copy, tests, writer)
            )
            process.start()
            writer.close()
            failed = reader.recv()
            process.join()
            if failed:
                return failed
    finally:
        file.write_text(source, "utf-8")
    return None


def run_tests(copy: Path, tests: list[str], result: Connection) -> None:
    """Run tests in a process that has imported no module of the package; send the one that fails.

    The libraries that the package needs are imported already, once for all faults.
    """
    os.chdir(copy)
    os.environ["COMBINATIONS"] = "first"
    sys.path.insert(0, str(copy))
    record = Record()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        status = pytest.main(["-q", "-x", "-p", "no:cacheprovider", *tests], plugins=[record])
    assert status in (0, 1), f"pytest ended with status {status}"
    assert Path(sys.modules["contstim"].__file__).is_relative_to(copy)
    result.send(record.failed)


class Record:
    """The first test that failed, or that could not run."""

    failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        if report.failed and not self.failed:
            self.failed = report.nodeid.partition("::")[2]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that cannot be imported."""
        if report.failed and not self.failed:
            self.failed = f"import of {report.nodeid}"


if __name__ == "__main__":
    raise SystemExit(main())
