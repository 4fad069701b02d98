"""What the choices say without any model: agreement and reliability."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binom

from contstim.arrays import FloatArray
from contstim.evaluation.trials import TrialData


def trial_table(data: TrialData) -> pd.DataFrame:
    """Return one row a pair: how many chose each sentence, the mean rating, the log-ratios.

    `n_1`, `n_2` and `n_tied` count the choices of sentence 1, 2 and neither.
    """
    table = data.pairs.copy()
    n_pairs = data.n_pairs
    for name, rows in (
        ("n_1", data.rating < 0),
        ("n_2", data.rating > 0),
        ("n_tied", data.rating == 0),
    ):
        table[name] = np.bincount(data.pair[rows], minlength=n_pairs)
    total = np.bincount(data.pair, weights=data.rating, minlength=n_pairs)
    table["mean_rating"] = total / np.bincount(data.pair, minlength=n_pairs)
    for column, model in enumerate(data.models):
        table[f"log_ratio:{model}"] = data.log_ratio[:, column]
    return table


def agreement_table(data: TrialData, near: float = 0.9, min_participants: int = 2) -> pd.DataFrame:
    """Return for each condition, and for all, how far people agree.

    Attributes of a row: `condition`; `n_trials` with at least `min_participants`; `n_choices`;
    `near_unanimous`, the share of those trials on which at least `near` of the
    participants chose the same sentence; `chance`, the share expected if each chose by the
    toss of a coin (both sentences counted, so that it is twice the one-sided figure of 1.1 % in
    Golan et al. 2023 for ten participants); `majority`, the mean share of the majority;
    `expected_chosen`, the share of choices of the sentence that is better by design.
    """
    trials = trial_table(data)
    votes = trials["n_1"] + trials["n_2"]
    most = trials[["n_1", "n_2"]].max(axis=1)
    needed = np.ceil(near * votes - 1e-9)
    rows = []
    conditions = list(dict.fromkeys(trials["condition"]))
    for name in ["all", *conditions] if len(conditions) > 1 else conditions:
        here = votes >= min_participants
        if name != "all" or len(conditions) == 1:
            here &= trials["condition"] == name
        n = int(here.sum())
        row: dict[str, object] = {
            "condition": name,
            "n_trials": n,
            "n_choices": int(votes[here].sum()),
        }
        if n:
            row["near_unanimous"] = float((most >= needed)[here].mean())
            row["chance"] = float(_chance(votes[here], needed[here]).mean())
            row["majority"] = float((most / votes)[here].mean())
        row["note"] = "" if n else f"no trial with {min_participants} participants"
        row["expected_chosen"] = _expected_share(trials[here])
        rows.append(row)
    columns = ["condition", "n_trials", "n_choices", "near_unanimous", "chance", "majority"]
    return pd.DataFrame(rows).reindex(columns=[*columns, "expected_chosen", "note"])


def _expected_share(trials: pd.DataFrame) -> float | None:
    if "expected" not in trials or trials["expected"].isna().all():
        return None
    known = trials[trials["expected"].notna()]
    good = known["n_2"].where(known["expected"] == 2, known["n_1"])
    return float(good.sum() / (known["n_1"] + known["n_2"]).sum())


def _chance(votes: pd.Series, needed: pd.Series) -> FloatArray:
    tail = np.asarray(binom.sf(needed - 1, votes, 0.5), dtype=np.float64)
    # With a threshold of half or less one outcome would be counted on both sides.
    return np.minimum(1.0, 2 * tail)


def reliability_table(data: TrialData, n_splits: int = 200, seed: int = 0) -> pd.DataFrame:
    """Return the split-half reliability of the mean ratings, for each condition and for all.

    Participants are split in random halves within each group; the mean ratings of the halves are
    correlated over the pairs that both saw. The correlation is uncentred (a cosine), so
    that it does not depend on which sentence of a pair is called the first. `split_half` is the
    mean r over splits, `low` and `high` the 2.5 and 97.5 percentiles, and `spearman_brown` is
    2r / (1 + r), which estimates the reliability of the mean of all participants.

    Source
    ------
    Spearman (1910), doi 10.1111/j.2044-8295.1910.tb00206.x; Brown (1910),
    doi 10.1111/j.2044-8295.1910.tb00207.x.
    """
    rng = np.random.default_rng(seed)
    conditions = data.pairs["condition"].to_numpy(dtype=object)
    distinct = list(dict.fromkeys(conditions))
    names = ["all", *distinct] if len(distinct) > 1 else distinct
    found: dict[str, list[float]] = {name: [] for name in names}
    used = dict.fromkeys(names, 0)
    for _ in range(n_splits):
        half = _halves(data.group_of, rng)[data.participant]
        means, seen = [], np.ones(data.n_pairs, dtype=bool)
        for side in (False, True):
            rows = half == side
            count = np.bincount(data.pair[rows], minlength=data.n_pairs)
            total = np.bincount(data.pair[rows], weights=data.rating[rows], minlength=data.n_pairs)
            means.append(total / np.maximum(count, 1))
            seen &= count > 0
        for name in names:
            here = seen.copy()
            if name != "all" or len(distinct) == 1:
                here &= conditions == name
            first, second = means[0][here], means[1][here]
            norm = np.sqrt((first @ first) * (second @ second))
            used[name] = max(used[name], int(here.sum()))
            if norm > 0:
                found[name].append(float(first @ second / norm))
    rows_out = []
    for name in names:
        r = np.array(found[name])
        row: dict[str, object] = {"condition": name, "n_trials": used[name], "n_splits": len(r)}
        row["note"] = ""
        if len(r):
            mean = float(r.mean())
            row["split_half"] = mean
            row["low"], row["high"] = (float(v) for v in np.quantile(r, [0.025, 0.975]))
            if mean > 0:
                row["spearman_brown"] = 2 * mean / (1 + mean)
            else:
                row["note"] = "the halves do not agree; the correction has no meaning"
        else:
            row["note"] = "no pair was seen by two participants of a group"
        rows_out.append(row)
    columns = ["condition", "n_trials", "n_splits", "split_half", "low", "high", "spearman_brown"]
    return pd.DataFrame(rows_out).reindex(columns=[*columns, "note"])


def _halves(group_of: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
    order = np.lexsort((rng.random(len(group_of)), group_of))
    half = np.zeros(len(group_of), dtype=np.bool_)
    # Alternating along a shuffle sorted by group halves every group.
    half[order] = np.arange(len(order)) % 2 == 1
    return half
