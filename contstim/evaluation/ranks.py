"""Signed ranks: their cosine, Wilcoxon's test of them, and the false discovery rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import false_discovery_control, norm, rankdata

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError, require_known

#: The false discovery rate at which a difference is called significant.
ALPHA = 0.05
#: What becomes of differences that are zero.
ZERO_METHODS = ("zsplit", "pratt", "wilcox")
#: How the p-value is found.
TEST_METHODS = ("auto", "exact", "asymptotic", "scipy-1.7")
# Up to here the exact distribution takes milliseconds; beyond, the normal one is as good.
_MOST_EXACT = 100
# Differences of means that are equal but for rounding must tie.
_DECIMALS = 12


def square_sum(n: ArrayLike) -> FloatArray:
    """Return 1 + 4 + ... + n squared, the squared norm of n untied ranks."""
    count = np.asarray(n, dtype=np.float64)
    return np.asarray(count * (count + 1) * (2 * count + 1) / 6, dtype=np.float64)


def square_sum_slope(n: ArrayLike) -> FloatArray:
    """Return the derivative of log `square_sum` by n; NaN or infinite at 0."""
    count = np.asarray(n, dtype=np.float64)
    return np.asarray((count * count + count + 1 / 6) / square_sum(count))


class SegmentRanks:
    """Signed ranks of numbers within segments (participants).

    Zeros have signed rank 0 and take no rank, ties have the average of their ranks.

    Parameters
    ----------
    values
        R numbers.
    segment
        The segment each belongs to, 0 ... K-1 in order, shape (R,).
    n_segments
        K.
    weight
        A value of weight w counts as w that tie, shape (R,); each counts once by default.

    Attributes
    ----------
    segment
        As given.
    ranks
        Signed ranks, shape (R,).
    counts
        How many values of each segment have a rank, by weight, shape (K,).
    """

    def __init__(
        self,
        values: FloatArray,
        segment: IntArray,
        n_segments: int,
        weight: FloatArray | None = None,
    ) -> None:
        self.segment = segment
        nonzero = np.flatnonzero(values)
        size, where = np.abs(values[nonzero]), segment[nonzero]
        counts = np.bincount(where, minlength=n_segments)
        starts = np.cumsum(counts) - counts
        order = np.empty(len(size), dtype=np.int64)
        # Rows of a table are sorted many times faster than all numbers by two keys.
        for n in np.unique(counts[counts > 0]):
            table = starts[counts == n][:, None] + np.arange(n)
            order[table] = np.take_along_axis(table, np.argsort(size[table], axis=1), axis=1)
        size = size[order]
        first = np.ones(len(order), dtype=bool)
        first[1:] = (size[1:] != size[:-1]) | (where[1:] != where[:-1])
        self._order = nonzero[order]
        self._tie = np.cumsum(first) - 1
        self._end = (starts + counts)[where]
        mass = np.ones(len(order)) if weight is None else weight[self._order]
        running = np.concatenate([[0.0], np.cumsum(mass)])
        self.counts = np.asarray(np.bincount(where, mass, n_segments), dtype=np.float64)
        self.ranks: FloatArray = np.zeros(len(values))
        below = running[:-1][first] - running[starts[where][first]]
        average = below + (np.bincount(self._tie, mass) + 1) / 2
        self.ranks[self._order] = np.sign(values[self._order]) * average[self._tie]

    def raised(self, weight: FloatArray) -> FloatArray:
        """Return for each value the weights of those of its segment whose rank it raises, (R,).

        All of the weight of those greater in size, half of that of those tied with it, itself
        among them; nothing for a zero, which takes no rank.
        """
        sorted_weight = weight[self._order]
        running = np.concatenate([[0.0], np.cumsum(sorted_weight)])
        tied = np.bincount(self._tie, sorted_weight)
        end_of_tie = np.cumsum(np.bincount(self._tie))
        raised: FloatArray = np.zeros(len(weight))
        above = running[self._end] - running[end_of_tie][self._tie]
        raised[self._order] = above + tied[self._tie] / 2
        return raised


def signed_ranks(values: ArrayLike) -> FloatArray:
    """Return the signed ranks of a vector: sign times average rank of the absolute value.

    Zeros stay 0 and take no rank, so the others are ranked 1 to n among themselves.

    Source
    ------
    Golan et al. (2023), Eq. 8 and 9, with average ranks for ties (the expectation over random
    tie-breaking). The paper's ratings have no zeros; zeros are treated as in its published
    analysis.
    """
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise InputError(f"signed ranks need a vector, got an array of shape {vector.shape}")
    if np.isnan(vector).any():
        raise InputError("signed ranks need numbers, got a missing value")
    return SegmentRanks(vector, np.zeros(len(vector), dtype=np.int64), 1).ranks


def signed_rank_cosine(x: ArrayLike, y: ArrayLike) -> float:
    """Return the signed-rank cosine similarity of two vectors over the same n trials.

    The value is the expectation, over random breaking of ties, of the cosine of the two vectors
    of signed ranks. It is unchanged when both vectors change sign on the same trials, lies within
    -1 ... 1, and is 1 for a vector without ties and itself; a vector with ties and itself give
    less than 1, since the ties of the two are broken independently.

    Raises
    ------
    InputError
        If the lengths differ, there is no trial, or a vector is zero on all trials: it
        then has no direction, and the similarity is not defined.

    Source
    ------
    Golan et al. (2023), Eq. 10 and 11: the dot product of average-tie signed ranks over the
    product of the two norms, each sqrt(1 + 4 + ... + n^2) with n the vector's non-zero entries.

    Examples
    --------
    >>> signed_rank_cosine([1.5, -0.5, 2.5], [10.0, -3.0, 30.0])
    1.0
    >>> signed_rank_cosine([1.5, -0.5, 2.5], [-10.0, 3.0, -30.0])
    -1.0
    """
    first, second = signed_ranks(x), signed_ranks(y)
    if len(first) != len(second):
        raise InputError(f"the vectors have {len(first)} and {len(second)} entries, not the same")
    n_first, n_second = np.count_nonzero(first), np.count_nonzero(second)
    if not n_first or not n_second:
        raise InputError("a vector that is zero on every trial has no signed-rank cosine")
    return float(first @ second / np.sqrt(square_sum(n_first) * square_sum(n_second)))


@dataclass(frozen=True)
class SignedRankTest:
    """Result of a two-sided signed-rank test.

    Attributes
    ----------
    statistic
        Sum of the ranks of positive differences.
    p
        Two-sided p-value.
    effect
        Matched-pairs rank-biserial correlation, the sum of ranks of positive minus that of
        negative differences over the sum of all, -1 ... 1.
    n, n_zero
        Number of differences, and how many of them are zero.
    p_smallest
        The smallest p-value that n differences can give in the exact test, 2 / 2^n.
    method
        ``exact`` or ``asymptotic``, the one that was used.
    """

    statistic: float
    p: float
    effect: float
    n: int
    n_zero: int
    p_smallest: float
    method: str


def wilcoxon_signed_rank(
    differences: ArrayLike, zero_method: str = "zsplit", method: str = "auto"
) -> SignedRankTest:
    """Test whether paired differences are symmetric about zero, two-sided.

    Differences are rounded to 12 decimals, so that those that are equal tie.

    Parameters
    ----------
    differences
        One number a unit (group or participant); missing ones must have been left out.
    zero_method
        ``zsplit``: zeros are ranked and half their ranks go to either side (Golan et al. 2023).
        ``pratt``: ranked, then left out. ``wilcox``: left out before ranking.
    method
        ``exact``: the distribution over all changes of sign of the differences at hand, which is
        right with ties and zeros too. ``asymptotic``: normal approximation, corrected
        for ties, without continuity correction. ``auto``: exact up to 100 differences.
        ``scipy-1.7``: what the published analysis of Golan et al. (2023) got from SciPy 1.7: the
        exact distribution of untied ranks up to 25 differences if none is zero, and
        asymptotic otherwise.

    Returns
    -------
    SignedRankTest
        With p = 1 and effect 0 if every difference is zero.

    Raises
    ------
    InputError
        If there is no difference, one is not finite, or a method is unknown.

    Source
    ------
    Wilcoxon (1945); Pratt (1959), doi 10.1080/01621459.1959.10501526; Kerby (2014),
    doi 10.2466/11.IT.3.1, for the effect size.
    """
    require_known("zero method", zero_method, ZERO_METHODS)
    require_known("test method", method, TEST_METHODS)
    given = np.asarray(differences, dtype=np.float64)
    if given.ndim != 1 or not len(given):
        raise InputError("a signed-rank test needs a vector with at least one difference")
    if not np.isfinite(given).all():
        raise InputError("a signed-rank test needs finite differences")
    d = np.round(given, _DECIMALS)
    n_zero = int((d == 0).sum())
    n_all = len(d)
    smallest = min(1.0, float(2.0 ** (1 - n_all)))
    if n_zero == n_all:
        return SignedRankTest(0.0, 1.0, 0.0, n_all, n_zero, smallest, "exact")
    if zero_method == "wilcox":
        d = d[d != 0]
    ranks = np.asarray(rankdata(np.abs(d)), dtype=np.float64)
    plus, minus = float(ranks[d > 0].sum()), float(ranks[d < 0].sum())
    shared = float(ranks[d == 0].sum()) / 2 if zero_method == "zsplit" else 0.0
    total = plus + minus + 2 * shared
    if method == "scipy-1.7":
        exact = n_all <= 25 and n_zero == 0
        used_ranks = np.arange(1.0, len(d) + 1)
        statistic = float(int(plus))
    else:
        exact = method == "exact" or (method == "auto" and n_all <= _MOST_EXACT)
        used_ranks, statistic = ranks[d != 0], plus
    p = _exact_p(used_ranks, statistic) if exact else _normal_p(d, plus + shared, zero_method)
    name = "exact" if exact else "asymptotic"
    return SignedRankTest(plus + shared, p, (plus - minus) / total, n_all, n_zero, smallest, name)


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


def _exact_p(ranks: FloatArray, statistic: float) -> float:
    """Return the share of the 2^n sign patterns at least as far out, twice the smaller tail."""
    doubled = np.round(2 * ranks).astype(np.int64)  # average ranks are whole or half
    mass = np.zeros(int(doubled.sum()) + 1)
    mass[0] = 1.0
    reach = 0
    for rank in doubled:
        mass[rank : reach + rank + 1] += mass[: reach + 1].copy()
        reach += int(rank)
        mass[: reach + 1] /= 2
    at = round(2 * statistic)
    tail = min(float(mass[: at + 1].sum()), float(mass[at:].sum()))
    return min(1.0, 2 * tail)


def _normal_p(d: FloatArray, plus: float, zero_method: str) -> float:
    n, n_zero = len(d), int((d == 0).sum())
    mean = n * (n + 1) / 4
    variance = n * (n + 1) * (2 * n + 1.0)
    sizes = np.abs(d)
    if zero_method == "pratt":
        mean -= n_zero * (n_zero + 1) / 4
        variance -= n_zero * (n_zero + 1) * (2 * n_zero + 1)
        sizes = sizes[sizes > 0]
    counts = np.unique(sizes, return_counts=True)[1].astype(np.float64)
    variance -= 0.5 * float((counts**3 - counts).sum())
    if variance <= 0:
        return 1.0
    return float(2 * norm.sf(abs(plus - mean) / np.sqrt(variance / 24)))


def spans_zero(comparisons: pd.DataFrame) -> pd.Series:
    """Return in which rows a significant difference has an interval that includes zero."""
    inside = (comparisons["ci_low"] <= 0) & (comparisons["ci_high"] >= 0)
    return (comparisons["q"] < ALPHA) & inside
