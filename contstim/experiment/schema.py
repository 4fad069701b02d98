"""The data file of a study: an SQLite database in WAL mode, with every commit on disk."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from contstim.errors import InputError, NoDataError, OutputError
from contstim.experiment.study import Study
from contstim.files import digest, replace_atomically

#: Name of the data file in the study's folder.
DATA_FILE = "collected.sqlite3"

#: Name of the data file of a pilot run.
PILOT_FILE = "pilot.sqlite3"

#: Maximum number of responses of a session to one question that are stored.
MAX_RESPONSES = 5

_FORMAT = "4"  # of the data file

# SQLite triggers that refuse to change the raw log: table and statement.
_RAW_LOG_TRIGGERS = [
    (table, statement)
    for table in ("answers", "responses", "events", "blocks")
    for statement in ("UPDATE", "DELETE")
]


def get_data_path(study: Study, database: Path | None = None) -> Path:
    """Return the path of a study's database, by default a file in the study's folder.

    Parameters
    ----------
    study
        Study to which the database belongs.
    database
        Path of the database if the user named one. It is returned unchanged.
    """
    return study.folder / DATA_FILE if database is None else database


def connect(path: Path) -> sqlite3.Connection:
    """Open an SQLite database for reading and writing; create no tables.

    The connection uses the write-ahead log (WAL), so that others can read during a write. A commit
    returns only after the data are on disk. Transactions are started explicitly with ``BEGIN``.
    """
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    try:
        connection.row_factory = sqlite3.Row  # columns by name
        connection.execute("PRAGMA journal_mode = WAL")  # others can read during a write
        connection.execute("PRAGMA synchronous = FULL")  # a commit waits until data are on disk
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def open_data(path: Path, study: Study | None = None) -> sqlite3.Connection:
    """Open the database of a study, an SQLite file.

    Parameters
    ----------
    path
        Database file.
    study
        Study of the data. If it is given, a missing file is created, and the lists of trials that
        were added to the study are added to an existing file. If it is None, the file must exist.

    Returns
    -------
    sqlite3.Connection
        Connection to the database.

    Raises
    ------
    InputError
        If the file is missing or does not contain data of a study, or if it was written for a study
        with different trials.
    OutputError
        If the file cannot be opened or written.
    """
    is_new = not path.exists()
    if study is None and is_new:
        raise NoDataError(f"there are no data {path}; start `contstim experiment serve`")
    try:
        if not is_new:
            _check_data(path, study)
        # If an exception occurs, close the connection and remove a new file.
        with ExitStack() as cleanup:
            if is_new:
                cleanup.callback(_remove_empty, path)
            connection = connect(path)
            cleanup.callback(connection.close)
            if study is not None:
                _create_or_extend_tables(connection, study)
            cleanup.pop_all()  # without an exception, nothing is cleaned up
    except sqlite3.DatabaseError as error:
        # An operational error concerns the disk or a lock, any other error the file's content.
        kind = OutputError if isinstance(error, sqlite3.OperationalError) else InputError
        raise kind(_describe_error(path, error)) from None
    return connection


@contextmanager
def write_transaction(path: Path, study: Study | None = None) -> Iterator[sqlite3.Connection]:
    """Open the database of a study for one transaction, committed at the end of a ``with`` block.

    Parameters
    ----------
    path
        Database file.
    study
        Study of the data. If it is given, a missing file is created.

    Yields
    ------
    sqlite3.Connection
        Connection to the database, within a transaction. An exception in the block rolls it back.

    Raises
    ------
    InputError
        If the file is missing, or contains the data of another study.
    OutputError
        If the file cannot be opened or the data cannot be written.
    """
    connection = open_data(path, study)
    try:
        connection.execute("BEGIN IMMEDIATE")  # locks the file for writing at once
        yield connection
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise OutputError(_describe_error(path, error)) from None
    finally:
        connection.close()  # rolls back an open transaction


def backup_data(study: Study, copy_file: Path, database: Path | None = None) -> None:
    """Copy the database of a study into one file, even while a server is writing to it.

    Parameters
    ----------
    study
        Study whose database is copied.
    copy_file
        File to write.
    database
        Database to copy; by default the file in the study's folder.

    Raises
    ------
    InputError
        If the database does not exist.
    OutputError
        If the copy cannot be written.
    """
    with (
        closing(open_data(get_data_path(study, database))) as source,
        replace_atomically(copy_file) as temporary,
    ):
        copy_file.parent.mkdir(parents=True, exist_ok=True)
        # SQLite's backup copies a consistent state, even while a server writes to the source.
        try:
            with closing(sqlite3.connect(temporary)) as target:
                source.backup(target)
                target.execute("PRAGMA journal_mode = DELETE")  # a single file without -wal
                result = target.execute("PRAGMA integrity_check").fetchone()[0]
        except sqlite3.Error as error:
            raise OutputError(f"cannot write the copy {copy_file}: {error}") from None
        if result != "ok":
            raise OutputError(f"the data file is damaged ({result}); use an earlier copy")


def _describe_error(path: Path, error: sqlite3.Error) -> str:
    advice = "; copy the study to a writable folder" if "readonly" in str(error) else ""
    return f"cannot use {path} as the study's data: {error}{advice}"


def insert_row(
    connection: sqlite3.Connection, table: str, row: Mapping[str, Any], or_ignore: bool = False
) -> sqlite3.Cursor:
    """Insert a row into a table of a database.

    Parameters
    ----------
    connection
        Connection to the database.
    table
        Name of the table.
    row
        Values by the names of their columns.
    or_ignore
        Whether to skip a row that violates a uniqueness constraint (``INSERT OR IGNORE``), instead
        of raising an error.

    Returns
    -------
    sqlite3.Cursor
        Cursor with the id of the row.
    """
    columns = ", ".join(row)
    placeholders = ", ".join(f":{name}" for name in row)
    insert = "INSERT OR IGNORE" if or_ignore else "INSERT"
    return connection.execute(f"{insert} INTO {table} ({columns}) VALUES ({placeholders})", row)


def read_salt(connection: sqlite3.Connection) -> str:
    """Return the random salt of a data file, which is added to ids of participants to hash them."""
    row = connection.execute("SELECT value FROM about WHERE key = 'salt'").fetchone()
    return str(row["value"])


def check_encodable(text: str) -> None:
    """Check that a text can be stored as UTF-8, which excludes surrogate code points.

    Parameters
    ----------
    text
        Text to check.

    Raises
    ------
    InputError
        If the text contains surrogate code points.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{text!r} is not valid text; leave out surrogate code points") from None


def make_session_code(session: str) -> str:
    """Return the short code of a session, which participants see and can quote.

    Parameters
    ----------
    session
        Id of the session.

    Returns
    -------
    str
        First eight hexadecimal digits of the id, in upper case.
    """
    return session.replace("-", "")[:8].upper()


@contextmanager
def unlocked_raw_log(connection: sqlite3.Connection) -> Iterator[None]:
    """Permit changes of the raw log inside a ``with`` block.

    The raw log consists of the answers, responses, events and blocks as they were received. SQLite
    triggers normally refuse to change or delete its rows. They are dropped when the block is
    entered and created again when it ends.

    Parameters
    ----------
    connection
        Connection within a transaction, so that an exception in the block restores the triggers.
    """
    for table, statement in _RAW_LOG_TRIGGERS:
        connection.execute(f"DROP TRIGGER {table}_{statement}")
    yield
    _protect_raw_log(connection)


def _protect_raw_log(connection: sqlite3.Connection) -> None:
    """Create SQLite triggers that refuse to change or delete rows of the raw log."""
    for table, statement in _RAW_LOG_TRIGGERS:
        connection.execute(
            f"CREATE TRIGGER IF NOT EXISTS {table}_{statement} BEFORE {statement} ON {table}"
            " BEGIN SELECT RAISE(ABORT, 'the raw log is append only'); END;"
        )


def _remove_empty(path: Path) -> None:
    """Remove a new database file after its tables could not be created.

    The file is kept if it has tables, because another process may have created them meanwhile.
    """
    database = closing(sqlite3.connect(path, timeout=0, isolation_level=None))
    with suppress(sqlite3.Error, OSError), database as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # needs no space on a full disk
        connection.execute("BEGIN EXCLUSIVE")
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            path.unlink()


def _check_data(path: Path, study: Study | None) -> None:
    """Check that a database file contains the data of a study.

    This happens before `connect` is called, because `connect` switches the file to WAL mode and
    would thereby change a file that belongs to another program.

    Parameters
    ----------
    path
        Data file.
    study
        Study that collected the data; None accepts the data of any study.

    Raises
    ------
    InputError
        If the file contains other data, or was written for a study with other trials.
    """
    size = path.stat().st_size
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        if not tables and size:
            raise InputError(
                f"{path} is empty; the data of a running study are partly in its -wal file: copy "
                "them with `contstim experiment backup`"
            )
        query = "SELECT key, value FROM about"
        about = dict(connection.execute(query)) if "about" in tables else {}
        if (tables or study is None) and "format" not in about:
            raise InputError(f"{path} does not contain the data of a study; choose another file")
        if not tables:
            return
        if about["format"] != _FORMAT:
            raise InputError(
                f"{path} was written by another version of contstim, in a format that this one "
                "does not read; continue, and export the data, with that version"
            )
        if study is None:
            return
        digests = _digest_assignments(study)
        stored = connection.execute("SELECT assignment, digest FROM assignments")
        is_same_study = about["levels"] == study.presentation.scale and all(
            digests.get(assignment) == stored_digest for assignment, stored_digest in stored
        )
        if not is_same_study:
            raise InputError(
                f"the trials or [trial] of {study.folder} differ from those for which {path} was "
                "made; restore them (`contstim experiment extend` adds trials), or make another "
                "study for the new ones"
            )


def _digest_assignments(study: Study) -> dict[int, str]:
    """Return a hash of each participant's list of trials, by assignment number.

    An assignment is the list of trials for one participant of the design. The hashes are stored in
    the data file. If a hash differs later, the trials to which the stored answers refer have been
    changed.
    """
    digests = {}
    for assignment in study.design.trials:
        content = study.assignment_content(assignment)
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        digests[assignment] = digest(text)
    return digests


def _create_or_extend_tables(connection: sqlite3.Connection, study: Study) -> None:
    """Create the tables of a new database, or add new assignments to an existing one.

    A new file also gets a random salt. An existing file gets the assignments (lists of trials) that
    `contstim experiment extend` has added to the study since the file was last opened. If a
    statement fails, the caller closes the connection, which undoes all of them.

    Parameters
    ----------
    connection
        Connection to the study's database.
    study
        Study of the data.
    """
    connection.execute("BEGIN IMMEDIATE")
    n_tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    # Create the tables of a new file.
    if not n_tables:
        script = (files("contstim.experiment") / "schema.sql").read_text("utf-8")
        for statement in script.split(";\n"):
            connection.execute(statement)
        rows = {
            "format": _FORMAT,
            "salt": secrets.token_hex(32),  # for the pseudonyms of participants
            "study": study.study.name,
            "levels": study.presentation.scale,
        }
        connection.executemany("INSERT INTO about VALUES (?, ?)", rows.items())
    _protect_raw_log(connection)
    # Add assignments (lists of trials) that the file does not contain yet.
    connection.executemany(
        "INSERT OR IGNORE INTO assignments VALUES (?, ?, NULL, ?)",
        [
            (assignment, study.design.groups[assignment], assignment_digest)
            for assignment, assignment_digest in _digest_assignments(study).items()
        ],
    )
    connection.execute("COMMIT")
