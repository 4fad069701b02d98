"""Which model is best by now, whether that is settled, and what would settle it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import numpy as np
import pandas as pd
from scipy.special import ndtr

from contstim.adaptive.looks import repeated_p
from contstim.adaptive.sequences import Outlook
from contstim.adaptive.stopping import (
    Stopping,
    is_futile,
    level_of,
    look_limit,
    share_of_items,
)
from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.display import displayed
from contstim.errors import InputError
from contstim.sampling import CellDesign, SampledMean

_FARTHEST = 1000  # times as many participants: what is further off is not foreseen
_STEPS = 300  # up to there


@displayed
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
    table
        Makes `pairs`.

    Examples
    --------
    >>> person = np.repeat(np.arange(40), 20)
    >>> scores = np.stack([np.ones(800), np.zeros(800)], axis=1)  # model a is right in all trials
    >>> verdict = verdicts(person, scores, ["a", "b"], Stopping())[-1]
    >>> verdict.kind, verdict.models, verdict.stops
    ('best', ('a',), True)
    """

    kind: str
    models: tuple[str, ...]
    text: str
    n_participants: int
    table: Callable[[], pd.DataFrame] = field(repr=False)

    @property
    def pairs(self) -> pd.DataFrame:
        """One row two models: `model_1`, `model_2`, `difference`, `low`, `high`, `apart`.

        The ends are by now those of the confidence sequence or, at announced looks, of the repeated
        confidence interval (Jennison and Turnbull 1989); models are `apart` where they leave 0
        out. At looks there is `p` besides, of these two alone, which allows for the looks: with M
        models they are apart where it is below 2 alpha / M.
        """
        return self.table()

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
    item: IntArray | None = None,
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
    item
        Number of each trial's item, shape (T,), by which looks tell what people share; None if
        no item was asked twice.

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

    Examples
    --------
    >>> import numpy as np
    >>> from contstim.adaptive import Stopping
    >>> person = np.repeat(np.arange(30), 40)
    >>> right = np.random.default_rng(1).random((1200, 2)) < [0.75, 0.55]
    >>> last = verdicts(person, right.astype(float), ["A", "B"], Stopping(), every=False)[-1]
    >>> last.kind, last.models
    ('go on', ('A', 'B'))
    """
    if len(models) < 2:
        raise InputError(f"{len(models)} model cannot be compared with others; give two or more")
    if not len(person):
        raise InputError("there are no answers; wait for some")
    means = person_means(person, scores)
    first, second = np.triu_indices(len(models), 1)
    differences = (means[:, first] - means[:, second]).T
    of_trials = scores[:, first] - scores[:, second]
    if stopping.rule == "looks":
        item = np.arange(len(person)) if item is None else item
        reached = _at_looks(person, item, differences, of_trials, stopping, models, bounds)
        return reached if every else reached[-1:]
    sequence, _ = stopping.sequences
    low, high = sequence(differences, level_of(stopping, len(models)), bounds)
    reached = []
    for look in range(1, len(means) + 1) if every else [len(means)]:
        seen = person < look
        within = _within(person[seen], of_trials[seen])
        data = _Look(differences[:, :look], *within, stopping, models, bounds)
        reached.append(data.verdict(low[:, look - 1], high[:, look - 1]))
    return reached


def _within(person: IntArray, differences: FloatArray) -> tuple[FloatArray, float]:
    """Return the variance of differences within participants, and trials per participant."""
    counts = np.bincount(person)
    if counts.max() < 2:
        return np.full(differences.shape[1], np.nan), float(counts.mean())
    centred = differences - person_means(person, differences)[person]
    within = (centred**2).sum(axis=0) / max(1, len(person) - len(counts))
    return np.asarray(within), float(counts.mean())


def _table(
    models: list[str],
    difference: FloatArray,
    low: FloatArray,
    high: FloatArray,
    p: FloatArray | None = None,
) -> pd.DataFrame:
    """Return `Verdict.pairs`."""
    first, second = np.triu_indices(len(models), 1)
    columns = {
        "model_1": [models[i] for i in first],
        "model_2": [models[j] for j in second],
        "difference": difference,
        "low": low,
        "high": high,
        "apart": (low > 0) | (high < 0),
    }
    return pd.DataFrame(columns if p is None else columns | {"p": p})


@dataclass(frozen=True, eq=False)
class _Look:
    """What is known of every two models after some participants.

    Attributes
    ----------
    differences
        The participants' mean differences, shape (pairs of models, P).
    within, trials
        Their variance within participants, shape (pairs of models,), NaN where nobody had two
        trials; and trials per participant.
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
        models, n = self.models, self.differences.shape[1]
        first, second = np.triu_indices(len(models), 1)
        apart = (low > 0) | (high < 0)
        # Made once where it is asked for, also for those who take this verdict over.
        pairs = lru_cache(maxsize=1)(partial(self._pairs, low, high))
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
        return reached(*self._open(low, high, left, unsettled))

    def _pairs(self, low: FloatArray, high: FloatArray) -> pd.DataFrame:
        return _table(self.models, self.differences.mean(axis=1), low, high)

    def _open(
        self, low: FloatArray, high: FloatArray, left: IntArray, unsettled: IntArray
    ) -> tuple[str, str]:
        """Return kind and text of a verdict where none is best and not all are equivalent."""
        models, n, most_people = self.models, self.differences.shape[1], self.stopping.participants
        first, second = np.triu_indices(len(models), 1)
        needed = self._people_needed(unsettled)
        hardest, people = unsettled[needed.argmax()], needed.max()
        more = "more participants than can be foreseen"
        if np.isfinite(people):
            missing = int(people) - n
            more = f"about {missing} more participant{'s' * (missing != 1)}"
        wanted = f"{models[first[hardest]]} and {models[second[hardest]]} need {more}"
        if people <= most_people:
            return "go on", f"go on: {wanted}"
        if trials := self._trials_needed(hardest):
            either = f"{wanted}, more than the {most_people} there can be"
            trials_more = f"{trials} more trial{'s' * (trials != 1)} per participant"
            return "go on", f"go on: {either}; or about {trials_more}"
        if self._may_settle(low, high, left):
            return "go on", f"go on: {wanted}, fewer if they differ more than so far"
        return "futile", f"futile within {most_people} participants: {wanted}"

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

    def _above(self, sign: int, than: float, rows: IntArray, outlook: Outlook) -> BoolArray:
        """Return whether some differences, times `sign`, are to be above `than`, shape (R, K)."""
        _, ahead = self.stopping.sequences
        level = level_of(self.stopping, len(self.models))
        low, high = sorted(sign * end for end in self.bounds)
        turned = replace(outlook, mean=sign * outlook.mean)
        e_values = ahead(sign * self.differences[rows], turned, level, (low, high), than)
        return np.asarray(e_values >= np.log(2 / level))

    def _alike(self, rows: IntArray, outlook: Outlook) -> BoolArray:
        """Return whether they are to be within the margin."""
        margin = self.stopping.margin
        return self._above(1, -margin, rows, outlook) & self._above(-1, -margin, rows, outlook)

    def _settled(self, rows: IntArray, outlook: Outlook) -> BoolArray:
        """Return whether they are to be above 0, below it or within the margin."""
        apart = self._above(1, 0.0, rows, outlook) | self._above(-1, 0.0, rows, outlook)
        return apart | self._alike(rows, outlook)

    def _people_needed(self, rows: IntArray) -> FloatArray:
        """Return after how many participants each is settled, if those to come are like these."""
        n = self.differences.shape[1]
        units = _units(n, _FARTHEST * n)
        means, variances = self.differences[rows].mean(axis=1), self._variances[rows]
        settled = self._settled(rows, Outlook(means, variances, units))
        return np.where(settled.any(axis=1), units[settled.argmax(axis=1)], np.inf)

    def _trials_needed(self, row: int) -> int:
        """Return how many more trials a participant would settle it in the budget, 0 if none."""
        values, within = self.differences[row], float(self.within[row])
        n, budget = len(values), self.stopping.participants
        if n < 3 or n >= budget or not np.isfinite(within):
            return 0
        between = max(0.0, float(np.var(values, ddof=1)) - within / self.trials)
        times = np.array([1.25, 1.5, 2, 3, 4, 6])
        rows, means = np.full(len(times), row), np.full(len(times), values.mean())
        variances = between + within / (self.trials * times)
        settled = self._settled(rows, Outlook(means, variances, _units(n, budget)))[:, -1]
        return int(np.ceil(self.trials * (times[settled.argmax()] - 1))) if settled.any() else 0

    def _may_settle(self, low: FloatArray, high: FloatArray, left: IntArray) -> bool:
        """Return whether a verdict within the budget is to be expected of any allowed differences.

        That some model is best, or that those that are not worse than another are equivalent: each
        difference of those to come is taken at the end of its interval that serves this.
        """
        n, budget, m = self.differences.shape[1], self.stopping.participants, len(self.models)
        if n >= budget:
            return False
        rows, units, variances = np.arange(len(low)), _units(n, budget), self._variances
        # What brings the mean of all to 0.
        closest = np.clip(-n * self.differences.mean(axis=1) / (budget - n), low, high)
        above = self._above(1, 0.0, rows, Outlook(high, variances, units))[:, -1]
        below = self._above(-1, 0.0, rows, Outlook(low, variances, units))[:, -1]
        alike = self._alike(rows, Outlook(closest, variances, units))[:, -1]
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


@dataclass(frozen=True, eq=False)
class _AnnouncedLook(_Look):
    """What is known at one of the looks that were announced.

    Attributes
    ----------
    number
        Of the look, from 0.
    means
        Every two models' difference with its crossed standard error.
    items
        Of each, the share of the variance that items had at the looks so far.
    """

    number: int
    means: list[SampledMean]
    items: list[tuple[float, ...]]

    def _pairs(self, low: FloatArray, high: FloatArray) -> pd.DataFrame:
        looks, spending = self.stopping.looks, self.stopping.spending
        p = [
            repeated_p(mean.p(), looks, spending, items) if mean.p() >= 0 else np.nan
            for mean, items in zip(self.means, self.items, strict=True)
        ]
        return _table(self.models, self.differences.mean(axis=1), low, high, np.array(p))

    def _open(
        self, low: FloatArray, high: FloatArray, left: IntArray, unsettled: IntArray
    ) -> tuple[str, str]:
        looks = self.stopping.looks
        first, second = np.triu_indices(len(self.models), 1)
        p_values = np.nan_to_num([self.means[k].p() for k in unsettled], nan=0.0)
        hardest = unsettled[p_values.argmax()]
        two = f"{self.models[first[hardest]]} and {self.models[second[hardest]]}"
        people = f"{looks[self.number]} participants"
        if self.number == len(looks) - 1:
            return "futile", f"futile: {two} are not apart at the last look, after {people}"
        if is_futile(self.stopping, len(self.models), self.means[hardest], self.number):
            return "futile", f"futile: {two} are too near to one another after {people}"
        return "go on", f"go on: the next look is after {looks[self.number + 1]} participants"


def _at_looks(
    person: IntArray,
    item: IntArray,
    differences: FloatArray,
    of_trials: FloatArray,
    stopping: Stopping,
    models: list[str],
    bounds: tuple[float, float],
) -> list[Verdict]:
    """Return the verdict after each participant, which is that of the last look before.

    That a model is best, or some are equivalent, stands from the look on that says so. Who goes on
    after a look that says that it is futile gets the verdict of the next.
    """
    n_pairs, n_people = differences.shape
    items: list[tuple[float, ...]] = [()] * n_pairs
    low, high = (np.full(n_pairs, end) for end in bounds)
    text = f"go on: the first look is after {stopping.looks[0]} participants"
    before = differences[:, : stopping.looks[0]].mean(axis=1)
    unseen = partial(_table, models, before, low, high, np.full(n_pairs, np.nan))
    reached = [Verdict("go on", tuple(models), text, 0, unseen)]
    for k, look in enumerate(stopping.looks):
        if look > n_people or reached[-1].kind in ("best", "equivalent"):
            break
        reached += [replace(reached[-1], n_participants=n) for n in range(len(reached), look)]
        seen = person < look
        design, low, high = CellDesign(person[seen], item[seen]), low.copy(), high.copy()
        means = [design.mean(values) for values in of_trials[seen].T]
        for row, mean in enumerate(means):
            items[row] = (*items[row], share_of_items(mean))
            far = look_limit(stopping, len(models), items[row])
            ends = mean.interval(1 - 2 * float(ndtr(-far))) if np.isfinite(far) else bounds
            low[row], high[row] = np.clip(np.where(np.isnan(ends), bounds, ends), *bounds)
        data = _AnnouncedLook(
            *(differences[:, :look], np.zeros(n_pairs), 0.0, stopping, models, bounds, k, means),
            list(items),
        )
        reached.append(data.verdict(low, high))
    reached += [replace(reached[-1], n_participants=n) for n in range(len(reached), n_people + 1)]
    return reached[1:]
