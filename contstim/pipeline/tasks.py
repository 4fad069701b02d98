"""The kinds of tasks, scores of some sentences and a synthesis, and the searches of model pairs.

Chance comes from the task itself, so the same task gives the same result in any order and wherever
it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import AfterValidator, Field

from contstim.errors import InputError
from contstim.files import digest_of
from contstim.models.base import SentenceModel
from contstim.models.devices import torch_threads
from contstim.pipeline.work import ModelRecord, RunStore, Task, Worker
from contstim.search.search import Synthesis, synthesize
from contstim.search.strategies import DEFAULT, OPTION_OF, STRATEGIES, strategy, with_options
from contstim.search.sweeps import Step
from contstim.search.triplets import Triplet, attempts, distinct_triplets
from contstim.settings import Count, one_of, settings

__all__ = [
    "STARTS",
    "ScoreTask",
    "Searches",
    "SynthesisOptions",
    "SynthesisTask",
    "score_tasks",
    "starts_of",
    "synthesis_from",
]

#: Sentences that one task scores, and that are committed together.
BATCH = 256

#: How natural sentences come to the model pairs: each to one pair, or all to all.
STARTS = ("partitioned", "shared", "all")


@dataclass(frozen=True, eq=False)
class ScoreTask(Task):
    """Scores of some sentences under one model, for the score cache."""

    kind: ClassVar[str] = "score"
    model: ModelRecord
    sentences: tuple[str, ...]

    @property
    def models(self) -> Sequence[ModelRecord]:  # noqa: D102 - as Task
        return (self.model,)

    @property
    def identity(self) -> dict[str, Any]:
        """What the scores depend on: their key in the score cache."""
        return {"model": dict(self.model.description), "versions": dict(self.versions)}

    def is_done(self, store: RunStore) -> bool:  # noqa: D102
        scores = store.scores.read(self.identity)
        return all(sentence in scores for sentence in self.sentences)

    def do(self, worker: Worker) -> None:
        """Score the batch; where a sentence cannot be scored, keep the others and say which."""
        scores = worker.store.scores.read(self.identity)
        missing = [sentence for sentence in self.sentences if sentence not in scores]
        if not missing:
            return
        (model,) = worker.load(self)
        with torch_threads(worker.context.threads):
            refused = self._keep(worker, model, missing)
        if refused:
            raise InputError(
                f"{len(refused)} of {len(self.sentences)} sentences have no score: {refused[0]}"
            )

    def _keep(self, worker: Worker, model: SentenceModel, sentences: Sequence[str]) -> list[str]:
        """Score sentences and keep the scores; return the errors of those that have none."""
        try:
            worker.store.scores.add(self.identity, sentences, model.totals(sentences))
        except InputError as error:
            if len(sentences) == 1:
                return [f"{sentences[0]!r}: {error}"]
            return [line for one in sentences for line in self._keep(worker, model, [one])]
        return []

    def __str__(self) -> str:
        return (
            f"score {len(self.sentences)} sentences from {self.sentences[0]!r} on under "
            f"{self.model.name}"
        )


def score_tasks(
    models: Sequence[ModelRecord], sentences: Sequence[str], versions: Mapping[str, str]
) -> list[Task]:
    """Return the tasks that score sentences under each model, model by model."""
    return [
        ScoreTask(versions, model, tuple(sentences[first : first + BATCH]))
        for model in models
        for first in range(0, len(sentences), BATCH)
    ]


@dataclass(frozen=True, eq=False)
class SynthesisTask(Task):
    """One synthesis: two models, one way round, one start sentence.

    Attributes
    ----------
    vocabulary
        Digest of the words that may be written.
    strategy, options
        The word search, and its options that are given.
    seed, attempt
        Of the search.
    """

    kind: ClassVar[str] = "synthesize"
    reject: ModelRecord
    accept: ModelRecord
    sentence: str
    vocabulary: str
    strategy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    attempt: int = 0

    @property
    def models(self) -> Sequence[ModelRecord]:  # noqa: D102 - as Task
        return self.reject, self.accept

    @property
    def part(self) -> str:  # noqa: D102
        # Whether there is another attempt depends on both directions.
        return digest_of([self.group, self.sentence])

    def is_done(self, store: RunStore) -> bool:  # noqa: D102
        return store.has(self.key)

    def do(self, worker: Worker) -> dict[str, Any]:  # noqa: D102
        reject, accept = worker.load(self)
        proposal = worker.proposal(self, self.vocabulary)
        # Without options it is named, and so the result names it.
        steering = strategy(self.strategy, **self.options) if self.options else self.strategy
        with torch_threads(worker.context.threads):
            result = synthesize(
                self.sentence,
                reject=reject,
                accept=accept,
                strategy=steering,
                seed=self.seed,
                attempt=self.attempt,
                proposal=proposal,
            )
        return asdict(result)

    def __str__(self) -> str:
        return (
            f"synthesize from {self.sentence!r}, rejected by {self.reject.name}, accepted by "
            f"{self.accept.name}"
        )


def synthesis_from(record: Mapping[str, Any]) -> Synthesis:
    """Return the synthesis whose JSON form is the result of a `SynthesisTask`."""
    values = {**_tuples(record), "steps": tuple(Step(**_tuples(s)) for s in record["steps"])}
    return Synthesis(**values)


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values, JSON lists as tuples again."""
    return {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}


def _starts(value: str) -> str:
    return "partitioned" if value == "dealt" else value  # its name in plans written before


@settings
@with_options
class SynthesisOptions:
    """``[synthesis]``: how sentences are written.

    Attributes
    ----------
    strategy
        The word search. The options that strategies declare are fields as well, None where not
        given.
    starts
        ``partitioned``: the sentences are shuffled by the study's seed and shared out to the model
        pairs in turn, so that each starts one pair's triplets (as published); ``dealt`` means the
        same. ``shared``: every pair may start from every sentence, in an order of its own.
        ``all``: every pair starts from every sentence, in the order given.
    per_pair
        At most so many start sentences a pair; by default all of its own.
    per_sentence
        At most so many different triplets from one start sentence.
    minimum_drop
        Only triplets in which each rejecting model's log-probability falls by so many nats.
    """

    strategy: Annotated[str, one_of(STRATEGIES)] = DEFAULT
    starts: Annotated[str, AfterValidator(_starts), one_of(STARTS)] = "partitioned"
    per_pair: Count | None = None
    per_sentence: Count = 1
    minimum_drop: Annotated[float, Field(ge=0)] = 0.0

    def __post_init__(self) -> None:
        for option, value in self.of_strategy.items():
            if self.strategy not in OPTION_OF[option]:
                owners = " or ".join(map(repr, OPTION_OF[option]))
                raise InputError(
                    f"synthesis.{option} is {value!r}, but the strategy is {self.strategy!r}; "
                    f"only {owners} has this option"
                )

    @property
    def of_strategy(self) -> dict[str, Any]:
        """The strategy's options that are given."""
        options = {option: getattr(self, option) for option in OPTION_OF}
        return {option: value for option, value in options.items() if value is not None}


@dataclass(frozen=True, eq=False)
class Searches:
    """Searches that are to be made, and the triplets that come of them.

    Attributes
    ----------
    models
        For each spec as given, its model.
    versions
        Of the packages that numbers depend on.
    vocabulary
        The digest of the words that may be written.
    options, seed
        How it is searched.
    starts
        For each pair of specs the sentences to start from, in the order of the work.
    """

    models: Mapping[str, ModelRecord]
    versions: Mapping[str, str]
    vocabulary: str
    options: SynthesisOptions
    seed: int
    starts: Mapping[tuple[str, str], Sequence[str]]

    @property
    def pieces(self) -> list[tuple[tuple[str, str], str]]:
        """Each pair and sentence, pair by pair."""
        return [
            (pair, sentence) for pair, sentences in self.starts.items() for sentence in sentences
        ]

    def task(self, reject: str, accept: str, sentence: str, attempt: int = 0) -> SynthesisTask:
        """Return the task of one search."""
        return SynthesisTask(
            self.versions,
            self.models[reject],
            self.models[accept],
            sentence,
            self.vocabulary,
            self.options.strategy,
            self.options.of_strategy,
            self.seed,
            attempt,
        )

    def both_ways(self, pair: tuple[str, str], sentence: str, attempt: int) -> list[SynthesisTask]:
        """Return the searches for a triplet: what model 1 accepts, then what model 2 does."""
        one, two = pair
        return [
            self.task(two, one, sentence, attempt),
            self.task(one, two, sentence, attempt),
        ]

    def tasks(self, store: RunStore) -> list[Task]:
        """Return the tasks, pair by pair, as far as they are known from the finished ones."""
        if self.options.per_sentence == 1:
            return [task for piece in self.pieces for task in self.both_ways(*piece, 0)]
        return [task for piece in self.pieces for task in self._look(*piece, store)[0]]

    def of_piece(
        self, pair: tuple[str, str], sentence: str, store: RunStore
    ) -> list[Triplet] | None:
        """Return the triplets of one pair and sentence, or None as long as a search is missing."""
        tasks, rows = self._look(pair, sentence, store)
        return rows if all(task.is_done(store) for task in tasks) else None

    def triplets(self, store: RunStore) -> Iterator[Triplet]:
        """Yield the triplets that there are, in the order of the work."""
        for piece in self.pieces:
            yield from self._look(*piece, store)[1]

    def _look(
        self, pair: tuple[str, str], sentence: str, store: RunStore
    ) -> tuple[list[SynthesisTask], list[Triplet]]:
        """Return a piece's tasks as far as they are known, and its triplets."""
        tasks: list[SynthesisTask] = []

        def finished() -> Iterator[tuple[Synthesis, Synthesis]]:
            for attempt in range(attempts(self.options.per_sentence)):
                both = self.both_ways(pair, sentence, attempt)
                tasks.extend(both)
                if not all(task.is_done(store) for task in both):
                    return
                first, second = (synthesis_from(store.result(task.key)) for task in both)
                yield first, second

        options = self.options
        rows = distinct_triplets(finished(), options.per_sentence, options.minimum_drop)
        return tasks, rows


def starts_of(
    sentences: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    names: Mapping[str, str],
    options: SynthesisOptions,
    seed: int,
) -> dict[tuple[str, str], list[str]]:
    """Return the start sentences of each model pair, in the order of the work.

    Parameters
    ----------
    sentences
        The natural sentences.
    pairs
        Specs of two models each, as given.
    names
        The canonical spec of each.
    options, seed
        ``starts``, ``per_pair`` and the seed.

    Raises
    ------
    InputError
        If a sentence has only one word.

    Notes
    -----
    Source: Golan et al. (2023) shuffled the natural sentences and shared them out to the 36 model
    pairs in turn, about 170 each. Departure: another random generator.
    """
    for sentence in sentences:
        if len(sentence.split()) < 2:
            raise InputError(
                f"a sentence to start from needs at least two words, got {sentence!r}; leave it out"
            )
    order = np.random.default_rng(seed).permutation(len(sentences))
    starts = {}
    for number, (one, two) in enumerate(pairs):
        if options.starts == "all":
            of_pair = list(sentences)
        elif options.starts == "partitioned":
            of_pair = [sentences[i] for i in order[number :: len(pairs)]]
        else:
            digest = int(digest_of([names[one], names[two]]), 16)
            rng = np.random.default_rng([seed, digest])
            of_pair = [sentences[i] for i in rng.permutation(len(sentences))]
        starts[one, two] = of_pair[: options.per_pair]
    return starts
