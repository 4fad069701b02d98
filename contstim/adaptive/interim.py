"""Interim analysis of a study: posterior, fit and conclusion from the choices so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pandas as pd
from scipy.special import ndtr

from contstim.adaptive.anytime_valid import asymptotic_confidence_sequence, log_e_value
from contstim.adaptive.conductor import AdaptivePlan
from contstim.adaptive.policies import Pool
from contstim.adaptive.posterior import ModelPosterior, softmax
from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.display import displayable
from contstim.errors import InputError, NoDataError
from contstim.evaluation.group_sequential import repeated_p_value
from contstim.evaluation.inference import benjamini_hochberg
from contstim.evaluation.inference.quasi_f import CrossedDesign
from contstim.evaluation.items import encode_items, normalise_trials
from contstim.evaluation.stopping import (
    Stopping,
    item_variance_share,
    pairwise_level,
    stopping_boundary,
)
from contstim.trial_kinds import EXPERIMENTAL, add_kinds

_ANCHOR = "anchor"  # condition of the trials that all participants see; no policy chooses them


@displayable
@dataclass(frozen=True, eq=False)
class Conclusion:
    """What can be concluded after a number of participants.

    Attributes
    ----------
    kind
        ``best``, ``equivalent``, ``inconclusive`` (the maximum number of participants is reached)
        or ``continue``.
    models
        The best model; the equivalent ones; otherwise those that may still be best.
    text
        One sentence.
    n_participants
        Number of participants.
    table
        Makes `pairs`.

    Examples
    --------
    >>> person = np.repeat(np.arange(40), 20)
    >>> right = np.random.default_rng(1).random((800, 2)) < [0.9, 0.4]
    >>> last = apply_stopping_rule(person, right.astype(float), ["a", "b"], Stopping())[-1]
    >>> last.kind, last.models, last.stops
    ('best', ('a',), True)
    """

    kind: str
    models: tuple[str, ...]
    text: str
    n_participants: int
    table: Callable[[], pd.DataFrame] = field(repr=False)

    @property
    def pairs(self) -> pd.DataFrame:
        """Two models per row: `model_1`, `model_2`, `difference`, `low`, `high`, `differs`.

        The interval is that of the confidence sequence or, at prespecified analyses, the repeated
        confidence interval (Jennison and Turnbull 1989); models differ significantly if it excludes
        0. At prespecified analyses the column `p` holds p-values that allow for all analyses: M
        models differ where it is below 2 alpha / M.
        """
        return self.table()

    @property
    def stops(self) -> bool:
        """Whether the study may stop."""
        return self.kind != "continue"


@displayable
@dataclass(frozen=True, eq=False)
class InterimResult:
    """What a study's choices say so far.

    Attributes
    ----------
    models
        One row per model: `model`, `posterior` (weight), `log_e_value` (log e-value against the
        hypothesis that this model with this link is right), `accuracy` (mean over the participants
        who have finished, NaN without any).
    conclusions
        After each participant who has finished; empty if nobody has.
    n_answers, n_used_answers
        Answers to chosen trials, and those that the posterior uses: the first to each pair, unless
        in the middle of the scale.
    n_participants
        Participants with any answers.
    """

    models: pd.DataFrame
    conclusions: list[Conclusion]
    n_answers: int
    n_used_answers: int
    n_participants: int

    @property
    def stops(self) -> bool:
        """Whether the study may stop by the rule of its plan."""
        return bool(self.conclusions) and self.conclusions[-1].stops

    @property
    def first_stop(self) -> Conclusion | None:
        """The first conclusion at which the study could have stopped, if any."""
        return next((one for one in self.conclusions if one.stops), None)

    @property
    def pairs(self) -> pd.DataFrame:
        """Current differences of every two models, see `Conclusion.pairs`.

        Where there are p-values, `q` are those adjusted for all pairs of models.
        """
        table = self.conclusions[-1].pairs if self.conclusions else pd.DataFrame()
        return table.assign(q=benjamini_hochberg(table["p"].to_numpy())) if "p" in table else table

    @property
    def summary(self) -> list[str]:
        """Posterior, fit and conclusion, a sentence each."""
        weights = self.models.sort_values("posterior", ascending=False, kind="stable")
        posterior = zip(weights["model"], weights["posterior"], strict=True)
        shown = ", ".join(f"{model} {weight:.3f}" for model, weight in posterior)
        against = zip(self.models["model"], self.models["log_e_value"], strict=True)
        fits = ", ".join(f"{model} {value:.1f}" for model, value in against)
        last = self.conclusions[-1].text if self.conclusions else "continue: nobody has finished"
        return [
            f"posterior: {shown} (by the first answers to {self.n_used_answers} pairs)",
            "the posterior assumes that one of the models is right; if two are tied, it comes to "
            "favour one of them by chance, and only the conclusion tells a tie from a difference",
            f"fit: log e-values against each model with this link: {fits}",
            f"conclusion: {last}",
        ]

    def __str__(self) -> str:
        lines = [f"{self.n_answers} answers of {self.n_participants} participants", *self.summary]
        for row in self.pairs.to_dict("records"):
            interval = f"({row['low']:+.3f} to {row['high']:+.3f})"
            if "q" in row:
                interval += f", p = {row['p']:.2g}, q = {row['q']:.2g}"
            difference = f"{row['model_1']} - {row['model_2']}: {row['difference']:+.3f}"
            lines.append(f"  {difference} {interval}{' significant' if row['differs'] else ''}")
        if self.first_stop is not None:
            n = self.first_stop.n_participants
            lines.append(f"could have stopped after {n} participant{'s' * (n != 1)}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class ChosenTrials:
    """Answers to chosen trials in the order of issue: T rows, and the pool of their pairs."""

    person: IntArray
    names: list[str]
    pair: IntArray
    item: IntArray
    sign: FloatArray  # -1 where the pool's sentence 2 was on the left
    rating: FloatArray  # below 0 for the sentence on the left
    pool: Pool
    answered_at: IntArray  # rank of the answer in time

    @property
    def preferences(self) -> FloatArray:
        """The models' preferences for the sentence on the right, shape (T, M)."""
        return self.sign[:, None] * self.pool.preferences[self.pair]

    @property
    def accuracy(self) -> FloatArray:
        """Whether each model prefers the chosen sentence; ties count one half, shape (T, M)."""
        return (np.sign(self.preferences) * np.sign(self.rating)[:, None] + 1) / 2

    def finished(self, n_trials: int) -> tuple[IntArray, BoolArray]:
        """Return the participant number of each answer, and whether the participant has finished.

        Participants are numbered in the order in which they finished: gave `n_trials` answers.
        """
        n_people = len(self.names)
        last = np.zeros(n_people, dtype=np.int64)
        np.maximum.at(last, self.person, self.answered_at)
        has_all = np.bincount(self.person, minlength=n_people) >= n_trials
        order = np.argsort(last, kind="stable")
        number = np.full(n_people, -1)
        number[order[has_all[order]]] = np.arange(int(has_all.sum()))
        return number[self.person], has_all[self.person]


def max_chosen_trials(choices: pd.DataFrame) -> int:
    """Return the largest number of chosen trials that a participant has answered, at least 1."""
    answers = choices[is_chosen_trial(choices)]
    return int(answers.groupby("participant").size().max()) if len(answers) else 1


def is_chosen_trial(choices: pd.DataFrame) -> BoolArray:
    """Return which rows are answers to chosen trials (in a fixed study: to experimental ones)."""
    for column in ("participant", "sentence_1", "sentence_2", "rating"):
        if column not in choices:
            raise InputError(f"the choices have no column {column!r}; give one row per trial")
    table = add_kinds(choices)
    answered = pd.to_numeric(table["rating"], errors="coerce").notna()
    chosen = answered & (table["kind"] == EXPERIMENTAL)
    if "condition" in table:
        chosen &= table["condition"] != _ANCHOR
    return chosen.to_numpy(dtype=np.bool_)


def alphabetical_pairs(choices: pd.DataFrame) -> tuple[pd.DataFrame, BoolArray]:
    """Return the sentences of each row in alphabetical order, and which rows were swapped."""
    given = choices[["sentence_1", "sentence_2"]].astype(str)
    swapped = np.asarray(given["sentence_1"] > given["sentence_2"])
    given[swapped] = given.loc[swapped, ["sentence_2", "sentence_1"]].to_numpy()
    return given, swapped


def interim_analysis(
    choices: pd.DataFrame, log_probs: pd.DataFrame, plan: AdaptivePlan, after_each: bool = True
) -> InterimResult:
    """Analyse a study while it runs.

    Parameters
    ----------
    choices
        One row per trial and participant: ``participant``, ``sentence_1``, ``sentence_2`` and
        ``rating``. Used if present: ``kind``, ``condition`` and ``expected`` (only experimental
        trials count, without anchors), ``item``, ``block`` (order of issue; otherwise that of the
        rows), ``side_1`` (side of sentence 1; otherwise left) and ``received_at`` (time of the
        answer; otherwise the order of the rows).
    log_probs
        Shape (S, M), as for `Pool.from_scores`.
    plan
        The plan of the study.
    after_each
        Whether to draw a conclusion after each participant, or only after the last.

    Raises
    ------
    InputError
        If there are no answers, or columns or scores are missing.

    Notes
    -----
    Conclusions use the participants who have answered all trials of the plan, in the order in which
    they finished. Whoever leaves early does not count and delays nobody.
    """
    rows = np.flatnonzero(is_chosen_trial(choices))
    if not len(rows):
        raise NoDataError("there are no answers to chosen trials yet; wait for some")
    if "block" in choices:
        block = pd.to_numeric(choices["block"], errors="coerce").to_numpy(dtype=np.float64)[rows]
        if np.isnan(block).any():
            raise InputError("a chosen trial has no block number; fill in the column block")
        rows = rows[np.argsort(block, kind="stable")]
    table = normalise_trials(choices.iloc[rows])
    answered_at = np.asarray(rows, dtype=np.int64)
    if "received_at" in table and table["received_at"].notna().all():
        times = pd.to_datetime(table["received_at"], utc=True, format="ISO8601")
        answered_at = np.asarray(times.rank(method="dense"), dtype=np.int64)
    ordered, swapped = alphabetical_pairs(table)
    pair, keys = pd.factorize(pd.MultiIndex.from_frame(ordered))
    pairs = pd.DataFrame(list(keys), columns=["sentence_1", "sentence_2"])
    sign = np.where(swapped, -1.0, 1.0)
    rating = table["rating"].to_numpy(dtype=np.float64)
    if "side_1" in table:
        on_right = (table["side_1"] == "right").to_numpy()
        sign, rating = np.where(on_right, -sign, sign), np.where(on_right, -rating, rating)
    person, names = pd.factorize(table["participant"].astype(str))
    trials = ChosenTrials(
        np.asarray(person, dtype=np.int64),
        [str(name) for name in names],
        np.asarray(pair, dtype=np.int64),
        encode_items(table),
        sign,
        rating,
        Pool.from_scores(pairs, log_probs, plan.link),
        answered_at,
    )
    return analyse_trials(trials, plan, after_each)


def analyse_trials(
    trials: ChosenTrials, plan: AdaptivePlan, after_each: bool = True
) -> InterimResult:
    """Return the interim result of chosen trials."""
    models = list(trials.pool.models)
    g, link = trials.preferences, plan.link
    first = np.sort(np.unique(trials.pair, return_index=True)[1])
    # An answer in the middle of the scale tells nothing about the side.
    counted = first[trials.rating[first] != 0].tolist()
    # One more alternative: participants follow what the models have in common.
    n_trials = int(np.bincount(trials.person).max())
    posterior = ModelPosterior(replace(link, prior=()), len(models) + 1, n_trials)
    for t in counted:
        answer = link.encode_rating(float(trials.rating[t]))
        posterior.add_answer(int(trials.person[t]), np.append(g[t], g[t].mean()), answer)
    evidence = posterior.log_evidence
    weights = softmax(np.log(link.prior_weights(len(models)) + 1e-300) + evidence[:-1])
    even = np.full(len(evidence), -np.log(len(evidence)))
    e_values = [log_e_value(evidence, even, model) for model in posterior.log_likelihood[:-1]]
    person, has_all = trials.finished(plan.trials)
    accuracy = np.full(len(models), np.nan)
    if has_all.any():
        accuracy = participant_means(person[has_all], trials.accuracy[has_all]).mean(axis=0)
    table = pd.DataFrame(
        {"model": models, "posterior": weights, "log_e_value": e_values, "accuracy": accuracy}
    )
    reached = draw_conclusions(trials, plan, after_each)
    return InterimResult(table, reached, len(trials.rating), len(counted), len(trials.names))


def draw_conclusions(
    trials: ChosenTrials, plan: AdaptivePlan, after_each: bool = True
) -> list[Conclusion]:
    """Return the conclusions of `analyse_trials` alone, none if nobody has finished."""
    person, has_all = trials.finished(plan.trials)
    if not has_all.any():
        return []
    scores, models = trials.accuracy[has_all], list(trials.pool.models)
    return apply_stopping_rule(
        person[has_all], scores, models, plan.stopping, after_each, trials.item[has_all]
    )


def participant_means(person: IntArray, scores: FloatArray) -> FloatArray:
    """Return the participants' mean scores, shape (P, M), from those of trials.

    Parameters
    ----------
    person
        Number of each trial's participant, shape (T,).
    scores
        Scores of the models in each trial, shape (T, M).
    """
    counts = np.bincount(person)
    if not counts.all():
        raise InputError(f"participant {int(np.argmin(counts))} has no answer; leave them out")
    sums = [np.bincount(person, column) for column in scores.T]
    return np.stack(sums, axis=1) / counts[:, None]


def apply_stopping_rule(
    person: IntArray,
    scores: FloatArray,
    models: list[str],
    stopping: Stopping,
    after_each: bool = True,
    item: IntArray | None = None,
) -> list[Conclusion]:
    """Return the conclusion after each participant.

    Parameters
    ----------
    person
        Number of each trial's participant, in the order in which they count, shape (T,).
    scores
        Scores of the models in each trial, from 0 to 1, shape (T, M).
    models
        Names of the M models.
    stopping
        The stopping rule.
    after_each
        Whether to return the conclusion after each participant, or only after the last.
    item
        Number of each trial's item, shape (T,), for prespecified analyses; by default every trial
        is an item of its own.

    Raises
    ------
    InputError
        If there are fewer than two models, or no answers.

    Notes
    -----
    With M models each side of an interval may fail with probability alpha / M. A model is wrongly
    called best only if one of at most M differences from the truly best model is missed on one
    side. Models are equivalent if the intervals of all that may be best are within the margin.

    Examples
    --------
    >>> person = np.repeat(np.arange(30), 40)
    >>> right = np.random.default_rng(1).random((1200, 2)) < [0.57, 0.55]
    >>> reached = apply_stopping_rule(person, right.astype(float), ["A", "B"], Stopping())
    >>> reached[-1].kind, reached[-1].models
    ('continue', ('A', 'B'))
    """
    if len(models) < 2:
        raise InputError(f"{len(models)} model cannot be compared with others; give two or more")
    if not len(person):
        raise InputError("there are no answers; wait for some")
    means = participant_means(person, scores)
    first, second = np.triu_indices(len(models), 1)
    differences = (means[:, first] - means[:, second]).T
    if stopping.analyses:
        item = np.arange(len(person)) if item is None else item
        of_trials = scores[:, first] - scores[:, second]
        reached = _at_analyses(person, item, differences, of_trials, stopping, models)
        return reached if after_each else reached[-1:]
    level = pairwise_level(stopping, len(models))
    low, high = asymptotic_confidence_sequence(differences, level, start=stopping.start)
    reached = []
    for n in range(1, len(means) + 1) if after_each else [len(means)]:
        ends = low[:, n - 1], high[:, n - 1]
        table = partial(_pairs_table, models, differences[:, :n].mean(axis=1), *ends)
        reached.append(_conclude(models, *ends, stopping, n, table))
    return reached


def _pairs_table(
    models: list[str],
    difference: FloatArray,
    low: FloatArray,
    high: FloatArray,
    p_values: Callable[[], list[float]] | None = None,
) -> pd.DataFrame:
    """Return `Conclusion.pairs`."""
    first, second = np.triu_indices(len(models), 1)
    columns = {
        "model_1": [models[i] for i in first],
        "model_2": [models[j] for j in second],
        "difference": difference,
        "low": low,
        "high": high,
        "differs": (low > 0) | (high < 0),
    }
    return pd.DataFrame(columns if p_values is None else columns | {"p": p_values()})


def _conclude(
    models: list[str],
    low: FloatArray,
    high: FloatArray,
    stopping: Stopping,
    n: int,
    table: Callable[[], pd.DataFrame],
) -> Conclusion:
    """Return the conclusion from the intervals of every two models."""
    first, second = np.triu_indices(len(models), 1)
    worse = np.union1d(second[low > 0], first[high < 0])
    left = np.setdiff1d(np.arange(len(models)), worse)
    names = tuple(models[k] for k in left)
    after = f"after {n} participant{'s' * (n != 1)}"
    of_left = np.isin(first, left) & np.isin(second, left)
    differs = (low > 0) | (high < 0)
    if len(left) == 1 and differs[(first == left[0]) | (second == left[0])].all():
        text = f"{names[0]} is best, significantly better than all others, {after}"
        return Conclusion("best", names, text, n, table)
    if len(left) > 1 and (np.maximum(np.abs(low), np.abs(high))[of_left] < stopping.margin).all():
        listed = f"{', '.join(names[:-1])} and {names[-1]}"
        text = f"{listed} are equivalent within {stopping.margin:g}, {after}"
        return Conclusion("equivalent", names, text, n, table)
    if n >= stopping.participants:
        return Conclusion("inconclusive", names, f"inconclusive {after}, the maximum", n, table)
    text = f"continue: {', '.join(names)} may be best {after}"
    return Conclusion("continue", names, text, n, table)


def _at_analyses(
    person: IntArray,
    item: IntArray,
    differences: FloatArray,
    of_trials: FloatArray,
    stopping: Stopping,
    models: list[str],
) -> list[Conclusion]:
    """Return the conclusion after each participant: that of the last prespecified analysis.

    A study that has stopped is not analysed again.
    """
    n_pairs, n_people = differences.shape
    shares: list[tuple[float, ...]] = [()] * n_pairs
    text = f"continue: the first analysis is after {stopping.analyses[0]} participants"
    before = differences[:, : stopping.analyses[0]].mean(axis=1)
    ends = np.full(n_pairs, -1.0), np.full(n_pairs, 1.0)
    unseen = partial(_pairs_table, models, before, *ends, lambda: [np.nan] * n_pairs)
    reached = [Conclusion("continue", tuple(models), text, 0, unseen)]
    for number, n in enumerate(stopping.analyses):
        if n > n_people or reached[-1].stops:
            break
        reached += [replace(reached[-1], n_participants=k) for k in range(len(reached), n)]
        seen = person < n
        design = CrossedDesign(person[seen], item[seen])
        means = [design.estimate(values) for values in of_trials[seen].T]
        shares = [(*one, item_variance_share(m)) for one, m in zip(shares, means, strict=True)]
        low, high = np.full(n_pairs, -1.0), np.full(n_pairs, 1.0)
        for row, mean in enumerate(means):
            boundary = stopping_boundary(stopping, len(models), shares[row])
            if np.isfinite(boundary):
                interval = np.array(mean.interval(1 - 2 * float(ndtr(-boundary))))
                interval = np.where(np.isnan(interval), (-1, 1), interval)
                low[row], high[row] = np.clip(interval, -1, 1)
        p_values = partial(_repeated_p_values, [mean.p_value() for mean in means], stopping, shares)
        difference = differences[:, :n].mean(axis=1)
        table = partial(_pairs_table, models, difference, low, high, p_values)
        conclusion = _conclude(models, low, high, stopping, n, table)
        if conclusion.kind == "continue":
            text = f"continue: the next analysis is after {stopping.analyses[number + 1]}"
            conclusion = replace(conclusion, text=f"{text} participants")
        reached.append(conclusion)
    reached += [replace(reached[-1], n_participants=k) for k in range(len(reached), n_people + 1)]
    return reached[1:]


def _repeated_p_values(
    p_values: list[float], stopping: Stopping, shares: list[tuple[float, ...]]
) -> list[float]:
    """Return p-values that allow for all analyses, NaN where there is none."""
    return [
        repeated_p_value(p, stopping.analyses, stopping.spending, of_pair) if p >= 0 else np.nan
        for p, of_pair in zip(p_values, shares, strict=True)
    ]
