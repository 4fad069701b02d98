"""The page as files: for the study's own server, for a static host and for JATOS."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contstim.experiment.bundle import make_bundle, outcome_link, study_info
from contstim.experiment.study import Study
from contstim.experiment.vendor import PAGE, vendor_files

__all__ = ["index_html", "page_files", "study_files"]

_OWN = ("*.js", "page.css", "*.svg", "transports/*.js", "THIRD_PARTY.txt")
#: How a session can end where no server of ours decides.
_OUTCOMES = ("complete", "declined", "time_limit", "unsent")
#: What a page without a server ships in the folder `bundles`, one file an assignment.
_OF_ASSIGNMENT = ("seat", "group", "settings", "practice", "trials")


def page_files() -> dict[str, Path]:
    """Return the page's files by their addresses, relative to the page; ``index.html`` is apart.

    Raises
    ------
    MissingExtraError
        If the files of other projects are not there; the message names the command to run.
    """
    own = [path for pattern in _OWN for path in sorted(PAGE.glob(pattern))]
    found = {f"static/{path.relative_to(PAGE).as_posix()}": path for path in own}
    found |= {f"static/vendor/{name}": path for name, path in vendor_files().items()}
    return found


def index_html(study: Study, transport: str, head: str = "", page: Path = PAGE) -> str:
    """Return the page itself.

    Parameters
    ----------
    study
        Its title, language, direction and the texts that are shown before any script runs.
    transport
        Which way the data go: ``server``, ``static`` or ``jatos``.
    head
        Elements for the head of the page, before its own scripts.
    page
        The folder of the page's files.
    """
    text = (page / "index.html").read_text("utf-8")
    values = {
        "lang": study.study.language,
        "dir": study.study.direction,
        "title": study.study.title,
        "transport": transport,
        "loading": study.texts["loading"],
        "no_script": study.texts["no_script"],
    }
    # The head last: it is HTML, and nothing in it is filled in.
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", html.escape(value))
    return text.replace("{head}", f"\n{head}" if head else "")


def study_files(study: Study, index: str, collect: Mapping[str, Any]) -> dict[str, bytes]:
    """Return a whole page without a server of ours, by paths.

    Parameters
    ----------
    study
        The study.
    index
        The page, from `index_html`.
    collect
        Where data go, for the page's transport.

    Returns
    -------
    dict
        ``index.html``, the files under ``static/``, ``study.json`` (what is shown before consent,
        the assignments in the order in which they are given out, the completion codes) and
        ``bundles/N.json``, the trials of assignment N: a participant's browser loads one of them.

    Raises
    ------
    MissingExtraError
        If the files of other projects are not there.
    """
    info = study_info(study)
    info["seats"] = [
        {"seat": assignment, "group": study.design.groups[assignment]}
        for assignment in _order(study)
    ]
    info["links"] = {name: outcome_link(study, name) for name in _OUTCOMES}
    info["collect"] = dict(collect)
    files = {"index.html": index.encode(), "study.json": _json(info)}
    files |= {path: source.read_bytes() for path, source in page_files().items()}
    for assignment in study.design.trials:
        bundle = make_bundle(study, assignment)
        files[f"bundles/{assignment}.json"] = _json({name: bundle[name] for name in _OF_ASSIGNMENT})
    return files


def _order(study: Study) -> list[int]:
    """Return the assignments so that groups fill evenly: the first of each, then the second."""
    groups = study.design.groups
    place = {
        assignment: study.design.assignments_of(group).index(assignment)
        for assignment, group in groups.items()
    }
    return sorted(groups, key=lambda assignment: (place[assignment], groups[assignment]))


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
