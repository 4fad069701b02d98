"""Measure the speed of the experiment's server, and check its data after it was killed.

Usage: python benchmarks/experiment.py [--participants 50] [--trials 165] [--kills 10]
                                       [--thought 0] [--dashboards 0]

Simulated participants post one answer at a time over HTTP. They wait for an exponentially
distributed time with a mean of `--thought` seconds after the last acknowledgement, and repeat an
answer that was not acknowledged every 50 ms. Open dashboards are reloaded as browsers do. The real
page repeats an answer after 250 to 750 ms and shows the next trial at once, so participants do not
notice the latencies that are reported here.

There are two runs: one undisturbed, and one in which the server is killed (SIGKILL) and restarted.
With `--thought`, a third run without waiting measures the highest rate. The script then checks the
data file, and fails if an acknowledged answer is missing, stored twice or changed, or if the sizes
of groups differ by more than one. For comparison, SQLite commits rows one by one on the same disk,
without a server.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from contstim.design.trials import Layout, design_trials
from contstim.experiment.scaffold import create_study
from contstim.experiment.schema import DATA_FILE, connect
from contstim.experiment.study import Study, read_study

GROUPS = 5
EVERY_S = 10  # between reloads of a dashboard
AGAIN_S = 0.05  # before a participant retries an unavailable server
TOKEN = "a-token-of-the-benchmark"
SERVER = "import sys; from contstim.cli import main; sys.exit(main())"


@dataclass
class Load:
    """Result of a run under load.

    Attributes
    ----------
    people
        Participants of the run.
    seconds
        Time from the start of the first session to the end of the last, in seconds.
    cpu
        Processor time of the servers in seconds.
    away
        Seconds from each restart after a kill to the first response.
    """

    people: list[Participant]
    seconds: float
    cpu: float
    away: list[float]


@dataclass
class Participant:
    """A simulated participant, with the answers that were sent and acknowledged, and latencies."""

    number: int
    port: int
    body: dict[str, object]
    sent: dict[str, tuple[str, int]] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    latencies: list[float] = field(default_factory=list)
    outcome: str = ""
    session: str = ""
    assignment: int = 0
    connection: http.client.HTTPConnection | None = None
    thought: float = 0.0

    def ask(self, method: str, path: str, body: object, token: str = "") -> dict[str, object]:
        """Send a request until the server responds, since it may be down for a while."""
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        while True:
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
                self.connection.request(method, path, json.dumps(body), headers)
                reply = self.connection.getresponse()
                content = reply.read()
                if reply.status < 300:
                    return json.loads(content)
                if reply.status != 503:
                    raise SystemExit(f"{path}: {reply.status} {content!r}")
            except (OSError, http.client.HTTPException):
                if self.connection is not None:
                    self.connection.close()
                self.connection = None
            time.sleep(AGAIN_S)

    def play(self) -> None:
        """Take part in a whole session."""
        rng = random.Random(self.number)
        begun = self.ask("POST", "/api/sessions", self.body)
        token, bundle = str(begun["token"]), begun["bundle"]
        self.session, self.assignment = bundle["session"], bundle["assignment"]
        for trial in bundle["trials"]:
            answer = {
                "id": str(uuid.UUID(int=rng.getrandbits(128), version=4)),
                "trial": trial["trial"],
                "choice": rng.choice([-3, -2, -1, 1, 2, 3]),
                "rt_ms": rng.randrange(300, 5000),
                "answered_at": "2026-01-01T12:00:00Z",
                "input": "key",
            }
            self.sent[answer["id"]] = (answer["trial"], answer["choice"])
            if self.thought:
                time.sleep(rng.expovariate(1 / self.thought))
            began = time.perf_counter()
            reply = self.ask("POST", "/api/answers", {"answers": [answer]}, token)
            self.latencies.append(time.perf_counter() - began)
            if reply["acknowledged"] != [answer["id"]] or reply["conflicts"]:
                raise SystemExit(f"not acknowledged: {reply}")
            self.acknowledged.add(answer["id"])
        self.outcome = str(self.ask("POST", "/api/finish", {}, token)["outcome"])


class Server:
    """The server of a study in a separate process."""

    def __init__(self, study: Study, port: int) -> None:
        arguments = ["experiment", "serve", str(study.folder), "--port", str(port)]
        arguments += ["--token", TOKEN]
        self.command = [sys.executable, "-c", SERVER, *arguments]
        self.port = port
        self.start()

    def start(self) -> float:
        """Start the server, wait until it responds, and return the seconds that this took."""
        began = time.perf_counter()
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            try:
                connection.request("GET", "/health")
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                if self.process.poll() is not None:
                    raise SystemExit("the server did not start") from None
                time.sleep(AGAIN_S)
            else:
                return time.perf_counter() - began
            finally:
                connection.close()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop the server by a signal."""
        self.process.send_signal(how)
        self.process.wait()


def make_study(folder: Path, participants: int, trials: int) -> Study:
    """Lay out `trials` random pairs for each participant."""
    pool = [f"Sentence {i} of the pool is {i} words long." for i in range(GROUPS * trials * 2)]
    layout = Layout(GROUPS, -(-participants // GROUPS), random_natural=trials)
    table = folder / "trials.csv"
    design_trials(pool=pool, layout=layout).to_csv(table, index=False)
    create_study(folder / "study", table)
    (folder / "study" / "consent.md").write_text("Taking part is voluntary.\n", "utf-8")
    return read_study(folder / "study")


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def watch(port: int, over: threading.Event) -> None:
    """Reload the dashboard repeatedly, as an open page does, until the event `over` is set."""
    while not over.wait(EVERY_S):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", "/dashboard", headers={"Authorization": f"Bearer {TOKEN}"})
            reply = connection.getresponse()
            content = reply.read()
            connection.close()
        except (OSError, http.client.HTTPException):
            continue  # the server was killed
        if reply.status != 200:
            raise SystemExit(f"the dashboard: {reply.status} {content!r}")


def load(
    study: Study, n: int, kills: int, patience: float, thought: float = 0.0, dashboards: int = 0
) -> Load:
    """Run sessions of `n` participants at once, and kill the server `kills` times meanwhile."""
    before = children_cpu()
    server = Server(study, free_port())
    consent = {
        "version": study.consent.version,
        "sha256": study.consent_sha256,
        "given": True,
    }
    people = [
        Participant(k, server.port, {"consent": consent, "participant": f"P{k}"}, thought=thought)
        for k in range(n)
    ]
    over = threading.Event()
    for _ in range(dashboards):
        threading.Thread(target=watch, args=(server.port, over), daemon=True).start()
    threads = [threading.Thread(target=one.play, daemon=True) for one in people]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    rng = random.Random(1)
    total = n * study.design.n_trials
    away = []
    for k in range(kills):
        # Spread over the run by what is done, then at any moment of the work.
        while sum(len(one.acknowledged) for one in people) < total * (k + 0.5) / (kills + 0.5):
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.2))
        server.stop(signal.SIGKILL)
        away.append(server.start())
    for thread in threads:
        thread.join(patience)
    seconds = time.perf_counter() - began
    over.set()
    server.stop()
    if any(thread.is_alive() for thread in threads):
        raise SystemExit("a participant did not come to the end")
    return Load(people, seconds, children_cpu() - before, away)


def children_cpu() -> float:
    """Return the processor time of child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def check(study: Study, people: list[Participant]) -> tuple[int, int]:
    """Check the data file; return the number of answers and the difference between group sizes."""
    connection = sqlite3.connect(study.folder / DATA_FILE)
    rows = connection.execute(
        "SELECT session, answer, trial, choice, conflict FROM answers"
    ).fetchall()
    assignments = connection.execute(
        "SELECT count(session) FROM assignments GROUP BY group_number"
    ).fetchall()
    connection.close()
    stored = {(session, answer): (trial, choice) for session, answer, trial, choice, _ in rows}
    wanted = {}
    for p in people:
        trials = {trial.page_id: trial.id for trial in study.design.trials[p.assignment]}
        wanted |= {(p.session, a): (trials[trial], c) for a, (trial, c) in p.sent.items()}
    lost = sum((p.session, answer) not in stored for p in people for answer in p.acknowledged)
    assert not lost, f"{lost} acknowledged answers are lost"
    assert len(stored) == len(rows), "an answer is there twice"
    assert stored == wanted, "an answer is not as it was sent"
    assert not any(row[4] for row in rows), "there are conflicts"
    assert {p.outcome for p in people} == {"complete"}
    taken = [n for (n,) in assignments]
    assert max(taken) - min(taken) <= 1, f"groups are not balanced: {taken}"
    return len(rows), max(taken) - min(taken)


def one_by_one(folder: Path, seconds: float = 2.0) -> float:
    """Return the number of rows per second that SQLite stores with one commit per row."""
    connection = connect(folder / "single.sqlite3")
    connection.execute("CREATE TABLE t (a TEXT, b TEXT)")
    began, n = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        connection.execute("INSERT INTO t VALUES (?, ?)", (str(uuid.uuid4()), "x" * 100))
        n += 1
    connection.close()
    return n / (time.perf_counter() - began)


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--participants", type=int, default=50)
    parser.add_argument("--trials", type=int, default=165)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--patience", type=float, default=600, help="seconds to wait for the end")
    parser.add_argument("--thought", type=float, default=0, help="mean seconds before an answer")
    parser.add_argument("--dashboards", type=int, default=0, help="open all the while")
    args = parser.parse_args()
    print(
        f"{args.participants} participants, {args.trials} trials each, one answer a request, "
        f"{args.thought:g} s of thought, {args.dashboards} dashboards open; "
        f"{len(os.sched_getaffinity(0))} cores for server and participants\n"
    )
    columns = ["run", "rows", "lost", "twice", "groups differ by", "writes/s", "p50 ms", "p99 ms"]
    columns += ["away at most, ms", "server's processor ms a row"]
    print(f"| {' | '.join(columns)} |")
    print("| --- |" + " ---: |" * (len(columns) - 1))
    runs = [("undisturbed", 0, args.thought), ("server killed {} times", args.kills, args.thought)]
    if args.thought:
        runs.append(("nobody thinks", 0, 0.0))
    rate = single = 0.0
    for name, kills, thought in runs:
        with tempfile.TemporaryDirectory() as folder:
            study = make_study(Path(folder), args.participants, args.trials)
            done = load(study, args.participants, kills, args.patience, thought, args.dashboards)
            rows, spread = check(study, done.people)
            times = np.array([t for p in done.people for t in p.latencies]) * 1000
            p50, p99 = np.percentile(times, [50, 99])
            writes, away = rows / done.seconds, 1000 * max(done.away, default=0)
            print(f"| {name.format(kills)} | {rows} | 0 | 0 | {spread} | {writes:.0f} ", end="")
            print(
                f"| {p50:.0f} | {p99:.0f} | {away:.0f} | {1000 * done.cpu / rows:.2f} |", flush=True
            )
            if not kills and not thought:
                rate, single = writes, one_by_one(Path(folder))
    print(
        f"\nSQLite alone, a commit a row, without a server: {single:.0f} rows/s; the server, when "
        f"nobody thinks: {rate:.0f}; ratio {rate / single:.2f}."
    )


if __name__ == "__main__":
    main()
