"""Prediction of a model's exact scores from its estimates, by Bayesian linear regression.

A model gives an estimate e and an upper bound of the score of a sentence with each candidate word.
The error of the estimate is modelled as

    exact - e = a l + b (u - l) + c d + g u k / 3 + u noise,   noise ~ N(0, s^2),

where

- u = bound - e is the part of the score that the estimate copies from the current sentence,
- l is the minimum of u over all candidates,
- d = e - (score of the current sentence),
- k is the number of tokens of the candidate beyond the first, up to three,
- a, b, c, g are regression coefficients and s is the standard deviation of the noise. Candidates of
  one token and of several tokens have separate a, b, c and s.

At each position of the sentence, the coefficients are fitted to the exact scores known there
(Bishop 2006, section 3.3). Their prior and s are estimated from the positions searched before.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy  # which loads `special` at its first use

from contstim.arrays import FloatArray, IntArray
from contstim.models.base import ReplacementScores

# Prior of the seven coefficients: a, b, c for one token, the same for several tokens, and g. On
# average, the score of a new word is slightly lower than its estimate.
_PRIOR_MEAN = np.array([-0.1, -0.1, 0.0, -0.1, -0.1, 0.0, 0.0])
_PRIOR_SD = np.array([0.1, 0.1, 0.15, 0.1, 0.1, 0.15, 0.1])
# Prior of s for one and for several tokens, and its weight as a number of observations.
_PRIOR_NOISE, _PRIOR_COUNT = np.array([0.08, 0.12]), 4.0
# Standard deviation of the coefficients between positions, divided by s.
_RELATIVE_SD = np.array([0.7, 0.5, 0.7, 0.7, 0.5, 0.7, 0.7])
# Index of the noise that each coefficient refers to.
_NOISE_INDEX = np.array([0, 0, 0, 1, 1, 1, 1])
# Column of the feature k / 3, which is above 0 for candidates of several tokens.
_TOKENS_COLUMN = 6
_MAX_EXTRA_TOKENS = 3
# Maximum number of exact scores of earlier positions that are used.
_MAX_HISTORY = 2000


@dataclass
class Surrogate:
    """Linear regression that predicts the error of one model's estimated sentence scores.

    The model estimates the score e of a sentence with each candidate word, and an upper bound e + u
    of this score. The regression is trained on candidates at all positions searched so far for
    which the model has also computed the exact score.

    Attributes
    ----------
    features
        Features of the candidates, one array (n, 7) for each batch. With l, the minimum of u over
        all candidates, and d, the difference between e and the score of the current sentence, the
        columns 0 to 2 are l / u, (u - l) / u and d / u for candidates of one token, and 0
        otherwise. The columns 3 to 5 are the same for candidates of several tokens. The last column
        is the number of tokens beyond the first (at most three), divided by three.
    relative_errors
        Errors of the estimates, (exact score - e) / u, one array (n,) for each batch.
    """

    features: list[FloatArray] = field(default_factory=list)
    relative_errors: list[FloatArray] = field(default_factory=list)

    def posterior(self, replacements: ReplacementScores, current_score: float) -> Posterior:
        """Return the predictive distribution of the scores of candidate words at a new position.

        Parameters
        ----------
        replacements
            Estimates and upper bounds of the scores of the sentence with each of V candidates.
        current_score
            Score of the current sentence (its log-probability) in nats.
        """
        estimates = replacements.estimates
        scale = replacements.upper_bounds - estimates
        min_scale = 0.02 * abs(current_score) + 1e-6
        # Scores such as a classifier's margin have no upper bound and no finite scale.
        spread = abs(current_score) + float(np.std(estimates))
        scale = np.where(np.isfinite(scale), scale, spread)
        # If the model provides no estimates, the whole score is unknown.
        if np.all(scale <= min_scale):
            scale = np.full(len(scale), max(abs(current_score), min_scale))
        scale = np.maximum(scale, min_scale)

        # Compute the features l / u, (u - l) / u, d / u and k / 3 of all candidates.
        minimum = scale.min() / scale
        distance = (estimates - current_score) / scale
        extra_tokens = np.zeros(len(scale))
        if replacements.cost.n_tokens is not None:
            n_extra = np.minimum(replacements.cost.n_tokens - 1, _MAX_EXTRA_TOKENS)
            extra_tokens = n_extra / _MAX_EXTRA_TOKENS
        common = np.column_stack([minimum, 1.0 - minimum, distance])
        is_single = (extra_tokens == 0)[:, None]
        features = np.hstack([common * is_single, common * ~is_single, extra_tokens[:, None]])

        # Estimate the prior of the coefficients from earlier positions.
        mean, deviation, noise = _PRIOR_MEAN, _PRIOR_SD, _PRIOR_NOISE
        if self.features:
            x = np.concatenate(self.features)[-_MAX_HISTORY:]
            y = np.concatenate(self.relative_errors)[-_MAX_HISTORY:]
            mean, _ = _fit_coefficients(x, y, _PRIOR_MEAN, _PRIOR_SD, noise)
            noise = _fit_noise(x, y, mean, noise)
            deviation = _RELATIVE_SD * noise[_NOISE_INDEX]
        return Posterior(self, estimates, scale, features, mean, deviation, noise)


def _token_group(features: FloatArray) -> IntArray:
    """Return 0 for each candidate of one token and 1 for each candidate of several tokens, (n,).

    The two groups have different standard deviations of the noise.
    """
    return (features[:, _TOKENS_COLUMN] > 0).astype(np.int64)


def _fit_noise(x: FloatArray, y: FloatArray, mean: FloatArray, prior: FloatArray) -> FloatArray:
    """Estimate the standard deviation s of the noise in a linear regression.

    Words of one token and words of several tokens have different deviations. With the weight of
    n_0 = `_PRIOR_COUNT` observations for the prior variance,
    s^2 = (sum_i (y_i - x_i mean)^2 + n_0 prior^2) / (n + n_0).

    Parameters
    ----------
    x, y
        Features (n, 7) and targets (n,) of exactly scored candidates.
    mean
        Regression coefficients, shape (7,).
    prior
        Prior standard deviations for candidates of one and of several tokens, shape (2,).
    """
    group = _token_group(x)
    sum_squares = np.bincount(group, (y - x @ mean) ** 2, minlength=2) + _PRIOR_COUNT * prior**2
    count = np.bincount(group, minlength=2) + _PRIOR_COUNT
    return np.asarray(np.sqrt(sum_squares / count))


def _fit_coefficients(
    x: FloatArray, y: FloatArray, mean: FloatArray, deviation: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Fit the coefficients by Bayesian linear regression with known noise (Bishop 2006, Eq. 3.50).

    The posterior is normal with covariance = (P + X^T D X)^-1 and mean = covariance (P m + X^T D y)
    for the prior mean m, the diagonal prior precision P and the diagonal noise precision D.

    Parameters
    ----------
    x, y
        Features (n, 7) and targets (n,) of exactly scored candidates.
    mean, deviation
        Prior mean and standard deviation of the coefficients, shape (7,).
    noise
        Standard deviation of the noise for candidates of one and of several tokens, shape (2,).

    Returns
    -------
    mean, covariance
        Posterior mean (7,) and covariance (7, 7) of the coefficients.
    """
    weighted = x / noise[_token_group(x), None] ** 2
    precision = np.diag(deviation**-2.0)
    covariance = np.asarray(np.linalg.inv(precision + x.T @ weighted), dtype=np.float64)
    return covariance @ (precision @ mean + weighted.T @ y), covariance


@dataclass(eq=False)
class Posterior:
    """Predictive distribution of one model's scores of V candidate words at one position.

    A surrogate is a regression that predicts the error of estimated scores (`Surrogate`).

    Attributes
    ----------
    surrogate
        Regression to which exact scores at this position are added as training data.
    estimates
        Estimates e of the scores in nats, shape (V,).
    scale
        Differences u between the upper bounds of the scores and the estimates, shape (V,).
    features
        Features of the candidates, shape (V, 7).
    coefficient_mean, coefficient_deviation
        Prior mean and standard deviation of the regression coefficients, shape (7,).
    noise
        Standard deviation of the noise for candidates of one and of several tokens, shape (2,).
    """

    surrogate: Surrogate
    estimates: FloatArray
    scale: FloatArray
    features: FloatArray
    coefficient_mean: FloatArray
    coefficient_deviation: FloatArray
    noise: FloatArray
    _x: FloatArray = field(default_factory=lambda: np.empty((0, 7)))
    _y: FloatArray = field(default_factory=lambda: np.empty(0))

    def learn(self, indices: IntArray, exact: FloatArray, *, keep: bool = True) -> None:
        """Condition the predictive distribution on exact scores of some candidates.

        Parameters
        ----------
        indices, exact
            Indices of k candidates and their exact scores in nats, shape (k,).
        keep
            Whether the scores should also improve predictions at other positions of the sentence.
            They are then added to the training data in `surrogate`.
        """
        x, y = self.features[indices], (exact - self.estimates[indices]) / self.scale[indices]
        self._x, self._y = np.concatenate([self._x, x]), np.concatenate([self._y, y])
        if keep:
            self.surrogate.features.append(x)
            self.surrogate.relative_errors.append(y)

    def predict(self, indices: IntArray) -> tuple[FloatArray, FloatArray]:
        """Predict the scores of some candidates.

        Parameters
        ----------
        indices
            Indices of the candidates, shape (k,).

        Returns
        -------
        mean, deviation
            Mean and standard deviation of the predictive distribution in nats, shape (k,).
        """
        mean, covariance = _fit_coefficients(
            self._x, self._y, self.coefficient_mean, self.coefficient_deviation, self.noise
        )
        # The regression predicts y = (exact score - estimate) / scale from the features x. `noise`
        # contains the standard deviation of its residuals, for candidates of one token (element 0)
        # and of several tokens (element 1).
        noise = _fit_noise(self._x, self._y, mean, self.noise)
        x, scale = self.features[indices], self.scale[indices]
        # Predictive variance: variance of the noise plus x^T covariance x (Bishop 2006, Eq. 3.59).
        variance = noise[_token_group(x)] ** 2
        variance = variance + np.einsum("vi,ij,vj->v", x, covariance, x)
        # Convert predictions of y back to scores.
        return self.estimates[indices] + scale * (x @ mean), scale * np.sqrt(variance)


def expected_improvement(
    best: FloatArray | float, mean: FloatArray, deviation: FloatArray
) -> FloatArray:
    """Return the expected improvement E max(0, best - X) for normally distributed X.

    This is Eq. 15 of Jones, Schonlau & Welch (1998), for minimisation.

    Parameters
    ----------
    best
        Lowest value so far; a scalar or an array of shape (k,).
    mean, deviation
        Mean and standard deviation of X, shape (k,). A deviation of 0 is allowed.
    """
    safe = np.maximum(deviation, 1e-12)
    t = (best - mean) / safe
    density = np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi)
    return np.asarray((best - mean) * scipy.special.ndtr(t) + safe * density)
