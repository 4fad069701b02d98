"""The other ends of the page: the study's server as a process that can be killed, and hosts of
files with endpoints that fail on purpose."""

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
from urllib.error import URLError
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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """The study's own server, on the same port each time it is started."""

    def __init__(self, study: Path) -> None:
        self.study = study
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-c", _SERVE, str(self.study), str(self.port)]
        log = (self.study.parent / "server.log").open("ab")
        self._process = subprocess.Popen(command, stdout=log, stderr=log)
        log.close()
        for _ in range(600):
            try:
                urlopen(f"{self.url}api/study", timeout=5).close()
            except (URLError, ConnectionError):
                assert self._process.poll() is None, "the server ended"
                time.sleep(0.05)
            else:
                return
        raise AssertionError("the server does not answer")

    def kill(self) -> None:
        """Kill it as a power cut would."""
        if self._process is not None:
            self._process.kill()  # SIGKILL
            self._process.wait()
            self._process = None


class FileHost:
    """A host of files with an endpoint, ``/pipe``, of which every second call fails."""

    def __init__(self, folder: Path) -> None:
        self.received: list[dict[str, Any]] = []
        self.calls = 0
        host = self

        class Handler(SimpleHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                """Print nothing."""

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                host.calls += 1
                names = {file["filename"] for file in host.received}
                status, reply = 201, {"message": "Success"}
                if body["filename"] in names:
                    status, reply = 400, {"error": "FILE_EXISTS"}
                else:
                    # Every second file is stored, but the endpoint says that it failed.
                    host.received.append(body)
                    if len(host.received) % 2:
                        status, reply = 500, {"error": "UPLOAD_EXCEPTION"}
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

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
