"""A small pool and plan shared by the tests of adaptive studies."""

import numpy as np
import pandas as pd

from contstim.adaptive.link import Link
from contstim.adaptive.policies import PolicyOptions
from contstim.adaptive.pool import Pool
from contstim.adaptive.scheduler import AdaptivePlan

PLAN = AdaptivePlan(
    trial_selection=PolicyOptions(block_size=3),
    link=Link(slopes=(0.5, 1.5)),
    anchors=5,
    trials=9,
    max_pending=6,
    seed=4,
)


def make_pool(n=60, models=3, seed=0):
    rng = np.random.default_rng(seed)
    names = [f"sentence number {k}" for k in range(2 * n)]
    scores = pd.DataFrame(
        rng.normal(size=(2 * n, models)), index=names, columns=list("abc")[:models]
    )
    pairs = pd.DataFrame({"sentence_1": names[:n], "sentence_2": names[n:]})
    return Pool.from_scores(pairs, scores, PLAN.link)
