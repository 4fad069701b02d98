"""The server as a process: connections that say nothing, logs, and the clock."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contstim.errors import InputError
from contstim.experiment.store import Store
from contstim.experiment.study import Study

_SERVE = """
import sys
from contstim.experiment import requests, serving
from contstim.experiment.study import read_study
requests.BODY_TIMEOUT = serving._SLOWEST_HEAD = 1.0
serving.serve(read_study(sys.argv[1]), port=int(sys.argv[2]), token="a-token-of-the-tests")
"""


@pytest.fixture
def port(study: Study, tmp_path: Path) -> Iterator[int]:
    """Serve with one second's patience; ``log.txt`` is what the server says."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    command = [sys.executable, "-c", _SERVE, str(study.folder), str(number)]
    log = tmp_path / "log.txt"
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    end = time.monotonic() + 120
    while "data:" not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end
        time.sleep(0.05)
    yield number
    process.send_signal(signal.SIGTERM)
    process.wait(60)


def ask(port: int, *parts: bytes) -> bytes:
    """Send parts, one after the other, and return what comes until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for number, part in enumerate(parts):
            time.sleep(0.2 if number else 0)
            connection.sendall(part)
        reply = b""
        while got := connection.recv(4096):
            reply += got
    return reply


def test_lock_follows_symbolic_links(study: Study, tmp_path: Path) -> None:
    link = tmp_path / "link.sqlite3"
    with Store(study) as store:
        os.symlink(store.path, link)
        with pytest.raises(InputError, match="is held by process"):
            Store(study, link)
