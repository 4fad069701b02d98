"""The file in which a study's data are kept: SQLite in WAL mode, every commit on the disk."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from contstim.errors import InputError, NoDataError, OutputError
from contstim.experiment.study import Study
from contstim.files import digest, replace_atomically

#: The files' names in the study's folder: of the data, and of those of a trial of the whole.
DATA_FILE = "collected.sqlite3"
PILOT_FILE = "pilot.sqlite3"

_FORMAT = "4"

#: Responses of a session to one question that are kept.
MAX_RESPONSES = 5

# Answers, responses (JSON, to the study's questions), events and blocks are the raw log: rows are
# added, never changed or removed, and the file itself refuses both. Recruiters' ids and parameters
# are personal data, in a table of their own; `claimed` is an id that another session had already.
# `browsers` counts those in which a session was opened; tokens of the first are its `own`. The
# trials of a block, in an adaptive study, are a list of [pair, sentence 1, sentence 2, propensity,
# swapped sides]; a block without trials says that there are no more for that session. Allocations
# of assignment 0 are of the whole study: closed, reopened.
_TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE counts (name TEXT PRIMARY KEY, n INTEGER NOT NULL) STRICT;
CREATE TABLE consents (
    sha256 TEXT NOT NULL, version TEXT NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (sha256, version)
) STRICT;
CREATE TABLE materials (sha256 TEXT PRIMARY KEY, content TEXT NOT NULL) STRICT;
CREATE TABLE participants (
    participant INTEGER PRIMARY KEY,
    recruiter_id TEXT UNIQUE,
    parameters TEXT NOT NULL,
    claimed TEXT
) STRICT;
CREATE TABLE sessions (
    session TEXT PRIMARY KEY,
    participant INTEGER NOT NULL UNIQUE REFERENCES participants,
    request TEXT UNIQUE,
    source TEXT NOT NULL,
    assignment INTEGER NOT NULL,
    group_number INTEGER NOT NULL,
    consent_version TEXT NOT NULL,
    consent_sha256 TEXT NOT NULL,
    started_at REAL NOT NULL,
    last_at REAL NOT NULL,
    finished_at REAL,
    outcome TEXT,
    released_at REAL,
    released_why TEXT,
    materials TEXT,
    browsers INTEGER NOT NULL DEFAULT 1,
    finished_by TEXT
) STRICT;
CREATE TABLE tokens (
    sha256 TEXT PRIMARY KEY, session TEXT NOT NULL REFERENCES sessions, made_at REAL NOT NULL,
    own INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE TABLE assignments (
    assignment INTEGER PRIMARY KEY,
    group_number INTEGER NOT NULL,
    session TEXT UNIQUE REFERENCES sessions DEFERRABLE INITIALLY DEFERRED,
    digest TEXT NOT NULL
) STRICT;
CREATE TABLE allocations (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL, action TEXT NOT NULL, assignment INTEGER NOT NULL, session TEXT NOT NULL,
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
    detail TEXT NOT NULL DEFAULT '',
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
CREATE TABLE responses (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL REFERENCES sessions,
    event TEXT NOT NULL,
    question TEXT NOT NULL,
    response TEXT NOT NULL,
    rt_ms REAL,
    at TEXT NOT NULL,
    received_at REAL NOT NULL,
    UNIQUE (session, event, question)
) STRICT;
CREATE TABLE forgotten (
    session_sha256 TEXT PRIMARY KEY, code TEXT NOT NULL, assignment INTEGER NOT NULL,
    outcome TEXT, n_answers INTEGER NOT NULL, at REAL NOT NULL, why TEXT NOT NULL
) STRICT;
CREATE TABLE blocks (
    number INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    issued_at REAL NOT NULL,
    trials TEXT NOT NULL,
    available INTEGER NOT NULL,
    version INTEGER NOT NULL,
    skipped_blocks TEXT NOT NULL,
    pool TEXT NOT NULL,
    pairs INTEGER NOT NULL,
    plan TEXT NOT NULL,
    seed INTEGER NOT NULL
) STRICT;
CREATE INDEX own_blocks ON blocks (session);
"""

_GUARDED = [
    (table, what)
    for table in ("answers", "responses", "events", "blocks")
    for what in ("UPDATE", "DELETE")
]
_APPEND_ONLY = """
CREATE TRIGGER IF NOT EXISTS {table}_{what} BEFORE {what} ON {table}
BEGIN SELECT RAISE(ABORT, 'the raw log is append only'); END;
"""


def _digests(study: Study) -> dict[int, str]:
    """Return for each assignment a digest of what its answers refer to."""
    return {
        assignment: digest(
            json.dumps(
                study.assignment_content(assignment), ensure_ascii=False, separators=(",", ":")
            )
        )
        for assignment in study.design.trials
    }


def data_path(study: Study, data: Path | None = None) -> Path:
    """Return the file of a study's data: `data`, or by default the one in the study's folder."""
    return study.folder / DATA_FILE if data is None else data


def connect(path: Path) -> sqlite3.Connection:
    """Open a data file for reading and writing; commits are on the disk when they return."""
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error:
        connection.close()
        raise
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
        raise NoDataError(
            f"there are no data {path}; run the study with `contstim experiment serve`"
        )
    try:
        made = not path.exists()
        if not made:
            _refuse_other_data(path, study)
        with ExitStack() as undo:  # where it fails
            if made:
                undo.callback(_remove_empty, path)
            connection = connect(path)
            undo.callback(connection.close)
            if study is not None:
                _migrate(connection, study)
            undo.pop_all()
    except sqlite3.DatabaseError as error:
        kind = OutputError if isinstance(error, sqlite3.OperationalError) else InputError
        raise kind(_unusable(path, error)) from None
    return connection


@contextmanager
def write_transaction(path: Path, study: Study | None = None) -> Iterator[sqlite3.Connection]:
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


def backup_data(study: Study, copy: Path, data: Path | None = None) -> None:
    """Copy the data of a study as they are at one moment, also while a server writes.

    Raises
    ------
    InputError
        If there are no data.
    OutputError
        If the copy cannot be written.
    """
    with (
        closing(open_data(data_path(study, data))) as source,
        replace_atomically(copy) as temporary,
    ):
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            with closing(sqlite3.connect(temporary)) as target:
                source.backup(target)
                target.execute("PRAGMA journal_mode = DELETE")  # one file, without -wal
                verdict = target.execute("PRAGMA integrity_check").fetchone()[0]
        except sqlite3.Error as error:
            raise OutputError(f"cannot write the copy {copy}: {error}") from None
        if verdict != "ok":
            raise OutputError(f"the copy {copy} is not sound ({verdict}); the data file is damaged")


def _unusable(path: Path, error: sqlite3.Error) -> str:
    advice = "; copy the study to a folder of yours" if "readonly" in str(error) else ""
    return f"cannot use {path} as the study's data: {error}{advice}"


def insert_row(
    connection: sqlite3.Connection, table: str, row: Mapping[str, Any], otherwise: str = ""
) -> sqlite3.Cursor:
    """Add a row, by the names of its columns; `otherwise` may be ``OR IGNORE``."""
    names, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
    return connection.execute(f"INSERT {otherwise} INTO {table} ({names}) VALUES ({marks})", row)  # noqa: S608 - names are ours


def read_salt(connection: sqlite3.Connection) -> str:
    """Return the salt of the participants' hashes."""
    row = connection.execute("SELECT value FROM about WHERE key = 'salt'").fetchone()
    return str(row["value"])


def check_encodable(text: str) -> None:
    """Refuse a text that no file can hold, such as halves of characters.

    Raises
    ------
    InputError
        Naming the text.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{text!r} is not text; give letters and signs") from None


def session_code(session: str) -> str:
    """Return what participants are shown of their session's id, to name it by."""
    return session.replace("-", "")[:8].upper()


@contextmanager
def unlocked_raw_log(connection: sqlite3.Connection) -> Iterator[None]:
    """Lift the triggers that keep the raw log as it is, within a transaction."""
    for table, what in _GUARDED:
        connection.execute(f"DROP TRIGGER {table}_{what}")
    yield
    _guard(connection)


def _guard(connection: sqlite3.Connection) -> None:
    for table, what in _GUARDED:
        connection.execute(_APPEND_ONLY.format(table=table, what=what))


def _remove_empty(path: Path) -> None:
    """Remove a data file that could not be made, unless somebody else makes it or has made it."""
    opened = closing(sqlite3.connect(path, timeout=0, isolation_level=None))
    with suppress(sqlite3.Error, OSError), opened as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # asks for no room on a full disk
        connection.execute("BEGIN EXCLUSIVE")
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            path.unlink()


def _refuse_other_data(path: Path, study: Study | None) -> None:
    """Refuse a file that holds something else while it is as it was: `connect` changes it."""
    size = path.stat().st_size
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        if not tables and size:
            raise InputError(
                f"{path} is empty; a copy of a running study's data lacks what its file -wal still "
                "holds: copy with `contstim experiment backup`"
            )
        query = "SELECT key, value FROM about"
        about = dict(connection.execute(query)) if "about" in tables else {}
        if (tables or study is None) and "format" not in about:
            raise InputError(f"{path} does not hold the data of a study; choose another file")
        if tables and about["format"] != _FORMAT:
            raise InputError(
                f"{path} was written by another version of contstim, in a format that this one "
                "does not read; go on, and export the data, with that version"
            )
        if tables and study is not None and not _agree(connection, about, study):
            raise InputError(
                f"the trials or [trial] of {study.folder} are not those for which {path} was "
                "made; put them back (more trials come by `contstim experiment extend`), or make "
                "another study for the new ones"
            )


def _agree(connection: sqlite3.Connection, about: Mapping[str, str], study: Study) -> bool:
    """Return whether the study has every assignment of the data as it was."""
    if about["levels"] != study.presentation.scale:
        return False
    stored = connection.execute("SELECT assignment, digest FROM assignments")
    digests = _digests(study)
    return all(digests.get(assignment) == content for assignment, content in stored)


def _migrate(connection: sqlite3.Connection, study: Study) -> None:
    """Make tables that are not there, and add the assignments that were added to the study.

    Where this fails, closing the connection undoes it.
    """
    connection.execute("BEGIN IMMEDIATE")
    n_tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not n_tables:
        for statement in _TABLES.split(";\n"):
            connection.execute(statement)
        rows = {
            "format": _FORMAT,
            "salt": secrets.token_hex(32),
            "study": study.study.name,
            "levels": study.presentation.scale,
        }
        connection.executemany("INSERT INTO about VALUES (?, ?)", rows.items())
    _guard(connection)
    connection.executemany(
        "INSERT OR IGNORE INTO assignments VALUES (?, ?, NULL, ?)",
        [(a, study.design.groups[a], content) for a, content in _digests(study).items()],
    )
    connection.execute("COMMIT")
