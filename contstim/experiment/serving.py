"""Starting the server: which address, which token, and what the experimenter is told."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path

import uvicorn

from contstim.errors import InputError, MissingExtraError, OutputError
from contstim.experiment.requests import is_loopback
from contstim.experiment.server import make_app
from contstim.experiment.store import Store
from contstim.experiment.study import Study
from contstim.experiment.vendor import PAGE_FOLDER, vendor_files

_SHORTEST, _FEWEST = 16, 8  # characters of a token, and different ones
_MOST_CONNECTIONS = 1000  # open at the same time; others are answered 503


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
    page: Path = PAGE_FOLDER,
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
    # Time limits must not depend on changes of the machine's clock.
    start = time.time() - time.monotonic()
    with (
        _listen(host, port) as listener,
        Store(study, data, lambda: start + time.monotonic(), say, blinded) as store,
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
            say(f"recruiter:    {study.recruiter.make_study_url(study.study.url or f'{address}/')}")
        given = f"this password: {dashboard_token}" if token is None else "your token as password"
        say(f"dashboard:    {address}/dashboard, any user name, {given}")
        say(f"data:         {store.path}")
        config = uvicorn.Config(
            app,
            # The access log would hold the dashboard's token and recruiters' parameters.
            access_log=False,
            limit_concurrency=_MOST_CONNECTIONS,
            ws="none",
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=5,
            h11_max_incomplete_event_size=16 * 1024,
        )
        uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
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
