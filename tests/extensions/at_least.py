"""A custom selection constraint: a minimum number of sentences of a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from contstim.selection.constraint_rows import ConstraintRows, SelectionConstraint

__all__ = ["AtLeast"]


@dataclass(frozen=True, eq=False)
class AtLeast(SelectionConstraint):
    """At least `least` selected sentences have a number above 0 in a column."""

    kind = "at-least"
    options: ClassVar = {"least": int}

    values: pd.Series
    least: int
    name: str = "at-least"

    def add_rows(self, rows: ConstraintRows) -> None:
        """Add one row."""
        column = rows.feature_column((self.values > 0).astype(float), self.name)
        rows.add([column for _ in rows.quotas], self.least, np.inf, [self.name])
