"""Starting the server: which address, which token, and what the experimenter is told."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from contstim.errors import InputError, MissingExtraError, OutputError
from contstim.experiment.server import PAGE, make_app
from contstim.experiment.store import Store
from contstim.experiment.study import Study
from contstim.experiment.vendor import vendor_files

__all__ = ["check_address", "serve"]

_SHORTEST = 16  # characters of a token


def check_address(host: str, token: str | None) -> str:
    """Return the dashboard's token: the one given, or a new one where only this machine asks.

    Raises
    ------
    InputError
        If other machines could reach the server and no token is given, or it is too short.
    """
    if token is not None:
        if len(token) < _SHORTEST or not token.isascii() or not token.isprintable():
            raise InputError(
                f"the token has {len(token)} characters; give at least {_SHORTEST} of ASCII, e.g. "
                f"{secrets.token_urlsafe(16)}"
            )
        return token
    if not _is_loopback(host):
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
    say: Callable[[str], None] = print,
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
        Told the addresses when they answer.

    Raises
    ------
    InputError, OutputError
        If the address, the data file or the token cannot be used.
    """
    token = check_address(host, token)
    with _listen(host, port) as listener, Store(study, data, say=say) as store:
        app = make_app(store, token, page)
        shown, actual = listener.getsockname()[:2]
        address = f"http://[{shown}]:{actual}" if ":" in shown else f"http://{shown}:{actual}"
        try:
            vendor_files(page)
        except MissingExtraError as error:
            say(f"no page yet:  {error}")
        say(f"participants: {address}/")
        say(f"dashboard:    {address}/dashboard?token={token}")
        say(f"data:         {store.path}")
        config = uvicorn.Config(
            app,
            # The access log would hold the dashboard's token and recruiters' parameters.
            access_log=False,
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


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
