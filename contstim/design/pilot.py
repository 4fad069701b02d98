"""Estimation of the parameters of simulated participants from a pilot study."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from contstim.arrays import FloatArray, IntArray
from contstim.design.simulate import Simulation
from contstim.evaluation.trials import TrialData

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_MAX_SLOPE_SD = 2.0


def mean_choice(latent: FloatArray, slope_sd: float) -> FloatArray:
    """Compute the probability of choosing sentence 2, averaged over participants.

    Parameters
    ----------
    latent : array of any shape
        Preferences in units of the noise.
    slope_sd
        Standard deviation of participants' log slopes.

    Returns
    -------
    array of the same shape
        E[Phi(slope latent)], by Gauss-Hermite quadrature.
    """
    return np.asarray(ndtr(latent[..., None] * np.exp(slope_sd * _NODES)) @ _WEIGHTS)


def estimate_pilot(data: TrialData) -> tuple[FloatArray, Simulation, int]:
    """Estimate how participants answer by the method of moments.

    1. Let t_x be the proportion of choices of the sentence of pair x that the first model with a
       preference prefers. Pairs with the same preferences of all models form a class with mean m.
    2. The probability of pair x is m + sqrt(b) (t_x - m), where b is the proportion of the variance
       of t_x - m that is not binomial sampling error. The accuracy of each model is unchanged.
    3. The standard deviation of log slopes is chosen such that participants differ in their
       agreement with the majority as much as in the pilot.
    4. The confidence limits are chosen such that the simulated ratings have the distribution of the
       pilot's ratings.

    Parameters
    ----------
    data
        Choices in the experimental trials of the pilot.

    Returns
    -------
    latent : (P,) array
        Preference for sentence 2 of each pair, in units of the noise.
    simulation : Simulation
        Parameters of participants.
    followed : int
        Index of the model with the highest accuracy.
    """
    n_choices = np.bincount(data.pair, minlength=data.n_pairs)
    preferred = np.sign(np.nan_to_num(data.log_ratio))
    # Orient each pair such that the first preference is positive.
    first = np.take_along_axis(preferred, (preferred != 0).argmax(axis=1)[:, None], axis=1)
    side = np.where(first[:, 0] < 0, -1.0, 1.0)
    oriented = preferred * side[:, None]
    pair_class = np.unique(oriented, axis=0, return_inverse=True)[1].ravel()
    is_chosen = (1 + side[data.pair] * np.sign(data.rating)) / 2
    share = np.bincount(data.pair, is_chosen, data.n_pairs) / np.maximum(n_choices, 1)
    class_means = np.bincount(pair_class, n_choices * share) / np.bincount(pair_class, n_choices)
    mean = class_means[pair_class]

    # Method of moments: the observed variance within classes is the sum of the variance of the
    # probabilities and the binomial sampling error. `sampling` estimates the latter without bias.
    n_pairs, n_classes = len(share), int(pair_class.max()) + 1
    variance = float(n_choices @ (share - mean) ** 2) * (n_pairs / max(n_pairs - n_classes, 1))
    sampling = float(n_choices @ (share * (1 - share) / np.maximum(n_choices - 1, 1)))
    is_estimable = n_choices.max() >= 2 and variance > 0
    sampling_share = min(sampling / variance, 1.0) if is_estimable else 1.0
    probability = mean + np.sqrt(1 - sampling_share) * (share - mean)

    slope_sd, latent = _estimate_slope_sd(data, is_chosen, probability, n_choices)
    rng = np.random.default_rng(0)
    slopes = np.exp(slope_sd * rng.normal(size=len(data.pair)))
    strength = np.abs(slopes * latent[data.pair] + rng.normal(size=len(data.pair)))
    rating_size = np.abs(data.rating)
    limits = [float(np.quantile(strength, (rating_size <= k).mean())) for k in (1, 2)]
    simulation = Simulation(
        slope_sd=slope_sd, lapse=0.0, confident=limits[0], very_confident=limits[1]
    )
    accuracy = (n_choices * (2 * probability - 1)) @ oriented
    return side * latent, simulation, int(np.argmax(accuracy))


def _estimate_slope_sd(
    data: TrialData, is_chosen: FloatArray, probability: FloatArray, n_choices: IntArray
) -> tuple[float, FloatArray]:
    """Estimate how much participants differ in the strength of their preferences.

    The slope of a participant multiplies all preferences; its logarithm is normally distributed.
    Participants with a larger slope agree more with the majority. The standard deviation is chosen
    such that the variance of this agreement over participants equals the variance in the pilot,
    after subtraction of the binomial sampling error.

    Parameters
    ----------
    data
        Choices of the pilot.
    is_chosen : (n_ratings,) array
        1 if the preferred sentence of the pair was chosen.
    probability, n_choices : (P,) array
        Probability that this sentence is chosen, and number of choices of each pair.

    Returns
    -------
    slope_sd : float
        Standard deviation of the log slopes.
    latent : (P,) array
        Preference for this sentence that leads to `probability`, in units of the noise.
    """
    direction = 2 * probability - 1
    participant_index = np.unique(data.participant, return_inverse=True)[1]
    n_trials = np.bincount(participant_index)
    deviation = direction[data.pair] * (is_chosen - probability[data.pair])
    observed = np.var(np.bincount(participant_index, deviation) / n_trials)
    binomial = direction**2 * probability * (1 - probability)
    sampling = np.mean(np.bincount(participant_index, binomial[data.pair]) / n_trials**2)
    grid = np.linspace(-8.0, 8.0, 1601)
    weights = n_choices / n_choices.sum()

    def latent_for(slope_sd: float) -> FloatArray:
        """Return the preferences that lead to the observed probabilities."""
        return np.interp(probability, mean_choice(grid, slope_sd), grid)

    def excess_variance(slope_sd: float) -> float:
        """Return the predicted variance of agreement minus the variance in the pilot."""
        by_slope = ndtr(latent_for(slope_sd)[:, None] * np.exp(slope_sd * _NODES))
        agreement = (weights * direction) @ by_slope
        variance = _WEIGHTS @ (agreement - _WEIGHTS @ agreement) ** 2
        return float(variance - (observed - sampling))

    if excess_variance(0.0) >= 0:
        slope_sd = 0.0
    elif excess_variance(_MAX_SLOPE_SD) < 0:
        slope_sd = _MAX_SLOPE_SD
    else:
        slope_sd = float(brentq(excess_variance, 0.0, _MAX_SLOPE_SD))
    return slope_sd, latent_for(slope_sd)
