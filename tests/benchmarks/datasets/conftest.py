"""Made files over local HTTP, with the faults that servers and connections have."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


@dataclass
class Served:
    """What a server has, and what it was asked.

    Attributes
    ----------
    files
        Contents by path.
    moved
        From a path to the one that it redirects to.
    cut
        After how many bytes the connection breaks, each time anew, by path.
    no_ranges
        Paths of which it always sends the whole.
    asked
        Each request: path, and the range that it asked for.
    """

    port: int = 0
    files: dict[str, bytes] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    no_ranges: set[str] = field(default_factory=set)
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def address(self, path: str) -> str:
        """Return the address of a path, which it need not have."""
        return f"http://127.0.0.1:{self.port}/{path}"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Yield what a server on this machine has; the cache is a folder of the test's own."""
    monkeypatch.setenv("CONTSTIM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    state = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.removeprefix("/")
            asked = self.headers.get("Range")
            state.asked.append((path, asked))
            if path in state.moved:
                self.send_response(302)
                self.send_header("Location", state.address(state.moved[path]))
                self.end_headers()
                return
            if path not in state.files:
                self.send_error(404)
                return
            content, start = state.files[path], 0
            if asked and path not in state.no_ranges:
                start = int(asked.removeprefix("bytes=").rstrip("-"))
                if start >= len(content):
                    self.send_error(416)
                    return
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            self.wfile.write(content[start:][: state.cut.get(path)])

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
