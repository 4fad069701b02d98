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


@dataclass(frozen=True, eq=False)
class CrossedDesign:
    """The participant and the item of each of C cells.

    Attributes
    ----------
    participant, item
        Codes of the participant and of the item of each cell, shape (C,).

    Notes
    -----
    All participants have the same weight in a mean: a cell x of a participant with n cells has the
    weight w = 1 / (N n) and the deviation d = w (x - mean). Q_P, Q_I and Q_B are the sums of
    squares of d after summation within participants, items and blocks. Their expectations are
    linear in the variances s_P, s_I and s_B of participants, items and blocks. Solving the three
    equations gives unbiased estimates of the variances. With W_P, W_I and W_B the sums of squared
    weights of participants, items and blocks,

        V_P = s_P W_P + V_B,   V_I = s_I W_I + V_B,   V_B = s_B W_B,
        variance of the mean = max(V_P + V_I - V_B, V_B),
        df = variance² / (V_P² / (N - 1) + V_I² / (K - 1) + V_B² / ((N - 1) (K - 1))),

    where N = 1 / W_P and K = 1 / W_I are effective numbers. In a complete table with one cell per
    block, V_P = MS_participants / (N K), V_I = MS_items / (N K) and V_B = MS_residual / (N K).

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
    def codes(self) -> tuple[IntArray, IntArray, IntArray]:
        """Codes of the participant, the item and the block of each cell, shape (C,) each."""
        return self.participant, self.item, combine_codes(self.participant, self.item)

    @cached_property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Sums of squared weights, shape (3,), and expected sums of squares, shape (3, 3)."""
        return expected_squares(self.weight, self.codes)

    def average(self, cells: FloatArray) -> FloatArray:
        """Return the mean over participants of `cells`, shape (..., C)."""
        mean = cells @ self.weight
        if not cells.size:
            return np.asarray(mean)
        # Avoid rounding errors if all cells are equal, so that equal models differ by exactly 0.
        return np.where(np.ptp(cells, axis=-1) == 0, cells[..., 0], mean)

    def deviations(self, cells: FloatArray) -> FloatArray:
        """Return the weighted deviations from the mean of `cells`, shape (..., C)."""
        return np.asarray(self.weight * (cells - self.average(cells)[..., None]))

    def estimate(self, cells: FloatArray, item_effects: str = "random") -> MeanEstimate:
        """Return the mean over participants of `cells`, shape (C,), with its standard error."""
        squares = sums_of_squares(self.deviations(cells)[None], self.codes)[0]
        return estimate_from_squares(float(self.average(cells)), squares, (self,), item_effects)

    def estimate_ratio(
        self, cells: FloatArray, largest: FloatArray, chance: float, item_effects: str = "random"
    ) -> tuple[MeanEstimate, float]:
        """Return the mean of `cells` with the standard error of its ratio to the largest mean.

        The ratio s = (mean - chance) / (mean of largest - chance) has, by the delta method, the
        standard error of the mean of

            x_c - s (l_c - mean of l)

        over cells, divided by its denominator (Cochran 1977, Sampling techniques, ch. 6). With the
        largest mean as `maximum`, `MeanEstimate.bounded_interval` is the interval of the ratio on
        Fisher's z scale.

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
    """The cells of one mean.

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
    """Return the difference of two means with its standard error in each of S studies.

    If both means are over the same cells, the cells are subtracted. Otherwise, the deviations of
    both means are summed within participants, items and blocks before they are squared, and the
    larger of the two variances that the two designs imply is used.

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
    n_participants, n_items = effective_sizes(designs)
    if has_too_few_units(n_participants, n_items, item_effects):
        return MeanEstimate(value, np.nan, np.nan)
    if item_effects == "fixed":
        variance = float(squares[0]) * n_participants / (n_participants - 1)
        return MeanEstimate(value, np.sqrt(variance), n_participants - 1, (1.0, 0.0))
    if squares[2] == 0.0:
        return MeanEstimate(value, 0.0, n_participants + n_items - 2)
    components = variance_components(squares, [design.moments for design in designs])
    terms = mean_squares(components, n_participants - 1, n_items - 1)
    variance, df = satterthwaite(terms, float(squares[2]))
    shares = np.clip(components[:2] / variance, 0.0, 1.0)
    shares /= max(float(shares.sum()), 1.0)
    return MeanEstimate(value, float(np.sqrt(variance)), df, (float(shares[0]), float(shares[1])))


def effective_sizes(designs: Sequence[CrossedDesign]) -> tuple[float, float]:
    """Return the smallest effective numbers of participants and of items of several designs."""
    participants, items, _ = np.max([design.moments[0] for design in designs], axis=0).tolist()
    return 1 / participants, 1 / items


def has_too_few_units(n_participants: float, n_items: float, item_effects: str) -> bool:
    """Return whether there are too few participants or items for a standard error."""
    rounding = 1e-9  # Effective numbers are computed from sums of squared weights.
    if item_effects == "fixed":
        return n_participants < MIN_UNITS - rounding
    return n_participants < MIN_PARTICIPANTS - rounding or n_items < MIN_UNITS - rounding


def combine_codes(*codes: IntArray) -> IntArray:
    """Return one code for each distinct combination of codes, shape (C,)."""
    combined = codes[0]
    for other in codes[1:]:
        combined = combined * (int(other.max(initial=0)) + 1) + other
    return np.asarray(np.unique(combined, return_inverse=True)[1], dtype=np.int64)


def sums_of_squares(deviations: FloatArray, codes: Sequence[IntArray]) -> FloatArray:
    """Return the sums of squares of deviations after summation within units.

    Parameters
    ----------
    deviations
        Weighted deviations in S studies, shape (S, C).
    codes
        Codes of participants, items and blocks, shape (C,) each.

    Returns
    -------
    array
        Q_P, Q_I and Q_B of each study (see `CrossedDesign`), shape (S, 3).
    """
    n_studies = len(deviations)
    squares = np.empty((n_studies, len(codes)))
    for kind, unit in enumerate(codes):
        n_units = int(unit.max(initial=-1)) + 1
        bins = (unit + n_units * np.arange(n_studies)[:, None]).ravel()
        sums = np.bincount(bins, deviations.ravel(), n_units * n_studies)
        sums = sums.reshape(n_studies, n_units)
        squares[:, kind] = np.einsum("su,su->s", sums, sums)
    return squares


def expected_squares(
    weight: FloatArray, codes: Sequence[IntArray]
) -> tuple[FloatArray, FloatArray]:
    """Return sums of squared weights and the expectations of sums of squares.

    Let a_kb be the summed weight of the unit of kind k (participant, item, block) that contains
    block b, and w_b the weight of the block. The sum of squared weights of kind k is
    S_k = sum_b w_b a_kb. The expectation of the sum of squares of kind j per unit of variance of
    kind k is

        J_jk - C_jk - C_kj + S_j S_k,   C_jk = sum_b w_b a_jb a_kb,

    with J_jk = S_j if j = k, otherwise S_block.

    Parameters
    ----------
    weight
        Weights of C cells, which sum to 1, shape (C,).
    codes
        Codes of participants, items and blocks, shape (C,) each.

    Returns
    -------
    squared_weights : array
        Sums of squared weights of participants, items and blocks, shape (3,).
    expectations : array
        Expected sums of squares (rows) per unit of variance (columns), shape (3, 3).
    """
    first_cells = np.unique(codes[2], return_index=True)[1]
    unit_weights = np.stack([np.bincount(unit, weight)[unit[first_cells]] for unit in codes])
    weighted = unit_weights[2] * unit_weights
    squared_weights = weighted.sum(axis=1)
    common = weighted @ unit_weights.T
    joint = np.where(np.eye(3, dtype=bool), squared_weights, squared_weights[2])
    products = np.outer(squared_weights, squared_weights)
    return squared_weights, np.asarray(joint - common - common.T + products)


def variance_components(
    squares: FloatArray, moments: Sequence[tuple[FloatArray, FloatArray]]
) -> FloatArray:
    """Return the contributions of participants, items and blocks to the variance of a mean.

    The variances solve expectations @ variances = squares (method of moments, Henderson 1953); each
    is multiplied by its sum of squared weights. Of several designs, the one with the largest total
    variance is used.

    Parameters
    ----------
    squares
        Sums of squares, see `sums_of_squares`, shape (3,).
    moments
        Sums of squared weights and expectations of each design, see `expected_squares`.

    Returns
    -------
    array
        Contributions, shape (3,).
    """
    candidates = []
    for squared_weights, expectations in moments:
        sizes = np.sqrt(np.diagonal(expectations))
        scale = np.where(sizes > 0, sizes, 1.0)
        # The system is singular if each item has one block; use its minimum-norm solution.
        scaled = expectations / np.outer(scale, scale)
        variances = np.linalg.lstsq(scaled, squares / scale, rcond=1e-10)[0]
        candidates.append(squared_weights * variances / scale)
    return max(candidates, key=lambda components: float(components.sum()))


def mean_squares(
    components: FloatArray, df_participants: float, df_items: float
) -> list[tuple[float, float]]:
    """Return V_P, V_I and -V_B (see `CrossedDesign`), each with its degrees of freedom."""
    participants, items, blocks = components.tolist()
    return [
        (participants + blocks, df_participants),
        (items + blocks, df_items),
        (-blocks, df_participants * df_items),
    ]


def satterthwaite(
    terms: Sequence[tuple[float, float]], minimum: float = 0.0
) -> tuple[float, float]:
    """Return a variance that is a sum of mean squares, and its degrees of freedom.

    The degrees of freedom of v = sum of v_i are v² / sum of (v_i² / df_i) (Satterthwaite 1946, doi
    10.2307/3002019). The variance is at least the sum of the subtracted terms.

    Parameters
    ----------
    terms
        Mean squares times their signed coefficients, and their degrees of freedom.
    minimum
        Smallest variance if no term is negative.

    Returns
    -------
    variance, df : float
        Variance and degrees of freedom; these are infinite if all terms are 0.

    Examples
    --------
    >>> satterthwaite([(2.0, 10), (2.0, 10)])
    (4.0, 20.0)
    """
    subtracted = -sum(term for term, _ in terms if term < 0)
    variance = max(sum(term for term, _ in terms), subtracted if subtracted > 0 else minimum)
    spread = sum(term**2 / df for term, df in terms)
    return variance, variance**2 / spread if spread else np.inf
