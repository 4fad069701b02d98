"""Inference: tests, confidence intervals and adjustment for multiple comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import false_discovery_control

from contstim.arrays import FloatArray
from contstim.errors import InputError

#: False discovery rate of significant differences.
ALPHA = 0.05
#: Columns with the confidence intervals of the noise ceilings and of the distance to the lower one.
CEILING_INTERVALS = (
    *("ceiling_lower_ci_low", "ceiling_lower_ci_high"),
    *("ceiling_upper_ci_low", "ceiling_upper_ci_high"),
    *("gap_ci_low", "gap_ci_high"),
)


@dataclass(frozen=True)
class InferenceResult:
    """The test and the confidence interval of a model, or of a difference of two models.

    Attributes
    ----------
    p
        Two-sided p-value. Models are tested against the lower noise ceiling, differences against 0.
    effect
        Effect size, the matched-pairs rank-biserial correlation over participants or groups.
    side
        Sign of the tested difference: 1, 0 or -1.
    ci_low, ci_high
        95 % confidence interval of the value or difference.
    n_units
        Number of participants (or groups, if the test is across groups) with a value.
    test
        Name of the test that gave the p-value.
    note
        Reason why a p-value or an interval is missing; otherwise empty.
    statistics
        Further statistics by their column in the result tables, see `QuasiFInference.columns`.
    """

    p: float = np.nan
    effect: float = np.nan
    side: float = 0.0
    ci_low: float = np.nan
    ci_high: float = np.nan
    n_units: int = 0
    test: str = ""
    note: str = ""
    statistics: Mapping[str, float] = field(default_factory=dict)


def benjamini_hochberg(p_values: ArrayLike) -> FloatArray:
    """Return p-values adjusted for the false discovery rate (q values).

    The adjusted value of the i-th smallest of n p-values is the minimum of n p_(j) / j over j >= i
    (Benjamini and Hochberg 1995, doi 10.1111/j.2517-6161.1995.tb02031.x; computed by SciPy).

    Parameters
    ----------
    p_values
        p-values of one family of tests. Missing values (NaN) stay missing and do not count.

    Returns
    -------
    array
        Adjusted p-values.

    Raises
    ------
    InputError
        If a p-value is not between 0 and 1.

    Examples
    --------
    >>> benjamini_hochberg([0.01, 0.02, 0.5])
    array([0.03, 0.03, 0.5 ])
    """
    q_values = np.array(p_values, dtype=np.float64)
    # Adjust only the p-values that exist; NaN stays NaN.
    is_tested = ~np.isnan(q_values)
    if ((q_values[is_tested] < 0) | (q_values[is_tested] > 1)).any():
        raise InputError("p-values must lie between 0 and 1")
    # q of the i-th smallest of n p-values: minimum of n p_(j) / j over j >= i.
    q_values[is_tested] = false_discovery_control(q_values[is_tested])
    return q_values


def spans_zero(comparisons: pd.DataFrame) -> pd.Series:
    """Find comparisons in which the test and the confidence interval disagree.

    A test after adjustment can be significant although the 95 % confidence interval includes zero,
    because the test and the interval are different methods.

    Parameters
    ----------
    comparisons
        Table with the columns `q`, `ci_low` and `ci_high`.

    Returns
    -------
    Series of bool
        Whether each row is significant although its interval includes zero.
    """
    includes_zero = (comparisons["ci_low"] <= 0) & (comparisons["ci_high"] >= 0)
    return (comparisons["q"] < ALPHA) & includes_zero
