"""A confidence sequence, and e-values: inference that holds at any time.

A confidence sequence covers at all times at once with probability 1 - alpha, so a study may be
stopped as soon as it says enough.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp, ndtr, stdtrit

from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.evaluation.stopping import MIN_START


def asymptotic_confidence_sequence(
    values: FloatArray,
    alpha: float,
    bounds: tuple[float, float] = (-1.0, 1.0),
    start: int = MIN_START,
) -> tuple[FloatArray, FloatArray]:
    """Return an asymptotic confidence sequence for running means.

    Like a t-test over units, it assumes that there are enough of them for their mean to be about
    normal.

    Parameters
    ----------
    values
        Bounded, shape (..., P): one value of each of P units (participants), in order.
    alpha
        Probability that a sequence ever fails to cover, both sides together.
    bounds
        Bounds of the values.
    start
        Number of units from which on the sequence is used; it is narrowest about there.

    Returns
    -------
    tuple
        Lower and upper bounds after each unit, each of shape (..., P).

    Raises
    ------
    InputError
        If alpha or the bounds make no sense or a value lies outside them.

    Notes
    -----
    The two-sided boundary of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), doi
    10.1214/24-AOS2408. The normal quantile is replaced by that of Student's distribution with the
    degrees of freedom of the variance, which is more conservative with few units.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.random.default_rng(1).choice([-1.0, 1.0], size=100, p=[0.3, 0.7])
    >>> low, high = asymptotic_confidence_sequence(values, alpha=0.05)
    >>> low[[8, 99]].round(2).tolist(), high[[8, 99]].round(2).tolist()
    ([-1.0, 0.09], [1.0, 0.71])
    """
    scaled = _scaled(values, alpha, bounds)
    units = np.arange(1, scaled.shape[-1] + 1)
    mean = scaled.cumsum(axis=-1) / units
    squares = (scaled**2).cumsum(axis=-1) - units * mean**2
    free = np.maximum(units - 1, 1)
    stderr = np.sqrt(np.maximum(squares, 0.0) / free / units)
    tilt = units * _rho(alpha, start) ** 2
    normal = np.sqrt(2 * (tilt + 1) / tilt * (np.log1p(tilt) / 2 - np.log(alpha)))
    beyond = np.where(units < start, 1.0, -stdtrit(free, ndtr(-normal)) * stderr)
    return _within(bounds, np.maximum(mean - beyond, 0.0), np.minimum(mean + beyond, 1.0))


def _rho(alpha: float, start: int) -> float:
    """Return the parameter of the normal mixture with which it is narrow after `start` units."""
    cost = -2 * np.log(alpha)
    return float(np.sqrt((cost + np.log(cost + 1)) / start))


def log_e_value(
    log_evidence: FloatArray, log_weights: FloatArray, log_likelihood: FloatArray
) -> float:
    """Return the log e-value against "one of these", by universal inference.

    Parameters
    ----------
    log_evidence
        log p(answers) under J alternatives, fixed before the study, shape (J,).
    log_weights
        Log of their weights, which add up to 1.
    log_likelihood
        log p(answers) at each point of the null hypothesis: this model with this link, and any of
        the median slopes.

    Notes
    -----
    The mixture of the alternatives predicts each answer from those before; its likelihood over the
    largest under the null hypothesis is at most an e-process, whatever was asked and when one looks
    (Wasserman, Ramdas and Balakrishnan 2020, doi 10.1073/pnas.1922664117). Reject at log(1/alpha).

    Examples
    --------
    >>> import numpy as np
    >>> alternatives, null = np.array([-60.0, -65.0]), np.array([-70.0])
    >>> round(log_e_value(alternatives, np.log([0.5, 0.5]), null), 2)
    9.31
    """
    return float(logsumexp(log_evidence + log_weights) - np.max(log_likelihood))


def _scaled(values: FloatArray, alpha: float, bounds: tuple[float, float]) -> FloatArray:
    low, high = bounds
    if not 0 < alpha < 1:
        raise InputError(f"alpha is {alpha}; give a share between 0 and 1")
    if not -np.inf < low < high < np.inf:
        raise InputError(f"bounds are {low} and {high}; give two finite numbers that rise")
    values = np.asarray(values, dtype=np.float64)
    bad = ~((values >= low) & (values <= high))
    if bad.any():
        raise InputError(f"value {values[bad].flat[0]:g} is not between {low:g} and {high:g}")
    return np.asarray((values - low) / (high - low))


def _within(
    bounds: tuple[float, float], lower: FloatArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return ends that are shares of the range as values in it."""
    low, high = bounds
    return low + lower * (high - low), low + upper * (high - low)
