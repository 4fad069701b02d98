"""What was collected, as tables: one row per answer, a session, an event; ids as salted hashes."""

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

from contstim.display import displayable
from contstim.experiment.schema import data_path, open_data, read_salt, session_code
from contstim.experiment.study import Study
from contstim.experiment.trials import SELECTION_COLUMNS, Trial, fill_blanks, get_number_column
from contstim.files import digest
from contstim.tables import CHOICES, read_table
from contstim.trial_kinds import TRIAL_KINDS, infer_kind

#: What a trial has beside its own columns, and what its answer has, in every table of trials.
_PLACE = ("kind", "assignment", "item")
_ANSWER = (
    "choice",
    "rt_ms",
    "input",
    "focus_losses",
    "hidden_ms",
    "shown",
    "answered_at",
    "received_at",
    "late",
)
_MOST_DETAILS = 50  # columns that answers' details add

#: Columns of the choices table after those of `CHOICES`.
_EXTRA = ("expected", *_PLACE, "side_1", *(one for one in _ANSWER if one not in CHOICES))
_OF_ANSWERS = ("participant", "group", "trial", "condition", *_PLACE, "expected", "right", *_ANSWER)
_OF_SESSIONS = (
    "participant", "session", "code", "group", "assignment", "outcome", "released", "source",
    "started_at", "finished_at", "minutes", "n_trials", "n_answered",
    "catch_right", "catch_shown", "checks_right", "checks_shown",
    "consent_version", "consent_sha256", "materials_sha256", "contstim_version",
    "page_version", "browsers",
)  # fmt: skip
#: The columns of the other tables.
_COLUMNS = {
    "words": ("participant", "group", "trial", "condition", *_PLACE, "position", "word", "rt_ms"),
    "practice": ("participant", "trial", "expected", "choice", "right", "rt_ms", "received_at"),
    "checks": ("participant", "group", "trial", "expected", "choice", "right", "rt_ms"),
    "sessions": _OF_SESSIONS,
    "allocations": ("at", "action", "assignment", "participant", "why"),
    "conflicts": ("participant", "trial", "choice", "rt_ms", "answered_at", "received_at"),
    "events": ("participant", "kind", "at", "detail", "received_at"),
    "responses": ("participant", "question", "response", "rt_ms", "at"),
}


@displayable
@dataclass(frozen=True, eq=False)
class StudyData:
    """The data of a study as tables, without recruiters' ids.

    Attributes
    ----------
    choices
        One row per pair of sentences and participant, the columns of `CHOICES` and others:
        ``expected`` (the right sentence where one is, 1 in catch trials), ``assignment``,
        ``item``, ``side_1``, ``choice`` (by side, -3 to 3), ``input``, ``focus_losses``,
        ``hidden_ms``, ``shown`` (how often the trial was), ``answered_at`` (the participant's
        clock), ``received_at`` (the server's), ``late``, and further columns of the design.
    answers
        The same of studies that show something else: what was shown, ``choice``, and ``right``
        where something was expected.
    words
        Of self-paced reading, one row per word: ``position`` from 1, ``word``, ``rt_ms``, and the
        columns of the design that are not shown.
    practice
        One row a practice trial: ``participant, trial, expected, choice, right, rt_ms,
        received_at``.
    checks
        One row an attention check: ``participant, group, trial, expected, choice, right, rt_ms``.
    sessions
        One row a session; ``n_trials`` of the design, ``n_answered`` of them,
        catch trials and checks ``right`` and shown, versions of what was shown.
    allocations
        What became of assignments: ``at, action, assignment, participant, why``.
    conflicts
        Second, different answers to a trial: ``participant, trial, choice, rt_ms, answered_at,
        received_at``.
    events
        ``participant, kind, at, detail, received_at``.
    responses
        Answers to the study's questions: ``participant, question, response, rt_ms, at``; a response
        of several options is a JSON list, and the time is that of the whole screen.
    materials
        What was shown besides the trials, JSON texts by their SHA-256.
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
        """All tables by name; of `choices` and `answers` the one that the study has."""
        left_out = ("materials", "answers" if self.answers.columns.empty else "choices")
        names = [item.name for item in fields(self) if item.name not in left_out]
        return {name: getattr(self, name) for name in names}

    @property
    def complete_participants(self) -> list[str]:
        """The participants who answered every trial."""
        is_complete = self.sessions["n_answered"] == self.sessions["n_trials"]
        return self.sessions.loc[is_complete, "participant"].tolist()


def hash_participant(salt: str, session: str, recruiter_id: str | None) -> str:
    """Return 16 hexadecimal digits that stand for a participant.

    They cannot be turned back, nor be compared between studies: each data file has a salt of its
    own, which no table holds.
    """
    identity = f"session:{session}" if recruiter_id is None else f"id:{recruiter_id}"
    return digest(f"{salt}:{identity}")[:16]


def read_study_data(study: Study, data: Path | None = None) -> StudyData:
    """Read the data of a study; the data file is not changed.

    Parameters
    ----------
    study
        The study.
    data
        The data file; by default in the study's folder.

    Raises
    ------
    InputError
        If there are no data, or they are of another study.
    """
    with closing(open_data(data_path(study, data))) as connection:
        # One snapshot, although a server may go on writing.
        connection.execute("BEGIN")
        salt = read_salt(connection)
        sessions = connection.execute(
            "SELECT *, (SELECT content FROM materials WHERE sha256 = sessions.materials) AS content"
            " FROM sessions JOIN participants USING (participant) ORDER BY started_at, session"
        ).fetchall()
        answers, blocks, events, responses, moves = (
            connection.execute(f"SELECT * FROM {table} ORDER BY rowid").fetchall()  # noqa: S608 - tables of ours
            for table in ("answers", "blocks", "events", "responses", "allocations")
        )
    names = {
        row["session"]: hash_participant(salt, row["session"], row["recruiter_id"])
        for row in sessions
    }
    issued: dict[str, list[sqlite3.Row]] = defaultdict(list)
    for block in blocks:
        issued[block["session"]].append(block)
    rows = _of_sessions(study, sessions, answers, names, issued)
    rows["allocations"] = [
        # Of who was deleted on request there is no name.
        {**row, "at": _iso(row["at"]), "participant": names.get(row["session"], "")}
        for row in map(dict, moves)
    ]
    rows["events"] = [
        {**row, "participant": names[row["session"]], "received_at": _iso(row["received_at"])}
        for row in map(dict, events)
    ]
    rows["responses"] = [
        {
            **row,
            "participant": names[row["session"]],
            # Several options stay a JSON list.
            "response": value if isinstance(value, str) else row["response"],
        }
        for row in map(dict, responses)
        for value in [json.loads(row["response"])]
    ]
    # Of what a row holds besides, nothing is shown.
    columns = _COLUMNS | _of_trials(study, rows.pop("details"))
    tables = {name: pd.DataFrame(rows[name], columns=list(columns[name])) for name in rows}
    shown = {row["materials"]: row["content"] for row in sessions if row["content"]}
    return StudyData(**tables, materials=shown)


def _of_sessions(
    study: Study,
    sessions: Iterable[sqlite3.Row],
    answers: Iterable[sqlite3.Row],
    names: Mapping[str, str],
    blocks: Mapping[str, list[sqlite3.Row]],
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the tables that are made of sessions and answers."""
    shown = study.presentation
    of_pool = _of_pool(study)
    # The numbers of catch trials are none of the items that a pool names.
    no_pair = {"item": None} if "item" in of_pool.get(1, {}) else {}
    first: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    rows: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("choices", "answers", "details", *_COLUMNS)
    }
    for row in answers:
        answer = {**dict(row), "received_at": _iso(row["received_at"])}
        if answer["conflict"]:
            rows["conflicts"].append({**answer, "participant": names[answer["session"]]})
        else:
            first[answer["session"]][answer["trial"]] = answer
    for session in sessions:
        first_answers = first[session["session"]]
        person = {"participant": names[session["session"]], "group": session["group_number"]}
        trials = fill_blanks(
            study.design.trials[session["assignment"]], blocks.get(session["session"], [])
        )
        answered, tests = [], []
        catch: list[bool] = []
        for trial in (*study.practice_trials, *trials):
            if trial.id not in first_answers:
                continue
            answer = first_answers[trial.id]
            choice, expected = answer["choice"], trial.expected
            right = None if expected is None else shown.is_correct(choice, expected)
            tested = {**answer, **person, "expected": expected, "right": right}
            if trial.kind == "practice":
                rows["practice"].append(tested)
                continue
            if trial.kind == "attention":
                tests.append(tested)
                continue
            if right is not None:
                catch.append(right)
            details = shown.detail_columns(answer["detail"])
            place = _place(person, session, trial, answer)
            rows["details"] += [{**person, "name": name} for name in details]
            of_pair = of_pool.get(int(trial.id[1:]), no_pair)
            line = {**details, **of_pair, **trial.row, **trial.shown, **place}
            # Of what a pool says these alone take the place of what the study numbered itself.
            line |= {name: of_pair[name] for name in ("item", "stimulus") if name in of_pair}
            line |= _pair(trial) if shown.is_pair else {"expected": expected, "right": right}
            if shown.is_pair:
                line["rating"] = shown.rating(choice, str(trial.side_1))
            answered.append(line)
            rows["words"] += [
                {**line, "position": number, "word": word, "rt_ms": rt}
                for number, (word, rt) in enumerate(shown.word_times(answer["detail"]), start=1)
            ]
        rows["choices" if shown.is_pair else "answers"] += answered
        rows["checks"] += tests
        rows["sessions"].append(_session(trials, person, session, len(answered), catch, tests))
    return rows


def _of_pool(study: Study) -> dict[int, dict[str, Any]]:
    """Return what the pool of an adaptive study says of its pairs besides their sentences.

    By their numbers; ``item`` is the pool's own then, and ``stimulus`` the number.
    """
    path = study.folder / "pool.csv"
    if study.adaptive is None or not path.is_file():
        return {}
    pool = read_table(path, cells="text")
    made = {*study.design.columns, *SELECTION_COLUMNS, "stimulus", "row_id"} - {"item"}
    table = pool[[name for name in pool if name not in made]].fillna("")
    if "item" in table:
        table["item"] = table["item"].replace("", None)
        table["stimulus"] = range(1, len(table) + 1)
    names = list(map(str, table.columns))
    rows = enumerate(table.to_numpy().tolist(), start=1)
    return {k: dict(zip(names, cells, strict=True)) for k, cells in rows}


def _of_trials(study: Study, details: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the columns of choices and answers, of which a study has one, and of words."""
    pair = study.presentation.is_pair
    usual = (*CHOICES, *_EXTRA) if pair else _OF_ANSWERS
    unlisted = {*usual} if pair else {*usual, "participant"}
    of_design = (*study.design.columns, *(() if study.adaptive is None else SELECTION_COLUMNS))
    of_design += tuple(_of_pool(study).get(1, {}))
    others = [column for column in dict.fromkeys(of_design) if column not in unlisted]
    listed = (*usual, *others)
    givers: dict[str, set[str]] = defaultdict(set)
    for detail in details:
        if detail["name"] not in listed:
            givers[detail["name"]].add(detail["participant"])
    # Of the answers' details, which a page can name as it likes, those that most people gave.
    names = sorted(givers, key=lambda name: (-len(givers[name]), name))[:_MOST_DETAILS]
    shown = {*study.presentation.required_fields, *study.presentation.optional_fields}
    of_words = (*_COLUMNS["words"], *(n for n in others if n not in shown and not pair))
    main: dict[str, tuple[str, ...]] = {"choices": (), "answers": ()}
    return main | {"choices" if pair else "answers": (*listed, *names), "words": of_words}


def _place(
    person: Mapping[str, Any], session: sqlite3.Row, trial: Trial, answer: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what every table of trials says of whose and which a trial is, and of its answer."""
    return {
        **person,
        "trial": int(trial.row["trial"]),
        "condition": trial.condition,
        "kind": _kind(trial),
        "assignment": session["assignment"],
        "item": trial.row.get("item") or None,
        get_number_column(trial.row): int(trial.id[1:]),
        **{key: answer[key] for key in _ANSWER},
    }


def _kind(trial: Trial) -> str:
    """Return the kind of a trial, as its row or its condition states it."""
    stated = trial.row.get("kind", "")
    return stated if stated in TRIAL_KINDS else infer_kind(trial.condition)


def _iso(seconds: float | None) -> str | None:
    """Return a time of the server, ISO 8601 in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _pair(trial: Trial) -> dict[str, Any]:
    """Return what the table of choices says of the pair that a trial showed."""
    left = trial.side_1 == "left"
    return {
        "sentence_1": trial.shown["left" if left else "right"],
        "sentence_2": trial.shown["right" if left else "left"],
        "model_1": trial.row.get("model_1") or None,
        "model_2": trial.row.get("model_2") or None,
        "expected": trial.expected and (1 if trial.expected == trial.side_1 else 2),
        "side_1": trial.side_1,
    }


def _session(
    trials: Iterable[Trial],
    person: Mapping[str, Any],
    session: sqlite3.Row,
    n_answered: int,
    catch: list[bool],
    checks: list[dict[str, Any]],
) -> dict[str, Any]:
    versions = {} if session["content"] is None else json.loads(session["content"])
    last = session["finished_at"] or session["last_at"]
    return {
        **dict(session),
        **person,
        "code": session_code(session["session"]),
        "outcome": session["outcome"] or "unfinished",
        "released": session["released_why"] or "",
        "started_at": _iso(session["started_at"]),
        "finished_at": _iso(session["finished_at"]),
        "minutes": round(max(0.0, last - session["started_at"]) / 60, 2),
        "n_trials": sum(trial.kind == "choice" for trial in trials),
        "n_answered": n_answered,
        "catch_right": sum(catch),
        "catch_shown": len(catch),
        "checks_right": sum(row["right"] for row in checks),
        "checks_shown": len(checks),
        "materials_sha256": session["materials"],
        "contstim_version": versions.get("contstim"),
        "page_version": versions.get("page"),
    }


def read_recruiter_ids(study: Study, data: Path | None = None) -> pd.DataFrame:
    """Return who is who: ``participant`` (the hash), ``recruiter_id`` and the kept parameters.

    Of two imported sessions that give one recruiter's id each is a participant. Personal data;
    only pay and replacement need them.

    Raises
    ------
    InputError
        As `read_study_data`.
    """
    with closing(open_data(data_path(study, data))) as connection:
        salt = read_salt(connection)
        rows = connection.execute(
            "SELECT session, recruiter_id, claimed, parameters FROM sessions JOIN participants"
            " USING (participant)"
        ).fetchall()
    names = [] if study.recruiter is None else [*study.recruiter.parameters]
    parameters_of = [json.loads(row["parameters"]) for row in rows]
    # A study's run in JATOS is known by the id of its result.
    names += ["jatos_result"] if any("jatos_result" in one for one in parameters_of) else []
    people = [
        {
            "participant": hash_participant(salt, row["session"], row["recruiter_id"]),
            "recruiter_id": row["recruiter_id"] or row["claimed"],
            **{name: parameters.get(name) for name in names},
        }
        for row, parameters in zip(rows, parameters_of, strict=True)
    ]
    return pd.DataFrame(people, columns=["participant", "recruiter_id", *names])
