"""Spreading tasks over a Dask cluster (an address, workers of this machine, SLURM jobs), or shards.

Dask only spreads the work. Each worker commits its results to the run's store itself, so workers
must see the run's folder, the study plan's folder and the models under the same paths.
"""

from __future__ import annotations

import os
import shlex
import threading
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from contstim.errors import InputError, MissingExtraError, OutputError
from contstim.pipeline.engine import Executor, TaskResults
from contstim.pipeline.executors import THREADS
from contstim.pipeline.work import TRIES, RunContext, RunStore, Task, TaskResult, Worker

#: Settings of a scheduler that is started here: workers hold one task at a time where there are
#: many, and a worker's death is reported for every task that it held.
SETTINGS = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.worker-saturation": 1.0,
}

_SECONDS_TO_CONNECT = 15
_MOST_LOST = 10 * TRIES  # deaths reported for one task, begun or not

_workers: dict[RunContext, Worker] = {}
_one_at_a_time = threading.Lock()


def _do(context: RunContext, task: Task, tries: Path) -> TaskResult:
    """Do one task on a Dask worker and add a byte to `tries`; models stay loaded between tasks."""
    # A worker's threads share its working folder and its models.
    with _one_at_a_time:
        os.chdir(context.folder)
        tries.parent.mkdir(parents=True, exist_ok=True)
        with tries.open("ab") as file:
            file.write(b".")
        if context not in _workers:
            _workers.clear()
            _workers[context] = Worker(context)
        return _workers[context].run(task)


def _tries(context: RunContext, task: Task, run: str) -> Path:
    """Return the file that holds a byte for each time that a task was begun in a run."""
    return context.store / "tries" / f"{task.key}-{run}"


class DaskWorkers(Executor):
    """Does tasks on the workers of a Dask cluster; dead workers cost the tasks they had in hand.

    Parameters
    ----------
    where
        ``local:N`` (N worker processes of this machine), ``slurm:N`` (N jobs, each one worker,
        with the settings of dask-jobqueue's configuration file; jobs that end are replaced), or
        the address of a scheduler, e.g. ``tcp://host:8786``.

    Raises
    ------
    InputError
        If `where` is none of these.
    MissingExtraError
        If Dask is not installed.
    """

    def __init__(self, where: str) -> None:
        kind, _, number = where.partition(":")
        self.where = where
        self.number = 0
        if kind in ("local", "slurm"):
            if not number.isdecimal() or int(number) < 1:
                raise InputError(f"{where!r} names no number of workers; write {kind}:2")
            self.number = int(number)
        elif "://" not in where:
            raise InputError(
                f"{where!r} is no Dask cluster; give local:N, slurm:N or a scheduler's address "
                "like tcp://host:8786"
            )
        try:
            import distributed  # noqa: F401 - only whether it is there
        except ImportError as error:
            raise MissingExtraError(
                "Dask is not installed; pip install 'contstim[cluster]', or use --workers or "
                "--shard, which do without"
            ) from error
        self._open = ExitStack()
        self.client: Any = None

    def __enter__(self) -> Self:
        import dask
        from distributed import Client

        self._open.enter_context(dask.config.set(SETTINGS))
        address: Any = self.where
        if self.number:
            address = self._open.enter_context(self._cluster())
        try:
            client = Client(address, timeout=_SECONDS_TO_CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            self._open.close()
            reason = " ".join(str(error).split())
            raise InputError(f"cannot reach the Dask scheduler {self.where}: {reason}") from None
        self.client = self._open.enter_context(client)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _cluster(self) -> Any:
        if self.where.startswith("local"):
            from distributed import LocalCluster

            return LocalCluster(
                n_workers=self.number,
                threads_per_worker=1,
                processes=True,
                memory_limit=0,
                dashboard_address=None,
                env=THREADS,
            )
        try:
            from dask_jobqueue import SLURMCluster
        except ImportError as error:
            raise MissingExtraError(
                "dask-jobqueue is not installed; pip install 'contstim[cluster]'"
            ) from error
        try:
            cluster = SLURMCluster()
        except ValueError as error:
            raise InputError(
                f"dask-jobqueue's configuration lacks a setting ({' '.join(str(error).split())}); "
                "state cores, memory and queue in ~/.config/dask/jobqueue.yaml"
            ) from None
        # With a fixed number of jobs, one that is cancelled would never be replaced.
        cluster.adapt(minimum=self.number, maximum=self.number)
        return cluster

    def run(self, context: RunContext, tasks: Sequence[Task]) -> TaskResults:
        """Do `tasks`, those of the first pairs first; one that kills its worker is tried again.

        A death is reported for every task that the worker held. It is charged to those that had
        begun: a task is given up when it has begun `TRIES` times, or was lost a good deal oftener.
        """
        from distributed import KilledWorker, as_completed

        run = uuid.uuid4().hex
        lost = Counter[str]()

        def submitted(number: int, task: Task) -> Any:
            # A name of its own: a scheduler may remember an earlier run's task of this key.
            key = f"{task.key}-{uuid.uuid4().hex}"
            tries = _tries(context, task, run)
            of[key] = number, task
            return self.client.submit(
                _do, context, task, tries, key=key, priority=-number, pure=False
            )

        of: dict[str, tuple[int, Task]] = {}
        futures = {}
        for number, task in enumerate(tasks):
            future = submitted(number, task)
            futures[future.key] = future
        try:
            waiting = as_completed([*futures.values()], loop=self.client.loop)
            for future in waiting:
                number, task = of.pop(future.key)
                del futures[future.key]
                tries = _tries(context, task, run)
                if future.status == "error" and isinstance(future.exception(), KilledWorker):
                    lost[task.key] += 1
                    begun = tries.stat().st_size if tries.exists() else 0
                    if begun < TRIES and lost[task.key] < _MOST_LOST:
                        again = submitted(number, task)
                        futures[again.key] = again
                        waiting.add(again)
                        continue
                yield self._result(future, task, context, tries)
                tries.unlink(missing_ok=True)
        finally:
            self.client.cancel([*futures.values()])
            for _, task in of.values():
                _tries(context, task, run).unlink(missing_ok=True)

    @staticmethod
    def _result(future: Any, task: Task, context: RunContext, tries: Path) -> TaskResult:
        from distributed import KilledWorker

        if future.status == "finished":
            result: TaskResult = future.result()
            return result
        store = RunStore(context.store, context.scores)
        error = future.exception() if future.status == "error" else None
        if isinstance(error, OutputError):
            raise error
        if task.is_done(store):
            return TaskResult(task.key)
        message = "Dask gave the task up" if error is None else type(error).__name__
        if isinstance(error, KilledWorker):
            begun = tries.stat().st_size if tries.exists() else 0
            message = f"its worker process died each of the {begun} times that it was begun"
        elif error is not None:
            message += f": {' '.join(str(error).split())}"
        store.fail(task, message, "")
        return TaskResult(task.key, message)


_SCRIPT = """\
#!/bin/bash
# Submit with: sbatch --parsable SCRIPT
# When all jobs of the array are done, make the tables (this also does what jobs left undone):
#   sbatch --dependency=afterany:JOBID --wrap {merge}
#SBATCH --job-name={name}
#SBATCH --array=1-{shards}
#SBATCH --cpus-per-task=1
#SBATCH --time=12:00:00
#SBATCH --signal=B:TERM@60
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={name}-%a.log
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
exec {command} --shard "$SLURM_ARRAY_TASK_ID/{shards}"
"""


def slurm_script(file: Path, name: str, shards: int, command: str) -> str:
    """Return a job array's script: job i does shard i of `shards`; no other software is needed.

    Parameters
    ----------
    file
        The study plan, on a file system that all nodes share.
    name
        The jobs' name.
    shards
        The number of jobs.
    command
        What runs contstim on a node, e.g. ``~/.venv/bin/contstim``.

    Raises
    ------
    InputError
        If there is no shard.
    """
    if shards < 1:
        raise InputError(f"a job array of {shards} jobs does nothing; give at least 1")
    run = f"{command} run {shlex.quote(str(file.resolve()))}"
    return _SCRIPT.format(name=name, shards=shards, command=run, merge=shlex.quote(run))
