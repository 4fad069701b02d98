"""Numbers of benchmarks: estimates with 95 % intervals, and shares of the noise ceiling."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.benchmarks.suites import z_scores
from contstim.sampling import FEWEST, SampledMean

#: An estimate and the ends of its 95 % interval, which may be missing.
Estimate = tuple[float, float, float]


def mean_over_items(values: FloatArray, chance: float, top: float = 1.0) -> Estimate:
    """Return the mean over items that are a sample, and the ends of its 95 % interval.

    Parameters
    ----------
    values
        Of n items; missing ones do not count. Fewer than three give no interval.
    chance, top
        What guessing gives, and the highest value: the interval is Student's on Fisher's scale.
    """
    there = values[~np.isnan(values)]
    n = len(there)
    if not n:
        return np.nan, np.nan, np.nan
    low = high = np.nan
    if n >= FEWEST:
        mean = SampledMean(float(there.mean()), float(there.std(ddof=1) / np.sqrt(n)), n - 1)
        low, high = mean.bounded_interval(chance, top=top)
    return float(there.mean()), low, high


def ceiling_share(gap: Estimate, ceiling: Estimate, chance: float) -> Estimate:
    """Return which share of the way from chance to the noise ceiling a model goes.

    Parameters
    ----------
    gap
        The model's value minus the ceiling, with the ends of its 95 % interval, which may be
        missing.
    ceiling
        The ceiling, likewise.
    chance
        What guessing gives.

    Returns
    -------
    tuple
        The share and the ends of its interval, missing where that has no end: where the ceiling's
        interval reaches chance. Both intervals are combined as of independent estimates.

    Source
    ------
    Donner and Zou (2012), doi 10.1177/0962280210383082 (MOVER, for a ratio): the ends are the
    shares at which the interval of gap - (share - 1) (ceiling - chance) just reaches 0. With normal
    intervals it is Fieller's interval.
    """
    (g, g_low, g_high), (c, c_low, c_high) = gap, (end - chance for end in ceiling)
    if not c > 0:
        return np.nan, np.nan, np.nan
    if np.isnan([g_low, g_high, c_low, c_high]).any() or c_low <= 0:
        return 1 + g / c, np.nan, np.nan

    def end(reach: float, if_more: float, if_less: float, side: int) -> float:
        for c_reach, sign in ((if_more, 1), (if_less, -1)):
            square = c**2 - c_reach**2
            root = (g * c) ** 2 - square * (g**2 - reach**2)
            ratio = (g * c + side * np.sqrt(root)) / square if square > 0 <= root else np.nan
            if ratio * sign >= 0:
                break
        return float(1 + ratio)

    low = end(g - g_low, c_high - c, c - c_low, -1)
    high = end(g_high - g, c - c_low, c_high - c, 1)
    return float(1 + g / c), low, high


def with_shares(results: pd.DataFrame) -> pd.DataFrame:
    """Return results with the shares of the ceiling.

    Parameters
    ----------
    results
        With `value` and `ceiling_lower`, `gap_ci_low` and `gap_ci_high`, `ceiling_lower_ci_low` and
        `ceiling_lower_ci_high`, and `chance`, what guessing gives.
    """
    columns = ["value", "gap_ci_low", "gap_ci_high", "chance"]
    columns += ["ceiling_lower", "ceiling_lower_ci_low", "ceiling_lower_ci_high"]
    shares = []
    for row in results[columns].to_numpy(dtype=float).tolist():
        value, low, high, chance, ceiling, *ends = row
        shares.append(ceiling_share((value - ceiling, low, high), (ceiling, *ends), chance))
    names = ("share", "share_low", "share_high")
    return results.assign(**dict(zip(names, np.array(shares).reshape(-1, 3).T, strict=True)))


def clustered_share(right: BoolArray, cluster: IntArray) -> Estimate:
    """Return the share of what is right, its sample being clusters; see `clustered_correlation`."""
    value = float(right.mean())
    stderr, df = _clustered(right.astype(np.float64) - value, cluster)
    return value, *SampledMean(value, stderr, df).bounded_interval(0.5)


def clustered_correlation(x: FloatArray, y: FloatArray, cluster: IntArray) -> Estimate:
    """Return Pearson's correlation of n pairs of values that are in clusters, which are a sample.

    Parameters
    ----------
    x, y
        Shape (n,).
    cluster
        A code for each pair, from 0, shape (n,). Fewer than three clusters give no interval.

    Notes
    -----
    The interval is Student's on Fisher's scale, linearised: with the influence of a pair of values
    on a correlation (Hampel et al. 1986), and the variance of its sums by cluster.
    """
    first, second = z_scores(x), z_scores(y)
    value = float((first * second).mean())
    stderr, df = _clustered(first * second - value / 2 * (first**2 + second**2), cluster)
    return value, *SampledMean(value, stderr, df).bounded_interval(0.0)


def _clustered(influence: FloatArray, cluster: IntArray) -> tuple[float, int]:
    """Return the standard error of a mean from each value's deviation, and degrees of freedom."""
    sums = np.bincount(cluster, influence)
    n = len(sums)
    if n < FEWEST:
        return np.nan, 1
    return float(np.sqrt(n / (n - 1) * (sums**2).sum()) / len(influence)), n - 1


def area_under_curve(labels: BoolArray, scores: FloatArray) -> Estimate:
    """Return the share of (acceptable, unacceptable) sentences in the right order; ties are half.

    Parameters
    ----------
    labels, scores
        Of S sentences; fewer than three of a label give no interval.

    Source
    ------
    DeLong, DeLong and Clarke-Pearson (1988), doi 10.2307/2531595, with Student's interval on
    Fisher's scale.
    """
    groups = scores[labels], scores[~labels]
    ranks = rankdata(scores)
    sizes = [len(group) for group in groups]
    if not all(sizes):
        return np.nan, np.nan, np.nan
    # Of each sentence the share of those of the other label that score below it.
    above = (ranks[labels] - rankdata(groups[0])) / sizes[1]
    below = (ranks[~labels] - rankdata(groups[1])) / sizes[0]
    value = float(above.mean())
    if min(sizes) < FEWEST:
        return value, np.nan, np.nan
    variance = sum(part.var(ddof=1) / len(part) for part in (above, below))
    mean = SampledMean(value, float(np.sqrt(variance)), min(sizes) - 1)
    return value, *mean.bounded_interval(0.5)
