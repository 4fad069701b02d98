"""Run the benchmarks, and save the command and the output of each in a text file.

Usage: python benchmarks/run.py --out FOLDER [--data FOLDER] [--only NAME ...]

The data folder contains the folders ``gutenberg`` (``sentences.txt.gz``) and ``golan2023``, for
benchmarks on real text and data. Without it, the benchmarks use bundled and simulated data. The
machine should be idle.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

LSTM = "lstm:models/bundled/lstm.safetensors?punctuation=split&unknown=unk"

#: Arguments of each benchmark without and with a data folder; None if it needs a data folder.
BENCHMARKS = {
    "scoring": ([], ["--text", "gutenberg/sentences.txt.gz"]),
    "ngram": (None, ["--data", "gutenberg/sentences.txt.gz"]),
    "synthesis": ([], []),
    "guided_search": ([], []),
    "sampling": ([], []),
    "runs": ([], []),
    "recurrent_scoring": (None, [LSTM, "--data", "gutenberg/sentences.txt.gz"]),
    "bench_transformers": ([], []),
    "bench_minicons": ([], []),
    "students": (None, ["--data", "gutenberg/", "--words", "5000"]),
    "selection": ([], ["--data", "golan2023/"]),
    "experiment": ([], []),
    "evaluation": ([], ["--data", "golan2023/behavior_nov2022_raw.csv"]),
    "mixed_models": ([], ["--data", "golan2023/behavior_nov2022_raw.csv"]),
    "r_page": ([], []),
}


def main() -> None:
    """Run the benchmarks that are named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in args.only:
        plain, with_data = BENCHMARKS[name]
        if plain is None and args.data is None:
            print(f"{name}: needs --data", file=sys.stderr)
            continue
        extra = with_data if args.data else []
        shown = shlex.join(["python", f"benchmarks/{name}.py", *(plain or []), *extra])
        paths = [str(args.data / e) if "/" in e and e != LSTM else e for e in extra]
        command = [sys.executable, str(HERE / f"{name}.py"), *(plain or []), *paths]
        print(shown, file=sys.stderr)
        finished = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
        if finished.returncode:
            failed.append(name)
            continue
        machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
        (args.out / f"{name}.txt").write_text(f"{shown} ({machine})\n\n{finished.stdout}", "utf-8")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
