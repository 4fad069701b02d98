"""The server as a process: connections that say nothing, logs, and the clock."""

import logging
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
from contstim.experiment import serving
from contstim.experiment.store import Store
from contstim.experiment.study import Study

_SERVE = """
import sys
from contstim.experiment import requests, serving
from contstim.experiment.study import read_study
requests.SLOWEST_BODY = serving._SLOWEST_HEAD = 1.0
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


def test_half_sent_requests_are_let_go(port: int) -> None:
    begun = time.monotonic()
    assert ask(port) == b""
    assert ask(port, b"GET / HTTP/1.1\r\nHost: x\r\n") == b""
    assert ask(port, b"G", b"E", b"T") == b""  # signs of life are none
    head = b"POST /api/declined HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    reply = ask(port, head + b"Content-Length: 50\r\n\r\n{")
    assert reply.startswith(b"HTTP/1.1 408 ")
    # Nor is one who goes on with the body bit by bit.
    assert b"connection: close" in reply.lower()
    assert time.monotonic() - begun < 30


def test_strangers_do_not_fill_the_log(port: int, tmp_path: Path) -> None:
    upgrade = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\n"
    for _ in range(20):
        assert ask(port, b"\x16\x03\x01 no HTTP\r\n\r\n").startswith(b"HTTP/1.1 400")
        ask(port, upgrade + b"Upgrade: websocket\r\n\r\n")
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert sum("Invalid HTTP request" in line for line in lines) == 1
    assert len(lines) < 10


def test_a_warning_is_logged_again_after_an_hour() -> None:
    seldom = serving._Seldom()
    record = logging.makeLogRecord({"msg": "bad", "levelno": logging.WARNING, "created": 1e9})
    assert [seldom.filter(record) for _ in range(3)] == [True, False, False]
    record.created += 3601
    assert seldom.filter(record)
    record.levelno = logging.ERROR
    assert all(seldom.filter(record) for _ in range(3))


def test_times_go_on_evenly_when_the_clock_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    wall, up = [1_000_000.0], [500.0]
    monkeypatch.setattr("contstim.experiment.serving.time.time", lambda: wall[0])
    monkeypatch.setattr(serving, "_uptime", lambda: up[0])
    clock = serving._Clock(said.append)
    for jump in (0.0, 3600.0, -90_000.0):
        wall[0] += 10 + jump
        up[0] += 10
        clock()
    assert clock() == 1_000_030.0
    assert said == [
        "the machine's clock was set by +3600 s; times go on as before until the server is "
        "started again"
    ]


def test_a_link_to_the_data_is_the_data(study: Study, tmp_path: Path) -> None:
    link = tmp_path / "link.sqlite3"
    with Store(study) as store:
        os.symlink(store.path, link)
        with pytest.raises(InputError, match="is held by process"):
            Store(study, link)
