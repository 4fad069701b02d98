"""Small parts of the server: bodies of bounded size, JSON replies, headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contstim.experiment.messages import RefusedError, parse_json

__all__ = ["LONGEST_BODY", "SafeHeaders", "bearer", "read_body", "refusal"]

#: Bytes of a request's body.
LONGEST_BODY = 64 * 1024

#: Nothing from another host, no inline script or style, no frame around the page.
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


class SafeHeaders:
    """Puts the headers on every reply, also on those to requests that failed."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
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
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RefusedError(415, "send application/json")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_BODY:
            raise RefusedError(413, f"the body is longer than {LONGEST_BODY} bytes")
    return parse_json(bytes(body))


def bearer(request: Request) -> str:
    """Return the token of the ``Authorization`` header.

    Raises
    ------
    RefusedError
        401 if there is none.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise RefusedError(401, "the session's token is missing")
    return token.strip()


def refusal(status: int, message: str, more: Mapping[str, Any] | None = None) -> JSONResponse:
    """Return an error as JSON: one line, and what else the page needs to go on."""
    return JSONResponse({"error": message, **(more or {})}, status_code=status)
