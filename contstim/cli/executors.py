"""What the commands share that have long work done: where it is done."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from contstim.cli.common import whole_number
from contstim.errors import InputError
from contstim.pipeline.cluster import DaskWorkers
from contstim.pipeline.executors import Executor, InProcess, LocalWorkers
from contstim.pipeline.work import Task

__all__ = ["add_executor", "executor_of", "tell_failed"]


def add_executor(parser: argparse.ArgumentParser) -> None:
    """Add ``--workers``, ``--dask`` and ``--devices``."""
    parser.add_argument(
        "--workers",
        type=whole_number(0, 1024),
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


def executor_of(args: argparse.Namespace) -> Executor:
    """Return what the arguments say that tasks are done by."""
    devices = [] if args.devices is None else args.devices.split(",")
    if devices and not args.workers:
        raise InputError(f"--devices {args.devices} needs workers; add --workers {len(devices)}")
    if args.dask is not None:
        if args.workers:
            raise InputError("give --workers or --dask, not both")
        return DaskWorkers(args.dask)
    return LocalWorkers(args.workers, devices) if args.workers else InProcess()


def tell_failed(failed: Sequence[tuple[Task, str]]) -> None:
    """List the tasks that failed on standard error, each with its error."""
    for task, error in failed:
        print(f"failed: {task}: {error}", file=sys.stderr)
    print(f"{len(failed)} tasks failed; the same command tries them again", file=sys.stderr)
