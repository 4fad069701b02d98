"""Differences between two conditions: quasi-F tests within and between participants or items."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array, hstack
from scipy.sparse.linalg import lsqr

from contstim.arrays import IntArray
from contstim.evaluation.inference.estimate import MeanEstimate
from contstim.evaluation.inference.quasi_f import (
    Contrast,
    CrossedDesign,
    SampleMean,
    Term,
    satterthwaite,
    sums_of_squares,
)

# Minimum share of observed participant-item blocks in a Latin square with missing choices.
_MIN_COMPLETENESS = 0.8
# Maximum sum of squared differences between the weights in both conditions, relative to the sum of
# squared total weights.
_MAX_IMBALANCE = 0.02
# Number of lists of a Latin square with two conditions.
_N_LISTS = 2
# Largest residual, relative to the largest observation, that is only a rounding error.
_ROUNDING = 1e-10


def estimate_contrast(
    first: Sequence[SampleMean],
    second: Sequence[SampleMean],
    study: CrossedDesign,
    item_effects: str = "random",
) -> MeanEstimate:
    """Estimate the difference between two conditions, with its standard error.

    The compared quantity is the mean value of one model, or the difference between the means of two
    models. A *block* is a participant with an item. The standard error depends on the design:

    1. If every block occurs in both conditions, it is the quasi-F standard error of the differences
       within blocks (`CrossedDesign`).
    2. If every block occurs in one condition, and participants and items have equal weights in both
       (a Latin square), it is the quasi-F standard error of residuals (`_estimate_latin_square`).
    3. Otherwise, its square is the sum of both variances minus twice their covariance. With K
       shared items, the covariance is K / (K - 1) times the sum of products of the items'
       deviations in the two conditions, and likewise for shared participants. In complete tables of
       different participants and the same items, this is the quasi-F of participants nested in
       conditions (Winer, Brown and Michels 1991, Statistical principles in experimental design), a
       sum over the two conditions,

           variance = sum (MS_participants + MS_items:conditions - MS_residual) / (N K).

       It is conservative for participants who judged different items in the two conditions.

    With fixed items, the test is Student's t test of differences within participants, or
    Welch's t test between participants.

    Parameters
    ----------
    first, second
        The mean, or the two means of a difference, in each condition.
    study
        Design of all C observations.
    item_effects
        ``random`` if the result is to generalise to new items, otherwise ``fixed``.

    Returns
    -------
    MeanEstimate
        Difference, first minus second condition. The standard error is NaN if a condition has too
        few participants or items.
    """
    conditions = [Contrast.from_means(means, study) for means in (first, second)]
    # A contrast is the mean of one model, or the difference between two models, in a condition.
    difference = conditions[0] - conditions[1]
    if any(condition.has_too_few_units(item_effects) for condition in conditions):
        return MeanEstimate(difference.value, np.nan, np.nan)
    # Sum of squared deviations of the blocks; a block is one participant with one item.
    _, _, block_squares = difference.squares.tolist()
    # Without any deviation, all observations equal their mean, and the standard error is 0.
    if block_squares == 0.0:
        return MeanEstimate(difference.value, 0.0, np.inf)
    is_random = item_effects == "random"
    # Whether each block has observations in the first and in the second condition. There are three
    # designs, and each has its own formula of the standard error.
    has_block = [np.bincount(study.codes.block, c.weight) > 0 for c in conditions]
    # Design 1: the same blocks in both conditions, that is, a paired comparison.
    if is_random and np.array_equal(has_block[0], has_block[1]):
        return difference.estimate()
    # Design 2: each block in one condition, with balanced participants and items.
    if is_random and _is_latin_square(difference):
        return _estimate_latin_square(difference)

    # Design 3, all others. variance = variance(first) + variance(second) - 2 covariance. Each
    # variance has terms for participants, items and residuals. Participants and items that occur in
    # both conditions cause the covariance, which `_difference_terms` subtracts from their terms.
    terms_by_condition = [condition.variance_terms(item_effects) for condition in conditions]
    participants, items, residuals = zip(*terms_by_condition, strict=True)
    terms = [*residuals, *_difference_terms(participants, conditions, study.codes.participant)]
    if is_random:
        terms += _difference_terms(items, conditions, study.codes.item)
    variance, df = satterthwaite(terms, block_squares if is_random else 0.0)
    return MeanEstimate(difference.value, float(np.sqrt(variance)), df)


def _difference_terms(
    terms: Sequence[Term], conditions: Sequence[Contrast], unit_codes: IntArray
) -> Sequence[Term]:
    """Return the variance, due to participants or items, of a difference between two conditions.

    If some participants (or items) have observations in both conditions, the result is one term,
    var(first) + var(second) - 2 cov(first, second). Otherwise, the covariance is 0, and the two
    given terms are returned unchanged.

    Parameters
    ----------
    terms
        Variance of the mean of each condition that is due to participants (or items).
    conditions
        The two conditions.
    unit_codes
        Index of the participant (or item) of each of C observations, shape (C,).
    """
    weights = [np.bincount(unit_codes, condition.weight) for condition in conditions]
    # `weights` contains the total weight of each participant (or item) in both conditions. The
    # product over conditions is positive for a participant with choices in both.
    if not np.prod(weights, axis=0).any():
        return terms
    # With K shared participants (or items), where K = df + 1, cov is K / (K - 1) times the sum of
    # the products of their deviations.
    sums = [np.bincount(unit_codes, condition.deviations) for condition in conditions]
    df = min(term.df for term in terms)
    covariance = (df + 1) / df * float(sums[0] @ sums[1])
    return [Term(sum(term.variance for term in terms) - 2 * covariance, df)]


def _is_latin_square(difference: Contrast) -> bool:
    """Return whether a study with two conditions is approximately a Latin square.

    In a Latin square, each participant judges all items, one half in each condition, and each item
    is judged by half of the participants in each condition. Some choices may be missing. The study
    counts as a Latin square if

    - sum_k (a_k - b_k)² < 0.02 sum_k (a_k + b_k)², where a_k and b_k are the total weights of
      participant k in the two conditions, and likewise for items;
    - at least 80 % of the combinations of participant and item have a choice.

    Parameters
    ----------
    difference
        First minus second condition. Choices in the second condition have negative weights.
    """
    codes, weight = difference.codes, np.abs(difference.weight)
    # Total weights a_k and b_k in the two conditions: the difference a_k - b_k must be small
    # relative to a_k + b_k.
    for unit in (codes.participant, codes.item):
        imbalance = np.bincount(unit, difference.weight)
        total = np.bincount(unit, weight)
        if np.sum(imbalance**2) >= _MAX_IMBALANCE * np.sum(total**2):
            return False
    # A block is an observed combination of participant and item.
    n_participants, n_items, n_blocks = (len(np.unique(unit[weight > 0])) for unit in codes)
    return n_blocks >= _MIN_COMPLETENESS * n_participants * n_items


def _estimate_latin_square(difference: Contrast) -> MeanEstimate:
    """Return the difference between two conditions of a Latin square.

    Each participant judges each item in one of the two conditions only.

    1. Remove the effects of participants, items and conditions by weighted least squares. Multiply
       each residual by the weight of its observation in the difference. Weights are positive in the
       first condition and negative in the second.
    2. Sum these products within each participant, and let Q_P be the sum of the squares of these
       sums. Likewise, compute Q_I from the sums within items, and Q_B from the sums within blocks
       (combinations of a participant and an item). With N participants and K items, the variance of
       the difference is V_P + V_I - V_E, the parts due to participants, items and residuals:

           V_P = Q_P N / (N - 2),   V_I = Q_I K / (K - 2),
           V_E = (Q_B - Q_P / K - Q_I / N) N K / ((N - 2) (K - 2)),

       with N - 2, K - 2 and (N - 2) (K - 2) degrees of freedom (Pollatsek and Well 1995, doi
       10.1037/0278-7393.21.3.785). The 2 is the number of lists into which a Latin square divides
       participants and items, because the mean of each list is estimated.
    3. If choices are missing, participants and items have slightly unequal weights in the two
       conditions. The variance of their effects times the sum of squared differences in weight is
       added.
    """
    # Use the observations of the two conditions, and number their participants and items from 0.
    rows = np.flatnonzero(difference.weight)
    weight = difference.weight[rows]
    observations = difference.deviations[rows] / weight
    participant, item = (
        np.unique(levels[rows], return_inverse=True)[1]
        for levels in (difference.codes.participant, difference.codes.item)
    )
    # 1. Remove the effects of participants, items and conditions.
    # Fit an additive model. Its matrix has a column per participant, item and condition.
    root = np.sqrt(np.abs(weight))
    factors = (participant, item, (weight < 0).astype(np.int64))
    columns = [csr_array((root, (np.arange(len(rows)), levels))) for levels in factors]
    matrix = hstack(columns, format="csr")
    effects = lsqr(matrix, root * observations, atol=1e-14, btol=1e-14)[0]
    residuals = observations - matrix @ effects / root
    residuals[np.abs(residuals) < _ROUNDING * np.abs(observations).max()] = 0.0

    # 2. Variance of the table of residuals, in the notation of the docstring: Q_P, Q_I and Q_B, N
    # and K.
    design = CrossedDesign(participant, item)
    q_participants, q_items, q_blocks = sums_of_squares(weight * residuals, design.codes).tolist()
    n_participants, n_items, _ = (1 / design.squared_weights).tolist()
    df_participants, df_items = n_participants - _N_LISTS, n_items - _N_LISTS
    if min(df_participants, df_items) < 1 - 1e-9:
        return MeanEstimate(difference.value, np.nan, np.nan)
    df_residual = df_participants * df_items
    # Q_B - Q_P / K - Q_I / N, the sum of squares that neither participants nor items explain.
    residual = q_blocks - q_participants / n_items - q_items / n_participants
    terms = [
        Term(q_participants * n_participants / df_participants, df_participants),
        Term(q_items * n_items / df_items, df_items),
        Term(-residual * n_participants * n_items / df_residual, df_residual),
    ]
    # 3. Add the variance that is due to unequal weights of participants and items in the
    # conditions.
    factor_effects = np.split(effects, [participant.max() + 1, participant.max() + item.max() + 2])
    for effect, levels in zip(factor_effects, (participant, item), strict=False):
        imbalance = np.bincount(levels, weight)
        terms.append(Term(float(np.var(effect, ddof=1) * (imbalance @ imbalance)), len(effect) - 1))
    variance, df = satterthwaite(terms)
    return MeanEstimate(difference.value, float(np.sqrt(variance)), df)
