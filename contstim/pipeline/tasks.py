"""The kinds of tasks, scores of some sentences and a synthesis, and the searches of model pairs.

Chance comes from the task itself, so the same task gives the same result in any order and wherever
it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import AfterValidator, Field

from contstim.errors import InputError
from contstim.files import digest_of
from contstim.models.base import SentenceModel
from contstim.models.devices import torch_threads
from contstim.pipeline.work import ModelRecord, RunStore, Task, Worker
from contstim.search.problem import Edits, check_natural
from contstim.search.search import Synthesis, reached_columns, synthesize
from contstim.search.strategies import DEFAULT, OPTION_OF, STRATEGIES, strategy, with_options
from contstim.search.sweeps import Step
from contstim.search.targets import (
    LOSSES,
    NAMED_TARGETS,
    Sides,
    common_failure,
    one_against_all,
    parse_floor,
    spread,
)
from contstim.search.triplets import Triplet, attempts, distinct_triplets
from contstim.settings import Count, Natural, Several, one_of, settings
from contstim.text.diversity import MOST_USE, WordLimit
from contstim.text.sentence import Sentence
from contstim.text.vocabulary import Vocabulary, bundled_vocabulary
from contstim.text.words import LIKENESSES, words_alike

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
) -> list[ScoreTask]:
    """Return the tasks that score sentences under each model, model by model."""
    return [
        ScoreTask(versions, model, tuple(sentences[first : first + BATCH]))
        for model in models
        for first in range(0, len(sentences), BATCH)
    ]


@dataclass(frozen=True, eq=False)
class SynthesisTask(Task):
    """One synthesis from one start sentence.

    Attributes
    ----------
    sides
        What is wanted, models by their canonical specs.
    records
        Those models, in the order of the sides'.
    vocabulary
        Digest of the words that may be written.
    strategy, options
        The word search, and its options that are given.
    seed, attempt
        Of the search.
    certificate
        Whether it is to be said how much there was to find.
    alike
        What a word and its replacement share.
    barred
        Words that the set has often enough, case-folded.
    limited
        Whether what the set has often enough decides on further searches.
    """

    kind: ClassVar[str] = "synthesize"
    sides: Sides
    records: tuple[ModelRecord, ...]
    sentence: str
    vocabulary: str
    strategy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    attempt: int = 0
    certificate: bool = False
    alike: str | None = None
    barred: tuple[str, ...] = ()
    limited: bool = False

    @property
    def models(self) -> Sequence[ModelRecord]:  # noqa: D102 - as Task
        return self.records

    @property
    def part(self) -> str:  # noqa: D102
        # Whether there is another attempt depends on both directions.
        return digest_of([self.group] if self.limited else [self.group, self.sentence])

    def is_done(self, store: RunStore) -> bool:  # noqa: D102
        return store.has(self.key)

    def do(self, worker: Worker) -> dict[str, Any]:  # noqa: D102
        problem = self.sides.problem(worker.load(self))
        proposal = worker.proposal(self, self.vocabulary, self.barred)
        if self.alike is not None:
            natural = Sentence.parse(self.sentence)
            words = words_alike(proposal.vocabulary, natural, self.alike)
            problem = replace(problem, edits=problem.edits.limited_to(words))
        # Without options it is named, and so the result names it.
        steering = strategy(self.strategy, **self.options) if self.options else self.strategy
        with torch_threads(worker.context.threads):
            result = synthesize(
                self.sentence,
                problem=problem,
                strategy=steering,
                seed=self.seed,
                attempt=self.attempt,
                proposal=proposal,
                certificate=self.certificate,
            )
        return asdict(result)

    def __str__(self) -> str:
        reject, accept = " and ".join(self.sides.reject), " and ".join(self.sides.accept)
        return f"synthesize from {self.sentence!r}, rejected by {reject}, accepted by {accept}"


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
    target
        ``pair``: triplets of every two models. ``one-against-all``: sentences that each model in
        turn is alone to reject, and to accept. ``split``: those that the models `reject` reject
        and the models `accept` accept. ``common-failure``: those that all models accept and
        `reference` rejects.
    reject, accept, reference
        Models, of the study or not.
    loss
        What counts of the falls of several rejecting models, each in standard deviations of its
        scores of the natural sentences: ``max``, the least fall; ``mean``.
    margin
        By how many nats accepting models' scores may fall.
    floors
        Scores that models keep, as `parse_floor` reads them.
    most_changes, fixed, changed, words_at
        What may change: at most so many words; positions that stay; positions that must change;
        by position, the words that may stand there. Positions count from 0.
    certificate
        Whether rows say how much there was to find (`Synthesis.reached`), of models of n-grams.
    alike
        What a word shares with the natural sentence's word that it replaces: ``class``, its word
        class; ``tag``, its Penn Treebank tag as well (`words_alike`). Words without tags stay.
    most_use
        In what share of a pair's sentences a word may be, at most (`WordLimit`); 1: in any.
    """

    strategy: Annotated[str, one_of(STRATEGIES)] = DEFAULT
    starts: Annotated[str, AfterValidator(_starts), one_of(STARTS)] = "partitioned"
    per_pair: Count | None = None
    per_sentence: Count = 1
    minimum_drop: Annotated[float, Field(ge=0)] = 0.0
    target: Annotated[str, one_of(NAMED_TARGETS)] = "pair"
    reject: Several[str] = ()
    accept: Several[str] = ()
    reference: str | None = None
    loss: Annotated[str, one_of(LOSSES)] = "max"
    margin: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    floors: Several[str] = ()
    most_changes: Count | None = None
    fixed: Several[Natural] = ()
    changed: Several[Natural] = ()
    words_at: dict[str, Several[str]] = field(default_factory=dict)
    certificate: bool = False
    alike: Annotated[str, one_of(LIKENESSES)] | None = None
    most_use: Annotated[float, Field(gt=0, le=1)] = MOST_USE

    def __post_init__(self) -> None:
        self._check_target()
        self.side(("rejecting",), ("accepting",))  # refuses bad floors and edits
        for option, value in self.of_strategy.items():
            if self.strategy not in OPTION_OF[option]:
                owners = " or ".join(map(repr, OPTION_OF[option]))
                raise InputError(
                    f"synthesis.{option} is {value!r}, but the strategy is {self.strategy!r}; "
                    f"only {owners} has this option"
                )

    def _check_target(self) -> None:
        if bool(self.reject or self.accept) != (self.target == "split"):
            raise InputError(
                f"reject and accept go with the target 'split', and the target is {self.target!r}; "
                "give both with it, and neither with another"
            )
        if (self.reference is not None) != (self.target == "common-failure"):
            raise InputError(
                "reference, the model outside the set that is to reject, goes with the target "
                f"'common-failure', and the target is {self.target!r}; give it with that one alone"
            )
        if self.target != "pair" and (self.per_sentence != 1 or self.minimum_drop != 0):
            raise InputError(
                "per_sentence and minimum_drop are for triplets, and the target is "
                f"{self.target!r}; leave them out"
            )
        if self.target == "split":
            self.side(self.reject, self.accept)

    def side(self, reject: Sequence[str], accept: Sequence[str]) -> Sides:
        """Return what is wanted of some models, by their specs as given."""
        words = []
        for position, listed in self.words_at.items():
            if not (position.isascii() and position.isdigit()):
                raise InputError(f"words_at has the position {position!r}; give whole numbers")
            words.append((int(position), tuple(listed)))
        return Sides(
            tuple(reject),
            tuple(accept),
            self.margin,
            tuple(map(parse_floor, self.floors)),
            Edits(self.most_changes, self.fixed, self.changed, tuple(words)),
            self.loss,
        )

    def sides(self, models: Sequence[str]) -> list[Sides]:
        """Return what is wanted of compared models, by their specs; none for triplets."""
        wanted: dict[str, Callable[[], list[tuple[tuple[str, ...], tuple[str, ...]]]]] = {
            "pair": list,
            "one-against-all": lambda: one_against_all(models),
            "split": lambda: [(self.reject, self.accept)],
            "common-failure": lambda: [common_failure(models, self.reference or "")],
        }
        return [self.side(reject, accept) for reject, accept in wanted[self.target]()]

    @property
    def further(self) -> tuple[str, ...]:
        """The specs of models that the options name."""
        own = self.side(self.reject or ("rejecting",), self.accept or ("accepting",))
        named = (*self.reject, *self.accept, *(floor.model for floor in own.floors))
        return tuple(dict.fromkeys(named + ((self.reference,) if self.reference else ())))

    @property
    def of_strategy(self) -> dict[str, Any]:
        """The strategy's options that are given."""
        options = {option: getattr(self, option) for option in OPTION_OF}
        return {option: value for option, value in options.items() if value is not None}


@dataclass(frozen=True)
class OneWay:
    """A sentence that one model rejects and one accepts; log-probabilities in nats.

    `others` are further columns: where it was asked for, what part of the possible was reached.
    """

    reject: str
    accept: str
    natural: str
    synthetic: str
    natural_lp_reject: float
    synthetic_lp_reject: float
    natural_lp_accept: float
    synthetic_lp_accept: float
    n_replaced: int
    n_scores_reject: int
    n_scores_accept: int
    finished: bool
    others: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, result: Synthesis) -> OneWay:
        """Return the row of a synthesis."""
        n_rejecting, n_accepting = result.n_scores
        return cls(
            result.reject,
            result.accept,
            result.natural,
            result.sentence,
            result.natural_reject_log_prob,
            result.reject_log_prob,
            result.natural_accept_log_prob,
            result.accept_log_prob,
            len(result.steps),
            n_rejecting,
            n_accepting,
            result.finished,
            reached_columns({"reached": result}),
        )

    def row(self) -> dict[str, str | float | int]:
        """Return the table row, columns in order."""
        values = asdict(self)
        others = values.pop("others")
        return {**values, **dict(others)}


@dataclass(frozen=True)
class Written:
    """A sentence written for sets of models.

    Attributes
    ----------
    reject, accept
        The specs of R and of A, with spaces between.
    natural, synthetic
        The sentences.
    loss
        Of `synthetic`: nats for one rejecting model, standard deviations for several.
    n_replaced, finished
        As of `Synthesis`.
    others
        Further columns: both sentences' scores by every model of the problem; where it was asked
        for, what part of the possible was reached.
    """

    reject: str
    accept: str
    natural: str
    synthetic: str
    loss: float
    n_replaced: int
    finished: bool
    others: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, sides: Sides, result: Synthesis) -> Written:
        """Return the row of a synthesis, models in alphabetical order."""
        scores = sorted(zip(result.models, result.natural_scores, result.scores, strict=True))
        return cls(
            " ".join(sides.reject),
            " ".join(sides.accept),
            result.natural,
            result.sentence,
            result.loss,
            len(result.steps),
            result.finished,
            tuple(
                (f"{which}_lp {model}", score)
                for model, *both in scores
                for which, score in zip(("natural", "synthetic"), both, strict=True)
            )
            + reached_columns({"reached": result}),
        )

    def row(self) -> dict[str, str | float | int]:
        """Return the table row, columns in order."""
        values = asdict(self)
        others = values.pop("others")
        return {**values, **dict(others)}


#: One row of what was written.
Row = Triplet | OneWay | Written

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
    starts: Mapping[tuple[str, str] | Sides, Sequence[str]]
    scales: Mapping[str, float] = field(default_factory=dict)
    words: Vocabulary | None = None
    _found: dict[Any, tuple[list[SynthesisTask], list[Row]]] = field(
        default_factory=dict, init=False, repr=False
    )
    _settled: dict[Any, Barred] = field(default_factory=dict, init=False, repr=False)

    @property
    def pieces(self) -> list[tuple[tuple[str, str] | Sides, str]]:
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
            constraints = sides.constraints
            for sentence in own:
                natural = {spec: scores[spec][sentence] for spec in sides.models}
                check_natural(sentence, constraints, natural)
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

    def sides_of(self, wanted: tuple[str, str] | Sides) -> list[Sides]:
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

    def of_piece(
        self, wanted: tuple[str, str] | Sides, sentence: str, store: RunStore
    ) -> list[Row] | None:
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

    def _barred(self, wanted: tuple[str, str] | Sides, store: RunStore) -> Barred:
        """Return which words may not be written, by sentence, as far as is known (`WordLimit`)."""
        if wanted in self._settled:
            return self._settled[wanted]
        options, own = self.options, list(dict.fromkeys(self.starts[wanted]))
        known = Barred()
        if options.most_use == 1:
            known = self._settled[wanted] = dict.fromkeys(own, ())
            return known
        each = (1 if isinstance(wanted, Sides) else 2) * options.per_sentence
        limit = WordLimit(own, each, options.most_use, self.words or bundled_vocabulary())
        failed = False
        while (step := limit.next())[0]:
            barred = tuple(sorted(step[1]))
            known.update((own[number], barred) for number in step[0])
            written = []
            for number in step[0]:
                rows = self._done(wanted, own[number], store, barred)
                if rows is None:
                    tasks, rows = self._look(wanted, own[number], store, barred)
                    if not any(store.error(t) for t in tasks if not t.is_done(store)):
                        return known
                    failed = True  # others go on without it
                written.append([text for row in rows for text in texts_of(row)])
            limit.take(written)
        if not failed:
            self._settled[wanted] = known
        return known

    def _done(
        self,
        wanted: tuple[str, str] | Sides,
        sentence: str,
        store: RunStore,
        barred: tuple[str, ...],
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
        self,
        wanted: tuple[str, str] | Sides,
        sentence: str,
        store: RunStore,
        barred: tuple[str, ...],
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
            return tasks, [Written.of(tasks[0].sides, result) for result in done]
        both = ((first, second) for first, second in finished())
        rows = distinct_triplets(both, options.per_sentence, options.minimum_drop)
        return tasks, list(rows)


def texts_of(row: Row) -> tuple[str, ...]:
    """Return the sentences of a row that were written."""
    return row.written if isinstance(row, Triplet) else (row.synthetic,)


def starts_of(
    sentences: Sequence[str],
    pairs: Sequence[tuple[str, str] | Sides],
    names: Mapping[str, str],
    options: SynthesisOptions,
    seed: int,
) -> dict[tuple[str, str] | Sides, list[str]]:
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
