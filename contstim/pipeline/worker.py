"""Workers, which execute tasks and write their results to the store of a run."""

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
    """Outcome of a task, which has either succeeded or failed.

    Attributes
    ----------
    key
        Digest by which the task is identified (`Task.key`).
    error
        Error message in one line, if the task failed and is not tried again. None if the result
        has been stored.
    """

    key: str
    error: str | None = None


@dataclass(frozen=True)
class RunContext:
    """Absolute paths and settings that are common to all tasks of a run.

    Attributes
    ----------
    store_folder
        Folder to which the results of tasks are written.
    cache_folder
        Folder in which scores of sentences are cached.
    plan_folder
        Folder of the study plan. It is the working folder of workers, so that relative paths in
        model specification strings have the same meaning for all workers.
    vocabulary_file
        File with the words that may occur in synthetic sentences. Default: the bundled vocabulary.
    n_threads
        Number of PyTorch threads per worker.
    """

    store_folder: Path
    cache_folder: Path
    plan_folder: Path
    vocabulary_file: Path | None = None
    n_threads: int = 1


class Worker:
    """Worker that executes tasks of a run and writes their results to a folder.

    The models and the vocabulary of the last task stay in memory for the next task.

    Parameters
    ----------
    context
        Paths and settings that all tasks of the run share. The caller must make
        `context.plan_folder` the working folder of this process.
    models
        Cache of loaded models that the worker uses. Default: an empty cache.
    """

    def __init__(self, context: RunContext, models: ModelCache | None = None) -> None:
        self.context = context
        self.store = RunStore(context.store_folder, context.cache_folder)
        self._models = ModelCache() if models is None else models
        self._versions = package_versions()
        # The other attributes describe the last task. They are computed again only if the next task
        # needs other models or words.
        # Records of the models that the search strategy of the task loaded.
        self._strategy_records: Sequence[ModelRecord] = ()
        # All words of the vocabulary, the words that all models of the task know, and these words
        # without the words that the task excludes. None: not computed yet.
        self._vocabulary: Vocabulary | None = None
        self._known_words: SharedVocabulary | None = None
        self._unexcluded_words: SharedVocabulary | None = None
        # Specification strings of the models of the task, and the words that it excluded.
        self._model_group = ""
        self._excluded_words: tuple[str, ...] = ()

    def run(self, task: Task) -> TaskOutcome:
        """Execute a task and store its result, unless the result has already been stored.

        After an unexpected error, the task is tried again, up to `MAX_TRIES` times in total. Errors
        that a repetition cannot resolve, such as invalid input, end the task immediately. The last
        error is stored.

        Parameters
        ----------
        task
            Task to execute.

        Returns
        -------
        TaskOutcome
            Key of the task, and its error if it failed.

        Raises
        ------
        OutputError
            If the result cannot be written.
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
                raise  # No task can write its result, so the whole run must stop.
            except Exception as error:  # noqa: BLE001 - an error ends its own task, not the run
                # Try again after an unexpected error. An error of this package, such as invalid
                # input, would only occur again.
                if n_tries < MAX_TRIES and not isinstance(error, ContstimError):
                    continue
                message = " ".join(f"{type(error).__name__}: {error}".split())
                self.store.write_error(task, message, traceback.format_exc())
                return TaskOutcome(task.key, message)
            break
        return TaskOutcome(task.key)

    def _check_versions(self, task: Task) -> None:
        """Check that this process uses the package versions with which the run was started.

        Parameters
        ----------
        task
            Task of the run, which contains these versions.

        Raises
        ------
        InputError
            If a version differs, because results would then depend on the worker.
        """
        differences = []
        # Compare the versions of all packages that this process or the run lists.
        for name in sorted({*self._versions, *task.versions}):
            version, run_version = self._versions.get(name), task.versions.get(name)
            if version != run_version:
                differences.append(f"{name} {version or 'missing'} (run: {run_version or 'none'})")
        if differences:
            raise InputError(
                "the versions of this worker differ from the versions of the run: "
                f"{', '.join(differences)}; install the versions of the run, or repeat the command "
                "that started it"
            )

    def load_models(self, task: Task) -> tuple[SentenceModel, ...]:
        """Return the models of a task, and load the models that are not in the cache.

        Parameters
        ----------
        task
            Task with a record for each model, which identifies its weights and settings.

        Returns
        -------
        tuple of SentenceModel
            Models in the order of ``task.models``.

        Raises
        ------
        InputError
            If a model on disk has changed since the run was started.
        """
        specs = [record.plan_spec for record in task.models]
        models = []
        # A record describes the model (for example its weights) at the start of the run.
        for record in task.models:
            # A cached model with another record is outdated, and so are the words that it knows.
            if not self._models.contains(record):
                self._known_words = None
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
        """Discard the models that a strategy loaded, unless the next task uses the same models."""
        if records != self._strategy_records:
            load_cached_model.cache_clear()
            self._strategy_records = records

    def get_shared_vocabulary(
        self, task: Task, digest: str, excluded_words: tuple[str, ...] = ()
    ) -> SharedVocabulary:
        """Return the words of the vocabulary that all models of a task know.

        The words of the last task are returned again if the next task needs the same words.

        Parameters
        ----------
        task
            Task that uses the words.
        digest
            Digest that identifies the content of the vocabulary at the start of the run.
        excluded_words
            Case-folded words to exclude.

        Raises
        ------
        InputError
            If the vocabulary has changed since the start of the run.
        """
        if self._vocabulary is None or self._vocabulary.digest != digest:
            # Three caches: the vocabulary, its words that all models know (`_known_words`), and
            # these words without excluded words (`_unexcluded_words`). Each is derived from the
            # previous one, so it is cleared when the previous one changes. Read the vocabulary
            # again if this worker has read it for an earlier run.
            path = self.context.vocabulary_file
            self._vocabulary = bundled_vocabulary() if path is None else Vocabulary.read(path)
            self._known_words = None
            if self._vocabulary.digest != digest:
                raise InputError(
                    "the vocabulary has changed since the run was started; repeat the command "
                    "that started the run"
                )
        # Find the words that all models know, unless the last task used the same models.
        if self._known_words is None or self._model_group != task.model_group:
            self._known_words = SharedVocabulary(self._vocabulary, self.load_models(task))
            self._model_group, self._unexcluded_words = task.model_group, None
        # Exclude words, unless the last task excluded the same words.
        if self._unexcluded_words is None or self._excluded_words != excluded_words:
            self._unexcluded_words = self._known_words.exclude(frozenset(excluded_words))
            self._excluded_words = excluded_words
        return self._unexcluded_words
