"""Workers: execute tasks and commit their results."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from contstim.errors import ContstimError, InputError, OutputError
from contstim.models.base import SentenceModel
from contstim.models.cache import package_versions
from contstim.pipeline.model_records import ModelCache, ModelRecord
from contstim.pipeline.store import RunStore
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.synthesis.strategy import load_cached_model
from contstim.text.vocabulary import Vocabulary, bundled_vocabulary

if TYPE_CHECKING:
    from contstim.pipeline.tasks import Task

#: Maximum number of tries of a task. Invalid input is not tried again.
MAX_TRIES = 3


@dataclass(frozen=True)
class TaskOutcome:
    """Outcome of a task.

    Attributes
    ----------
    key
        Key of the task.
    error
        Single-line error of a task that was given up; None if the result is in the store.
    """

    key: str
    error: str | None = None


@dataclass(frozen=True)
class RunContext:
    """Paths and settings that all tasks of a run share. The paths are absolute.

    Attributes
    ----------
    store_folder
        Folder of the store.
    cache_folder
        Folder of the score cache.
    plan_folder
        Folder of the study plan. It is the working folder of tasks, so that relative paths in
        model specs have the same meaning for all workers.
    vocabulary_file
        File of the vocabulary; None for the bundled one.
    n_threads
        Number of PyTorch threads.
    """

    store_folder: Path
    cache_folder: Path
    plan_folder: Path
    vocabulary_file: Path | None = None
    n_threads: int = 1


class Worker:
    """Executes tasks of a run and commits their results.

    The models and words of the last task stay in memory for the next one.

    Parameters
    ----------
    context
        Paths and settings of the run. The working folder must be `context.plan_folder`.
    models
        Cache of loaded models; by default empty.
    """

    def __init__(self, context: RunContext, models: ModelCache | None = None) -> None:
        self.context = context
        self.store = RunStore(context.store_folder, context.cache_folder)
        self._models = ModelCache() if models is None else models
        self._versions = package_versions()
        self._strategy_records: Sequence[ModelRecord] = ()

        self._vocabulary: Vocabulary | None = None
        # `Task.model_group` of the last task, and the vocabulary of its models.
        self._shared_vocabulary: tuple[str, SharedVocabulary] | None = None
        # Excluded words of the last task, and the same vocabulary without them.
        self._allowed_words: tuple[tuple[str, ...], SharedVocabulary] | None = None

    def run(self, task: Task) -> TaskOutcome:
        """Execute a task and commit its result, unless the store already has it.

        After an unexpected error the task is tried again, up to `MAX_TRIES` tries in total. The
        last error is written to the store.

        Raises
        ------
        OutputError
            If the store is not writable.
        """
        n_tries = 0
        while not task.is_done(self.store):
            n_tries += 1
            start = time.monotonic()
            try:
                self._check_versions(task)
                result = task.execute(self)
                self.store.commit(task, result, time.monotonic() - start)
            except OutputError:
                raise
            except Exception as error:  # noqa: BLE001 - an error ends its own task, not the run
                if n_tries < MAX_TRIES and not isinstance(error, ContstimError):
                    continue
                message = " ".join(f"{type(error).__name__}: {error}".split())
                self.store.write_error(task, message, traceback.format_exc())
                return TaskOutcome(task.key, message)
            break
        return TaskOutcome(task.key)

    def _check_versions(self, task: Task) -> None:
        """Check that this worker has the same versions of the packages as the run."""
        differences = ", ".join(
            f"{name} {self._versions.get(name, 'missing')} (run: {task.versions.get(name, 'none')})"
            for name in sorted({*self._versions, *task.versions})
            if self._versions.get(name) != task.versions.get(name)
        )
        if differences:
            raise InputError(
                f"the versions of this worker differ from the versions of the run: {differences}; "
                "install the versions of the run, or repeat the command that started it"
            )

    def load_models(self, task: Task) -> tuple[SentenceModel, ...]:
        """Return the models of a task.

        Raises
        ------
        InputError
            If a model differs from its record in the task.
        """
        specs = [record.plan_spec for record in task.models]
        models = []
        for record in task.models:
            if not self._models.contains(record):
                self._shared_vocabulary = None  # It refers to the previous models.
                self._models.discard(record.plan_spec)
            model, loaded_record = self._models.get(record.plan_spec, keep=specs)
            if loaded_record != record:
                raise InputError(
                    f"the model {record.plan_spec} has changed since the run was started; repeat "
                    "the command that started the run"
                )
            models.append(model)
        return tuple(models)

    def prepare_strategy_models(self, records: Sequence[ModelRecord]) -> None:
        """Discard the models that strategies loaded, unless the last task used the same ones."""
        if records != self._strategy_records:
            load_cached_model.cache_clear()
            self._strategy_records = records

    def get_shared_vocabulary(
        self, task: Task, digest: str, excluded_words: tuple[str, ...] = ()
    ) -> SharedVocabulary:
        """Return the vocabulary of a task, without words unknown to one of its models.

        Parameters
        ----------
        task
            Task that uses the words.
        digest
            Digest of the vocabulary at the start of the run.
        excluded_words
            Case-folded words that must not be used.

        Raises
        ------
        InputError
            If the vocabulary has changed since the start of the run.
        """
        if self._vocabulary is None or self._vocabulary.digest != digest:
            # Read the file again: this worker may have read it for an earlier run.
            path = self.context.vocabulary_file
            self._vocabulary = bundled_vocabulary() if path is None else Vocabulary.read(path)
            self._shared_vocabulary = None
            if self._vocabulary.digest != digest:
                raise InputError(
                    "the vocabulary has changed since the run was started; repeat the command "
                    "that started the run"
                )
        if self._shared_vocabulary is None or self._shared_vocabulary[0] != task.model_group:
            words = SharedVocabulary(self._vocabulary, self.load_models(task))
            self._shared_vocabulary, self._allowed_words = (task.model_group, words), None
        if self._allowed_words is None or self._allowed_words[0] != excluded_words:
            words = self._shared_vocabulary[1].exclude(frozenset(excluded_words))
            self._allowed_words = excluded_words, words
        return self._allowed_words[1]
