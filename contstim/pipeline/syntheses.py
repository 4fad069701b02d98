"""The syntheses of a run: their tasks and the rows of their table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from contstim.files import json_digest
from contstim.pipeline.options import Goal, SynthesisOptions
from contstim.pipeline.stages import Run
from contstim.pipeline.tasks import ScoreTask, SynthesisTask, score_tasks, synthesis_from
from contstim.pipeline.work import Task
from contstim.synthesis import format_strategy
from contstim.synthesis.problem import (
    ModelContrast,
    require_feasible_start,
    require_two_words,
    standard_deviation,
)
from contstim.synthesis.results import (
    ContrastRow,
    Row,
    Synthesis,
    Triplet,
    distinct_triplets,
    max_attempts,
    spec_columns,
)
from contstim.tables import TRIPLETS
from contstim.text import Sentence, pool
from contstim.text.diversity import WordShareLimit
from contstim.text.language import Language
from contstim.text.languages import ENGLISH

if TYPE_CHECKING:
    import pandas as pd

#: By sentence whose syntheses are known to be needed, words that may not be written.
Barred = dict[str, tuple[str, ...]]

# Minimum number of natural sentences for the scales of several rejecting models; otherwise so many
# bundled ones are added.
_SCALED = 30


@dataclass(eq=False)
class Syntheses:
    """The syntheses of a run and the rows of their table.

    Attributes
    ----------
    run
        The run.
    starts
        For each goal the sentences to start from, in the order of the work.
    """

    run: Run
    starts: Mapping[Goal, Sequence[str]] = field(init=False)
    _scales: dict[str, float] | None = field(default=None, init=False)
    _rows: dict[Any, tuple[list[SynthesisTask], Sequence[Row]]] = field(
        default_factory=dict, init=False
    )
    _settled: dict[Goal, Barred] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        run, options = self.run, self.options
        names = {given: model.name for given, model in run.every.items()}
        goals = options.goals(run.plan.models)
        self.starts = starts_of(
            run.sentences, goals, names, options, run.plan.study.seed, run.language
        )

    @property
    def specs(self) -> dict[str, str]:
        """The canonical specs of the models, by what tables call them."""
        return {model.name: model.spec for model in self.run.every.values()}

    @property
    def options(self) -> SynthesisOptions:
        """How it is written."""
        return self.run.plan.table(SynthesisOptions)

    @property
    def pieces(self) -> list[tuple[Goal, str]]:
        """Each goal and sentence, in the order of the work."""
        return [(goal, sentence) for goal, starts in self.starts.items() for sentence in starts]

    @property
    def number(self) -> int:
        """How many syntheses there are at least, if each finds what is wanted at once."""
        return self.options.per_sentence * sum(len(goal) for goal, _ in self.pieces)

    @property
    def by_scores(self) -> bool:
        """Whether the syntheses depend on scores of the natural sentences."""
        return bool(self.options.bounds or self._several)

    def scoring(self) -> list[ScoreTask]:
        """Return the tasks that score the natural sentences under the models that work on them.

        Rejecting models that are several score all of them, and bundled ones where those are few.
        """
        by_model: dict[str, dict[str, None]] = {
            spec: dict.fromkeys(self._compared if spec in self._several else ())
            for spec in self.run.every
        }
        for goal, starts in self.starts.items():
            for contrast in self.options.contrasts(goal):
                for spec in contrast.names:
                    by_model[spec].update(dict.fromkeys(starts))
        return [
            task
            for spec, sentences in by_model.items()
            for task in score_tasks([self.run.every[spec]], list(sentences), self.run.versions)
        ]

    @cached_property
    def _several(self) -> set[str]:
        """The models that are to reject with others."""
        sides = (sides for goal in self.starts for sides in goal)
        return {spec for reject, _ in sides if len(reject) > 1 for spec in reject}

    @cached_property
    def _compared(self) -> list[str]:
        """The natural sentences for scales, with bundled ones if they are few."""
        natural = self.run.sentences
        few = len(natural) < _SCALED and self.run.language is ENGLISH
        more = pool()[:_SCALED] if few else []
        return list(dict.fromkeys([*natural, *more]))

    def check_starts(self) -> None:
        """Take in the natural sentences' scores, leaving out sentences that have none.

        Raises
        ------
        InfeasibleError
            If the search starts from the natural sentences and one violates a constraint.
        """
        if self._scales is not None:
            return
        scores = {
            spec: {s: row.score for s, row in self.run.scores(spec).items()}
            for spec in self.run.every
        }
        self._scales = {
            spec: standard_deviation(
                spec, [scores[spec][s] for s in self._compared if s in scores[spec]]
            )
            for spec in sorted(self._several)
        }
        usable, at_natural = {}, self.options.parsed_strategy.starts_at_natural
        for goal, starts in self.starts.items():
            every = self.options.contrasts(goal)
            specs = dict.fromkeys(spec for contrast in every for spec in contrast.names)
            usable[goal] = [s for s in starts if all(s in scores[spec] for spec in specs)]
            for sentence in usable[goal]:
                natural = {spec: scores[spec][sentence] for spec in specs}
                for contrast in every if at_natural else ():
                    parsed = Sentence.parse(sentence, self.run.language)
                    require_feasible_start(parsed, contrast.constraints, natural)
        self.starts = usable

    def named(self, contrast: ModelContrast) -> ModelContrast:
        """Return a contrast with its models' canonical specs, and with scales."""
        reject = contrast.reject
        scales = tuple((self._scales or {})[spec] for spec in reject if len(reject) > 1)
        names = {spec: self.run.every[spec].name for spec in contrast.names}
        return replace(contrast.rename_models(names), scales=scales)

    def later(self) -> float:
        """Return the seconds of one worker that tasks will take of which none is known yet."""
        return 0.0

    def notes(self) -> dict[str, Any]:
        """Return what is to be noted of the syntheses besides their rows."""
        return {}

    def task(
        self, contrast: ModelContrast, sentence: str, attempt: int = 0, barred: tuple[str, ...] = ()
    ) -> SynthesisTask:
        """Return the task of one synthesis."""
        options = self.options
        others = options.parsed_strategy.models
        return SynthesisTask(
            self.run.versions,
            self.named(contrast),
            tuple(self.run.every[spec] for spec in dict.fromkeys((*contrast.names, *others))),
            sentence,
            self.run.vocabulary_digest,
            format_strategy(options.parsed_strategy),
            self.run.plan.study.seed,
            attempt,
            barred,
            options.max_word_share < 1,
            options.package,
        )

    def tasks(self) -> list[Task]:
        """Return the tasks, in order, as far as they are known from the finished ones."""
        return [
            task
            for goal in self.starts
            for sentence, barred in self._barred(goal).items()
            for task in self._look(goal, sentence, barred)[0]
        ]

    def of_piece(self, goal: Goal, sentence: str) -> Sequence[Row] | None:
        """Return the rows of one goal and sentence; None as long as they may change."""
        if goal not in self._settled and self.options.max_word_share < 1:
            return None  # it becomes known when `tasks` is asked
        return self._done(goal, sentence, self._barred(goal)[sentence])

    def rows(self) -> Iterator[Row]:
        """Yield the rows that there are, in the order of the work."""
        for goal, starts in self.starts.items():
            barred = self._barred(goal)
            for sentence in starts:
                if sentence in barred:
                    yield from self._look(goal, sentence, barred[sentence])[1]

    def triplets(self) -> pd.DataFrame:
        """Return the triplets that there are, in the order of the work."""
        import pandas as pd  # writing sentences alone does without

        rows = [row for row in self.rows() if isinstance(row, Triplet)]
        table = pd.DataFrame([row.row() for row in rows], columns=list(TRIPLETS))
        named = pd.DataFrame([spec_columns(row, self.specs) for row in rows], table.index)
        return table.join(named)

    def _barred(self, goal: Goal) -> Barred:
        """Return the words excluded by `WordShareLimit`, by sentence, as far as known."""
        if goal in self._settled:
            return self._settled[goal]
        options, store = self.options, self.run.store
        natural = list(dict.fromkeys(self.starts[goal]))
        barred_by_sentence = Barred()
        if options.max_word_share == 1:
            barred_by_sentence = self._settled[goal] = dict.fromkeys(natural, ())
            return barred_by_sentence
        each = len(goal) * options.per_sentence
        limit = WordShareLimit(natural, each, options.max_word_share, self.run.vocabulary)
        failed = False
        while (step := limit.next_batch())[0]:
            barred = tuple(sorted(step[1]))
            barred_by_sentence.update((natural[number], barred) for number in step[0])
            written = []
            for number in step[0]:
                rows = self._done(goal, natural[number], barred)
                if rows is None:
                    tasks, rows = self._look(goal, natural[number], barred)
                    if not any(store.error(t) for t in tasks if not t.is_done(store)):
                        return barred_by_sentence
                    failed = True  # others go on without it
                written.append([text for row in rows for text in row.synthetic_sentences])
            limit.accept(written)
        if not failed:
            self._settled[goal] = barred_by_sentence
        return barred_by_sentence

    def _done(self, goal: Goal, sentence: str, barred: tuple[str, ...]) -> Sequence[Row] | None:
        """Return a piece's rows; None as long as a synthesis is missing."""
        key = goal, sentence, barred
        if key not in self._rows:
            tasks, rows = self._look(goal, sentence, barred)
            if not all(task.is_done(self.run.store) for task in tasks):
                return None
            self._rows[key] = tasks, rows
        return self._rows[key][1]

    def _look(
        self, goal: Goal, sentence: str, barred: tuple[str, ...]
    ) -> tuple[list[SynthesisTask], Sequence[Row]]:
        """Return a piece's tasks as far as they are known, and its rows."""
        if (done := self._rows.get((goal, sentence, barred))) is not None:
            return done
        options, store, tasks = self.options, self.run.store, list[SynthesisTask]()
        every = options.contrasts(goal)

        def finished() -> Iterator[Sequence[Synthesis]]:
            for attempt in range(max_attempts(options.per_sentence)):
                both = [self.task(contrast, sentence, attempt, barred) for contrast in every]
                tasks.extend(both)
                if not all(task.is_done(store) for task in both):
                    return
                yield [synthesis_from(store.result(task.key)) for task in both]

        return tasks, self.rows_of(goal, finished())

    def rows_of(self, goal: Goal, results: Iterable[Sequence[Synthesis]]) -> Sequence[Row]:
        """Return the rows of one natural sentence, without sentences that do not lower the loss.

        Parameters
        ----------
        goal
            The contrasts.
        results
            For each attempt one synthesis per contrast; no more attempts are made than needed.
        """
        options = self.options
        if options.makes_triplets:
            both = ((first, second) for first, second in results)
            return distinct_triplets(both, options.per_sentence, options.minimum_drop)
        named = map(self.named, options.contrasts(goal))
        return [
            ContrastRow.from_synthesis(contrast.reject, contrast.accept, result)
            for contrast, result in zip(named, next(iter(results), ()), strict=False)
            if result.is_improved
        ]


def starts_of(
    sentences: Sequence[str],
    goals: Sequence[Goal],
    names: Mapping[str, str],
    options: SynthesisOptions,
    seed: int,
    language: Language = ENGLISH,
) -> dict[Goal, list[str]]:
    """Return the start sentences of each goal, in the order of the work.

    Parameters
    ----------
    sentences
        The natural sentences.
    goals
        What is wanted, models by their specs as given.
    names
        The canonical spec of each.
    options, seed, language
        ``starts``, ``per_pair`` and the seed; what the sentences are of.

    Raises
    ------
    InputError
        If a sentence has only one word, or lacks a position that edits speak of.

    Notes
    -----
    Source: Golan et al. (2023) shuffled the natural sentences and shared them out to the 36 model
    pairs in turn, about 170 each. Departure: another random generator.
    """
    edits = options.parsed_edits
    for sentence in sentences:
        require_two_words(sentence, language)
        edits.check(Sentence.parse(sentence, language))
    order = np.random.default_rng(seed).permutation(len(sentences))
    starts = {}
    for number, goal in enumerate(goals):
        if options.starts == "all":
            of_goal = list(sentences)
        elif options.starts == "partitioned":
            of_goal = [sentences[i] for i in order[number :: len(goals)]]
        else:
            # Model 1 of a pair rejects in the second contrast.
            specs = dict.fromkeys(s for sides in goal[::-1] for side in sides for s in side)
            rng = np.random.default_rng(
                [seed, int(json_digest([names[spec] for spec in specs]), 16)]
            )
            of_goal = [sentences[i] for i in rng.permutation(len(sentences))]
        starts[goal] = of_goal[: options.per_pair]
    return starts
