"""Naming of rows in error messages, and the log of excluded rows."""

from __future__ import annotations

import numpy as np
import pandas as pd

from contstim.errors import InputError

_EXCLUSION_COLUMNS = {"rule": "str", "participant": "str", "n_rows": "int64", "detail": "str"}
_MAX_NAMED_ROWS = 5


class ExclusionLog:
    """A choices table from which rows are excluded, with a log of the exclusions.

    Attributes
    ----------
    remaining
        Choices that have not been excluded.
    """

    def __init__(self, choices: pd.DataFrame) -> None:
        self.remaining = choices
        self._entries: list[tuple[str, str, int, str]] = []

    def exclude(self, mask: pd.Series, rule: str, detail: str) -> None:
        """Exclude rows, and record how many rows of each participant were excluded.

        Parameters
        ----------
        mask
            Whether to exclude each row of `remaining`.
        rule
            Name of the exclusion rule, for example ``catch trials``.
        detail
            Reason for the exclusion in words.
        """
        participants = self.remaining.loc[mask, "participant"].astype("str")
        # One entry of the log per participant.
        counts = participants.value_counts(sort=False)
        self._entries += [(rule, str(name), int(n), detail) for name, n in counts.items()]
        self.remaining = self.remaining.loc[~mask]

    @property
    def table(self) -> pd.DataFrame:
        """One row per rule and participant: `rule`, `participant`, `n_rows`, `detail`."""
        table = pd.DataFrame(self._entries, columns=list(_EXCLUSION_COLUMNS))
        return table.astype(_EXCLUSION_COLUMNS)


def concat_exclusions(*tables: pd.DataFrame) -> pd.DataFrame:
    """Concatenate exclusion tables; without rows, return an empty exclusion table."""
    filled = [table for table in tables if len(table)]
    return pd.concat(filled, ignore_index=True) if filled else ExclusionLog(pd.DataFrame()).table


def format_rows(mask: pd.Series) -> str:
    """Return the numbers of the selected rows as text, for example ``rows 3, 8 and 12``.

    Parameters
    ----------
    mask
        Rows to name. Its index contains the 0-based row numbers of the file; the text counts from
        1, the first row after the header.
    """
    numbers = (np.asarray(mask.index)[mask.to_numpy(dtype=bool)] + 1).tolist()
    # `numbers` are the row numbers, counted from 1.
    named = [str(number) for number in numbers[:_MAX_NAMED_ROWS]]
    # Name at most five rows.
    if len(numbers) > len(named):
        return f"rows {', '.join(named)} and {len(numbers) - len(named)} more"
    if len(named) == 1:
        return f"row {named[0]}"
    return f"rows {', '.join(named[:-1])} and {named[-1]}"


def refuse_rows(mask: pd.Series, message: str, values: pd.Series | None = None) -> None:
    """Raise InputError if a mask selects any row.

    Parameters
    ----------
    mask
        Invalid rows, see `format_rows`.
    message
        Message in which ``{rows}`` is replaced by the row numbers and ``{value}`` by the value of
        the first invalid row.
    values
        Values of all rows, required if the message contains ``{value}``.
    """
    if mask.any():
        value = None if values is None else values[mask].tolist()[0]
        raise InputError(message.format(rows=format_rows(mask), value=value))
