"""Synthesis of sentences in a run: natural sentences, tasks and rows of the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from contstim.files import json_digest
from contstim.pipeline.stages import Run
from contstim.pipeline.synthesis_options import Goal, SynthesisOptions
from contstim.pipeline.tasks import (
    ScoreTask,
    SynthesisTask,
    Task,
    create_score_tasks,
    parse_synthesis,
)
from contstim.synthesis import format_strategy
from contstim.synthesis.problem import (
    ModelContrast,
    require_feasible_start,
    require_two_words,
    standard_deviation,
)
from contstim.synthesis.results import ContrastRow, Row, Synthesis, distinct_triplets, max_attempts
from contstim.text import Sentence, pool
from contstim.text.diversity import WordShareLimit
from contstim.text.languages import ENGLISH

#: Mapping from natural sentence to the case-folded words that its synthetic sentences must avoid.
ExcludedWords = dict[str, tuple[str, ...]]

#: Number of natural sentences below which bundled sentences are added, for prompts and for the
#: standard deviations of scores.
MIN_SENTENCES = 30


@dataclass(eq=False)
class SynthesisJob:
    """Synthesis of sentences in a run, by a separate search for each synthetic sentence.

    A search changes a natural sentence until some models, the rejecting models, find it improbable,
    while the accepting models do not. A choice of rejecting and accepting models is called a
    *contrast*. A *goal* is a tuple of all contrasts for which synthetic sentences are made from the
    same natural sentence: two contrasts with exchanged models for a triplet, one otherwise.

    Attributes
    ----------
    run
        Run of the study.
    starts_by_goal
        Mapping from goal to the natural sentences from which its searches start, in the order of
        the tasks.
    """

    run: Run
    starts_by_goal: Mapping[Goal, Sequence[str]] = field(init=False)
    # Mapping from model specification string to the standard deviation of the model's scores of
    # natural sentences; None until the scores are known.
    _scales: dict[str, float] | None = field(default=None, init=False)
    # Mapping from (goal, natural sentence, excluded words) to tasks and table rows, for all natural
    # sentences without unfinished tasks.
    _finished: dict[Any, tuple[list[SynthesisTask], Sequence[Row]]] = field(
        default_factory=dict, init=False
    )
    # Excluded words of each goal, as soon as they cannot change any more.
    _final_exclusions: dict[Goal, ExcludedWords] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        run, options, seed = self.run, self.options, self.run.plan.study.seed
        for sentence in run.sentences:
            require_two_words(sentence, run.language)
            options.parsed_edits.check(Sentence.parse(sentence, run.language))

        # Assign natural sentences to each goal.
        goals, n_sentences = options.list_goals(run.plan.models), len(run.sentences)
        partition_order = np.random.default_rng(seed).permutation(n_sentences)
        starts_by_goal = {}
        for number, goal in enumerate(goals):
            if options.starts == "all":
                order = np.arange(n_sentences)
            elif options.starts == "partitioned":
                order = partition_order[number :: len(goals)]
            else:
                # Derive the seed from the names of the models, so that the order does not depend on
                # the other goals.
                specs = dict[str, None]()
                for reject, accept in reversed(goal):
                    specs |= dict.fromkeys((*reject, *accept))
                goal_digest = json_digest([run.all_models[spec].name for spec in specs])
                rng = np.random.default_rng([seed, int(goal_digest, 16)])
                order = rng.permutation(n_sentences)
            starts_by_goal[goal] = [run.sentences[i] for i in order[: options.per_pair]]
        self.starts_by_goal = starts_by_goal

    @property
    def canonical_specs(self) -> dict[str, str]:
        """Mapping from the name of a model in tables to its canonical specification string."""
        return {model.name: model.spec for model in self.run.all_models.values()}

    @property
    def options(self) -> SynthesisOptions:
        """Options of the synthesis."""
        return self.run.plan.get_options(SynthesisOptions)

    @property
    def starts(self) -> list[tuple[Goal, str]]:
        """Pairs of a goal and a natural sentence from which searches start, in task order."""
        return [(goal, s) for goal, sentences in self.starts_by_goal.items() for s in sentences]

    @property
    def min_tasks(self) -> int:
        """Number of tasks if each natural sentence needs only one attempt per triplet."""
        return self.options.per_sentence * sum(len(goal) for goal, _ in self.starts)

    @property
    def needs_scores(self) -> bool:
        """Whether the tasks depend on the scores of the natural sentences."""
        return bool(self.options.bounds or self._scaled_models)

    @cached_property
    def _scaled_models(self) -> set[str]:
        """Specification strings of the models whose scores are standardised.

        If a contrast has several rejecting models, their scores must have the same scale.
        """
        scaled_models = set[str]()
        for goal in self.starts_by_goal:
            for reject, _ in goal:
                if len(reject) > 1:
                    scaled_models.update(reject)
        return scaled_models

    @cached_property
    def supplement(self) -> list[str]:
        """Bundled sentences that supplement the natural sentences if these are few and English."""
        is_small = len(self.run.sentences) < MIN_SENTENCES and self.run.language is ENGLISH
        return pool() if is_small else []

    @cached_property
    def _scale_sentences(self) -> list[str]:
        """Sentences from which the scales (standard deviations of scores) are computed."""
        return list(dict.fromkeys([*self.run.sentences, *self.supplement[:MIN_SENTENCES]]))

    def score_tasks(self) -> list[ScoreTask]:
        """Return the tasks that score natural sentences, as a basis for the searches.

        Each model scores the natural sentences from which searches for or against this model start.
        If its scores are standardised, it also scores a sample of sentences from which their
        standard deviation is computed.
        """
        tasks = []
        for spec, model in self.run.all_models.items():
            sentences = list(self._scale_sentences) if spec in self._scaled_models else []
            for goal, starts in self.starts_by_goal.items():
                for contrast in self.options.build_contrasts(goal):
                    if spec in contrast.names:
                        sentences += starts
            unique_sentences = list(dict.fromkeys(sentences))
            tasks += create_score_tasks([model], unique_sentences, self.run.versions)
        return tasks

    def apply_scores(self) -> None:
        """Prepare the searches with the scores of the natural sentences (see `score_tasks`).

        Natural sentences that a model could not score are dropped. If a contrast has several
        rejecting models, the standard deviations of their scores are computed.

        Raises
        ------
        InfeasibleError
            If the search starts at the natural sentences and one of them violates a constraint.
        """
        if self._scales is not None:
            return
        scores = {
            spec: {sentence: row.score for sentence, row in self.run.read_scores(spec).items()}
            for spec in self.run.all_models
        }
        self._scales = {}
        for spec in sorted(self._scaled_models):
            values = [scores[spec][s] for s in self._scale_sentences if s in scores[spec]]
            self._scales[spec] = standard_deviation(spec, values)

        scored_starts = {}
        for goal, starts in self.starts_by_goal.items():
            contrasts = self.options.build_contrasts(goal)
            specs = dict.fromkeys(spec for contrast in contrasts for spec in contrast.names)
            scored_starts[goal] = [s for s in starts if all(s in scores[spec] for spec in specs)]
            if not self.options.parsed_strategy.starts_at_natural:
                continue
            for sentence in scored_starts[goal]:
                natural_scores = {spec: scores[spec][sentence] for spec in specs}
                for contrast in contrasts:
                    parsed = Sentence.parse(sentence, self.run.language)
                    require_feasible_start(parsed, contrast.constraints, natural_scores)
        self.starts_by_goal = scored_starts

    def resolve_contrast(self, contrast: ModelContrast) -> ModelContrast:
        """Complete a contrast: replace specification strings by names, and add the scales.

        The scales are the standard deviations by which the scores of several rejecting models are
        divided.
        """
        scales: tuple[float, ...] = ()
        if len(contrast.reject) > 1:
            scales = tuple((self._scales or {})[spec] for spec in contrast.reject)
        names = {spec: self.run.all_models[spec].name for spec in contrast.names}
        return replace(contrast.rename_models(names), scales=scales)

    def estimate_later_seconds(self) -> float:
        """Estimate how long one worker will take for tasks that are not known yet, in seconds."""
        return 0.0

    def describe_progress(self) -> str | None:
        """Return a line of text on the progress; None if the progress bar says everything."""
        return None

    def collect_notes(self) -> dict[str, Any]:
        """Return statistics of the results for the metadata of the table, as a dictionary."""
        return {}

    def get_task_options(self, contrast: ModelContrast) -> dict[str, Any]:
        """Return keyword arguments for the tasks that make sentences for a contrast.

        They do not depend on the natural sentence: versions, models, strategy, vocabulary and seed.
        Both search tasks (`SynthesisTask`) and sampling tasks (`SampleTask`) accept them.
        """
        models, strategy = self.run.all_models, self.options.parsed_strategy
        return {
            "versions": self.run.versions,
            "contrast": self.resolve_contrast(contrast),
            "models": tuple(models[spec] for spec in contrast.names),
            "strategy_records": tuple(models[spec] for spec in strategy.models),
            "vocabulary": self.run.vocabulary.digest,
            "strategy": format_strategy(strategy),
            "package": self.options.package,
            "seed": self.run.plan.study.seed,
        }

    def create_task(
        self,
        contrast: ModelContrast,
        sentence: str,
        attempt: int = 0,
        excluded_words: tuple[str, ...] = (),
    ) -> SynthesisTask:
        """Return the task that searches for one synthetic sentence.

        Parameters
        ----------
        contrast
            Rejecting and accepting models, and constraints.
        sentence
            Natural sentence from which the search starts.
        attempt
            Number of the attempt, from 0, which changes the random numbers.
        excluded_words
            Case-folded words that must not be used.
        """
        return SynthesisTask(
            **self.get_task_options(contrast),
            sentence=sentence,
            attempt=attempt,
            excluded_words=excluded_words,
            has_word_limit=self.options.max_word_share < 1,
        )

    def tasks(self) -> list[Task]:
        """Return all tasks that are known so far, in the order of their execution."""
        tasks = list[Task]()
        for goal in self.starts_by_goal:
            for sentence, excluded_words in self._find_excluded_words(goal).items():
                sentence_tasks, _ = self._collect(goal, sentence, excluded_words)
                tasks += sentence_tasks
        return tasks

    def find_rows(self, goal: Goal, sentence: str) -> Sequence[Row] | None:
        """Return the table rows of one natural sentence, or None if they can still change."""
        if goal not in self._final_exclusions and self.options.max_word_share < 1:
            return None
        excluded_words = self._find_excluded_words(goal)[sentence]
        _, rows = self._collect(goal, sentence, excluded_words)
        return rows if (goal, sentence, excluded_words) in self._finished else None

    def rows(self) -> Iterator[Row]:
        """Yield the table rows that are known so far, in the order of the tasks."""
        for goal, starts in self.starts_by_goal.items():
            excluded_words = self._find_excluded_words(goal)
            for sentence in starts:
                if sentence in excluded_words:
                    _, rows = self._collect(goal, sentence, excluded_words[sentence])
                    yield from rows

    def _find_excluded_words(self, goal: Goal) -> ExcludedWords:
        """Find the words that the synthetic sentences for some models must not contain.

        A word is excluded once too many synthetic sentences contain it (`WordShareLimit`). The
        excluded words of a natural sentence therefore depend on the results for earlier sentences.

        Parameters
        ----------
        goal
            Contrasts (rejecting and accepting models) of the synthetic sentences.

        Returns
        -------
        dict
            Mapping from natural sentence to its excluded words, up to the first batch of sentences
            with an unfinished task.
        """
        if goal in self._final_exclusions:
            return self._final_exclusions[goal]
        options, store = self.options, self.run.store
        natural = list(dict.fromkeys(self.starts_by_goal[goal]))
        if options.max_word_share == 1:
            self._final_exclusions[goal] = dict.fromkeys(natural, ())
            return self._final_exclusions[goal]

        # Go through all finished batches again, and stop at the first unfinished task.
        n_per_natural = len(goal) * options.per_sentence
        limit = WordShareLimit(natural, n_per_natural, options.max_word_share, self.run.vocabulary)
        exclusions, has_errors = ExcludedWords(), False
        while True:
            numbers, words = limit.next_batch()
            if not numbers:
                break
            sentences = [natural[number] for number in numbers]
            excluded_words = tuple(sorted(words))
            exclusions |= dict.fromkeys(sentences, excluded_words)
            synthetic = []
            for sentence in sentences:
                tasks, rows = self._collect(goal, sentence, excluded_words)
                if (goal, sentence, excluded_words) not in self._finished:
                    missing = [task for task in tasks if not task.is_done(store)]
                    if not any(map(store.read_error, missing)):
                        return exclusions
                    has_errors = True  # A task was given up. Continue with the other sentences.
                synthetic.append([text for row in rows for text in row.synthetic_sentences])
            limit.accept(synthetic)
        if not has_errors:
            self._final_exclusions[goal] = exclusions
        return exclusions

    def _collect(
        self, goal: Goal, sentence: str, excluded_words: tuple[str, ...]
    ) -> tuple[list[SynthesisTask], Sequence[Row]]:
        """Return the tasks and the table rows of one natural sentence that are known so far.

        If all attempts are finished but did not give enough different triplets, the tasks of a
        further attempt are added.

        Parameters
        ----------
        goal
            Contrasts for which the natural sentence needs synthetic sentences.
        sentence
            Natural sentence.
        excluded_words
            Case-folded words that must not be used.
        """
        key = goal, sentence, excluded_words
        if key in self._finished:
            return self._finished[key]
        options, store, tasks = self.options, self.run.store, list[SynthesisTask]()
        contrasts = options.build_contrasts(goal)

        def read_attempts() -> Iterator[Sequence[Synthesis]]:
            """Yield the results of each finished attempt, and append its tasks to `tasks`."""
            for attempt in range(max_attempts(options.per_sentence)):
                new_tasks = [
                    self.create_task(contrast, sentence, attempt, excluded_words)
                    for contrast in contrasts
                ]
                tasks.extend(new_tasks)
                if not all(task.is_done(store) for task in new_tasks):
                    return
                yield [parse_synthesis(store.read_result(task.key)) for task in new_tasks]

        rows = self.make_rows(goal, read_attempts())
        if all(task.is_done(store) for task in tasks):
            self._finished[key] = tasks, rows
        return tasks, rows

    def make_rows(self, goal: Goal, attempts: Iterable[Sequence[Synthesis]]) -> Sequence[Row]:
        """Convert the results for one natural sentence to rows of the table.

        Results without an improvement over the natural sentence are left out.

        Parameters
        ----------
        goal
            Contrasts of the synthetic sentences.
        attempts
            Results of each attempt, one per contrast of the goal. The iterable is read only until
            enough different triplets are found.

        Returns
        -------
        sequence of Triplet or ContrastRow
            Rows of one natural sentence.
        """
        options = self.options
        if options.makes_triplets:
            pairs = ((first, second) for first, second in attempts)
            return distinct_triplets(pairs, options.per_sentence, options.minimum_drop)
        contrasts = map(self.resolve_contrast, options.build_contrasts(goal))
        return [
            ContrastRow.from_synthesis(contrast.reject, contrast.accept, synthesis)
            for contrast, synthesis in zip(contrasts, next(iter(attempts), ()), strict=False)
            if synthesis.is_improved
        ]
