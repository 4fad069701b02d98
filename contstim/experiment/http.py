"""Small parts of the server: bodies of bounded size, JSON replies, headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contstim.experiment.messages import RefusedError, parse_json

__all__ = [
    "LONGEST_BODY",
    "OWN_FORMS",
    "SafeHeaders",
    "bearer",
    "read_body",
    "read_form",
    "refusal",
]

#: Bytes of a request's body.
LONGEST_BODY = 64 * 1024

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action {forms}; frame-ancestors 'none'"
)

#: Nothing from another host, no inline script or style, no frame around the page, no forms.
_HEADERS = {
    "content-security-policy": _POLICY.format(forms="'none'"),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}

#: Headers of a page whose forms may be sent to this server.
OWN_FORMS = {"content-security-policy": _POLICY.format(forms="'self'")}


class SafeHeaders:
    """Puts the headers on every reply that has no own, also on those to requests that failed."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


async def read_body(request: Request) -> dict[str, Any]:
    """Read the JSON object that a request brings.

    Raises
    ------
    RefusedError
        415 if it is not sent as JSON (which other sites cannot do), 413 if it is too long.
    InputError
        If it is no JSON object.
    """
    return parse_json(await _read(request, "application/json"))


async def read_form(request: Request, name: str) -> str:
    """Read a field of the form that a request brings; it is empty if it is not there.

    Raises
    ------
    RefusedError
        415 if it is not sent as a form, 413 if it is too long.
    """
    body = await _read(request, "application/x-www-form-urlencoded")
    return parse_qs(body.decode("utf-8", "replace")).get(name, [""])[0].strip()


async def _read(request: Request, wanted: str) -> bytes:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != wanted:
        raise RefusedError(415, f"send {wanted}")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_BODY:
            raise RefusedError(413, f"the body is longer than {LONGEST_BODY} bytes")
    return bytes(body)


def bearer(request: Request, what: str = "session") -> str:
    """Return the token of the ``Authorization`` header, which is to be that of a `what`.

    Raises
    ------
    RefusedError
        401 if there is none.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise RefusedError(401, f"the {what}'s token is missing")
    return token.strip()


def refusal(status: int, message: str, more: Mapping[str, Any] | None = None) -> JSONResponse:
    """Return an error as JSON: one line, and what else the page needs to go on."""
    return JSONResponse({"error": message, **(more or {})}, status_code=status)
