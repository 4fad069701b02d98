"""The items of a study: pairs that were made of one another are sampled together."""

from __future__ import annotations

import numpy as np
import pandas as pd

from contstim.arrays import IntArray
from contstim.evaluation.choices import compares_models
from contstim.text.items import guess_items
from contstim.text.language import tidy

_KEYS = ["sentence_1", "sentence_2"]


def item_codes(pairs: pd.DataFrame) -> IntArray:
    """Return the code of each pair's item, shape (P,), numbered by first appearance.

    A pair for which the column `item` names none, or without that column, is an item of its own.
    """
    if "item" not in pairs:
        return np.arange(len(pairs), dtype=np.int64)
    names = pairs["item"].astype(object)
    keys = [(missing, k if missing else name) for k, (missing, name) in enumerate(
        zip(names.isna() | (names == ""), names, strict=True)
    )]  # fmt: skip
    codes: dict[object, int] = {}
    return np.array([codes.setdefault(key, len(codes)) for key in keys], dtype=np.int64)


def checked_items(choices: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the choices with a column `item` that can be used, or none, and notes on it.

    A column that gives one pair two items numbers something else, such as the places in a list,
    and is left out.
    """
    if "item" in choices:
        distinct = choices[[*_KEYS, "item"]].drop_duplicates()
        clash = distinct[distinct.duplicated(_KEYS)]
        if clash.empty:
            return choices, []
        first, second = clash.iloc[0][_KEYS]
        choices = choices.drop(columns="item")
        return choices, [
            f"The column 'item' gives {first!r} / {second!r} more than one item and was not used: "
            "every pair counts as an item of its own."
        ]
    return choices, []


def kin(choices: pd.DataFrame) -> list[str]:
    """Return a warning where pairs without a column `item` seem to be kin, else nothing.

    Catch trials and fillers are not looked at, since no models are compared on them.
    """
    if "item" in choices:
        return []
    pairs = choices.loc[compares_models(choices), _KEYS].drop_duplicates()
    numbers = pd.Series(guess_items(pairs.itertuples(index=False)))
    n_kin = int(numbers.duplicated(keep=False).sum())
    if not n_kin:
        return []
    return [
        f"{n_kin} of {len(pairs)} sentence pairs share a sentence with another pair, or all words "
        "but one or two, and yet each counts as drawn by itself. If they were made of one another, "
        "p-values are too small and intervals too short: give them one number in a column 'item'."
    ]


def guessed_items(table: pd.DataFrame) -> tuple[pd.Series, str] | None:
    """Return the item of each choice, guessed from the words, and a sentence that says so.

    None where no two pairs seem to be kin.

    Parameters
    ----------
    table
        Choices, with both sentences of each.
    """
    texts = table[_KEYS].map(lambda text: tidy(str(text)))
    ordered = pd.Series([tuple(sorted(row)) for row in texts.to_numpy()], index=table.index)
    pairs = list(dict.fromkeys(ordered))
    numbers = guess_items(pairs)
    if max(numbers, default=0) == len(pairs):
        return None
    of_pair = dict(zip(pairs, numbers, strict=True))
    items = f"{max(numbers)} item{'s' * (max(numbers) > 1)}"
    return ordered.map(of_pair), (
        f"{len(pairs)} sentence pairs were taken for {items}: those of one share a sentence, or "
        "all words but one or two. If that is wrong, give a column 'item'."
    )
