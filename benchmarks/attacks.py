"""What one hostile client can do to a study's server, with figures.

A server of a study with 132 trials and a screening question is started on 127.0.0.1 and attacked as
a participant or a stranger could: by a flood of answers to questions that nobody asked, another
person's id, a session without its screening, buttons on a page of another port, guesses of the
token, openings, and half-sent requests. Each line is one figure. No other machine is asked.

    python benchmarks/attacks.py --seconds 30
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from contstim.design.trials import Layout, design_trials
from contstim.experiment.scaffold import create_study

TOKEN = "a-token-of-the-benchmark"
RECRUITED = """
[recruiter]
name = "prolific"
participant = "PROLIFIC_PID"
redirect = "https://app.prolific.com/submissions/complete?cc={code}"

[recruiter.codes]
complete = "DONE1"

[[questions]]
name = "native"
prompt = "Is English your first language?"
kind = "choice"
options = ["yes", "no"]
admit = ["yes"]
"""
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
DETAIL = json.dumps({"responses": {f"{n:04}": "" for n in range(1200)}})


class Client:
    """A client with a connection of its own."""

    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        self._headers = {} if address == "127.0.0.1" else {"X-Forwarded-For": address}

    def ask(
        self, path: str, body: Any = None, headers: dict[str, str] | None = None, method: str = ""
    ) -> tuple[int, Any]:
        """Return the status of a reply and its JSON value, or else its headers."""
        sent = body if body is None or isinstance(body, str) else json.dumps(body)
        given = {**self._headers, **(JSON if isinstance(body, dict) else {}), **(headers or {})}
        method = method or ("GET" if body is None else "POST")
        try:
            self._connection.request(method, path, sent, given)
            reply = self._connection.getresponse()
        except (ConnectionError, http.client.RemoteDisconnected):  # it was idle for some seconds
            self._connection.close()
            self._connection.request(method, path, sent, given)
            reply = self._connection.getresponse()
        content = reply.read()
        with suppress(ValueError):
            return reply.status, json.loads(content)
        return reply.status, dict(reply.getheaders())

    def begin(self, consent: dict[str, Any], participant: str, **more: str) -> tuple[int, Any]:
        """Open a session."""
        given = {"consent": {**consent, "given": True}, "participant": participant, **more}
        return self.ask("/api/sessions", given)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def answers(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"id": str(uuid.uuid4()), "trial": trial["trial"], "choice": -2, "rt_ms": 900}
        for trial in trials
    ]


def make_study(folder: Path) -> Path:
    """Write a study of 132 trials for 60 people."""
    pairs = pd.DataFrame(
        {
            "model_1": "a",
            "model_2": "b",
            "sentence_1": [f"Number {n} stood here first." for n in range(110)],
            "sentence_2": [f"Number {n} came there last." for n in range(110)],
        }
    )
    pool = [f"The {n} old men walked home again, slowly." for n in range(60)]
    layout = Layout(1, 60, random_natural=10, catch=12)
    design_trials(pairs, pool=pool, layout=layout, seed=1).to_csv(folder / "t.csv", index=False)
    study = create_study(folder / "study", folder / "t.csv").folder
    with (study / "study.toml").open("a", encoding="utf-8") as file:
        file.write(RECRUITED)
    return study


@contextmanager
def served(study: Path, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Serve a study in a process; give it and its port."""
    command = [sys.executable, "-m", "contstim", "experiment", "serve", str(study)]
    command += ["--port", "0", "--token", TOKEN, "--pilot"]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        while not (port := re.search(r"participants: http://127.0.0.1:(\d+)/", log.read_text())):
            if process.poll() is not None:
                sys.exit(log.read_text())
            time.sleep(0.05)
        time.sleep(0.5)
        yield process, int(port[1])
    finally:
        process.kill()
        process.wait()


def memory_mb(process: subprocess.Popen[bytes]) -> float:
    """Return how much memory a process has had at most."""
    status = Path(f"/proc/{process.pid}/status").read_text("utf-8")
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024  # type: ignore[index] # it is there


def flood(port: int, consent: dict[str, Any], data: Path, seconds: float) -> None:
    """Send answers to questions that nobody asked, then ask for the end while others take part."""
    attacker, victim = Client(port, "203.0.113.1"), Client(port, "203.0.113.2")
    _, begun = attacker.begin(consent, "ATTACKER")
    _, other = victim.begin(consent, "VICTIM")
    token, trials = begun["token"], other["bundle"]["trials"]
    sent = acknowledged = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        at = "2026-01-01T00:00:00Z"
        events = [
            {"id": str(uuid.uuid4()), "kind": "responses", "at": at, "detail": DETAIL}
            for _ in range(3)
        ]
        _, reply = attacker.ask("/api/events", {"events": events}, bearer(token))
        sent += 3
        acknowledged += len(reply["acknowledged"])
    print(f"responses: {sent} events sent in {seconds:g} s, {acknowledged} stored")
    stored = sum(path.stat().st_size for path in data.parent.glob(f"{data.name}*"))
    print(f"responses: {stored / 2**20:.1f} MB on the disk")
    held = []
    for _ in range(3):
        begun_at = time.perf_counter()
        attacker.ask("/api/finish", {}, bearer(token))
        held.append(time.perf_counter() - begun_at)
    print(f"one /api/finish holds the writer {median(held) * 1e3:.1f} ms")
    stop = threading.Event()

    def hammer() -> None:
        client = Client(port, "203.0.113.1")
        while not stop.is_set():
            client.ask("/api/finish", {}, bearer(token))

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for thread in threads:
        thread.start()
    waits = []
    for one in answers(trials[:20]):
        begun_at = time.perf_counter()
        victim.ask("/api/answers", {"answers": [one]}, bearer(other["token"]))
        waits.append(time.perf_counter() - begun_at)
        if sum(waits) > 60:
            break
    stop.set()
    for thread in threads:
        thread.join()
    print(
        f"4 connections at /api/finish: another's answer waits {median(waits) * 1e3:.0f} ms, "
        f"at most {max(waits) * 1e3:.0f} ms"
    )


def another(port: int, consent: dict[str, Any]) -> None:
    """Come with the id of somebody else, before and after the end."""
    person, stranger = Client(port, "203.0.113.3"), Client(port, "203.0.113.4")
    _, begun = person.begin(consent, "PERSON", request="request-of-the-person")
    token, trials = begun["token"], begun["bundle"]["trials"]
    person.ask("/api/answers", {"answers": answers(trials[:30])}, bearer(token))
    _, theirs = stranger.begin(consent, "PERSON", request="request-of-a-stranger")
    choices = [one for one in theirs["bundle"]["answered"].values() if one.get("choice")]
    print(f"another's id: {len(choices)} of 30 answers told")
    person.ask("/api/answers", {"answers": answers(trials[30:])}, bearer(token))
    status, end = person.ask("/api/finish", {}, bearer(token))
    told = f"{end.get('outcome')}, code {end.get('code')}" if status == 200 else end["error"]
    print(f"screening left out: /api/finish says {status}, {told}")
    answer = json.dumps({"responses": {"native": "yes"}, "rt_ms": 5})
    at = "2026-01-01T00:00:00Z"
    event = {"id": str(uuid.uuid4()), "kind": "responses", "at": at, "detail": answer}
    person.ask("/api/events", {"events": [event]}, bearer(token))
    person.ask("/api/finish", {}, bearer(token))
    _, late = stranger.begin(consent, "PERSON", request="request-of-a-stranger")
    _, ended = stranger.ask("/api/finish", {}, bearer(theirs["token"]))
    codes = [one.get("code") for one in (late, ended)]
    print(f"another's id after the end: codes {codes}")


def lock_out(port: int, consent: dict[str, Any]) -> None:
    """Open a session so often that its participant cannot come back."""
    Client(port, "203.0.113.5").begin(consent, "LOCKED", request="request-of-the-locked")
    for n in range(250):
        # From ever other addresses, as who has many can.
        Client(port, f"198.51.100.{n}").begin(consent, "LOCKED")
    status, _ = Client(port, "203.0.113.5").begin(
        consent, "LOCKED", request="request-of-the-locked"
    )
    print(f"after 250 openings by others the participant's own is answered {status}")


def dashboard(port: int) -> None:
    """Guess the token of the dashboard."""
    stranger, n, judged = Client(port, "203.0.113.6"), 0, 0
    end = time.monotonic() + 5
    while time.monotonic() < end:
        status, _ = stranger.ask("/api/dashboard", None, bearer(f"guess-{n}"))
        n, judged = n + 1, judged + (status == 401)
    print(f"guesses of the token: {n / 5:.0f} a second sent, {judged} judged in 5 s")


def openings(port: int, consent: dict[str, Any]) -> None:
    """Take all assignments from one address."""
    one = Client(port, "203.0.113.7")
    statuses = [one.begin(consent, f"MANY{n}")[0] for n in range(70)]
    print(f"assignments taken by one client: {statuses.count(201)}, refused {statuses.count(429)}")


def main() -> None:
    """Run the attacks, each on the same server."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr] # it has one
    parser.add_argument("--seconds", type=float, default=30.0, help="of the flood")
    seconds = parser.parse_args().seconds
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as name:
        study = make_study(Path(name))
        data = study / "pilot.sqlite3"
        with served(study, Path(name) / "log.txt") as (_, port):
            _, info = Client(port).ask("/api/study")
            consent = {key: info["consent"][key] for key in ("version", "sha256")}
            another(port, consent)
            lock_out(port, consent)
            dashboard(port)
            openings(port, consent)
        for path in study.glob("pilot*"):
            path.unlink()
        with served(study, Path(name) / "log.txt") as (_, port):
            flood(port, consent, data, seconds)


if __name__ == "__main__":
    main()
