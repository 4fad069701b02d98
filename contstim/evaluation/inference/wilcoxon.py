"""Wilcoxon's signed-rank test, exact with ties and zeros."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata, wilcoxon

from contstim.arrays import FloatArray
from contstim.errors import InputError, require_known
from contstim.evaluation.ceilings import DECIMALS
from contstim.evaluation.options import TEST_METHODS

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


def wilcoxon_signed_rank(differences: ArrayLike, method: str = "exact") -> SignedRankTest:
    """Test whether paired differences are symmetric about zero, two-sided.

    Differences are rounded to 12 decimals, so that equal ones tie. Ties have average ranks. Zeros
    are ranked, and half of their ranks count for either side (``zsplit`` of SciPy).

    Parameters
    ----------
    differences
        One number per unit (group or participant), without missing values.
    method
        ``exact``: the distribution over all changes of sign of the differences, up to 100 of them;
        the normal approximation of `scipy.stats.wilcoxon` beyond. ``scipy-1.7``: as SciPy 1.7 in
        the published analysis of Golan et al. (2023), the exact distribution of untied ranks up to
        25 differences if none is zero, and the normal approximation otherwise.

    Returns
    -------
    SignedRankTest
        With p = 1 and effect 0 if every difference is zero.

    Raises
    ------
    InputError
        If there is no difference, one is not finite, or the method is unknown.

    Source
    ------
    Wilcoxon (1945); Kerby (2014), doi 10.2466/11.IT.3.1, for the effect size.

    Examples
    --------
    >>> test = wilcoxon_signed_rank([0.11, 0.04, -0.02, 0.09, 0.07, 0.03])
    >>> round(test.p, 3)
    0.062
    """
    require_known("test method", method, TEST_METHODS)
    given = np.asarray(differences, dtype=np.float64)
    if given.ndim != 1 or not len(given):
        raise InputError("a signed-rank test needs a vector with at least one difference")
    if not np.isfinite(given).all():
        raise InputError("a signed-rank test needs finite differences")
    d = np.round(given, DECIMALS)
    n, n_zero = len(d), int((d == 0).sum())
    smallest = min(1.0, float(2.0 ** (1 - n)))
    if n_zero == n:
        return SignedRankTest(0.0, 1.0, 0.0, n, n_zero, smallest, "exact")
    ranks = np.asarray(rankdata(np.abs(d)), dtype=np.float64)
    plus, minus = float(ranks[d > 0].sum()), float(ranks[d < 0].sum())
    if method == "scipy-1.7":
        exact = n <= 25 and n_zero == 0
        used_ranks, statistic = np.arange(1.0, n + 1), float(int(plus))
    else:
        exact = n <= _MOST_EXACT
        used_ranks, statistic = ranks[d != 0], plus
    if exact:
        p = _exact_p(used_ranks, statistic)
    else:
        p = float(wilcoxon(d, zero_method="zsplit", method="approx").pvalue)
    return SignedRankTest(
        statistic=plus + float(ranks[d == 0].sum()) / 2,
        p=p,
        effect=(plus - minus) / float(ranks.sum()),
        n=n,
        n_zero=n_zero,
        p_smallest=smallest,
        method="exact" if exact else "asymptotic",
    )


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
