"""Fit the model of people to the published second experiment of Golan et al. (2023).

    python experiments/set-power/fit.py DATA

DATA is a folder with `behavior_nov2022_raw.csv` (30 people, 120 pairs) and `natural_log_probs.npz`.
For each of three models, g is log p(right) - log p(left) in standard deviations of the model's
log-probability over the natural sentences, cut off at 3, and a person chooses the right-hand
sentence with probability

    lapse / 2 + (1 - lapse) sigma(beta_p g + b_p + u_x)

with log beta_p ~ N(log slope, slope_sd^2), b_p ~ N(0, side_sd^2) and u_x ~ N(0, item_sd^2). The
lapse is twice the share of errors on catch trials; the other four maximise the marginal likelihood,
the effects being integrated out by Laplace's approximation (curvature: expected information). The
values of the model that fits best are the defaults of `contstim.response_model.ResponseModel`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

MODELS = ("bert", "electra", "roberta")
MOST = 3.0


@dataclass(frozen=True, eq=False)
class Answers:
    """T answers: g of the right-hand sentence, item, its side (1 or -1), person, right chosen."""

    g: NDArray[np.float64]
    item: NDArray[np.int64]
    side: NDArray[np.float64]
    person: NDArray[np.int64]
    right: NDArray[np.bool_]


def read_answers(folder: Path, model: str) -> tuple[Answers, float]:
    """Read the answers to the 120 pairs, and the share of errors on catch trials."""
    table = pd.read_csv(folder / "behavior_nov2022_raw.csv")
    right = (table["Zone Name"].str.removeprefix("resp").astype(int) > 3).to_numpy()
    catch = (table["sentence1_model"] == "all").to_numpy()
    natural_right = (table["sentence2_type"] == "C1").to_numpy()
    errors = float((right != natural_right)[catch].mean())
    table, right = table[~catch].reset_index(drop=True), right[~catch]
    left, right_hand = (table[f"sentence{side}_{model}_prob"].to_numpy() for side in (1, 2))
    scale = np.load(folder / "natural_log_probs.npz")[model].std()
    g = np.clip((right_hand - left) / scale, -MOST, MOST)
    ordered = (table["sentence1"] < table["sentence2"]).to_numpy()
    first = np.where(ordered, table["sentence1"], table["sentence2"])
    second = np.where(ordered, table["sentence2"], table["sentence1"])
    item = pd.factorize(pd.Series(first) + "\t" + pd.Series(second))[0]
    person = pd.factorize(table["subject"])[0]
    return Answers(g, item, np.where(ordered, 1.0, -1.0), person, right), errors


def negative_log_likelihood(
    theta: NDArray[np.float64], answers: Answers, lapse: float, start: NDArray[np.float64]
) -> float:
    """Return minus the Laplace approximation of the marginal log-likelihood.

    `theta` holds log slope, and the logs of slope_sd, side_sd and item_sd; `start` the effects, in
    units of their standard deviations, from which Newton's method begins and where it ends.
    """
    people, items = answers.person.max() + 1, answers.item.max() + 1
    slope_sd, side_sd, item_sd = np.exp(theta[1:])
    rows = np.arange(len(answers.g))
    design = np.zeros((len(rows), 2 * people + items))
    design[rows, people + answers.person] = side_sd
    design[rows, 2 * people + answers.item] = item_sd * answers.side

    def at(effects: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        pull = np.exp(theta[0] + slope_sd * effects[:people])[answers.person] * answers.g
        eta = pull + design[:, people:] @ effects[people:]
        p = lapse / 2 + (1 - lapse) * expit(eta)
        value = -float(np.log(np.where(answers.right, p, 1 - p)).sum())
        return eta, value + float(effects @ effects) / 2

    effects, step = start, 1.0
    eta, value = at(effects)
    for _ in range(100):
        pull = np.exp(theta[0] + slope_sd * effects[:people])[answers.person] * answers.g
        design[rows, answers.person] = slope_sd * pull
        p = lapse / 2 + (1 - lapse) * expit(eta)
        slope = (1 - lapse) * expit(eta) * expit(-eta)
        weight = slope**2 / (p * (1 - p))
        curvature = design.T @ (weight[:, None] * design) + np.eye(len(effects))
        gradient = design.T @ (slope * (answers.right - p) / (p * (1 - p))) - effects
        move, step = np.linalg.solve(curvature, gradient), 1.0
        while (trial := at(effects + step * move))[1] > value and step > 1e-6:
            step /= 2
        gain = value - trial[1]
        effects, (eta, value) = effects + step * move, trial
        if gain < 1e-8:
            break
    start[:] = effects
    return value + float(np.linalg.slogdet(curvature)[1]) / 2


def fit(folder: Path, model: str) -> dict[str, float | str]:
    """Fit one model; return the estimates and the marginal log-likelihood."""
    answers, errors = read_answers(folder, model)
    start = np.zeros(2 * (answers.person.max() + 1) + answers.item.max() + 1)
    best = minimize(
        negative_log_likelihood,
        np.log([1.0, 0.5, 0.3, 1.4]),
        args=(answers, 2 * errors, start),
        method="Nelder-Mead",
        options={"xatol": 1e-3, "fatol": 1e-3},
    )
    slope, slope_sd, side_sd, item_sd = np.exp(best.x)
    return {
        "model": model,
        "slope": slope,
        "slope_sd": slope_sd,
        "side_sd": side_sd,
        "item_sd": item_sd,
        "lapse": 2 * errors,
        "log_likelihood": -best.fun,
    }


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    folder = parser.parse_args().data
    print(pd.DataFrame([fit(folder, model) for model in MODELS]).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
