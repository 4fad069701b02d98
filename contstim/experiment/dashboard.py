"""The state of a study, and the dashboard: a page of HTML without scripts that reloads itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from contstim.experiment.pages import page_version
from contstim.experiment.study import Study

__all__ = ["dashboard_page", "login_page", "summarise"]


_IDLE_S = 300.0  # without an answer for so long a session counts as idle


def summarise(connection: sqlite3.Connection, study: Study, now: float) -> dict[str, Any]:
    """Return the state of a study.

    Returns
    -------
    dict
        ``study``, ``seats``, ``free``, ``declined``, ``outcomes`` (numbers of sessions), ``groups``
        (each ``group, seats, taken, complete``) and ``sessions``: one each, the last first, with
        ``session``, ``seat``, ``group``, ``state`` (``active``, ``idle``, ``released`` or the
        outcome), ``answered``, ``trials``, ``minutes`` (from consent to the last message),
        ``catch`` and ``checks`` (right and shown so far), ``conflicts``, ``median_rt_ms``.
    """
    answers: dict[str, list[sqlite3.Row]] = {}
    for row in connection.execute(
        "SELECT session, trial, choice, rt_ms, conflict FROM answers WHERE kind <> 'practice'"
    ):
        answers.setdefault(row["session"], []).append(row)
    rows = connection.execute("SELECT * FROM sessions ORDER BY started_at DESC, session")
    sessions = [_session(row, answers.get(row["session"], []), study, now) for row in rows]
    groups: dict[int, dict[str, int]] = {}
    for row in connection.execute("SELECT group_number, session FROM seats"):
        group = groups.setdefault(row["group_number"], {"seats": 0, "taken": 0, "complete": 0})
        group["seats"] += 1
        group["taken"] += row["session"] is not None
    for one in sessions:
        groups[one["group"]]["complete"] += one["state"] == "complete"
    states = [one["state"] for one in sessions]
    declined = connection.execute("SELECT n FROM counts WHERE name = 'declined'").fetchone()
    return {
        "study": study.study.name,
        "seats": sum(g["seats"] for g in groups.values()),
        "free": sum(g["seats"] - g["taken"] for g in groups.values()),
        "declined": 0 if declined is None else declined["n"],
        "outcomes": {state: states.count(state) for state in dict.fromkeys(states)},
        "groups": [{"group": number, **groups[number]} for number in sorted(groups)],
        "sessions": sessions,
    }


def _session(
    row: sqlite3.Row, answers: list[sqlite3.Row], study: Study, now: float
) -> dict[str, Any]:
    own = study.design.trials[row["seat"]]
    choices = {answer["trial"]: answer["choice"] for answer in answers if not answer["conflict"]}
    right: dict[str, list[bool]] = {"choice": [], "attention": []}
    for trial in own:
        if trial.expected is not None and trial.trial in choices:
            left = choices[trial.trial] < 0
            right[trial.kind].append(left == (trial.expected == "left"))
    times = sorted(answer["rt_ms"] for answer in answers if not answer["conflict"])
    return {
        "session": row["session"],
        "seat": row["seat"],
        "group": row["group_number"],
        "state": _state(row, now),
        "answered": len(choices),
        "trials": len(own),
        "minutes": round((row["last_at"] - row["started_at"]) / 60, 1),
        "catch": [sum(right["choice"]), len(right["choice"])],
        "checks": [sum(right["attention"]), len(right["attention"])],
        "conflicts": sum(answer["conflict"] for answer in answers),
        "median_rt_ms": times[len(times) // 2] if times else None,
    }


def _state(row: sqlite3.Row, now: float) -> str:
    if row["outcome"] is not None:
        excluded = row["released_why"] not in (None, "abandoned")
        return "excluded" if excluded else str(row["outcome"])
    if row["released_at"] is not None:
        return "released"
    return "idle" if now - row["last_at"] > _IDLE_S else "active"


_EVERY_S = 5

_SESSION_COLUMNS = {
    "session": "session",
    "seat": "assignment",
    "group": "group",
    "state": "state",
    "answered": "answered",
    "minutes": "minutes",
    "catch": "catch trials right",
    "checks": "checks right",
    "median_rt_ms": "median ms",
    "conflicts": "conflicts",
}
_GROUP_COLUMNS = {
    "group": "group",
    "seats": "assignments",
    "taken": "taken",
    "complete": "complete",
}


def dashboard_page(summary: Mapping[str, Any]) -> str:
    """Return the page.

    Parameters
    ----------
    summary
        What `summarise` returns.
    """
    numbers = {
        "assignments": summary["seats"],
        "free": summary["free"],
        **summary["outcomes"],
        "declined": summary["declined"],
    }
    line = ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in numbers.items())
    sessions = [
        {**one, "answered": f"{one['answered']} of {one['trials']}"} for one in summary["sessions"]
    ]
    content = f"""<p>{escape(line)}</p>
<h2>Groups</h2>
{_table(_GROUP_COLUMNS, summary["groups"])}
<h2>Sessions</h2>
{_table(_SESSION_COLUMNS, sessions)}"""
    again = f'<meta http-equiv="refresh" content="{_EVERY_S}">\n'
    return _page(str(summary["study"]), content, again)


def login_page(study: str, why: str = "") -> str:
    """Return the page that asks for the dashboard's token, and says `why` it asks again."""
    fault = f'<p role="alert">{escape(why[0].upper() + why[1:])}.</p>\n' if why else ""
    content = f"""{fault}<p>The token was printed when the server was started, or given to it.</p>
<form method="post" action="dashboard">
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button>Log in</button>
</form>"""
    return _page(study, content)


def _page(study: str, content: str, head: str = "") -> str:
    # Relative addresses also lead here where a web server puts the study below a path.
    name = escape(study)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{head}<title>{name}: dashboard</title>
<link rel="stylesheet" href="static/{page_version()}/dashboard.css">
</head>
<body>
<main>
<h1>{name}</h1>
{content}
</main>
</body>
</html>
"""


def _table(columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> str:
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in columns.values())
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(_cell(row[key]))}</td>" for key in columns) + "</tr>"
        for row in rows
    )
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):  # right of shown
        return f"{value[0]} of {value[1]}" if value[1] else "-"
    return f"{value:.0f}" if isinstance(value, float) and value >= 100 else str(value)
