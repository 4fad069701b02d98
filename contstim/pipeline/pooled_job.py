"""Synthesis of sentences from one pool of sampled sentences for all natural sentences."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any

from contstim.pipeline.synthesis_job import SynthesisJob
from contstim.pipeline.synthesis_options import Goal
from contstim.pipeline.tasks import SampleTask, ScoreTask, Task, create_score_tasks
from contstim.synthesis import format_strategy
from contstim.synthesis.forecast import count_expected_slots, explain_shortfall
from contstim.synthesis.pool import SentencePool, Slot, assign_syntheses
from contstim.synthesis.problem import ModelContrast
from contstim.synthesis.results import Row, Synthesis
from contstim.synthesis.sample import ROUND_BATCHES, GuidedSampling


@dataclass(eq=False)
class _Round:
    """Batches of sentences that are sampled and scored before the next assignment.

    Attributes
    ----------
    sample_tasks
        Tasks that sample the batches.
    tasks
        All tasks of the round known so far: sampling tasks, then scoring tasks.
    candidates
        New sentences that satisfy the lower bounds; empty until the bounds are known.
    syntheses
        Synthesis for each slot, from the candidates of all rounds so far. A slot without a sentence
        has the natural sentence. Empty until the round is finished.
    summary
        Line of text for users: the result of the round, and a forecast of the final result.
    """

    sample_tasks: list[SampleTask]
    tasks: list[Task]
    candidates: list[str] = field(default_factory=list)
    syntheses: list[Synthesis] = field(default_factory=list)
    summary: str = ""

    @property
    def total_gain(self) -> float:
        """Sum of the decreases in loss of the assigned sentences, nats."""
        return -math.fsum(synthesis.loss for synthesis in self.syntheses)


@dataclass(eq=False)
class PooledSynthesisJob(SynthesisJob):
    """Synthesis of sentences in a run, by sampling one pool for all natural sentences.

    Sentences are sampled in rounds of these steps:

    1. Tasks sample batches of sentences for each contrast (a choice of rejecting and accepting
       models).
    2. Tasks score the sampled sentences under each model with a lower bound on its score. Sentences
       that violate the bound for every natural sentence are dropped. The remaining sentences are
       the candidates.
    3. Tasks score the candidates under the compared models.
    4. The candidates of all rounds are assigned to the natural sentences, without further tasks.
       Each *slot* is one sentence that a natural sentence needs.

    After the first round, only contrasts with empty slots are sampled, unless all slots are filled.
    The rounds end when all slots are filled and a round increases the total decrease in loss by
    less than the share `min_improvement`, or after `max_samples` sentences per contrast.
    """

    # Finished rounds.
    _rounds: list[_Round] = field(default_factory=list, init=False)
    # Mapping from (goal, natural sentence) to rows of the table; None before it is requested.
    _rows_by_start: dict[tuple[Goal, str], Sequence[Row]] | None = field(default=None, init=False)
    # Whether no further round is needed.
    _is_complete: bool = field(default=False, init=False)

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
        """Maximum number of sampling tasks, for the progress bar."""
        return self.strategy.n_batches * len(self._contrasts)

    def sample_tasks(self) -> list[SampleTask]:
        """Return the sampling tasks known so far, in the order of their execution."""
        return [task for one_round in self._known_rounds() for task in one_round.sample_tasks]

    @property
    def _finished_sample_tasks(self) -> list[SampleTask]:
        """Sampling tasks of the finished rounds."""
        return [task for one_round in self._rounds for task in one_round.sample_tasks]

    def _read_sampled(self, tasks: Sequence[SampleTask]) -> list[dict[str, Any]]:
        """Read the results of the finished tasks among `tasks` from the store, as JSON values."""
        store = self.run.store
        return [store.read_result(task.key) for task in tasks if task.is_done(store)]

    def read_drafts(
        self, tasks: Sequence[SampleTask] | None = None
    ) -> dict[str, Mapping[str, Any]]:
        """Return the sentences that sampling tasks have yielded so far.

        Parameters
        ----------
        tasks
            Sampling tasks; by default all tasks known so far.

        Returns
        -------
        dict
            Mapping from each sampled sentence to its log-probabilities under the writer (attributes
            of `Draft`), as JSON values.
        """
        drafts = dict[str, Mapping[str, Any]]()
        for result in self._read_sampled(self.sample_tasks() if tasks is None else tasks):
            for draft in result["drafts"]:
                drafts.setdefault(draft["sentence"], draft)
        return drafts

    def tasks(self) -> list[Task]:
        """Return all tasks that are known so far, round by round.

        The tasks of a step are only known after all tasks of the previous step have ended.
        """
        return [task for one_round in self._known_rounds() for task in one_round.tasks]

    def _known_rounds(self) -> list[_Round]:
        """Return the finished rounds and, unless sampling is complete, the next one."""
        while not self._is_complete:
            next_round = self._start_round()
            if self.run.store.find_pending(next_round.tasks):
                return [*self._rounds, next_round]
            self._finish_round(next_round)
        return self._rounds

    def _start_round(self) -> _Round:
        """Return the next round with the tasks that are known so far.

        Each round samples `ROUND_BATCHES` batches for each contrast with empty slots. If all slots
        are filled, it samples for all contrasts.
        """
        run, strategy, contrasts = self.run, self.strategy, self._contrasts
        first_batch = ROUND_BATCHES * len(self._rounds)
        batches = range(first_batch, min(first_batch + ROUND_BATCHES, strategy.n_batches))
        if self._rounds:
            assignments = zip(self._slot_contrasts, self._rounds[-1].syntheses, strict=True)
            contrasts = list(dict.fromkeys(c for c, s in assignments if not s.is_changed))
        form = strategy.choose_form(run.sentences)
        natural = tuple(dict.fromkeys([*run.sentences, *self.supplement]))
        sample_tasks = [
            SampleTask(**self.get_task_options(contrast), form=form, natural=natural, batch=batch)
            for batch in batches
            for contrast in contrasts or self._contrasts
        ]
        tasks = list[Task](sample_tasks)
        if run.store.find_pending(tasks):
            return _Round(sample_tasks, tasks)

        # Score the new sentences, first under the models of the bounds.
        earlier_drafts = self.read_drafts(self._finished_sample_tasks)
        candidates = [s for s in self.read_drafts(sample_tasks) if s not in earlier_drafts]
        specs = dict.fromkeys(spec for contrast in self._contrasts for spec in contrast.names)
        for bound in self.options.bounds:
            specs.pop(bound.model, None)
            bound_tasks = create_score_tasks(
                [run.all_models[bound.model]], candidates, run.versions
            )
            tasks += bound_tasks
            if run.store.find_pending(bound_tasks):
                return _Round(sample_tasks, tasks)
            # Keep the sentences that satisfy the bound for at least one natural sentence.
            scores = {s: row.score for s, row in run.read_scores(bound.model).items()}
            natural_scores = {scores[natural] for _, natural in self.starts if natural in scores}
            lowest_bound = min(map(bound.minimum, natural_scores), default=math.inf)
            candidates = [s for s in candidates if s in scores and scores[s] >= lowest_bound]
        models = [run.all_models[spec] for spec in specs]
        tasks += create_score_tasks(models, candidates, run.versions)
        return _Round(sample_tasks, tasks, candidates)

    def _finish_round(self, new_round: _Round) -> None:
        """Assign the candidates of all rounds, and decide whether another round is needed.

        Sampling is complete after `max_samples` sentences, or when every slot has a sentence and
        the last round increased the total decrease in loss by less than `min_improvement`.
        """
        self._rounds.append(new_round)
        pool, slots = self.build_pool(), self.slots
        new_round.syntheses = assign_syntheses(
            pool,
            slots,
            self.run.plan.study.seed,
            format_strategy(self.strategy),
            max_word_share=self.options.max_word_share,
        )
        previous_gain = self._rounds[-2].total_gain if len(self._rounds) > 1 else 0.0
        is_filled = all(synthesis.is_changed for synthesis in new_round.syntheses)
        target_gain = (1 + self.strategy.min_improvement) * previous_gain
        has_converged = new_round.total_gain < target_gain
        is_last = ROUND_BATCHES * len(self._rounds) >= self.strategy.n_batches
        self._is_complete = is_last or (is_filled and has_converged)
        new_round.summary = self._summarise_round(pool, slots)

    @property
    def candidates(self) -> list[str]:
        """Candidates of the finished rounds: sampled sentences that satisfy the lower bounds."""
        return [sentence for one_round in self._rounds for sentence in one_round.candidates]

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

        Returns
        -------
        dict
            Mapping from (goal, natural sentence) to rows of the table.
        """
        if not self._rounds:
            return dict.fromkeys(self.starts, ())
        if self._rows_by_start is None:
            options = self.options
            syntheses = iter(self._rounds[-1].syntheses)
            # The syntheses have the order of `slots`: for each natural sentence, `per_sentence`
            # attempts with one synthesis per contrast.
            self._rows_by_start = {}
            for goal, sentence in self.starts:
                attempts = [[next(syntheses) for _ in goal] for _ in range(options.per_sentence)]
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
        for result in self._read_sampled(self._finished_sample_tasks):
            batch_tolerance |= result["batch_tolerance"]
        candidates = [
            sentence
            for sentence in self.candidates
            if all(sentence in model_scores for model_scores in scores.values())
        ]
        return SentencePool(tuple(candidates), scores, batch_tolerance, self.run.language)

    @property
    def slots(self) -> list[Slot]:
        """Natural sentences that need a synthetic sentence, in the order of the table rows.

        A natural sentence occurs once for each synthetic sentence that it needs.
        """
        naturals = [sentence for goal, sentence in self.starts for _ in self._slots_of(goal)]
        contrasts = map(self.resolve_contrast, self._slot_contrasts)
        return [Slot(*slot) for slot in zip(naturals, contrasts, strict=True)]

    @property
    def _slot_contrasts(self) -> list[ModelContrast]:
        """Rejecting and accepting models of each needed synthetic sentence (see `slots`)."""
        return [contrast for goal, _ in self.starts for contrast in self._slots_of(goal)]

    def _slots_of(self, goal: Goal) -> list[ModelContrast]:
        """Return the contrast of each synthetic sentence that one natural sentence needs."""
        return self.options.build_contrasts(goal) * self.options.per_sentence

    def describe_progress(self) -> str | None:
        """Return a line on the last finished round; None before the end of the first round."""
        return self._rounds[-1].summary if self._rounds else None

    def _summarise_round(self, pool: SentencePool, slots: Sequence[Slot]) -> str:
        """Describe the result of the last round, and forecast the result of the last possible one.

        If fewer than half of the slots are expected to be filled, also name the constraint that the
        fewest sentences satisfy.
        """
        last, strategy = self._rounds[-1], self.strategy
        n_rounds = math.ceil(strategy.n_batches / ROUND_BATCHES)
        n_filled = sum(synthesis.is_changed for synthesis in last.syntheses)
        text = (
            f"round {len(self._rounds)} of at most {n_rounds}: "
            f"{n_filled} of {len(slots)} synthetic sentences found"
        )
        if n_filled:
            text += f", mean loss {-last.total_gain / n_filled:.1f}"
        if self._is_complete:
            return text
        n_samples = ROUND_BATCHES * len(self._rounds) * strategy.batch_size
        factor = max(1.0, strategy.max_samples / n_samples)
        n_expected = max(n_filled, count_expected_slots(pool, slots, factor))
        text += f"; about {n_expected} expected after round {n_rounds}"
        if n_expected < len(slots) / 2:
            *counts, (_, n_usable) = explain_shortfall(pool, slots).items()
            constraint, n_satisfying = min(counts, key=itemgetter(1))
            n_drafts = len(self.read_drafts(self._finished_sample_tasks))
            text += (
                f"; {n_usable:.0f} of {n_drafts:,} sampled sentences satisfy all constraints, and "
                f"{n_satisfying:.0f} satisfy {constraint}: relax this constraint, or increase "
                "max_samples"
            )
        return text

    def estimate_later_seconds(self) -> float:
        """Estimate how long one worker will take to score the sentences that are not sampled yet.

        The estimate assumes that the remaining batches have as many sentences as the finished
        batches, and that sampled sentences are scored as fast as natural sentences. It is 0 if all
        batches are finished, or none.
        """
        store, tasks = self.run.store, self.sample_tasks()
        n_done = len(tasks) - len(store.find_missing(tasks))
        if n_done == 0 or self._is_complete:
            return 0.0
        n_expected_sentences = len(self.read_drafts()) * self.min_tasks / n_done

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

    def collect_notes(self) -> dict[str, Any]:
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
        sampled = self._read_sampled(self.sample_tasks())
        filter_only = {name for result in sampled for name in result["filter_only"]}
        return {**notes, "filter_only": sorted(filter_only)} if filter_only else notes
