"""Run a study plan: from models and sentences to trials.

The stages are score, natural, synthesis, triplets, set and design; each leaves a table (CSV) in
the run's folder. Every finished task is on the disk before it is counted, so the same command
again, after whatever ended the first, goes on where that stopped. A task that fails is tried again,
then failed; the rest goes on, and the next run tries it again.

Work can be spread over processes of this machine (--workers), over a Dask cluster (--dask), or over
the jobs of a job array (--shard I/N in each, then once without it for the tables).

Exit status: 0 done, 1 tasks failed (they are listed), 2 bad input.

Examples:
  contstim run experiments/golan2023/bundled.toml --workers 2
  contstim run study.toml --status
  contstim run study.toml --shard 1/3
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from pathlib import Path

from contstim.cli.common import add_executor, executor_of, resumable, tell, tell_failed
from contstim.cli.parsing import CommandParser, output_folder, whole_number
from contstim.errors import InputError
from contstim.pipeline.running import (
    STAGES,
    read_study_plan,
    run_status,
    run_study,
    slurm_script,
    stages_of,
)
from contstim.pipeline.stages import StudyPlan


def configure(parser: CommandParser) -> None:
    """Add the command's arguments."""
    parser.add("file FILE", "the study plan, TOML")
    add_executor(parser)
    parser.add("--shard I/N", "only the I-th of N parts of the tasks", _shard)
    stages = ", ".join(STAGES)
    parser.add("--stage NAME", f"only this stage and what it rests on: {stages}")
    parser.add("--out FOLDER", "the run's folder (default: as the file says)", output_folder)
    parser.add_cache("scores shared with other runs (default: in the run's folder)")
    what = "print the script of a SLURM job array of N jobs, one shard each, and stop"
    parser.add("--slurm-script N", what, whole_number(1, 100_000))
    parser.add("--status", "say how far the run is, and stop")


def _shard(text: str) -> tuple[int, int]:
    number, slash, total = text.partition("/")
    try:
        shard = int(number), int(total)
    except ValueError:
        shard = 0, 0
    if not slash or not 1 <= shard[0] <= shard[1]:
        raise argparse.ArgumentTypeError(f"{text!r} is not a shard; write I/N, for example 1/3")
    return shard


def run(args: argparse.Namespace) -> int:
    """Run, or say how far it is."""
    plan = read_study_plan(args.file)
    if args.status:
        return _status(args, plan)
    if args.slurm_script is not None:
        sys.stdout.write(_script(args, plan))
        return 0
    with resumable():
        return _run(args, plan)


def _script(args: argparse.Namespace, plan: StudyPlan) -> str:
    for name in ("workers", "dask", "devices", "shard"):
        if getattr(args, name):
            raise InputError(f"--{name} does not go with --slurm-script; each job is one worker")
    called = Path(sys.argv[0])
    command = shlex.quote(str(called.resolve()) if called.name == "contstim" else "contstim")
    options = []
    for name in ("out", "cache"):
        if getattr(args, name) is not None:
            options += [f"--{name}", os.path.abspath(getattr(args, name))]
    if args.stage is not None:
        stages_of(plan, args.stage)  # refuses a stage that there is not
        options += ["--stage", args.stage]
    return slurm_script(Path(args.file), plan.study.name, args.slurm_script, command, options)


def _run(args: argparse.Namespace, plan: StudyPlan) -> int:
    started = time.monotonic()
    with executor_of(args) as executor:
        report = run_study(
            plan,
            executor,
            out=args.out,
            scores=args.cache,
            stage=args.stage,
            shard=args.shard,
        )
    for path in report.kept:
        tell(f"{_shown(path)}: up to date")
    for path in report.made:
        tell(f"{_shown(path)}: written")
    if report.blocked is not None:
        tell(f"stopped at {report.blocked}")
    if not report.complete:
        tell_failed(report.failed)
        return 1
    tell(f"done in {time.monotonic() - started:.0f} s")
    return 0


def _shown(path: Path) -> str:
    folder = Path.cwd()
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


def _status(args: argparse.Namespace, plan: StudyPlan) -> int:
    stages, who = run_status(plan, out=args.out, scores=args.cache)
    for stage in stages:
        line = f"{stage.stage}: table {stage.table}"
        if stage.tasks:
            line += f"; {stage.done} of {stage.tasks} tasks done, {len(stage.failed)} failed"
        if stage.seconds_left:
            line += f", about {stage.seconds_left:.0f} s of one worker left"
        print(line)
        for error in stage.failed:
            print(f"  {error}")
    for line in who:
        print(f"held by {line}")
    return 0
