"""Signed ranks, their cosine similarity and its derivative (Golan et al. 2023, Eq. 8 to 11)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError

#: Number of decimals of computed values before they are ranked, so that equal values are ties in
#: spite of rounding errors.
DECIMALS = 12


def sum_of_squares(n: ArrayLike) -> FloatArray:
    """Return 1² + 2² + ... + n², the squared norm of n untied ranks."""
    # n (n + 1) (2 n + 1) / 6, also for fractional n.
    count = np.asarray(n, dtype=np.float64)
    return np.asarray(count * (count + 1) * (2 * count + 1) / 6, dtype=np.float64)


def log_sum_of_squares_slope(n: ArrayLike) -> FloatArray:
    """Return the derivative of log(1² + ... + n²) with respect to n; infinite or NaN for n = 0."""
    # S(n) = n (n + 1) (2 n + 1) / 6 has the derivative n² + n + 1 / 6, and (log S)' = S' / S.
    count = np.asarray(n, dtype=np.float64)
    return np.asarray((count * count + count + 1 / 6) / sum_of_squares(count))


class SegmentRanks:
    """Signed ranks of values, computed separately within each segment of an array.

    A *segment* is a run of consecutive values that are ranked together, such as the ratings of one
    participant. The signed rank of a value is its sign times the rank of its absolute value. Tied
    values have their average rank. Zeros have the signed rank 0 and are not ranked.

    Parameters
    ----------
    values
        Values, shape (R,).
    segment
        Code of the segment of each value, ascending, shape (R,).
    n_segments
        Number of segments K.

    Attributes
    ----------
    segment
        Code of the segment of each value, shape (R,).
    ranks
        Signed ranks, shape (R,).
    counts
        Number of non-zero values of each segment, shape (K,).
    """

    def __init__(self, values: FloatArray, segment: IntArray, n_segments: int) -> None:
        self.segment = segment
        nonzero = np.flatnonzero(values)
        magnitude, nonzero_segment = np.abs(values[nonzero]), segment[nonzero]
        counts = np.bincount(nonzero_segment, minlength=n_segments)
        starts = np.cumsum(counts) - counts

        # Sort the non-zero values of each segment. For speed, all segments of the same length are
        # sorted at once, as the rows of a matrix of indices.
        order = np.empty(len(magnitude), dtype=np.int64)
        for n in np.unique(counts[counts > 0]):
            indices = starts[counts == n][:, None] + np.arange(n)
            sorted_columns = np.argsort(magnitude[indices], axis=1)
            order[indices] = np.take_along_axis(indices, sorted_columns, axis=1)
        magnitude = magnitude[order]

        # Number the groups of tied values. A new group starts at each change of value or segment.
        is_new_value = magnitude[1:] != magnitude[:-1]
        is_new_segment = nonzero_segment[1:] != nonzero_segment[:-1]
        starts_group = np.ones(len(order), dtype=bool)
        starts_group[1:] = is_new_value | is_new_segment
        self._order = nonzero[order]
        self._tie_group = np.cumsum(starts_group) - 1
        self._segment_end = (starts + counts)[nonzero_segment]

        # The average rank of a group is the number of smaller values plus (group size + 1) / 2.
        n_smaller = np.flatnonzero(starts_group) - starts[nonzero_segment[starts_group]]
        average_rank = n_smaller + (np.bincount(self._tie_group) + 1) / 2
        self.counts = counts.astype(np.float64)
        self.ranks: FloatArray = np.zeros(len(values))
        self.ranks[self._order] = np.sign(values[self._order]) * average_rank[self._tie_group]

    def sum_above(self, weight: FloatArray) -> FloatArray:
        """Return, for each value, the total weight of all values with a larger magnitude.

        Only values in the same segment (for example, ratings of the same participant) are compared.
        Values of equal magnitude, including the value itself, count one half. With all weights
        equal to 1, the result is the rank in descending order of magnitude minus 1/2.

        Parameters
        ----------
        weight
            Weight of each value, shape (R,).

        Returns
        -------
        array
            Total weight for each value, shape (R,). 0 where the value itself is 0, because zeros
            are not ranked.
        """
        # Sort the weights by segment, and within a segment by the magnitude of the values, so that
        # values of equal magnitude (a tie group) are adjacent. `cumulative[k]` is the sum of the
        # first k sorted weights.
        sorted_weight = weight[self._order]
        cumulative = np.concatenate([[0.0], np.cumsum(sorted_weight)])
        # Larger values are between the end of the tie group and the end of the segment.
        tie_group_ends = np.cumsum(np.bincount(self._tie_group))
        larger_sum = cumulative[self._segment_end] - cumulative[tie_group_ends[self._tie_group]]
        tie_group_sums = np.bincount(self._tie_group, sorted_weight)
        # Undo the sorting. Tied values, including the value itself, count one half.
        sums: FloatArray = np.zeros(len(weight))
        sums[self._order] = larger_sum + tie_group_sums[self._tie_group] / 2
        return sums


def signed_ranks(values: ArrayLike) -> FloatArray:
    """Return the signed ranks of a vector, sign(x) times the average rank of the absolute value.

    Zeros have signed rank 0 and are not ranked (Golan et al. 2023, Eq. 8 and 9). Average ranks are
    the expectation over random tie-breaking.

    Parameters
    ----------
    values
        Vector without missing values, shape (n,).

    Returns
    -------
    array
        Signed ranks, shape (n,).

    Raises
    ------
    InputError
        If `values` is not a vector, or contains a missing value.

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
    """Compute the signed ranks of bootstrap samples, in which each value occurs several times.

    The copies of a value are tied, so they share their average rank. The copies are counted by
    weights instead of being written out.

    Parameters
    ----------
    values
        N vectors with k values each, shape (N, k).
    weights
        Number of copies of each value in each of B bootstrap samples, shape (B, k).

    Returns
    -------
    ranks : array
        Signed rank of each value, which all its copies share, shape (N, B, k).
    counts : array
        Number of non-zero values, copies included, shape (N, B).
    """
    ranks = np.zeros((len(values), *weights.shape))
    counts = np.zeros((len(values), len(weights)))
    for i, vector in enumerate(values):
        # Sort the non-zero values by magnitude.
        order = np.argsort(np.abs(vector), kind="stable")
        order = order[vector[order] != 0]
        if not len(order):
            continue
        # A tie group consists of all copies of values with the same magnitude.
        starts_group = np.diff(np.abs(vector[order]), prepend=-1.0) != 0
        # Number of copies of each value, then of each group, in each resample: (n_groups, B).
        group_size = weights.T[order]
        if not starts_group.all():
            group_size = np.add.reduceat(group_size, np.flatnonzero(starts_group))
        # Number of copies with at most the magnitude of the group, shape (n_groups, B).
        n_up_to_group = np.cumsum(group_size, axis=0)
        # The average rank of a group is the number of smaller values plus (group size + 1) / 2.
        average_rank = n_up_to_group - (group_size - 1) / 2
        group = np.cumsum(starts_group) - 1
        ranks[i, :, order] = average_rank[group] * np.sign(vector[order, None])
        counts[i] = n_up_to_group[-1]
    return ranks, counts


def signed_rank_cosine(x: ArrayLike, y: ArrayLike) -> float:
    """Return the signed-rank cosine similarity of two vectors.

    The similarity is the cosine between the signed ranks of the two vectors. If there are ties, it
    is the expectation over random tie-breaking:

        r(x) · r(y) / sqrt((1² + ... + n_x²) (1² + ... + n_y²)),

    where r are signed ranks with average ranks for ties and n_x and n_y are the numbers of non-zero
    entries (Golan et al. 2023, Eq. 10 and 11, doi 10.1038/s42256-023-00718-1). The similarity of a
    vector with itself is 1 without ties, and smaller with ties.

    Parameters
    ----------
    x, y
        Vectors over the same n trials, shape (n,).

    Returns
    -------
    float
        Similarity, -1 to 1.

    Raises
    ------
    InputError
        If the lengths differ, or a vector has only zeros.

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
    # A signed rank is sign(x) times the rank of |x|; zeros have the signed rank 0.
    n_first, n_second = np.count_nonzero(first), np.count_nonzero(second)
    if not n_first or not n_second:
        raise InputError("a vector that is zero on every trial has no signed-rank cosine")
    # Cosine with the norms of untied ranks: sqrt(1² + ... + n²) for n non-zero entries.
    return float(first @ second / np.sqrt(sum_of_squares(n_first) * sum_of_squares(n_second)))


def cosine_influence(human: SegmentRanks, model: SegmentRanks | FloatArray) -> FloatArray:
    """Return jackknife pseudo-values of the choices for each participant's signed-rank cosine.

    The signed-rank cosine of a participant measures how well a model predicts the ratings: it is
    the cosine v of the angle between the vectors of signed ranks of ratings, r, and of predictions,
    m. Standard errors need one number per choice, but v depends on all choices together. The
    number is a pseudo-value of the infinitesimal jackknife (Jaeckel 1972; Efron 1982, The
    jackknife, the bootstrap and other resampling plans, ch. 6). For choice c out of n it is

        v + n (v'_c - mean of v'),

    where a prime and the index c mark the derivative with respect to the weight of choice c. A
    choice of weight w is equivalent to w tied choices. With the dot product d = sum of r_c m_c and
    the product s of the squared norms of r and m, the cosine is v = d / sqrt(s), and

        v'_c = d'_c / sqrt(s) - v (log s)'_c / 2,
        d'_c = r_c m_c + (sum of sign(r_j) m_j) + (sum of sign(m_k) r_k).

    The first sum is over choices j with a larger absolute rating than c, and the second over
    choices k with a larger absolute prediction: if the weight of c increases by dw, their ranks
    increase by dw. Tied choices, including c, count one half. The squared norm of the ranks 1 to n
    is S(n) = 1² + ... + n².

    Parameters
    ----------
    human
        Signed ranks of the C ratings within participants.
    model
        Signed ranks of the predictions for the same C choices; or, as an array of shape (C,),
        predictions m that are used without ranking. They have the squared norm sum of m_c², and
        the second sum is then omitted.

    Returns
    -------
    array
        Pseudo-values, shape (C,). Their mean over the choices of a participant is v. NaN if v is
        not defined.
    """
    participant_index, n_participants = human.segment, len(human.counts)
    n_choices = np.bincount(participant_index, minlength=n_participants)
    # Signed ranks m_c of the predictions, or predictions that are used without ranking.
    prediction = model.ranks if isinstance(model, SegmentRanks) else model

    def sum_by_participant(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(participant_index, values, n_participants), dtype=np.float64)

    # Terms r_c m_c of the dot product of ratings and predictions.
    product = human.ranks * prediction
    # Names of derivatives with respect to the weight of a choice c end in `_slope`:
    # d'_c = r_c m_c + (sum of sign(r_j) m_j over larger ratings) + (likewise for predictions).
    dot_slope = product + human.sum_above(np.sign(human.ranks) * prediction)
    with np.errstate(invalid="ignore", divide="ignore"):
        # log s = log S(n_r) + log S(n_m). A choice with rank 0 does not change the norm.
        human_slope = log_sum_of_squares_slope(human.counts)[participant_index]
        log_norm_slope = human_slope * (human.ranks != 0)
        if isinstance(model, SegmentRanks):
            dot_slope += model.sum_above(np.sign(prediction) * human.ranks)
            model_norm = sum_of_squares(model.counts)
            model_slope = log_sum_of_squares_slope(model.counts)[participant_index]
            log_norm_slope += model_slope * (prediction != 0)
        else:
            model_norm = sum_by_participant(prediction**2)
            log_norm_slope += prediction**2 / model_norm[participant_index]
        # v = d / sqrt(s), and v'_c = d'_c / sqrt(s) - v (log s)'_c / 2.
        norm = np.sqrt(sum_of_squares(human.counts) * model_norm)
        cosine = (sum_by_participant(product) / norm)[participant_index]
        slope = dot_slope / norm[participant_index] - cosine * log_norm_slope / 2
    # Pseudo-value v + n (v'_c - mean of v').
    mean_slope = (sum_by_participant(slope) / n_choices)[participant_index]
    return np.asarray(cosine + n_choices[participant_index] * (slope - mean_slope))


def rank_biserial(differences: ArrayLike) -> float:
    """Return the matched-pairs rank-biserial correlation of paired differences.

    The absolute differences are ranked, zeros included. The correlation is (R_+ - R_-) / R, where
    R_+ is the sum of the ranks of positive differences, R_- the sum for negative differences, and R
    the sum of all ranks (Kerby 2014, doi 10.2466/11.IT.3.1). Differences are rounded to 12
    decimals, so that equal differences are ties in spite of rounding errors.

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
    rounded = np.round(np.asarray(differences, dtype=np.float64), DECIMALS)
    rounded = rounded[~np.isnan(rounded)]
    if not len(rounded):
        return float("nan")
    # (R_+ - R_-) / R, with the sums R of the ranks of absolute differences.
    ranks = rankdata(np.abs(rounded))
    return float((ranks * np.sign(rounded)).sum() / ranks.sum())
