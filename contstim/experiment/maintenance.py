"""A study while it runs: whom to replace, who is deleted, more assignments."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from contstim.errors import InputError, OutputError
from contstim.experiment.schema import (
    check_encodable,
    data_path,
    open_data,
    session_code,
    unlocked_raw_log,
    write_transaction,
)
from contstim.experiment.sessions import (
    IDLE_SECONDS,
    find_closing_reason,
    find_session,
    record_closure,
    release_assignment,
    release_inactive,
)
from contstim.experiment.study import Study, check_positions, read_study
from contstim.experiment.study_data import StudyData
from contstim.experiment.trials import get_number_column, read_design, read_rows, write_trials
from contstim.files import digest, replace_atomically

_Row = Mapping[str, str]

#: What makes two trials the same, besides what else is shown.
_PAIR = ("condition", "sentence_1", "sentence_2", "model_1", "model_2")


def delete_participant(study: Study, who: str, why: str, data: Path | None = None) -> str:
    """Delete everything that is known of a participant; a server may be running.

    What stays says that there was a session, on which assignment, and when and why it was deleted;
    the assignment is free again. Copies and exports that were made before are not touched.

    Parameters
    ----------
    study
        The study.
    who
        The code that the last screen showed, the session's id, or the recruiter's id.
    why
        The reason, such as ``asked by mail``.
    data
        The data file; by default in the study's folder.

    Returns
    -------
    str
        The session's code.

    Raises
    ------
    InputError
        If nobody or more than one person is meant, the reason is not text, or there are no data.
    OutputError
        If the data cannot be written.
    """
    path = data_path(study, data)
    for words in (who, why):
        check_encodable(words)
    with write_transaction(path) as connection:
        session = _meant(connection, who)
        code = session_code(session)
        release_assignment(connection, session, "deleted", time.time())
        row = find_session(connection, session)
        connection.execute(
            "INSERT INTO forgotten VALUES"
            " (?, ?, ?, ?, (SELECT count(*) FROM answers WHERE session = ?), ?, ?)",
            (digest(session), code, row["assignment"], row["outcome"], session, time.time(), why),
        )
        connection.execute("PRAGMA secure_delete = ON")  # what is deleted is written over
        with unlocked_raw_log(connection):
            for table in ("answers", "responses", "events", "tokens", "sessions"):
                connection.execute(f"DELETE FROM {table} WHERE session = ?", (session,))  # noqa: S608 - tables of ours
            # Which pairs were asked already stays known; of whom does not.
            connection.execute("UPDATE blocks SET session = '' WHERE session = ?", (session,))
        connection.execute("DELETE FROM participants WHERE participant = ?", (row["participant"],))
        connection.execute("UPDATE allocations SET session = '' WHERE session = ?", (session,))
    with closing(open_data(path)) as connection:
        # Older pages may still be in the log of changes.
        if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            raise OutputError(
                f"{code} is deleted, but {path}-wal still holds older pages; "
                "restart the server to remove them"
            )
    return code


def _meant(connection: sqlite3.Connection, who: str) -> str:
    rows = connection.execute(
        "SELECT session, recruiter_id, claimed FROM sessions JOIN participants USING (participant)"
    ).fetchall()
    meant = {
        row["session"]
        for row in rows
        if who in (row["session"], row["recruiter_id"], row["claimed"])
        or who.strip().replace("-", "").upper() == session_code(row["session"])
    }
    if not meant:
        raise InputError(
            f"nobody in the data is {who!r}; give the code of the last screen, the session's id or "
            "the recruiter's id"
        )
    if len(meant) > 1:
        raise InputError(f"{who!r} is {len(meant)} sessions; give the id of one: {sorted(meant)}")
    return str(meant.pop())


def replacement_table(
    collected: StudyData, excluded: pd.DataFrame, now: float | None = None
) -> pd.DataFrame:
    """Return which assignments another participant should take, and why.

    Parameters
    ----------
    collected
        The data.
    excluded
        Participants that the analysis leaves out altogether: ``participant``, ``rule``, ``detail``,
        as the evaluation's rules report them.
    now
        Seconds since 1970: sessions that are answering, unfinished with a sign of life in the last
        five minutes, are left out; None: they are not.

    Returns
    -------
    pandas.DataFrame
        ``participant, session, group, assignment, released, reason``, for sessions that are
        excluded or not whole; ``released`` says why the assignment is free already, if it is.
    """
    reasons = {
        str(who): "; ".join(f"{row.rule}: {row.detail}" for row in rules.itertuples())
        for who, rules in excluded.groupby("participant", sort=False)
    }
    rows = []
    for session in collected.sessions.to_dict("records"):
        reason = reasons.get(session["participant"])
        if reason is None and session["n_answered"] != session["n_trials"]:
            if now is not None and session["outcome"] == "unfinished" and not _idle(session, now):
                continue
            done = f"{session['n_answered']} of {session['n_trials']} trials answered"
            reason = f"{session['outcome']}: {done}"
        if reason is not None:
            rows.append({**session, "reason": reason})
    columns = ["participant", "session", "group", "assignment", "released", "reason"]
    return pd.DataFrame(rows, columns=columns)


def _idle(session: Mapping[Hashable, Any], now: float) -> bool:
    """Return whether an unfinished session has sent nothing for long."""
    started = datetime.fromisoformat(session["started_at"]).timestamp()
    return bool(now - started - 60 * session["minutes"] > IDLE_SECONDS)


def release_sessions(
    study: Study,
    sessions: Mapping[str, str],
    idle_minutes: float | None = None,
    data: Path | None = None,
) -> list[str]:
    """Give assignments to whoever comes next; the data of the sessions stay.

    A server may be running.

    Parameters
    ----------
    study
        The study.
    sessions
        Sessions and why, e.g. ``excluded``.
    idle_minutes
        Also those that are unfinished and have sent nothing for so long.
    data
        The data file; by default in the study's folder.

    Returns
    -------
    list of str
        The sessions whose assignments were released; others had none.

    Raises
    ------
    InputError
        If there is no such session, or no data, or a reason is not text.
    OutputError
        If the data cannot be written.
    """
    now, done = time.time(), []
    for words in (*sessions, *sessions.values()):
        check_encodable(words)
    with write_transaction(data_path(study, data)) as connection:
        for session, why in sessions.items():
            if find_session(connection, session) is None:
                raise InputError(
                    f"there is no session {session!r}; `contstim experiment export` lists them"
                )
            if release_assignment(connection, session, why, now):
                done.append(session)
        if idle_minutes is not None:
            done += release_inactive(connection, now - idle_minutes * 60, now)
    return done


def close_study(study: Study, why: str, data: Path | None = None, closed: bool = True) -> None:
    """Let nobody new into a study, or let people in again; a server may be running.

    Whoever has begun may finish either way. What its own rule has closed
    (`AdaptivePlan.auto_close`) and was reopened is not closed by the rule again.

    Parameters
    ----------
    study
        The study.
    why
        The reason, which is kept.
    data
        The data file; by default in the study's folder.
    closed
        False to reopen it.

    Raises
    ------
    InputError
        If the study is closed, or open, already, the reason is not text, or there are no data.
    OutputError
        If the data cannot be written.
    """
    check_encodable(why)
    with write_transaction(data_path(study, data)) as connection:
        if closed == (find_closing_reason(connection) is not None):
            raise InputError(f"{study.folder} is {'closed' if closed else 'open'} already")
        record_closure(connection, closed, why, time.time())


def extend_study(study: Study, trials: Path, data: Path | None = None) -> list[int]:
    """Add the assignments of a table that the study has not; a server may be running.

    Assignments of the study keep their numbers, new ones follow. A group of the table whose pairs
    of sentences are those of a group of the study is that group; others are new, numbered on. Items
    that share no pair with one of the study are new as well, whatever they are called.

    Parameters
    ----------
    study
        The study.
    trials
        What ``contstim design trials`` wrote: further participants or groups, or trials of another
        wave; lists that the study has already are passed over.
    data
        The data file; by default in the study's folder.

    Returns
    -------
    list of int
        The numbers of the new assignments.

    Raises
    ------
    InputError
        If the table cannot be used, or holds no assignment that the study lacks.
    OutputError
        If study or data cannot be written.
    """
    path, collected = study.folder / "trials.csv", data_path(study, data)
    shown = study.presentation
    read_design(trials, presentation=shown)  # says what is wrong with it
    old, columns = read_rows(path)
    new, given = read_rows(trials)
    if set(given) != set(columns):
        odd = ", ".join(sorted(set(given) ^ set(columns)))
        raise InputError(f"{trials} and {path} do not have the same columns ({odd}); make them so")
    if collected.exists():
        open_data(collected, study).close()  # the study is still that of its data
    rows = _added(old, new, (*_PAIR, *shown.required_fields, *shown.optional_fields))
    if not rows:
        raise InputError(f"{trials} holds no assignment that {study.folder} lacks; nothing to do")
    with replace_atomically(path) as temporary:
        write_trials(temporary, [*old, *rows], columns)
        check_positions(study, read_design(temporary, study.attention, shown))
    if collected.exists():
        # Opening the data adds the new assignments.
        open_data(collected, read_study(study.folder)).close()
    return sorted({int(row["participant"]) for row in rows})


def _added(old: Sequence[_Row], new: Sequence[_Row], names: Sequence[str]) -> list[dict[str, str]]:
    """Return the rows of `new` whose lists `old` lacks, with groups, numbers and items of `old`.

    Columns of `names` make a trial what it is.
    """

    def of_row(row: _Row) -> tuple[str, ...]:
        return tuple(row.get(name, "") for name in names)

    def of_group(rows: Sequence[_Row]) -> frozenset[tuple[str, ...]]:
        return frozenset(map(of_row, rows))

    def of_list(rows: Sequence[_Row]) -> tuple[tuple[str, ...], ...]:
        ordered = sorted(rows, key=lambda row: int(row["trial"]))
        return tuple((*of_row(row), row.get("side_1", "")) for row in ordered)

    lists = Counter(of_list(rows_of_one) for rows_of_one in _by(old, "participant").values())
    groups = {of_group(rows_of_one): number for number, rows_of_one in _by(old, "group").items()}
    name = get_number_column(old[0])
    items = {of_row(row): row.get(name, "") for row in old}
    kin = {of_row(row): row.get("item", "") for row in old}
    # What `old` calls the items of `new`, by a pair of theirs that both have; no other item may be
    # called as one of `old` is.
    called = {
        row["item"]: kin[of_row(row)] for row in new if row.get("item") and kin.get(of_row(row))
    }
    taken, wanted = set(kin.values()) - {""}, dict.fromkeys(row.get("item", "") for row in new)
    last_name = max((int(text) for text in {*taken, *wanted} if text.isdecimal()), default=0)
    for item in wanted:
        if item in taken and item not in called:
            last_name += 1
            called[item] = str(last_name)
    last = max(int(row["participant"]) for row in old)
    last_item = max((int(item) for item in items.values() if item), default=0)
    group_of = {number: of_group(rows_of_one) for number, rows_of_one in _by(new, "group").items()}
    last_group = max(int(row["group"]) for row in old)
    added = []
    for rows_of_one in _by(new, "participant").values():
        if lists[of_list(rows_of_one)]:
            lists[of_list(rows_of_one)] -= 1
            continue
        last += 1
        pairs = group_of[rows_of_one[0]["group"]]
        if pairs not in groups:
            last_group += 1
            groups[pairs] = str(last_group)
        for row in rows_of_one:
            if of_row(row) not in items:
                last_item += 1
                items[of_row(row)] = str(last_item) if row.get(name) else ""
            renamed = {"participant": str(last), "group": groups[pairs]}
            if name in row:
                renamed[name] = items[of_row(row)]
            if name != "item" and "item" in row:
                renamed["item"] = kin.get(of_row(row), called.get(row["item"], row["item"]))
            added.append({**row, **renamed})
    return added


def _by(rows: Sequence[_Row], column: str) -> dict[str, list[_Row]]:
    rows_by = defaultdict(list)
    for row in rows:
        rows_by[row[column]].append(row)
    return rows_by
