"""A custom policy: in a plan, in a registration, in a study, and in Python."""

from dataclasses import replace

import numpy as np
import pandas as pd

from contstim.adaptive import PolicyOptions, Pool, TrialScheduler
from contstim.adaptive.preregistration import read_adaptive_plan


def test_custom_policy(add_extension, run):
    add_extension("two_best", "contstim.policies", "two-best = TWO_BEST")
    rng = np.random.default_rng(0)
    names = [f"sentence number {k}" for k in range(100)]
    scores = pd.DataFrame(rng.normal(-40, 8, (100, 3)), names, list("abc"))
    scores.to_csv("scores.csv", index_label="sentence")
    pairs = pd.DataFrame({"sentence_1": names[:40], "sentence_2": names[40:80]})
    pairs.to_csv("pairs.csv", index=False)
    with open("plan.toml", "w", encoding="utf-8") as file:
        file.write(
            '[adaptive]\ntrials = 8\nanchors = 2\n[adaptive.trial_selection]\npolicy = "two-best"\n'
        )
    ended = run("preregister", "plan.toml", "--out", "-")
    assert ended.returncode == 0, ended.stderr
    assert "otherwise by how far the two models of largest posterior" in ended.stdout
    words = ["--pairs", "pairs.csv", "--scores", "scores.csv", "--plan", "plan.toml"]
    ended = run("experiment", "new", "study", *words, "--catch", 2)
    assert ended.returncode == 0, ended.stderr
    ended = run("experiment", "check", "study")
    assert "chosen by the policy two-best, 5 at a time" in ended.stdout, ended.stderr
    plan = read_adaptive_plan("plan.toml")
    plan = replace(plan, trial_selection=PolicyOptions("two-best", epsilon=0, temperature=1e-6))
    pool = Pool.from_scores(pairs, scores, plan.link)
    first = TrialScheduler(plan, pool).choose_next_block("Ada").pairs[0]
    apart = np.abs(pool.preferences[:, 0] - pool.preferences[:, 1])
    assert first == apart[2:].argmax() + 2  # two models lead at first, and two pairs are anchors
