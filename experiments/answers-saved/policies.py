"""Policies of the literature that `run.py` compares with those of contstim."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from contstim.adaptive.posterior import softmax
from contstim.arrays import FloatArray, IntArray

_GRID = np.linspace(-4, 4, 61)
#: Prior standard deviation of d, the intercepts of pairs.
_INTERCEPT_SD = 2.0


class LabelInformation:
    """Information gain about the best model, with one error rate (Model Selector, LLM Selector).

    Answers agree with the best model with probability 1 - `error_rate` (Okanovic et al. 2024, arXiv
    2410.13609; arXiv 2510.09418).
    """

    def __init__(self, preferences: FloatArray, n_studies: int, error_rate: float = 0.46) -> None:
        second = (np.sign(preferences) + 1) / 2
        self.probabilities = (error_rate + (1 - 2 * error_rate) * second).T  # models, pairs
        self.log_weights = np.zeros((n_studies, preferences.shape[1]))

    def values(self) -> FloatArray:
        """Return the mutual information in nats, shape (R, P)."""
        weights = softmax(self.log_weights)
        mixture = weights @ self.probabilities
        return np.asarray(_entropy(mixture) - weights @ _entropy(self.probabilities))

    def update(self, pairs: IntArray, answers: IntArray) -> None:
        """Update the posterior by Bayes' rule."""
        second = self.probabilities[:, pairs].T
        self.log_weights += np.log(np.where(answers[:, None] == 1, second, 1 - second))


class ItemResponse:
    """Fisher information of a two-parameter logistic model at the estimated ability (ATLAS).

    Models and participants are respondents: respondent m prefers sentence 2 of pair x with
    probability sigma(a_x theta_m + d_x). The pairs' parameters are fitted to the models'
    preferences; theta of the participants is estimated from their answers.
    """

    def __init__(self, slopes: FloatArray, intercepts: FloatArray, n_studies: int) -> None:
        self.probabilities = expit(_GRID[:, None] * slopes + intercepts)  # grid, pairs
        self.information = slopes**2 * self.probabilities * (1 - self.probabilities)
        self.log_posterior = np.tile(-(_GRID**2) / 2, (n_studies, 1))

    def values(self) -> FloatArray:
        """Return the expected Fisher information, shape (R, P)."""
        return np.asarray(softmax(self.log_posterior) @ self.information)

    def update(self, pairs: IntArray, answers: IntArray) -> None:
        """Update the posterior of the ability."""
        second = self.probabilities[:, pairs].T
        self.log_posterior += np.log(np.where(answers[:, None] == 1, second, 1 - second))


def fit_item_response(preferences: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Fit a_x and d_x of P pairs to preferences of M models for sentence 2, shape (P, M)."""
    second = (np.sign(preferences) + 1) / 2
    n_pairs, n_models = second.shape
    rng = np.random.default_rng(0)
    start = np.concatenate([rng.normal(size=n_pairs), np.zeros(n_pairs), rng.normal(size=n_models)])

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        a, d, theta = np.split(parameters, [n_pairs, 2 * n_pairs])
        logits = np.outer(a, theta) + d[:, None]
        log_likelihood = (second * logits - np.logaddexp(0, logits)).sum()
        prior = (a**2).sum() / 2 + (theta**2).sum() / 2 + (d**2).sum() / (2 * _INTERCEPT_SD**2)
        error = expit(logits) - second
        gradients = (error @ theta + a, error.sum(axis=1) + d / _INTERCEPT_SD**2, a @ error + theta)
        return prior - log_likelihood, np.concatenate(gradients)

    fitted = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).x
    return fitted[:n_pairs], fitted[n_pairs : 2 * n_pairs]


def _entropy(probabilities: FloatArray) -> FloatArray:
    """Return the entropy of Bernoulli distributions in nats."""
    p = np.clip(probabilities, 1e-9, 1 - 1e-9)
    return np.asarray(-(p * np.log(p) + (1 - p) * np.log1p(-p)))
