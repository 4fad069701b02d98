"""A small adaptive study shared by several tests."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from client_messages import answer, answers_to, session_request

from contstim.adaptive.link import Link
from contstim.adaptive.policies import PolicyOptions
from contstim.adaptive.scheduler import AdaptivePlan
from contstim.adaptive.stopping import Stopping
from contstim.experiment.adaptive import create_adaptive_study
from contstim.experiment.store import Store
from contstim.experiment.study import Study

PLAN = AdaptivePlan(
    trial_selection=PolicyOptions(block_size=3),
    link=Link(slopes=(0.5, 1.5)),
    stopping=Stopping(participants=6),
    anchors=2,
    trials=8,
    seed=4,
)


def write_tables(folder: Path, n: int = 60) -> tuple[Path, Path]:
    """Write a pool of `n` pairs and scores of three models."""
    rng = np.random.default_rng(0)
    names = [f"The {k} old men of place {k} walked home." for k in range(2 * n + 30)]
    pairs = pd.DataFrame({"sentence_1": names[:n], "sentence_2": names[n : 2 * n]})
    scores = pd.DataFrame(rng.normal(-40, 8, (len(names), 3)), names, list("abc"))
    pairs.to_csv(folder / "pairs.csv", index=False)
    scores.to_csv(folder / "given.csv", index_label="sentence")
    return folder / "pairs.csv", folder / "given.csv"


def make_adaptive(folder: Path, plan: AdaptivePlan = PLAN, n: int = 60, catch: int = 2) -> Study:
    """Write an adaptive study with 12 trials each, 8 of them chosen in blocks of three."""
    pool, scores = write_tables(folder, n)
    return create_adaptive_study(folder / "adaptive", pool, scores, plan, catch)


def begin(store: Store, name: str) -> tuple[str, dict[str, Any]]:
    """Open a session, answer a practice trial and request the first block."""
    token, bundle, _ = store.open(session_request(store.study, name)).result()
    store.add_answers(token, [answer("p1")]).result()
    store.next_trials(token, len(bundle["trials"])).result()
    return token, store.resume(token).result()


def take_part(
    store: Store, name: str, choice: int = -2, token: str | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Answer a session to its end, with each block requested after the last trial."""
    token = token or begin(store, name)[0]
    bundle = store.resume(token).result()
    trials, more = bundle["trials"], bundle["more"]
    done = sum(trial["trial"] in bundle["answered"] for trial in trials)
    while True:
        if more:
            block = store.next_trials(token, trials[-1]["number"]).result()
            trials, more = trials + block["trials"], block["more"]
        sent = answers_to(trials[done : done + 3], choice)
        if not sent:
            return store.finish(token).result(), trials
        store.add_answers(token, sent).result()
        done += len(sent)
