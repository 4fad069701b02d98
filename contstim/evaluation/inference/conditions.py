"""Differences between two conditions: quasi-F tests within and between participants or items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from contstim.arrays import FloatArray, IntArray
from contstim.evaluation.inference.estimate import MeanEstimate
from contstim.evaluation.inference.quasi_f import (
    CellMean,
    CrossedDesign,
    combine_codes,
    effective_sizes,
    estimate_from_squares,
    expected_squares,
    has_too_few_units,
    mean_squares,
    satterthwaite,
    sums_of_squares,
    variance_components,
)

# Minimum share of observed participant-item blocks in a Latin square with missing choices.
_MIN_COMPLETENESS = 0.8
# Largest squared difference in weight between conditions, relative to the squared weights.
_MAX_IMBALANCE = 0.02


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

    def mean_square_terms(
        self, sizes: tuple[float, float], whole: CrossedDesign, item_effects: str
    ) -> list[tuple[float, float]]:
        """Return the terms of the variance of this condition, with their degrees of freedom.

        The terms are mean squares divided by the effective numbers of participants and items
        (`sizes`). With random items they are the three terms of the quasi-F variance, see
        `mean_squares`. With fixed items there is one term, the variance between participants.
        """
        n_participants, n_items = sizes
        squares = sums_of_squares(self.deviations[None], whole.codes)[0]
        if item_effects == "fixed":
            variance = float(squares[0]) * n_participants / (n_participants - 1)
            return [(variance, n_participants - 1)]
        components = variance_components(squares, [design.moments for design in self.designs])
        return mean_squares(components, n_participants - 1, n_items - 1)


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
    a, b = (_Condition.from_means(means, len(whole.item)) for means in (first, second))
    value = a.value - b.value
    sizes = [effective_sizes(condition.designs) for condition in (a, b)]
    if any(has_too_few_units(*size, item_effects) for size in sizes):
        return MeanEstimate(value, np.nan, np.nan)
    squares = sums_of_squares((a.deviations - b.deviations)[None], whole.codes)[0]
    if squares[2] == 0.0:
        return MeanEstimate(value, 0.0, np.inf)

    weights = np.stack([a.weight, b.weight])
    in_condition = [
        np.stack([np.bincount(units, weight) > 0 for weight in weights]) for units in whole.codes
    ]
    is_shared = [units.all(axis=0) for units in in_condition]
    is_random = item_effects == "random"
    if is_random and np.array_equal(is_shared[2], in_condition[2].any(axis=0)):
        return estimate_from_squares(value, squares, [*a.designs, *b.designs], item_effects)
    n_units = [int(units.any(axis=0).sum()) for units in in_condition]
    if is_random and _is_latin_square(weights, whole, n_units):
        return _estimate_latin_square(value, weights, a.deviations + b.deviations, whole)

    # Sum the variances of both conditions, minus twice the covariance due to shared units.
    terms = []
    condition_terms = [
        condition.mean_square_terms(size, whole, item_effects)
        for condition, size in zip((a, b), sizes, strict=True)
    ]
    # The factors 0, 1 and 2 are participants, items and blocks. Blocks have no covariance.
    for factor, (term_a, term_b) in enumerate(zip(*condition_terms, strict=True)):
        if factor < 2 and is_shared[factor].any():
            n = min(sizes[0][factor], sizes[1][factor])
            sums = [np.bincount(whole.codes[factor], c.deviations) for c in (a, b)]
            covariance = n / (n - 1) * float(sums[0] @ sums[1])
            terms.append((term_a[0] + term_b[0] - 2 * covariance, n - 1))
        else:
            terms += [term_a, term_b]
    variance, df = satterthwaite(terms, float(squares[2]) if is_random else 0.0)
    return MeanEstimate(value, float(np.sqrt(variance)), df)


def _is_latin_square(weights: FloatArray, whole: CrossedDesign, n_units: Sequence[int]) -> bool:
    """Return whether a study with two conditions is (nearly) a Latin square.

    In a Latin square, each participant judges all items, one half in each condition, and each item
    is judged by half of the participants in each condition. Some choices may be missing: at least
    80 % of the combinations of participant and item must be present, and participants and items
    must have nearly the same total weight in both conditions.

    Parameters
    ----------
    weights
        Weights of the cells in both conditions, shape (2, C).
    whole
        Design of all cells.
    n_units
        Numbers of participants, items and blocks.
    """
    n_participants, n_items, n_blocks = n_units
    for units in whole.codes[:2]:
        difference = np.bincount(units, weights[0] - weights[1])
        total = np.bincount(units, weights[0] + weights[1])
        if difference @ difference >= _MAX_IMBALANCE * (total @ total):
            return False
    return n_blocks >= _MIN_COMPLETENESS * n_participants * n_items


def _estimate_latin_square(
    value: float, weights: FloatArray, deviations: FloatArray, whole: CrossedDesign
) -> MeanEstimate:
    """Return the difference between two conditions of a Latin square.

    Each participant judges each item in one of the two conditions only.

    1. Remove the effects of participants, items and conditions by weighted least squares.
    2. The residuals, with sign + in the first and - in the second condition, form a
       participant x item table. Its quasi-F has N - L and K - L degrees of freedom, where
       L = 2 N K / (number of residuals) is 2 in a complete square with two lists: participants vary
       within lists (Pollatsek and Well 1995, doi 10.1037/0278-7393.21.3.785).
    3. If choices are missing, participants and items have slightly unequal weights in the two
       conditions. The variance of their effects times the sum of squared differences in weight is
       added.
    """
    rows = np.flatnonzero(weights.any(axis=0))
    signed_weight, weight = (weights[0] - weights[1])[rows], weights.sum(axis=0)[rows]
    participant, item = (
        np.unique(units[rows], return_inverse=True)[1] for units in whole.codes[:2]
    )
    condition = (signed_weight < 0).astype(np.int64)
    cells = deviations[rows] / weight
    residuals, effects = _remove_effects(cells, weight, (participant, item, condition))

    # Subtract the degrees of freedom that the fitted effects use.
    units = participant, item, combine_codes(participant, item, condition)
    n_participants, n_items, n_residuals = (int(codes.max()) + 1 for codes in units)
    squared_weights, expectations = expected_squares(weight / 2, units)
    sizes = 1 / squared_weights[:2]
    df = sizes - 2 * n_participants * n_items / n_residuals
    df_residual = n_residuals - n_participants - n_items
    if min(*df, df_residual) < 1 - 1e-9:
        return MeanEstimate(value, np.nan, np.nan)
    # Fitting effects decreases the expected sums of squares by the ratio of degrees of freedom, of
    # participants (p), items (i) and residuals (r).
    p, i = df / (sizes - 1)
    r = df_residual / (n_residuals - 1)
    expectations = expectations * [[p, 1, p], [1, i, i], [p, i, r]]

    squares = sums_of_squares((signed_weight * residuals)[None], units)[0]
    if squares[2] <= 1e-20 * (deviations @ deviations):
        squares = np.zeros(3)  # Only rounding errors remain.
    components = variance_components(squares, [(squared_weights, expectations)])
    terms = [satterthwaite(mean_squares(components, *df.tolist()), float(squares[2]))]
    # Add the variance that is due to unequal weights of participants and items in the conditions.
    for effect, codes in zip(effects, (participant, item), strict=False):
        imbalance = np.bincount(codes, signed_weight)
        terms.append((float(np.var(effect, ddof=1) * (imbalance @ imbalance)), len(effect) - 1))
    variance, total_df = satterthwaite(terms)
    return MeanEstimate(value, float(np.sqrt(variance)), total_df)


def _remove_effects(
    cells: FloatArray, weight: FloatArray, factors: Sequence[IntArray]
) -> tuple[FloatArray, list[FloatArray]]:
    """Fit an additive model of several factors by weighted least squares.

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
    # Indicator (dummy) variables: one column per level of each factor.
    index = np.arange(len(cells))
    blocks = [sparse.csr_array((np.ones(len(cells)), (index, codes))) for codes in factors]
    indicators = sparse.hstack(blocks, format="csr")
    weights = sparse.diags_array(weight)
    # Solve the normal equations; the minimum-norm solution handles collinear indicators.
    gram = np.asarray((indicators.T @ weights @ indicators).toarray(), dtype=np.float64)
    target = np.asarray(indicators.T @ (weight * cells), dtype=np.float64)
    effects = np.asarray(np.linalg.lstsq(gram, target)[0])
    ends = np.cumsum([block.shape[1] for block in blocks])[:-1]
    return cells - indicators @ effects, np.split(effects, ends)
