"""Run a study plan, from models and sentences to trials.

The stages are score, natural, synthesis, pool, triplets, set and design. Each stage writes a table
(CSV) into the output folder. Finished tasks are saved, so the same command continues an interrupted
run and repeats failed tasks.

Exit status: 0 success, 1 failed tasks, 2 bad input.

examples:
  contstim run study.toml --executor local:2
  contstim run study.toml --status
  Job 1 of 3 of a job array:
    contstim run study.toml --shard 1/3
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from contstim.cli import common
from contstim.cli.application import create_application
from contstim.cli.parameters import ExecutorName, File, Name, OutputFolder, custom_parameter
from contstim.errors import InputError

app = create_application("run", __doc__)


def parse_shard(text: str) -> tuple[int, int]:
    """Parse ``I/N``, the number of a part (shard) of the tasks and the number of parts."""
    number, slash, total = text.partition("/")
    # Shard I of N is one of N parts of the tasks.
    try:
        shard = int(number), int(total)
    except ValueError:
        shard = 0, 0
    if not slash or not 1 <= shard[0] <= shard[1]:
        raise InputError(f"{text!r} is not a shard; write I/N, for example 1/3")
    return shard


Shard = Annotated[tuple[int, int], custom_parameter(parse_shard, "I/N"), Parameter(n_tokens=1)]


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
        executor of the tasks: local:N (N processes of this machine, which share its GPUs), slurm:N
        (N SLURM jobs) or dask:ADDRESS (Dask cluster); all need the same files [this process]
    shard
        compute only part I of N of the tasks, and write no tables [all tasks]
    stage
        last stage to run, with the stages that it needs [all stages]
    out
        output folder [named in the plan]
    cache
        folder of scores that several runs share [inside the output folder]
    status
        print the progress of the run, and stop
    """
    from contstim.pipeline import study as study_runs

    study = study_runs.read_study_plan(plan)
    if status:
        stages, holders = study_runs.run_status(study, out=out, cache=cache)
        for stage_status in stages:
            line = f"{stage_status.stage}: table {stage_status.table_state}"
            if stage_status.n_tasks:
                line += f"; {stage_status.n_done} of {stage_status.n_tasks} tasks done"
                line += f", {len(stage_status.errors)} failed"
            if stage_status.remaining_seconds:
                line += f", about {stage_status.remaining_seconds:.0f} s left with one worker"
            print(line)
            for error in stage_status.errors:
                print(f"  {error}")
        for holder in holders:
            print(f"locked: {holder}")
        return 0
    start_time = time.monotonic()
    with common.explain_interruption(), common.create_executor(executor) as workers:
        report = study_runs.run_study(
            study, workers, out=out, cache=cache, stage=stage, shard=shard
        )
    folder = Path.cwd()
    for paths, change in (
        (report.current_tables, "up to date"),
        (report.written_tables, "written"),
    ):
        for path in paths:
            shown_path = path.relative_to(folder) if path.is_relative_to(folder) else path
            common.print_message(f"{shown_path}: {change}")
    if report.blocked is not None:
        common.print_message(f"stopped at {report.blocked}")
    if not report.is_complete:
        common.report_failed_tasks(report.failures)
        return 1
    common.print_message(f"done in {time.monotonic() - start_time:.0f} s")
    return 0
