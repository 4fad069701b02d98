"""Answers of a study in the format of PsychLing-101: one row per trial, and a codebook.

Names and form are those of its README and CODEBOOK.csv (github.com/Data-X01/PsychLing-101).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.files import write_whole
from contstim.tables import neutral_table, table_text

# What its codebook calls columns that we have under other names, and what they hold.
_THEIRS = {
    "participant": ("participant_id", "Identifier of the participant."),
    "trial": ("trial_id", "Number of the trial in the participant's session, from 1."),
    "group": ("list", "Experimental list: participants of one list saw the same stimuli."),
    "rt_ms": ("rt", "Response time in milliseconds."),
    "stimulus": ("stimulus_number", "Number of the stimulus in the design."),
}
# Those that are made of ours.
_MADE = {
    "trial_order": "Place of the trial in the participant's session, counted from 0.",
    "stimulus": "What was shown; of a pair the left sentence, a bar, and the right one.",
    "response": "What was answered; of a pair the sentence that was chosen, empty for neither.",
    "accuracy": "Whether the answer was the expected one (1 or 0); empty where none is expected.",
}


def psychling_tables(
    answers: pd.DataFrame, described: Mapping[str, str], shown: Sequence[str] = ("sentence",)
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a study's answers and their codebook.

    Parameters
    ----------
    answers
        `Collected.choices` or `Collected.answers`, or rows of them.
    described
        What each of their columns holds.
    shown
        The columns of what was shown, where that is no pair (`Presentation.needed`).

    Returns
    -------
    tuple
        The rows, with the names of the codebook of PsychLing-101 where it has some: a column of
        the study's own that is called like one is called ``NAME_given``. And a row for each column,
        its name and what it holds.
    """
    names = {ours: theirs for ours, (theirs, _) in _THEIRS.items() if ours in answers}
    taken = {*names.values(), *_MADE}
    clashing = {c: f"{c}_given" for c in answers if c in taken and c not in names}
    table = answers.rename(columns=names | clashing)
    made = _of_pairs(answers) if "sentence_1" in answers else _of_texts(answers, shown)
    for name, values in made.items():
        table[name] = values
    first = [name for name in (*names.values(), *_MADE) if name in table]
    table = table[[*first, *(name for name in table if name not in first)]]
    theirs = {theirs: what for theirs, what in _THEIRS.values() if theirs in table}
    ours = {clashing.get(name, name): what for name, what in described.items()}
    texts = {**ours, **theirs, **_MADE}
    codebook = pd.DataFrame(
        [(name, texts.get(str(name), "A column of the study's own.")) for name in table],
        columns=["Recommended Column Name", "Description"],
    )
    return table, codebook


def _of_pairs(answers: pd.DataFrame) -> dict[str, pd.Series]:
    first, second = answers["sentence_1"], answers["sentence_2"]
    left = answers["side_1"].eq("left")
    chosen = first.where(answers["rating"] < 0, second).where(answers["rating"] != 0)
    return {
        "trial_order": answers["trial"] - 1,
        "stimulus": first.where(left, second) + " | " + second.where(left, first),
        "response": chosen,
        "accuracy": _right((answers["rating"] > 0).eq(answers["expected"] == 2), answers),
    }


def _of_texts(answers: pd.DataFrame, shown: Sequence[str]) -> dict[str, pd.Series]:
    texts = answers[[*shown]].astype("str")
    return {
        "trial_order": answers["trial"] - 1,
        "stimulus": texts.agg(" | ".join, axis=1).astype("str"),
        "response": answers["choice"],
        "accuracy": _right(answers["right"].eq(True), answers.assign(expected=answers["right"])),
    }


def _right(right: pd.Series, answers: pd.DataFrame) -> pd.Series:
    """Return 1 or 0 where something is expected, else missing."""
    values = np.where(right, 1, 0)
    return pd.Series(values, answers.index, dtype="Int64").where(answers["expected"].notna())


def write_psychling(
    answers: pd.DataFrame, described: Mapping[str, str], shown: Sequence[str], folder: Path
) -> None:
    """Write `psychling_tables` as ``processed_data/exp1.csv`` and ``CODEBOOK.csv`` of a folder.

    Raises
    ------
    OutputError
        If the place cannot be written to.
    """
    table, codebook = psychling_tables(answers, described, shown)
    write_whole(folder / "processed_data" / "exp1.csv", table_text(neutral_table(table)))
    write_whole(folder / "CODEBOOK.csv", table_text(codebook))
