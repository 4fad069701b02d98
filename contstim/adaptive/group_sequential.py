"""Group-sequential tests: stopping boundaries at prespecified interim analyses.

A study that is tested at several interim analyses has a higher type-I error rate than one that is
tested once. An alpha-spending function distributes the error over the analyses (Lan and DeMets
1983, doi 10.1093/biomet/70.3.659). The z statistics Z_k at the analyses are jointly normal, and
the score Z_k sqrt(I_k) has independent increments, where I_k is the information (inverse variance)
at analysis k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from contstim.arrays import FloatArray

#: Largest finite boundary, in standard errors.
_MAX_BOUNDARY = 12.0
#: Smallest increase in information between two analyses, relative to the information so far.
_MIN_INCREASE = 1e-3
#: Number of quadrature nodes per standard deviation of the increment of the score, and its limits.
_NODES_PER_SD = 6.0
_MIN_NODES, _MAX_NODES = 24, 1500


def _obrien_fleming(alpha: float, fraction: FloatArray) -> FloatArray:
    """Return 2 Φ(Φ⁻¹(alpha / 2) / sqrt(fraction)), with the normal distribution function Φ."""
    return np.asarray(2 * ndtr(ndtri(alpha / 2) / np.sqrt(fraction)))


def _pocock(alpha: float, fraction: FloatArray) -> FloatArray:
    """Return alpha log(1 + (e - 1) fraction)."""
    return np.asarray(alpha * np.log1p((np.e - 1) * fraction))


#: One-sided alpha-spending functions of the fraction of participants by name (Lan and DeMets 1983):
#: O'Brien-Fleming spends most of the error at the last analyses, Pocock nearly equal parts.
SPENDING: dict[str, Callable[[float, FloatArray], FloatArray]] = {
    "obrien-fleming": _obrien_fleming,
    "pocock": _pocock,
}


def alpha_spent(analyses: Sequence[int], alpha: float, spending: str) -> FloatArray:
    """Return the cumulative type-I error that is allowed up to each interim analysis.

    An alpha-spending function distributes the error of a group-sequential study over its analyses
    (Lan and DeMets 1983). Both tails have equal error rates, so the one-sided function is applied
    to alpha / 2 and doubled.

    Parameters
    ----------
    analyses
        Numbers of participants at the K analyses, ascending.
    alpha
        Two-sided type-I error rate of all analyses together.
    spending
        Name of the spending function, ``obrien-fleming`` or ``pocock``.

    Returns
    -------
    array
        Cumulative type-I error, shape (K,). The last value is `alpha`.

    Examples
    --------
    >>> alpha_spent([10, 20, 30], 0.05, "pocock").round(4)
    array([0.0226, 0.0382, 0.05  ])
    """
    n_participants = np.asarray(analyses, dtype=np.float64)
    return 2 * SPENDING[spending](alpha / 2, n_participants / n_participants[-1])


@lru_cache(maxsize=4096)
def interim_boundaries(
    analyses: tuple[int, ...],
    cumulative_alpha: tuple[float, ...],
    item_variance_shares: tuple[float, ...],
) -> tuple[float, ...]:
    """Return the stopping boundary of each interim analysis that has been carried out.

    A group-sequential study is tested at K planned interim analyses, k of which have been carried
    out. It stops at analysis k if the absolute z statistic exceeds the boundary. The boundary is
    chosen so that the type-I error up to analysis k equals the error that the plan allows.

    The boundary depends on the information at each analysis, that is, on the inverse of the
    variance of the estimate. All participants judge the same items. After n_j participants the
    variance is therefore v_items + v_participants / n_j: more participants do not reduce the part
    that is due to items. With s, the share of this part in the variance at analysis k, the
    information at analysis j relative to analysis k is

        I_j = 1 / (s + (1 - s) n_k / n_j).

    Parameters
    ----------
    analyses
        Numbers of participants at all K planned analyses, ascending, for example (20, 40, 60).
    cumulative_alpha
        Cumulative two-sided type-I error that is allowed up to each of the K analyses.
    item_variance_shares
        Share s of the variance that is due to items, from 0 to 1, as estimated at each of the k
        analyses so far.

    Returns
    -------
    tuple of float
        Boundaries of the k analyses so far, in standard errors.

    Examples
    --------
    >>> cumulative_alpha = alpha_spent([10, 20, 30], 0.05, "obrien-fleming")
    >>> boundaries = interim_boundaries((10, 20, 30), tuple(cumulative_alpha), (0.0, 0.0, 0.0))
    >>> [round(boundary, 3) for boundary in boundaries]
    [3.71, 2.511, 1.993]
    """
    k = len(item_variance_shares)
    if k == 0:
        return ()
    # Later estimates of the share do not change the boundaries of the first k - 1 analyses, so they
    # are computed recursively and cached.
    previous = interim_boundaries(analyses, cumulative_alpha, item_variance_shares[:-1])
    # Information (inverse variance) at analyses j = 1, ..., k relative to analysis k. The variance
    # due to participants decreases with their number n_j. The share s of the variance that is due
    # to items does not decrease: I_j = 1 / (s + (1 - s) n_k / n_j).
    n_participants = np.asarray(analyses[:k], dtype=np.float64)
    s = item_variance_shares[-1]
    information = 1.0 / (s + (1.0 - s) * n_participants[-1] / n_participants)
    return (*previous, next_boundary(information, previous, cumulative_alpha[k - 1]))


def next_boundary(
    information: FloatArray, boundaries: Sequence[float], cumulative_alpha: float
) -> float:
    """Return the two-sided stopping boundary of the last of K analyses.

    Under the null hypothesis, the boundary b is the solution of the equation

        P(study stopped earlier, or Z_K outside ±b) = cumulative_alpha,

    where Z_K is the z statistic. The *score* S_k = Z_k sqrt(I_k), with the information I_k, is a
    random walk: it starts at 0, and its steps are independent N(0, I_k - I_(k-1)) variables. The
    probability density of S_k in studies that have not stopped is computed from one analysis to the
    next by Gauss-Legendre quadrature (Armitage, McPherson and Rowe 1969, doi 10.2307/2343787).

    Parameters
    ----------
    information
        Information at the K analyses in any unit, ascending, shape (K,).
    boundaries
        Boundaries of the first K - 1 analyses, in standard errors.
    cumulative_alpha
        Type-I error that is allowed up to analysis K, both tails together.

    Returns
    -------
    float
        Boundary in standard errors; infinite if earlier analyses have used up the allowed error.
    """
    step_variances = np.maximum(np.diff(information, prepend=0.0), _MIN_INCREASE * information)
    # The information I_k is the inverse of the variance of the estimate at analysis k. Under the
    # null hypothesis, the score S_k = Z_k sqrt(I_k), with the z statistic Z_k, is a random walk
    # over the analyses. Its steps are independent N(0, I_k - I_(k-1)) variables.
    # The study stops at analysis k if |Z_k| > boundary, that is, if |S_k| > boundary sqrt(I_k).
    score_per_z = np.sqrt(information)
    # Before the first analysis, the score is 0 with probability 1.
    scores, weights = np.zeros(1), np.ones(1)
    # For each earlier analysis, subtract the probability that the study stops there from the
    # allowed type-I error. Then compute the distribution of the score in studies that continue.
    remaining_alpha = cumulative_alpha
    for k, boundary in enumerate(boundaries):
        max_score = min(boundary, _MAX_BOUNDARY) * float(score_per_z[k])
        remaining_alpha -= _crossing_probability(scores, weights, step_variances[k], max_score)
        scores, weights = _advance_random_walk(scores, weights, step_variances[k], max_score)

    # Probability of stopping at the last analysis, minus the type-I error that remains for it.
    def excess_error(boundary: float) -> float:
        max_score = boundary * float(score_per_z[-1])
        stopping = _crossing_probability(scores, weights, step_variances[-1], max_score)
        return stopping - remaining_alpha

    # If the earlier analyses have used up the allowed error, no z statistic may stop the study.
    if remaining_alpha <= 0 or excess_error(_MAX_BOUNDARY) >= 0:
        return float(np.inf)
    if excess_error(0.0) <= 0:
        return 0.0
    # Otherwise find the boundary at which the study stops with exactly the remaining probability.
    return float(brentq(excess_error, 0.0, _MAX_BOUNDARY, xtol=1e-10))


def _crossing_probability(
    scores: FloatArray, weights: FloatArray, step_variance: float, limit: float
) -> float:
    """Return the probability that the next step of a random walk ends outside ±limit.

    Parameters
    ----------
    scores, weights
        Possible current values of the random walk and their probabilities, shape (n,).
    step_variance
        Variance of the next step, which is normal with mean 0.
    limit
        Limit on the absolute value of the random walk.
    """
    sd = np.sqrt(step_variance)
    below, above = ndtr((-limit - scores) / sd), ndtr((scores - limit) / sd)
    return float(weights @ below) + float(weights @ above)


def _advance_random_walk(
    scores: FloatArray, weights: FloatArray, step_variance: float, limit: float
) -> tuple[FloatArray, FloatArray]:
    """Add a normal step to a random walk, and keep the part of its distribution within ±limit.

    The random walk is the score of a group-sequential study, which stops if the score leaves
    ±limit. The density f of the next score y is the convolution of the current distribution with
    the normal density of the step. It is computed by numerical quadrature: with current scores x_i,
    their weights w_i and the density g of the step, f(y) = sum_i w_i g(y - x_i).

    Parameters
    ----------
    scores, weights
        Quadrature points x_i and weights w_i of the current score, shape (n,).
    step_variance
        Variance of the step, which has mean 0.
    limit
        Largest absolute score with which the study continues.

    Returns
    -------
    scores : array
        Points y_j of Gauss-Legendre quadrature between -limit and limit.
    weights : array
        Quadrature weights times the densities f(y_j). They sum to the probability that the study
        continues.
    """
    sd = np.sqrt(step_variance)
    # Use a number of quadrature nodes that is proportional to the range in units of the step.
    n_nodes = int(np.clip(_NODES_PER_SD * 2 * limit / sd, _MIN_NODES, _MAX_NODES))
    # Rescale the nodes from the interval (-1, 1) to (-limit, limit).
    nodes, node_weights = _gauss_legendre(n_nodes)
    next_scores, next_weights = limit * nodes, limit * node_weights
    # Density of each next score y: f(y) = sum_i w_i g(y - x_i), with the current scores x_i, their
    # weights w_i and the normal density g of the step. Rows are next scores, columns current ones.
    standardised_steps = (next_scores[:, None] - scores) / sd
    density = np.exp(-(standardised_steps**2) / 2) @ weights / (sd * np.sqrt(2 * np.pi))
    return next_scores, next_weights * density


@lru_cache(maxsize=_MAX_NODES)
def _gauss_legendre(n: int) -> tuple[FloatArray, FloatArray]:
    """Return the n nodes and weights of Gauss-Legendre quadrature from -1 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return np.asarray(nodes), np.asarray(weights)


def repeated_p_value(
    p: float, analyses: tuple[int, ...], spending: str, item_variance_shares: tuple[float, ...]
) -> float:
    """Return the p-value of the latest interim analysis, adjusted for the earlier analyses.

    This *repeated p-value* is the smallest two-sided type-I error rate alpha at which the z
    statistic would reach the boundary of the analysis. It is valid whatever the reason for stopping
    (Jennison and Turnbull 2000, Group sequential methods, ch. 9).

    Parameters
    ----------
    p
        Unadjusted two-sided p-value of the analysis.
    analyses
        Numbers of participants at all planned analyses, ascending.
    spending
        Name of the alpha-spending function, ``obrien-fleming`` or ``pocock``.
    item_variance_shares
        Share of the variance that is due to items, as estimated at each analysis so far.

    Returns
    -------
    float
        Adjusted p-value, at least `p`.
    """
    p_bounded = max(p, 1e-15)  # avoids the logarithm of 0
    # `ndtri` is the quantile function of the normal distribution.
    z_observed, log_p = -float(ndtri(p_bounded / 2)), float(np.log(p_bounded))

    # Distance of the observed z statistic from the stopping boundary of the latest analysis, if
    # alpha is the type-I error rate of the whole study.
    def boundary_minus_z(log_alpha: float) -> float:
        cumulative_alpha = alpha_spent(analyses, float(np.exp(log_alpha)), spending)
        boundaries = interim_boundaries(
            analyses, tuple(cumulative_alpha.tolist()), item_variance_shares
        )
        return min(boundaries[-1], _MAX_BOUNDARY) - z_observed

    # The adjusted p-value is the alpha, between p and 1, at which z is exactly on the boundary.
    if boundary_minus_z(0.0) >= 0:
        return 1.0
    if boundary_minus_z(log_p) <= 0:
        return p
    return float(np.exp(brentq(boundary_minus_z, log_p, 0.0, xtol=1e-4)))
