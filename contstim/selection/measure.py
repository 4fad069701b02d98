"""What a pair of sentences adds for every two models of a set."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from contstim.arrays import FloatArray, IntArray
from contstim.selection.people import (
    People,
    log_bayes_factor_halves,
    log_bayes_factors,
    log_ratio_scale,
)
from contstim.selection.ranks import RankedScores

# Steps in which the bound on expected log Bayes factors is lowered.
_BOUND_STEPS = 80


def signs_of(doubled: IntArray, ranks: FloatArray, pairs: IntArray, margin: float) -> IntArray:
    """Return which sentence each model ranks higher, 0 within the margin; shape (number, M)."""
    one, two = pairs.T
    beyond = np.abs(ranks[one] - ranks[two]) > margin
    return np.where(beyond, np.sign(doubled[one] - doubled[two]), 0)


@dataclass(frozen=True, eq=False)
class PairMeasure:
    """What a pair of sentences adds for every two models, of which a selection has the sum.

    Attributes
    ----------
    ranked
        Ranks, shape (R, M).
    scaled
        Log-probabilities in standard deviations, shape (R, M).
    margin
        Of rank differences, for separations.
    people
        For expected log Bayes factors; None: separations count.
    """

    ranked: RankedScores
    scaled: FloatArray
    margin: float
    people: People | None

    @classmethod
    def of(
        cls,
        log_probs: pd.DataFrame,
        ranked: RankedScores,
        rows: IntArray,
        margin: float,
        people: People | None,
    ) -> PairMeasure:
        """Make it; standard deviations are over the sentences `rows`."""
        if people is None:
            return cls(ranked, np.empty((0, 0)), margin, None)
        named = log_probs.set_axis([str(name) for name in log_probs.columns], axis=1)
        values = named.loc[ranked.labels, list(ranked.models)].to_numpy(dtype=np.float64)
        return cls(ranked, values / log_ratio_scale(values[rows]), margin, people)

    def terms(self, pairs: IntArray) -> FloatArray:
        """Return what each pair of rows adds for every two models, shape (number, pairs)."""
        if self.people is not None:
            one, two = pairs.T
            return log_bayes_factors(self.people.probabilities(self.scaled[two] - self.scaled[one]))
        signs = signs_of(self.ranked.doubled, self.ranked.fractions, pairs, self.margin)
        i, j = np.triu_indices(len(self.ranked.models), 1)
        return np.asarray(signs[:, i] * signs[:, j] < 0, dtype=np.float64)

    def bound(self, rows: IntArray, n: int, uses: int) -> float:
        """Return what no `n` pairs of the sentences `rows` exceed for the two models of least.

        The least is at most every weighted mean over model pairs. With equal weights no pair of
        sentences has more value than one on which the models split evenly and are as sure as they
        can be. For separations see `select_set`. For expected log Bayes factors, with
        q = p - 1/2 and l = logit p, the sum over model pairs depends on one model's q as
        ((M - 1) q l - P l - L q) / 2, where P and L are the sums of q and l over the others. Its
        second derivative is at least (M - 1) (1/4 - a |q|) / (1/4 - q²)² > 0, as
        |P| <= (M - 1) a with a < 1/2 the largest |q|: convex, so the maximum has every q at an end.

        A second bound looks at the sentences. With z a sentence's standardised log-probabilities,
        models i and j get at most k(|z_i - z_j|) of either sentence together, k of
        `log_bayes_factor_halves`; the mean of z_i - z_j is taken off, as it is in both sentences.
        Summed with weights over model pairs and then over n pairs of different sentences, that is
        at most the sum over the 2 n sentences of most. Mirror descent moves the weights to where
        the bound is low; it holds at every step. It is not reached where the sentences of most are
        not opposite to each other.
        """
        m = len(self.ranked.models)
        count = m * (m - 1) // 2
        even = n * (m // 2) * (m - m // 2)
        if self.people is None:
            return float(even // count)
        most = self.people.probabilities(np.array([-self.people.most, self.people.most]))
        bound = even / count * float(log_bayes_factors(most)[0])
        sentences = -(-2 * n // uses)
        values = np.empty((len(rows), count), dtype=np.float32)
        for pair, (i, j) in enumerate(combinations(range(m), 2)):
            apart = self.scaled[rows, i] - self.scaled[rows, j]
            values[:, pair] = log_bayes_factor_halves(self.people, np.abs(apart - apart.mean()))
        weights = np.full(count, 1 / count)
        lowest = np.inf
        for step in range(_BOUND_STEPS):
            sums = values @ weights.astype(np.float32)
            top = np.argpartition(-sums, min(sentences, len(sums)) - 1)[:sentences]
            each = values[top].sum(axis=0, dtype=np.float64)
            # What single precision rounds off is far below one in a million.
            lowest = min(lowest, float(each @ weights) * (1 + 1e-6))
            weights = weights * np.exp(-2 / np.sqrt(step + 1) * each / max(each.max(), 1e-300))
            weights /= weights.sum()
        return min(bound, uses * lowest)
