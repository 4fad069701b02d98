"""A model of people: how they would choose between two sentences if a model were right."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.special import expit

from contstim.arrays import FloatArray
from contstim.settings import settings

__all__ = ["People", "log_bayes_factor"]

_NODES = 24  # of each quadrature; more change no probability by 1e-9


@settings
class People:
    """How people choose if a model is right, with effects of persons and of pairs of sentences.

    Person p chooses sentence 2 of pair x with probability

        lapse / 2 + (1 - lapse) sigma(beta_p g_x + b_p + u_x),

    where g_x is the fractional rank of sentence 2 under the model minus that of sentence 1, in
    [-1, 1], sigma is the logistic function, log beta_p ~ N(log slope, slope_sd²), b_p ~ N(0,
    side_sd²) and u_x ~ N(0, item_sd²). A rank difference, not a log-ratio: a model's calibration
    does not count, and no outlier decides.

    Attributes
    ----------
    slope
        Median over persons of beta: log-odds for sentences at both ends of the ranks.
    slope_sd
        Standard deviation of log beta over persons.
    side_sd
        Of the persons' leanings to one side of the screen, in logits.
    item_sd
        Of the pairs' effects, in logits: what all people see in a pair and the model does not.
    lapse
        Share of answers that are the toss of a coin.

    Notes
    -----
    The model is a logistic regression with crossed random effects (Baayen, Davidson and Bates 2008,
    doi 10.1016/j.jml.2007.12.005) and a lapse rate (Wichmann and Hill 2001, doi
    10.3758/BF03194544). The defaults are fitted to the second experiment of Golan et al. (2023),
    30 people and 120 pairs, by ``experiments/set-power/fit.py``.
    """

    slope: Annotated[float, Field(ge=0)] = 4.0
    slope_sd: Annotated[float, Field(ge=0)] = 0.4
    side_sd: Annotated[float, Field(ge=0)] = 0.3
    item_sd: Annotated[float, Field(ge=0)] = 1.0
    lapse: Annotated[float, Field(ge=0, le=1)] = 0.01

    def probabilities(self, differences: FloatArray) -> FloatArray:
        """Return how often sentence 2 is chosen, over all persons and pairs like these.

        Parameters
        ----------
        differences
            Rank differences g, any shape.

        Returns
        -------
        array
            Probabilities, of the same shape: the mean over effects, by Gauss and Hermite's
            quadrature.
        """
        # A table of the curve, as selections ask for millions of values; its error is below 1e-7.
        grid = np.linspace(0.0, 1.0, 2001)
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        weights = weights / weights.sum()
        slopes = self.slope * np.exp(self.slope_sd * nodes)
        offsets = np.hypot(self.side_sd, self.item_sd) * nodes
        logits = grid[:, None, None] * slopes[:, None] + offsets
        curve = np.einsum("gab,a,b->g", expit(logits), weights, weights)
        curve = self.lapse / 2 + (1 - self.lapse) * curve
        chosen = np.interp(np.abs(differences), grid, curve)
        return np.where(np.asarray(differences) < 0, 1 - chosen, chosen)


def log_bayes_factor(one: FloatArray, two: FloatArray) -> FloatArray:
    """Return the expected log Bayes factor of one answer for the right one of two models, nats.

    Parameters
    ----------
    one, two
        The probabilities of choosing sentence 2 under either model, of one shape.

    Returns
    -------
    array
        (p - q)(logit p - logit q) / 2: the mean of the Kullback-Leibler divergences of both
        directions, since either model may be right.

    Notes
    -----
    Source: Kullback and Leibler (1951), doi 10.1214/aoms/1177729694, whose divergence J between
    hypotheses is twice this, applied to one Bernoulli trial.
    """
    return np.asarray((one - two) * (_logit(one) - _logit(two)) / 2)


def _logit(p: FloatArray) -> FloatArray:
    return np.asarray(np.log(p) - np.log1p(-p))
