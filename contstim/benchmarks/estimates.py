"""Estimates of benchmarks with 95 % intervals, and the share of the noise ceiling."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.evaluation.inference.estimate import MeanEstimate
from contstim.evaluation.inference.quasi_f import MIN_UNITS

#: An estimate and the ends of its 95 % interval (NaN if it has none).
Estimate = tuple[float, float, float]


def z_scores(values: ArrayLike) -> FloatArray:
    """Return values minus their mean, divided by their (population) standard deviation.

    Missing values stay missing and are ignored.

    Raises
    ------
    InputError
        If all values are equal.
    """
    values = np.asarray(values, dtype=np.float64)
    finite = values[~np.isnan(values)]
    if len(finite) < 2 or np.ptp(finite) == 0:
        raise InputError("z-scores need at least two different values")
    return np.asarray((values - finite.mean()) / finite.std())


def mean_over_items(values: FloatArray, chance: float) -> Estimate:
    """Return the mean over randomly sampled items, with Student's interval on Fisher's scale.

    Parameters
    ----------
    values
        One value per item, at most 1. Missing values are ignored. Fewer than three values give no
        interval.
    chance
        Value of a model that guesses.
    """
    values = values[~np.isnan(values)]
    n = len(values)
    if not n:
        return np.nan, np.nan, np.nan
    if n < MIN_UNITS:
        return float(values.mean()), np.nan, np.nan
    mean = MeanEstimate(float(values.mean()), float(values.std(ddof=1) / np.sqrt(n)), n - 1)
    return float(values.mean()), *mean.bounded_interval(chance)


def ceiling_share(gap: Estimate, ceiling: Estimate, chance: float) -> Estimate:
    """Return a model's position between chance (0) and the noise ceiling (1).

    Parameters
    ----------
    gap
        The model's value minus the ceiling, with the ends of its 95 % interval.
    ceiling
        The noise ceiling, with the ends of its 95 % interval.
    chance
        Value of a model that guesses.

    Returns
    -------
    tuple
        The share and the ends of its interval. There is no interval if the ceiling's interval
        includes chance. The two intervals are combined as those of independent estimates.

    Source
    ------
    Donner and Zou (2012), doi 10.1177/0962280210383082 (MOVER for a ratio): the ends are the
    shares at which the interval of gap - (share - 1) (ceiling - chance) reaches 0. With normal
    intervals this is Fieller's interval.
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
    """Return results with the columns `share`, `share_low` and `share_high`.

    Parameters
    ----------
    results
        Table with `value`, `chance`, `gap_ci_low`, `gap_ci_high`, `ceiling_lower`,
        `ceiling_lower_ci_low` and `ceiling_lower_ci_high`.
    """
    columns = ["value", "gap_ci_low", "gap_ci_high", "chance"]
    columns += ["ceiling_lower", "ceiling_lower_ci_low", "ceiling_lower_ci_high"]
    shares = []
    for row in results[columns].to_numpy(dtype=float).tolist():
        value, low, high, chance, ceiling, ceiling_low, ceiling_high = row
        gap = value - ceiling, low, high
        shares.append(ceiling_share(gap, (ceiling, ceiling_low, ceiling_high), chance))
    names = ("share", "share_low", "share_high")
    return results.assign(**dict(zip(names, np.array(shares).reshape(-1, 3).T, strict=True)))


def clustered_proportion(right: BoolArray, cluster: IntArray) -> Estimate:
    """Return the share of true values, for randomly sampled clusters of values."""
    value = float(right.mean())
    stderr, df = _clustered_error(right.astype(np.float64) - value, cluster)
    return value, *MeanEstimate(value, stderr, df).bounded_interval(0.5)


def clustered_correlation(x: FloatArray, y: FloatArray, cluster: IntArray) -> Estimate:
    """Return Pearson's correlation of n pairs of values, for randomly sampled clusters of pairs.

    The interval is a Student's t interval on Fisher's z scale. The variance is computed from the
    influence of each pair on the correlation (Hampel et al. 1986), summed by cluster. Fewer than
    three clusters give no interval.

    Parameters
    ----------
    x, y
        Values, shape (n,).
    cluster
        Codes of the clusters from 0, shape (n,).
    """
    first, second = z_scores(x), z_scores(y)
    value = float((first * second).mean())
    stderr, df = _clustered_error(first * second - value / 2 * (first**2 + second**2), cluster)
    return value, *MeanEstimate(value, stderr, df).bounded_interval(0.0)


def _clustered_error(influence: FloatArray, cluster: IntArray) -> tuple[float, int]:
    """Return the standard error of the mean influence, and its degrees of freedom."""
    sums = np.bincount(cluster, influence)
    n = len(sums)
    if n < MIN_UNITS:
        return np.nan, 1
    return float(np.sqrt(n / (n - 1) * (sums**2).sum()) / len(influence)), n - 1


def area_under_curve(labels: BoolArray, scores: FloatArray) -> Estimate:
    """Return the share of (acceptable, unacceptable) sentences in the right order; ties are half.

    Parameters
    ----------
    labels, scores
        Labels and scores of S sentences. Fewer than three sentences with a label give no interval.

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
    # For each sentence, the share of the sentences with the other label that it is ranked above.
    above = (ranks[labels] - rankdata(groups[0])) / sizes[1]
    below = (ranks[~labels] - rankdata(groups[1])) / sizes[0]
    value = float(above.mean())
    if min(sizes) < MIN_UNITS:
        return value, np.nan, np.nan
    variance = sum(part.var(ddof=1) / len(part) for part in (above, below))
    mean = MeanEstimate(value, float(np.sqrt(variance)), min(sizes) - 1)
    return value, *mean.bounded_interval(0.5)
