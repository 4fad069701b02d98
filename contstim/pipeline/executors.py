"""Spreading tasks over worker processes of this machine, or over a Dask cluster.

A cluster is an address, workers of this machine or SLURM jobs. Dask only spreads the work. Each
worker commits its results to the run's store itself, so workers must see the run's folder, the
study plan's folder and the models under the same paths.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import uuid
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Self

from contstim.errors import InputError, MissingExtraError, OutputError
from contstim.pipeline import Executor, TaskResults
from contstim.pipeline.work import TRIES, RunContext, RunStore, Task, TaskResult, Worker

#: The environment of a worker: one thread.
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
_MOST_LOST = 10 * TRIES  # deaths reported for one task, begun or not

# What a worker process runs; it has one Worker for its life.
_worker: Worker | None = None


def _begin(context: RunContext) -> None:
    global _worker
    # Ctrl-C reaches the whole process group; the process that hands out tasks decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # As an exception it removes what is half written.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # What models print must not come into the tables of the process that hands out tasks.
    os.dup2(2, 1)
    os.chdir(context.folder)
    _worker = Worker(context)


def _end_with_parent() -> None:
    # A pool's process would wait for tasks for ever if the one that hands them out were killed.
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _do(task: Task) -> TaskResult:
    assert _worker is not None
    return _worker.run(task)


@dataclass(eq=False)
class _LocalWorker:
    """One worker: a pool of one process, so that a death is blamed on one task alone."""

    number: int
    pool: ProcessPoolExecutor
    process: BaseProcess | None = None
    group: str | None = None
    task: Task | None = None


@dataclass
class _Queue:
    """Tasks by the models they need, handed out so that workers seldom load others."""

    groups: dict[str, deque[Task]] = field(default_factory=dict)

    def add(self, task: Task, *, first: bool = False) -> None:
        waiting = self.groups.setdefault(task.group, deque())
        waiting.appendleft(task) if first else waiting.append(task)

    def take(self, group: str | None, busy: Sequence[str | None]) -> Task | None:
        """Take a task of `group`; if it has none left, of the group with most left a worker."""
        if group not in self.groups:
            if not self.groups:
                return None
            group = max(self.groups, key=lambda g: len(self.groups[g]) / (1 + busy.count(g)))
        waiting = self.groups[group]
        task = waiting.popleft()
        if not waiting:
            del self.groups[group]
        return task


class LocalWorkers(Executor):
    """Does tasks in worker processes on this machine; a worker that dies is replaced.

    A script that uses it must guard what it does by ``if __name__ == "__main__"``, as with all of
    Python's process pools.

    Parameters
    ----------
    number
        How many workers.
    devices
        GPUs by number; worker k sees only the k-th of them (in turn), as ``cuda:0``.
    """

    def __init__(self, number: int, devices: Sequence[str] = ()) -> None:
        self.number = number
        self.devices = tuple(devices)
        self._workers: list[_LocalWorker] = []
        self._context: RunContext | None = None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Stopped by an error or by hand, workers drop what they have in hand: it is not committed.
        self._end(at_once=kind is not None)

    def run(self, context: RunContext, tasks: Sequence[Task]) -> TaskResults:
        """Do `tasks`; one that kills its worker is tried again, `TRIES` times in all."""
        if self._context != context:
            self._end()
            self._context = context
        queue = _Queue()
        for task in tasks:
            queue.add(task)
        while len(self._workers) < min(self.number, len(tasks)):
            self._workers.append(_LocalWorker(len(self._workers), self._pool(context)))
        deaths: Counter[str] = Counter()
        in_hand: dict[Future[TaskResult], _LocalWorker] = {}
        for worker in self._workers:
            self._hand(worker, queue, in_hand)
        while in_hand:
            for future in wait(in_hand, return_when=FIRST_COMPLETED).done:
                worker = in_hand.pop(future)
                result = self._result(future, worker, context, deaths)
                if result is None and worker.task is not None:
                    queue.add(worker.task, first=True)
                self._hand(worker, queue, in_hand)
                if result is not None:
                    yield result

    def _result(
        self,
        future: Future[TaskResult],
        worker: _LocalWorker,
        context: RunContext,
        deaths: Counter[str],
    ) -> TaskResult | None:
        """Return what became of a worker's task; None if it is to be tried again."""
        try:
            return future.result()
        except BrokenProcessPool:
            status = self._replace(worker)
        task, store = worker.task, RunStore(context.store, context.scores)
        assert task is not None
        if task.is_done(store):
            return TaskResult(task.key)
        deaths[task.key] += 1
        if deaths[task.key] < TRIES:
            return None
        error = f"its worker process ended with status {status}, {TRIES} times"
        store.fail(task, error, "")
        return TaskResult(task.key, error)

    def _hand(
        self, worker: _LocalWorker, queue: _Queue, in_hand: dict[Future[TaskResult], _LocalWorker]
    ) -> None:
        busy = [other.group for other in self._workers if other is not worker and other.task]
        worker.task = queue.take(worker.group, busy)
        if worker.task is None:
            return
        worker.group = worker.task.group
        try:
            in_hand[self._submit(worker, worker.task)] = worker
        except BrokenProcessPool:  # it died when it had nothing in hand
            self._replace(worker)
            in_hand[self._submit(worker, worker.task)] = worker

    def _submit(self, worker: _LocalWorker, task: Task) -> Future[TaskResult]:
        device = self.devices[worker.number % len(self.devices)] if self.devices else None
        before = {*multiprocessing.active_children()}
        with _environment(device):  # the pool starts its process at its first task
            future = worker.pool.submit(_do, task)
        if worker.process is None:
            worker.process = next(iter({*multiprocessing.active_children()} - before), None)
        return future

    def _replace(self, worker: _LocalWorker) -> int | None:
        """Give a worker that died another process, and return the exit status of the first."""
        worker.pool.shutdown()
        status = None if worker.process is None else worker.process.exitcode
        assert self._context is not None
        worker.pool, worker.process = self._pool(self._context), None
        return status

    @staticmethod
    def _pool(context: RunContext) -> ProcessPoolExecutor:
        spawn = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(1, spawn, initializer=_begin, initargs=(context,))

    def _end(self, *, at_once: bool = False) -> None:
        for worker in self._workers:
            if at_once and worker.process is not None:
                worker.process.terminate()
        for worker in self._workers:
            worker.pool.shutdown(cancel_futures=True)
        self._workers = []


@contextmanager
def _environment(device: str | None) -> Iterator[None]:
    """Let processes that are started now have one thread, and one GPU if there is a list."""
    changed = THREADS | ({} if device is None else {"CUDA_VISIBLE_DEVICES": device})
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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
                f"{where!r} is not a Dask cluster; give local:N, slurm:N or a scheduler's address "
                "like tcp://host:8786"
            )
        try:
            import distributed  # noqa: F401 - only whether it is there
        except ImportError as error:
            raise MissingExtraError(
                "Dask is not installed; pip install distributed, or use --workers or "
                "--shard, which do without"
            ) from error
        self._open = ExitStack()
        self.client: Any = None

    def __enter__(self) -> Self:
        import dask
        from distributed import Client

        local = LOCAL_SETTINGS if self.where.startswith("local:") else {}
        self._open.enter_context(dask.config.set(SETTINGS | local))
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
        if self.where.startswith("local:"):
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
        from distributed import KilledWorker

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
        from distributed import KilledWorker

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
