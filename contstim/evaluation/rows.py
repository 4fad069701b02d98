"""Naming rows of a table in messages."""

from __future__ import annotations

import numpy as np
import pandas as pd

__all__ = ["name_rows"]


def name_rows(bad: pd.Series, most: int = 5) -> str:
    """Name the rows where `bad` holds, counted from 1: ``rows 3, 8 and 12``.

    The index of `bad` holds 0-based row numbers of the file, so that rows keep their numbers
    after others were left out.
    """
    numbers = (np.asarray(bad.index)[bad.to_numpy(dtype=bool)] + 1).tolist()
    shown = [str(n) for n in numbers[:most]]
    if len(numbers) > most:
        return f"rows {', '.join(shown)} and {len(numbers) - most} more"
    if len(shown) == 1:
        return f"row {shown[0]}"
    return f"rows {', '.join(shown[:-1])} and {shown[-1]}"
