"""A local web server that serves files, with the faults of real servers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


@dataclass
class Served:
    """Files of a local server, and the requests that it received.

    Attributes
    ----------
    files
        Contents by path.
    lengths
        Values of the header Content-Length by path, if they are not the length of the content.
    asked
        Paths that were asked for.
    """

    port: int = 0
    files: dict[str, bytes] = field(default_factory=dict)
    lengths: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def address(self, path: str) -> str:
        """Return the URL of a path, whether or not it exists."""
        return f"http://127.0.0.1:{self.port}/{path}"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Yield the state of a local server; the cache is in the temporary folder."""
    monkeypatch.setenv("CONTSTIM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    state = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.removeprefix("/")
            state.asked.append(path)
            if path not in state.files:
                self.send_error(416 if path == "416" else 404)
                return
            content = state.files[path]
            self.send_response(200)
            self.send_header("Content-Length", state.lengths.get(path, str(len(content))))
            self.end_headers()
            with suppress(ConnectionError):  # the client may have had enough
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    server.shutdown()
    thread.join()
    server.server_close()
