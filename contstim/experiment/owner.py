"""What the experimenter asks of a server: the dashboard behind its token, and its buttons."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route

from contstim.errors import ContstimError, OutputError
from contstim.experiment.dashboard import dashboard_page, login_page, message_page
from contstim.experiment.messages import RefusedError
from contstim.experiment.requests import (
    Allowance,
    Endpoint,
    bearer,
    client_of,
    read_form,
    require_own_page,
    safely,
)
from contstim.experiment.sessions import IDLE_S
from contstim.experiment.store import Store
from contstim.files import digest

_COOKIE = "contstim_dashboard"
_LOGGED_IN_S = 12 * 3600  # until the token is asked for again
_GUESSES = 10  # wrong tokens of one client a minute

#: The policy of every page: nothing from another host, no inline script or style, no frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action {forms}; frame-ancestors 'none'"
)

#: Headers of a page whose forms may be sent to this server, which then learns whose they are.
_OWN_FORMS = {
    "content-security-policy": POLICY.format(forms="'self'"),
    "referrer-policy": "same-origin",
}


class Owner:
    """Answers the experimenter, who gives the token once and then has a cookie for some hours.

    Parameters
    ----------
    store
        Of the study.
    token
        What the experimenter gives.
    """

    def __init__(self, store: Store, token: str) -> None:
        self._store = store
        self._token = token
        self._guesses = Allowance(_GUESSES, 60)
        self._logged_in: dict[str, float] = {}  # digests of cookies, and until when
        self._exporting = False

    @property
    def routes(self) -> list[Route]:
        """Where what is asked for."""
        buttons = {
            "release": self._release,
            "backup": self._backup,
            "export": self._export,
            "logout": self._log_out,
        }
        return [
            Route("/dashboard", self._guarded(self._page)),
            Route("/dashboard", self._log_in, methods=["POST"]),
            Route("/api/dashboard", safely(self._data)),
            *(
                Route(f"/dashboard/{name}", self._guarded(button), methods=["POST"])
                for name, button in buttons.items()
            ),
        ]

    def _guarded(self, endpoint: Endpoint) -> Endpoint:
        """Ask for the token where it is missing, and say what is wrong in a page of its own."""

        async def guarded(request: Request) -> Response:
            below = request.method == "POST"
            try:
                self._admit(request)
            except RefusedError as error:
                return RedirectResponse("../dashboard", 303) if below else self._ask(error)
            try:
                if below:
                    require_own_page(request)
                return await endpoint(request)
            except (ContstimError, sqlite3.Error) as error:
                status = error.status if isinstance(error, RefusedError) else 503
                text = message_page(self._store.study.study.name, str(error), below)
                return HTMLResponse(text, status)

        return guarded

    async def _page(self, _: Request) -> Response:
        summary = await asyncio.wrap_future(self._store.summary())
        return HTMLResponse(dashboard_page(summary), headers=_OWN_FORMS)

    async def _data(self, request: Request) -> Response:
        self._admit(request)
        return JSONResponse(await asyncio.wrap_future(self._store.summary()))

    async def _release(self, request: Request) -> Response:
        session = await read_form(request, "session")
        await asyncio.wrap_future(self._store.release(session, IDLE_S))
        return RedirectResponse("../dashboard", 303)

    async def _backup(self, _: Request) -> Response:
        content = await asyncio.wrap_future(self._store.backup())
        media = "application/vnd.sqlite3"
        return Response(content, headers=self._attachment("sqlite3"), media_type=media)

    async def _export(self, _: Request) -> Response:
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

    async def _log_in(self, request: Request) -> Response:
        # A form's body stands in no address, hence in no history, log or referrer.
        try:
            require_own_page(request)
            self._check_token(request, await read_form(request, "token"))
        except RefusedError as error:
            return self._ask(error)
        now = time.monotonic()
        self._logged_in = {one: end for one, end in self._logged_in.items() if end > now}
        cookie = secrets.token_urlsafe(32)
        self._logged_in[digest(cookie)] = now + _LOGGED_IN_S
        reply = RedirectResponse("dashboard", 303)
        reply.set_cookie(
            _COOKIE,
            cookie,
            max_age=_LOGGED_IN_S,
            path=None,  # for this study's place alone: others may be served beside it
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return reply

    async def _log_out(self, request: Request) -> Response:
        self._logged_in.pop(digest(request.cookies.get(_COOKIE, "")), None)
        return RedirectResponse("../dashboard", 303)

    def _ask(self, error: RefusedError) -> Response:
        # Who has given nothing yet has done nothing wrong.
        why = "" if error.status == 401 else str(error)
        return HTMLResponse(login_page(self._store.study.study.name, why), error.status, _OWN_FORMS)

    def _admit(self, request: Request) -> None:
        if _COOKIE not in request.cookies:
            self._check_token(request, bearer(request, "dashboard"))
        elif self._logged_in.get(digest(request.cookies[_COOKIE]), 0.0) < time.monotonic():
            raise RefusedError(401, "the time for which the dashboard remembers you is over")

    def _check_token(self, request: Request, given: str) -> None:
        client = client_of(request)
        if not self._guesses.left(client):
            raise RefusedError(429, "too many wrong tokens came from here; wait a minute")
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode()):
            self._guesses.take(client)
            raise RefusedError(403, "this is not the dashboard's token")


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
        _, errors = await asyncio.to_thread(process.communicate)
    finally:
        process.kill()  # nothing, where it has ended
    if process.returncode < 0:
        raise OutputError(f"it was ended by signal {-process.returncode}; is memory short?")
    if process.returncode:
        lines = errors.decode("utf-8", "replace").splitlines() or ["it failed"]
        raise OutputError(lines[-1].removeprefix("contstim: "))
