"""Which model is best by now, whether that is settled, and what would settle it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from contstim.adaptive.sequences import (
    Outlook,
    betting_ahead,
    betting_sequence,
    mean_ahead,
    mean_sequence,
)
from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.settings import Count, one_of, settings

#: What models are compared by.
COMPARED_BY = ("accuracy", "log-score")
#: Over what: trials as asked, or all pairs that can be drawn, by inverse-propensity weights.
ESTIMANDS = ("asked", "pool")

_FARTHEST = 1000  # times as many participants: what is further off is not foreseen
_STEPS = 300  # up to there
#: Confidence sequences and their foresight, by `Stopping.constant`.
_SEQUENCES: dict[
    bool, tuple[Callable[..., tuple[FloatArray, FloatArray]], Callable[..., FloatArray]]
] = {
    False: (mean_sequence, mean_ahead),
    True: (betting_sequence, betting_ahead),
}


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
    missed on one side. That supposes that the truly best model stays the same, as it does with
    `Stopping.constant`; where running means are covered and the best of three or more models
    changes, the bound is alpha for each model that is best at some time. Equivalence is claimed
    where the intervals of all pairs that may still be best lie within the margin.

    A study is futile if no verdict is to be expected within the budget, by the same sequence, even
    if differences of those to come are at the most favourable ends of the intervals by now. How
    many participants are needed is foreseen from the differences so far.
    """
    if len(models) < 2:
        raise InputError(f"{len(models)} model cannot be compared with others; give two or more")
    if not len(person):
        raise InputError("there are no answers; wait for some")
    means = person_means(person, scores)
    first, second = np.triu_indices(len(models), 1)
    differences = (means[:, first] - means[:, second]).T
    of_trials = scores[:, first] - scores[:, second]
    sequence, _ = _SEQUENCES[stopping.constant]
    low, high = sequence(differences, _level(stopping, len(models)), bounds)
    reached = []
    for look in range(1, len(means) + 1) if every else [len(means)]:
        seen = person < look
        within = _within(person[seen], of_trials[seen])
        data = _Look(differences[:, :look], *within, stopping, models, bounds)
        reached.append(data.verdict(low[:, look - 1], high[:, look - 1]))
    return reached


def _level(stopping: Stopping, n_models: int) -> float:
    """Return how often a confidence sequence of two models may fail, both sides together."""
    return min(1.0, 2 * stopping.alpha / n_models)


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
    stopping, models
        The rule, and the models that it is about.
    bounds
        Of differences.
    """

    differences: FloatArray
    within: FloatArray
    trials: float
    stopping: Stopping
    models: list[str]
    bounds: tuple[float, float]

    def verdict(self, low: FloatArray, high: FloatArray) -> Verdict:
        """Return the verdict from the ends of the confidence sequences by now."""
        models, n, most_people = self.models, self.differences.shape[1], self.stopping.participants
        first, second = np.triu_indices(len(models), 1)
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
        left = np.setdiff1d(np.arange(len(models)), worse)
        refuted = bool((low > high).any()) or not len(left)  # only running intersections can be
        names = tuple(models) if refuted else tuple(models[k] for k in left)

        def reached(kind: str, text: str) -> Verdict:
            return Verdict(kind, names, text, n, pairs)

        if refuted:
            changed = "models' differences change from participant to participant"
            contradicted = f"{changed}, so intervals contradict one another"
            return reached("go on", f"go on: {contradicted}; give stopping.constant = false")
        after = f"after {n} participant{'s' * (n != 1)}"
        among = np.isin(first, left) & np.isin(second, left)
        if len(left) > 1:
            if (np.maximum(np.abs(low), np.abs(high))[among] < self.stopping.margin).all():
                alike = f"{', '.join(names[:-1])} and {names[-1]} are equivalent"
                return reached("equivalent", f"{alike} within {self.stopping.margin:g}, {after}")
        elif apart[(first == left[0]) | (second == left[0])].all():
            return reached("best", f"{names[0]} is best, apart from all others, {after}")
        # Of the leader's differences, that which is hardest to settle decides how long it takes.
        leader = left[self._means[left].argmax()]
        leaders = (first == leader) | (second == leader)
        unsettled = np.flatnonzero(~apart & leaders & (among | (len(left) == 1)))
        needed = self._people_needed(unsettled)
        hardest, people = unsettled[needed.argmax()], needed.max()
        more = "more participants than can be foreseen"
        if np.isfinite(people):
            missing = int(people) - n
            more = f"about {missing} more participant{'s' * (missing != 1)}"
        wanted = f"{models[first[hardest]]} and {models[second[hardest]]} need {more}"
        if people <= most_people:
            return reached("go on", f"go on: {wanted}")
        if trials := self._trials_needed(hardest):
            either = f"{wanted}, more than the {most_people} there can be"
            trials_more = f"{trials} more trial{'s' * (trials != 1)} a participant"
            return reached("go on", f"go on: {either}; or about {trials_more}")
        if self._may_settle(low, high, left):
            return reached("go on", f"go on: {wanted}, fewer if they differ more than so far")
        return reached("futile", f"futile within {most_people} participants: {wanted}")

    @property
    def _means(self) -> FloatArray:
        """The models' scores, shape (M,), but for a constant."""
        m = len(self.models)
        first, second = np.triu_indices(m, 1)
        means, scores = self.differences.mean(axis=1), np.zeros(m)
        np.add.at(scores, first, means)
        np.subtract.at(scores, second, means)
        return scores

    @property
    def _variances(self) -> FloatArray:
        """Of participants, shape (pairs of models,); that of a coin's tosses while there is one."""
        if self.differences.shape[1] > 1:
            return np.asarray(self.differences.var(axis=1))
        low, high = self.bounds
        return np.full(len(self.differences), (high - low) ** 2 / 4)

    def _ahead(
        self, rows: IntArray, mean: FloatArray, variance: FloatArray, units: IntArray
    ) -> tuple[BoolArray, BoolArray, BoolArray]:
        """Return whether differences are to be above 0, below it and within the margin.

        Parameters
        ----------
        rows
            Of `differences`, shape (R,).
        mean, variance
            Of those to come, shape (R,).
        units
            After so many participants, those who are there counted, shape (K,).

        Returns
        -------
        tuple
            Each of shape (R, K).
        """
        _, ahead = _SEQUENCES[self.stopping.constant]
        level = _level(self.stopping, len(self.models))

        def above(sign: int, than: float) -> BoolArray:
            low, high = sorted(sign * end for end in self.bounds)
            outlook = Outlook(sign * mean, variance, units)
            e_values = ahead(sign * self.differences[rows], outlook, level, (low, high), than)
            return np.asarray(e_values >= np.log(2 / level))

        margin = self.stopping.margin
        return above(1, 0.0), above(-1, 0.0), above(1, -margin) & above(-1, -margin)

    def _people_needed(self, rows: IntArray) -> FloatArray:
        """Return after how many participants each is settled, if those to come are like these."""
        n = self.differences.shape[1]
        units = _units(n, _FARTHEST * n)
        means, variances = self.differences[rows].mean(axis=1), self._variances[rows]
        settled = np.logical_or.reduce(self._ahead(rows, means, variances, units))
        return np.where(settled.any(axis=1), units[settled.argmax(axis=1)], np.inf)

    def _trials_needed(self, row: int) -> int:
        """Return how many more trials a participant would settle it in the budget, 0 if none."""
        values, within = self.differences[row], float(self.within[row])
        n, budget = len(values), self.stopping.participants
        if n < 3 or n >= budget or not np.isfinite(within):
            return 0
        between = max(0.0, float(np.var(values, ddof=1)) - within / self.trials)
        for times in (1.25, 1.5, 2, 3, 4, 6):
            variance = np.array([between + within / (self.trials * times)])
            rows, mean = np.array([row]), values.mean(keepdims=True)
            if any(seen[0, -1] for seen in self._ahead(rows, mean, variance, _units(n, budget))):
                return int(np.ceil(self.trials * (times - 1)))
        return 0

    def _may_settle(self, low: FloatArray, high: FloatArray, left: IntArray) -> bool:
        """Return whether a verdict within the budget is to be expected of any allowed differences.

        That some model is best, or that those that are not worse than another are equivalent: each
        difference of those to come is taken at the end of its interval that serves this.
        """
        n, budget, m = self.differences.shape[1], self.stopping.participants, len(self.models)
        if n >= budget:
            return False
        rows, units = np.arange(len(low)), _units(n, budget)
        # What brings the mean of all to 0.
        closest = np.clip(-n * self.differences.mean(axis=1) / (budget - n), low, high)
        ahead = (self._ahead(rows, end, self._variances, units) for end in (high, low, closest))
        above, below, alike = (seen[k][:, -1] for k, seen in enumerate(ahead))
        first, second = np.triu_indices(m, 1)
        better, same = np.eye(m, dtype=bool), np.eye(m, dtype=bool)
        better[first, second], better[second, first] = above, below
        same[first, second] = same[second, first] = alike
        beaten = (better & ~np.eye(m, dtype=bool)).any(axis=0)
        best, equivalent = better[left].all(axis=1), (same[left] | beaten).all(axis=1)
        return bool((best | (equivalent & (same[left].sum(axis=1) > 1))).any())


def _units(seen: int, most: int) -> IntArray:
    """Return numbers of participants from those seen to the most, ever further apart."""
    return np.unique(np.geomspace(seen + 1, most, _STEPS).round()).astype(np.int64)
