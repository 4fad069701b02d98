"""Executors: where tasks are done, and Dask, which spreads them over processes or machines.

Dask only spreads the work. Each worker commits its results to the run's store itself, so workers
must see the run's folder, the study plan's folder and the models under the same paths.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import dask
import distributed
from distributed import Client, KilledWorker, LocalCluster, WorkerPlugin, as_completed

from contstim.errors import InputError, MissingExtraError, OutputError
from contstim.pipeline import Executor, TaskResults
from contstim.pipeline.work import TRIES, RunContext, RunStore, Task, TaskResult, Worker

#: The environment of a worker of this machine: one thread.
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
#: Settings of a scheduler that is started here: workers hold one task at a time where there are
#: many, and a worker's death is reported for every task that it held.
SETTINGS = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.worker-saturation": 1.0,
}

#: Of workers of this machine: by default one that is not back soon after its death, which on a
#: busy machine none is, is stopped for good, even at work, and a run without workers never ends.
LOCAL_SETTINGS = {"distributed.deploy.lost-worker-timeout": "1 day"}

_SECONDS_TO_CONNECT = 15
_MOST_WORKERS = 1024
_MOST_LOST = 10 * TRIES  # deaths reported for one task, begun or not

# The worker of each process of Dask, whose threads share its working folder and its models.
_on_dask: dict[RunContext, Worker] = {}
_one_at_a_time = threading.Lock()


def _do_on_dask(context: RunContext, task: Task, tries: Path) -> TaskResult:
    """Do one task on a Dask worker and add a byte to `tries`; models stay loaded between tasks."""
    with _one_at_a_time:
        os.chdir(context.folder)
        tries.parent.mkdir(parents=True, exist_ok=True)
        with tries.open("ab") as file:
            file.write(b".")
        if context not in _on_dask:
            _on_dask.clear()
            _on_dask[context] = Worker(context)
        return _on_dask[context].run(task)


def _tries(context: RunContext, task: Task, run: str) -> Path:
    """Return the file that holds a byte for each time that a task was begun in a run."""
    return context.store / "tries" / f"{task.key}-{run}"


class LocalSetup(WorkerPlugin):  # type: ignore[misc] # Dask has no types
    """Prepares a worker process of this machine.

    Parameters
    ----------
    gpus
        GPUs by number or identifier; worker k sees the k-th of them, in turn, as ``cuda:0``.
    """

    def __init__(self, gpus: Sequence[str]) -> None:
        self.gpus = list(gpus)

    def setup(self, worker: distributed.Worker) -> None:
        """Leave Ctrl-C and standard output to the process that hands out the tasks."""
        logging.getLogger("distributed").setLevel(logging.ERROR)  # of tasks that end with it
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.dup2(2, 1)  # what models print must not come into tables on standard output
        if self.gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = self.gpus[int(worker.name) % len(self.gpus)]


def visible_gpus() -> list[str]:
    """Return the GPUs that this process may use: those of CUDA_VISIBLE_DEVICES, or all."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [gpu for gpu in named.split(",") if gpu]
    return [str(number) for number, _ in enumerate(Path("/dev").glob("nvidia[0-9]*"))]


def executor_called(where: str) -> Executor:
    """Return the executor of ``--executor``.

    Parameters
    ----------
    where
        ``local:N``, N worker processes of this machine, each with one thread and in turn one of the
        visible GPUs; ``slurm:N``, N SLURM jobs, each one worker, with the settings of
        dask-jobqueue's configuration file (jobs that end are replaced); ``dask:ADDRESS``, the
        scheduler of a Dask cluster.

    Raises
    ------
    InputError
        If `where` is none of these.
    """
    kind, _, rest = where.partition(":")
    if kind == "dask" and "://" in rest:
        return DaskWorkers(kind, rest)
    if kind in ("local", "slurm") and rest.isdecimal() and 1 <= int(rest) <= _MOST_WORKERS:
        return DaskWorkers(kind, int(rest))
    raise InputError(
        f"the executor {where!r} is none; write local:4, slurm:8 or dask:tcp://HOST:8786"
    )


class DaskWorkers(Executor):
    """Does tasks on the workers of a Dask cluster; dead workers cost the tasks they had in hand.

    A script that uses processes of this machine must guard what it does by ``if __name__ ==
    "__main__"``, as with all of Python's process pools.

    Parameters
    ----------
    kind
        ``local``, ``slurm`` or ``dask``; see `executor_called`.
    where
        Number of workers, or the address of a scheduler.
    """

    def __init__(self, kind: str, where: int | str) -> None:
        self.kind = kind
        self.where = where
        self._open = ExitStack()
        self.client: Any = None

    def __enter__(self) -> Self:
        local = LOCAL_SETTINGS if self.kind == "local" else {}
        self._open.enter_context(dask.config.set(SETTINGS | local))
        address: Any = self.where
        if self.kind == "local":
            address = LocalCluster(
                n_workers=self.where,
                threads_per_worker=1,
                processes=True,
                memory_limit=0,
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.ERROR,
                env=THREADS,
            )
        elif self.kind == "slurm":
            address = _slurm_cluster(int(self.where))
        if self.kind != "dask":
            self._open.enter_context(address)
        try:
            client = Client(address, timeout=_SECONDS_TO_CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            self._open.close()
            reason = " ".join(str(error).split())
            raise InputError(f"cannot reach the Dask scheduler {self.where}: {reason}") from None
        self.client = self._open.enter_context(client)
        if self.kind == "local":
            self.client.register_plugin(LocalSetup(visible_gpus()))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def run(self, context: RunContext, tasks: Sequence[Task]) -> TaskResults:
        """Do `tasks`, those of the first pairs first; one that kills its worker is tried again.

        A death is reported for every task that the worker held. It is charged to those that had
        begun: a task is given up when it has begun `TRIES` times, or was lost a good deal oftener.
        """
        run = uuid.uuid4().hex
        lost = Counter[str]()

        def submitted(number: int, task: Task) -> Any:
            # A name of its own: a scheduler may remember an earlier run's task of this key.
            key = f"{task.key}-{uuid.uuid4().hex}"
            tries = _tries(context, task, run)
            of[key] = number, task
            return self.client.submit(
                _do_on_dask, context, task, tries, key=key, priority=-number, pure=False
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
                result, error = self._ended(future)  # fetching a result may begin its task again
                begun = tries.stat().st_size if tries.exists() else 0
                if isinstance(error, KilledWorker):
                    lost[task.key] += 1
                    if begun < TRIES and lost[task.key] < _MOST_LOST:
                        again = submitted(number, task)
                        futures[again.key] = again
                        waiting.add(again)
                        continue
                yield result or self._given_up(task, context, error, begun)
                tries.unlink(missing_ok=True)
        finally:
            self.client.cancel([*futures.values()])
            for _, task in of.values():
                _tries(context, task, run).unlink(missing_ok=True)

    @staticmethod
    def _ended(future: Any) -> tuple[TaskResult | None, BaseException | None]:
        """Return a task's result, or else its error; neither if Dask gave the task up."""
        error: BaseException | None = future.exception()
        if error is not None or future.cancelled():
            return None, error
        try:
            # What is lost with its worker before it is fetched is done again, as Dask does.
            return future.result(), None
        except KilledWorker as killed:
            return None, killed

    @staticmethod
    def _given_up(
        task: Task, context: RunContext, error: BaseException | None, begun: int
    ) -> TaskResult:
        store = RunStore(context.store, context.scores)
        if isinstance(error, OutputError):
            raise error
        if task.is_done(store):
            return TaskResult(task.key)
        message = "Dask gave the task up" if error is None else type(error).__name__
        if isinstance(error, KilledWorker):
            message = f"its worker process died each of the {begun} times that it was begun"
        elif error is not None:
            message += f": {' '.join(str(error).split())}"
        store.fail(task, message, "")
        return TaskResult(task.key, message)


def _slurm_cluster(number: int) -> Any:
    try:
        from dask_jobqueue import SLURMCluster
    except ImportError as error:
        raise MissingExtraError(
            "dask-jobqueue is not installed; pip install dask-jobqueue"
        ) from error
    try:
        cluster = SLURMCluster()
    except ValueError as error:
        raise InputError(
            f"dask-jobqueue's configuration lacks a setting ({' '.join(str(error).split())}); "
            "state cores, memory and queue in ~/.config/dask/jobqueue.yaml"
        ) from None
    # With a fixed number of jobs, one that is cancelled would never be replaced.
    cluster.adapt(minimum=number, maximum=number)
    return cluster
