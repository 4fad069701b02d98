"""Running benchmarks: what it costs, scores that are kept as they come, judgements, one folder.

Sentences are scored in batches that depend on the sentences alone, shortest first, and each batch
is on the disk before the next is begun: a run that was killed goes on, and gives the same numbers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from contstim.arrays import FloatArray
from contstim.benchmarks import RESULTS, Benchmark, Judgement
from contstim.errors import InputError
from contstim.models.base import SentenceModel, Totals
from contstim.models.cache import ScoreCache, describe_model, model_identity, versions
from contstim.progress import track
from contstim.tables import SCORES, SPEC, UNIT

#: Sentences that are scored and kept together.
SCORED_TOGETHER = 256
# Batches that are scored, and kept, to see how long the others take: of short, middling and long
# sentences.
_TRIED = (1 / 6, 1 / 2, 5 / 6)


@dataclass(frozen=True)
class ScoringCost:
    """What it takes to score the sentences of benchmarks under a model.

    Attributes
    ----------
    model
        Its name.
    n_sentences, n_left
        How many different sentences there are, and how many of them have no score yet.
    n_tokens
        About how many scored units, `units`, the latter have; None if all have scores.
    seconds
        About how long that takes on this machine; None likewise.
    """

    model: str
    n_sentences: int
    n_left: int
    n_tokens: float | None = None
    seconds: float | None = None
    units: str = "tokens"

    def __str__(self) -> str:
        if self.n_tokens is None or self.seconds is None:
            return f"{self.model}: all {self.n_sentences:,} sentences have scores"
        left = "" if self.n_left == self.n_sentences else f"{self.n_left:,} of "
        minutes = self.seconds / 60
        length = f"{minutes / 60:.1f} hours" if minutes > 90 else f"{minutes:.1f} minutes"
        return (
            f"{self.model}: {left}{self.n_sentences:,} sentences to score, about "
            f"{self.n_tokens:,.0f} {self.units}, about {length}"
        )


class Scoring:
    """The scores of the sentences of several benchmarks under one model.

    Parameters
    ----------
    model
        The model.
    benchmarks
        What is to be run; those that ask for scores of sentences.
    cache
        Where scores are kept.
    """

    by, units = "sentence", "tokens"

    def __init__(
        self, model: SentenceModel, benchmarks: Sequence[Benchmark], cache: str | Path
    ) -> None:
        self.model = model
        asking = [benchmark for benchmark in benchmarks if benchmark.by == self.by]
        distinct = dict.fromkeys(s for benchmark in asking for s in benchmark.sentences)
        ordered = sorted(distinct, key=lambda sentence: (len(sentence), sentence))
        self._batches = [
            ordered[i : i + SCORED_TOGETHER] for i in range(0, len(ordered), SCORED_TOGETHER)
        ]
        self._n_sentences = len(ordered)
        self._cache = Path(cache)
        self._identity = model_identity(model)

    def _kept(self) -> Mapping[str, object]:
        """Return what is kept, by sentence."""
        return ScoreCache(self._cache).read(self._identity)

    def _left(self) -> list[list[str]]:
        """Return of each batch the sentences that have no score, those batches that have some."""
        scores = self._kept()
        left = ([s for s in batch if s not in scores] for batch in self._batches)
        return [batch for batch in left if batch]

    def _score(self, batch: Sequence[str]) -> int:
        """Score and keep a batch, and return how many units that were."""
        totals = self.model.totals(batch)
        ScoreCache(self._cache).add(self._identity, batch, totals)
        return int(totals.n_tokens.sum())

    def cost(self) -> ScoringCost:
        """Return what the scores take; a few batches are scored, and kept, to see that.

        Raises
        ------
        InputError
            If the model cannot score a sentence.
        OutputError
            If scores cannot be kept.
        """
        left = self._left()
        n_left = sum(map(len, left))
        if not left:
            return ScoringCost(self.model.name, self._n_sentences, 0)
        self.model.totals(left[0][:1])  # what is only done once
        tried = [left[i] for i in sorted({int(share * len(left)) for share in _TRIED})]
        started = time.monotonic()
        n_tokens = sum(self._score(batch) for batch in tried)
        per_batch = (time.monotonic() - started) / len(tried)
        tokens = n_left * n_tokens / sum(map(len, tried))
        return ScoringCost(
            self.model.name, self._n_sentences, n_left, tokens, per_batch * len(left), self.units
        )

    def run(self) -> None:
        """Score what has no score yet.

        Raises
        ------
        InputError
            If the model cannot score a sentence.
        OutputError
            If scores cannot be kept.
        """
        left = self._left()
        done = len(self._batches) - len(left)
        for batch in track(left, len(self._batches), f"scoring, {self.model.name}", done):
            self._score(batch)

    def table(self, sentences: Sequence[str]) -> pd.DataFrame:
        """Return the scores of sentences, which `run` made, in the columns of `contstim score`."""
        row_of = ScoreCache(self._cache).read(self._identity)
        totals = Totals.of_rows(row_of[sentence] for sentence in sentences)
        counts = totals.n_tokens, totals.n_words, totals.stderr
        unit, model = self.model.kind.unit, self.model
        columns = (list(sentences), model.name, totals.score, *counts, unit, model.spec)
        return pd.DataFrame(dict(zip((*SCORES, UNIT, SPEC), columns, strict=True)))


class WordScoring(Scoring):
    """The scores of the words of the sentences, for benchmarks that ask for these.

    Raises
    ------
    InputError
        If the model does not say how probable a word is after the words before it.
    """

    by, units = "word", "words"

    def __init__(
        self, model: SentenceModel, benchmarks: Sequence[Benchmark], cache: str | Path
    ) -> None:
        super().__init__(model, benchmarks, cache)
        event = model.event
        additive = model.kind.splits_over_words and event.reduction == "sum"
        if self._batches and not (additive and event.metric == "chain"):
            name = next(benchmark.name for benchmark in benchmarks if benchmark.by == self.by)
            raise InputError(
                f"{name} asks how probable each word is after those before it, which "
                f"{model.name!r} does not say; name a causal model, such as contstim:gpt"
            )

    def _kept(self) -> Mapping[str, FloatArray]:
        return ScoreCache(self._cache).read_words(self._identity)

    def _score(self, batch: Sequence[str]) -> int:
        parts = self.model.score_words(batch)
        ScoreCache(self._cache).add_words(self._identity, batch, parts)
        return sum(map(len, parts))

    def table(self, sentences: Sequence[str]) -> pd.DataFrame:  # noqa: D102 - as Scoring, by word
        words, split = self._kept(), self.model.language.split
        rows = [
            (sentence, self.model.name, position, word, value)
            for sentence in sentences
            for position, (word, value) in enumerate(
                zip(split(sentence), words[sentence].tolist(), strict=True)
            )
        ]
        return pd.DataFrame(rows, columns=["sentence", "model", "position", "word", "log_prob"])


def scorings(
    models: Sequence[SentenceModel], benchmarks: Sequence[Benchmark], cache: str | Path
) -> list[Scoring]:
    """Return what has to be scored under models, as far as benchmarks ask for it.

    Raises
    ------
    InputError
        As `WordScoring`.
    """
    asked = {benchmark.by for benchmark in benchmarks}
    kinds = [kind for kind in (Scoring, WordScoring) if kind.by in asked]
    return [kind(model, benchmarks, cache) for model in models for kind in kinds]


@dataclass(frozen=True, eq=False)
class BenchmarkRun:
    """Benchmarks that were run.

    Attributes
    ----------
    benchmarks, judgements, scores
        By their names, the benchmarks, how models do, and the scores of the models that were scored
        now (None without any).
    models
        What each of these models is, see `describe_model`.
    versions
        Of contstim, Python and the libraries.
    """

    benchmarks: Mapping[str, Benchmark]
    judgements: Mapping[str, Judgement]
    scores: Mapping[str, pd.DataFrame | None]
    models: Sequence[Mapping[str, object]]
    versions: Mapping[str, str]

    @property
    def results(self) -> pd.DataFrame:
        """All results, in the columns of `RESULTS`."""
        tables = [judgement.results for judgement in self.judgements.values()]
        return pd.concat(tables, ignore_index=True)[list(RESULTS)]

    @property
    def headlines(self) -> pd.DataFrame:
        """The results by which models are compared across benchmarks, the best first in each."""
        rows = []
        for name, judgement in self.judgements.items():
            analysis, measure = self.benchmarks[name].headline
            table = judgement.results
            chosen = table[(table["analysis"] == analysis) & (table["measure"] == measure)]
            rows.append(chosen.sort_values("value", ascending=False, kind="stable"))
        return pd.concat(rows, ignore_index=True)


def run_benchmarks(
    benchmarks: Sequence[Benchmark], models: Sequence[SentenceModel], cache: str | Path
) -> BenchmarkRun:
    """Score the sentences of benchmarks under models, and judge them beside the published ones.

    Parameters
    ----------
    benchmarks
        Of different names.
    models
        Any number, none too.
    cache
        Where scores are kept: what is there is not scored again, and a run that was interrupted
        goes on from it.

    Raises
    ------
    InputError
        If a model cannot score a sentence, or is called as a published one; or two benchmarks have
        one name.
    OutputError
        If scores cannot be kept.

    Examples
    --------
    >>> import contstim
    >>> from contstim.benchmarks.datasets import fetch
    >>> model = contstim.load_model("contstim:gpt")
    >>> benchmark = fetch("golan2023").benchmark()  # doctest: +SKIP
    >>> run = run_benchmarks([benchmark], [model], "scores")  # doctest: +SKIP
    >>> run.headlines[["model", "value", "share"]]  # doctest: +SKIP
    """
    by_name = {benchmark.name: benchmark for benchmark in benchmarks}
    if len(by_name) < len(benchmarks):
        raise InputError("a benchmark is named twice; name each once")
    for benchmark in benchmarks:
        benchmark.refuse_names(model.name for model in models)  # before anything is scored
    every = scorings(models, benchmarks, cache)
    for scoring in every:
        scoring.run()
    scores: dict[str, pd.DataFrame | None] = {}
    judgements = {}
    for name, benchmark in by_name.items():
        sentences = benchmark.sentences
        tables = [scoring.table(sentences) for scoring in every if scoring.by == benchmark.by]
        scores[name] = pd.concat(tables, ignore_index=True) if tables else None
        judgements[name] = benchmark.judge(scores[name])
    described = [describe_model(model) for model in models]
    return BenchmarkRun(by_name, judgements, scores, described, versions("pandas"))
