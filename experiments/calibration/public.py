"""The same studies through `evaluate`, as a user would have them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from study import Cell, Said, gaps_of, said_of, simulate

from contstim.evaluation import evaluate
from contstim.evaluation.inference import ALPHA
from contstim.evaluation.trials import Analysis, TrialData


def differences(cell: Cell, measure: str, n: int, rng: np.random.Generator) -> dict[str, float]:
    """Evaluate `n` studies of a cell by both paths.

    Returns
    -------
    dict
        ``largest``: the largest difference of the two in any p-value, standard error, interval or
        ceiling. ``error``: in which share `evaluate` finds a difference at p < .05. ``value``: in
        which share its interval of the first model's value holds the mean of the values.
    """
    largest, tested, bounds = 0.0, [], []
    for _ in range(n):
        design = cell.design(rng)
        data = simulate(cell, design, 1, rng, (0.5,))
        (said,) = said_of(data, design, measure, 1)
        numbers = public_numbers(data, measure)
        fast = fast_numbers(said)
        for gap in gaps_of(data, design, measure, 1):
            fast["p_ceiling"] = gap.p()
        largest = max(largest, *(abs(numbers[name] - fast[name]) for name in fast))
        tested.append(numbers["p"] < ALPHA)
        bounds.append([numbers[name] for name in ("value", "value_low", "value_high")])
    value, low, high = np.array(bounds).T
    held = (low <= value.mean()) & (value.mean() <= high)
    return {
        "largest": float(largest),
        "error": float(np.mean(tested)),
        "value": float(held.mean()),
    }


def choices_and_scores(data: TrialData) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a study as tables."""
    first = [f"first {pair}" for pair in range(data.n_pairs)]
    second = [f"second {pair}" for pair in range(data.n_pairs)]
    choices = pd.DataFrame(
        {
            "participant": data.participant,
            "sentence_1": np.array(first)[data.pair],
            "sentence_2": np.array(second)[data.pair],
            "rating": data.rating,
        }
    )
    if "item" in data.pairs:
        choices["item"] = data.item[data.pair]
    zeros = np.zeros_like(data.log_ratio)
    scores = pd.DataFrame(np.concatenate([zeros, data.log_ratio]), columns=list(data.models))
    scores.insert(0, "sentence", [*first, *second])
    return choices, scores


def public_numbers(data: TrialData, measure: str) -> dict[str, float]:
    """Return what `evaluate` says of a study."""
    result = evaluate(*choices_and_scores(data), measures=(measure,), analyses=(Analysis("all"),))
    models = result.models.set_index("model")
    pair = result.comparisons.set_index(["model_1", "model_2"]).loc[("a", "b")]
    said = models.loc["a"]
    return {
        **{name: float(pair[name]) for name in ("p", "stderr", "ci_low", "ci_high")},
        "difference": float(pair["difference"]),
        "value": float(said["value"]),
        "value_low": float(said["ci_low"]),
        "value_high": float(said["ci_high"]),
        "lower": float(said["ceiling_lower"]),
        "lower_low": float(said["ceiling_lower_ci_low"]),
        "upper_high": float(said["ceiling_upper_ci_high"]),
        "p_ceiling": float(models.loc["average 0", "p_ceiling"]),
    }


def fast_numbers(said: Said) -> dict[str, float]:
    """Return the same numbers by the fast path."""
    difference = said.means["difference"]
    low, high = difference.interval()
    return {
        "p": difference.p(),
        "stderr": difference.stderr,
        "ci_low": low,
        "ci_high": high,
        "difference": difference.value,
        "value": said.means["value"].value,
        "value_low": said.intervals["value"][0],
        "value_high": said.intervals["value"][1],
        "lower": said.means["lower"].value,
        "lower_low": said.intervals["lower"][0],
        "upper_high": said.intervals["upper"][1],
    }
