"""Whether averages over the pool are unbiased, with and without inverse-propensity weights.

    python experiments/adaptive/pool.py --studies 1000

In each study six participants are asked five trials each, chosen by information from 114 pairs with
epsilon 0.3, of which 24 are anchors and never drawn; people follow the first of three models and
pairs have effects of their own. The estimate of that model's accuracy over the 90 other pairs is
compared with the truth, a t-test over studies; also with anchors counted among the pool's pairs,
which is wrong.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import ttest_1samp

from contstim.adaptive import AdaptivePlan, Choosing, Conductor, Link, Pool, Stopping
from contstim.adaptive.simulation import simulated_answers
from contstim.adaptive.standing import pool_scores
from contstim.response_model import People

PAIRS, PEOPLE = 114, People()
PLAN = AdaptivePlan(
    Choosing(epsilon=0.3),
    Link(PEOPLE, slopes=(0.91,)),
    Stopping(participants=6),
    trials=5,
    anchors=24,
)


def accuracies(g: np.ndarray, effects: np.ndarray) -> np.ndarray:
    """Return how often people agree with what they prefer by g, pair by pair."""
    z, weights = np.polynomial.hermite_e.hermegauss(15)
    weights = weights / weights.sum()
    slopes, sides = PEOPLE.slope * np.exp(PEOPLE.slope_sd * z), PEOPLE.side_sd * z
    leaning = slopes[:, None] * g[:, None, None] + sides + effects[:, None, None]
    second = PEOPLE.lapse / 2 + (1 - PEOPLE.lapse) * expit(leaning)
    mean = weights @ second @ weights
    return np.where(g > 0, mean, 1 - mean)


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=1000)
    args = parser.parse_args()
    g = np.clip(np.random.default_rng(5).normal(size=(PAIRS, 3)) * 1.5, -3, 3)
    numbers = pd.Series(range(PAIRS)).astype(str)
    pairs = pd.DataFrame({"sentence_1": "a" + numbers, "sentence_2": "b" + numbers})
    pool, drawn_from = Pool(pairs, tuple("abc"), g, g), PAIRS - PLAN.anchors
    errors = {name: np.zeros(args.studies) for name in ("weighted", "anchors counted", "plain")}
    for study in range(args.studies):
        rng = np.random.default_rng([7, study])
        effects = PEOPLE.item_sd * rng.normal(size=PAIRS)
        truth = accuracies(g[:, 0], effects)[PLAN.anchors :].mean()
        conductor = Conductor(replace(PLAN, seed=study), pool)
        propensities: list[float] = []
        right: list[float] = []
        for _, block, ratings in simulated_answers(conductor, g[:, 0], effects, PEOPLE, rng):
            propensities += block.propensities
            agree = (np.array(ratings) > 0) == (g[list(block.pairs), 0] > 0)
            right += agree.astype(float).tolist()
        scores, drawn = np.array(right)[:, None], np.array(propensities)
        errors["weighted"][study] = pool_scores(scores, drawn, drawn_from).mean() - truth
        errors["anchors counted"][study] = pool_scores(scores, drawn, PAIRS).mean() - truth
        errors["plain"][study] = scores.mean() - truth
    for name, of_studies in errors.items():
        test = ttest_1samp(of_studies, 0)
        standard_error = of_studies.std(ddof=1) / np.sqrt(args.studies)
        print(
            f"{name}: mean error {of_studies.mean():+.4f} (standard error {standard_error:.4f}), "
            f"t-test p = {test.pvalue:.3g}, {args.studies} studies"
        )


if __name__ == "__main__":
    main()
