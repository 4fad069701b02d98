"""Measure the throughput of synthesis for several numbers of local workers.

Usage: python benchmarks/runs.py [--starts 10] [--workers 0 1 2]

One study plan (trigram against LSTM, both directions for each start sentence) is run from the
beginning for each number of workers; 0 means in this process. The time includes loading the models
in every worker. The script checks that the resulting tables are identical.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from contstim.pipeline.dask_executor import DaskExecutor
from contstim.pipeline.engine import Executor, SequentialExecutor
from contstim.pipeline.study import read_study_plan, run_study

STUDY = """
models = ["contstim:trigram", "contstim:lstm"]

[study]
name = "throughput"
seed = 1

[sentences]
words = "8"

[synthesis]
strategy = "edit?candidates=32"
per_pair = {starts}
"""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    args = parser.parse_args()
    tasks = 2 * args.starts
    print(f"{tasks} tasks\n")
    print("| workers | seconds | tasks/s | ratio to the first |\n| ---: | ---: | ---: | ---: |")
    first, tables = 0.0, set()
    for n in args.workers:
        one: Executor = DaskExecutor("local", n) if n else SequentialExecutor()
        with tempfile.TemporaryDirectory() as name, one as executor:
            folder = Path(name)
            (folder / "study.toml").write_text(STUDY.format(starts=args.starts), "utf-8")
            began = time.perf_counter()
            report = run_study(read_study_plan(folder / "study.toml"), executor, out=folder / "out")
            seconds = time.perf_counter() - began
            assert report.is_complete, report.failures
            tables.add((folder / "out" / "synthesized.csv").read_bytes())
        first = first or seconds
        print(f"| {n} | {seconds:.0f} | {tasks / seconds:.2f} | {first / seconds:.2f} |")
    print(f"\ntables alike: {'yes' if len(tables) == 1 else 'no'}")


if __name__ == "__main__":
    main()
