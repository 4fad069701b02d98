"""The file in which a study's data are kept: SQLite in WAL mode, every commit on the disk."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from contstim.errors import InputError, OutputError
from contstim.experiment.study import Study
from contstim.files import digest

__all__ = ["DATA_FILE", "connect", "design_digest", "open_data", "read_salt", "writing"]

#: The file's name in the study's folder.
DATA_FILE = "collected.sqlite3"

_FORMAT = "1"

# Answers and events are the raw log: rows are added, never changed or removed, and the file itself
# refuses both. Recruiters' ids and parameters are personal data and stand in a table of their own.
_TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE counts (name TEXT PRIMARY KEY, n INTEGER NOT NULL) STRICT;
CREATE TABLE consents (
    sha256 TEXT NOT NULL, version TEXT NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (sha256, version)
) STRICT;
CREATE TABLE participants (
    participant INTEGER PRIMARY KEY,
    recruiter_id TEXT UNIQUE,
    parameters TEXT NOT NULL
) STRICT;
CREATE TABLE sessions (
    session TEXT PRIMARY KEY,
    participant INTEGER NOT NULL UNIQUE REFERENCES participants,
    request TEXT UNIQUE,
    source TEXT NOT NULL,
    seat INTEGER NOT NULL,
    group_number INTEGER NOT NULL,
    consent_version TEXT NOT NULL,
    consent_sha256 TEXT NOT NULL,
    started_at REAL NOT NULL,
    last_at REAL NOT NULL,
    finished_at REAL,
    outcome TEXT,
    released_at REAL,
    released_why TEXT
) STRICT;
CREATE TABLE tokens (
    sha256 TEXT PRIMARY KEY, session TEXT NOT NULL REFERENCES sessions, made_at REAL NOT NULL
) STRICT;
CREATE TABLE seats (
    seat INTEGER PRIMARY KEY,
    group_number INTEGER NOT NULL,
    session TEXT UNIQUE REFERENCES sessions DEFERRABLE INITIALLY DEFERRED
) STRICT;
CREATE TABLE allocations (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL, action TEXT NOT NULL, seat INTEGER NOT NULL, session TEXT NOT NULL,
    why TEXT NOT NULL
) STRICT;
CREATE TABLE answers (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL REFERENCES sessions,
    answer TEXT NOT NULL,
    trial TEXT NOT NULL,
    kind TEXT NOT NULL,
    choice INTEGER NOT NULL,
    rt_ms REAL NOT NULL,
    answered_at TEXT NOT NULL,
    input TEXT NOT NULL,
    focus_losses INTEGER NOT NULL,
    hidden_ms REAL NOT NULL,
    shown INTEGER NOT NULL,
    received_at REAL NOT NULL,
    late INTEGER NOT NULL,
    conflict INTEGER NOT NULL,
    UNIQUE (session, answer)
) STRICT;
CREATE UNIQUE INDEX one_answer ON answers (session, trial) WHERE conflict = 0;
CREATE TABLE events (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL REFERENCES sessions,
    event TEXT NOT NULL,
    kind TEXT NOT NULL,
    at TEXT NOT NULL,
    detail TEXT NOT NULL,
    received_at REAL NOT NULL,
    UNIQUE (session, event)
) STRICT;
"""

_APPEND_ONLY = """
CREATE TRIGGER {table}_{what} BEFORE {what} ON {table}
BEGIN SELECT RAISE(ABORT, 'the raw log is append only'); END;
"""


def design_digest(study: Study) -> str:
    """Return a digest of what answers refer to: the assignments and their trials."""
    trials = {
        assignment: [
            study.design.groups[assignment],
            *([t.trial, t.left, t.right, t.side_1] for t in own),
        ]
        for assignment, own in study.design.trials.items()
    }
    text = json.dumps(trials, ensure_ascii=False, separators=(",", ":"))
    return digest(text)


def connect(path: Path) -> sqlite3.Connection:
    """Open a data file for reading and writing; commits are on the disk when they return."""
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def open_data(path: Path, study: Study | None = None) -> sqlite3.Connection:
    """Open the data of a study, made if `study` is given and there are none.

    Raises
    ------
    InputError
        If there is no such file, it holds something else, or the study's trials are not those
        that its answers refer to.
    OutputError
        If the file cannot be opened or written.
    """
    if study is None and not path.exists():
        raise InputError(
            f"there are no data {path}; run the study with `contstim experiment serve`"
        )
    try:
        if path.exists():
            _refuse_other_data(path, study)
        connection = connect(path)
        try:
            if study is not None:
                _make(connection, study)
            _check(connection, path, study)
        except BaseException:
            connection.close()
            raise
    except sqlite3.DatabaseError as error:
        kind = OutputError if isinstance(error, sqlite3.OperationalError) else InputError
        raise kind(_unusable(path, error)) from None
    return connection


@contextmanager
def writing(path: Path, study: Study | None = None) -> Iterator[sqlite3.Connection]:
    """Open the data of a study for one transaction, which is stored whole or not at all.

    Raises
    ------
    InputError, OutputError
        As `open_data`; OutputError also if the data cannot be written.
    """
    connection = open_data(path, study)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise OutputError(_unusable(path, error)) from None
    finally:
        connection.close()  # and undo what was not committed


def _unusable(path: Path, error: sqlite3.Error) -> str:
    return f"cannot use {path} as the study's data: {error}"


def read_salt(connection: sqlite3.Connection) -> str:
    """Return the salt of the participants' hashes."""
    row = connection.execute("SELECT value FROM about WHERE key = 'salt'").fetchone()
    return str(row["value"])


def _refuse_other_data(path: Path, study: Study | None) -> None:
    """Refuse a file that holds something else while it is as it was: `connect` changes it."""
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if study is None or not empty:
            _check(connection, path, study)


def _make(connection: sqlite3.Connection, study: Study) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        n_tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not n_tables:
            for statement in _TABLES.split(";\n"):
                connection.execute(statement)
            for table in ("answers", "events"):
                for what in ("UPDATE", "DELETE"):
                    connection.execute(_APPEND_ONLY.format(table=table, what=what))
            about = {
                "format": _FORMAT,
                "salt": secrets.token_hex(32),
                "design": design_digest(study),
                "study": study.study.name,
            }
            connection.executemany("INSERT INTO about VALUES (?, ?)", about.items())
            connection.executemany(
                "INSERT INTO seats VALUES (?, ?, NULL)", study.design.groups.items()
            )
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _check(connection: sqlite3.Connection, path: Path, study: Study | None) -> None:
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    about = dict(connection.execute("SELECT key, value FROM about")) if "about" in tables else {}
    if about.get("format") != _FORMAT:
        raise InputError(f"{path} does not hold the data of a study; choose another file")
    if study is not None and about["design"] != design_digest(study):
        raise InputError(
            f"the trials of {study.folder} are not those for which {path} was made; put the "
            "trials back, or make another study for the new ones"
        )
