"""The length-normalisation control: whether LP, MeanLP and PenLP together predict better."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.evaluation.trials import TrialData

#: Columns of the table.
NORMALISATION_COLUMNS = (
    "model",
    "accuracy",
    "accuracy_normalised",
    "gain",
    "weight_lp",
    "weight_mean_lp",
    "weight_pen_lp",
    "n_trials",
    "n_choices",
    "note",
)
_MOST_STEPS = 100
_CONVERGED = 1e-9
# Beyond this the weights (in units of one standard deviation of a predictor) grow without end.
_SEPARATED = 1e4


def normalisation_predictors(
    log_prob: NDArray[np.float64], tokens: NDArray[np.float64]
) -> FloatArray:
    """Return LP, MeanLP = LP / T and PenLP = LP / ((5 + T) / (5 + 1))^0.8, shape (..., 3), nats.

    Source
    ------
    Lau, Clark and Lappin (2017), doi 10.1111/cogs.12414, and Golan et al. (2023), Supplementary
    Section 7.2.
    """
    penalty = ((5 + tokens) / 6) ** 0.8
    return np.stack([log_prob, log_prob / tokens, log_prob / penalty], axis=-1)


def normalisation_control(
    data: TrialData, scores: pd.DataFrame, tokens: pd.DataFrame
) -> pd.DataFrame:
    """Predict the choices on each pair from the three measures, fitted on all other pairs.

    For each model a logistic regression without intercept or penalty on the differences (sentence
    2 minus 1) of the three measures is fitted to all choices but those on the pair at hand. Its
    accuracy is the mean over choices, as is the raw model's; `gain` is the difference. A
    score of minus infinity is replaced by the model's smallest finite one. The weights are those
    of the fit to all pairs, per standard deviation of the predictor.

    Parameters
    ----------
    data
        Trials; choices that prefer neither sentence take no part.
    scores, tokens
        Log-probability and number T of tokens of each sentence, one column a model.

    Raises
    ------
    InputError
        If a token count is not positive.

    Source
    ------
    Golan et al. (2023), Supplementary Section 7.2 and Fig. S1.
    """
    votes_2 = np.bincount(data.pair[data.rating > 0], minlength=data.n_pairs).astype(float)
    votes_1 = np.bincount(data.pair[data.rating < 0], minlength=data.n_pairs).astype(float)
    used = (votes_1 + votes_2) > 0
    total = float((votes_1 + votes_2).sum())
    rows = []
    for column, model in enumerate(data.models):
        if model not in tokens:
            raise InputError(f"model {model!r} has scores but no token counts")
        x = _differences(data, scores[model], tokens[model])[used]
        spread = np.sqrt((x**2).mean(axis=0))
        note = "" if (spread > 0).all() else "a predictor is the same for both sentences throughout"
        # With equal token counts throughout, the three predictors are one.
        x = x / np.where(spread > 0, spread, 1.0)
        sign = np.sign(data.log_ratio[used, column])
        held_out, weights, separated = _leave_one_out(x, votes_1[used], votes_2[used])
        if separated:
            note = "choices can be told apart perfectly; the weights have no finite best value"
        raw = _accuracy(sign, votes_1[used], votes_2[used], total)
        mixed = _accuracy(np.sign(held_out), votes_1[used], votes_2[used], total)
        rows.append((model, raw, mixed, mixed - raw, *weights, int(used.sum()), int(total), note))
    return pd.DataFrame(rows, columns=list(NORMALISATION_COLUMNS))


def _differences(data: TrialData, log_prob: pd.Series, tokens: pd.Series) -> FloatArray:
    sides = []
    finite = log_prob[np.isfinite(log_prob)]
    floor = float(finite.min()) if len(finite) else 0.0
    for side in ("sentence_1", "sentence_2"):
        texts = data.pairs[side].tolist()
        lp = log_prob.loc[texts].to_numpy(dtype=float)
        count = tokens.loc[texts].to_numpy(dtype=float)
        if (count <= 0).any():
            text = texts[int(np.argmax(count <= 0))]
            raise InputError(f"{text!r} has {count.min():g} tokens; a count must be positive")
        sides.append(normalisation_predictors(np.where(np.isfinite(lp), lp, floor), count))
    return np.asarray(sides[1] - sides[0])


def _accuracy(sign: FloatArray, votes_1: FloatArray, votes_2: FloatArray, total: float) -> float:
    right = np.where(sign > 0, votes_2, np.where(sign < 0, votes_1, (votes_1 + votes_2) / 2))
    return float(right.sum() / total)


def _leave_one_out(
    x: FloatArray, votes_1: FloatArray, votes_2: FloatArray
) -> tuple[FloatArray, FloatArray, bool]:
    """Return the left-out linear predictor of each pair, the overall weights, and separation."""
    n_pairs = len(x)
    keep = np.ones((n_pairs + 1, n_pairs))
    keep[np.arange(n_pairs), np.arange(n_pairs)] = 0.0  # the last fit is to all pairs
    beta = np.zeros((n_pairs + 1, 3))
    votes = votes_1 + votes_2
    outer = x[:, :, None] * x[:, None, :]
    ridge = 1e-10 * np.eye(3)  # decides among equal solutions where predictors coincide
    for _ in range(_MOST_STEPS):
        eta = beta @ x.T
        p = 1 / (1 + np.exp(-np.clip(eta, -500, 500)))
        gradient = (keep * (votes_2 - votes * p)) @ x
        curvature = np.tensordot(keep * (votes * p * (1 - p)), outer, axes=(1, 0))
        scale = np.trace(curvature, axis1=1, axis2=2)[:, None, None] + 1e-300
        step = np.linalg.solve(curvature + ridge * scale, gradient[..., None])[..., 0]
        length = np.abs(step).max(axis=1, keepdims=True)
        beta += step / np.maximum(1.0, length / 5)
        if length.max() < _CONVERGED:
            break
    separated = bool((np.abs(beta) > _SEPARATED).any()) or bool(length.max() >= _CONVERGED)
    held_out = (beta[:-1] * x).sum(axis=1)
    return held_out, beta[-1], separated
