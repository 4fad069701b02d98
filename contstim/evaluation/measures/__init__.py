"""Measures of how well a model predicts the responses of participants, and noise ceilings.

Measures of other packages are instances of `TrialMean` or `Measure` in the entry-point group
``contstim.measures``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from contstim.arrays import FloatArray
from contstim.evaluation.inference.quasi_f import MIN_UNITS
from contstim.evaluation.ranks import DECIMALS
from contstim.evaluation.subset import Subset
from contstim.plugins import Registry


class Measure(ABC):
    """Base class of measures, which state how well a model predicts a participant's responses.

    The predictions of a model are log-ratios, log p(sentence 2) - log p(sentence 1). Responses are
    ratings, positive for sentence 2, unless `responses` is overridden. A subclass defines two
    methods: `participant_value` computes the measure for one participant, and
    `normalised_responses` transforms responses before they are averaged over participants, for the
    noise ceilings. All other methods are derived from these. For speed, a subclass may override
    `trial_influence`; `check_measure` compares the result with `participant_value`.

    Attributes
    ----------
    name
        Name in options and tables.
    label
        Axis label in figures.
    chance, maximum
        Value of a model that guesses, and of a perfect model.
    is_trial_mean
        Whether the value is the mean of one independent number per trial.
    jackknife
        Name of the jackknife that estimates the influence of each trial on the value, such as
        ``delete-one``, for the methods section of a report.
    description
        Definition of the measure and of its lower noise ceiling, for the methods section. The text
        has no full stop, since `upper_ceiling_description` continues it.
    upper_ceiling_description
        Definition of the upper noise ceiling, which completes the sentence of `description`.

    Examples
    --------
    >>> import numpy as np
    >>> measure = MEASURES["signed_rank_cosine"]
    >>> measure.chance, measure.maximum
    (0.0, 1.0)
    >>> measure.participant_value(np.array([2.5, -0.5, 1.5]), np.array([3.0, -1.0, 2.0]))
    1.0
    """

    name: str
    label: str
    chance: float
    maximum: float = 1.0
    is_trial_mean: bool = False
    jackknife: str = "delete-one"
    description: str
    upper_ceiling_description: str = "; its upper one includes the participant."

    def responses(self, subset: Subset) -> FloatArray:
        """Return the response to be predicted for each choice, shape (R,); NaN if missing."""
        return subset.rating

    @abstractmethod
    def participant_value(self, rating: FloatArray, prediction: FloatArray) -> float:
        """Return the value for one participant, or NaN if it is not defined.

        Parameters
        ----------
        rating, prediction
            Responses of the participant and predictions of the model in n trials, shape (n,).
        """

    @abstractmethod
    def normalised_responses(self, subset: Subset) -> FloatArray:
        """Convert responses to the scale on which noise ceilings average over participants.

        A noise ceiling predicts the choices of a participant from the mean response of other
        participants. Raw ratings are not suitable for this mean, because some participants use
        only the ends of the scale and others only its middle. They are therefore normalised by the
        transformation that the measure itself applies, for example to their signs for accuracy.

        Parameters
        ----------
        subset
            R choices of several participants.

        Returns
        -------
        array
            Normalised response of each choice, shape (R,). NaN for a choice without a response.
        """

    def trial_influence(self, subset: Subset, prediction: FloatArray) -> FloatArray:
        """Return how much each choice contributes to a model's value for its participant.

        Standard errors are computed from one number per choice. For a measure such as accuracy this
        number is the value of the trial. The value of another measure depends on all trials of a
        participant together, so the trial is represented by a pseudo-value of the delete-one
        jackknife (Efron 1982, The jackknife, the bootstrap and other resampling plans). The
        pseudo-value is large if the value of the participant decreases when the trial is removed.
        For trial i of a participant with n trials and the value v it is

            v + (n - 1) (mean of v_(j) over j - v_(i)),

        where v_(i) is the value without trial i, or v if that value is not defined. The mean
        pseudo-value of the trials of a participant is v.

        Parameters
        ----------
        subset
            R choices of several participants.
        prediction
            Prediction of a model for each choice, shape (R,).

        Returns
        -------
        array
            Pseudo-values, shape (R,). NaN if the response is missing, or if the value of the
            participant is not defined.
        """
        responses, pseudo_values = self.responses(subset), np.full(subset.n_rows, np.nan)
        # A trial without a response or prediction has no pseudo-value (NaN).
        is_answered = ~np.isnan(responses + prediction)
        for rows in subset.rows_by_participant:
            trials = rows[is_answered[rows]]
            n = len(trials)
            if not n:
                continue
            value = self.participant_value(responses[trials], prediction[trials])
            # Compute the value again without each trial in turn.
            leave_one_out = np.full(n, value)
            # A single trial cannot be removed.
            for i in range(n if n > 1 else 0):
                retained = np.delete(trials, i)
                leave_one_out[i] = self.participant_value(responses[retained], prediction[retained])
            # An undefined value without a trial is replaced by the value with all trials.
            leave_one_out[np.isnan(leave_one_out)] = value
            # v + (n - 1) (mean of v_(j) - v_(i)), with the value v_(i) without trial i.
            pseudo_values[trials] = value + (n - 1) * (leave_one_out.mean() - leave_one_out)
        return pseudo_values

    def values(self, subset: Subset) -> FloatArray:
        """Compute how well each model predicts the choices of each participant.

        The value of the measure (for example, the accuracy) is the mean of one number per trial of
        the participant, its jackknife pseudo-value, see `trial_influence`.

        Parameters
        ----------
        subset
            Choices of N participants, and M models.

        Returns
        -------
        array
            Values, shape (N, M). NaN where the measure is not defined.
        """
        # Prediction of each model for each choice, shape (R, M).
        log_ratio = subset.data.log_ratio[subset.pair]
        values = np.empty((subset.n_participants, len(subset.models)))
        for column, model in enumerate(subset.models):
            influence = self.trial_influence(subset, log_ratio[:, model])
            values[:, column] = subset.mean_by_participant(influence)
        return values

    def resampled_values(
        self, rating: FloatArray, log_ratio: FloatArray, copies: FloatArray
    ) -> FloatArray:
        """Return the values of models in bootstrap samples of sentence pairs.

        A bootstrap sample may contain a pair several times, as separate trials, or not at all.

        Parameters
        ----------
        rating
            Responses of n participants to k pairs, shape (n, k).
        log_ratio
            log p(sentence 2) - log p(sentence 1) of each pair under M models, shape (k, M).
        copies
            Number of copies of each pair in B resamples, shape (B, k).

        Returns
        -------
        array
            Value of each model for each participant in each resample, shape (B, n, M), NaN if not
            defined.
        """
        values = np.full((len(copies), len(rating), log_ratio.shape[1]), np.nan)
        # Axes of `values`: resamples (B), participants (n) and models (M).
        for draw, participant, model in np.ndindex(values.shape):
            # Repeat the index of each pair as often as the pair occurs in this resample.
            pairs = np.repeat(np.arange(len(log_ratio)), copies[draw].astype(np.int64))
            if len(pairs):
                values[draw, participant, model] = self.participant_value(
                    rating[participant, pairs], log_ratio[pairs, model]
                )
        return values

    def mean_responses(self, subset: Subset) -> tuple[FloatArray, FloatArray]:
        """Return the mean of the normalised responses to the sentence pair of each choice.

        Noise ceilings use these means as if they were the predictions of a model.

        Parameters
        ----------
        subset
            R choices of several participants.

        Returns
        -------
        mean_of_others : array
            For each choice, the mean over all participants except the participant who made it,
            shape (R,). NaN if no other participant responded to the pair.
        mean_of_all : array
            For each choice, the mean over all participants, shape (R,).
        """
        responses = self.normalised_responses(subset)
        # A missing response adds 0 to a sum, and is not counted.
        is_present = (~np.isnan(responses)).astype(np.float64)
        responses = np.nan_to_num(responses)
        # Subtract a participant's own response from the sum over all participants.
        total, n = subset.sum_by_pair(responses), subset.sum_by_pair(is_present)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean_of_others, mean_of_all = (total - responses) / (n - is_present), total / n
        return np.round(mean_of_others, DECIMALS), np.round(mean_of_all, DECIMALS)

    def upper_ceiling_influence(self, subset: Subset, mean_of_all: FloatArray) -> FloatArray:
        """Return the influence of each choice on the upper noise ceiling, shape (R,).

        By default, the upper ceiling of a participant is the value that a hypothetical model
        reaches on the participant's choices if it predicts the mean response of all participants
        (see `mean_responses`). The influence of a choice is its pseudo-value (see
        `trial_influence`), so the mean influence of a participant's choices is the ceiling.
        """
        return self.trial_influence(subset, mean_of_all)

    def influence_on_others(self, subset: Subset, mean_of_others: FloatArray) -> FloatArray:
        """Return the influence of each choice on the lower noise ceilings of other participants.

        The lower ceiling predicts a participant from the mean response of all others, so each
        response affects the ceilings of the other participants. The result contains the influence
        of each choice on their mean ceiling, shape (R,). It is added to the pseudo-values of the
        lower ceiling and has the mean 0. By default it is neglected.
        """
        return np.zeros(subset.n_rows)

    def maximum_influence(self, subset: Subset) -> tuple[FloatArray, FloatArray]:
        """Return the contribution of each choice to the largest value that a model can reach.

        If a participant gave tied ratings, the theoretical maximum of the measure may be
        unattainable. The largest attainable value then depends on the sample, and its standard
        error is computed from one pseudo-value per choice. By default, every pseudo-value is the
        theoretical maximum.

        Parameters
        ----------
        subset
            R choices of several participants.

        Returns
        -------
        value : array
            Pseudo-values of the largest value that a model or the lower noise ceiling can have,
            shape (R,).
        upper_ceiling : array
            Pseudo-values of the largest value that the upper noise ceiling can have, shape (R,).
        """
        maximum = np.full(subset.n_rows, self.maximum)
        return maximum, maximum


class TrialMean(Measure):
    """Base class of measures that are the mean of one number per trial, such as accuracy.

    A subclass defines `trial_value` and `normalised_responses`. The value of a trial is then its
    own jackknife pseudo-value, so no trial has to be left out.

    Examples
    --------
    >>> import numpy as np
    >>> MEASURES["accuracy"].trial_value(np.array([2.5, -0.5, 1.5]), np.array([3.0, 1.0, 2.0]))
    array([1., 0., 1.])
    """

    is_trial_mean = True

    @abstractmethod
    def trial_value(self, rating: FloatArray, prediction: FloatArray) -> FloatArray:
        """Return the value of each trial.

        `rating` and `prediction` are arrays of any shapes that NumPy can broadcast. The result has
        the shape of the broadcast arrays.
        """

    def participant_value(self, rating: FloatArray, prediction: FloatArray) -> float:
        """Return the mean over the trials of one participant."""
        return float(self.trial_value(rating, prediction).mean())

    def trial_influence(self, subset: Subset, prediction: FloatArray) -> FloatArray:
        """Return the value of each choice, which is its own pseudo-value, shape (R,)."""
        return self.trial_value(subset.rating, prediction)

    def resampled_values(
        self, rating: FloatArray, log_ratio: FloatArray, copies: FloatArray
    ) -> FloatArray:
        """Return the values of models in bootstrap samples, as weighted means over trials.

        Parameters
        ----------
        rating
            Ratings of n participants on k sentence pairs, shape (n, k).
        log_ratio
            log p(sentence 2) - log p(sentence 1) of each pair under M models, shape (k, M).
        copies
            Number of copies of each pair in B bootstrap samples, shape (B, k), which is its weight.

        Returns
        -------
        array
            Values, shape (B, n, M).
        """
        trial_values = self.trial_value(rating[:, :, None], log_ratio)
        with np.errstate(invalid="ignore", divide="ignore"):
            weights = copies / copies.sum(axis=1, keepdims=True)
            return np.tensordot(weights, trial_values, axes=(1, 1))


class Accuracy(TrialMean):
    """Proportion of choices that a model predicts, irrespective of confidence.

    The value of a trial is (1 + sign(rating) sign(log-ratio)) / 2, where the log-ratio is
    log p(sentence 2) - log p(sentence 1) under the model. It is 1 if the model prefers the chosen
    sentence, 0 if it prefers the other one, and 1/2 if the model or the participant has no
    preference.
    """

    name = "accuracy"
    label = "accuracy of predicting choices"
    chance = 0.5
    description = (
        "Accuracy is the share of trials in which a participant chose the sentence with the higher "
        "log-probability under a model, regardless of confidence; a tie of the model or of the "
        "participant counts one half. Its lower noise ceiling predicts each choice by "
        "the majority of the other participants who saw the same pair"
    )
    upper_ceiling_description = "; its upper one includes the participant in the majority."

    def trial_value(self, rating: FloatArray, prediction: FloatArray) -> FloatArray:
        """Return 1 if prediction and rating agree in sign, 0 if they differ, 1/2 for a tie."""
        return np.asarray(0.5 + 0.5 * np.sign(rating) * np.sign(prediction))

    def normalised_responses(self, subset: Subset) -> FloatArray:
        """Return the signs of the ratings, so that confidence does not matter, shape (R,)."""
        return np.sign(subset.rating)


#: Measures by name.
MEASURES: Registry[Measure] = Registry(
    "measure",
    "contstim.measures",
    {
        "accuracy": Accuracy(),
        "signed_rank_cosine": "contstim.evaluation.measures.cosine:COSINE",
        "speed": "contstim.evaluation.measures.speed:SPEED",
    },
    Measure,
)


@dataclass(frozen=True, eq=False)
class NoiseCeilings:
    """Lower and upper noise ceiling of each participant.

    A noise ceiling estimates which value the best possible model would reach. It is the value of a
    model that predicts each choice of a participant from the mean preference of other participants
    (lower ceiling) or of all participants (upper ceiling) for the same sentence pair.

    Attributes
    ----------
    subset
        Choices from which the ceilings are computed. Choices on sentence pairs that too few other
        participants judged are excluded.
    lower, upper
        Ceilings of the N participants of `subset`, shape (N,). They are NaN for a participant
        without a preference in any trial, who still contributes to the mean preferences.
    lower_influence, upper_influence
        Jackknife pseudo-value of each of the R choices of `subset`, shape (R,). Their means are
        the mean ceilings, and their variation gives the standard errors.
    """

    subset: Subset
    lower: FloatArray
    upper: FloatArray
    lower_influence: FloatArray
    upper_influence: FloatArray

    @property
    def has_test(self) -> bool:
        """Whether the median choice is on a pair that at least three participants judged.

        With two judges per pair, each is predicted by the other alone, and the variance between
        participants cannot be estimated.
        """
        return self.subset.n_rows > 0 and bool(np.median(self.subset.n_judges) >= MIN_UNITS)


def compute_ceilings(subset: Subset, measure: Measure, min_others: int = 1) -> NoiseCeilings:
    """Return the noise ceilings: how well mean responses predict each participant.

    The lower ceiling predicts a participant from the mean responses of all others, and the upper
    ceiling from the mean responses of all participants. Both have one jackknife pseudo-value per
    choice, from which standard errors are computed.

    Parameters
    ----------
    subset
        Choices of an analysis.
    measure
        Measure for which the ceilings are computed.
    min_others
        Minimum number of other participants who judged the pair of a trial. Trials with fewer are
        excluded.

    Returns
    -------
    NoiseCeilings
        Ceilings of the participants with at least one remaining trial.
    """
    has_others = subset.n_judges > min_others
    # Exclude choices on pairs that too few other participants judged.
    if not has_others.all():
        subset = Subset(subset.data, subset.rows[has_others], subset.models)
    # Mean responses of participants take the place of the predictions of a model. Compute the
    # pseudo-values of their performance, one per choice.
    mean_of_others, mean_of_all = measure.mean_responses(subset)
    lower_influence = measure.trial_influence(subset, mean_of_others)
    upper_influence = measure.upper_ceiling_influence(subset, mean_of_all)
    # The ceiling of a participant is the mean of the participant's pseudo-values.
    lower, upper = map(subset.mean_by_participant, (lower_influence, upper_influence))
    # A participant's responses also predict the other participants. This affects the standard error
    # of the lower ceiling, but not its values.
    lower_influence += measure.influence_on_others(subset, mean_of_others)
    return NoiseCeilings(subset, lower, upper, lower_influence, upper_influence)
