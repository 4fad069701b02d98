"""Anytime-valid inference: a confidence sequence and an e-value.

The error rate is controlled at all times simultaneously, so a study may be analysed after every
answer and stopped at any time.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp, ndtr, stdtrit

from contstim.adaptive.stopping import MIN_START
from contstim.arrays import FloatArray
from contstim.errors import InputError


def asymptotic_confidence_sequence(
    values: FloatArray,
    alpha: float,
    bounds: tuple[float, float] = (-1.0, 1.0),
    start: int = MIN_START,
) -> tuple[FloatArray, FloatArray]:
    """Compute an asymptotic confidence sequence for the mean of a growing sample.

    A confidence sequence is an interval after each unit (participant) of the sample. All intervals
    together contain the true mean with the stated probability, so sampling may stop at any time.
    As in a t test, the mean over `start` units is assumed to be approximately normal.

    Parameters
    ----------
    values : (..., N) array
        Values within `bounds`, one for each of N units (participants), in their order.
    alpha
        Probability that any of the intervals excludes the true mean, on either side.
    bounds
        Minimum and maximum of the values.
    start
        Number of units after which the sequence is first used. Earlier intervals are `bounds`, and
        the sequence is narrowest near this number.

    Returns
    -------
    low, high : (..., N) arrays
        Lower and upper limits after each unit.

    Raises
    ------
    InputError
        If `alpha` or `bounds` is invalid, or a value lies outside `bounds`.

    Notes
    -----
    Two-sided boundary of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), doi
    10.1214/24-AOS2408, with mean m_n, standard error s_n and mixture parameter rho:

        m_n ± s_n sqrt(2 (n rho² + 1) / (n rho²) · log(sqrt(n rho² + 1) / alpha)).

    The factor of s_n is a quantile of the normal distribution. It is replaced with the
    corresponding quantile of Student's t distribution with n - 1 degrees of freedom, which is
    larger for few units.

    Examples
    --------
    >>> values = np.random.default_rng(1).choice([-1.0, 1.0], size=100, p=[0.3, 0.7])
    >>> low, high = asymptotic_confidence_sequence(values, alpha=0.05)
    >>> low[[8, 99]].round(2).tolist(), high[[8, 99]].round(2).tolist()
    ([-1.0, 0.09], [1.0, 0.71])
    """
    minimum, maximum = bounds
    if not 0 < alpha < 1:
        raise InputError(f"alpha is {alpha}; give a probability between 0 and 1")
    if not -np.inf < minimum < maximum < np.inf:
        raise InputError(f"bounds are {minimum} and {maximum}; give two finite ascending numbers")
    values = np.asarray(values, dtype=np.float64)
    is_outside = ~((values >= minimum) & (values <= maximum))
    if is_outside.any():
        value = values[is_outside].flat[0]
        raise InputError(f"value {value:g} is not between {minimum:g} and {maximum:g}")

    # Running means and standard errors of values scaled to the interval from 0 to 1.
    scaled = np.asarray((values - minimum) / (maximum - minimum))
    n_units = np.arange(1, scaled.shape[-1] + 1)
    means = scaled.cumsum(axis=-1) / n_units
    squares = (scaled**2).cumsum(axis=-1) - n_units * means**2
    df = np.maximum(n_units - 1, 1)
    stderrs = np.sqrt(np.maximum(squares, 0.0) / df / n_units)

    # Mixture parameter for which the sequence is narrow after `start` units.
    minus_two_log_alpha = -2 * np.log(alpha)
    rho = float(np.sqrt((minus_two_log_alpha + np.log(minus_two_log_alpha + 1)) / start))
    # Boundary of the notes: z is the factor of s_n, and n_rho_squared is n rho².
    n_rho_squared = n_units * rho**2
    log_ratio = np.log1p(n_rho_squared) / 2 - np.log(alpha)
    z = np.sqrt(2 * (n_rho_squared + 1) / n_rho_squared * log_ratio)
    margins = np.where(n_units < start, 1.0, -stdtrit(df, ndtr(-z)) * stderrs)
    low = minimum + np.maximum(means - margins, 0.0) * (maximum - minimum)
    high = minimum + np.minimum(means + margins, 1.0) * (maximum - minimum)
    return low, high


def log_e_value(
    log_evidence: FloatArray, log_weights: FloatArray, log_likelihood: FloatArray
) -> float:
    """Compute the log e-value against a hypothesis with unknown parameters (universal inference).

    An e-value measures evidence against a hypothesis: its expectation under the hypothesis is at
    most 1, so that values above 1 / alpha have a probability of at most alpha.

    Parameters
    ----------
    log_evidence : (J,) array
        log p(answers) under each of J alternatives to the hypothesis, fixed before the study.
    log_weights : (J,) array
        Logarithms of the prior weights of the alternatives. The weights sum to 1.
    log_likelihood : array
        log p(answers) under each parameter value of the hypothesis.

    Returns
    -------
    float
        Log e-value; the hypothesis is rejected at level alpha if it reaches log(1 / alpha).

    Notes
    -----
    The e-value is the weighted mean likelihood of the alternatives, divided by the maximum
    likelihood under the hypothesis. It is valid for any choice of trials and at any time, because
    an e-process is an upper bound on it (Wasserman, Ramdas and Balakrishnan 2020, doi
    10.1073/pnas.1922664117).

    Examples
    --------
    >>> alternatives, hypothesis = np.array([-60.0, -65.0]), np.array([-70.0])
    >>> round(log_e_value(alternatives, np.log([0.5, 0.5]), hypothesis), 2)
    9.31
    """
    return float(logsumexp(log_evidence + log_weights) - np.max(log_likelihood))
