"""Recovery of each of many models by the answers of simulated participants to sentence pairs.

In each study one model is right: participants answer as `ResponseModel` says of
that model. A study goes through the pairs of a design in random order, and again when all are used.
After each participant, the best model on all answers so far is named (model recovery: Wilson &
Collins 2019, doi 10.7554/eLife.49547).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import binomtest

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.response_model import ResponseModel, log_prob_std

DECISIONS = ("log-score", "accuracy")
_ANSWERS = 4 * 10**6  # simulated at a time


def recovery_curve(
    design: pd.DataFrame | int,
    log_probs: pd.DataFrame,
    n_participants: int,
    trials_each: int,
    n_studies: int,
    decision: str = DECISIONS[0],
    seed: int = 0,
) -> pd.DataFrame:
    """Return the share of studies in which the right model is best after each participant.

    Parameters
    ----------
    design
        Sentence pairs with the columns `sentence_1` and `sentence_2`, labels of `log_probs`; or a
        number of random pairs, others in every study.
    log_probs
        One row per sentence, one column per model.
    n_participants, trials_each, n_studies
        Maximum number of participants, trials of each, and number of studies. Models are right
        equally often.
    decision
        A model is best by the log-probability of the answers, or by the number predicted.
    seed
        Random seed.
    """
    values = log_probs.to_numpy(dtype=np.float64)
    scaled = values / log_prob_std(values, [str(name) for name in log_probs.columns])
    usable = np.flatnonzero(np.isfinite(values).all(axis=1))
    pairs = np.empty((0, 2), dtype=np.int64)
    if isinstance(design, pd.DataFrame):
        row = pd.Series(np.arange(len(values)), index=log_probs.index.astype(str))
        columns = [row[design[f"sentence_{k}"].astype(str)].to_numpy() for k in (1, 2)]
        pairs = np.stack(columns, axis=1)
        once = np.unique(np.sort(pairs, axis=1), axis=0, return_index=True)[1]
        pairs = np.unique(pairs[once], axis=0)
    rng = np.random.default_rng(seed)
    right = np.arange(n_studies) % scaled.shape[1]
    total = np.zeros(n_participants)
    for part in np.array_split(right, -(-n_studies * n_participants * trials_each // _ANSWERS)):
        size = n_participants, trials_each
        if isinstance(design, pd.DataFrame):
            differences = (scaled[pairs[:, 1]] - scaled[pairs[:, 0]])[None]
        else:
            drawn = np.stack([rng.choice(usable, 2 * design, replace=False) for _ in part])
            differences = scaled[drawn[:, design:]] - scaled[drawn[:, :design]]
        total += _name_right(differences, part, size, decision, rng).sum(axis=0)
    ends = [binomtest(round(hits), n_studies).proportion_ci() for hits in total]
    people = np.arange(1, n_participants + 1)
    table = {"n_participants": people, "n_trials": trials_each * people}
    return pd.DataFrame(
        table
        | {"recovery": total / n_studies}
        | {"low": [end.low for end in ends], "high": [end.high for end in ends]}
    )


def trials_needed(curve: pd.DataFrame, target: float = 0.95) -> dict[str, int | None]:
    """Return the number of trials from which recovery and its interval stay at a target."""
    needed: dict[str, int | None] = {}
    for column, name in (("recovery", "n_trials"), ("high", "low"), ("low", "high")):
        below = np.flatnonzero(curve[column] < target)
        rest = curve["n_trials"].iloc[int(below.max(initial=-1)) + 1 :]
        needed[name] = None if rest.empty else int(rest.iloc[0])
    return needed


def _name_right(
    differences: FloatArray,
    right: IntArray,
    size: tuple[int, int],
    decision: str,
    rng: np.random.Generator,
) -> FloatArray:
    """Return 1 / number of best models if the right one is among them, (studies, participants)."""
    people = ResponseModel()
    n, k, (n_participants, trials_each) = len(right), differences.shape[1], size
    total = n_participants * trials_each
    probabilities = people.probabilities(differences)
    study = np.arange(n) if len(differences) == n else np.zeros(n, dtype=np.int64)
    preferences = people.preferences(differences)[study, :, right]  # studies, pairs
    order = np.argsort(rng.random((n, k)), axis=1)
    order = np.tile(order, (1, -(-total // k)))[:, :total]
    person = np.repeat(np.arange(n_participants), trials_each)
    slopes = people.slope * np.exp(people.slope_sd * rng.normal(size=(n, n_participants)))
    sides = people.side_sd * rng.normal(size=(n, n_participants))
    items = people.item_sd * rng.normal(size=(n, k))
    logits = slopes[:, person] * np.take_along_axis(preferences, order, axis=1)
    logits += sides[:, person] * rng.choice([-1.0, 1.0], size=(n, total))
    logits += np.take_along_axis(items, order, axis=1)
    second: BoolArray = rng.random((n, total)) < people.lapse / 2 + (1 - people.lapse) * expit(
        logits
    )
    sums = []
    for model in range(differences.shape[2]):
        chosen = np.take_along_axis(probabilities[study, :, model], order, axis=1)
        if decision == "log-score":
            score = np.where(second, np.log(chosen), np.log1p(-chosen))
        else:  # no preference is right half the time
            predicted = np.heaviside(np.round(chosen - 0.5, 12), 0.5)
            score = np.where(second, predicted, 1 - predicted)
        score = score.reshape(n, n_participants, trials_each).sum(axis=2)
        sums.append(np.round(score.cumsum(axis=1), 9))  # equal sums are equal
    values = np.stack(sums, axis=2)
    best = values == values.max(axis=2, keepdims=True)
    return np.asarray(best[np.arange(n), :, right] / best.sum(axis=2))
