"""What the trials say before any test: how far people agree, how far models do, and on what not.

Tables in long form: a row per trial, a condition, or two models.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import binom

from contstim.arrays import BoolArray, FloatArray
from contstim.evaluation.measures.accuracy import ACCURACY
from contstim.evaluation.result import PairTables, PeopleTables
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData
from contstim.trial_kinds import EXPERIMENTAL


def people_tables(data: TrialData, seed: int) -> PeopleTables:
    """Return what the choices say without any model."""
    return PeopleTables(
        trial_table(data), agreement_table(data), reliability_table(data, seed=seed)
    )


def pair_tables(data: TrialData, scores: pd.DataFrame, trials: pd.DataFrame) -> PairTables:
    """Set models against each other; `scores` has a column per model, `trials` a row per pair."""
    agreement, consistency = model_agreement_table(data), consistency_table(data)
    instructive = instructive_table(data, scores, trials)
    return PairTables(agreement, consistency, natural_preference_table(data), instructive)


def _by_condition(data: TrialData) -> Iterator[tuple[str, BoolArray]]:
    """Yield each condition and which pairs are of it, shape (P,); all of several ones first.

    Catch trials and fillers are not among all. One of several that is called ``all`` itself is
    ``condition all``, as among the analyses.
    """
    condition = data.pairs["condition"].to_numpy(dtype=object)
    distinct = list(dict.fromkeys(condition))
    asked = (data.pairs["kind"] == EXPERIMENTAL).to_numpy()
    several = len(set(condition[asked])) > 1
    if several:
        yield "all", asked
    for name in distinct:
        shown_as = "condition all" if several and name == "all" else name
        yield shown_as, np.asarray(condition == name, dtype=np.bool_)


def trial_table(data: TrialData) -> pd.DataFrame:
    """Return one row per pair: how many chose each sentence, the mean rating, the log-ratios.

    `n_1`, `n_2` and `n_tied` count the choices of sentence 1, 2 and neither.
    """
    table, n_pairs = data.pairs.copy(), data.n_pairs
    for name, sign in (("n_1", -1), ("n_2", 1), ("n_tied", 0)):
        table[name] = np.bincount(data.pair[np.sign(data.rating) == sign], minlength=n_pairs)
    total = np.bincount(data.pair, weights=data.rating, minlength=n_pairs)
    table["mean_rating"] = total / np.bincount(data.pair, minlength=n_pairs)
    for column, model in enumerate(data.models):
        table[f"log_ratio:{model}"] = data.log_ratio[:, column]
    return table


def agreement_table(data: TrialData, near: float = 0.9, min_participants: int = 2) -> pd.DataFrame:
    """Return for each condition, and for all, how far people agree.

    Choices of neither sentence take no part. Attributes of a row: `condition`; `n_trials` with at
    least `min_participants`; `n_choices`; `near_unanimous`, the share of those trials on which at
    least `near` of the participants chose the same sentence; `chance`, the share expected if each
    chose by the toss of a coin (both sentences counted, so that it is twice the one-sided figure
    of 1.1 % in Golan et al. 2023 for ten participants); `majority`, the mean share of the
    majority; `expected_chosen`, the share of choices of the sentence that is better by design.
    """
    trials = trial_table(data)
    votes = trials["n_1"] + trials["n_2"]
    majority = trials[["n_1", "n_2"]].max(axis=1)
    needed = np.ceil(near * votes - 1e-9)
    rows = []
    for name, of_condition in _by_condition(data):
        counted = (votes >= min_participants) & of_condition
        n = int(counted.sum())
        n_choices = int(votes[counted].sum())
        row: dict[str, object] = {"condition": name, "n_trials": n, "n_choices": n_choices}
        if n:
            row["near_unanimous"] = float((majority >= needed)[counted].mean())
            # With a threshold of half or less one outcome would be counted on both sides.
            tail = np.asarray(binom.sf(needed[counted] - 1, votes[counted], 0.5), dtype=np.float64)
            row["chance"] = float(np.minimum(1.0, 2 * tail).mean())
            row["majority"] = float((majority / votes)[counted].mean())
        row["note"] = "" if n else f"no trial with {min_participants} participants"
        if "expected" in trials:
            checked = trials[counted & trials["expected"].notna()]
            good = checked["n_2"].where(checked["expected"] == 2, checked["n_1"])
            if len(checked):
                row["expected_chosen"] = good.sum() / (checked["n_1"] + checked["n_2"]).sum()
        rows.append(row)
    columns = ["condition", "n_trials", "n_choices", "near_unanimous", "chance", "majority"]
    return pd.DataFrame(rows).reindex(columns=[*columns, "expected_chosen", "note"])


def reliability_table(data: TrialData, n_splits: int = 200, seed: int = 0) -> pd.DataFrame:
    """Return the split-half reliability of the mean ratings, for each condition and for all.

    Participants are split in random halves within each group; the mean ratings of the halves are
    correlated over the pairs that both saw. The correlation is uncentred (a cosine), so
    that it does not depend on which sentence of a pair is called the first. `split_half` is the
    mean r over splits, `low` and `high` the 2.5 and 97.5 percentiles, and `spearman_brown` is
    2r / (1 + r), which estimates the reliability of the mean of all participants; missing where
    r is not above 0.

    Source
    ------
    Spearman (1910), doi 10.1111/j.2044-8295.1910.tb00206.x; Brown (1910),
    doi 10.1111/j.2044-8295.1910.tb00207.x.
    """
    rng = np.random.default_rng(seed)
    halves = [_half_means(data, rng) for _ in range(n_splits)]
    rows = []
    for name, of_condition in _by_condition(data):
        r, used = [], 0
        for first, second in halves:
            both = of_condition & ~np.isnan(first) & ~np.isnan(second)
            first_half, second_half = first[both], second[both]
            norm = np.sqrt((first_half @ first_half) * (second_half @ second_half))
            used = max(used, len(first_half))
            if norm > 0:
                r.append(float(first_half @ second_half / norm))
        row: dict[str, object] = {"condition": name, "n_trials": used, "n_splits": len(r)}
        row["note"] = "" if r else "no pair was seen by two participants of a group"
        if r:
            mean = row["split_half"] = float(np.mean(r))
            row["low"], row["high"] = (float(v) for v in np.quantile(r, [0.025, 0.975]))
            if mean > 0:
                row["spearman_brown"] = 2 * mean / (1 + mean)
            else:
                row["note"] = "the halves do not agree; the correction has no meaning"
        rows.append(row)
    columns = ["condition", "n_trials", "n_splits", "split_half", "low", "high", "spearman_brown"]
    return pd.DataFrame(rows).reindex(columns=[*columns, "note"])


def _half_means(data: TrialData, rng: np.random.Generator) -> list[FloatArray]:
    """Return the mean ratings of the pairs by random halves, (P,) each; NaN where not seen."""
    order = np.lexsort((rng.random(len(data.group_of)), data.group_of))
    half = np.zeros(len(order), dtype=np.int64)
    # Alternating along a shuffle sorted by group halves every group.
    half[order] = np.arange(len(order)) % 2
    means = []
    for side in (0, 1):
        rows = half[data.participant] == side
        count = np.bincount(data.pair[rows], minlength=data.n_pairs)
        total = np.bincount(data.pair[rows], weights=data.rating[rows], minlength=data.n_pairs)
        means.append(np.where(count > 0, total / np.maximum(count, 1), np.nan))
    return means


def model_agreement_table(data: TrialData) -> pd.DataFrame:
    """Return for each condition, all, and two models the share of pairs they order alike.

    A pair on which one of the two has no preference counts one half. Columns: `condition`,
    `model_1`, `model_2`, `agreement`, `n_trials`.

    Source
    ------
    Golan et al. (2023), Extended Data Fig. 2.
    """
    sign = np.sign(data.log_ratio)
    rows = []
    for name, here in _by_condition(data):
        agreement = 0.5 + 0.5 * (sign[here].T @ sign[here]) / here.sum()
        for i, j in combinations(range(len(data.models)), 2):
            models = data.models[i], data.models[j]
            rows.append((name, *models, float(agreement[i, j]), int(here.sum())))
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
        turned = [condition, second, first]
        swapped = (data.pairs[["condition", "model_1", "model_2"]] == turned).all(axis=1)
        if swapped.any() and str(second) < str(first):
            continue  # the two orders are one block, met under the other
        mask = swapped.to_numpy(dtype=bool, copy=True)
        mask[block.index.to_numpy()] = True
        for model, other in ((first, second), (second, first)):
            if model in index:
                subset = Subset.of_pairs(data, mask, np.array([index[model]]))
                value = float(np.nanmean(ACCURACY.values(subset)))
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

    Of the trials that target the model (where none does, all that compare models) those on which
    more than half the people chose against its preference: the largest share first, ties in favour
    of more choices, then of the larger log-ratio, then in order of the sentences. `preferred` is
    the sentence that the model prefers, `rejected` the other; `n_preferred` and `n_rejected` count
    the people who chose each; `log_prob_*` is the log-probability (nats) under the model and
    `other_log_prob_*` under the model it was pitted against, where there is one.
    """
    rows: list[dict[str, object]] = []
    pairs = data.pairs
    asked = pairs["kind"] == EXPERIMENTAL
    for model in data.models:
        hit = asked & ((pairs["model_1"] == model) | (pairs["model_2"] == model))
        pool = trials[hit if hit.any() else asked]
        ratio = pool[f"log_ratio:{model}"].to_numpy()
        against = np.where(ratio > 0, pool["n_1"], pool["n_2"]).astype(float)
        votes = (pool["n_1"] + pool["n_2"] + pool["n_tied"]).to_numpy(dtype=float)
        share = np.where(ratio != 0, against / votes, 0.0)
        order = np.lexsort((pool["sentence_1"].to_numpy(str), -np.abs(ratio), -votes, -share))
        for place in order[:per_model]:
            if share[place] <= 0.5:
                break
            pair = pool.iloc[place]
            other = pair["model_2"] if pair["model_1"] == model else pair["model_1"]
            other = other if hit.any() and other in data.models else None
            row = {"model": model, "condition": pair["condition"], "other": other}
            sides = ("2", "1") if ratio[place] > 0 else ("1", "2")
            for name, side in zip(("preferred", "rejected"), sides, strict=True):
                text = row[name] = pair[f"sentence_{side}"]
                row[f"n_{name}"] = int(pair[f"n_{side}"])
                row[f"log_prob_{name}"] = scores.loc[text, model]
                row[f"other_log_prob_{name}"] = scores.loc[text, other] if other else None
            rows.append(row)
    columns = ["model", "condition", "preferred", "rejected", "n_preferred", "n_rejected"]
    columns += ["log_prob_preferred", "log_prob_rejected", "other"]
    columns += ["other_log_prob_preferred", "other_log_prob_rejected"]
    return pd.DataFrame(rows, columns=columns)
