"""Who sits where: balanced seats, committed before the first trial, released when abandoned."""

from __future__ import annotations

import sqlite3

__all__ = ["release_seat", "release_stale", "return_to_seat", "take_seat"]


def take_seat(connection: sqlite3.Connection, session: str, now: float) -> tuple[int, int] | None:
    """Give `session` a seat: the first free one of the group with the fewest sessions.

    So groups differ by at most one session while all have free seats and none was released, and
    return to that as released seats are taken again.

    Returns
    -------
    tuple or None
        Seat and group; None if no seat is free.
    """
    row = connection.execute(
        """
        SELECT min(seat) AS seat, group_number FROM seats AS free
        WHERE session IS NULL
        GROUP BY group_number
        ORDER BY (SELECT count(session) FROM seats AS s WHERE s.group_number = free.group_number),
                 group_number
        LIMIT 1
        """
    ).fetchone()
    if row is None:
        return None
    _occupy(connection, row["seat"], session, now, "taken", "")
    return row["seat"], row["group_number"]


def return_to_seat(connection: sqlite3.Connection, session: str, now: float) -> bool:
    """Give a released session its seat back if nobody has taken it.

    Returns
    -------
    bool
        Whether it has its seat now. If not, it goes on without one: its data are kept and its
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
    """Release the seats of unfinished sessions that have sent nothing since `before`."""
    rows = connection.execute(
        """
        SELECT session FROM sessions
        WHERE finished_at IS NULL AND released_at IS NULL AND last_at < ? ORDER BY last_at
        """,
        (before,),
    ).fetchall()
    for row in rows:
        release_seat(connection, row["session"], "abandoned", now)
    return [row["session"] for row in rows]


def release_seat(connection: sqlite3.Connection, session: str, why: str, now: float) -> bool:
    """Release the seat of a session; its data stay. Returns whether it had one."""
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
    connection: sqlite3.Connection, seat: int, session: str, now: float, action: str, why: str
) -> None:
    connection.execute("UPDATE seats SET session = ? WHERE seat = ?", (session, seat))
    _note(connection, seat, session, now, action, why)


def _note(
    connection: sqlite3.Connection, seat: int, session: str, now: float, action: str, why: str
) -> None:
    connection.execute(
        "INSERT INTO allocations (at, action, seat, session, why) VALUES (?, ?, ?, ?, ?)",
        (now, action, seat, session, why),
    )
