"""What the page sends, checked: every field has a type, a range and a length."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from contstim.errors import InputError
from contstim.experiment.trials import CHOICES_ON_SCREEN

__all__ = [
    "EVENT_KINDS",
    "Answer",
    "Consent",
    "Opening",
    "PageEvent",
    "RefusedError",
    "named_id",
    "parse_json",
    "read_answer",
    "read_event",
    "read_opening",
]

EVENT_KINDS = ("focus", "blur", "offline", "online", "break", "resume", "screen")
_INPUTS = ("key", "mouse", "touch", "pen", "unknown")

_ID = re.compile(r"[A-Za-z0-9-]{8,64}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")
_MOST_MS = 1e10  # about four months


class RefusedError(InputError):
    """Something that a page asked for and is not given; `status` is of HTTP."""

    def __init__(self, status: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.more = more


@dataclass(frozen=True)
class Answer:
    """One answer to one trial, as a page sent it; see the fields of the export."""

    answer: str
    trial: str
    choice: int
    rt_ms: float
    answered_at: str
    input: str
    focus_losses: int
    hidden_ms: float
    shown: int


@dataclass(frozen=True)
class PageEvent:
    """Something that happened in a session, such as a lost focus."""

    event: str
    kind: str
    at: str
    detail: str


@dataclass(frozen=True)
class Consent:
    """Consent given to a version of the text."""

    version: str
    sha256: str


@dataclass(frozen=True)
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
    participant: str | None
    request: str | None
    parameters: Mapping[str, str]


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


def _text(table: Mapping[str, Any], name: str, longest: int, default: str | None = None) -> str:
    value = table.get(name, default)
    # Halves of surrogate pairs, which nothing could store, are not printable either.
    if not isinstance(value, str) or len(value) > longest or not value.isprintable():
        raise InputError(f"{name} is not a text of at most {longest} printable characters")
    return value


def _match(table: Mapping[str, Any], name: str, pattern: re.Pattern[str], what: str) -> str:
    value = table.get(name)
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise InputError(f"{name} is not {what}")
    return value


def _number(
    table: Mapping[str, Any], name: str, default: float | None = None, most: float = _MOST_MS
) -> float:
    value = table.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise InputError(f"{name} is not a number from 0 to {most:g}")
    return float(value)


def _count(table: Mapping[str, Any], name: str, default: int) -> int:
    value = table.get(name, default)
    if type(value) is not int or not 0 <= value <= 10**6:
        raise InputError(f"{name} is not a whole number from 0 to 1000000")
    return value


def named_id(value: Any) -> str | None:
    """Return the id that an answer or event gives itself, None if it gives none that is one."""
    name = value.get("id") if isinstance(value, dict) else None
    return name if isinstance(name, str) and _ID.fullmatch(name) else None


def read_answer(value: Any, trials: Collection[str]) -> Answer:
    """Check an answer to one of `trials`.

    Raises
    ------
    InputError
        Naming the field.
    """
    if not isinstance(value, dict):
        raise InputError("an answer is an object")
    answer = _match(value, "id", _ID, "an id of 8 to 64 letters, digits and '-'")
    trial = value.get("trial")
    if not isinstance(trial, str) or trial not in trials:
        raise InputError("trial is none of this session's trials")
    choice = value.get("choice")
    if type(choice) is not int or choice not in CHOICES_ON_SCREEN:
        raise InputError("choice is not one of -3, -2, -1, 1, 2, 3")
    rt_ms = _number(value, "rt_ms")
    answered_at = value.get("answered_at", "")
    if answered_at != "":
        answered_at = _match(value, "answered_at", _TIME, "an ISO 8601 time")
    given = value.get("input", "unknown")
    if not isinstance(given, str) or given not in _INPUTS:
        raise InputError(f"input is not one of {', '.join(_INPUTS)}")
    return Answer(
        answer=answer,
        trial=trial,
        choice=choice,
        rt_ms=rt_ms,
        answered_at=answered_at,
        input=given,
        focus_losses=_count(value, "focus_losses", 0),
        hidden_ms=_number(value, "hidden_ms", 0),
        shown=_count(value, "shown", 1),
    )


def read_event(value: Any) -> PageEvent:
    """Check an event; its detail, a text or any JSON value, is kept as text.

    Raises
    ------
    InputError
        Naming the field.
    """
    if not isinstance(value, dict):
        raise InputError("an event is an object")
    event = _match(value, "id", _ID, "an id of 8 to 64 letters, digits and '-'")
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in EVENT_KINDS:
        raise InputError(f"kind is not one of {', '.join(EVENT_KINDS)}")
    at = _match(value, "at", _TIME, "an ISO 8601 time")
    detail = value.get("detail", "")
    if not isinstance(detail, str):
        detail = json.dumps(detail, sort_keys=True)
    return PageEvent(event, kind, at, _text({"detail": detail}, "detail", 500))


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
    agreed = Consent(_text(consent, "version", 200), _text(consent, "sha256", 64))
    participant = None
    if body.get("participant") is not None:
        participant = _text(body, "participant", 200).strip()
        if not participant:
            raise InputError("participant is empty")
    request = None
    if body.get("request") is not None:
        request = _match(body, "request", _ID, "an id of 8 to 64 letters, digits and '-'")
    parameters = body.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise InputError("parameters is not an object")
    return Opening(
        agreed,
        participant,
        request,
        {name: _text(parameters, name, 200) for name in kept if name in parameters},
    )
