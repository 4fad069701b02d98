"""Estimation of the parameters of simulated participants from the choices in a pilot study."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from contstim.arrays import FloatArray, IntArray
from contstim.design.simulate import Simulation
from contstim.evaluation.trials import TrialData

# Gauss-Hermite quadrature of expectations over a standard normal variable.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_MAX_SLOPE_SD = 2.0


def mean_choice(latent: FloatArray, slope_sd: float) -> FloatArray:
    """Compute the probability that a random participant chooses sentence 2.

    A participant chooses sentence 2 if slope * latent + noise > 0, where the noise is standard
    normal and log(slope) ~ N(0, slope_sd^2) over participants. The probability is
    E[Phi(slope * latent)] with the standard normal distribution function Phi.

    Parameters
    ----------
    latent : array of any shape
        Preference for sentence 2 of each pair, in standard deviations of the noise.
    slope_sd
        Standard deviation of log(slope) over participants.

    Returns
    -------
    array of the same shape
        Probability for each pair, computed by Gauss-Hermite quadrature.
    """
    # E[Phi(slope * latent)] as a weighted sum over the quadrature nodes of log(slope) / slope_sd.
    return np.asarray(ndtr(latent[..., None] * np.exp(slope_sd * _NODES)) @ _WEIGHTS)


def estimate_pilot(data: TrialData) -> tuple[FloatArray, Simulation, int]:
    """Estimate preferences, participant parameters and the best model's index from pilot choices.

    The estimates are obtained by the method of moments. The *reference sentence* of a pair is the
    sentence that the first model prefers (if it has no preference, the next model).

    1. Choice probabilities: let t_x be the proportion of choices of the reference sentence of pair
       x, and m the mean of this proportion over all pairs on which the models have the same
       preferences as on x. The proportions vary too much because of binomial sampling error. The
       estimated probability is therefore m + sqrt(b) (t_x - m), where b is the fraction of the
       variance of t_x - m that is not sampling error. This does not change the accuracy of a model.
    2. Differences between participants: each participant multiplies all preferences by a slope. The
       standard deviation of log(slope) is chosen so that participants differ in their agreement
       with the majority as much as in the pilot study.
    3. Confidence: the thresholds between three levels of confidence are chosen so that simulated
       ratings have the same distribution as the ratings in the pilot study.

    Parameters
    ----------
    data
        Choices in the experimental trials of the pilot study.

    Returns
    -------
    latent : (P,) array
        Preference for sentence 2 of each pair, in standard deviations of the noise.
    simulation : Simulation
        Parameters of the participants.
    best_model : int
        Index of the model with the highest accuracy.
    """
    n_choices = np.bincount(data.pair, minlength=data.n_pairs)
    preferences = np.sign(np.nan_to_num(data.log_ratio))
    # Orient each pair so that the first model with a preference has the preference 1.
    first_model = (preferences != 0).argmax(axis=1)
    first_preference = np.take_along_axis(preferences, first_model[:, None], axis=1).ravel()
    side = np.where(first_preference < 0, -1.0, 1.0)
    oriented = preferences * side[:, None]
    _, pair_class = np.unique(oriented, axis=0, return_inverse=True)
    pair_class = pair_class.ravel()
    is_chosen = (1 + side[data.pair] * np.sign(data.rating)) / 2
    share = np.bincount(data.pair, is_chosen, data.n_pairs) / np.maximum(n_choices, 1)
    class_means = np.bincount(pair_class, n_choices * share) / np.bincount(pair_class, n_choices)
    mean = class_means[pair_class]

    # The variance within classes is the sum of the variance of the true probabilities and of the
    # binomial sampling error. `sampling_variance` is an unbiased estimate of the sampling error.
    n_pairs, n_classes = len(share), int(pair_class.max()) + 1
    variance = float(n_choices @ (share - mean) ** 2) * (n_pairs / max(n_pairs - n_classes, 1))
    sampling_variance = float(n_choices @ (share * (1 - share) / np.maximum(n_choices - 1, 1)))
    is_estimable = n_choices.max() >= 2 and variance > 0
    sampling_share = min(sampling_variance / variance, 1.0) if is_estimable else 1.0
    probability = mean + np.sqrt(1 - sampling_share) * (share - mean)
    slope_sd, latent = _estimate_slope_sd(data, is_chosen, probability, n_choices)
    latent = side * latent

    # Simulate the strengths of preferences. The thresholds of confidence are the quantiles at the
    # proportions of pilot ratings with an absolute value of at most 1, and of at most 2.
    rng = np.random.default_rng(0)
    slopes = np.exp(slope_sd * rng.normal(size=len(data.pair)))
    strength = np.abs(slopes * latent[data.pair] + rng.normal(size=len(data.pair)))
    rating_size = np.abs(data.rating)
    simulation = Simulation(
        slope_sd=slope_sd,
        lapse=0.0,
        confident=float(np.quantile(strength, (rating_size <= 1).mean())),
        very_confident=float(np.quantile(strength, (rating_size <= 2).mean())),
    )
    accuracy = (n_choices * (2 * probability - 1)) @ oriented
    return latent, simulation, int(np.argmax(accuracy))


def _estimate_slope_sd(
    data: TrialData, is_chosen: FloatArray, probability: FloatArray, n_choices: IntArray
) -> tuple[float, FloatArray]:
    """Estimate how much participants differ in the strength of their preferences.

    In the model of the choices, each participant multiplies the preference between two sentences by
    a slope, with log(slope) ~ N(0, slope_sd^2). Participants with a large slope agree more often
    with the majority. The method of moments gives `slope_sd`: the variance of this agreement
    between participants must equal the variance in the pilot study, after the binomial sampling
    error is subtracted.

    Parameters
    ----------
    data
        Choices of the pilot study.
    is_chosen : (n_ratings,) array
        1 if the reference sentence of the pair was chosen, and 0 otherwise. The reference sentence
        is the sentence that the first model prefers (if it has no preference, the next model).
    probability : (P,) array
        Probability that the reference sentence of each pair is chosen.
    n_choices : (P,) array
        Number of choices of each pair.

    Returns
    -------
    slope_sd : float
        Standard deviation of log(slope) over participants.
    latent : (P,) array
        Preference for the reference sentence that gives `probability`, in standard deviations of
        the noise.
    """
    # A participant's agreement is the mean of direction * (choice - probability) over the trials.
    # It is positive if the participant follows the majority more often than average.
    direction = 2 * probability - 1
    participant_index = np.unique(data.participant, return_inverse=True)[1]
    n_trials = np.bincount(participant_index)
    trial_agreement = direction[data.pair] * (is_chosen - probability[data.pair])
    observed_variance = np.var(np.bincount(participant_index, trial_agreement) / n_trials)
    # Binomial sampling error: variance of the agreement if all participants have the same slope.
    trial_variance = (direction**2 * probability * (1 - probability))[data.pair]
    sampling_variance = np.mean(np.bincount(participant_index, trial_variance) / n_trials**2)
    target_variance = observed_variance - sampling_variance
    latent_grid = np.linspace(-8.0, 8.0, 1601)
    pair_weights = n_choices / n_choices.sum()

    def compute_latent(slope_sd: float) -> FloatArray:
        """Return the preferences (in SD of the noise) that give the probabilities of choices."""
        return np.interp(probability, mean_choice(latent_grid, slope_sd), latent_grid)

    def compute_excess_variance(slope_sd: float) -> float:
        """Return the predicted variance of agreement minus the variance in the pilot."""
        # Average over pairs for each slope (quadrature node), then take the variance over slopes.
        by_slope = ndtr(compute_latent(slope_sd)[:, None] * np.exp(slope_sd * _NODES))
        agreement = (pair_weights * direction) @ by_slope
        variance = _WEIGHTS @ (agreement - _WEIGHTS @ agreement) ** 2
        return float(variance - target_variance)

    if compute_excess_variance(0.0) >= 0:
        slope_sd = 0.0
    elif compute_excess_variance(_MAX_SLOPE_SD) < 0:
        slope_sd = _MAX_SLOPE_SD
    else:
        slope_sd = float(brentq(compute_excess_variance, 0.0, _MAX_SLOPE_SD))
    return slope_sd, compute_latent(slope_sd)
