"""Have people review sentences before participants see them, or judge them blind.

--page writes a page for one reviewer, which opens in any browser: each sentence is approved,
rejected or edited by keys, beside the other sentences of its row. The page saves the decisions as a
CSV file. With --decisions, which takes the files of all reviewers, the command prints how far they
agree (Cohen's kappa) and on what they disagree, and --out writes the approved rows; edited
sentences are scored again.

With --blind, reviewers judge which sentences read as English without knowing their source, and
--decisions gives the share of each source with its 95 % interval.

Examples:
  contstim review triplets.csv --reviewer MK --page MK.html
  contstim review triplets.csv --decisions MK.decisions.csv AB.decisions.csv --out approved.csv
  contstim review --blind written=triplets.csv natural=own.txt --reviewer MK --page MK.html
  contstim review --blind written=triplets.csv natural=own.txt --decisions MK.decisions.csv
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from contstim.cli.common import refuse_overwriting, tell, write_rows
from contstim.cli.parsing import CommandParser, new_file, output_file, positive
from contstim.errors import InputError
from contstim.files import write_whole

if TYPE_CHECKING:
    from contstim.arrays import FloatArray


def configure(parser: CommandParser) -> None:
    """Add the command's arguments."""
    what = "triplets, pairs or sentences as other commands write them"
    parser.add_argument("table", nargs="?", metavar="CSV", help=what)
    what = "judge these sentences blind: triplets, pairs, a column 'sentence', or one per line"
    parser.add("--blind NAME=FILE ...", what, several=True)
    parser.add("--page HTML", "page to write for a reviewer", new_file)
    parser.add("--reviewer NAME", "name or initials of the reviewer, for --page")
    what = "scores of sentences to show on the page, where the table has none"
    parser.add("--scores FILE", what)
    parser.add("--rule FILE", "instructions to show on the page (default: built in)")
    what = "with --blind: maximum number of sentences drawn from a source (default: all)"
    parser.add("--each N", what, positive)
    parser.add("--decisions CSV ...", "decisions that pages saved", several=True)
    parser.add("--reviewers N", "minimum number of reviewers who must agree", positive, default=1)
    what = "approved rows or, with --blind, shares of approved sentences"
    parser.add("--out CSV", what, output_file)
    parser.add_seed()


def run(args: argparse.Namespace) -> int:
    """Write a page, or read decisions."""
    if (args.table is None) == (args.blind is None):
        raise InputError("give either a table to review, or --blind NAME=FILE")
    if (args.page is None) == (args.decisions is None):
        raise InputError("give either --page, for a reviewer, or --decisions, of reviewers")
    if args.page is not None and args.reviewer is None:
        raise InputError("--page needs the name or initials of the reviewer; give --reviewer")
    # Options that have no effect with others.
    without = {"page": ("out",), "decisions": ("reviewer", "scores", "rule", "each")}
    without |= {"blind": ("scores",), "table": ("each",)}
    for option, names in without.items():
        for name in names:
            if getattr(args, option) is not None and getattr(args, name) is not None:
                shown = "a table" if option == "table" else f"--{option}"
                raise InputError(f"--{name} has no effect with {shown}; leave it out")
    return _review(args) if args.blind is None else _judge_blind(args)


def _review(args: argparse.Namespace) -> int:
    from contstim.experiment.review import (
        REVIEW_RULE,
        approved_rows,
        read_decisions,
        review_page,
        sentences_of,
        summarise,
    )
    from contstim.models.registry import load_model
    from contstim.selection.scores import read_scores
    from contstim.tables import read_table

    table = read_table(args.table)
    if args.page is not None:
        scores = None if args.scores is None else read_scores(args.scores)
        page = review_page(table, args.reviewer, _rule(args, REVIEW_RULE), scores)
        _write_page(args, page, [args.table, args.scores], len(sentences_of(table)))
        return 0
    decisions = read_decisions(*args.decisions)
    if args.out != "-":
        for line in summarise(table, decisions, args.reviewers):
            print(line)
    if args.out is not None:

        def score(spec: str, sentences: Sequence[str]) -> FloatArray:
            return load_model(spec).score(sentences)

        rows = approved_rows(table, decisions, score, args.reviewers)
        write_rows(rows, args.out, [args.table, *args.decisions])
        tell(f"{args.out}: {len(rows)} of {len(table)} rows have only approved sentences")
    return 0


def _judge_blind(args: argparse.Namespace) -> int:
    from contstim.experiment.review import (
        BLIND_RULE,
        blind_page,
        english_shares,
        kappa,
        read_decisions,
        read_source,
    )

    files: dict[str, str] = {}
    for given in args.blind:
        name, _, file = (part.strip() for part in given.partition("="))
        if not name or not file or name in files:
            raise InputError(f"--blind {given!r} is not NAME=FILE, each name once; write it so")
        files[name] = file
    sources = {name: read_source(file) for name, file in files.items()}
    if args.page is not None:
        rule = _rule(args, BLIND_RULE)
        page = blind_page(sources, args.reviewer, rule, args.each, args.seed)
        _write_page(args, page, list(files.values()), None)
        return 0
    decisions = read_decisions(*args.decisions)
    shares = english_shares(sources, decisions)
    if args.out is not None:
        write_rows(shares, args.out, [*files.values(), *args.decisions])
    if args.out != "-":
        print(shares.to_string(index=False, float_format="%.3f"))
        for pair, (value, n) in kappa(decisions).items():
            print(f"Cohen's kappa of {' and '.join(pair)}: {value:.3f} over {n} sentences")
    return 0


def _rule(args: argparse.Namespace, default: str) -> str:
    """Return the instructions of the page."""
    if args.rule is None:
        return default
    rule = Path(args.rule).read_text("utf-8")
    if not rule.strip():
        raise InputError(f"{args.rule} is empty; write instructions, or leave out --rule")
    return rule


def _write_page(
    args: argparse.Namespace, page: str, read: Sequence[str | None], n: int | None
) -> None:
    refuse_overwriting(args.page, [*read, args.rule])
    write_whole(Path(args.page), page)
    what = "sentences" if n is None else f"{n} sentences"
    tell(f"{args.page}: {what} for {args.reviewer}; --decisions reads the CSV that the page saves")
