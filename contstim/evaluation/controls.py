"""Controls on what sentences are made of: token counts and word features."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binomtest, ttest_1samp
from scipy.stats import t as student

from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.evaluation.inference import benjamini_hochberg
from contstim.evaluation.trials import TrialData

#: Columns of the table of token counts.
TOKEN_COLUMNS = ("model", "more", "equal", "fewer", "n_trials", "p", "q", "note")
#: Columns of the table of word features.
FEATURE_COLUMNS = (
    "feature",
    "model",
    "model_difference",
    "model_half_width",
    "people_difference",
    "people_half_width",
    "difference",
    "t",
    "p",
    "q",
    "n_trials",
    "note",
)


def token_counts(data: TrialData, tokens: pd.DataFrame) -> pd.DataFrame:
    """Count for each model the pairs whose accepted sentence has more, equal or fewer tokens.

    Of the pairs that target the model (all if none does); the accepted sentence is the one
    that it prefers. `p` is a two-sided binomial test of the unequal ones against one half, `q`
    adjusted over the models.

    Parameters
    ----------
    tokens
        Number of tokens of each sentence, one column a model.

    Source
    ------
    Golan et al. (2023), Supplementary Tables.
    """
    rows = []
    for column, model in enumerate(data.models):
        here = _targeted(data, model)
        ratio = data.log_ratio[here, column]
        first = tokens[model].loc[data.pairs.loc[here, "sentence_1"]].to_numpy(dtype=float)
        second = tokens[model].loc[data.pairs.loc[here, "sentence_2"]].to_numpy(dtype=float)
        more = np.sign(ratio) * (second - first)
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
    half widths of 95 % intervals; a one-sample t-test of the difference of the two; `q`
    adjusted over models for each feature.

    Source
    ------
    Golan et al. (2023), Supplementary Section 7.3.
    """
    names = {*data.pairs["sentence_1"], *data.pairs["sentence_2"]}
    lacking = names - set(features.index)
    if lacking:
        raise InputError(f"{len(lacking)} sentences have no features, for example {min(lacking)!r}")
    votes = np.bincount(data.pair, weights=np.sign(data.rating), minlength=data.n_pairs)
    people = np.sign(votes)
    table = []
    for feature in features.columns:
        values = features[feature]
        step = (
            values.loc[data.pairs["sentence_2"]].to_numpy()
            - values.loc[data.pairs["sentence_1"]].to_numpy()
        )
        rows = [
            _feature_row(str(feature), model, np.sign(data.log_ratio[:, m]), people, step, here)
            for m, model in enumerate(data.models)
            for here in [_targeted(data, model)]
        ]
        block = pd.DataFrame(rows, columns=list(FEATURE_COLUMNS))
        block["q"] = benjamini_hochberg(block["p"])
        table.append(block)
    return pd.concat(table, ignore_index=True)


def _feature_row(
    feature: str,
    model: str,
    sign: FloatArray,
    people: FloatArray,
    step: FloatArray,
    here: NDArray[np.bool_],
) -> tuple[object, ...]:
    used = here & (sign != 0) & (people != 0) & ~np.isnan(step)
    own, theirs = (sign * step)[used], (people * step)[used]
    n = int(used.sum())
    if n < 2 or np.ptp(own - theirs) == 0:
        note = "fewer than two pairs, or no variation of the difference"
        blank = float("nan")
        means = [float(own.mean()), blank, float(theirs.mean()), blank] if n else [blank] * 4
        return (feature, model, *means, blank, blank, blank, blank, n, note)
    test = ttest_1samp(own - theirs, 0)
    return (
        feature,
        model,
        float(own.mean()),
        _half_width(own),
        float(theirs.mean()),
        _half_width(theirs),
        float((own - theirs).mean()),
        float(test.statistic),
        float(test.pvalue),
        0.0,
        n,
        "",
    )


def _half_width(values: FloatArray) -> float:
    n = len(values)
    return float(student.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n))


def _targeted(data: TrialData, model: str) -> NDArray[np.bool_]:
    hit = (data.pairs["model_1"] == model) | (data.pairs["model_2"] == model)
    chosen = hit.to_numpy(dtype=np.bool_)
    return chosen if chosen.any() else np.ones(data.n_pairs, dtype=np.bool_)
