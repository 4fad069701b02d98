"""Type-I error and power of the test of a model's accuracy against the lower noise ceiling.

All participants judge all pairs, and effects are those of `study.simulate`. A model predicts the
average preference of participants plus noise. For the type-I error, the standard deviation of this
noise is chosen so that the model is as good as the ceiling on average; for power, so that it is
worse by a given difference. The script prints a row per design, with and without the pseudo-items
of `add_pseudo_items`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import numpy as np
from study import GAIN, LEANING, TASTE

from contstim.evaluation.inference import ALPHA
from contstim.evaluation.inference.crossed import add_pseudo_items
from contstim.evaluation.inference.quasi_f import CrossedDesign

#: Numbers of participants and of pairs.
DESIGNS = (
    *((10, 24), (10, 96), (30, 24), (30, 40), (30, 96), (30, 300)),
    *((100, 96), (100, 300), (100, 600), (100, 1000), (200, 300), (300, 300)),
)
#: Mean accuracy of the model minus the ceiling.
DIFFERENCES = (0.0, -0.03, -0.06)
_NOISES = np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.4, 2.0, 3.0, 5.0, 9.0])


def main() -> int:
    """Print a row for each design."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000, help="per design and difference")
    parser.add_argument("--participants", type=int, nargs="+", help="numbers to simulate (all)")
    parser.add_argument("--pairs", type=int, nargs="+", help="numbers to simulate (all)")
    parser.add_argument("--items", type=float, default=0.5, help="standard deviation of effects")
    arguments = parser.parse_args()
    print("| participants | pairs | difference | plain | pseudo-items |")
    print("| ---: " * 5 + "|")
    for n, k in DESIGNS:
        if n not in (arguments.participants or (n,)) or k not in (arguments.pairs or (k,)):
            continue
        rng = np.random.default_rng([n, k])
        differences = np.mean(
            [mean_gaps(*study, rng) for study in studies(n, k, arguments.items, 2000, rng)], axis=0
        )
        for difference in DIFFERENCES:
            # The model loses accuracy nearly in proportion to the variance of its noise.
            noise = np.sqrt(np.interp(-difference, np.maximum.accumulate(-differences), _NOISES**2))
            p = np.array(
                [
                    p_values(votes, average + noise * rng.normal(size=k))
                    for votes, average in studies(n, k, arguments.items, arguments.studies, rng)
                ]
            )
            plain, adjusted = 100 * (p < ALPHA).mean(axis=0)
            print(f"| {n} | {k} | {difference:g} | {plain:.1f} | {adjusted:.1f} |", flush=True)
    return 0


def studies(
    n: int, k: int, items: float, n_studies: int, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the votes (n, k), -1 or 1, and the average preferences (k,) of each study."""
    for _ in range(n_studies):
        first, second = rng.normal(size=(2, k))
        both, rather = (first + second) / np.sqrt(2), (first - second) / np.sqrt(2)
        effects = items * rng.normal(size=k)
        gain, leaning, taste = rng.normal(size=(3, n, 1)) * [[[GAIN]], [[LEANING]], [[TASTE]]]
        felt = np.exp(gain) * both + taste * rather + leaning + effects + rng.normal(size=(n, k))
        yield np.where(felt > 0, 1.0, -1.0), np.exp(GAIN**2 / 2) * both + effects


def mean_gaps(votes: np.ndarray, average: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the accuracy of the model minus the ceiling for each noise of `_NOISES`."""
    total = votes.sum(axis=0)
    ceiling = (votes * np.sign(total - votes)).mean()
    models = np.sign(average + np.outer(_NOISES, rng.normal(size=len(average))))
    return ((models * total).mean(axis=1) / len(votes) - ceiling) / 2


def p_values(votes: np.ndarray, prediction: np.ndarray) -> tuple[float, float]:
    """Return p-values of the model against the ceiling, without and with pseudo-items."""
    n, k = votes.shape
    others = np.sign(votes.sum(axis=0) - votes)
    design = CrossedDesign(np.repeat(np.arange(n), k), np.tile(np.arange(k), n))
    gap = design.estimate(((votes * np.sign(prediction) - votes * others) / 2).ravel())
    return gap.p_value(), add_pseudo_items(gap, k, 0.5).p_value()


if __name__ == "__main__":
    sys.exit(main())
