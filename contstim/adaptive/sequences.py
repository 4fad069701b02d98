"""Confidence sequences and e-values: what may be looked at after every answer.

A confidence sequence covers at all times at once with probability 1 - alpha (Ville 1939), so that
a study may be stopped whenever it says enough. The exact ones suppose nothing but bounds;
`asymptotic_sequence` is much narrower and supposes what a t-test does. Nothing here needs a model
or a server.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, gammaln, logsumexp, ndtr, ndtri, stdtr, stdtrit

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError

_TRUNCATION = 0.75  # of bets, a share of the largest that could not be lost wholly
_N_MEANS = 2001
_STEPS = 60
_BEST_AT = 30.0  # units at which intervals are narrow
START = 10  #: Units from which on the asymptotic sequence speaks, see `asymptotic_sequence`.
_VARIANCE = 0.01  # of a unit's values, in units of the range squared, for which ends are tuned


def mean_sequence(
    values: FloatArray,
    alpha: float,
    bounds: tuple[float, float] = (-1.0, 1.0),
    best_at: float = _BEST_AT,
) -> tuple[FloatArray, FloatArray]:
    """Return a confidence sequence for running means, which may change from unit to unit.

    Parameters
    ----------
    values
        Bounded, shape (..., P): one value of each of P units (participants), in order.
    alpha
        How often a sequence may ever fail to cover, both sides together.
    bounds
        Of the values.
    best_at
        Number of units at which the interval is to be narrow, if a unit's standard deviation is a
        tenth of the range; it is valid at all others too.

    Returns
    -------
    tuple
        Lower and upper ends after each unit, each of shape (..., P).

    Raises
    ------
    InputError
        If alpha or the bounds make no sense or a value lies outside them.

    Notes
    -----
    After P units it covers (1/P) Σ E[value_p | units before], whatever the dependence: policies
    that choose by the answers before are allowed. It is the empirical Bernstein sequence with the
    gamma-exponential mixture (Howard, Ramdas, McAuliffe and Sekhon 2021, doi 10.1214/20-AOS1991,
    Theorem 4 and Proposition 9), the predictions being the means of the values before and of the
    middle of the range.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.random.default_rng(1).choice([-1.0, 1.0], size=100, p=[0.3, 0.7])
    >>> low, high = mean_sequence(values, alpha=0.05)
    >>> low[[9, 99]].round(2).tolist(), high[[9, 99]].round(2).tolist()
    ([-1.0, -0.0], [1.0, 0.8])
    """
    scaled = _scaled(values, alpha, bounds)
    total, spread = _running(scaled)
    beyond = _boundary(spread, alpha / 2, _VARIANCE * best_at)
    units = np.arange(1, scaled.shape[-1] + 1)
    shares = ((total + side * beyond) / units for side in (-1, 1))
    return _within(bounds, *(np.clip(share, 0.0, 1.0) for share in shares))


def log_e_above(
    values: FloatArray,
    alpha: float,
    bounds: tuple[float, float] = (-1.0, 1.0),
    than: float | FloatArray = 0.0,
    best_at: float = _BEST_AT,
) -> FloatArray:
    """Return the log e-values against "the running mean is at most `than`", shape (..., P).

    `than` is one number, or one for each unit: the running mean after it. The e-value is at or
    above log(2 / alpha) exactly where the lower end of `mean_sequence` is at or above `than`.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.random.default_rng(1).choice([-1.0, 1.0], size=100, p=[0.3, 0.7])
    >>> log_e_above(values, alpha=0.05)[[9, 99]].round(1).tolist()
    [0.1, 3.7]
    """
    scaled = _scaled(values, alpha, bounds)
    low, high = bounds
    total, spread = _running(scaled)
    above = total - np.arange(1, scaled.shape[-1] + 1) * (than - low) / (high - low)
    return _log_mixture(above, spread, _VARIANCE * best_at)


def betting_sequence(
    values: FloatArray,
    alpha: float,
    bounds: tuple[float, float] = (-1.0, 1.0),
    truncation: float = _TRUNCATION,
    n_means: int = _N_MEANS,
) -> tuple[FloatArray, FloatArray]:
    """Return a confidence sequence for one mean, the same for all units.

    It is narrower than `mean_sequence`, and holds where all units have the same expectation given
    those before: for a fixed or random design, or with inverse-propensity weights.

    Parameters
    ----------
    values, alpha, bounds
        As in `mean_sequence`.
    truncation
        Bets are at most so large a share of the largest.
    n_means
        Number of candidate means; ends are put on the next one outside.

    Returns
    -------
    tuple
        Lower and upper ends after each unit, each of shape (..., P), running intersections.

    Notes
    -----
    The hedged capital process of Waudby-Smith and Ramdas (2024), doi 10.1093/jrsssb/qkad009,
    Theorem 3, with the bets of their Eq. 26 and half of the capital on each side.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.random.default_rng(1).choice([-1.0, 1.0], size=100, p=[0.3, 0.7])
    >>> low, high = betting_sequence(values, alpha=0.05)
    >>> low[[9, 99]].round(2).tolist(), high[[9, 99]].round(2).tolist()
    ([-0.08, 0.14], [1.0, 0.74])
    """
    scaled = _scaled(values, alpha, bounds)
    means = np.linspace(0.0, 1.0, n_means)
    with np.errstate(divide="ignore"):
        most_up, most_down = truncation / means, truncation / (1 - means)
    shape = scaled.shape[:-1]
    up, down = np.zeros((*shape, n_means)), np.zeros((*shape, n_means))
    lower, upper = np.empty(scaled.shape), np.empty(scaled.shape)
    lowest, highest = np.zeros(shape, dtype=np.int64), np.full(shape, n_means - 1)
    units = np.arange(1, scaled.shape[-1] + 1)
    bets = _bets(_variances(scaled)[..., :-1], units, alpha)
    for t in range(len(units)):
        bet, gap = bets[..., t, None], scaled[..., t, None] - means
        up += np.log1p(np.minimum(bet, most_up) * gap)
        down += np.log1p(-np.minimum(bet, most_down) * gap)
        capital = np.maximum(up, down) + np.log(0.5)
        inside = capital < -np.log(alpha)
        nearest = capital.argmin(axis=-1)
        some = inside.any(axis=-1)
        first = np.where(some, inside.argmax(axis=-1), nearest)
        last = np.where(some, n_means - 1 - inside[..., ::-1].argmax(axis=-1), nearest)
        lowest = np.maximum(lowest, np.maximum(first - 1, 0))
        highest = np.minimum(highest, np.minimum(last + 1, n_means - 1))
        lower[..., t], upper[..., t] = means[lowest], means[highest]
    return _within(bounds, lower, upper)


def _variances(scaled: FloatArray) -> FloatArray:
    """Return the variance of the values before each unit and after the last, begun with 1/4."""
    shape, n = scaled.shape[:-1], scaled.shape[-1]
    count = np.arange(2, n + 2)
    totals = np.concatenate([np.full((*shape, 1), 0.5), scaled], axis=-1).cumsum(axis=-1)[..., 1:]
    squares = (scaled - totals / count) ** 2
    sums = np.concatenate([np.full((*shape, 1), 0.25), squares], axis=-1).cumsum(axis=-1)
    return np.asarray(sums / np.arange(1, n + 2))


def _bets(variances: FloatArray, units: FloatArray | IntArray, alpha: float) -> FloatArray:
    return np.asarray(np.sqrt(2 * np.log(2 / alpha) / (variances * units * np.log1p(units))))


def asymptotic_sequence(
    values: FloatArray,
    alpha: float,
    bounds: tuple[float, float] = (-1.0, 1.0),
    start: int = START,
) -> tuple[FloatArray, FloatArray]:
    """Return an asymptotic confidence sequence for running means.

    It supposes what a t-test over units does: that there are enough of them, and none so far out,
    that their mean is about normal. `experiments/adaptive/stops.py` says from which `start` on it
    errs as rarely as alpha says.

    Parameters
    ----------
    values, alpha, bounds
        As in `mean_sequence`.
    start
        Before so many units it says nothing; it is narrow about then, and valid later.

    Returns
    -------
    tuple
        Lower and upper ends after each unit, each of shape (..., P).

    Notes
    -----
    The two-sided boundary of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), doi
    10.1214/24-AOS2408, rho being such that it is narrow after `start` units. The normal quantile is
    replaced by Student's with the degrees of freedom of the variance, which comes close to it
    as units grow in number.
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


@dataclass(frozen=True, eq=False)
class Outlook:
    """What is supposed of participants who are still to come, to foresee a confidence sequence.

    Attributes
    ----------
    mean, variance
        Of their values, shape (R,), of R rows of values.
    units
        All participants there are then, after those seen, ascending, shape (K,).
    """

    mean: FloatArray
    variance: FloatArray
    units: IntArray

    def scaled(self, bounds: tuple[float, float]) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance, shape (R, 1), in units of the range, as it allows."""
        low, high = bounds
        mean = np.clip((self.mean - low) / (high - low), 0.0, 1.0)
        variance = np.minimum(self.variance / (high - low) ** 2, mean * (1 - mean))
        return mean[:, None], variance[:, None]


def mean_ahead(
    values: FloatArray,
    outlook: Outlook,
    alpha: float,
    bounds: tuple[float, float] = (-1.0, 1.0),
    than: float = 0.0,
) -> FloatArray:
    """Return log e-values against "the running mean is at most `than`" that are to be expected.

    Parameters
    ----------
    values
        So far, shape (R, P).
    outlook
        Of whom is still to come.
    alpha, bounds, than
        As for `log_e_above`.

    Returns
    -------
    array
        Shape (R, K). From log(2 / alpha) on the lower end of `mean_sequence` is above `than`.
    """
    scaled = _scaled(values, alpha, bounds)
    low, high = bounds
    mean, variance = outlook.scaled(bounds)
    total, spread = (part[:, -1:] for part in _running(scaled))
    further = outlook.units - scaled.shape[-1]
    above = total + further * mean - outlook.units * (than - low) / (high - low)
    return _log_mixture(above, spread + further * variance, _VARIANCE * _BEST_AT)


def betting_ahead(
    values: FloatArray,
    outlook: Outlook,
    alpha: float,
    bounds: tuple[float, float] = (-1.0, 1.0),
    than: float = 0.0,
) -> FloatArray:
    """Return log e-values as `mean_ahead` does, those by which `betting_sequence` goes.

    They are the largest so far, as the sequence's ends are running intersections. Values to come
    are taken to be one standard deviation above and below their mean, half and half.
    """
    scaled = _scaled(values, alpha, bounds)
    low, high = bounds
    least = (than - low) / (high - low)
    most = _TRUNCATION / least if least > 0 else np.inf
    n = scaled.shape[-1]
    variances = _variances(scaled)
    bets = _bets(variances[:, :-1], np.arange(1, n + 1), alpha)
    before = np.log1p(np.minimum(bets, most) * (scaled - least)).cumsum(axis=1)
    mean, variance = outlook.scaled(bounds)
    further = outlook.units - n
    # The variance that bets go by, when that of those to come has been seen.
    by_then = (variances[:, -1:] * (n + 1) + further * variance) / (outlook.units + 1)
    bets = np.minimum(_bets(by_then, outlook.units, alpha), most)
    values_ahead = (np.clip(mean + side * np.sqrt(variance), 0, 1) for side in (-1, 1))
    gains = sum(np.log1p(bets * (value - least)) / 2 for value in values_ahead)
    ahead = before[:, -1:] + (gains * np.diff(further, prepend=0)).cumsum(axis=1)
    highest = np.maximum.accumulate(ahead, axis=1)
    return np.asarray(np.maximum(highest, before.max(axis=1, keepdims=True)))


def asymptotic_ahead(
    values: FloatArray,
    outlook: Outlook,
    alpha: float,
    bounds: tuple[float, float] = (-1.0, 1.0),
    than: float = 0.0,
    start: int = START,
) -> FloatArray:
    """Return log e-values as `mean_ahead` does, those by which `asymptotic_sequence` goes."""
    scaled = _scaled(values, alpha, bounds)
    low, high = bounds
    mean, variance = outlook.scaled(bounds)
    n, units = scaled.shape[-1], outlook.units
    further, before = units - n, scaled.mean(axis=1, keepdims=True)
    squares = ((scaled - before) ** 2).sum(axis=1, keepdims=True) + further * variance
    squares = squares + n * further / units * (before - mean) ** 2
    free = np.maximum(units - 1, 1)
    above = (n * before + further * mean) / units - (than - low) / (high - low)
    with np.errstate(divide="ignore", invalid="ignore"):  # where nobody differs: it is not above
        normal = -ndtri(stdtr(free, -above / np.sqrt(squares / free / units)))
    tilt = units * _rho(alpha, start) ** 2
    # Of both sides together, so that either has half of it.
    log_e = np.log(2) + tilt * normal**2 / (2 * (tilt + 1)) - np.log1p(tilt) / 2
    return np.where((above > 0) & (units >= start), log_e, -np.inf)


def fit_e_value(
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
    >>> round(fit_e_value(alternatives, np.log([0.5, 0.5]), null), 2)
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


def _running(scaled: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return sums, and sums of squared distances to the means of the values before."""
    total = scaled.cumsum(axis=-1)
    # Begun with one half, so that the first value is predicted as well.
    predicted = (total - scaled + 0.5) / np.arange(1, scaled.shape[-1] + 1)
    return total, ((scaled - predicted) ** 2).cumsum(axis=-1)


def _within(
    bounds: tuple[float, float], lower: FloatArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return ends that are shares of the range as values in it."""
    low, high = bounds
    return low + lower * (high - low), low + upper * (high - low)


def _log_mixture(above: FloatArray, spread: FloatArray, rho: float) -> FloatArray:
    """Return log ∫ exp(l above - psi(l) spread) dF(l), psi(l) = -log(1 - l) - l, l in (0, 1)."""
    shape, rate = spread + rho, np.maximum(above + spread + rho, 1e-300)
    start = gammaln(rho) + np.log(gammainc(rho, rho)) - rho * np.log(rho) + rho
    with np.errstate(divide="ignore"):
        found = gammaln(shape) + np.log(gammainc(shape, rate)) - shape * np.log(rate) + rate
    return np.where(above > 0, found - start, -np.inf)


def _boundary(spread: FloatArray, alpha: float, rho: float) -> FloatArray:
    """Return how far a sum must be above its expectation for an e-value of 1 / alpha.

    The log mixture is increasing and convex, so that Newton's method, begun above the root, falls
    to it steadily.
    """
    above, target = np.ones(spread.shape), np.log(1 / alpha)
    while (short := _log_mixture(above, spread, rho) < target).any():
        above = np.where(short, 2 * above, above)
    shape = spread + rho
    for _ in range(_STEPS):
        rate = above + shape
        tail = np.exp((shape - 1) * np.log(rate) - rate - gammaln(shape)) / gammainc(shape, rate)
        step = (_log_mixture(above, spread, rho) - target) / (1 - shape / rate + tail)
        above = above - np.maximum(step, 0.0)
        if (step <= 1e-12 * above).all():
            break
    return above
