"""What exact scores teach about those not asked for yet: a surrogate of each model.

A model's estimate e of a candidate's score takes a part of it, u = upper - e, from the sentence as
it is or from a guess. The exact score differs from e because that part changes with the candidate.
The change is taken to be a straight line in the least such part of any candidate (l), in what this
candidate's has above it (u - l), in how far the candidate lies from the sentence as it is
(d = e - present score), and in how many tokens the candidate has beyond one, up to three (k),
with an error that grows with u:

    exact - e = a l + b (u - l) + c d + g u k / 3 + u noise,   noise ~ N(0, s^2).

Words of one token and longer ones have a, b, c and s of their own, for what is guessed of a longer
word's tokens differs. At each position the coefficients are fitted to the exact scores known there
(Bayesian linear regression; Bishop 2006, section 3.3); what they are likely to be, and s, comes
from the positions searched before.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy  # which loads `special` at its first use

from contstim.arrays import FloatArray, IntArray
from contstim.models.base import ReplacementScores

# Before anything is known: a new word fits a little worse; spread of the coefficients, and s of
# words of one token and of several, with the number of scores it counts as.
_PRIOR_MEAN = np.array([-0.1, -0.1, 0.0, -0.1, -0.1, 0.0, 0.0])
_PRIOR_SPREAD = np.array([0.1, 0.1, 0.15, 0.1, 0.1, 0.15, 0.1])
_PRIOR_NOISE, _PRIOR_COUNT = np.array([0.08, 0.12]), 4.0
# How much the coefficients may differ between positions, in parts of s.
_BETWEEN = np.array([0.7, 0.5, 0.7, 0.7, 0.5, 0.7, 0.7])
_OF = np.array([0, 0, 0, 1, 1, 1, 1])
# Column of the features in which longer words stand out.
_EXTRA = 6
_LARGEST_EXTRA = 3
# Exact scores of earlier positions that are kept.
_KEPT = 2000


@dataclass
class Surrogate:
    """How far one model's estimates were off at the positions searched so far.

    Attributes
    ----------
    features, targets
        Of each exact score the features, (l, u - l, d) / u of short words and of longer ones
        and k / 3, and (exact - e) / u.
    """

    features: list[FloatArray] = field(default_factory=list)
    targets: list[FloatArray] = field(default_factory=list)

    def posterior(self, table: ReplacementScores, present: float) -> Posterior:
        """Begin a position, at which the sentence as it is scores `present`."""
        scale = table.upper_bounds - table.estimates
        # A model that estimates nothing leaves the whole score open.
        least = 0.02 * abs(present) + 1e-6
        # Nor does a score without a bound, such as a classifier's margin, say how much is open.
        reach = abs(present) + float(np.std(table.estimates))
        scale = np.where(np.isfinite(scale), scale, reach)
        if np.all(scale <= least):
            scale = np.full(len(scale), max(abs(present), least))
        scale = np.maximum(scale, least)
        lowest = scale.min() / scale
        distance = (table.estimates - present) / scale
        extra = np.zeros(len(scale))
        if table.cost.n_tokens is not None:
            extra = np.minimum(table.cost.n_tokens - 1, _LARGEST_EXTRA) / _LARGEST_EXTRA
        common = np.column_stack([lowest, 1.0 - lowest, distance])
        is_short = (extra == 0)[:, None]
        features = np.hstack([common * is_short, common * ~is_short, extra[:, None]])
        mean, spread, noise = _PRIOR_MEAN, _PRIOR_SPREAD, _PRIOR_NOISE
        if self.features:
            x, y = np.concatenate(self.features)[-_KEPT:], np.concatenate(self.targets)[-_KEPT:]
            mean, _ = _coefficients(x, y, _PRIOR_MEAN, _PRIOR_SPREAD, noise)
            noise = _noise(x, y, mean, noise)
            spread = _BETWEEN * noise[_OF]
        return Posterior(self, table.estimates, scale, features, mean, spread, noise)


def _several(x: FloatArray) -> IntArray:
    """Return 1 for candidates of several tokens, 0 for those of one, from their features."""
    return (x[:, _EXTRA] > 0).astype(np.int64)


def _noise(x: FloatArray, y: FloatArray, mean: FloatArray, prior: FloatArray) -> FloatArray:
    """Return s of candidates of one token and of several, (2,), given coefficients and data."""
    kind = _several(x)
    squares = np.bincount(kind, (y - x @ mean) ** 2, minlength=2) + _PRIOR_COUNT * prior**2
    return np.asarray(np.sqrt(squares / (np.bincount(kind, minlength=2) + _PRIOR_COUNT)))


def _coefficients(
    x: FloatArray, y: FloatArray, mean: FloatArray, spread: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return mean (7,) and covariance (7, 7) of the coefficients given data, noise known."""
    weighted = x / noise[_several(x), None] ** 2
    precision = np.diag(spread**-2.0)
    covariance = np.asarray(np.linalg.inv(precision + x.T @ weighted), dtype=np.float64)
    return covariance @ (precision @ mean + weighted.T @ y), covariance


@dataclass(eq=False)
class Posterior:
    """What one model's scores at one position are likely to be, given those known.

    Attributes
    ----------
    surrogate
        Where exact scores seen here are put for later positions.
    estimate, scale, features
        Of the V candidates: e, u, and the features, shape (V, 7).
    mean, spread
        What the coefficients (7,) are likely to be at another position.
    noise
        s of candidates of one token and of several, (2,).
    """

    surrogate: Surrogate
    estimate: FloatArray
    scale: FloatArray
    features: FloatArray
    mean: FloatArray
    spread: FloatArray
    noise: FloatArray
    _x: FloatArray = field(default_factory=lambda: np.empty((0, 7)))
    _y: FloatArray = field(default_factory=lambda: np.empty(0))

    def learn(self, index: IntArray, exact: FloatArray, *, keep: bool = True) -> None:
        """Take in exact scores (k,) of candidates `index`; `keep` them for later positions."""
        x, y = self.features[index], (exact - self.estimate[index]) / self.scale[index]
        self._x, self._y = np.concatenate([self._x, x]), np.concatenate([self._y, y])
        if keep:
            self.surrogate.features.append(x)
            self.surrogate.targets.append(y)

    def predict(self, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return expectation and standard deviation of the scores of `index`: (k,), (k,), nats."""
        mean, covariance = _coefficients(self._x, self._y, self.mean, self.spread, self.noise)
        noise = _noise(self._x, self._y, mean, self.noise)
        x, scale = self.features[index], self.scale[index]
        variance = noise[_several(x)] ** 2 + np.einsum("vi,ij,vj->v", x, covariance, x)
        return self.estimate[index] + scale * (x @ mean), scale * np.sqrt(variance)


def expected_improvement(
    best: FloatArray | float, mean: FloatArray, deviation: FloatArray
) -> FloatArray:
    """Return E max(0, best - X) for X ~ N(mean, deviation^2), (k,).

    Jones, Schonlau & Welch (1998), Eq. 15, for minimisation; a deviation of 0 is allowed.
    """
    safe = np.maximum(deviation, 1e-12)
    t = (best - mean) / safe
    density = np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi)
    return np.asarray((best - mean) * scipy.special.ndtr(t) + safe * density)
