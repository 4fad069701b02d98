"""Response model: the probability that a participant chooses a sentence, given a language model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.special import expit

from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.settings import settings

#: Minimum number of groups for tests across groups: the smallest two-sided p-value of a signed-rank
#: test with six groups is 0.031.
MIN_GROUPS = 6

_N_NODES = 64  # Gauss-Hermite nodes for each random effect
_N_POINTS = 1001  # points of the tabulated choice curve; interpolation error below 1e-5


@settings
class ResponseModel:
    """Logistic model of choices with random effects of participants and sentence pairs.

    If the preferences of participants follow a language model, participant p chooses sentence 2 of
    pair x with probability

        lapse / 2 + (1 - lapse) sigma(beta_p g_x + b_p + u_x),

    where sigma is the logistic function and g_x the preference of the language model: its
    log p(sentence 2) - log p(sentence 1), divided by the standard deviation of its log-probability
    over natural sentences and clipped to ± `max_preference`. The random effects are the slope, with
    log beta_p ~ N(log slope, slope_sd²), the bias of the participant, b_p ~ N(0, side_sd²), and the
    effect of the pair, u_x ~ N(0, item_sd²).

    Attributes
    ----------
    slope
        Median slope over participants, in logits per standard deviation of log-probability.
    slope_sd
        Standard deviation of the log slope over participants.
    side_sd
        Standard deviation of participants' biases towards one side of the screen, in logits.
    item_sd
        Standard deviation of the effects of pairs that no model predicts, in logits.
    lapse
        Proportion of random answers.
    max_preference
        Absolute value to which g is clipped, so that single sentences do not dominate.

    Notes
    -----
    The model is a logistic regression with crossed random effects (Baayen, Davidson and Bates 2008,
    doi 10.1016/j.jml.2007.12.005) and a lapse rate (Wichmann and Hill 2001, doi
    10.3758/BF03194544). The defaults are fitted to experiment 2 of Golan et al. (2023), 30
    participants and 120 pairs, by ``experiments/set-power/fit.py``.

    Examples
    --------
    >>> ResponseModel().probabilities(np.array([0.0, 1.0])).round(2)
    array([0.5 , 0.67])
    >>> ResponseModel(slope=3.0, item_sd=0.0).probabilities(np.array([0.0, 1.0])).round(2)
    array([0.5 , 0.93])
    """

    slope: Annotated[float, Field(ge=0, le=100)] = 0.91
    slope_sd: Annotated[float, Field(ge=0, le=2)] = 0.47
    side_sd: Annotated[float, Field(ge=0, le=100)] = 0.29
    item_sd: Annotated[float, Field(ge=0, le=100)] = 1.36
    lapse: Annotated[float, Field(ge=0, le=1)] = 0.011
    max_preference: Annotated[float, Field(gt=0, le=100)] = 3.0

    def preferences(self, scaled: FloatArray) -> FloatArray:
        """Compute preferences g of a language model from differences of log-probabilities.

        Parameters
        ----------
        scaled : array of any shape
            Differences log p(sentence 2) - log p(sentence 1) in standard deviations.

        Returns
        -------
        array of the same shape
            Differences clipped to ± `max_preference`.
        """
        return np.clip(scaled, -self.max_preference, self.max_preference)

    def probabilities(self, scaled: FloatArray) -> FloatArray:
        """Compute the probability that sentence 2 is chosen, averaged over random effects.

        The average over participants and pairs is computed by Gauss-Hermite quadrature at equally
        spaced preferences g and interpolated linearly.

        Parameters
        ----------
        scaled : array of any shape
            Differences log p(sentence 2) - log p(sentence 1) in standard deviations.

        Returns
        -------
        array of the same shape
            Probabilities; NaN where the difference is NaN.

        Examples
        --------
        >>> ResponseModel().probabilities(np.array([-1.0, 0.0, 1.0])).round(2)
        array([0.33, 0.5 , 0.67])
        """
        curve = _tabulate_curve(self)
        # `scaled` are preferences g for sentence 2, and `curve` the probabilities on a grid of |g|.
        # Interpolate the tabulated curve linearly at |g|; probabilities of -g and g sum to 1.
        position = np.minimum(
            np.abs(scaled) * ((_N_POINTS - 1) / self.max_preference), _N_POINTS - 1.0
        )
        lower = np.minimum(np.nan_to_num(position).astype(np.int64), _N_POINTS - 2)
        probability = curve[lower] + (position - lower) * np.diff(curve)[lower]
        return np.where(np.asarray(scaled) < 0, 1 - probability, probability)


@lru_cache(maxsize=8)
def _tabulate_curve(response_model: ResponseModel) -> FloatArray:
    """Compute the probability of choosing sentence 2 on a grid of preferences.

    The preference of a language model is the difference between its log-probabilities of the two
    sentences, in standard deviations. The grid extends from 0 to `max_preference`. Each probability
    is an average over two normal variables: a participant's log slope, and the sum of the
    participant's bias and the effect of the pair. Both integrals are computed by Gauss-Hermite
    quadrature.
    """
    preferences = np.linspace(0.0, response_model.max_preference, _N_POINTS)
    nodes, weights = np.polynomial.hermite_e.hermegauss(_N_NODES)
    # Gauss-Hermite quadrature for a standard normal variable.
    weights = weights / weights.sum()
    # Nodes of the log-normal slope and of the normal offset b_p + u_x.
    slopes = response_model.slope * np.exp(response_model.slope_sd * nodes)
    offsets = np.hypot(response_model.side_sd, response_model.item_sd) * nodes
    curve = np.zeros(_N_POINTS)
    # Average over the slopes (sum) and over the offsets (matrix product).
    for slope, weight in zip(slopes, weights, strict=True):
        curve += weight * (expit(preferences[:, None] * slope + offsets) @ weights)
    # With probability `lapse`, a participant answers at random.
    curve = response_model.lapse / 2 + (1 - response_model.lapse) * curve
    # Probabilities of exactly 0 or 1 would let a single answer exclude a model.
    return np.clip(curve, 1e-9, 1 - 1e-9)


def log_bayes_factors(probabilities: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Compute the expected log Bayes factor of one answer for each pair of models.

    The Bayes factor is the probability of an answer under the true model divided by its probability
    under the other model. If models i and j predict that sentence 2 is chosen with probabilities
    p_i and p_j, and each is true with probability 1/2, the expected log Bayes factor is

        (p_i - p_j) (logit p_i - logit p_j) / 2   nats.

    This is half of the divergence J of Kullback and Leibler (1951, doi 10.1214/aoms/1177729694) of
    the two Bernoulli distributions.

    Parameters
    ----------
    probabilities : (..., M) array
        Probability of choosing sentence 2 under each of M models.
    weights : (M, M) array, optional
        Symmetric weights of the pairs of models, with diagonal 0. If given, the weighted sum over
        pairs of models is returned.

    Returns
    -------
    (..., M (M - 1) / 2) array, or (...) array with `weights`
        Expected log Bayes factors in nats, pairs of models in the order of
        `itertools.combinations`.
    """
    logits = np.log(probabilities) - np.log1p(-probabilities)
    if weights is not None:
        # The weighted sum over pairs is the quadratic form p' L logit(p) / 2, where L is the
        # graph Laplacian of the weights.
        laplacian = np.diag(weights.sum(axis=0)) - weights
        return np.asarray((probabilities * (logits @ laplacian)).sum(axis=-1) / 2)
    # For each pair of models i < j: (p_i - p_j) (logit p_i - logit p_j) / 2.
    i, j = np.triu_indices(probabilities.shape[-1], 1)
    return np.asarray(
        (probabilities[..., i] - probabilities[..., j]) * (logits[..., i] - logits[..., j]) / 2
    )


def sentence_evidence_bounds(response_model: ResponseModel, differences: FloatArray) -> FloatArray:
    """Bound the evidence that one sentence of a pair contributes to a model comparison.

    The evidence is the expected log Bayes factor between two models (`log_bayes_factors`). With
    these bounds, promising pairs can be found without computing the evidence of all pairs.

    The preference of a model is the difference between its scores of the two sentences. The
    preferences of two models therefore differ by d_1 - d_2, where d_s is the score of sentence s
    under one model minus its score under the other model. With the absolute values x and y of d_1
    and d_2, the evidence of the pair is at most k(x) + k(y). This function computes k.

    Parameters
    ----------
    response_model
        Model that converts preferences to probabilities of answers.
    differences : array of any shape
        Absolute values x of the differences d_s of single sentences, in the unit of preferences.

    Returns
    -------
    array of the same shape
        Bounds k(x) in nats.

    Notes
    -----
    Let G(t) be the largest evidence of a pair for which the preferences of two models differ by at
    most t, c the maximum of G, and C a convex function that is nowhere smaller than G. Then
    k(x) = min(C(2 x) / 2, c).

    The sum k(x) + k(y) is a bound: if one of the terms is c, no evidence is larger. Otherwise, the
    sum is C(2 x) / 2 + C(2 y) / 2 >= C(x + y) >= G(x + y), because C is convex, and the preferences
    differ by at most x + y.
    """
    grid, half_bounds, max_factor = _tabulate_evidence_bounds(response_model)
    return np.minimum(np.interp(differences, grid, half_bounds), max_factor)


@lru_cache(maxsize=8)
def _tabulate_evidence_bounds(
    response_model: ResponseModel,
) -> tuple[FloatArray, FloatArray, float]:
    """Tabulate an upper bound on the evidence that one sentence of a pair can contribute.

    Let G(t) be the maximum expected log Bayes factor of one response for two models whose
    preferences differ by at most t, and c = max_t G(t). If the sentence contributes x to the
    difference, the bound is min(C(2 x) / 2, c), where C is a convex function with C >= G
    (`sentence_evidence_bounds`).

    Returns
    -------
    grid : array
        Equally spaced values x.
    half_bounds : array
        C(2 x) / 2 at each x.
    max_factor : float
        Constant c.
    """
    preferences = np.linspace(
        -response_model.max_preference, response_model.max_preference, _N_POINTS
    )
    probabilities = response_model.probabilities(preferences)
    logits = np.log(probabilities) - np.log1p(-probabilities)
    # Expected log Bayes factor of each combination of preferences of two models i and j,
    # (p_i - p_j) (logit p_i - logit p_j) / 2.
    factors = (
        np.subtract.outer(probabilities, probabilities) * np.subtract.outer(logits, logits) / 2
    )

    # G(t): the largest factor of two preferences whose difference is t = 0, 1, ... grid steps. To
    # cover preferences between grid points, use the value three steps further, which is larger.
    max_factors = np.array([factors.diagonal(n_steps).max() for n_steps in range(_N_POINTS)])
    max_factors = max_factors[np.minimum(np.arange(_N_POINTS) + 3, _N_POINTS - 1)]
    max_factor = float(max_factors[-1])

    # C(t): a convex function that is nowhere below G, because its slope is the maximum of all
    # slopes of G up to t. The bound min(C(2 x) / 2, max_factor) is constant where C is above
    # 2 max_factor, so continue C with its last slope up to this value.
    slopes = np.maximum.accumulate(np.diff(max_factors, append=max_factor))
    convex = np.concatenate([max_factors[:1], max_factors[0] + np.cumsum(slopes)])
    missing = 2 * max_factor - convex[-1]
    if missing > 0:
        n_steps = int(np.ceil(missing / slopes[-1]))
        convex = np.append(convex, convex[-1] + slopes[-1] * np.arange(1, n_steps + 1))
    # C is tabulated at t = 2 x, so the distance of the values x is half a grid step.
    grid_step = preferences[1] - preferences[0]
    return np.arange(len(convex)) * grid_step / 2, convex / 2, max_factor


def log_prob_std(log_probs: FloatArray, models: Sequence[str]) -> FloatArray:
    """Compute the standard deviation of the log-probabilities of each model over sentences.

    Parameters
    ----------
    log_probs : (S, M) array
        Log-probabilities in nats. Values that are not finite are ignored.
    models
        Names of the M models, for the error message.

    Returns
    -------
    (M,) array
        Standard deviations in nats.

    Raises
    ------
    InputError
        If a model gives all sentences the same score.
    """
    finite = np.where(np.isfinite(log_probs), log_probs, np.nan)
    # Standard deviation over sentences of each model, without missing and infinite values.
    scale = np.nanstd(finite, axis=0)
    is_constant = ~(scale > 0)
    if is_constant.any():
        raise InputError(
            f"model {models[int(is_constant.argmax())]!r} gives all sentences the same score, so "
            "it cannot be compared; leave it out"
        )
    return np.asarray(scale)


def inference_unit(n_groups: int, min_groups: int = MIN_GROUPS) -> str:
    """Return ``group`` or ``participant``, the unit over which signed-rank tests are computed.

    Groups of participants are used if there are at least `min_groups` of them.
    """
    return "group" if n_groups >= min_groups else "participant"
