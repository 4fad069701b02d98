"""The dashboard as one page of HTML without scripts, which loads itself anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

__all__ = ["dashboard_page", "login_page"]

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
<link rel="stylesheet" href="static/dashboard.css">
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
