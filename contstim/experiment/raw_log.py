"""The raw log of a study: answers and events as they were received, and outcomes of sessions.

An *event* is something that happened on the page besides an answer, for example a loss of focus.
Rows of the log are never stored twice and never overwritten. Every function runs within a
transaction that its caller has started.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from contstim.errors import InputError
from contstim.experiment.messages import (
    Answer,
    PageEvent,
    find_id,
    read_answer,
    read_event,
    read_responses,
)
from contstim.experiment.presentations import Presentation
from contstim.experiment.schema import MAX_RESPONSES, insert_row
from contstim.experiment.sessions import find_session
from contstim.experiment.study import Study
from contstim.experiment.trials import Trial, list_issued, read_session_trials

#: Seconds after the time limit within which an answer still arrives in time.
GRACE_SECONDS = 60.0

# Limits on the events, and on the repeated answers, of one session, in characters of their details
# plus a fixed cost per row. Only a faulty page or an attack exceeds them.
_MAX_CHARACTERS = 100_000
_MAX_CHARACTERS_PER_TRIAL = 2000
_CHARACTERS_PER_ROW = 200


@dataclass
class LogReport:
    """Report to the web page that lists which of its answers or events were stored.

    The page sends each answer again until it is acknowledged or refused.

    Attributes
    ----------
    acknowledged
        Ids of answers or events that are stored, either by this request or by an earlier one.
    conflicts
        Ids of acknowledged answers to a trial that already had a different answer. Both answers
        are stored, and the first one counts.
    refused
        Answers or events that were not stored, as pairs of id and error message. The id is None if
        it could not be read.
    is_over
        Whether the session ends now, even if trials remain.
    """

    acknowledged: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    refused: list[tuple[str | None, str]] = field(default_factory=list)
    is_over: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object for the web page."""
        return {
            "acknowledged": self.acknowledged,
            "conflicts": self.conflicts,
            "refused": [{"id": row_id, "error": error} for row_id, error in self.refused],
            **({"over": True} if self.is_over else {}),
        }


def record_answers(
    connection: sqlite3.Connection,
    session: str,
    trials: Mapping[str, Trial],
    answers: Sequence[Any],
    now: float,
    is_late: bool,
    presentation: Presentation,
) -> LogReport:
    """Store the answers of a session.

    A repeated answer is acknowledged again. A second, different answer to a trial is stored as a
    conflict.

    Parameters
    ----------
    connection
        Connection to the database, within a transaction.
    session
        Id of the session.
    trials
        Trials of the session by id.
    answers
        Answers as JSON values, as received from the web page.
    now
        Unix time of arrival, in seconds since 1970.
    is_late
        Whether the time limit had passed.
    presentation
        How trials are shown and which answers are valid.

    Returns
    -------
    LogReport
        Ids of the answers that were stored, and errors for the others.
    """
    report = LogReport()
    for value in answers:
        try:
            answer = read_answer(value)
            row = {"session": session, "received_at": now, "late": int(is_late)}
            is_conflict = _store_answer(connection, row, trials, answer, presentation)
        except InputError as error:
            # Refuse this answer, and continue with the other answers.
            report.refused.append((find_id(value), str(error)))
            continue
        report.acknowledged.append(answer.id)
        if is_conflict:
            report.conflicts.append(answer.id)
    return report


def _store_answer(
    connection: sqlite3.Connection,
    row: dict[str, Any],
    trials: Mapping[str, Trial],
    answer: Answer,
    presentation: Presentation,
) -> bool:
    """Store an answer, and return whether it conflicts with an earlier answer to the trial.

    `row` contains the columns of the session and of the time of arrival. If the answer has been
    stored before, nothing is changed. Raises `InputError` if the answer is invalid.
    """
    if answer.trial not in trials:
        raise InputError("trial is none of this session's trials")
    trial, session = trials[answer.trial], row["session"]
    presentation.check_answer(trial.shown, answer.choice, answer.detail)
    # Look for an earlier copy of this answer, since the page repeats unacknowledged answers.
    query = "SELECT trial, choice, conflict FROM answers WHERE session = ? AND answer = ?"
    stored = connection.execute(query, (session, answer.id)).fetchone()
    if stored is not None:
        if (stored["trial"], stored["choice"]) != (trial.id, answer.choice):
            raise InputError("id is already used by another answer")
        return bool(stored["conflict"])
    # A conflict is a second answer to a trial. It is stored too, but the first one counts.
    query = "SELECT 1 FROM answers WHERE session = ? AND trial = ? AND conflict = 0"
    is_conflict = connection.execute(query, (session, trial.id)).fetchone() is not None
    if is_conflict:
        _check_stored_size(connection, "answers", session, trials)
    columns = asdict(answer)
    columns |= {"answer": columns.pop("id"), "trial": trial.id, "kind": trial.kind}
    insert_row(connection, "answers", {**row, **columns, "conflict": int(is_conflict)})
    return is_conflict


def record_events(
    connection: sqlite3.Connection,
    study: Study,
    session: str,
    trials: Mapping[str, Trial],
    events: Sequence[Any],
    now: float,
) -> LogReport:
    """Store the events of a session, and its responses to the study's questions.

    A repeated event is acknowledged again.

    Parameters
    ----------
    connection
        Connection to the database, within a transaction.
    study
        Study with the questions.
    session
        Id of the session.
    trials
        Trials of the session by id. Their number determines how many events may be stored.
    events
        Events as JSON values, as received from the web page.
    now
        Unix time of arrival, in seconds since 1970.

    Returns
    -------
    LogReport
        Ids of the events that were stored, and errors for the others.
    """
    report = LogReport()
    for value in events:
        try:
            event = read_event(value)
            if event.kind == "responses":
                # Responses to the questions on one screen; they are stored in a separate table.
                _record_responses(connection, study, session, event, now)
            else:
                _check_stored_size(connection, "events", session, trials)
                # A repeated event has the same id and is ignored.
                columns = asdict(event)
                row = {"session": session, "event": columns.pop("id"), **columns}
                insert_row(connection, "events", {**row, "received_at": now}, or_ignore=True)
            report.acknowledged.append(event.id)
        except InputError as error:
            # Refuse this event, and continue with the other events.
            report.refused.append((find_id(value), str(error)))
    return report


def _record_responses(
    connection: sqlite3.Connection, study: Study, session: str, event: PageEvent, now: float
) -> None:
    """Store the responses to the questions on one screen.

    The page sends the responses as one event of the kind ``responses``, and each question becomes a
    row. A session can answer the same question at most `MAX_RESPONSES` times.

    Parameters
    ----------
    connection
        Connection to the database, within a transaction.
    study
        Study with the questions.
    session
        Id of the session.
    event
        Event of the kind ``responses``.
    now
        Unix time of arrival, in seconds since 1970.

    Raises
    ------
    InputError
        If a response is invalid, or the session has answered a question too often.
    """
    screen = read_responses(study, event.detail)
    # Questions that the session has answered as often as is permitted.
    rows = connection.execute(
        "SELECT question FROM responses WHERE session = ? AND event <> ?"
        " GROUP BY question HAVING count(*) >= ?",
        (session, event.id, MAX_RESPONSES),
    )
    for row in rows:
        if row["question"] in screen.responses:
            raise InputError(f"this session has answered {row['question']} too often")
    for question, response in screen.responses.items():
        row = {
            "session": session,
            "event": event.id,
            "question": question,
            "response": json.dumps(response, ensure_ascii=False),
            "rt_ms": screen.rt_ms,
            "at": event.at,
            "received_at": now,
        }
        insert_row(connection, "responses", row, or_ignore=True)


def _check_stored_size(
    connection: sqlite3.Connection, table: str, session: str, trials: Mapping[str, Trial]
) -> None:
    """Check that the stored data of a session are below a size limit.

    The limit prevents a faulty or malicious page from filling the disk. It is the total number of
    characters of the session's events or, for the table ``answers``, of its conflicting answers
    (second answers to the same trial). The limit increases with the number of trials.

    Parameters
    ----------
    connection
        Connection to the study's database.
    table
        Table to check: ``events`` or ``answers``.
    session
        Id of the session.
    trials
        Trials of the session by id.

    Raises
    ------
    InputError
        If the limit is reached.
    """
    # `trials` contains a trial twice if the page uses another id for it. Count it once.
    n_trials = len({trial.id for trial in trials.values()})
    limit = _MAX_CHARACTERS + _MAX_CHARACTERS_PER_TRIAL * n_trials
    # A page can send any number of events, which all count towards the limit. The table of answers
    # has one row per trial with the first answer. If the page later sends a different answer to the
    # same trial, it is stored in a further row with `conflict = 1`. Only such rows count.
    condition = "conflict = 1" if table == "answers" else "true"
    query = (
        f"SELECT total({_CHARACTERS_PER_ROW} + length(detail)) FROM {table}"  # noqa: S608 - constant names
        f" WHERE session = ? AND {condition}"
    )
    if connection.execute(query, (session,)).fetchone()[0] >= limit:
        raise InputError(f"this session has sent too many {table}")


def is_past_time_limit(study: Study, started_at: float, now: float, grace: float = 0.0) -> bool:
    """Return whether a session has exceeded the study's time limit, if any.

    Parameters
    ----------
    study
        Study with the time limit.
    started_at, now
        Start of the session and current time, in seconds since 1970.
    grace
        Seconds to add to the time limit.
    """
    limit = study.session.time_limit_minutes * 60
    return bool(limit) and now - started_at > limit + grace


def determine_outcome(
    connection: sqlite3.Connection, study: Study, session: str, now: float
) -> tuple[str | None, dict[str, list[str]]]:
    """Return the outcome of a session, if any, and its unanswered trials and questions.

    The first condition that applies determines the outcome:

    1. a response excludes the participant from the study: ``screened_out``;
    2. an answer was given after the time limit: ``time_limit``;
    3. too many attention checks failed: ``failed_checks``;
    4. every trial and screening question was answered: ``complete``;
    5. the time limit has passed: ``time_limit``.

    Parameters
    ----------
    connection
        Connection to the study's database.
    study
        Study to which the session belongs.
    session
        Id of the session.
    now
        Current Unix time, in seconds since 1970.

    Returns
    -------
    outcome : str or None
        Outcome of the session; None if answers are missing and there is still time.
    unanswered : dict
        Two lists: ``missing`` contains the ids (as used by the page) of unanswered trials, and
        ``questions`` the names of unanswered screening questions.
    """
    responses = read_first_responses(connection, session)
    for question in study.questions:
        if question.name in responses and question.screens_out(responses[question.name]):
            return "screened_out", {"missing": [], "questions": []}

    row = find_session(connection, session)
    answers = connection.execute(
        "SELECT trial, choice, late FROM answers WHERE session = ? AND conflict = 0", (session,)
    ).fetchall()
    choices = {answer["trial"]: answer["choice"] for answer in answers}
    trials = read_session_trials(connection, study.design, session, row["assignment"])
    unanswered = {
        "missing": [trial.page_id for trial in trials if trial.id not in choices],
        "questions": [q.name for q in study.questions if q.admit and q.name not in responses],
    }

    n_failed = 0
    for trial in trials:
        if trial.kind == "attention" and trial.id in choices:
            choice, expected = choices[trial.id], str(trial.expected)
            n_failed += not study.presentation.is_correct(choice, expected)
    limit = study.session.failed_checks_limit
    has_failed = bool(limit) and n_failed >= limit

    if any(answer["late"] for answer in answers):
        return "time_limit", unanswered
    has_answered_all_trials = not unanswered["missing"]
    if has_failed and (study.session.end_immediately or has_answered_all_trials):
        return "failed_checks", unanswered
    if not any(unanswered.values()):
        return "complete", unanswered
    is_timed_out = is_past_time_limit(study, row["started_at"], now)
    return "time_limit" if is_timed_out else None, unanswered


def map_trials_by_id(study: Study, trials: Sequence[Trial]) -> dict[str, Trial]:
    """Return the trials that a session can answer, by id.

    The result includes practice trials. In an adaptive study, it contains only trials that have
    been selected so far. Every trial is listed twice: under its own id, and under the id that the
    page uses.

    Parameters
    ----------
    study
        Study with the practice trials.
    trials
        All trials of a session.

    Returns
    -------
    dict
        Trials by id.
    """
    by_id = {}
    for trial in (*study.practice_trials, *list_issued(trials)):
        by_id[trial.id] = trial
        by_id[trial.page_id] = trial
    return by_id


def read_first_responses(connection: sqlite3.Connection, session: str) -> dict[str, Any]:
    """Return the first response of a session to each question, by the question's name.

    Parameters
    ----------
    connection
        Connection to the study's database.
    session
        Id of the session.

    Returns
    -------
    dict
        Responses by question, in the order in which they were given.
    """
    rows = connection.execute(
        "SELECT question, response, min(sequence) AS first FROM responses WHERE session = ?"
        " GROUP BY question ORDER BY first",
        (session,),
    )
    return {row["question"]: json.loads(row["response"]) for row in rows}
