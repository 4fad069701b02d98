"""Rescoring: tune on the development part, choose and measure on the test part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.display import displayed
from contstim.errors import InputError
from contstim.evaluation.inference.bootstrap import intervals
from contstim.files import write_whole
from contstim.rescoring import TranscriptMeasure
from contstim.rescoring.nbest import SPLITS, NBest, Utterance
from contstim.settings import Seed, option, settings
from contstim.tables import table_text

# Lines tried in each round besides the axes, where there are several weights.
_N_DIRECTIONS = 20
_MOST_ROUNDS = 50


@dataclass(frozen=True, eq=False)
class HypothesisArrays:
    """Hypotheses of U utterances as arrays; lists shorter than H are padded.

    Attributes
    ----------
    base
        The first pass's scores, shape (U, H).
    features
        The scores that are given weights, shape (U, H, F).
    there
        Which entries are hypotheses, shape (U, H).
    statistics
        What the measure counts, shape (U, H, K).
    """

    base: FloatArray
    features: FloatArray
    there: BoolArray
    statistics: FloatArray

    def choose(self, weights: FloatArray) -> IntArray:
        """Return each utterance's hypothesis of highest score, the first among equals: (U,)."""
        total = np.where(self.there, self.base + self.features @ weights, -np.inf)
        return np.asarray(total.argmax(axis=1), dtype=np.int64)

    def chosen(self, index: IntArray) -> FloatArray:
        """Return the statistics of one hypothesis of each utterance, (U,) to (U, K)."""
        return np.asarray(self.statistics[np.arange(len(index)), index])

    def loss(self, weights: FloatArray, measure: TranscriptMeasure) -> float:
        """Return the loss over all utterances with these weights."""
        return float(measure.loss(self.chosen(self.choose(weights)).sum(axis=0)[None])[0])


def tune(candidates: HypothesisArrays, measure: TranscriptMeasure, seed: int = 0) -> FloatArray:
    """Find weights that minimise the measure's loss over `candidates`.

    The first pass's score has weight 1. Beginning with weights of 0, which are the first pass's own
    choices, each round searches lines through the present weights exactly and moves to the best
    minimum found on any, until none is better. With one weight, one line is the whole space, so
    the minimum is global. With several the lines are the axes and 20 directions drawn at random in
    each round, each feature counted in units of its spread within utterances; the minimum found
    is never worse than the start, and may be local.

    The measure is piecewise constant in the weights, so no gradient leads to its minimum. Along a
    line in the space of weights, though, each hypothesis's score is a linear function of the
    step; the hypothesis chosen for an utterance follows the upper envelope of its H lines, and
    the measure changes only where some envelope has a corner. Visiting all corners in order gives
    the measure's exact minimum on the line (Och 2003, doi 10.3115/1075096.1075117, section 4).

    Parameters
    ----------
    candidates
        The development part: the search sees nothing else.
    measure
        What is tuned to.
    seed
        Seed of the directions.

    Returns
    -------
    array
        The F weights.
    """
    n_features = candidates.features.shape[2]
    weights = np.zeros(n_features)
    if n_features == 0:
        return weights
    rng = np.random.default_rng(seed)
    units = _units(candidates)
    loss = candidates.loss(weights, measure)
    for _ in range(_MOST_ROUNDS):
        directions = list(np.eye(n_features))
        if n_features > 1:
            directions += list(rng.standard_normal((_N_DIRECTIONS, n_features)))
        best, best_loss = weights, loss
        for direction in directions:
            step, lowest = best_step(candidates, weights, direction * units, measure)
            if lowest < best_loss:
                best, best_loss = weights + step * direction * units, lowest
        if best_loss >= loss:
            break
        weights, loss = best, best_loss
    return weights


def best_step(
    candidates: HypothesisArrays,
    weights: FloatArray,
    direction: FloatArray,
    measure: TranscriptMeasure,
) -> tuple[float, float]:
    """Minimise the loss exactly over weights + step * direction.

    Returns
    -------
    step
        The middle of the interval of steps with the least loss; of several intervals the widest,
        then the one nearest 0. An interval without an end reaches as far beyond its corner as all
        corners lie apart (1 if there is one alone).
    loss
        The loss there.
    """
    start, corners, old, new, where = _corners(candidates, weights, direction)
    order = np.argsort(corners, kind="stable")
    corners = corners[order]
    statistics = candidates.statistics
    change = statistics[where, new] - statistics[where, old]
    sums = candidates.chosen(start).sum(axis=0) + np.concatenate(
        [np.zeros((1, statistics.shape[2])), np.cumsum(change[order], axis=0)]
    )
    if len(corners) == 0:
        return 0.0, float(measure.loss(sums)[0])
    reach = float(corners[-1] - corners[0]) or 1.0
    ends = np.concatenate([[corners[0] - reach], corners, [corners[-1] + reach]])
    # Corners that coincide leave intervals of no width, in which no step lies.
    wide = np.diff(ends) > 0
    low, high, losses = ends[:-1][wide], ends[1:][wide], measure.loss(sums[wide])
    # Neighbours with one loss are one interval.
    first = np.flatnonzero(np.diff(losses, prepend=np.inf) != 0)
    last = np.append(first[1:], len(losses)) - 1
    low, high, losses = low[first], high[last], losses[first]
    middle = (low + high) / 2
    best = np.lexsort((np.abs(middle), low - high, losses))[0]
    return float(middle[best]), float(losses[best])


def _corners(
    candidates: HypothesisArrays, weights: FloatArray, direction: FloatArray
) -> tuple[IntArray, FloatArray, IntArray, IntArray, IntArray]:
    """Find the corners of all upper envelopes along a line.

    Returns the hypothesis chosen at step minus infinity (U,), and for each corner its step, the
    hypotheses before and after it, and the utterance. The envelopes of all utterances are
    followed side by side, from the flattest line to ever steeper ones.
    """
    height = np.where(candidates.there, candidates.base + candidates.features @ weights, -np.inf)
    slope = candidates.features @ direction
    every = np.arange(len(height))
    flattest = np.where(candidates.there, slope, np.inf).min(axis=1)
    start = np.where(slope == flattest[:, None], height, -np.inf).argmax(axis=1)
    steps, old, new, where = [], [], [], []
    current, live = start, every
    while len(live):
        at = current[live]
        rise = slope[live] - slope[live, at][:, None]
        steeper = candidates.there[live] & (rise > 0)
        fall = height[live, at][:, None] - height[live]
        crossing = np.full(rise.shape, np.inf)
        np.divide(fall, rise, out=crossing, where=steeper)
        first = crossing.min(axis=1)
        live = live[np.isfinite(first)]
        crosses = np.isfinite(first)
        # Of lines that cross at one place the steepest is on the envelope beyond it.
        meets = crossing[crosses] == first[crosses][:, None]
        following = np.where(meets, rise[crosses], -np.inf).argmax(axis=1)
        steps.append(first[crosses])
        old.append(at[crosses])
        new.append(following)
        where.append(live)
        current = current.copy()
        current[live] = following
    return (
        start.astype(np.int64),
        np.concatenate(steps),
        np.concatenate(old).astype(np.int64),
        np.concatenate(new).astype(np.int64),
        np.concatenate(where).astype(np.int64),
    )


def _units(candidates: HypothesisArrays) -> FloatArray:
    """Return the weight that makes each feature vary as much within utterances as the first pass.

    1 where one of the two does not vary.
    """
    there = candidates.there
    counts = there.sum(axis=1)

    def spread(values: FloatArray) -> float:
        kept = np.where(there, values, 0.0)
        means = kept.sum(axis=1) / counts
        return float(np.sqrt(np.where(there, (values - means[:, None]) ** 2, 0.0).sum()))

    base = spread(candidates.base)
    spreads = [spread(candidates.features[:, :, f]) for f in range(candidates.features.shape[2])]
    return np.array([base / s if base > 0 and s > 0 else 1.0 for s in spreads])


@dataclass(frozen=True, eq=False)
class Resamples:
    """How often each of U utterances counts in each of B resamples; the same for all systems.

    So differences between systems are paired (Bisani & Ney 2004, doi
    10.1109/ICASSP.2004.1326009).

    Attributes
    ----------
    counts
        Shape (B, U).
    n_groups
        Number of groups that were resampled.
    """

    counts: FloatArray
    n_groups: int

    @classmethod
    def draw(cls, groups: Sequence[str], n_draws: int, seed: int) -> Resamples:
        """Draw groups with replacement, as many as there are; an utterance goes with its group.

        Parameters
        ----------
        groups
            The group of each of U utterances.
        n_draws
            B.
        seed
            Seed of the draws.
        """
        names, group_of = np.unique(np.asarray(groups), return_inverse=True)
        rng = np.random.default_rng(seed)
        n = len(names)
        drawn = rng.multinomial(n, np.full(n, 1 / n), size=n_draws)
        return cls(drawn[:, group_of].astype(np.float64), n)

    def values(self, measure: TranscriptMeasure, statistics: FloatArray) -> FloatArray:
        """Return the corpus-level measure in each resample, (U, K) to (B,)."""
        return measure.value(self.counts @ statistics)

    def interval(self, samples: FloatArray) -> tuple[float, float]:
        """Return the ends of the 95 % percentile interval of B values, expanded for few groups.

        NaN with one group alone. See :func:`contstim.evaluation.inference.bootstrap.intervals`.
        """
        low, high = intervals(samples[:, None], self.n_groups)
        return float(low[0]), float(high[0])


#: Name of the length term among the weights: the number of words of a hypothesis.
LENGTH = "length"
_SYSTEMS = ("first pass", "rescored", "oracle")


@settings
class RescoringOptions:
    """What is tuned, and how intervals are found.

    Attributes
    ----------
    length
        Whether the number of words is given a weight too.
    n_bootstrap
        Resamples for the intervals.
    seed
        Seed of the resamples, and of the tuning's directions where there are several weights.
    """

    length: bool = option(False, "give the number of words a weight as well")
    n_bootstrap: Annotated[int, Field(ge=1, le=10**6)] = option(
        1000, "resamples for intervals", "N", name="bootstrap"
    )
    seed: Seed = 0


@displayed
@dataclass(frozen=True, eq=False)
class Rescoring:
    """What a rescoring gives.

    Attributes
    ----------
    measure
        What was tuned to and is reported.
    weights
        Weight of each score, by model spec, and of ``length``; the first pass's is 1.
    summary
        One row a part and system (``first pass``, ``rescored``, ``oracle``): `split`, `system`,
        the measure's name, `ci_low`, `ci_high`, `difference` (from the first pass) with its
        interval, `utterances`, `groups`. Intervals are given for the part ``test`` alone: on the
        other the weights were tuned.
    utterances
        One row an utterance: `id`, `split`, `group`, `reference`, the three systems' hypotheses,
        their ranks in the list (1 is the first pass's best) and the statistics of each.
    test
        For each system the statistics of the test utterances, shape (U, K).
    resamples
        The resamples of the test part, to compare further systems with.
    """

    measure: TranscriptMeasure
    weights: dict[str, float]
    summary: pd.DataFrame
    utterances: pd.DataFrame
    test: dict[str, FloatArray]
    resamples: Resamples

    def difference(self, other: Rescoring) -> tuple[float, float, float]:
        """Return this minus the other's test value, with its paired interval.

        Both must come from the same n-best lists, measure, seed and number of resamples.
        """
        ours, theirs = self.test["rescored"], other.test["rescored"]
        return _difference(self.measure, self.resamples, ours, theirs)

    def write(self, folder: str | Path) -> None:
        """Write ``summary.csv``, ``weights.csv`` and ``utterances.csv`` into `folder`.

        Raises
        ------
        OutputError
            If the place cannot be written to.
        """
        weights = pd.DataFrame(
            {"score": ["first pass", *self.weights], "weight": [1.0, *self.weights.values()]}
        )
        tables = {
            "utterances.csv": self.utterances,
            "weights.csv": weights,
            "summary.csv": self.summary,
        }
        for name, table in tables.items():
            write_whole(Path(folder) / name, table_text(table))


def rescore(
    nbest: NBest,
    scores: Mapping[str, Mapping[str, float]],
    measure: TranscriptMeasure,
    options: RescoringOptions | None = None,
) -> Rescoring:
    """Choose among hypotheses by a weighted sum of scores, with weights tuned on one part.

    Of each utterance that hypothesis h is chosen with the highest

        first pass's score(h) + sum over models m of weight(m) * score of m(h) + weight * length(h)

    (Salazar et al. 2020, section 3, whose lambda is the weight of their one model). Weights are
    tuned on the part ``dev`` alone (see :func:`tune`); the part
    ``test`` is looked at once they stand.

    Parameters
    ----------
    nbest
        The n-best lists.
    scores
        For each model, by the name that its weight is to have, the score of each distinct
        hypothesis, as :func:`contstim.rescoring.nbest.score_hypotheses` gives it.
    measure
        What is tuned to and reported.
    options
        Further choices.

    Raises
    ------
    InputError
        If there is nothing to tune, or a score is missing or not finite.
    """
    options = RescoringOptions() if options is None else options
    names = [*scores, *([LENGTH] if options.length else [])]
    if not names:
        raise InputError("there is nothing to tune; give a model, or ask for the length term")
    if LENGTH in scores:
        raise InputError(f"a model may not be called {LENGTH!r}; give its spec")
    parts = {split: _candidates(nbest.part(split), scores, measure, options) for split in SPLITS}
    weights = tune(parts["dev"], measure, options.seed)
    rows, tables, test = [], [], {}
    resamples = Resamples.draw(
        [u.group for u in nbest.part("test")], options.n_bootstrap, options.seed
    )
    for split in SPLITS:
        utterances, candidates = nbest.part(split), parts[split]
        chosen = _choices(candidates, weights, measure)
        statistics = {name: candidates.chosen(index) for name, index in chosen.items()}
        rows += _summary(split, utterances, statistics, measure, resamples)
        tables.append(_by_utterance(utterances, chosen, statistics, measure))
        if split == "test":
            test = statistics
    return Rescoring(
        measure,
        dict(zip(names, weights.tolist(), strict=True)),
        pd.DataFrame(rows),
        pd.concat(tables, ignore_index=True),
        test,
        resamples,
    )


def _candidates(
    utterances: Sequence[Utterance],
    scores: Mapping[str, Mapping[str, float]],
    measure: TranscriptMeasure,
    options: RescoringOptions,
) -> HypothesisArrays:
    n, most = len(utterances), max(len(u.texts) for u in utterances)
    base = np.zeros((n, most))
    features = np.zeros((n, most, len(scores) + options.length))
    there = np.zeros((n, most), dtype=np.bool_)
    statistics = np.zeros((n, most, len(measure.columns)))
    for i, utterance in enumerate(utterances):
        length = len(utterance.texts)
        there[i, :length] = True
        base[i, :length] = utterance.scores
        for f, (name, values) in enumerate(scores.items()):
            features[i, :length, f] = [_finite(values, text, name) for text in utterance.texts]
        if options.length:
            features[i, :length, -1] = [len(text.split()) for text in utterance.texts]
        statistics[i, :length] = measure.statistics(utterance.reference, utterance.texts)
    return HypothesisArrays(base, features, there, statistics)


def _finite(values: Mapping[str, float], text: str, name: str) -> float:
    value = values.get(text, np.nan)
    if not np.isfinite(value):
        raise InputError(f"{name} gives {text!r} the score {value}; weights need finite scores")
    return value


def _choices(
    candidates: HypothesisArrays, weights: FloatArray, measure: TranscriptMeasure
) -> dict[str, IntArray]:
    oracle = [
        measure.best(statistics[there])
        for statistics, there in zip(candidates.statistics, candidates.there, strict=True)
    ]
    return {
        "first pass": candidates.choose(np.zeros_like(weights)),
        "rescored": candidates.choose(weights),
        "oracle": np.array(oracle, dtype=np.int64),
    }


def _summary(
    split: str,
    utterances: Sequence[Utterance],
    statistics: Mapping[str, FloatArray],
    measure: TranscriptMeasure,
    resamples: Resamples,
) -> list[dict[str, Any]]:
    rows = []
    first = statistics[_SYSTEMS[0]]
    for system in _SYSTEMS:
        counts = statistics[system]
        value = float(measure.value(counts.sum(axis=0)[None])[0])
        row = {"split": split, "system": system, measure.name: value}
        if split == "test":
            row["ci_low"], row["ci_high"] = resamples.interval(resamples.values(measure, counts))
            difference = _difference(measure, resamples, counts, first)
            row["difference"], row["difference_low"], row["difference_high"] = difference
        else:
            row["difference"] = value - float(measure.value(first.sum(axis=0)[None])[0])
        row["utterances"] = len(utterances)
        row["groups"] = len({u.group for u in utterances})
        rows.append(row)
    columns = ["split", "system", measure.name, "ci_low", "ci_high", "difference"]
    columns += ["difference_low", "difference_high", "utterances", "groups"]
    return [{name: row.get(name, np.nan) for name in columns} for row in rows]


def _difference(
    measure: TranscriptMeasure, resamples: Resamples, ours: FloatArray, theirs: FloatArray
) -> tuple[float, float, float]:
    values = measure.value(np.stack([ours.sum(axis=0), theirs.sum(axis=0)]))
    samples = resamples.values(measure, ours) - resamples.values(measure, theirs)
    return (float(values[0] - values[1]), *resamples.interval(samples))


def _by_utterance(
    utterances: Sequence[Utterance],
    chosen: Mapping[str, IntArray],
    statistics: Mapping[str, FloatArray],
    measure: TranscriptMeasure,
) -> pd.DataFrame:
    ranks = [np.argsort(np.argsort(-np.array(u.scores), kind="stable")) + 1 for u in utterances]
    table = pd.DataFrame(
        {
            "id": [u.id for u in utterances],
            "split": [u.split for u in utterances],
            "group": [u.group for u in utterances],
            "reference": [u.reference for u in utterances],
            "hypotheses": [len(u.texts) for u in utterances],
        }
    )
    for system in _SYSTEMS:
        key = system.replace(" ", "_")
        index = chosen[system]
        table[key] = [u.texts[i] for u, i in zip(utterances, index, strict=True)]
        table[f"{key}_rank"] = [int(r[i]) for r, i in zip(ranks, index, strict=True)]
        for k, column in enumerate(measure.columns):
            table[f"{key}_{column}"] = statistics[system][:, k].astype(np.int64)
    return table
