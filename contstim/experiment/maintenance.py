"""Maintenance of a running study: deletion and replacement of participants, and extension.

All functions can be used while a server is running.
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from itertools import count
from pathlib import Path

import pandas as pd

from contstim.errors import InputError, OutputError
from contstim.experiment import schema, sessions
from contstim.experiment.study import Study, check_positions, read_study
from contstim.experiment.study_data import StudyData
from contstim.experiment.trials import get_number_column, read_design, read_rows, write_trials
from contstim.files import digest, replace_atomically

_Row = Mapping[str, str]

# Columns that determine the content of a trial, in addition to the fields of the presentation.
_CONTENT_COLUMNS = ("condition", "sentence_1", "sentence_2", "model_1", "model_2")


def delete_participant(
    study: Study, identifier: str, reason: str, database: Path | None = None
) -> str:
    """Delete all data of a participant, so that a new participant can take the same trials.

    An entry remains that states the trials (number of the assignment), the time of the deletion and
    the reason. Earlier copies and exports are not changed.

    Parameters
    ----------
    study
        Study in which the participant took part.
    identifier
        Code on the last screen, session id, or participant id of the recruitment platform.
    reason
        Reason for the deletion, e.g. ``asked by mail``.
    database
        Database of the study; by default the file in the study's folder.

    Returns
    -------
    str
        Code of the deleted session.

    Raises
    ------
    InputError
        If there are no data, or the identifier does not match exactly one session.
    OutputError
        If the data cannot be written.
    """
    path = schema.get_data_path(study, database)
    schema.check_encodable(identifier)
    schema.check_encodable(reason)
    with schema.write_transaction(path) as connection:
        session = _find_session_id(connection, identifier)
        code, now = schema.make_session_code(session), time.time()
        sessions.release_assignment(connection, session, "deleted", now)
        row = sessions.find_session(connection, session)
        connection.execute(
            "INSERT INTO forgotten VALUES"
            " (?, ?, ?, ?, (SELECT count(*) FROM answers WHERE session = ?), ?, ?)",
            (digest(session), code, row["assignment"], row["outcome"], session, now, reason),
        )
        connection.execute("PRAGMA secure_delete = ON")  # overwrites deleted content
        with schema.unlocked_raw_log(connection):
            for table in ("answers", "responses", "events", "tokens", "sessions"):
                connection.execute(f"DELETE FROM {table} WHERE session = ?", (session,))  # noqa: S608 - constant names
            # Blocks remain without the session, since their pairs must not be issued again.
            connection.execute("UPDATE blocks SET session = '' WHERE session = ?", (session,))
        connection.execute("DELETE FROM participants WHERE participant = ?", (row["participant"],))
        connection.execute("UPDATE allocations SET session = '' WHERE session = ?", (session,))
    with closing(schema.open_data(path)) as connection:
        # Remove deleted content from the write-ahead log too.
        if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            raise OutputError(
                f"{code} is deleted, but {path}-wal still contains older pages; "
                "restart the server to remove them"
            )
    return code


def _find_session_id(connection: sqlite3.Connection, identifier: str) -> str:
    """Find the session of a participant, and return its id.

    Parameters
    ----------
    connection
        Connection to the study's database.
    identifier
        Short code that the participant saw, id of the session, or participant id of the recruitment
        platform.

    Raises
    ------
    InputError
        If no session matches, or several sessions match.
    """
    code = identifier.strip().replace("-", "").upper()  # short code, as the participant sees it
    # `recruiter_id` is the participant's id on the recruitment platform. `claimed` is such an id
    # if an earlier session has used it already, so that it may belong to another participant.
    rows = connection.execute(
        "SELECT session, recruiter_id, claimed FROM sessions JOIN participants USING (participant)"
    ).fetchall()
    matches = [
        row["session"]
        for row in rows
        if identifier in (row["session"], row["recruiter_id"], row["claimed"])
        or code == schema.make_session_code(row["session"])
    ]
    if not matches:
        raise InputError(
            f"no session has the code or id {identifier!r}; give the code of the last screen, the "
            "session's id or the recruiter's id"
        )
    if len(matches) > 1:
        raise InputError(
            f"{identifier!r} matches {len(matches)} sessions; give one of the ids {sorted(matches)}"
        )
    return str(matches[0])


def make_replacement_table(
    collected: StudyData, excluded: pd.DataFrame, now: float | None = None
) -> pd.DataFrame:
    """List the sessions that additional participants should replace.

    These are sessions that the analysis excludes and sessions that were not completed. A new
    participant can take the list of trials (assignment) of such a session.

    Parameters
    ----------
    collected
        Collected data of the study.
    excluded : DataFrame
        Participants that the analysis excludes, with the columns ``participant, rule, detail`` as
        reported by the exclusion rules of the evaluation.
    now
        Current time in seconds since 1970, to omit active sessions; by default they are listed.

    Returns
    -------
    DataFrame
        One row per session, with the columns ``participant, session, group, assignment, released,
        reason``. ``reason`` states why the session should be replaced. ``released`` states why its
        assignment was made available to a new participant; empty if that has not happened yet.
    """
    exclusion_reasons = {
        str(participant): "; ".join(f"{row.rule}: {row.detail}" for row in rules.itertuples())
        for participant, rules in excluded.groupby("participant", sort=False)
    }
    # A participant is replaced if the analysis excludes the session, or if it is incomplete.
    rows = []
    for session in collected.sessions.to_dict("records"):
        reason = exclusion_reasons.get(session["participant"])
        if reason is None:
            n_answered, n_trials = session["n_answered"], session["n_trials"]
            if n_answered == n_trials:
                continue
            # Leave out sessions that are still running.
            if now is not None and session["outcome"] == "unfinished":
                started_at = datetime.fromisoformat(session["started_at"]).timestamp()
                last_message_at = started_at + 60 * session["minutes"]
                is_active = now - last_message_at <= sessions.IDLE_SECONDS
                if is_active:
                    continue
            reason = f"{session['outcome']}: {n_answered} of {n_trials} trials answered"
        rows.append({**session, "reason": reason})
    columns = ["participant", "session", "group", "assignment", "released", "reason"]
    return pd.DataFrame(rows, columns=columns)


def release_sessions(
    study: Study,
    reasons: Mapping[str, str],
    idle_minutes: float | None = None,
    database: Path | None = None,
) -> list[str]:
    """Make the assignments of sessions available to new participants.

    An assignment is the list of trials for one participant of the design. The data of the sessions
    are kept.

    Parameters
    ----------
    study
        Study to which the sessions belong.
    reasons
        Reason for taking the assignment away, e.g. ``excluded``, by session id.
    idle_minutes
        If given, unfinished sessions that have been inactive this long lose their assignments too.
    database
        Database of the study; by default the file in the study's folder.

    Returns
    -------
    list of str
        Ids of the sessions that lost an assignment.

    Raises
    ------
    InputError
        If there are no data or a session does not exist.
    OutputError
        If the data cannot be written.
    """
    now, released = time.time(), list[str]()
    for text in (*reasons, *reasons.values()):
        schema.check_encodable(text)
    with schema.write_transaction(schema.get_data_path(study, database)) as connection:
        # Release the assignments (lists of trials) of the named sessions.
        for session, reason in reasons.items():
            if sessions.find_session(connection, session) is None:
                raise InputError(
                    f"there is no session {session!r}; `contstim experiment export` lists them"
                )
            if sessions.release_assignment(connection, session, reason, now):
                released.append(session)
        # Release the assignments of all unfinished sessions that have been inactive for long.
        if idle_minutes is not None:
            released += sessions.release_inactive(connection, now - idle_minutes * 60, now)
    return released


def close_study(
    study: Study, reason: str, database: Path | None = None, closed: bool = True
) -> None:
    """Close a study to new participants, or reopen it; open sessions can be finished.

    If a stopping rule has closed the study (`AdaptivePlan.auto_close`) and somebody reopens it, the
    rule does not close it again.

    Parameters
    ----------
    study
        Study to close.
    reason
        Reason for closing or reopening the study. It is stored with the date.
    database
        Database of the study; by default the file in the study's folder.
    closed
        False to reopen the study.

    Raises
    ------
    InputError
        If there are no data, or the study is closed or open already.
    OutputError
        If the data cannot be written.
    """
    schema.check_encodable(reason)
    with schema.write_transaction(schema.get_data_path(study, database)) as connection:
        if closed == (sessions.find_closing_reason(connection) is not None):
            raise InputError(f"{study.folder} is {'closed' if closed else 'open'} already")
        sessions.record_closure(connection, closed, reason, time.time())


def extend_study(study: Study, trials: Path, database: Path | None = None) -> list[int]:
    """Extend the design of a study by more participants or groups.

    The table contains lists of trials for participants, called assignments. Lists that the study
    already has are skipped, and the others are added as new assignments with the next numbers.

    - A group of the table is a group of the study if it has the same trials. Otherwise it is a new
      group.
    - An item of the table is an item of the study if they share a trial. Otherwise it is a new
      item, even if the names are equal.

    Parameters
    ----------
    study
        Study to extend.
    trials
        Table from ``contstim design trials`` with additional participants or groups.
    database
        Database of the study; by default the file in the study's folder.

    Returns
    -------
    list of int
        Numbers of the new assignments.

    Raises
    ------
    InputError
        If the table is invalid, or the study already has all its assignments.
    OutputError
        If the study or the data cannot be written.
    """
    path, database = study.folder / "trials.csv", schema.get_data_path(study, database)
    presentation = study.presentation
    read_design(trials, presentation=presentation)  # checks the table
    old_rows, columns = read_rows(path)
    new_rows, new_columns = read_rows(trials)
    if differing := ", ".join(sorted(set(new_columns) ^ set(columns))):
        raise InputError(
            f"{trials} and {path} have different columns ({differing}); give both the same columns"
        )
    if database.exists():
        schema.open_data(database, study).close()  # checks that the data belong to the study
    # Columns that define the content of a trial, to recognise participants of the old table.
    fields = (*_CONTENT_COLUMNS, *presentation.required_fields, *presentation.optional_fields)
    added_rows = _select_new_rows(old_rows, new_rows, fields)
    if not added_rows:
        raise InputError(f"{study.folder} already has all assignments of {trials}; nothing to do")
    # Write the extended table, check it, and replace the old table only if it is valid.
    with replace_atomically(path) as temporary:
        write_trials(temporary, [*old_rows, *added_rows], columns)
        check_positions(study, read_design(temporary, study.attention, presentation))
    if database.exists():
        schema.open_data(database, read_study(study.folder)).close()  # adds the new assignments
    return sorted({int(row["participant"]) for row in added_rows})


def _select_new_rows(
    old: Sequence[_Row], new: Sequence[_Row], fields: Sequence[str]
) -> list[dict[str, str]]:
    """Select the participants who are only in the new table, and renumber their rows.

    Two participants are equal if they see the same trials in the same order and on the same sides.
    If the old table has n participants who are equal to each other, the first n such participants
    of the new table are skipped. The selected rows get new participant numbers. Groups, stimuli and
    items with the same content as in the old table get the numbers that they have there; others get
    new numbers.

    Parameters
    ----------
    old, new
        Rows of the tables.
    fields
        Columns that determine the content of a trial.

    Returns
    -------
    list of dict
        Renumbered rows to append to the old table.
    """

    def get_content(row: _Row) -> tuple[str, ...]:
        return tuple(row.get(name, "") for name in fields)

    def get_group_content(rows: Sequence[_Row]) -> frozenset[tuple[str, ...]]:
        return frozenset(map(get_content, rows))

    def get_list_content(rows: Sequence[_Row]) -> tuple[tuple[str, ...], ...]:
        ordered = sorted(rows, key=lambda row: int(row["trial"]))
        return tuple((*get_content(row), row.get("side_1", "")) for row in ordered)

    # Groups, numbers and items of the old table, by content.
    n_lists = Counter(map(get_list_content, _group_rows(old, "participant").values()))
    groups = {get_group_content(rows): group for group, rows in _group_rows(old, "group").items()}
    number_column = get_number_column(old[0])
    numbers = {get_content(row): row.get(number_column, "") for row in old}
    items = {get_content(row): row.get("item", "") for row in old}

    # Numbers for content that only the new table has.
    next_participant = count(1 + max(int(row["participant"]) for row in old))
    next_group = count(1 + max(int(row["group"]) for row in old))
    next_number = count(1 + max((int(number) for number in numbers.values() if number), default=0))
    new_items = _choose_item_names(items, [(row.get("item", ""), get_content(row)) for row in new])

    new_groups = _group_rows(new, "group")
    added = []
    for rows in _group_rows(new, "participant").values():
        list_content = get_list_content(rows)
        if n_lists[list_content]:
            n_lists[list_content] -= 1
            continue
        participant = str(next(next_participant))
        group_content = get_group_content(new_groups[rows[0]["group"]])
        if group_content not in groups:
            groups[group_content] = str(next(next_group))
        for row in rows:
            content = get_content(row)
            if content not in numbers:
                number = str(next(next_number))
                numbers[content] = number if row.get(number_column) else ""
            renumbered = {"participant": participant, "group": groups[group_content]}
            if number_column in row:
                renumbered[number_column] = numbers[content]
            if number_column != "item" and "item" in row:
                renumbered["item"] = items.get(content, new_items.get(row["item"], row["item"]))
            added.append({**row, **renumbered})
    return added


def _choose_item_names(
    item_by_content: Mapping[tuple[str, ...], str],
    new_trials: Sequence[tuple[str, tuple[str, ...]]],
) -> dict[str, str]:
    """Decide which name each item of a new table gets in the study.

    An item is a set of stimuli that are versions of each other.

    - An item that shares a trial with an item of the study is the same item, and gets its name.
    - An item that only has the same name as an item of the study is a different item, and gets a
      new number as its name.
    - All other items keep their names.

    Parameters
    ----------
    item_by_content
        Item names of the study, by content of the trial.
    new_trials
        Item name and content of each trial of the new table.

    Returns
    -------
    dict
        New names by name in the new table, without items that keep their names.
    """
    renamed = {}
    # An item that shares a trial with an item of the study gets the name of that item.
    for name, content in new_trials:
        if name and item_by_content.get(content):
            renamed[name] = item_by_content[content]

    # Any other item with a name that is already in use gets the next free number as its name.
    old_names = set(item_by_content.values()) - {""}
    new_names = dict.fromkeys(name for name, _ in new_trials)
    numeric_names = [int(name) for name in {*old_names, *new_names} if name.isdecimal()]
    next_number = count(1 + max(numeric_names, default=0))
    for name in new_names:
        if name in old_names and name not in renamed:
            renamed[name] = str(next(next_number))
    return renamed


def _group_rows(rows: Sequence[_Row], column: str) -> dict[str, list[_Row]]:
    """Group rows by the value of a column."""
    groups: dict[str, list[_Row]] = {}
    for row in rows:
        groups.setdefault(row[column], []).append(row)
    return groups
