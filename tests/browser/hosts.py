"""Servers for the page: the server of a study, which can be killed, and unreliable file hosts."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

#: A new browser looks up no host of its maker's, and needs no sandbox to run as root.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str:
    found = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert found, "there is no chromium; apt-get install chromium, or say where in CHROMIUM"
    return found


_SERVE = """
import sys
from contstim.experiment.serving import serve
from contstim.experiment.study import read_study
serve(read_study(sys.argv[1]), port=int(sys.argv[2]))
"""


class Server:
    """Server process of a study, on the same port each time it is started.

    A socket that does not listen holds the port: while the server is down, nobody else gets it.
    """

    def __init__(self, study: Path) -> None:
        self.study = study
        self._held = socket.socket()
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind(("127.0.0.1", 0))
        self.port: int = self._held.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        return [sys.executable, "-c", _SERVE, str(self.study), str(self.port)]

    def start(self) -> None:
        log = (self.study.parent / "server.log").open("ab")
        self._process = subprocess.Popen(self.command(), stdout=log, stderr=log)
        log.close()
        end = time.monotonic() + 240
        while True:
            try:
                urlopen(f"{self.url}api/study", timeout=60).close()
            except OSError:
                assert self._process.poll() is None, "the server ended"
                assert time.monotonic() < end, "the server does not answer"
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        """Kill the process without warning."""
        if self._process is not None:
            self._process.kill()  # SIGKILL
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.kill()
        self._held.close()


class FileHost:
    """Host of files with an endpoint, ``/pipe``, that follows the rules of DataPipe.

    They are those of its function ``api-data`` with an experiment's default settings: in this
    order a parameter is missing, data collection is not active, the limit of sessions is reached,
    the data are not a JSON array whose objects have among them the required fields, a file of that
    name exists. A file that is stored counts as a session. Besides, every second file is stored
    although the endpoint says that it failed.
    """

    def __init__(self, folder: Path) -> None:
        self.received: list[dict[str, Any]] = []
        self.calls = 0
        self.active = True
        self.most_sessions: int | None = None
        self.required = ["trial_type"]
        host = self

        class Handler(SimpleHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                """Print nothing."""

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                host.calls += 1
                status, error = host.take(body)
                reply = {"message": "Success"} if error is None else {"error": error}
                content = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), partial(Handler, directory=str(folder))
        )
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def take(self, body: dict[str, Any]) -> tuple[int, str | None]:
        """Store a file, or return the reason for refusing it."""
        if not all(body.get(name) for name in ("experimentID", "data", "filename")):
            return 400, "MISSING_PARAMETER"
        if not self.active:
            return 400, "DATA_COLLECTION_NOT_ACTIVE"
        if self.most_sessions is not None and len(self.received) >= self.most_sessions:
            return 400, "SESSION_LIMIT_REACHED"
        if not self._valid(body["data"]):
            return 400, "INVALID_DATA"
        if body["filename"] in {file["filename"] for file in self.received}:
            return 400, "OSF_FILE_EXISTS"
        self.received.append(body)
        return (400, "OSF_UPLOAD_ERROR") if len(self.received) % 2 == 0 else (201, None)

    def _valid(self, data: str) -> bool:
        try:
            parsed = json.loads(data)
        except ValueError:
            return False
        objects = parsed if isinstance(parsed, list) else [parsed]
        if not all(isinstance(one, dict) for one in objects):
            return False
        return set(self.required) <= {key for one in objects for key in one}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
