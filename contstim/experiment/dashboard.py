"""Summary of a running study, and the dashboard that shows it as a page without scripts."""

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
from contstim.experiment.schema import make_session_code
from contstim.experiment.sessions import IDLE_SECONDS, find_closing_reason
from contstim.experiment.study import Study
from contstim.experiment.vendor import page_version

# Free disk space in MB below which the dashboard warns.
_MIN_DISK_MB = 500


@dataclass
class _SessionAnswers:
    """Answers of one session, except practice.

    Attributes
    ----------
    choices
        First choice in each trial, by the trial's id.
    times
        Response times of these choices, in milliseconds.
    n_conflicts
        Number of further answers to trials that already had one.
    """

    choices: dict[str, int] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    n_conflicts: int = 0


class AnswerCache:
    """Cache of the answers of all sessions, which reads only new answers from the database."""

    def __init__(self) -> None:
        self._last_sequence = 0
        self._sessions: dict[str, _SessionAnswers] = defaultdict(_SessionAnswers)

    def read_all_answers(self, connection: sqlite3.Connection) -> Mapping[str, _SessionAnswers]:
        """Read the answers that were stored since the last call, and return all answers.

        Parameters
        ----------
        connection
            Connection to the study's database.

        Returns
        -------
        mapping
            Answers by session.
        """
        rows = connection.execute(
            "SELECT sequence, session, trial, kind, choice, rt_ms, conflict FROM answers"
            " WHERE sequence > ? ORDER BY sequence",
            (self._last_sequence,),
        )
        # Load the answers that were stored since the last call.
        for row in rows:
            self._last_sequence = row["sequence"]
            answers = self._sessions[row["session"]]
            if row["kind"] == "practice":
                continue
            # A conflict is a second, different answer to the same trial; the first one counts.
            if row["conflict"]:
                answers.n_conflicts += 1
            else:
                answers.choices[row["trial"]] = row["choice"]
                answers.times.append(row["rt_ms"])
        return self._sessions


def read_summary(path: Path, study: Study, cache: AnswerCache, now: float) -> dict[str, Any]:
    """Summarise the state of a running study from its data file, for the dashboard.

    The file is read over a separate read-only connection.

    Parameters
    ----------
    path
        Data file.
    study
        Study that is summarised.
    cache
        Answers read so far, which are updated.
    now
        Current Unix time, in seconds since 1970.

    Returns
    -------
    dict
        - ``study``: name of the study
        - ``closed``: reason why the study is closed to new participants, or None
        - ``assignments``, ``free``: number of assignments (lists of trials for one participant),
          and number of those that no session has
        - ``declined``: number of participants who declined consent
        - ``failed_checks``: number of sessions that failed an attention check
        - ``last_answer``: minutes since the last answer, or None
        - ``disk_mb``: free disk space in MB
        - ``funnel``: numbers of page visits (``opened``) and of sessions that reached ``consent``,
          ``practice``, ``trials`` and ``end``
        - ``outcomes``: number of sessions by state
        - ``groups``: one row per group, ``group, assignments, taken, complete``
        - ``sessions``: one row per session, the latest first: ``session``, ``code``,
          ``assignment``, ``group``, ``state`` (``active``, ``idle``, ``released``, ``excluded`` or
          the outcome), ``ended``, ``answered``, ``trials``, ``minutes`` (from consent to the last
          message), ``silent`` (minutes since then), ``catch`` and ``checks`` (numbers of correct
          and of all answers), ``conflicts``, ``median_rt_ms``

    Raises
    ------
    OutputError
        If the data file is missing.
    """
    if not path.exists():
        raise OutputError(f"{path} was removed or replaced while the study runs; put it back")
    uri = f"{path.resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=5)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("BEGIN")  # all queries see one state of the data
        answers = cache.read_all_answers(connection)
        rows = connection.execute("SELECT * FROM sessions ORDER BY started_at DESC, session")
        sessions = [_summarize_session(row, answers, study, now) for row in rows]
        group_rows = connection.execute(
            "SELECT group_number AS 'group', count(*) AS assignments, count(session) AS taken"
            " FROM assignments GROUP BY group_number ORDER BY group_number"
        ).fetchall()
        page_counts = dict(connection.execute("SELECT name, n FROM counts").fetchall())
        closing_reason = find_closing_reason(connection)
        last_time = connection.execute("SELECT max(received_at) FROM answers").fetchone()[0]
    n_complete = Counter(session["group"] for session in sessions if session["state"] == "complete")
    groups = [{**dict(row), "complete": n_complete[row["group"]]} for row in group_rows]
    n_failed_checks = 0
    for session in sessions:
        n_right, n_answered = session["checks"]
        n_failed_checks += n_right < n_answered
    return {
        "study": study.study.name,
        "closed": closing_reason,
        "assignments": sum(group["assignments"] for group in groups),
        "free": sum(group["assignments"] - group["taken"] for group in groups),
        "declined": page_counts.get("declined", 0),
        "failed_checks": n_failed_checks,
        "last_answer": None if last_time is None else round(max(0.0, now - last_time) / 60, 1),
        "disk_mb": shutil.disk_usage(path.parent).free // 2**20,
        "funnel": {
            "opened": page_counts.get("opened", 0),
            "consent": len(sessions),
            "practice": sum(session["session"] in answers for session in sessions),
            "trials": sum(session["answered"] > 0 for session in sessions),
            "end": sum(session["ended"] for session in sessions),
        },
        "outcomes": dict(Counter(session["state"] for session in sessions)),
        "groups": groups,
        "sessions": sessions,
    }


def _summarize_session(
    row: sqlite3.Row, answers_by_session: Mapping[str, _SessionAnswers], study: Study, now: float
) -> dict[str, Any]:
    """Summarise one session as a row of the table ``sessions`` that `read_summary` returns.

    Parameters
    ----------
    row
        Row of the session in the data file.
    answers_by_session
        Answers of all sessions, by session id.
    study
        Study to which the session belongs.
    now
        Current Unix time, in seconds since 1970.
    """
    answers = answers_by_session.get(row["session"], _SessionAnswers())
    # An assignment is not yet in the design while the study is being extended.
    trials = study.design.trials.get(row["assignment"], ())
    is_correct: dict[str, list[bool]] = {"choice": [], "attention": []}
    for trial in trials:
        if trial.expected is not None and trial.id in answers.choices:
            choice = answers.choices[trial.id]
            is_correct[trial.kind].append(study.presentation.is_correct(choice, trial.expected))

    if row["outcome"] is not None:
        # A session that was screened out is released with its outcome as the reason.
        is_excluded = row["release_reason"] not in (None, "abandoned", row["outcome"])
        state = "excluded" if is_excluded else row["outcome"]
    elif row["released_at"] is not None:
        state = "released"
    else:
        state = "idle" if now - row["last_at"] > IDLE_SECONDS else "active"
    return {
        "session": row["session"],
        "code": make_session_code(row["session"]),
        "assignment": row["assignment"],
        "group": row["group_number"],
        "state": state,
        "ended": row["outcome"] is not None,
        "answered": len(answers.choices),
        "trials": len(trials),
        "minutes": round(max(0.0, row["last_at"] - row["started_at"]) / 60, 1),
        "silent": round(max(0.0, now - row["last_at"]) / 60, 1),
        "catch": [sum(is_correct["choice"]), len(is_correct["choice"])],
        "checks": [sum(is_correct["attention"]), len(is_correct["attention"])],
        "conflicts": answers.n_conflicts,
        "median_rt_ms": median_high(answers.times) if answers.times else None,
    }


def render_dashboard(summary: Mapping[str, Any]) -> str:
    """Render the dashboard of a study as an HTML page, which reloads itself.

    Parameters
    ----------
    summary
        State of the study, from `Store.summary`.

    Returns
    -------
    str
        HTML page.
    """
    counts = {
        "assignments": summary["assignments"],  # lists of trials, one per participant
        "free": summary["free"],  # assignments that no session has taken
        **summary["outcomes"],
        "declined": summary["declined"],
        "with failed checks": summary["failed_checks"],
    }
    sessions = [
        {**session, "progress": f"{session['answered']} of {session['trials']}"}
        for session in summary["sessions"]
    ]
    return _TEMPLATES.get_template("dashboard.html").render(
        study=summary["study"],
        version=page_version(),
        summary={**summary, "sessions": sessions},
        status=_describe_status(summary),
        counts=counts,
    )


def _describe_status(summary: Mapping[str, Any]) -> str:
    """Describe the state of a running study in sentences for the top of the dashboard.

    The sentences state whether the study is closed, when the last answer arrived, and how much disk
    space is free.
    """
    sentences = []
    if summary["closed"] is not None:
        sentences.append(
            f"The study is closed ({summary['closed']}): new participants are not admitted, open "
            "sessions can be finished, and `contstim experiment reopen` opens it again."
        )
    minutes_ago = summary["last_answer"]
    if minutes_ago is None:
        sentences.append("No answer yet.")
    elif minutes_ago < 2:
        sentences.append("Last answer a moment ago.")
    else:
        sentences.append(f"Last answer {minutes_ago:.0f} minutes ago.")
    warning = ", which is little" if summary["disk_mb"] < _MIN_DISK_MB else ""
    sentences.append(f"Free space for the data: {summary['disk_mb']} MB{warning}.")
    return " ".join(sentences)


def _format_cell(value: Any) -> str:
    """Format a value for a table cell of the dashboard.

    A list of two counts becomes ``3 of 4``, and a missing value or a count out of 0 becomes ``-``.
    """
    if value is None or value == [0, 0]:
        return "-"
    if isinstance(value, list):
        count, total = value
        return f"{count} of {total}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    # Show large numbers without decimals, and numbers with several decimals rounded to three.
    if isinstance(value, float) and value >= 100:
        return f"{value:.0f}"
    if isinstance(value, float) and value > -100 and value != round(value, 1):
        return f"{value:.3f}"
    return str(value)


_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["cell"] = _format_cell
