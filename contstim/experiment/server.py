"""The server of a study: the page, its data on the way to the store, and a dashboard.

Bodies of requests have a bounded size, replies are JSON, and every reply has safe headers.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contstim.errors import InputError, MissingExtraError
from contstim.experiment.dashboard import render_dashboard
from contstim.experiment.messages import (
    RequestError,
    make_study_info,
    module_path,
    read_session_request,
)
from contstim.experiment.pages import index_html
from contstim.experiment.requests import (
    RateLimiter,
    error_response,
    get_client_address,
    handle_errors,
    is_loopback,
    read_bearer_token,
    read_body,
)
from contstim.experiment.sessions import Receipt
from contstim.experiment.store import Store
from contstim.experiment.vendor import PAGE_FOLDER, page_version, vendor_files

_LOG = logging.getLogger("uvicorn.error")

_VISITS = 60  # of one client a minute that are counted, or asked whether data can be stored
_GUESSES = 10  # wrong tokens of one client a minute

#: Nothing from another host, no inline script or style, no frame around the page, no forms.
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


class _SafeHeaders:
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


#: Of files whose address changes with their content, so that browsers need not ask again.
_UNCHANGING = {"cache-control": "public, max-age=31536000, immutable"}


class _Kept(StaticFiles):
    """Files whose address changes with their content, so that browsers need not ask again."""

    def file_response(self, *args: Any, **more: Any) -> Response:
        """Return a file, or that the browser has it."""
        reply = super().file_response(*args, **more)
        reply.headers.update(_UNCHANGING)
        return reply


def make_app(store: Store, token: str, page: Path = PAGE_FOLDER) -> Starlette:
    """Return the server of a study.

    Parameters
    ----------
    store
        Where data go; it is closed when the server stops.
    token
        What the experimenter gives to see the dashboard.
    page
        The folder of the page's files: ``index.html`` is filled in and served at ``/``, all of
        them below ``/static/``.
    """
    api, dashboard = _Api(store), _Dashboard(store, token)

    async def index(_: Request) -> Response:
        try:
            vendor_files(page)
        except MissingExtraError as error:
            return error_response(503, str(error))
        return HTMLResponse(index_html(store.study, "server", page=page))

    async def module(_: Request) -> Response:
        return Response(store.study.module, headers=_UNCHANGING, media_type="text/javascript")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(store.close)

    # A presentation's module of the study's own lies among the page's scripts.
    address = f"/static/{page_version(page)}/{module_path(store.study)}"
    module_routes = [] if store.study.module is None else [Route(address, module)]
    routes = [
        Route("/", index),
        Route("/health", handle_errors(api.health)),
        Route("/api/study", handle_errors(api.study)),
        Route("/api/sessions", handle_errors(api.open), methods=["POST"]),
        Route("/api/declined", handle_errors(api.declined), methods=["POST"]),
        Route("/api/session", handle_errors(api.session)),
        Route("/api/next", handle_errors(api.next), methods=["POST"]),
        Route("/api/answers", handle_errors(api.answers), methods=["POST"]),
        Route("/api/events", handle_errors(api.events), methods=["POST"]),
        Route("/api/finish", handle_errors(api.finish), methods=["POST"]),
        Route("/dashboard", handle_errors(dashboard.page)),
        Route("/api/dashboard", handle_errors(dashboard.data)),
        *module_routes,
        Mount(f"/static/{page_version(page)}", _Kept(directory=page, check_dir=False)),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(_SafeHeaders)],
        exception_handlers={HTTPException: _no_such_place},
        lifespan=lifespan,
    )


async def _no_such_place(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    text = "there is nothing here" if status == 404 else "that cannot be done here"
    return error_response(status, text)


def _allowed(allowance: RateLimiter, request: Request) -> bool:
    """Return whether a client may ask, and count it; this machine itself is not limited."""
    client = get_client_address(request)
    return is_loopback(client) or allowance.take(client)


class _Api:
    """What the page asks for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._info = make_study_info(store.study)
        self._visits = RateLimiter(_VISITS, 60)
        self._openings = RateLimiter(store.study.allocation.sessions_per_client, 3600)

    async def health(self, request: Request) -> Response:
        if not _allowed(self._visits, request):
            raise RequestError(429, "asked too often; once a minute is enough")
        # Commits something, which fails where nothing can be stored: 503.
        await asyncio.wrap_future(self._store.count("ready"))
        return JSONResponse({"status": "ok"})

    async def study(self, request: Request) -> Response:
        if _allowed(self._visits, request):
            self._store.count("opened")  # counted some time; nobody waits for it
        return JSONResponse(self._info)

    async def open(self, request: Request) -> Response:
        recruiter = self._store.study.recruiter
        parameters = () if recruiter is None else recruiter.parameters
        opening = read_session_request(await read_body(request), parameters)
        if not _allowed(self._openings, request):
            _LOG.warning(
                "one network address may open no more sessions for now; where many people share "
                "one, raise allocation.sessions_per_client and start the server again"
            )
            raise RequestError(429, "too many sessions were begun at this network address; wait")
        token, bundle, new = await asyncio.wrap_future(self._store.open(opening))
        return JSONResponse({"token": token, "bundle": bundle}, status_code=201 if new else 200)

    async def declined(self, request: Request) -> Response:
        await read_body(request)
        if _allowed(self._visits, request):
            await asyncio.wrap_future(self._store.count("declined"))
        return Response(status_code=204)

    async def session(self, request: Request) -> Response:
        return JSONResponse(
            await asyncio.wrap_future(self._store.resume(read_bearer_token(request)))
        )

    async def next(self, request: Request) -> Response:
        token = read_bearer_token(request)
        after = (await read_body(request)).get("after")
        if type(after) is not int or not 0 <= after <= 10**6:
            raise InputError(f"after is {after!r}; give the number of the last trial")
        return JSONResponse(await asyncio.wrap_future(self._store.next_trials(token, after)))

    async def answers(self, request: Request) -> Response:
        return await self._received(request, "answers", self._store.add_answers)

    async def events(self, request: Request) -> Response:
        return await self._received(request, "events", self._store.add_events)

    async def _received(
        self, request: Request, name: str, add: Callable[[str, list[Any]], Future[Receipt]]
    ) -> Response:
        token = read_bearer_token(request)
        rows = (await read_body(request)).get(name)
        if not isinstance(rows, list):
            raise InputError(f"{name} is not a list")
        return JSONResponse((await asyncio.wrap_future(add(token, rows))).row())

    async def finish(self, request: Request) -> Response:
        return JSONResponse(
            await asyncio.wrap_future(self._store.finish(read_bearer_token(request)))
        )


class _Dashboard:
    """The state of the study, for whoever gives the token.

    Browsers ask for it themselves: it is the password of HTTP Basic authentication, with any user
    name. Scripts may send it as ``Authorization: Bearer``.
    """

    def __init__(self, store: Store, token: str) -> None:
        self._store, self._token = store, token
        self._guesses = RateLimiter(_GUESSES, 60)

    async def page(self, request: Request) -> Response:
        if not self._is_admitted(request):
            headers = {"www-authenticate": 'Basic realm="dashboard", charset="UTF-8"'}
            return Response("the dashboard asks for its token as password", 401, headers)
        summary = await asyncio.wrap_future(self._store.summary())
        return HTMLResponse(render_dashboard(summary))

    async def data(self, request: Request) -> Response:
        if not self._is_admitted(request):
            raise RequestError(401, "this is not the dashboard's token")
        return JSONResponse(await asyncio.wrap_future(self._store.summary()))

    def _is_admitted(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if not given:
            return False
        if scheme.lower() == "basic":
            try:
                given = base64.b64decode(given).decode("utf-8", "replace").partition(":")[2]
            except ValueError:
                given = ""
        client = get_client_address(request)
        if not self._guesses.left(client):
            raise RequestError(429, "too many wrong tokens came from here; wait a minute")
        is_correct = hmac.compare_digest(
            given.strip().encode("utf-8", "replace"), self._token.encode()
        )
        if not is_correct:
            self._guesses.take(client)
        return is_correct
