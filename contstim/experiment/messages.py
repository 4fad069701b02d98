"""JSON messages between the experiment page and its server.

The page receives everything it needs for one session, but never learns which side shows sentence 1.
It sends choices by side, which `Presentation.rating` converts to ratings. Static pages and JATOS
studies get a bundle with an empty session id, which the page replaces by a random one. Every field
that the page sends is checked for its type, range and length.
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

#: Version of the message format.
FORMAT = 1

EVENT_KINDS = (
    "focus", "blur", "offline", "online", "break", "resume", "screen", "environment", "responses",
)  # fmt: skip

# Maximum number of characters in the detail of an event, by the event's kind.
_MAX_DETAIL = dict.fromkeys(EVENT_KINDS, 500) | {"environment": 5000, "responses": 64_000}

_ID = re.compile(r"[A-Za-z0-9-]{8,64}")
_SURROGATE = re.compile("[\ud800-\udfff]")


def _text(max_length: int, printable: bool = True) -> AfterValidator:
    """Return a validator of texts that can be stored and are at most `max_length` long."""

    def check(value: str) -> str:
        # Surrogate code points cannot be encoded; they are not printable either.
        is_valid = value.isprintable() if printable else not _SURROGATE.search(value)
        if len(value) > max_length or not is_valid:
            raise ValueError(f"give a text of at most {max_length} printable characters")
        return value

    return AfterValidator(check)


_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)"
_Time = Annotated[str, validate_pattern(_TIME, "give an ISO 8601 time")]
_OptionalTime = Annotated[str, validate_pattern(f"({_TIME})?", "give an ISO 8601 time")]
_Id = Annotated[str, validate_pattern(_ID.pattern, "give an id of 8 to 64 letters, digits and '-'")]
_Milliseconds = Annotated[float, Field(ge=0, le=1e10)]  # up to four months
_Number = Annotated[int, Field(ge=0, le=10**6)]
_Message = TypeVar("_Message")


class RequestError(InputError):
    """Request of the page that the server refuses.

    Parameters
    ----------
    status
        HTTP status code.
    message
        Error message of one line.
    **details
        Further fields of the JSON response.
    """

    def __init__(self, status: int, message: str, **details: Any) -> None:
        super().__init__(message)
        self.status = status
        self.details = details


@settings
class Answer:
    """Answer to one trial, as sent by the page.

    Attributes
    ----------
    id
        Random id of the answer.
    trial
        Id of the trial.
    choice
        Chosen option as a whole number, see `Presentation.choices`.
    rt_ms
        Response time in milliseconds.
    answered_at
        Time of the answer on the participant's clock, in ISO 8601 format.
    input
        Input device.
    focus_losses
        Number of times the page lost the focus during the trial.
    hidden_ms
        Time in milliseconds during which the page was hidden.
    shown
        Number of times the trial was shown.
    detail
        Further data of the presentation, a JSON object as text.
    """

    id: _Id
    trial: Annotated[str, _text(64)]
    choice: int
    rt_ms: _Milliseconds
    answered_at: _OptionalTime = ""
    input: Annotated[str, validate_choice(("key", "mouse", "touch", "pen", "unknown"))] = "unknown"
    focus_losses: _Number = 0
    hidden_ms: _Milliseconds = 0.0
    shown: _Number = 1
    detail: Annotated[str, _text(20_000, printable=False)] = ""


@settings
class PageEvent:
    """Event of a session other than an answer, e.g. a loss of focus.

    Attributes
    ----------
    id
        Random id of the event.
    kind
        One of `EVENT_KINDS`.
    at
        Time of the event on the participant's clock, in ISO 8601 format.
    detail
        Further data as text.
    """

    id: _Id
    kind: Annotated[str, validate_choice(EVENT_KINDS)]
    at: _Time
    detail: Annotated[str, _text(64_000, printable=False)] = ""

    def __post_init__(self) -> None:
        max_length = _MAX_DETAIL[self.kind]
        if len(self.detail) > max_length:
            raise InputError(f"detail is longer than {max_length} characters")


@settings
class Responses:
    """Responses to the questions and consent boxes on one screen.

    Attributes
    ----------
    responses
        Response to each question, by the question's name.
    rt_ms
        Time spent on the screen, in milliseconds.
    """

    responses: dict[str, Any]
    rt_ms: _Milliseconds | None = None


@settings
class Consent:
    """Consent form to which a participant agreed.

    Attributes
    ----------
    version
        Version of the form.
    sha256
        SHA-256 digest of its text.
    """

    version: Annotated[str, _text(200)]
    sha256: Annotated[str, _text(64)]


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
    participant: Annotated[str, _text(200)] | None = None
    request: _Id | None = None
    parameters: dict[str, Annotated[str, _text(200)]] = field(default_factory=dict)

    @property
    def key(self) -> str | None:
        """Key that identifies the first browser of a session.

        It combines the ids of request and participant. A request id alone therefore does not open
        the session of a participant who has an id.
        """
        if self.request is None or self.participant is None:
            return self.request
        return f"{self.request} {self.participant}"


def parse_json(body: bytes | str) -> dict[str, Any]:
    """Parse a JSON object; NaN and infinities are not valid.

    Parameters
    ----------
    body
        JSON text.

    Returns
    -------
    dict
        Fields of the object.

    Raises
    ------
    InputError
        If the text is not valid JSON or not an object.
    """
    try:
        text = body if isinstance(body, str) else body.decode("utf-8")
        value = json.loads(text, parse_constant=int)  # int("NaN") raises ValueError
    except (ValueError, RecursionError):
        raise InputError("the body is not JSON") from None
    if not isinstance(value, dict):
        raise InputError("the body is not a JSON object")
    return value


def find_id(value: Any) -> str | None:
    """Return the id of an unchecked answer or event; None if it has no valid id."""
    identifier = value.get("id") if isinstance(value, dict) else None
    is_valid = isinstance(identifier, str) and _ID.fullmatch(identifier)
    return identifier if is_valid else None


def read_answer(value: Any) -> Answer:
    """Check an answer from the page; unknown fields are ignored.

    Parameters
    ----------
    value
        JSON value.

    Returns
    -------
    Answer
        Checked answer.

    Raises
    ------
    InputError
        If a field is invalid; the message names it.
    """
    return _read(Answer, value, "an answer")


def read_event(value: Any) -> PageEvent:
    """Check an event from the page; unknown fields are ignored.

    Parameters
    ----------
    value
        JSON value. If its detail is not a text, it is converted to JSON text.

    Returns
    -------
    PageEvent
        Checked event.

    Raises
    ------
    InputError
        If a field is invalid; the message names it.
    """
    if isinstance(value, dict) and not isinstance(value.get("detail", ""), str):
        value = {**value, "detail": json.dumps(value["detail"], sort_keys=True)}
    return _read(PageEvent, value, "an event")


def read_responses(study: Study, detail: str) -> Responses:
    """Check the detail of an event of the kind ``responses`` against the study's questions.

    Parameters
    ----------
    study
        Study with the questions and the boxes of the consent form.
    detail
        Detail of the event, a JSON object as text.

    Returns
    -------
    Responses
        Checked responses.

    Raises
    ------
    InputError
        If a question is unknown or a response to it is not possible.
    """
    screen = _read(Responses, parse_detail(detail), "detail")
    questions = {question.name: question for question in study.questions}
    boxes = {box.name for box in study.consent.boxes}
    for name, response in screen.responses.items():
        if name not in questions and name not in boxes:
            raise InputError(f"the study has no question {name[:64]!r}")
        is_valid = response in ("yes", "no") if name in boxes else questions[name].accepts(response)
        if not is_valid:
            raise InputError(f"{name} has an answer that the page does not offer")
    return screen


def read_session_request(body: Mapping[str, Any], names: Collection[str]) -> SessionRequest:
    """Check a request to open a session.

    Parameters
    ----------
    body
        JSON object from the page.
    names
        Names of the URL query parameters to store; others are dropped.

    Returns
    -------
    SessionRequest
        Checked request.

    Raises
    ------
    InputError
        If a field is invalid; the message names it.
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


def _read(kind: type[_Message], value: Any, description: str) -> _Message:
    """Build a message of a class from a JSON value, ignoring unknown fields."""
    if not isinstance(value, dict):
        raise InputError(f"{description} is an object")
    return parse_settings(kind, {key: value[key] for key in kind.__annotations__ if key in value})


def make_study_info(study: Study) -> dict[str, Any]:
    """Return the message that the page shows before consent.

    Parameters
    ----------
    study
        Study to describe.

    Returns
    -------
    dict
        Texts, consent form and settings of the study. ``recruiter`` is None if the study has none;
        otherwise it has the keys ``name``, ``title``, ``participant`` (URL query parameter with
        the participant's id), ``required``, ``parameters`` (further query parameters to send), and
        the links (see `make_outcome_link`) of the outcomes ``declined``, ``full`` and ``unsent``,
        which end without a stored session. Completion codes of other outcomes are not disclosed.
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


def make_bundle(
    study: Study,
    assignment: int,
    session: str = "",
    answered: Collection[str] = (),
    elapsed_s: float = 0.0,
    responded: Collection[str] = (),
    trials: Sequence[Trial] = (),
) -> dict[str, Any]:
    """Return the bundle of a session: all data that the page needs for it.

    Parameters
    ----------
    study
        Study of the session.
    assignment
        Number of the assignment in the design.
    session
        Id of the session.
    answered
        Ids of answered trials, as the page uses them.
    elapsed_s
        Seconds since the start of the session, measured by the server.
    responded
        Names of answered questions.
    trials
        Trials of the session (see `read_session_trials`); by default the trials of the assignment.

    Returns
    -------
    dict
        Keys of `make_study_info` and ``session, assignment, group, questions, responded, practice,
        answered, elapsed_s``; ``digest``, which identifies the trials and is part of the page's raw
        log; and ``trials`` and ``more``, see `list_trials_after`. The ``kind`` of a trial is
        ``practice`` or ``trial``, so that catch trials and attention checks cannot be recognised.

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
        "settings": _make_settings(study, len(trials)),
        "session": session,
        "assignment": assignment,
        "group": study.design.groups[assignment],
        "digest": study.trials_digests[assignment],
        "practice": [_make_trial(trial) for trial in study.practice_trials],
        "questions": [asdict(question) for question in study.questions],
        "responded": list(responded),
        **list_trials_after(trials),
        "answered": {trial: {} for trial in answered},
        "elapsed_s": elapsed_s,
    }


def list_trials_after(trials: Sequence[Trial], after: int = 0) -> dict[str, Any]:
    """Return the issued trials after a trial number.

    Parameters
    ----------
    trials
        Trials of a session.
    after
        Number of the last trial that the page has.

    Returns
    -------
    dict
        ``trials``, each with ``trial, number, kind, shown``, and ``more``, which says whether
        trials remain that have not been issued.
    """
    issued_trials = list_issued(trials)
    return {
        "trials": [_make_trial(trial) for trial in issued_trials if trial.number > after],
        "more": len(issued_trials) < len(trials),
    }


def make_page_checks(study: Study, assignment: int) -> dict[str, Any] | None:
    """Return digests with which a page without a server detects failed attention checks.

    The digests do not name trials. A participant who tries all choices can still identify the
    checks, since a page cannot hide anything from its reader. See ``page/checks.js``.

    Parameters
    ----------
    study
        Study with the attention checks.
    assignment
        Number of the assignment in the design.

    Returns
    -------
    dict or None
        ``failed`` (digests of wrong answers), ``salt``, ``from`` (number of failed checks that ends
        the session) and ``at_once``. None if failed checks do not end sessions, or if the possible
        answers cannot be enumerated.
    """
    checks = [trial for trial in study.design.trials[assignment] if trial.kind == "attention"]
    limit = study.session.failed_checks_limit
    if not checks or not limit:
        return None
    salt = f"{study.study.name}:{assignment}"
    failed = []
    for trial in checks:
        choices = study.presentation.choices(trial.shown)
        if choices is None:
            return None
        for choice in choices:
            if not study.presentation.is_correct(choice, str(trial.expected)):
                failed.append(fnv1a(f"{salt}:{trial.page_id}:{choice}"))
    return {
        "failed": sorted(failed),
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
    """Return the link back to the recruiter at the end of a session.

    Parameters
    ----------
    study
        Study with the recruiter.
    outcome
        One of `OUTCOMES`.

    Returns
    -------
    dict
        Completion ``code`` and URL to ``redirect`` to; both may be None.
    """
    if outcome not in OUTCOMES:
        raise InputError(f"there is no outcome {outcome!r}; there are {', '.join(OUTCOMES)}")
    code, redirect = (
        (None, None) if study.recruiter is None else study.recruiter.make_completion_link(outcome)
    )
    return {"code": code, "redirect": redirect}


def get_module_path(study: Study) -> str:
    """Return the path of the presentation's module, relative to the page's scripts."""
    module = study.presentation.module
    return module if study.module is None else f"study/{digest(study.module)[:12]}/{module}"


def _make_settings(study: Study, n_trials: int) -> dict[str, Any]:
    """Return the settings of a session with `n_trials` trials for the page."""
    time_limit = study.session.time_limit_minutes
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
        "checks": None,
        "progress": study.trial.progress,
        "n_trials": n_trials,
    }


def _make_trial(trial: Trial) -> dict[str, Any]:
    """Return a trial for the page, without its kind and expected answer except in practice."""
    message = {"trial": trial.page_id, "number": trial.number, "shown": dict(trial.shown)}
    if trial.kind != "practice":
        return {**message, "kind": "trial"}
    return {**message, "kind": "practice", "expected": trial.expected}


def digest_materials(study: Study) -> str:
    """Return the SHA-256 digest of a study's materials, see `store_materials`."""
    return digest(_dump_materials(study))


def store_materials(connection: sqlite3.Connection, study: Study) -> str:
    """Store the materials of a study, unless they are stored already, within a transaction.

    Materials are the settings and texts that determine how the study is shown, except its trials
    and the text of its consent form.

    Parameters
    ----------
    connection
        Connection within a transaction.
    study
        Study with the materials.

    Returns
    -------
    str
        SHA-256 digest of the materials.
    """
    content = _dump_materials(study)
    connection.execute("INSERT OR IGNORE INTO materials VALUES (?, ?)", (digest(content), content))
    return digest(content)


def _dump_materials(study: Study) -> str:
    """Return the materials of a study as JSON text."""
    package = PRESENTATIONS.package(study.trial.presentation)
    content: dict[str, Any] = {
        "contstim": version("contstim"),
        "page": page_version(),
        "texts": dict(study.texts),
        **({} if study.module is None else {"module": study.module}),
        **({"package": package} if package else {}),
        **({} if study.adaptive is None else {"adaptive": asdict(study.adaptive)}),
    }
    # The recruiter does not influence how the study is shown.
    for name in {item.name for item in fields(StudySettings)} - {"recruiter", "format", "adaptive"}:
        value = getattr(study, name)
        is_list = isinstance(value, tuple)
        content[name] = [asdict(item) for item in value] if is_list else asdict(value)
    return json.dumps(content, ensure_ascii=False, sort_keys=True)
