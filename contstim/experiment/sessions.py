"""Sessions in the data: who has which assignment, what was answered, and how they end.

Assignments are balanced over groups, committed before the first trial, and released if abandoned.
Answers and events go into the raw log: nothing twice, nothing overwritten. Whoever calls these
functions has begun a transaction.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from contstim.errors import InputError
from contstim.experiment.messages import (
    PageEvent,
    SessionRequest,
    find_id,
    read_answer,
    read_event,
    read_responses,
)
from contstim.experiment.options import AllocationOptions
from contstim.experiment.presentations import Presentation
from contstim.experiment.schema import MAX_RESPONSES, insert_row
from contstim.experiment.study import Study
from contstim.experiment.trials import Trial, list_issued, session_trials

#: Seconds; without an answer for so long a session counts as idle.
IDLE_SECONDS = 300.0

#: An answer so many seconds after the time limit still counts as in time.
GRACE_SECONDS = 60.0

#: Characters that a session may add as events, and as second answers, besides so many a trial; a
#: row counts `_ROW` and its detail. Only a fault or malice comes near.
_MOST, _MOST_A_TRIAL, _ROW = 100_000, 2000, 200

#: Notes what became of an assignment.
_NOTE = "INSERT INTO allocations (at, action, assignment, session, why) VALUES (?, ?, ?, ?, ?)"

#: How the reason begins why a study is closed that its own rule has closed; the verdict follows.
CLOSED_BY_RULE = "by its rule"

_WHOLE_STUDY = 0  # no assignment has this number


def add_session(
    connection: sqlite3.Connection,
    study: Study,
    row: Mapping[str, Any],
    recruiter_id: str | None,
    parameters: Mapping[str, str],
) -> None:
    """Add a session, its participant, and the consent form that it names, if that is the study's.

    Parameters
    ----------
    connection
        Within a transaction.
    study
        The study.
    row
        The session, by the columns of its table, ``participant`` apart.
    recruiter_id, parameters
        Of the participant: the recruiter's id, if there is one, and what the study keeps of the
        page's address. Where another session has the id, this one only claims it.
    """
    _keep_consent(connection, study, row)
    person = {
        _column_of_id(connection, recruiter_id): recruiter_id,
        "parameters": json.dumps(dict(parameters)),
    }
    participant = insert_row(connection, "participants", person).lastrowid
    insert_row(connection, "sessions", {**row, "participant": participant})


def update_imported_session(
    connection: sqlite3.Connection,
    study: Study,
    row: Mapping[str, Any],
    begun: Mapping[str, Any],
    recruiter_id: str | None,
    parameters: Mapping[str, str],
) -> None:
    """Fill what an imported session does not say of its beginning; what it says stays.

    Parameters
    ----------
    connection, study
        As for `add_session`.
    row
        The session as the data have it, see `find_session`.
    begun
        Columns of its table as another file has them; the earlier ``started_at`` is right.
    recruiter_id, parameters
        As for `add_session`.
    """
    whole = {name: row[name] or value for name, value in begun.items()}
    times = [at for at in (row["started_at"], begun["started_at"]) if at]
    whole["started_at"] = min(times, default=0.0)
    _keep_consent(connection, study, whole)
    connection.execute(
        "UPDATE sessions SET started_at = ?, consent_version = ?, consent_sha256 = ?,"
        " materials = ? WHERE session = ?",
        (
            *(whole["started_at"], whole["consent_version"], whole["consent_sha256"]),
            *(whole["materials"], row["session"]),
        ),
    )
    query = "SELECT * FROM participants WHERE participant = ?"
    person = connection.execute(query, (row["participant"],)).fetchone()
    filled = json.dumps({**parameters, **json.loads(person["parameters"])})
    query = "UPDATE participants SET parameters = ? WHERE participant = ?"
    connection.execute(query, (filled, row["participant"]))
    if recruiter_id is not None and person["recruiter_id"] is person["claimed"] is None:
        column = _column_of_id(connection, recruiter_id)
        query = f"UPDATE participants SET {column} = ? WHERE participant = ?"  # noqa: S608 - ours
        connection.execute(query, (recruiter_id, row["participant"]))


def _keep_consent(connection: sqlite3.Connection, study: Study, row: Mapping[str, Any]) -> None:
    consent = {"sha256": study.consent_sha256, "version": study.consent.version}
    if all(row[f"consent_{name}"] == value for name, value in consent.items()):
        insert_row(connection, "consents", {**consent, "text": study.consent_text}, "OR IGNORE")


def _column_of_id(connection: sqlite3.Connection, recruiter_id: str | None) -> str:
    """Return where a recruiter's id stands: only one participant has it, others claim it."""
    query = "SELECT 1 FROM participants WHERE recruiter_id = ?"
    taken = connection.execute(query, (recruiter_id,)).fetchone() is not None
    return "claimed" if taken else "recruiter_id"


def find_session(connection: sqlite3.Connection, session: str) -> Any:
    """Return what the data hold of a session; None if there is no such session."""
    return connection.execute("SELECT * FROM sessions WHERE session = ?", (session,)).fetchone()


def find_requested_session(connection: sqlite3.Connection, opening: SessionRequest) -> Any:
    """Return the session that a participant has, by the recruiter's id or else by the request."""
    where, value = "recruiter_id = ?", opening.participant
    if value is None:
        where, value = "request = ? AND recruiter_id IS NULL", opening.request
    query = f"SELECT sessions.* FROM sessions JOIN participants USING (participant) WHERE {where}"  # noqa: S608 - ours
    return connection.execute(query, (value,)).fetchone()


def heartbeat(connection: sqlite3.Connection, session: str, now: float) -> Any:
    """Note a sign of life, with which an abandoned session returns; return the session's row."""
    if find_session(connection, session)["released_why"] == "abandoned":
        restore_assignment(connection, session, now)
    connection.execute("UPDATE sessions SET last_at = ? WHERE session = ?", (now, session))
    return find_session(connection, session)


def take_assignment(
    connection: sqlite3.Connection, session: str, now: float, options: AllocationOptions
) -> tuple[int, int] | None:
    """Give `session` an assignment: the first free one of the group with the fewest sessions.

    So groups differ by at most one session while all have free assignments and none was released,
    and return to that as released assignments are taken again. If none is free, the one whose
    session has been silent longest is handed on, if `options` let it.

    Returns
    -------
    tuple or None
        Assignment and group; None if no assignment is free.
    """
    row = _free(connection)
    if row is None and _reassign(connection, now, options):
        row = _free(connection)
    if row is None:
        return None
    connection.execute(
        "UPDATE assignments SET session = ? WHERE assignment = ?", (session, row["assignment"])
    )
    connection.execute(_NOTE, (now, "taken", row["assignment"], session, ""))
    return row["assignment"], row["group_number"]


def _free(connection: sqlite3.Connection) -> Any:
    return connection.execute(
        """
        SELECT min(assignment) AS assignment, group_number FROM assignments AS free
        WHERE session IS NULL
        GROUP BY group_number
        ORDER BY (
            SELECT count(session) FROM assignments AS a WHERE a.group_number = free.group_number
        ), group_number
        LIMIT 1
        """
    ).fetchone()


def _reassign(connection: sqlite3.Connection, now: float, options: AllocationOptions) -> bool:
    """Release the assignment of the unfinished session that has been silent longest, if too long.

    A recruiter gives the place of who left to the next person at once. Who only consented and
    answered no trial of the design is waited for less long.
    """
    silent = {
        "answered": options.reassign_after_minutes,
        "begun": min(options.reassign_after_minutes, options.reassign_unstarted_after_minutes),
    }
    row = connection.execute(
        """
        SELECT session FROM sessions
        WHERE finished_at IS NULL AND released_at IS NULL AND last_at <= CASE WHEN EXISTS (
            SELECT 1 FROM answers WHERE answers.session = sessions.session AND kind <> 'practice'
        ) THEN :answered ELSE :begun END
        ORDER BY last_at LIMIT 1
        """,
        {name: now - 60 * minutes for name, minutes in silent.items()},
    ).fetchone()
    if row is None or not options.reassign_after_minutes:
        return False
    return release_assignment(connection, row["session"], "abandoned", now)


def restore_assignment(connection: sqlite3.Connection, session: str, now: float) -> None:
    """Give a released session its assignment back if nobody has taken it.

    If somebody has, it goes on without one: its data are kept and its group has one session more.
    """
    assignment = find_session(connection, session)["assignment"]
    free = "UPDATE assignments SET session = ? WHERE assignment = ? AND session IS NULL"
    if connection.execute(free, (session, assignment)).rowcount:
        connection.execute(
            "UPDATE sessions SET released_at = NULL, released_why = NULL WHERE session = ?",
            (session,),
        )
        connection.execute(_NOTE, (now, "returned", assignment, session, ""))


def release_inactive(connection: sqlite3.Connection, before: float, now: float) -> list[str]:
    """Release the assignments of unfinished sessions that have sent nothing since `before`."""
    rows = connection.execute(
        "SELECT session FROM sessions WHERE finished_at IS NULL AND released_at IS NULL"
        " AND last_at < ? ORDER BY last_at",
        (before,),
    ).fetchall()
    for row in rows:
        release_assignment(connection, row["session"], "abandoned", now)
    return [row["session"] for row in rows]


def release_assignment(connection: sqlite3.Connection, session: str, why: str, now: float) -> bool:
    """Release the assignment of a session; whose data stay; return whether it had one."""
    row = connection.execute(
        "SELECT assignment FROM assignments WHERE session = ?", (session,)
    ).fetchone()
    if row is None:
        return False
    connection.execute(
        "UPDATE assignments SET session = NULL WHERE assignment = ?", (row["assignment"],)
    )
    connection.execute(
        "UPDATE sessions SET released_at = ?, released_why = ? WHERE session = ?",
        (now, why, session),
    )
    connection.execute(_NOTE, (now, "released", row["assignment"], session, why))
    return True


def record_closure(connection: sqlite3.Connection, closed: bool, why: str, now: float) -> None:
    """Let nobody new in, or let people in again; whoever has begun goes on either way."""
    action = "closed" if closed else "reopened"
    connection.execute(_NOTE, (now, action, _WHOLE_STUDY, "", why))


def find_closing_reason(connection: sqlite3.Connection) -> str | None:
    """Return why nobody new is let into the study; None while it is open."""
    row = connection.execute(
        "SELECT action, why FROM allocations WHERE assignment = ? ORDER BY sequence DESC LIMIT 1",
        (_WHOLE_STUDY,),
    ).fetchone()
    return None if row is None or row["action"] == "reopened" else row["why"]


def close_by_rule(connection: sqlite3.Connection, verdict: str, now: float) -> bool:
    """Close the study, unless its rule has before: what was reopened since stays open."""
    query = "SELECT 1 FROM allocations WHERE assignment = ? AND why LIKE ?"
    before = connection.execute(query, (_WHOLE_STUDY, f"{CLOSED_BY_RULE}%")).fetchone() is not None
    if not before:
        record_closure(connection, True, f"{CLOSED_BY_RULE}: {verdict}", now)
    return not before


@dataclass
class Receipt:
    """What became of answers or events, by their ids.

    Attributes
    ----------
    acknowledged
        Stored, now or before.
    conflicts
        Of these, answers to trials that had another answer already; both are kept.
    refused
        Not stored, with the reason; the id is None where none could be read.
    over
        Whether the session ends here, whatever trials are left.
    """

    acknowledged: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    refused: list[tuple[str | None, str]] = field(default_factory=list)
    over: bool = False

    def row(self) -> dict[str, Any]:
        """Return it as the page reads it."""
        return {
            "acknowledged": self.acknowledged,
            "conflicts": self.conflicts,
            "refused": [{"id": name, "error": error} for name, error in self.refused],
            **({"over": True} if self.over else {}),
        }


def record_answers(
    connection: sqlite3.Connection,
    session: str,
    trials: Mapping[str, Trial],
    answers: Sequence[Any],
    now: float,
    late: bool,
    presentation: Presentation,
) -> Receipt:
    """Store answers; a repeat is acknowledged again, a second one to a trial is a conflict.

    Parameters
    ----------
    connection
        Within a transaction.
    session
        Whose they are.
    trials
        The trials of the session, see `map_trials_by_id`.
    answers
        As the page sent them.
    now
        When they came, seconds since 1970.
    late
        Whether the time limit had passed.
    presentation
        How trials were shown, which says what can be answered.
    """
    received = Receipt()

    def store(value: Any) -> None:
        answer = read_answer(value)
        if answer.trial not in trials:
            raise InputError("trial is none of this session's trials")
        trial = trials[answer.trial]
        presentation.check_answer(trial.shown, answer.choice, answer.detail)
        query = "SELECT trial, choice, conflict FROM answers WHERE session = ? AND answer = ?"
        stored = connection.execute(query, (session, answer.id)).fetchone()
        if stored is None:
            query = "SELECT 1 FROM answers WHERE session = ? AND trial = ? AND conflict = 0"
            conflict = connection.execute(query, (session, trial.id)).fetchone() is not None
            if conflict:
                _require_room(connection, "answers", session, trials)
            given = asdict(answer)
            row = {"answer": given.pop("id"), **given, "trial": trial.id, "kind": trial.kind}
            row |= {"received_at": now, "late": int(late), "conflict": int(conflict)}
            insert_row(connection, "answers", {"session": session, **row})
        elif (stored["trial"], stored["choice"]) != (trial.id, answer.choice):
            raise InputError("id is that of another answer")
        else:
            conflict = bool(stored["conflict"])
        received.acknowledged.append(answer.id)
        if conflict:
            received.conflicts.append(answer.id)

    return _each(answers, store, received)


def record_events(
    connection: sqlite3.Connection,
    study: Study,
    session: str,
    trials: Mapping[str, Trial],
    events: Sequence[Any],
    now: float,
) -> Receipt:
    """Store events, and responses to the study's questions; a repeat is acknowledged again.

    Parameters as of `record_answers`.
    """
    received = Receipt()

    def store(value: Any) -> None:
        event = read_event(value)
        if event.kind == "responses":
            _record_responses(connection, study, session, event, now)
        else:
            _require_room(connection, "events", session, trials)
            given = asdict(event)
            row = {"session": session, "event": given.pop("id"), **given, "received_at": now}
            insert_row(connection, "events", row, "OR IGNORE")
        received.acknowledged.append(event.id)

    return _each(events, store, received)


def _record_responses(
    connection: sqlite3.Connection, study: Study, session: str, event: PageEvent, now: float
) -> None:
    detail = read_responses(study, event.detail)
    earlier = connection.execute(
        "SELECT question, count(*) FROM responses WHERE session = ? AND event <> ?"
        " GROUP BY question HAVING count(*) >= ?",
        (session, event.id, MAX_RESPONSES),
    )
    for question, _ in earlier:
        if question in detail.responses:
            raise InputError(f"this session has answered {question} too often")
    for question, response in detail.responses.items():
        row = {
            "session": session,
            "event": event.id,
            "question": question,
            "response": json.dumps(response, ensure_ascii=False),
            "rt_ms": detail.rt_ms,
            "at": event.at,
            "received_at": now,
        }
        insert_row(connection, "responses", row, "OR IGNORE")


def _each(values: Sequence[Any], store: Callable[[Any], None], received: Receipt) -> Receipt:
    """Store what can be stored; say of the others why not."""
    for value in values:
        try:
            store(value)
        except InputError as error:
            received.refused.append((find_id(value), str(error)))
    return received


def is_past_time_limit(study: Study, started_at: float, now: float, grace: float = 0.0) -> bool:
    """Return whether a session's time is over, if there is a limit; all in seconds."""
    limit = study.session.time_limit_minutes * 60
    return bool(limit) and now - started_at > limit + grace


def determine_outcome(
    connection: sqlite3.Connection, study: Study, session: str, now: float
) -> tuple[str | None, dict[str, list[str]]]:
    """Return how a session ends, by its answers and the time, and what has no answer.

    Returns
    -------
    tuple
        The outcome, None where answers are missing and the time is not over; and the ``missing``
        trials, as the page names them, and the ``questions`` that say who takes part.
    """
    row = find_session(connection, session)
    answers = connection.execute(
        "SELECT trial, choice, late FROM answers WHERE session = ? AND conflict = 0", (session,)
    ).fetchall()
    responses = read_first_responses(connection, session)
    if any(q.screens_out(responses[q.name]) for q in study.questions if q.name in responses):
        return "screened_out", {"missing": [], "questions": []}
    choices = {answer["trial"]: answer["choice"] for answer in answers}
    trials = session_trials(connection, study.design, session, row["assignment"])
    missing = {
        "missing": [trial.page_id for trial in trials if trial.id not in choices],
        "questions": [q.name for q in study.questions if q.admit and q.name not in responses],
    }
    checks = [t for t in trials if t.kind == "attention" and t.id in choices]
    is_correct = study.presentation.is_correct
    failed = sum(not is_correct(choices[trial.id], str(trial.expected)) for trial in checks)
    enough = study.session.failed_checks_from
    too_many = bool(enough) and failed >= enough
    if any(answer["late"] for answer in answers):
        return "time_limit", missing
    if too_many and (study.session.end_immediately or not missing["missing"]):
        return "failed_checks", missing
    if any(missing.values()):
        return "time_limit" if is_past_time_limit(study, row["started_at"], now) else None, missing
    return "complete", missing


def map_trials_by_id(study: Study, trials: Sequence[Trial]) -> dict[str, Trial]:
    """Return practice and a session's trials by their ids and by those that the page has."""
    both = (*study.practice_trials, *list_issued(trials))
    return {trial.id: trial for trial in both} | {trial.page_id: trial for trial in both}


def read_first_responses(connection: sqlite3.Connection, session: str) -> dict[str, Any]:
    """Return what a session answered to questions, the first answer to each, by their names."""
    rows = connection.execute(
        "SELECT question, response, min(sequence) AS first FROM responses WHERE session = ?"
        " GROUP BY question ORDER BY first",
        (session,),
    )
    return {row["question"]: json.loads(row["response"]) for row in rows}


def _require_room(
    connection: sqlite3.Connection, table: str, session: str, trials: Mapping[str, Trial]
) -> None:
    """Refuse another event or second answer of a session that has sent too many.

    Raises
    ------
    InputError
        If it has.
    """
    n_trials = len({id(trial) for trial in trials.values()})
    counted = "conflict = 1" if table == "answers" else "true"
    query = f"SELECT total({_ROW} + length(detail)) FROM {table} WHERE session = ? AND {counted}"  # noqa: S608 - ours
    if connection.execute(query, (session,)).fetchone()[0] >= _MOST + _MOST_A_TRIAL * n_trials:
        raise InputError(f"this session has sent too many {table}")
