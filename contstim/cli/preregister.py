"""Write the plan of a study in whole sentences, to be registered before the study.

PLAN.toml is the plan that `contstim evaluate --plan` reads, with a table [adaptive]: choosing,
link, stopping, trials, anchors and others (docs/adaptive.md); what it leaves out has its default,
which the document states too. After the study `contstim evaluate --plan PLAN.toml` lists where the
data and the analysis depart from it.

Example:
  contstim preregister PLAN.toml --out preregistration.md
"""

from __future__ import annotations

import argparse

from contstim.cli.common import write_output
from contstim.cli.parsing import CommandParser
from contstim.errors import InputError


def configure(parser: CommandParser) -> None:
    """Add the options."""
    parser.add("plan PLAN.toml", "with a table [adaptive]")
    parser.add("--title TEXT", "of the document (default: what kind of study it is)")
    parser.add_out("FILE")


def run(args: argparse.Namespace) -> int:
    """Write the document."""
    from contstim.adaptive.preregister import preregistration
    from contstim.evaluation.options import read_adaptive_plan

    try:
        (args.title or "").encode()
    except UnicodeEncodeError:
        raise InputError(f"--title {args.title!r} is not text; write it anew") from None
    text = preregistration(read_adaptive_plan(args.plan), args.title)
    with write_output(args.out, [args.plan]) as out:
        out.write(text)
    return 0
