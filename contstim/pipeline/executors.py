"""Executors: what spreads tasks. Here in this process, or over worker processes of this machine."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Protocol, Self

from contstim.errors import OutputError
from contstim.pipeline.store import RunStore
from contstim.pipeline.tasks import Outcome, Task
from contstim.pipeline.work import TRIES, Worker, Workplace

__all__ = ["Executor", "InProcess", "LocalWorkers", "Outcomes", "worker_environment"]

#: Outcomes as they come; closing the generator ends the work.
Outcomes = Generator[Outcome, None, None]

#: Seconds that an ended worker may take over its last task.
_GRACE = 10.0


class Executor(Protocol):
    """Does tasks; a context manager that ends what it started."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def run(self, workplace: Workplace, tasks: Sequence[Task]) -> Outcomes:
        """Do `tasks` in any order, yielding each one's outcome once it is on the disk."""
        ...


class InProcess:
    """Does one task after the other in this process."""

    def __init__(self) -> None:
        self._worker: Worker | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker = None

    def run(self, workplace: Workplace, tasks: Sequence[Task]) -> Outcomes:
        """Do `tasks` in their order."""
        if self._worker is None or self._worker.workplace != workplace:
            self._worker = Worker(workplace)
        for task in tasks:
            yield self._worker.run(task)


def worker_environment(device: str | None = None) -> dict[str, str]:
    """Return the environment of a worker: one thread, and one GPU if a list of them is given."""
    environment = {**os.environ}
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        environment[name] = "1"
    if device is not None:
        environment["CUDA_VISIBLE_DEVICES"] = device
    return environment


@dataclass(eq=False)
class _Process:
    """One worker process, and the task that it has in hand."""

    number: int
    popen: subprocess.Popen[str]
    group: str | None = None
    task: Task | None = None


@dataclass
class _Queue:
    """Tasks by the models they need, handed out so that workers seldom load others."""

    groups: dict[str, deque[Task]] = field(default_factory=dict)

    def add(self, task: Task, *, first: bool = False) -> None:
        own = self.groups.setdefault(task.group, deque())
        own.appendleft(task) if first else own.append(task)

    def take(self, group: str | None, busy: Sequence[str | None]) -> Task | None:
        """Take a task of `group`; if it has none left, of the group with most left a worker."""
        if group not in self.groups:
            if not self.groups:
                return None
            group = max(self.groups, key=lambda g: len(self.groups[g]) / (1 + busy.count(g)))
        own = self.groups[group]
        task = own.popleft()
        if not own:
            del self.groups[group]
        return task


class LocalWorkers:
    """Does tasks in worker processes on this machine; a worker that dies is replaced.

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
        self._folder = os.getcwd()
        self._processes: list[_Process] = []
        self._workplace: Workplace | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Stopped by an error or by hand, workers drop what they have in hand: it is not committed.
        self._end(at_once=kind is not None)

    def run(self, workplace: Workplace, tasks: Sequence[Task]) -> Outcomes:
        """Do `tasks`; one that kills its worker is tried again, `TRIES` times in all."""
        if self._workplace != workplace:
            self._end()
            self._workplace = workplace
        queue = _Queue()
        for task in tasks:
            queue.add(task)
        deaths: dict[str, int] = {}
        numbers = sorted({*range(self.number)} - {process.number for process in self._processes})
        for number in numbers[: max(0, len(tasks) - len(self._processes))]:
            self._processes.append(self._start(workplace, number))
        with selectors.DefaultSelector() as selector:
            for process in self._processes:
                self._watch(selector, process)
                self._hand(process, queue)
            while any(process.task for process in self._processes):
                for key, _ in selector.select():
                    yield from self._answer(key.data, queue, deaths, selector)

    def _answer(
        self,
        process: _Process,
        queue: _Queue,
        deaths: dict[str, int],
        selector: selectors.BaseSelector,
    ) -> Iterator[Outcome]:
        assert process.popen.stdout is not None
        line = process.popen.stdout.readline()
        task, process.task = process.task, None
        if line.endswith("\n"):
            answer = json.loads(line)
            if "fatal" in answer:
                raise OutputError(answer["fatal"])
            outcome = Outcome(**answer)
        else:
            selector.unregister(process.popen.stdout)
            status = _close(process.popen)
            if task is None:
                self._processes.remove(process)
                return
            assert self._workplace is not None
            process.popen = self._start(self._workplace, process.number).popen
            self._watch(selector, process)
            outcome = Outcome(task.key)
            store = RunStore(self._workplace.store)
            if not store.has(task.key):
                deaths[task.key] = deaths.get(task.key, 0) + 1
                if deaths[task.key] < TRIES:
                    queue.add(task, first=True)
                    self._hand(process, queue)
                    return
                error = f"its worker process ended with status {status}, {TRIES} times"
                store.fail(task, error, "")
                outcome = Outcome(task.key, error)
        self._hand(process, queue)
        yield outcome

    def _hand(self, process: _Process, queue: _Queue) -> None:
        busy = [other.group for other in self._processes if other is not process and other.task]
        process.task = queue.take(process.group, busy)
        if process.task is None:
            return
        process.group = process.task.group
        # A worker that has just died is noticed when its output ends.
        with suppress(BrokenPipeError):
            self._send(process.popen, process.task.config)

    @staticmethod
    def _watch(selector: selectors.BaseSelector, process: _Process) -> None:
        assert process.popen.stdout is not None
        selector.register(process.popen.stdout, selectors.EVENT_READ, process)

    def _start(self, workplace: Workplace, number: int) -> _Process:
        device = self.devices[number % len(self.devices)] if self.devices else None
        popen = subprocess.Popen(
            [sys.executable, "-m", "contstim.pipeline.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=worker_environment(device),
            cwd=self._folder,
        )
        with suppress(BrokenPipeError):
            self._send(popen, asdict(workplace))
        return _Process(number, popen)

    @staticmethod
    def _send(popen: subprocess.Popen[str], value: Mapping[str, object]) -> None:
        assert popen.stdin is not None
        popen.stdin.write(json.dumps(value) + "\n")
        popen.stdin.flush()

    def _end(self, *, at_once: bool = False) -> None:
        for process in self._processes:
            if at_once:
                process.popen.terminate()
            _close(process.popen)
        self._processes = []


def _close(popen: subprocess.Popen[str]) -> int:
    """End a worker that waits, or is dead already, and return its exit status."""
    assert popen.stdin is not None
    assert popen.stdout is not None
    with suppress(BrokenPipeError):
        popen.stdin.close()
    try:
        popen.wait(_GRACE)
    except subprocess.TimeoutExpired:
        popen.kill()
    popen.stdout.close()
    return popen.wait()
