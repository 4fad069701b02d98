"""Fit the thresholds of six ratings to the published second experiment of Golan et al. (2023).

    python experiments/adaptive/ratings.py DATA

DATA is a folder with `behavior_nov2022_raw.csv` and `natural_log_probs.npz`. The effects of persons
and pairs are those of `ResponseModel`, which `experiments/set-power/fit.py` found;
the two thresholds maximise the likelihood of the ratings, each with persons and pairs averaged
over. The result is `contstim.adaptive.SIX_POINT`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize

from contstim.adaptive.link import Link
from contstim.adaptive.posterior import ParticipantQuadrature
from contstim.response_model import ResponseModel


def main() -> None:
    """Fit and print."""
    folder, people = Path(sys.argv[1]), ResponseModel()
    table = pd.read_csv(folder / "behavior_nov2022_raw.csv")
    table = table[table["sentence1_model"] != "all"]
    rating = table["Zone Name"].str.removeprefix("resp").astype(int).to_numpy() - 1
    left, right = (table[f"sentence{side}_electra_prob"].to_numpy() for side in (1, 2))
    scale = np.load(folder / "natural_log_probs.npz")["electra"].std()
    g = people.preferences((right - left) / scale)
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    weights = weights / weights.sum()

    def probabilities(theta: NDArray[np.float64]) -> NDArray[np.float64]:
        thresholds = tuple(np.cumsum(np.exp(theta)).tolist())
        link = ParticipantQuadrature(Link(people, thresholds=thresholds), max_answers=1)
        mean = np.zeros((len(g), 6))
        for z, weight in zip(nodes, weights, strict=True):
            for side, also in zip(nodes, weights, strict=True):
                slope = people.slope * np.exp(people.slope_sd * z)
                mean += weight * also * link.answer_probabilities(slope * g + people.side_sd * side)
        return mean

    def loss(theta: NDArray[np.float64]) -> float:
        return float(-np.log(probabilities(theta)[np.arange(len(g)), rating]).sum())

    found = minimize(loss, np.zeros(2), method="Nelder-Mead", options={"maxiter": 60})
    print("thresholds", np.cumsum(np.exp(found.x)).round(3), "log-likelihood", -found.fun)
    print(
        "shares",
        (np.bincount(rating) / len(g)).round(3),
        probabilities(found.x).mean(axis=0).round(3),
    )


if __name__ == "__main__":
    main()
