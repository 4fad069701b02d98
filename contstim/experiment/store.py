"""The data of a study while it runs: one writer, nothing reported that is not on the disk."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from contstim.experiment.messages import Opening
from contstim.experiment.recording import Received
from contstim.experiment.schema import DATA_FILE, hold, open_data
from contstim.experiment.sessions import Sessions
from contstim.experiment.study import Study
from contstim.experiment.summary import summarise
from contstim.experiment.writer import Writer

__all__ = ["Store"]


class Store:
    """What a server does with a study's data; every result is a future, done after the commit.

    Parameters
    ----------
    study
        The study.
    path
        The data file; by default in the study's folder.
    clock
        Returns seconds since 1970.
    say
        Told when data cannot be stored, and when they can again.

    Raises
    ------
    InputError, OutputError
        As `open_data` and `hold`.
    """

    def __init__(
        self,
        study: Study,
        path: Path | None = None,
        clock: Callable[[], float] = time.time,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.study = study
        self.path = study.folder / DATA_FILE if path is None else path
        self._clock = clock
        self._sessions = Sessions(study)
        self._writer = Writer(lambda: open_data(self.path, study), say)
        try:
            self._lock = hold(self.path)
        except BaseException:
            self._writer.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Commit what was asked for, close the file and leave it to others."""
        self._writer.close()
        self._lock.release()

    def open(self, opening: Opening) -> Future[tuple[str, dict[str, Any], bool]]:
        """Open a session; see `Sessions.open`."""
        return self._writer.submit(lambda c: self._sessions.open(c, opening, self._clock()))

    def resume(self, token: str) -> Future[dict[str, Any]]:
        """Return a session's bundle; see `Sessions.resume`."""
        return self._writer.submit(lambda c: self._sessions.resume(c, token, self._clock()))

    def add_answers(self, token: str, answers: Sequence[Any]) -> Future[Received]:
        """Store answers; see `Sessions.add_answers`."""
        return self._writer.submit(
            lambda c: self._sessions.add_answers(c, token, answers, self._clock())
        )

    def add_events(self, token: str, events: Sequence[Any]) -> Future[Received]:
        """Store events; see `Sessions.add_events`."""
        return self._writer.submit(
            lambda c: self._sessions.add_events(c, token, events, self._clock())
        )

    def finish(self, token: str) -> Future[dict[str, Any]]:
        """End a session; see `Sessions.finish`."""
        return self._writer.submit(lambda c: self._sessions.finish(c, token, self._clock()))

    def decline(self) -> Future[None]:
        """Count somebody who declined."""
        return self._writer.submit(self._sessions.decline)

    def summary(self) -> Future[dict[str, Any]]:
        """Return what the dashboard shows; see `summarise`."""

        def job(connection: sqlite3.Connection) -> dict[str, Any]:
            return summarise(connection, self.study, self._clock())

        return self._writer.submit(job)
