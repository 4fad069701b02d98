"""Ranking of sentences by forced choices between pairs of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import expit

from contstim.arrays import FloatArray


def rank_sentences(choices: pd.DataFrame) -> pd.Series:
    """Return the Bradley-Terry strength of each sentence in Elo points, best sentence first.

    The probability that sentence i is chosen over j is 1 / (1 + 10^((s_j - s_i) / 400)), as for
    Elo ratings of chess players. The strengths maximise the likelihood of all choices, in any
    order; their mean is 0. A weak normal prior (standard deviation 1,000 points) keeps the strength
    of a sentence finite that is always or never chosen.

    Parameters
    ----------
    choices
        One row per choice: `sentence_1`, `sentence_2`, and `chosen`, the number of the chosen one.

    Source
    ------
    Bradley and Terry (1952), Biometrika 39, 324-345.
    """
    sentences = pd.unique(pd.concat([choices["sentence_1"], choices["sentence_2"]]))
    first, second = (pd.Index(sentences).get_indexer(choices[f"sentence_{k}"]) for k in (1, 2))
    winner = np.where(choices["chosen"] == 1, first, second)
    loser = np.where(choices["chosen"] == 1, second, first)
    points_per_unit = 400 / np.log(10)
    precision = (points_per_unit / 1000) ** 2

    def negative_log_posterior(strengths: FloatArray) -> tuple[float, FloatArray]:
        surprise = expit(strengths[loser] - strengths[winner])
        loss = -np.log1p(-surprise).sum() + precision * (strengths @ strengths) / 2
        gradient = precision * strengths
        np.subtract.at(gradient, winner, surprise)
        np.add.at(gradient, loser, surprise)
        return float(loss), gradient

    start = np.zeros(len(sentences))
    strengths = minimize(negative_log_posterior, start, jac=True, method="L-BFGS-B").x
    points = pd.Series((strengths - strengths.mean()) * points_per_unit, sentences)
    return points.sort_values(ascending=False)


def simulate_choices(scores: pd.Series, points_per_nat: float, seed: int = 0) -> pd.DataFrame:
    """Simulate one forced choice between every two sentences, from their scores in nats."""
    rng = np.random.default_rng(seed)
    first, second = np.triu_indices(len(scores), 1)
    strengths = scores.to_numpy() * points_per_nat * np.log(10) / 400
    is_first = rng.random(len(first)) < expit(strengths[first] - strengths[second])
    names = scores.index.to_numpy()
    return pd.DataFrame(
        {
            "sentence_1": names[first],
            "sentence_2": names[second],
            "chosen": np.where(is_first, 1, 2),
        }
    )
