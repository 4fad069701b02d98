"""What was collected, as tables: one row an answer, a session, an event; ids as salted hashes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from contstim.experiment.messages import read_responses
from contstim.experiment.schema import code_suffix, data_path, open_data, read_salt
from contstim.experiment.study import Study
from contstim.experiment.trials import Trial, rating_of
from contstim.files import digest
from contstim.tables import CHOICES

#: Columns of the choices table after those of `CHOICES`.
_EXTRA = (
    "expected",
    "seat",
    "item",
    "side_1",
    "choice",
    "input",
    "focus_losses",
    "hidden_ms",
    "shown",
    "answered_at",
    "late",
)
_ANSWER = ("choice", "rt_ms", "input", "focus_losses", "hidden_ms", "shown", "answered_at", "late")


@dataclass(frozen=True, eq=False)
class Collected:
    """The data of a study as tables, without recruiters' ids.

    Attributes
    ----------
    choices
        One row a trial and participant, the columns of `CHOICES` and others: ``expected`` (1 in
        catch trials, whose sentence 1 is the right one), ``seat``, ``item``, ``side_1``,
        ``choice`` (by side, -3 to 3), ``input``, ``focus_losses``, ``hidden_ms``, ``shown`` (how
        often the trial was), ``answered_at`` (the participant's clock), ``late``, and further
        columns of the design.
    checks
        One row an attention check: ``participant, group, trial, expected, choice, right, rt_ms``.
    sessions
        One row a session; ``n_trials`` of the design, ``n_answered`` of them,
        catch trials and checks ``right`` and shown.
    conflicts
        Second, different answers to a trial: ``participant, trial, choice, rt_ms, answered_at``.
    events
        ``participant, kind, at, detail``.
    responses
        Answers to the study's questions: ``participant, question, response, rt_ms, at``; a response
        of several options is a JSON list, and the time is that of the whole screen.
    """

    choices: pd.DataFrame
    checks: pd.DataFrame
    sessions: pd.DataFrame
    conflicts: pd.DataFrame
    events: pd.DataFrame
    responses: pd.DataFrame

    @property
    def whole(self) -> list[str]:
        """The participants who answered every trial."""
        done = self.sessions["n_answered"] == self.sessions["n_trials"]
        return self.sessions.loc[done, "participant"].tolist()


def participant_hash(salt: str, session: str, recruiter_id: str | None) -> str:
    """Return 16 hexadecimal digits that stand for a participant.

    They cannot be turned back, nor be compared between studies: each data file has a salt of its
    own, which no table holds.
    """
    identity = f"session:{session}" if recruiter_id is None else f"id:{recruiter_id}"
    return digest(f"{salt}:{identity}")[:16]


def read_collected(study: Study, data: Path | None = None) -> Collected:
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
    connection = open_data(data_path(study, data))
    try:
        # One snapshot, although a server may go on writing.
        connection.execute("BEGIN")
        salt = read_salt(connection)
        sessions = connection.execute(
            "SELECT * FROM sessions JOIN participants USING (participant)"
            " ORDER BY started_at, session"
        ).fetchall()
        answers = connection.execute("SELECT * FROM answers ORDER BY sequence").fetchall()
        events = connection.execute("SELECT * FROM events ORDER BY sequence").fetchall()
    finally:
        connection.close()
    names = {
        row["session"]: participant_hash(salt, row["session"], row["recruiter_id"])
        for row in sessions
    }
    return _tables(study, sessions, answers, events, names)


def _tables(
    study: Study,
    sessions: Iterable[sqlite3.Row],
    answers: Iterable[sqlite3.Row],
    events: Iterable[sqlite3.Row],
    names: Mapping[str, str],
) -> Collected:
    first: dict[str, dict[str, sqlite3.Row]] = {}
    conflicts = []
    for answer in answers:
        if answer["conflict"]:
            conflicts.append(
                {
                    "participant": names[answer["session"]],
                    **{name: answer[name] for name in ("trial", "choice", "rt_ms", "answered_at")},
                }
            )
        else:
            first.setdefault(answer["session"], {})[answer["trial"]] = answer
    choices, checks, rows = [], [], []
    for session in sessions:
        own = first.get(session["session"], {})
        name = names[session["session"]]
        answered, tests = [], []
        for trial in study.design.trials[session["seat"]]:
            if trial.trial not in own:
                continue
            answer = own[trial.trial]
            if trial.kind == "choice":
                answered.append(_choice(name, session, trial, answer, study.trial.levels))
            else:
                tests.append(_check(name, session, trial, answer))
        choices += answered
        checks += tests
        rows.append(_session(study, name, session, answered, tests))
    others = [c for c in study.design.columns if c not in (*CHOICES, *_EXTRA, "catch")]
    check_columns = ["participant", "group", "trial", "expected", "choice", "right", "rt_ms"]
    return Collected(
        choices=pd.DataFrame(choices, columns=[*CHOICES, *_EXTRA, *others]),
        checks=pd.DataFrame(checks, columns=check_columns),
        sessions=pd.DataFrame(rows, columns=list(_session_columns())),
        conflicts=pd.DataFrame(
            conflicts, columns=["participant", "trial", "choice", "rt_ms", "answered_at"]
        ),
        events=pd.DataFrame(
            [
                {
                    "participant": names[event["session"]],
                    **{name: event[name] for name in ("kind", "at", "detail")},
                }
                for event in events
                if event["kind"] != "responses"
            ],
            columns=["participant", "kind", "at", "detail"],
        ),
        responses=pd.DataFrame(
            [row for event in events for row in _responses(names[event["session"]], event)],
            columns=["participant", "question", "response", "rt_ms", "at"],
        ),
    )


def _choice(
    name: str, session: sqlite3.Row, trial: Trial, answer: sqlite3.Row, levels: int
) -> dict[str, Any]:
    side = str(trial.side_1)
    left = side == "left"
    return {
        **{key: value for key, value in trial.row.items() if key != "catch"},
        "participant": name,
        "group": session["group_number"],
        "trial": int(trial.row["trial"]),
        "condition": trial.condition,
        "sentence_1": trial.left if left else trial.right,
        "sentence_2": trial.right if left else trial.left,
        "model_1": trial.row.get("model_1") or None,
        "model_2": trial.row.get("model_2") or None,
        "rating": rating_of(answer["choice"], side, levels),
        "expected": None if trial.expected is None else 1,
        "seat": session["seat"],
        "item": int(trial.trial[1:]),
        "side_1": side,
        **{key: answer[key] for key in _ANSWER},
    }


def _check(name: str, session: sqlite3.Row, trial: Trial, answer: sqlite3.Row) -> dict[str, Any]:
    return {
        "participant": name,
        "group": session["group_number"],
        "trial": trial.trial,
        "expected": trial.expected,
        "choice": answer["choice"],
        "right": (answer["choice"] < 0) == (trial.expected == "left"),
        "rt_ms": answer["rt_ms"],
    }


def _responses(name: str, event: sqlite3.Row) -> list[dict[str, Any]]:
    if event["kind"] != "responses":
        return []
    found = read_responses(event["detail"])
    return [
        {
            "participant": name,
            "question": question,
            "response": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),
            "rt_ms": found["rt_ms"],
            "at": event["at"],
        }
        for question, value in found["responses"].items()
    ]


def _session_columns() -> tuple[str, ...]:
    return (
        "participant",
        "session",
        "group",
        "seat",
        "outcome",
        "released",
        "source",
        "started_at",
        "minutes",
        "n_trials",
        "n_answered",
        "catch_right",
        "catch_shown",
        "checks_right",
        "checks_shown",
        "consent_version",
        "consent_sha256",
        "materials_sha256",
    )


def _session(
    study: Study,
    name: str,
    session: sqlite3.Row,
    choices: list[dict[str, Any]],
    checks: list[dict[str, Any]],
) -> dict[str, Any]:
    catch = [row for row in choices if row["expected"] is not None]
    own = study.design.trials[session["seat"]]
    last = session["finished_at"] or session["last_at"]
    return {
        "participant": name,
        "session": session["session"],
        "group": session["group_number"],
        "seat": session["seat"],
        "outcome": session["outcome"] or "unfinished",
        "released": session["released_why"] or "",
        "source": session["source"],
        "started_at": datetime.fromtimestamp(session["started_at"], UTC).isoformat(
            timespec="seconds"
        ),
        "minutes": round((last - session["started_at"]) / 60, 2),
        "n_trials": sum(trial.kind == "choice" for trial in own),
        "n_answered": len(choices),
        "catch_right": sum(row["rating"] < 0 for row in catch),
        "catch_shown": len(catch),
        "checks_right": sum(row["right"] for row in checks),
        "checks_shown": len(checks),
        "consent_version": session["consent_version"],
        "consent_sha256": session["consent_sha256"],
        "materials_sha256": session["materials"],
    }


def recruiter_ids(study: Study, data: Path | None = None) -> pd.DataFrame:
    """Return who is who: ``participant`` (the hash), ``recruiter_id`` and the kept parameters.

    Personal data; only pay and replacement need them.

    Raises
    ------
    InputError
        As `read_collected`.
    """
    connection = open_data(data_path(study, data))
    try:
        salt = read_salt(connection)
        rows = connection.execute(
            "SELECT session, recruiter_id, parameters FROM sessions JOIN participants"
            " USING (participant)"
        ).fetchall()
    finally:
        connection.close()
    names = [] if study.recruiter is None else [*study.recruiter.parameters]
    kept = [json.loads(row["parameters"]) for row in rows]
    # A study's run in JATOS is known by the id of its result.
    names += ["jatos_result"] if any("jatos_result" in one for one in kept) else []
    people = [
        {
            "participant": participant_hash(salt, row["session"], row["recruiter_id"]),
            "recruiter_id": row["recruiter_id"],
            **{name: parameters.get(name) for name in names},
        }
        for row, parameters in zip(rows, kept, strict=True)
    ]
    table = pd.DataFrame(people, columns=["participant", "recruiter_id", *names])
    if study.recruiter is not None and study.recruiter.code_per_session:
        code = study.recruiter.codes.complete or ""
        table["code"] = [f"{code}{code_suffix(salt, row['session'])}" for row in rows]
    return table
