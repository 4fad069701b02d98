"""Runs of study plans: read a plan, run its stages in order, and report the progress.

A study plan is a TOML file. Each stage of a study, such as the selection of natural pairs, executes
tasks and writes one table.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from contstim.errors import ContstimError, InputError, OutputError, require_known, suggest_names
from contstim.files import decode_json, find_lock_holder
from contstim.pipeline.engine import MANIFEST, Engine, Executor, start_run
from contstim.pipeline.model_records import ModelRecord
from contstim.pipeline.plan import SentenceOptions, StudyOptions, StudyPlan, VocabularyOptions
from contstim.pipeline.stages import Run, Stage, StageStatus
from contstim.pipeline.store import RunStore
from contstim.pipeline.tasks import Task
from contstim.plugins import Registry
from contstim.settings import parse_settings, read_toml

#: Stages by name, in the order of execution. Stages of other packages come last.
STAGES = Registry[Stage](
    "stage",
    "contstim.stages",
    {
        "score": "contstim.pipeline.stages.score:SCORE_STAGE",
        "natural": "contstim.pipeline.stages.natural:NATURAL_STAGE",
        "synthesis": "contstim.pipeline.stages.synthesis:SYNTHESIS_STAGE",
        "pool": "contstim.pipeline.stages.synthesis:POOL_STAGE",
        "triplets": "contstim.pipeline.stages.triplets:TRIPLETS_STAGE",
        "set": "contstim.pipeline.stages.set:SET_STAGE",
        "design": "contstim.pipeline.stages.design:DESIGN_STAGE",
    },
    Stage,
)

# Tables of study plans that do not belong to a stage.
_TABLES = {"study": StudyOptions, "sentences": SentenceOptions, "vocabulary": VocabularyOptions}


def read_study_plan(path: str | Path) -> StudyPlan:
    """Read a study plan (models, sentences and options of a study) from a TOML file.

    Parameters
    ----------
    path
        Path of the TOML file.

    Returns
    -------
    StudyPlan
        Checked plan. Relative paths in it refer to the folder of the file.

    Raises
    ------
    InputError
        If the file cannot be read, or if a key is unknown or has an invalid value. The message
        names the file and the key.
    """
    path = Path(path)
    table = read_toml(path)
    try:
        return _parse_study_plan(table, path.resolve().parent)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from None


def _parse_study_plan(table: Mapping[str, Any], folder: Path) -> StudyPlan:
    """Convert the content of a TOML file to a study plan.

    Parameters
    ----------
    table
        Content of the file: a list ``models``, and one dictionary of options for each other key.
    folder
        Folder of the file. Relative paths in the plan refer to it.

    Raises
    ------
    InputError
        If a key is unknown or missing, or if an option is invalid.
    """
    stage_options_by_key = {
        stage.key: stage.options
        for _, stage in STAGES.items()
        if stage.key is not None and stage.options is not None
    }
    # Refuse unknown keys, and check the list of models.
    keys = ("models", *_TABLES, *stage_options_by_key)
    for key in table:
        if key not in keys:
            raise InputError(f"unknown key {key}; {suggest_names(key, keys)}")
    models = table.get("models")
    if not isinstance(models, list) or not all(isinstance(spec, str) for spec in models):
        raise InputError(f"models is {models!r}; give a list of model specs, before any table")
    if "study" not in table:
        raise InputError("the table [study] is missing; give at least study.name")
    # Convert the tables of options for the whole study, then the tables of its stages.
    options: dict[str, Any] = {
        key: parse_settings(kind, table[key], key) for key, kind in _TABLES.items() if key in table
    }
    stage_options = tuple(
        parse_settings(options_class, table[key], key)
        for key, options_class in stage_options_by_key.items()
        if key in table
    )
    return StudyPlan(models=tuple(models), stages=stage_options, folder=folder, **options)


def select_stages(plan: StudyPlan, last: str | None = None) -> list[Stage]:
    """Return the stages of a study in the order of their execution.

    A stage is a part of the study that writes one table, for example the synthesis of sentences.

    Parameters
    ----------
    plan
        Plan, which determines the stages of the study.
    last
        Name of the last stage to execute. If it is given, only this stage and the stages that it
        requires are returned. Default: all stages.

    Raises
    ------
    UnknownNameError
        If `last` is not a stage of the study.
    """
    all_stages = [stage for _, stage in STAGES.items()]
    stages = [stage for stage in all_stages if stage.is_in(plan)]
    if last is None:
        return stages
    names = [stage.name for stage in stages]
    require_known("stage of this study", last, names)
    # Collect all stages that are required directly or indirectly. One pass from the last stage to
    # the first suffices, because a stage requires only earlier stages.
    required = {stages[names.index(last)]}
    for stage in reversed(all_stages):
        if stage in required:
            required.update(stage.requires(plan))
    return [stage for stage in stages if stage in required]


@dataclass
class RunReport:
    """Report on a run of a study: its tables and its failed tasks.

    Attributes
    ----------
    out
        Folder of the run.
    written_tables
        Paths of the tables that the run wrote.
    current_tables
        Paths of the tables that were up to date.
    failures
        Tasks that failed and are not tried again, each with its error message.
    blocked
        Error of the stage that could not write its table because tasks failed. None if all stages
        wrote their tables.
    """

    out: Path
    written_tables: list[Path] = field(default_factory=list)
    current_tables: list[Path] = field(default_factory=list)
    failures: list[tuple[Task, str]] = field(default_factory=list)
    blocked: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all tasks succeeded and all requested tables are up to date."""
        return not self.failures and self.blocked is None


def run_study(
    plan: StudyPlan,
    executor: Executor,
    *,
    out: Path | str | None = None,
    cache: Path | str | None = None,
    stage: str | None = None,
    shard: tuple[int, int] | None = None,
) -> RunReport:
    """Run a study, or continue an interrupted run without repeating finished tasks.

    While tasks are executed, the working folder of this process is the folder of the plan.

    Parameters
    ----------
    plan
        Plan of the study, from :func:`read_study_plan`.
    executor
        Executor that distributes the tasks, for example to several processes.
    out
        Folder for the results. Default: the folder that the plan names.
    cache
        Folder in which scores of sentences are cached. Several runs can share it. Default: a
        subfolder of `out`.
    stage
        Name of the last stage to run. Only this stage and the stages that it requires are run.
        Default: all stages.
    shard
        Tuple (i, n) with 1 <= i <= n, to divide the tasks among n commands. Only the i-th part of
        the tasks is executed, and no table is written. A later call without `shard` writes the
        tables.

    Raises
    ------
    LockedError
        If another process works on the run.
    InputError
        If models, sentences or vocabulary cannot be read, or the stage or the shard is unknown.
    InfeasibleError
        If a model knows none of the words listed for a position.
    OutputError
        If results cannot be written.
    """
    stages = select_stages(plan, stage)
    if shard is not None and not 1 <= shard[0] <= shard[1]:
        raise InputError(f"there is no shard {shard[0]} of {shard[1]}; give i/n with 1 <= i <= n")
    store = _open_store(plan, out, cache)
    # Different shards (parts of the tasks) can run at the same time, so each has its own lock.
    lock_name = "run" if shard is None else f"shard-{shard[0]}-of-{shard[1]}"
    with start_run(plan, select_stages(plan), executor, store, lock_name) as (run, engine):
        # Run the stages in order, until a stage cannot write its table because tasks failed.
        report = RunReport(store.folder, failures=engine.failures)
        for next_stage in stages:
            _run_stage(next_stage, run, engine, report, shard)
            if report.blocked is not None:
                break
        return report


def _open_store(plan: StudyPlan, out: Path | str | None, cache: Path | str | None) -> RunStore:
    """Return the store of a run, after resolving symbolic links in its path."""
    # Path.resolve() raises an error for a loop of links, os.path.realpath() does not.
    folder = Path(os.path.realpath(plan.out if out is None else out))
    return RunStore(folder, None if cache is None else Path(os.path.realpath(cache)))


def _run_stage(
    stage: Stage, run: Run, engine: Engine, report: RunReport, shard: tuple[int, int] | None
) -> None:
    """Execute the tasks of a stage, write its table, and add the outcome to a report.

    The table is not written again if it is up to date.

    Parameters
    ----------
    stage
        Part of the study to execute, for example the synthesis of sentences.
    run
        Run of the study, which contains the models and the results so far.
    engine
        Object that executes the tasks.
    report
        Report to which the path of the table, or the reason why it was not written, is added.
    shard
        Tuple (i, n). If it is given, only the i-th of n parts of the tasks is executed, and no
        table is written.

    Raises
    ------
    ContstimError
        If the table cannot be made although no task failed.
    """

    def list_tasks() -> list[Task]:
        tasks = stage.tasks(run)
        if shard is None:
            return tasks
        number, n_shards = shard
        return [task for task in tasks if int(task.shard_key, 16) % n_shards == number - 1]

    for _ in engine.run(stage.name, list_tasks):
        pass
    # A shard is only a part of the tasks, so its results do not suffice for the table.
    if shard is not None:
        return
    path = run.get_table(stage).path
    if stage.is_current(run):
        report.current_tables.append(path)
        return
    try:
        stage.write_table(run)
    except OutputError:
        raise
    except ContstimError as error:
        # If tasks failed, report them first, because missing results explain this error.
        if not report.failures:
            raise type(error)(f"stage {stage.name}: {error}") from None
        report.blocked = f"stage {stage.name}: {error}"
        return
    report.written_tables.append(path)


def run_status(
    plan: StudyPlan, *, out: Path | str | None = None, cache: Path | str | None = None
) -> tuple[list[StageStatus], list[str]]:
    """Return the progress of a run, without loading models or interrupting the run.

    Parameters
    ----------
    plan
        Plan of the study.
    out
        Folder with the results. Default: the folder that the plan names.
    cache
        Folder in which scores of sentences are cached. Default: a subfolder of `out`.

    Returns
    -------
    statuses : list of StageStatus
        Progress of each stage of the study.
    holders : list of str
        Name of each lock of the run, and the process that holds the lock. Empty if no
        process works on the run.

    Raises
    ------
    InputError
        If the study has not been run, or has been run with other models.
    """
    store = _open_store(plan, out, cache)
    path = store.folder / MANIFEST
    # The manifest describes the models of the run, so they need not be loaded.
    try:
        manifest = decode_json(path.read_text("utf-8"))
        models, versions = dict(manifest["models"]), dict(manifest["versions"])
    except FileNotFoundError:
        raise InputError(
            f"{store.folder} contains no run; run the study plan without --status first"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"cannot read the models and versions of the run from {path} ({error}); run the study "
            "plan again without --status"
        ) from None
    # The run may have been made with an earlier version of the plan.
    for spec in (*plan.models, *plan.extra_models):
        if spec not in models:
            raise InputError(
                f"the run in {store.folder} does not contain the model {spec}; run the study plan "
                "again without --status"
            )
    records = {spec: ModelRecord(spec, description) for spec, description in models.items()}
    run = replace(Run.from_plan(plan, store, lambda specs: records), versions=versions)
    holders = [
        f"{path.stem}: {holder}"
        for path in sorted((store.folder / "locks").glob("*.lock"))
        if (holder := find_lock_holder(path)) is not None
    ]
    return [stage.compute_status(run) for stage in select_stages(plan)], holders
