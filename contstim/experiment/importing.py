"""Import of raw logs (from static pages, JATOS, or participants' files) into a study's data."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from contstim.errors import InputError
from contstim.experiment import raw_log, sessions
from contstim.experiment.messages import parse_json
from contstim.experiment.page_data import digest_materials, store_materials
from contstim.experiment.schema import get_data_path, write_transaction
from contstim.experiment.study import Study
from contstim.files import decode_json, digest
from contstim.text_files import read_lines

_SESSION_ID = re.compile(r"[A-Za-z0-9-]{8,64}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MAX_TEXT = 200  # characters of an id, a parameter or a version


@dataclass(frozen=True)
class ImportResult:
    """Numbers of imported sessions, of added answers and of conflicting answers.

    Attributes
    ----------
    sessions
        Number of sessions in the files.
    added_answers
        Number of answers that were not in the data before.
    conflicting_answers
        Number of added answers that differ from an earlier answer to the same trial.
    notes
        One sentence per line or answer that was left out.
    """

    sessions: int
    added_answers: int
    conflicting_answers: int
    notes: tuple[str, ...]


@dataclass
class _SessionLog:
    """Content of all log lines of one session.

    A *log line* is a JSON object that the experiment page has written, with the consent, some
    answers, or some events of a session.

    Attributes
    ----------
    assignment
        Number of the session's assignment: the list of trials for one participant of the design.
    consent
        Consent of the participant; empty if no line contains it.
    answers, events
        Answers and events as the page wrote them, not yet checked.
    """

    assignment: int
    consent: Mapping[str, Any] = field(default_factory=dict)
    answers: list[Any] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)


def import_logs(study: Study, paths: Iterable[Path], database: Path | None = None) -> ImportResult:
    """Import answers from log files into the data of a study.

    Experiment pages that are hosted without the study's server write the answers to log files. The
    import leads to the same data as if the server had received the answers.

    Answers that the data already contain are skipped, so that the import can be repeated. Invalid
    lines and answers are skipped and reported in the notes; the others are imported.

    Parameters
    ----------
    study
        Study from which the pages were made.
    paths
        Files of JSON lines, files with one JSON array (as DataPipe writes them), or folders with
        ``.jsonl``, ``.json`` or ``.txt`` files. Each entry is an object with ``session``,
        ``assignment``, ``group``, ``digest`` and one of ``consent``, ``answers``, ``events``.
    database
        Data file, created if it does not exist; by default the one in the study's folder.

    Returns
    -------
    ImportResult
        Numbers of sessions and answers, and a note about each invalid line or answer.

    Raises
    ------
    InputError
        If a file cannot be read, a file or folder contains no log of the study, or the data file
        belongs to other trials. Nothing is imported then.
    OutputError
        If the data file cannot be written. Nothing is imported then.
    """
    notes: list[str] = []
    logs: dict[str, _SessionLog] = {}
    for path in paths:
        notes += _read_logs(logs, study, path)

    # Store all sessions in one transaction. Count the answers before and after, and the conflicts:
    # second, different answers to the same trial.
    query = "SELECT count(*), coalesce(sum(conflict), 0) FROM answers"
    with write_transaction(get_data_path(study, database), study) as connection:
        n_before, n_conflicts_before = connection.execute(query).fetchone()
        for session, log in logs.items():
            faults = _store_session(connection, study, session, log)
            notes += [f"session {session}: {fault}" for fault in faults]
        n_after, n_conflicts_after = connection.execute(query).fetchone()
    n_added, n_conflicts = n_after - n_before, n_conflicts_after - n_conflicts_before
    return ImportResult(len(logs), n_added, n_conflicts, tuple(notes))


def _read_logs(logs: dict[str, _SessionLog], study: Study, path: Path) -> list[str]:
    """Read the log lines of a file, or of all files in a folder, and group them by session.

    Parameters
    ----------
    logs
        Logs by session id. This function adds the lines to them.
    study
        Study to which the lines must belong.
    path
        File or folder.

    Returns
    -------
    list of str
        One sentence for each line that is left out, with its position and the reason.
    """
    files = [path]
    if path.is_dir():
        suffixes = (".jsonl", ".json", ".txt")
        files = sorted(file for file in path.rglob("*") if file.suffix in suffixes)
        if not files:
            raise InputError(f"the folder {path} has no .jsonl, .json or .txt file")

    # Add each entry (JSON object of a file) to the log of its session. Invalid entries are left
    # out and reported with their position.
    faults: list[tuple[str, str]] = []
    n_entries = 0
    for file in files:
        for position, entry in _list_entries(file):
            n_entries += 1
            try:
                value = parse_json(entry) if isinstance(entry, str) else entry
                # The page tests the connection with entries of the type "contstim-check".
                if value.get("trial_type") != "contstim-check":
                    _add_entry(logs, study, value)
            except InputError as error:
                faults.append((position if file == path else f"{file}, {position}", str(error)))
    if len(faults) == n_entries:
        reason = ": ".join(faults[0]) if faults else "it is empty"
        raise InputError(
            f"{path} has no log of this study ({reason}); give the files of JSON lines that the "
            "study's pages wrote"
        )
    prefix = "" if path.is_dir() else f"{path}, "
    return [f"{prefix}{position} is left out: {fault}" for position, fault in faults]


def _list_entries(file: Path) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a log file, each with a description of its position.

    A log file contains either one JSON object per line, or one JSON array of objects, as DataPipe
    writes it.

    Yields
    ------
    position : str
        Position of the entry in the file, such as ``line 3``, for error messages.
    entry : dict or str
        Object of an array, or line of JSON text. Lines are not parsed yet, so that one invalid line
        does not prevent the others from being read.
    """
    lines = [(number, line) for number, line in read_lines(file) if line.strip()]
    text = "\n".join(line for _, line in lines)
    # The file is a JSON array of objects, or else has one JSON object per line.
    if text.lstrip().startswith("["):
        try:
            array = decode_json(text)
        except ValueError:
            array = None
        if isinstance(array, list) and all(isinstance(entry, dict) for entry in array):
            for number, entry in enumerate(array, start=1):
                yield f"entry {number}", entry
            return
    for number, line in lines:
        yield f"line {number}", line


def _add_entry(logs: dict[str, _SessionLog], study: Study, entry: Mapping[str, Any]) -> None:
    """Check that a log entry belongs to the study, and add it to the log of its session.

    Answers and events are checked later, when they are stored.

    Parameters
    ----------
    logs
        Logs by session id. This function adds the entry to one of them.
    study
        Study to which the entry must belong.
    entry
        JSON object that the page has written.

    Raises
    ------
    InputError
        If the entry does not belong to the study or is malformed.
    """
    session, assignment = entry.get("session"), entry.get("assignment")
    if not isinstance(session, str) or not _SESSION_ID.fullmatch(session):
        raise InputError("it has no session")
    if type(assignment) is not int or assignment not in study.design.trials:
        raise InputError(f"its assignment is {assignment!r}, which is not in the design")
    if entry.get("group") != study.design.groups[assignment]:
        raise InputError(
            f"its group is {entry.get('group')!r}, but assignment {assignment} is in another group"
        )
    if entry.get("study", study.study.name) != study.study.name:
        raise InputError(f"it belongs to the study {entry['study']!r}")
    log = logs.get(session, _SessionLog(assignment))
    if log.assignment != assignment:
        raise InputError(
            f"its assignment is {assignment}, but earlier lines of the session have "
            f"{log.assignment}"
        )
    if entry.get("digest") != study.trials_digests[assignment]:
        raise InputError(
            f"its digest is {entry.get('digest')!r}: it comes from a page with other trials; "
            "import it into the study of that page"
        )
    for name in ("answers", "events"):
        if not isinstance(entry.get(name, []), list):
            raise InputError(f"its {name} are not a list")
    logs[session] = log
    if isinstance(entry.get("consent"), dict):
        log.consent = entry["consent"]
    log.answers += entry.get("answers", [])
    log.events += entry.get("events", [])


def _store_session(
    connection: sqlite3.Connection, study: Study, session: str, log: _SessionLog
) -> list[str]:
    """Store the log of one session in the data file.

    Nothing is stored if the data of the session were deleted, or if the file already contains the
    session with another assignment (list of trials).

    Parameters
    ----------
    connection
        Connection to the database, within a transaction.
    study
        Study to which the session belongs.
    session
        Id of the session.
    log
        Content of the session's log lines.

    Returns
    -------
    list of str
        Reasons why the session, or some of its answers or events, were left out.
    """
    query = "SELECT reason FROM forgotten WHERE session_sha256 = ?"
    deletion = connection.execute(query, (digest(session),)).fetchone()
    if deletion is not None:
        return [f"its data were deleted ({deletion['reason']})"]
    row = sessions.find_session(connection, session)
    if row is not None and row["assignment"] != log.assignment:
        return [f"the data have it with assignment {row['assignment']}"]
    times = [_parse_time(value) for value in (log.consent, *log.answers, *log.events)]
    times = [seconds for seconds in times if seconds]
    latest = max(times, default=0.0)

    # Create the session, or complete it with details from another file.
    faults: list[str] = []
    if row is None or row["source"] == "import":
        faults += _store_session_start(connection, study, session, log, times)
        row = sessions.find_session(connection, session)

    # Store the answers that arrived in time, then late ones, then events.
    trials = raw_log.map_trials_by_id(study, study.design.trials[log.assignment])
    started_at, last_at = row["started_at"], max(row["last_at"], latest)
    grace = raw_log.GRACE_SECONDS
    rejected = []
    for is_late in (False, True):
        answers = [
            answer
            for answer in log.answers
            if raw_log.is_past_time_limit(study, started_at, _parse_time(answer), grace) == is_late
        ]
        rejected += raw_log.record_answers(
            connection, session, trials, answers, last_at, is_late, study.presentation
        ).refused
    report = raw_log.record_events(connection, study, session, trials, log.events, last_at)
    rejected += report.refused

    # Set the outcome, unless the server has set it.
    outcome, _ = raw_log.determine_outcome(connection, study, session, last_at)
    connection.execute(
        "UPDATE sessions SET finished_at = ?, outcome = ?, last_at = ? WHERE session = ?"
        " AND (outcome IS NULL OR source = 'import')",
        (last_at if outcome else None, outcome, last_at, session),
    )
    return [*faults, *(reason for _, reason in rejected)]


def _store_session_start(
    connection: sqlite3.Connection,
    study: Study,
    session: str,
    log: _SessionLog,
    times: Sequence[float],
) -> list[str]:
    """Store the start time, the consent and the participant id of an imported session.

    If the database does not contain the session, it is added. Otherwise, values that the database
    already contains are not changed.

    Parameters
    ----------
    connection
        Connection to the database, within a transaction.
    study
        Study to which the session belongs.
    session
        Id of the session.
    log
        Content of the session's log lines.
    times
        Times of the consent, answers and events, in seconds since 1970.

    Returns
    -------
    list of str
        Message that the participant id of the recruitment platform is invalid and not stored; empty
        if it is valid or missing.
    """
    faults = []
    recruitment = log.consent.get("recruiter")
    recruitment = recruitment if isinstance(recruitment, Mapping) else {}
    recruiter_id = str(recruitment.get("participant") or "")[:_MAX_TEXT] or None
    if recruiter_id and study.recruiter and not study.recruiter.is_valid_id(recruiter_id):
        faults.append(
            f"the recruiter's id {recruiter_id!r} is left out, because it has characters that "
            "ids cannot have"
        )
        recruiter_id = None
    names = ["jatos_result", *(() if study.recruiter is None else study.recruiter.parameters)]
    parameters = {name: str(recruitment[name])[:_MAX_TEXT] for name in names if name in recruitment}
    materials = log.consent.get("materials")
    if not isinstance(materials, str) or not _SHA256.fullmatch(materials):
        materials = None
    elif materials == digest_materials(study):
        store_materials(connection, study)
    start = {
        "consent_version": str(log.consent.get("version", ""))[:_MAX_TEXT],
        "consent_sha256": str(log.consent.get("sha256", ""))[:_MAX_TEXT],
        "started_at": min(times, default=0.0),
        "materials": materials,
    }
    row = sessions.find_session(connection, session)
    if row is not None:
        sessions.update_imported_session(connection, study, row, start, recruiter_id, parameters)
        return faults
    new_row = {
        "session": session,
        "source": "import",
        "assignment": log.assignment,
        "group_number": study.design.groups[log.assignment],
        "last_at": max(times, default=0.0),
        **start,
    }
    sessions.add_session(connection, study, new_row, recruiter_id, parameters)
    connection.execute(
        "UPDATE assignments SET session = ? WHERE assignment = ? AND session IS NULL",
        (session, log.assignment),
    )
    return faults


def _parse_time(value: object) -> float:
    """Read the time of an answer, an event or a consent in seconds since 1970.

    The result is 0 if there is no valid time.
    """
    if not isinstance(value, Mapping):
        return 0.0
    try:
        return datetime.fromisoformat(str(value.get("answered_at", value.get("at")))).timestamp()
    except (ValueError, OverflowError):
        return 0.0
