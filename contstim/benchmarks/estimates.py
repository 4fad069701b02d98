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


def estimate_mean(values: FloatArray, chance: float) -> Estimate:
    """Estimate a mean over items, which are a random sample, with a 95 % confidence interval.

    The interval is a Student's t interval on Fisher's z scale, and therefore stays within the
    bounds of the values.

    Parameters
    ----------
    values
        One value per item, at most 1. Missing values are ignored. Fewer than three values give no
        interval.
    chance
        Value of a model that guesses.

    Returns
    -------
    tuple
        Mean, and the limits of the interval.
    """
    values = values[~np.isnan(values)]
    n = len(values)
    if not n:
        return np.nan, np.nan, np.nan
    mean = float(values.mean())
    if n < MIN_UNITS:
        return mean, np.nan, np.nan
    # The interval is Student's t interval with n - 1 degrees of freedom, within the bounds of the
    # values.
    stderr = float(values.std(ddof=1) / np.sqrt(n))
    low, high = MeanEstimate(mean, stderr, n - 1).bounded_interval(chance)
    return mean, low, high


def ceiling_share(value_minus_ceiling: Estimate, ceiling: Estimate, chance: float) -> Estimate:
    """Return a model's position between chance (0) and the noise ceiling (1).

    Parameters
    ----------
    value_minus_ceiling
        Model's value minus the ceiling, and the limits of its 95 % confidence interval.
    ceiling
        Noise ceiling, and the limits of its 95 % confidence interval.
    chance
        Value of a model that guesses.

    Returns
    -------
    tuple
        Share and the limits of its interval. There is no interval if the ceiling's interval
        includes chance. The two arguments are treated as independent estimates.

    Source
    ------
    Donner and Zou (2012), doi 10.1177/0962280210383082 (MOVER, method of variance estimates
    recovery, for a ratio): the limits are the shares at which the interval of
    (value - ceiling) - (share - 1) (ceiling - chance) reaches 0. With normal intervals this is
    Fieller's interval.
    """
    g, g_low, g_high = value_minus_ceiling
    c, c_low, c_high = (value - chance for value in ceiling)
    # With the gap g = value - ceiling and c = ceiling - chance, the model's share of the ceiling is
    # (value - chance) / (ceiling - chance) = 1 + g / c. It is undefined unless c is positive.
    if not c > 0:
        return np.nan, np.nan, np.nan
    if np.isnan([g_low, g_high, c_low, c_high]).any() or c_low <= 0:
        return 1 + g / c, np.nan, np.nan

    # Limits of the ratio g / c (MOVER, Donner and Zou 2012). A margin is the distance from an
    # estimate to a limit of its interval. Which margin of c applies depends on the sign of the
    # ratio: assume a positive ratio first, and use the other margin if the result is not positive.
    c_margin_below, c_margin_above = c - c_low, c_high - c
    low = _solve_ratio_limit(g, c, g - g_low, c_margin_above, -1)
    if not low >= 0:
        low = _solve_ratio_limit(g, c, g - g_low, c_margin_below, -1)
    high = _solve_ratio_limit(g, c, g_high - g, c_margin_below, 1)
    if not high >= 0:
        high = _solve_ratio_limit(g, c, g_high - g, c_margin_above, 1)
    return float(1 + g / c), 1 + low, 1 + high


def _solve_ratio_limit(g: float, c: float, g_margin: float, c_margin: float, sign: int) -> float:
    """Return a confidence limit of the ratio g / c of two independent estimates.

    The limit is a solution x of (g - x c)² = g_margin² + x² c_margin².

    Parameters
    ----------
    g, c
        Estimates.
    g_margin, c_margin
        Distance from each estimate to a limit of its own confidence interval.
    sign
        -1 for the lower limit, 1 for the upper limit.

    Returns
    -------
    float
        The limit; NaN if the equation has no solution, or if c_margin >= abs(c).
    """
    # Solve the quadratic equation (c² - c_margin²) x² - 2 g c x + g² - g_margin² = 0.
    square = c**2 - c_margin**2
    discriminant = (g * c) ** 2 - square * (g**2 - g_margin**2)
    if square <= 0 or discriminant < 0:
        return np.nan
    return float((g * c + sign * np.sqrt(discriminant)) / square)


def add_ceiling_shares(results: pd.DataFrame) -> pd.DataFrame:
    """Add the fraction of the noise ceiling that each model reaches to a table of results.

    The fraction is 0 at chance and 1 at the noise ceiling, see `ceiling_share`. It is added as the
    column `share`, with the limits of its confidence interval, `share_low` and `share_high`.

    Parameters
    ----------
    results
        Table with one row per model and measure. It contains the columns `value`, `chance`,
        `ceiling_lower` (the noise ceiling), `ceiling_lower_ci_low` and `ceiling_lower_ci_high`, and
        the limits of the interval of value minus ceiling, `gap_ci_low` and `gap_ci_high`.
    """
    gap_columns = ["gap_ci_low", "gap_ci_high"]
    ceiling_columns = ["ceiling_lower", "ceiling_lower_ci_low", "ceiling_lower_ci_high"]
    numbers = results[["value", "chance", *gap_columns, *ceiling_columns]].astype(float)
    # The share of the noise ceiling that a model reaches is (value - chance) / (ceiling - chance).
    # Its interval is computed from the intervals (ci_low to ci_high) of the ceiling and of the gap,
    # which is value minus ceiling.
    shares = []
    for row in numbers.to_dict("records"):
        gap = (row["value"] - row["ceiling_lower"], row["gap_ci_low"], row["gap_ci_high"])
        ceiling = (row["ceiling_lower"], row["ceiling_lower_ci_low"], row["ceiling_lower_ci_high"])
        shares.append(ceiling_share(gap, ceiling, row["chance"]))
    columns = ["share", "share_low", "share_high"]
    return results.join(pd.DataFrame(shares, index=results.index, columns=columns))


def clustered_proportion(is_true: BoolArray, cluster: IntArray) -> Estimate:
    """Estimate the proportion of true values, with a 95 % interval for clustered data.

    Values of the same cluster may be dependent; the clusters are a random sample. The interval is a
    Student's t interval on Fisher's z scale, with a cluster-robust standard error.

    Parameters
    ----------
    is_true
        Values, shape (n,).
    cluster
        Index of the cluster of each value, from 0, shape (n,).

    Returns
    -------
    tuple
        Proportion, and the limits of the interval.
    """
    value = float(is_true.mean())
    stderr, df = _clustered_error(is_true.astype(np.float64) - value, cluster)
    low, high = MeanEstimate(value, stderr, df).bounded_interval(0.5)
    return value, low, high


def clustered_correlation(x: FloatArray, y: FloatArray, cluster: IntArray) -> Estimate:
    """Estimate Pearson's correlation of n pairs of values, with an interval for clustered data.

    Pairs of the same cluster may be dependent; the clusters are a random sample. The interval is a
    Student's t interval on Fisher's z scale. The variance is computed from the influence of each
    pair on the correlation r, z_x z_y - r (z_x² + z_y²) / 2 (Hampel et al. 1986), summed by
    cluster. Here z_x and z_y are the z-scores of the values. Fewer than three clusters give no
    interval.

    Parameters
    ----------
    x, y
        Values, shape (n,).
    cluster
        Index of the cluster of each pair, from 0, shape (n,).

    Returns
    -------
    tuple
        Correlation, and the limits of its 95 % confidence interval.
    """
    z_x, z_y = z_scores(x), z_scores(y)
    value = float((z_x * z_y).mean())
    influence = z_x * z_y - value / 2 * (z_x**2 + z_y**2)
    stderr, df = _clustered_error(influence, cluster)
    low, high = MeanEstimate(value, stderr, df).bounded_interval(0.0)
    return value, low, high


def _clustered_error(influence: FloatArray, cluster: IntArray) -> tuple[float, int]:
    """Compute the cluster-robust standard error of an estimate and its degrees of freedom.

    The standard error is sqrt(C / (C - 1) Σ_c s_c²) / n, where n is the number of observations, C
    the number of clusters, and s_c the sum of the influences of the observations in cluster c.

    Parameters
    ----------
    influence
        Influence of each observation on the estimate, with mean 0, shape (n,).
    cluster
        Index of the cluster of each observation, from 0, shape (n,).

    Returns
    -------
    stderr : float
        Standard error; NaN if there are fewer than three clusters.
    df : int
        Degrees of freedom, C - 1.
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
    n_acceptable = int(labels.sum())
    n_unacceptable = len(labels) - n_acceptable
    n_smaller = min(n_acceptable, n_unacceptable)
    # The AUC compares each acceptable with each unacceptable sentence.
    if n_smaller == 0:
        return np.nan, np.nan, np.nan
    # The rank of a sentence among all sentences minus its rank within its group is the number of
    # sentences of the other group with a lower score. Ties count one half, by average ranks.
    ranks = rankdata(scores)
    lower_unacceptable = (ranks[labels] - rankdata(scores[labels])) / n_unacceptable
    lower_acceptable = (ranks[~labels] - rankdata(scores[~labels])) / n_acceptable
    area = float(lower_unacceptable.mean())
    if n_smaller < MIN_UNITS:
        return area, np.nan, np.nan
    # DeLong's variance: both sets of proportions have the mean AUC; add the variances of the means.
    variance = lower_unacceptable.var(ddof=1) / n_acceptable
    variance += lower_acceptable.var(ddof=1) / n_unacceptable
    estimate = MeanEstimate(area, float(np.sqrt(variance)), n_smaller - 1)
    low, high = estimate.bounded_interval(0.5)
    return area, low, high


def best_threshold(labels: ArrayLike, scores: FloatArray) -> float:
    """Return the threshold of scores that maximises the Matthews correlation with labels.

    Candidates are the midpoints between adjacent scores. The lowest of several best thresholds is
    returned.

    Parameters
    ----------
    labels
        1 for acceptable and 0 for unacceptable sentences, shape (S,).
    scores
        Scores, shape (S,). Sentences with scores above the threshold are predicted to be
        acceptable.

    Raises
    ------
    InputError
        If all labels are equal.

    Examples
    --------
    >>> best_threshold([0, 1, 0, 1], np.array([-9.0, -7.0, -8.0, -5.0]))
    -7.5
    """
    truth = np.asarray(labels) > 0
    if truth.all() or not truth.any():
        raise InputError("a threshold needs acceptable and unacceptable sentences")
    order = np.argsort(scores, kind="stable")
    sorted_truth, sorted_scores = truth[order], scores[order]
    n, n_true = len(truth), int(truth.sum())
    # For a threshold after each score: number of sentences above it, and of acceptable ones.
    n_above = n - np.arange(1, n + 1)
    n_true_above = n_true - np.cumsum(sorted_truth)
    # Matthews correlation of two binary variables with these counts.
    denominator = np.sqrt(n_above * (n - n_above) * float(n_true) * float(n - n_true))
    with np.errstate(invalid="ignore", divide="ignore"):
        mcc = (n * n_true_above - n_above * n_true) / denominator
    # Equal scores cannot be separated, and no sentence is above the last threshold. Thresholds
    # with an undefined correlation are not chosen either.
    mcc[np.append(sorted_scores[1:] == sorted_scores[:-1], True)] = -np.inf
    mcc[np.isnan(mcc)] = -np.inf
    best = int(np.argmax(mcc))
    # The threshold is the midpoint between the best score and the next higher one.
    if best + 1 == n:
        return float(sorted_scores[-1])
    return float((sorted_scores[best] + sorted_scores[best + 1]) / 2)


def acceptability_delta_criterion(human: ArrayLike, model: ArrayLike, delta: float) -> BoolArray:
    """Test the Acceptability Delta Criterion for P sentence pairs.

    The *delta* of a pair is the difference between its sentences in acceptability. A pair satisfies
    the criterion if the model's delta has the same sign as the human delta, and the two differ by
    less than `delta`.

    Parameters
    ----------
    human, model : (P,) arrays
        Human deltas and model deltas, in standard deviations.
    delta
        Limit of the difference, which is not included. With infinity, only signs are compared.

    Returns
    -------
    (P,) array of bool
        Whether each pair satisfies the criterion.

    Raises
    ------
    InputError
        If `delta` is not positive.

    Source
    ------
    Vazquez Martinez (2021), Eq. 1.1 and 1.2.
    """
    if not delta > 0:
        raise InputError(f"delta must be positive, not {delta}")
    human, model = (np.asarray(deltas, dtype=np.float64) for deltas in (human, model))
    return np.asarray((np.sign(human) == np.sign(model)) & (np.abs(human - model) < delta))


def result_row(analysis: str, measure: str, estimate: Estimate, n_items: int) -> dict[str, object]:
    """Return one row of the table of benchmark results.

    Parameters
    ----------
    analysis
        Name of the evaluated part of the items; ``all`` for all items.
    measure
        Name of the criterion, such as ``mcc``.
    estimate
        Value of a model and the limits of its 95 % confidence interval.
    n_items
        Number of evaluated items.
    """
    value, low, high = estimate
    # An estimate consists of a value and the limits of its 95 % confidence interval.
    return {
        "analysis": analysis,
        "measure": measure,
        "value": value,
        "ci_low": low,
        "ci_high": high,
        "n_items": n_items,
    }
