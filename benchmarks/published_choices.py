"""Run the tutorial on the published experiment with the published file, and check its results.

Usage: python benchmarks/published_choices.py FILE [--write]

FILE is ``contstim_Nov2022_30_participants_anon.csv``. The output of each code cell is compared with
the block of text below it in ``docs/tutorials/published.md``. With ``--write`` the output replaces
this block, and the figure is written to ``docs/_static/published.svg``.
"""

from __future__ import annotations

import argparse
import difflib
import io
import os
import re
import shutil
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

import matplotlib as mpl

from contstim.drawing import save_figure

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "tutorials" / "published.md"
NAME = "contstim_Nov2022_30_participants_anon.csv"
CELL = re.compile(
    r"^```\{code-cell\}[^\n]*\n(?::[^\n]*\n)*(.*?)^```\n(\n```text\n(.*?)```\n)?", re.M | re.S
)


def run(page: str, file: Path) -> tuple[str, object]:
    """Run the cells of the page; return the page with their output, and the axes of the figure."""
    names: dict[str, object] = {}

    def printed(cell: re.Match[str]) -> str:
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile(cell[1], PAGE.name, "exec"), names)
        whole = cell[0]
        return (
            whole
            if cell[2] is None
            else whole.replace(cell[2], f"\n```text\n{out.getvalue()}```\n")
        )

    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(file, Path(folder, NAME))
        os.chdir(folder)
        text = CELL.sub(printed, page)
        os.chdir(DOCS)
    return text, names["ax"]


def main() -> int:
    """Compare or write, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    mpl.use("agg")
    before = PAGE.read_text("utf-8")
    after, ax = run(before, args.file.resolve())
    if args.write:
        PAGE.write_text(after, "utf-8")
        save_figure(ax.figure, DOCS / "_static" / "published.svg")
        return 0
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    differences = list(lines)
    print("\n".join(differences) or "as the page says")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
