"""The result of testing a model or a difference of two models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

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
        Two-sided p-value: of a model, against the lower noise ceiling; of a difference, against 0.
    effect
        Effect size, the matched-pairs rank-biserial correlation over participants or groups.
    side
        Sign of the tested difference: 1 if it is positive, 0 or -1.
    ci_low, ci_high
        95 % confidence interval of the value or difference.
    n_units
        Number of participants (or groups, if the test is across groups) with a value.
    test
        Name of the test.
    note
        Reason for missing numbers.
    details
        Further numbers by their column in the result tables, see `QuasiFInference.columns`.
    """

    p: float = np.nan
    effect: float = np.nan
    side: float = 0.0
    ci_low: float = np.nan
    ci_high: float = np.nan
    n_units: int = 0
    test: str = ""
    note: str = ""
    details: Mapping[str, float] = field(default_factory=dict)
