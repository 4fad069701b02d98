"""HTTP server of a study: the experiment page, its JSON interface, and the dashboard.

Request bodies have a limited size, responses are JSON, and every response has security headers.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
from collections.abc import AsyncIterator
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
from contstim.experiment.messages import RequestError, read_session_request
from contstim.experiment.page_data import get_module_path, make_study_info
from contstim.experiment.pages import render_index
from contstim.experiment.requests import (
    RateLimiter,
    error_response,
    get_client_address,
    handle_errors,
    is_loopback,
    read_bearer_token,
    read_body,
)
from contstim.experiment.store import Store
from contstim.experiment.vendor import PAGE_FOLDER, list_vendor_files, page_version

_LOG = logging.getLogger("uvicorn.error")

# Maximum numbers of page visits and health checks, and of wrong dashboard tokens, per client and
# minute.
_MAX_VISITS = 60
_MAX_WRONG_TOKENS = 10

# Security headers: no content of other hosts, no inline scripts or styles, no frames, no forms.
_SECURITY_HEADERS = {
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

# Headers of files whose URL changes with their content, so that browsers can cache them forever.
_IMMUTABLE = {"cache-control": "public, max-age=31536000, immutable"}


class _SecurityHeaders:
    """Middleware that adds security headers to every response, including error responses.

    Headers that a response sets itself are kept.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


class _ImmutableFiles(StaticFiles):
    """Static files that browsers can cache forever, since their URL contains a digest."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers.update(_IMMUTABLE)
        return response


def make_app(store: Store, token: str, page: Path = PAGE_FOLDER) -> Starlette:
    """Create the web application of a study.

    Parameters
    ----------
    store
        Data of the study; closed when the server stops.
    token
        Password that opens the dashboard.
    page
        Folder with the files of the experiment's web page. ``index.html`` is filled in and served
        at ``/``; all files are served below ``/static/``.

    Returns
    -------
    Starlette
        ASGI application.
    """
    api, dashboard = _Api(store), _Dashboard(store, token)
    static_path = f"/static/{page_version(page)}"

    async def get_index(_: Request) -> Response:
        try:
            list_vendor_files(page)
        except MissingExtraError as error:
            return error_response(503, str(error))
        return HTMLResponse(render_index(store.study, "server", page=page))

    async def get_module(_: Request) -> Response:
        return Response(store.study.module, headers=_IMMUTABLE, media_type="text/javascript")

    async def handle_http_exception(_: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        message = "there is nothing here" if status == 404 else "that cannot be done here"
        return error_response(status, message)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(store.close)

    # A custom presentation module of the study is served among the page's scripts.
    module_routes = []
    if store.study.module is not None:
        module_routes = [Route(f"{static_path}/{get_module_path(store.study)}", get_module)]
    routes = [
        Route("/", get_index),
        Route("/health", handle_errors(api.check_health)),
        Route("/api/study", handle_errors(api.get_study)),
        Route("/api/sessions", handle_errors(api.open_session), methods=["POST"]),
        Route("/api/declined", handle_errors(api.count_declined), methods=["POST"]),
        Route("/api/session", handle_errors(api.resume_session)),
        Route("/api/next", handle_errors(api.get_next_trials), methods=["POST"]),
        Route("/api/answers", handle_errors(api.add_answers), methods=["POST"]),
        Route("/api/events", handle_errors(api.add_events), methods=["POST"]),
        Route("/api/finish", handle_errors(api.finish_session), methods=["POST"]),
        Route("/dashboard", handle_errors(dashboard.get_page)),
        Route("/api/dashboard", handle_errors(dashboard.get_summary)),
        *module_routes,
        Mount(static_path, _ImmutableFiles(directory=page, check_dir=False)),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(_SecurityHeaders)],
        exception_handlers={HTTPException: handle_http_exception},
        lifespan=lifespan,
    )


def _acquire(limiter: RateLimiter, request: Request) -> bool:
    """Count a request against the rate limit of its client.

    Parameters
    ----------
    limiter
        Rate limit.
    request
        Request of the client.

    Returns
    -------
    bool
        Whether the client is within its limit. Requests from this machine have no limit.
    """
    client = get_client_address(request)
    return is_loopback(client) or limiter.acquire(client)


class _Api:
    """HTTP endpoints that the experiment page calls.

    Every public method is an endpoint: it receives a request and returns a response with a JSON
    body. A `Store` reads and writes the data.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._info = make_study_info(store.study)
        self._visit_limiter = RateLimiter(_MAX_VISITS, 60)
        self._session_limiter = RateLimiter(store.study.allocation.sessions_per_client, 3600)

    async def check_health(self, request: Request) -> Response:
        if not _acquire(self._visit_limiter, request):
            raise RequestError(429, "too many health checks; one per minute is enough")
        # Commit a counter: the request fails with status 503 if nothing can be stored.
        await asyncio.wrap_future(self._store.count("ready"))
        return JSONResponse({"status": "ok"})

    async def get_study(self, request: Request) -> Response:
        if _acquire(self._visit_limiter, request):
            self._store.count("opened")  # stored later, without delaying the response
        return JSONResponse(self._info)

    async def open_session(self, request: Request) -> Response:
        recruiter = self._store.study.recruiter
        parameters = () if recruiter is None else recruiter.parameters
        session_request = read_session_request(await read_body(request), parameters)
        if not _acquire(self._session_limiter, request):
            _LOG.warning(
                "a network address has reached its limit of new sessions; if many participants "
                "share an address, raise allocation.sessions_per_client and restart the server"
            )
            raise RequestError(429, "too many sessions were opened from this address; try later")
        token, data, is_new = await asyncio.wrap_future(self._store.open(session_request))
        return JSONResponse({"token": token, "bundle": data}, 201 if is_new else 200)

    async def count_declined(self, request: Request) -> Response:
        await read_body(request)
        if _acquire(self._visit_limiter, request):
            await asyncio.wrap_future(self._store.count("declined"))
        return Response(status_code=204)

    async def resume_session(self, request: Request) -> Response:
        data = await asyncio.wrap_future(self._store.resume(read_bearer_token(request)))
        return JSONResponse(data)

    async def get_next_trials(self, request: Request) -> Response:
        token = read_bearer_token(request)
        after = (await read_body(request)).get("after")
        if type(after) is not int or not 0 <= after <= 10**6:
            raise InputError(f"after is {after!r}; give the number of the last trial")
        return JSONResponse(await asyncio.wrap_future(self._store.next_trials(token, after)))

    async def add_answers(self, request: Request) -> Response:
        token, answers = await self._read_rows(request, "answers")
        report = await asyncio.wrap_future(self._store.add_answers(token, answers))
        return JSONResponse(report.to_json())

    async def add_events(self, request: Request) -> Response:
        token, events = await self._read_rows(request, "events")
        report = await asyncio.wrap_future(self._store.add_events(token, events))
        return JSONResponse(report.to_json())

    async def _read_rows(self, request: Request, name: str) -> tuple[str, list[Any]]:
        """Return the session token of a request and the list `name` in its body."""
        token = read_bearer_token(request)
        rows = (await read_body(request)).get(name)
        if not isinstance(rows, list):
            raise InputError(f"{name} is not a list")
        return token, rows

    async def finish_session(self, request: Request) -> Response:
        result = await asyncio.wrap_future(self._store.finish(read_bearer_token(request)))
        return JSONResponse(result)


class _Dashboard:
    """Endpoints of the dashboard, which require its token.

    Browsers send the token as the password of HTTP Basic authentication, with any user name.
    Scripts can send it as ``Authorization: Bearer``.
    """

    def __init__(self, store: Store, token: str) -> None:
        self._store, self._token = store, token
        self._wrong_token_limiter = RateLimiter(_MAX_WRONG_TOKENS, 60)

    async def get_page(self, request: Request) -> Response:
        if not self._is_authorized(request):
            headers = {"www-authenticate": 'Basic realm="dashboard", charset="UTF-8"'}
            return Response("give the dashboard's token as password", 401, headers)
        summary = await asyncio.wrap_future(self._store.summary())
        return HTMLResponse(render_dashboard(summary))

    async def get_summary(self, request: Request) -> Response:
        if not self._is_authorized(request):
            raise RequestError(401, "the dashboard's token is wrong")
        return JSONResponse(await asyncio.wrap_future(self._store.summary()))

    def _is_authorized(self, request: Request) -> bool:
        """Return whether a request contains the password (token) of the dashboard.

        Raises
        ------
        RequestError
            With status 429 if the client has sent too many wrong tokens in the last minute.
        """
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        if not credentials:
            return False
        # Browsers send "user:password" in base64, with the token as the password.
        if scheme.lower() == "basic":
            try:
                credentials = base64.b64decode(credentials).decode("utf-8", "replace")
            except ValueError:
                credentials = ""
            credentials = credentials.partition(":")[2]
        # Limit the number of wrong tokens per client, so that the token cannot be guessed.
        client = get_client_address(request)
        if not self._wrong_token_limiter.has_capacity(client):
            raise RequestError(429, "too many wrong tokens from this address; wait a minute")
        token = credentials.strip().encode("utf-8", "replace")
        # The duration of this comparison reveals nothing about the correct token.
        is_correct = hmac.compare_digest(token, self._token.encode())
        if not is_correct:
            self._wrong_token_limiter.acquire(client)
        return is_correct
