"""Latin-square designs, in which each participant sees one version of each item."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from contstim.columns import CHOICES
from contstim.design.trials import draw_sides
from contstim.errors import InputError, format_count, require_integer
from contstim.tables import require_columns
from contstim.text.normalise import normalise_labels, normalise_sentence, normalise_sentences
from contstim.trial_kinds import add_trial_kinds

_MAX_PARTICIPANTS = 10_000
_PAIR = ("sentence_1", "sentence_2")
_DESIGN_COLUMNS = ("participant", "group", "trial", "stimulus", "side_1", "kind")
# Condition of rows that name no condition.
_NO_CONDITION = "sentence"


def latin_square(
    items: pd.DataFrame, participants: int = 24, factors: Sequence[str] = (), *, seed: int = 0
) -> pd.DataFrame:
    """Assign versions of items to participants so that each participant sees one version per item.

    In a Latin-square design with C conditions, there are C lists of trials. List k contains item j
    in condition (j + k) mod C, where items and conditions are numbered in order of appearance. Each
    version occurs on one list. If the number of items is a multiple of C, each list contains each
    condition equally often.

    Parameters
    ----------
    items : DataFrame
        One row per version of an item, with the columns ``sentence`` (or ``sentence_1`` and
        ``sentence_2`` for forced choice), ``item`` (the same for all versions of an item) and
        ``condition``, or the columns in `factors`. Items with one version and rows without an item
        are shown to all participants, for example fillers and catch trials (condition ``catch``, in
        which sentence 1 is correct). Other columns are kept.
    participants : int, default 24
        Total number of participants, assigned to the lists in turn.
    factors : sequence of str, optional
        Columns that define the condition of rows without a ``condition``. Their values are joined,
        for example to ``sg.gram``.
    seed : int, default 0
        Random seed of orders and sides.

    Returns
    -------
    DataFrame
        One row per participant and trial with the columns of :func:`design_trials`. ``group`` is
        the number of the list, and ``stimulus`` the number of the row in `items`, from 1. Within
        each condition, sentence 1 is on the left in half of a participant's trials. In ``.attrs``:
        ``seed``, ``lists`` (number of lists) and ``notes`` (messages about imbalance).

    Raises
    ------
    InputError
        If a column is missing, an item has two versions in one condition or lacks a condition that
        other items have, or an argument is out of range.

    Examples
    --------
    >>> import pandas as pd
    >>> items = pd.DataFrame(
    ...     {
    ...         "item": [1, 1, 2, 2],
    ...         "condition": ["match", "mismatch"] * 2,
    ...         "sentence": ["The key is old.", "The key are old.", "We run.", "We runs."],
    ...     }
    ... )
    >>> latin_square(items, participants=2)[["participant", "item", "condition", "sentence"]]
       participant item condition            sentence
    0            1    1     match   The key is old.
    1            1    2  mismatch      We runs.
    2            2    1  mismatch  The key are old.
    3            2    2     match       We run.
    """
    require_integer("participants", participants, 1)
    require_integer("seed", seed, 0)
    if participants > _MAX_PARTICIPANTS:
        raise InputError(f"participants is {participants}; give 1 to {_MAX_PARTICIPANTS}")
    is_forced_choice = _PAIR[0] in items or _PAIR[1] in items
    required = [*(_PAIR if is_forced_choice else ("sentence",)), *factors]
    require_columns(items, required, "the table of items")
    for name in _DESIGN_COLUMNS:
        if name in items:
            raise InputError(f"the items have a column {name!r}, which the design adds; rename it")
    if items.empty:
        raise InputError("the table of items has no rows; give one for each version of an item")
    versions = _number_versions(items.reset_index(drop=True), factors)

    # Items with several versions must have the same conditions.
    is_varied = versions.groupby("item", sort=False)["item"].transform("size") > 1
    conditions = list(dict.fromkeys(versions.loc[is_varied, "condition"]))
    for item, table in versions[is_varied].groupby("item", sort=False):
        missing = [name for name in conditions if name not in set(table["condition"])]
        if missing:
            raise InputError(
                f"item {item} has no version of condition {missing[0]!r}, which others have; give "
                "all items the same conditions, or fillers one version"
            )

    item_indices = versions["item"].where(is_varied).factorize()[0]
    condition_indices = versions["condition"].map({name: k for k, name in enumerate(conditions)})
    n_items, n_lists = int(item_indices.max()) + 1, max(len(conditions), 1)
    parts = []
    for participant in range(participants):
        list_number = participant % n_lists
        is_shown = ~is_varied | (condition_indices == (item_indices + list_number) % n_lists)
        table = versions[is_shown]
        # Each participant has a separate random stream, so that additional participants do not
        # change the trials of others.
        rng = np.random.default_rng([seed, participant])
        if is_forced_choice:
            table = table.assign(side_1=draw_sides(table, rng))
        table = table.iloc[rng.permutation(len(table))]
        table = table.assign(participant=participant + 1, group=list_number + 1)
        parts.append(table.assign(trial=range(1, len(table) + 1)))
    trials: pd.DataFrame = pd.concat(parts, ignore_index=True)
    first_columns = ["participant", "group", "trial"]
    if is_forced_choice:
        trials = add_trial_kinds(trials)
        trials[["model_1", "model_2"]] = trials.reindex(columns=["model_1", "model_2"])
        first_columns = [*CHOICES[:8], "stimulus", "item", "side_1", "kind"]
    trials = trials[[*first_columns, *(name for name in trials if name not in first_columns)]]

    notes = []
    if n_items % n_lists:
        notes.append(
            f"{format_count(n_items, 'item')} in {n_lists} conditions: a participant sees some "
            f"conditions once more than others; a multiple of {n_lists} items would be balanced"
        )
    if participants % n_lists:
        notes.append(
            f"{format_count(participants, 'participant')} on {n_lists} lists: some lists have one "
            f"more; a multiple of {n_lists} would be balanced"
        )
    trials.attrs = {"seed": seed, "lists": n_lists, "notes": notes}
    return trials


def _number_versions(items: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """Check a table of items, and fill in its columns ``item``, ``condition`` and ``stimulus``.

    A *version* is the sentence (or sentence pair) of one item in one condition. Sentences are
    normalised.

    - ``item``: empty cells are replaced by unique labels, so that each of these rows is the only
      version of its item.
    - ``condition``: empty cells are replaced by the values of the columns `factors`, joined by a
      full stop.
    - ``stimulus``: number of the row, from 1.

    Parameters
    ----------
    items
        Table with one row per version.
    factors
        Columns that define the condition of rows without a ``condition``.

    Raises
    ------
    InputError
        If an item has two versions in the same condition, or if two rows have the same pair of
        sentences.
    """

    def read_labels(name: str) -> pd.Series:
        # An absent column and empty cells become missing values.
        labels = items.reindex(columns=[name])[name]
        labels = normalise_labels(labels) if labels.notna().any() else labels.astype("str")
        return labels.where(labels != "")

    texts = [name for name in ("sentence", *_PAIR) if name in items]
    items = items.assign(**{name: normalise_sentences(items[name]) for name in texts})
    numbers = pd.Series(range(1, len(items) + 1), index=items.index)
    condition = read_labels("condition")
    if factors:
        if condition.notna().all():
            raise InputError(
                f"the factors {', '.join(factors)} have no effect: every row of the table of items "
                "has a condition; leave out the factors or the column 'condition'"
            )
        values = pd.DataFrame({name: read_labels(name) for name in factors})
        crossed = values.apply(lambda row: ".".join(row.dropna()), axis=1)
        condition = condition.fillna(crossed.where(crossed != ""))
    item = numbers.astype("str")
    if "item" in items:
        item = read_labels("item").fillna("row " + item)
    versions = items.assign(item=item, condition=condition.fillna(_NO_CONDITION), stimulus=numbers)
    is_repeated = versions.duplicated(["item", "condition"])
    if is_repeated.any():
        row = versions[is_repeated].iloc[0]
        is_same = (versions["item"] == row["item"]) & (versions["condition"] == row["condition"])
        has_condition = row["condition"] != _NO_CONDITION
        version = f"of {row['condition']!r}" if has_condition else "without a condition"
        raise InputError(
            f"item {row['item']} has {is_same.sum()} versions {version}; distinguish them by "
            f"{_suggest_factors(items, item)}"
        )
    if {*_PAIR} <= {*items}:
        _check_distinct_pairs(items)
    return versions


def _check_distinct_pairs(items: pd.DataFrame) -> None:
    """Check that no two rows of a table of items contain the same pair of sentences.

    Answers are identified by their sentences, so the answers to two equal pairs could not be
    distinguished. The order of the two sentences does not matter.

    Parameters
    ----------
    items
        Table with the columns `sentence_1` and `sentence_2`.

    Raises
    ------
    InputError
        If two rows have the same pair, or the two sentences of a row are equal.
    """
    stimulus_by_pair: dict[frozenset[str], int] = {}
    texts_1 = items["sentence_1"].fillna("").astype(str).map(normalise_sentence)
    texts_2 = items["sentence_2"].fillna("").astype(str).map(normalise_sentence)
    # Rows are numbered from 1, as in the messages.
    for number, (text_1, text_2) in enumerate(zip(texts_1, texts_2, strict=True), start=1):
        if text_1 == text_2:
            raise InputError(f"row {number} of the table of items: both sentences are {text_1!r}")
        # `setdefault` returns the number of the first row with this pair, in either order.
        other_number = stimulus_by_pair.setdefault(frozenset((text_1, text_2)), number)
        if other_number != number:
            raise InputError(
                f"rows {other_number} and {number} of the table of items have the same two "
                f"sentences, {text_1!r} and {text_2!r}; answers to them could not be "
                "distinguished, so make each row a different pair"
            )


def _suggest_factors(versions: pd.DataFrame, item_labels: pd.Series) -> str:
    """Suggest columns that distinguish the versions of an item, for an error message.

    Columns with few distinct values are added until no two versions of the same item agree in all
    of them.

    Parameters
    ----------
    versions
        Table with one row per version of an item.
    item_labels
        Label of the item to which each row belongs.

    Returns
    -------
    str
        Option with the columns, such as ``--factors number grammar``, or ``a column 'condition'``
        if no columns distinguish the versions.
    """
    candidates: list[str] = []
    for name in versions:
        # A column with a different value in nearly every row is not a factor.
        has_few_values = versions[name].nunique() <= len(versions) / 2
        if name in ("item", "condition", "sentence", *_PAIR) or not has_few_values:
            continue
        candidates.append(str(name))
        # The columns are sufficient if no two rows agree in the item and in all these columns.
        if not pd.concat([item_labels, versions[candidates]], axis=1).duplicated().any():
            # Leave out columns that have the same value in all versions of each item.
            varied = [c for c in candidates if versions.groupby(item_labels)[c].nunique().max() > 1]
            return f"--factors {' '.join(varied)}"
    return "a column 'condition'"
