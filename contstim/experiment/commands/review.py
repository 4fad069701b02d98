"""Have sentences reviewed before participants see them, or judged blind.

--page writes a page for one reviewer, to open in a browser. The reviewer approves, rejects or edits
each sentence, beside the other sentences of its row, and saves the decisions as a CSV file.
--decisions reads these files, prints the agreement of the reviewers (Cohen's kappa) and their
disagreements; --out writes the rows in which every sentence is approved. Edited sentences are
scored again.

With --blind, reviewers judge whether sentences read as English without knowing their source, and
--decisions prints the share of approved sentences of each source with its 95 % interval.

examples:
  contstim review triplets.csv --reviewer MK --page MK.html
  contstim review triplets.csv --decisions MK.csv --decisions AB.csv --out approved.csv
  contstim review --blind written=triplets.csv --blind natural=own.txt --reviewer MK --page MK.html
  contstim review --blind written=triplets.csv --blind natural=own.txt --decisions MK.csv
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Group, Parameter

from contstim.cli.application import create_application
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

app = create_application("review", __doc__, usage="contstim review [options] [TABLE]")

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
    instructions: Annotated[File | None, Parameter(group=PAGE)] = None,
    per_source: Annotated[PositiveInteger | None, Parameter(group=PAGE)] = None,
    seed: Annotated[RandomSeed, Parameter(group=PAGE)] = 0,
    decisions: Annotated[tuple[File, ...], Parameter(group=RESULT)] = (),
    reviewers: Annotated[PositiveInteger, Parameter(group=RESULT)] = 1,
    out: Annotated[OutputFile | None, Parameter(group=RESULT)] = None,
) -> None:
    """Have sentences reviewed.

    Parameters
    ----------
    table
        triplets, pairs or sentences to review
    blind
        source of sentences to judge blind: triplets, pairs, a table with a column 'sentence', or a
        text file with one sentence per line (repeatable)
    page
        page to write for a reviewer
    reviewer
        name or initials of the reviewer
    scores
        log-probabilities to show, for sentences without scores in the table
    instructions
        text file with instructions for the reviewer [built in]
    per_source
        maximum number of sentences drawn from each source, with --blind [all]
    seed
        random seed of the draw and of the order, with --blind
    decisions
        decisions that a page saved, one file per reviewer (repeatable)
    reviewers
        minimum number of reviewers who must have judged a sentence
    out
        approved rows or, with --blind, shares of approved sentences
    """
    if (table is None) == (not blind):
        raise InputError("give either a table to review, or --blind NAME=FILE")
    if (page is None) == (not decisions):
        raise InputError("give either --page, for a reviewer, or --decisions, of reviewers")
    if page is not None and reviewer is None:
        raise InputError("--page needs the name or initials of the reviewer; give --reviewer")
    page_options = {
        "reviewer": reviewer,
        "scores": scores,
        "instructions": instructions,
        "per-source": per_source,
    }
    options = {"out": out, **page_options}
    without_effect = {
        "--page": ("out",) if page is not None else (),
        "--decisions": tuple(page_options) if decisions else (),
        "--blind": ("scores",) if blind else (),
        "a table": ("per-source",) if table is not None else (),
    }
    for cause, names in without_effect.items():
        for name in names:
            if options[name] is not None:
                raise InputError(f"--{name} has no effect with {cause}; leave it out")

    # Loads pandas and SciPy, which the help does without.
    from contstim.experiment.commands import review_files

    if table is not None and page is not None:
        review_files.write_review_page(table, page, reviewer or "", scores, instructions)
    elif table is not None:
        review_files.evaluate_decisions(table, decisions, reviewers, out)
    elif page is not None:
        review_files.write_blind_page(blind, page, reviewer or "", instructions, per_source, seed)
    else:
        review_files.evaluate_blind_decisions(blind, decisions, out)
