"""Answers and events on their way into the raw log: nothing twice, nothing overwritten."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contstim.errors import InputError
from contstim.experiment.messages import Answer, named_id, read_answer, read_event
from contstim.experiment.study import Study
from contstim.experiment.trials import CHOICES_ON_SCREEN, Trial

__all__ = ["GRACE_S", "Received", "is_over", "outcome_of", "record_answers", "record_events"]

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
    """

    acknowledged: tuple[str, ...]
    conflicts: tuple[str, ...]
    refused: tuple[tuple[str | None, str], ...]

    def row(self) -> dict[str, Any]:
        """Return it as the page reads it."""
        return {
            "acknowledged": list(self.acknowledged),
            "conflicts": list(self.conflicts),
            "refused": [{"id": name, "error": error} for name, error in self.refused],
        }


def record_answers(
    connection: sqlite3.Connection,
    session: str,
    trials: Mapping[str, Trial],
    answers: Sequence[Any],
    now: float,
    late: bool,
) -> Received:
    """Store answers; a repeat is acknowledged again, a second one to a trial is a conflict.

    Parameters
    ----------
    connection
        Within a transaction.
    session
        Whose they are.
    trials
        The trials of the session, by their ids.
    answers
        As the page sent them.
    now
        When they came, seconds since 1970.
    late
        Whether the time limit had passed.
    """
    room = _ANSWERS_A_TRIAL * len(trials) - _count(connection, "answers", session)
    acknowledged: list[str] = []
    conflicts: list[str] = []
    refused: list[tuple[str | None, str]] = []
    for value in answers:
        try:
            answer = read_answer(value)
            _check_choice(answer, trials)
            conflict = _stored(connection, session, answer)
        except InputError as error:
            refused.append((named_id(value), str(error)))
            continue
        if conflict is None:
            if room <= 0:
                refused.append((answer.id, "this session has sent too many answers"))
                continue
            kind = trials[answer.trial].kind
            conflict = _insert_answer(connection, session, answer, kind, now, late)
            room -= 1
        acknowledged.append(answer.id)
        if conflict:
            conflicts.append(answer.id)
    return Received(tuple(acknowledged), tuple(conflicts), tuple(refused))


def record_events(
    connection: sqlite3.Connection, session: str, n_trials: int, events: Sequence[Any], now: float
) -> Received:
    """Store events; a repeat is acknowledged again. Parameters as of `record_answers`."""
    room = _EVENTS_A_TRIAL * n_trials - _count(connection, "events", session)
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

    The outcome is None where trials have no answer and the time is not over.
    """
    row = connection.execute(
        "SELECT seat, started_at FROM sessions WHERE session = ?", (session,)
    ).fetchone()
    answers = connection.execute(
        "SELECT trial, choice, late FROM answers WHERE session = ? AND conflict = 0", (session,)
    ).fetchall()
    choices = {answer["trial"]: answer["choice"] for answer in answers}
    trials = study.design.trials[row["seat"]]
    missing = [trial.trial for trial in trials if trial.trial not in choices]
    if any(answer["late"] for answer in answers):
        return "time_limit", missing
    if missing:
        return "time_limit" if is_over(study, row["started_at"], now) else None, missing
    checks = [trial for trial in trials if trial.kind == "attention"]
    failed = sum((choices[trial.trial] < 0) != (trial.expected == "left") for trial in checks)
    least = study.session.failed_checks_from
    return "failed_checks" if least and failed >= least else "complete", missing


def _check_choice(answer: Answer, trials: Mapping[str, Trial]) -> None:
    if answer.trial not in trials:
        raise InputError("trial is none of this session's trials")
    if answer.choice not in CHOICES_ON_SCREEN:
        raise InputError(f"choice is {answer.choice}; it is one of -3, -2, -1, 1, 2, 3")


def _stored(connection: sqlite3.Connection, session: str, answer: Answer) -> bool | None:
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
    if (row["trial"], row["choice"]) != (answer.trial, answer.choice):
        raise InputError("id is that of another answer")
    return bool(row["conflict"])


def _insert_answer(
    connection: sqlite3.Connection, session: str, answer: Answer, kind: str, now: float, late: bool
) -> bool:
    """Store an answer and return whether its trial had one already."""
    conflict = (
        connection.execute(
            "SELECT 1 FROM answers WHERE session = ? AND trial = ? AND conflict = 0",
            (session, answer.trial),
        ).fetchone()
        is not None
    )
    given = {name: getattr(answer, name) for name in Answer.__annotations__}
    row: Mapping[str, Any] = {
        "answer": given.pop("id"),
        **given,
        "session": session,
        "kind": kind,
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
