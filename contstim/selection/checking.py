"""The public check of a design, whoever made it."""

from __future__ import annotations

import pandas as pd

from contstim.errors import ValidationError
from contstim.tables import CHOICES, require_columns

__all__ = ["check_design"]

_COLUMNS = (*CHOICES[:8], "side_1", "catch")


def check_design(trials: pd.DataFrame) -> dict[str, int]:
    """Check that a table of trials keeps what :func:`design_trials` promises.

    Parameters
    ----------
    trials
        A row a participant and trial, with the columns that :func:`design_trials` returns.

    Returns
    -------
    dict
        Numbers of ``participants``, ``groups``, ``trials`` (the most of any participant) and
        ``cells`` (model pairs by conditions).

    Raises
    ------
    ValidationError
        Naming the first promise broken and where: a participant who sees a sentence twice, is in
        two groups or has other trials than their group, trial numbers that do not count from 1, a
        group that sees a condition of a model pair more often than another does, a side that is
        neither left nor right, a catch flag that disagrees with the condition.
    InputError
        If a column is missing.
    """
    require_columns(trials, _COLUMNS, "the table of trials")
    if trials.empty:
        raise ValidationError("the table of trials has no row")
    _check_rows(trials)
    compositions: dict[object, tuple[object, list[tuple[object, ...]]]] = {}
    for participant, own in trials.groupby("participant", sort=False):
        sentences = pd.concat([own["sentence_1"], own["sentence_2"]])
        if sentences.duplicated().any():
            twice = sentences[sentences.duplicated()].iloc[0]
            raise ValidationError(f"participant {participant} sees {twice!r} twice")
        if len(set(own["group"])) > 1:
            raise ValidationError(f"participant {participant} is in more than one group")
        if sorted(own["trial"]) != list(range(1, len(own) + 1)):
            raise ValidationError(
                f"the trials of participant {participant} are not numbered 1 to {len(own)}"
            )
        group = own["group"].iloc[0]
        columns = (own["condition"], own["sentence_1"], own["sentence_2"])
        shown: list[tuple[object, ...]] = sorted(zip(*columns, strict=True))
        other, theirs = compositions.setdefault(group, (participant, shown))
        if theirs != shown:
            raise ValidationError(
                f"participants {other} and {participant} of group {group} see different trials"
            )
    cells = _check_cells(trials)
    return {
        "participants": int(trials["participant"].nunique()),
        "groups": int(trials["group"].nunique()),
        "trials": int(trials.groupby("participant").size().max()),
        "cells": cells,
    }


def _check_rows(trials: pd.DataFrame) -> None:
    sides = ~trials["side_1"].isin(["left", "right"])
    if sides.any():
        raise ValidationError(f"side_1 is {trials['side_1'][sides].iloc[0]!r}, not left or right")
    wrong = trials["catch"].astype(bool) != (trials["condition"] == "catch")
    if wrong.any():
        row = trials[wrong].iloc[0]
        raise ValidationError(
            f"trial {row['trial']} of participant {row['participant']}: catch is {row['catch']} "
            f"but the condition is {row['condition']!r}"
        )


def _check_cells(trials: pd.DataFrame) -> int:
    """Check that groups see every cell equally often; return the number of cells with models."""
    first = trials.groupby("group")["participant"].transform("first") == trials["participant"]
    table = trials[first]
    keys = [table[name].astype(object).where(table[name].notna(), "-") for name in _COLUMNS[6:8]]
    counts = pd.crosstab([table["condition"], *keys], table["group"])
    uneven = counts.min(axis=1) != counts.max(axis=1)
    if uneven.any():
        condition, one, two = counts.index[uneven.to_numpy()][0]
        own = counts[uneven].iloc[0]
        raise ValidationError(
            f"{condition} of {one} and {two} is seen {own.min()} times by group {own.idxmin()} "
            f"but {own.max()} times by group {own.idxmax()}"
        )
    return int((counts.index.get_level_values(1) != "-").sum())
