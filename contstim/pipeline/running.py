"""Study plans, read from TOML files and run.

The stages go in order, each task is committed, and tables are kept up to date.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contstim.errors import ContstimError, InputError, OutputError, require_known, suggest_names
from contstim.files import decode_json, find_lock_holder
from contstim.pipeline import PLAN, Engine, Executor, begun
from contstim.pipeline.stages import (
    Run,
    SentenceOptions,
    Stage,
    StudyOptions,
    StudyPlan,
    VocabularyOptions,
)
from contstim.pipeline.work import ModelRecord, RunStore, Task
from contstim.plugins import Registry
from contstim.settings import parse_settings, read_toml

#: The stages by name, in their order; those of installed packages follow the others.
STAGES = Registry[Stage](
    "stage",
    "contstim.stages",
    {
        "score": "contstim.pipeline.stages:SCORE",
        "natural": "contstim.pipeline.stages.natural:NATURAL",
        "synthesis": "contstim.pipeline.stages.synthesis:SYNTHESIS",
        "pool": "contstim.pipeline.stages.written:POOL",
        "triplets": "contstim.pipeline.stages.triplets:TRIPLETS_STAGE",
        "set": "contstim.pipeline.stages.set:SET",
        "design": "contstim.pipeline.stages.design:DESIGN",
    },
    Stage,
)

_TABLES = {"study": StudyOptions, "sentences": SentenceOptions, "vocabulary": VocabularyOptions}


def read_study_plan(path: str | Path) -> StudyPlan:
    """Read and check a study plan.

    Raises
    ------
    InputError
        Naming the file, and the key by its path; for an unknown key with near matches.
    """
    path = Path(path)
    table = read_toml(path)
    try:
        return _study_plan(table, path.resolve().parent)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from None


def _study_plan(table: Mapping[str, Any], folder: Path) -> StudyPlan:
    of_stages = {stage.key: stage for _, stage in STAGES.items() if stage.key and stage.options}
    keys = ("models", *_TABLES, *of_stages)
    for key in table:
        if key not in keys:
            raise InputError(f"unknown key {key}; {suggest_names(key, keys)}")
    models = table.get("models")
    if not isinstance(models, list) or not all(isinstance(spec, str) for spec in models):
        raise InputError(f"models is {models!r}; give a list of model specs, before any table")
    if "study" not in table:
        raise InputError("the table [study] is missing; give at least study.name")
    parts: dict[str, Any] = {
        key: parse_settings(kind, table[key], key) for key, kind in _TABLES.items() if key in table
    }
    stages = tuple(stage.read(table[key]) for key, stage in of_stages.items() if key in table)
    return StudyPlan(models=tuple(models), stages=stages, folder=folder, **parts)


def stages_of(plan: StudyPlan, last: str | None = None) -> list[Stage]:
    """Return the stages of a study, in order; up to `last`, only those that it needs.

    Raises
    ------
    UnknownNameError
        If `last` is none of them.
    """
    every = [stage for _, stage in STAGES.items()]
    there = [stage for stage in every if stage.is_in(plan)]
    if last is None:
        return there
    names = [stage.name for stage in there]
    require_known("stage of this study", last, names)
    needed = {there[names.index(last)]}
    for stage in reversed(every):
        if stage in needed:
            needed.update(stage.needs(plan))
    return [stage for stage in there if stage in needed]


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
    PyTorch on one thread unless the plan says otherwise.

    Parameters
    ----------
    plan
        From :func:`read_study_plan`.
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
        If models, sentences or vocabulary cannot be read, the stage is none of the study, or a
        certificate is asked for that models do not have.
    InfeasibleError
        If a model knows none of the words that a position is to have.
    OutputError
        If results cannot be written.
    """
    stages = stages_of(plan, stage)
    if shard is not None and not 1 <= shard[0] <= shard[1]:
        raise InputError(f"there is no shard {shard[0]} of {shard[1]}; give i/n with 1 <= i <= n")
    store = _store(plan, out, scores)
    name = "run" if shard is None else f"shard-{shard[0]}-of-{shard[1]}"
    with begun(plan, stages_of(plan), executor, store, name) as (run, engine):
        report = RunReport(store.folder, failed=engine.failed)
        for next_stage in stages:
            if not _do_stage(next_stage, run, engine, report, shard):
                break
        return report


def _store(plan: StudyPlan, out: Path | str | None, scores: Path | str | None) -> RunStore:
    # Path.resolve() has no answer for a loop of links.
    folder = Path(os.path.realpath(plan.out if out is None else out))
    return RunStore(folder, None if scores is None else Path(os.path.realpath(scores)))


def _do_stage(
    stage: Stage, run: Run, engine: Engine, report: RunReport, shard: tuple[int, int] | None
) -> bool:
    """Do a stage; return whether the next can go on."""

    def tasks() -> list[Task]:
        every = stage.tasks(run)
        if shard is None:
            return every
        return [task for task in every if int(task.part, 16) % shard[1] == shard[0] - 1]

    for _ in engine.run(stage.name, tasks):
        pass
    if shard is not None:
        return True
    path = run.table(stage).path
    if stage.holds(run):
        report.kept.append(path)
        return True
    try:
        stage.write(run)
    except OutputError:
        raise
    except ContstimError as error:
        if not report.failed:
            raise type(error)(f"stage {stage.name}: {error}") from None
        report.blocked = f"stage {stage.name}: {error}"
        return False
    report.made.append(path)
    return True


@dataclass(frozen=True)
class StageStatus:
    """How far a stage is.

    Attributes
    ----------
    stage
        Its name.
    tasks, done
        Numbers of its tasks, at least, as far as is known; 0 for a stage that only makes its table.
    failed
        Errors of tasks that were given up.
    table
        ``up to date``, ``out of date`` or ``not made``.
    seconds_left
        Of one worker, by the mean of the tasks done and what is known to follow from them; None
        if not known.
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
    store = _store(plan, out, scores)
    path = store.folder / PLAN
    try:
        saved = decode_json(path.read_text("utf-8"))
        models, versions = dict(saved["models"]), dict(saved["versions"])
    except FileNotFoundError:
        raise InputError(f"nothing was run in {store.folder} yet; run the file first") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} does not say which models and versions the run has ({error}); run it again"
        ) from None
    new = [spec for spec in (*plan.models, *plan.further) if spec not in models]
    if new:
        raise InputError(
            f"the model {new[0]} was added since {store.folder} was run; run the file first"
        )
    compared, further = (
        {spec: ModelRecord(spec, models[spec]) for spec in specs}
        for specs in (plan.models, plan.further)
    )
    run = Run(plan, compared, versions, store, further)
    who = [
        f"{path.stem}: {holder}"
        for path in sorted((store.folder / "locks").glob("*.lock"))
        if (holder := find_lock_holder(path)) is not None
    ]
    return [status_of(stage, run) for stage in stages_of(plan)], who


def status_of(stage: Stage, run: Run) -> StageStatus:
    """Say how far a stage of a run is."""
    tasks = stage.tasks(run)
    left = run.store.left(tasks)
    errors = [f"{task}: {error}" for task in left if (error := run.store.error(task))]
    open_keys = {task.key for task in left}
    times = run.store.seconds(task for task in tasks if task.key not in open_keys)
    table = "not made"
    if not left and stage.holds(run):
        table = "up to date"
    elif run.table(stage).path.exists():
        table = "out of date"
    done, number = len(tasks) - len(left), len(tasks)
    if left:
        number = max(number, stage.expected(run))
    seconds = statistics.fmean(times) * (number - done) + stage.later(run) if times else None
    return StageStatus(stage.name, number, done, tuple(errors), table, seconds)
