"""Starting the server: which address, which token, and what the experimenter is told."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from contstim.errors import InputError, MissingExtraError, OutputError
from contstim.experiment.requests import is_loopback
from contstim.experiment.server import make_app
from contstim.experiment.store import Store
from contstim.experiment.study import Study
from contstim.experiment.vendor import PAGE, vendor_files

_SHORTEST, _FEWEST = 16, 8  # characters of a token, and different ones
_SLOWEST_HEAD = 30.0  # seconds in which a request's head must have come
_SAID_AGAIN_S = 3600.0  # after which the server's log repeats a warning

_FILES = 10_240  # open files asked for; no system refuses so many to who may have more
_SPARE = 32  # of them for everything but connections, such as the page's files


def _say(text: str) -> None:
    # Python keeps what goes to a file or a service's log until much has come together.
    print(text, flush=True)


def check_address(host: str, token: str | None) -> str:
    """Return the dashboard's token: the one given, or a new one where only this machine asks.

    Raises
    ------
    InputError
        If other machines could reach the server and no token is given, or it is too short.
    """
    if token is not None:
        fits = len(token) >= _SHORTEST and token.isascii() and token.isprintable()
        if not fits or len(set(token)) < _FEWEST:
            raise InputError(
                f"the token has {len(token)} characters, {len(set(token))} different; give at "
                f"least {_SHORTEST} of ASCII, {_FEWEST} different, e.g. {secrets.token_urlsafe(16)}"
            )
        return token
    if not is_loopback(host):
        raise InputError(
            f"{host} can be reached from other machines: give --token for the dashboard; people's "
            "data must travel encrypted, so better keep 127.0.0.1 and put a web server with TLS in "
            "front, e.g. `caddy reverse-proxy --from study.example.org --to 127.0.0.1:8000`"
        )
    return secrets.token_urlsafe(16)


def serve(
    study: Study,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    *,
    data: Path | None = None,
    page: Path = PAGE,
    say: Callable[[str], None] = _say,
    blinded: bool = False,
) -> None:
    """Serve a study until interrupted.

    Parameters
    ----------
    study
        The study.
    host, port
        Where to listen; port 0 takes any that is free.
    token
        Of the dashboard; see `check_address`.
    data
        The data file; by default in the study's folder.
    page
        The folder of the page's files.
    say
        Told the addresses when they answer; a log that is no terminal has them at once as well.
    blinded
        As for `Store`.

    Raises
    ------
    InputError, OutputError
        If the address, the data file or the token cannot be used.
    """
    dashboard_token = check_address(host, token)
    limit = _raise_file_limit()
    with (
        _listen(host, port, limit, say) as listener,
        Store(study, data, _Clock(say), say, blinded) as store,
    ):
        app = make_app(store, dashboard_token, page)
        shown, actual = listener.getsockname()[:2]
        address = f"http://[{shown}]:{actual}" if ":" in shown else f"http://{shown}:{actual}"
        try:
            vendor_files(page)
        except MissingExtraError as error:
            say(f"no page yet:  {error}")
        say(f"participants: {address}/")
        if study.recruiter is not None:
            say(f"recruiter:    {study.recruiter.address(study.study.url or f'{address}/')}")
        asked = f"this token: {dashboard_token}" if token is None else "your token"
        say(f"dashboard:    {address}/dashboard, which asks for {asked}")
        say(f"data:         {store.path}")
        config = uvicorn.Config(
            app,
            # The access log would hold the dashboard's token and recruiters' parameters.
            access_log=False,
            loop="asyncio",  # which calls the listener's own `accept`
            http=_Protocol,
            ws="none",
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=5,
            h11_max_incomplete_event_size=16 * 1024,
        )
        logging.getLogger("uvicorn.error").addFilter(_Seldom())
        uvicorn.Server(config).run(sockets=[listener])


def _raise_file_limit() -> int | None:
    """Have as many files open at once as the system allows; return the limit, if there is one."""
    if sys.platform == "win32":
        return None
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)


class _Protocol(H11Protocol):
    """Closes a connection whose request's head does not come; uvicorn would wait for ever."""

    _head_until: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvicorn's narrows asyncio's type as well
        """Wait for the first head."""
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Take data; part of a head is no sign of life."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._wait_for_head()
        else:
            self._head_until = None

    def _wait_for_head(self) -> None:
        if self._head_until is None:
            self._head_until = self.loop.time() + _SLOWEST_HEAD
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_at(
            self._head_until, self.timeout_keep_alive_handler
        )


class _Seldom(logging.Filter):
    """Lets each warning through once an hour, since strangers could fill the log with them."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged."""
        if record.levelno != logging.WARNING:
            return True
        if record.created - self._last.get(record.msg, -_SAID_AGAIN_S) < _SAID_AGAIN_S:
            return False
        self._last[record.msg] = record.created
        return True


class _Clock:
    """Seconds since 1970 that go on evenly, whatever the machine's clock is set to meanwhile.

    Time limits and idle sessions hang on differences of times, which a clock that is set an hour
    ahead makes an hour longer. The machine's clock is read once, when the server starts.

    Parameters
    ----------
    say
        Told, once, if the machine's clock has become another.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._start = time.time() - _uptime()
        self._told = False

    def __call__(self) -> float:
        now = self._start + _uptime()
        if abs(time.time() - now) > 60 and not self._told:
            self._told = True
            self._say(
                f"the machine's clock was set by {time.time() - now:+.0f} s; times go on as before "
                "until the server is started again"
            )
        return now


def _uptime() -> float:
    """Return seconds that no setting of the clock changes; where possible sleep counts too."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class _Listener(socket.socket):
    """Refuses connections near the limit of open files, so that those it has can be served.

    The event loop would go on accepting at the limit, say so thousands of times, and leave no file
    to the pages and the data.
    """

    limit: int | None = None
    say: Callable[[str], None] = staticmethod(_say)
    _told = False

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection, or close it at once."""
        connection, address = super().accept()
        # The system gives the lowest number that is free.
        if self.limit is None or connection.fileno() < self.limit - _SPARE:
            return connection, address
        connection.close()
        if not self._told:
            self._told = True
            self.say(
                f"the limit of open files ({self.limit}) is near: new connections are refused "
                "while it is; raise it (`ulimit -n`) and start the server again"
            )
        raise BlockingIOError


def _listen(
    host: str, port: int, limit: int | None = None, say: Callable[[str], None] = print
) -> _Listener:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        listener = _Listener(family, kind, protocol)
        try:
            listener.limit, listener.say = limit, say
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise OutputError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port"
        ) from None
    return listener
