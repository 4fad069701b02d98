"""A thread that performs all writes to a data file and commits several of them together."""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from contstim.errors import OutputError

_Result = TypeVar("_Result")
Job = Callable[[sqlite3.Connection], Any]

_MAX_BATCH = 500  # maximum number of jobs per commit


class Writer:
    """Thread that writes to an SQLite database and commits several changes together.

    A *job* is a function that changes the data over the connection. Each job is stored completely
    or not at all. Jobs that arrive during a commit form the next batch (group commit).

    The future of a job is resolved after its commit. Before that, the writer checks that the data
    file still has the same inode. If the file was removed or replaced, the writes would be lost,
    and the futures raise `OutputError`. An exception in a job is raised by its future, and an
    exception in a commit by all futures of the batch. The thread continues in both cases.

    Parameters
    ----------
    open_connection
        Function that opens the connection; called in the writer's thread.
    report
        Function that receives a message when commits start to fail and when they succeed again;
        called in the writer's thread.
    on_rollback
        Function called in the writer's thread after a rollback, to discard state derived from
        rows that were not stored.
    """

    def __init__(
        self,
        open_connection: Callable[[], sqlite3.Connection],
        report: Callable[[str], None] = lambda _: None,
        on_rollback: Callable[[], None] = lambda: None,
    ) -> None:
        self._open_connection = open_connection
        self._emit = report
        self._on_rollback = on_rollback
        self._failure = ""  # error message of the latest batch of jobs
        # Jobs with the futures of their results; None ends the thread.
        self._jobs: queue.SimpleQueue[tuple[Job, Future[Any]] | None] = queue.SimpleQueue()
        self._is_closed = False
        self._lock = threading.Lock()
        # Start the thread, and wait until it has opened the database.
        opening: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(opening,), name="contstim-writer", daemon=True
        )
        self._thread.start()
        opening.result()

    def submit(self, job: Callable[[sqlite3.Connection], _Result]) -> Future[_Result]:
        """Schedule a job.

        Parameters
        ----------
        job
            Function that is called with the connection, in the writer's thread.

        Returns
        -------
        Future
            Result of the job, available after the commit. An exception of the job or of the
            commit is raised by the future, and no change of the job is stored; it is an
            `OutputError` if the data file was removed or replaced.

        Raises
        ------
        RuntimeError
            If the writer is closed.
        """
        future: Future[_Result] = Future()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the writer is closed")
            self._jobs.put((job, future))
        return future

    def close(self) -> None:
        """Finish all scheduled jobs, then close the connection and end the thread."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._jobs.put(None)
        self._thread.join()

    def _run(self, opening: Future[None]) -> None:
        """Collect jobs into batches, and commit each batch, until the writer is closed.

        This method runs in the writer's thread. The constructor waits for the future `opening`: it
        is resolved when the database has been opened, or receives the exception if that fails.
        """
        try:
            # Step 1: open the database, and report success or failure to the constructor.
            connection = self._open_connection()
            # Path of the database file. It is read as bytes, because names of folders need not be
            # valid text.
            query = "SELECT CAST(file AS BLOB) FROM pragma_database_list WHERE name = 'main'"
            path = Path(os.fsdecode(connection.execute(query).fetchone()[0]))
            # Device and inode of the file and of its write-ahead log. `_commit` compares them with
            # those on disk to detect that a file was removed or replaced.
            log = path.with_name(f"{path.name}-wal")
            inodes = {path: _read_inode(path), log: _read_inode(log)}
        except BaseException as error:  # noqa: BLE001 - raised again by the constructor
            opening.set_exception(error)
            return
        opening.set_result(None)

        try:
            is_running = True
            while is_running:
                # Step 2, repeated: wait for one job, then also take the jobs that are already
                # waiting, and commit all of them together. The entry None ends the thread.
                entries = [self._jobs.get()]
                with suppress(queue.Empty):
                    while entries[-1] is not None and len(entries) < _MAX_BATCH:
                        entries.append(self._jobs.get_nowait())
                is_running = entries[-1] is not None
                self._commit(connection, [entry for entry in entries if entry is not None], inodes)
        finally:
            connection.close()

    def _commit(
        self,
        connection: sqlite3.Connection,
        batch: list[tuple[Job, Future[Any]]],
        inodes: dict[Path, tuple[int, int] | None],
    ) -> None:
        """Run a batch of jobs in one transaction and resolve their futures.

        Each job has a savepoint, so that a job that fails is undone without the others.
        """
        # Skip jobs that a disconnected client has cancelled; the others can no longer be cancelled.
        batch = [(job, future) for job, future in batch if future.set_running_or_notify_cancel()]
        if not batch:
            return

        results: list[tuple[Future[Any], Any]] = []
        failure = ""
        try:
            _check_inodes(inodes)
            connection.execute("BEGIN IMMEDIATE")
            for job, future in batch:
                connection.execute("SAVEPOINT job")
                try:
                    result = job(connection)
                except BaseException as error:  # noqa: BLE001 - raised again by the job's future
                    connection.execute("ROLLBACK TO job")
                    future.set_exception(error)
                    if isinstance(error, sqlite3.OperationalError):  # for example a full disk
                        failure = str(error)
                        self._on_rollback()
                else:
                    results.append((future, result))
                connection.execute("RELEASE job")
            connection.execute("COMMIT")
            _check_inodes(inodes)
        except BaseException as error:  # noqa: BLE001 - raised again by the jobs' futures
            with suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            self._on_rollback()
            self._report_status(str(error) or repr(error))
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return

        self._report_status(failure)
        for future, result in results:
            future.set_result(result)

    def _report_status(self, failure: str) -> None:
        """Report that writing fails, once per failure, or that it works again.

        Parameters
        ----------
        failure
            Error message of the latest batch; empty if it was stored.
        """
        if failure != self._failure:
            self._failure = failure
            # The data are stored even if the output stream is closed.
            with suppress(OSError, ValueError):
                self._emit(f"nothing is stored: {failure}" if failure else "data are stored again")


def _read_inode(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file; None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _check_inodes(inodes: dict[Path, tuple[int, int] | None]) -> None:
    """Check that files have not been removed or replaced since the connection was opened.

    Parameters
    ----------
    inodes
        Device and inode of each file at that time; None if the file did not exist.

    Raises
    ------
    OutputError
        If a file has another inode now.
    """
    for path, inode in inodes.items():
        if inode is not None and _read_inode(path) != inode:
            raise OutputError(
                f"{path} was removed or replaced while the study runs; put it back, or stop the "
                "server and start it again"
            )
