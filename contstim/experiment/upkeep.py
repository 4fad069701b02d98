"""A study while it runs: more assignments, some free again, a copy of its data, deletion."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from contstim.errors import InputError, OutputError
from contstim.experiment.schema import (
    check_words,
    data_path,
    open_data,
    raw_log_open,
    session_code,
    writing,
)
from contstim.experiment.sessions import release_assignment, release_stale, session_row
from contstim.experiment.study import Study, check_places, read_study
from contstim.experiment.trials import read_design, read_rows, write_trials
from contstim.files import digest, replacing

_Row = Mapping[str, str]

#: What makes two trials the same, besides what else is shown.
_PAIR = ("condition", "sentence_1", "sentence_2", "model_1", "model_2")


def backup_data(study: Study, copy: Path, data: Path | None = None) -> None:
    """Copy the data of a study as they are at one moment, also while a server writes.

    Raises
    ------
    InputError
        If there are no data.
    OutputError
        If the copy cannot be written.
    """
    with closing(open_data(data_path(study, data))) as source, replacing(copy) as temporary:
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            with closing(sqlite3.connect(temporary)) as target:
                source.backup(target)
                target.execute("PRAGMA journal_mode = DELETE")  # one file, without -wal
                found = target.execute("PRAGMA integrity_check").fetchone()[0]
        except sqlite3.Error as error:
            raise OutputError(f"cannot write the copy {copy}: {error}") from None
        if found != "ok":
            raise OutputError(f"the copy {copy} is not sound ({found}); the data file is damaged")


def forget_participant(study: Study, who: str, why: str, data: Path | None = None) -> str:
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
        If nobody or more than one person is meant, the reason is no text, or there are no data.
    OutputError
        If the data cannot be written.
    """
    path = data_path(study, data)
    for words in (who, why):
        check_words(words)
    with writing(path) as connection:
        session = _meant(connection, who)
        code = session_code(session)
        release_assignment(connection, session, "deleted", time.time())
        row = session_row(connection, session)
        query = "SELECT count(*) FROM answers WHERE session = ?"
        n_answers = connection.execute(query, (session,)).fetchone()[0]
        connection.execute(
            "INSERT INTO forgotten VALUES (?, ?, ?, ?, ?, ?, ?)",
            (digest(session), code, row["seat"], row["outcome"], n_answers, time.time(), why),
        )
        connection.execute("PRAGMA secure_delete = ON")  # what is deleted is written over
        with raw_log_open(connection):
            for table in ("answers", "events", "tokens", "sessions"):
                connection.execute(f"DELETE FROM {table} WHERE session = ?", (session,))  # noqa: S608 - tables of ours
            # Which pairs were asked already stays known; of whom does not.
            connection.execute("UPDATE blocks SET session = '' WHERE session = ?", (session,))
        connection.execute("DELETE FROM participants WHERE participant = ?", (row["participant"],))
        connection.execute("UPDATE allocations SET session = '' WHERE session = ?", (session,))
    with closing(open_data(path)) as connection:
        # Older pages may still be in the log of changes.
        if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            raise OutputError(
                f"{code} is deleted, but {path}-wal still holds older pages; stop the server and "
                "start it again to be rid of them"
            )
    return code


def _meant(connection: sqlite3.Connection, who: str) -> str:
    rows = connection.execute(
        "SELECT session, recruiter_id FROM sessions JOIN participants USING (participant)"
    ).fetchall()
    meant = {
        row["session"]
        for row in rows
        if who in (row["session"], row["recruiter_id"])
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
        If there is no such session, or no data, or a reason is no text.
    OutputError
        If the data cannot be written.
    """
    now, done = time.time(), []
    for words in (*sessions, *sessions.values()):
        check_words(words)
    with writing(data_path(study, data)) as connection:
        for session, why in sessions.items():
            if session_row(connection, session) is None:
                raise InputError(
                    f"there is no session {session!r}; `contstim experiment export` lists them"
                )
            if release_assignment(connection, session, why, now):
                done.append(session)
        if idle_minutes is not None:
            done += release_stale(connection, now - idle_minutes * 60, now)
    return done


def extend_study(study: Study, trials: Path, data: Path | None = None) -> list[int]:
    """Add the assignments of a table that the study has not; a server may be running.

    Assignments of the study keep their numbers, new ones follow. A group of the table whose pairs
    of sentences are those of a group of the study is that group; others are new, numbered on.

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
    path = study.folder / "trials.csv"
    shown = study.presentation
    read_design(trials, presentation=shown)  # says what is wrong with it
    old, columns = read_rows(path)
    new, given = read_rows(trials)
    if set(given) != set(columns):
        odd = ", ".join(sorted(set(given) ^ set(columns)))
        raise InputError(f"{trials} and {path} have not the same columns ({odd}); make them so")
    if data_path(study, data).exists():
        open_data(data_path(study, data), study).close()  # the study is still that of its data
    rows = _added(old, new, (*_PAIR, *shown.needed, *shown.optional))
    if not rows:
        raise InputError(f"{trials} holds no assignment that {study.folder} has not; nothing to do")
    with replacing(path) as temporary:
        write_trials(temporary, [*old, *rows], columns)
        check_places(study, read_design(temporary, study.attention, shown))
    if data_path(study, data).exists():
        with writing(data_path(study, data), read_study(study.folder)):
            pass  # opening the data has given the new assignments their seats
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

    lists = Counter(of_list(own) for own in _by(old, "participant").values())
    groups = {of_group(own): number for number, own in _by(old, "group").items()}
    items = {of_row(row): row.get("item", "") for row in old}
    last = max(int(row["participant"]) for row in old)
    last_item = max((int(item) for item in items.values() if item), default=0)
    group_of = {number: of_group(own) for number, own in _by(new, "group").items()}
    last_group = max(int(row["group"]) for row in old)
    added = []
    for own in _by(new, "participant").values():
        if lists[of_list(own)]:
            lists[of_list(own)] -= 1
            continue
        last += 1
        pairs = group_of[own[0]["group"]]
        if pairs not in groups:
            last_group += 1
            groups[pairs] = str(last_group)
        for row in own:
            if of_row(row) not in items:
                last_item += 1
                items[of_row(row)] = str(last_item) if row.get("item") else ""
            renamed = {"participant": str(last), "group": groups[pairs]}
            if "item" in row:
                renamed["item"] = items[of_row(row)]
            added.append({**row, **renamed})
    return added


def _by(rows: Sequence[_Row], column: str) -> dict[str, list[_Row]]:
    found = defaultdict(list)
    for row in rows:
        found[row[column]].append(row)
    return found
