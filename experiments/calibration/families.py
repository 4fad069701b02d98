"""Family-wise error of three equal models under different families of the false discovery rate.

The p-values of `evaluate` are used in three ways: unadjusted, adjusted in one family with the tests
against the ceiling, and adjusted in a family of comparisons.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import pandas as pd
from scipy.stats import binomtest
from study import GAIN, LEANING, LIMITS, TASTE, Cell, choices_and_scores

from contstim.evaluation import benjamini_hochberg, evaluate
from contstim.evaluation.inference import ALPHA
from contstim.evaluation.trials import Analysis, TrialData

# Standard deviation of the effects of pairs, in units of the noise of a trial.
_ITEM = 1.0


def main() -> int:
    """Simulate the studies and print the share in which a model is called better than another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--people", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    cell = Cell("crossed", arguments.people, arguments.pairs, _ITEM)
    better = pd.DataFrame([one_study(cell, rng) for _ in range(arguments.studies)])
    for name, column in better.items():
        low, high = binomtest(int(column.sum()), len(column)).proportion_ci()
        print(f"{name}: {column.mean():.1%} ({low:.1%} to {high:.1%})")
    return 0


def one_study(cell: Cell, rng: np.random.Generator) -> dict[str, bool]:
    """Return whether a study of equal models calls one better, for each way of adjustment."""
    result = evaluate(
        *choices_and_scores(equal_models(cell, rng)),
        measures=("accuracy",),
        analyses=(Analysis("all"),),
    )
    p = result.comparisons["p"].to_numpy()
    with_ceiling = benjamini_hochberg([*p, *result.models["p_ceiling"]])[: len(p)]
    return {
        "each test by itself": bool((p < ALPHA).any()),
        "one family with the tests against the ceiling": bool((with_ceiling < ALPHA).any()),
        "comparisons as a family (the default)": bool((result.comparisons["q"] < ALPHA).any()),
        "a model is off the ceiling": bool((result.models["q_ceiling"] < ALPHA).any()),
    }


def equal_models(cell: Cell, rng: np.random.Generator) -> TrialData:
    """Return the choices of participants who follow three models equally on average."""
    design = cell.design(rng)
    person, pair = design.participant, design.item
    models = rng.normal(size=(cell.n_pairs, 3))
    taste = rng.normal(size=(cell.people, 3)) * TASTE
    gain = np.exp(GAIN * rng.normal(size=cell.people)) / np.sqrt(3)
    felt = ((gain[person, None] + taste[person]) * models[pair]).sum(axis=1)
    felt += (LEANING * rng.normal(size=cell.people))[person]
    felt += cell.effects(cell.n_pairs, rng)[pair] + rng.normal(size=len(pair))
    return TrialData(
        participants=pd.Index(range(cell.people)),
        groups=pd.Index(["all"]),
        group_codes=np.zeros(cell.people, dtype=np.int64),
        participant=person,
        pair=pair,
        rating=np.digitize(felt, LIMITS) - 2.5,
        pairs=pd.DataFrame({"item": range(cell.n_pairs)}),
        models=("a", "b", "c"),
        log_ratio=models,
    )


if __name__ == "__main__":
    sys.exit(main())
