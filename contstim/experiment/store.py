"""The data of a study while it runs: one writer, nothing reported that is not on the disk."""

from __future__ import annotations

import secrets
import sqlite3
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from contstim.errors import ContstimError
from contstim.experiment import sessions
from contstim.experiment.dashboard import AnswerCounts, read_summary
from contstim.experiment.messages import (
    RequestError,
    SessionRequest,
    list_trials_after,
    make_bundle,
    make_outcome_link,
    store_materials,
)
from contstim.experiment.schema import data_path, insert_row, open_data
from contstim.experiment.sessions import CLOSED_BY_RULE
from contstim.experiment.study import Study
from contstim.experiment.trials import Trial, read_design, session_trials
from contstim.experiment.writer import Writer
from contstim.files import digest, lock

if TYPE_CHECKING:
    from contstim.experiment.adaptive import LatestResult

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

_TOKENS = 20  # of the browser that began a session, and of all others; the oldest gives way
_STRANGERS = 1000  # tokens of no session that are remembered


def _transaction(
    method: Callable[Concatenate[Store, Connection, _Arguments], _Result],
) -> Callable[Concatenate[Store, _Arguments], Future[_Result]]:
    """Have the writer's thread call a method, which is passed the connection."""

    def submitted(
        self: Store, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> Future[_Result]:
        return self._writer.submit(lambda connection: method(self, connection, *args, **kwargs))

    submitted.__doc__ = method.__doc__
    return submitted


class Store:
    """What a server does with a study's data; every result is a future, done after the commit.

    Each transaction is stored whole or, if it raises, not at all. A session is identified by a
    token, of which each browser that opens it has its own. The browser in which the session was
    begun is recognised by its request. Another browser that knows the recruiter's id continues the
    session and is counted, but learns neither answers nor codes.

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
        Whether the dashboard of an adaptive study says no more than "stop" or "continue".

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
        self._latest: LatestResult | None = None
        if study.adaptive is not None:
            # Loads pandas, which takes longer than all else; a fixed design does without.
            from contstim.experiment.adaptive import BlockIssuer, LatestResult

            self._issuing = BlockIssuer(study)
            self._latest = LatestResult(study, self.path, blinded)
        self._closes = study.adaptive is not None and study.adaptive.auto_close
        self._n_analyses = 0  # that were asked for
        self.study = study
        #: Digests of tokens of sessions that are not in the data.
        self.orphaned_tokens: set[str] = set()
        self._writer = Writer(
            lambda: open_data(self.path, study),
            say,
            on_rollback=lambda: self._issuing.forget() if self._issuing is not None else None,
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
        self._analyse()  # at what a server that was killed has not seen

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit what was asked for, close the file and leave it to others."""
        self._stack.close()

    @_transaction
    def open(
        self, connection: Connection, opening: SessionRequest
    ) -> tuple[str, dict[str, Any], bool]:
        """Open a session or find the one that the participant has.

        Returns
        -------
        tuple
            A token of the session, its bundle, and whether it is new.

        Raises
        ------
        InputError
            If the participant's id is missing or none that a recruiter gives.
        RequestError
            400 if the consent is to another text, 409 if the session is finished, 503 if the
            study is closed or no assignment is free.
        """
        now, study = self._clock(), self.study
        agreed = (opening.consent.version, opening.consent.sha256)
        if agreed != (study.consent.version, study.consent_sha256):
            raise RequestError(
                400, "consent is to another version of the text; load the page again"
            )
        if study.recruiter is not None:
            study.recruiter.check_id(opening.participant)
        minutes = study.allocation.release_after_minutes
        if minutes:
            sessions.release_inactive(connection, now - minutes * 60, now)
        row = sessions.find_requested_session(connection, opening)
        new = row is None
        if row is None:
            session, is_first = self._create(connection, opening, now), True
        else:
            session = row["session"]
            is_first = opening.key is not None and row["request"] == opening.key
            if row["outcome"]:
                link = self._link(row["outcome"], is_first)
                raise RequestError(
                    409, "this participant has finished already", outcome=row["outcome"], **link
                )
            connection.execute(
                "UPDATE sessions SET browsers = browsers + ? WHERE session = ?",
                (not is_first, session),
            )
        row = sessions.heartbeat(connection, session, now)
        token = _new_token(connection, session, now, is_first)
        return token, self._bundle(connection, row, now), new

    @_transaction
    def resume(self, connection: Connection, token: str) -> dict[str, Any]:
        """Return the bundle of a session."""
        now = self._clock()
        return self._bundle(connection, self._session(connection, token, now), now)

    @_transaction
    def add_answers(
        self, connection: Connection, token: str, answers: Sequence[Any]
    ) -> sessions.Receipt:
        """Store answers; see `record_answers`."""
        now = self._clock()
        row = self._session(connection, token, now)
        late = sessions.is_past_time_limit(
            self.study, row["started_at"], now, sessions.GRACE_SECONDS
        )
        trials = sessions.map_trials_by_id(self.study, self._trials(connection, row))
        received = sessions.record_answers(
            connection, row["session"], trials, answers, now, late, self.study.presentation
        )
        if self._issuing is not None:
            self._issuing.learn(connection)
        if self.study.session.end_immediately and row["outcome"] is None:
            outcome, _ = sessions.determine_outcome(connection, self.study, row["session"], now)
            received.over = outcome == "failed_checks"
        return received

    @_transaction
    def add_events(
        self, connection: Connection, token: str, events: Sequence[Any]
    ) -> sessions.Receipt:
        """Store events and responses; see `record_events`."""
        now = self._clock()
        row = self._session(connection, token, now)
        trials = sessions.map_trials_by_id(self.study, self._trials(connection, row))
        return sessions.record_events(connection, self.study, row["session"], trials, events, now)

    @_transaction
    def next_trials(self, connection: Connection, token: str, after: int) -> dict[str, Any]:
        """Return the trials of a session after number `after`, choosing a block if one is due.

        Repeated after a lost reply, it returns the same; see `list_trials_after`. Nothing
        is chosen before the first answer, which may be to a practice trial: who only consents
        takes no pairs from others.
        """
        now = self._clock()
        row = self._session(connection, token, now)
        further = list_trials_after(self._trials(connection, row), after)
        if further["trials"] or not further["more"] or row["outcome"] or self._issuing is None:
            return further
        answered = "SELECT 1 FROM answers WHERE session = ? LIMIT 1"
        begun = connection.execute(answered, (row["session"],)).fetchone() is not None
        if begun or not self.study.practice:
            self._issuing.issue(connection, row["session"], now)
        return list_trials_after(self._trials(connection, row), after)

    def finish(self, token: str) -> Future[dict[str, Any]]:
        """End a session; a study that closes itself then looks whether it may stop."""
        ended = self._finish(token)
        ended.add_done_callback(lambda _: self._analyse())
        return ended

    @_transaction
    def _finish(self, connection: Connection, token: str) -> dict[str, Any]:
        """End a session and return its outcome, completion code and the address to return to.

        The last two are for the browser in which it was begun, and for the one that ends it.

        Raises
        ------
        RequestError
            409, with the ids of ``missing`` trials and the names of screening ``questions``, if any
            have no answer while there is time.
        """
        now = self._clock()
        row = self._session(connection, token, now)
        session, outcome, ended_by = row["session"], row["outcome"], row["finished_by"]
        if outcome is None:
            outcome, missing = sessions.determine_outcome(connection, self.study, session, now)
            if outcome is None:
                n_missing = sum(map(len, missing.values()))
                raise RequestError(409, f"answers are missing: {n_missing}", **missing)
            ended_by = digest(token)
            connection.execute(
                "UPDATE sessions SET finished_at = ?, outcome = ?, last_at = ?, finished_by = ?"
                " WHERE session = ?",
                (now, outcome, now, ended_by, session),
            )
            if outcome == "screened_out":
                sessions.release_assignment(connection, session, outcome, now)
        link = self._link(outcome, row["own"] or ended_by == digest(token))
        return {"complete": outcome == "complete", "outcome": outcome, **link}

    @_transaction
    def close_by_rule(self, connection: Connection, conclusion: str) -> bool:
        """Close the study by its rule and return whether; see `close_by_rule`."""
        return sessions.close_by_rule(connection, conclusion, self._clock())

    @_transaction
    def count(self, connection: Connection, name: str) -> None:
        """Count something of which nothing else is stored: a page ``opened``, a person who left."""
        connection.execute(
            "INSERT INTO counts VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET n = n + 1", (name,)
        )

    def _session(self, connection: Connection, token: str, now: float) -> Any:
        """Return the row of the token's session, which is back in its assignment if that is free.

        Also ``own``: whether the token is of the browser in which it was begun.
        """
        query = "SELECT session FROM tokens WHERE sha256 = ?"
        row = connection.execute(query, (digest(token),)).fetchone()
        if row is None:
            if len(self.orphaned_tokens) < _STRANGERS and len(token) == len(
                secrets.token_urlsafe(32)
            ):
                self.orphaned_tokens.add(digest(token))
            raise RequestError(401, "there is no such session; open the study again")
        sessions.heartbeat(connection, row["session"], now)
        query = "SELECT * FROM sessions JOIN tokens USING (session) WHERE sha256 = ?"
        return connection.execute(query, (digest(token),)).fetchone()

    def _bundle(self, connection: Connection, row: Any, now: float) -> dict[str, Any]:
        """Return the bundle of a session, with the trials that have an answer."""
        session, trials = row["session"], self._trials(connection, row)
        answers = connection.execute(
            "SELECT trial FROM answers WHERE session = ? AND conflict = 0 ORDER BY sequence",
            (session,),
        )
        by_id = sessions.map_trials_by_id(self.study, trials)
        # Practice may have changed since.
        answered = [by_id[trial].page_id for (trial,) in answers if trial in by_id]
        elapsed = round(max(0.0, now - row["started_at"]), 3)
        responded = sessions.read_first_responses(connection, session)
        bundle = make_bundle(
            self.study, row["assignment"], session, answered, elapsed, responded, trials
        )
        return {**bundle, "finished": row["outcome"]}

    def _trials(self, connection: Connection, row: Any) -> tuple[Trial, ...]:
        design = self.study.design
        return session_trials(connection, design, row["session"], row["assignment"])

    def _create(self, connection: Connection, opening: SessionRequest, now: float) -> str:
        if sessions.find_closing_reason(connection) is not None:
            link = make_outcome_link(self.study, "full")
            raise RequestError(503, "the study is over", outcome="over", **link)
        session = str(uuid.uuid4())
        taken = sessions.take_assignment(connection, session, now, self.study.allocation)
        if taken is None:
            raise RequestError(503, "no place is free", **make_outcome_link(self.study, "full"))
        assignment, group = taken
        if assignment not in self.study.design.trials:
            # `contstim experiment extend` has added trials.
            study, path = self.study, self.study.folder / "trials.csv"
            design = read_design(path, study.attention, study.presentation)
            self.study = replace(study, design=design)
        row = {
            "session": session,
            "request": opening.key,
            "source": "server",
            "assignment": assignment,
            "group_number": group,
            "consent_version": opening.consent.version,
            "consent_sha256": opening.consent.sha256,
            "started_at": now,
            "last_at": now,
            "materials": store_materials(connection, self.study),
        }
        sessions.add_session(connection, self.study, row, opening.participant, opening.parameters)
        return session

    def _link(self, outcome: str, earned: bool) -> dict[str, str | None]:
        if not earned:
            return {"code": None, "redirect": None}
        return make_outcome_link(self.study, outcome)

    def _analyse(self) -> None:
        """Have the study analysed if it closes itself; the writer does not wait for that."""
        if self._closes:
            self._n_analyses += 1
            with suppress(RuntimeError):  # it is being closed; the next server looks when it begins
                self._reader.submit(self._close_if_stopped, self._n_analyses)

    def _close_if_stopped(self, number: int) -> None:
        if number < self._n_analyses or self._latest is None:
            return  # another comes, which sees more
        try:
            conclusion = self._latest.analyse(self.study, self._clock())
            if conclusion is None:
                return
            if self.close_by_rule(conclusion).result():
                shown = "" if self._blinded else f": {conclusion}"
                self._say(f"the study is closed {CLOSED_BY_RULE}{shown}; who has begun may finish")
        except (ContstimError, sqlite3.Error) as error:
            self._say(f"nobody can say whether the study may close: {error}")
        else:
            self._closes = False

    def summary(self) -> Future[dict[str, Any]]:
        """Return what the dashboard shows; see `read_summary`. The writer is not asked.

        Also ``orphaned_sessions``, browsers that hold a session which is not in the data, and of an
        adaptive study ``adaptive``: how it stands, see `LatestResult.read`.
        """
        return self._reader.submit(self._summary)

    def _summary(self) -> dict[str, Any]:
        now = self._clock()
        summary = read_summary(self.path, self.study, self._counts, now)
        if self._blinded and (summary["closed"] or "").startswith(CLOSED_BY_RULE):
            summary["closed"] = CLOSED_BY_RULE  # without the conclusion
        summary["orphaned_sessions"] = len(self.orphaned_tokens)
        if self._latest is not None:
            summary["adaptive"] = self._latest.read(self.study, now)
        return summary


def _new_token(connection: Connection, session: str, now: float, is_first: bool) -> str:
    """Make a token of a session; where there are many the oldest gives way, never a lock-out."""
    token = secrets.token_urlsafe(32)
    row = {"sha256": digest(token), "session": session, "made_at": now, "own": int(is_first)}
    insert_row(connection, "tokens", row)
    connection.execute(
        "DELETE FROM tokens WHERE rowid IN (SELECT rowid FROM tokens WHERE session = ? AND own = ?"
        " ORDER BY made_at DESC, rowid DESC LIMIT -1 OFFSET ?)",
        (session, int(is_first), _TOKENS),
    )
    return token
