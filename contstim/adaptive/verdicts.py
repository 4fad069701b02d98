"""Which model is best by now, whether that is settled, and what would settle it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from contstim.adaptive.sequences import betting_sequence, mean_sequence, room
from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError
from contstim.settings import Count, one_of, settings

#: What models are compared by.
COMPARED_BY = ("accuracy", "log-score")
#: Over what: trials as asked, or all pairs that can be drawn, by inverse-propensity weights.
ESTIMANDS = ("asked", "pool")

_FARTHEST = 1000  # times as many participants: what is further off is not foreseen


@settings
class Stopping:
    """When a study may stop, fixed before it begins.

    Attributes
    ----------
    measure
        ``accuracy``: share of choices as the model prefers, ties counting half; ``log-score``: the
        mean log-probability of the answers, predicted from those before.
    over
        ``asked``: the trials that were asked, of the people that were asked; ``pool``: all pairs of
        the pool that can be drawn (not the anchors), by inverse-propensity weights.
    alpha
        How often a model may be called best, ever, that is not.
    margin
        Differences that are smaller do not matter, in units of the measure.
    participants
        The most there can be.
    constant
        Whether all participants answer comparable trials (a fixed set, random pairs, or `over` the
        pool), which makes intervals narrower; with trials that are chosen by answers it must
        be false.
    """

    measure: Annotated[str, one_of(COMPARED_BY)] = "accuracy"
    over: Annotated[str, one_of(ESTIMANDS)] = "asked"
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    margin: Annotated[float, Field(gt=0, le=10)] = 0.05
    participants: Count = 100
    constant: bool = False


@dataclass(frozen=True, eq=False)
class Verdict:
    """What can be said after some participants.

    Attributes
    ----------
    kind
        ``best``, ``equivalent``, ``futile`` or ``go on``.
    models
        The best model; the ones that are equivalent; else those that may still be best.
    text
        One sentence.
    n_participants
        After how many.
    pairs
        One row two models: `model_1`, `model_2`, `difference`, `low`, `high` (the confidence
        sequence's ends by now), `apart` (whether 0 is outside).
    """

    kind: str
    models: tuple[str, ...]
    text: str
    n_participants: int
    pairs: pd.DataFrame

    @property
    def stops(self) -> bool:
        """Whether the study may stop."""
        return self.kind != "go on"


def person_means(person: IntArray, scores: FloatArray) -> FloatArray:
    """Return the participants' mean scores, shape (P, M), from those of trials.

    Parameters
    ----------
    person
        Number of each trial's participant, in the order in which they entered, shape (T,).
    scores
        Of the answers under the models, shape (T, M).
    """
    counts = np.bincount(person)
    if not counts.all():
        raise InputError(f"participant {int(np.argmin(counts))} has no answer; leave them out")
    sums = [np.bincount(person, column) for column in scores.T]
    return np.stack(sums, axis=1) / counts[:, None]


def verdicts(
    person: IntArray,
    scores: FloatArray,
    models: list[str],
    stopping: Stopping,
    bounds: tuple[float, float] = (-1.0, 1.0),
    every: bool = True,
) -> list[Verdict]:
    """Return the verdict after each participant.

    Parameters
    ----------
    person, scores
        As for `person_means`.
    models
        Their M names.
    stopping
        The rule.
    bounds
        Of differences of two models' scores.
    every
        Whether after each participant, or only after the last.

    Raises
    ------
    InputError
        If there are fewer than two models or no answers, or a score is out of bounds.

    Notes
    -----
    With M models each side of each interval may fail with probability alpha / M: a model is called
    best wrongly only if one of at most M true differences, those from one truly best model, is
    missed on one side. Equivalence is claimed where the intervals of all pairs that may still be
    best lie within the margin.
    """
    if len(models) < 2:
        raise InputError(f"{len(models)} model cannot be told from others; give two or more")
    if not len(person):
        raise InputError("there are no answers; wait for some")
    means = person_means(person, scores)
    first, second = np.triu_indices(len(models), 1)
    differences = (means[:, first] - means[:, second]).T
    of_trials = scores[:, first] - scores[:, second]
    sequence = betting_sequence if stopping.constant else mean_sequence
    low, high = sequence(differences, min(1.0, 2 * stopping.alpha / len(models)), bounds)
    told = []
    for look in range(1, len(means) + 1) if every else [len(means)]:
        seen = person < look
        within = _within(person[seen], of_trials[seen])
        known = _Look(differences[:, :look], *within, stopping, len(models), bounds[1] - bounds[0])
        told.append(known.verdict(low[:, look - 1], high[:, look - 1], models))
    return told


def _within(person: IntArray, differences: FloatArray) -> tuple[FloatArray, float]:
    """Return the variance of differences within participants, and trials a participant."""
    counts = np.bincount(person)
    if counts.max() < 2:
        return np.full(differences.shape[1], np.nan), float(counts.mean())
    centred = differences - person_means(person, differences)[person]
    within = (centred**2).sum(axis=0) / max(1, len(person) - len(counts))
    return np.asarray(within), float(counts.mean())


@dataclass(frozen=True, eq=False)
class _Look:
    """What is known of every two models after some participants.

    Attributes
    ----------
    differences
        The participants' mean differences, shape (pairs of models, P).
    within, trials
        Their variance within participants, shape (pairs of models,), NaN where nobody had two
        trials; and trials a participant.
    stopping, n_models
        The rule, and how many models it is about.
    scale
        Between the bounds of differences.
    """

    differences: FloatArray
    within: FloatArray
    trials: float
    stopping: Stopping
    n_models: int
    scale: float

    def verdict(self, low: FloatArray, high: FloatArray, models: list[str]) -> Verdict:
        """Return the verdict from the ends of the confidence sequences by now."""
        n, most_people = self.differences.shape[1], self.stopping.participants
        first, second = np.triu_indices(self.n_models, 1)
        apart = (low > 0) | (high < 0)
        pairs = pd.DataFrame(
            {
                "model_1": [models[i] for i in first],
                "model_2": [models[j] for j in second],
                "difference": self.differences.mean(axis=1),
                "low": low,
                "high": high,
                "apart": apart,
            }
        )
        worse = np.union1d(second[low > 0], first[high < 0])
        left = np.setdiff1d(np.arange(self.n_models), worse)
        refuted = bool((low > high).any()) or not len(left)  # only running intersections can be
        names = tuple(models) if refuted else tuple(models[k] for k in left)

        def told(kind: str, text: str) -> Verdict:
            return Verdict(kind, names, text, n, pairs)

        if refuted:
            changed = "models' differences change from participant to participant"
            said = f"{changed}, so intervals contradict one another"
            return told("go on", f"go on: {said}; give stopping.constant = false")
        if len(left) == 1:
            unsettled = ~apart & ((first == left[0]) | (second == left[0]))
            if not unsettled.any():
                best = f"{names[0]} is best, apart from all others"
                return told("best", f"{best}, after {n} participants")
        else:
            unsettled = np.isin(first, left) & np.isin(second, left)
            if (np.maximum(np.abs(low), np.abs(high))[unsettled] < self.stopping.margin).all():
                alike = f"{', '.join(names[:-1])} and {names[-1]} are equivalent"
                said = f"{alike} within {self.stopping.margin:g}, after {n} participants"
                return told("equivalent", said)
        # The two models that are hardest to settle decide how long it will take.
        needed = {pair: self._people_needed(pair) for pair in np.flatnonzero(unsettled).tolist()}
        hardest = max(needed, key=lambda pair: needed[pair])
        people = needed[hardest]
        more = "more participants than can be foreseen"
        if np.isfinite(people):
            more = f"about {max(1, int(people) - n)} more participants"
        wanted = f"{models[first[hardest]]} and {models[second[hardest]]} need {more}"
        if people <= most_people:
            return told("go on", f"go on: {wanted}")
        if trials := self._trials_needed(hardest):
            either = f"{wanted}, more than the {most_people} there can be"
            return told("go on", f"go on: {either}; or about {trials} more trials a participant")
        if n < min(10, most_people):  # too few to foresee anything
            return told("go on", f"go on: {n} participants foretell nothing")
        return told("futile", f"futile within {most_people} participants: {wanted}")

    def _settles(self, pair: int, variance: float, people: float) -> bool:
        """Return whether a pair would be settled, apart or equivalent, if it goes on like this."""
        mean = abs(float(self.differences[pair].mean()))
        spread = max(variance / self.scale**2, 1e-6)
        half = self.scale * room(spread * people, self.stopping.alpha / self.n_models) / people
        return mean > half or mean + half < self.stopping.margin

    def _people_needed(self, pair: int) -> float:
        n = self.differences.shape[1]
        variance = float(np.var(self.differences[pair]) if n > 1 else 0.25 * self.scale**2)
        high = float(n)
        while not self._settles(pair, variance, high):
            high *= 2
            if high > _FARTHEST * n:
                return float("inf")
        low = high / 2
        while high - low > 1:
            middle = float(round((low + high) / 2))
            if self._settles(pair, variance, middle):
                high = middle
            else:
                low = middle
        return float(max(high, n + 1.0))

    def _trials_needed(self, pair: int) -> int:
        """Return how many more trials a participant would settle it in the budget, 0 if none."""
        values, within = self.differences[pair], float(self.within[pair])
        if len(values) < 3 or not np.isfinite(within):
            return 0
        between = max(0.0, float(np.var(values, ddof=1)) - within / self.trials)
        for times in (1.25, 1.5, 2, 3, 4, 6):
            variance = between + within / (self.trials * times)
            if self._settles(pair, variance, self.stopping.participants):
                return int(np.ceil(self.trials * (times - 1)))
        return 0
