"""Allocation: balanced over groups, committed before the first trial, released if abandoned."""

from __future__ import annotations

import sqlite3
from typing import Any

from contstim.experiment.options import AllocationOptions


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
    if row is None and _hand_on(connection, now, options):
        row = _free(connection)
    if row is None:
        return None
    _occupy(connection, row["seat"], session, now, "taken", "")
    return row["seat"], row["group_number"]


def _free(connection: sqlite3.Connection) -> Any:
    return connection.execute(
        """
        SELECT min(seat) AS seat, group_number FROM seats AS free
        WHERE session IS NULL
        GROUP BY group_number
        ORDER BY (SELECT count(session) FROM seats AS s WHERE s.group_number = free.group_number),
                 group_number
        LIMIT 1
        """
    ).fetchone()


def _hand_on(connection: sqlite3.Connection, now: float, options: AllocationOptions) -> bool:
    """Release the assignment of the unfinished session that has been silent longest, if too long.

    A recruiter gives the place of who left to the next person at once. Who only consented and
    answered no trial of the design is waited for less long.
    """
    silent = {
        "answered": options.hand_on_after_minutes,
        "begun": min(options.hand_on_after_minutes, options.hand_on_unbegun_after_minutes),
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
    if row is None or not options.hand_on_after_minutes:
        return False
    return release_assignment(connection, row["session"], "abandoned", now)


def return_to_assignment(connection: sqlite3.Connection, session: str, now: float) -> bool:
    """Give a released session its assignment back if nobody has taken it.

    Returns
    -------
    bool
        Whether it has its assignment now. If not, it goes on without one: its data are kept and its
        group has one session more.
    """
    row = connection.execute(
        "SELECT seat, released_why FROM sessions WHERE session = ?", (session,)
    ).fetchone()
    taken = connection.execute(
        "UPDATE seats SET session = ? WHERE seat = ? AND session IS NULL", (session, row["seat"])
    ).rowcount
    if taken:
        connection.execute(
            "UPDATE sessions SET released_at = NULL, released_why = NULL WHERE session = ?",
            (session,),
        )
        _note(connection, row["seat"], session, now, "returned", "")
    return bool(taken)


def release_stale(connection: sqlite3.Connection, before: float, now: float) -> list[str]:
    """Release the assignments of unfinished sessions that have sent nothing since `before`."""
    rows = connection.execute(
        """
        SELECT session FROM sessions
        WHERE finished_at IS NULL AND released_at IS NULL AND last_at < ? ORDER BY last_at
        """,
        (before,),
    ).fetchall()
    for row in rows:
        release_assignment(connection, row["session"], "abandoned", now)
    return [row["session"] for row in rows]


def release_assignment(connection: sqlite3.Connection, session: str, why: str, now: float) -> bool:
    """Release the assignment of a session; its data stay. Returns whether it had one."""
    row = connection.execute("SELECT seat FROM seats WHERE session = ?", (session,)).fetchone()
    if row is None:
        return False
    connection.execute("UPDATE seats SET session = NULL WHERE seat = ?", (row["seat"],))
    connection.execute(
        "UPDATE sessions SET released_at = ?, released_why = ? WHERE session = ?",
        (now, why, session),
    )
    _note(connection, row["seat"], session, now, "released", why)
    return True


def _occupy(
    connection: sqlite3.Connection, assignment: int, session: str, now: float, action: str, why: str
) -> None:
    connection.execute("UPDATE seats SET session = ? WHERE seat = ?", (session, assignment))
    _note(connection, assignment, session, now, action, why)


def _note(
    connection: sqlite3.Connection, assignment: int, session: str, now: float, action: str, why: str
) -> None:
    connection.execute(
        "INSERT INTO allocations (at, action, seat, session, why) VALUES (?, ?, ?, ?, ?)",
        (now, action, assignment, session, why),
    )
