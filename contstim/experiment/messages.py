"""What the page is given, and what it sends.

It is given JSON values, everything that it needs for one session. It never learns which side is
sentence 1: it sends a choice by side, and `Presentation.rating` turns it into a rating where the
data are collected. A bundle of a static page or a JATOS study is made with an empty session id,
which the page fills with one of its own. What it sends is checked: every field has a type, a range
and a length.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, field, fields
from importlib.metadata import version
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field

from contstim.errors import InputError
from contstim.experiment.options import OUTCOMES, StudySettings
from contstim.experiment.presentations import PRESENTATIONS, parse_detail
from contstim.experiment.study import Study
from contstim.experiment.trials import Trial, list_issued
from contstim.experiment.vendor import page_version
from contstim.files import digest
from contstim.settings import parse_settings, settings, validate_choice, validate_pattern

#: The format of bundles and of what the page sends.
FORMAT = 1

EVENT_KINDS = (
    "focus", "blur", "offline", "online", "break", "resume", "screen", "environment", "responses",
)  # fmt: skip

_ID = re.compile(r"[A-Za-z0-9-]{8,64}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)"

_Id = Annotated[str, validate_pattern(_ID.pattern, "give an id of 8 to 64 letters, digits and '-'")]
_Milliseconds = Annotated[float, Field(ge=0, le=1e10)]  # about four months
_Number = Annotated[int, Field(ge=0, le=10**6)]
_Settings = TypeVar("_Settings")


def _text_of(longest: int, printable: bool = True) -> AfterValidator:
    def check(value: str) -> str:
        # Halves of surrogate pairs, which nothing could store, are not printable either.
        fits = value.isprintable() if printable else not _SURROGATE.search(value)
        if len(value) > longest or not fits:
            raise ValueError(f"give a text of at most {longest} printable characters")
        return value

    return AfterValidator(check)


_Detail = Annotated[str, _text_of(20_000, printable=False)]

#: Characters of an event's detail, by its kind; 500 of others. The study says what responses are.
_LONGEST_DETAIL = {"environment": 5000, "responses": 64_000}


class RequestError(InputError):
    """Something that a page asked for and is not given; `status` is of HTTP."""

    def __init__(self, status: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.more = more


@settings
class Answer:
    """One answer to one trial, as a page sent it; see the fields of the export."""

    id: _Id
    trial: Annotated[str, _text_of(64)]
    choice: int
    rt_ms: _Milliseconds
    answered_at: Annotated[str, validate_pattern(f"({_TIME})?", "give an ISO 8601 time")] = ""
    input: Annotated[str, validate_choice(("key", "mouse", "touch", "pen", "unknown"))] = "unknown"
    focus_losses: _Number = 0
    hidden_ms: _Milliseconds = 0.0
    shown: _Number = 1
    detail: _Detail = ""


@settings
class PageEvent:
    """Something that happened in a session, such as a lost focus."""

    id: _Id
    kind: Annotated[str, validate_choice(EVENT_KINDS)]
    at: Annotated[str, validate_pattern(_TIME, "give an ISO 8601 time")]
    detail: Annotated[str, _text_of(64_000, printable=False)] = ""

    def __post_init__(self) -> None:
        longest = _LONGEST_DETAIL.get(self.kind, 500)
        if len(self.detail) > longest:
            raise InputError(f"detail is longer than {longest} characters")


@settings
class Responses:
    """Answers to the study's questions, by their names, and how long the whole screen took."""

    responses: dict[str, Any]
    rt_ms: _Milliseconds | None = None


@settings
class Consent:
    """Consent given to a version of the text."""

    version: Annotated[str, _text_of(200)]
    sha256: Annotated[str, _text_of(64)]


@settings
class SessionRequest:
    """Request to open a session.

    Attributes
    ----------
    consent
        Version and digest of the consent form that was shown.
    participant
        Participant id assigned by the recruiter, if any.
    request
        Id that the page made for this request. Repeating it opens the same session, so that a lost
        reply costs no assignment.
    parameters
        URL query parameters that the study stores.
    """

    consent: Consent
    participant: Annotated[str, _text_of(200)] | None = None
    request: _Id | None = None
    parameters: dict[str, Annotated[str, _text_of(200)]] = field(default_factory=dict)

    @property
    def key(self) -> str | None:
        """What tells the browser in which a session was begun: the request, as the participant's.

        So a request is no way into the session of a participant with an id.
        """
        if self.request is None or self.participant is None:
            return self.request
        return f"{self.request} {self.participant}"


def parse_json(body: bytes | str) -> dict[str, Any]:
    """Read a JSON object.

    Raises
    ------
    InputError
        If it is none, or no valid JSON (NaN and infinities are none).
    """
    try:
        text = body if isinstance(body, str) else body.decode("utf-8")
        value = json.loads(text, parse_constant=int)  # which refuses NaN and infinities
    except (ValueError, RecursionError):
        raise InputError("the body is not JSON") from None
    if not isinstance(value, dict):
        raise InputError("the body is not a JSON object")
    return value


def find_id(value: Any) -> str | None:
    """Return the id that an answer or event gives itself, None if it gives none that is one."""
    name = value.get("id") if isinstance(value, dict) else None
    return name if isinstance(name, str) and _ID.fullmatch(name) else None


def read_answer(value: Any) -> Answer:
    """Check an answer; fields that have no meaning are passed over.

    Raises
    ------
    InputError
        Naming the field.
    """
    return _read(Answer, value, "an answer")


def read_event(value: Any) -> PageEvent:
    """Check an event; its detail, a text or any JSON value, is kept as text.

    Raises
    ------
    InputError
        Naming the field.
    """
    if isinstance(value, dict) and not isinstance(value.get("detail", ""), str):
        value = {**value, "detail": json.dumps(value["detail"], sort_keys=True)}
    return _read(PageEvent, value, "an event")


def read_responses(study: Study, detail: str) -> Responses:
    """Check the detail of an event of the kind ``responses`` by what the study asks.

    Raises
    ------
    InputError
        If it holds anything but possible answers to questions and boxes of the study.
    """
    event = _read(Responses, parse_detail(detail), "detail")
    questions = {question.name: question for question in study.questions}
    boxes = {box.name for box in study.consent.boxes}
    for name, response in event.responses.items():
        if name not in questions and name not in boxes:
            raise InputError(f"the study has no question {name[:64]!r}")
        if not (response in ("yes", "no") if name in boxes else questions[name].accepts(response)):
            raise InputError(f"{name} has an answer that the page does not offer")
    return event


def read_session_request(body: Mapping[str, Any], names: Collection[str]) -> SessionRequest:
    """Check the opening of a session; of its parameters those in `names` are kept.

    Raises
    ------
    InputError
        Naming the field.
    """
    consent = body.get("consent")
    if not isinstance(consent, dict) or consent.get("given") is not True:
        raise InputError("consent is not given")
    parameters = body.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise InputError("parameters is not an object")
    participant = body.get("participant")
    if isinstance(participant, str):
        participant = participant.strip()
        if not participant:
            raise InputError("participant is empty")
    return parse_settings(
        SessionRequest,
        {
            "consent": {name: consent[name] for name in ("version", "sha256") if name in consent},
            "participant": participant,
            "request": body.get("request"),
            "parameters": {name: parameters[name] for name in names if name in parameters},
        },
    )


def _read(kind: type[_Settings], value: Any, what: str) -> _Settings:
    if not isinstance(value, dict):
        raise InputError(f"{what} is an object")
    return parse_settings(kind, {key: value[key] for key in kind.__annotations__ if key in value})


def make_study_info(study: Study) -> dict[str, Any]:
    """Return what the page shows before consent.

    ``recruiter`` holds ``name``, ``title``, ``participant`` (the address's parameter with the
    participant's id), ``required``, ``parameters`` (others to send along), and for the outcomes
    that need no stored session, ``declined``, ``full`` and ``unsent``, the ``code`` and the address
    to ``redirect`` to. It is None where the study names no recruiter. Other codes are not in it.
    """
    own_texts = {key: study.texts[name] for key, name in study.presentation.text_keys.items()}
    recruiter = None
    if study.recruiter is not None:
        names = ("name", "title", "participant", "required")
        recruiter = {
            **{name: getattr(study.recruiter, name) for name in names},
            "parameters": list(study.recruiter.parameters),
            **{
                outcome: make_outcome_link(study, outcome)
                for outcome in ("declined", "full", "unsent")
            },
        }
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
        "recruiter": recruiter,
        "device": {"minimum_width": study.device.minimum_width, "touch": study.device.touch},
        "materials": materials_digest(study),
    }


def make_bundle(
    study: Study,
    assignment: int,
    session: str = "",
    answered: Collection[str] = (),
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
        The ids, as the page has them, of trials answered already.
    elapsed_s
        Seconds since the session began, measured by the server.
    responded
        The names of the questions answered already.
    trials
        The session's trials (see `session_trials`); by default the assignment's.

    Returns
    -------
    dict
        As in `make_study_info`, and ``session, assignment, group, digest`` (of its trials;
        the page's raw log has it too), ``questions``, ``responded``, ``practice`` and ``trials``
        (each ``trial, number, kind, shown``; ``kind`` tells practice from all others, not which of
        them are catch trials or checks), ``more`` (whether others come later),
        ``answered``, ``elapsed_s``.

    Raises
    ------
    InputError
        If the design has no such assignment.
    """
    if assignment not in study.design.trials:
        raise InputError(f"the design has no participant {assignment!r}")
    trials = trials or study.design.trials[assignment]
    return {
        **make_study_info(study),
        "settings": _settings(study, len(trials)),
        "session": session,
        "assignment": assignment,
        "group": study.design.groups[assignment],
        "digest": study.trials_digests[assignment],
        "practice": [_shown(trial) for trial in study.practice_trials],
        "questions": [asdict(question) for question in study.questions],
        "responded": list(responded),
        **list_trials_after(trials),
        "answered": {trial: {} for trial in answered},
        "elapsed_s": elapsed_s,
    }


def list_trials_after(trials: Sequence[Trial], after: int = 0) -> dict[str, Any]:
    """Return the ``trials`` that a page may have after that number, and if there are ``more``."""
    shown = list_issued(trials)
    return {
        "trials": [_shown(trial) for trial in shown if trial.number > after],
        "more": len(shown) < len(trials),
    }


def make_page_checks(study: Study, assignment: int) -> dict[str, Any] | None:
    """Return what a page needs that no server of ours tells whether attention checks fail.

    The page learns digests of the answers that fail one, which name no trial; but whoever tries all
    choices finds them, as nothing that a page can check is hidden from its reader. See
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
            if not study.presentation.is_correct(choice, str(trial.expected))
        ]
    at_once = study.session.end_immediately
    return {"failed": sorted(failed), "salt": salt, "from": enough, "at_once": at_once}


def fnv1a(text: str) -> int:
    """Return the 32-bit FNV-1a digest (Fowler, Noll & Vo) of a text's UTF-8 bytes, as the page."""
    found = 0x811C9DC5
    for byte in text.encode():
        found = (found ^ byte) * 0x01000193 % 2**32
    return found


def make_outcome_link(study: Study, outcome: str) -> dict[str, str | None]:
    """Return the completion ``code`` of an outcome and the address to ``redirect`` to, or None."""
    if outcome not in OUTCOMES:
        raise InputError(f"there is no outcome {outcome!r}; there are {', '.join(OUTCOMES)}")
    recruiter = study.recruiter
    link = (None, None) if recruiter is None else recruiter.make_completion_link(outcome)
    return dict(zip(("code", "redirect"), link, strict=True))


def module_path(study: Study) -> str:
    """Return the address of the presentation's module, relative to the page's scripts."""
    module = study.presentation.module
    return module if study.module is None else f"study/{digest(study.module)[:12]}/{module}"


def _settings(study: Study, n_trials: int) -> dict[str, Any]:
    return {
        "minimum_rt_ms": study.session.minimum_rt_ms,
        "breaks": study.session.list_breaks(n_trials),
        "time_limit_s": round(limit * 60) if (limit := study.session.time_limit_minutes) else None,
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


def _shown(trial: Trial) -> dict[str, Any]:
    shown = {"trial": trial.page_id, "number": trial.number, "shown": dict(trial.shown)}
    if trial.kind != "practice":
        return {**shown, "kind": "trial"}
    return {**shown, "kind": "practice", "expected": trial.expected}


def materials_digest(study: Study) -> str:
    """Return the SHA-256 of what a study shows and how, its trials and consent text apart."""
    return digest(_content(study))


def store_materials(connection: sqlite3.Connection, study: Study) -> str:
    """Store what a study shows, once, and return its digest; within a transaction."""
    content = _content(study)
    connection.execute("INSERT OR IGNORE INTO materials VALUES (?, ?)", (digest(content), content))
    return digest(content)


def _content(study: Study) -> str:
    package = PRESENTATIONS.package(study.trial.presentation)
    content: dict[str, Any] = {
        "contstim": version("contstim"),
        "page": page_version(),
        "texts": dict(study.texts),
        **({} if study.module is None else {"module": study.module}),
        **({"package": package} if package else {}),
        **({} if study.adaptive is None else {"adaptive": asdict(study.adaptive)}),
    }
    # Where participants come from says nothing of what they are shown.
    for name in {item.name for item in fields(StudySettings)} - {"recruiter", "format", "adaptive"}:
        part = getattr(study, name)
        content[name] = [asdict(one) for one in part] if isinstance(part, tuple) else asdict(part)
    return json.dumps(content, ensure_ascii=False, sort_keys=True)
