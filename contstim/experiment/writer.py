"""One thread that writes: what is asked of it is committed together, then answered."""

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

_MOST = 500  # jobs in one commit


class Writer:
    """Runs jobs on a connection, each whole or not at all, many to a commit.

    Whatever a job or a commit raises, every future is done and the writer goes on: who waits for
    an answer gets one.

    While one commit waits for the disk, jobs gather for the next (group commit). A job's future is
    done only when the commit that holds it has returned and the file is still in its place: what
    is written to a file that no name leads to any more would be lost.

    Parameters
    ----------
    open_connection
        Called in the writer's thread.
    say
        Told, in the writer's thread, when commits begin to fail and when they succeed again.
    on_rollback
        Told, in the writer's thread, when something that jobs may remember was not stored.
    """

    def __init__(
        self,
        open_connection: Callable[[], sqlite3.Connection],
        say: Callable[[str], None] = lambda _: None,
        on_rollback: Callable[[], None] = lambda: None,
    ) -> None:
        self._open = open_connection
        self._say = say
        self._on_rollback = on_rollback
        self._failure = ""
        self._jobs: queue.SimpleQueue[tuple[Job, Future[Any]] | None] = queue.SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()
        opened: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(opened,), name="contstim-writer", daemon=True
        )
        self._thread.start()
        opened.result()

    def submit(self, job: Callable[[sqlite3.Connection], _Result]) -> Future[_Result]:
        """Have `job` done; the future holds its result once that is committed.

        What the job raises, and what the commit raises, is raised by the future; nothing of the job
        is stored then. OutputError is raised if the file was removed or replaced.
        """
        future: Future[_Result] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("the writer is closed")
            self._jobs.put((job, future))
        return future

    def close(self) -> None:
        """Finish what was asked for, then close the connection."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        self._thread.join()

    def _run(self, opened: Future[None]) -> None:
        try:
            connection = self._open()
            files = _files(connection)
        except BaseException as error:  # noqa: BLE001 - raised again where the writer was made
            opened.set_exception(error)
            return
        opened.set_result(None)
        try:
            going = True
            while going:
                items = [self._jobs.get()]
                with suppress(queue.Empty):
                    while items[-1] is not None and len(items) < _MOST:
                        items.append(self._jobs.get_nowait())
                going = items[-1] is not None
                self._commit(connection, [item for item in items if item is not None], files)
        finally:
            connection.close()

    def _commit(
        self,
        connection: sqlite3.Connection,
        batch: list[tuple[Job, Future[Any]]],
        files: dict[Path, tuple[int, int] | None],
    ) -> None:
        # Who cancelled (a client that hung up) is passed over; after this nobody can.
        batch = [(job, future) for job, future in batch if future.set_running_or_notify_cancel()]
        if not batch:
            return
        done: list[tuple[Future[Any], Any]] = []
        failure = ""
        try:
            _require(files)
            connection.execute("BEGIN IMMEDIATE")
            for job, future in batch:
                connection.execute("SAVEPOINT job")
                try:
                    result = job(connection)
                except BaseException as error:  # noqa: BLE001 - raised again by the job's future
                    connection.execute("ROLLBACK TO job")
                    future.set_exception(error)
                    if isinstance(error, sqlite3.OperationalError):  # a full disk, for example
                        failure = str(error)
                        self._on_rollback()
                else:
                    done.append((future, result))
                connection.execute("RELEASE job")
            connection.execute("COMMIT")
            _require(files)
        except BaseException as error:  # noqa: BLE001 - raised again by the jobs' futures
            with suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            self._on_rollback()
            self._tell(str(error) or repr(error))
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        self._tell(failure)
        for future, result in done:
            future.set_result(result)

    def _tell(self, failure: str) -> None:
        """Say once that commits fail, and once that they do no longer."""
        if failure != self._failure:
            self._failure = failure
            # Nobody may read it any more; the data are stored all the same.
            with suppress(OSError, ValueError):
                self._say(
                    f"nothing is stored: {failure}" if failure else "the data are stored again"
                )


def _files(connection: sqlite3.Connection) -> dict[Path, tuple[int, int] | None]:
    """Return the file of a connection and that of its log of changes, as they are on the disk."""
    # As bytes: the names of folders need not be text.
    query = "SELECT CAST(file AS BLOB) FROM pragma_database_list WHERE name = 'main'"
    path = Path(os.fsdecode(connection.execute(query).fetchone()[0]))
    return {file: _identity(file) for file in (path, path.with_name(f"{path.name}-wal"))}


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _require(files: dict[Path, tuple[int, int] | None]) -> None:
    for path, identity in files.items():
        if identity is not None and _identity(path) != identity:
            raise OutputError(
                f"{path} was removed or replaced while the study runs; put it back, or stop the "
                "server and start it again"
            )
