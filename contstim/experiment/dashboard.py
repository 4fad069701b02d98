"""The state of a study, and the dashboard: a page without scripts that reloads itself."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median_high
from typing import Any

import jinja2

from contstim.errors import OutputError
from contstim.experiment.schema import session_code
from contstim.experiment.sessions import IDLE_SECONDS, find_closing_reason
from contstim.experiment.study import Study
from contstim.experiment.vendor import page_version


@dataclass
class _Counted:
    """What one session has answered."""

    choices: dict[str, int] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    conflicts: int = 0


class AnswerCounts:
    """Answers counted so far; only those that came since are read again."""

    def __init__(self) -> None:
        self._last = 0
        self._sessions: dict[str, _Counted] = defaultdict(_Counted)

    def update(self, connection: sqlite3.Connection) -> Mapping[str, _Counted]:
        """Read what came since and return the counts by session."""
        rows = connection.execute(
            "SELECT sequence, session, trial, kind, choice, rt_ms, conflict FROM answers"
            " WHERE sequence > ? ORDER BY sequence",
            (self._last,),
        )
        for row in rows:
            self._last = row["sequence"]
            counted = self._sessions[row["session"]]
            if row["kind"] == "practice":
                continue
            if row["conflict"]:
                counted.conflicts += 1
            else:
                counted.choices[row["trial"]] = row["choice"]
                counted.times.append(row["rt_ms"])
        return self._sessions


def read_summary(path: Path, study: Study, counts: AnswerCounts, now: float) -> dict[str, Any]:
    """Return the state of a study, read over a connection of its own that cannot write.

    The server's writer is not held up by it.

    Returns
    -------
    dict
        ``study``, ``closed`` (why nobody new is let in; None while it is open), ``assignments``,
        ``free``, ``declined``, ``failed_checks`` (sessions that
        answered an attention check otherwise), ``last_answer`` (minutes since; None before the
        first), ``disk_mb`` (free), ``funnel`` (how many came so far: ``opened`` the page, then
        sessions: ``consent, practice, trials, end``), ``outcomes``, ``groups`` (each ``group,
        assignments, taken, complete``) and ``sessions``: one each, the last first, with
        ``session``, ``code``, ``assignment``, ``group``, ``state`` (``active``, ``idle``,
        ``released`` or the outcome), ``answered``, ``trials``, ``minutes`` (from consent to the
        last message), ``silent`` (minutes since then), ``catch`` and ``checks`` (right and shown so
        far), ``conflicts``, ``median_rt_ms``.

    Raises
    ------
    OutputError
        If the file is not there.
    """
    if not path.exists():
        raise OutputError(f"{path} was removed or replaced while the study runs; put it back")
    address = f"{path.resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, timeout=5)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("BEGIN")  # one snapshot
        counted = counts.update(connection)
        rows = connection.execute("SELECT * FROM sessions ORDER BY started_at DESC, session")
        sessions = [_session(row, counted.get(row["session"]), study, now) for row in rows]
        of_groups = connection.execute(
            "SELECT group_number AS 'group', count(*) AS assignments, count(session) AS taken"
            " FROM assignments GROUP BY group_number ORDER BY group_number"
        ).fetchall()
        page_counts = dict(connection.execute("SELECT name, n FROM counts").fetchall())
        closed = find_closing_reason(connection)
        last = connection.execute("SELECT max(received_at) FROM answers").fetchone()[0]
    complete = Counter(session["group"] for session in sessions if session["state"] == "complete")
    groups = [{**dict(row), "complete": complete[row["group"]]} for row in of_groups]
    return {
        "study": study.study.name,
        "closed": closed,
        "assignments": sum(group["assignments"] for group in groups),
        "free": sum(group["assignments"] - group["taken"] for group in groups),
        "declined": page_counts.get("declined", 0),
        "failed_checks": sum(session["checks"][0] < session["checks"][1] for session in sessions),
        "last_answer": None if last is None else round(max(0.0, now - last) / 60, 1),
        "disk_mb": shutil.disk_usage(path.parent).free // 2**20,
        "funnel": {
            "opened": page_counts.get("opened", 0),
            "consent": len(sessions),
            "practice": sum(session["session"] in counted for session in sessions),
            "trials": sum(session["answered"] > 0 for session in sessions),
            "end": sum(session["ended"] for session in sessions),
        },
        "outcomes": dict(Counter(session["state"] for session in sessions)),
        "groups": groups,
        "sessions": sessions,
    }


def _session(
    row: sqlite3.Row, counted: _Counted | None, study: Study, now: float
) -> dict[str, Any]:
    trials = study.design.trials.get(row["assignment"], ())  # none yet while it is being extended
    counted = counted or _Counted()
    right: dict[str, list[bool]] = {"choice": [], "attention": []}
    for trial in trials:
        if trial.expected is not None and trial.id in counted.choices:
            choice = counted.choices[trial.id]
            right[trial.kind].append(study.presentation.is_correct(choice, trial.expected))
    return {
        "session": row["session"],
        "code": session_code(row["session"]),
        "assignment": row["assignment"],
        "group": row["group_number"],
        "state": _state(row, now),
        "ended": row["outcome"] is not None,
        "answered": len(counted.choices),
        "trials": len(trials),
        "minutes": round(max(0.0, row["last_at"] - row["started_at"]) / 60, 1),
        "silent": round(max(0.0, now - row["last_at"]) / 60, 1),
        "catch": [sum(right["choice"]), len(right["choice"])],
        "checks": [sum(right["attention"]), len(right["attention"])],
        "conflicts": counted.conflicts,
        "median_rt_ms": median_high(counted.times) if counted.times else None,
    }


def _state(row: sqlite3.Row, now: float) -> str:
    if row["outcome"] is not None:
        # A session that is screened out is released by its own outcome.
        excluded = row["released_why"] not in (None, "abandoned", row["outcome"])
        return "excluded" if excluded else str(row["outcome"])
    if row["released_at"] is not None:
        return "released"
    return "idle" if now - row["last_at"] > IDLE_SECONDS else "active"


_LEAST_DISK_MB = 500


def render_dashboard(summary: Mapping[str, Any]) -> str:
    """Return the page, which loads itself again.

    Parameters
    ----------
    summary
        What `read_summary` returns.
    """
    numbers = {
        "assignments": summary["assignments"],
        "free": summary["free"],
        **summary["outcomes"],
        "declined": summary["declined"],
        "with failed checks": summary["failed_checks"],
    }
    sessions = [
        {**one, "progress": f"{one['answered']} of {one['trials']}"} for one in summary["sessions"]
    ]
    return _PAGES.get_template("dashboard.html").render(
        study=summary["study"],
        version=page_version(),
        summary={**summary, "sessions": sessions},
        news=_news(summary),
        numbers=numbers,
    )


def _news(summary: Mapping[str, Any]) -> str:
    minutes, last = summary["last_answer"], "No answer yet"
    if minutes is not None:
        last = f"Last answer {f'{minutes:.0f} minutes' if minutes >= 2 else 'a moment'} ago"
    few = ", which is little" if summary["disk_mb"] < _LEAST_DISK_MB else ""
    news = f"{last}. Free space for the data: {summary['disk_mb']} MB{few}."
    if summary["closed"] is not None:
        news = (
            f"The study is closed ({summary['closed']}): nobody new is let in, who has begun may "
            f"finish, and `contstim experiment reopen` opens it again. {news}"
        )
    if summary["orphaned_sessions"]:
        news += (
            " Browsers with answers to sessions that are not in these data, as after a copy was "
            f"put back: {summary['orphaned_sessions']}; the answers come when those data are back."
        )
    return news


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):  # right of shown
        return f"{value[0]} of {value[1]}" if value[1] else "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and abs(value) < 100 and value != round(value, 1):
        return f"{value:.3f}"
    return f"{value:.0f}" if isinstance(value, float) and value >= 100 else str(value)


_PAGES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
_PAGES.filters["cell"] = _cell
