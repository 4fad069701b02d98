"""What exact scores teach about those not yet asked for.

A model's estimate e of a candidate's score takes a part of it, u = upper - e, from the sentence as
it is or from a guess. The exact score differs from e because that part changes with the candidate.
The change is taken to be a straight line in the least such part of any candidate (l), in what this
candidate's has above it (u - l), and in how far the candidate lies from the sentence as it is
(d = e - present score), with an error that grows with u:

    exact - e = a l + b (u - l) + c d + u noise,   noise ~ N(0, s^2).

At each position a, b and c are fitted anew to the exact scores known there (Bayesian linear
regression); what they are likely to be, and s, comes from the positions searched before.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from contstim.models.base import FloatArray, Replacements

__all__ = ["Belief", "Outlook", "expected_gain"]

# Before anything is known: a new word fits a little worse; spread of the coefficients, and s with
# the number of scores it is worth.
_PRIOR_MEAN = np.array([-0.1, -0.1, 0.0])
_PRIOR_SPREAD = np.array([0.1, 0.1, 0.15])
_PRIOR_NOISE, _PRIOR_COUNT = 0.08, 4.0
# How much the coefficients may differ between positions, in parts of s.
_BETWEEN = np.array([0.7, 0.5, 0.7])
# Exact scores of earlier positions that are kept.
_KEPT = 2000


@dataclass
class Belief:
    """What is known of one model's estimates from the positions searched so far.

    Attributes
    ----------
    features, targets
        Of each exact score: (l, u - l, d) / u, and (exact - e) / u.
    """

    features: list[FloatArray] = field(default_factory=list)
    targets: list[FloatArray] = field(default_factory=list)

    def outlook(self, table: Replacements, present: float) -> Outlook:
        """Begin a position, at which the sentence as it is scores `present`."""
        scale = table.upper - table.estimate
        # A model that estimates nothing leaves the whole score open.
        least = 0.02 * abs(present) + 1e-6
        # Nor does a score without a bound, such as a classifier's margin, say how much is open.
        reach = abs(present) + float(np.std(table.estimate))
        scale = np.where(np.isfinite(scale), scale, reach)
        if np.all(scale <= least):
            scale = np.full(len(scale), max(abs(present), least))
        scale = np.maximum(scale, least)
        lowest = scale.min() / scale
        distance = (table.estimate - present) / scale
        features = np.column_stack([lowest, 1.0 - lowest, distance])
        mean, spread, noise = _PRIOR_MEAN, _PRIOR_SPREAD, _PRIOR_NOISE
        if self.features:
            x, y = np.concatenate(self.features)[-_KEPT:], np.concatenate(self.targets)[-_KEPT:]
            mean, _ = _posterior(x, y, _PRIOR_MEAN, _PRIOR_SPREAD, noise)
            squares = ((y - x @ mean) ** 2).sum() + _PRIOR_COUNT * _PRIOR_NOISE**2
            noise = float(np.sqrt(squares / (len(y) + _PRIOR_COUNT)))
            spread = _BETWEEN * noise
        return Outlook(self, table.estimate, scale, features, mean, spread, noise)


def _posterior(
    x: FloatArray, y: FloatArray, mean: FloatArray, spread: FloatArray, noise: float
) -> tuple[FloatArray, FloatArray]:
    """Return mean (3,) and covariance (3, 3) of the coefficients given data, noise known."""
    precision = np.diag(spread**-2.0)
    covariance = np.asarray(np.linalg.inv(precision + x.T @ x / noise**2), dtype=np.float64)
    return covariance @ (precision @ mean + x.T @ y / noise**2), covariance


@dataclass(eq=False)
class Outlook:
    """What one model's scores at one position are likely to be.

    Attributes
    ----------
    belief
        Where exact scores seen here are put for later positions.
    estimate, scale, features
        Of the V candidates: e, u, and (l, u - l, d) / u, shape (V, 3).
    mean, spread, noise
        What a, b and c (3,) and s are likely to be at a new position.
    """

    belief: Belief
    estimate: FloatArray
    scale: FloatArray
    features: FloatArray
    mean: FloatArray
    spread: FloatArray
    noise: float
    _x: FloatArray = field(default_factory=lambda: np.empty((0, 3)))
    _y: FloatArray = field(default_factory=lambda: np.empty(0))

    def learn(self, index: NDArray[np.int64], exact: FloatArray, *, keep: bool = True) -> None:
        """Take in exact scores (k,) of candidates `index`; `keep` them for later positions."""
        x, y = self.features[index], (exact - self.estimate[index]) / self.scale[index]
        self._x, self._y = np.concatenate([self._x, x]), np.concatenate([self._y, y])
        if keep:
            self.belief.features.append(x)
            self.belief.targets.append(y)

    def predict(self, index: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
        """Return expectation and standard deviation of the scores of `index`: (k,), (k,), nats."""
        mean, covariance = _posterior(self._x, self._y, self.mean, self.spread, self.noise)
        count = len(self._y)
        squares = ((self._y - self._x @ mean) ** 2).sum() + _PRIOR_COUNT * self.noise**2
        noise2 = squares / (count + _PRIOR_COUNT)
        x, scale = self.features[index], self.scale[index]
        variance = noise2 + np.einsum("vi,ij,vj->v", x, covariance, x)
        return self.estimate[index] + scale * (x @ mean), scale * np.sqrt(variance)


def expected_gain(best: FloatArray | float, mean: FloatArray, deviation: FloatArray) -> FloatArray:
    """Return E max(0, best - X) for X ~ N(mean, deviation^2): expected improvement (k,).

    Jones, Schonlau & Welch (1998), Eq. 15, for minimisation; a deviation of 0 is allowed.
    """
    safe = np.maximum(deviation, 1e-12)
    t = (best - mean) / safe
    density = np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi)
    return np.asarray((best - mean) * ndtr(t) + safe * density)
