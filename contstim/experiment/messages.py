"""JSON messages that the experiment page sends, and their validation.

Every field is checked for its type, range and length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field

from contstim.errors import InputError
from contstim.experiment.answer_details import parse_detail
from contstim.experiment.study import Study
from contstim.settings import parse_settings, settings, validate_choice, validate_pattern

EVENT_KINDS = (
    "focus", "blur", "offline", "online", "break", "resume", "screen", "environment", "responses",
)  # fmt: skip

# Maximum number of characters in the detail of an event, by the event's kind.
_MAX_DETAIL = dict.fromkeys(EVENT_KINDS, 500) | {"environment": 5000, "responses": 64_000}

_ID = re.compile(r"[A-Za-z0-9-]{8,64}")
_SURROGATE = re.compile("[\ud800-\udfff]")


def _make_text_validator(max_length: int, printable: bool = True) -> AfterValidator:
    """Return a pydantic validator for texts of at most `max_length` characters.

    The validator also refuses surrogate code points, which cannot be stored, and, if `printable` is
    True, control characters.
    """

    def check(value: str) -> str:
        # Surrogate code points cannot be encoded as UTF-8. `isprintable` is False for them, too.
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
    """Request of the web page that the server refuses.

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
    """Answer to one trial, as sent by the web page.

    Attributes
    ----------
    id
        Random id, by which an answer that is sent twice is recognised.
    trial
        Id of the trial that was answered.
    choice
        Number of the chosen option.
    rt_ms
        Response time in milliseconds, measured by the page.
    answered_at
        Time of the answer on the participant's clock, in ISO 8601 format.
    input
        Device with which the participant answered, for example ``key`` or ``touch``.
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
    trial: Annotated[str, _make_text_validator(64)]
    choice: int
    rt_ms: _Milliseconds
    answered_at: _OptionalTime = ""
    input: Annotated[str, validate_choice(("key", "mouse", "touch", "pen", "unknown"))] = "unknown"
    focus_losses: _Number = 0
    hidden_ms: _Milliseconds = 0.0
    shown: _Number = 1
    detail: Annotated[str, _make_text_validator(20_000, printable=False)] = ""


@settings
class PageEvent:
    """Event of a session other than an answer, e.g. a loss of focus.

    Attributes
    ----------
    id
        Random id of the event.
    kind
        Kind of event, for example ``focus``, ``blur`` or ``responses``; one of `EVENT_KINDS`.
    at
        Time of the event on the participant's clock, in ISO 8601 format.
    detail
        Further data as text.
    """

    id: _Id
    kind: Annotated[str, validate_choice(EVENT_KINDS)]
    at: _Time
    detail: Annotated[str, _make_text_validator(64_000, printable=False)] = ""

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

    version: Annotated[str, _make_text_validator(200)]
    sha256: Annotated[str, _make_text_validator(64)]


@settings
class SessionRequest:
    """Request to open a session.

    Attributes
    ----------
    consent
        Version and digest of the consent form that was shown.
    participant
        Participant id assigned by the recruitment platform, if any.
    request
        Id that the page made for this request. Repeating it opens the same session, so that a lost
        reply costs no assignment.
    parameters
        URL query parameters that the study stores.
    """

    consent: Consent
    participant: Annotated[str, _make_text_validator(200)] | None = None
    request: _Id | None = None
    parameters: dict[str, Annotated[str, _make_text_validator(200)]] = field(default_factory=dict)

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
    """Return the id of an answer or event that has not been validated.

    The server needs the id to report an error about the answer or event.

    Parameters
    ----------
    value
        JSON value, as received from the web page.

    Returns
    -------
    str or None
        Id; None if the value has no valid one.
    """
    identifier = value.get("id") if isinstance(value, dict) else None
    is_valid = isinstance(identifier, str) and _ID.fullmatch(identifier)
    return identifier if is_valid else None


def read_answer(value: Any) -> Answer:
    """Check an answer from the web page; unknown fields are ignored.

    Parameters
    ----------
    value
        Answer as a JSON value.

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
    """Check an event from the web page; unknown fields are ignored.

    Parameters
    ----------
    value
        Event as a JSON value. If its field ``detail`` is not a text, it is converted to JSON text.

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
    """Parse and check a participant's responses to the questions on one screen of the web page.

    The screen is a questionnaire or the consent form, in which the questions are check boxes.

    Parameters
    ----------
    study
        Study that defines the questions and the consent form.
    detail
        JSON text with the responses, as sent by the page (field ``detail`` of the event).

    Returns
    -------
    Responses
        Checked responses.

    Raises
    ------
    InputError
        If a response belongs to no question of the study, or is none of the offered options.
    """
    screen = _read(Responses, parse_detail(detail), "detail")
    # A response belongs to a question of the study or to a check box of the consent form.
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
    parameters = body.get("parameters") or {}  # of the page's URL
    if not isinstance(parameters, dict):
        raise InputError("parameters is not an object")
    # Participant id of the recruitment platform, if any.
    participant = body.get("participant")
    if isinstance(participant, str):
        participant = participant.strip()
        if not participant:
            raise InputError("participant is empty")
    # Check the types of the known fields and drop all others.
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
    """Validate a JSON object and convert it to an instance of a message class.

    Unknown fields of the object are ignored.

    Parameters
    ----------
    kind
        Class of the message, such as `Answer`.
    value
        JSON value.
    description
        Noun for the error message, such as "an answer".
    """
    if not isinstance(value, dict):
        raise InputError(f"{description} is an object")
    return parse_settings(kind, {key: value[key] for key in kind.__annotations__ if key in value})
