"""What the page sends, checked: every field has a type, a range and a length."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field

from contstim.errors import InputError
from contstim.settings import build, matching, one_of, settings

EVENT_KINDS = (
    "focus", "blur", "offline", "online", "break", "resume", "screen", "environment", "responses",
)  # fmt: skip

_ID = re.compile(r"[A-Za-z0-9-]{8,64}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)"

_Id = Annotated[str, matching(_ID.pattern, "give an id of 8 to 64 letters, digits and '-'")]
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


class RefusedError(InputError):
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
    answered_at: Annotated[str, matching(f"({_TIME})?", "give an ISO 8601 time")] = ""
    input: Annotated[str, one_of(("key", "mouse", "touch", "pen", "unknown"))] = "unknown"
    focus_losses: _Number = 0
    hidden_ms: _Milliseconds = 0.0
    shown: _Number = 1
    detail: _Detail = ""


@settings
class PageEvent:
    """Something that happened in a session, such as a lost focus."""

    id: _Id
    kind: Annotated[str, one_of(EVENT_KINDS)]
    at: Annotated[str, matching(_TIME, "give an ISO 8601 time")]
    detail: _Detail = ""

    def __post_init__(self) -> None:
        if len(self.detail) > 500 and self.kind not in ("environment", "responses"):
            raise InputError("detail is longer than 500 characters")


@settings
class Consent:
    """Consent given to a version of the text."""

    version: Annotated[str, _text_of(200)]
    sha256: Annotated[str, _text_of(64)]


@settings
class Opening:
    """What opens a session.

    Attributes
    ----------
    consent
        To which text.
    participant
        The recruiter's id, if there is one.
    request
        An id that the page made for this opening; the same again opens the same session, so that
        a reply that was lost costs no assignment.
    parameters
        Parameters of the address that the study keeps.
    """

    consent: Consent
    participant: Annotated[str, _text_of(200)] | None = None
    request: _Id | None = None
    parameters: dict[str, Annotated[str, _text_of(200)]] = field(default_factory=dict)


def parse_json(body: bytes | str) -> dict[str, Any]:
    """Read a JSON object.

    Raises
    ------
    InputError
        If it is none, or no valid JSON (NaN and infinities are none).
    """
    try:
        text = body if isinstance(body, str) else body.decode("utf-8")
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise InputError("the body is not JSON") from None
    if not isinstance(value, dict):
        raise InputError("the body is not a JSON object")
    return value


def _no_constant(name: str) -> float:
    raise ValueError(name)


def named_id(value: Any) -> str | None:
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


def read_responses(detail: str) -> dict[str, Any]:
    """Return the ``responses``, by question, and ``rt_ms`` of an event; empty if it holds none."""
    try:
        value = json.loads(detail)
    except ValueError:
        value = None
    if not isinstance(value, dict) or not isinstance(value.get("responses"), dict):
        return {"responses": {}, "rt_ms": None}
    return {"responses": value["responses"], "rt_ms": value.get("rt_ms")}


def read_opening(body: Mapping[str, Any], kept: Collection[str]) -> Opening:
    """Check the opening of a session; of its parameters those in `kept` are kept.

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
    return build(
        Opening,
        {
            "consent": {name: consent[name] for name in ("version", "sha256") if name in consent},
            "participant": participant,
            "request": body.get("request"),
            "parameters": {name: parameters[name] for name in kept if name in parameters},
        },
    )


def _read(kind: type[_Settings], value: Any, what: str) -> _Settings:
    if not isinstance(value, dict):
        raise InputError(f"{what} is an object")
    return build(kind, {key: value[key] for key in kind.__annotations__ if key in value})
