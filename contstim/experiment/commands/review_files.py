"""Implementation of `contstim review`: writes pages for reviewers and evaluates their decisions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from contstim.arrays import FloatArray
from contstim.cli.common import print_message, refuse_overwriting, write_table
from contstim.errors import InputError
from contstim.experiment import review, review_page
from contstim.files import write_atomically
from contstim.models.registry import load_model
from contstim.selection.scores import read_scores
from contstim.tables import read_table


def write_review_page(
    table_path: str, page_path: str, reviewer: str, scores: str | None, instructions: str | None
) -> None:
    """Write the page on which a reviewer judges the sentences of a table.

    Parameters
    ----------
    table_path
        Table of sentence triplets, sentence pairs or synthetic sentences.
    page_path
        HTML file to write.
    reviewer
        Name or initials of the reviewer.
    scores
        Log-probabilities of sentences without scores in the table, if any.
    instructions
        Text file with instructions, instead of the default ones.

    Raises
    ------
    InputError
        If a file cannot be used, or `page_path` is one of the files to read.
    """
    table = read_table(table_path)
    log_probs = None if scores is None else read_scores(scores)
    # Without a file of instructions, use the default text.
    text = _read_instructions(instructions) or review_page.REVIEW_INSTRUCTIONS
    page = review_page.render_review_page(table, reviewer, text, log_probs)
    refuse_overwriting(page_path, [table_path, scores, instructions])
    write_atomically(Path(page_path), page)
    print_message(f"{page_path}: {len(review.list_sentences(table))} sentences for {reviewer}")


def evaluate_decisions(
    table_path: str, decision_paths: Sequence[str], min_reviewers: int, out: str | None
) -> None:
    """Print the agreement of reviewers, and write the approved rows of a table if `out` is given.

    Parameters
    ----------
    table_path
        Table that was reviewed.
    decision_paths
        Decisions saved by review pages.
    min_reviewers
        Minimum number of reviewers who must have judged a sentence.
    out
        File for the approved rows, or None to write none. ``-`` prints only these rows.

    Raises
    ------
    InputError
        If a file cannot be used, or no row is approved.
    """
    table = read_table(table_path)
    decisions = review.read_decisions(*decision_paths)
    if out != "-":
        for line in review.summarise_decisions(table, decisions, min_reviewers):
            print(line)
    if out is None:
        return

    def score(spec: str, sentences: Sequence[str]) -> FloatArray:
        return load_model(spec).score(sentences)

    # Sentences that reviewers have edited are scored again.
    rows = review.select_approved_rows(table, decisions, score, min_reviewers)
    write_table(rows, out, [table_path, *decision_paths])
    print_message(f"{out}: {len(rows)} of {len(table)} rows have only approved sentences")


def write_blind_page(
    blind: Sequence[str],
    page_path: str,
    reviewer: str,
    instructions: str | None,
    max_per_source: int | None,
    seed: int,
) -> None:
    """Write the page on which a reviewer judges sentences without knowing their source.

    Parameters
    ----------
    blind
        Files of sentences, each given as ``NAME=FILE``.
    page_path
        HTML file to write.
    reviewer
        Name or initials of the reviewer.
    instructions
        Text file with instructions, instead of the default ones.
    max_per_source
        Maximum number of sentences drawn from each source, or None for all.
    seed
        Random seed of the draw and of the order.

    Raises
    ------
    InputError
        If a source or file cannot be used, or `page_path` is one of the files to read.
    """
    files = _parse_named_files(blind)
    # Sentences by source, e.g. by the method that wrote them. Reviewers do not see the source.
    sources = {name: review.read_source(file) for name, file in files.items()}
    text = _read_instructions(instructions) or review_page.BLIND_INSTRUCTIONS
    page = review_page.render_blind_page(sources, reviewer, text, max_per_source, seed)
    refuse_overwriting(page_path, [*files.values(), instructions])
    write_atomically(Path(page_path), page)
    print_message(f"{page_path}: sentences for {reviewer} to judge")


def evaluate_blind_decisions(
    blind: Sequence[str], decision_paths: Sequence[str], out: str | None
) -> None:
    """Print and save what fraction of the sentences of each file was approved in a blind review.

    In a blind review, reviewers do not know from which file a sentence is.

    Parameters
    ----------
    blind
        Files of sentences, each given as ``NAME=FILE``.
    decision_paths
        Decisions saved by review pages.
    out
        File for the shares, or None to write none.

    Raises
    ------
    InputError
        If a source or file cannot be used.
    """
    files = _parse_named_files(blind)
    # Sentences by source, e.g. by the method that wrote them. Reviewers did not see the source.
    sources = {name: review.read_source(file) for name, file in files.items()}
    decisions = review.read_decisions(*decision_paths)
    # Share of approved sentences, for each reviewer and source.
    shares = review.compute_approval_shares(sources, decisions)
    if out is not None:
        write_table(shares, out, [*files.values(), *decision_paths])
    if out != "-":
        print(shares.to_string(index=False, float_format="%.3f"))
        for reviewers, (kappa, n) in review.compute_kappa(decisions).items():
            print(f"Cohen's kappa of {' and '.join(reviewers)}: {kappa:.3f} over {n} sentences")


def _parse_named_files(arguments: Sequence[str]) -> dict[str, str]:
    """Parse the values of ``--blind``: files of sentences, each given as ``NAME=FILE``.

    In a blind review, reviewers see the sentences of several files in random order, without knowing
    the file. The decisions are then summarised by file, under its name.

    Returns
    -------
    dict
        Path of each file, by its name.
    """
    files: dict[str, str] = {}
    # Each argument is NAME=FILE; reviewers do not see the name.
    for text in arguments:
        name, _, file = (part.strip() for part in text.partition("="))
        if not name or not file or name in files:
            raise InputError(f"--blind {text!r} is not NAME=FILE, each name once; write it so")
        files[name] = file
    return files


def _read_instructions(path: str | None) -> str:
    """Read the instructions for a reviewer from a text file.

    The result is empty if `path` is None. The caller then uses the default instructions.
    """
    if path is None:
        return ""
    text = Path(path).read_text("utf-8").strip()
    if not text:
        raise InputError(f"{path} is empty; write instructions, or leave out --instructions")
    return text
