"""The items of a study: pairs that derive from one another, and are sampled together."""

from __future__ import annotations

import numpy as np
import pandas as pd

from contstim.arrays import IntArray
from contstim.errors import InputError
from contstim.files import digest
from contstim.text.items import infer_items
from contstim.text.normalise import normalise_labels, normalise_sentences
from contstim.trial_kinds import EXPERIMENTAL, add_kinds

_KEYS = ["sentence_1", "sentence_2"]


def assign_items(table: pd.DataFrame) -> pd.DataFrame:
    """Return trials or choices with the column `item`; a pair without an item gets its own.

    Raises
    ------
    InputError
        If one pair has several items.
    """
    pairs = pd.DataFrame(
        np.sort(table[_KEYS].astype(object).to_numpy(), axis=1), table.index, _KEYS
    )
    distinct = pairs.drop_duplicates()
    codes = pd.MultiIndex.from_frame(distinct).get_indexer(pd.MultiIndex.from_frame(pairs))
    own_items = np.array([f"pair {digest(' / '.join(pair))[:10]}" for pair in distinct.to_numpy()])[
        codes
    ]
    if "item" not in table:
        return table.assign(item=own_items)
    items = normalise_labels(table["item"])
    items = items.where(items.notna() & (items != ""), own_items).astype("str")
    stated = pairs.assign(item=items).drop_duplicates()
    clash = stated.duplicated(_KEYS)
    if clash.any():
        first, second, item = stated[clash].iloc[0]
        raise InputError(
            f"the column 'item' gives the pair {first!r} / {second!r} more than one item, such as "
            f"{item!r}; give each pair one, or rename the column if it numbers something else"
        )
    return table.assign(item=items)


def normalise_trials(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of trials with canonical sentences and conditions, `kind` and `item`.

    Raises
    ------
    InputError
        As `add_kinds` and `assign_items`.
    """
    texts = {name: normalise_sentences(table[name]) for name in _KEYS}
    return assign_items(add_kinds(table.assign(**texts)))


def encode_items(pairs: pd.DataFrame) -> IntArray:
    """Return the code of each pair's item, shape (P,), numbered by first appearance."""
    return np.asarray(pd.factorize(pairs["item"])[0], dtype=np.int64)


def warn_related_pairs(choices: pd.DataFrame) -> list[str]:
    """Return a warning if every pair is an item of its own and some seem related, else nothing."""
    pairs = choices.loc[choices["kind"] == EXPERIMENTAL, [*_KEYS, "item"]].drop_duplicates(_KEYS)
    if pairs["item"].duplicated().any():
        return []
    numbers = pd.Series(infer_items(pairs[_KEYS].itertuples(index=False)))
    n_related = int(numbers.duplicated(keep=False).sum())
    if not n_related:
        return []
    return [
        f"{n_related} of {len(pairs)} sentence pairs share a sentence with another pair, or all "
        "words but one or two, and yet each counts as an independent item. If they derive from one "
        "another, p-values are too small and intervals too short: give them one item in a column "
        "'item'."
    ]
