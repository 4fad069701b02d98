"""The interface of inferences, and the result of one test.

`QuasiFInference` is the default, `SignedRankInference` the published analysis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from contstim.evaluation.values import AnalysisValues

#: Columns of the intervals of the two noise ceilings.
CEILING_INTERVALS = (
    *("ceiling_lower_ci_low", "ceiling_lower_ci_high"),
    *("ceiling_upper_ci_low", "ceiling_upper_ci_high"),
    *("gap_ci_low", "gap_ci_high"),
)


@dataclass(frozen=True)
class InferenceResult:
    """A test of a mean against zero and an interval, with what a table says of them.

    Attributes
    ----------
    p, effect
        Two-sided p-value and effect size; NaN where nothing could be tested.
    ci_low, ci_high
        95 % interval, or NaN.
    n_units
        Number of units with a value.
    p_smallest
        The smallest p that so many units can give.
    test
        How p was found.
    note
        Why a number is missing.
    stderr, df
        Standard error of a model's value or of a difference, and degrees of freedom of its
        interval and test (on Fisher's scale, where that is used).
    side
        1 if what was tested lies above zero, -1 if below, 0 if on it.
    p_chance
        Two-sided p-value of the value against chance.
    margin, p_equivalence
        How large a difference is called equivalent, and the p-value of one as large as that.
    participants_needed, items_needed
        How many participants, or sentences, in all would decide with probability 0.8 if the
        difference is as large as it seems; see `MeanEstimate.sizes_needed`.
    ceiling_lower_ci_low, ceiling_lower_ci_high, ceiling_upper_ci_low, ceiling_upper_ci_high
        Intervals of the two noise ceilings.
    gap_ci_low, gap_ci_high
        Interval of the value minus the lower noise ceiling.
    """

    p: float = np.nan
    effect: float = np.nan
    ci_low: float = np.nan
    ci_high: float = np.nan
    n_units: int = 0
    p_smallest: float = np.nan
    test: str = ""
    note: str = ""
    stderr: float = np.nan
    df: float = np.nan
    side: float = 0.0
    p_chance: float = np.nan
    margin: float = np.nan
    p_equivalence: float = np.nan
    participants_needed: float = np.nan
    items_needed: float = np.nan
    ceiling_lower_ci_low: float = np.nan
    ceiling_lower_ci_high: float = np.nan
    ceiling_upper_ci_low: float = np.nan
    ceiling_upper_ci_high: float = np.nan
    gap_ci_low: float = np.nan
    gap_ci_high: float = np.nan


#: A contrast for each of M models, and for each pair of models asked for.
InferenceResults = tuple[list[InferenceResult], list[InferenceResult]]


class Inference(Protocol):
    """From values to tests and intervals."""

    @property
    def unit(self) -> str:
        """What is tested across."""

    @property
    def columns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What it says of each model, and of each comparison, beside what every inference does."""

    def __call__(
        self, outcome: AnalysisValues, pairs: Sequence[tuple[int, int]]
    ) -> InferenceResults:
        """Test the models of an analysis, and compare the `pairs` of them.

        Of a model it is its value with its interval, and the test of it (on the trials that the
        ceiling rests on) against the lower noise ceiling; of a pair the first minus the second.
        """
