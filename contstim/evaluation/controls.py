"""Controls: what sentences are made of (token counts, word features), and ways of normalising."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import binomtest, ttest_1samp
from scipy.stats import t as student

from contstim.arrays import BoolArray, FloatArray
from contstim.errors import InputError
from contstim.evaluation.inference import benjamini_hochberg
from contstim.evaluation.result import ControlTables
from contstim.evaluation.trials import Analysis, TrialData, select

#: Columns of the table of token counts.
TOKEN_COLUMNS = ("model", "more", "equal", "fewer", "n_trials", "p", "q", "note")
#: Columns of the table of word features.
FEATURE_COLUMNS = (
    *("feature", "model", "model_difference", "model_half_width"),
    *("people_difference", "people_half_width", "difference", "t", "p", "q", "n_trials", "note"),
)
#: Columns of the table of ways of normalising.
NORMALISATION_COLUMNS = (
    *("model", "accuracy", "accuracy_normalised", "gain"),
    *("weight_lp", "weight_mean_lp", "weight_pen_lp", "n_trials", "n_choices", "note"),
)
_SIDES = ("sentence_1", "sentence_2")
_MOST_STEPS = 100
_CONVERGED = 1e-9
# Beyond this the weights (in units of one standard deviation of a predictor) grow without end.
_SEPARATED = 1e4


def control_tables(
    data: TrialData,
    scores: pd.DataFrame,
    tokens: pd.DataFrame | None,
    features: pd.DataFrame | None,
) -> ControlTables:
    """Return all controls for which there are data: scores, token counts and features."""
    columns = NORMALISATION_COLUMNS, TOKEN_COLUMNS, FEATURE_COLUMNS
    normalisation, counts, of_features = (pd.DataFrame(columns=list(c)) for c in columns)
    if tokens is not None:
        counts = token_counts(data, tokens)
        if data.rating.any():  # else no choice can be predicted
            normalisation = normalisation_control(data, scores, tokens)
    if features is not None and len(features.columns):
        of_features = feature_control(data, features)
    return ControlTables(normalisation, counts, of_features)


def token_counts(data: TrialData, tokens: pd.DataFrame) -> pd.DataFrame:
    """Count for each model the pairs whose accepted sentence has more, equal or fewer tokens.

    Of the pairs that target the model (all if none does); the accepted sentence is the one
    that it prefers. `p` is a two-sided binomial test of the unequal ones against one half, `q`
    adjusted over the models.

    Parameters
    ----------
    tokens
        Number of tokens of each sentence, one column per model.

    Source
    ------
    Golan et al. (2023), Supplementary Tables.
    """
    rows = []
    for column, model in enumerate(data.models):
        here = _targeted(data, model)
        ratio = data.log_ratio[here, column]
        more = np.sign(ratio) * _step(data, tokens[model])[here]
        n_more, n_fewer = int((more > 0).sum()), int((more < 0).sum())
        unequal = n_more + n_fewer
        p = float(binomtest(n_more, unequal).pvalue) if unequal else float("nan")
        note = "" if unequal else "no pair with unequal counts"
        rows.append((model, n_more, int((more == 0).sum()), n_fewer, len(ratio), p, 0.0, note))
    table = pd.DataFrame(rows, columns=list(TOKEN_COLUMNS))
    table["q"] = benjamini_hochberg(table["p"])
    return table


def feature_control(data: TrialData, features: pd.DataFrame) -> pd.DataFrame:
    """Compare which sentences models and people prefer by a feature.

    On the pairs that target a model (all if none does), without those that it or the human
    majority leaves tied or that lack the feature: the mean of the feature's value in the
    preferred minus the rejected sentence, for the model and for the majority of people, with the
    half widths of 95 % intervals; a one-sample t-test of the difference of the two, unless that
    is the same throughout; `q` adjusted over models for each feature.

    Raises
    ------
    InputError
        If a sentence has no features or two rows of them, or a feature is not of numbers.

    Source
    ------
    Golan et al. (2023), Supplementary Section 7.3.
    """
    twice = features.index[features.index.duplicated()]
    if len(twice):
        raise InputError(f"{twice[0]!r} has two rows of features; keep one")
    for feature, kind in features.dtypes.items():
        if not pd.api.types.is_numeric_dtype(kind):
            raise InputError(f"the feature {feature!r} is not of numbers; leave it out")
    names = {*data.pairs["sentence_1"], *data.pairs["sentence_2"]}
    lacking = names - set(features.index)
    if lacking:
        raise InputError(f"{len(lacking)} sentences have no features, for example {min(lacking)!r}")
    votes = np.bincount(data.pair, weights=np.sign(data.rating), minlength=data.n_pairs)
    people = np.sign(votes)
    table = []
    for feature in features.columns:
        step = _step(data, features[feature])
        rows = []
        for sign, model in zip(np.sign(data.log_ratio.T), data.models, strict=True):
            used = _targeted(data, model) & (sign != 0) & (people != 0) & ~np.isnan(step)
            tested = _feature_test((sign * step)[used], (people * step)[used])
            rows.append({"feature": str(feature), "model": model, **tested})
        block = pd.DataFrame(rows, columns=list(FEATURE_COLUMNS))
        block["q"] = benjamini_hochberg(block["p"])
        table.append(block)
    return pd.concat(table, ignore_index=True)


def _feature_test(models: FloatArray, theirs: FloatArray) -> dict[str, object]:
    """Compare the steps of a feature that a model and people prefer, by the columns of a row."""
    n, apart = len(models), models - theirs
    row: dict[str, object] = {"n_trials": n, "note": ""}
    if n:
        row |= {"model_difference": models.mean(), "people_difference": theirs.mean()}
        row["difference"] = apart.mean()
    if n > 1:
        row |= {"model_half_width": _half_width(models), "people_half_width": _half_width(theirs)}
    if n < 2 or np.ptp(apart) == 0:
        note = "fewer than two pairs, or no variation of the difference"
        return row | {"p": np.nan, "note": note}
    test = ttest_1samp(apart, 0)
    return row | {"t": test.statistic, "p": test.pvalue}


def _step(data: TrialData, values: pd.Series) -> FloatArray:
    """Return the value of sentence 2 minus that of sentence 1 of each pair, shape (P,)."""
    one, two = (values.loc[data.pairs[side]].to_numpy(float) for side in _SIDES)
    return np.asarray(two - one)


def _half_width(values: FloatArray) -> float:
    n = len(values)
    return float(student.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n))


def _targeted(data: TrialData, model: str) -> BoolArray:
    chosen = select(Analysis(model, target="either"), data.pairs, [model])[:, 0]
    return chosen if chosen.any() else np.ones(data.n_pairs, dtype=np.bool_)


def normalisation_predictors(log_prob: FloatArray, tokens: FloatArray) -> FloatArray:
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
    of the fit to all pairs, per root mean square of the predictor's differences.

    Parameters
    ----------
    data
        Trials; choices that prefer neither sentence take no part.
    scores, tokens
        Log-probability and number T of tokens of each sentence, one column per model.

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
    for side in _SIDES:
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
