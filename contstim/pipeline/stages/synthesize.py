"""The stage that writes synthetic sentences, and the searches that it and the command run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field

from contstim.errors import InputError
from contstim.files import digest_of
from contstim.pipeline.stage import Run, Stage, StageOptions
from contstim.pipeline.tables import csv_text
from contstim.pipeline.tasks import SynthesisTask, synthesis_from
from contstim.pipeline.work import ModelRecord, RunStore, Task
from contstim.search.search import Synthesis
from contstim.search.strategies import DEFAULT, OPTION_OF, STRATEGIES, with_options
from contstim.search.triplets import Triplet, attempts, distinct_triplets
from contstim.settings import Count, one_of, settings
from contstim.tables import TRIPLETS

__all__ = ["STARTS", "SYNTHESIZE", "Searches", "SynthesisOptions", "searches_of", "starts_of"]

#: How natural sentences come to the model pairs: each to one pair, or all to all.
STARTS = ("partitioned", "shared", "all")


def _starts(value: str) -> str:
    return "partitioned" if value == "dealt" else value  # its name in plans written before


@settings
@with_options
class SynthesisOptions(StageOptions):
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
        return [(pair, sentence) for pair, own in self.starts.items() for sentence in own]

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
            own = list(sentences)
        elif options.starts == "partitioned":
            own = [sentences[i] for i in order[number :: len(pairs)]]
        else:
            digest = int(digest_of([names[one], names[two]]), 16)
            rng = np.random.default_rng([seed, digest])
            own = [sentences[i] for i in rng.permutation(len(sentences))]
        starts[one, two] = own[: options.per_pair]
    return starts


def searches_of(run: Run) -> Searches:
    """Return the searches of a run's pairs."""
    options = run.plan.table(SynthesisOptions)
    names = {given: model.name for given, model in run.models.items()}
    seed = run.plan.study.seed
    starts = starts_of(run.sentences, run.plan.pairs(), names, options, seed)
    return Searches(run.models, run.versions, run.vocabulary_digest, options, seed, starts)


class _Synthesize(Stage):
    name = "synthesize"
    file = "synthesized.csv"
    key = "synthesis"
    options = SynthesisOptions

    def tasks(self, run: Run) -> list[Task]:
        return searches_of(run).tasks(run.store)

    def inputs(self, run: Run) -> Any:
        return [task.key for task in self.tasks(run) if task.is_done(run.store)]

    def make(self, run: Run) -> tuple[str, dict[str, Any]]:
        tasks = self.tasks(run)
        rows = list(searches_of(run).triplets(run.store))
        several = run.plan.table(SynthesisOptions).per_sentence > 1
        columns = (*TRIPLETS, "repeat") if several else TRIPLETS
        notes = {
            "tasks": len(tasks),
            "missing": len(run.store.left(tasks)),
            "triplets": len(rows),
            "opposed": sum(row.opposed for row in rows),
        }
        return csv_text(columns, ([row.row()[name] for name in columns] for row in rows)), notes


SYNTHESIZE = _Synthesize()
