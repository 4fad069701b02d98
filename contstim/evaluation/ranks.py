"""Signed ranks and their cosine."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError

# Differences of means that are equal but for rounding must tie.
_DECIMALS = 12


def sum_of_squares(n: ArrayLike) -> FloatArray:
    """Return 1 + 4 + ... + n squared, the squared norm of n untied ranks."""
    count = np.asarray(n, dtype=np.float64)
    return np.asarray(count * (count + 1) * (2 * count + 1) / 6, dtype=np.float64)


def log_sum_of_squares_slope(n: ArrayLike) -> FloatArray:
    """Return the derivative of log `sum_of_squares` by n; NaN or infinite at 0."""
    count = np.asarray(n, dtype=np.float64)
    return np.asarray((count * count + count + 1 / 6) / sum_of_squares(count))


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

    Attributes
    ----------
    segment
        As given.
    ranks
        Signed ranks, shape (R,).
    counts
        How many values of each segment have a rank, shape (K,).
    """

    def __init__(self, values: FloatArray, segment: IntArray, n_segments: int) -> None:
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
        running = np.arange(len(order) + 1.0)
        self.counts = counts.astype(np.float64)
        self.ranks: FloatArray = np.zeros(len(values))
        below = running[:-1][first] - running[starts[where][first]]
        average = below + (np.bincount(self._tie) + 1) / 2
        self.ranks[self._order] = np.sign(values[self._order]) * average[self._tie]

    def sum_above(self, weight: FloatArray) -> FloatArray:
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

    Examples
    --------
    >>> signed_ranks([1.5, -0.5, 2.5, -2.5, 0.0]).tolist()
    [2.0, -1.0, 3.5, -3.5, 0.0]
    """
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise InputError(f"signed ranks need a vector, got an array of shape {vector.shape}")
    if np.isnan(vector).any():
        raise InputError("signed ranks need numbers, got a missing value")
    return SegmentRanks(vector, np.zeros(len(vector), dtype=np.int64), 1).ranks


def weighted_signed_ranks(values: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the signed ranks of vectors in which each value counts as several ties.

    Parameters
    ----------
    values
        N vectors, shape (N, k).
    weights
        Number of copies of each position in B resamples, shape (B, k).

    Returns
    -------
    ranks : array
        Signed ranks, shape (B, N, k).
    counts : array
        Number of non-zero values with their copies, shape (B, N).
    """
    ranks = np.zeros((len(weights), *values.shape))
    counts = np.zeros((len(weights), len(values)))
    for i, vector in enumerate(values):
        order = np.argsort(np.abs(vector), kind="stable")
        order = order[vector[order] != 0]
        if not len(order):
            continue
        size = np.abs(vector[order])
        is_new = np.diff(size, prepend=-1.0) != 0
        n_ties = np.add.reduceat(weights[:, order], np.flatnonzero(is_new), axis=1)
        n_up_to = np.cumsum(n_ties, axis=1)
        average = n_up_to - n_ties + (n_ties + 1) / 2
        ranks[:, i, order] = average[:, np.cumsum(is_new) - 1] * np.sign(vector[order])
        counts[:, i] = n_up_to[:, -1]
    return ranks, counts


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
    return float(first @ second / np.sqrt(sum_of_squares(n_first) * sum_of_squares(n_second)))


def rank_biserial(differences: ArrayLike) -> float:
    """Return the matched-pairs rank-biserial correlation of paired differences.

    The sum of the ranks of positive minus negative differences, divided by the sum of all ranks
    (Kerby 2014, doi 10.2466/11.IT.3.1). Zeros are ranked. Differences are rounded to 12 decimals,
    so that equal differences are ties in spite of rounding errors.

    Parameters
    ----------
    differences
        Differences; missing values (NaN) are ignored.

    Returns
    -------
    float
        Correlation, -1 to 1; 0 if all differences are 0, NaN if all are missing.

    Examples
    --------
    >>> rank_biserial([0.3, 0.1, -0.2])
    0.3333333333333333
    """
    d = np.round(np.asarray(differences, dtype=np.float64), _DECIMALS)
    d = d[~np.isnan(d)]
    if not len(d):
        return float("nan")
    ranks = rankdata(np.abs(d))
    return float((ranks * np.sign(d)).sum() / ranks.sum())
