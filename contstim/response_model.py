"""Response model: the probability of each choice if a model were right."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.special import expit

from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.settings import option, settings

#: From so many groups on, tests run across groups; the smallest two-sided p of six is 0.031.
MIN_GROUPS = 6

_NODES = 64  # of each quadrature
_GRID = 1001  # points of the tabled curve, whose error is below 1e-5


@settings
class ResponseModel:
    """How people choose if a model is right, with effects of persons and of pairs of sentences.

    Person p chooses sentence 2 of pair x with probability

        lapse / 2 + (1 - lapse) sigma(beta_p g_x + b_p + u_x),

    where g_x is the model's log p(sentence 2) - log p(sentence 1) in standard deviations of its
    log-probability over natural sentences, cut off at ± `max_preference`, so that no
    outlier decides; sigma is the logistic function, log beta_p ~ N(log slope, slope_sd²),
    b_p ~ N(0, side_sd²) and u_x ~ N(0, item_sd²).

    Attributes
    ----------
    slope
        Median over persons of beta, logits.
    slope_sd
        Standard deviation of log beta over persons.
    side_sd
        Of the persons' leanings to one side of the screen, logits.
    item_sd
        Of the pairs' effects, logits: what all people see in a pair and the model does not.
    lapse
        Share of answers that are the toss of a coin.
    max_preference
        Where g is cut off.

    Notes
    -----
    A logistic regression with crossed random effects (Baayen, Davidson and Bates 2008, doi
    10.1016/j.jml.2007.12.005) and a lapse rate (Wichmann and Hill 2001, doi 10.3758/BF03194544).
    The defaults are fitted to the second experiment of Golan et al. (2023), 30 people and 120
    pairs, by ``experiments/set-power/fit.py``.

    Examples
    --------
    >>> ResponseModel().probabilities(np.array([0.0, 1.0])).round(2)
    array([0.5 , 0.67])
    >>> ResponseModel(slope=3.0, item_sd=0.0).probabilities(np.array([0.0, 1.0])).round(2)
    array([0.5 , 0.93])
    """

    slope: Annotated[float, Field(ge=0, le=100)] = option(
        0.91, "log-odds a standard deviation of log-probability", "NUMBER"
    )
    slope_sd: Annotated[float, Field(ge=0, le=2)] = option(
        0.47, "of the logarithm of the slope, over people", "NUMBER"
    )
    side_sd: Annotated[float, Field(ge=0, le=100)] = option(
        0.29, "of people's leanings to one side, logits", "NUMBER"
    )
    item_sd: Annotated[float, Field(ge=0, le=100)] = option(
        1.36, "of the effects of pairs of sentences, logits", "NUMBER"
    )
    lapse: Annotated[float, Field(ge=0, le=1)] = option(
        0.011, "share of answers at random", "NUMBER"
    )
    max_preference: Annotated[float, Field(gt=0, le=100)] = 3.0

    def preferences(self, scaled: FloatArray) -> FloatArray:
        """Return g: differences of log-probabilities in standard deviations, cut off."""
        return np.clip(scaled, -self.max_preference, self.max_preference)

    def probabilities(self, scaled: FloatArray) -> FloatArray:
        """Return how often sentence 2 is chosen, over all persons and pairs like these.

        Parameters
        ----------
        scaled
            Differences of log-probabilities in standard deviations, any shape.

        Returns
        -------
        array
            Probabilities, of the same shape: the mean over effects, by Gauss and Hermite's
            quadrature; NaN where a difference is.

        Examples
        --------
        >>> ResponseModel().probabilities(np.array([-1.0, 0.0, 1.0])).round(2)
        array([0.33, 0.5 , 0.67])
        """
        curve = _curve(self)
        # Linear interpolation between equally spaced points.
        place = np.minimum(np.abs(scaled) * ((_GRID - 1) / self.max_preference), _GRID - 1.0)
        before = np.minimum(np.nan_to_num(place).astype(np.int64), _GRID - 2)
        chosen = curve[before] + (place - before) * np.diff(curve)[before]
        return np.where(np.asarray(scaled) < 0, 1 - chosen, chosen)


@lru_cache(maxsize=8)
def _curve(people: ResponseModel) -> FloatArray:
    """Return the probabilities at equally spaced values of g from 0 up to `max_preference`.

    A table, as selections ask for millions of values.
    """
    grid = np.linspace(0.0, people.max_preference, _GRID)
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    weights = weights / weights.sum()
    slopes = people.slope * np.exp(people.slope_sd * nodes)
    offsets = np.hypot(people.side_sd, people.item_sd) * nodes
    curve = np.zeros(_GRID)
    for slope, weight in zip(slopes, weights, strict=True):
        curve += weight * (expit(grid[:, None] * slope + offsets) @ weights)
    # Away from 0 and 1, so that no single answer excludes a model.
    return np.clip(people.lapse / 2 + (1 - people.lapse) * curve, 1e-9, 1 - 1e-9)


def log_bayes_factors(probabilities: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return expected log Bayes factors of one answer for the right one of two models, nats.

    Parameters
    ----------
    probabilities
        Of choosing sentence 2, shape (..., M), under M models.
    weights
        Symmetric, shape (M, M), diagonal 0: sum the factors of all model pairs with these weights
        (each pair counts by its weight once).

    Returns
    -------
    array
        For models i and j, (p_i - p_j)(logit p_i - logit p_j) / 2: the mean of the
        Kullback-Leibler divergences of both directions, as either model may be right. Shape
        (..., M (M - 1) / 2), the pairs in the order of `itertools.combinations`; with weights
        (...,).

    Notes
    -----
    Source: Kullback and Leibler (1951), doi 10.1214/aoms/1177729694, whose divergence J between two
    hypotheses is twice this, for one Bernoulli trial.
    """
    logits = np.log(probabilities) - np.log1p(-probabilities)
    if weights is not None:
        laplacian = np.diag(weights.sum(axis=0)) - weights
        return np.asarray((probabilities * (logits @ laplacian)).sum(axis=-1) / 2)
    i, j = np.triu_indices(probabilities.shape[-1], 1)
    return np.asarray(
        (probabilities[..., i] - probabilities[..., j]) * (logits[..., i] - logits[..., j]) / 2
    )


def sentence_evidence_bounds(people: ResponseModel, apart: FloatArray) -> FloatArray:
    """Return k, where no log Bayes factor of models i and j exceeds k(x) + k(y).

    That holds wherever |g_i - g_j| <= x + y, so that what a pair of sentences can tell is bounded
    by what either brings.

    Parameters
    ----------
    people
        How people answer.
    apart
        The values x, not negative, any shape.

    Notes
    -----
    With G(t) the largest factor of any |g_i - g_j| <= t, C a convex function above G and c the
    largest factor of all, k(x) = min(C(2 x) / 2, c): either C(2 x) / 2 + C(2 y) / 2 >= C(x + y), as
    C is convex, or one of the two is c.
    """
    grid, halves, largest = _halves(people)
    return np.minimum(np.interp(apart, grid, halves), largest)


@lru_cache(maxsize=8)
def _halves(people: ResponseModel) -> tuple[FloatArray, FloatArray, float]:
    """Return values x, those of C(2 x) / 2 and c, as `sentence_evidence_bounds` defines them."""
    g = np.linspace(-people.max_preference, people.max_preference, _GRID)
    probabilities = people.probabilities(g)
    logits = np.log(probabilities) - np.log1p(-probabilities)
    factors = (
        np.subtract.outer(probabilities, probabilities) * np.subtract.outer(logits, logits) / 2
    )
    # Factors grow with the distance, so that values between points of the grid, and between those
    # of C, are within those of three steps more.
    steps = np.minimum(np.arange(_GRID) + 3, _GRID - 1)
    most = np.array([factors.diagonal(step).max() for step in range(_GRID)])[steps]
    slopes = np.maximum.accumulate(np.diff(most, append=most[-1]))
    convex = np.concatenate([most[:1], most[0] + np.cumsum(slopes)])
    missing = 2 * most[-1] - convex[-1]
    if missing > 0:
        further = int(np.ceil(missing / slopes[-1]))
        convex = np.append(convex, convex[-1] + slopes[-1] * np.arange(1, further + 1))
    width = g[1] - g[0]
    return np.arange(len(convex)) * width / 2, convex / 2, float(most[-1])


def log_prob_scale(log_probs: FloatArray, models: Sequence[str]) -> FloatArray:
    """Return each model's standard deviation over sentences, shape (M,), from shape (S, M).

    Raises
    ------
    InputError
        If a model gives all sentences the same score, naming it.
    """
    finite = np.where(np.isfinite(log_probs), log_probs, np.nan)
    scale = np.nanstd(finite, axis=0)
    if not (scale > 0).all():
        raise InputError(
            f"model {models[int(np.flatnonzero(~(scale > 0))[0])]!r} gives all sentences the same "
            "score, so it prefers none; leave it out"
        )
    return np.asarray(scale)


def inference_unit(groups: int, min_groups: int = MIN_GROUPS) -> str:
    """Return what tests run across in a design of so many groups: ``group`` or ``participant``."""
    return "group" if groups >= min_groups else "participant"
