"""Tasks of a run: score sentences, search for a synthetic sentence, sample a batch of sentences.

A task contains everything that its result depends on, and is identified by a digest of this record,
its key. Random numbers are derived from the task, so that the result depends neither on the order
of execution nor on the machine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from contstim.errors import BudgetError, EngineError, InputError
from contstim.files import json_digest
from contstim.models.devices import limit_torch_threads
from contstim.pipeline.model_records import ModelRecord
from contstim.synthesis import parse_strategy, synthesize
from contstim.synthesis.problem import Problem, ProblemDefinition
from contstim.synthesis.results import Step, SynthesisResult

if TYPE_CHECKING:
    from contstim.models.base import SentenceModel
    from contstim.pipeline.store import RunStore
    from contstim.pipeline.worker import Worker
    from contstim.synthesis.sample import GuidedSampling
    from contstim.synthesis.writer import SentenceForm

#: Maximum number of sentences of a scoring task.
SCORE_BATCH_SIZE = 256


@dataclass(frozen=True, eq=False)
class Task(ABC):
    """Base class of tasks, the smallest parts of a run that workers execute separately.

    A task contains everything on which its result depends.

    Attributes
    ----------
    kind
        Name of the kind of task: ``score``, ``synthesis`` or ``sample``.
    versions
        Mapping from package name to version, for all packages that results depend on.
    models
        Records that identify the models that the task uses.
    """

    kind: ClassVar[str]
    versions: Mapping[str, str]
    models: tuple[ModelRecord, ...]

    @cached_property
    def record(self) -> dict[str, Any]:
        """Everything that the result depends on, as JSON values."""
        return {"task": self.kind, **asdict(self)}

    @cached_property
    def key(self) -> str:
        """Digest of the record, 32 hexadecimal digits, by which the task is identified."""
        return json_digest(self.record)

    @property
    def model_group(self) -> str:
        """Text that is equal for tasks that load the same models."""
        return "\n".join(sorted(model.plan_spec for model in self.models))

    @property
    def shard_key(self) -> str:
        """Hexadecimal digest that determines the shard of the task.

        A shard is a part of the tasks that a separate command executes. Tasks that can depend on
        each other's results have the same digest.
        """
        return self.key

    def is_done(self, store: RunStore) -> bool:
        """Return whether the store contains the result of the task."""
        return store.has_result(self.key)

    @abstractmethod
    def execute(self, worker: Worker) -> dict[str, Any] | None:
        """Execute the task, and return its result as JSON values.

        Returns None if the task writes its result to the score cache.
        """


@dataclass(frozen=True, eq=False)
class ScoreTask(Task):
    """Task that scores a batch of sentences under one model and adds them to the score cache.

    Attributes
    ----------
    sentences
        Sentences of the batch.
    """

    kind: ClassVar[str] = "score"
    sentences: tuple[str, ...]

    @property
    def model(self) -> ModelRecord:
        """Record of the model."""
        return self.models[0]

    def is_done(self, store: RunStore) -> bool:  # noqa: D102
        scores = store.score_cache.read(self.model.identity(self.versions))
        return all(sentence in scores for sentence in self.sentences)

    def execute(self, worker: Worker) -> None:
        """Score the sentences of the task and add the scores to the score cache.

        Parameters
        ----------
        worker
            Worker that loads the model and provides the cache.

        Raises
        ------
        InputError
            If there is a sentence that the model cannot score, for example because of an unknown
            word. The scores of all other sentences are added to the cache nevertheless.
        """
        cache, identity = worker.store.score_cache, self.model.identity(self.versions)
        # Score only the sentences that are not in the cache yet.
        scores = cache.read(identity)
        missing = [sentence for sentence in self.sentences if sentence not in scores]
        if not missing:
            return
        (model,) = worker.load_models(self)
        errors: list[str] = []
        # Score all sentences in one batch. After an error, append one batch per sentence to the
        # list, to find the sentences that the model cannot score.
        batches = [missing]
        with limit_torch_threads(worker.context.n_threads):
            for batch in batches:
                try:
                    cache.add(identity, batch, model.score_with_counts(batch))
                except EngineError:
                    raise  # The inference engine failed; the sentences are not the cause.
                except InputError as error:
                    if len(batch) > 1:
                        batches.extend([sentence] for sentence in batch)
                    else:
                        errors.append(f"{batch[0]!r}: {error}")
        if errors:
            raise InputError(
                f"{len(errors)} of {len(self.sentences)} sentences have no score: {errors[0]}"
            )

    def __str__(self) -> str:
        return (
            f"score {len(self.sentences)} sentences under {self.model.name}, starting with "
            f"{self.sentences[0]!r}"
        )


def create_score_tasks(
    models: Sequence[ModelRecord], sentences: Sequence[str], versions: Mapping[str, str]
) -> list[ScoreTask]:
    """Return the tasks that score sentences under each model, one task per batch of sentences.

    Parameters
    ----------
    models
        Records that identify the models.
    sentences
        Sentences to score. A batch contains at most `SCORE_BATCH_SIZE` of them.
    versions
        Mapping from package name to version, for the packages that scores depend on.

    Returns
    -------
    list of ScoreTask
        Tasks in the order of the models, then of the sentences.
    """
    return [
        ScoreTask(versions, (model,), tuple(sentences[start : start + SCORE_BATCH_SIZE]))
        for model in models
        for start in range(0, len(sentences), SCORE_BATCH_SIZE)
    ]


@dataclass(frozen=True, eq=False, kw_only=True)
class ProblemTask(Task):
    """Base class of tasks that synthesize sentences on which models disagree.

    Some models should find the sentences improbable (rejecting models), others probable (accepting
    models). The attribute `models` contains one record for each of these models.

    Attributes
    ----------
    definition
        Synthesis problem: loss and constraints, with models given by name.
    strategy_records
        Records of further models that the search strategy uses, for example to propose words.
    vocabulary
        Digest that identifies the vocabulary, the list of words that the sentences may contain.
    strategy
        Name and options of the strategy, for example ``edit?candidates=8``.
    package
        Name and version of the package that provides the strategy. Empty for a strategy of this
        package.
    seed
        Random seed.
    """

    definition: ProblemDefinition
    strategy_records: tuple[ModelRecord, ...]
    vocabulary: str
    strategy: str
    package: str
    seed: int

    def load_problem(self, worker: Worker) -> Problem:
        """Return the synthesis problem, with models that the worker loads."""
        problem = build_problem(self.definition, worker.load_models(self))
        worker.prepare_strategy_models(self.strategy_records)
        return problem

    def format_models(self) -> str:
        """Name the models that should find the sentence improbable or probable, for messages."""
        reject = " and ".join(self.definition.reject)
        accept = " and ".join(self.definition.accept)
        return f"rejected by {reject}, accepted by {accept}"


@dataclass(frozen=True, eq=False, kw_only=True)
class SynthesisTask(ProblemTask):
    """Task that searches for one synthetic sentence, starting from a natural sentence.

    Attributes
    ----------
    sentence
        Natural sentence from which the search starts.
    attempt
        Index of the search, if several searches start from the same natural sentence. Each search
        uses different random numbers.
    excluded_words
        Case-folded words that must not be used, because too many synthetic sentences already
        contain them.
    has_word_limit
        Whether the fraction of synthetic sentences that may contain the same word is limited.
    """

    kind: ClassVar[str] = "synthesis"
    sentence: str
    attempt: int = 0
    excluded_words: tuple[str, ...] = ()
    has_word_limit: bool = False

    @property
    def shard_key(self) -> str:  # noqa: D102
        if self.has_word_limit:
            return json_digest([self.model_group])
        # Both sentences of a triplet share their number of attempts, so they need the same shard.
        return json_digest([self.model_group, self.sentence])

    def execute(self, worker: Worker) -> dict[str, Any]:  # noqa: D102
        problem = self.load_problem(worker)
        with limit_torch_threads(worker.context.n_threads):
            # The synthetic sentence may contain the words that all models know.
            vocabulary = worker.get_shared_vocabulary(self, self.vocabulary, self.excluded_words)
            synthesis = synthesize(
                self.sentence,
                problem=problem,
                strategy=self.strategy,
                seed=self.seed,
                attempt=self.attempt,
                shared_vocabulary=vocabulary,
            )
        if synthesis.stopped:
            # A limit on requests to a model ended the search. The next run repeats the search.
            raise BudgetError(synthesis.stopped)
        return asdict(synthesis)

    def __str__(self) -> str:
        return f"synthesize from {self.sentence!r}, {self.format_models()}"


@dataclass(frozen=True, eq=False, kw_only=True)
class SampleTask(ProblemTask):
    """Task that samples a batch of sentences from a language model.

    The prompt of the language model consists of randomly drawn natural sentences. The compared
    models guide the choice of each word (`GuidedSampling`).

    Attributes
    ----------
    sentence_form
        Permitted numbers of words and punctuation marks of the sampled sentences.
    prompt_sentences
        Natural sentences from which the sentences of the prompt are drawn.
    batch
        Index of the batch. Each batch uses different random numbers.
    """

    kind: ClassVar[str] = "sample"
    sentence_form: SentenceForm
    prompt_sentences: tuple[str, ...]
    batch: int

    def execute(self, worker: Worker) -> dict[str, Any]:  # noqa: D102
        # Sample a batch of sentences from a language model, guided by the models of the problem.
        problem = self.load_problem(worker)
        strategy = cast("GuidedSampling", parse_strategy(self.strategy))
        vocabulary = worker.get_shared_vocabulary(self, self.vocabulary)
        # Derive a part of the seed from the names of the models. Batches with the same index for
        # different models then contain different sentences.
        model_digest = json_digest([self.definition.reject, self.definition.accept])
        rng = np.random.default_rng([self.seed, self.batch, int(model_digest[:16], 16)])
        form, prompts = self.sentence_form, self.prompt_sentences
        with limit_torch_threads(worker.context.n_threads):
            batch = strategy.sample_batch(problem, vocabulary, form, prompts, rng)
        # Drafts are the sampled sentences with their log-probabilities under the language model.
        return {
            "drafts": [asdict(draft) for draft in batch.drafts],
            "batch_tolerance": {
                model.name: model.batch_tolerance for model in problem.bound_models
            },
            "non_guiding_models": list(batch.non_guiding_models),
        }

    def __str__(self) -> str:
        return f"sample batch {self.batch}, {self.format_models()}"


def build_problem(definition: ProblemDefinition, models: Sequence[SentenceModel]) -> Problem:
    """Return a synthesis problem with loaded models in place of their names.

    Parameters
    ----------
    definition
        Problem with models given by name.
    models
        All models that `definition` names.
    """
    models_by_name = {model.name: model for model in models}
    # Replace the names of the models that should find a sentence improbable (reject it) or probable
    # (accept it) by the loaded models. All other parts of the problem stay the same.
    return Problem(
        reject=tuple(models_by_name[name] for name in definition.reject),
        accept=tuple(models_by_name[name] for name in definition.accept),
        margin=definition.margin,
        bounds=definition.bounds,
        edits=definition.edits,
        scales=definition.scales,
        bound_models=tuple(models),
    )


def parse_result(result: Mapping[str, Any]) -> SynthesisResult:
    """Convert the result of a `SynthesisTask` from JSON values to a `SynthesisResult`."""

    def restore_tuples(values: Mapping[str, Any]) -> dict[str, Any]:
        """Convert lists, as which JSON stores tuples, to tuples."""
        return {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}

    steps = tuple(Step(**restore_tuples(step)) for step in result["steps"])
    return SynthesisResult(**{**restore_tuples(result), "steps": steps})
