"""Measure how long participants wait for the next trials of an adaptive study under load.

Usage: python benchmarks/adaptive_server.py [--participants 50] [--pairs 100000] [--models 9]
                                            [--thought 3] [--kills 10] [--ratings]

`contstim experiment serve` runs a study with a pool of `--pairs` pairs. Simulated participants
arrive within `--arrive` seconds. They answer one trial at a time, after an exponentially
distributed time with a mean of `--thought` seconds. As the page does, they request the next block
of trials when they begin the current one; these requests are timed. Answers are ratings with six
levels (`--ratings`) or choices between two sides.

There are two runs: one undisturbed, and one in which the server is killed (SIGKILL) and restarted
`--kills` times. The script then checks the data file, and fails if an acknowledged answer is
missing, or a pair was issued twice. It also chooses each block again from the blocks and answers
before it: pairs and propensities must equal the stored ones to the last bit.
"""

from __future__ import annotations

import argparse
import random
import signal
import sqlite3
import tempfile
import threading
import time
import uuid
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from experiment import Participant, Server, children_cpu, free_port

from contstim.adaptive import SIX_POINT, AdaptivePlan, Stopping, TrialScheduler
from contstim.experiment.adaptive import BlockIssuer, create_adaptive_study, read_pool
from contstim.experiment.schema import DATA_FILE, open_data
from contstim.experiment.study import Study


class Asked(Participant):
    """A participant of an adaptive study; `latencies` are the times of requests for blocks."""

    arrives: float = 0.0
    opened: float = 0.0

    def play(self) -> None:
        """Take part in a whole session."""
        rng = random.Random(self.number)
        time.sleep(self.arrives)
        began = time.perf_counter()
        begun = self.ask("POST", "/api/sessions", self.body)
        self.opened = time.perf_counter() - began
        token, bundle = str(begun["token"]), begun["bundle"]
        self.session, more, last = bundle["session"], bundle["more"], len(bundle["trials"])
        hand = [*bundle["practice"][:1], *bundle["trials"]]  # blocks come once practice has begun
        while hand or more:
            block, hand = hand, []
            if more:
                began = time.perf_counter()
                found = self.ask("POST", "/api/next", {"after": last}, token)
                self.latencies.append(time.perf_counter() - began)
                hand, more = found["trials"], found["more"]
                last = hand[-1]["number"] if hand else last
            for trial in block:
                time.sleep(rng.expovariate(1 / self.thought))
                answer = {
                    "id": str(uuid.UUID(int=rng.getrandbits(128), version=4)),
                    "trial": trial["trial"],
                    "choice": rng.choice([-3, -2, -1, 1, 2, 3]),
                    "rt_ms": 1000,
                    "answered_at": "2026-01-01T12:00:00Z",
                    "input": "key",
                }
                reply = self.ask("POST", "/api/answers", {"answers": [answer]}, token)
                if reply["acknowledged"] != [answer["id"]] or reply["conflicts"]:
                    raise SystemExit(f"not acknowledged: {reply}")
                self.acknowledged.add(answer["id"])
        self.outcome = str(self.ask("POST", "/api/finish", {}, token)["outcome"])


def make_study(folder: Path, n: int, m: int, participants: int, ratings: bool) -> Study:
    """Create an adaptive study with `n` pairs and random scores of `m` models."""
    rng = np.random.default_rng(0)
    words = np.array([f"w{k}" for k in range(3000)])
    names = [" ".join([*row, str(k)]) for k, row in enumerate(rng.choice(words, (2 * n + 200, 8)))]
    scores = rng.normal(-40, 5, (len(names), 1)) + rng.normal(0, 8, (len(names), m))
    table = pd.DataFrame(scores.round(3), names, [f"model {k}" for k in range(m)])
    table.to_csv(folder / "scores.csv", index_label="sentence")
    pairs = pd.DataFrame({"sentence_1": names[:n], "sentence_2": names[n : 2 * n]})
    pairs.to_csv(folder / "pairs.csv", index=False)
    plan = AdaptivePlan(anchors=6, stopping=Stopping(participants=participants))
    if ratings:
        plan = replace(plan, link=replace(plan.link, thresholds=SIX_POINT))
    return create_adaptive_study(
        folder / "study", folder / "pairs.csv", folder / "scores.csv", plan, catch=4
    )


def load(study: Study, n: int, kills: int, thought: float, arrive: float) -> list[Asked]:
    """Run sessions of `n` participants at once, and kill the server `kills` times meanwhile."""
    server = Server(study, free_port())
    consent = {
        "version": study.consent.version,
        "sha256": study.consent_sha256,
        "given": True,
    }
    people = [
        Asked(k, server.port, {"consent": consent, "participant": f"P{k}"}, thought=thought)
        for k in range(n)
    ]
    for k, one in enumerate(people):
        one.arrives = arrive * k / n
    threads = [threading.Thread(target=one.play, daemon=True) for one in people]
    for thread in threads:
        thread.start()
    rng = random.Random(1)
    total = n * study.design.n_trials
    for k in range(kills):
        while sum(len(one.acknowledged) for one in people) < total * (k + 0.5) / (kills + 0.5):
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.2))
        server.stop(signal.SIGKILL)
        server.start()
    for thread in threads:
        thread.join(1800)
    server.stop()
    if any(one.outcome != "complete" for one in people):
        raise SystemExit("a participant did not finish")
    return people


def check(study: Study, people: list[Asked]) -> tuple[int, int]:
    """Check the data file and each choice; return the numbers of answers and of blocks."""
    with closing(open_data(study.folder / DATA_FILE, study)) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute("SELECT session, answer FROM answers WHERE conflict = 0")
        stored = {(row["session"], row["answer"]) for row in rows}
        live = BlockIssuer(study).load_scheduler(connection)
    lost = sum((p.session, answer) not in stored for p in people for answer in p.acknowledged)
    assert not lost, f"{lost} acknowledged answers are lost"
    pairs = [pair for block in live.blocks for pair in block.pairs]
    assert len(set(pairs)) == len(pairs), "a pair was issued twice"
    scheduler = TrialScheduler(live.plan, read_pool(study))
    for block in live.blocks:
        assert scheduler.reissue(block) == block, f"block {block.number} differs"
        scheduler.record_block(block)
        # Add the answers to this block, which only later blocks can use.
        keys = [(block.participant, pair) for pair in block.pairs]
        scheduler.answers |= {key: live.answers[key] for key in keys}
    assert scheduler.weights.tobytes() == live.weights.tobytes(), "the posterior differs"
    return len(stored), len(live.blocks)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--participants", type=int, default=50)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--models", type=int, default=9)
    parser.add_argument("--thought", type=float, default=3, help="mean seconds before an answer")
    parser.add_argument("--arrive", type=float, default=30, help="seconds in which people come")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--ratings", action="store_true")
    args = parser.parse_args()
    for kills in dict.fromkeys([0, args.kills]):
        with tempfile.TemporaryDirectory() as name:
            study = make_study(Path(name), args.pairs, args.models, args.participants, args.ratings)
            before, began = children_cpu(), time.perf_counter()
            people = load(study, args.participants, kills, args.thought, args.arrive)
            seconds, cpu = time.perf_counter() - began, children_cpu() - before
            answers, blocks = check(study, people)
        took = np.concatenate([one.latencies for one in people])
        opened = np.array([one.opened for one in people])
        print(
            f"{'six ratings' if args.ratings else 'two answers'}, {kills} kills: {len(took)} "
            f"requests for a block, median {1e3 * np.median(took):.0f} ms, p99 "
            f"{1e3 * np.quantile(took, 0.99):.0f} ms, most {1e3 * took.max():.0f} ms; sessions "
            f"opened in {1e3 * np.median(opened):.0f} ms (median); {answers} answers and {blocks} "
            f"blocks in {seconds:.0f} s, {cpu:.0f} s of the server's processor time; none lost, "
            "none twice, every block chosen again the same",
            flush=True,
        )


if __name__ == "__main__":
    main()
