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

#: An estimate and the lower and upper limit of its 95 % confidence interval (NaN without one).
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
    """Estimate a mean over randomly sampled items with a confidence interval.

    The interval is a Student's t interval on Fisher's z scale, and therefore stays within the
    bounds of the values.

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
        Model's value minus the ceiling, and the limits of its 95 % confidence interval.
    ceiling
        Noise ceiling, and the limits of its 95 % confidence interval.
    chance
        Value of a model that guesses.

    Returns
    -------
    tuple
        Share and the limits of its interval. There is no interval if the ceiling's interval
        includes chance. Gap and ceiling are treated as independent estimates.

    Source
    ------
    Donner and Zou (2012), doi 10.1177/0962280210383082 (MOVER, method of variance estimates
    recovery, for a ratio): the limits are the shares at which the interval of
    gap - (share - 1) (ceiling - chance) reaches 0. With normal intervals this is Fieller's
    interval.
    """
    # The share is 1 + g / c, where g is the gap and c is the ceiling minus chance.
    g, g_low, g_high = gap
    c, c_low, c_high = (value - chance for value in ceiling)
    if not c > 0:
        return np.nan, np.nan, np.nan
    if np.isnan([g_low, g_high, c_low, c_high]).any() or c_low <= 0:
        return 1 + g / c, np.nan, np.nan

    def limit(g_margin: float, c_margin_above: float, c_margin_below: float, side: int) -> float:
        """Solve (g - ratio c)² = g_margin² + ratio² c_margin² for the ratio.

        The margin of c depends on the sign of the ratio, so both signs are tried.
        """
        for c_margin, sign in ((c_margin_above, 1), (c_margin_below, -1)):
            square = c**2 - c_margin**2
            discriminant = (g * c) ** 2 - square * (g**2 - g_margin**2)
            is_real = square > 0 <= discriminant
            ratio = (g * c + side * np.sqrt(discriminant)) / square if is_real else np.nan
            if ratio * sign >= 0:
                break
        return float(1 + ratio)

    low = limit(g - g_low, c_high - c, c - c_low, -1)
    high = limit(g_high - g, c - c_low, c_high - c, 1)
    return float(1 + g / c), low, high


def with_shares(results: pd.DataFrame) -> pd.DataFrame:
    """Add the position of each result between chance and the noise ceiling.

    The new columns are `share` and the limits of its interval, `share_low` and `share_high`; see
    `ceiling_share`.

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
    """Estimate the proportion of true values, with an interval for clustered data.

    Values of the same cluster may be dependent; the clusters are a random sample. `right` contains
    n values and `cluster` their cluster numbers from 0, both of shape (n,). The interval is a
    Student's t interval on Fisher's z scale.
    """
    value = float(right.mean())
    stderr, df = _clustered_error(right.astype(np.float64) - value, cluster)
    return value, *MeanEstimate(value, stderr, df).bounded_interval(0.5)


def clustered_correlation(x: FloatArray, y: FloatArray, cluster: IntArray) -> Estimate:
    """Estimate Pearson's correlation of n pairs of values, with an interval for clustered data.

    Pairs of the same cluster may be dependent; the clusters are a random sample. The interval is a
    Student's t interval on Fisher's z scale. The variance is computed from the influence of each
    pair on the correlation (Hampel et al. 1986), summed by cluster. Fewer than three clusters give
    no interval.

    Parameters
    ----------
    x, y
        Values, shape (n,).
    cluster
        Codes of the clusters from 0, shape (n,).
    """
    z_x, z_y = z_scores(x), z_scores(y)
    value = float((z_x * z_y).mean())
    # Influence function of the correlation r: z_x z_y - r (z_x² + z_y²) / 2.
    influence = z_x * z_y - value / 2 * (z_x**2 + z_y**2)
    stderr, df = _clustered_error(influence, cluster)
    return value, *MeanEstimate(value, stderr, df).bounded_interval(0.0)


def _clustered_error(influence: FloatArray, cluster: IntArray) -> tuple[float, int]:
    """Compute the cluster-robust standard error of an estimate and its degrees of freedom.

    `influence` is the influence of each of n observations on the estimate, with mean 0. With
    influences summed within C clusters, s_c, the standard error is sqrt(C / (C - 1) Σ s_c²) / n.
    Fewer than three clusters give NaN.
    """
    sums = np.bincount(cluster, influence)
    n_clusters = len(sums)
    if n_clusters < MIN_UNITS:
        return np.nan, 1
    sum_of_squares = n_clusters / (n_clusters - 1) * (sums**2).sum()
    return float(np.sqrt(sum_of_squares) / len(influence)), n_clusters - 1


def area_under_curve(labels: BoolArray, scores: FloatArray) -> Estimate:
    """Estimate the area under the ROC curve (AUC) with a confidence interval.

    The AUC is the proportion of pairs of an acceptable and an unacceptable sentence in which the
    acceptable one has the higher score. Ties count one half.

    Parameters
    ----------
    labels
        Whether each of S sentences is acceptable, shape (S,). There is no interval if fewer than
        three sentences are acceptable, or fewer than three are not.
    scores
        Scores of the sentences, shape (S,).

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
    # For each acceptable sentence, the proportion of unacceptable ones that it is ranked above;
    # for each unacceptable sentence, the proportion of acceptable ones.
    above = (ranks[labels] - rankdata(groups[0])) / sizes[1]
    below = (ranks[~labels] - rankdata(groups[1])) / sizes[0]
    value = float(above.mean())
    if min(sizes) < MIN_UNITS:
        return value, np.nan, np.nan
    # DeLong's variance: the sum of the variances of the two means.
    variance = sum(shares.var(ddof=1) / len(shares) for shares in (above, below))
    mean = MeanEstimate(value, float(np.sqrt(variance)), min(sizes) - 1)
    return value, *mean.bounded_interval(0.5)
