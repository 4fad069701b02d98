"""How many trials fewer an adaptive study needs to name the right one of nine models.

    python experiments/adaptive/run.py DATA SETS --out results

DATA is a folder with `natural_log_probs.npz` (nine models, 231,725 natural sentences of Golan et
al. 2023), SETS the folder with `set.csv` that `experiments/set-power/run.py` wrote: the best fixed
set, 360 pairs by the log Bayes factor of an answer. Each model is right in turn; simulated people
have the effects of the published second experiment, five trials each, or others (see
`simulate.misspecified`). Three designs: `set`, `random` pairs of natural sentences, and `adaptive`,
which chooses by information, one answer at a time, from 3,000 pairs: for each two models those
that tell them apart best of a million random pairs, and the set's. All are analysed by the
posterior of `contstim.adaptive.Link`. Conditions that are there already are not run again.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from simulate import Truth, identify, misspecified

from contstim.adaptive.posterior import Link
from contstim.evaluation.power import exact_interval
from contstim.selection import read_scores
from contstim.selection.people import People, log_bayes_factors, log_ratio_scale

_SLOPES = (0.45, 0.91, 1.8)
_LENGTHS = {"set": 150, "adaptive": 70, "random": 800}  # trials of a study


def pools(data: Path, sets: Path, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return g of the designs' pairs under the models."""
    scores = read_scores(data / "natural_log_probs.npz")
    values = scores.to_numpy()
    scaled = values / log_ratio_scale(values)
    usable = np.flatnonzero(np.isfinite(values).all(axis=1))
    people = People()
    set_pairs = pd.read_csv(sets / "set.csv")[["sentence_1", "sentence_2"]].to_numpy()
    fixed = people.preferences(scaled[set_pairs[:, 1]] - scaled[set_pairs[:, 0]])
    best: list[np.ndarray] = []
    factors: list[np.ndarray] = []
    for _ in range(10):
        drawn = rng.choice(usable, (100_000, 2))
        g = people.preferences(scaled[drawn[:, 1]] - scaled[drawn[:, 0]])
        own = log_bayes_factors(people.probabilities(g))
        kept = np.unique(np.argpartition(-own, 73, axis=0)[:73])
        best.append(g[kept])
        factors.append(own[kept])
    g, own = np.concatenate(best), np.concatenate(factors)
    kept = np.unique(np.argpartition(-own, 73, axis=0)[:73])
    drawn = rng.choice(usable, (20_000, 2))
    natural = people.preferences(scaled[drawn[:, 1]] - scaled[drawn[:, 0]])
    return {"set": fixed, "adaptive": np.concatenate([g[kept], fixed]), "random": natural}


def curve(named: np.ndarray, design: str, condition: str) -> pd.DataFrame:
    """Return recovery after each trial with its exact 95 % interval."""
    right, n = named.sum(axis=0), len(named)
    low, high = np.array([exact_interval(float(k), n) for k in right]).T
    trials = np.arange(1, named.shape[1] + 1)
    table = {"trials": trials, "recovery": right / n, "low": low, "high": high, "studies": n}
    return pd.DataFrame(table).assign(design=design, condition=condition)


def needed(recovery: pd.Series, target: float = 0.95) -> int | None:
    """Return the trials from which on recovery stays at the target, None if it does not."""
    below = np.flatnonzero(recovery < target)
    first = int(below[-1]) + 2 if len(below) else 1
    return first if first <= len(recovery) else None


def main() -> None:
    """Simulate, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("sets", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--studies", type=int, default=504)
    parser.add_argument("--conditions", nargs="+", default=list(misspecified()))
    parser.add_argument("--designs", nargs="+", default=list(_LENGTHS), choices=list(_LENGTHS))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    made = pools(args.data, args.sets, np.random.default_rng(0))
    print({name: len(own) for name, own in made.items()}, flush=True)
    for condition in args.conditions:
        truth, changes = misspecified()[condition]
        link = replace(Link(slopes=_SLOPES), **changes)
        tables = []
        for design in args.designs:
            if design == "random" and truth != Truth():
                continue
            file = args.out / f"{condition}-{design}.csv".replace(" ", "-")
            if not file.exists():
                rng = np.random.default_rng([1, len(design)])
                policy = "information" if design == "adaptive" else "random"
                named = identify(
                    policy, made[design], truth, link, _LENGTHS[design], 5, args.studies, rng
                )
                curve(named, design, condition).to_csv(file, index=False)
            tables.append(pd.read_csv(file))
        table = pd.concat(tables)
        for design, own in table.groupby("design", sort=False):
            by = [needed(own[name]) for name in ("recovery", "high", "low")]
            at = own.set_index("trials")["recovery"]
            shown = {t: round(float(at[t]), 3) for t in (20, 30, 40, 50, 60, 70) if t in at}
            print(f"{condition}, {design}: 95 % from {by[0]} trials ({by[1]}-{by[2]}); {shown}")


if __name__ == "__main__":
    main()
