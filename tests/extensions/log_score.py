"""A custom measure: the log score of a graded choice.

A rating of -2.5 to 2.5 is a degree of belief in sentence 2, from 0 to 1; a model's is the logistic
function of its log-ratio over ten nats.
"""

import numpy as np

from contstim.evaluation.measures import TrialMean


class LogScore(TrialMean):
    name = "log_score"
    label = "log score of graded choices, nats"
    chance = float(np.log(0.5))
    maximum = 0.0
    description = (
        "The log score is the mean log-probability of a participant's graded choices. Its lower "
        "noise ceiling predicts each choice by the mean degree of belief of the others"
    )

    def trial_value(self, rating, prediction):
        belief = 0.5 + rating / 5
        return -(
            belief * np.logaddexp(0, -prediction / 10)
            + (1 - belief) * np.logaddexp(0, prediction / 10)
        )

    def normalised_responses(self, subset):
        return 4 * subset.rating  # ten nats times the log-odds of the belief, to first order


LOG_SCORE = LogScore()
