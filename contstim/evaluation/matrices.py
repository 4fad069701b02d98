"""Model-by-model tables, in long form, and the trials that tell most against a model."""

from __future__ import annotations

import numpy as np
import pandas as pd

from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData


def model_agreement_table(data: TrialData) -> pd.DataFrame:
    """Return for each condition, all, and two models the share of pairs they order alike.

    A pair on which one of the two has no preference counts one half. Columns: `condition`,
    `model_1`, `model_2`, `agreement`, `n_trials`.

    Source
    ------
    Golan et al. (2023), Extended Data Fig. 2.
    """
    sign = np.sign(data.log_ratio)
    conditions = data.pairs["condition"].to_numpy(dtype=object)
    distinct = list(dict.fromkeys(conditions))
    rows = []
    for name in ["all", *distinct] if len(distinct) > 1 else distinct:
        here = np.ones(data.n_pairs, dtype=bool) if name == "all" else conditions == name
        agreement = 0.5 + 0.5 * (sign[here].T @ sign[here]) / here.sum()
        for i, first in enumerate(data.models):
            for j, second in enumerate(data.models):
                if i < j:
                    rows.append((name, first, second, float(agreement[i, j]), int(here.sum())))
    return pd.DataFrame(rows, columns=["condition", "model_1", "model_2", "agreement", "n_trials"])


def consistency_table(data: TrialData) -> pd.DataFrame:
    """Return for each condition how a model fares against each it was pitted against.

    `accuracy` is that of `model` (mean over participants) on the trials whose two targeted models
    are `model` and `other`. Columns: `condition`, `model`, `other`, `accuracy`, `n_trials`.

    Source
    ------
    Golan et al. (2023), Extended Data Fig. 3.
    """
    index = {name: i for i, name in enumerate(data.models)}
    rows = []
    targeted = data.pairs[data.pairs["model_1"].notna()]
    for keys, block in targeted.groupby(["condition", "model_1", "model_2"], sort=False):
        condition, first, second = keys
        swapped = (
            (data.pairs["condition"] == condition)
            & (data.pairs["model_1"] == second)
            & (data.pairs["model_2"] == first)
        )
        if swapped.any() and str(second) < str(first):
            continue  # the two orders are one block, met under the other
        mask = swapped.to_numpy(dtype=bool, copy=True)
        mask[block.index.to_numpy()] = True
        for model, other in ((first, second), (second, first)):
            if model not in index:
                continue
            subset = Subset.of_pairs(data, mask, np.array([index[model]]))
            value = float(np.nanmean(subset.values("accuracy")))
            rows.append((condition, model, other, value, subset.n_pairs))
    columns = ["condition", "model", "other", "accuracy", "n_trials"]
    return pd.DataFrame(rows, columns=columns)


def natural_preference_table(data: TrialData) -> pd.DataFrame:
    """Return how often people prefer the natural to the synthetic sentence, by the models' roles.

    Columns: `accepts` and `rejects` (the two models), `natural_chosen` (share of choices, ties
    one half), `n_trials`, `n_choices`. Empty without such trials.

    Source
    ------
    Golan et al. (2023), Extended Data Fig. 4.
    """
    columns = ["accepts", "rejects", "natural_chosen", "n_trials", "n_choices"]
    if not {"kind_1", "kind_2"} <= set(data.pairs.columns):
        return pd.DataFrame(columns=columns)
    pairs = data.pairs
    first = (pairs["kind_1"] == "S") & (pairs["kind_2"] == "N")
    second = (pairs["kind_1"] == "N") & (pairs["kind_2"] == "S")
    mixed = (first | second) & pairs["model_1"].notna()
    natural_side = np.where(first, 1.0, -1.0)  # the sign of a rating that prefers the natural one
    share = 0.5 + 0.5 * np.sign(data.rating) * natural_side[data.pair]
    frame = pd.DataFrame(
        {
            "accepts": pairs["model_1"].where(first, pairs["model_2"]).to_numpy()[data.pair],
            "rejects": pairs["model_2"].where(first, pairs["model_1"]).to_numpy()[data.pair],
            "share": share,
            "pair": data.pair,
        }
    )[mixed.to_numpy()[data.pair]]
    rows = [
        (*keys, float(block["share"].mean()), block["pair"].nunique(), len(block))
        for keys, block in frame.groupby(["accepts", "rejects"])
    ]
    return pd.DataFrame(rows, columns=columns)


def instructive_table(
    data: TrialData, scores: pd.DataFrame, trials: pd.DataFrame, per_model: int = 5
) -> pd.DataFrame:
    """Return for each model the trials on which most people chose against it.

    Of the trials that target the model (all trials where none does) those on which more than half
    the people chose against its preference: the largest share first, ties in favour of more
    choices, then of the larger log-ratio, then in order of the sentences. `preferred` is the
    sentence that the model prefers, `rejected` the other; `n_preferred` and `n_rejected` count the
    people who chose each; `log_prob_*` is the log-probability (nats) under the model and
    `other_log_prob_*` under the model it was pitted against, where there is one.
    """
    rows: list[dict[str, object]] = []
    pairs = data.pairs
    where = {text: i for i, text in enumerate(scores.index)}
    for column, model in enumerate(data.models):
        hit = (pairs["model_1"] == model) | (pairs["model_2"] == model)
        pool = trials[hit] if hit.any() else trials
        ratio = pool[f"log_ratio:{model}"].to_numpy()
        against = np.where(ratio > 0, pool["n_1"], pool["n_2"]).astype(float)
        votes = (pool["n_1"] + pool["n_2"] + pool["n_tied"]).to_numpy(dtype=float)
        share = np.where(ratio != 0, against / votes, 0.0)
        order = np.lexsort((pool["sentence_1"].to_numpy(str), -np.abs(ratio), -votes, -share))
        for place in order[:per_model]:
            if share[place] <= 0.5:
                break
            pair = pool.iloc[place]
            good, bad = ("2", "1") if ratio[place] > 0 else ("1", "2")
            other = None
            if hit.any():
                other = pair["model_2"] if pair["model_1"] == model else pair["model_1"]
            row: dict[str, object] = {
                "model": model,
                "condition": pair["condition"],
                "preferred": pair[f"sentence_{good}"],
                "rejected": pair[f"sentence_{bad}"],
                "n_preferred": int(pair[f"n_{good}"]),
                "n_rejected": int(pair[f"n_{bad}"]),
            }
            for name, sentence in (("preferred", good), ("rejected", bad)):
                text = pair[f"sentence_{sentence}"]
                row[f"log_prob_{name}"] = float(scores.to_numpy()[where[text], column])
            row["other"] = other if other in data.models else None
            for name, sentence in (("preferred", good), ("rejected", bad)):
                text = pair[f"sentence_{sentence}"]
                known = row["other"] is not None
                row[f"other_log_prob_{name}"] = (
                    float(scores.to_numpy()[where[text], data.models.index(other)])
                    if known
                    else None
                )
            rows.append(row)
    columns = ["model", "condition", "preferred", "rejected", "n_preferred", "n_rejected"]
    columns += ["log_prob_preferred", "log_prob_rejected", "other"]
    columns += ["other_log_prob_preferred", "other_log_prob_rejected"]
    return pd.DataFrame(rows, columns=columns)
