"""Rescoring: tune on the development part, choose and measure on the test part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError
from contstim.evaluation.bootstrap import intervals
from contstim.files import write_whole
from contstim.rescoring.measures import Measure
from contstim.rescoring.nbest import SPLITS, NBest, Utterance
from contstim.rescoring.tuning import HypothesisArrays, tune


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

    def values(self, measure: Measure, statistics: FloatArray) -> FloatArray:
        """Return the corpus-level measure in each resample, (U, K) to (B,)."""
        return measure.value(self.counts @ statistics)

    def interval(self, samples: FloatArray) -> tuple[float, float]:
        """Return the ends of the 95 % percentile interval of B values, expanded for few groups.

        NaN with one group alone. See :func:`contstim.evaluation.bootstrap.intervals`.
        """
        low, high = intervals(samples[:, None], self.n_groups)
        return float(low[0]), float(high[0])


#: Name of the length term among the weights: the number of words of a hypothesis.
LENGTH = "length"
_SYSTEMS = ("first pass", "rescored", "oracle")


@dataclass(frozen=True)
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

    length: bool = False
    n_bootstrap: int = 1000
    seed: int = 0


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

    measure: Measure
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
            write_whole(Path(folder) / name, table.to_csv(index=False, lineterminator="\n"))


def rescore(
    nbest: NBest,
    scores: Mapping[str, Mapping[str, float]],
    measure: Measure,
    options: RescoringOptions | None = None,
) -> Rescoring:
    """Choose among hypotheses by a weighted sum of scores, with weights tuned on one part.

    Of each utterance that hypothesis h is chosen with the highest

        first pass's score(h) + sum over models m of weight(m) * score of m(h) + weight * length(h)

    (Salazar et al. 2020, section 3, whose lambda is the weight of their one model). Weights are
    tuned on the part ``dev`` alone (see :func:`contstim.rescoring.tuning.tune`); the part
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
        raise InputError(f"a model may not go by the name {LENGTH!r}; give its spec")
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
    measure: Measure,
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
    candidates: HypothesisArrays, weights: FloatArray, measure: Measure
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
    measure: Measure,
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
    measure: Measure, resamples: Resamples, ours: FloatArray, theirs: FloatArray
) -> tuple[float, float, float]:
    values = measure.value(np.stack([ours.sum(axis=0), theirs.sum(axis=0)]))
    samples = resamples.values(measure, ours) - resamples.values(measure, theirs)
    return (float(values[0] - values[1]), *resamples.interval(samples))


def _by_utterance(
    utterances: Sequence[Utterance],
    chosen: Mapping[str, IntArray],
    statistics: Mapping[str, FloatArray],
    measure: Measure,
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
