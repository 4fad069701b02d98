"""Accuracy: the proportion of a participant's choices that a model predicts."""

from __future__ import annotations

import numpy as np

from contstim.arrays import FloatArray
from contstim.evaluation.measures import TrialMean
from contstim.evaluation.subset import Subset


class Accuracy(TrialMean):
    """The proportion of choices that a model predicts, irrespective of confidence.

    The value of a trial is (1 + sign(rating) sign(log-ratio)) / 2: 1 if the model prefers the
    chosen sentence, 0 if it prefers the other one, and 1/2 if the model or the participant has no
    preference.
    """

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
        """Return 1 if prediction and rating agree in sign, 0 if they differ, 1/2 for a tie."""
        return np.asarray(0.5 + 0.5 * np.sign(rating) * np.sign(prediction))

    def votes(self, subset: Subset) -> FloatArray:
        """Return the signs of the ratings, so that confidence does not matter, shape (R,)."""
        return np.sign(subset.rating)


ACCURACY = Accuracy()
