"""Synthesis of sentences from one pool of sampled sentences for all natural sentences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from contstim.pipeline.synthesis_job import Problems, SynthesisJob
from contstim.pipeline.tasks import SampleTask, Task, create_score_tasks
from contstim.synthesis import format_strategy
from contstim.synthesis.forecast import (
    WINDOW,
    count_expected_triplets,
    explain_shortfall,
    find_stop_reason,
)
from contstim.synthesis.pool import (
    Request,
    SentencePool,
    find_fulfillable_requests,
    synthesize_from_pool,
)
from contstim.synthesis.problem import MinScore, ProblemDefinition
from contstim.synthesis.results import Row
from contstim.synthesis.sample import GuidedSampling

# Maximum difference between the reading scores of a sentence after two prompts, in nats. All of 227
# sampled sentences with a score of at least -3.4 had at least -3.6 after the prompt of their batch.
_READING_MARGIN = 0.2

# Minimum decrease in loss, in nats or, with several rejecting models, in standard deviations. The
# models hardly disagree about sentences with a smaller decrease.
_MIN_DROP = 1.0

# Number of requested rows of the table per batch of a round.
_ROWS_PER_BATCH = 50

# Options of the strategy that limit the number of rounds.
_ROUND_LIMITS = ("max_samples", "min_improvement")


@dataclass(eq=False)
class _Round:
    """Round of sampling: sentences are sampled and scored, then assigned to natural sentences.

    Attributes
    ----------
    sample_tasks
        Tasks that sample sentences in batches.
    tasks
        All tasks of the round known so far: sampling tasks, followed by tasks that score the
        sampled sentences.
    candidates
        Sentences sampled in this round that satisfy the lower bounds on scores. The list is empty
        until the scores for these bounds have been computed.
    rows
        Mapping from (problems, natural sentence) to the rows of the table, made from the candidates
        of all rounds so far. It is empty until the round is finished.
    unsolved
        Problems for which there are too few suitable candidates.
    gain
        Sum of the decreases in loss of the assigned sentences, in nats.
    summary
        Line of text that tells users the result of the round and a forecast of the final result.
    """

    sample_tasks: list[SampleTask]
    tasks: list[Task]
    candidates: list[str] = field(default_factory=list)
    rows: dict[tuple[Problems, str], Sequence[Row]] = field(default_factory=dict)
    unsolved: list[ProblemDefinition] = field(default_factory=list)
    gain: float = 0.0
    summary: str = ""


@dataclass(eq=False)
class PooledSynthesisJob(SynthesisJob):
    """Synthesis of sentences that samples one pool of sentences for all natural sentences.

    A synthesis problem names the models that should find a sentence improbable (rejecting models)
    and probable (accepting models). A *request* is a natural sentence with a problem. One sentence
    of the pool can be assigned to each request. Each round of sampling has four steps:

    1. Tasks sample batches of sentences for each problem.
    2. Tasks score the sampled sentences under each model with a lower bound on its score. Sentences
       that violate the bound for every natural sentence are dropped. The remaining sentences are
       the candidates.
    3. Tasks score the candidates under the compared models.
    4. The candidates of all rounds are assigned to the requests, without further tasks. If the
       table needs fewer natural sentences, the best ones are chosen (`assign_sentences`).

    After the first round, sentences are sampled only for problems with too few suitable candidates,
    if there are any. The rounds end when no further row is expected soon and
    the last rounds have increased the total decrease in loss by at most the share
    `min_improvement`, or after `max_samples` sentences per problem.
    """

    # Finished rounds.
    _rounds: list[_Round] = field(default_factory=list, init=False)
    # Whether no further round is needed.
    _is_complete: bool = field(default=False, init=False)

    @cached_property
    def strategy(self) -> GuidedSampling:
        """Strategy that samples the sentences."""
        strategy = self.options.parsed_strategy
        assert isinstance(strategy, GuidedSampling)
        return strategy

    @property
    def task_strategy(self) -> str:
        """Strategy as text, without the limits on the number of rounds.

        The limits do not affect a batch. Finished batches are therefore used again if an
        interrupted command is repeated with other limits.
        """
        defaults = {name: getattr(GuidedSampling, name) for name in _ROUND_LIMITS}
        return format_strategy(replace(self.strategy, **defaults))

    @property
    def needs_scores(self) -> bool:
        """Whether the tasks depend on the scores of the natural sentences: always True."""
        return True

    @property
    def round_size(self) -> int:
        """Number of batches per problem in each round after the first one.

        It is larger for many rows, because the assignment after each round then takes longer.
        """
        return max(1, self.n_requested_rows // _ROWS_PER_BATCH)

    @property
    def _problems(self) -> list[ProblemDefinition]:
        """Distinct synthesis problems for which sentences are sampled."""
        return list(dict.fromkeys(itertools.chain(*self.sentences_by_problems)))

    @property
    def n_expected_tasks(self) -> int:
        """Maximum number of sampling tasks."""
        return self.strategy.n_batches * len(self._problems)

    def sample_tasks(self) -> list[SampleTask]:
        """Return the sampling tasks known so far, in the order of their execution."""
        return [task for one_round in self._known_rounds() for task in one_round.sample_tasks]

    @property
    def _finished_sample_tasks(self) -> list[SampleTask]:
        """Sampling tasks of the finished rounds."""
        return [task for one_round in self._rounds for task in one_round.sample_tasks]

    def _read_sampled(self, tasks: Sequence[SampleTask]) -> list[dict[str, Any]]:
        """Return the results of those `tasks` that are finished, as JSON values from the store."""
        store = self.run.store
        return [store.read_result(task.key) for task in tasks if task.is_done(store)]

    def read_drafts(
        self, tasks: Sequence[SampleTask] | None = None
    ) -> dict[str, Mapping[str, Any]]:
        """Return the sentences that finished sampling tasks have sampled.

        Parameters
        ----------
        tasks
            Sampling tasks that yielded the sentences. Default: all tasks known so far.

        Returns
        -------
        dict
            Mapping from each sampled sentence to its log-probabilities under the language model
            from which it was sampled (attributes of `Draft`), as JSON values.
        """
        drafts = dict[str, Mapping[str, Any]]()
        for result in self._read_sampled(self.sample_tasks() if tasks is None else tasks):
            for draft in result["drafts"]:
                drafts.setdefault(draft["sentence"], draft)
        return drafts

    def tasks(self) -> list[Task]:
        """Return all tasks that are known so far, in the order of the rounds.

        A round consists of several steps. The tasks of a step become known when all tasks of the
        previous step have ended.
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
        """Create the next round of sampling, with the tasks that can be created at this time.

        First, there are only tasks that sample sentences. Tasks that score these sentences are
        added by a later call, after all sampling tasks have ended.

        A synthesis problem is unsolved if too few natural sentences can receive a synthetic
        sentence for it. The round samples batches of sentences for each unsolved problem or, if all
        problems are solved, for every problem, to find better sentences.
        """
        run, strategy, problems = self.run, self.strategy, self._problems
        if self._rounds:
            problems = self._rounds[-1].unsolved or problems
        sentence_form = strategy.choose_form(run.sentences)
        reading_model = MinScore.readable(model=strategy.writer).model
        minimums = [
            bound.value
            for bound in self.options.bounds
            if run.all_models[bound.model].spec == reading_model and not bound.natural
        ]
        if minimums:
            # The reading scores after the writer's prompts and after the fixed prompt differ.
            minimum = max(minimums) - _READING_MARGIN
            sentence_form = replace(sentence_form, min_reading_score=minimum)
        prompt_sentences = tuple(dict.fromkeys([*run.sentences, *self.supplement]))
        sample_tasks = [
            SampleTask(
                **self.get_task_options(problem),
                sentence_form=sentence_form,
                prompt_sentences=prompt_sentences,
                batch=batch,
            )
            for batch in strategy.round_batches(len(self._rounds), self.round_size)
            for problem in problems
        ]
        tasks = list[Task](sample_tasks)
        if run.store.find_pending(tasks):
            return _Round(sample_tasks, tasks)

        # Score the new sentences, first under the models of the bounds.
        earlier_drafts = self.read_drafts(self._finished_sample_tasks)
        candidates = [s for s in self.read_drafts(sample_tasks) if s not in earlier_drafts]
        specs = dict.fromkeys(spec for problem in self._problems for spec in problem.names)
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
            natural_scores = {scores[natural] for _, natural in self.inputs if natural in scores}
            lowest_bound = min(map(bound.minimum, natural_scores), default=math.inf)
            candidates = [s for s in candidates if s in scores and scores[s] >= lowest_bound]
        models = [run.all_models[spec] for spec in specs]
        tasks += create_score_tasks(models, candidates, run.versions)
        return _Round(sample_tasks, tasks, candidates)

    def _finish_round(self, new_round: _Round) -> None:
        """Assign sampled sentences to natural sentences, and decide whether to sample further.

        The sentences of all rounds so far are assigned. Sampling is complete if the maximum number
        of sentences, `max_samples` per synthesis problem, has been sampled, or earlier if
        `find_stop_reason` returns a reason.

        Parameters
        ----------
        new_round
            Latest round, after the end of all its tasks. This method sets the attributes `rows`,
            `unsolved`, `gain` and `summary` of the round.
        """
        strategy = self.strategy
        n_batches = strategy.n_batches
        n_done = strategy.round_batches(len(self._rounds), self.round_size).stop
        self._rounds.append(new_round)
        # Choose the natural sentences of the table, and assign the sampled sentences of all rounds.
        options, pool, requests = self.options, self.build_pool(), self.requests
        n_groups = options.per_sentence
        groups = synthesize_from_pool(
            pool,
            requests,
            self.run.plan.study.seed,
            format_strategy(strategy),
            options.per_pair,
            max_word_share=options.max_word_share,
        )
        unread = iter(groups)
        new_round.rows = {
            (problems, sentence): self.make_rows(problems, list(itertools.islice(unread, n_groups)))
            for problems, sentence in self.inputs
        }
        new_round.gain = -math.fsum(result.loss for group in groups for result in group)

        # Forecast how many rows (triplets) will be found if sampling continues to its limit.
        n_found, n_wanted = sum(map(len, new_round.rows.values())), self.n_requested_rows
        max_rows = None if options.per_pair is None else options.per_pair * n_groups
        n_soon, n_expected = (
            max(n_found, count_expected_triplets(pool, requests, n / n_done, max_rows))
            for n in (min(n_done + WINDOW * self.round_size, n_batches), n_batches)
        )
        if n_found < n_wanted:
            new_round.unsolved = self._find_unsolved_problems(pool, requests)
        gains = [one_round.gain for one_round in self._rounds]
        reason = find_stop_reason(gains, strategy.min_improvement, n_found, n_wanted, n_soon)
        if n_done == n_batches:
            reason = "max_samples is reached"
        self._is_complete = reason is not None
        # Describe the round for users.
        noun = "triplets" if options.makes_triplets else "synthetic sentences"
        text = f"batch {n_done} of at most {n_batches}: {n_found} of {n_wanted} {noun} found"
        if n_found:
            n_synthetic = sum(result.is_changed for group in groups for result in group)
            text += f", mean decrease {new_round.gain / n_synthetic:.1f} nats"
        if n_done < n_batches and n_found < n_wanted:
            text += f"; about {n_expected} expected after batch {n_batches}"
        if n_expected < n_wanted / 2:
            text += self._describe_shortfall(pool, requests)
        new_round.summary = text if reason is None else f"{text}; sampling ends: {reason}"

    def _find_unsolved_problems(
        self, pool: SentencePool, requests: Sequence[Sequence[Request]]
    ) -> list[ProblemDefinition]:
        """Find the synthesis problems for which the pool has too few suitable sentences.

        For each problem, a maximum matching assigns different sentences of the pool to as many
        natural sentences as possible. There are too few if this is fewer than the requested number
        of rows of the table.

        Parameters
        ----------
        pool
            Sampled sentences with their scores.
        requests
            Requests for synthetic sentences: one list per possible row, one request per problem.
        """
        unsolved, remaining_rows = list[ProblemDefinition](), list(requests)
        for problems, sentences in self.sentences_by_problems.items():
            # The next rows belong to these problems.
            n_rows = len(sentences) * self.options.per_sentence
            rows, remaining_rows = remaining_rows[:n_rows], remaining_rows[n_rows:]
            for number, problem in enumerate(problems):
                is_usable = pool.is_usable([row[number] for row in rows])
                n_matched = find_fulfillable_requests(is_usable).sum()
                if n_matched < self.count_requested_rows(sentences):
                    unsolved.append(problem)
        return unsolved

    @property
    def candidates(self) -> list[str]:
        """Sampled sentences of the finished rounds that satisfy the lower bounds on scores."""
        return [sentence for one_round in self._rounds for sentence in one_round.candidates]

    def find_rows(self, problems: Problems, sentence: str) -> Sequence[Row] | None:
        """Return the table rows of one natural sentence, or None if any task is pending."""
        if not self._is_complete and self.run.store.find_pending(self.tasks()):
            return None
        return self._rounds[-1].rows.get((problems, sentence), ()) if self._rounds else ()

    def rows(self) -> Iterator[Row]:
        """Yield all rows of the table, in the order of the natural sentences."""
        return itertools.chain(*self._rounds[-1].rows.values()) if self._rounds else iter(())

    def build_pool(self) -> SentencePool:
        """Return the pool of sampled sentences that can be assigned to natural sentences.

        The pool contains the sentences of all finished rounds that satisfy the lower bounds on
        scores and have a score under each model.
        """
        scores = dict[str, dict[str, float]]()  # in nats, by model name and sentence
        for spec in dict.fromkeys(spec for problem in self._problems for spec in problem.names):
            cached_scores = self.run.read_scores(spec)
            model_scores = {sentence: row.score for sentence, row in cached_scores.items()}
            scores[self.run.all_models[spec].name] = model_scores
        # Maximum difference, by model, between the scores of a sentence in different batches.
        batch_tolerance = dict[str, float]()
        for result in self._read_sampled(self._finished_sample_tasks):
            batch_tolerance |= result["batch_tolerance"]
        # Drop the sentences that lack a score under at least one model.
        candidates = [
            sentence
            for sentence in self.candidates
            if all(sentence in model_scores for model_scores in scores.values())
        ]
        return SentencePool(tuple(candidates), scores, batch_tolerance, self.run.language)

    @property
    def requests(self) -> list[list[Request]]:
        """Requests of each row that the table can have: two for a triplet, otherwise one.

        A request is a natural sentence together with a synthesis problem: the models that should
        find the synthetic sentence improbable or probable, and constraints. One sampled sentence
        can be assigned to each request.
        """
        minimum_drop = max(_MIN_DROP, self.options.minimum_drop)
        return [
            [Request(sentence, self.resolve_problem(p), minimum_drop) for p in problems]
            for problems, sentence in self.inputs
            for _ in range(self.options.per_sentence)
        ]

    def describe_progress(self) -> str | None:
        """Return a line on the last finished round, or on models that cannot guide the sampling."""
        if self._rounds:
            return self._rounds[-1].summary
        # The batches of a problem have the same guiding models, so the first of each is sufficient.
        names = self._find_non_guiding_models(self.sample_tasks()[: len(self._problems)])
        text = "cannot guide the sampling, only select among the sampled sentences"
        return f"{' and '.join(names)} {text}" if names else None

    def _find_non_guiding_models(self, tasks: Sequence[SampleTask]) -> list[str]:
        """Return the names of the compared models that did not influence the sampled words."""
        sampled = self._read_sampled(tasks)
        return sorted({name for result in sampled for name in result["non_guiding_models"]})

    def _describe_shortfall(self, pool: SentencePool, requests: Sequence[Sequence[Request]]) -> str:
        """Return the end of a message that explains why natural sentences remain without a result.

        It names the constraint that the fewest sampled sentences satisfy, and suggests what to
        change.
        """
        # The last item of the mapping is the number of sentences that satisfy all constraints.
        n_satisfying = explain_shortfall(pool, requests)
        _, n_usable = n_satisfying.popitem()
        constraint = min(n_satisfying, key=n_satisfying.__getitem__)
        n_drafts = len(self.read_drafts(self._finished_sample_tasks))
        return (
            f"; {n_usable:.0f} of {n_drafts:,} sampled sentences satisfy all constraints, and "
            f"{n_satisfying[constraint]:.0f} satisfy {constraint}: increase max_samples, use less "
            "probable natural sentences, or relax a constraint"
        )

    def collect_notes(self) -> dict[str, Any]:
        """Return statistics of the sampled sentences, for the metadata of the table.

        Returns
        -------
        dict
            ``n_sampled``: number of sampled sentences. ``n_candidates``: number of sampled
            sentences that satisfy the lower bounds on scores and have scores under all models.
            ``n_satisfying``: mapping from each constraint to a number of candidates. How many
            candidates satisfy the constraint depends on the natural sentence; the number is the
            median over natural sentences. ``non_guiding_models``: names of compared models that
            only scored the finished samples, because they cannot guide the sampling word by word;
            this key is omitted if there are none.
        """
        pool = self.build_pool()  # sampled sentences that satisfy all lower bounds on scores
        # `read_drafts` returns all sampled sentences. `explain_shortfall` counts how many sentences
        # of the pool satisfy each constraint.
        notes: dict[str, Any] = {
            "n_sampled": len(self.read_drafts()),
            "n_candidates": len(pool.sentences),
            "n_satisfying": explain_shortfall(pool, self.requests),
        }
        names = self._find_non_guiding_models(self.sample_tasks())
        return {**notes, "non_guiding_models": names} if names else notes
