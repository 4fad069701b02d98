"""The Wilcoxon signed-rank test, exact with ties and zeros."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata, wilcoxon

from contstim.arrays import FloatArray
from contstim.errors import InputError, require_known
from contstim.evaluation.options import TEST_METHODS
from contstim.evaluation.ranks import DECIMALS, rank_biserial

# Largest number of differences for the exact distribution.
_MAX_EXACT = 100


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
        Matched-pairs rank-biserial correlation: sum of the ranks of positive minus negative
        differences, divided by the sum of all ranks, -1 to 1.
    p_smallest
        Smallest p-value of the exact test with n differences, 2 / 2^n.
    method
        Distribution that was used, ``exact`` or ``asymptotic``.
    """

    statistic: float
    p: float
    effect: float
    p_smallest: float
    method: str


def wilcoxon_signed_rank(differences: ArrayLike, method: str = "exact") -> SignedRankTest:
    """Test whether paired differences are symmetric about zero.

    Differences are rounded to 12 decimals, so that equal differences are ties in spite of rounding
    errors. Ties have average ranks. Zeros are ranked, and half of their ranks counts for each sign
    (``zsplit`` of SciPy).

    Parameters
    ----------
    differences
        One number per participant or group, without missing values, shape (n,).
    method
        ``exact``: distribution over all 2^n changes of sign, up to 100 differences, otherwise the
        normal approximation. ``scipy-1.7``: rule of SciPy 1.7, as in the analysis of Golan et al.
        (2023): exact distribution of untied ranks up to 25 differences without zeros, otherwise the
        normal approximation.

    Returns
    -------
    SignedRankTest
        p = 1 and effect = 0 if all differences are 0.

    Raises
    ------
    InputError
        If there is no difference, a difference is not finite, or the method is unknown.

    References
    ----------
    Wilcoxon (1945), doi 10.2307/3001968; Kerby (2014), doi 10.2466/11.IT.3.1, for the effect size.

    Examples
    --------
    >>> test = wilcoxon_signed_rank([0.11, 0.04, -0.02, 0.09, 0.07, 0.03])
    >>> round(test.p, 3)
    0.062
    """
    require_known("test method", method, TEST_METHODS)
    d = np.round(np.asarray(differences, dtype=np.float64), DECIMALS)
    if d.ndim != 1 or not len(d) or not np.isfinite(d).all():
        raise InputError("a signed-rank test needs a vector of finite differences, at least one")
    n, p_smallest = len(d), min(1.0, 2.0 ** (1 - len(d)))
    if not d.any():
        return SignedRankTest(0.0, 1.0, 0.0, p_smallest, "exact")
    ranks = np.asarray(rankdata(np.abs(d)), dtype=np.float64)
    sum_positive, sum_zero = float(ranks[d > 0].sum()), float(ranks[d == 0].sum())
    if method == "scipy-1.7":
        is_exact = n <= 25 and sum_zero == 0
        used_ranks, statistic = np.arange(1.0, n + 1), float(int(sum_positive))
    else:
        is_exact = n <= _MAX_EXACT
        used_ranks, statistic = ranks[d != 0], sum_positive
    if is_exact:
        p = _exact_p_value(used_ranks, statistic)
    else:
        p = float(wilcoxon(d, zero_method="zsplit", method="approx").pvalue)
    name = "exact" if is_exact else "asymptotic"
    return SignedRankTest(sum_positive + sum_zero / 2, p, rank_biserial(d), p_smallest, name)


def _exact_p_value(ranks: FloatArray, statistic: float) -> float:
    """Return the exact two-sided p-value of the Wilcoxon signed-rank test.

    Under the null hypothesis each rank is positive with probability 1/2. The distribution of the
    sum of positive ranks is built up rank by rank. The p-value is twice the smaller tail
    probability, at most 1.
    """
    # Element s is the probability of the sum s / 2, since average ranks can be multiples of 1/2.
    probability = np.ones(1)
    for rank in np.round(2 * ranks).astype(np.int64):
        # A negative rank leaves the sum unchanged, a positive rank shifts it.
        sums = np.zeros(len(probability) + rank)
        sums[: len(probability)] += probability / 2
        sums[rank:] += probability / 2
        probability = sums
    observed = round(2 * statistic)
    lower, upper = probability[: observed + 1].sum(), probability[observed:].sum()
    return min(1.0, 2 * float(min(lower, upper)))
