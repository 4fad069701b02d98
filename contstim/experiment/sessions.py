"""Sessions of participants: their assignments, and the closing of a study.

An *assignment* is the list of trials, in order and with sides, for one participant of the design. A
session takes a free assignment when it starts. If the session is abandoned, the assignment is
*released*: it becomes free again, and another participant can take it. Every function runs within
a transaction that its caller has started.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from contstim.experiment.messages import SessionRequest
from contstim.experiment.options import AllocationOptions
from contstim.experiment.schema import insert_row
from contstim.experiment.study import Study

#: Seconds without a message after which an unfinished session is idle.
IDLE_SECONDS = 300.0

#: Start of the closing reason if the study's stopping rule closed it; the conclusion follows.
CLOSED_BY_RULE = "by its rule"

_LOG_ALLOCATION = (
    "INSERT INTO allocations (at, action, assignment, session, reason) VALUES (?, ?, ?, ?, ?)"
)

# Assignment number in the table `allocations` for entries about the whole study.
_WHOLE_STUDY = 0


def add_session(
    connection: sqlite3.Connection,
    study: Study,
    row: Mapping[str, Any],
    recruiter_id: str | None,
    parameters: Mapping[str, str],
) -> None:
    """Add a new session and its participant to the data.

    The text of the consent form is stored too if the participant agreed to the current form. A
    session that was imported may refer to an older form, of which only the digest is known.

    Parameters
    ----------
    connection
        Connection to the database, within a transaction.
    study
        Study to which the session belongs.
    row
        Values of the columns of the table ``sessions``, except ``participant``.
    recruiter_id
        Participant id of the recruitment platform, if any. If another participant already has this
        id, it is stored in the column ``claimed`` instead of ``recruiter_id``.
    parameters
        URL query parameters to store.
    """
    _store_consent(connection, study, row)
    # An id that another participant already uses is stored in the column `claimed`.
    participant_row = {
        _choose_id_column(connection, recruiter_id): recruiter_id,
        "parameters": json.dumps(dict(parameters)),
    }
    participant = insert_row(connection, "participants", participant_row).lastrowid
    insert_row(connection, "sessions", {**row, "participant": participant})


def update_imported_session(
    connection: sqlite3.Connection,
    study: Study,
    stored: Mapping[str, Any],
    imported: Mapping[str, Any],
    recruiter_id: str | None,
    parameters: Mapping[str, str],
) -> None:
    """Add values that an imported session lacks, from another log file of the same session.

    The log of one session can be spread over several files. Values that are missing in the data are
    taken from the new file. Stored values are not overwritten, except that the earlier start time
    is used.

    Parameters
    ----------
    connection
        Connection to the database, within a transaction.
    study
        Study to which the session belongs.
    stored
        Stored session, a row of the table ``sessions``.
    imported
        Values of ``started_at``, ``consent_version``, ``consent_sha256`` and ``materials`` in the
        other file.
    recruiter_id
        Participant id of the recruitment platform in the other file, if any.
    parameters
        URL query parameters in the other file.
    """
    # Fill in missing values of the session from the other file. Of two start times, the earlier one
    # is used; otherwise stored values take precedence.
    merged = {name: stored[name] or value for name, value in imported.items()}
    start_times = [time for time in (stored["started_at"], imported["started_at"]) if time]
    merged["started_at"] = min(start_times, default=0.0)
    _store_consent(connection, study, merged)
    connection.execute(
        "UPDATE sessions SET started_at = :started_at, consent_version = :consent_version,"
        " consent_sha256 = :consent_sha256, materials = :materials WHERE session = :session",
        {**merged, "session": stored["session"]},
    )

    # Do the same for the participant's URL query parameters.
    query = "SELECT * FROM participants WHERE participant = ?"
    participant = connection.execute(query, (stored["participant"],)).fetchone()
    merged_parameters = json.dumps({**parameters, **json.loads(participant["parameters"])})
    query = "UPDATE participants SET parameters = ? WHERE participant = ?"
    connection.execute(query, (merged_parameters, stored["participant"]))
    # Add the participant id of the recruitment platform if none is stored. Ids in the column
    # `recruiter_id` are unique; an id that another participant already has is stored in `claimed`.
    has_stored_id = participant["recruiter_id"] is not None or participant["claimed"] is not None
    if recruiter_id is not None and not has_stored_id:
        column = _choose_id_column(connection, recruiter_id)
        query = f"UPDATE participants SET {column} = ? WHERE participant = ?"  # noqa: S608 - constant column
        connection.execute(query, (recruiter_id, stored["participant"]))


def _store_consent(connection: sqlite3.Connection, study: Study, row: Mapping[str, Any]) -> None:
    """Store the text of the study's consent form, if a session's participant agreed to this form.

    Parameters
    ----------
    connection
        Connection to the database, within a transaction.
    study
        Study with the current form.
    row
        Session, with the version and the digest of the form that was shown.
    """
    version, sha256 = study.consent.version, study.consent_sha256
    if (row["consent_version"], row["consent_sha256"]) == (version, sha256):
        consent = {"sha256": sha256, "version": version, "text": study.consent_text}
        insert_row(connection, "consents", consent, or_ignore=True)


def _choose_id_column(connection: sqlite3.Connection, recruiter_id: str | None) -> str:
    """Return the column in which to store the id that a recruitment platform gave a participant.

    The column is ``recruiter_id``, which contains unique values, or ``claimed`` if another
    participant already has the same id.
    """
    query = "SELECT 1 FROM participants WHERE recruiter_id = ?"
    is_used = connection.execute(query, (recruiter_id,)).fetchone() is not None
    return "claimed" if is_used else "recruiter_id"


def find_session(connection: sqlite3.Connection, session: str) -> Any:
    """Return the row of a session in the table ``sessions``, or None if there is none.

    Parameters
    ----------
    connection
        Connection to the study's database.
    session
        Id of the session.
    """
    return connection.execute("SELECT * FROM sessions WHERE session = ?", (session,)).fetchone()


def find_requested_session(connection: sqlite3.Connection, request: SessionRequest) -> Any:
    """Find the session that a participant already has, for example after reloading the web page.

    Participants with an id of the recruitment platform are found by this id, and others by the id
    of the request.

    Parameters
    ----------
    connection
        Connection to the study's database.
    request
        Request to open a session.

    Returns
    -------
    sqlite3.Row or None
        Row of the table ``sessions``; None if the participant has no session.
    """
    query = "SELECT sessions.* FROM sessions JOIN participants USING (participant) WHERE "
    if request.participant is not None:
        query += "recruiter_id = ?"
        return connection.execute(query, (request.participant,)).fetchone()
    query += "request = ? AND recruiter_id IS NULL"
    return connection.execute(query, (request.request,)).fetchone()


def record_heartbeat(connection: sqlite3.Connection, session: str, now: float) -> Any:
    """Record that a session is active and return its row.

    If the session was abandoned, it gets its assignment (list of trials) back if no other session
    has taken it.

    Parameters
    ----------
    connection
        Connection to the database, within a transaction.
    session
        Id of the session.
    now
        Current Unix time, in seconds since 1970.

    Returns
    -------
    sqlite3.Row
        Updated row of the session.
    """
    if find_session(connection, session)["release_reason"] == "abandoned":
        restore_assignment(connection, session, now)
    connection.execute("UPDATE sessions SET last_at = ? WHERE session = ?", (now, session))
    return find_session(connection, session)


def take_assignment(
    connection: sqlite3.Connection, session: str, now: float, options: AllocationOptions
) -> tuple[int, int] | None:
    """Give a session an assignment: the list of trials for one participant of the design.

    It is the first free assignment of the group in which the fewest assignments are taken. Group
    sizes therefore differ by at most one session until assignments run out or are released. If none
    is free, the session that has been inactive longest loses its assignment to the new session,
    provided that the options permit it.

    Parameters
    ----------
    connection
        Connection to the database, within a transaction.
    session
        Id of the session.
    now
        Current Unix time, in seconds since 1970.
    options
        Minutes of inactivity after which an assignment may be reassigned.

    Returns
    -------
    tuple of int, or None
        Assignment and group, or None if no assignment is free.
    """
    row = _find_free_assignment(connection)
    # If none is free, the session that has been inactive longest may lose its assignment.
    if row is None and _release_least_recently_active(connection, now, options):
        row = _find_free_assignment(connection)
    if row is None:
        return None
    connection.execute(
        "UPDATE assignments SET session = ? WHERE assignment = ?", (session, row["assignment"])
    )
    connection.execute(_LOG_ALLOCATION, (now, "taken", row["assignment"], session, ""))
    return row["assignment"], row["group_number"]


def _find_free_assignment(connection: sqlite3.Connection) -> Any:
    """Find the assignment (list of trials) for the next participant.

    It is the first free assignment of the group in which the fewest assignments are taken.

    Returns
    -------
    sqlite3.Row or None
        Row with ``assignment`` and ``group_number``; None if no assignment is free.
    """
    return connection.execute(  # an assignment is free if it has no session
        """
        SELECT min(assignment) AS assignment, group_number FROM assignments AS free
        WHERE session IS NULL
        GROUP BY group_number
        -- The group in which the fewest assignments have a session comes first.
        ORDER BY (
            SELECT count(session) FROM assignments AS a WHERE a.group_number = free.group_number
        ), group_number
        LIMIT 1
        """
    ).fetchone()


def _release_least_recently_active(
    connection: sqlite3.Connection, now: float, options: AllocationOptions
) -> bool:
    """Release the assignment (list of trials) of the session that has been inactive longest.

    The assignment is then free for another participant. Only unfinished sessions are considered
    that have been inactive longer than the options permit. The permitted time is shorter for a
    session that has answered nothing except practice trials.

    Parameters
    ----------
    connection
        Connection to the database, within a transaction.
    now
        Current Unix time, in seconds since 1970.
    options
        Minutes of inactivity after which an assignment may be reassigned.

    Returns
    -------
    bool
        Whether an assignment was released.
    """
    if not options.reassign_after_minutes:
        return False
    started_minutes = options.reassign_after_minutes
    unstarted_minutes = min(started_minutes, options.reassign_unstarted_after_minutes)
    # Find the session that has been inactive longest. `last_at` is the time of its last message.
    # The limit depends on whether it has answers to trials other than practice.
    row = connection.execute(
        """
        SELECT session FROM sessions
        WHERE finished_at IS NULL AND released_at IS NULL AND last_at <= CASE WHEN EXISTS (
            SELECT 1 FROM answers WHERE answers.session = sessions.session AND kind <> 'practice'
        ) THEN :latest_if_started ELSE :latest_if_unstarted END
        ORDER BY last_at LIMIT 1
        """,
        {
            "latest_if_started": now - 60 * started_minutes,
            "latest_if_unstarted": now - 60 * unstarted_minutes,
        },
    ).fetchone()
    return row is not None and release_assignment(connection, row["session"], "abandoned", now)


def restore_assignment(connection: sqlite3.Connection, session: str, now: float) -> None:
    """Return an assignment (list of trials) to the session that lost it while it was inactive.

    If another session has taken the assignment in the meantime, both sessions use the same trials:
    the data of both are used, and the group has one participant more than planned.

    Parameters
    ----------
    connection
        Connection to the database, within a transaction.
    session
        Id of the session.
    now
        Current Unix time, in seconds since 1970.
    """
    assignment = find_session(connection, session)["assignment"]
    query = "UPDATE assignments SET session = ? WHERE assignment = ? AND session IS NULL"
    if connection.execute(query, (session, assignment)).rowcount:
        query = "UPDATE sessions SET released_at = NULL, release_reason = NULL WHERE session = ?"
        connection.execute(query, (session,))
        connection.execute(_LOG_ALLOCATION, (now, "returned", assignment, session, ""))


def release_inactive(connection: sqlite3.Connection, before: float, now: float) -> list[str]:
    """Release the assignments (lists of trials) of unfinished, inactive sessions.

    Other participants can then take these assignments.

    Parameters
    ----------
    connection
        Connection to the database, within a transaction.
    before
        Time in seconds since 1970. A session that has sent nothing since then is inactive.
    now
        Current Unix time, in seconds since 1970.

    Returns
    -------
    list of str
        Ids of the sessions that lost their assignment.
    """
    rows = connection.execute(
        "SELECT session FROM sessions WHERE finished_at IS NULL AND released_at IS NULL"
        " AND last_at < ? ORDER BY last_at",
        (before,),
    ).fetchall()
    # An assignment (list of trials) is then free for another participant.
    for row in rows:
        release_assignment(connection, row["session"], "abandoned", now)
    return [row["session"] for row in rows]


def release_assignment(
    connection: sqlite3.Connection, session: str, reason: str, now: float
) -> bool:
    """Make the assignment (list of trials) of a session available to another participant.

    The data of the session are kept.

    Parameters
    ----------
    connection
        Connection to the database, within a transaction.
    session
        Id of the session.
    reason
        Reason, e.g. ``abandoned`` or ``excluded``.
    now
        Current Unix time, in seconds since 1970.

    Returns
    -------
    bool
        Whether the session had an assignment.
    """
    query = "SELECT assignment FROM assignments WHERE session = ?"
    row = connection.execute(query, (session,)).fetchone()
    if row is None:
        return False
    # An assignment (list of trials) without a session is free for another participant.
    query = "UPDATE assignments SET session = NULL WHERE assignment = ?"
    connection.execute(query, (row["assignment"],))
    query = "UPDATE sessions SET released_at = ?, release_reason = ? WHERE session = ?"
    connection.execute(query, (now, reason, session))
    connection.execute(_LOG_ALLOCATION, (now, "released", row["assignment"], session, reason))
    return True


def record_closure(
    connection: sqlite3.Connection, is_closed: bool, reason: str, now: float
) -> None:
    """Close a study to new participants, or reopen it; open sessions can continue either way.

    Parameters
    ----------
    connection
        Connection to the database, within a transaction.
    is_closed
        True to close the study, False to reopen it.
    reason
        Reason for closing or reopening the study. It is stored with the date.
    now
        Current Unix time, in seconds since 1970.
    """
    action = "closed" if is_closed else "reopened"
    connection.execute(_LOG_ALLOCATION, (now, action, _WHOLE_STUDY, "", reason))


def find_closing_reason(connection: sqlite3.Connection) -> str | None:
    """Find out whether the study is closed to new participants, and why.

    Parameters
    ----------
    connection
        Connection to the study's database.

    Returns
    -------
    str or None
        Reason that was stored when the study was closed; None if the study is open.
    """
    row = connection.execute(
        "SELECT action, reason FROM allocations "
        "WHERE assignment = ? ORDER BY sequence DESC LIMIT 1",
        (_WHOLE_STUDY,),
    ).fetchone()
    return None if row is None or row["action"] == "reopened" else row["reason"]


def close_by_rule(connection: sqlite3.Connection, conclusion: str, now: float) -> bool:
    """Close the study to new participants because its stopping rule is satisfied.

    The rule closes a study only once. If somebody has reopened the study afterwards, it stays open.

    Parameters
    ----------
    connection
        Connection to the database, within a transaction.
    conclusion
        Conclusion of the stopping rule, which becomes part of the reason.
    now
        Current Unix time, in seconds since 1970.

    Returns
    -------
    bool
        Whether the study was closed by this call.
    """
    query = "SELECT 1 FROM allocations WHERE assignment = ? AND reason LIKE ?"
    closure = connection.execute(query, (_WHOLE_STUDY, f"{CLOSED_BY_RULE}%")).fetchone()
    if closure is not None:
        return False
    record_closure(connection, is_closed=True, reason=f"{CLOSED_BY_RULE}: {conclusion}", now=now)
    return True
