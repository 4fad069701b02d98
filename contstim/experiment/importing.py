"""Raw logs of static pages, JATOS and participants' own files, added to the study's data."""

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
from contstim.experiment.messages import materials_digest, parse_json, store_materials
from contstim.experiment.schema import data_path, write_transaction
from contstim.experiment.study import Study
from contstim.files import decode_json, digest
from contstim.text_files import read_lines

_SESSION = re.compile(r"[A-Za-z0-9-]{8,64}")


@dataclass(frozen=True)
class ImportResult:
    """What an import found.

    Attributes
    ----------
    sessions
        Sessions in the files.
    added
        Answers that were not in the data before.
    conflicts
        Of these, second answers to a trial.
    notes
        One sentence on each line or answer that was left out, and on sessions that do not say of
        which trials they are.
    """

    sessions: int
    added: int
    conflicts: int
    notes: tuple[str, ...]


@dataclass
class _Log:
    """The lines of one session."""

    assignment: int
    consent: Mapping[str, Any] = field(default_factory=dict)
    answers: list[Any] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)


def import_logs(study: Study, paths: Iterable[Path], data: Path | None = None) -> ImportResult:
    """Add raw logs to the data of a study, as if its server had received them.

    What is there already is passed over, so the same files can be imported again. A fault costs
    the line or answer that has it, and is noted.

    Parameters
    ----------
    study
        The study that the pages were made of.
    paths
        Files of JSON lines, files of one JSON array, as DataPipe keeps them, or folders of such
        files (``.jsonl``, ``.json``, ``.txt``): objects with ``session``, ``assignment``,
        ``group``, ``digest`` and ``consent``, ``answers`` or ``events``.
    data
        The data file, made where there is none; by default in the study's folder.

    Raises
    ------
    InputError
        If a file cannot be read, a file or folder of `paths` holds no log of the study, or the
        data are of other trials; nothing is added then.
    OutputError
        If the data cannot be written; nothing is added then either.
    """
    notes: list[str] = []
    logs: dict[str, _Log] = {}
    for path in paths:
        notes += _read(logs, study, path)
    count = "SELECT count(*), coalesce(sum(conflict), 0) FROM answers"
    with write_transaction(data_path(study, data), study) as connection:
        before = connection.execute(count).fetchone()
        for session, log in logs.items():
            faults = _store(connection, study, session, log)
            notes += [f"session {session}: {why}" for why in faults]
        added, conflicts = (
            now - then
            for now, then in zip(connection.execute(count).fetchone(), before, strict=True)
        )
    return ImportResult(len(logs), added, conflicts, tuple(notes))


def _read(logs: dict[str, _Log], study: Study, path: Path) -> list[str]:
    """Add the lines of a file, or of a folder's files, to `logs`; return notes on the others."""
    faults: list[tuple[str, str]] = []
    n_lines = 0
    files = [path]
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.suffix in (".jsonl", ".json", ".txt"))
        if not files:
            raise InputError(f"the folder {path} holds no .jsonl, .json or .txt file")
    for file in files:
        for at, entry in _entries(file):
            n_lines += 1
            try:
                value = parse_json(entry) if isinstance(entry, str) else entry
                if value.get("trial_type") != "contstim-check":
                    _add(logs, study, value)
            except InputError as error:
                faults.append((at if file == path else f"{file}, {at}", str(error)))
    if len(faults) == n_lines:
        why = ": ".join(faults[0]) if faults else "it is empty"
        raise InputError(
            f"{path} holds no log of this study ({why}); give the files of JSON lines that the "
            "study's pages wrote"
        )
    prefix = "" if path.is_dir() else f"{path}, "
    return [f"{prefix}{at} is left out: {why}" for at, why in faults]


def _entries(file: Path) -> Iterable[tuple[str, Any]]:
    """Yield where each entry stands and what it is: lines, or the objects of one JSON array."""
    lines = [(number, line) for number, line in read_lines(file) if line.strip()]
    if lines and lines[0][1].lstrip().startswith("["):
        try:
            array = decode_json("\n".join(line for _, line in lines))
        except ValueError:
            array = None
        if isinstance(array, list) and all(isinstance(entry, dict) for entry in array):
            yield from ((f"entry {number}", entry) for number, entry in enumerate(array, start=1))
            return
    yield from ((f"line {number}", line) for number, line in lines)


def _add(logs: dict[str, _Log], study: Study, line: Mapping[str, Any]) -> None:
    session, assignment = line.get("session"), line.get("assignment")
    if not isinstance(session, str) or not _SESSION.fullmatch(session):
        raise InputError("it has no session")
    if type(assignment) is not int or assignment not in study.design.trials:
        raise InputError(f"its assignment is {assignment!r}, which is not in the design")
    if line.get("group") != study.design.groups[assignment]:
        raise InputError(
            f"its group is {line.get('group')!r}, which is not that of assignment {assignment}"
        )
    if line.get("study", study.study.name) != study.study.name:
        raise InputError(f"it is of the study {line['study']!r}")
    log = logs.get(session, _Log(assignment))
    if log.assignment != assignment:
        raise InputError(
            f"its assignment is {assignment}, but earlier lines of the session have "
            f"{log.assignment}"
        )
    if line.get("digest") != study.trials_digests[assignment]:
        raise InputError(
            f"its digest is {line.get('digest')!r}: it comes from a page with other trials; import "
            "it into the study that the page was made of"
        )
    for name in ("answers", "events"):
        if not isinstance(line.get(name, []), list):
            raise InputError(f"its {name} are no list")
    logs[session] = log
    if isinstance(line.get("consent"), dict):
        log.consent = line["consent"]
    log.answers += line.get("answers", [])
    log.events += line.get("events", [])


def _store(connection: sqlite3.Connection, study: Study, session: str, log: _Log) -> Iterator[str]:
    """Store the lines of one session; yield what is wrong with those that are left out."""
    forgotten = "SELECT why FROM forgotten WHERE session_sha256 = ?"
    gone = connection.execute(forgotten, (digest(session),)).fetchone()
    if gone is not None:
        yield f"its data were deleted ({gone['why']})"
        return
    times = [at for value in (log.consent, *log.answers, *log.events) if (at := _at(value))]
    latest = max(times, default=0.0)
    row = sessions.find_session(connection, session)
    if row is not None and row["assignment"] != log.assignment:
        yield f"the data have it on assignment {row['assignment']}"
        return
    if row is None or row["source"] == "import":
        given = log.consent.get("recruiter")
        given = given if isinstance(given, Mapping) else {}
        who = str(given.get("participant") or "")[:200] or None
        if who and study.recruiter and not study.recruiter.is_valid_id(who):
            yield f"the recruiter's id {who!r} is left out, which holds other signs than ids may"
            who = None
        begun = _beginning(connection, study, log, times)
        names = ["jatos_result", *(() if study.recruiter is None else study.recruiter.parameters)]
        parameters = {name: str(given[name])[:200] for name in names if name in given}
        if row is None:
            _create(connection, study, session, log, begun, latest, who, parameters)
        else:
            # Another file may hold how it began.
            sessions.update_imported_session(connection, study, row, begun, who, parameters)
        row = sessions.find_session(connection, session)
    trials = raw_log.map_trials_by_id(study, study.design.trials[log.assignment])
    started, last = row["started_at"], max(row["last_at"], latest)
    refused = []
    for late in (False, True):
        answers = [
            answer
            for answer in log.answers
            if raw_log.is_past_time_limit(study, started, _at(answer), raw_log.GRACE_SECONDS)
            == late
        ]
        shown = study.presentation
        refused += raw_log.record_answers(
            connection, session, trials, answers, last, late, shown
        ).refused
    refused += raw_log.record_events(connection, study, session, trials, log.events, last).refused
    outcome, _ = raw_log.determine_outcome(connection, study, session, last)
    connection.execute(
        # A later file may hold what was missing; a server's own word stands.
        "UPDATE sessions SET finished_at = ?, outcome = ?, last_at = ? WHERE session = ?"
        " AND (outcome IS NULL OR source = 'import')",
        (last if outcome else None, outcome, last, session),
    )
    yield from (why for _, why in refused)


def _beginning(
    connection: sqlite3.Connection, study: Study, log: _Log, times: Sequence[float]
) -> dict[str, Any]:
    """Return what a log says of how its session began; keep the study's materials if it had them.

    What it does not say is empty, 0 or None.
    """
    shown = log.consent.get("materials")
    if not isinstance(shown, str) or not re.fullmatch("[0-9a-f]{64}", shown):
        shown = None
    elif shown == materials_digest(study):
        store_materials(connection, study)
    return {
        "consent_version": str(log.consent.get("version", ""))[:200],
        "consent_sha256": str(log.consent.get("sha256", ""))[:200],
        "started_at": min(times, default=0.0),
        "materials": shown,
    }


def _create(
    connection: sqlite3.Connection,
    study: Study,
    session: str,
    log: _Log,
    begun: Mapping[str, Any],
    latest: float,
    who: str | None,
    parameters: Mapping[str, str],
) -> None:
    """Add a session that has `begun` so, of a person with a recruiter's id and parameters."""
    row = {
        "session": session,
        "source": "import",
        "assignment": log.assignment,
        "group_number": study.design.groups[log.assignment],
        "last_at": latest,
        **begun,
    }
    sessions.add_session(connection, study, row, who, parameters)
    connection.execute(
        "UPDATE assignments SET session = ? WHERE assignment = ? AND session IS NULL",
        (session, log.assignment),
    )


def _at(value: object) -> float:
    """Return when a row was made, in seconds since 1970, 0 if it does not say."""
    if not isinstance(value, Mapping):
        return 0.0
    try:
        return datetime.fromisoformat(str(value.get("answered_at", value.get("at")))).timestamp()
    except (ValueError, OverflowError):
        return 0.0
