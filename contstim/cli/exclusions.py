"""Options that say which participants and trials an analysis leaves out."""

from __future__ import annotations

import argparse
from typing import Any

from contstim.cli.common import number

__all__ = ["add_exclusions", "given_rules"]

#: Named as the fields of `contstim.evaluation.exclusion.ExclusionRules`.
_EXCLUSIONS = {
    "--min-catch-correct": "least share of catch trials right, e.g. 0.91",
    "--min-rt-ms": "leave out trials answered faster than this",
    "--max-rt-ms": "leave out trials answered slower than this",
    "--min-median-rt-ms": "leave out participants whose median time is shorter",
    "--min-trials": "leave out participants with fewer trials",
}


def add_exclusions(parser: argparse.ArgumentParser, title: str) -> None:
    """Add the options under a title of their own."""
    group = parser.add_argument_group(title)
    for option, what in _EXCLUSIONS.items():
        group.add_argument(option, type=number(0), metavar="N", help=what)


def given_rules(args: argparse.Namespace) -> dict[str, Any]:
    """Return the rules that were given, as fields of `ExclusionRules`."""
    names = (option[2:].replace("-", "_") for option in _EXCLUSIONS)
    return {name: value for name in names if (value := getattr(args, name)) is not None}
