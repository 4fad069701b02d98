"""Running a study: the stages in order, each task committed, tables up to date."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, chdir, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from contstim.errors import ContstimError, InputError, OutputError, UnknownNameError
from contstim.files import holder_of, lock, write_whole
from contstim.pipeline.executors import Executor
from contstim.pipeline.plan import StudyPlan
from contstim.pipeline.stages import Stages, needed, stages_of
from contstim.pipeline.tasklist import TaskList, shard_of
from contstim.pipeline.tasks import Outcome, Task
from contstim.pipeline.work import Workplace
from contstim.progress import track

__all__ = ["RunReport", "StageStatus", "run_status", "run_study"]

_PLAN = "plan.json"


@dataclass
class RunReport:
    """What became of a run.

    Attributes
    ----------
    out
        The run's folder.
    made, kept
        Tables that were made, and those that held already.
    failed
        Tasks that were given up, each with its error.
    blocked
        Why a later stage could not go on without them; None if all stages are done.
    """

    out: Path
    made: list[Path] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    failed: list[tuple[Task, str]] = field(default_factory=list)
    blocked: str | None = None

    @property
    def complete(self) -> bool:
        """Whether no task failed and all stages asked for are done."""
        return not self.failed and self.blocked is None


def run_study(
    plan: StudyPlan,
    executor: Executor,
    *,
    out: Path | str | None = None,
    scores: Path | str | None = None,
    stage: str | None = None,
    shard: tuple[int, int] | None = None,
) -> RunReport:
    """Run a study, or go on with it: the same call again repeats no committed task.

    Tasks run with the study plan's folder as the working folder of this process, and
    PyTorch on one thread.

    Parameters
    ----------
    plan
        From :func:`~contstim.pipeline.plan.read_study_plan`.
    executor
        What does the tasks.
    out
        The run's folder; by default as the plan says.
    scores
        The score cache, which several runs may share; by default in the run's folder.
    stage
        Only this stage and those it rests on; by default all.
    shard
        (i, n): only the i-th of n shards of the tasks, and no table; once all shards are done,
        a run without shards makes the tables.

    Raises
    ------
    LockedError
        If another process works on the run.
    InputError
        If models, sentences or vocabulary cannot be read, or the stage is none of the study.
    OutputError
        If results cannot be written.
    """
    there = stages_of(plan)
    if stage is not None and stage not in there:
        raise UnknownNameError.among("stage of this study", stage, there)
    if shard is not None and not 1 <= shard[0] <= shard[1]:
        raise InputError(f"there is no shard {shard[0]} of {shard[1]}; give i/n with 1 <= i <= n")
    folder = Path(plan.out if out is None else out).resolve()
    cache = folder / "scores" if scores is None else Path(scores).resolve()
    name = "run" if shard is None else f"shard-{shard[0]}-of-{shard[1]}"
    with _alone(folder, name) as check:
        tasklist = TaskList.of(plan)
        saved = {"models": tasklist.models, "versions": tasklist.versions}
        write_whole(folder / _PLAN, json.dumps(saved, indent=1) + "\n")
        run = _Run(Stages(tasklist, folder, cache), executor, check, RunReport(folder))
        for one in there if stage is None else needed(plan, stage):
            if not run.stage(one, shard):
                break
        return run.report


@contextmanager
def _alone(folder: Path, name: str) -> Iterator[Callable[[], None]]:
    """Hold the lock of a whole run, ``run``, or of a shard; give what `contstim.files.lock` does.

    Shards of one run do not disturb each other, but a shard and the whole run do.
    """

    def held(name: str) -> AbstractContextManager[Callable[[], None]]:
        part = "the run" if name == "run" else name
        return lock(folder / "locks" / f"{name}.lock", f"{folder} is being worked on: {part}")

    with held(name) as check:
        for path in (folder / "locks").glob("*.lock"):
            if path.stem != name and "run" in (path.stem, name):
                with held(path.stem):
                    pass  # its holder died
        yield check


@dataclass
class _Run:
    stages: Stages
    executor: Executor
    check: Callable[[], None]
    report: RunReport

    def stage(self, name: str, shard: tuple[int, int] | None) -> bool:
        """Do a stage; say whether the next can go on."""
        mine = shard_of(self.stages.tasks(name), shard)
        keys = {task.key for task in mine}
        left = [task for task in self.stages.open_tasks(name) if task.key in keys]
        by_key = {task.key: task for task in left}
        progress = track(self._outcomes(left), len(mine), name, len(mine) - len(left))
        for outcome in progress:
            if outcome.error is not None:
                self.report.failed.append((by_key[outcome.key], outcome.error))
            self.check()
        self._see_all(name, keys)
        if shard is not None:
            return True
        table = self.stages.tables[name].path
        if self.stages.holds(name):
            self.report.kept.append(table)
            return True
        try:
            self.stages.make(name)
        except OutputError:
            raise
        except ContstimError as error:
            if not self.report.failed:
                raise type(error)(f"stage {name}: {error}") from None
            self.report.blocked = f"stage {name}: {error}"
            return False
        self.report.made.append(table)
        return True

    def _see_all(self, name: str, keys: set[str]) -> None:
        """Wait until every result that was reported is to be seen; network folders lag behind."""
        given_up = {task.key for task, _ in self.report.failed}
        for pause in (0.1, 1, 5, 25, 60, 0):
            unseen = [
                task
                for task in self.stages.open_tasks(name)
                if task.key in keys and task.key not in given_up
            ]
            if not unseen:
                return
            time.sleep(pause)
        raise OutputError(
            f"{len(unseen)} results of stage {name} were reported but are not in "
            f"{self.report.out}; the workers must write to the same files as this machine"
        )

    def _outcomes(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        if not tasks:
            return
        plan = self.stages.plan
        words = plan.vocabulary.file
        workplace = Workplace(
            store=str(self.stages.store.folder),
            scores=str(self.stages.cache.folder.resolve()),
            folder=str(plan.folder),
            vocabulary=None if words is None else str((plan.folder / words).resolve()),
        )
        with chdir(plan.folder), closing(self.executor.run(workplace, tasks)) as outcomes:
            yield from outcomes


@dataclass(frozen=True)
class StageStatus:
    """How far a stage is.

    Attributes
    ----------
    stage
        Its name.
    tasks, done
        Numbers of its tasks; 0 for a stage that only makes its table.
    failed
        Errors of tasks that were given up.
    table
        ``up to date``, ``out of date`` or ``not made``.
    seconds_left
        Of one worker, by the mean of the tasks done; None if not known.
    """

    stage: str
    tasks: int
    done: int
    failed: tuple[str, ...]
    table: str
    seconds_left: float | None


def run_status(
    plan: StudyPlan, *, out: Path | str | None = None, scores: Path | str | None = None
) -> tuple[list[StageStatus], list[str]]:
    """Say how far a run is, and who works on it, without loading a model or taking its lock.

    Raises
    ------
    InputError
        If nothing was run yet.
    """
    folder = Path(plan.out if out is None else out).resolve()
    try:
        saved = json.loads((folder / _PLAN).read_text("utf-8"))
        models, versions = saved["models"], saved["versions"]
    except FileNotFoundError:
        raise InputError(f"nothing was run in {folder} yet; run the file first") from None
    new = [spec for spec in plan.models if spec not in models]
    if new:
        raise InputError(f"the model {new[0]} was added since {folder} was run; run the file first")
    cache = folder / "scores" if scores is None else Path(scores).resolve()
    stages = Stages(TaskList(plan, models, versions), folder, cache)
    found = []
    for name in stages_of(plan):
        tasks = stages.tasks(name)
        left = stages.open_tasks(name)
        errors = [f"{task}: {error}" for task in left if (error := stages.store.error(task.key))]
        open_keys = {task.key for task in left}
        times = stages.store.seconds(task.key for task in tasks if task.key not in open_keys)
        holds = not left and stages.holds(name)
        table = "up to date" if holds else "not made"
        if not holds and stages.tables[name].path.exists():
            table = "out of date"
        seconds = statistics.fmean(times) * len(left) if times else None
        done = len(tasks) - len(left)
        found.append(StageStatus(name, len(tasks), done, tuple(errors), table, seconds))
    who = [
        f"{path.stem}: {holder}"
        for path in sorted((folder / "locks").glob("*.lock"))
        if (holder := holder_of(path)) is not None
    ]
    return found, who
