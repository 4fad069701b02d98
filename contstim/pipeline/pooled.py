"""Syntheses that are assigned to natural sentences from one pool of sampled sentences."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from contstim.pipeline.options import Goal
from contstim.pipeline.syntheses import Syntheses
from contstim.pipeline.tasks import ScoreTask, WriteTask, score_tasks
from contstim.pipeline.work import Task
from contstim.synthesis import format_strategy
from contstim.synthesis.pool import SentencePool, Slot, assign_syntheses, explain_shortfall
from contstim.synthesis.problem import MinScore, ModelContrast
from contstim.synthesis.results import Row
from contstim.synthesis.sample import GuidedSampling
from contstim.text import pool
from contstim.text.languages import ENGLISH

#: Minimum number of natural sentences for prompts; otherwise the bundled ones are added.
_ENOUGH = 30


@dataclass(eq=False)
class PooledSyntheses(Syntheses):
    """Syntheses by a strategy that samples a pool.

    First sentences are sampled for each contrast. Then the model of each lower bound in turn scores
    those that satisfy the bounds before for at least one natural sentence. The compared models
    score the rest, and the rest is assigned to the natural sentences.
    """

    _left: list[str] | None = field(default=None, init=False)
    _made: dict[tuple[Goal, str], Sequence[Row]] | None = field(default=None, init=False)

    @cached_property
    def strategy(self) -> GuidedSampling:
        """The strategy."""
        strategy = self.options.parsed_strategy
        assert isinstance(strategy, GuidedSampling)
        return strategy

    @property
    def by_scores(self) -> bool:
        """Always: sentences are assigned by scores."""
        return True

    @property
    def _contrasts(self) -> list[ModelContrast]:
        """The contrasts, each once."""
        every = (c for goal in self.starts for c in self.options.contrasts(goal))
        return list(dict.fromkeys(every))

    @property
    def number(self) -> int:
        """How many batches are written."""
        return self._batches * len(self._contrasts)

    def writing(self) -> list[WriteTask]:
        """Return the tasks that sample sentences, alternating between contrasts."""
        run, options = self.run, self.options
        natural = tuple(dict.fromkeys([*run.sentences, *self._more]))
        form = self.strategy.sentence_form(run.sentences)
        return [
            WriteTask(
                run.versions,
                self.named(contrast),
                tuple(run.every[spec] for spec in contrast.names),
                tuple(run.every[spec] for spec in self.strategy.models),
                form,
                natural,
                run.vocabulary_digest,
                format_strategy(self.strategy),
                run.plan.study.seed,
                batch,
                options.package,
            )
            for batch in range(self._batches)
            for contrast in self._contrasts
        ]

    @property
    def _batches(self) -> int:
        return self.strategy.n_batches

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
        specs = dict.fromkeys(spec for contrast in self._contrasts for spec in contrast.names)
        for bound in self.options.bounds:
            scoring = score_tasks([run.every[bound.model]], left, run.versions)
            tasks += scoring
            if self._open(scoring):
                return tasks
            left = self._satisfying(bound, left)
            specs.pop(bound.model, None)
        self._left = left
        return [*tasks, *score_tasks([run.every[spec] for spec in specs], left, run.versions)]

    def _open(self, tasks: Iterable[Task]) -> bool:
        """Return whether some tasks are neither done nor given up."""
        return any(self.run.store.error(task) is None for task in self.run.store.left(tasks))

    def _satisfying(self, bound: MinScore, sentences: Sequence[str]) -> list[str]:
        """Return the sentences that satisfy a bound for at least one natural sentence."""
        scores = self.run.scores(bound.model)
        natural = {scores[text].score for _, text in self.pieces if text in scores}
        lowest = min(map(bound.minimum, natural), default=math.inf)
        return [text for text in sentences if text in scores and scores[text].score >= lowest]

    def left(self) -> list[str]:
        """Return the sentences that satisfy the bounds, as far as they are known."""
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
        specs = dict.fromkeys(spec for contrast in self._contrasts for spec in contrast.names)
        records = {self.run.every[spec].name: self.run.scores(spec) for spec in specs}
        scores = {name: {s: r.score for s, r in rows.items()} for name, rows in records.items()}
        store, resolution = self.run.store, dict[str, float]()
        for task in self.writing():
            if task.is_done(store):
                resolution |= store.result(task.key)["resolution"]
        there = [s for s in self.left() if all(s in scores[name] for name in scores)]
        return SentencePool(tuple(there), scores, resolution)

    @property
    def places(self) -> list[Slot]:
        """Where sentences may go: piece by piece, each as often as rows are asked for."""
        return [
            Slot(sentence, self.named(contrast))
            for goal, sentence in self.pieces
            for _ in range(self.options.per_sentence)
            for contrast in self.options.contrasts(goal)
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
        """Return figures of the pool, and the compared models that did not guide the sampling."""
        store, left = self.run.store, self.pool
        notes = {
            "written": len(self.drafts()),
            "pool": len(left.sentences),
            "satisfying": explain_shortfall(left, self.places),
        }
        filter_only = {
            name
            for task in self.writing()
            if task.is_done(store)
            for name in store.result(task.key)["filter_only"]
        }
        return {**notes, "filter_only": sorted(filter_only)} if filter_only else notes

    def _rows_by_piece(self) -> dict[tuple[Goal, str], Sequence[Row]]:
        if self._made is None:
            options = self.options
            made_of = assign_syntheses(
                self.pool,
                self.places,
                self.run.plan.study.seed,
                format_strategy(self.strategy),
                max_word_share=options.max_word_share,
            )
            by_place = iter(made_of)
            self._made = {
                (goal, sentence): self.rows_of(
                    goal, [[next(by_place) for _ in goal] for _ in range(options.per_sentence)]
                )
                for goal, sentence in self.pieces
            }
        return self._made
