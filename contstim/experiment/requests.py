"""Requests to the server: reading them, within bounds, and answering what they do wrong."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from contstim.errors import InputError, OutputError
from contstim.experiment.messages import RequestError, parse_json

Endpoint = Callable[[Request], Awaitable[Response]]

#: Bytes of a request's body, and seconds that it may take to come.
MAX_BODY_BYTES = 64 * 1024
BODY_TIMEOUT = 30.0

_CLIENTS = 10_000  # whose allowance is remembered


async def read_body(request: Request) -> dict[str, Any]:
    """Read the JSON object that a request brings.

    Raises
    ------
    RequestError
        415 if it is not sent as JSON (which other sites cannot do), 413 if it is too long, 408 if
        it takes too long.
    InputError
        If it is not a JSON object.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestError(415, "send application/json")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise RequestError(413, f"the body is longer than {MAX_BODY_BYTES} bytes")
    except TimeoutError:
        raise RequestError(408, f"the body took longer than {BODY_TIMEOUT:g} seconds") from None
    return parse_json(bytes(body))


def read_bearer_token(request: Request) -> str:
    """Return the token of a session in the ``Authorization`` header.

    Raises
    ------
    RequestError
        401 if there is none.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise RequestError(401, "the session's token is missing")
    return token.strip()


def get_client_address(request: Request) -> str:
    """Return the address that a request comes from; of IPv6 the network, which one client has.

    Behind a web server it is the one that this says, if the server was told to believe it.
    """
    host = request.client.host if request.client is not None else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or ip_network((address, 64), strict=False))
    return host


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine itself.

    Requests that come from it may be those of a web server that does not say whose they are.
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class RateLimiter:
    """How often each client may do something: `most` at once, and as often again in `seconds`.

    Parameters
    ----------
    most
        How often at once; 0 for without end.
    seconds
        After which that is allowed again; it comes back bit by bit.
    clock
        Returns seconds.
    """

    def __init__(
        self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._spent: OrderedDict[str, tuple[float, float]] = OrderedDict()  # and when that was

    def left(self, client: str) -> bool:
        """Return whether the client may do it once more."""
        return not self._most or self._spent_by(client) + 1 <= self._most

    def take(self, client: str) -> bool:
        """Return whether the client may do it, and count that it did."""
        allowed = self.left(client)
        if allowed:
            self._spent[client] = (self._spent_by(client) + 1, self._clock())
            self._spent.move_to_end(client)
            if len(self._spent) > _CLIENTS:
                self._spent.popitem(last=False)
        return allowed

    def _spent_by(self, client: str) -> float:
        spent, at = self._spent.get(client, (0.0, 0.0))
        return max(0.0, spent - (self._clock() - at) * self._most / self._seconds)


def error_response(
    status: int, message: str, more: Mapping[str, Any] | None = None
) -> JSONResponse:
    """Return an error as JSON: one line, and what else the page needs to go on."""
    # The rest of a body that was not read is not waited for.
    headers = {"connection": "close"} if status in (408, 413) else None
    return JSONResponse({"error": message, **(more or {})}, status, headers)


def handle_errors(endpoint: Endpoint) -> Endpoint:
    """Turn what an endpoint raises on purpose into a reply; nothing of it was stored."""

    async def guarded(request: Request) -> Response:
        try:
            return await endpoint(request)
        except RequestError as error:
            return error_response(error.status, str(error), error.more)
        except InputError as error:
            return error_response(400, str(error))
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it
        except (sqlite3.Error, OutputError):
            return error_response(503, "the data cannot be stored now; try again")
        except asyncio.CancelledError:  # the server has waited long enough and ends what is left
            return error_response(503, "the study is being stopped; try again")

    return guarded
