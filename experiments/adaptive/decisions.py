"""What an adaptive plan decides, under the people that it states and under others.

    python experiments/adaptive/decisions.py --studies 6 --out decisions.csv

Three models of whose preferences half of the variance is shared, 600 pairs, 10 chosen trials a
person, 40 people at most: what `contstim design power --plan` does with files, from random scores.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from contstim.adaptive import AdaptivePlan, Pool, Stopping
from contstim.adaptive.simulation import simulated_decisions

PAIRS = 600
PLAN = AdaptivePlan(trials=10, anchors=5, stopping=Stopping(participants=40))


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=40)
    parser.add_argument("--out")
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    names = [f"sentence {k}" for k in range(2 * PAIRS)]
    values = rng.normal(size=(2 * PAIRS, 1)) + rng.normal(size=(2 * PAIRS, 3))
    scores = pd.DataFrame(values, names, list("abc"))
    pairs = pd.DataFrame({"sentence_1": names[:PAIRS], "sentence_2": names[PAIRS:]})
    pool = Pool.of(pairs, scores, PLAN.link)
    table = simulated_decisions(PLAN, pool, n_studies=args.studies)
    print(table.round(3).to_string(index=False))
    if args.out:
        table.to_csv(args.out, index=False)


if __name__ == "__main__":
    main()
