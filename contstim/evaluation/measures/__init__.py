"""Measures of how well a model predicts what people answered, by name.

A package adds its own, an instance of `TrialMean` or of `Measure`, by an entry point of the group
``contstim.measures``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import numpy as np

from contstim.arrays import FloatArray
from contstim.evaluation.ceilings import DECIMALS
from contstim.evaluation.subset import Subset
from contstim.plugins import Registry

#: From weights of k pairs in B resamples, (B, k), to values of n participants, (B, n), one array
#: per model.
Resampled = Callable[[FloatArray], Iterator[FloatArray]]

# By how much weights change in difference quotients.
_STEP = 1e-5


class Measure(ABC):
    """How well a model's predictions agree with a participant's answers.

    Ratings are positive for sentence 2. Predictions are log-ratios of the two sentences, positive
    for sentence 2. What is predicted is ratings, unless `responses` returns something else. Values
    and noise ceilings follow from `participant_value` and `vote` alone, by loops over participants;
    a measure may compute them faster, and `check_measure` compares.

    Attributes
    ----------
    name
        Name in options and tables.
    label
        Label in figures.
    chance, maximum
        The value of a model that guesses, and of a perfect one.
    is_trial_mean
        Whether a value is the mean over a participant's trials of numbers that do not depend on
        the other trials.
    description
        Sentence for the methods section, without its end: what is measured, and what the lower
        noise ceiling is.
    upper_ceiling_description
        The end of that sentence: what the upper noise ceiling is.

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
        """Return what is predicted for each choice, shape (R,); NaN where it is missing."""
        return subset.rating

    @abstractmethod
    def participant_value(self, rating: FloatArray, prediction: FloatArray) -> float:
        """Return the value of one participant's n answers; NaN if it is not defined."""

    @abstractmethod
    def vote(self, rating: FloatArray) -> FloatArray:
        """Return one participant's votes (n,), of which mean votes are predictions."""

    def upper_value(self, rating: FloatArray, everyone: FloatArray) -> float:
        """Return the upper noise ceiling of one participant, from the mean votes of all, (n,)."""
        return self.participant_value(rating, everyone)

    @abstractmethod
    def resampled(self, rating: FloatArray, ratios: FloatArray) -> Resampled:
        """Return a function from the weights of k pairs to values.

        Parameters
        ----------
        rating, ratios
            Answers of n participants who saw the same k pairs, shape (n, k); predictions of M
            models, (k, M).
        """

    def trial_influence(self, subset: Subset, prediction: FloatArray) -> FloatArray:
        """Return what each choice contributes to its participant's value, shape (R,).

        value + n (value' - mean of value'), where value' is the derivative of the value of a
        participant with n choices by the weight of the choice: the infinitesimal jackknife (Jaeckel
        1972; Efron 1982, The jackknife, the bootstrap and other resampling plans, ch. 6). The mean
        over a participant's choices is the value. By default the derivative is a difference
        quotient of `resampled`. NaN where the value is not defined or the answer is missing.

        Parameters
        ----------
        prediction
            One number per choice, shape (R,).
        """
        answer, influence = self.responses(subset), np.full(subset.n_rows, np.nan)
        for person in range(subset.n_participants):
            rows = np.flatnonzero((subset.person == person) & ~np.isnan(answer + prediction))
            n = len(rows)
            if not n:
                continue
            values = self.resampled(answer[rows][None], prediction[rows][:, None])
            shift = _STEP * np.eye(n)
            more, less = (next(iter(values(1.0 + side * shift)))[:, 0] for side in (1, -1))
            slope = (more - less) / (2 * _STEP)
            value = self.participant_value(answer[rows], prediction[rows])
            influence[rows] = value + n * (slope - slope.mean())
        return influence

    def values(self, subset: Subset) -> FloatArray:
        """Return each model's value for each participant, shape (N here, M here).

        NaN where the measure is not defined.
        """
        answer, ratio = self.responses(subset), subset.data.log_ratio[subset.pair][:, subset.models]
        values = np.full((subset.n_participants, len(subset.models)), np.nan)
        for person in range(subset.n_participants):
            rows = subset.person == person
            for m in range(len(subset.models)):
                values[person, m] = self.participant_value(answer[rows], ratio[rows, m])
        return values

    def mean_votes(self, subset: Subset) -> tuple[FloatArray, FloatArray]:
        """Return for each choice the mean vote of the others, and of all, on its pair, (R,) each.

        NaN if nobody else has a vote.
        """
        answer, votes = self.responses(subset), np.empty(subset.n_rows)
        for person in range(subset.n_participants):
            rows = subset.person == person
            votes[rows] = self.vote(answer[rows])
        has_vote = (~np.isnan(votes)).astype(np.float64)
        votes, seen = np.nan_to_num(votes), subset.sum_by_pair(has_vote)
        total = subset.sum_by_pair(votes)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = (total - votes) / (seen - has_vote), total / seen
        return np.round(means[0], DECIMALS), np.round(means[1], DECIMALS)

    def ceilings(self, subset: Subset) -> tuple[FloatArray, FloatArray]:
        """Return the lower and the upper noise ceiling of each participant, (N,) each."""
        answer, (others, everyone) = self.responses(subset), self.mean_votes(subset)
        values = np.full((2, subset.n_participants), np.nan)
        for person in range(subset.n_participants):
            rows = subset.person == person
            values[:, person] = (
                self.participant_value(answer[rows], others[rows]),
                self.upper_value(answer[rows], everyone[rows]),
            )
        return values[0], values[1]

    def ceiling_influence(self, subset: Subset) -> tuple[FloatArray, FloatArray]:
        """Return what each choice contributes to the lower and to the upper ceiling, both (R,).

        The influence of `trial_influence` for the mean votes as predictions, moved to the
        participant's ceiling. A mean vote is nearly the best prediction of the votes that it is
        made of, so that what a choice contributes to other participants' ceilings is left out.
        """
        influence = []
        for value, votes in zip(self.ceilings(subset), self.mean_votes(subset), strict=True):
            raw = self.trial_influence(subset, votes)
            with np.errstate(invalid="ignore", divide="ignore"):
                mean = subset.sum_by_participant(np.nan_to_num(raw)) / subset.sum_by_participant(
                    ~np.isnan(raw)
                )
            influence.append(raw + (value - mean)[subset.person])
        return influence[0], influence[1]

    def maximum_influence(self, subset: Subset) -> tuple[FloatArray, FloatArray]:
        """Return what each choice contributes to the largest value that is possible, both (R,).

        The first for models and the lower ceiling, the second for the upper ceiling. Values below
        `maximum` arise where a participant's answers tie.
        """
        largest = np.full(subset.n_rows, self.maximum)
        return largest, largest


class TrialMean(Measure):
    """A measure that is the mean over a participant's trials of a number of each.

    Examples
    --------
    >>> import numpy as np
    >>> MEASURES["accuracy"].trial_value(np.array([2.5, -0.5, 1.5]), np.array([3.0, 1.0, 2.0]))
    array([1., 0., 1.])
    """

    is_trial_mean = True

    @abstractmethod
    def trial_value(self, rating: FloatArray, prediction: FloatArray) -> FloatArray:
        """Return the number of each trial; shapes are broadcast."""

    def participant_value(self, rating: FloatArray, prediction: FloatArray) -> float:
        """Return the mean over one participant's trials."""
        return float(self.trial_value(rating, prediction).mean())

    def trial_influence(self, subset: Subset, prediction: FloatArray) -> FloatArray:
        """Return the number of each choice, shape (R,)."""
        return self.trial_value(subset.rating, prediction)

    def resampled(self, rating: FloatArray, ratios: FloatArray) -> Resampled:
        """Return how values follow from weights of pairs: weighted means."""
        agreements = [self.trial_value(rating, ratio) for ratio in ratios.T]

        def values(weights: FloatArray) -> Iterator[FloatArray]:
            n = weights.sum(axis=1)[:, None]
            for agreement in agreements:
                with np.errstate(invalid="ignore", divide="ignore"):
                    yield weights @ agreement.T / n

        return values


#: The measures by name.
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
