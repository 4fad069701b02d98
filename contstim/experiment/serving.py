"""Starting the server of a study: network address, dashboard token, and start-up messages."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import uvicorn

from contstim.errors import InputError, MissingExtraError, OutputError
from contstim.experiment.requests import is_loopback
from contstim.experiment.server import make_app
from contstim.experiment.store import Store
from contstim.experiment.study import Study
from contstim.experiment.vendor import PAGE_FOLDER, list_vendor_files

# Minimum length of a dashboard token, and minimum number of different characters in it.
_MIN_TOKEN_LENGTH = 16
_MIN_TOKEN_CHARACTERS = 8

# Maximum number of open connections; further ones get status 503.
_MAX_CONNECTIONS = 1000

# Without flushing, Python delays output to files and to the logs of services.
_print_now = partial(print, flush=True)


def check_or_make_token(host: str, token: str | None) -> str:
    """Check the password of the dashboard, called token, or generate one.

    The dashboard shows data of participants, so the token must be hard to guess.

    Parameters
    ----------
    host
        Host name or address to listen on.
    token
        Token of the dashboard. None generates a random one, which is permitted only for an address
        that other machines cannot reach.

    Returns
    -------
    str
        Token of the dashboard.

    Raises
    ------
    InputError
        If other machines can reach the address and there is no token, or the token is too weak.
    """
    if token is not None:
        is_printable = token.isascii() and token.isprintable()
        n_different = len(set(token))
        is_long = len(token) >= _MIN_TOKEN_LENGTH and n_different >= _MIN_TOKEN_CHARACTERS
        if not is_printable or not is_long:
            raise InputError(
                f"the token has {len(token)} characters, {n_different} different; give at least "
                f"{_MIN_TOKEN_LENGTH} printable ASCII characters, {_MIN_TOKEN_CHARACTERS} "
                f"different, e.g. {secrets.token_urlsafe(16)}"
            )
        return token
    # Generate a token, but only if other machines cannot reach the server.
    if not is_loopback(host):
        raise InputError(
            f"{host} can be reached from other machines: give --token for the dashboard. "
            "Participants' data must be encrypted on the way, so better keep 127.0.0.1 and put a "
            "web server with TLS in front, e.g. "
            "`caddy reverse-proxy --from study.example.org --to 127.0.0.1:8000`"
        )
    return secrets.token_urlsafe(16)


def serve(
    study: Study,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    *,
    database: Path | None = None,
    page: Path = PAGE_FOLDER,
    report: Callable[[str], None] = _print_now,
    blinded: bool = False,
) -> None:
    """Run the HTTP server of a study until it is interrupted.

    Parameters
    ----------
    study
        Study to serve.
    host, port
        Address and port to listen on; port 0 selects a free port.
    token
        Password of the dashboard; by default a random one, if other machines cannot reach `host`.
    database
        Database of the study; by default the file in the study's folder.
    page
        Folder with the files of the experiment's web page.
    report
        Function that receives one-line messages, among them the addresses of the page and the
        dashboard; by default they are printed.
    blinded
        Whether the dashboard of an adaptive study hides interim results.

    Raises
    ------
    InputError, OutputError
        If the address, the data file or the token cannot be used.
    """
    dashboard_token = check_or_make_token(host, token)
    # A monotonic clock, since time limits must not depend on adjustments of the system clock.
    offset = time.time() - time.monotonic()
    with (
        _open_listening_socket(host, port) as listener,
        Store(study, database, lambda: offset + time.monotonic(), report, blinded) as store,
    ):
        app = make_app(store, dashboard_token, page)
        actual_host, actual_port = listener.getsockname()[:2]
        if ":" in actual_host:
            actual_host = f"[{actual_host}]"
        address = f"http://{actual_host}:{actual_port}"
        try:
            list_vendor_files(page)
        except MissingExtraError as error:
            report(f"no page yet:  {error}")
        report(f"participants: {address}/")
        if study.recruiter is not None:
            report(
                f"recruiter:    {study.recruiter.make_study_url(study.study.url or f'{address}/')}"
            )
        password = (
            f"this password: {dashboard_token}" if token is None else "your token as password"
        )
        report(f"dashboard:    {address}/dashboard, any user name, {password}")
        report(f"data:         {store.path}")
        config = uvicorn.Config(
            app,
            # An access log would contain the dashboard's token and participant ids in URLs.
            access_log=False,
            limit_concurrency=_MAX_CONNECTIONS,
            ws="none",
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=5,
            h11_max_incomplete_event_size=16 * 1024,
        )
        uvicorn.Server(config).run(sockets=[listener])


def _open_listening_socket(host: str, port: int) -> socket.socket:
    """Open a TCP socket that listens for connections on an address and port.

    Raises
    ------
    OutputError
        If the address cannot be used, for example because another program uses the port.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            # Permit a restart of the server while connections of the last one are closing.
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
