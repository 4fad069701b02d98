"""Accuracy: the share of a participant's choices that a model predicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from contstim.arrays import FloatArray
from contstim.evaluation.ceilings import (
    DECIMALS,
    Ceiling,
    around_pair,
    distance_from_pair,
    effect_on_others,
)
from contstim.evaluation.measures import TrialMean
from contstim.evaluation.subset import Subset


class Accuracy(TrialMean):
    """The share of choices that a model predicts, whatever the confidence; a tie is one half."""

    name = "accuracy"
    label = "accuracy of predicting choices"
    chance = 0.5
    words = (
        "Accuracy is the share of a participant's choices that a model predicts: the sentence "
        "with the higher log-probability against the sentence chosen, whatever the confidence; a "
        "tie on either side counts one half. Its lower noise ceiling predicts each choice by "
        "the majority of the other participants who saw the same pair"
    )
    upper_bounds: ClassVar[Mapping[str, str]] = {
        "published": "; its upper one includes the participant in the majority.",
        "optimum": (
            "; its upper one is the best accuracy any prediction could have reached on these "
            "choices."
        ),
    }

    def agreement(self, rating: FloatArray, prediction: FloatArray) -> FloatArray:
        """Return 1 where prediction and rating agree in sign, 0 where not, 1/2 for a tie."""
        return np.asarray(0.5 + 0.5 * np.sign(rating) * np.sign(prediction))

    def vote(self, rating: FloatArray) -> FloatArray:
        """Return the signs of the ratings."""
        return np.sign(rating)

    def values(self, subset: Subset) -> FloatArray:
        """Return each model's accuracy for each participant, shape (N here, M here)."""
        # A tie on either side has sign 0 and so counts one half.
        total = subset.row_matrix(np.sign(subset.rating), subset.pair, subset.data.n_pairs)
        agreed = np.asarray(total @ subset.signs)
        return np.asarray(0.5 + 0.5 * agreed / subset.trials[:, None])

    def ceilings(self, subset: Subset, upper: str) -> tuple[Ceiling, Ceiling]:
        """Return the lower and the upper noise ceiling, with cells.

        Notes
        -----
        Of the k people of a pair v is the sum of the others' votes (1 or -1) and s one's own.

        *Lower cells.* The agreement of the others at the pair with their majority changes with a
        vote, by 1/2 for those of its sign and -1/2 for those of the other, if it is the one that
        decides. The chance of that is the density of as many tosses of a coin at the votes
        counted, 2 phi(v / c) / c with c^2 = k - 2; with the votes themselves in its place, ties
        that chance makes and breaks would count. The effect is half of that times s times the
        others' votes, each by 1 / n of its participant, and 1/4 for k = 3, where of two votes
        either moves the majority by half, whatever the other.

        *Upper cells.* A vote that makes a tie leaves the upper bound as it is, so that of an even
        number each counts too little: distances from the pair's mean are k / (k - 1) of what they
        seem. The upper bound of three is halfway from their lower one to 1, and so are its cells.

        Chosen by simulation: intervals hold in 93 to 97 % of studies in 329 of 330 cells of
        `experiments/calibration` (`run.py errors`), and
        ``test_the_upper_bound_of_three_is_halfway_from_their_lower_one_to_one``.
        """
        sign, seen = np.sign(subset.rating), subset.seen
        share = sign / subset.trials[subset.person]
        votes = subset.at_pair(sign)
        best = votes
        if upper == "optimum":
            # Participants weigh the same in the mean, so a choice among few trials weighs more.
            best = np.round(subset.at_pair(share), DECIMALS)
        lower, higher = self.agreement(sign, votes - sign), self.agreement(sign, best)
        spread = np.sqrt(np.maximum(seen - 2, 1.0))
        decides = 2 * np.exp(-0.5 * ((votes - sign) / spread) ** 2) / spread / np.sqrt(2 * np.pi)
        effect = np.where(seen == 3, 0.25, 0.5 * decides) * sign * (subset.at_pair(share) - share)
        mean, apart = around_pair(subset, lower + effect_on_others(subset, effect * (seen > 2)))
        apart *= distance_from_pair(subset)
        mean_there, apart_there = around_pair(subset, higher)
        apart_there *= np.where(seen % 2 == 0, seen / np.maximum(seen - 1, 1), 1.0)
        upper_cells = mean_there + np.where(seen == 3, apart / 2, apart_there)
        top = np.ones(subset.n_people)
        return (
            Ceiling(subset.of_person(lower) / subset.trials, mean + apart, top),
            Ceiling(subset.of_person(higher) / subset.trials, upper_cells, top),
        )


ACCURACY = Accuracy()
