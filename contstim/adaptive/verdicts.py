"""Which model is best by now, whether that is settled, and what would settle it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
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
#: Over what: trials as asked, or the whole pool, by inverse-propensity weights.
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
        the pool, by inverse-propensity weights.
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
    first, second = np.array(list(combinations(range(len(models)), 2))).T
    differences = (means[:, first] - means[:, second]).T
    level = min(1.0, 2 * stopping.alpha / len(models))
    sequence = betting_sequence if stopping.constant else mean_sequence
    if not every and not stopping.constant:
        lower, upper = (end[:, -1:] for end in mean_sequence(differences, level, bounds))
    else:
        lower, upper = sequence(differences, level, bounds)
    looks = range(1, len(means) + 1) if every else [len(means)]
    return [
        _verdict(
            differences[:, :look],
            lower[:, look - 1 if every else -1],
            upper[:, look - 1 if every else -1],
            models,
            stopping,
            bounds,
            _within(person, scores, first, second, look),
        )
        for look in looks
    ]


def _within(
    person: IntArray, scores: FloatArray, first: IntArray, second: IntArray, look: int
) -> tuple[FloatArray, float]:
    """Return the variance of differences within participants, and trials a participant."""
    own = person < look
    differences = scores[own][:, first] - scores[own][:, second]
    counts = np.bincount(person[own])
    if counts.max() < 2:
        return np.full(len(first), np.nan), float(counts.mean())
    centred = differences - person_means(person[own], differences)[person[own]]
    within = (centred**2).sum(axis=0) / max(1, own.sum() - len(counts))
    return np.asarray(within), float(counts.mean())


def _verdict(
    differences: FloatArray,
    low: FloatArray,
    high: FloatArray,
    models: list[str],
    stopping: Stopping,
    bounds: tuple[float, float],
    within: tuple[FloatArray, float],
) -> Verdict:
    n, m = differences.shape[1], len(models)
    first, second = np.array(list(combinations(range(m), 2))).T
    apart = (low > 0) | (high < 0)
    means = differences.mean(axis=1)
    pairs = pd.DataFrame(
        {
            "model_1": [models[i] for i in first],
            "model_2": [models[j] for j in second],
            "difference": means,
            "low": low,
            "high": high,
            "apart": apart,
        }
    )
    worse = np.zeros(m, dtype=bool)
    worse[second[low > 0]] = True
    worse[first[high < 0]] = True
    left = np.flatnonzero(~worse)
    names = tuple(models[k] for k in left)
    among = np.isin(first, left) & np.isin(second, left)
    if len(left) == 1:
        wins = apart & ((first == left[0]) | (second == left[0]))
        if wins.sum() == m - 1:
            said = f"{names[0]} is best, apart from all others"
            return Verdict("best", names, f"{said}, after {n} participants", n, pairs)
        among = ~apart & ((first == left[0]) | (second == left[0]))
    elif (np.maximum(np.abs(low), np.abs(high))[among] < stopping.margin).all():
        said = f"{_list(names)} are equivalent within {stopping.margin:g}"
        return Verdict("equivalent", names, f"{said}, after {n} participants", n, pairs)
    # The two models that are hardest to settle decide how long it will take.
    needed = [
        _people_needed(differences[k], means[k], stopping, bounds, m) for k in np.flatnonzero(among)
    ]
    hardest = int(np.flatnonzero(among)[int(np.argmax(needed))]) if needed else 0
    people = max(needed, default=n)
    two = f"{models[first[hardest]]} and {models[second[hardest]]}"
    help_with = f"{two} need {_foreseen(people, n)}"
    trials = _trials_needed(
        differences[hardest], means[hardest], stopping, bounds, m, hardest, within
    )
    if people <= stopping.participants:
        return Verdict("go on", names, f"go on: {help_with}", n, pairs)
    if trials:
        text = (
            f"go on: {help_with}, more than the {stopping.participants} there can be; or about "
            f"{trials} more trials a participant"
        )
        return Verdict("go on", names, text, n, pairs)
    if n < min(10, stopping.participants):  # too few to foresee anything
        return Verdict("go on", names, f"go on: {n} participants foretell nothing", n, pairs)
    text = f"futile within {stopping.participants} participants: {help_with}"
    return Verdict("futile", names, text, n, pairs)


def _foreseen(people: float, n: int) -> str:
    return (
        "more participants than can be foreseen"
        if np.isinf(people)
        else (f"about {max(1, int(people) - n)} more participants")
    )


def _settles(
    mean: float, spread: float, people: float, stopping: Stopping, scale: float, m: int
) -> bool:
    """Whether a pair would be settled, if it goes on like this: apart or equivalent."""
    half = scale * room(spread * people, stopping.alpha / m) / people
    return bool(abs(mean) > half or abs(mean) + half < stopping.margin)


def _people_needed(
    values: FloatArray, mean: float, stopping: Stopping, bounds: tuple[float, float], m: int
) -> float:
    scale = bounds[1] - bounds[0]
    spread = float(np.var(values) if len(values) > 1 else 0.25 * scale**2) / scale**2
    spread = max(spread, 1e-6)
    high = float(len(values))
    while not _settles(mean, spread, high, stopping, scale, m):
        high *= 2
        if high > _FARTHEST * len(values):
            return float("inf")
    low = high / 2
    while high - low > 1:
        middle = float(round((low + high) / 2))
        if _settles(mean, spread, middle, stopping, scale, m):
            high = middle
        else:
            low = middle
    return max(high, len(values) + 1.0)


def _trials_needed(
    values: FloatArray,
    mean: float,
    stopping: Stopping,
    bounds: tuple[float, float],
    m: int,
    pair: int,
    within: tuple[FloatArray, float],
) -> int:
    """Return how many more trials a participant would settle it within the budget, 0 if none."""
    scale, (variances, trials) = bounds[1] - bounds[0], within
    if len(values) < 3 or not np.isfinite(variances[pair]):
        return 0
    total, inner = float(np.var(values, ddof=1)), float(variances[pair])
    between = max(0.0, total - inner / trials)
    for times in (1.25, 1.5, 2, 3, 4, 6):
        spread = max((between + inner / (trials * times)) / scale**2, 1e-6)
        if _settles(mean, spread, stopping.participants, stopping, scale, m):
            return int(np.ceil(trials * (times - 1)))
    return 0


def _list(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
