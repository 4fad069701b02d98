"""Benchmarks of words: what a model says of each word, given the words before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd

from contstim.arrays import FloatArray
from contstim.benchmarks import ScoredBenchmark
from contstim.benchmarks.estimates import clustered_correlation
from contstim.benchmarks.pairs import ParadigmBenchmark
from contstim.benchmarks.syntaxgym import Suite
from contstim.errors import InputError


def words_by_sentence(scores: pd.DataFrame) -> dict[str, dict[str, FloatArray]]:
    """Return by model and sentence the log-probabilities of its W words, each (W,), in nats.

    Parameters
    ----------
    scores
        `sentence`, `model`, `position`, `log_prob`, as ``contstim score --by word`` writes it.
    """
    ordered = scores.sort_values("position", kind="stable")
    return {
        str(model): {
            str(sentence): values.to_numpy(dtype=float)
            for sentence, values in rows.groupby("sentence", sort=False)["log_prob"]
        }
        for model, rows in ordered.groupby("model", sort=False)
    }


@dataclass(frozen=True, eq=False, kw_only=True)
class SuiteBenchmark(ParadigmBenchmark):
    """Suites of predictions about the surprisal of regions; an item is right if all of them hold.

    Attributes
    ----------
    suites
        From `read_suites`.
    circuits
        From suites' names to what they are of, an analysis of its own.

    Source
    ------
    Hu et al. (2020), doi 10.18653/v1/2020.acl-main.158: the score is the mean accuracy of suites.

    Examples
    --------
    >>> regions = {"easy": [(1, ["He", "ran."])], "odd": [(1, ["He", "running."])]}
    >>> suite = Suite("runs", ("(1;%easy%) < (1;%odd%)",), tuple((1, *r) for r in regions.items()))
    >>> benchmark = SuiteBenchmark(
    ...     name="mine/suites",
    ...     title="One suite",
    ...     source="Nobody (2026)",
    ...     suites=(suite,),
    ...     circuits={"runs": "verbs"},
    ... )
    >>> benchmark.sentences
    ['He ran.', 'He running.']
    """

    by: ClassVar[str] = "word"
    suites: tuple[Suite, ...]
    circuits: Mapping[str, str]

    @property
    def kinds(self) -> pd.Series:  # noqa: D102 - as ParadigmBenchmark
        return pd.Series({suite.name: self.circuits[suite.name] for suite in self.suites})

    @property
    def sentences(self) -> list[str]:  # noqa: D102 - as Benchmark
        return list(dict.fromkeys(text for suite in self.suites for text in suite.sentences))

    def of_scores(self, scores: pd.DataFrame) -> Mapping[str, pd.Series]:
        """Return each model's share of right items by suite."""
        accuracies = {}
        for model, words in words_by_sentence(scores).items():
            tables = [suite.correct(partial(_scores_of, words=words)) for suite in self.suites]
            by_item = pd.concat(tables).groupby(["suite", "item"], sort=False)["correct"].all()
            accuracies[model] = by_item.groupby("suite", sort=False).mean()
        return accuracies


@dataclass(frozen=True, eq=False, kw_only=True)
class WordBenchmark(ScoredBenchmark):
    """Words within sentences, and how well people foresee them from the words before.

    The value is the correlation over words of a model's log-probability with what people say.

    Attributes
    ----------
    words
        A row per word: `sentence`, `position` (from 0), and a column for each of `measures`.
    measures
        From the name of each measure to its column of `words`, which rises with predictability.
    labels
        What figures and sentences call the measures.
    surprisals
        Of published models, a column for each, index as of `words`.

    Notes
    -----
    Intervals sample sentences, see `clustered_correlation`.

    Examples
    --------
    >>> words = pd.DataFrame({"sentence": "He ate it.", "position": [1, 2], "rating": [3.0, 4.0]})
    >>> benchmark = WordBenchmark(
    ...     name="mine/words",
    ...     title="Two words",
    ...     source="Nobody (2026)",
    ...     words=words,
    ...     measures={"rating": "rating"},
    ...     labels={"rating": "correlation with ratings"},
    ...     headline=("all", "rating"),
    ... )
    >>> table = words.assign(model="m", log_prob=[-7.0, -2.0])
    >>> table.loc[2] = ["He ate it.", 0, None, "m", -3.0]
    >>> benchmark.judge(table).results["value"].tolist()
    [1.0]
    """

    by: ClassVar[str] = "word"
    words: pd.DataFrame
    measures: Mapping[str, str]
    labels: Mapping[str, str]
    surprisals: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def sentences(self) -> list[str]:  # noqa: D102 - as Benchmark
        return [str(sentence) for sentence in pd.unique(self.words["sentence"])]

    @property
    def published(self) -> Mapping[str, pd.Series]:  # noqa: D102 - as ScoredBenchmark
        return {str(model): -self.surprisals[model] for model in self.surprisals}

    def label(self, measure: str) -> str:  # noqa: D102
        return self.labels[measure]

    def of_scores(self, scores: pd.DataFrame) -> Mapping[str, pd.Series]:
        """Return each model's log-probabilities of the words."""
        texts = self.words["sentence"].astype(str).tolist()
        places = self.words["position"].tolist()
        values = {}
        for model, words in words_by_sentence(scores).items():
            of_rows = zip(_scores_of(texts, words), places, strict=True)
            values[model] = pd.Series([row[place] for row, place in of_rows], self.words.index)
        return values

    def rows(self, values: pd.Series) -> Iterator[Mapping[str, object]]:  # noqa: D102
        sentence = pd.factorize(self.words["sentence"])[0]
        score = values.to_numpy(dtype=float)
        for measure, column in self.measures.items():
            people = self.words[column].to_numpy(dtype=float)
            there = np.isfinite(score) & ~np.isnan(people)
            clusters = np.unique(sentence[there], return_inverse=True)[1]
            value, low, high = clustered_correlation(people[there], score[there], clusters)
            numbers = {"value": value, "ci_low": low, "ci_high": high, "n_items": int(there.sum())}
            yield {"analysis": "all", "measure": measure, **numbers}


def _scores_of(texts: list[str], words: Mapping[str, FloatArray]) -> list[FloatArray]:
    for text in texts:
        if text not in words:
            raise InputError(f"the words of {text!r} have no scores; score all of the benchmark's")
    return [words[text] for text in texts]
