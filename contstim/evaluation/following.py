"""LLM-assisted responding: who follows one model more closely than the group does.

A participant who lets a language model answer votes for that model. The statistic asks whether a
participant's choices lean towards a model beyond what the rest of the group lets one expect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm

from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.evaluation.inference import benjamini_hochberg
from contstim.tables import require_columns
from contstim.trial_kinds import EXPERIMENTAL, with_kinds

_LEAST_OTHERS = 3
_LEAST_TRIALS = 10
_STEEPEST = 6.0  # largest slope on the group's log odds
_LAPSE = 0.02


@dataclass(frozen=True, eq=False)
class Votes:
    """Choices and models' preferences on the trials of one group.

    Attributes
    ----------
    participants
        N of them.
    chose_2
        Shape (N, T): 1 where sentence 2 was chosen, 0 where sentence 1 was, NaN without an answer.
    prefers
        Shape (M, T): 1 where the model gives sentence 2 the higher log-probability, -1 where
        sentence 1, 0 for ties.
    """

    participants: tuple[str, ...]
    chose_2: FloatArray
    prefers: FloatArray


def read_votes(choices: pd.DataFrame, scores: pd.DataFrame) -> list[Votes]:
    """Arrange the choices of experimental trials by group.

    Parameters
    ----------
    choices
        A row per trial and participant: ``participant, group, condition, sentence_1, sentence_2,
        rating``.
    scores
        Log-probabilities in nats, shape (S, M): a row per sentence, a column per model.

    Raises
    ------
    InputError
        If a column or the score of a sentence is missing, a sentence has two, or there is nothing
        to arrange: no model, or no choice but in catch trials.
    """
    columns = ("participant", "group", "condition", "sentence_1", "sentence_2", "rating")
    require_columns(choices, columns, "the table of choices")
    choices = with_kinds(choices)
    rows = choices[(choices["kind"] == EXPERIMENTAL) & choices["rating"].fillna(0).ne(0)]
    if rows.empty:
        raise InputError("the only preferences are in catch trials; there are no votes to count")
    if not len(scores.columns):
        raise InputError("the scores name no model; give those of at least one")
    twice = scores.index[scores.index.duplicated()]
    if len(twice):
        raise InputError(f"{twice[0]!r} has two rows of scores; keep one")
    scored = set(scores.index[scores.notna().all(axis=1)])
    for sentence in pd.unique(pd.concat([rows["sentence_1"], rows["sentence_2"]])):
        if sentence not in scored:
            raise InputError(f"there is no score of {sentence!r}; score all sentences of the study")
    votes = []
    for _, of_group in rows.groupby("group", sort=False):
        table = of_group.assign(chose_2=(of_group["rating"] > 0).astype(float)).pivot_table(
            index="participant",
            columns=["sentence_1", "sentence_2"],
            values="chose_2",
            aggfunc="first",
        )
        first, second = (scores.loc[table.columns.get_level_values(k)].to_numpy().T for k in (0, 1))
        names, prefers = tuple(map(str, table.index)), np.sign(np.nan_to_num(second - first))
        votes.append(Votes(names, table.to_numpy(dtype=np.float64), prefers))
    return votes


def following_table(votes: Sequence[Votes], models: Sequence[str]) -> pd.DataFrame:
    """Return how far each participant leans to each model beyond the group's.

    Parameters
    ----------
    votes
        The groups, from `read_votes`.
    models
        Names of the M models.

    Returns
    -------
    pandas.DataFrame
        One row per participant and model: ``participant, model, n_trials, agreement`` (share of
        choices as the model prefers), ``expected`` (the same, from the group), ``z``, ``p``, ``q``.
        Without ``z`` where the group has fewer than three others, or fewer than ten trials count.

    Notes
    -----
    For participant i and trial t of T let y = 1 if sentence 2 was chosen, x the log odds of
    sentence 2 among the others of the group, (k + 1/2) / (n - k + 1/2) for k of n, and m = 1 or -1
    the sentence that the model prefers. In the logistic model log odds(y) = a x + b m, the slope
    ``a`` being the participant's own and fitted, b = 0 says that the model adds nothing to the
    group. The score test of b = 0 is s = Σ m (y - μ) / sqrt(V), V = Σ m²w - (Σ m x w)² / Σ x²w,
    w = μ (1 - μ).

    People do follow good models a little, and few others tell the group's odds only roughly, so s
    has neither mean 0 nor variance 1 among honest participants. It is therefore compared with all
    participants: z = (s - median) / max(1, 1.4826 median |s - median|), by model. As long as most
    participants are honest these do not move. ``p`` is one-sided from the normal distribution,
    ``q`` adjusts for all participants and models (Benjamini and Hochberg 1995).

    A participant whose answers come from a model that is not among those given is found only as
    far as the two models agree.
    """
    rows = []
    for group in votes:
        for i, name in enumerate(group.participants):
            rows += _participant(group, i, name, models)
    columns = ["participant", "model", "n_trials", "agreement", "expected", "z"]
    table = pd.DataFrame(rows, columns=columns)
    for _, scores in table.groupby("model", sort=False)["z"]:
        apart = scores - scores.median()
        table.loc[scores.index, "z"] = apart / max(1.0, 1.4826 * float(apart.abs().median()))
    table["p"] = norm.sf(table["z"].to_numpy())
    table["q"] = benjamini_hochberg(table["p"])
    return table


def _participant(group: Votes, i: int, name: str, models: Sequence[str]) -> list[dict[str, object]]:
    y = group.chose_2[i]
    others = np.delete(group.chose_2, i, axis=0)
    n = np.isfinite(others).sum(axis=0)
    k = np.nansum(others, axis=0)
    answered = np.isfinite(y) & (n >= _LEAST_OTHERS)
    y, prefers = y[answered], group.prefers[:, answered]
    x = logit((k[answered] + 0.5) / (n[answered] + 1))
    mu = expit(_slope(x, y) * x)
    rows = []
    for m, model in zip(prefers, models, strict=True):
        differs = m != 0
        n_trials = int(differs.sum())
        row: dict[str, object] = {"participant": name, "model": model, "n_trials": n_trials}
        if n_trials >= _LEAST_TRIALS:
            right = m[differs] > 0
            row["agreement"] = float((y[differs] == right).mean())
            row["expected"] = float(np.where(right, mu[differs], 1 - mu[differs]).mean())
            row["z"] = _score(x, y, m, mu)
        rows.append(row)
    return rows


def _slope(x: FloatArray, y: FloatArray) -> float:
    """Return the maximum-likelihood slope of a logistic regression through the origin.

    The gradient falls as the slope grows; its zero is looked for up to `_STEEPEST` on either side.
    """

    def gradient(slope: float) -> float:
        return float((x * (y - expit(slope * x))).sum())

    if gradient(_STEEPEST) >= 0:
        return _STEEPEST
    if gradient(-_STEEPEST) <= 0:
        return -_STEEPEST
    return float(brentq(gradient, -_STEEPEST, _STEEPEST))


def _score(x: FloatArray, y: FloatArray, m: FloatArray, mu: FloatArray) -> float:
    weight = mu * (1 - mu)
    of_slope = float((x**2 * weight).sum())
    variance = float((m**2 * weight).sum())
    if of_slope > 0:
        variance -= float((m * x * weight).sum()) ** 2 / of_slope
    if variance < 1e-9:
        return float("nan")  # the model prefers what the group does, trial by trial
    return float((m * (y - mu)).sum() / np.sqrt(variance))


def influence_table(
    votes: Sequence[Votes],
    models: Sequence[str],
    numbers: Sequence[int],
    repeats: int = 200,
    seed: int = 0,
) -> pd.DataFrame:
    """Return how far k participants who let a model answer would move the ranking of the models.

    Parameters
    ----------
    votes
        The groups, from `read_votes`.
    models
        Names of the M models.
    numbers
        Values of k, each at most the number of participants.
    repeats
        Random choices of the k participants.
    seed
        Of these choices.

    Returns
    -------
    pandas.DataFrame
        One row per model and k, the k following that model: ``model, k, n``, ``accuracy`` (mean
        over participants of the share of choices as the model prefers, ties counting half) and
        ``rank`` of that model among the M as observed, ``accuracy_with``, ``rank_with`` (means over
        the repeats), ``first`` (share of the repeats in which it comes out first).

    Raises
    ------
    InputError
        If k exceeds the number of participants.

    Notes
    -----
    A replaced participant answers their own trials as the model prefers, but for 2 % lapses.
    """
    observed, followers = [], []
    for group in votes:
        for y in group.chose_2:
            answered = np.isfinite(y)
            sign, prefers = 2 * y[answered] - 1, group.prefers[:, answered]
            observed.append((1 + (prefers * sign).mean(axis=1)) / 2)
            # Row: who is followed; column: whose accuracy that gives.
            agree = (1 - _LAPSE) * (prefers @ prefers.T) / max(1, answered.sum())
            followers.append((1 + agree) / 2)
    people, assisted = np.array(observed), np.array(followers)
    before, total = people.mean(axis=0), people.sum(axis=0)
    rng = np.random.default_rng(seed)
    rows = []
    for k in numbers:
        if not 0 <= k <= len(people):
            raise InputError(f"{k} participants cannot be replaced; there are {len(people)}")
        drawn = [rng.permutation(len(people))[:k] for _ in range(repeats)]
        for j, model in enumerate(models):
            sums = [total - people[d].sum(axis=0) + assisted[d, j].sum(axis=0) for d in drawn]
            after = np.array(sums) / len(people)
            ranks = 1 + (after > after[:, [j]]).sum(axis=1)
            rank = 1 + int((before > before[j]).sum())
            changed = after[:, j].mean(), ranks.mean(), (ranks == 1).mean()
            rows.append((model, k, len(people), before[j], rank, *changed))
    columns = ["model", "k", "n", "accuracy", "rank", "accuracy_with", "rank_with", "first"]
    return pd.DataFrame(rows, columns=columns)
