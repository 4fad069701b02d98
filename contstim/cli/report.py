"""Draw the figure of an evaluation, of the size and with the analyses that a paper wants.

Reads the tables that `contstim evaluate` wrote into its folder and computes nothing anew.

Examples:
  contstim report results --figure figure.pdf
  contstim report results --figure figure.svg --width 180 --analysis all --analysis targeted
  contstim report results --figure figure.png --measure signed_rank_cosine
"""

from __future__ import annotations

import argparse
from pathlib import Path

from contstim.cli.common import check_figure
from contstim.cli.parsing import CommandParser, new_file, number
from contstim.errors import InputError, NoDataError, require_known
from contstim.evaluation.answer import analyses_together
from contstim.evaluation.result import results_figure
from contstim.tables import read_table

_INCH = 25.4
_TABLES = ("models", "comparisons", "participants", "groups")


def configure(parser: CommandParser) -> None:
    """Add the command's arguments."""
    parser.add("results", "the folder that evaluate wrote", Path)
    parser.add("--figure FILE", "where to write it, .svg, .pdf or .png", new_file, required=True)
    what = "of the figure, mm (default: 90, a column of a journal)"
    parser.add("--width MM", what, number(50, 500), default=90.0)
    what = "what to draw, each in a colour, the first with who beats whom (default: as the page)"
    parser.add("--analysis NAME", what, several=True, default=[])
    parser.add("--measure NAME", "the measure (default: the first)")


def run(args: argparse.Namespace) -> int:
    """Read the tables and draw."""
    check_figure(args.figure)
    if not (args.results / "models.csv").is_file():
        raise InputError(f"{args.results} has no models.csv; give the folder that evaluate wrote")
    tables = {name: read_table(args.results / f"{name}.csv") for name in _TABLES}
    models = tables["models"]
    if models["value"].isna().all():
        raise NoDataError(f"no model has a value in {args.results / 'models.csv'}")
    for name in args.analysis:
        require_known("analysis", name, list(dict.fromkeys(models["analysis"])))
    if args.measure is not None:
        require_known("measure", args.measure, list(dict.fromkeys(models["measure"])))
    from contstim.report.style import save_figure, sheet

    analyses = args.analysis or analyses_together(models)
    (ax,) = sheet()
    drawn = results_figure(tables, analyses, args.measure, ax, args.width / _INCH)
    if drawn is None:
        raise NoDataError(f"no model has a value in {', '.join(analyses)}; choose another analysis")
    print(save_figure(drawn, args.figure))
    return 0
