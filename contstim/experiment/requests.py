"""HTTP requests: reading them within limits, rate limits, and error responses."""

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

#: Maximum size of a request body in bytes.
MAX_BODY_BYTES = 64 * 1024

#: Maximum time for receiving a request body, in seconds.
BODY_TIMEOUT = 30.0

# Maximum number of clients that a rate limiter remembers.
_MAX_CLIENTS = 10_000


async def read_body(request: Request) -> dict[str, Any]:
    """Read the body of a request as a JSON object.

    Raises
    ------
    RequestError
        With status 415 if the content type is not JSON, 413 if the body is too long, and 408 if it
        takes too long to arrive.
    InputError
        If the body is not a JSON object.
    """
    # Browsers do not let other sites send this content type.
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
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
    """Return the session token in the ``Authorization`` header.

    Raises
    ------
    RequestError
        With status 401 if there is no token.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise RequestError(401, "the session's token is missing")
    return token.strip()


def get_client_address(request: Request) -> str:
    """Return the address that identifies a client for the rate limits.

    It is the IPv4 address, or the /64 network of an IPv6 address, because one client can use all
    addresses of this network. Behind a trusted reverse proxy, it is the address of the client of
    the proxy.

    Parameters
    ----------
    request
        HTTP request of the client.

    Returns
    -------
    str
        Address or network; empty if the client is unknown.
    """
    host = request.client.host if request.client is not None else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host  # not an IP address
    if isinstance(address, IPv6Address):
        # One client can use all addresses of a /64 network.
        return str(address.ipv4_mapped or ip_network((address, 64), strict=False))
    return host


def is_loopback(host: str) -> bool:
    """Return whether a host name or address denotes this machine.

    Rate limits do not apply to requests from this machine. They may come from a reverse proxy that
    does not report the addresses of its clients.
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class RateLimiter:
    """Rate limiter of an action, with a token bucket for each client.

    A client may act `capacity` times within a short time. After that, it may act `capacity` times
    per `period`: its bucket refills continuously, from empty to full in `period` seconds.

    Parameters
    ----------
    capacity
        Maximum number of actions within a short time; 0 for no limit.
    period
        Seconds in which an empty bucket refills.
    clock
        Function that returns the current time in seconds.
    """

    def __init__(
        self, capacity: int, period: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._capacity, self._period, self._clock = capacity, period, clock
        #: Number of actions not yet refilled, and the time of the last one, by client.
        self._usage: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def has_capacity(self, client: str) -> bool:
        """Return whether a client may act now, without counting an action."""
        return not self._capacity or self._current_usage(client) + 1 <= self._capacity

    def acquire(self, client: str) -> bool:
        """Count an action of a client against the rate limit; return whether it is permitted."""
        is_allowed = self.has_capacity(client)
        if is_allowed:
            # Store the usage with its time, because the usage decreases continuously.
            self._usage[client] = (self._current_usage(client) + 1, self._clock())
            # Forget the client that has been inactive longest if there are too many.
            self._usage.move_to_end(client)
            if len(self._usage) > _MAX_CLIENTS:
                self._usage.popitem(last=False)
        return is_allowed

    def _current_usage(self, client: str) -> float:
        """Return how much of a client's bucket is currently used, in actions."""
        usage, last_time = self._usage.get(client, (0.0, 0.0))
        refilled = (self._clock() - last_time) * self._capacity / self._period
        return max(0.0, usage - refilled)


def error_response(
    status: int, message: str, details: Mapping[str, Any] | None = None
) -> JSONResponse:
    """Return an HTTP response with an error message of one line and further fields as JSON.

    Parameters
    ----------
    status
        HTTP status code.
    message
        Error message.
    details
        Further fields of the JSON object.

    Returns
    -------
    JSONResponse
        Response with the message in the field ``error``.
    """
    # Close the connection rather than wait for the rest of an unread body.
    headers = {"connection": "close"} if status in (408, 413) else None
    return JSONResponse({"error": message, **(details or {})}, status, headers)


def handle_errors(endpoint: Endpoint) -> Endpoint:
    """Wrap an endpoint so that expected exceptions become error responses.

    The status is 400 for invalid input and 503 if the data cannot be stored. If a request fails,
    none of its data are stored.

    Parameters
    ----------
    endpoint
        Endpoint that may raise.

    Returns
    -------
    Endpoint
        Endpoint that returns a response in every case.
    """

    async def guarded_endpoint(request: Request) -> Response:
        try:
            return await endpoint(request)
        except RequestError as error:
            return error_response(error.status, str(error), error.details)
        except InputError as error:
            return error_response(400, str(error))
        except ClientDisconnect:
            return Response(status_code=400)  # the client no longer reads it
        except (sqlite3.Error, OutputError):
            return error_response(503, "the data cannot be stored now; try again")
        except asyncio.CancelledError:  # the server shuts down
            return error_response(503, "the study is being stopped; try again")

    return guarded_endpoint
