"""Have people look at sentences before participants do.

Opens a page on this machine: each sentence beside those of its row, with scores and flags, to be
approved, rejected or edited, with a reason, by keys. Decisions are kept in a CSV after each, which
`contstim select triplets --decisions` and `contstim design trials --decisions` obey; an edited
sentence is scored again there. A second reviewer runs the same with another name. With --mail the
page becomes one file, for a colleague without contstim: it opens in any browser, and gives that
reviewer's CSV back. Without --reviewer, --decisions says how far reviewers agree (Cohen's kappa)
and lists where they do not; --out keeps their decisions in one file. With --appendix the page for
an ethics board is written instead.

With --blind, people judge which sentences read as English without knowing where each is from: a
sheet is made of several sources, the written rule and the key beside it; each judge fills a copy,
and once every sentence is judged the shares of each source are printed, with 95 % intervals, and
Cohen's kappa of every two judges.

Examples:
  contstim review triplets.csv --reviewer MK
  contstim review triplets.csv --reviewer AB --mail for-AB.html
  contstim review triplets.csv --decisions MK.decisions.csv AB.decisions.csv --out decisions.csv
  contstim review triplets.csv --appendix appendix.html --reviewers 2
  contstim select triplets triplets.csv --decisions triplets.decisions.csv --out selected.csv
  contstim review --blind sheet.csv --source written=triplets.csv --source natural=own.txt
  contstim review --blind sheet.csv --verdicts MK.csv --verdicts AB.csv --out shares.csv
"""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from contstim.cli.common import refuse_overwriting, tell, write_output, write_rows
from contstim.cli.parsing import CommandParser, new_file, output_file, port, positive
from contstim.errors import InputError
from contstim.files import lock, write_whole

if TYPE_CHECKING:
    import pandas as pd


def configure(parser: CommandParser) -> None:
    """Add the command's arguments."""
    what = "triplets, or pairs or sentences as other commands write them; with --blind, the sheet"
    parser.add("table CSV", what)
    parser.add("--reviewer NAME", "who judges; needed for the page")
    what = "of all reviewers (default: beside the table, .decisions.csv for .csv)"
    parser.add("--decisions CSV ...", what, several=True)
    what = "scores of the sentences to be shown, where the table has none, as for `select`"
    parser.add("--scores FILE", what)
    parser.add("--port PORT", "of the page (default: one is found)", port, default=0)
    parser.add("--no-browser", "print the page's address, open no browser")
    what = "write the page as one file, to be sent to the reviewer"
    parser.add("--mail HTML", what, new_file)
    parser.add("--rule FILE", "text of a rule of your own, for those who judge")
    parser.add("--appendix HTML", "write the appendix for an ethics board", new_file)
    what = "for the appendix and the summary: how many must agree, at least"
    parser.add("--reviewers N", what, positive, default=1)
    parser.add("--study FOLDER", "for the appendix: the study, for its content warning")
    what = "for the appendix: a list of words that was kept out"
    parser.add("--block FILE", what, several=True, default=[])
    blind = parser.add_argument_group("judging blind")
    parser.add("--blind", "the file is a sheet to be made or to be counted", to=blind)
    what = "make the sheet of these sentences: triplets, pairs, a column 'sentence' or one a line"
    parser.add("--source NAME=FILE", what, several=True, to=blind)
    what = "how many sentences are drawn of a source, at most (default: all)"
    parser.add("--each N", what, positive, to=blind)
    what = "a copy of the sheet, filled by the judge whose name it has"
    parser.add("--verdicts CSV", what, several=True, to=blind)
    what = "where to write the decisions as one file, or with --blind the shares"
    parser.add("--out CSV", what, output_file)
    parser.add_seed()


def run(args: argparse.Namespace) -> int:
    """Serve the page, or write the appendix; with --blind, make a sheet or count its verdicts."""
    if args.blind:
        why = "goes without --blind; leave out one of the two"
        _refuse(args, why, "reviewer", "decisions", "scores", "mail", "appendix", "study")
        return _count_blind(args) if args.source is None else _make_blind(args)
    _refuse(args, "is of --blind; give that too", "source", "each", "verdicts")
    from contstim.tables import read_table

    table = read_table(args.table)
    if args.appendix is not None:
        if args.reviewer is not None:
            raise InputError("--appendix writes a page about all reviewers; leave out --reviewer")
        return _appendix(args, table)
    if args.reviewer is None:
        if args.decisions is None:
            raise InputError("a review needs the reviewer's name or initials; give --reviewer")
        return _join(args, table)
    _refuse(args, "goes without --reviewer; leave out one of the two", "out")
    return _review(args, table)


def _decided(args: argparse.Namespace) -> list[str]:
    """Return the files of decisions, by default the one beside the table."""
    return args.decisions or [str(Path(args.table).with_suffix(".decisions.csv"))]


def _review(args: argparse.Namespace, table: pd.DataFrame) -> int:
    """Serve the page of a reviewer, or write it as a file."""
    from contstim.experiment.review import (
        REVIEW_RULE,
        Review,
        ReviewServer,
        mailed_review,
        serve_review,
    )
    from contstim.selection.scores import given_scores

    decided = _decided(args)
    if len(decided) > 1:
        raise InputError(
            f"{args.reviewer}'s page goes on from one file of decisions, and --decisions names "
            f"{len(decided)}; join them first, without --reviewer and with --out"
        )
    path = Path(decided[0])
    refuse_overwriting(path, [args.table, args.scores, args.rule])
    scores = None if args.scores is None else given_scores(args.scores)[0]
    review = Review(table, path, args.reviewer, _rule(args, REVIEW_RULE), scores)
    if args.mail is not None:
        refuse_overwriting(args.mail, [args.table, path, args.scores, args.rule])
        write_whole(Path(args.mail), mailed_review(review))
        tell(
            f"{args.mail}: {len(review.sentences)} sentences for {review.reviewer}, whose CSV is "
            f"read by contstim review {args.table} --decisions"
        )
        return 0
    with lock(path.with_name(f".{path.name}.lock"), str(path)):
        server = ReviewServer(review, args.port)
        tell(f"{len(review.sentences)} sentences; decisions go to {path}")
        tell(f"the page is at {server.address} (on this machine alone; Ctrl+C ends)")
        if not args.no_browser:
            webbrowser.open(server.address)
        serve_review(server, tell)
    return 0


def _join(args: argparse.Namespace, table: pd.DataFrame) -> int:
    """Say what reviewers decided together, and keep it in one file."""
    from contstim.experiment.review import joined_review
    from contstim.selection.review import decisions_text, read_decisions

    _refuse(args, "is for a reviewer's page; give --reviewer too", "mail", "scores", "rule")
    decisions = read_decisions(*args.decisions)
    if args.out is not None:
        with write_output(args.out, [args.table, *args.decisions]) as out:
            out.write(decisions_text(decisions))
    if args.out != "-":
        for line in joined_review(table, decisions, args.reviewers):
            print(line)
    return 0


def _rule(args: argparse.Namespace, usual: str) -> str:
    """Return the rule by which people judge: a file's, or the usual one."""
    from contstim.tables import numbered_lines

    if args.rule is None:
        return usual
    rule = "\n".join(line for _, line in numbered_lines(args.rule))
    if not rule.strip():
        raise InputError(f"{args.rule} holds no rule; write one, or leave out --rule")
    return rule


def _appendix(args: argparse.Namespace, table: pd.DataFrame) -> int:
    from contstim.experiment.review import appendix
    from contstim.files import digest
    from contstim.selection.review import read_decisions
    from contstim.text import read_words

    warning = ""
    if args.study is not None:
        from contstim.experiment.study import read_study

        warning = read_study(args.study).consent.warning
    _refuse(args, "is not for the appendix; leave it out", "mail", "scores", "rule", "out")
    decided = _decided(args)
    refuse_overwriting(args.appendix, [args.table, *decided, *args.block])
    blocked = [(name, read_words(name)) for name in args.block]
    lists = [
        (Path(name).name, f"{len(words)} words, kept out; digest {digest(' '.join(words))[:16]}")
        for name, words in blocked
    ]
    page = appendix(
        table, read_decisions(*decided), reviewers=args.reviewers, warning=warning, lists=lists
    )
    write_whole(Path(args.appendix), page)
    return 0


def _refuse(args: argparse.Namespace, why: str, *names: str) -> None:
    for name in names:
        if getattr(args, name) is not None:
            raise InputError(f"--{name} {why}")


def _make_blind(args: argparse.Namespace) -> int:
    from contstim.selection.blind import RULE, blind_sheet, read_source

    _refuse(args, "goes without --source; leave out one of the two", "verdicts", "out")
    files: dict[str, str] = {}
    for given in args.source:
        name, _, file = (part.strip() for part in given.partition("="))
        if not name or not file or name in files:
            raise InputError(f"--source {given!r} is not NAME=FILE, each name once; write it so")
        files[name] = file
    rule = _rule(args, RULE)
    sources = {name: read_source(file) for name, file in files.items()}
    sheet = blind_sheet(sources, args.each, args.seed)
    key, to_read = sheet.write(args.table, rule)
    counts = sheet.key.groupby("source", sort=False)["number"].nunique()
    tell(f"{args.table}: {len(sheet.sentences)} sentences; judges get a copy each, and {to_read}")
    tell(f"{key}: {', '.join(f'{n} {name}' for name, n in counts.items())}; not for judges")
    for name in sheet.without_marks():
        tell(f"note: no sentence of {name} ends with a mark, others do: judges can tell them")
    return 0


def _count_blind(args: argparse.Namespace) -> int:
    from contstim.selection.blind import BlindSheet, english_shares, key_of, read_verdicts

    if args.verdicts is None:
        raise InputError("--blind makes a sheet of --source, or counts --verdicts; give either")
    _refuse(args, "is for a new sheet; leave it out", "each", "rule")
    sheet = BlindSheet.read(args.table)
    table = english_shares(sheet, read_verdicts(sheet, args.verdicts))
    if args.out is not None:
        write_rows(table, args.out, [args.table, str(key_of(args.table)), *args.verdicts])
    if args.out != "-":
        print(table.to_string(index=False, na_rep="", float_format="%.3f"))
    return 0
