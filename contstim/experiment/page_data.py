"""JSON messages that the experiment page receives, and the record of what participants were shown.

The data of a session are one JSON object with everything that the page needs: settings, texts,
questions and trials. They do not contain the side of sentence 1. The page sends choices by side,
and `Presentation.choice_to_rating` converts them to ratings. Without a server (static pages and
JATOS), the session id is empty, and the page generates a random one.

The *materials* are the settings and texts that determine how a study looks, without its trials.
They are stored with the data under their SHA-256 digest.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import asdict, fields
from importlib.metadata import version
from typing import Any

from contstim.errors import InputError
from contstim.experiment.options import StudySettings
from contstim.experiment.presentations import PRESENTATIONS
from contstim.experiment.recruitment import OUTCOMES
from contstim.experiment.study import Study
from contstim.experiment.trials import Trial, list_issued
from contstim.experiment.vendor import page_version
from contstim.files import digest

#: Version of the message format.
FORMAT = 1


def make_study_info(study: Study) -> dict[str, Any]:
    """Return the JSON data with which the web page shows the consent form of a study.

    The data contain no trials, because participants have not agreed to take part yet.

    Parameters
    ----------
    study
        Study to describe.

    Returns
    -------
    dict
        Texts, consent form and settings of the study. ``recruiter`` describes the recruitment
        platform; it is None if there is none. Otherwise it has the keys ``name``, ``title``,
        ``participant`` (URL query parameter with the participant's id), ``required``,
        ``parameters`` (further query parameters to send), and the links (see `make_outcome_link`)
        of the outcomes ``declined``, ``full`` and ``unsent``, which end without a stored session.
        Completion codes of other outcomes are not disclosed.
    """
    presentation_texts = {
        key: study.texts[name] for key, name in study.presentation.text_keys.items()
    }
    recruiter = None
    if study.recruiter is not None:
        names = ("name", "title", "participant", "required")
        recruiter = {name: getattr(study.recruiter, name) for name in names}
        recruiter["parameters"] = list(study.recruiter.parameters)
        for outcome in ("declined", "full", "unsent"):
            recruiter[outcome] = make_outcome_link(study, outcome)
    return {
        "format": FORMAT,
        "study": {
            "name": study.study.name,
            "title": study.study.title,
            "lang": study.study.language,
            "dir": study.study.direction,
        },
        # Texts of the presentation replace general texts.
        "texts": {**study.texts, **presentation_texts},
        "consent": {
            "version": study.consent.version,
            "sha256": study.consent_sha256,
            "text": study.consent_text,
            "warning": study.consent.warning,
            "boxes": [asdict(box) for box in study.consent.boxes],
        },
        "settings": _make_settings(study, study.design.n_trials),
        "recruiter": recruiter,
        "device": {"minimum_width": study.device.minimum_width, "touch": study.device.touch},
        "materials": digest_materials(study),
    }


def make_session_data(
    study: Study,
    assignment: int,
    session: str = "",
    answered_trials: Collection[str] = (),
    elapsed_s: float = 0.0,
    answered_questions: Collection[str] = (),
    trials: Sequence[Trial] = (),
) -> dict[str, Any]:
    """Return all JSON data that the web page needs for the session of one participant.

    If the session is resumed, the data also list the trials and questions that were answered
    before.

    Parameters
    ----------
    study
        Study to which the session belongs.
    assignment
        Number of the assignment: the list of trials for one participant of the design.
    session
        Id of the session.
    answered_trials
        Ids of the trials that have been answered, as the page uses them.
    elapsed_s
        Seconds since the start of the session, measured by the server.
    answered_questions
        Names of the questions that have been answered.
    trials
        Trials of the session, some of which an adaptive study has chosen; by default the trials of
        the assignment.

    Returns
    -------
    dict
        All keys of `make_study_info`, and the following ones.

        - ``session``, ``assignment``, ``group``, ``elapsed_s``: as in the parameters
        - ``digest``: hash of the trials, which the page sends back with its answers
        - ``questions``: all questions of the study; ``responded``: names of answered ones
        - ``practice``: practice trials
        - ``trials``, ``more``: trials issued so far and whether more follow, see
          `make_trials_message`
        - ``answered``: one empty object per answered trial, by the trial's id

        The ``kind`` of a trial is ``practice`` or ``trial``. Participants therefore cannot
        recognise catch trials and attention checks.

    Raises
    ------
    InputError
        If the design does not contain the assignment.
    """
    if assignment not in study.design.trials:
        raise InputError(f"the design has no participant {assignment!r}")
    trials = trials or study.design.trials[assignment]
    return {
        **make_study_info(study),  # texts and consent form
        "settings": _make_settings(study, len(trials)),
        "session": session,
        "assignment": assignment,
        "group": study.design.groups[assignment],
        # The page returns the digest with its answers, to detect that trials have changed.
        "digest": study.trials_digests[assignment],
        "practice": [_make_trial(trial) for trial in study.practice_trials],
        "questions": [asdict(question) for question in study.questions],
        "responded": list(answered_questions),
        **make_trials_message(trials),  # the keys "trials" and "more"
        # The page uses only the keys, the ids of the trials.
        "answered": {trial: {} for trial in answered_trials},
        "elapsed_s": elapsed_s,
    }


def make_trials_message(trials: Sequence[Trial], after: int = 0) -> dict[str, Any]:
    """Return a JSON object with the trials that the web page has not received yet.

    In an adaptive study, trials are selected in blocks while the session runs, and only selected
    trials are returned. In other studies all trials are known from the start.

    Parameters
    ----------
    trials
        Trials of a session.
    after
        Number of the last trial that the page has received; 0 if it has none.

    Returns
    -------
    dict
        ``trials`` is a list of objects with the keys ``trial`` (id), ``number``, ``kind`` and
        ``shown`` (texts by field). ``more`` is True if some trials have not been selected yet.
    """
    issued_trials = list_issued(trials)
    return {
        "trials": [_make_trial(trial) for trial in issued_trials if trial.number > after],
        "more": len(issued_trials) < len(trials),
    }


def hash_wrong_answers(study: Study, assignment: int) -> dict[str, Any] | None:
    """Return data with which a page without a server detects failed attention checks.

    The page hashes every answer and looks it up in a list of hashes of wrong answers to attention
    checks (``page/checks.js``). The list therefore does not reveal which trials are checks.
    Participants who read the script and try all choices can still find out.

    Parameters
    ----------
    study
        Study with the attention checks.
    assignment
        Number of the assignment: the list of trials for one participant of the design.

    Returns
    -------
    dict or None
        ``failed`` is the list of hashes of wrong answers, ``salt`` the text that is hashed before
        each answer, ``from`` the number of failed checks at which the outcome becomes
        ``failed_checks``, and ``at_once`` whether the session then ends immediately. None if failed
        checks do not matter, or if the possible answers cannot be enumerated.
    """
    checks = [trial for trial in study.design.trials[assignment] if trial.kind == "attention"]
    limit = study.session.failed_checks_limit
    if not checks or not limit:
        return None  # failed checks have no effect
    # The page recognises wrong answers by their hashes, so that its source does not reveal which
    # trials are attention checks.
    salt = f"{study.study.name}:{assignment}"
    wrong_answers = []
    for trial in checks:
        choices = study.presentation.choices(trial.shown)
        if choices is None:
            return None  # the possible answers cannot be listed
        for choice in choices:
            if not study.presentation.is_correct(choice, str(trial.expected)):
                wrong_answers.append(fnv1a(f"{salt}:{trial.page_id}:{choice}"))
    return {
        # Sorted hashes do not reveal the order of the checks.
        "failed": sorted(wrong_answers),
        "salt": salt,
        "from": limit,
        "at_once": study.session.end_immediately,
    }


def fnv1a(text: str) -> int:
    """Return the 32-bit FNV-1a digest (Fowler, Noll & Vo) of a text in UTF-8."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 % 2**32
    return value


def make_outcome_link(study: Study, outcome: str) -> dict[str, str | None]:
    """Return the link back to the recruitment platform at the end of a session.

    Parameters
    ----------
    study
        Study with the settings of the platform, if any.
    outcome
        Outcome of the session, such as ``complete`` or ``screened_out``; one of `OUTCOMES`.

    Returns
    -------
    dict
        Completion ``code`` to show, and URL to ``redirect`` to; each may be None.
    """
    if outcome not in OUTCOMES:
        raise InputError(f"there is no outcome {outcome!r}; there are {', '.join(OUTCOMES)}")
    if study.recruiter is None:
        return {"code": None, "redirect": None}
    code, redirect = study.recruiter.make_completion_link(outcome)
    return {"code": code, "redirect": redirect}


def get_module_path(study: Study) -> str:
    """Return the URL path of the presentation's JavaScript module, relative to the page's scripts.

    The path of a custom module contains a digest of its source, so that browsers never use an
    outdated copy from their cache.

    Parameters
    ----------
    study
        Study with the presentation.

    Returns
    -------
    str
        Path, for example ``presentations/choice.js``.
    """
    module = study.presentation.module
    return module if study.module is None else f"study/{digest(study.module)[:12]}/{module}"


def _make_settings(study: Study, n_trials: int) -> dict[str, Any]:
    """Return the settings that the web page needs to show a session.

    Parameters
    ----------
    study
        Study to which the session belongs.
    n_trials
        Number of trials of the session, which determines where breaks occur.

    Returns
    -------
    dict
        JSON object. Its entry ``checks`` is filled only for a page without a server, see
        `hash_wrong_answers`.
    """
    time_limit = study.session.time_limit_minutes  # 0 for no limit
    return {
        "minimum_rt_ms": study.session.minimum_rt_ms,
        "breaks": study.session.list_breaks(n_trials),
        "time_limit_s": round(time_limit * 60) if time_limit else None,
        "feedback": study.session.feedback,
        "presentation": {
            "module": get_module_path(study),
            "levels": study.trial.levels,
            "points": study.trial.points,
        },
        "checks": None,  # a server checks the answers itself
        "progress": study.trial.progress,
        "n_trials": n_trials,
    }


def _make_trial(trial: Trial) -> dict[str, Any]:
    """Return a trial as the web page receives it.

    Only practice trials disclose their kind and expected answer, since the page gives feedback on
    them. All other trials look alike.
    """
    message = {"trial": trial.page_id, "number": trial.number, "shown": dict(trial.shown)}
    if trial.kind != "practice":
        return {**message, "kind": "trial"}
    return {**message, "kind": "practice", "expected": trial.expected}


def digest_materials(study: Study) -> str:
    """Return the SHA-256 digest of a study's materials.

    Materials are the settings and texts that determine how the study is shown, without its trials.

    Parameters
    ----------
    study
        Study with the materials.

    Returns
    -------
    str
        Digest in hexadecimal digits, which identifies the stored materials.
    """
    return digest(_serialise_materials(study))


def store_materials(connection: sqlite3.Connection, study: Study) -> str:
    """Store the materials of a study under their digest, unless they are stored already.

    Materials are the settings and texts that determine how the study is shown, without its trials
    and the text of its consent form, which are stored elsewhere.

    Parameters
    ----------
    connection
        Connection to the database, within a transaction.
    study
        Study with the materials.

    Returns
    -------
    str
        SHA-256 digest of the materials.
    """
    content = _serialise_materials(study)
    connection.execute("INSERT OR IGNORE INTO materials VALUES (?, ?)", (digest(content), content))
    return digest(content)


def _serialise_materials(study: Study) -> str:
    """Return the settings and texts that determine how a study is shown, as JSON text.

    The text also contains the versions of contstim, of the page, and of the package or the source
    code of a custom presentation.
    """
    content: dict[str, Any] = {
        "contstim": version("contstim"),
        "page": page_version(),
        "texts": dict(study.texts),
    }
    # Package or JavaScript source of a presentation (how trials are shown) that is not bundled.
    package = PRESENTATIONS.package(study.trial.presentation)
    if package:
        content["package"] = package
    if study.module is not None:
        content["module"] = study.module
    if study.adaptive is not None:
        content["adaptive"] = asdict(study.adaptive)
    # Add all other tables of settings. The recruitment platform does not influence the display.
    for name in {item.name for item in fields(StudySettings)} - {"recruiter", "format", "adaptive"}:
        value = getattr(study, name)
        is_list = isinstance(value, tuple)
        content[name] = [asdict(item) for item in value] if is_list else asdict(value)
    return json.dumps(content, ensure_ascii=False, sort_keys=True)
