"""Check of a table of trials: no repeated sentence, and equal shares of the conditions."""

from __future__ import annotations

import pandas as pd

from contstim.columns import CHOICES
from contstim.errors import ValidationError
from contstim.tables import require_columns
from contstim.trial_kinds import add_trial_kinds


def check_design(trials: pd.DataFrame) -> dict[str, int]:
    """Check a table of trials, and count its participants, groups, trials and cells.

    The properties are:

    - Each participant belongs to one group and sees no sentence twice.
    - The trials of each participant are numbered from 1, with valid sides and kinds.
    - All participants of a group see the same trials.
    - For each condition and pair of models, all groups see the same number of trials.

    Parameters
    ----------
    trials
        Table of trials in the form that :func:`design_trials` returns.

    Returns
    -------
    dict
        Numbers of ``participants``, ``groups``, ``trials`` (maximum over participants) and
        ``cells`` (combinations of a condition and a pair of models).

    Raises
    ------
    ValidationError
        If a property is violated; the message names the first violation.
    InputError
        If a column is missing.

    Examples
    --------
    >>> from contstim import Layout, datasets, design_trials, pool, select_natural_pairs
    >>> scores = datasets.natural_scores()[["contstim:bigram", "contstim:gpt"]]
    >>> pairs = select_natural_pairs(scores, per_pair=6)
    >>> trials = design_trials(pairs, pool=pool(), layout=Layout(groups=2, participants=3, catch=1))
    >>> check_design(trials)
    {'participants': 6, 'groups': 2, 'trials': 4, 'cells': 1}
    """
    require_columns(trials, (*CHOICES[:8], "side_1", "kind"), "the table of trials")
    if trials.empty:
        raise ValidationError("the table of trials has no row")
    is_invalid = ~trials["side_1"].isin(["left", "right"])
    if is_invalid.any():
        side = trials["side_1"][is_invalid].iloc[0]
        raise ValidationError(f"side_1 is {side!r}, not left or right")
    trials = add_trial_kinds(trials)
    is_invalid = trials["kind"] != add_trial_kinds(trials[["condition"]])["kind"]
    if is_invalid.any():
        row = trials[is_invalid].iloc[0]
        raise ValidationError(
            f"trial {row['trial']} of participant {row['participant']}: kind is {row['kind']} "
            f"but the condition is {row['condition']!r}"
        )
    # For each group, its first participant and the trials that this participant sees.
    group_trials: dict[object, tuple[object, list[tuple[object, ...]]]] = {}
    for participant, table in trials.groupby("participant", sort=False):
        # Sentences of all trials of the participant, in both positions.
        sentences = pd.concat([table["sentence_1"], table["sentence_2"]])
        if sentences.duplicated().any():
            sentence = sentences[sentences.duplicated()].iloc[0]
            raise ValidationError(f"participant {participant} sees {sentence!r} twice")
        if len(set(table["group"])) > 1:
            raise ValidationError(f"participant {participant} is in more than one group")
        if sorted(table["trial"]) != list(range(1, len(table) + 1)):
            raise ValidationError(
                f"the trials of participant {participant} are not numbered 1 to {len(table)}"
            )
        # Trials without their order and sides, which differ between participants.
        group = table["group"].iloc[0]
        columns = (table["condition"], table["sentence_1"], table["sentence_2"])
        seen_trials: list[tuple[object, ...]] = sorted(zip(*columns, strict=True))
        first_participant, first_trials = group_trials.setdefault(group, (participant, seen_trials))
        if first_trials != seen_trials:
            raise ValidationError(
                f"participants {first_participant} and {participant} of group {group} see "
                "different trials"
            )

    # Count the trials of each condition and pair of models, for one participant of each group.
    is_first = trials.groupby("group")["participant"].transform("first") == trials["participant"]
    table = trials[is_first]
    # Label missing models, so that they are counted as well.
    names = table[["model_1", "model_2"]].astype(object)
    names = names.where(names.notna(), "-")
    counts = pd.crosstab([table["condition"], names["model_1"], names["model_2"]], table["group"])
    is_uneven = counts.min(axis=1) != counts.max(axis=1)
    if is_uneven.any():
        condition, model_1, model_2 = counts.index[is_uneven.to_numpy()][0]
        row = counts[is_uneven].iloc[0]
        raise ValidationError(
            f"{condition} of {model_1} and {model_2} is seen {row.min()} times by group "
            f"{row.idxmin()} but {row.max()} times by group {row.idxmax()}"
        )
    return {
        "participants": int(trials["participant"].nunique()),
        "groups": int(trials["group"].nunique()),
        "trials": int(trials.groupby("participant").size().max()),
        "cells": int((counts.index.get_level_values(1) != "-").sum()),
    }
