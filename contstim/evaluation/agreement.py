"""Agreement among participants and among models, computed before any test."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import binom

from contstim.arrays import BoolArray, FloatArray
from contstim.evaluation.trials import TrialData
from contstim.trial_kinds import EXPERIMENTAL


def _iterate_conditions(data: TrialData) -> Iterator[tuple[str, BoolArray]]:
    """Yield the name of each experimental condition with a mask of its sentence pairs.

    Parameters
    ----------
    data
        Choices on P sentence pairs.

    Yields
    ------
    name : str
        Name of the condition. If experimental pairs belong to several conditions, the first name is
        ``all``, for all experimental pairs. A condition that is itself called ``all`` is then
        renamed to ``condition all``.
    is_in_condition : array of bool
        Whether each sentence pair belongs to the condition, shape (P,).
    """
    condition = data.pairs["condition"].to_numpy(dtype=object)
    is_experimental = (data.pairs["kind"] == EXPERIMENTAL).to_numpy()
    # Catch trials and fillers are not part of the summary of all conditions.
    has_several = len(set(condition[is_experimental])) > 1
    if has_several:
        yield "all", is_experimental
    # Conditions in order of appearance, without duplicates.
    for name in dict.fromkeys(condition):
        # Distinguish a condition that is called "all" from the summary of all conditions.
        label = "condition all" if has_several and name == "all" else name
        yield label, np.asarray(condition == name, dtype=np.bool_)


def trial_table(data: TrialData) -> pd.DataFrame:
    """Summarise the choices and the predictions of models for each sentence pair.

    Parameters
    ----------
    data
        Choices on P pairs and predictions of M models.

    Returns
    -------
    DataFrame
        One row per sentence pair with the columns of `data.pairs` and

        - `n_1`, `n_2` and `n_tied`: numbers of choices of sentence 1, sentence 2 and neither;
        - `mean_rating`: mean rating, positive for sentence 2;
        - ``log_ratio:MODEL`` for each model: log p(sentence 2) - log p(sentence 1).
    """
    table, n_pairs = data.pairs.copy(), data.n_pairs
    # A negative rating is a choice of sentence 1, a positive one of sentence 2, and 0 of neither.
    for name, sign in (("n_1", -1), ("n_2", 1), ("n_tied", 0)):
        table[name] = np.bincount(data.pair[np.sign(data.rating) == sign], minlength=n_pairs)
    # `data.pair` contains the index of the pair of each choice: sum the ratings of each pair.
    total = np.bincount(data.pair, weights=data.rating, minlength=n_pairs)
    table["mean_rating"] = total / np.bincount(data.pair, minlength=n_pairs)
    # Preference of each model: log p(sentence 2) - log p(sentence 1).
    for column, model in enumerate(data.models):
        table[f"log_ratio:{model}"] = data.log_ratio[:, column]
    return table


def agreement_table(data: TrialData, near: float = 0.9, min_participants: int = 2) -> pd.DataFrame:
    """Return how often participants choose the same sentence of a pair, for each condition.

    Choices of neither sentence are excluded.

    Parameters
    ----------
    data
        Choices of all participants.
    near
        Proportion of the participants that makes a choice nearly unanimous.
    min_participants
        Minimum number of participants who judged a pair.

    Returns
    -------
    DataFrame
        One row per condition, and one for all conditions, with the columns

        - `condition`;
        - `n_trials` and `n_choices`: numbers of sentence pairs and of choices;
        - `near_unanimous`: proportion of pairs on which at least `near` of the participants chose
          the same sentence;
        - `chance`: expected value of `near_unanimous` if participants chose at random. Either
          sentence may be preferred, so the value for ten participants is twice the 1.1 % that Golan
          et al. (2023) report for a given sentence;
        - `majority`: mean proportion of participants who chose the preferred sentence of a pair;
        - `expected_chosen`: proportion of choices of the correct sentence (column `expected` of
          the trials);
        - `note`: reason for missing numbers.
    """
    trials = trial_table(data)
    # Ties are no votes. The majority of a pair is the number of votes for its preferred sentence.
    n_votes = trials["n_1"] + trials["n_2"]
    majority = trials[["n_1", "n_2"]].max(axis=1)
    # Subtract a small number, so that a rounding error of the product is not rounded up to 1.
    n_needed = np.ceil(near * n_votes - 1e-9)
    rows = []
    for name, is_in_condition in _iterate_conditions(data):
        # Use the pairs of the condition that enough participants judged.
        is_used = (n_votes >= min_participants) & is_in_condition
        n_trials, n_choices = int(is_used.sum()), int(n_votes[is_used].sum())
        row: dict[str, object] = {"condition": name, "n_trials": n_trials, "n_choices": n_choices}
        row["note"] = "" if n_trials else f"no trial with {min_participants} participants"
        if n_trials:
            row["near_unanimous"] = float((majority >= n_needed)[is_used].mean())
            # Either sentence can be chosen by nearly all. At thresholds of one half or less, both
            # can be, so the sum of the two probabilities is limited to 1.
            tail = np.asarray(binom.sf(n_needed[is_used] - 1, n_votes[is_used], 0.5))
            row["chance"] = float(np.minimum(1.0, 2 * tail).mean())
            row["majority"] = float((majority / n_votes)[is_used].mean())
        if "expected" in trials:
            # In trials with a correct sentence (1 or 2), count how often it was chosen.
            checked = trials[is_used & trials["expected"].notna()]
            n_correct = checked["n_2"].where(checked["expected"] == 2, checked["n_1"])
            if len(checked):
                row["expected_chosen"] = n_correct.sum() / (checked["n_1"] + checked["n_2"]).sum()
        rows.append(row)
    columns = ["condition", "n_trials", "n_choices", "near_unanimous", "chance", "majority"]
    return pd.DataFrame(rows).reindex(columns=[*columns, "expected_chosen", "note"])


def reliability_table(data: TrialData, n_splits: int = 200, seed: int = 0) -> pd.DataFrame:
    """Return the split-half reliability (cosine) of the mean ratings in each condition.

    1. Split the participants of each group randomly into halves.
    2. Compute r, the cosine of the mean ratings of both halves over the pairs that both judged.
       Unlike a correlation, it does not depend on the order of the sentences of a pair.
    3. Average r over splits, and correct it for the half sample size by the Spearman-Brown formula,
       2 r / (1 + r) (Spearman 1910, doi 10.1111/j.2044-8295.1910.tb00206.x; Brown 1910, doi
       10.1111/j.2044-8295.1910.tb00207.x).

    Parameters
    ----------
    data
        Choices of all participants.
    n_splits
        Number of random splits.
    seed
        Seed of the random splits.

    Returns
    -------
    DataFrame
        One row per condition, and one for all conditions, with the columns

        - `condition`;
        - `n_trials`: number of sentence pairs;
        - `n_splits`: number of splits for which r is defined;
        - `split_half`, `low` and `high`: mean, 2.5 and 97.5 percentiles of r;
        - `spearman_brown`: estimated reliability of the mean of all participants; missing if the
          mean of r is not above 0;
        - `note`: reason for missing numbers.
    """
    rng = np.random.default_rng(seed)
    splits = [_split_half_means(data, rng) for _ in range(n_splits)]
    rows = []
    for name, is_in_condition in _iterate_conditions(data):
        correlations, n_trials = [], 0
        for first, second in splits:
            # Compare the halves on pairs that participants of both halves judged.
            is_shared = is_in_condition & ~np.isnan(first) & ~np.isnan(second)
            first_half, second_half = first[is_shared], second[is_shared]
            # Cosine of the two vectors of mean ratings; not defined if all mean ratings are 0.
            norm = np.sqrt((first_half @ first_half) * (second_half @ second_half))
            n_trials = max(n_trials, len(first_half))
            if norm > 0:
                correlations.append(float(first_half @ second_half / norm))
        row: dict[str, object] = {"condition": name, "n_trials": n_trials}
        row["n_splits"] = len(correlations)
        row["note"] = "" if correlations else "no pair was seen by two participants of a group"
        if correlations:
            # Percentiles of the splits, and the reliability of the whole sample (Spearman-Brown).
            mean = row["split_half"] = float(np.mean(correlations))
            row["low"], row["high"] = np.quantile(correlations, [0.025, 0.975]).tolist()
            if mean > 0:
                row["spearman_brown"] = 2 * mean / (1 + mean)
            else:
                row["note"] = "the halves do not agree; the correction has no meaning"
        rows.append(row)
    columns = ["condition", "n_trials", "n_splits", "split_half", "low", "high", "spearman_brown"]
    return pd.DataFrame(rows).reindex(columns=[*columns, "note"])


def _split_half_means(data: TrialData, rng: np.random.Generator) -> list[FloatArray]:
    """Split the participants into random halves, and average the ratings within each half.

    Each group of participants is split separately, because groups may judge different pairs.

    Parameters
    ----------
    data
        Ratings of P sentence pairs.
    rng
        Random number generator for the split.

    Returns
    -------
    list of array
        Mean rating of each sentence pair in the first and in the second half of the participants,
        shape (P,) each. NaN if no participant of this half judged the pair.
    """
    participant_groups = data.group_codes
    # Sort participants by group and randomly within groups (the last key of `lexsort` is the most
    # important one), then assign them alternately to the two halves.
    order = np.lexsort((rng.random(len(participant_groups)), participant_groups))
    half_of_participant = np.zeros(len(order), dtype=np.int64)
    half_of_participant[order] = np.arange(len(order)) % 2
    # Average the ratings of each pair within each half; a pair without ratings has the mean NaN.
    half_of_rating = half_of_participant[data.participant]
    means = []
    for half in (0, 1):
        pairs, ratings = data.pair[half_of_rating == half], data.rating[half_of_rating == half]
        count = np.bincount(pairs, minlength=data.n_pairs)
        total = np.bincount(pairs, weights=ratings, minlength=data.n_pairs)
        means.append(np.where(count > 0, total / np.maximum(count, 1), np.nan))
    return means


def model_agreement_table(data: TrialData) -> pd.DataFrame:
    """Return how often two models prefer the same sentence, for each condition.

    Choices can distinguish two models only on pairs on which their predictions differ (Golan et al.
    2023, Extended Data Fig. 2).

    Parameters
    ----------
    data
        Predictions of M models for P pairs.

    Returns
    -------
    DataFrame
        One row per condition and pair of models, with the columns

        - `condition`, `model_1` and `model_2`;
        - `agreement`: proportion of sentence pairs on which both models prefer the same sentence. A
          sentence pair counts one half if one of the models has no preference;
        - `n_disagree`: number of sentence pairs on which the predictions differ;
        - `n_trials`: number of sentence pairs.
    """
    rows = []
    # Preferred sentence of each model, shape (P, M): -1 for sentence 1, 1 for sentence 2, 0 for
    # none.
    sign = np.sign(data.log_ratio)
    for name, pairs in _iterate_conditions(data):
        # Mean agreement of all pairs of models at once, as a matrix product of shape (M, M).
        # The product of two signs is 1 for agreement and -1 for disagreement; rescale to 1 and 0.
        agreement = 0.5 + 0.5 * (sign[pairs].T @ sign[pairs]) / pairs.sum()
        for i, j in combinations(range(len(data.models)), 2):
            models = data.models[i], data.models[j]
            n_disagree = int((sign[pairs, i] != sign[pairs, j]).sum())
            rows.append((name, *models, float(agreement[i, j]), n_disagree, int(pairs.sum())))
    columns = ["condition", "model_1", "model_2", "agreement", "n_disagree", "n_trials"]
    return pd.DataFrame(rows, columns=columns)
