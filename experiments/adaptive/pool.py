"""Whether averages over the pool are unbiased, with and without inverse-propensity weights.

    python experiments/adaptive/pool.py --studies 1000

In each study six participants are asked five trials each, chosen by information from 100 pairs with
epsilon 0.3; people follow the first of three models and pairs have effects of their own. The
estimate of that model's accuracy over the pool is compared with the truth, a t-test over studies.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import ttest_1samp

from contstim.adaptive import Choosing, Link, ModelPosterior, View, choose_block
from contstim.adaptive.policies import places_of
from contstim.adaptive.standing import pool_scores
from contstim.selection.people import People

Floats = NDArray[np.float64]
PAIRS, PARTICIPANTS, BLOCK = 100, 6, 5


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=1000)
    args = parser.parse_args()
    people = People()
    link = Link(people, slopes=(0.91,))
    choosing = Choosing(epsilon=0.3, block=BLOCK, temperature=0.002)
    g = np.clip(np.random.default_rng(5).normal(size=(PAIRS, 3)) * 1.5, -3, 3)
    z, weights = np.polynomial.hermite_e.hermegauss(15)
    weights = weights / weights.sum()
    weighted, plain = np.zeros(args.studies), np.zeros(args.studies)
    for study in range(args.studies):
        rng = np.random.default_rng([7, study])
        effects = people.item_sd * rng.normal(size=PAIRS)

        def probabilities(slope: float, leaning: float, effects: Floats = effects) -> Floats:
            raw = expit(slope * g[:, 0] + leaning + effects)
            return people.lapse / 2 + (1 - people.lapse) * raw

        mean = np.zeros(PAIRS)
        for one, weight in zip(z, weights, strict=True):
            for two, also in zip(z, weights, strict=True):
                slope = people.slope * np.exp(people.slope_sd * one)
                mean += weight * also * probabilities(slope, people.side_sd * two)
        truth = np.where(g[:, 0] > 0, mean, 1 - mean).mean()
        posterior = ModelPosterior(link, 3, spacing=1.5)
        places = places_of(g, posterior.nodes)
        available = np.ones(PAIRS, dtype=bool)
        asked: list[int] = []
        propensities: list[float] = []
        right: list[float] = []
        for person in range(PARTICIPANTS):
            slope = people.slope * np.exp(people.slope_sd * rng.normal())
            chance = probabilities(slope, people.side_sd * rng.normal())
            view = View(places, g, available, posterior.weights, posterior.curves(person))
            chosen, own = choose_block(choosing, view, rng)
            for pair in chosen:
                second = bool(rng.random() < chance[pair])
                posterior.add(person, g[pair], int(second))
                right.append(float(second == (g[pair, 0] > 0)))
            available[chosen] = False
            asked += chosen
            propensities += own
        scores = np.array(right)[:, None]
        weighted[study] = pool_scores(scores, np.array(propensities), PAIRS).mean() - truth
        plain[study] = scores.mean() - truth
    for name, errors in (("weighted", weighted), ("not weighted", plain)):
        test = ttest_1samp(errors, 0)
        print(
            f"{name}: mean error {errors.mean():+.4f} (standard error "
            f"{errors.std(ddof=1) / np.sqrt(len(errors)):.4f}), t-test p = {test.pvalue:.3g}, "
            f"{args.studies} studies"
        )


if __name__ == "__main__":
    main()
