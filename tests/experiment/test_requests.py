"""Test how requests are read and rate limited."""

import asyncio

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from contstim.experiment.requests import (
    RateLimiter,
    get_client_address,
    handle_errors,
    read_body,
)


def request(client: str = "192.0.2.1", **headers: str) -> Request:
    """Return a request with the headers, ``_`` for ``-``."""
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": sent, "client": (client, 1)})


def test_slow_body_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contstim.experiment.requests.BODY_TIMEOUT", 0.05)

    async def half() -> Message:
        await asyncio.sleep(0.03)  # a sign of life each time, and no end
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def endpoint(request: Request) -> Response:
        await read_body(request)
        return Response()

    scope = {"type": "http", "headers": [(b"content-type", b"application/json")]}
    reply = asyncio.run(handle_errors(endpoint)(Request(scope, half)))
    assert reply.status_code == 408
    assert reply.body == b'{"error":"the body took longer than 0.05 seconds"}'


def test_ipv6_clients_are_networks() -> None:
    assert get_client_address(request("192.0.2.1")) == "192.0.2.1"
    assert get_client_address(request("2001:db8:1:2:3::4")) == get_client_address(
        request("2001:db8:1:2:ffff::1")
    )
    assert get_client_address(request("2001:db8:1:3::4")) != get_client_address(
        request("2001:db8:1:2::4")
    )
    assert get_client_address(request("::ffff:192.0.2.1")) == "192.0.2.1"
    assert get_client_address(request("testclient")) == "testclient"


def test_rate_limiter_refills_continuously() -> None:
    now = [100.0]
    limiter = RateLimiter(3, 60, lambda: now[0])
    assert [limiter.acquire("a") for _ in range(4)] == [True, True, True, False]
    assert limiter.acquire("b")  # each has an own one
    now[0] += 19
    assert not limiter.has_capacity("a")
    now[0] += 2
    assert [limiter.acquire("a") for _ in range(2)] == [True, False]
    now[0] += 10**6
    assert [limiter.acquire("a") for _ in range(4)] == [True, True, True, False]
    assert all(RateLimiter(0, 60).acquire("a") for _ in range(1000))


def test_rate_limiter_remembers_the_latest_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contstim.experiment.requests._MAX_CLIENTS", 2)
    limiter = RateLimiter(1, 60, lambda: 0.0)
    assert [limiter.acquire(client) for client in "abc"] == [True] * 3
    assert [limiter.has_capacity(client) for client in "abc"] == [True, False, False]
