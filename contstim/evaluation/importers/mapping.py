"""Any CSV with one row a trial, through a mapping of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from contstim.errors import InputError
from contstim.evaluation.choices import Cleaning, RawChoices, name_rows, rescale
from contstim.tables import read_table


@dataclass(frozen=True)
class ColumnMapping:
    """Where a file keeps what the choices table needs.

    Attributes
    ----------
    columns
        Pairs (column of the choices table, column of the file). Columns not named are kept
        under their own name if they clash with none.
    low, high
        The codes that mean sure of sentence 1 and sure of sentence 2; None if the ratings are
        zero-centred already.
    scale
        Passed to `check_choices`.
    expected
        Which sentence is the better one by design: ``1`` or ``2`` for all rows, or the name of a
        column that holds 1 and 2. Empty if none is.
    cleaning
        What to do with rows that cannot be analysed.
    """

    columns: tuple[tuple[str, str], ...]
    low: float | None = None
    high: float | None = None
    scale: str | None = None
    expected: str = ""
    cleaning: Cleaning = field(default_factory=Cleaning)

    @classmethod
    def of(cls, columns: Mapping[str, str], **options: Any) -> ColumnMapping:
        """Make a mapping from a dictionary ``{"participant": "subject_id", ...}``."""
        return cls(tuple(columns.items()), **options)


TIDY = ColumnMapping(columns=())

_LENIENT = Cleaning("exclude", "exclude", "keep_first")

#: Sprouse, Schuetze and Almeida (2013): forced choice between two sentences of a phenomenon.
SPROUSE2013 = ColumnMapping(
    columns=(
        ("group", "survey"),
        ("trial", "order"),
        ("sentence_1", "bad_sentence"),
        ("sentence_2", "good_sentence"),
        ("rating", "chose_good"),
    ),
    low=0,
    high=1,
    expected="2",
    cleaning=_LENIENT,
)

#: Warstadt et al. (2020): forced choices by which BLiMP was validated.
BLIMP = ColumnMapping(
    columns=(("participant", "rater"), ("rating", "chosen"), ("expected", "correct")),
    low=1,
    high=2,
    expected="expected",
    cleaning=_LENIENT,
)


def map_columns(source: str | Path | pd.DataFrame, mapping: ColumnMapping) -> RawChoices:
    """Read a table or file as `mapping` says.

    Raises
    ------
    InputError
        If a mapped column is absent, a rating is off its scale, or `expected` is not 1 or 2.
    """
    raw = source if isinstance(source, pd.DataFrame) else read_table(source, cells="guessed")
    renames = {source: name for name, source in mapping.columns}
    for source in renames:
        if source not in raw.columns:
            raise InputError(
                f"the file has no column {source!r}; it has "
                + ", ".join(repr(str(c)) for c in raw.columns)
            )
    clashing = set(renames.values()) & (set(raw.columns) - set(renames))
    data = raw.drop(columns=list(clashing)).rename(columns=renames)
    if "rating" in data and mapping.low is not None and mapping.high is not None:
        data["rating"] = rescale(data["rating"], mapping.low, mapping.high)
    if mapping.expected in ("1", "2"):
        data["expected"] = int(mapping.expected)
    elif mapping.expected:
        data = data.rename(columns={mapping.expected: "expected"})
    if "expected" in data:
        bad = data["expected"].notna() & ~data["expected"].isin([1, 2])
        if bad.any():
            value = data.loc[bad, "expected"].iloc[0]
            raise InputError(f"expected must be 1 or 2, not {value!r} ({name_rows(bad)})")
    return RawChoices(data, mapping.cleaning, mapping.scale)
