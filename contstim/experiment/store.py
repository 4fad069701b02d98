"""The data of a study while it runs: one writer, nothing reported that is not on the disk."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from contstim.errors import ContstimError
from contstim.experiment.dashboard import AnswerCounts, read_summary
from contstim.experiment.messages import Opening
from contstim.experiment.schema import backup_data, data_path, open_data
from contstim.experiment.sessions import BY_RULE, Received
from contstim.experiment.study import Study
from contstim.experiment.transactions import Transactions
from contstim.experiment.writer import Writer
from contstim.files import lock

if TYPE_CHECKING:
    from contstim.experiment.adaptive import Standings

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class Store:
    """What a server does with a study's data; every result is a future, done after the commit.

    Each transaction is stored whole or, if it raises, not at all; see `Transactions`.

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
    blinded
        Whether the dashboard of an adaptive study says no more than "stop" or "go on".

    Raises
    ------
    InputError, OutputError
        As `open_data`, and as `lock` if another server has the data.
    """

    def __init__(
        self,
        study: Study,
        path: Path | None = None,
        clock: Callable[[], float] = time.time,
        say: Callable[[str], None] = lambda _: None,
        blinded: bool = False,
    ) -> None:
        # The lock lies beside the file itself, where a link leads to it.
        self.path = data_path(study, path).resolve()
        self._clock, self._say, self._blinded = clock, say, blinded
        self._issuing = None
        self._standings: Standings | None = None
        if study.adaptive is not None:
            # Loads pandas, which takes longer than all else; a fixed design does without.
            from contstim.experiment.adaptive import Issuing, Standings

            self._issuing = Issuing(study)
            self._standings = Standings(study, self.path, blinded)
        self._closes = study.adaptive is not None and study.adaptive.auto_close
        self._looks = 0  # that were asked for
        self._transactions = Transactions(study, clock, self._issuing)
        self._writer = Writer(
            lambda: open_data(self.path, study),
            say,
            undone=lambda: self._issuing.forget() if self._issuing is not None else None,
        )
        with ExitStack() as stack:
            stack.callback(self._writer.close)
            held = self.path.with_name(f"{self.path.name}.lock")
            stack.enter_context(lock(held, f"the data file {self.path}"))
            self._reader = stack.enter_context(ThreadPoolExecutor(1, "contstim-reader"))
            self._counts = AnswerCounts()
            if self._issuing is not None:
                self._writer.submit(self._issuing.check).result()
            self._stack = stack.pop_all()
        self._look()  # at what a server that was killed has not seen

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit what was asked for, close the file and leave it to others."""
        self._stack.close()

    @property
    def study(self) -> Study:
        """The study, which may have more assignments than when the store was made."""
        return self._transactions.study

    def _write(
        self,
        transaction: Callable[Concatenate[sqlite3.Connection, _Arguments], _Result],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> Future[_Result]:
        """Have the writer do a transaction."""
        return self._writer.submit(lambda connection: transaction(connection, *args, **kwargs))

    def open(self, opening: Opening) -> Future[tuple[str, dict[str, Any], bool]]:
        """Open a session or find the one that the participant has."""
        return self._write(self._transactions.open, opening)

    def resume(self, token: str) -> Future[dict[str, Any]]:
        """Return the bundle of a session."""
        return self._write(self._transactions.resume, token)

    def add_answers(self, token: str, answers: Sequence[Any]) -> Future[Received]:
        """Store answers."""
        return self._write(self._transactions.add_answers, token, answers)

    def add_events(self, token: str, events: Sequence[Any]) -> Future[Received]:
        """Store events and responses."""
        return self._write(self._transactions.add_events, token, events)

    def next_trials(self, token: str, after: int) -> Future[dict[str, Any]]:
        """Return the trials of a session after a number, choosing a block if one is due."""
        return self._write(self._transactions.next_trials, token, after)

    def finish(self, token: str) -> Future[dict[str, Any]]:
        """End a session; then a study whose plan asks for that looks whether to close itself."""
        ended = self._write(self._transactions.finish, token)
        ended.add_done_callback(lambda _: self._look())
        return ended

    def _look(self) -> None:
        """Have the rule asked whether the study may stop; the writer does not wait for that."""
        if self._closes:
            self._looks += 1
            with suppress(RuntimeError):  # it is being closed; the next server looks when it begins
                self._reader.submit(self._close_if_settled, self._looks)

    def _close_if_settled(self, look: int) -> None:
        if look < self._looks or self._standings is None:
            return  # another comes, which sees more
        try:
            verdict = self._standings.look(self.study, self._clock())
            if verdict is None:
                return
            if self._write(self._transactions.close, verdict).result():
                shown = "" if self._blinded else f": {verdict}"
                self._say(f"the study is closed {BY_RULE}{shown}; who has begun may finish")
        except (ContstimError, sqlite3.Error) as error:
            self._say(f"nobody can say whether the study may close: {error}")
        else:
            self._closes = False

    def release(self, session: str, idle_s: float) -> Future[list[str]]:
        """Give the assignment of an unfinished session to whoever comes next."""
        return self._write(self._transactions.release, session, idle_s)

    def count(self, name: str) -> Future[None]:
        """Count somebody who ``opened`` the page or ``declined``, or that all is ``ready``."""
        return self._write(self._transactions.count, name)

    def summary(self) -> Future[dict[str, Any]]:
        """Return what the dashboard shows; see `read_summary`. The writer is not asked.

        Also ``strangers``, browsers that hold a session which is not in the data, and of an
        adaptive study ``adaptive``: how it stands, see `Standings.read`.
        """
        return self._reader.submit(self._summary)

    def _summary(self) -> dict[str, Any]:
        now = self._clock()
        summary = read_summary(self.path, self.study, self._counts, now)
        if self._blinded and (summary["closed"] or "").startswith(BY_RULE):
            summary["closed"] = BY_RULE  # without the verdict
        summary["strangers"] = len(self._transactions.strangers)
        if self._standings is not None:
            summary["adaptive"] = self._standings.read(self.study, now)
        return summary

    def backup(self) -> Future[bytes]:
        """Return a copy of the data as they are at one moment. The writer is not asked."""
        return self._reader.submit(self._backup)

    def _backup(self) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "copy.sqlite3"
            backup_data(self.study, copy, self.path)
            return copy.read_bytes()
