"""How many trials name the right one of nine models: set, pairwise and random designs.

    python experiments/set-power/run.py DATA --out results

DATA is a folder with `natural_log_probs.npz` (nine models, 231,725 natural sentences of Golan et
al. 2023), `natural_selected_360_pairs.csv` and `stimuli_log_probs.csv` (the published natural
pairs and the rows of their sentences in the scores). The designs have 360 pairs each:

- `set`: for all models at once, by the expected log Bayes factor of an answer;
- `set, separation`: for all models at once, by how often the least separated two are separated;
- `pairwise`: ten controversial pairs for each two models, of least summed ranks;
- `published`: the same as published;
- `random`: random pairs, others in every study.

Simulated people (`ResponseModel`, with the effects that `fit.py` finds in the
published second experiment) answer them in thousands of studies, each with one of the models right.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from recovery import DECISIONS, recovery_curve, trials_needed

from contstim.response_model import ResponseModel, log_bayes_factors, log_prob_std
from contstim.selection import read_scores, select_natural_pairs, select_set

N_PAIRS = 360


def published_pairs(folder: Path, scores: pd.DataFrame) -> pd.DataFrame:
    """Return the published natural pairs by the rows of their sentences in the scores.

    A pair with a score of minus infinity under one of the models is left out.
    """
    stimuli = pd.read_csv(folder / "stimuli_log_probs.csv").dropna(subset=["npz_row"])
    row = stimuli.drop_duplicates("sentence").set_index("sentence")["npz_row"].astype(int)
    pairs = pd.read_csv(folder / "natural_selected_360_pairs.csv")
    rows = {f"sentence_{k}": row.loc[pairs[f"sentence{k}"]].to_numpy() for k in (1, 2)}
    found = pd.DataFrame(rows)
    finite = np.isfinite(scores.to_numpy()).all(axis=1)
    return found[finite[found["sentence_1"]] & finite[found["sentence_2"]]]


def main() -> None:
    """Select, simulate, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--studies", type=int, default=4500)
    parser.add_argument("--again", action="store_true", help="select pairs that are there again")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    scores = read_scores(args.data / "natural_log_probs.npz")
    select = {
        "set": lambda: select_set(scores, N_PAIRS, criterion="log-bf"),
        "set, separation": lambda: select_set(scores, N_PAIRS),
        "pairwise": lambda: select_natural_pairs(scores, 10),
    }
    selected = {}
    for name, made in select.items():
        file = args.out / f"{name.replace(', ', '-')}.csv"
        if args.again or not file.exists():
            pairs = made()
            told = {key: pairs.attrs[key] for key in ("objective", "bound", "status")}
            print(f"{name}: {told}", flush=True)
            pairs.to_csv(file, index=False)
        selected[name] = pd.read_csv(file)
    designs = {**selected, "published": published_pairs(args.data, scores), "random": N_PAIRS}
    needed = []
    for each, participants in ((5, 300), (20, 75)):
        for decision in DECISIONS:
            for number, (name, design) in enumerate(designs.items()):
                size = participants, each, args.studies
                curve = recovery_curve(design, scores, *size, decision, seed=number)
                row = {"design": name, "trials_each": each, "decision": decision}
                row |= {**trials_needed(curve), "recovery_at_most": curve["recovery"].iloc[-1]}
                print(row, flush=True)
                needed.append(row)
    pd.DataFrame(needed).to_csv(args.out / "needed.csv", index=False)
    values = scores.to_numpy(dtype=np.float64)
    scaled = pd.DataFrame(values / log_prob_std(values, list(scores)), scores.index)
    for name, pairs in designs.items():
        if isinstance(pairs, pd.DataFrame):
            sides = [scaled.loc[pairs[f"sentence_{k}"]].to_numpy() for k in (1, 2)]
            factors = log_bayes_factors(ResponseModel().probabilities(sides[1] - sides[0])).mean(
                axis=0
            )
            print(f"{name}: {factors.min():.3f} nats per answer for the least separated models")


if __name__ == "__main__":
    main()
