"""Differences between two conditions: quasi-F tests within and between participants or items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.evaluation.inference.estimate import MeanEstimate
from contstim.evaluation.inference.quasi_f import (
    CellCodes,
    CellMean,
    CrossedDesign,
    Term,
    effective_sizes,
    estimate_from_squares,
    has_too_few_units,
    quasi_f_terms,
    satterthwaite,
    sums_of_squares,
)

# Minimum share of observed participant-item blocks in a Latin square with missing choices.
_MIN_COMPLETENESS = 0.8
# Largest squared difference in weight between conditions, relative to the squared weights.
_MAX_IMBALANCE = 0.02
# Number of lists of a Latin square with two conditions.
_N_LISTS = 2
# Passes over the factors, after which fitted effects no longer change.
_N_PASSES = 50
# Largest residual, relative to the largest observation, that is only a rounding error.
_ROUNDING = 1e-10


@dataclass(frozen=True, eq=False)
class _Condition:
    """Mean, or difference of two means, in one of the two compared conditions.

    Attributes
    ----------
    value
        Point estimate of the mean or difference.
    weight
        Weight of each of the C cells (choices) of the study in the estimate, 0 for cells of the
        other condition, shape (C,).
    deviations
        Deviation of each cell from its mean, times its weight, shape (C,).
    designs
        Design (participants and items) of each mean.
    """

    value: float
    weight: FloatArray
    deviations: FloatArray
    designs: list[CrossedDesign]

    @classmethod
    def from_means(cls, means: Sequence[CellMean], n_cells: int) -> _Condition:
        """Combine one mean, or two means of which the second is subtracted."""
        value, weight, deviations = 0.0, np.zeros(n_cells), np.zeros(n_cells)
        for sign, (rows, design, cells) in zip((1, -1), means, strict=False):
            value += sign * float(design.average(cells))
            weight[rows] += design.weight / len(means)
            deviations[rows] += sign * design.deviations(cells)
        return cls(value, weight, deviations, [mean.design for mean in means])


def estimate_contrast(
    first: Sequence[CellMean],
    second: Sequence[CellMean],
    whole: CrossedDesign,
    item_effects: str = "random",
) -> MeanEstimate:
    """Estimate the difference between two conditions, with its standard error.

    The compared quantity is the mean value of one model, or the difference between the means of two
    models. The standard error depends on the design:

    1. Every block (participant and item) is in both conditions: the quasi-F standard error of the
       differences within blocks, see `CrossedDesign`.
    2. Every block is in one condition, and participants and items have equal weights in both (a
       Latin square): the quasi-F standard error of residuals within lists, see
       `_estimate_latin_square`.
    3. Otherwise, the sum of the variances of both conditions minus twice their covariance. With K
       shared items the covariance is K / (K - 1) times the sum of products of the items' deviations
       in the two conditions, and likewise for shared participants. In complete tables of different
       participants and the same items this is the quasi-F of participants nested in conditions
       (Winer, Brown and Michels 1991, Statistical principles in experimental design), a sum over
       the two conditions,

           variance = sum (MS_participants + MS_items:conditions - MS_residual) / (N K).

       It is conservative for participants who judged different items in the two conditions.

    With fixed items it is Student's t test of differences within participants, or Welch's t test
    between participants.

    Parameters
    ----------
    first, second
        The mean, or the two means of a difference, in each condition, with cells of shape (c,).
    whole
        Design of all C cells.
    item_effects
        One of `ITEM_EFFECTS`.

    Returns
    -------
    MeanEstimate
        Difference, first minus second condition. The standard error is NaN if a condition has too
        few participants or items.
    """
    conditions = [_Condition.from_means(means, len(whole.item)) for means in (first, second)]
    a, b = conditions
    value = a.value - b.value
    if any(has_too_few_units(condition.designs, item_effects) for condition in conditions):
        return MeanEstimate(value, np.nan, np.nan)
    codes = whole.codes
    squares = sums_of_squares((a.deviations - b.deviations)[None], codes)[0]
    _, _, block_squares = squares.tolist()
    if block_squares == 0.0:
        return MeanEstimate(value, 0.0, np.inf)

    is_random = item_effects == "random"
    blocks_a, blocks_b = (np.unique(codes.block[side.weight > 0]) for side in conditions)
    if is_random and np.array_equal(blocks_a, blocks_b):
        return estimate_from_squares(value, squares, [*a.designs, *b.designs], item_effects)
    if is_random and _is_latin_square(a.weight, b.weight, codes):
        return _estimate_latin_square(value, a, b, codes)
    # Sum the variances of both conditions, minus twice the covariance due to shared units.
    terms_a, terms_b = (
        quasi_f_terms(sums_of_squares(side.deviations[None], codes)[0], side.designs, item_effects)
        for side in conditions
    )
    terms = _difference_terms(terms_a.participants, terms_b.participants, a, b, codes.participant)
    if is_random:
        terms += _difference_terms(terms_a.items, terms_b.items, a, b, codes.item)
        terms += [terms_a.residual, terms_b.residual]
    variance, df = satterthwaite(terms, block_squares if is_random else 0.0)
    return MeanEstimate(value, float(np.sqrt(variance)), df)


def _difference_terms(
    term_a: Term, term_b: Term, a: _Condition, b: _Condition, levels: IntArray
) -> list[Term]:
    """Return the variance of the difference a - b that is due to one factor.

    If both conditions share levels of the factor (participants or items), the result is one term,
    var(a) + var(b) - 2 cov(a, b). Otherwise, it is the terms of both conditions.

    Parameters
    ----------
    term_a, term_b
        Variance of each condition that is due to the factor.
    a, b
        The conditions.
    levels
        Code of the level of the factor, for example of the participant, of each cell, shape (C,).
    """
    in_a, in_b = (np.bincount(levels, side.weight) > 0 for side in (a, b))
    if not (in_a & in_b).any():
        return [term_a, term_b]
    sums_a, sums_b = (np.bincount(levels, side.deviations) for side in (a, b))
    df = min(term_a.df, term_b.df)
    covariance = (df + 1) / df * float(sums_a @ sums_b)
    return [Term(term_a.variance + term_b.variance - 2 * covariance, df)]


def _is_latin_square(weight_a: FloatArray, weight_b: FloatArray, codes: CellCodes) -> bool:
    """Return whether a study with two conditions is (nearly) a Latin square.

    In a Latin square, each participant judges all items, one half in each condition, and each item
    is judged by half of the participants in each condition. Some choices may be missing: at least
    80 % of the combinations of participant and item must be present, and participants and items
    must have nearly the same total weight in both conditions.

    Parameters
    ----------
    weight_a, weight_b
        Weight of each cell of the study in each condition, shape (C,).
    codes
        Participant, item and block of each cell.
    """
    for levels in (codes.participant, codes.item):
        difference = np.bincount(levels, weight_a - weight_b)
        total = np.bincount(levels, weight_a + weight_b)
        if difference @ difference >= _MAX_IMBALANCE * (total @ total):
            return False
    is_used = weight_a + weight_b > 0
    n_participants, n_items, n_blocks = (len(np.unique(levels[is_used])) for levels in codes)
    return n_blocks >= _MIN_COMPLETENESS * n_participants * n_items


def _estimate_latin_square(
    value: float, a: _Condition, b: _Condition, codes: CellCodes
) -> MeanEstimate:
    """Return the difference between two conditions of a Latin square.

    Each participant judges each item in one of the two conditions only.

    1. Remove the effects of participants, items and conditions, see `_remove_effects`.
    2. The residuals, with sign + in the first and - in the second condition, form a
       participant x item table. Let Q_P, Q_I and Q_B be its sums of squares, see `CrossedDesign`.
       With N participants and K items, the variance is V_P + V_I - V_E, where

           V_P = Q_P N / (N - 2),   V_I = Q_I K / (K - 2),
           V_E = (Q_B - Q_P / K - Q_I / N) N K / ((N - 2) (K - 2)),

       with N - 2, K - 2 and (N - 2) (K - 2) degrees of freedom: participants and items vary within
       two lists (Pollatsek and Well 1995, doi 10.1037/0278-7393.21.3.785).
    3. If choices are missing, participants and items have slightly unequal weights in the two
       conditions. The variance of their effects times the sum of squared differences in weight is
       added.
    """
    weight = a.weight + b.weight
    rows = np.flatnonzero(weight)
    weight, signed_weight = weight[rows], (a.weight - b.weight)[rows]
    participant, item = (
        np.unique(levels[rows], return_inverse=True)[1]
        for levels in (codes.participant, codes.item)
    )
    cells = (a.deviations + b.deviations)[rows] / weight
    condition = (signed_weight < 0).astype(np.int64)
    residuals, effects = _remove_effects(cells, weight, (participant, item, condition))
    design = CrossedDesign(participant, item)
    squares = sums_of_squares((signed_weight * residuals)[None], design.codes)[0]
    q_participants, q_items, q_blocks = squares.tolist()

    n_participants, n_items = effective_sizes([design])
    df_participants, df_items = n_participants - _N_LISTS, n_items - _N_LISTS
    if min(df_participants, df_items) < 1 - 1e-9:
        return MeanEstimate(value, np.nan, np.nan)
    participants = q_participants * n_participants / df_participants
    items = q_items * n_items / df_items
    df_residual = df_participants * df_items
    residual = q_blocks - q_participants / n_items - q_items / n_participants
    residual *= n_participants * n_items / df_residual
    terms = [Term(participants, df_participants), Term(items, df_items)]
    terms.append(Term(-residual, df_residual))
    # Add the variance that is due to unequal weights of participants and items in the conditions.
    for effect, levels in zip(effects, (participant, item), strict=False):
        imbalance = np.bincount(levels, signed_weight)
        terms.append(Term(float(np.var(effect, ddof=1) * (imbalance @ imbalance)), len(effect) - 1))
    variance, df = satterthwaite(terms)
    return MeanEstimate(value, float(np.sqrt(variance)), df)


def _remove_effects(
    cells: FloatArray, weight: FloatArray, factors: Sequence[IntArray]
) -> tuple[FloatArray, list[FloatArray]]:
    """Fit an additive model of several factors by weighted least squares.

    The model is fitted by backfitting: the weighted means of the levels of each factor are
    subtracted in turn, until they are 0 (Buja, Hastie and Tibshirani 1989, doi
    10.1214/aos/1176347115).

    Parameters
    ----------
    cells
        Observations, shape (R,).
    weight
        Weight of each observation, shape (R,).
    factors
        For each factor, the code of the level of each observation, shape (R,).

    Returns
    -------
    residuals : array
        Observations minus the fitted values, shape (R,).
    effects : list of array
        Fitted effect of each level, one array per factor.
    """
    residuals = cells.copy()
    level_weights = [np.bincount(levels, weight) for levels in factors]
    effects = [np.zeros(len(weights)) for weights in level_weights]
    for _ in range(_N_PASSES):
        for effect, levels, weights in zip(effects, factors, level_weights, strict=True):
            means = np.bincount(levels, weight * residuals) / weights
            effect += means
            residuals -= means[levels]
    residuals[np.abs(residuals) < _ROUNDING * np.abs(cells).max()] = 0.0
    return residuals, effects
