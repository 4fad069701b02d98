"""The data of a study while it runs: one writer, nothing reported that is not on the disk."""

from __future__ import annotations

import secrets
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from contstim.experiment import sessions
from contstim.experiment.dashboard import AnswerCounts, read_summary
from contstim.experiment.messages import (
    Opening,
    RefusedError,
    keep_materials,
    make_bundle,
    next_trials,
    outcome_link,
)
from contstim.experiment.schema import (
    backup_data,
    code_suffix,
    data_path,
    insert,
    open_data,
    read_salt,
)
from contstim.experiment.study import Study
from contstim.experiment.trials import Trial, read_design, session_trials
from contstim.experiment.writer import Writer
from contstim.files import digest, lock

if TYPE_CHECKING:
    from contstim.experiment.adaptive import Issuing, Standings

_TOKENS = 200  # times that a session may be opened; only a fault or malice comes near

Arguments = ParamSpec("Arguments")
_Result = TypeVar("_Result")


def _step(
    method: Callable[Concatenate[Store, sqlite3.Connection, float, Arguments], _Result],
) -> Callable[Concatenate[Store, Arguments], Future[_Result]]:
    """Have a method run by the writer, who gives it the connection and the time.

    Callers get a future, which is done after the commit.
    """

    @wraps(method)
    def submit(
        self: Store, /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[_Result]:
        return self._writer.submit(lambda c: method(self, c, self._clock(), *args, **kwargs))

    return submit


def _session_step(
    method: Callable[Concatenate[Store, sqlite3.Connection, float, Any, Arguments], _Result],
) -> Callable[Concatenate[Store, str, Arguments], Future[_Result]]:
    """Have a method run as a `_step` with the row of the session whose token callers give.

    The session is back in its assignment if that is free. There is a `RefusedError`, 401, if the
    token is of none.
    """

    @wraps(method)
    def known(
        self: Store,
        connection: sqlite3.Connection,
        now: float,
        token: str,
        /,
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> _Result:
        query = "SELECT session FROM tokens WHERE sha256 = ?"
        found = connection.execute(query, (digest(token),)).fetchone()
        if found is None:
            raise RefusedError(401, "there is no such session; open the study again")
        row = _come_back(connection, found["session"], now)
        return method(self, connection, now, row, *args, **kwargs)

    return _step(known)


def _by_reader(method: Callable[[Store], _Result]) -> Callable[[Store], Future[_Result]]:
    """Have a method run by a thread that only reads; the writer is not asked."""

    @wraps(method)
    def submit(self: Store) -> Future[_Result]:
        return self._reader.submit(method, self)

    return submit


class Store:
    """What a server does with a study's data; every result is a future, done after the commit.

    Each step is stored whole or, if it raises, not at all.

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
        self.study = study
        self.path = data_path(study, path)
        self._clock = clock
        self._issuing: Issuing | None = None
        self._standings: Standings | None = None
        if study.adaptive is not None:
            # Loads pandas, which takes longer than all else; a fixed design does without.
            from contstim.experiment.adaptive import Issuing, Standings

            self._issuing = Issuing(study)
            self._standings = Standings(study, self.path, blinded)
        self._writer = Writer(lambda: open_data(self.path, study), say, self._undone)
        with ExitStack() as stack:
            stack.callback(self._writer.close)
            held = self.path.with_name(f"{self.path.name}.lock")
            stack.enter_context(lock(held, f"the data file {self.path}"))
            self._reader = stack.enter_context(ThreadPoolExecutor(1, "contstim-reader"))
            self._counts = AnswerCounts()
            if self._issuing is not None:
                self._writer.submit(self._issuing.check).result()
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit what was asked for, close the file and leave it to others."""
        self._stack.close()

    def _undone(self) -> None:
        if self._issuing is not None:
            self._issuing.forget()

    @_step
    def open(
        self, connection: sqlite3.Connection, now: float, opening: Opening
    ) -> tuple[str, dict[str, Any], bool]:
        """Open a session or find the one that the participant has.

        Returns
        -------
        tuple
            A token of the session, its bundle, and whether it is new.

        Raises
        ------
        RefusedError
            400 if the consent is to another text or the participant's id is missing, 409 if the
            session is finished, 503 if no assignment is free.
        """
        study = self.study
        agreed = (opening.consent.version, opening.consent.sha256)
        if agreed != (study.consent.version, study.consent_sha256):
            raise RefusedError(
                400, "consent is to another version of the text; load the page again"
            )
        if study.recruiter is not None:
            study.recruiter.check_id(opening.participant)
        minutes = study.allocation.release_after_minutes
        if minutes:
            sessions.release_stale(connection, now - minutes * 60, now)
        session = _known(connection, opening)
        new = session is None
        if session is None:
            session = self._create(connection, opening, now)
        elif outcome := sessions.session_row(connection, session)["outcome"]:
            link = self._link(connection, session, outcome)
            raise RefusedError(
                409, "this participant has finished already", outcome=outcome, **link
            )
        row = _come_back(connection, session, now)
        return _token(connection, session, now), self._bundle(connection, row, now), new

    @_session_step
    def resume(self, connection: sqlite3.Connection, now: float, row: Any) -> dict[str, Any]:
        """Return the bundle of the token's session."""
        return self._bundle(connection, row, now)

    @_session_step
    def add_answers(
        self, connection: sqlite3.Connection, now: float, row: Any, answers: Sequence[Any]
    ) -> sessions.Received:
        """Store answers; see `record_answers`."""
        session, shown = row["session"], self.study.presentation
        late = sessions.is_over(self.study, row["started_at"], now, sessions.GRACE_S)
        trials = sessions.trials_by_id(self.study, self._trials_of(connection, row))
        received = sessions.record_answers(connection, session, trials, answers, now, late, shown)
        if self._issuing is not None:
            self._issuing.learn(connection)
        if self.study.session.end_at_once and row["outcome"] is None:
            outcome, _ = sessions.outcome_of(connection, self.study, session, now)
            received.over = outcome == "failed_checks"
        return received

    @_session_step
    def add_events(
        self, connection: sqlite3.Connection, now: float, row: Any, events: Sequence[Any]
    ) -> sessions.Received:
        """Store events; see `record_events`."""
        trials = sessions.trials_by_id(self.study, self._trials_of(connection, row))
        return sessions.record_events(connection, self.study, row["session"], trials, events, now)

    @_session_step
    def next_trials(
        self, connection: sqlite3.Connection, now: float, row: Any, after: int
    ) -> dict[str, Any]:
        """Return the trials of a session after number `after`, choosing a block if one is due.

        Asked again after a reply that was lost, it returns the same; see `next_trials`.
        """
        found = next_trials(self._trials_of(connection, row), after)
        if found["trials"] or not found["more"] or row["outcome"] or self._issuing is None:
            return found
        self._issuing.issue(connection, row["session"], now)
        return next_trials(self._trials_of(connection, row), after)

    @_session_step
    def finish(self, connection: sqlite3.Connection, now: float, row: Any) -> dict[str, Any]:
        """End a session and return its outcome, completion code and the address to return to.

        Raises
        ------
        RefusedError
            409, with the ids of the missing trials, if trials have no answer while there is time.
        """
        session, outcome = row["session"], row["outcome"]
        if outcome is None:
            outcome, missing = sessions.outcome_of(connection, self.study, session, now)
            if outcome is None:
                raise RefusedError(409, f"{len(missing)} trials have no answer", missing=missing)
            connection.execute(
                "UPDATE sessions SET finished_at = ?, outcome = ?, last_at = ? WHERE session = ?",
                (now, outcome, now, session),
            )
            if outcome == "screened_out":
                sessions.release_assignment(connection, session, outcome, now)
        link = self._link(connection, session, outcome)
        return {"complete": outcome == "complete", "outcome": outcome, **link}

    @_step
    def ready(self, connection: sqlite3.Connection, _: float) -> None:
        """Do nothing, as every other step is done: it fails where nothing can be stored."""

    @_step
    def opened(self, connection: sqlite3.Connection, _: float) -> None:
        """Count a page that was loaded."""
        _count(connection, "opened")

    @_step
    def release(
        self, connection: sqlite3.Connection, now: float, session: str, idle_s: float
    ) -> list[str]:
        """Give the assignment of an unfinished session to whoever comes next.

        Parameters
        ----------
        session
            Which; if it is empty all that have been silent for so long.
        idle_s
            Seconds.
        """
        if not session:
            return sessions.release_stale(connection, now - idle_s, now)
        found = connection.execute(
            "SELECT 1 FROM sessions WHERE session = ? AND outcome IS NULL", (session,)
        ).fetchone()
        # By "abandoned" who comes back has the assignment again, if it is still free.
        done = bool(found) and sessions.release_assignment(connection, session, "abandoned", now)
        return [session] if done else []

    @_step
    def decline(self, connection: sqlite3.Connection, _: float) -> None:
        """Count somebody who declined; nothing else is stored."""
        _count(connection, "declined")

    @_by_reader
    def summary(self) -> dict[str, Any]:
        """Return what the dashboard shows; see `read_summary`.

        Of an adaptive study also ``adaptive``: how it stands, see `Standings.read`.
        """
        now = self._clock()
        found = read_summary(self.path, self.study, self._counts, now)
        if self._standings is not None:
            found["adaptive"] = self._standings.read(self.study, now)
        return found

    @_by_reader
    def backup(self) -> bytes:
        """Return a copy of the data as they are at one moment."""
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "copy.sqlite3"
            backup_data(self.study, copy, self.path)
            return copy.read_bytes()

    @_by_reader
    def export(self) -> bytes:
        """Return the tables and the Psych-DS data set as a ZIP archive."""
        # Pandas takes longer to load than all else: a server that was killed is back without it.
        from contstim.experiment.exporting import exported_zip

        return exported_zip(self.study, self.path)

    def _bundle(self, connection: sqlite3.Connection, row: Any, now: float) -> dict[str, Any]:
        """Return the bundle of a session with what was answered."""
        session = row["session"]
        answers = connection.execute(
            "SELECT trial, answer, choice FROM answers WHERE session = ? AND conflict = 0"
            " ORDER BY sequence",
            (session,),
        )
        trials = self._trials_of(connection, row)
        known = sessions.trials_by_id(self.study, trials)
        answered = {
            known[one["trial"]].page_id: {"id": one["answer"], "choice": one["choice"]}
            for one in answers
            if one["trial"] in known  # practice may have changed since
        }
        elapsed = round(max(0.0, now - row["started_at"]), 3)
        responded = sessions.responses_of(connection, session)
        bundle = make_bundle(
            self.study, row["assignment"], session, answered, elapsed, responded, trials
        )
        return {**bundle, "finished": row["outcome"]}

    def _trials_of(self, connection: sqlite3.Connection, row: Any) -> tuple[Trial, ...]:
        return session_trials(connection, self.study.design, row["session"], row["assignment"])

    def _create(self, connection: sqlite3.Connection, opening: Opening, now: float) -> str:
        session = str(uuid.uuid4())
        assignment = sessions.take_assignment(connection, session, now, self.study.allocation)
        if assignment is None:
            raise RefusedError(503, "no place is free", **outcome_link(self.study, "full"))
        if assignment[0] not in self.study.design.trials:
            # `contstim experiment extend` has added trials.
            study = self.study
            path = study.folder / "trials.csv"
            design = read_design(path, study.attention, study.presentation)
            self.study = replace(study, design=design)
        row = {
            "session": session,
            # Only an opening without a recruiter's id is known again by its request.
            "request": opening.request if opening.participant is None else None,
            "source": "server",
            "assignment": assignment[0],
            "group_number": assignment[1],
            "consent_version": opening.consent.version,
            "consent_sha256": opening.consent.sha256,
            "started_at": now,
            "last_at": now,
            "materials": keep_materials(connection, self.study),
        }
        sessions.add_session(connection, self.study, row, opening.participant, opening.parameters)
        if self._issuing is not None:
            self._issuing.issue(connection, session, now)
        return session

    def _link(
        self, connection: sqlite3.Connection, session: str, outcome: str
    ) -> dict[str, str | None]:
        recruiter = self.study.recruiter
        own = recruiter is not None and recruiter.code_per_session
        suffix = code_suffix(read_salt(connection), session) if own else ""
        return outcome_link(self.study, outcome, suffix)


def _known(connection: sqlite3.Connection, opening: Opening) -> str | None:
    """Return the session that a participant has, by the recruiter's id or else by the request."""
    mine, value = "recruiter_id = ?", opening.participant
    if value is None:
        mine, value = "request = ? AND recruiter_id IS NULL", opening.request
    query = f"SELECT session FROM sessions JOIN participants USING (participant) WHERE {mine}"  # noqa: S608 - ours
    row = connection.execute(query, (value,)).fetchone()
    return None if row is None else str(row["session"])


def _come_back(connection: sqlite3.Connection, session: str, now: float) -> Any:
    """Note a sign of life, with which an abandoned session returns; return the session's row."""
    if sessions.session_row(connection, session)["released_why"] == "abandoned":
        sessions.return_to_assignment(connection, session, now)
    connection.execute("UPDATE sessions SET last_at = ? WHERE session = ?", (now, session))
    return sessions.session_row(connection, session)


def _token(connection: sqlite3.Connection, session: str, now: float) -> str:
    count = "SELECT count(*) FROM tokens WHERE session = ?"
    if connection.execute(count, (session,)).fetchone()[0] >= _TOKENS:
        raise RefusedError(429, "this session was opened too often; tell the researchers")
    token = secrets.token_urlsafe(32)
    insert(connection, "tokens", {"sha256": digest(token), "session": session, "made_at": now})
    return token


def _count(connection: sqlite3.Connection, name: str) -> None:
    connection.execute(
        "INSERT INTO counts VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET n = n + 1", (name,)
    )
