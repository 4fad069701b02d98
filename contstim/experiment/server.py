"""The server of a study: the page, its data on the way to the store, and a dashboard.

Bodies of requests have a bounded size, replies are JSON, and every reply has safe headers.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contstim.errors import ContstimError, InputError, MissingExtraError, OutputError
from contstim.experiment.dashboard import IDLE_S, dashboard_page, login_page, message_page
from contstim.experiment.messages import (
    RefusedError,
    module_path,
    parse_json,
    read_opening,
    study_info,
)
from contstim.experiment.pages import index_html
from contstim.experiment.sessions import Received
from contstim.experiment.store import Store
from contstim.experiment.vendor import PAGE, page_version, vendor_files

_COOKIE = "contstim_dashboard"
_Result = TypeVar("_Result")
Endpoint = Callable[[Request], Awaitable[Response]]

#: Bytes of a request's body.
LONGEST_BODY = 64 * 1024

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action {forms}; frame-ancestors 'none'"
)

#: Nothing from another host, no inline script or style, no frame around the page, no forms.
_HEADERS = {
    "content-security-policy": _POLICY.format(forms="'none'"),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}

#: Headers of a page whose forms may be sent to this server.
_OWN_FORMS = {"content-security-policy": _POLICY.format(forms="'self'")}


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


async def _read_body(request: Request) -> dict[str, Any]:
    """Read the JSON object that a request brings.

    Raises
    ------
    RefusedError
        415 if it is not sent as JSON (which other sites cannot do), 413 if it is too long.
    InputError
        If it is no JSON object.
    """
    return parse_json(await _read_typed(request, "application/json"))


async def _read_form(request: Request, name: str) -> str:
    """Read a field of the form that a request brings; it is empty if it is not there.

    Raises
    ------
    RefusedError
        415 if it is not sent as a form, 413 if it is too long.
    """
    body = await _read_typed(request, "application/x-www-form-urlencoded")
    return parse_qs(body.decode("utf-8", "replace")).get(name, [""])[0].strip()


async def _read_typed(request: Request, wanted: str) -> bytes:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != wanted:
        raise RefusedError(415, f"send {wanted}")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_BODY:
            raise RefusedError(413, f"the body is longer than {LONGEST_BODY} bytes")
    return bytes(body)


def _bearer(request: Request, what: str = "session") -> str:
    """Return the token of the ``Authorization`` header: that of a session, or as `what` says.

    Raises
    ------
    RefusedError
        401 if there is none.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise RefusedError(401, f"the {what}'s token is missing")
    return token.strip()


def _refusal(status: int, message: str, more: Mapping[str, Any] | None = None) -> JSONResponse:
    """Return an error as JSON: one line, and what else the page needs to go on."""
    return JSONResponse({"error": message, **(more or {})}, status_code=status)


def make_app(store: Store, token: str, page: Path = PAGE) -> Starlette:
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
            return _refusal(503, str(error))
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
        Route("/health", _safely(api.health)),
        Route("/api/study", _safely(api.study)),
        Route("/api/sessions", _safely(api.open), methods=["POST"]),
        Route("/api/declined", _safely(api.declined), methods=["POST"]),
        Route("/api/session", _safely(api.session)),
        Route("/api/next", _safely(api.next), methods=["POST"]),
        Route("/api/answers", _safely(api.answers), methods=["POST"]),
        Route("/api/events", _safely(api.events), methods=["POST"]),
        Route("/api/finish", _safely(api.finish), methods=["POST"]),
        Route("/dashboard", dashboard.guarded(dashboard.page)),
        Route("/dashboard", _safely(dashboard.log_in), methods=["POST"]),
        Route("/dashboard/release", dashboard.guarded(dashboard.release), methods=["POST"]),
        Route("/dashboard/backup", dashboard.guarded(dashboard.backup), methods=["POST"]),
        Route("/dashboard/export", dashboard.guarded(dashboard.export), methods=["POST"]),
        Route("/api/dashboard", _safely(dashboard.data)),
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
    told = "there is nothing here" if status == 404 else "that cannot be done here"
    return _refusal(status, told)


def _safely(endpoint: Endpoint) -> Endpoint:
    """Turn what an endpoint raises on purpose into a reply; nothing of it was stored."""

    async def guarded(request: Request) -> Response:
        try:
            return await endpoint(request)
        except RefusedError as error:
            return _refusal(error.status, str(error), error.more)
        except InputError as error:
            return _refusal(400, str(error))
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it
        except (sqlite3.Error, OutputError):
            return _refusal(503, "the data cannot be stored now; try again")
        except asyncio.CancelledError:  # the server has waited long enough and ends what is left
            return _refusal(503, "the study is being stopped; try again")

    return guarded


async def run_apart(*args: str) -> None:
    """Run a command of contstim in a process of its own, which ends where this is cancelled.

    What takes much memory or time holds up nobody, and a server that is stopped stops it too.

    Raises
    ------
    OutputError
        With what the command said, or how it ended.
    """
    command = [sys.executable, "-m", "contstim", *args]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # noqa: S603 - our own command
    try:
        _, said = await asyncio.to_thread(process.communicate)
    finally:
        process.kill()  # nothing, where it has ended
    if process.returncode < 0:
        raise OutputError(f"it was ended by signal {-process.returncode}; is memory short?")
    if process.returncode:
        lines = said.decode("utf-8", "replace").splitlines() or ["it failed"]
        raise OutputError(lines[-1].removeprefix("contstim: "))


async def _of(future: Future[_Result]) -> _Result:
    return await asyncio.wrap_future(future)


class _Api:
    """What the page asks for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._info = study_info(store.study)

    async def health(self, _: Request) -> Response:
        await _of(self._store.ready())  # 503 if the data cannot be written
        return JSONResponse({"status": "ok"})

    async def study(self, _: Request) -> Response:
        self._store.count("opened")  # counted some time; nobody waits for it
        return JSONResponse(self._info)

    async def open(self, request: Request) -> Response:
        recruiter = self._store.study.recruiter
        parameters = () if recruiter is None else recruiter.parameters
        opening = read_opening(await _read_body(request), parameters)
        token, bundle, new = await _of(self._store.open(opening))
        return JSONResponse({"token": token, "bundle": bundle}, status_code=201 if new else 200)

    async def declined(self, request: Request) -> Response:
        await _read_body(request)
        await _of(self._store.count("declined"))
        return Response(status_code=204)

    async def session(self, request: Request) -> Response:
        return JSONResponse(await _of(self._store.resume(_bearer(request))))

    async def next(self, request: Request) -> Response:
        token = _bearer(request)
        after = (await _read_body(request)).get("after")
        if type(after) is not int or not 0 <= after <= 10**6:
            raise InputError(f"after is {after!r}; give the number of the last trial")
        return JSONResponse(await _of(self._store.next_trials(token, after)))

    async def answers(self, request: Request) -> Response:
        return await self._received(request, "answers", self._store.add_answers)

    async def events(self, request: Request) -> Response:
        return await self._received(request, "events", self._store.add_events)

    async def _received(
        self, request: Request, name: str, add: Callable[[str, list[Any]], Future[Received]]
    ) -> Response:
        token = _bearer(request)
        rows = (await _read_body(request)).get(name)
        if not isinstance(rows, list):
            raise InputError(f"{name} is not a list")
        return JSONResponse((await _of(add(token, rows))).row())

    async def finish(self, request: Request) -> Response:
        return JSONResponse(await _of(self._store.finish(_bearer(request))))


class _Dashboard:
    """What the experimenter sees, who gives the token once and then has a cookie."""

    def __init__(self, store: Store, token: str) -> None:
        self._store = store
        self._token = token
        self._exporting = False
        # The cookie proves the token without holding it.
        self._proof = hmac.new(token.encode(), b"dashboard", hashlib.sha256).hexdigest()

    def guarded(self, endpoint: Endpoint) -> Endpoint:
        """Ask for the token where it is missing, and say what is wrong in a page of its own."""

        async def shown(request: Request) -> Response:
            below = not request.url.path.endswith("/dashboard")
            try:
                self._admit(request)
            except RefusedError as error:
                if below:
                    return RedirectResponse("../dashboard", status_code=303)
                return self._ask(error)
            try:
                return await endpoint(request)
            except (ContstimError, sqlite3.Error) as error:
                status = error.status if isinstance(error, RefusedError) else 503
                told = message_page(self._store.study.study.name, str(error), below)
                return HTMLResponse(told, status)

        return shown

    async def page(self, _: Request) -> Response:
        summary = await _of(self._store.summary())
        return HTMLResponse(dashboard_page(summary), headers=_OWN_FORMS)

    async def release(self, request: Request) -> Response:
        session = await _read_form(request, "session")
        await _of(self._store.release(session, IDLE_S))
        return RedirectResponse("../dashboard", status_code=303)

    async def backup(self, _: Request) -> Response:
        content = await _of(self._store.backup())
        media = "application/vnd.sqlite3"
        return Response(content, headers=self._attachment("sqlite3"), media_type=media)

    async def export(self, _: Request) -> Response:
        if self._exporting:
            raise RefusedError(409, "an export is being made; wait for it")
        self._exporting = True
        folder = tempfile.TemporaryDirectory(prefix="contstim-export-")
        try:
            out = Path(folder.name) / "export"
            study = ("experiment", "export", str(self._store.study.folder))
            await run_apart(*study, "--data", str(self._store.path), "--out", str(out))
            archive = await asyncio.to_thread(shutil.make_archive, str(out), "zip", out)
        except BaseException:
            folder.cleanup()
            raise
        finally:
            self._exporting = False
        headers = self._attachment("zip")
        gone = BackgroundTask(folder.cleanup)
        return FileResponse(archive, headers=headers, media_type="application/zip", background=gone)

    def _attachment(self, kind: str) -> dict[str, str]:
        now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        name = f"{self._store.study.study.name}-{now}.{kind}"
        return {"content-disposition": f'attachment; filename="{name}"'}

    async def log_in(self, request: Request) -> Response:
        # A form's body stands in no address, hence in no history, log or referrer.
        try:
            self._check(await _read_form(request, "token"), self._token)
        except RefusedError as error:
            return self._ask(error)
        reply = RedirectResponse("dashboard", status_code=303)
        safe: dict[str, Any] = {"httponly": True, "secure": request.url.scheme == "https"}
        # Without a path it is for this study's place alone: others may be served beside it.
        reply.set_cookie(_COOKIE, self._proof, path=None, samesite="strict", **safe)
        return reply

    async def data(self, request: Request) -> Response:
        self._admit(request)
        return JSONResponse(await _of(self._store.summary()))

    def _ask(self, error: RefusedError) -> Response:
        # Who has given nothing yet has done nothing wrong.
        why = "" if error.status == 401 else str(error)
        return HTMLResponse(login_page(self._store.study.study.name, why), error.status, _OWN_FORMS)

    def _admit(self, request: Request) -> None:
        if _COOKIE in request.cookies:
            self._check(request.cookies[_COOKIE], self._proof)
        else:
            self._check(_bearer(request, "dashboard"), self._token)

    def _check(self, given: str, wanted: str) -> None:
        if not hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode()):
            raise RefusedError(403, "this is not the dashboard's token")
