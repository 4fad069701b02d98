"""Have people look at sentences before participants do.

Opens a page on this machine: each sentence with its scores and flags, to be approved, rejected or
edited, with a reason, by keys. Decisions are kept in a CSV after each, which `contstim select
triplets --decisions` and `contstim design trials --decisions` obey; an edited sentence is scored
again there. A second reviewer runs the same with another name; Cohen's kappa is printed at the end.
With --appendix the page for an ethics board is written instead.

Examples:
  contstim review triplets.csv --reviewer MK
  contstim review triplets.csv --appendix appendix.html --reviewers 2
  contstim select triplets triplets.csv --decisions triplets.decisions.csv --out selected.csv
"""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from contstim.cli.common import refuse_overwriting, tell
from contstim.cli.parsing import CommandParser, new_file, port, positive
from contstim.errors import InputError
from contstim.files import lock, write_whole

if TYPE_CHECKING:
    import pandas as pd


def configure(parser: CommandParser) -> None:
    """Add the command's arguments."""
    parser.add("table CSV", "triplets, or pairs or sentences as other commands write them")
    parser.add("--reviewer NAME", "who judges; needed for the page")
    what = "of all reviewers (default: beside the table, .decisions.csv for .csv)"
    parser.add("--decisions CSV", what)
    parser.add("--port PORT", "of the page (default: one is found)", port, default=0)
    parser.add("--no-browser", "print the page's address, open no browser")
    parser.add("--appendix HTML", "write the appendix for an ethics board", new_file)
    what = "for the appendix: how many must agree, at least"
    parser.add("--reviewers N", what, positive, default=1)
    parser.add("--study FOLDER", "for the appendix: the study, for its content warning")
    what = "for the appendix: a list of words that was kept out"
    parser.add("--block FILE", what, several=True, default=[])


def run(args: argparse.Namespace) -> int:
    """Serve the page, or write the appendix."""
    from contstim.experiment.review import Review, ReviewServer, serve_review
    from contstim.tables import read_table

    table = read_table(args.table)
    path = Path(args.decisions or Path(args.table).with_suffix(".decisions.csv"))
    if args.appendix is not None:
        if args.reviewer is not None:
            raise InputError("--appendix writes a page about all reviewers; leave out --reviewer")
        return _appendix(args, table, path)
    if args.reviewer is None:
        raise InputError("a review needs the reviewer's name or initials; give --reviewer")
    refuse_overwriting(path, [args.table])
    with lock(path.with_name(f".{path.name}.lock"), str(path)):
        server = ReviewServer(Review(table, path, args.reviewer), args.port)
        tell(f"{len(server.review.places)} sentences; decisions go to {path}")
        tell(f"the page is at {server.address} (on this machine alone; Ctrl+C ends)")
        if not args.no_browser:
            webbrowser.open(server.address)
        serve_review(server, tell)
    return 0


def _appendix(args: argparse.Namespace, table: pd.DataFrame, path: Path) -> int:
    from contstim.experiment.review import appendix
    from contstim.files import digest
    from contstim.selection.review import read_decisions
    from contstim.text import read_words

    warning = ""
    if args.study is not None:
        from contstim.experiment.study import read_study

        warning = read_study(args.study).consent.warning
    refuse_overwriting(args.appendix, [args.table, path, *args.block])
    blocked = [(name, read_words(name)) for name in args.block]
    lists = [
        (Path(name).name, f"{len(words)} words, kept out; digest {digest(' '.join(words))[:16]}")
        for name, words in blocked
    ]
    page = appendix(
        table, read_decisions(path), reviewers=args.reviewers, warning=warning, lists=lists
    )
    write_whole(Path(args.appendix), page)
    return 0
