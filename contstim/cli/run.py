"""Run a study plan, from models and sentences to trials.

The stages are score, natural, synthesis, pool, triplets, set and design; each writes a table (CSV)
into the run's folder. Every finished task is on the disk before it is counted, so that the same
command continues an interrupted run. A task that fails is listed, and the next run tries it again.

Exit status: 0 done, 1 tasks failed, 2 bad input.

examples:
  contstim run experiments/golan2023/bundled.toml --executor local:2
  contstim run study.toml --status
  Job 1 of 3 of a job array, without Dask:
    contstim run study.toml --shard 1/3
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from contstim.cli.application import create_application
from contstim.cli.common import (
    create_executor,
    explain_interruption,
    print_message,
    report_failed_tasks,
)
from contstim.cli.parameters import ExecutorName, File, Name, OutputFolder, parsed_by
from contstim.errors import InputError

if TYPE_CHECKING:
    from contstim.pipeline.plan import StudyPlan

app = create_application("run", __doc__)


def _read_shard(text: str) -> tuple[int, int]:
    number, slash, total = text.partition("/")
    try:
        shard = int(number), int(total)
    except ValueError:
        shard = 0, 0
    if not slash or not 1 <= shard[0] <= shard[1]:
        raise InputError(f"{text!r} is not a shard; write I/N, for example 1/3")
    return shard


Shard = Annotated[tuple[int, int], parsed_by(_read_shard, "I/N"), Parameter(n_tokens=1)]


@app.default
def run(
    plan: File,
    /,
    *,
    executor: ExecutorName | None = None,
    shard: Shard | None = None,
    stage: Name | None = None,
    out: OutputFolder | None = None,
    cache: OutputFolder | None = None,
    status: bool = False,
) -> int:
    """Run a study plan.

    Parameters
    ----------
    plan
        study plan (TOML)
    executor
        where tasks are done: local:N (worker processes of this machine, each with one thread and in
        turn one of the visible GPUs), slurm:N (SLURM jobs) or dask:ADDRESS (a Dask cluster); all
        must share this machine's files [this process]
    shard
        only the tasks of shard I of N, and no tables
    stage
        only this stage and those it needs [all stages]
    out
        folder of the run [the one the plan names]
    cache
        folder of scores that several runs share [in the folder of the run]
    status
        print how far the run is, and stop
    """
    from contstim.pipeline.study import read_study_plan, run_study

    study = read_study_plan(plan)
    if status:
        _print_status(study, out, cache)
        return 0
    started = time.monotonic()
    with explain_interruption(), create_executor(executor) as workers:
        report = run_study(study, workers, out=out, cache=cache, stage=stage, shard=shard)
    for path in report.current_tables:
        print_message(f"{_shown(path)}: up to date")
    for path in report.written_tables:
        print_message(f"{_shown(path)}: written")
    if report.blocked is not None:
        print_message(f"stopped at {report.blocked}")
    if not report.is_complete:
        report_failed_tasks(report.failures)
        return 1
    print_message(f"done in {time.monotonic() - started:.0f} s")
    return 0


def _shown(path: Path) -> str:
    folder = Path.cwd()
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


def _print_status(study: StudyPlan, out: str | None, cache: str | None) -> None:
    from contstim.pipeline.study import run_status

    stages, holders = run_status(study, out=out, cache=cache)
    for stage in stages:
        line = f"{stage.stage}: table {stage.table}"
        if stage.n_tasks:
            line += f"; {stage.n_done} of {stage.n_tasks} tasks done, {len(stage.errors)} failed"
        if stage.remaining_seconds:
            line += f", about {stage.remaining_seconds:.0f} s of one worker left"
        print(line)
        for error in stage.errors:
            print(f"  {error}")
    for line in holders:
        print(f"held by {line}")
