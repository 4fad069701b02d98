"""The kinds of tasks: scores of some sentences, and one synthesis.

Chance comes from the task itself, so the same task gives the same result in any order and wherever
it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from contstim.errors import BudgetError, EngineError, InputError
from contstim.files import json_digest
from contstim.models.devices import limit_torch_threads
from contstim.pipeline.work import ModelRecord, RunStore, Task, Worker
from contstim.synthesis import parse_strategy, synthesize
from contstim.synthesis.problem import ModelContrast, Problem
from contstim.synthesis.results import Step, Synthesis

if TYPE_CHECKING:
    from contstim.models.base import SentenceModel
    from contstim.synthesis.sample import GuidedSampling
    from contstim.synthesis.writer import SentenceForm

#: Sentences that one task scores, and that are committed together.
BATCH = 256


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
        refused: list[str] = []
        batches = [missing]
        with limit_torch_threads(worker.context.threads):
            for batch in batches:
                try:
                    worker.store.scores.add(self.identity, batch, model.score_with_counts(batch))
                except EngineError:  # no sentence is to blame
                    raise
                except InputError as error:
                    if len(batch) == 1:
                        refused.append(f"{batch[0]!r}: {error}")
                    else:
                        batches.extend([sentence] for sentence in batch)
        if refused:
            raise InputError(
                f"{len(refused)} of {len(self.sentences)} sentences have no score: {refused[0]}"
            )

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
    contrast
        The problem, models by their canonical specs.
    records
        Those models, in the order of the contrast's; then others that the strategy uses.
    vocabulary
        Digest of the words that may be used.
    strategy
        The strategy, with its options.
    seed, attempt
        Of the search.
    barred
        Words that the set contains as often as allowed, case-folded.
    limited
        Whether frequent words of the set limit further syntheses.
    package
        The package that provides the strategy, with its version.
    """

    kind: ClassVar[str] = "synthesis"
    contrast: ModelContrast
    records: tuple[ModelRecord, ...]
    sentence: str
    vocabulary: str
    strategy: str = "edit"
    seed: int = 0
    attempt: int = 0
    barred: tuple[str, ...] = ()
    limited: bool = False
    package: str = ""

    @property
    def models(self) -> Sequence[ModelRecord]:
        """The models of the contrast."""
        return self.records[: len(self.contrast.names)]

    @property
    def part(self) -> str:  # noqa: D102
        # Whether there is another attempt depends on both directions.
        return json_digest([self.group] if self.limited else [self.group, self.sentence])

    def do(self, worker: Worker) -> dict[str, Any]:  # noqa: D102
        problem = problem_with(self.contrast, worker.load(self))
        worker.expect(self.records[len(self.models) :])
        with limit_torch_threads(worker.context.threads):
            result = synthesize(
                self.sentence,
                problem=problem,
                strategy=self.strategy,
                seed=self.seed,
                attempt=self.attempt,
                shared_vocabulary=worker.proposal(self, self.vocabulary, self.barred),
            )
        if result.stopped:  # it is no result of the task, which the same command does again
            raise BudgetError(result.stopped)
        return asdict(result)

    def __str__(self) -> str:
        reject, accept = " and ".join(self.contrast.reject), " and ".join(self.contrast.accept)
        return f"synthesize from {self.sentence!r}, rejected by {reject}, accepted by {accept}"


@dataclass(frozen=True, eq=False)
class WriteTask(Task):
    """One batch of sentences, written after one prompt.

    Attributes
    ----------
    contrast
        The problem, models by their canonical specs.
    records
        Those models, in the order of the contrast's.
    others
        Further models that the strategy uses.
    form
        The form of the sentences.
    natural
        The sentences that prompts are drawn from.
    vocabulary
        Digest of the words that may be used.
    strategy
        The strategy, which is pooled, with its options.
    seed, batch
        The same seed and batch give the same sentences.
    package
        The package that provides the strategy, with its version.
    """

    kind: ClassVar[str] = "write"
    contrast: ModelContrast
    records: tuple[ModelRecord, ...]
    others: tuple[ModelRecord, ...]
    form: SentenceForm
    natural: tuple[str, ...]
    vocabulary: str
    strategy: str
    seed: int = 0
    batch: int = 0
    package: str = ""

    @property
    def models(self) -> Sequence[ModelRecord]:  # noqa: D102 - as Task
        return self.records

    def do(self, worker: Worker) -> dict[str, Any]:  # noqa: D102
        models = worker.load(self)
        worker.expect(self.others)
        strategy = cast("GuidedSampling", parse_strategy(self.strategy))
        proposal = worker.proposal(self, self.vocabulary)
        chance = int(json_digest([self.contrast.reject, self.contrast.accept])[:16], 16)
        rng = np.random.default_rng([self.seed, self.batch, chance])
        with limit_torch_threads(worker.context.threads):
            problem = problem_with(self.contrast, models)
            batch = strategy.sample_batch(problem, proposal, self.form, self.natural, rng)
        resolution = {model.name: model.batch_tolerance for model in models}
        return {
            "drafts": [asdict(draft) for draft in batch.drafts],
            "resolution": resolution,
            "filter_only": list(batch.filter_only),
        }

    def __str__(self) -> str:
        reject, accept = " and ".join(self.contrast.reject), " and ".join(self.contrast.accept)
        return f"write batch {self.batch}, rejected by {reject}, accepted by {accept}"


def problem_with(contrast: ModelContrast, models: Sequence[SentenceModel]) -> Problem:
    """Return the problem of a contrast, given its models."""
    by_name = {model.name: model for model in models}
    return Problem(
        tuple(by_name[name] for name in contrast.reject),
        tuple(by_name[name] for name in contrast.accept),
        contrast.margin,
        contrast.bounds,
        contrast.edits,
        contrast.scales,
        bound_models=tuple(models),
    )


def synthesis_from(record: Mapping[str, Any]) -> Synthesis:
    """Return the synthesis whose JSON form is the result of a `SynthesisTask`."""
    values = {**_tuples(record), "steps": tuple(Step(**_tuples(s)) for s in record["steps"])}
    return Synthesis(**values)


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values, JSON lists as tuples again."""
    return {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
