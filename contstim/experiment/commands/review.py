"""Have people review sentences before participants see them, or judge them blind.

--page writes a page for one reviewer, which opens in any browser: each sentence is approved,
rejected or edited by keys, beside the other sentences of its row. The page saves the decisions as a
CSV file. With --decisions, once for each reviewer's file, the command prints how far the reviewers
agree (Cohen's kappa) and on what they disagree, and --out writes the approved rows; edited
sentences are scored again.

With --blind, reviewers judge which sentences read as English without knowing their source, and
--decisions gives the share of each source with its 95 % interval.

examples:
  contstim review triplets.csv --reviewer MK --page MK.html
  contstim review triplets.csv --decisions MK.csv --decisions AB.csv --out approved.csv
  contstim review --blind written=triplets.csv --blind natural=own.txt --reviewer MK --page MK.html
  contstim review --blind written=triplets.csv --blind natural=own.txt --decisions MK.csv
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from contstim.cli.application import create_application
from contstim.cli.common import print_message, refuse_overwriting, write_table
from contstim.cli.parameters import (
    File,
    Name,
    NewFile,
    OutputFile,
    PositiveInteger,
    RandomSeed,
    Text,
)
from contstim.errors import InputError
from contstim.files import write_atomically
from contstim.tables import read_table

if TYPE_CHECKING:
    from contstim.arrays import FloatArray

app = create_application("review", __doc__)

PAGE = Group.create_ordered("writing a page")
RESULT = Group.create_ordered("reading decisions")


@app.default
def review(
    table: File | None = None,
    /,
    *,
    blind: Annotated[tuple[Text, ...], Parameter(metavar="NAME=FILE")] = (),
    page: Annotated[NewFile | None, Parameter(group=PAGE)] = None,
    reviewer: Annotated[Name | None, Parameter(group=PAGE)] = None,
    scores: Annotated[File | None, Parameter(group=PAGE)] = None,
    rule: Annotated[File | None, Parameter(group=PAGE)] = None,
    per_source: Annotated[PositiveInteger | None, Parameter(group=PAGE)] = None,
    seed: Annotated[RandomSeed, Parameter(group=PAGE)] = 0,
    decisions: Annotated[tuple[File, ...], Parameter(group=RESULT)] = (),
    reviewers: Annotated[PositiveInteger, Parameter(group=RESULT)] = 1,
    out: Annotated[OutputFile | None, Parameter(group=RESULT)] = None,
) -> None:
    """Have people review sentences.

    Parameters
    ----------
    table
        triplets, pairs or sentences to review
    blind
        source of sentences to judge blind: triplets, pairs, a column 'sentence', or one per line
    page
        page to write for a reviewer
    reviewer
        name or initials of the reviewer
    scores
        log-probabilities of sentences to show, where the table has none
    rule
        instructions to show [built in]
    per_source
        maximum number of sentences drawn from a source, with --blind [all]
    seed
        random seed of the draw and the order, with --blind
    decisions
        decisions that a page saved
    reviewers
        minimum number of reviewers who must agree
    out
        approved rows or, with --blind, shares of approved sentences
    """
    if (table is None) == (not blind):
        raise InputError("give either a table to review, or --blind NAME=FILE")
    if (page is None) == (not decisions):
        raise InputError("give either --page, for a reviewer, or --decisions, of reviewers")
    if page is not None and reviewer is None:
        raise InputError("--page needs the name or initials of the reviewer; give --reviewer")
    given = {
        "out": out,
        "reviewer": reviewer,
        "scores": scores,
        "rule": rule,
        "per-source": per_source,
    }
    without_effect = {
        "--page": ("out",) if page is not None else (),
        "--decisions": ("reviewer", "scores", "rule", "per-source") if decisions else (),
        "--blind": ("scores",) if blind else (),
        "a table": ("per-source",) if table is not None else (),
    }
    for option, names in without_effect.items():
        for name in names:
            if given[name] is not None:
                raise InputError(f"--{name} has no effect with {option}; leave it out")
    if table is not None:
        _review(table, page, reviewer or "", scores, rule, decisions, reviewers, out)
    else:
        _judge_blind(blind, page, reviewer or "", rule, per_source, seed, decisions, out)


def _review(
    path: str,
    page: str | None,
    reviewer: str,
    scores: str | None,
    rule: str | None,
    decided: Sequence[str],
    reviewers: int,
    out: str | None,
) -> None:
    from contstim.experiment.review import (
        REVIEW_INSTRUCTIONS,
        list_sentences,
        read_decisions,
        render_review_page,
        select_approved_rows,
        summarise_decisions,
    )
    from contstim.models.registry import load_model
    from contstim.selection.scores import read_scores

    table = read_table(path)
    if page is not None:
        log_probs = None if scores is None else read_scores(scores)
        text = render_review_page(
            table, reviewer, _read_rule(rule) or REVIEW_INSTRUCTIONS, log_probs
        )
        refuse_overwriting(page, [path, scores, rule])
        write_atomically(Path(page), text)
        print_message(f"{page}: {len(list_sentences(table))} sentences for {reviewer}")
        return
    decisions = read_decisions(*decided)
    if out != "-":
        for line in summarise_decisions(table, decisions, reviewers):
            print(line)
    if out is not None:

        def score(spec: str, sentences: Sequence[str]) -> FloatArray:
            return load_model(spec).score(sentences)

        rows = select_approved_rows(table, decisions, score, reviewers)
        write_table(rows, out, [path, *decided])
        print_message(f"{out}: {len(rows)} of {len(table)} rows have only approved sentences")


def _judge_blind(
    blind: Sequence[str],
    page: str | None,
    reviewer: str,
    rule: str | None,
    per_source: int | None,
    seed: int,
    decided: Sequence[str],
    out: str | None,
) -> None:
    from contstim.experiment.review import (
        BLIND_INSTRUCTIONS,
        approval_shares,
        kappa,
        read_decisions,
        read_source,
        render_blind_page,
    )

    files: dict[str, str] = {}
    for given in blind:
        name, _, file = (part.strip() for part in given.partition("="))
        if not name or not file or name in files:
            raise InputError(f"--blind {given!r} is not NAME=FILE, each name once; write it so")
        files[name] = file
    sources = {name: read_source(file) for name, file in files.items()}
    if page is not None:
        text = render_blind_page(
            sources, reviewer, _read_rule(rule) or BLIND_INSTRUCTIONS, per_source, seed
        )
        refuse_overwriting(page, [*files.values(), rule])
        write_atomically(Path(page), text)
        print_message(f"{page}: sentences for {reviewer} to judge")
        return
    decisions = read_decisions(*decided)
    shares = approval_shares(sources, decisions)
    if out is not None:
        write_table(shares, out, [*files.values(), *decided])
    if out != "-":
        print(shares.to_string(index=False, float_format="%.3f"))
        for pair, (value, n) in kappa(decisions).items():
            print(f"Cohen's kappa of {' and '.join(pair)}: {value:.3f} over {n} sentences")


def _read_rule(path: str | None) -> str:
    """Return the instructions in a file; empty without one."""
    if path is None:
        return ""
    rule = Path(path).read_text("utf-8").strip()
    if not rule:
        raise InputError(f"{path} is empty; write instructions, or leave out --rule")
    return rule
