"""Synthesis of sentences from one pool of sampled sentences for all natural sentences."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from contstim.pipeline.synthesis_job import SynthesisJob
from contstim.pipeline.synthesis_options import Goal
from contstim.pipeline.tasks import SampleTask, ScoreTask, Task, create_score_tasks
from contstim.synthesis import format_strategy
from contstim.synthesis.pool import SentencePool, Slot, assign_syntheses, explain_shortfall
from contstim.synthesis.problem import ModelContrast
from contstim.synthesis.results import Row
from contstim.synthesis.sample import GuidedSampling


@dataclass(eq=False)
class PooledSynthesisJob(SynthesisJob):
    """Synthesis of sentences in a run, by sampling one pool for all natural sentences.

    1. Tasks sample batches of sentences for each contrast (a choice of rejecting and accepting
       models).
    2. Tasks score the sampled sentences under each model with a lower bound. Sentences that violate
       the bound for all natural sentences are dropped. The remaining sentences are the candidates.
    3. Tasks score the candidates under the compared models.
    4. The candidates are assigned to the natural sentences, without further tasks.
    """

    # Sampled sentences that satisfy the lower bounds; None until they are known.
    _candidates: list[str] | None = field(default=None, init=False)
    # Rows of the table by goal and natural sentence; None before the assignment.
    _rows_by_start: dict[tuple[Goal, str], Sequence[Row]] | None = field(default=None, init=False)

    @cached_property
    def strategy(self) -> GuidedSampling:
        """Strategy that samples the sentences."""
        strategy = self.options.parsed_strategy
        assert isinstance(strategy, GuidedSampling)
        return strategy

    @property
    def needs_scores(self) -> bool:
        """Whether the tasks depend on the scores of the natural sentences: always True."""
        return True

    @property
    def _contrasts(self) -> list[ModelContrast]:
        """Distinct contrasts (rejecting and accepting models) for which sentences are sampled."""
        contrasts = dict[ModelContrast, None]()
        for goal in self.starts_by_goal:
            contrasts |= dict.fromkeys(self.options.build_contrasts(goal))
        return list(contrasts)

    @property
    def min_tasks(self) -> int:
        """Number of tasks that sample sentences, one for each batch."""
        return self.strategy.n_batches * len(self._contrasts)

    def sample_tasks(self) -> list[SampleTask]:
        """Return the tasks that sample sentences.

        The first batch for each contrast comes first, then the second batch for each, and so on.
        """
        sentences = self.run.sentences
        form = self.strategy.sentence_form(sentences)
        natural = tuple(dict.fromkeys([*sentences, *self.supplement]))
        return [
            SampleTask(**self.task_options(contrast), form=form, natural=natural, batch=batch)
            for batch in range(self.strategy.n_batches)
            for contrast in self._contrasts
        ]

    def _read_sampled(self) -> list[dict[str, Any]]:
        """Read the results of the finished tasks that sample sentences, as JSON values."""
        store = self.run.store
        return [store.read_result(t.key) for t in self.sample_tasks() if t.is_done(store)]

    def read_drafts(self) -> dict[str, Mapping[str, Any]]:
        """Return all sentences sampled so far, with their log-probabilities.

        Returns
        -------
        dict
            Attributes of each sampled sentence (`Draft`) as JSON values, by its text.
        """
        drafts = dict[str, Mapping[str, Any]]()
        for result in self._read_sampled():
            for draft in result["drafts"]:
                drafts.setdefault(draft["sentence"], draft)
        return drafts

    def tasks(self) -> list[Task]:
        """Return all tasks that are known so far: they sample sentences, then score them.

        Tasks that score sentences are known only after all tasks of the previous step have ended.
        """
        run, tasks = self.run, list[Task](self.sample_tasks())
        if run.store.find_pending(tasks):
            return tasks
        candidates = list(self.read_drafts())
        specs = dict.fromkeys(spec for contrast in self._contrasts for spec in contrast.names)
        for bound in self.options.bounds:
            specs.pop(bound.model, None)
            bound_tasks = create_score_tasks(
                [run.all_models[bound.model]], candidates, run.versions
            )
            tasks += bound_tasks
            if run.store.find_pending(bound_tasks):
                return tasks
            # Keep the sentences that satisfy the bound for at least one natural sentence.
            scores = {s: row.score for s, row in run.read_scores(bound.model).items()}
            natural_scores = {scores[natural] for _, natural in self.starts if natural in scores}
            lowest_bound = min(map(bound.minimum, natural_scores), default=math.inf)
            candidates = [s for s in candidates if s in scores and scores[s] >= lowest_bound]
        self._candidates = candidates
        models = [run.all_models[spec] for spec in specs]
        return [*tasks, *create_score_tasks(models, candidates, run.versions)]

    def find_candidates(self) -> list[str]:
        """Return the candidates, that is, the sampled sentences that satisfy the lower bounds.

        The list is empty until all tasks that sample sentences, and all tasks that score them under
        models with a lower bound, have ended.
        """
        if self._candidates is None:
            self.tasks()
        return self._candidates or []

    def find_rows(self, goal: Goal, sentence: str) -> Sequence[Row] | None:
        """Return the table rows of one natural sentence, or None if any task is pending."""
        if self._rows_by_start is None and self.run.store.find_pending(self.tasks()):
            return None
        return self._assign_rows()[goal, sentence]

    def rows(self) -> Iterator[Row]:
        """Yield all rows of the table, in the order of the natural sentences."""
        for start in self.starts:
            yield from self._assign_rows()[start]

    def _assign_rows(self) -> dict[tuple[Goal, str], Sequence[Row]]:
        """Assign the candidates to the natural sentences, and return the rows of the table.

        A goal lists the contrasts for which a natural sentence needs synthetic sentences: two for a
        triplet, one otherwise. Up to `per_sentence` triplets are made from each natural sentence.
        The assignment is made at the first call, and stored for later calls.

        Returns
        -------
        dict
            Rows of the table, by goal and natural sentence.
        """
        if self._rows_by_start is None:
            options = self.options
            syntheses = assign_syntheses(
                self.build_pool(),
                self.slots,
                self.run.plan.study.seed,
                format_strategy(self.strategy),
                max_word_share=options.max_word_share,
            )
            # The syntheses have the order of `slots`: for each natural sentence, `per_sentence`
            # attempts with one synthesis per contrast.
            self._rows_by_start = {}
            next_syntheses = iter(syntheses)
            for goal, sentence in self.starts:
                attempts = [
                    [next(next_syntheses) for _ in goal] for _ in range(options.per_sentence)
                ]
                self._rows_by_start[goal, sentence] = self.make_rows(goal, attempts)
        return self._rows_by_start

    def build_pool(self) -> SentencePool:
        """Return the pool of sentences for the assignment: the candidates with all scores."""
        scores = dict[str, dict[str, float]]()
        for spec in dict.fromkeys(spec for contrast in self._contrasts for spec in contrast.names):
            cached_scores = self.run.read_scores(spec)
            model_scores = {sentence: row.score for sentence, row in cached_scores.items()}
            scores[self.run.all_models[spec].name] = model_scores
        batch_tolerance = dict[str, float]()
        for result in self._read_sampled():
            batch_tolerance |= result["batch_tolerance"]
        candidates = [
            sentence
            for sentence in self.find_candidates()
            if all(sentence in model_scores for model_scores in scores.values())
        ]
        return SentencePool(tuple(candidates), scores, batch_tolerance)

    @property
    def slots(self) -> list[Slot]:
        """Needed synthetic sentences (slots of `assign_sentences`), in the order of the table."""
        return [
            Slot(sentence, self.resolve_contrast(contrast))
            for goal, sentence in self.starts
            for _ in range(self.options.per_sentence)
            for contrast in self.options.build_contrasts(goal)
        ]

    def estimate_later_seconds(self) -> float:
        """Estimate how long one worker will take to score the sentences that are not sampled yet.

        The estimate assumes that the remaining batches have as many sentences as the finished
        batches, and that sampled sentences are scored as fast as natural sentences. It is 0 if all
        batches are finished, or none.
        """
        store, tasks = self.run.store, self.sample_tasks()
        n_done = len(tasks) - len(store.find_missing(tasks))
        if n_done in (0, len(tasks)):
            return 0.0
        n_expected_sentences = len(self.read_drafts()) * len(tasks) / n_done

        # Sum the mean duration of scoring a natural sentence over the models.
        tasks_by_model = defaultdict[str, list[ScoreTask]](list)
        for task in self.score_tasks():
            tasks_by_model[task.model.name].append(task)
        seconds_per_sentence = sum(
            sum(store.read_durations(score_tasks))
            / sum(len(task.sentences) for task in score_tasks)
            for score_tasks in tasks_by_model.values()
        )
        return n_expected_sentences * seconds_per_sentence

    def notes(self) -> dict[str, Any]:
        """Return notes on the pool for the metadata of the table.

        Returns
        -------
        dict
            ``written``: number of sampled sentences. ``pool``: number of candidates.
            ``satisfying``: number of candidates that satisfy each constraint, median over natural
            sentences. ``filter_only``: names of the compared models that did not guide the
            sampling, if there are any.
        """
        pool = self.build_pool()
        notes: dict[str, Any] = {
            "written": len(self.read_drafts()),
            "pool": len(pool.sentences),
            "satisfying": explain_shortfall(pool, self.slots),
        }
        filter_only = {name for result in self._read_sampled() for name in result["filter_only"]}
        return {**notes, "filter_only": sorted(filter_only)} if filter_only else notes
