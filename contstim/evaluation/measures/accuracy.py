"""Accuracy: the share of a participant's choices that a model predicts."""

from __future__ import annotations

import numpy as np

from contstim.arrays import FloatArray
from contstim.evaluation.measures import TrialMean
from contstim.evaluation.subset import Subset


class Accuracy(TrialMean):
    """The share of choices that a model predicts, whatever the confidence; a tie is one half."""

    name = "accuracy"
    label = "accuracy of predicting choices"
    chance = 0.5
    description = (
        "Accuracy is the share of a participant's choices that a model predicts: the sentence "
        "with the higher log-probability against the sentence chosen, whatever the confidence; a "
        "tie on either side counts one half. Its lower noise ceiling predicts each choice by "
        "the majority of the other participants who saw the same pair"
    )
    upper_ceiling_description = "; its upper one includes the participant in the majority."

    def trial_value(self, rating: FloatArray, prediction: FloatArray) -> FloatArray:
        """Return 1 where prediction and rating agree in sign, 0 where not, 1/2 for a tie."""
        return np.asarray(0.5 + 0.5 * np.sign(rating) * np.sign(prediction))

    def vote(self, rating: FloatArray) -> FloatArray:
        """Return the signs of the ratings."""
        return np.sign(rating)

    def values(self, subset: Subset) -> FloatArray:
        """Return each model's accuracy for each participant, shape (N here, M here)."""
        # A tie on either side has sign 0 and so counts one half.
        total = subset.participant_matrix(np.sign(subset.rating), subset.pair, subset.data.n_pairs)
        agreed = np.asarray(total @ subset.signs)
        return np.asarray(0.5 + 0.5 * agreed / subset.n_trials[:, None])

    def ceilings(self, subset: Subset) -> tuple[FloatArray, FloatArray]:
        """Return the lower and the upper noise ceiling of each participant, (N,) each."""
        sign = np.sign(subset.rating)
        votes = subset.sum_by_pair(sign)
        lower, upper = self.trial_value(sign, votes - sign), self.trial_value(sign, votes)
        sums = subset.sum_by_participant(lower), subset.sum_by_participant(upper)
        return sums[0] / subset.n_trials, sums[1] / subset.n_trials


ACCURACY = Accuracy()
