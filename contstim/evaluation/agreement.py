"""Agreement among participants and among models, before any test."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import binom

from contstim.arrays import BoolArray, FloatArray
from contstim.evaluation.trials import TrialData
from contstim.trial_kinds import EXPERIMENTAL


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
    order = np.lexsort((rng.random(len(data.group_codes)), data.group_codes))
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
    """Return for each condition, and for all, how often two models prefer the same sentence.

    `agreement` is the share of sentence pairs on which they do, where a pair on which one of the
    two has no preference counts one half; `n_disagree` is the number of pairs, of `n_trials`, on
    which their predictions differ. Without such pairs no choice can distinguish the two models.

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
            n_disagree = int((sign[here, i] != sign[here, j]).sum())
            rows.append((name, *models, float(agreement[i, j]), n_disagree, int(here.sum())))
    columns = ["condition", "model_1", "model_2", "agreement", "n_disagree", "n_trials"]
    return pd.DataFrame(rows, columns=columns)
