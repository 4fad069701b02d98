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

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import ttest_1samp

from contstim.adaptive import Choosing, Link, ModelPosterior, View, choose_block
from contstim.adaptive.policies import places_of
from contstim.adaptive.standing import pool_scores
from contstim.people import People

Floats = NDArray[np.float64]
PAIRS, ANCHORS, PARTICIPANTS, BLOCK = 114, 24, 6, 5


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
    errors = {name: np.zeros(args.studies) for name in ("weighted", "anchors counted", "plain")}
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
        truth = np.where(g[:, 0] > 0, mean, 1 - mean)[ANCHORS:].mean()
        posterior = ModelPosterior(link, 3, trials=BLOCK)
        places = places_of(g, posterior.nodes)
        available = np.arange(PAIRS) >= ANCHORS
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
        scores, drawn = np.array(right)[:, None], np.array(propensities)
        errors["weighted"][study] = pool_scores(scores, drawn, PAIRS - ANCHORS).mean() - truth
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
