"""The engine of everything long: a run is begun, and tasks are done until all are there.

An executor spreads them: here in this process, in `contstim.pipeline.executors` over others or over
a Dask cluster.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, chdir, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from contstim.errors import OutputError
from contstim.files import lock, write_atomically
from contstim.pipeline.stages import Run, Stage, StudyPlan
from contstim.pipeline.work import (
    LoadedModels,
    ModelRecord,
    RunContext,
    RunStore,
    Task,
    TaskResult,
    Worker,
)
from contstim.progress import track

#: Results as they come; closing the generator ends the work.
TaskResults = Generator[TaskResult, None, None]

#: The file of a run's folder that says which models and versions it has.
PLAN = "plan.json"

#: Seconds to wait, one after the other, for a result that was reported to be seen.
_PAUSES = (0.1, 1, 5, 25, 60)


class Executor(ABC):
    """Does tasks; a context manager that ends what it started."""

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def describe(self, specs: Iterable[str]) -> dict[str, ModelRecord]:
        """Load models, one after the other, and say what each is."""
        return {spec: ModelRecord.of(spec) for spec in specs}

    @abstractmethod
    def run(self, context: RunContext, tasks: Sequence[Task]) -> TaskResults:
        """Do `tasks` in any order, yielding each one's result once it is on the disk."""


class InProcess(Executor):
    """Does one task after the other in this process."""

    def __init__(self) -> None:
        self._loaded = LoadedModels()
        self._worker: Worker | None = None

    def __exit__(self, *_: object) -> None:
        self._loaded, self._worker = LoadedModels(), None

    def describe(self, specs: Iterable[str]) -> dict[str, ModelRecord]:
        """Load models and say what each is; the tasks find the last of them loaded."""
        self._loaded, self._worker = LoadedModels(), None
        return {spec: ModelRecord.of(spec, self._loaded) for spec in specs}

    def run(self, context: RunContext, tasks: Sequence[Task]) -> TaskResults:
        """Do `tasks` in their order."""
        if self._worker is None or self._worker.context != context:
            self._worker = Worker(context, self._loaded)
        for task in tasks:
            yield self._worker.run(task)


@dataclass(eq=False)
class Engine:
    """Has tasks done until all that are needed are done, or have failed.

    Attributes
    ----------
    store
        Where results are.
    context
        Where the work is done.
    executor
        What does it.
    check
        Raises a `LockedError` if the lock on the store was lost.
    failed
        Tasks that were given up, each with its error.
    """

    store: RunStore
    context: RunContext
    executor: Executor
    check: Callable[[], None]
    failed: list[tuple[Task, str]] = field(default_factory=list)

    def run(
        self, label: str, tasks: Callable[[], Sequence[Task]], expected: int = 0
    ) -> Iterator[TaskResult]:
        """Do tasks, yielding each one's result once it is on the disk.

        Parameters
        ----------
        label
            What is being done, in a word.
        tasks
            Gives all tasks that are known to be needed; asked again when those are done.
        expected
            How many there will be at least, where they are known a few at a time.

        Raises
        ------
        LockedError
            If another process took the run over.
        OutputError
            If results cannot be written, or are not where they were written.
        """
        first = {task.key: task for task in tasks()}
        done = len(first) - len(self._left(first.values()))
        yield from track(self._rounds(label, tasks, first), max(expected, len(first)), label, done)

    def _rounds(
        self, label: str, tasks: Callable[[], Sequence[Task]], by_key: dict[str, Task]
    ) -> Iterator[TaskResult]:
        while left := self._left(by_key.values()):
            running = self.executor.run(self.context, left)
            with chdir(self.context.folder), closing(running) as results:
                for result in results:
                    if result.error is not None:
                        self.failed.append((by_key[result.key], result.error))
                    self.check()
                    yield result
            self._see_all(label, left)
            by_key = {task.key: task for task in tasks()}

    def _left(self, tasks: Iterable[Task]) -> list[Task]:
        given_up = {task.key for task, _ in self.failed}
        return [task for task in self.store.left(tasks) if task.key not in given_up]

    def _see_all(self, label: str, tasks: Sequence[Task]) -> None:
        """Wait until every result that was reported is to be seen; network folders lag behind."""
        for pause in _PAUSES:
            if not self._left(tasks):
                return
            time.sleep(pause)
        if unseen := self._left(tasks):
            raise OutputError(
                f"{len(unseen)} results of stage {label} were reported but are not in "
                f"{self.store.folder}; the workers must write to the same files as this machine"
            )


@contextmanager
def begun(
    plan: StudyPlan,
    stages: Iterable[Stage],
    executor: Executor,
    store: RunStore,
    name: str = "run",
    what: str | None = None,
) -> Iterator[tuple[Run, Engine]]:
    """Begin a run or go on with it: alone, after all checks, with what its tasks will find.

    Parameters
    ----------
    plan, stages, executor, store
        What is run, the stages that check it, what does it, and where.
    name, what
        Of its lock: ``run`` or a shard's; and what it is on, for messages, by default the folder.

    Raises
    ------
    ContstimError
        As `contstim.pipeline.running.run_study`, before any task is done.
    """
    with _alone(store.folder, name, what) as check:
        run = Run.of(plan, store, executor.describe)
        models = {given: model.description for given, model in run.every.items()}
        saved = {"models": models, "versions": run.versions}
        with chdir(plan.folder):
            for stage in stages:
                stage.check(run)
        write_atomically(store.folder / PLAN, json.dumps(saved, indent=1) + "\n")
        words = plan.vocabulary.file
        path = None if words is None else (plan.folder / words).resolve()
        if plan.vocabulary.non_defaults or plan.words is not None:
            path = store.folder / "vocabulary.csv"
            run.vocabulary.save(path)
        context = RunContext(
            store.folder, store.scores.folder, plan.folder, path, plan.study.threads
        )
        yield run, Engine(store, context, executor, check)


@contextmanager
def _alone(folder: Path, name: str, what: str | None = None) -> Iterator[Callable[[], None]]:
    """Hold the lock of a whole run, ``run``, or of a shard; give what `contstim.files.lock` does.

    Shards of one run do not disturb each other, but a shard and the whole run do.
    """

    def held(name: str) -> AbstractContextManager[Callable[[], None]]:
        part = "the run" if name == "run" else name
        said = what or f"{folder} is being worked on: {part}"
        return lock(folder / "locks" / f"{name}.lock", said)

    with held(name) as check:
        for path in (folder / "locks").glob("*.lock"):
            if path.stem != name and "run" in (path.stem, name):
                with held(path.stem):
                    pass  # its holder died
        yield check
