"""Run the benchmarks, and write their output and commands to RESULTS.md.

Usage: python benchmarks/run.py [--data FOLDER] [--only NAME ...]

FOLDER contains the folders ``gutenberg`` (``sentences.txt.gz``) and ``golan2023``, for benchmarks
on real text and data. Without it, the benchmarks use bundled and simulated data. Results of
benchmarks that are not run stay in the file. The machine should be idle.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "RESULTS.md"

LSTM = "lstm:models/bundled/lstm.safetensors?punctuation=split&unknown=unk"

#: Benchmark (its script's name comes first), its arguments, and those added with data.
BENCHMARKS = {
    "scoring": ([], ["--text", "gutenberg/sentences.txt.gz"]),
    "ngram": (None, ["--data", "gutenberg/sentences.txt.gz"]),
    "synthesis": ([], []),
    "guided_search": ([], []),
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
    """Run them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS))
    args = parser.parse_args()
    sections = _sections()
    for name in args.only:
        plain, with_data = BENCHMARKS[name]
        if plain is None and args.data is None:
            print(f"{name}: needs --data", file=sys.stderr)
            continue
        extra = with_data if args.data else []
        script = f"{name.split()[0]}.py"
        shown = shlex.join(["python", f"benchmarks/{script}", *(plain or []), *extra])
        paths = [str(args.data / e) if "/" in e and e != LSTM else e for e in extra]
        command = [sys.executable, str(HERE / script), *(plain or []), *paths]
        print(shown, file=sys.stderr)
        found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
        sections[name] = f"`{shown}` ({machine})\n\n{found.stdout.strip()}\n"
        _write(sections)


def _sections() -> dict[str, str]:
    if not RESULTS.exists():
        return {}
    parts = re.split(r"^## (.+)$", RESULTS.read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {name: text.strip() + "\n" for name, text in zip(parts[::2], parts[1::2], strict=True)}


def _write(sections: dict[str, str]) -> None:
    text = "# Results of the benchmarks\n\nWritten by `python benchmarks/run.py --data FOLDER`.\n"
    for name, section in sorted(sections.items()):
        text += f"\n## {name}\n\n{section}"
    RESULTS.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
