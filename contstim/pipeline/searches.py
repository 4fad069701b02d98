"""The searches of model pairs and sets: the tasks they come to, and the rows that come of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from contstim.errors import InputError
from contstim.files import digest_of
from contstim.pipeline.options import SynthesisOptions, Wanted
from contstim.pipeline.tasks import SynthesisTask, synthesis_from
from contstim.pipeline.work import ModelRecord, RunStore, Task
from contstim.search.problem import check_natural
from contstim.search.results import (
    OneWay,
    Row,
    Synthesis,
    Triplet,
    Written,
    attempts,
    distinct_triplets,
)
from contstim.search.targets import Sides, spread
from contstim.text import Sentence
from contstim.text.diversity import WordLimit
from contstim.text.vocabulary import Vocabulary, bundled_vocabulary

#: By sentence whose searches are known to be needed, words that may not be written.
Barred = dict[str, tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Searches:
    """Searches that are to be made, and the rows that come of them.

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
        For each pair of specs, whose triplets are wanted, or for what is wanted of sets the
        sentences to start from, in the order of the work.
    scales
        By spec as given, what falls of several rejecting models are divided by.
    words
        The words that may be written; None: the bundled ones.
    """

    models: Mapping[str, ModelRecord]
    versions: Mapping[str, str]
    vocabulary: str
    options: SynthesisOptions
    seed: int
    starts: Mapping[Wanted, Sequence[str]]
    scales: Mapping[str, float] = field(default_factory=dict)
    words: Vocabulary | None = None
    _found: dict[Any, tuple[list[SynthesisTask], list[Row]]] = field(
        default_factory=dict, init=False, repr=False
    )
    _settled: dict[Any, Barred] = field(default_factory=dict, init=False, repr=False)

    @property
    def pieces(self) -> list[tuple[Wanted, str]]:
        """Each pair or set, and sentence, in the order of the work."""
        return [(wanted, sentence) for wanted, own in self.starts.items() for sentence in own]

    @property
    def number(self) -> int:
        """How many searches there are at least, if each finds what is wanted at once."""
        ways = (len(self.sides_of(wanted)) * len(own) for wanted, own in self.starts.items())
        return self.options.per_sentence * sum(ways)

    def prepared(self, scores: Mapping[str, Mapping[str, float]]) -> Searches:
        """Return the searches with scales; refuse natural sentences that cannot do.

        Parameters
        ----------
        scores
            By spec as given, the model's scores of natural sentences, the starts among them.

        Raises
        ------
        InfeasibleError
            If a natural sentence breaks a constraint itself.
        """
        every = [
            (sides, own) for wanted, own in self.starts.items() for sides in self.sides_of(wanted)
        ]
        several = {spec for sides, _ in every if len(sides.reject) > 1 for spec in sides.reject}
        scales = {spec: spread(spec, list(scores[spec].values())) for spec in sorted(several)}
        for sides, own in every:
            for sentence in own:
                natural = {spec: scores[spec][sentence] for spec in sides.models}
                check_natural(sentence, sides.constraints, natural)
        return replace(self, scales=scales)

    def named(self, sides: Sides) -> Sides:
        """Return what is wanted with its models' canonical specs, and with scales."""
        scales = tuple(self.scales[spec] for spec in sides.reject if len(sides.reject) > 1)
        names = {spec: self.models[spec].name for spec in sides.models}
        return replace(sides.named(names), scales=scales)

    def task(
        self, sides: Sides, sentence: str, attempt: int = 0, barred: tuple[str, ...] = ()
    ) -> SynthesisTask:
        """Return the task of one search."""
        return SynthesisTask(
            self.versions,
            self.named(sides),
            tuple(self.models[spec] for spec in sides.models),
            sentence,
            self.vocabulary,
            self.options.strategy,
            self.options.of_strategy,
            self.seed,
            attempt,
            self.options.certificate,
            self.options.alike,
            barred,
            self.options.most_use < 1,
        )

    def sides_of(self, wanted: Wanted) -> list[Sides]:
        """Return one search's sides each; of a pair what model 1 accepts, then what model 2 does.

        Sides that are wanted stand for themselves.
        """
        if isinstance(wanted, Sides):
            return [wanted]
        one, two = wanted
        return [self.options.side((two,), (one,)), self.options.side((one,), (two,))]

    def tasks(self, store: RunStore) -> list[Task]:
        """Return the tasks, in order, as far as they are known from the finished ones."""
        return [
            task
            for wanted in self.starts
            for sentence, barred in self._barred(wanted, store).items()
            for task in self._look(wanted, sentence, store, barred)[0]
        ]

    def of_piece(self, wanted: Wanted, sentence: str, store: RunStore) -> list[Row] | None:
        """Return the rows of one pair or set and sentence; None as long as they may change."""
        if wanted not in self._settled and self.options.most_use < 1:
            return None  # it becomes known when `tasks` is asked
        return self._done(wanted, sentence, store, self._barred(wanted, store)[sentence])

    def rows(self, store: RunStore) -> Iterator[Row]:
        """Yield the rows that there are, in the order of the work."""
        for wanted, own in self.starts.items():
            barred = self._barred(wanted, store)
            for sentence in own:
                if sentence in barred:
                    yield from self._look(wanted, sentence, store, barred[sentence])[1]

    def triplets(self, store: RunStore) -> Iterator[Triplet]:
        """Yield the triplets that there are, in the order of the work."""
        return (row for row in self.rows(store) if isinstance(row, Triplet))

    def _barred(self, wanted: Wanted, store: RunStore) -> Barred:
        """Return which words may not be written, by sentence, as far as is known (`WordLimit`)."""
        if wanted in self._settled:
            return self._settled[wanted]
        options, natural = self.options, list(dict.fromkeys(self.starts[wanted]))
        barred_by_sentence = Barred()
        if options.most_use == 1:
            barred_by_sentence = self._settled[wanted] = dict.fromkeys(natural, ())
            return barred_by_sentence
        each = (1 if isinstance(wanted, Sides) else 2) * options.per_sentence
        limit = WordLimit(natural, each, options.most_use, self.words or bundled_vocabulary())
        failed = False
        while (step := limit.next())[0]:
            barred = tuple(sorted(step[1]))
            barred_by_sentence.update((natural[number], barred) for number in step[0])
            written = []
            for number in step[0]:
                rows = self._done(wanted, natural[number], store, barred)
                if rows is None:
                    tasks, rows = self._look(wanted, natural[number], store, barred)
                    if not any(store.error(t) for t in tasks if not t.is_done(store)):
                        return barred_by_sentence
                    failed = True  # others go on without it
                written.append([text for row in rows for text in row.written])
            limit.take(written)
        if not failed:
            self._settled[wanted] = barred_by_sentence
        return barred_by_sentence

    def _done(
        self, wanted: Wanted, sentence: str, store: RunStore, barred: tuple[str, ...]
    ) -> list[Row] | None:
        """Return a piece's rows; None as long as a search is missing."""
        key = wanted, sentence, barred
        if key not in self._found:
            tasks, rows = self._look(wanted, sentence, store, barred)
            if not all(task.is_done(store) for task in tasks):
                return None
            self._found[key] = tasks, rows
        return self._found[key][1]

    def _look(
        self, wanted: Wanted, sentence: str, store: RunStore, barred: tuple[str, ...]
    ) -> tuple[list[SynthesisTask], list[Row]]:
        """Return a piece's tasks as far as they are known, and its rows."""
        if (found := self._found.get((wanted, sentence, barred))) is not None:
            return found
        options, tasks = self.options, list[SynthesisTask]()

        def finished() -> Iterator[list[Synthesis]]:
            for attempt in range(attempts(options.per_sentence)):
                several = [
                    self.task(sides, sentence, attempt, barred) for sides in self.sides_of(wanted)
                ]
                tasks.extend(several)
                if not all(task.is_done(store) for task in several):
                    return
                yield [synthesis_from(store.result(task.key)) for task in several]

        if isinstance(wanted, Sides):
            done = [result for (result,) in finished()]
            # What two models alone are wanted for has columns by their parts.
            if len(wanted.models) == 2 and len(wanted.reject) == 1 and len(wanted.accept) == 1:
                return tasks, [OneWay.of(result) for result in done]
            return tasks, [
                Written.of(tasks[0].sides.reject, tasks[0].sides.accept, result) for result in done
            ]
        both = ((first, second) for first, second in finished())
        rows = distinct_triplets(both, options.per_sentence, options.minimum_drop)
        return tasks, list(rows)


def starts_of(
    sentences: Sequence[str],
    pairs: Sequence[Wanted],
    names: Mapping[str, str],
    options: SynthesisOptions,
    seed: int,
) -> dict[Wanted, list[str]]:
    """Return the start sentences of each model pair or set, in the order of the work.

    Parameters
    ----------
    sentences
        The natural sentences.
    pairs
        Specs of two models each, as given, or what is wanted of sets.
    names
        The canonical spec of each.
    options, seed
        ``starts``, ``per_pair`` and the seed.

    Raises
    ------
    InputError
        If a sentence has only one word, or lacks a position that edits speak of.

    Notes
    -----
    Source: Golan et al. (2023) shuffled the natural sentences and shared them out to the 36 model
    pairs in turn, about 170 each. Departure: another random generator.
    """
    edits = options.side(("rejecting",), ("accepting",)).edits
    for sentence in sentences:
        if len(sentence.split()) < 2:
            raise InputError(
                f"a sentence to start from needs at least two words, got {sentence!r}; leave it out"
            )
        edits.check(Sentence.parse(sentence))
    order = np.random.default_rng(seed).permutation(len(sentences))
    starts = {}
    for number, pair in enumerate(pairs):
        if options.starts == "all":
            of_pair = list(sentences)
        elif options.starts == "partitioned":
            of_pair = [sentences[i] for i in order[number :: len(pairs)]]
        else:
            specs = (*pair.reject, *pair.accept) if isinstance(pair, Sides) else pair
            digest = int(digest_of([names[spec] for spec in specs]), 16)
            rng = np.random.default_rng([seed, digest])
            of_pair = [sentences[i] for i in rng.permutation(len(sentences))]
        starts[pair] = of_pair[: options.per_pair]
    return starts
