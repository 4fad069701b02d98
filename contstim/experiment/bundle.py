"""Everything that the page needs for one session, as JSON values.

The page never learns which side is sentence 1: it sends a choice by side, and `rating_of` turns it
into a rating where the data are collected. A bundle of a static page or a JATOS study is made
with an empty session id, which the page fills with one of its own.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields
from importlib.metadata import version
from typing import Any

from contstim.errors import InputError
from contstim.experiment.options import OUTCOMES, StudySettings
from contstim.experiment.presentations import is_right
from contstim.experiment.study import Study
from contstim.experiment.trials import Trial, issued
from contstim.experiment.vendor import page_version
from contstim.files import digest

#: The format of bundles and of what the page sends.
FORMAT = 1


def study_info(study: Study) -> dict[str, Any]:
    """Return what the page shows before consent.

    ``recruiter`` holds ``name``, ``title``, ``participant`` (the address's parameter with the
    participant's id), ``required``, ``parameters`` (others to send along), and for the outcomes
    that need no stored session, ``declined``, ``full`` and ``unsent``, the ``code`` and the address
    to ``redirect`` to. It is None where the study names no recruiter. Other codes are not in it.
    """
    own_texts = {key: study.texts[name] for key, name in study.presentation.texts.items()}
    return {
        "format": FORMAT,
        "study": {
            "name": study.study.name,
            "title": study.study.title,
            "lang": study.study.language,
            "dir": study.study.direction,
        },
        # A presentation has some texts of its own in place of the general ones.
        "texts": {**study.texts, **own_texts},
        "consent": {
            "version": study.consent.version,
            "sha256": study.consent_sha256,
            "text": study.consent_text,
            "warning": study.consent.warning,
            "boxes": [asdict(box) for box in study.consent.boxes],
        },
        "settings": _settings(study, study.design.n_trials),
        "recruiter": _recruiter(study),
        "device": {"minimum_width": study.device.minimum_width, "touch": study.device.touch},
        "materials": materials_digest(study),
    }


def make_bundle(
    study: Study,
    assignment: int,
    session: str = "",
    answered: Mapping[str, Mapping[str, Any]] | None = None,
    elapsed_s: float = 0.0,
    responded: Collection[str] = (),
    trials: Sequence[Trial] = (),
) -> dict[str, Any]:
    """Return the bundle of one session.

    Parameters
    ----------
    study
        The study.
    assignment
        The participant of the design's table whose order and sides are shown.
    session
        The session's id.
    answered
        Trials answered already: ``{id that the page has: {"id": answer id, "choice": choice}}``.
    elapsed_s
        Seconds since the session began, measured by the server.
    responded
        The names of the questions answered already.
    trials
        The session's trials (see `session_trials`); by default the assignment's.

    Returns
    -------
    dict
        As in `study_info`, and ``session``, ``seat``, ``group``, ``questions``, ``responded``,
        ``practice`` and ``trials`` (each ``trial, number, kind, shown``; ``kind`` tells practice
        from all others, which of them are catch trials or checks the page never learns), ``more``
        (whether others come later), ``answered``, ``elapsed_s``.

    Raises
    ------
    InputError
        If the design has no such assignment.
    """
    if assignment not in study.design.trials:
        raise InputError(f"the design has no participant {assignment!r}")
    trials = trials or study.design.trials[assignment]
    return {
        **study_info(study),
        "settings": _settings(study, len(trials)),
        "session": session,
        "seat": assignment,
        "group": study.design.groups[assignment],
        "practice": [_shown(trial) for trial in study.practice_trials],
        "questions": [asdict(question) for question in study.questions],
        "responded": list(responded),
        **next_trials(trials),
        "answered": {trial: dict(answer) for trial, answer in (answered or {}).items()},
        "elapsed_s": elapsed_s,
    }


def next_trials(trials: Sequence[Trial], after: int = 0) -> dict[str, Any]:
    """Return the ``trials`` that a page may have after that number, and if there are ``more``."""
    shown = issued(trials)
    return {
        "trials": [_shown(trial) for trial in shown if trial.number > after],
        "more": len(shown) < len(trials),
    }


def page_checks(study: Study, assignment: int) -> dict[str, Any] | None:
    """Return what a page needs that no server of ours tells whether attention checks fail.

    The page learns digests of the answers that fail one, by which it does not know the trials; see
    ``page/checks.js``. None if sessions do not end so, or if any number can be answered.
    """
    checks = [t for t in study.design.trials[assignment] if t.kind == "attention"]
    enough = study.session.failed_checks_from
    if not checks or not enough:
        return None
    salt = f"{study.study.name}:{assignment}"
    failed = []
    for trial in checks:
        choices = study.presentation.choices(trial.shown)
        if choices is None:
            return None
        failed += [
            fnv1a(f"{salt}:{trial.page_id}:{choice}")
            for choice in choices
            if not is_right(choice, str(trial.expected))
        ]
    at_once = study.session.end_at_once
    return {"failed": sorted(failed), "salt": salt, "from": enough, "at_once": at_once}


def fnv1a(text: str) -> int:
    """Return the 32-bit FNV-1a digest (Fowler, Noll & Vo) of a text's UTF-8 bytes, as the page."""
    found = 0x811C9DC5
    for byte in text.encode():
        found = (found ^ byte) * 0x01000193 % 2**32
    return found


def outcome_link(study: Study, outcome: str, suffix: str = "") -> dict[str, str | None]:
    """Return the completion ``code`` of an outcome and the address to ``redirect`` to, or None.

    `suffix` makes the code that of one session.
    """
    if outcome not in OUTCOMES:
        raise InputError(f"there is no outcome {outcome!r}; there are {', '.join(OUTCOMES)}")
    recruiter = study.recruiter
    link = (None, None) if recruiter is None else recruiter.link(outcome, suffix)
    return dict(zip(("code", "redirect"), link, strict=True))


def module_path(study: Study) -> str:
    """Return the address of the presentation's module, relative to the page's scripts."""
    module = study.presentation.module
    return module if study.module is None else f"study/{digest(study.module)[:12]}/{module}"


def _settings(study: Study, n_trials: int) -> dict[str, Any]:
    limit = study.session.time_limit_minutes
    return {
        "minimum_rt_ms": study.session.minimum_rt_ms,
        "breaks": study.session.breaks(n_trials),
        "time_limit_s": round(limit * 60) if limit else None,
        "feedback": study.session.feedback,
        "presentation": {
            "module": module_path(study),
            "levels": study.trial.levels,
            "points": study.trial.points,
        },
        "checks": None,
        "progress": study.trial.progress,
        "n_trials": n_trials,
    }


def _recruiter(study: Study) -> dict[str, Any] | None:
    recruiter = study.recruiter
    if recruiter is None:
        return None
    names = ("name", "title", "participant", "required")
    return {
        **{name: getattr(recruiter, name) for name in names},
        "parameters": list(recruiter.parameters),
        **{outcome: outcome_link(study, outcome) for outcome in ("declined", "full", "unsent")},
    }


def _shown(trial: Trial) -> dict[str, Any]:
    shown = {"trial": trial.page_id, "number": trial.number}
    if trial.kind != "practice":
        return {**shown, "kind": "trial", "shown": dict(trial.shown)}
    return {**shown, "kind": "practice", "shown": dict(trial.shown), "expected": trial.expected}


def materials_digest(study: Study) -> str:
    """Return the SHA-256 of what a study shows and how, its trials and consent text apart."""
    return digest(_content(study))


def keep_materials(connection: sqlite3.Connection, study: Study) -> str:
    """Store what a study shows, once, and return its digest; within a transaction."""
    content = _content(study)
    connection.execute("INSERT OR IGNORE INTO materials VALUES (?, ?)", (digest(content), content))
    return digest(content)


def _content(study: Study) -> str:
    content: dict[str, Any] = {
        "contstim": version("contstim"),
        "page": page_version(),
        "texts": dict(study.texts),
        **({} if study.module is None else {"module": study.module}),
        **({} if study.adaptive is None else {"adaptive": asdict(study.adaptive)}),
    }
    # Where participants come from says nothing of what they are shown.
    for name in {item.name for item in fields(StudySettings)} - {"recruiter", "format"}:
        part = getattr(study, name)
        content[name] = [asdict(one) for one in part] if isinstance(part, tuple) else asdict(part)
    return json.dumps(content, ensure_ascii=False, sort_keys=True)
