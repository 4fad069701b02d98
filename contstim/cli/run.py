"""Run a study plan, from models and sentences to trials.

The stages are score, natural, synthesis, pool, triplets, set and design. Each stage writes one
table (CSV) to the folder of the run. Results of tasks are written as soon as they are finished, and
the same command continues an interrupted run. Failed tasks are listed, and the next run repeats
them.

Exit status: 0 done, 1 tasks failed, 2 bad input.

examples:
  contstim run experiments/golan2023/bundled.toml --executor local:2
  contstim run study.toml --status
  First job of a job array of 3 jobs:
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
        executor of the tasks: local:N (N worker processes on this machine, each with one thread
        and one GPU), slurm:N (N SLURM jobs) or dask:ADDRESS (Dask cluster); workers must have
        access to the same files as this machine [this process]
    shard
        execute only the I-th of N parts of the tasks, and write no tables
    stage
        last stage to run; other stages are run only if it requires them [all stages]
    out
        folder of the run [the folder named in the plan]
    cache
        folder of scores to share between runs [in the folder of the run]
    status
        print the progress of the run without running it
    """
    from contstim.pipeline.study import read_study_plan, run_study

    study = read_study_plan(plan)
    if status:
        _print_status(study, out, cache)
        return 0
    start_time = time.monotonic()
    with explain_interruption(), create_executor(executor) as workers:
        report = run_study(study, workers, out=out, cache=cache, stage=stage, shard=shard)
    states = [(path, "up to date") for path in report.current_tables]
    states += [(path, "written") for path in report.written_tables]
    for path, state in states:
        folder = Path.cwd()
        shown = path.relative_to(folder) if path.is_relative_to(folder) else path
        print_message(f"{shown}: {state}")
    if report.blocked is not None:
        print_message(f"stopped at {report.blocked}")
    if not report.is_complete:
        report_failed_tasks(report.failures)
        return 1
    print_message(f"done in {time.monotonic() - start_time:.0f} s")
    return 0


def _print_status(study: StudyPlan, out: str | None, cache: str | None) -> None:
    """Print the progress of each stage, and the processes that hold the locks of the run."""
    from contstim.pipeline.study import run_status

    stages, holders = run_status(study, out=out, cache=cache)
    for stage in stages:
        line = f"{stage.stage}: table {stage.table}"
        if stage.n_tasks:
            line += f"; {stage.n_done} of {stage.n_tasks} tasks done, {len(stage.errors)} failed"
        if stage.remaining_seconds:
            line += f", about {stage.remaining_seconds:.0f} s left with one worker"
        print(line)
        for error in stage.errors:
            print(f"  {error}")
    for holder in holders:
        print(f"locked: {holder}")
