"""Latin squares: of an item's versions every participant sees one, and every list equally many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from contstim.design.trials import random_sides
from contstim.errors import InputError, require_whole
from contstim.tables import CHOICES, require_columns
from contstim.text.normalise import normalise_labels, normalise_sentence, normalise_sentences
from contstim.trial_kinds import add_kinds

_MOST_PARTICIPANTS = 10_000
_PAIR = ("sentence_1", "sentence_2")
_LAID_OUT = ("participant", "group", "trial", "stimulus", "side_1", "kind")
#: The condition of what has none.
_WITHOUT = "sentence"


def latin_square(
    items: pd.DataFrame, participants: int = 24, factors: Sequence[str] = (), *, seed: int = 0
) -> pd.DataFrame:
    """Lay out items of several versions: a participant sees each item once, in one condition.

    Parameters
    ----------
    items
        A row per version: ``sentence``, or of pairs for forced choice ``sentence_1`` and
        ``sentence_2``; ``item``, the same in all versions of an item; and what tells them apart,
        ``condition`` or the columns of `factors`. Items of one version, such as fillers and catch
        trials (condition ``catch``, of which sentence 1 is the right one), are seen by everybody,
        and so is a row without an item. Further columns stay.
    participants
        How many there are in all, of each list in turn; there are as many lists as conditions.
    factors
        Columns whose values together are the condition, ``sg.gram``, of rows without a
        ``condition`` of their own.
    seed
        Of orders and sides.

    Returns
    -------
    pandas.DataFrame
        A row per participant and trial, as :func:`design_trials` has them; ``group`` is the list,
        ``stimulus`` numbers the rows of `items`, ``item`` is what `items` calls the item. In
        ``.attrs``: ``seed``, ``lists`` and ``notes``, sentences on what is not balanced.

    Raises
    ------
    InputError
        If a column is missing, an item has a condition twice or lacks one that others have, or
        `participants` is not 1 to 10,000.

    Notes
    -----
    Item j, counting those of several versions, is in condition j + k (modulo their number) on list
    k, conditions by first appearance. So each version of an item is on one list, and each list has
    each condition equally often if the number of items is a multiple of that of conditions. Within
    each condition a participant has sentence 1 on the left in half of the trials.

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
    require_whole("participants", participants, 1)
    require_whole("seed", seed, 0)
    if participants > _MOST_PARTICIPANTS:
        raise InputError(f"participants is {participants}; give 1 to {_MOST_PARTICIPANTS}")
    paired = _PAIR[0] in items or _PAIR[1] in items
    require_columns(items, [*(_PAIR if paired else ("sentence",)), *factors], "the table of items")
    for name in _LAID_OUT:
        if name in items:
            raise InputError(
                f"the table of items has a column {name!r}, which is made here; name it otherwise"
            )
    if items.empty:
        raise InputError("the table of items has no rows; give one for each version of an item")
    table = _versions(items.reset_index(drop=True), factors)
    several = table.groupby("item", sort=False)["item"].transform("size") > 1
    conditions = list(dict.fromkeys(table.loc[several, "condition"]))
    _check_conditions(table[several], conditions)
    place = table["item"].where(several).factorize()[0]
    number = table["condition"].map({name: k for k, name in enumerate(conditions)})
    n_lists = max(len(conditions), 1)
    parts = []
    for participant in range(participants):
        which = participant % n_lists
        seen = table[~several | (number == (place + which) % n_lists)]
        # A stream for each participant: adding participants changes nobody else's trials.
        rng = np.random.default_rng([seed, participant])
        if paired:
            seen = seen.assign(side_1=random_sides(seen, rng))
        seen = seen.iloc[rng.permutation(len(seen))]
        seen = seen.assign(participant=participant + 1, group=which + 1)
        parts.append(seen.assign(trial=range(1, len(seen) + 1)))
    trials: pd.DataFrame = pd.concat(parts, ignore_index=True)
    first = ["participant", "group", "trial"]
    if paired:
        trials = add_kinds(trials)
        trials[["model_1", "model_2"]] = trials.reindex(columns=["model_1", "model_2"])
        first = [*CHOICES[:8], "stimulus", "item", "side_1", "kind"]
    trials = trials[[*first, *(name for name in trials if name not in first)]]
    n_items = int(place.max()) + 1
    trials.attrs = {
        "seed": seed,
        "lists": n_lists,
        "notes": _uneven(participants, n_items, n_lists),
    }
    return trials


def _versions(items: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """Return the rows with an item, a condition and a number each."""

    def given(name: str) -> pd.Series:
        labels = items.reindex(columns=[name])[name]
        labels = normalise_labels(labels) if labels.notna().any() else labels.astype("str")
        return labels.where(labels != "")

    texts = [name for name in ("sentence", *_PAIR) if name in items]
    items = items.assign(**{name: normalise_sentences(items[name]) for name in texts})
    numbers = pd.Series(range(1, len(items) + 1), index=items.index)
    condition = given("condition")
    if factors:
        values = pd.DataFrame({name: given(name) for name in factors})
        crossed = values.apply(lambda row: ".".join(row.dropna()), axis=1)
        condition = condition.fillna(crossed.where(crossed != ""))
    # A row without an item is one of its own, whatever numbers others have.
    item = given("item").fillna("row " + numbers.astype("str"))
    if "item" not in items:
        item = numbers.astype("str")
    table = items.assign(item=item, condition=condition.fillna(_WITHOUT), stimulus=numbers)
    twice = table.duplicated(["item", "condition"])
    if twice.any():
        row = table[twice].iloc[0]
        same = table[(table["item"] == row["item"]) & (table["condition"] == row["condition"])]
        what = "without a condition" if row["condition"] == _WITHOUT else f"of {row['condition']!r}"
        raise InputError(
            f"item {row['item']} has {len(same)} versions {what}; tell them apart by "
            f"{_telling(items, table['item'], factors)}"
        )
    if {*_PAIR} <= {*items}:
        _check_pairs(table)
    return table


def _check_pairs(table: pd.DataFrame) -> None:
    """Refuse a pair of equal sentences, and one in two rows, of which data cannot be evaluated."""
    texts = table[[*_PAIR]].fillna("").map(lambda text: normalise_sentence(str(text)))
    rows: dict[frozenset[str], int] = {}
    for number, first, second in zip(
        table["stimulus"], *(texts[name] for name in _PAIR), strict=True
    ):
        if first == second:
            raise InputError(f"row {number} of the table of items: both sentences are {first!r}")
        before = rows.setdefault(frozenset((first, second)), number)
        if before != number:
            raise InputError(
                f"rows {before} and {number} of the table of items have the same two sentences, "
                f"{first!r} and {second!r}; answers could not be told apart, so give each row a "
                "pair of its own"
            )


def _telling(items: pd.DataFrame, item: pd.Series, factors: Sequence[str]) -> str:
    """Return the option that names the columns by which versions of items can be told apart."""
    chosen: list[str] = []
    for name in items:
        of_few = items[name].nunique() <= len(items) / 2
        if name in ("item", "condition", "sentence", *_PAIR) or not of_few:
            continue
        chosen.append(str(name))
        if not pd.concat([item, items[chosen]], axis=1).duplicated().any():
            # Those that differ within some item are what tells versions apart.
            apart = [one for one in chosen if items.groupby(item)[one].nunique().max() > 1]
            return f"--factors {' '.join(apart)}"
    return "a column 'condition'"


def _check_conditions(table: pd.DataFrame, conditions: list[str]) -> None:
    for item, versions in table.groupby("item", sort=False):
        lacking = [name for name in conditions if name not in set(versions["condition"])]
        if lacking:
            raise InputError(
                f"item {item} has no version of condition {lacking[0]!r}, which others have; give "
                "all items the same conditions, or fillers one version"
            )


def _uneven(participants: int, n_items: int, n_lists: int) -> list[str]:
    """Return sentences on what is not balanced."""
    notes = []
    if n_items % n_lists:
        notes.append(
            f"{n_items} items in {n_lists} conditions: a participant sees some conditions once "
            f"more than others; a multiple of {n_lists} items would be balanced"
        )
    if participants % n_lists:
        notes.append(
            f"{participants} participants on {n_lists} lists: some lists have one more; a multiple "
            f"of {n_lists} would be balanced"
        )
    return notes
