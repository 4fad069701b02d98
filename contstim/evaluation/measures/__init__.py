"""Measures: how well a model predicts the responses of participants.

Measures of other packages are instances of `TrialMean` or `Measure` in the entry-point group
``contstim.measures``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from contstim.arrays import FloatArray
from contstim.evaluation.ceilings import DECIMALS
from contstim.evaluation.subset import Subset
from contstim.plugins import Registry


class Measure(ABC):
    """Agreement between the predictions of a model and the responses of a participant.

    Predictions are log-ratios, log p(sentence 2) - log p(sentence 1). Responses are ratings,
    positive for sentence 2, unless `responses` is overridden. All other methods have definitions in
    terms of `participant_value` and `vote`. A measure may override them with faster equivalents,
    which `check_measure` compares with the definitions.

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
    description
        Beginning of a sentence in the methods section: definition of the measure and of its lower
        noise ceiling.
    upper_ceiling_description
        End of that sentence: definition of the upper noise ceiling.

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
    def vote(self, rating: FloatArray) -> FloatArray:
        """Return the votes of one participant, which noise ceilings average over participants.

        Parameters
        ----------
        rating
            Responses of the participant in n trials, shape (n,).

        Returns
        -------
        array
            Votes, shape (n,), NaN for a trial without a response.
        """

    def upper_value(self, rating: FloatArray, everyone: FloatArray) -> float:
        """Return the upper noise ceiling of one participant from the mean votes of all, (n,)."""
        return self.participant_value(rating, everyone)

    def trial_influence(self, subset: Subset, prediction: FloatArray) -> FloatArray:
        """Return the influence of each choice on the value of its participant.

        The influence of trial i on the value v of n trials is the centred pseudo-value of the
        delete-one jackknife (Efron 1982, The jackknife, the bootstrap and other resampling plans),

            v + (n - 1) (mean of v_(j) over j - v_(i)),

        where v_(i) is the value without trial i, or v if it is not defined. The mean over trials is
        v.

        Parameters
        ----------
        subset
            Choices, R rows.
        prediction
            Prediction for each choice, shape (R,).

        Returns
        -------
        array
            Influence, shape (R,), NaN if the value is not defined or the response is missing.
        """
        responses, influence = self.responses(subset), np.full(subset.n_rows, np.nan)
        for participant in range(subset.n_participants):
            is_answered = (subset.participant_index == participant) & ~np.isnan(
                responses + prediction
            )
            rating, predicted = responses[is_answered], prediction[is_answered]
            n = len(rating)
            if not n:
                continue
            value = self.participant_value(rating, predicted)
            without = np.full(n, value)
            for i in range(n if n > 1 else 0):
                without[i] = self.participant_value(np.delete(rating, i), np.delete(predicted, i))
            without[np.isnan(without)] = value
            influence[is_answered] = value + (n - 1) * (without.mean() - without)
        return influence

    def values(self, subset: Subset) -> FloatArray:
        """Return the value of each model for each participant, shape (N, M), NaN if not defined."""
        responses = self.responses(subset)
        log_ratio = subset.data.log_ratio[subset.pair][:, subset.models]
        values = np.full((subset.n_participants, len(subset.models)), np.nan)
        for participant in range(subset.n_participants):
            rows = subset.participant_index == participant
            for model in range(len(subset.models)):
                values[participant, model] = self.participant_value(
                    responses[rows], log_ratio[rows, model]
                )
        return values

    def resampled_values(
        self, rating: FloatArray, log_ratio: FloatArray, copies: FloatArray
    ) -> FloatArray:
        """Return the values if each pair is copied a number of times.

        Parameters
        ----------
        rating
            Responses of n participants to k pairs, shape (n, k).
        log_ratio
            Log-ratios of M models, shape (k, M).
        copies
            Number of copies of each pair in B resamples, shape (B, k).

        Returns
        -------
        array
            Values, shape (B, n, M), NaN if not defined.
        """
        values = np.full((len(copies), len(rating), log_ratio.shape[1]), np.nan)
        for draw, participant, model in np.ndindex(values.shape):
            pairs = np.repeat(np.arange(len(log_ratio)), copies[draw].astype(np.int64))
            if len(pairs):
                values[draw, participant, model] = self.participant_value(
                    rating[participant, pairs], log_ratio[pairs, model]
                )
        return values

    def mean_votes(self, subset: Subset) -> tuple[FloatArray, FloatArray]:
        """Return the mean vote on the pair of each choice.

        Returns
        -------
        mean_of_others, mean_of_all : array
            Mean votes of the other participants, and of all participants, shape (R,) each. NaN if
            no other participant has a vote.
        """
        responses, votes = self.responses(subset), np.empty(subset.n_rows)
        for participant in range(subset.n_participants):
            rows = subset.participant_index == participant
            votes[rows] = self.vote(responses[rows])
        has_vote = (~np.isnan(votes)).astype(np.float64)
        votes = np.nan_to_num(votes)
        total, n_votes = subset.sum_by_pair(votes), subset.sum_by_pair(has_vote)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean_of_others, mean_of_all = (total - votes) / (n_votes - has_vote), total / n_votes
        return np.round(mean_of_others, DECIMALS), np.round(mean_of_all, DECIMALS)

    def ceilings(self, subset: Subset) -> tuple[FloatArray, FloatArray]:
        """Return the lower and the upper noise ceiling of each participant, shape (N,) each."""
        responses, (mean_of_others, mean_of_all) = self.responses(subset), self.mean_votes(subset)
        lower, upper = np.full((2, subset.n_participants), np.nan)
        for participant in range(subset.n_participants):
            rows = subset.participant_index == participant
            lower[participant] = self.participant_value(responses[rows], mean_of_others[rows])
            upper[participant] = self.upper_value(responses[rows], mean_of_all[rows])
        return lower, upper

    def ceiling_influence(self, subset: Subset) -> tuple[FloatArray, FloatArray]:
        """Return the influence of each choice on the lower and the upper ceiling.

        The influence on the participant's value with mean votes as predictions, shifted so that
        its mean is the participant's ceiling. The small influence of a choice on the ceilings of
        other participants is neglected.

        Returns
        -------
        lower, upper : array
            Influence, shape (R,) each.
        """
        influences = []
        for ceiling, votes in zip(self.ceilings(subset), self.mean_votes(subset), strict=True):
            influence = self.trial_influence(subset, votes)
            shift = ceiling - subset.mean_by_participant(influence)
            influences.append(influence + shift[subset.participant_index])
        return influences[0], influences[1]

    def maximum_influence(self, subset: Subset) -> tuple[FloatArray, FloatArray]:
        """Return the influence of each choice on the largest possible value of its participant.

        Returns
        -------
        value, upper_ceiling : array
            Influence on the largest value of a model or of the lower ceiling, and of the upper
            ceiling, shape (R,) each. Ties can reduce it below `maximum`.
        """
        maximum = np.full(subset.n_rows, self.maximum)
        return maximum, maximum


class TrialMean(Measure):
    """A measure that is the mean of one number per trial.

    Examples
    --------
    >>> import numpy as np
    >>> MEASURES["accuracy"].trial_value(np.array([2.5, -0.5, 1.5]), np.array([3.0, 1.0, 2.0]))
    array([1., 0., 1.])
    """

    is_trial_mean = True

    @abstractmethod
    def trial_value(self, rating: FloatArray, prediction: FloatArray) -> FloatArray:
        """Return the value of each trial; `rating` and `prediction` are broadcast."""

    def participant_value(self, rating: FloatArray, prediction: FloatArray) -> float:
        """Return the mean over the trials of one participant."""
        return float(self.trial_value(rating, prediction).mean())

    def trial_influence(self, subset: Subset, prediction: FloatArray) -> FloatArray:
        """Return the value of each choice, shape (R,)."""
        return self.trial_value(subset.rating, prediction)

    def resampled_values(
        self, rating: FloatArray, log_ratio: FloatArray, copies: FloatArray
    ) -> FloatArray:
        """Return the means over copied trials, shape (B, n, M)."""
        trial_values = self.trial_value(rating[:, :, None], log_ratio)
        with np.errstate(invalid="ignore", divide="ignore"):
            weights = copies / copies.sum(axis=1, keepdims=True)
            return np.tensordot(weights, trial_values, axes=(1, 1))


#: Measures by name.
MEASURES: Registry[Measure] = Registry(
    "measure",
    "contstim.measures",
    {
        "accuracy": "contstim.evaluation.measures.accuracy:ACCURACY",
        "signed_rank_cosine": "contstim.evaluation.measures.cosine:COSINE",
        "speed": "contstim.evaluation.measures.speed:SPEED",
    },
    Measure,
)
