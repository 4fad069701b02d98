"""Measures of how well a model predicts what people answered, by name.

One of your own is a file with an instance of `TrialMean`, or of `Measure`; a package brings it by
an entry point of the group ``contstim.measures``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

import numpy as np

from contstim.arrays import FloatArray
from contstim.evaluation.ceilings import Ceiling
from contstim.evaluation.subset import Subset
from contstim.plugins import Registry

#: From how often each of k pairs counts in B resamples, (B, k), to values of n participants,
#: (B, n), one array a model.
Resampled = Callable[[FloatArray], Iterator[FloatArray]]


class Measure(ABC):
    """How well predictions agree with what people answered, and the words for it.

    Ratings are positive for sentence 2, predictions are log-ratios of the two sentences, positive
    for sentence 2. What is predicted is ratings, unless `answer` says otherwise. Values and noise
    ceilings follow from `of_one` and `vote` alone, by loops over participants; measures of
    contstim's own do the same faster, and `check_measure` compares.

    Attributes
    ----------
    name
        What options and tables call it.
    label
        What figures call it.
    chance, top
        The value of a model that guesses, and of one that is perfect.
    mean_of_trials
        Whether a value is the mean over a participant's trials of numbers that do not depend on
        the others; differences need no other scale then.
    words
        A sentence for the methods section, without its end: what is measured, and what the lower
        noise ceiling is.
    upper_bounds
        For each way of making the upper noise ceiling (see `UPPER_BOUNDS`) how the sentence ends.

    Examples
    --------
    >>> import numpy as np
    >>> measure = MEASURES["signed_rank_cosine"]
    >>> measure.chance, measure.top
    (0.0, 1.0)
    >>> measure.of_one(np.array([2.5, -0.5, 1.5]), np.array([3.0, -1.0, 2.0]))
    1.0
    """

    name: str
    label: str
    chance: float
    top: float = 1.0
    mean_of_trials: bool = False
    words: str
    upper_bounds: ClassVar[Mapping[str, str]]

    def answer(self, subset: Subset) -> FloatArray:
        """Return what is predicted of each choice, shape (R,); NaN where it is not known."""
        return subset.rating

    @abstractmethod
    def of_one(self, rating: FloatArray, prediction: FloatArray) -> float:
        """Return the value of one participant's n ratings; NaN where it is not defined."""

    @abstractmethod
    def vote(self, rating: FloatArray) -> FloatArray:
        """Return what one participant's ratings (n,) add to a prediction made of several people.

        The mean of several votes is a prediction, for `of_one`.
        """

    def upper_of_one(self, rating: FloatArray, everyone: FloatArray) -> float:
        """Return the upper noise ceiling of one participant, from the mean vote of all, (n,)."""
        return self.of_one(rating, everyone)

    @abstractmethod
    def cells(self, subset: Subset, prediction: FloatArray) -> FloatArray:
        """Return what each choice says of a prediction, both (R,); NaN where not defined.

        Their mean over a participant's choices is the measure; their deviations from it are n
        times its derivative by the weight of the choice, one of n (infinitesimal jackknife).
        """

    def leverage(self, subset: Subset, prediction: FloatArray) -> FloatArray | None:
        """Return how much each choice counts in its participant's value, (R,), up to a factor.

        None where all count alike. A value of few items has fewer degrees of freedom for it.
        """
        return None

    @abstractmethod
    def resampled(self, rating: FloatArray, ratios: FloatArray) -> Resampled:
        """Return how values follow from how often each pair counts.

        Parameters
        ----------
        rating, ratios
            Answers of n participants who saw the same k pairs, shape (n, k); of M models, (k, M).
        """

    def values(self, subset: Subset) -> FloatArray:
        """Return each model's value for each participant, shape (N here, M here).

        NaN where the measure is not defined.
        """
        answer, ratio = self.answer(subset), subset.data.log_ratio[subset.pair][:, subset.models]
        values = np.full((subset.n_people, len(subset.models)), np.nan)
        for person in range(subset.n_people):
            rows = subset.person == person
            for m in range(len(subset.models)):
                values[person, m] = self.of_one(answer[rows], ratio[rows, m])
        return values

    def ceilings(self, subset: Subset, upper: str) -> tuple[Ceiling, Ceiling]:
        """Return the lower and the upper noise ceiling; `upper` is one of `upper_bounds`."""
        answer, votes = self.answer(subset), np.empty(subset.n_rows)
        for person in range(subset.n_people):
            rows = subset.person == person
            votes[rows] = self.vote(answer[rows])
        there = (~np.isnan(votes)).astype(np.float64)
        votes, seen = np.nan_to_num(votes), subset.at_pair(there)
        total = subset.at_pair(votes)
        with np.errstate(invalid="ignore", divide="ignore"):  # NaN where nobody else has a vote
            predictions = (total - votes) / (seen - there), total / seen
        values = np.full((2, subset.n_people), np.nan)
        for person in range(subset.n_people):
            rows = subset.person == person
            others, everyone = (p[rows] for p in predictions)
            values[:, person] = (
                self.of_one(answer[rows], others),
                self.upper_of_one(answer[rows], everyone),
            )
        top = np.full(subset.n_people, self.top)
        return Ceiling(values[0], None, top), Ceiling(values[1], None, top)

    def weighed_ceilings(
        self, subset: Subset, upper: str, weight: FloatArray
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return both ceilings if each choice counts as `weight` (R,) that tie, (N,) each.

        None where the mean of cells bends no more than a mean does.
        """
        return None


class TrialMean(Measure):
    """A measure that is the mean over a participant's trials of a number of each.

    Examples
    --------
    >>> import numpy as np
    >>> MEASURES["accuracy"].agreement(np.array([2.5, -0.5, 1.5]), np.array([3.0, 1.0, 2.0]))
    array([1., 0., 1.])
    """

    mean_of_trials = True

    @abstractmethod
    def agreement(self, rating: FloatArray, prediction: FloatArray) -> FloatArray:
        """Return the number of each trial; shapes are broadcast."""

    def of_one(self, rating: FloatArray, prediction: FloatArray) -> float:
        """Return the mean over one participant's trials."""
        return float(self.agreement(rating, prediction).mean())

    def cells(self, subset: Subset, prediction: FloatArray) -> FloatArray:
        """Return the number of each choice, shape (R,)."""
        return self.agreement(subset.rating, prediction)

    def resampled(self, rating: FloatArray, ratios: FloatArray) -> Resampled:
        """Return how values follow from how often each pair counts: as weighed means."""
        agreements = [self.agreement(rating, ratio) for ratio in ratios.T]

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
