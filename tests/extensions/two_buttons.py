"""A custom importer: choices by key, ``F`` for the left sentence, else ``J``."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from contstim.errors import InputError
from contstim.evaluation.choices import RawChoices
from contstim.evaluation.rows import format_rows
from contstim.tables import read_table

__all__ = ["read_two_buttons"]

_RATINGS = {"F": -2.5, "J": 2.5}


def read_two_buttons(source: str | Path | pd.DataFrame) -> RawChoices:
    """Read a CSV with the columns ``person, left, right, key``.

    Raises
    ------
    InputError
        If a key is neither F nor J; the message names the rows.
    """
    table = source if isinstance(source, pd.DataFrame) else read_table(source)
    names = {"person": "participant", "left": "sentence_1", "right": "sentence_2"}
    rating = table["key"].map(_RATINGS)
    if rating.isna().any():
        raise InputError(f"a key is neither F nor J ({format_rows(rating.isna())})")
    return RawChoices(table.rename(columns=names).assign(rating=rating))
