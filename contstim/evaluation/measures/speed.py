"""Speed: how far the strength of a model's preference goes with how fast people choose."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.evaluation.measures import Measure, Resampled
from contstim.evaluation.subset import Subset

_FEWEST = 3  # trials of a correlation


class Speed(Measure):
    """Spearman's correlation of -log response time with the absolute log-ratio, for each person.

    Whichever sentence was chosen: a model says by the size of its log-ratio how strongly a sentence
    is preferred, and people choose the faster the less they hesitate. Trials without a time, or
    with one of 0 ms, take no part. Ranks make the measure indifferent to the unit of a model's
    scores, and to how times are spread.
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
        """Return how fast each choice was, minus the logarithm of milliseconds, shape (R,)."""
        if subset.data.rt_ms is None:
            raise InputError(
                f"the measure {self.name!r} needs response times, of which there are none; give "
                "the column rt_ms, or rt_s in seconds"
            )
        times = subset.data.rt_ms[subset.rows]
        return -np.log(times, where=times > 0, out=np.full(len(times), np.nan))

    def participant_value(self, rating: FloatArray, prediction: FloatArray) -> float:
        """Return the rank correlation of speeds and strengths of preference."""
        there = _there(rating, prediction)
        return float(_correlations(rating, np.abs(prediction), there[None])[0])

    def vote(self, rating: FloatArray) -> FloatArray:
        """Return the participant's ranks of speed, above 0 and up to 1; NaN without a time."""
        there = (~np.isnan(rating)).astype(np.float64)
        ranks = _before(rating) @ there / max(there.sum(), 1.0)
        return np.where(there > 0, ranks, np.nan)

    def resampled(self, rating: FloatArray, ratios: FloatArray) -> Resampled:
        """Return how values follow from how often each pair counts: by weighed ranks."""

        def values(weights: FloatArray) -> Iterator[FloatArray]:
            for ratio in np.abs(ratios).T:
                of_people = [
                    _correlations(speed, ratio, weights * _there(speed, ratio)) for speed in rating
                ]
                yield np.stack(of_people, axis=1)

        return values


def _there(*values: FloatArray) -> FloatArray:
    """Return 1 where all are there, else 0."""
    return np.asarray(np.all([~np.isnan(v) for v in values], axis=0), dtype=np.float64)


def _before(values: FloatArray) -> FloatArray:
    """Return which of k values lie before each, (k, k): 1, those that tie with it 1/2, else 0."""
    ties = 0.5 * (values[None] == values[:, None])
    return np.asarray((values[None] < values[:, None]) + ties, dtype=np.float64)


def _correlations(first: FloatArray, second: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the rank correlation of k values with others, each weighed in B ways, shape (B,).

    NaN where fewer than three count, or one side is the same throughout.
    """
    total = weights.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        ranks = [weights @ _before(np.nan_to_num(values)).T for values in (first, second)]
        apart = [rank - (weights * rank).sum(axis=1, keepdims=True) / total for rank in ranks]
        products = [
            (weights * apart[i] * apart[j]).sum(axis=1) for i, j in ((0, 1), (0, 0), (1, 1))
        ]
        # Ranks that are all the same differ by rounding alone.
        least = 1e-9 * total[:, 0] ** 3
        varied = (products[1] > least) & (products[2] > least)
        value = products[0] / np.sqrt(products[1] * products[2])
    enough = (weights > 0).sum(axis=1) >= _FEWEST
    return np.where(varied & enough, value, np.nan)


SPEED = Speed()
