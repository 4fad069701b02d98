"""The data of a study while its server runs, written by one thread.

Results are reported only after they have been committed to disk.
"""

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
from contstim.experiment import page_data, raw_log, sessions
from contstim.experiment.dashboard import AnswerCache, read_summary
from contstim.experiment.messages import RequestError, SessionRequest
from contstim.experiment.raw_log import LogReport
from contstim.experiment.schema import get_data_path, insert_row, open_data
from contstim.experiment.sessions import CLOSED_BY_RULE
from contstim.experiment.study import Study
from contstim.experiment.trials import Trial, read_design, read_session_trials
from contstim.experiment.writer import Writer
from contstim.files import digest, lock

if TYPE_CHECKING:
    from contstim.experiment.adaptive import BlockIssuer
    from contstim.experiment.latest_result import LatestResult

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

# Maximum number of tokens of a session, for the browser that opened it and for all others.
_MAX_TOKENS = 20


def _run_in_writer_thread(
    method: Callable[Concatenate[Store, Connection, _Arguments], _Result],
) -> Callable[Concatenate[Store, _Arguments], Future[_Result]]:
    """Turn a method into one that runs in the writer's thread and returns a future.

    The method receives the database connection as its first argument; its callers omit it.
    """

    def submit(
        self: Store, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> Future[_Result]:
        # The writer calls the method with its database connection, within a transaction.
        return self._writer.submit(lambda connection: method(self, connection, *args, **kwargs))

    submit.__doc__ = method.__doc__
    return submit


class Store:
    """Data of a study while its server runs.

    Methods return futures, which are done after their transactions have been committed. A
    transaction is stored completely or, if it raises, not at all.

    Each browser that opens a session gets a token, which identifies the session. The first browser
    of a session is recognised by the id of its request. Another browser with the same participant
    id of the recruitment platform can continue the session, but sees neither answers nor completion
    codes.

    Parameters
    ----------
    study
        Study to store data for.
    path
        Database of the study; by default the file in the study's folder.
    clock
        Function that returns the current time in seconds since 1970.
    report
        Function that receives messages, e.g. when data cannot be stored, and when they can again.
    blinded
        Whether the dashboard of an adaptive study shows only "stop" or "continue" instead of
        interim results.

    Attributes
    ----------
    path
        Data file, with symbolic links resolved.
    study
        Study, with the assignments (lists of trials) that have been added while the server runs.

    Raises
    ------
    InputError, OutputError
        If the data file cannot be used (see `open_data`), or another server has locked it.
    """

    def __init__(
        self,
        study: Study,
        path: Path | None = None,
        clock: Callable[[], float] = time.time,
        report: Callable[[str], None] = lambda _: None,
        blinded: bool = False,
    ) -> None:
        # The lock file lies beside the data file itself, even if `path` is a symbolic link.
        self.path = get_data_path(study, path).resolve()
        self.study = study
        self._clock, self._report, self._blinded = clock, report, blinded
        self._issuer: BlockIssuer | None = None
        self._latest_result: LatestResult | None = None
        if study.adaptive is not None:
            # A study with a fixed design starts faster without pandas.
            from contstim.experiment import adaptive, latest_result

            self._issuer = adaptive.BlockIssuer(study)
            self._latest_result = latest_result.LatestResult(study, self.path, blinded)
        self._can_close = study.adaptive is not None and study.adaptive.auto_close
        self._n_requested_analyses = 0
        self._writer = Writer(
            lambda: open_data(self.path, study),
            report,
            on_rollback=lambda: self._issuer.discard_state() if self._issuer is not None else None,
        )
        with ExitStack() as stack:
            stack.callback(self._writer.close)
            lock_path = self.path.with_name(f"{self.path.name}.lock")
            stack.enter_context(lock(lock_path, f"the data file {self.path}"))
            self._reader = stack.enter_context(ThreadPoolExecutor(1, "contstim-reader"))
            self._answer_cache = AnswerCache()
            if self._issuer is not None:
                self._writer.submit(self._issuer.check_provenance).result()
            self._stack = stack.pop_all()
        # A previous server may have been killed before it analysed the last sessions.
        self._request_analysis()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish pending transactions, close the data file and release its lock."""
        self._stack.close()

    @_run_in_writer_thread
    def open(
        self, connection: Connection, request: SessionRequest
    ) -> tuple[str, dict[str, Any], bool]:
        """Open a session, or find the session that the participant already has.

        Parameters
        ----------
        request
            Request to open a session.

        Returns
        -------
        token : str
            New token of the session.
        data : dict
            All data that the page needs for the session, see `make_session_data`.
        is_new : bool
            Whether the session is new.

        Raises
        ------
        InputError
            If the participant id of the recruitment platform is missing or invalid.
        RequestError
            With status 400 if another version of the consent form was shown, 409 if the session is
            finished, and 503 if the study is closed or all lists of trials are taken.
        """
        now, study = self._clock(), self.study
        consent = (request.consent.version, request.consent.sha256)
        if consent != (study.consent.version, study.consent_sha256):
            raise RequestError(400, "consent is to another version of the text; reload the page")
        if study.recruiter is not None:
            study.recruiter.check_recruiter_id(request.participant)
        minutes = study.allocation.release_after_minutes
        if minutes:
            sessions.release_inactive(connection, now - minutes * 60, now)

        row = sessions.find_requested_session(connection, request)
        is_new = row is None
        if is_new:
            session, is_first_browser = self._create_session(connection, request, now), True
        else:
            session = row["session"]
            is_first_browser = request.key is not None and row["request"] == request.key
            if row["outcome"]:
                raise RequestError(
                    409,
                    "this participant has finished already",
                    outcome=row["outcome"],
                    **self._make_link(row["outcome"], is_first_browser),
                )
            connection.execute(
                "UPDATE sessions SET browsers = browsers + ? WHERE session = ?",
                (not is_first_browser, session),
            )
        row = sessions.record_heartbeat(connection, session, now)
        token = _add_token(connection, session, now, is_first_browser)
        return token, self._make_session_data(connection, row, now), is_new

    @_run_in_writer_thread
    def resume(self, connection: Connection, token: str) -> dict[str, Any]:
        """Return the data with which the web page continues a session, see `make_session_data`."""
        now = self._clock()
        return self._make_session_data(connection, self._authenticate(connection, token, now), now)

    @_run_in_writer_thread
    def add_answers(self, connection: Connection, token: str, answers: Sequence[Any]) -> LogReport:
        """Store answers of a session, and update the posterior of an adaptive study.

        Parameters
        ----------
        token
            Token with which the browser identifies the session.
        answers
            Answers as JSON values, as received from the web page.

        Returns
        -------
        LogReport
            Ids of the answers that were stored, and errors for the others.
        """
        now, study = self._clock(), self.study
        row = self._authenticate(connection, token, now)
        session = row["session"]
        # Answers after the time limit are stored, too, but marked as late.
        is_late = raw_log.is_past_time_limit(study, row["started_at"], now, raw_log.GRACE_SECONDS)
        trials = raw_log.map_trials_by_id(study, self._read_trials(connection, row))
        report = raw_log.record_answers(
            connection, session, trials, answers, now, is_late, study.presentation
        )
        if self._issuer is not None:  # adaptive study
            self._issuer.update_posterior(connection)
        # The session may end as soon as too many attention checks have failed.
        if study.session.end_immediately and row["outcome"] is None:
            outcome, _ = raw_log.determine_outcome(connection, study, session, now)
            report.is_over = outcome == "failed_checks"
        return report

    @_run_in_writer_thread
    def add_events(self, connection: Connection, token: str, events: Sequence[Any]) -> LogReport:
        """Store events of a session (e.g. loss of focus), and responses to questions.

        Parameters
        ----------
        token
            Token with which the browser identifies the session.
        events
            Events as JSON values, as received from the web page.

        Returns
        -------
        LogReport
            Ids of the events that were stored, and errors for the others.
        """
        now = self._clock()
        row = self._authenticate(connection, token, now)
        trials = raw_log.map_trials_by_id(self.study, self._read_trials(connection, row))
        return raw_log.record_events(connection, self.study, row["session"], trials, events, now)

    @_run_in_writer_thread
    def next_trials(self, connection: Connection, token: str, after: int) -> dict[str, Any]:
        """Return the next trials of a session, which an adaptive study selects if necessary.

        A repeated call returns the same trials. An adaptive study selects no trials before the
        participant's first answer (for example to a practice trial), so that participants who only
        give consent do not use up any pairs.

        Parameters
        ----------
        token
            Token with which the browser identifies the session.
        after
            Number of the last trial that the page has; 0 if it has none.

        Returns
        -------
        dict
            ``trials``, a list of objects, and ``more``, whether further trials will follow.
        """
        now = self._clock()
        row = self._authenticate(connection, token, now)
        message = page_data.make_trials_message(self._read_trials(connection, row), after)
        if message["trials"] or not message["more"] or row["outcome"] or self._issuer is None:
            return message  # no further trials have to be selected now
        # Select trials only for participants who have answered something, e.g. a practice trial.
        query = "SELECT 1 FROM answers WHERE session = ? LIMIT 1"
        has_answered = connection.execute(query, (row["session"],)).fetchone() is not None
        if has_answered or not self.study.practice:
            self._issuer.issue_block(connection, row["session"], now)
        return page_data.make_trials_message(self._read_trials(connection, row), after)

    def finish(self, token: str) -> Future[dict[str, Any]]:
        """End a participant's session, and request an interim analysis if a stopping rule is used.

        Parameters
        ----------
        token
            Secret string with which the browser identifies its session.

        Returns
        -------
        Future of dict
            - ``outcome``: how the session ended, for example ``complete`` or ``screened_out``;
            - ``complete``: whether the outcome is ``complete``;
            - ``code``: completion code for the recruitment platform;
            - ``redirect``: URL to which the browser is redirected.

            The code and the URL are None if a different browser began and ended the session.

        Raises
        ------
        RequestError
            With status 409, the ids of ``missing`` trials and the names of screening ``questions``
            if any are unanswered and there is still time.
        """
        future = self._finish(token)
        future.add_done_callback(lambda _: self._request_analysis())
        return future

    @_run_in_writer_thread
    def _finish(self, connection: Connection, token: str) -> dict[str, Any]:
        """End a session; return its outcome and the link back to the recruitment platform."""
        now = self._clock()
        row = self._authenticate(connection, token, now)
        session, outcome, finished_by = row["session"], row["outcome"], row["finished_by"]
        if outcome is None:  # the session has not ended before
            outcome, missing = raw_log.determine_outcome(connection, self.study, session, now)
            if outcome is None:
                n_missing = sum(map(len, missing.values()))
                raise RequestError(409, f"answers are missing: {n_missing}", **missing)
            finished_by = digest(token)
            connection.execute(
                "UPDATE sessions SET finished_at = ?, outcome = ?, last_at = ?, finished_by = ?"
                " WHERE session = ?",
                (now, outcome, now, finished_by, session),
            )
            if outcome == "screened_out":
                sessions.release_assignment(connection, session, outcome, now)
        # Only a browser that began (`own`) or ended the session receives the completion code.
        has_ended_session = finished_by == digest(token)
        link = self._make_link(outcome, row["own"] or has_ended_session)
        return {"complete": outcome == "complete", "outcome": outcome, **link}

    @_run_in_writer_thread
    def close_by_rule(self, connection: Connection, conclusion: str) -> bool:
        """Close the study by its stopping rule and return whether it was closed now."""
        return sessions.close_by_rule(connection, conclusion, self._clock())

    @_run_in_writer_thread
    def count(self, connection: Connection, name: str) -> None:
        """Increment a counter, e.g. ``opened`` (page visits) or ``declined`` (no consent)."""
        connection.execute(
            "INSERT INTO counts VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET n = n + 1", (name,)
        )

    def _authenticate(self, connection: Connection, token: str, now: float) -> Any:
        """Return the row of the session that a browser's token identifies.

        The session is recorded as active.
        """
        query = "SELECT session FROM tokens WHERE sha256 = ?"
        row = connection.execute(query, (digest(token),)).fetchone()
        if row is None:
            raise RequestError(401, "there is no such session; open the study again")
        sessions.record_heartbeat(connection, row["session"], now)
        # Return the columns of the session and of the token.
        query = "SELECT * FROM sessions JOIN tokens USING (session) WHERE sha256 = ?"
        return connection.execute(query, (digest(token),)).fetchone()

    def _make_session_data(self, connection: Connection, row: Any, now: float) -> dict[str, Any]:
        """Return the data that the page needs for the session in `row` of the database."""
        session, trials = row["session"], self._read_trials(connection, row)
        # The page skips trials and questions that the participant has already answered. Practice
        # trials may have been removed from the study since then.
        query = "SELECT trial FROM answers WHERE session = ? AND conflict = 0 ORDER BY sequence"
        answers = connection.execute(query, (session,))
        trial_by_id = raw_log.map_trials_by_id(self.study, trials)
        answered = [trial_by_id[trial].page_id for (trial,) in answers if trial in trial_by_id]
        responses = raw_log.read_first_responses(connection, session)
        elapsed = round(max(0.0, now - row["started_at"]), 3)
        data = page_data.make_session_data(
            self.study, row["assignment"], session, answered, elapsed, responses, trials
        )
        return {**data, "finished": row["outcome"]}

    def _read_trials(self, connection: Connection, row: Any) -> tuple[Trial, ...]:
        design = self.study.design
        return read_session_trials(connection, design, row["session"], row["assignment"])

    def _create_session(self, connection: Connection, request: SessionRequest, now: float) -> str:
        """Add a session with a free assignment, and return its id."""
        link = page_data.make_outcome_link(self.study, "full")  # back to the recruitment platform
        if sessions.find_closing_reason(connection) is not None:
            raise RequestError(503, "the study is over", outcome="over", **link)
        session = str(uuid.uuid4())
        # Take an assignment: the list of trials for one participant.
        allocation = sessions.take_assignment(connection, session, now, self.study.allocation)
        if allocation is None:
            raise RequestError(503, "no place is free", **link)
        assignment, group = allocation
        if assignment not in self.study.design.trials:
            # `contstim experiment extend` has added assignments.
            study, path = self.study, self.study.folder / "trials.csv"
            design = read_design(path, study.attention, study.presentation)
            self.study = replace(study, design=design)
        row = {
            "session": session,
            "request": request.key,
            "source": "server",
            "assignment": assignment,
            "group_number": group,
            "consent_version": request.consent.version,
            "consent_sha256": request.consent.sha256,
            "started_at": now,
            "last_at": now,
            "materials": page_data.store_materials(connection, self.study),
        }
        sessions.add_session(connection, self.study, row, request.participant, request.parameters)
        return session

    def _make_link(self, outcome: str, is_permitted: bool) -> dict[str, str | None]:
        """Return the completion code and URL of an outcome, or None for both if not permitted."""
        if not is_permitted:
            return {"code": None, "redirect": None}
        return page_data.make_outcome_link(self.study, outcome)

    def _request_analysis(self) -> None:
        """Submit an interim analysis to the reader's thread if the study can close itself."""
        if self._can_close:
            self._n_requested_analyses += 1
            # RuntimeError: the store is being closed; the next server analyses when it starts.
            with suppress(RuntimeError):
                self._reader.submit(self._close_if_rule_satisfied, self._n_requested_analyses)

    def _close_if_rule_satisfied(self, number: int) -> None:
        """Analyse an adaptive study, and close it if its stopping rule is satisfied."""
        if number < self._n_requested_analyses or self._latest_result is None:
            return  # a later analysis, with a higher number, has been requested
        try:
            conclusion = self._latest_result.analyse(self.study, self._clock())
            if conclusion is None:
                return
            if self.close_by_rule(conclusion).result():
                # Blinded researchers do not see the conclusion.
                suffix = "" if self._blinded else f": {conclusion}"
                self._report(
                    f"the study is closed {CLOSED_BY_RULE}{suffix}; open sessions can be finished"
                )
        except (ContstimError, sqlite3.Error) as error:
            self._report(f"cannot determine whether the study may close: {error}")
        else:
            self._can_close = False  # needs no further analysis

    def summary(self) -> Future[dict[str, Any]]:
        """Return the state of the study for the dashboard, without using the writer's thread.

        Returns
        -------
        Future of dict
            Keys of `read_summary` and, for an adaptive study, ``adaptive``, see
            `LatestResult.read`.
        """
        return self._reader.submit(self._read_summary)

    def _read_summary(self) -> dict[str, Any]:
        """Read the state of the study in the reader's thread; see `summary`."""
        now = self._clock()
        summary = read_summary(self.path, self.study, self._answer_cache, now)
        if self._blinded and (summary["closed"] or "").startswith(CLOSED_BY_RULE):
            summary["closed"] = CLOSED_BY_RULE  # without the conclusion
        if self._latest_result is not None:
            summary["adaptive"] = self._latest_result.read(self.study, now)
        return summary


def _add_token(connection: Connection, session: str, now: float, is_first_browser: bool) -> str:
    """Return a new token, with which a browser identifies its session, and delete old tokens."""
    token = secrets.token_urlsafe(32)
    # The column `own` marks the tokens of the browser that opened the session.
    row = {"sha256": digest(token), "session": session, "made_at": now, "own": is_first_browser}
    insert_row(connection, "tokens", row)
    # Keep only the newest tokens, separately for this browser and for all other browsers.
    connection.execute(
        "DELETE FROM tokens WHERE rowid IN (SELECT rowid FROM tokens WHERE session = ? AND own = ?"
        " ORDER BY made_at DESC, rowid DESC LIMIT -1 OFFSET ?)",
        (session, is_first_browser, _MAX_TOKENS),
    )
    return token
