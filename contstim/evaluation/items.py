"""Items: groups of sentence pairs that derive from one another and are sampled together."""

from __future__ import annotations

import numpy as np
import pandas as pd

from contstim.arrays import IntArray
from contstim.errors import InputError
from contstim.files import digest
from contstim.text.items import infer_items
from contstim.text.normalise import normalise_labels, normalise_sentences
from contstim.trial_kinds import EXPERIMENTAL, add_trial_kinds

_SENTENCES = ["sentence_1", "sentence_2"]


def assign_items(table: pd.DataFrame) -> pd.DataFrame:
    """Fill in the column `item` of trials or choices.

    An item is a group of sentence pairs that derive from one another. A pair without an item
    becomes a separate item. Its label is computed from the two sentences and does not depend on
    their order.

    Parameters
    ----------
    table
        Trials or choices with the columns `sentence_1` and `sentence_2`, and optionally `item`.

    Returns
    -------
    DataFrame
        Copy of the table with an item in every row.

    Raises
    ------
    InputError
        If one pair has several items.
    """
    sentences = np.sort(table[_SENTENCES].astype(object).to_numpy(), axis=1)
    # Both orders of a pair are equal, because the two sentences of each row are sorted.
    pairs = pd.DataFrame(sentences, table.index, _SENTENCES)
    distinct = pairs.drop_duplicates()
    # Index of each row's pair in the list of distinct pairs.
    codes = pd.MultiIndex.from_frame(distinct).get_indexer(pd.MultiIndex.from_frame(pairs))
    # A hash of the sentences labels a pair in the same way in every table.
    labels = [f"pair {digest(' / '.join(pair))[:10]}" for pair in distinct.to_numpy()]
    pair_items = np.array(labels)[codes]
    if "item" not in table:
        return table.assign(item=pair_items)

    # Pairs without an item in the table get their own label.
    items = normalise_labels(table["item"])
    items = items.where(items.notna() & (items != ""), pair_items).astype("str")
    # A pair that is listed with two different items is a contradiction.
    pairs_with_items = pairs.assign(item=items).drop_duplicates()
    is_repeated = pairs_with_items.duplicated(_SENTENCES)
    if is_repeated.any():
        first, second, item = pairs_with_items[is_repeated].iloc[0]
        raise InputError(
            f"the column 'item' gives the pair {first!r} / {second!r} more than one item, such as "
            f"{item!r}; give each pair one, or rename the column if it numbers something else"
        )
    return table.assign(item=items)


def normalise_trials(table: pd.DataFrame) -> pd.DataFrame:
    """Return trials with normalised sentences and the columns `kind` and `item`.

    Parameters
    ----------
    table
        Trials with the columns `sentence_1` and `sentence_2`.

    Returns
    -------
    DataFrame
        Trials in the representation that all analyses use.

    Raises
    ------
    InputError
        If a kind of trial is unknown, or if one pair has several items.
    """
    texts = {name: normalise_sentences(table[name]) for name in _SENTENCES}
    return assign_items(add_trial_kinds(table.assign(**texts)))


def encode_items(pairs: pd.DataFrame) -> IntArray:
    """Assign numbers to items in order of appearance, and return them for each pair, shape (P,).

    An item is a group of sentence pairs that derive from one another. `pairs` is a table of P
    sentence pairs with the label of the item in a column `item`.
    """
    return np.asarray(pd.factorize(pairs["item"])[0], dtype=np.int64)


def warn_related_pairs(choices: pd.DataFrame) -> list[str]:
    """Warn if sentence pairs look related but are treated as independent items.

    Pairs are related if they share a sentence, or all words except one or two.

    Parameters
    ----------
    choices
        Checked choices table.

    Returns
    -------
    list of str
        The warning; empty if items are named in the choices, or if no pairs look related.
    """
    is_experimental = choices["kind"] == EXPERIMENTAL
    pairs = choices.loc[is_experimental, [*_SENTENCES, "item"]].drop_duplicates(_SENTENCES)
    # If two pairs have the same item, the user has stated the items.
    if pairs["item"].duplicated().any():
        return []
    # Infer items from shared sentences and words; count pairs that share an inferred item.
    items = pd.Series(infer_items(pairs[_SENTENCES].itertuples(index=False)))
    n_related = int(items.duplicated(keep=False).sum())
    if not n_related:
        return []
    return [
        f"{n_related} of {len(pairs)} sentence pairs share a sentence with another pair, or all "
        "words but one or two, and yet each counts as an independent item. If they derive from one "
        "another, p-values are too small and intervals too short: give them one item in a column "
        "'item'."
    ]
