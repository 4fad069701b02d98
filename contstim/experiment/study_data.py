"""Collected data of a study as tables, with hashed participant ids."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from contstim.columns import CHOICES
from contstim.display import displayable
from contstim.experiment.presentations import Presentation
from contstim.experiment.schema import get_data_path, make_session_code, open_data, read_salt
from contstim.experiment.study import Study
from contstim.experiment.trials import (
    SELECTION_COLUMNS,
    Trial,
    fill_placeholders,
    get_number_column,
)
from contstim.files import digest
from contstim.tables import read_table
from contstim.trial_kinds import TRIAL_KINDS, infer_kind

_TRIAL_COLUMNS = ("kind", "assignment", "item")
_ANSWER_COLUMNS = (
    "choice", "rt_ms", "input", "focus_losses", "hidden_ms",
    "shown", "answered_at", "received_at", "late",
)  # fmt: skip
_MAX_DETAIL_COLUMNS = 50  # columns from the details of answers

#: Columns of the main table: choices between two sentences, or answers to other trials.
_CHOICE_TABLE = (
    *CHOICES, "expected", *_TRIAL_COLUMNS, "side_1",
    *(name for name in _ANSWER_COLUMNS if name not in CHOICES),
)  # fmt: skip
_ANSWER_TABLE = (
    "participant", "group", "trial", "condition", *_TRIAL_COLUMNS,
    "expected", "right", *_ANSWER_COLUMNS,
)  # fmt: skip
#: Columns of the other tables.
_COLUMNS = {
    "words": (
        "participant", "group", "trial", "condition", *_TRIAL_COLUMNS, "position", "word", "rt_ms"
    ),
    "practice": ("participant", "trial", "expected", "choice", "right", "rt_ms", "received_at"),
    "checks": ("participant", "group", "trial", "expected", "choice", "right", "rt_ms"),
    "sessions": (
        "participant", "session", "code", "group", "assignment", "outcome", "released", "source",
        "started_at", "finished_at", "minutes", "n_trials", "n_answered",
        "catch_right", "catch_shown", "checks_right", "checks_shown",
        "consent_version", "consent_sha256", "materials_sha256", "contstim_version",
        "page_version", "browsers",
    ),
    "allocations": ("at", "action", "assignment", "participant", "reason"),
    "conflicts": ("participant", "trial", "choice", "rt_ms", "answered_at", "received_at"),
    "events": ("participant", "kind", "at", "detail", "received_at"),
    "responses": ("participant", "question", "response", "rt_ms", "at"),
}  # fmt: skip


@displayable
@dataclass(frozen=True, eq=False)
class StudyData:
    """Tables of the data of a study, without the participant ids of the recruitment platform.

    Attributes
    ----------
    choices
        One row per pair of sentences and participant, in studies of pairs. Columns of `CHOICES`,
        and ``expected`` (number of the expected sentence, 1 in catch trials), ``kind``,
        ``assignment``, ``item``, ``side_1``, ``choice`` (from -n, the strongest preference for the
        left sentence, to n, for n levels of confidence), ``input``, ``focus_losses``,
        ``hidden_ms``, ``shown`` (number of times the trial was shown), ``answered_at`` (clock of
        the participant), ``received_at`` (clock of the server), ``late``, and further columns of
        the design.
    answers
        One row per trial and participant, in other studies. Columns as in `choices`, with the texts
        that were shown, and ``right``, whether the answer was the expected one.
    words
        One row per word of self-paced reading: ``position`` from 1, ``word``, ``rt_ms``, and the
        columns of the design that are not shown.
    practice
        One row per practice trial.
    checks
        One row per attention check.
    sessions
        One row per session: number of trials in the design (``n_trials``) and of answers
        (``n_answered``), catch trials and attention checks shown and passed, and versions of the
        materials.
    allocations
        One row per change of an assignment: ``at, action, assignment, participant, reason``.
    conflicts
        Later answers to a trial that differ from the first one.
    events
        Events on the page, such as the end of the session: ``participant, kind, at, detail,
        received_at``.
    responses
        Responses to the questions of the study: ``participant, question, response, rt_ms, at``. A
        response of several options is a JSON list. The time is the time of the whole screen.
    materials
        Settings, texts and versions that were shown, as JSON, by their SHA-256.
    """

    choices: pd.DataFrame
    answers: pd.DataFrame
    words: pd.DataFrame
    practice: pd.DataFrame
    checks: pd.DataFrame
    sessions: pd.DataFrame
    allocations: pd.DataFrame
    conflicts: pd.DataFrame
    events: pd.DataFrame
    responses: pd.DataFrame
    materials: Mapping[str, str]

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """All tables by name.

        The main table is `choices` in a study of sentence pairs and `answers` in other studies; the
        other of these two tables is omitted.
        """
        omitted = ("materials", "answers" if self.answers.columns.empty else "choices")
        names = [item.name for item in fields(self) if item.name not in omitted]
        return {name: getattr(self, name) for name in names}

    @property
    def complete_participants(self) -> list[str]:
        """Participants who answered every trial."""
        is_complete = self.sessions["n_answered"] == self.sessions["n_trials"]
        return self.sessions.loc[is_complete, "participant"].tolist()


def hash_participant(salt: str, session: str, recruiter_id: str | None) -> str:
    """Return the pseudonym of a participant, a salted hash of 16 hexadecimal digits.

    The salt is random, differs between data files, and is not part of any table. Nobody can
    therefore compute the pseudonym from an id, or recognise a participant in another study.

    Parameters
    ----------
    salt
        Salt of the data file.
    session
        Id of the session, hashed if the participant has no other id.
    recruiter_id
        Participant id assigned by the recruitment platform, if any.

    Returns
    -------
    str
        Pseudonym.
    """
    identity = f"session:{session}" if recruiter_id is None else f"id:{recruiter_id}"
    return digest(f"{salt}:{identity}")[:16]


def read_study_data(study: Study, database: Path | None = None) -> StudyData:
    """Read the collected data of a study into tables.

    The data can be read while a server is running and writing.

    Parameters
    ----------
    study
        Study that collected the data.
    database
        Database of the study; by default the file in the study's folder.

    Returns
    -------
    StudyData
        Tables of choices or answers, sessions, events and so on, without ids of participants.

    Raises
    ------
    InputError
        If the data file does not exist or belongs to another study.
    """
    with closing(open_data(get_data_path(study, database))) as connection:
        # A transaction, to read one snapshot.
        connection.execute("BEGIN")
        salt = read_salt(connection)
        sessions = connection.execute(
            "SELECT *, (SELECT content FROM materials WHERE sha256 = sessions.materials) AS content"
            " FROM sessions JOIN participants USING (participant) ORDER BY started_at, session"
        ).fetchall()
        stored = {
            table: [
                dict(row)
                for row in connection.execute(f"SELECT * FROM {table} ORDER BY rowid")  # noqa: S608 - names of our tables
            ]
            for table in ("answers", "blocks", "events", "responses", "allocations")
        }
    pseudonyms = {
        row["session"]: hash_participant(salt, row["session"], row["recruiter_id"])
        for row in sessions
    }
    blocks: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for block in stored["blocks"]:
        blocks[block["session"]].append(block)

    rows: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("choices", "answers", "details", *_COLUMNS)
    }
    first_answers: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for answer in stored["answers"]:
        answer["received_at"] = _format_time(answer["received_at"])
        if answer["conflict"]:
            rows["conflicts"].append({**answer, "participant": pseudonyms[answer["session"]]})
        else:
            first_answers[answer["session"]][answer["trial"]] = answer
    pair_rows = _read_pair_rows(study)
    for session in sessions:
        name = session["session"]
        trials = fill_placeholders(study.design.trials[session["assignment"]], blocks[name])
        _add_session(rows, study, pair_rows, session, pseudonyms[name], trials, first_answers[name])

    for move in stored["allocations"]:
        # Sessions of deleted participants have no pseudonym.
        participant = pseudonyms.get(move["session"], "")
        times = {"at": _format_time(move["at"])}
        rows["allocations"].append({**move, **times, "participant": participant})
    for event in stored["events"]:
        times = {"received_at": _format_time(event["received_at"])}
        rows["events"].append({**event, **times, "participant": pseudonyms[event["session"]]})
    for response in stored["responses"]:
        # Text as it is; a list of options stays in JSON.
        value = json.loads(response["response"])
        text = value if isinstance(value, str) else response["response"]
        participant = pseudonyms[response["session"]]
        rows["responses"].append({**response, "participant": participant, "response": text})

    columns = _list_table_columns(study, pair_rows, rows.pop("details"))
    tables = {name: pd.DataFrame(rows[name], columns=list(columns[name])) for name in rows}
    materials = {row["materials"]: row["content"] for row in sessions if row["content"]}
    return StudyData(**tables, materials=materials)


def _add_session(
    rows: dict[str, list[dict[str, Any]]],
    study: Study,
    pair_rows: Mapping[int, Mapping[str, Any]],
    session: sqlite3.Row,
    pseudonym: str,
    trials: Iterable[Trial],
    answers: Mapping[str, Mapping[str, Any]],
) -> None:
    """Add the data of one session to the rows of the exported tables.

    Parameters
    ----------
    rows
        Mapping from the name of a table to its rows, to which the new rows are appended.
    study
        Study that collected the data.
    pair_rows
        Additional columns of the sentence pairs of an adaptive study, as returned by
        `_read_pair_rows`.
    session
        Row of the session in the database.
    pseudonym
        Pseudonym of the participant.
    trials
        Trials of the session, without practice trials.
    answers
        Mapping from the id of a trial to the first answer to it.
    """
    presentation = study.presentation
    participant = {
        "participant": pseudonym,
        "group": session["group_number"],
        "assignment": session["assignment"],
    }
    # If the table of adaptively chosen pairs has items, other trials (catch trials) have no item.
    no_pair = {"item": None} if "item" in pair_rows.get(1, {}) else {}
    n_answered = 0
    # Whether each attention check, and each catch trial (of the kind "choice"), was passed.
    was_passed: dict[str, list[bool]] = {"attention": [], "choice": []}
    for trial in (*study.practice_trials, *trials):
        answer = answers.get(trial.id)
        if answer is None:
            continue
        choice, expected = answer["choice"], trial.expected
        is_correct = None if expected is None else presentation.is_correct(choice, expected)
        if trial.kind in ("practice", "attention"):
            table = "practice" if trial.kind == "practice" else "checks"
            result = {"expected": expected, "right": is_correct}
            rows[table].append({**answer, **participant, **result})
        if trial.kind == "practice":
            continue
        if is_correct is not None:
            was_passed[trial.kind].append(is_correct)
        if trial.kind == "attention":
            continue

        n_answered += 1
        details = presentation.detail_columns(answer["detail"])
        rows["details"] += [{**participant, "name": name} for name in details]
        pair = pair_rows.get(int(trial.id[1:]), no_pair)
        row = _make_answer_row(presentation, participant, trial, answer, pair, is_correct)
        row = {**details, **row}
        rows["choices" if presentation.is_pair else "answers"].append(row)
        rows["words"] += [
            {**row, "position": position, "word": word, "rt_ms": rt_ms}
            for position, (word, rt_ms) in enumerate(
                presentation.word_times(answer["detail"]), start=1
            )
        ]

    versions = {} if session["content"] is None else json.loads(session["content"])
    last_at = session["finished_at"] or session["last_at"]
    rows["sessions"].append(
        {
            **dict(session),
            **participant,
            "code": make_session_code(session["session"]),
            "outcome": session["outcome"] or "unfinished",
            "released": session["release_reason"] or "",
            "started_at": _format_time(session["started_at"]),
            "finished_at": _format_time(session["finished_at"]),
            "minutes": round(max(0.0, last_at - session["started_at"]) / 60, 2),
            "n_trials": sum(trial.kind == "choice" for trial in trials),
            "n_answered": n_answered,
            "catch_right": sum(was_passed["choice"]),
            "catch_shown": len(was_passed["choice"]),
            "checks_right": sum(was_passed["attention"]),
            "checks_shown": len(was_passed["attention"]),
            "materials_sha256": session["materials"],
            "contstim_version": versions.get("contstim"),
            "page_version": versions.get("page"),
        }
    )


def _make_answer_row(
    presentation: Presentation,
    participant: Mapping[str, Any],
    trial: Trial,
    answer: Mapping[str, Any],
    pair: Mapping[str, Any],
    is_correct: bool | None,
) -> dict[str, Any]:
    """Return the row of an answer in the main table of exported data.

    Parameters
    ----------
    presentation
        How the study shows trials and encodes answers.
    participant
        Pseudonym, group and assignment of the participant.
    trial
        Trial with its row of the trial table, as it was shown.
    answer
        Recorded answer.
    pair
        Additional columns of an adaptively chosen sentence pair; empty in other studies. The item
        and stimulus numbers of the pair replace the numbers of the trial.
    is_correct
        Whether the answer is the expected one; None if no answer is expected.
    """
    kind = trial.row.get("kind", "")
    # If two sources have a column of the same name, the later one takes precedence.
    row = {
        **pair,
        **trial.row,
        **trial.shown,
        **participant,
        "trial": int(trial.row["trial"]),
        "condition": trial.condition,
        "kind": kind if kind in TRIAL_KINDS else infer_kind(trial.condition),
        "item": trial.row.get("item") or None,
        get_number_column(trial.row): int(trial.id[1:]),
        **{column: answer[column] for column in _ANSWER_COLUMNS},
        **{column: pair[column] for column in ("item", "stimulus") if column in pair},
    }
    expected = trial.expected
    if not presentation.is_pair:
        return row | {"expected": expected, "right": is_correct}
    # For a choice between two sentences, add their models, sides and the rating.
    side_1, side_2 = str(trial.side_1), "right" if trial.side_1 == "left" else "left"
    return row | {
        "sentence_1": trial.shown[side_1],
        "sentence_2": trial.shown[side_2],
        "model_1": trial.row.get("model_1") or None,
        "model_2": trial.row.get("model_2") or None,
        "expected": expected and (1 if expected == trial.side_1 else 2),
        "side_1": trial.side_1,
        "rating": presentation.choice_to_rating(answer["choice"], side_1),
    }


def _read_pair_rows(study: Study) -> dict[int, dict[str, Any]]:
    """Read additional columns, such as ``item``, of the sentence pairs of an adaptive study.

    The table ``pool.csv`` contains the pairs from which trials are chosen. Columns that exported
    answers contain anyway, such as the sentences, are left out.

    Exported answers identify the pair by its number, normally in the column ``item``. If the table
    has a column ``item``, which groups several pairs into an item, the number of the pair is in the
    column ``stimulus`` instead.

    Returns
    -------
    dict
        Columns and values of each pair, by the number of the pair from 1. Empty if the study is not
        adaptive.
    """
    path = study.folder / "pool.csv"
    if study.adaptive is None or not path.is_file():
        return {}
    pool = read_table(path, cells="text")
    exported_anyway = {*study.design.columns, *SELECTION_COLUMNS, "stimulus", "row_id"}
    columns = [name for name in pool if name == "item" or name not in exported_anyway]
    table = pool[columns].fillna("")
    # If items contain several pairs, the column `stimulus` identifies the pair.
    if "item" in columns:
        table["item"] = table["item"].replace("", None)
        table["stimulus"] = range(1, len(table) + 1)
    names = list(map(str, table.columns))
    rows = enumerate(table.to_numpy().tolist(), start=1)
    return {number: dict(zip(names, cells, strict=True)) for number, cells in rows}


def _list_table_columns(
    study: Study, pair_rows: Mapping[int, Mapping[str, Any]], details: Iterable[Mapping[str, Any]]
) -> dict[str, tuple[str, ...]]:
    """List the columns of every exported table of a study.

    The main table contains the choices or answers. It has fixed columns, the columns of the design,
    the columns of adaptively chosen pairs, and columns for details. A *detail* is a value with a
    name that the page sends in addition to an answer, for example one that a JavaScript module of
    the study has recorded. The details that the most participants have sent become columns.

    Parameters
    ----------
    study
        Study that collected the data.
    pair_rows
        Additional columns of the sentence pairs of an adaptive study, as returned by
        `_read_pair_rows`.
    details
        One mapping for each detail that was sent with an answer, with the keys ``name`` (of the
        detail) and ``participant``.

    Returns
    -------
    dict
        Mapping from the name of a table to its columns.
    """
    presentation = study.presentation
    # The main table contains choices between two sentences, or answers to single sentences.
    main_table = "choices" if presentation.is_pair else "answers"
    fixed_columns = _CHOICE_TABLE if presentation.is_pair else _ANSWER_TABLE
    # Trial columns come from the table of the design and, in an adaptive study, from the policy and
    # the pool of sentence pairs. All pairs of the pool have the same columns: use those of pair 1.
    policy_columns = () if study.adaptive is None else SELECTION_COLUMNS
    trial_columns = dict.fromkeys((*study.design.columns, *policy_columns, *pair_rows.get(1, {})))
    other_columns = [name for name in trial_columns if name not in fixed_columns]
    main_columns = (*fixed_columns, *other_columns)

    # Details are values that the page sent in addition to answers. The details that the most
    # participants sent become columns.
    participants_by_detail: dict[str, set[str]] = defaultdict(set)
    for detail in details:
        if detail["name"] not in main_columns:
            participants_by_detail[detail["name"]].add(detail["participant"])
    n_participants = {name: len(sent) for name, sent in participants_by_detail.items()}
    detail_columns = sorted(n_participants, key=lambda name: (-n_participants[name], name))

    columns = {**_COLUMNS, "choices": (), "answers": ()}
    columns[main_table] = (*main_columns, *detail_columns[:_MAX_DETAIL_COLUMNS])
    if not presentation.is_pair:
        # The table `words` (one row per word that was read) contains the same trial columns, except
        # for the texts that were shown.
        shown_texts = {*presentation.required_fields, *presentation.optional_fields}
        columns["words"] = (*_COLUMNS["words"], *(c for c in other_columns if c not in shown_texts))
    return columns


def _format_time(seconds: float | None) -> str | None:
    """Format a time in seconds since 1970 as an ISO 8601 time in UTC; None stays None."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
