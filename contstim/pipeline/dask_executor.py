"""Executor that distributes tasks with Dask to processes, SLURM jobs or other machines.

Workers write the results of tasks to the folder of the run themselves. They must therefore be able
to access the folders of the run, of the study plan and of the models under the same paths as the
process that distributes the tasks.
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
from contstim.pipeline.engine import Executor, TaskOutcomes
from contstim.pipeline.store import RunStore
from contstim.pipeline.tasks import Task
from contstim.pipeline.worker import MAX_TRIES, RunContext, TaskOutcome, Worker

#: Environment variables of local workers: one thread each.
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

#: Dask settings of schedulers that this process starts. Workers receive one task at a time. The
#: death of a worker is reported immediately for every task that was assigned to the worker.
SETTINGS = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.worker-saturation": 1.0,
}

#: Dask settings of local workers. By default, Dask removes a worker that needs long to restart, for
#: example on a busy machine. A run without workers would never end.
LOCAL_SETTINGS = {"distributed.deploy.lost-worker-timeout": "1 day"}

_CONNECTION_TIMEOUT = 15  # seconds
_MAX_WORKERS = 1024
# Maximum number of worker deaths reported for one task, whether it was started or not.
_MAX_DEATHS = 10 * MAX_TRIES

# The worker of this process. All threads share its models and its working folder, so only one of
# them may use it at a time.
_process_worker: dict[RunContext, Worker] = {}
_process_lock = threading.Lock()


def _run_on_dask_worker(context: RunContext, task: Task, starts_file: Path) -> TaskOutcome:
    """Execute a task in this worker process, and count how often the task has been started.

    Some tasks kill their worker process, for example because they need too much memory. The number
    of starts limits how often such a task is tried again. It survives the death of the worker,
    because it is stored as the size of a file.

    Parameters
    ----------
    context
        Folders and settings that all tasks of the run share.
    task
        Task to execute.
    starts_file
        File to which one byte is appended whenever the task is started.

    Returns
    -------
    TaskOutcome
        Key of the task, and its error if the task failed.
    """
    with _process_lock:
        # All threads of this process share the working folder and the loaded models. Therefore
        # only one thread may execute a task at a time.
        os.chdir(context.plan_folder)
        # Record the start before the task can kill this process.
        starts_file.parent.mkdir(parents=True, exist_ok=True)
        with starts_file.open("ab") as file:
            file.write(b".")  # one byte per start
        # Reuse the worker of the previous task, which keeps its models in memory, unless that task
        # belonged to another run.
        if context not in _process_worker:
            _process_worker.clear()
            _process_worker[context] = Worker(context)
        return _process_worker[context].run(task)


class LocalSetup(WorkerPlugin):  # type: ignore[misc] # Dask provides no types
    """Dask plugin that ignores Ctrl-C, sends standard output to standard error and selects a GPU.

    It is installed in the workers of a local cluster.

    Parameters
    ----------
    gpus
        Numbers or identifiers of the GPUs. The workers use them in turn, each as ``cuda:0``.
    """

    def __init__(self, gpus: Sequence[str]) -> None:
        self.gpus = list(gpus)

    def setup(self, worker: distributed.Worker) -> None:
        """Ignore Ctrl-C, redirect standard output to standard error, and select a GPU."""
        # The main process reports failed tasks and reacts to Ctrl-C.
        logging.getLogger("distributed").setLevel(logging.ERROR)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Text that models print must not end up in a table on standard output.
        os.dup2(2, 1)
        if self.gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = self.gpus[int(worker.name) % len(self.gpus)]


def visible_gpus() -> list[str]:
    """Return the identifiers of the GPUs that this process may use.

    These are the GPUs that the environment variable ``CUDA_VISIBLE_DEVICES`` lists. If the variable
    is not set, all GPUs of this machine are returned.
    """
    variable = os.environ.get("CUDA_VISIBLE_DEVICES")
    if variable is not None:
        return [gpu for gpu in variable.split(",") if gpu]
    return [str(number) for number, _ in enumerate(Path("/dev").glob("nvidia[0-9]*"))]


def create_executor(spec: str) -> Executor:
    """Create an executor from the value of the command-line option ``--executor``.

    Parameters
    ----------
    spec
        One of

        - ``local:N``: N worker processes on this machine, each with one thread. The visible GPUs
          are assigned to the workers in turn.
        - ``slurm:N``: N SLURM jobs with one worker each, configured by the configuration file of
          dask-jobqueue. A job that ends is replaced by a new one.
        - ``dask:ADDRESS``: workers of the Dask scheduler at an address, for example
          ``dask:tcp://HOST:8786``.

    Raises
    ------
    InputError
        If `spec` has another form.
    """
    kind, _, value = spec.partition(":")
    # The value is the address of a scheduler for "dask", otherwise the number of workers.
    if kind == "dask" and "://" in value:
        return DaskExecutor(kind, value)
    if kind in ("local", "slurm") and value.isdecimal() and 1 <= int(value) <= _MAX_WORKERS:
        return DaskExecutor(kind, int(value))
    raise InputError(
        f"{spec!r} is not an executor; write local:N, slurm:N (1 <= N <= {_MAX_WORKERS}) or "
        "dask:ADDRESS, for example local:4 or dask:tcp://HOST:8786"
    )


class DaskExecutor(Executor):
    """Executor that distributes tasks to the workers of a Dask cluster.

    If a worker dies, its unfinished tasks are executed again. As with all process pools in Python,
    scripts that use local workers need the guard ``if __name__ == "__main__"``.

    Parameters
    ----------
    kind
        ``local``, ``slurm`` or ``dask`` (see `create_executor`).
    target
        Number of workers for ``local`` and ``slurm``, or address of the scheduler for ``dask``.
    """

    def __init__(self, kind: str, target: int | str) -> None:
        self.kind = kind
        self.target = target
        self._resources = ExitStack()
        self.client: Any = None

    def __enter__(self) -> Self:
        local_settings = LOCAL_SETTINGS if self.kind == "local" else {}
        self._resources.enter_context(dask.config.set(SETTINGS | local_settings))
        cluster: Any = self.target
        if self.kind == "local":
            cluster = LocalCluster(
                n_workers=self.target,
                threads_per_worker=1,
                processes=True,
                memory_limit=0,
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.ERROR,
                env=THREADS,
            )
        elif self.kind == "slurm":
            cluster = _start_slurm_cluster(int(self.target))
        if self.kind != "dask":
            self._resources.enter_context(cluster)
        try:
            client = Client(cluster, timeout=_CONNECTION_TIMEOUT, set_as_default=False)
        except (OSError, ValueError) as error:
            self._resources.close()
            reason = " ".join(str(error).split())
            raise InputError(
                f"cannot reach the Dask scheduler {self.target} ({reason}); check its address"
            ) from None
        self.client = self._resources.enter_context(client)
        if self.kind == "local":
            self.client.register_plugin(LocalSetup(visible_gpus()))
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def run(self, context: RunContext, tasks: Sequence[Task]) -> TaskOutcomes:
        """Execute tasks and yield their outcomes in the order in which the tasks end.

        Tasks at the start of the sequence have a higher priority. If a worker process dies, Dask
        reports this for every task that was assigned to the worker, and these tasks are submitted
        again. A task is given up if it was started `MAX_TRIES` times, or if the death of its worker
        was reported `_MAX_DEATHS` times.
        """
        run_id = uuid.uuid4().hex
        n_deaths = Counter[str]()
        # Submitted tasks by Dask key: number of the task and its future.
        submitted: dict[str, tuple[int, Any]] = {}
        # File of each task in which workers record how often they have started it.
        folder = context.store_folder / "tries"
        starts_files = [folder / f"{task.key}-{run_id}" for task in tasks]
        try:
            for number, task in enumerate(tasks):
                future = self._submit_task(context, task, starts_files[number], -number)
                submitted[future.key] = number, future
            submissions = [future for _, future in submitted.values()]
            futures = as_completed(submissions, loop=self.client.loop)
            for future in futures:
                number, _ = submitted.pop(future.key)
                task, file = tasks[number], starts_files[number]
                # Fetching the outcome may start the task again. Therefore count the starts later.
                outcome, error = self._fetch_outcome(future)
                n_starts = file.stat().st_size if file.exists() else 0
                if isinstance(error, KilledWorker):
                    n_deaths[task.key] += 1
                    if n_starts < MAX_TRIES and n_deaths[task.key] < _MAX_DEATHS:
                        new_future = self._submit_task(context, task, file, -number)
                        submitted[new_future.key] = number, new_future
                        futures.add(new_future)
                        continue
                yield outcome or self._give_up_task(task, context, error, n_starts)
                file.unlink(missing_ok=True)
        finally:
            self.client.cancel([future for _, future in submitted.values()])
            for number, _ in submitted.values():
                starts_files[number].unlink(missing_ok=True)

    def _submit_task(self, context: RunContext, task: Task, file: Path, priority: int) -> Any:
        """Submit a task to the cluster, and return the Dask future of its outcome.

        Dask executes tasks with a higher priority first. `file` is the file in which workers record
        how often they have started the task.
        """
        # The Dask key of each submission must be new, because a scheduler may remember the result
        # of an earlier submission. `pure=False` also forbids Dask to reuse results.
        return self.client.submit(
            _run_on_dask_worker,
            context,
            task,
            file,
            key=f"{task.key}-{uuid.uuid4().hex}",
            priority=priority,
            pure=False,
        )

    @staticmethod
    def _fetch_outcome(future: Any) -> tuple[TaskOutcome | None, BaseException | None]:
        """Fetch the outcome of a finished task from Dask.

        Parameters
        ----------
        future
            Dask future of the task.

        Returns
        -------
        outcome : TaskOutcome or None
            Outcome of the task. None if Dask reports an error or cancelled the task.
        error : exception or None
            Error that Dask reports.
        """
        error: BaseException | None = future.exception()
        # Dask raised an error, or the task was cancelled, in which case `error` is None.
        if error is not None or future.cancelled():
            return None, error
        try:
            # If the worker dies before the outcome is fetched, Dask executes the task again.
            return future.result(), None
        except KilledWorker as killed:
            return None, killed

    @staticmethod
    def _give_up_task(
        task: Task, context: RunContext, error: BaseException | None, n_starts: int
    ) -> TaskOutcome:
        """Store the error of a task that Dask could not finish, and return the outcome of the task.

        If the worker wrote the result before it died, the task counts as finished and no error is
        written.

        Parameters
        ----------
        task
            Task that is not tried again.
        context
            Folders and settings that all tasks of the run share.
        error
            Error that Dask reports; None if Dask cancelled the task.
        n_starts
            Number of times that a worker started the task.
        """
        if isinstance(error, OutputError):
            raise error  # No task can write its result, so the whole run must stop.
        # The worker may have written the result just before it died.
        store = RunStore(context.store_folder, context.cache_folder)
        if task.is_done(store):
            return TaskOutcome(task.key)
        # Describe the cause in one line for the user.
        if error is None:
            message = "Dask cancelled the task"
        elif isinstance(error, KilledWorker):
            message = f"the worker process died each of the {n_starts} times it started the task"
        else:
            message = f"{type(error).__name__}: {' '.join(str(error).split())}"
        store.write_error(task, message, "")
        return TaskOutcome(task.key, message)


def _start_slurm_cluster(n_jobs: int) -> Any:
    """Start a Dask cluster with one worker in each of `n_jobs` SLURM jobs.

    If a job ends, for example at its time limit, SLURM starts a new one in its place. Memory,
    cores and queue of the jobs are set in the configuration file of dask-jobqueue.
    """
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
            f"the configuration of dask-jobqueue is incomplete ({' '.join(str(error).split())}); "
            "set cores, memory and queue in ~/.config/dask/jobqueue.yaml"
        ) from None
    # Adaptive scaling replaces cancelled jobs, a fixed number of jobs does not.
    cluster.adapt(minimum=n_jobs, maximum=n_jobs)
    return cluster
