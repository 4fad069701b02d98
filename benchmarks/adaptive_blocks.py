"""How long the next block of an adaptive study takes: 100,000 pairs, nine models.

    python benchmarks/adaptive_blocks.py [N_PAIRS] [N_MODELS]

Fifty participants answer in turn; timed is what the server does when one of them asks for a block:
curves of the person, information of every pair, a block of five by joint information.
"""

import sys
import time

import numpy as np

from contstim.adaptive.policies import Choosing, View, choose_block, places_of
from contstim.adaptive.posterior import Link, ModelPosterior


def main() -> None:
    n, m = (
        (int(word) for word in (*sys.argv[1:], 100_000, 9)[:2])
        if len(sys.argv) > 2
        else (100_000, 9)
    )
    rng = np.random.default_rng(0)
    for name, thresholds in (("two answers", ()), ("six ratings", (2.2, 4.34))):
        posterior = ModelPosterior(Link(thresholds=thresholds), m)
        preferences = np.clip(rng.normal(size=(n, m)) * 1.5, -3, 3)
        places = places_of(preferences, posterior.nodes)
        available = np.ones(n, dtype=bool)
        words = [frozenset(f"w{k}" for k in rng.integers(0, 3000, 14)) for _ in range(n)]
        posterior.curves(0)
        took, learnt = [], []
        for block in range(150):
            person = block % 50
            start = time.perf_counter()
            view = View(places, preferences, available, posterior.weights, posterior.curves(person))
            chosen, _ = choose_block(Choosing(), view, np.random.default_rng(block), words)
            took.append(time.perf_counter() - start)
            available[chosen] = False
            start = time.perf_counter()
            for pair in chosen:
                answer = int(rng.integers(posterior.nodes.link.n_answers))
                posterior.add(person, preferences[pair], answer)
            learnt.append(time.perf_counter() - start)
        print(
            f"{name}: a block of 5 from {n} pairs, {m} models: median {np.median(took):.4f} s, "
            f"p99 {np.quantile(took, 0.99):.4f} s; taking its 5 answers in: median "
            f"{np.median(learnt):.4f} s, p99 {np.quantile(learnt, 0.99):.4f} s"
        )


if __name__ == "__main__":
    main()
