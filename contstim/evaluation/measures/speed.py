"""Speed: rank correlation of response speed with the strength of a model's preference."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.evaluation.measures import Measure
from contstim.evaluation.subset import Subset

# Minimum number of trials of a correlation.
_MIN_TRIALS = 3


class Speed(Measure):
    """Spearman's correlation of response speed with the strength of a model's preference.

    The speed is -log(response time). The strength is the absolute value of the log-ratio,
    log p(sentence 2) - log p(sentence 1), whichever sentence was chosen. The measure assumes that
    participants choose faster if their preference is stronger. Trials without a response time, or
    with a response time of 0, are excluded.
    """

    name = "speed"
    label = "rank correlation with speed"
    chance = 0.0
    description = (
        "Speed is the rank correlation, over a participant's trials, of how fast a choice was "
        "(the negative logarithm of the response time) with how strongly a model prefers either "
        "sentence (the absolute log-ratio), whichever was chosen. Its lower noise ceiling predicts "
        "how fast a choice was by the mean rank that the other participants' choices on the same "
        "pair have among their own"
    )

    def responses(self, subset: Subset) -> FloatArray:
        """Return the speed of each choice, -log(response time in ms).

        Parameters
        ----------
        subset
            R choices with response times.

        Returns
        -------
        array
            Speeds, shape (R,). NaN if the response time is missing or 0.

        Raises
        ------
        InputError
            If no response time is known.
        """
        if subset.data.rt_ms is None:
            raise InputError(
                f"the measure {self.name!r} needs response times, of which there are none; give "
                "the column rt_ms, or rt_s in seconds"
            )
        # Speed is -log(ms), so faster choices have larger values. A time of 0 is not valid.
        times = subset.data.rt_ms[subset.rows]
        speed = np.full(subset.n_rows, np.nan)
        has_time = times > 0
        speed[has_time] = -np.log(times[has_time])
        return speed

    def participant_value(self, rating: FloatArray, prediction: FloatArray) -> float:
        """Return the rank correlation of speed and strength of preference for one participant.

        Parameters
        ----------
        rating
            Speed of the participant in n trials, shape (n,).
        prediction
            Log-ratio of the model in each trial, shape (n,). The strength of the preference is its
            absolute value.

        Returns
        -------
        float
            Spearman's correlation. NaN for fewer than three trials, or if all speeds or all
            strengths are equal.
        """
        # The strength of a preference is the absolute log-ratio; the choice does not matter.
        is_defined = ~np.isnan(rating + prediction)
        speed, strength = rating[is_defined], np.abs(prediction[is_defined])
        if len(speed) < _MIN_TRIALS or np.ptp(speed) == 0 or np.ptp(strength) == 0:
            return float("nan")
        # Spearman's correlation is the Pearson correlation of the ranks.
        return float(np.corrcoef(rankdata(speed), rankdata(strength))[0, 1])

    def normalised_responses(self, subset: Subset) -> FloatArray:
        """Replace the speed of each choice by its rank within the participant, scaled to 0 to 1.

        Participants differ in their general speed. The ranks remove these differences before the
        noise ceiling averages over participants. If a participant made n choices with a response
        time, the choice with rank r (1 for the slowest, average ranks for ties) gets the value
        (r - 1/2) / n.

        Parameters
        ----------
        subset
            R choices with response times.

        Returns
        -------
        array
            Scaled ranks, shape (R,). NaN if the response time is missing.
        """
        speed, scaled_ranks = self.responses(subset), np.full(subset.n_rows, np.nan)
        for rows in subset.rows_by_participant:
            # Rank the speeds within the participant, and scale the ranks to the range from 0 to 1.
            timed = rows[~np.isnan(speed[rows])]
            if len(timed):
                # (r - 1/2) / n, where r is the rank among the n choices with a response time.
                scaled_ranks[timed] = (rankdata(speed[timed]) - 0.5) / len(timed)
        return scaled_ranks


SPEED = Speed()
