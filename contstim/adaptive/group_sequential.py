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
_MIN_INCREMENT = 1e-3
#: Number of quadrature nodes per standard deviation of the increment, and its limits.
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

    Both tails have equal error rates, so the one-sided spending function is applied to alpha / 2
    and doubled.

    Parameters
    ----------
    analyses
        Numbers of participants at the K analyses, ascending.
    alpha
        Two-sided type-I error rate of all analyses together.
    spending
        Name of a function in `SPENDING`.

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
    analyses: tuple[int, ...], spent: tuple[float, ...], item_shares: tuple[float, ...]
) -> tuple[float, ...]:
    """Return the stopping boundary of each interim analysis that has been carried out.

    A group-sequential study is tested at K planned interim analyses, k of which have been carried
    out. It stops at analysis k if the z statistic Z_k is above the boundary or below minus the
    boundary. The boundary is chosen so that the type-I error up to analysis k is the error that the
    plan allows, see `next_boundary`.

    The boundary depends on the information at each analysis, that is, on the inverse of the
    variance of the estimate. All participants judge the same items. The part of the variance that
    is due to items is therefore constant, and only the remainder decreases with the number of
    participants. Relative to analysis k, the information at analysis j is

        I_j = 1 / (s + (1 - s) n_k / n_j),

    where n_j is the number of participants at analysis j, and s the share of the variance at
    analysis k that is due to items.

    Parameters
    ----------
    analyses
        Numbers of participants at all K planned analyses, ascending, for example (20, 40, 60).
    spent
        Cumulative two-sided type-I error at each of the K analyses, see `alpha_spent`.
    item_shares
        Share s of the variance that is due to items, from 0 to 1, as estimated at each of the k
        analyses so far.

    Returns
    -------
    tuple of float
        Boundaries of the k analyses so far, in standard errors.

    Examples
    --------
    >>> spent = alpha_spent([10, 20, 30], 0.05, "obrien-fleming")
    >>> boundaries = interim_boundaries((10, 20, 30), tuple(spent), (0.0, 0.0, 0.0))
    >>> [round(boundary, 3) for boundary in boundaries]
    [3.71, 2.511, 1.993]
    """
    if not item_shares:
        return ()
    # Boundaries of earlier analyses are not changed by later estimates of the item share.
    boundaries = interim_boundaries(analyses, spent, item_shares[:-1])
    n_participants = np.asarray(analyses[: len(item_shares)], dtype=np.float64)
    share = item_shares[-1]
    information = 1.0 / (share + (1.0 - share) * n_participants[-1] / n_participants)
    return (*boundaries, next_boundary(information, boundaries, spent[len(item_shares) - 1]))


def next_boundary(
    information: FloatArray, boundaries: Sequence[float], cumulative_alpha: float
) -> float:
    """Return the two-sided stopping boundary of the last of K analyses.

    Under the null hypothesis, the boundary b is the solution of the equation

        P(study stopped earlier, or Z_K outside ±b) = cumulative_alpha.

    Only studies that were not stopped earlier reach analysis K. The probability density of their
    score Z_k sqrt(I_k) is computed from analysis to analysis by Gauss-Legendre quadrature
    (Armitage, McPherson and Rowe 1969, doi 10.2307/2343787).

    Parameters
    ----------
    information
        Information at the K analyses in any unit, ascending, shape (K,).
    boundaries
        Boundaries of the first K - 1 analyses, in standard errors.
    cumulative_alpha
        Two-sided error to be spent by analysis K.

    Returns
    -------
    float
        Boundary in standard errors; infinite if the error was spent earlier.
    """
    increments = np.maximum(np.diff(information, prepend=0.0), _MIN_INCREMENT * information)
    roots = np.sqrt(information)
    # Before the first analysis, the score is 0 with probability 1.
    scores, weights = np.zeros(1), np.ones(1)
    remaining_alpha = cumulative_alpha
    for increment, root, boundary in zip(increments[:-1], roots[:-1], boundaries, strict=True):
        limit = min(boundary, _MAX_BOUNDARY) * float(root)
        remaining_alpha -= _crossing_probability(scores, weights, increment, limit)
        scores, weights = _continuing_density(scores, weights, increment, limit)

    def excess(boundary: float) -> float:
        limit = boundary * float(roots[-1])
        crossing = _crossing_probability(scores, weights, increments[-1], limit)
        return crossing - remaining_alpha

    if remaining_alpha <= 0 or excess(_MAX_BOUNDARY) >= 0:
        return float(np.inf)
    if excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, _MAX_BOUNDARY, xtol=1e-10))


def _crossing_probability(
    scores: FloatArray, weights: FloatArray, increment: float, limit: float
) -> float:
    """Return the probability that a study crosses the boundary at the next analysis.

    The present score has the discrete distribution given by `scores` and `weights`. The next score
    adds a normal variable with mean 0 and variance `increment`. The study crosses the boundary if
    the next score lies outside ±limit.
    """
    sd = np.sqrt(increment)
    below, above = ndtr((-limit - scores) / sd), ndtr((scores - limit) / sd)
    return float(weights @ below) + float(weights @ above)


def _continuing_density(
    scores: FloatArray, weights: FloatArray, increment: float, limit: float
) -> tuple[FloatArray, FloatArray]:
    """Return the distribution of the next score of studies that do not cross the boundary.

    Parameters
    ----------
    scores, weights
        Values and probabilities of the present score.
    increment
        Variance of the normal variable that is added to the score.
    limit
        Boundary of the next score, on both sides of 0.

    Returns
    -------
    scores : array
        Nodes of Gauss-Legendre quadrature between -limit and limit.
    weights : array
        Quadrature weights times the density of the next score at the nodes.
    """
    sd = np.sqrt(increment)
    n_nodes = int(np.clip(_NODES_PER_SD * 2 * limit / sd, _MIN_NODES, _MAX_NODES))
    nodes, node_weights = _gauss_legendre(n_nodes)
    points = limit * nodes
    # Convolve the present distribution with the normal distribution of the increment.
    steps = (points[:, None] - scores) / sd
    density = np.exp(-(steps**2) / 2) @ weights / (sd * np.sqrt(2 * np.pi))
    return points, limit * node_weights * density


@lru_cache(maxsize=_MAX_NODES)
def _gauss_legendre(n: int) -> tuple[FloatArray, FloatArray]:
    """Return the n nodes and weights of Gauss-Legendre quadrature from -1 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return np.asarray(nodes), np.asarray(weights)


def repeated_p_value(
    p: float, analyses: tuple[int, ...], spending: str, item_shares: tuple[float, ...]
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
    item_shares
        Share of the variance that is due to items, as estimated at each analysis so far.
    spending
        Name of a function in `SPENDING`.

    Returns
    -------
    float
        Adjusted p-value, at least `p`.
    """
    p_bounded = max(p, 1e-15)
    z_observed, log_p = -float(ndtri(p_bounded / 2)), float(np.log(p_bounded))

    # Find the alpha at which the boundary equals the observed z statistic.
    def excess(log_alpha: float) -> float:
        spent = tuple(alpha_spent(analyses, float(np.exp(log_alpha)), spending).tolist())
        boundary = interim_boundaries(analyses, spent, item_shares)[-1]
        return min(boundary, _MAX_BOUNDARY) - z_observed

    if excess(0.0) >= 0:
        return 1.0
    if excess(log_p) <= 0:
        return p
    return float(np.exp(brentq(excess, log_p, 0.0, xtol=1e-4)))
