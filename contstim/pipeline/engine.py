"""Execution of the tasks of a run, with the executor that uses only the current process.

A *task* is a small part of a study that can be executed separately, for example the search for one
synthetic sentence. Results of tasks are written to a store, a folder with one file per task.
"""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, chdir, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from contstim.errors import OutputError
from contstim.files import lock, write_atomically
from contstim.pipeline.model_records import ModelCache, ModelRecord
from contstim.pipeline.plan import StudyPlan
from contstim.pipeline.stages import Run, Stage
from contstim.pipeline.store import RunStore
from contstim.pipeline.tasks import Task
from contstim.pipeline.worker import RunContext, TaskOutcome, Worker
from contstim.progress import track

#: Outcomes of tasks in the order in which the tasks end. Closing the generator cancels all others.
TaskOutcomes = Generator[TaskOutcome, None, None]

#: File in the folder of a run that records its models and versions.
MANIFEST = "plan.json"

#: Pauses in seconds between checks whether a reported result is visible.
_VISIBILITY_PAUSES = (0.1, 1, 5, 25, 60)


class Executor(AbstractContextManager["Executor"]):
    """Base class of executors, which distribute the tasks of a run to worker processes.

    An executor is a context manager. Its processes end with the ``with`` block.
    """

    def describe_models(self, specs: Iterable[str]) -> dict[str, ModelRecord]:
        """Load models one at a time, and return a mapping from specification string to record."""
        return {spec: ModelRecord.from_spec(spec) for spec in specs}

    @abstractmethod
    def run(self, context: RunContext, tasks: Sequence[Task]) -> TaskOutcomes:
        """Execute tasks in any order, and yield each outcome once the result has been stored.

        Parameters
        ----------
        context
            Folders and settings that all tasks of the run share.
        tasks
            Tasks to execute.
        """


class SequentialExecutor(Executor):
    """Executor that executes tasks one at a time in this process, without parallel workers."""

    def __init__(self) -> None:
        self._models = ModelCache()
        self._worker: Worker | None = None

    def __exit__(self, *_: object) -> None:
        self._models, self._worker = ModelCache(), None

    def describe_models(self, specs: Iterable[str]) -> dict[str, ModelRecord]:
        """Load models and return a record of each; the last models stay loaded for the tasks."""
        self._models, self._worker = ModelCache(), None
        return {spec: ModelRecord.from_spec(spec, self._models) for spec in specs}

    def run(self, context: RunContext, tasks: Sequence[Task]) -> TaskOutcomes:
        """Execute tasks in their order and yield their outcomes."""
        if self._worker is None or self._worker.context != context:
            self._worker = Worker(context, self._models)
        for task in tasks:
            yield self._worker.run(task)


@dataclass(eq=False)
class Engine:
    """Control of a run, which executes tasks until all their results are in the store.

    A task is a small part of a study, for example the search for one synthetic sentence. The store
    is a folder with one file per finished task, so an interrupted run can be continued.

    Attributes
    ----------
    store
        Folder of results, which is checked for the tasks that are already done.
    context
        Folders and settings that are passed on to the workers.
    executor
        Executor that distributes the tasks to workers.
    check_lock
        Function that raises a `LockedError` if another process has taken over the run.
    failures
        Tasks that failed and are not tried again, each with its error message.
    """

    store: RunStore
    context: RunContext
    executor: Executor
    check_lock: Callable[[], None]
    failures: list[tuple[Task, str]] = field(default_factory=list)

    def run(
        self,
        label: str,
        list_tasks: Callable[[], Sequence[Task]],
        n_expected: int = 0,
        may_end_early: bool = False,
    ) -> Iterator[TaskOutcome]:
        """Execute the unfinished tasks of a stage, and show a progress bar.

        The result of a task can lead to further tasks. Therefore `list_tasks` is called again
        whenever all known tasks are done, until it returns no new task.

        Parameters
        ----------
        label
            Name of the stage, for the progress bar and error messages.
        list_tasks
            Function that returns all tasks of the stage that are known so far.
        n_expected
            Expected number of tasks, for the progress bar.
        may_end_early
            Whether the expected number is a maximum.

        Yields
        ------
        TaskOutcome
            Outcome of each executed task.

        Raises
        ------
        LockedError
            If another process has taken over the run.
        OutputError
            If results cannot be written, or if a reported result does not appear in the store.
        """
        tasks = {task.key: task for task in list_tasks()}
        n_done = len(tasks) - len(self._find_unfinished(tasks.values()))
        n_tasks = max(n_expected, len(tasks))
        outcomes = self._run_until_finished(label, list_tasks, tasks)
        yield from track(outcomes, n_tasks, label, n_done, may_end_early=may_end_early)

    def _run_until_finished(
        self, label: str, list_tasks: Callable[[], Sequence[Task]], tasks: dict[str, Task]
    ) -> Iterator[TaskOutcome]:
        """Execute tasks in rounds until all known tasks have results.

        The results of a round can lead to further tasks: for example, searches can start only when
        the natural sentences have been scored. Therefore `list_tasks` is called after each round.

        Parameters
        ----------
        label
            Name of the stage, for error messages.
        list_tasks
            Function that returns all tasks that are known so far.
        tasks
            Mapping from key to task, for the tasks that are known at the start.
        """
        while unfinished := self._find_unfinished(tasks.values()):
            running = self.executor.run(self.context, unfinished)
            # Relative paths in the study plan refer to its folder. If the caller stops early,
            # `closing` cancels the tasks that are still running.
            with chdir(self.context.plan_folder), closing(running) as outcomes:
                for outcome in outcomes:
                    if outcome.error is not None:
                        self.failures.append((tasks[outcome.key], outcome.error))
                    self.check_lock()  # Stop if another process has taken over the run.
                    yield outcome
            self._wait_for_results(label, unfinished)
            # List the tasks for the next round, including those that the new results make possible.
            tasks = {task.key: task for task in list_tasks()}

    def _find_unfinished(self, tasks: Iterable[Task]) -> list[Task]:
        """Return the tasks that have no result and have not failed with an error."""
        failed_keys = {task.key for task, _ in self.failures}
        return [task for task in self.store.find_missing(tasks) if task.key not in failed_keys]

    def _wait_for_results(self, label: str, tasks: Sequence[Task]) -> None:
        """Wait until the result files of finished tasks become visible to this process.

        A file that a worker on another machine writes to a network folder can take seconds to
        appear.

        Parameters
        ----------
        label
            Name of the stage, for the error message.
        tasks
            Tasks that workers have reported as done or failed.

        Raises
        ------
        OutputError
            If results are still missing after the last pause.
        """
        for pause in _VISIBILITY_PAUSES:
            if not self._find_unfinished(tasks):
                return
            time.sleep(pause)  # Files on a network folder appear with a delay.
        if unfinished := self._find_unfinished(tasks):
            raise OutputError(
                f"{len(unfinished)} results of stage {label} were reported as done but are not in "
                f"{self.store.folder}; give the workers access to this folder under the same path"
            )


@contextmanager
def start_run(
    plan: StudyPlan,
    stages: Iterable[Stage],
    executor: Executor,
    store: RunStore,
    lock_name: str = "run",
    lock_description: str | None = None,
) -> Iterator[tuple[Run, Engine]]:
    """Start or continue a run of a study plan, as a context manager.

    The run is prepared in three steps: its folder is locked against other processes, the models are
    loaded and described, and each stage checks its options. A stage is a part of the study that
    writes one table, for example the synthesis of sentences.

    Parameters
    ----------
    plan
        Models, sentences and options of the study.
    stages
        Stages to check before any task is executed.
    executor
        Executor that loads the models and executes the tasks.
    store
        Folder to which the results of the tasks are written.
    lock_name
        ``run``, or the name of a shard (a part of the tasks that a separate command executes).
    lock_description
        Description of the run in error messages about the lock. Default: the folder and the shard.

    Yields
    ------
    run : Run
        Plan, models and results of the run.
    engine : Engine
        Object that executes the tasks of the run.

    Raises
    ------
    ContstimError
        If the run is locked, a model cannot be loaded, or a stage cannot succeed (see
        `contstim.pipeline.study.run_study`). No task is executed then.
    """
    with lock_run(store.folder, lock_name, lock_description) as check_lock:
        # Load the models. Then check the options of all stages before any task is executed.
        run = Run.from_plan(plan, store, executor.describe_models)
        with chdir(plan.folder):
            for stage in stages:
                stage.check(run)

        descriptions = {spec: model.description for spec, model in run.all_models.items()}
        manifest = {"models": descriptions, "versions": run.versions}
        write_atomically(store.folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")

        # Workers are separate processes that read the vocabulary from a file. Write this file if
        # the vocabulary is not already the content of a file. None: the bundled vocabulary.
        file = plan.vocabulary.file
        vocabulary_file = None if file is None else (plan.folder / file).resolve()
        if plan.vocabulary.non_defaults or plan.loaded_vocabulary is not None:
            vocabulary_file = store.folder / "vocabulary.csv"
            run.vocabulary.save(vocabulary_file)
        context = RunContext(
            store.folder, store.score_cache.folder, plan.folder, vocabulary_file, plan.study.threads
        )
        yield run, Engine(store, context, executor, check_lock)


@contextmanager
def lock_run(
    folder: Path, name: str, description: str | None = None
) -> Iterator[Callable[[], None]]:
    """Lock a run, or one shard of a run, as a context manager.

    A shard is a part of the tasks that a separate command executes. Different shards of a run can
    be locked at the same time. The lock of the whole run excludes all other locks.

    Parameters
    ----------
    folder
        Folder of the run.
    name
        ``run`` for the whole run, or the name of a shard.
    description
        Description of the run in error messages; by default the folder and the shard.

    Yields
    ------
    callable
        Function that raises a `LockedError` if another process has taken over the lock.
    """

    def create_lock(lock_name: str) -> AbstractContextManager[Callable[[], None]]:
        part = "the run" if lock_name == "run" else lock_name
        return lock(folder / "locks" / f"{lock_name}.lock", description or f"{part} in {folder}")

    with create_lock(name) as check_lock:
        # The lock of the whole run conflicts with the lock of each shard. Shards do not conflict.
        for path in (folder / "locks").glob("*.lock"):
            other_name = path.stem
            is_conflicting = other_name != name and "run" in (other_name, name)
            if is_conflicting:
                # Acquire the other lock for a moment. This raises a `LockedError` if a process
                # holds the lock, but succeeds if the process has died and left its lock file.
                with create_lock(other_name):
                    pass
        yield check_lock
