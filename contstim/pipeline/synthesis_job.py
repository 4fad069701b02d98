"""Synthesis of sentences in a run: natural sentences, tasks and rows of the table."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from contstim.files import json_digest
from contstim.pipeline.stages import Run
from contstim.pipeline.synthesis_options import SynthesisOptions
from contstim.pipeline.tasks import ScoreTask, SynthesisTask, Task, create_score_tasks, parse_result
from contstim.synthesis import format_strategy
from contstim.synthesis.problem import (
    ProblemDefinition,
    require_feasible_natural,
    require_two_words,
    standard_deviation,
)
from contstim.synthesis.results import (
    Row,
    SentenceRow,
    SynthesisResult,
    make_distinct_triplets,
    max_attempts,
)
from contstim.text import Sentence, pool
from contstim.text.diversity import WordShareLimit
from contstim.text.languages import ENGLISH

#: Synthesis problems solved for the same natural sentence: two for a triplet, otherwise one.
Problems = tuple[ProblemDefinition, ...]

#: Mapping from natural sentence to the case-folded words that its synthetic sentences must avoid.
ExcludedWords = dict[str, tuple[str, ...]]

#: Number of natural sentences below which bundled sentences are added, for prompts and for the
#: standard deviations of scores.
MIN_SENTENCES = 30


@dataclass(eq=False)
class SynthesisJob:
    """Synthesis of sentences by a separate search for each synthetic sentence.

    A search changes words of a natural sentence until some models, the rejecting models, find it
    improbable, while the accepting models still find it probable. These models and further
    constraints form a *synthesis problem*. For each natural sentence, a tuple of problems is
    solved: two problems for a triplet, with the roles of the two models exchanged, otherwise one.

    Attributes
    ----------
    run
        Run of the study, with its models and the results so far.
    sentences_by_problems
        Mapping from each tuple of problems to the natural sentences for which the problems are
        solved.
    """

    run: Run
    sentences_by_problems: Mapping[Problems, Sequence[str]] = field(init=False)
    # Mapping from model specification string to the standard deviation of the model's scores of
    # natural sentences; None until the scores are known.
    _standard_deviations: dict[str, float] | None = field(default=None, init=False)
    # Mapping from (problems, natural sentence, excluded words) to tasks and table rows, for all
    # natural sentences without unfinished tasks.
    _finished: dict[Any, tuple[list[SynthesisTask], Sequence[Row]]] = field(
        default_factory=dict, init=False
    )
    # Excluded words for each tuple of problems, as soon as they cannot change any more.
    _final_exclusions: dict[Problems, ExcludedWords] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        run, options, seed = self.run, self.options, self.run.plan.study.seed
        # Check that each sentence has two words, and the positions to which limits on edits refer.
        for sentence in run.sentences:
            require_two_words(sentence, run.language)
            options.parsed_edits.check(Sentence.parse(sentence, run.language))

        # Allocate natural sentences to each tuple of synthesis problems, in one of three ways:
        # every tuple gets all sentences in order ("all"), each sentence belongs to one tuple
        # ("partitioned"), or every tuple gets all sentences in its own random order ("shared").
        problem_sets, n_sentences = options.list_problems(run.plan.models), len(run.sentences)
        partition_order = np.random.default_rng(seed).permutation(n_sentences)
        sentences_by_problems = {}
        for number, problems in enumerate(problem_sets):
            if options.allocation == "all":
                order = np.arange(n_sentences)
            elif options.allocation == "partitioned":
                order = partition_order[number :: len(problem_sets)]
            else:
                # Derive the seed from the names of the models, so that the order does not depend on
                # the other models of the study.
                specs = dict[str, None]()
                for problem in reversed(problems):
                    specs |= dict.fromkeys((*problem.reject, *problem.accept))
                model_digest = json_digest([run.all_models[spec].name for spec in specs])
                rng = np.random.default_rng([seed, int(model_digest, 16)])
                order = rng.permutation(n_sentences)
            sentences = [run.sentences[i] for i in order[: options.n_candidates]]
            sentences_by_problems[problems] = sentences
        self.sentences_by_problems = sentences_by_problems

    @property
    def canonical_specs(self) -> dict[str, str]:
        """Mapping from the name of a model in tables to its canonical specification string."""
        return {model.name: model.spec for model in self.run.all_models.values()}

    @property
    def options(self) -> SynthesisOptions:
        """Options of the synthesis."""
        return self.run.plan.get_options(SynthesisOptions)

    @property
    def task_strategy(self) -> str:
        """Name of the strategy with the options that affect the result of a single task."""
        return format_strategy(self.options.parsed_strategy)

    @property
    def inputs(self) -> list[tuple[Problems, str]]:
        """Problems and natural sentence of each row or group of rows in the table, in order."""
        return [(p, s) for p, sentences in self.sentences_by_problems.items() for s in sentences]

    @property
    def n_expected_tasks(self) -> int:
        """Number of search tasks if no search has to be repeated with other random numbers."""
        return self.options.per_sentence * sum(len(problems) for problems, _ in self.inputs)

    @property
    def n_requested_rows(self) -> int:
        """Maximum number of rows of the table."""
        return sum(map(self.count_requested_rows, self.sentences_by_problems.values()))

    def count_requested_rows(self, sentences: Sequence[str]) -> int:
        """Return the maximum number of rows for one tuple of problems and its `sentences`."""
        return len(sentences[: self.options.per_pair]) * self.options.per_sentence

    @property
    def needs_scores(self) -> bool:
        """Whether the tasks depend on the scores of the natural sentences."""
        return bool(self.options.bounds or self._scaled_models)

    @cached_property
    def _scaled_models(self) -> set[str]:
        """Specification strings of the models whose scores are standardised.

        If a synthetic sentence should be improbable under several models, the scores of these
        models must have the same scale. They are then divided by their standard deviation over
        natural sentences.
        """
        scaled_models = set[str]()
        for problem in itertools.chain(*self.sentences_by_problems):
            if len(problem.reject) > 1:
                scaled_models.update(problem.reject)
        return scaled_models

    @cached_property
    def supplement(self) -> list[str]:
        """Bundled English sentences, if the natural sentences are English and fewer than 30."""
        is_small = len(self.run.sentences) < MIN_SENTENCES and self.run.language is ENGLISH
        return pool() if is_small else []

    @cached_property
    def _standardisation_sample(self) -> list[str]:
        """Sentences for computing the standard deviation of the scores of each model."""
        return list(dict.fromkeys([*self.run.sentences, *self.supplement[:MIN_SENTENCES]]))

    def score_tasks(self) -> list[ScoreTask]:
        """Return the tasks that score natural sentences, as a basis for the searches.

        Each model scores the natural sentences of all problems in which the model occurs. If its
        scores are standardised, it also scores a sample of sentences from which their standard
        deviation is computed.
        """
        tasks = []
        for spec, model in self.run.all_models.items():
            # If the scores of a model are standardised, it also scores the sample of sentences from
            # which the standard deviation is computed.
            sentences = list(self._standardisation_sample) if spec in self._scaled_models else []
            for problems, problem_sentences in self.sentences_by_problems.items():
                if any(spec in problem.names for problem in problems):
                    sentences += problem_sentences
            unique_sentences = list(dict.fromkeys(sentences))
            tasks += create_score_tasks([model], unique_sentences, self.run.versions)
        return tasks

    def prepare_searches(self) -> None:
        """Prepare the searches for synthetic sentences.

        A search looks for a sentence that some models reject and others accept; these models and
        further constraints are called a *problem*. Natural sentences must have been scored before.

        1. If several models should reject a sentence, compute the standard deviation of each
           model's scores. Scores are divided by it, so that the models are on the same scale.
        2. Drop the natural sentences that lack a score under at least one model of their problems.
        3. Check that the remaining natural sentences satisfy the constraints, if the searches start
           from them.

        Raises
        ------
        InfeasibleError
            If a search starts from a natural sentence that violates a constraint.
        """
        if self._standard_deviations is not None:
            return  # The searches have been prepared by an earlier call.
        scores_by_spec = {
            spec: {sentence: row.score for sentence, row in self.run.read_scores(spec).items()}
            for spec in self.run.all_models
        }
        # Compute the standard deviations that give the scores of several models the same scale.
        self._standard_deviations = {}
        for spec in sorted(self._scaled_models):
            scores = scores_by_spec[spec]
            values = [scores[s] for s in self._standardisation_sample if s in scores]
            self._standard_deviations[spec] = standard_deviation(spec, values)

        # Keep the natural sentences that have a score under all models of their problems.
        starts_at_natural = self.options.parsed_strategy.starts_at_natural
        scored_sentences: dict[Problems, list[str]] = {}
        for problems, sentences in self.sentences_by_problems.items():
            specs = list(dict.fromkeys(spec for problem in problems for spec in problem.names))
            scored_sentences[problems] = []
            for sentence in sentences:
                if any(sentence not in scores_by_spec[spec] for spec in specs):
                    continue
                scored_sentences[problems].append(sentence)
                if starts_at_natural:
                    parsed = Sentence.parse(sentence, self.run.language)
                    natural_scores = {spec: scores_by_spec[spec][sentence] for spec in specs}
                    for problem in problems:
                        require_feasible_natural(parsed, problem.constraints, natural_scores)
        self.sentences_by_problems = scored_sentences

    def resolve_problem(self, problem: ProblemDefinition) -> ProblemDefinition:
        """Return a synthesis problem with the names of its models and the scales of their scores.

        Parameters
        ----------
        problem
            Problem with models given by specification string, for example ``hf:gpt2``.

        Returns
        -------
        ProblemDefinition
            Problem with models given by their names in tables. If the synthetic sentence should be
            improbable under several models, the scales are the standard deviations by which their
            scores are divided.
        """
        scales: tuple[float, ...] = ()
        if len(problem.reject) > 1:
            scales = tuple((self._standard_deviations or {})[spec] for spec in problem.reject)
        names = {spec: self.run.all_models[spec].name for spec in problem.names}
        return replace(problem.rename_models(names), scales=scales)

    def describe_progress(self) -> str | None:
        """Return a line of text on the progress; None if the progress bar says everything."""
        return None

    def collect_notes(self) -> dict[str, Any]:
        """Return statistics of the results for the metadata of the table, as a dictionary."""
        return {}

    def get_task_options(self, problem: ProblemDefinition) -> dict[str, Any]:
        """Return the keyword arguments that all tasks for a synthesis problem have in common.

        The arguments do not depend on the natural sentence. They contain the problem, the package
        versions, the models, the search strategy, the vocabulary and the seed.

        Parameters
        ----------
        problem
            Models under which the synthetic sentence should be improbable or remain probable, and
            constraints.

        Returns
        -------
        dict
            Keyword arguments for `SynthesisTask` and `SampleTask`.
        """
        models, strategy = self.run.all_models, self.options.parsed_strategy
        # These arguments determine the results of a task. Models are identified by records, and the
        # vocabulary by its digest.
        return {
            "versions": self.run.versions,
            "definition": self.resolve_problem(problem),
            "models": tuple(models[spec] for spec in problem.names),
            "strategy_records": tuple(models[spec] for spec in strategy.models),
            "vocabulary": self.run.vocabulary.digest,
            "strategy": self.task_strategy,
            "package": self.options.package,
            "seed": self.run.plan.study.seed,
        }

    def create_task(
        self,
        problem: ProblemDefinition,
        sentence: str,
        attempt: int = 0,
        excluded_words: tuple[str, ...] = (),
    ) -> SynthesisTask:
        """Return the task that searches for one synthetic sentence.

        Parameters
        ----------
        problem
            Models under which the synthetic sentence should be improbable or remain probable, and
            constraints.
        sentence
            Natural sentence from which the search starts.
        attempt
            Index of the search, if several searches start from this sentence. Each search uses
            different random numbers.
        excluded_words
            Case-folded words that must not occur in the synthetic sentence.
        """
        return SynthesisTask(
            **self.get_task_options(problem),
            sentence=sentence,
            attempt=attempt,  # selects the random numbers
            excluded_words=excluded_words,
            has_word_limit=self.options.max_word_share < 1,
        )

    def tasks(self) -> list[Task]:
        """Return all tasks that are known so far, in the order of their execution."""
        tasks = list[Task]()
        for problems in self.sentences_by_problems:
            for sentence, excluded_words in self._find_excluded_words(problems).items():
                sentence_tasks, _ = self._collect_results(problems, sentence, excluded_words)
                tasks += sentence_tasks
        return tasks

    def find_rows(self, problems: Problems, sentence: str) -> Sequence[Row] | None:
        """Return the table rows of one natural sentence, or None if they can still change."""
        if problems not in self._final_exclusions and self.options.max_word_share < 1:
            return None
        excluded_words = self._find_excluded_words(problems)[sentence]
        _, rows = self._collect_results(problems, sentence, excluded_words)
        return rows if (problems, sentence, excluded_words) in self._finished else None

    def rows(self) -> Iterator[Row]:
        """Yield the table rows that are known so far, in the order of the tasks."""
        for problems, sentences in self.sentences_by_problems.items():
            excluded_words = self._find_excluded_words(problems)
            for sentence in sentences:
                if sentence in excluded_words:
                    _, rows = self._collect_results(problems, sentence, excluded_words[sentence])
                    yield from rows

    def _find_excluded_words(self, problems: Problems) -> ExcludedWords:
        """Find the words that must not be used again because too many sentences contain them.

        Natural sentences are processed in batches. The words that are excluded for a batch depend
        on the synthetic sentences of all previous batches. While a batch is unfinished, the
        excluded words of later batches are unknown.

        Parameters
        ----------
        problems
            Synthesis problems that are solved for each natural sentence.

        Returns
        -------
        dict
            Mapping from natural sentence to the words that its synthetic sentences must not
            contain. It contains the sentences of the finished batches and of the next batch.
        """
        if problems in self._final_exclusions:
            return self._final_exclusions[problems]
        options, store = self.options, self.run.store
        natural = list(dict.fromkeys(self.sentences_by_problems[problems]))
        if options.max_word_share == 1:
            self._final_exclusions[problems] = dict.fromkeys(natural, ())
            return self._final_exclusions[problems]

        # Repeat the decisions for all finished batches, and stop at the first unfinished task.
        n_per_natural = len(problems) * options.per_sentence
        limit = WordShareLimit(natural, n_per_natural, options.max_word_share, self.run.vocabulary)
        exclusions, has_errors = ExcludedWords(), False
        while True:
            indices, words = limit.next_batch()
            if not indices:
                break
            sentences = [natural[index] for index in indices]
            excluded_words = tuple(sorted(words))
            exclusions |= dict.fromkeys(sentences, excluded_words)
            synthetic = []
            for sentence in sentences:
                tasks, rows = self._collect_results(problems, sentence, excluded_words)
                if (problems, sentence, excluded_words) not in self._finished:
                    missing = [task for task in tasks if not task.is_done(store)]
                    if not any(map(store.read_error, missing)):
                        return exclusions
                    has_errors = True  # A task was given up. Continue with the other sentences.
                synthetic.append([text for row in rows for text in row.synthetic_sentences])
            limit.accept(synthetic)
        if not has_errors:
            self._final_exclusions[problems] = exclusions
        return exclusions

    def _collect_results(
        self, problems: Problems, sentence: str, excluded_words: tuple[str, ...]
    ) -> tuple[list[SynthesisTask], Sequence[Row]]:
        """Return the search tasks and the finished table rows for one natural sentence.

        Searches are repeated with different random numbers until they have found enough different
        triplets. The tasks of the next search are therefore known only after the previous search.

        Parameters
        ----------
        problems
            Synthesis problems to solve for the natural sentence.
        sentence
            Natural sentence from which the searches start.
        excluded_words
            Case-folded words that must not occur in the synthetic sentences.

        Returns
        -------
        tasks : list of SynthesisTask
            Search tasks that are known so far, finished or not.
        rows : sequence of Triplet or SentenceRow
            Rows of the table that the finished searches have yielded.
        """
        key = problems, sentence, excluded_words
        # Reading results is slow. Return the stored rows if all searches have been finished.
        if key in self._finished:
            return self._finished[key]
        tasks = list[SynthesisTask]()
        rows = self.make_rows(problems, self._iter_results(*key, tasks))
        if all(task.is_done(self.run.store) for task in tasks):
            self._finished[key] = tasks, rows
        return tasks, rows

    def _iter_results(
        self,
        problems: Problems,
        sentence: str,
        excluded_words: tuple[str, ...],
        tasks: list[SynthesisTask],
    ) -> Iterator[Sequence[SynthesisResult]]:
        """Yield the results of repeated searches, and stop at the first unfinished search.

        Each yielded list contains one result per synthesis problem. The search tasks that were
        looked up, finished or not, are appended to `tasks`.
        """
        store = self.run.store
        # Each attempt uses different random numbers. The caller stops reading when it has enough
        # results.
        for attempt in range(max_attempts(self.options.per_sentence)):
            new_tasks = [
                self.create_task(problem, sentence, attempt, excluded_words) for problem in problems
            ]
            tasks.extend(new_tasks)
            if not all(task.is_done(store) for task in new_tasks):
                return
            yield [parse_result(store.read_result(task.key)) for task in new_tasks]

    def make_rows(
        self, problems: Problems, results: Iterable[Sequence[SynthesisResult]]
    ) -> Sequence[Row]:
        """Convert the results of searches for one natural sentence to rows of the table.

        Results that do not improve on the natural sentence are left out.

        Parameters
        ----------
        problems
            Synthesis problems that were solved for the natural sentence: two for a triplet,
            otherwise one.
        results
            Sequences with one result per problem. The iterable is read only until enough different
            triplets have been found.

        Returns
        -------
        sequence of Triplet or SentenceRow
            Rows of one natural sentence.
        """
        options = self.options
        if options.makes_triplets:
            # A triplet is the natural sentence with the results of two problems.
            pairs = ((first, second) for first, second in results)
            return make_distinct_triplets(pairs, options.per_sentence, options.minimum_drop)
        # Otherwise, the first result of each problem becomes a row, unless the search has found
        # nothing better than the natural sentence.
        named_problems = map(self.resolve_problem, problems)
        return [
            SentenceRow.from_result(problem.reject, problem.accept, result)
            for problem, result in zip(named_problems, next(iter(results), ()), strict=False)
            if result.is_improved
        ]
