"""Quasi-F inference: means over participants and items that are both random (Clark 1973).

A complete table of N participants x K items has a mean square of participants, of items and of the
residual. The variance of its mean is

    (MS_participants + MS_items - MS_residual) / (N K),

and the ratio of the mean to its standard error has approximately a t distribution with
Satterthwaite's degrees of freedom (Clark 1973, doi 10.1016/S0022-5371(73)80014-3; Satterthwaite
1946, doi 10.2307/3002019). In incomplete tables, variance components are estimated by the method of
moments (Henderson 1953, doi 10.2307/3001853; Gao and Owen 2017, doi 10.1214/17-EJS1236).

A *cell* is a number for one choice: whether the model predicts it, or its influence on the value of
the participant. The cells of one participant for one item form a *block*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.evaluation.inference.estimate import MeanEstimate

#: Items are random if results generalise to new items, fixed if they describe the items used.
ITEM_EFFECTS = ("random", "fixed")

#: Minimum number of participants, items or groups for inference about a population.
MIN_UNITS = 3
#: Minimum number of participants if items are random. Tests of three participants had a type-I
#: error of 7 % in simulated studies.
MIN_PARTICIPANTS = 4


class CellCodes(NamedTuple):
    """Integer codes of the participant, item and block of each of C cells, shape (C,) each.

    A block consists of the cells of one participant for one item.
    """

    participant: IntArray
    item: IntArray
    block: IntArray


class Term(NamedTuple):
    """A term of a sum of variance estimates: a mean square times its coefficient.

    Attributes
    ----------
    variance
        Value of the term. Negative if the mean square is subtracted.
    df
        Degrees of freedom of the mean square.
    """

    variance: float
    df: float


class QuasiFTerms(NamedTuple):
    """Terms of the variance of a mean over participants and items that are both random (quasi-F).

    The variance of the mean is the sum of the three terms.

    Attributes
    ----------
    participants, items
        Variances of the mean over participants and of the mean over items. Both include the
        residual variance.
    residual
        Residual variance with a negative sign. Adding this term ensures that the residual variance
        counts once instead of twice.
    """

    participants: Term
    items: Term
    residual: Term


@dataclass(frozen=True, eq=False)
class CrossedDesign:
    """A design in which the participants of a study are crossed with its items.

    The design has C cells, that is, one number per choice. It stores the participant and the item
    of each cell, and computes the mean of the cells with a standard error.

    Attributes
    ----------
    participant, item
        Integer codes (0, 1, ...) of the participant and of the item of each cell, shape (C,).

    Notes
    -----
    The standard error takes both participants and items as random samples (quasi-F, Clark 1973,
    doi 10.1016/S0022-5371(73)80014-3), with Satterthwaite degrees of freedom. A *block* consists of
    the cells of one participant for one item. The variance of a cell is the sum of the variances
    s_P of participants, s_I of items and s_B of blocks.

    All participants have the same weight in a mean: a cell x of a participant with n cells has the
    weight w = 1 / (N n), where N is the number of participants, and the deviation d = w (x - mean).
    The deviations are summed within participants, within items and within blocks.
    The three sums of squares of these sums have expectations that are linear in s_P, s_I and s_B.
    Solving the three equations gives unbiased estimates of the variances (method of moments). With
    W_P, W_I and W_B the sums of squared weights of participants, items and blocks,

        V_P = s_P W_P + V_B,   V_I = s_I W_I + V_B,   V_B = s_B W_B,
        variance of the mean = max(V_P + V_I - V_B, V_B),
        df = variance² / (V_P² / (N - 1) + V_I² / (K - 1) + V_B² / ((N - 1) (K - 1))).

    Here N = 1 / W_P, and K = 1 / W_I is the effective number of items, which is the actual number
    if all items have the same weight. In a complete table with one cell per block, V_P =
    MS_participants / (N K), V_I = MS_items / (N K) and V_B = MS_residual / (N K), where MS is a
    mean square of the analysis of variance.

    Examples
    --------
    >>> participant, item = np.indices((4, 3)).reshape(2, -1)
    >>> design = CrossedDesign(participant, item)
    >>> cells = np.array([1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 1.0])
    >>> estimate = design.estimate(cells)
    >>> round(estimate.value, 3), round(estimate.stderr, 3), round(estimate.df, 2)
    (0.667, 0.236, 2.34)
    """

    participant: IntArray
    item: IntArray

    @cached_property
    def weight(self) -> FloatArray:
        """Weight of each cell in the mean, shape (C,)."""
        n_cells = np.bincount(self.participant)
        return np.asarray(1.0 / (np.count_nonzero(n_cells) * n_cells[self.participant]))

    @cached_property
    def codes(self) -> CellCodes:
        """Codes of the participant, the item and the block of each cell."""
        n_items = int(self.item.max(initial=0)) + 1
        block = np.unique(self.participant * n_items + self.item, return_inverse=True)[1]
        return CellCodes(self.participant, self.item, np.asarray(block, dtype=np.int64))

    @cached_property
    def squared_weights(self) -> FloatArray:
        """Sums of squared weights of participants, items and blocks, W_P, W_I and W_B, (3,)."""
        sums = [np.bincount(codes, self.weight) for codes in self.codes]
        return np.array([weights @ weights for weights in sums])

    @cached_property
    def expected_squares(self) -> FloatArray:
        """Expected sums of squares Q_P, Q_I and Q_B (rows) per unit of variance (columns), (3, 3).

        The expected sums of squares are linear in the variances of participants, items and blocks.
        `variance_components` solves these equations for the variances (method of moments).

        Let j and k be two of the factors participant, item and block. Let w_b be the weight of
        block b, and a_kb the total weight of the level of factor k to which block b belongs, for
        example of its participant. With W_k = sum_b w_b a_kb, the sum of squared weights of factor
        k, the expected sum of squares of factor j per unit of variance of factor k is

            J_jk - C_jk - C_kj + W_j W_k,   C_jk = sum_b w_b a_jb a_kb,

        where J_jk = W_j if j = k, otherwise W_block.
        """
        # One cell of each block is enough to look up the levels of the block.
        _, first_cells = np.unique(self.codes.block, return_index=True)
        level_weights = np.stack(
            [np.bincount(codes, self.weight)[codes[first_cells]] for codes in self.codes]
        )
        _, _, block_weights = level_weights
        c_terms = (block_weights * level_weights) @ level_weights.T
        _, _, w_block = self.squared_weights
        j_terms = np.where(np.eye(3, dtype=bool), self.squared_weights, w_block)
        products = np.outer(self.squared_weights, self.squared_weights)
        return np.asarray(j_terms - c_terms - c_terms.T + products)

    def average(self, cells: FloatArray) -> FloatArray:
        """Return the weighted mean of `cells`, in which all participants have the same weight.

        `cells` has the shape (..., C); the last axis is averaged.
        """
        mean = cells @ self.weight
        if not cells.size:
            return np.asarray(mean)
        # Avoid rounding errors if all cells are equal, so that equal models differ by exactly 0.
        return np.where(np.ptp(cells, axis=-1) == 0, cells[..., 0], mean)

    def deviations(self, cells: FloatArray) -> FloatArray:
        """Return the deviation of each cell from the mean, times its weight, shape (..., C)."""
        return np.asarray(self.weight * (cells - self.average(cells)[..., None]))

    def estimate(self, cells: FloatArray, item_effects: str = "random") -> MeanEstimate:
        """Return the mean of `cells` with its standard error.

        Parameters
        ----------
        cells
            One number per choice, shape (C,).
        item_effects
            ``random`` if the result is to generalise to new items, otherwise ``fixed``.

        Returns
        -------
        MeanEstimate
            Mean in which all participants have the same weight. See the notes on the class for the
            standard error and the degrees of freedom.
        """
        squares = sums_of_squares(self.deviations(cells)[None], self.codes)[0]
        return estimate_from_squares(float(self.average(cells)), squares, (self,), item_effects)

    def estimate_ratio(
        self, cells: FloatArray, largest: FloatArray, chance: float, item_effects: str = "random"
    ) -> tuple[MeanEstimate, float]:
        """Return the mean of `cells` with a standard error that suits its ratio to a maximum.

        The largest possible value of a measure is itself estimated from the choices if ratings are
        tied. The standard error therefore includes the error of that maximum. By the delta method,
        the ratio s = (mean - chance) / (mean of largest - chance) has the standard error of the
        mean of

            x_c - s (l_c - mean of l)

        over cells, divided by its denominator (Cochran 1977, Sampling techniques, ch. 6). Here x_c
        is the number of cell c in `cells`, and l_c its number in `largest`. With the largest mean
        as `maximum`, `MeanEstimate.bounded_interval` is the interval of the ratio on Fisher's z
        scale.

        Parameters
        ----------
        cells, largest
            Cells of the model and of the largest possible value, shape (C,).
        chance
            Value of a model that guesses.
        item_effects
            One of `ITEM_EFFECTS`.

        Returns
        -------
        estimate : MeanEstimate
            Mean of `cells`.
        maximum : float
            Mean of `largest`.
        """
        maximum = float(self.average(largest))
        ratio = (float(self.average(cells)) - chance) / (maximum - chance)
        return self.estimate(cells - ratio * (largest - maximum), item_effects), maximum


class CellMean(NamedTuple):
    """The cells from which one mean is computed, with their positions in the whole study.

    Attributes
    ----------
    rows
        Indices of the cells among all C cells of the study, shape (c,).
    design
        Participants and items of the cells.
    cells
        Values, shape (..., c).
    """

    rows: IntArray
    design: CrossedDesign
    cells: FloatArray


def estimate_differences(
    first: CellMean, second: CellMean, whole: CrossedDesign, item_effects: str = "random"
) -> list[MeanEstimate]:
    """Return the difference between two means with its standard error, in each of S studies.

    If both means use the same choices, the cells are subtracted one by one, as in a paired test.
    Otherwise, the two means share some participants or items. Their deviations are then subtracted
    and summed within participants, items and blocks before they are squared. The designs of the two
    means imply two variances, of which the larger one is used.

    Parameters
    ----------
    first, second
        The two means, with cells of shape (S, c).
    whole
        Design of all C cells.
    item_effects
        One of `ITEM_EFFECTS`.

    Returns
    -------
    list of MeanEstimate
        One estimate per study.
    """
    values = first.design.average(first.cells) - second.design.average(second.cells)
    if first.design is second.design:
        designs, codes = [first.design], first.design.codes
        deviations = first.design.deviations(first.cells - second.cells)
    else:
        designs, codes = [first.design, second.design], whole.codes
        deviations = np.zeros((len(first.cells), len(whole.item)))
        deviations[:, first.rows] += first.design.deviations(first.cells)
        deviations[:, second.rows] -= second.design.deviations(second.cells)
    return [
        estimate_from_squares(float(value), squares, designs, item_effects)
        for value, squares in zip(values, sums_of_squares(deviations, codes), strict=True)
    ]


def estimate_from_squares(
    value: float, squares: FloatArray, designs: Sequence[CrossedDesign], item_effects: str
) -> MeanEstimate:
    """Return a mean, or a difference of means, with the standard error of `CrossedDesign`.

    Parameters
    ----------
    value
        Point estimate.
    squares
        Sums of squares of its deviations, see `sums_of_squares`, shape (3,).
    designs
        Designs of the means. The smallest effective numbers of participants and items and the
        largest variance are used.
    item_effects
        One of `ITEM_EFFECTS`.

    Returns
    -------
    MeanEstimate
        The standard error is NaN if there are too few participants or items.
    """
    if has_too_few_units(designs, item_effects):
        return MeanEstimate(value, np.nan, np.nan)
    participant_squares, _, block_squares = squares.tolist()
    minimum = participant_squares if item_effects == "fixed" else block_squares
    if minimum == 0.0:
        n_participants, n_items = effective_sizes(designs)
        return MeanEstimate(value, 0.0, n_participants + n_items - 2)
    terms = quasi_f_terms(squares, designs, item_effects)
    variance, df = satterthwaite(terms, minimum)
    # Shares of the variance components s_P W_P and s_I W_I, see `CrossedDesign`.
    components = np.array([terms.participants.variance, terms.items.variance])
    shares = np.clip((components + terms.residual.variance) / variance, 0.0, 1.0)
    participants, items = (shares / max(float(shares.sum()), 1.0)).tolist()
    return MeanEstimate(value, float(np.sqrt(variance)), df, (participants, items))


def effective_sizes(designs: Sequence[CrossedDesign]) -> tuple[float, float]:
    """Return the effective numbers of participants and of items.

    The effective number is 1 / (sum of squared weights). It equals the number of units if all have
    the same weight. Of several designs, the smallest numbers are returned.
    """
    w_participants, w_items, _ = np.max([design.squared_weights for design in designs], axis=0)
    return float(1 / w_participants), float(1 / w_items)


def has_too_few_units(designs: Sequence[CrossedDesign], item_effects: str) -> bool:
    """Return whether there are too few participants or items for a standard error.

    The effective numbers of participants and of items are compared with `MIN_PARTICIPANTS` and
    `MIN_UNITS`. If items are fixed, `MIN_UNITS` participants are sufficient.
    """
    rounding = 1e-9  # Effective numbers are computed from sums of squared weights.
    n_participants, n_items = (n + rounding for n in effective_sizes(designs))
    if item_effects == "fixed":
        return n_participants < MIN_UNITS
    return n_participants < MIN_PARTICIPANTS or n_items < MIN_UNITS


def sums_of_squares(deviations: FloatArray, codes: CellCodes) -> FloatArray:
    """Return the sums of squares of participants, items and blocks in each of S studies.

    The sum of squares of a factor (participants, items or blocks) is computed in two steps:

    1. Sum the deviations of the cells that belong to the same level of the factor, for example to
       the same participant.
    2. Square these sums, and add the squares over all levels.

    Parameters
    ----------
    deviations
        Weighted deviations of the C cells from their mean in S studies, shape (S, C).
    codes
        Codes of the participant, item and block of each cell.

    Returns
    -------
    array
        Sums of squares Q_P, Q_I and Q_B of each study (see `CrossedDesign`), shape (S, 3).
    """
    n_studies = len(deviations)
    sums_of_squares = np.empty((n_studies, len(codes)))
    for factor, level_codes in enumerate(codes):
        n_levels = int(level_codes.max(initial=-1)) + 1
        # Give each level in each study a separate bin, so that one call sums all studies.
        bins = (level_codes + n_levels * np.arange(n_studies)[:, None]).ravel()
        level_sums = np.bincount(bins, deviations.ravel(), n_levels * n_studies)
        level_sums = level_sums.reshape(n_studies, n_levels)
        sums_of_squares[:, factor] = (level_sums**2).sum(axis=1)
    return sums_of_squares


def variance_components(squares: FloatArray, designs: Sequence[CrossedDesign]) -> FloatArray:
    """Return the contributions of participants, items and blocks to the variance of a mean.

    The variances solve the linear equations expected_squares @ variances = squares (method of
    moments, Henderson 1953). The contribution of a variance is its product with the sum of squared
    weights. If there are several designs, the design with the largest total variance is used.

    Parameters
    ----------
    squares
        Sums of squares, see `sums_of_squares`, shape (3,).
    designs
        Designs of the mean, or of the two means of a difference.

    Returns
    -------
    array
        Contributions, shape (3,).
    """
    candidates = []
    for design in designs:
        # Scale rows and columns, so that the diagonal of the system is 1.
        roots = np.sqrt(np.diagonal(design.expected_squares))
        scale = np.where(roots > 0, roots, 1.0)
        # The system is singular if each item has one block; use its minimum-norm solution.
        scaled = design.expected_squares / np.outer(scale, scale)
        variances = np.linalg.lstsq(scaled, squares / scale, rcond=1e-10)[0]
        candidates.append(design.squared_weights * variances / scale)
    return max(candidates, key=lambda components: float(components.sum()))


def quasi_f_terms(
    squares: FloatArray, designs: Sequence[CrossedDesign], item_effects: str
) -> QuasiFTerms:
    """Return the terms of the quasi-F variance, which add up to the variance of the mean.

    If items are fixed, the variance between participants, Q_P N / (N - 1), is the only term that is
    not 0.

    Parameters
    ----------
    squares
        Sums of squares, see `sums_of_squares`, shape (3,).
    designs
        Designs of the mean, or of the two means of a difference.
    item_effects
        One of `ITEM_EFFECTS`.
    """
    n_participants, n_items = effective_sizes(designs)
    df_participants, df_items = n_participants - 1, n_items - 1
    if item_effects == "fixed":
        participant_squares, _, _ = squares.tolist()
        variance = participant_squares * n_participants / df_participants
        return QuasiFTerms(Term(variance, df_participants), Term(0.0, 1.0), Term(0.0, 1.0))
    participants, items, blocks = variance_components(squares, designs).tolist()
    return QuasiFTerms(
        participants=Term(participants + blocks, df_participants),
        items=Term(items + blocks, df_items),
        residual=Term(-blocks, df_participants * df_items),
    )


def satterthwaite(terms: Sequence[Term], minimum: float = 0.0) -> tuple[float, float]:
    """Return the sum of several variance estimates and its approximate degrees of freedom.

    The degrees of freedom of the sum v = v_1 + v_2 + ... are v² / sum of (v_i² / df_i)
    (Satterthwaite 1946, doi 10.2307/3002019). Some terms may be negative, because the quasi-F
    variance subtracts a mean square. The sum could then be too small by chance, so it is replaced
    by the absolute sum of the negative terms if that is larger.

    Parameters
    ----------
    terms
        Terms v_i with their degrees of freedom df_i.
    minimum
        Lower bound of the variance if no term is negative.

    Returns
    -------
    variance, df : float
        Variance and degrees of freedom; these are infinite if all terms are 0.

    Examples
    --------
    >>> satterthwaite([Term(2.0, 10), Term(2.0, 10)])
    (4.0, 20.0)
    """
    subtracted = -sum(term.variance for term in terms if term.variance < 0)
    total = sum(term.variance for term in terms)
    variance = max(total, subtracted if subtracted > 0 else minimum)
    spread = sum(term.variance**2 / term.df for term in terms)
    return variance, variance**2 / spread if spread else np.inf
