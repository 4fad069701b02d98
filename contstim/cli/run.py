"""Run a study plan: from models and sentences to trials.

The stages are score, natural, synthesize, triplets and design; each leaves a table (CSV) in the
run's folder. Every finished task is on the disk before it is counted, so the same command again,
after whatever ended the first, goes on where that stopped. A task that fails is tried again, then
failed; the rest goes on, and the next run tries it again.

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
import shlex
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from contstim.cli.common import positive
from contstim.errors import InputError
from contstim.pipeline.cluster import DaskWorkers
from contstim.pipeline.executors import Executor, InProcess, LocalWorkers
from contstim.pipeline.plan import STAGES, StudyPlan, read_study_plan
from contstim.pipeline.running import run_status, run_study
from contstim.pipeline.slurm import slurm_script


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("file", metavar="FILE", help="the study plan, TOML")
    parser.add_argument(
        "--workers",
        type=_number,
        default=0,
        metavar="N",
        help="worker processes on this machine, one thread each (default: 0, in this process)",
    )
    parser.add_argument(
        "--dask",
        metavar="WHERE",
        help="a Dask cluster: a scheduler's address, local:N, or slurm:N for N jobs; workers must "
        "share this machine's files (needs the extra 'cluster')",
    )
    parser.add_argument(
        "--devices",
        metavar="LIST",
        help="GPUs for the workers, in turn, e.g. 0,1; models then ask for device=cuda",
    )
    parser.add_argument(
        "--shard", type=_shard, metavar="I/N", help="only the I-th of N parts of the tasks"
    )
    parser.add_argument(
        "--stage",
        metavar="NAME",
        help=f"only this stage and what it rests on: {', '.join(one.name for one in STAGES)}",
    )
    parser.add_argument("--out", metavar="DIR", help="the run's folder (default: as the file says)")
    parser.add_argument(
        "--cache",
        metavar="DIR",
        help="scores shared with other runs (default: in the run's folder)",
    )
    parser.add_argument(
        "--slurm-script",
        type=positive,
        metavar="N",
        help="print the script of a SLURM job array of N jobs, one shard each, and stop",
    )
    parser.add_argument("--status", action="store_true", help="say how far the run is, and stop")


def _number(text: str) -> int:
    return 0 if text == "0" else positive(text)


def _shard(text: str) -> tuple[int, int]:
    number, slash, total = text.partition("/")
    try:
        shard = int(number), int(total)
    except ValueError:
        shard = 0, 0
    if not slash or not 1 <= shard[0] <= shard[1]:
        raise argparse.ArgumentTypeError(f"{text!r} is no shard; write I/N, for example 1/3")
    return shard


def run(args: argparse.Namespace) -> int:
    """Run, or say how far it is."""
    plan = read_study_plan(args.file)
    if args.status:
        return _status(args, plan)
    if args.slurm_script is not None:
        name = plan.study.name
        called = Path(sys.argv[0])
        command = shlex.quote(str(called.resolve()) if called.name == "contstim" else "contstim")
        sys.stdout.write(slurm_script(Path(args.file), name, args.slurm_script, command))
        return 0
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _run(args, plan)
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # What a cluster sends before the time is up ends the run as Ctrl-C does.
    raise KeyboardInterrupt


def _executor(args: argparse.Namespace) -> Executor:
    devices = [] if args.devices is None else args.devices.split(",")
    if devices and not args.workers:
        raise InputError(f"--devices {args.devices} needs workers; add --workers {len(devices)}")
    if args.dask is not None:
        if args.workers:
            raise InputError("give --workers or --dask, not both")
        return DaskWorkers(args.dask)
    return LocalWorkers(args.workers, devices) if args.workers else InProcess()


def _run(args: argparse.Namespace, plan: StudyPlan) -> int:
    started = time.monotonic()
    with _executor(args) as executor:
        report = run_study(
            plan,
            executor,
            out=args.out,
            scores=args.cache,
            stage=args.stage,
            shard=args.shard,
        )
    for path in report.kept:
        print(f"{_shown(path)}: up to date", file=sys.stderr)
    for path in report.made:
        print(f"{_shown(path)}: written", file=sys.stderr)
    for task, error in report.failed:
        print(f"failed: {task}: {error}", file=sys.stderr)
    if report.blocked is not None:
        print(f"stopped at {report.blocked}", file=sys.stderr)
    if not report.complete:
        print(
            f"{len(report.failed)} tasks failed; the same command tries them again",
            file=sys.stderr,
        )
        return 1
    print(f"done in {time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _status(args: argparse.Namespace, plan: StudyPlan) -> int:
    stages, who = run_status(plan, out=args.out, scores=args.cache)
    for one in stages:
        line = f"{one.stage}: table {one.table}"
        if one.tasks:
            line += f"; {one.done} of {one.tasks} tasks done, {len(one.failed)} failed"
        if one.seconds_left:
            line += f", about {one.seconds_left:.0f} s of one worker left"
        print(line)
        for error in one.failed:
            print(f"  {error}")
    for line in who:
        print(f"held by {line}")
    return 0
