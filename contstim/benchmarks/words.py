"""Benchmarks of words: the log-probability of each word after the words before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd

from contstim.arrays import FloatArray
from contstim.benchmarks.benchmark import Benchmark
from contstim.benchmarks.estimates import clustered_correlation, result_row
from contstim.benchmarks.pairs import ParadigmBenchmark
from contstim.benchmarks.syntaxgym import Suite
from contstim.errors import InputError


def _word_log_probs_by_model(scores: pd.DataFrame) -> dict[str, dict[str, FloatArray]]:
    """Group a table of word log-probabilities by model and sentence.

    Parameters
    ----------
    scores
        Table with one row per word, with the columns of ``contstim score --per word``.

    Returns
    -------
    dict
        For each model, a dictionary from each sentence of W words to the log-probabilities of its
        words in their order, shape (W,).
    """
    ordered = scores.sort_values("position", kind="stable")
    log_probs_by_model: dict[str, dict[str, FloatArray]] = {}
    for (model, sentence), rows in ordered.groupby(["model", "sentence"], sort=False):
        log_probs_by_sentence = log_probs_by_model.setdefault(str(model), {})
        log_probs_by_sentence[str(sentence)] = rows["log_prob"].to_numpy(dtype=float)
    return log_probs_by_model


def _look_up_log_probs(
    sentences: list[str], log_probs_by_sentence: Mapping[str, FloatArray]
) -> list[FloatArray]:
    """Return the word log-probabilities of each sentence.

    Parameters
    ----------
    sentences
        S sentences.
    log_probs_by_sentence
        Log-probabilities of the words of each sentence, shape (W,), by sentence.

    Returns
    -------
    list of arrays
        Log-probabilities in nats, one array per sentence.

    Raises
    ------
    InputError
        If a sentence is missing from `log_probs_by_sentence`.
    """
    for sentence in sentences:
        if sentence not in log_probs_by_sentence:
            raise InputError(f"the words of {sentence!r} have no scores; score all sentences")
    return [log_probs_by_sentence[sentence] for sentence in sentences]


@dataclass(frozen=True, eq=False, kw_only=True)
class SuiteBenchmark(ParadigmBenchmark):
    """SyntaxGym test suites: an item is right if all predictions of its suite are true.

    Attributes
    ----------
    suites
        Suites of items with predictions about the surprisal of words; see `Suite`.
    circuits
        Mapping from the name of each suite to its circuit, a group of suites that test related
        phenomena, such as agreement.

    Source
    ------
    Hu et al. (2020), doi 10.18653/v1/2020.acl-main.158: the score is the mean accuracy of suites.

    Examples
    --------
    The formula predicts that region 1 has a lower surprisal in condition "easy" than in "odd".

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

    scored_unit: ClassVar[str] = "word"
    suites: tuple[Suite, ...]
    circuits: Mapping[str, str]

    @property
    def phenomena(self) -> pd.Series:  # noqa: D102 - as ParadigmBenchmark
        return pd.Series({suite.name: self.circuits[suite.name] for suite in self.suites})

    @property
    def sentences(self) -> list[str]:  # noqa: D102 - as Benchmark
        return list(dict.fromkeys(text for suite in self.suites for text in suite.sentences))

    def extract_values(self, scores: pd.DataFrame) -> Mapping[str, pd.Series]:
        """Return each model's accuracy by suite."""
        accuracies = {}
        for model, log_probs in _word_log_probs_by_model(scores).items():
            score_words = partial(_look_up_log_probs, log_probs_by_sentence=log_probs)
            tables = [suite.evaluate(score_words) for suite in self.suites]
            # An item is right if all predictions of its suite are true. The accuracy of a suite is
            # the proportion of items that are right.
            is_right = pd.concat(tables).groupby(["suite", "item"], sort=False)["correct"].all()
            accuracies[model] = is_right.groupby("suite", sort=False).mean()
        return accuracies


@dataclass(frozen=True, eq=False, kw_only=True)
class WordBenchmark(Benchmark):
    """Correlation of word log-probabilities with human measures that increase with predictability.

    Confidence intervals treat the sentences as a random sample; words of the same sentence may be
    dependent.

    Attributes
    ----------
    words
        Table with one row per word: `sentence`, `position` (from 0), and the columns `measures`.
    measures
        Columns of `words` with human measures, for example cloze probabilities.
    log_probs
        Log-probabilities published with the data, one column per model, indexed as `words`.

    Examples
    --------
    >>> words = pd.DataFrame({"sentence": "He ate it.", "position": [1, 2], "rating": [3.0, 4.0]})
    >>> benchmark = WordBenchmark(
    ...     name="mine/words",
    ...     title="Two words",
    ...     source="Nobody (2026)",
    ...     words=words,
    ...     measures=("rating",),
    ...     primary_measure=("all", "rating"),
    ... )
    >>> table = words.assign(model="m", log_prob=[-7.0, -2.0])
    >>> table.loc[2] = ["He ate it.", 0, None, "m", -3.0]
    >>> benchmark.evaluate(table).results["value"].tolist()
    [1.0]
    """

    scored_unit: ClassVar[str] = "word"
    words: pd.DataFrame
    measures: tuple[str, ...]
    log_probs: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def sentences(self) -> list[str]:  # noqa: D102 - as Benchmark
        return [str(sentence) for sentence in pd.unique(self.words["sentence"])]

    @property
    def published_values(self) -> Mapping[str, pd.Series]:  # noqa: D102
        return {str(model): self.log_probs[model] for model in self.log_probs}

    def extract_values(self, scores: pd.DataFrame) -> Mapping[str, pd.Series]:
        """Return the log-probability of each word of the benchmark under each model.

        The result maps the name of a model to a Series with one element per row of `self.words`.
        """
        sentences = self.words["sentence"].astype(str).tolist()
        positions = self.words["position"].tolist()
        # Each row of the table describes one word, identified by its sentence and its position.
        values = {}
        for model, log_probs_by_sentence in _word_log_probs_by_model(scores).items():
            sentence_log_probs = _look_up_log_probs(sentences, log_probs_by_sentence)
            log_probs = [
                word_log_probs[position]
                for word_log_probs, position in zip(sentence_log_probs, positions, strict=True)
            ]
            values[model] = pd.Series(log_probs, self.words.index)
        return values

    def estimate(self, values: pd.Series) -> Iterator[Mapping[str, object]]:  # noqa: D102
        sentence = pd.factorize(self.words["sentence"])[0]
        log_probs = values.to_numpy(dtype=float)
        for measure in self.measures:
            # Human measures, such as cloze probabilities, increase with the predictability of a
            # word.
            human = self.words[measure].to_numpy(dtype=float)
            has_both = np.isfinite(log_probs) & ~np.isnan(human)
            # Words of one sentence may be dependent: sentences are clusters, numbered from 0.
            clusters = np.unique(sentence[has_both], return_inverse=True)[1]
            correlation = clustered_correlation(human[has_both], log_probs[has_both], clusters)
            yield result_row("all", measure, correlation, int(has_both.sum()))
