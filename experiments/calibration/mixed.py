"""The default's difference of two models beside a linear mixed model's, by other packages.

For each simulated study: the difference of the accuracies and its standard error by contstim, and
by those packages that are installed: statsmodels (restricted maximum likelihood) and bambi (mean
and standard deviation of the posterior). The model has crossed random intercepts,
``y ~ 1 + (1 | person) + (1 | pair)``, y being 1, 0 or -1: which of the two models is right.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec

import numpy as np
import pandas as pd
from study import Cell, simulate

from contstim.evaluation.measures import MEASURES
from contstim.evaluation.subset import Subset

CELLS = tuple(Cell(kind, 20, 30, 1.0, lead=0.5) for kind in ("crossed", "unequal trials"))


def main() -> None:
    """Print a row a study and package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2, help="of each design (2)")
    studies = parser.parse_args().studies
    for cell in CELLS:
        for seed in range(studies):
            rng = np.random.default_rng(seed)
            design = cell.design(rng)
            data = simulate(cell, design, 1, rng)
            subset = Subset(data, np.arange(len(data.pair)), np.arange(2))
            first, second = (
                MEASURES["accuracy"].cells(subset, ratio) for ratio in data.log_ratio[data.pair].T
            )
            mean = design.mean(first - second)
            table = pd.DataFrame({"y": first - second, "person": data.participant})
            table["pair"] = data.pair
            found = {"contstim": (mean.value, mean.stderr)}
            if find_spec("statsmodels"):
                found["statsmodels"] = by_statsmodels(table)
            if find_spec("bambi"):
                found["bambi"] = by_bambi(table)
            for name, (value, stderr) in found.items():
                print(f"{cell.kind:14}  {seed}  {name:11}  {value:.4f}  {stderr:.4f}", flush=True)


def by_statsmodels(table: pd.DataFrame) -> tuple[float, float]:
    """Return the intercept and its standard error."""
    import statsmodels.formula.api as smf

    parts = {"person": "0 + C(person)", "pair": "0 + C(pair)"}
    fit = smf.mixedlm("y ~ 1", table.assign(all=1), groups="all", vc_formula=parts).fit()
    return float(fit.params["Intercept"]), float(fit.bse["Intercept"])


def by_bambi(table: pd.DataFrame) -> tuple[float, float]:
    """Return the mean of the intercept's posterior and its standard deviation."""
    import arviz
    import bambi

    model = bambi.Model("y ~ 1 + (1 | person) + (1 | pair)", table, categorical=["person", "pair"])
    draws = model.fit(draws=1000, tune=1000, chains=2, cores=1, random_seed=1, progressbar=False)
    said = arviz.summary(draws, var_names=["Intercept"], round_to=6)
    return float(said["mean"].iloc[0]), float(said["sd"].iloc[0])


if __name__ == "__main__":
    main()
