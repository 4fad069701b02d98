"""Conclusions of a sequential study: apply a stopping rule after each participant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pandas as pd
from scipy.special import ndtr

from contstim.adaptive.anytime_valid import asymptotic_confidence_sequence
from contstim.adaptive.group_sequential import repeated_p_value
from contstim.adaptive.stopping import (
    Stopping,
    item_variance_share,
    pairwise_alpha,
    stopping_boundary,
)
from contstim.arrays import FloatArray, IntArray
from contstim.display import displayable
from contstim.errors import InputError, format_count
from contstim.evaluation.inference.quasi_f import CrossedDesign


@displayable
@dataclass(frozen=True, eq=False)
class Conclusion:
    """Conclusion about which model is best, drawn after some participants of a sequential study.

    Attributes
    ----------
    kind
        ``best`` (one model is significantly better than all others), ``equivalent`` (all models
        that may be best are equally good), ``inconclusive`` (the maximum number of participants is
        reached without either of these) or ``continue`` (more participants are needed).
    models
        Names of the best model, the equivalent models, or else the models that may be best.
    text
        The conclusion as a sentence for reports.
    n_participants
        Number of participants on which the conclusion is based.
    make_pairs
        Function without arguments that computes the table `pairs`.

    Examples
    --------
    >>> participant = np.repeat(np.arange(40), 20)
    >>> is_correct = np.random.default_rng(1).random((800, 2)) < [0.9, 0.4]
    >>> last = apply_stopping_rule(participant, is_correct, ["a", "b"], Stopping())[-1]
    >>> last.kind, last.models, last.stops
    ('best', ('a',), True)
    """

    kind: str
    models: tuple[str, ...]
    text: str
    n_participants: int
    make_pairs: Callable[[], pd.DataFrame] = field(repr=False)

    @property
    def pairs(self) -> pd.DataFrame:
        """Differences in accuracy, one row per pair of models.

        The columns are `model_1`, `model_2`, `difference`, the confidence interval from `low` to
        `high`, and `differs`: whether the interval excludes 0, so that the models differ
        significantly. The interval is the confidence sequence or, at prespecified analyses, the
        repeated confidence interval (Jennison and Turnbull 1989). Prespecified analyses have a
        further column `p`, the p-value adjusted for the earlier analyses; two of M models differ
        significantly if it is below 2 alpha / M.
        """
        return self.make_pairs()

    @property
    def stops(self) -> bool:
        """Whether the stopping rule is satisfied."""
        return self.kind != "continue"


def participant_means(participant: IntArray, scores: FloatArray) -> FloatArray:
    """Average the scores of each participant's trials.

    Parameters
    ----------
    participant : (T,) array of int
        Index of each trial's participant.
    scores : (T, M) array
        Scores of the models in each trial.

    Returns
    -------
    (N, M) array
        Mean scores of the participants.

    Raises
    ------
    InputError
        If a participant has no trials.
    """
    counts = np.bincount(participant)
    if not counts.all():
        raise InputError(f"participant {int(np.argmin(counts))} has no answer; leave them out")
    sums = [np.bincount(participant, column) for column in scores.T]
    return np.stack(sums, axis=1) / counts[:, None]


def apply_stopping_rule(
    participant: IntArray,
    scores: FloatArray,
    models: list[str],
    stopping: Stopping,
    last_only: bool = False,
    item: IntArray | None = None,
) -> list[Conclusion]:
    """Draw a conclusion about which model is best after each participant of a sequential study.

    Parameters
    ----------
    participant : (T,) array of int
        Index of each trial's participant, in the order in which the participants finished.
    scores : (T, M) array
        Scores of the models in each trial, from 0 to 1.
    models
        Names of the M models.
    stopping
        Stopping rule, with the error rate, the margin and the maximum number of participants.
    last_only
        If True, return only the last conclusion, otherwise the conclusion after each participant.
    item : (T,) array of int, optional
        Index of each trial's item, used at prespecified analyses; by default every trial is a
        separate item.

    Returns
    -------
    list of Conclusion
        One conclusion per participant, or the last one.

    Raises
    ------
    InputError
        If there are fewer than two models, or no answers.

    Notes
    -----
    Each pair of the M models gets a confidence interval for the difference in accuracy: a
    confidence sequence or, if the stopping rule names interim analyses, a repeated confidence
    interval. The probability that the true difference lies below the interval, and the probability
    that it lies above, are at most alpha / M each. A wrong model is called the best only if it is
    significantly better than the right one, so the probability of this error is at most alpha
    (Bonferroni). A model may be best as long as no other model is significantly better. The models
    that may be best are equivalent if the intervals of their differences lie within the margin.

    Examples
    --------
    >>> participant = np.repeat(np.arange(30), 40)
    >>> is_correct = np.random.default_rng(1).random((1200, 2)) < [0.57, 0.55]
    >>> last = apply_stopping_rule(participant, is_correct, ["A", "B"], Stopping())[-1]
    >>> last.kind, last.models
    ('continue', ('A', 'B'))
    """
    if len(models) < 2:
        raise InputError(f"cannot compare {format_count(len(models), 'model')}; give at least two")
    if not len(participant):
        raise InputError("there are no answers; wait for some")
    scores = np.asarray(scores, dtype=np.float64)  # (trials, models)
    # Differences between the models of each pair, shape (pairs of models, participants).
    means = participant_means(participant, scores)
    first, second = np.triu_indices(len(models), 1)
    differences = (means[:, first] - means[:, second]).T
    if stopping.analyses:
        # Group-sequential design: conclusions may change only at the prespecified analyses.
        item = np.arange(len(participant)) if item is None else item
        trial_differences = scores[:, first] - scores[:, second]
        conclusions = _apply_prespecified_analyses(
            participant, item, differences, trial_differences, stopping, models
        )
        return conclusions[-1:] if last_only else conclusions

    # Without prespecified analyses, use confidence sequences, which are valid at any time.
    alpha = pairwise_alpha(stopping, len(models))
    low, high = asymptotic_confidence_sequence(differences, alpha, start=stopping.start)
    n_participants = len(means)
    first_n = n_participants if last_only else 1
    conclusions = []
    for n in range(first_n, n_participants + 1):
        # Conclude from the first n participants only.
        mean_differences = differences[:, :n].mean(axis=1)
        limits = low[:, n - 1], high[:, n - 1]
        conclusions.append(_draw_conclusion(models, mean_differences, *limits, stopping, n))
    return conclusions


def _apply_prespecified_analyses(
    participant: IntArray,
    item: IntArray,
    differences: FloatArray,
    trial_differences: FloatArray,
    stopping: Stopping,
    models: list[str],
) -> list[Conclusion]:
    """Draw conclusions at the prespecified analyses of a group-sequential design.

    An analysis is made when a planned number of participants has finished. The conclusion is
    repeated for each further participant until the next analysis. A study that has stopped is not
    analysed again.

    Parameters
    ----------
    participant, item : (T,) arrays of int
        Index of the participant and of the item in each of T trials.
    differences : (D, N) array
        Difference in accuracy between the two models of each of D pairs, for N participants.
    trial_differences : (T, D) array
        Difference in accuracy between the two models of each pair, for each trial.
    stopping
        Stopping rule with prespecified analyses.
    models
        Names of the models.

    Returns
    -------
    list of Conclusion
        One conclusion per participant.
    """
    n_pairs, n_participants = differences.shape
    first = stopping.analyses[0]
    means = differences[:, :first].mean(axis=1)
    low, high = np.full(n_pairs, -1.0), np.full(n_pairs, 1.0)
    conclusion = replace(
        _draw_conclusion(models, means, low, high, stopping, 0, lambda: [np.nan] * n_pairs),
        kind="continue",
        models=tuple(models),
        text=f"continue: the first analysis is after {first} participants",
    )
    conclusions: list[Conclusion] = []
    # Share of the variance that is due to items at each analysis so far, by pair of models.
    item_shares: list[tuple[float, ...]] = [()] * n_pairs
    for number, n in enumerate(stopping.analyses):
        if n > n_participants or conclusion.stops:
            break
        # Repeat the previous conclusion for the participants before this analysis.
        numbers = range(len(conclusions) + 1, n)
        conclusions += [replace(conclusion, n_participants=k) for k in numbers]

        # Repeated confidence intervals: estimate ± boundary times standard error. Participants and
        # items are crossed random effects. Without a boundary, the limits are -1 and 1.
        is_included = participant < n
        design = CrossedDesign(participant[is_included], item[is_included])
        estimates = [design.estimate(values) for values in trial_differences[is_included].T]
        low, high = np.full(n_pairs, -1.0), np.full(n_pairs, 1.0)
        for pair, estimate in enumerate(estimates):
            item_shares[pair] = (*item_shares[pair], item_variance_share(estimate))
            boundary = stopping_boundary(stopping, len(models), item_shares[pair])
            if np.isfinite(boundary):
                coverage = 1 - 2 * float(ndtr(-boundary))
                limits = np.array(estimate.interval(coverage))
                limits = np.where(np.isnan(limits), (-1, 1), limits)
                low[pair], high[pair] = np.clip(limits, -1, 1)

        p_values = [estimate.p_value() for estimate in estimates]
        make_p_values = partial(_repeated_p_values, p_values, stopping, list(item_shares))
        means = differences[:, :n].mean(axis=1)
        conclusion = _draw_conclusion(models, means, low, high, stopping, n, make_p_values)
        if not conclusion.stops:
            text = f"continue: the next analysis is after {stopping.analyses[number + 1]}"
            conclusion = replace(conclusion, text=f"{text} participants")
        conclusions.append(conclusion)
    remaining = range(len(conclusions) + 1, n_participants + 1)
    return conclusions + [replace(conclusion, n_participants=k) for k in remaining]


def _repeated_p_values(
    p_values: list[float], stopping: Stopping, item_shares: list[tuple[float, ...]]
) -> list[float]:
    """Adjust the p-value of each pair of models for repeated analyses; NaN stays NaN.

    Parameters
    ----------
    p_values
        Unadjusted p-value of each pair at the latest analysis.
    stopping
        Stopping rule with prespecified analyses.
    item_shares
        Share of the variance that is due to items, for each pair at each analysis so far.
    """
    analyses, spending = stopping.analyses, stopping.spending
    return [
        p if np.isnan(p) else repeated_p_value(p, analyses, spending, shares)
        for p, shares in zip(p_values, item_shares, strict=True)
    ]


def _tabulate_differences(
    models: list[str],
    differences: FloatArray,
    low: FloatArray,
    high: FloatArray,
    make_p_values: Callable[[], list[float]] | None = None,
) -> pd.DataFrame:
    """Tabulate the differences in accuracy between models, with one row per pair of models.

    Parameters
    ----------
    models
        Names of the M models.
    differences, low, high : (M (M - 1) / 2,) arrays
        Difference in accuracy for each pair of models, and the limits of its confidence interval.
    make_p_values
        Function that computes the p-value of each pair of models; None to omit p-values.

    Returns
    -------
    DataFrame
        Table with the columns of `Conclusion.pairs`.
    """
    first, second = np.triu_indices(len(models), 1)  # pairs (0, 1), (0, 2), ..., (1, 2), ...
    table = pd.DataFrame(
        {
            "model_1": [models[index] for index in first],
            "model_2": [models[index] for index in second],
            "difference": differences,
            "low": low,
            "high": high,
            "differs": (low > 0) | (high < 0),  # the confidence interval excludes 0
        }
    )
    return table if make_p_values is None else table.assign(p=make_p_values())


def _draw_conclusion(
    models: list[str],
    differences: FloatArray,
    low: FloatArray,
    high: FloatArray,
    stopping: Stopping,
    n_participants: int,
    make_p_values: Callable[[], list[float]] | None = None,
) -> Conclusion:
    """Decide whether a study may stop, from the differences in accuracy between models.

    The conclusion is ``best`` if one model is significantly better than all others, ``equivalent``
    if all models that may be best differ by less than the margin, ``inconclusive`` at the maximum
    number of participants, and otherwise ``continue``.

    Parameters
    ----------
    models
        Names of the models.
    differences, low, high
        Difference in accuracy and limits of its confidence interval for each pair of models.
    stopping
        Stopping rule with the margin and the maximum number of participants.
    n_participants
        Number of participants so far.
    make_p_values
        Function that computes the p-value of each pair of models, if there are p-values.
    """
    first, second = np.triu_indices(len(models), 1)
    # `differences`, `low` and `high` have one value per pair of models: first minus second model.
    # Candidates are the models that may be best: no other model is significantly better.
    is_candidate = np.ones(len(models), dtype=np.bool_)
    is_candidate[second[low > 0]] = False
    is_candidate[first[high < 0]] = False
    candidates = tuple(models[index] for index in np.flatnonzero(is_candidate))

    differs = (low > 0) | (high < 0)
    involves_candidate = is_candidate[first] | is_candidate[second]
    # Two models are equivalent if their whole confidence interval lies within the margin.
    is_equivalent = np.maximum(np.abs(low), np.abs(high)) < stopping.margin
    is_between_candidates = is_candidate[first] & is_candidate[second]
    after = f"after {format_count(n_participants, 'participant')}"
    if len(candidates) == 1 and differs[involves_candidate].all():
        kind = "best"
        text = f"{candidates[0]} is best, significantly better than all others, {after}"
    elif len(candidates) > 1 and is_equivalent[is_between_candidates].all():
        kind = "equivalent"
        listed = f"{', '.join(candidates[:-1])} and {candidates[-1]}"
        text = f"{listed} are equivalent within {stopping.margin:g}, {after}"
    elif n_participants >= stopping.participants:
        kind, text = "inconclusive", f"inconclusive {after}, the maximum"
    else:
        kind, text = "continue", f"continue: {', '.join(candidates)} may be best {after}"
    # The table of pairs is computed only on request, because its p-values take time.
    make_pairs = partial(_tabulate_differences, models, differences, low, high, make_p_values)
    return Conclusion(kind, candidates, text, n_participants, make_pairs)
