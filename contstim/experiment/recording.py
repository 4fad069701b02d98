"""Answers and events on their way into the raw log: nothing twice, nothing overwritten."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contstim.errors import InputError
from contstim.experiment.issuing import issued, session_trials
from contstim.experiment.messages import Answer, named_id, read_answer, read_event, read_responses
from contstim.experiment.presentations import Presentation, is_right
from contstim.experiment.study import Study
from contstim.experiment.trials import Trial

#: An answer so many seconds after the time limit still counts as in time.
GRACE_S = 60.0

#: Rows that a session may add, in multiples of its trials; only a fault or malice comes near.
_ANSWERS_A_TRIAL = 20
_EVENTS_A_TRIAL = 50


@dataclass(frozen=True)
class Received:
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

    acknowledged: tuple[str, ...]
    conflicts: tuple[str, ...]
    refused: tuple[tuple[str | None, str], ...]
    over: bool = False

    def row(self) -> dict[str, Any]:
        """Return it as the page reads it."""
        return {
            "acknowledged": list(self.acknowledged),
            "conflicts": list(self.conflicts),
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
) -> Received:
    """Store answers; a repeat is acknowledged again, a second one to a trial is a conflict.

    Parameters
    ----------
    connection
        Within a transaction.
    session
        Whose they are.
    trials
        The trials of the session, by their ids and by those that the page has; see `trials_by_id`.
    answers
        As the page sent them.
    now
        When they came, seconds since 1970.
    late
        Whether the time limit had passed.
    presentation
        How trials were shown, which says what can be answered.
    """
    room = _ANSWERS_A_TRIAL * _n_trials(trials) - _count(connection, "answers", session)
    acknowledged: list[str] = []
    conflicts: list[str] = []
    refused: list[tuple[str | None, str]] = []
    for value in answers:
        try:
            answer = read_answer(value)
            trial = _trial_of(answer, trials, presentation)
            conflict = _stored(connection, session, trial, answer)
        except InputError as error:
            refused.append((named_id(value), str(error)))
            continue
        if conflict is None:
            if room <= 0:
                refused.append((answer.id, "this session has sent too many answers"))
                continue
            conflict = _insert_answer(connection, session, trial, answer, now, late)
            room -= 1
        acknowledged.append(answer.id)
        if conflict:
            conflicts.append(answer.id)
    return Received(tuple(acknowledged), tuple(conflicts), tuple(refused))


def record_events(
    connection: sqlite3.Connection,
    session: str,
    trials: Mapping[str, Trial],
    events: Sequence[Any],
    now: float,
) -> Received:
    """Store events; a repeat is acknowledged again. Parameters as of `record_answers`."""
    room = _EVENTS_A_TRIAL * _n_trials(trials) - _count(connection, "events", session)
    acknowledged: list[str] = []
    refused: list[tuple[str | None, str]] = []
    for value in events:
        try:
            event = read_event(value)
        except InputError as error:
            refused.append((named_id(value), str(error)))
            continue
        if room <= 0:
            refused.append((event.id, "this session has sent too many events"))
            continue
        room -= connection.execute(
            "INSERT OR IGNORE INTO events (session, event, kind, at, detail, received_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (session, event.id, event.kind, event.at, event.detail, now),
        ).rowcount
        acknowledged.append(event.id)
    return Received(tuple(acknowledged), (), tuple(refused))


def is_over(study: Study, started_at: float, now: float, grace: float = 0.0) -> bool:
    """Return whether a session's time is over, if there is a limit; all in seconds."""
    limit = study.session.time_limit_minutes * 60
    return bool(limit) and now - started_at > limit + grace


def outcome_of(
    connection: sqlite3.Connection, study: Study, session: str, now: float
) -> tuple[str | None, list[str]]:
    """Return how a session ends, by its answers and the time, and the trials without an answer.

    The outcome is None where trials have no answer and the time is not over. The trials are named
    as the page knows them.
    """
    row = connection.execute(
        "SELECT seat, started_at FROM sessions WHERE session = ?", (session,)
    ).fetchone()
    answers = connection.execute(
        "SELECT trial, choice, late FROM answers WHERE session = ? AND conflict = 0", (session,)
    ).fetchall()
    responses = responses_of(connection, session)
    if any(q.screens_out(responses[q.name]) for q in study.questions if q.name in responses):
        return "screened_out", []
    choices = {answer["trial"]: answer["choice"] for answer in answers}
    trials = session_trials(connection, study, session, row["seat"])
    missing = [trial.page_id for trial in trials if trial.trial not in choices]
    checks = [t for t in trials if t.kind == "attention" and t.trial in choices]
    failed = sum(not is_right(choices[trial.trial], str(trial.expected)) for trial in checks)
    enough = study.session.failed_checks_from
    too_many = bool(enough) and failed >= enough
    if any(answer["late"] for answer in answers):
        return "time_limit", missing
    if too_many and (study.session.end_at_once or not missing):
        return "failed_checks", missing
    if missing:
        return "time_limit" if is_over(study, row["started_at"], now) else None, missing
    return "complete", missing


def trials_by_id(study: Study, trials: Sequence[Trial]) -> dict[str, Trial]:
    """Return practice and a session's trials by their ids and by those that the page has."""
    own = (*study.practice_trials, *issued(trials))
    return {trial.trial: trial for trial in own} | {trial.page_id: trial for trial in own}


def _n_trials(trials: Mapping[str, Trial]) -> int:
    return len({id(trial) for trial in trials.values()})


def _trial_of(answer: Answer, trials: Mapping[str, Trial], presentation: Presentation) -> Trial:
    if answer.trial not in trials:
        raise InputError("trial is none of this session's trials")
    trial = trials[answer.trial]
    presentation.check_answer(trial.shown, answer.choice, answer.detail)
    return trial


def responses_of(connection: sqlite3.Connection, session: str) -> dict[str, Any]:
    """Return what a session answered to questions, the first answer to each, by their names."""
    found: dict[str, Any] = {}
    query = "SELECT detail FROM events WHERE session = ? AND kind = 'responses' ORDER BY sequence"
    for row in connection.execute(query, (session,)):
        found = read_responses(row["detail"])["responses"] | found
    return found


def _stored(
    connection: sqlite3.Connection, session: str, trial: Trial, answer: Answer
) -> bool | None:
    """Return whether the answer is there as a conflict, None if it is not there.

    Raises
    ------
    InputError
        If its id stands for another answer.
    """
    row = connection.execute(
        "SELECT trial, choice, conflict FROM answers WHERE session = ? AND answer = ?",
        (session, answer.id),
    ).fetchone()
    if row is None:
        return None
    if (row["trial"], row["choice"]) != (trial.trial, answer.choice):
        raise InputError("id is that of another answer")
    return bool(row["conflict"])


def _insert_answer(
    connection: sqlite3.Connection,
    session: str,
    trial: Trial,
    answer: Answer,
    now: float,
    late: bool,
) -> bool:
    """Store an answer and return whether its trial had one already."""
    conflict = (
        connection.execute(
            "SELECT 1 FROM answers WHERE session = ? AND trial = ? AND conflict = 0",
            (session, trial.trial),
        ).fetchone()
        is not None
    )
    given = {name: getattr(answer, name) for name in Answer.__annotations__}
    row: Mapping[str, Any] = {
        "answer": given.pop("id"),
        **given,
        "trial": trial.trial,
        "session": session,
        "kind": trial.kind,
        "received_at": now,
        "late": int(late),
        "conflict": int(conflict),
    }
    names = ", ".join(row)
    marks = ", ".join(f":{name}" for name in row)
    connection.execute(f"INSERT INTO answers ({names}) VALUES ({marks})", row)  # noqa: S608 - names are ours
    return conflict


def _count(connection: sqlite3.Connection, table: str, session: str) -> int:
    sql = f"SELECT count(*) FROM {table} WHERE session = ?"  # noqa: S608 - one of our tables
    return int(connection.execute(sql, (session,)).fetchone()[0])
