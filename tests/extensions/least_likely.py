"""Custom criteria of the three selections."""

from __future__ import annotations

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.selection.natural import NaturalCriterion
from contstim.selection.set_criteria import SetCriterion
from contstim.selection.triplet_objectives import TripletObjective

__all__ = ["APART", "LEAST_LIKELY", "RankDifference"]

#: Natural pairs of which rejecting models find the sentences least likely, in standard deviations.
LEAST_LIKELY = NaturalCriterion(lambda scores: (scores - scores.mean()) / scores.std())

#: Triplets whose synthetic sentences are furthest apart under model 1.
APART = TripletObjective(lambda rows: rows["natural_lp_1"] - rows["synthetic_2_lp_1"], 1.0)


class RankDifference(SetCriterion):
    """By how much two models' rank differences of a pair's sentences differ."""

    column = "rank_difference"

    def contributions(self, pairs: IntArray) -> FloatArray:
        """Return the differences, from 0 to 2."""
        one, two = pairs.T
        apart = self.ranked.fractions[two] - self.ranked.fractions[one]
        i, j = np.triu_indices(len(self.ranked.models), 1)
        return np.abs(apart[:, i] - apart[:, j])

    def bound(self, rows: IntArray, n: int, max_occurrences: int) -> float:
        """Return what `n` pairs would have if each told two models apart wholly."""
        return 2.0 * n
