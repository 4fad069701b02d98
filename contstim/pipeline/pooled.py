"""Syntheses that share what is written: a pool, of which each natural sentence gets its own."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from contstim.pipeline.syntheses import Syntheses
from contstim.pipeline.tasks import ScoreTask, WriteTask, score_tasks
from contstim.pipeline.work import Task
from contstim.synthesis import STRATEGIES
from contstim.synthesis.fluent import PooledStrategy
from contstim.synthesis.pool import Place, SentencePool, syntheses, why_few
from contstim.synthesis.problem import Constraint
from contstim.synthesis.results import Row
from contstim.synthesis.targets import SYNTHESIS_TARGETS, Goal, Sides
from contstim.text import pool
from contstim.text.languages import ENGLISH

#: Natural sentences that prompts are drawn from, at least: else the bundled ones are, too.
_ENOUGH = 30


@dataclass(eq=False)
class PooledSyntheses(Syntheses):
    """Syntheses by a strategy that writes a pool.

    First the pool is written, side by side. Then the models of floors score it, one floor after the
    other, each only what keeps the floors before beside some natural sentence; the models of the
    sides score what is left, and that is given to the places.
    """

    _left: list[str] | None = field(default=None, init=False)
    _made: dict[tuple[Goal, str], Sequence[Row]] | None = field(default=None, init=False)

    @cached_property
    def how(self) -> PooledStrategy:
        """How sentences are written."""
        steering = self.options.steering
        assert isinstance(steering, PooledStrategy)
        return steering

    @property
    def by_scores(self) -> bool:
        """Always: sentences are given to natural ones by scores."""
        return True

    @property
    def _sides(self) -> list[Sides]:
        """What is wanted, each once."""
        return list(dict.fromkeys(s for goal in self.starts for s in self.options.sides_of(goal)))

    @property
    def number(self) -> int:
        """How many batches are written."""
        return self._batches * len(self._sides)

    def writing(self) -> list[WriteTask]:
        """Return the tasks that write, side by side."""
        run, options, how = self.run, self.options, self.how
        natural = tuple(dict.fromkeys([*run.sentences, *self._more]))
        form = how.form(run.sentences)
        brought = (
            STRATEGIES.package(options.strategy or ""),
            SYNTHESIS_TARGETS.package(options.target),
        )
        return [
            WriteTask(
                run.versions,
                self.named(sides),
                tuple(run.every[spec] for spec in sides.models),
                tuple(run.every[spec] for spec in how.models),
                form,
                natural,
                run.vocabulary_digest,
                options.strategy or "",
                options.of_strategy,
                run.plan.study.seed,
                batch,
                tuple(filter(None, brought)),
            )
            for batch in range(self._batches)
            for sides in self._sides
        ]

    @property
    def _batches(self) -> int:
        return self.how.batches(len(self.run.sentences))

    @cached_property
    def _more(self) -> list[str]:
        few = len(self.run.sentences) < _ENOUGH and self.run.language is ENGLISH
        return pool() if few else []

    def drafts(self) -> dict[str, Mapping[str, Any]]:
        """Return what is written, by sentence, each once, as far as it is there."""
        store, drafts = self.run.store, dict[str, Mapping[str, Any]]()
        for task in self.writing():
            if task.is_done(store):
                for draft in store.result(task.key)["drafts"]:
                    drafts.setdefault(draft["sentence"], draft)
        return drafts

    def tasks(self) -> list[Task]:
        """Return the tasks that write and, when these are finished, those that score."""
        run, tasks = self.run, list[Task](self.writing())
        if self._open(tasks):
            return tasks
        left = list(self.drafts())
        specs = dict.fromkeys(spec for sides in self._sides for spec in sides.models)
        for floor in self._sides[0].floors:
            scoring = score_tasks([run.every[floor.model]], left, run.versions)
            tasks += scoring
            if self._open(scoring):
                return tasks
            left = self._keeping(floor, left)
            specs.pop(floor.model, None)
        self._left = left
        return [*tasks, *score_tasks([run.every[spec] for spec in specs], left, run.versions)]

    def _open(self, tasks: Iterable[Task]) -> bool:
        """Return whether some tasks are neither done nor given up."""
        return any(self.run.store.error(task) is None for task in self.run.store.left(tasks))

    def _keeping(self, floor: Constraint, sentences: Sequence[str]) -> list[str]:
        """Return the sentences that keep a floor beside some natural sentence."""
        scores = self.run.scores(floor.model)
        natural = {scores[text].score for _, text in self.pieces if text in scores}
        least = {
            n: min((floor.minimum(score, n) for score in natural), default=math.inf)
            for n in {len(text.split()) for text in sentences}
        }
        return [
            text
            for text in sentences
            if text in scores and scores[text].score >= least[len(text.split())]
        ]

    def left(self) -> list[str]:
        """Return the sentences that keep the floors, as far as they are known."""
        if self._left is None:
            self.tasks()
        return self._left or []

    def of_piece(self, goal: Goal, sentence: str) -> Sequence[Row] | None:
        """Return the rows of one goal and sentence; None as long as the pool is not whole."""
        return self._rows_by_piece().get((goal, sentence)) if self._is_whole else None

    def rows(self) -> Iterator[Row]:
        """Yield the rows that there are, in the order of the work."""
        for piece in self.pieces:
            yield from self._rows_by_piece()[piece]

    @property
    def _is_whole(self) -> bool:
        store = self.run.store
        return self._made is not None or all(store.error(t) for t in store.left(self.tasks()))

    @property
    def pool(self) -> SentencePool:
        """The sentences that have all scores."""
        specs = dict.fromkeys(spec for sides in self._sides for spec in sides.models)
        records = {self.run.every[spec].name: self.run.scores(spec) for spec in specs}
        scores = {name: {s: r.score for s, r in rows.items()} for name, rows in records.items()}
        store, resolution = self.run.store, dict[str, float]()
        for task in self.writing():
            if task.is_done(store):
                resolution |= store.result(task.key)["resolution"]
        there = [s for s in self.left() if all(s in scores[name] for name in scores)]
        return SentencePool(tuple(there), scores, resolution)

    @property
    def places(self) -> list[Place]:
        """Where sentences may go: piece by piece, each as often as rows are asked for."""
        return [
            Place(sentence, self.named(sides))
            for goal, sentence in self.pieces
            for _ in range(self.options.per_sentence)
            for sides in self.options.sides_of(goal)
        ]

    def later(self) -> float:
        """Return the seconds of scoring what is still to be written, as natural ones were scored.

        What is written is taken to go on as it began; 0 when all is.
        """
        store, writing = self.run.store, self.writing()
        left = len(store.left(writing))
        if not 0 < left < len(writing):
            return 0.0
        sentences = len(self.drafts()) * len(writing) / (len(writing) - left)
        by_model = defaultdict[str, list[ScoreTask]](list)
        for task in self.scoring():
            by_model[task.model.name].append(task)
        return sentences * sum(
            sum(store.seconds(tasks)) / sum(len(task.sentences) for task in tasks)
            for tasks in by_model.values()
        )

    def notes(self) -> dict[str, Any]:
        """Return how many sentences there are, and how many keep the floors, and the rest."""
        left = self.pool
        return {
            "written": len(self.drafts()),
            "pool": len(left.sentences),
            "keeping": why_few(left, self.places),
        }

    def _rows_by_piece(self) -> dict[tuple[Goal, str], Sequence[Row]]:
        if self._made is None:
            options, made = self.options, dict[tuple[Goal, str], Sequence[Row]]()
            name, seed = options.strategy or "", self.run.plan.study.seed
            made_of = syntheses(self.pool, self.places, seed, name, most_use=options.most_use)
            by_place = iter(made_of)
            for goal, sentence in self.pieces:
                every = [self.named(sides) for sides in options.sides_of(goal)]
                results = [[next(by_place) for _ in every] for _ in range(options.per_sentence)]
                made[goal, sentence] = options.aim.rows(
                    tuple((sides.reject, sides.accept) for sides in every),
                    results,
                    options.per_sentence,
                    options.minimum_drop,
                )
            self._made = made
        return self._made
