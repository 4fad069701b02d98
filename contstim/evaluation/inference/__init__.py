"""From values to p-values and intervals; here: what is called significant among many tests."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import false_discovery_control

from contstim.arrays import FloatArray
from contstim.errors import InputError

#: The false discovery rate at which a difference is called significant.
ALPHA = 0.05


def benjamini_hochberg(p_values: ArrayLike) -> FloatArray:
    """Return the adjusted p-values (q) of one family; missing ones stay missing and do not count.

    Source
    ------
    Benjamini and Hochberg (1995), doi 10.1111/j.2517-6161.1995.tb02031.x.

    Examples
    --------
    >>> benjamini_hochberg([0.01, 0.02, 0.5])
    array([0.03, 0.03, 0.5 ])
    """
    q = np.array(p_values, dtype=np.float64)
    there = ~np.isnan(q)
    if ((q[there] < 0) | (q[there] > 1)).any():
        raise InputError("p-values must lie between 0 and 1")
    q[there] = false_discovery_control(q[there])
    return q


def spans_zero(comparisons: pd.DataFrame) -> pd.Series:
    """Return in which rows a significant difference has an interval that includes zero."""
    inside = (comparisons["ci_low"] <= 0) & (comparisons["ci_high"] >= 0)
    return (comparisons["q"] < ALPHA) & inside
