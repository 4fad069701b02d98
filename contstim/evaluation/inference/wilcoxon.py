"""Wilcoxon's signed-rank test, exact with ties and zeros."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm, rankdata

from contstim.arrays import FloatArray
from contstim.errors import InputError, require_known
from contstim.evaluation.ceilings import DECIMALS
from contstim.evaluation.options import TEST_METHODS

#: What becomes of differences that are zero.
ZERO_METHODS = ("zsplit", "pratt", "wilcox")

# Up to here the exact distribution takes milliseconds; beyond, the normal one is as good.
_MOST_EXACT = 100


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

    Examples
    --------
    >>> test = wilcoxon_signed_rank([0.11, 0.04, -0.02, 0.09, 0.07, 0.03])
    >>> round(test.p, 3)
    0.062
    """
    require_known("zero method", zero_method, ZERO_METHODS)
    require_known("test method", method, TEST_METHODS)
    given = np.asarray(differences, dtype=np.float64)
    if given.ndim != 1 or not len(given):
        raise InputError("a signed-rank test needs a vector with at least one difference")
    if not np.isfinite(given).all():
        raise InputError("a signed-rank test needs finite differences")
    d = np.round(given, DECIMALS)
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
