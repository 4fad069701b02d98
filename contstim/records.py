"""Column names of the tables that pass between parts, and the check that they are there."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from contstim.errors import InputError, near_matches

__all__ = ["CHOICES", "SCORES", "TRIPLETS", "require_columns"]

#: One row a sentence and model; `log_prob` in nats.
SCORES = ("sentence", "model", "log_prob", "n_tokens", "n_words", "stderr")

#: One row a trial and participant; `rating` is negative where sentence 1 was chosen.
CHOICES = (
    "participant",
    "group",
    "trial",
    "condition",
    "sentence_1",
    "sentence_2",
    "model_1",
    "model_2",
    "rating",
    "rt_ms",
)

#: One row a triplet; ``..._lp_k`` is the log-probability under model k, nats.
TRIPLETS = (
    "model_1",
    "model_2",
    "natural",
    "synthetic_1",
    "synthetic_2",
    "natural_lp_1",
    "natural_lp_2",
    "synthetic_1_lp_1",
    "synthetic_1_lp_2",
    "synthetic_2_lp_1",
    "synthetic_2_lp_2",
)


def require_columns(frame: pd.DataFrame, columns: Iterable[str], what: str) -> None:
    """Refuse a table that lacks one of `columns`.

    Parameters
    ----------
    frame
        The table.
    columns
        Names that must be among its columns.
    what
        What the table is, for the message, e.g. ``the triplets table``.

    Raises
    ------
    InputError
        Naming the first column that is missing.
    """
    present = [str(column) for column in frame.columns]
    for column in columns:
        if column not in present:
            hint = near_matches(column, present) if present else "it has no column"
            raise InputError(f"{what} has no column {column!r}; {hint}")
