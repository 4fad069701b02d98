"""Quasi-F inference: means over participants and items that are both random (Clark 1973).

A complete table of N participants x K items has a mean square of participants, of items and of the
residual. The variance of its mean is

    (MS_participants + MS_items - MS_residual) / (N K),

and the ratio of the mean to its standard error has approximately a t distribution with
Satterthwaite's degrees of freedom (Clark 1973, doi 10.1016/S0022-5371(73)80014-3; Satterthwaite
1946, doi 10.2307/3002019). In incomplete tables, variance components are estimated by the method of
moments (Henderson 1953, doi 10.2307/3001853; Gao and Owen 2017, doi 10.1214/17-EJS1236).

An *observation* is a number for one choice: whether the model predicts it, or its influence on the
value of the participant. The observations of one participant for one item form a *block*.
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


class FactorCodes(NamedTuple):
    """Integer codes of the participant, item and block of each of C observations, shape (C,) each.

    A block consists of the observations of one participant for one item.
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


@dataclass(frozen=True, eq=False)
class CrossedDesign:
    """A design in which the participants of a study are crossed with its items.

    The design has C observations, that is, one number per choice. It stores the participant and the
    item of each observation, and computes the mean of the observations with a standard error.

    Attributes
    ----------
    participant, item
        Integer codes (0, 1, ...) of the participant and of the item of each observation, shape
        (C,).

    Notes
    -----
    The standard error takes both participants and items as random samples (quasi-F, Clark 1973,
    doi 10.1016/S0022-5371(73)80014-3), with Satterthwaite degrees of freedom. A *block* consists of
    the observations of one participant for one item. The variance of an observation is the sum of
    the variances s_P of participants, s_I of items and s_B of blocks.

    All participants have the same weight in a mean: an observation x of a participant with n
    observations has the weight w = 1 / (N n), where N is the number of participants, and the
    deviation d = w (x - mean). The deviations are summed within participants, within items and
    within blocks. The three sums of squares of these sums have expectations that are linear in s_P,
    s_I and s_B. Solving the three equations gives unbiased estimates of the variances (method of
    moments). With W_P, W_I and W_B the sums of squared weights of participants, items and blocks,

        V_P = s_P W_P + V_B,   V_I = s_I W_I + V_B,   V_B = s_B W_B,
        variance of the mean = max(V_P + V_I - V_B, V_B),
        df = variance² / (V_P² / (N - 1) + V_I² / (K - 1) + V_B² / ((N - 1) (K - 1))).

    Here N = 1 / W_P, and K = 1 / W_I is the effective number of items, which is the actual number
    if all items have the same weight. In a complete table with one observation per block, V_P =
    MS_participants / (N K), V_I = MS_items / (N K) and V_B = MS_residual / (N K), where MS is a
    mean square of the analysis of variance. If items are fixed, the variance is V_P with s_B = 0,
    and N - 1 are its degrees of freedom.

    Examples
    --------
    >>> participant, item = np.indices((4, 3)).reshape(2, -1)
    >>> design = CrossedDesign(participant, item)
    >>> observations = np.array([1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 1.0])
    >>> estimate = design.estimate(observations)
    >>> round(estimate.value, 3), round(estimate.stderr, 3), round(estimate.df, 2)
    (0.667, 0.236, 2.34)
    """

    participant: IntArray
    item: IntArray

    @cached_property
    def weight(self) -> FloatArray:
        """Weight of each observation in the mean, shape (C,)."""
        # w = 1 / (N n), with N participants and n observations of the participant.
        counts = np.bincount(self.participant)
        return np.asarray(1.0 / (np.count_nonzero(counts) * counts[self.participant]))

    @cached_property
    def codes(self) -> FactorCodes:
        """Codes of the participant, the item and the block of each observation."""
        # A block consists of the observations of one participant for one item. Number the pairs of
        # codes (participant, item), then renumber them from 0 without gaps.
        n_items = int(self.item.max(initial=0)) + 1
        block = np.unique(self.participant * n_items + self.item, return_inverse=True)[1]
        return FactorCodes(self.participant, self.item, np.asarray(block, dtype=np.int64))

    @cached_property
    def squared_weights(self) -> FloatArray:
        """Sums of squared weights of participants, items and blocks, W_P, W_I and W_B, (3,)."""
        return sums_of_squares(self.weight, self.codes)

    @cached_property
    def expected_squares(self) -> FloatArray:
        """Matrix of the linear equations for the variance components, shape (3, 3).

        The data vary between participants, items and blocks, where a block is a combination of one
        participant and one item. Each of these three factors has an unknown variance component.
        Element (j, k) of the matrix says how much the expected sum of squares of factor j increases
        per unit of the variance component of factor k. It is

            J_jk - C_jk - C_kj + W_j W_k,

        where

        - w_b is the total weight of the observations of block b;
        - a_kb is the total weight of all blocks with the same level of factor k as block b, for
          example of the same participant;
        - W_k = sum_b w_b a_kb is the sum of the squared weights of the levels of factor k;
        - C_jk = sum_b w_b a_jb a_kb;
        - J_jk = W_j if j = k, and otherwise the sum of the squared block weights, sum_b w_b².
        """
        _, first_observations = np.unique(self.codes.block, return_index=True)
        # One observation of each block (one participant and one item) is enough to look up its
        # participant and item. For each block b, the total weight of its participant, of its item
        # and of the block itself: a_kb, shape (3 factors, n_blocks).
        level_weights = np.stack(
            [np.bincount(codes, self.weight)[codes[first_observations]] for codes in self.codes]
        )
        _, _, block_weights = level_weights
        # C_jk = sum over blocks b of w_b a_jb a_kb.
        c_terms = (block_weights * level_weights) @ level_weights.T
        # W_k: sum of the squared weights of participants, of items and of blocks.
        w = self.squared_weights
        # J_jk = W_j on the diagonal, and the sum of squared block weights elsewhere.
        j_terms = np.where(np.eye(3, dtype=bool), w, w[2])
        # Element (j, k) is J_jk - C_jk - C_kj + W_j W_k.
        return np.asarray(j_terms - c_terms - c_terms.T + np.outer(w, w))

    @cached_property
    def component_coefficients(self) -> FloatArray:
        """Matrix that maps sums of squares to contributions to the variance of the mean, (3, 3).

        The data vary between participants, items and blocks, where a block is a combination of one
        participant and one item. The expected sums of squares Q of these three factors are linear
        in the three variance components s: E[Q] = A s, with the matrix A = `expected_squares`.
        Hence A^-1 Q estimates s (method of moments, Henderson 1953, doi 10.2307/3001853). Component
        s_k contributes W_k s_k to the variance of the mean, where W_k is the sum of the squared
        weights of the levels of factor k. This matrix is diag(W) A^-1, so its product with Q is the
        vector of the three contributions.
        """
        diagonal = np.diagonal(self.expected_squares)
        # The factors are participants, items, and blocks (one participant and one item). Their
        # expected sums of squares are E[Q] = A s, with A = `expected_squares` and the variance
        # components s. Before A is inverted, scale its rows and columns to a diagonal of 1.
        roots = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        scales = np.outer(roots, roots)
        # A is singular if each item has one block; use the minimum-norm solution.
        scaled_inverse = np.linalg.pinv(self.expected_squares / scales, rcond=1e-10)
        # Component k contributes W_k s_k to the variance of the mean: return diag(W) A^-1.
        return np.asarray(self.squared_weights[:, None] * scaled_inverse / scales)

    def average(self, observations: FloatArray) -> float:
        """Return the mean of `observations` (C,), in which participants have equal weights."""
        # If all observations are equal, return their value without rounding errors, so that the
        # difference between two equal models is exactly 0.
        return float(observations[0] if np.ptp(observations) == 0 else observations @ self.weight)

    def deviations(self, observations: FloatArray) -> FloatArray:
        """Return the deviation of each observation from the mean, times its weight, shape (C,)."""
        return np.asarray(self.weight * (observations - self.average(observations)))

    def estimate(self, observations: FloatArray, item_effects: str = "random") -> MeanEstimate:
        """Return the mean of `observations` with its standard error.

        Parameters
        ----------
        observations
            One number per choice, shape (C,).
        item_effects
            ``random`` if the result is to generalise to new items, otherwise ``fixed``.

        Returns
        -------
        MeanEstimate
            Mean in which all participants have the same weight. See the notes on the class for the
            standard error and the degrees of freedom.
        """
        mean = SampleMean(np.arange(len(observations)), self, observations)
        return Contrast.from_means([mean], self).estimate(item_effects)

    def estimate_ratio(
        self, values: FloatArray, largest: FloatArray, chance: float, item_effects: str = "random"
    ) -> tuple[MeanEstimate, float]:
        """Return the mean of `values` with a standard error that suits its ratio to a maximum.

        The largest possible value of a measure is itself estimated from the choices if ratings are
        tied. The standard error therefore includes the error of that maximum. By the delta method,
        the ratio s = (mean - chance) / (mean of largest - chance) has the standard error of the
        mean of

            x_c - s (l_c - mean of l)

        over observations, divided by its denominator (Cochran 1977, Sampling techniques, ch. 6).
        Here x_c is observation c in `values`, and l_c is observation c in `largest`. With the
        largest mean as `maximum`, `MeanEstimate.bounded_interval` is the interval of the ratio on
        Fisher's z scale.

        Parameters
        ----------
        values, largest
            Observations of the model and of the largest possible value, shape (C,).
        chance
            Value of a model that guesses.
        item_effects
            ``random`` if the result is to generalise to new items, otherwise ``fixed``.

        Returns
        -------
        estimate : MeanEstimate
            Mean of `values`.
        maximum : float
            Mean of `largest`.
        """
        maximum = self.average(largest)
        # s = (mean - chance) / (maximum - chance), the value as a fraction of its possible range.
        ratio = (self.average(values) - chance) / (maximum - chance)
        # x_c - s (l_c - mean of l): subtracting the second term, with the mean 0, changes only the
        # standard error.
        return self.estimate(values - ratio * (largest - maximum), item_effects), maximum


class SampleMean(NamedTuple):
    """Sample of c observations of a study whose mean is estimated, for example of one condition.

    Attributes
    ----------
    rows
        Row of each observation in the table of all C observations of the study, shape (c,).
    design
        Participant and item of each of the c observations (`CrossedDesign`).
    observations
        Value of each observation, for example 1 for a correct prediction, shape (c,).
    """

    rows: IntArray
    design: CrossedDesign
    observations: FloatArray


@dataclass(frozen=True, eq=False)
class Contrast:
    """A mean of observations, or a difference between means, with its standard error.

    The means of a difference can share participants and items. The deviations of the observations
    from both means are subtracted and summed within participants, items and blocks before they are
    squared, as in a paired test. If the means have different designs, the smallest effective
    numbers of participants and items, and the largest of the estimated variances are used.

    Attributes
    ----------
    value
        Mean, or for two means, the first minus the second.
    weight
        Weight of each of the C observations of the study in the mean; for two means, the average of
        both weights; for a difference of contrasts, the difference of their weights, shape (C,).
    deviations
        Deviation of each observation from its mean, times its weight, shape (C,).
    designs
        Design of each mean.
    codes
        Indices of the participant, the item and the block of each of the C observations.
    """

    value: float
    weight: FloatArray
    deviations: FloatArray
    designs: tuple[CrossedDesign, ...]
    codes: FactorCodes

    @classmethod
    def from_means(cls, means: Sequence[SampleMean], study: CrossedDesign) -> Contrast:
        """Create a contrast from one mean, or from the difference between two means.

        Parameters
        ----------
        means
            One mean, or two means of which the second is subtracted.
        study
            Participants and items of all C observations of the study, to which the indices in
            `means` refer.
        """
        value, weight, deviations = 0.0, np.zeros(len(study.item)), np.zeros(len(study.item))
        # All arrays refer to the C observations of the study, so that two means that share
        # participants or items can be subtracted element by element. A single mean has the sign +;
        # of two means, the second is subtracted. `strict=False` ignores the second sign if there is
        # one mean.
        for sign, (rows, design, observations) in zip((1, -1), means, strict=False):
            value += sign * design.average(observations)
            weight[rows] += design.weight / len(means)
            deviations[rows] += sign * design.deviations(observations)
        return cls(value, weight, deviations, tuple(mean.design for mean in means), study.codes)

    def __sub__(self, other: Contrast) -> Contrast:
        """Return the difference between two contrasts of the same study."""
        designs = self.designs + other.designs
        value, weight = self.value - other.value, self.weight - other.weight
        return Contrast(value, weight, self.deviations - other.deviations, designs, self.codes)

    @cached_property
    def squares(self) -> FloatArray:
        """Sums of squared deviations of participants, items and blocks, Q_P, Q_I and Q_B, (3,)."""
        return sums_of_squares(self.deviations, self.codes)

    @property
    def effective_sizes(self) -> tuple[float, float]:
        """Effective numbers of participants and of items, 1 / (sum of squared weights)."""
        # Sums of squared weights of participants, items and blocks, one row per design. The largest
        # sum gives the smallest, most conservative number.
        sums = np.array([design.squared_weights for design in self.designs])
        n_participants, n_items, _ = (1 / sums.max(axis=0)).tolist()
        return n_participants, n_items

    def has_too_few_units(self, item_effects: str) -> bool:
        """Return whether there are too few participants or items for a standard error."""
        rounding = 1e-9  # Effective numbers are computed from sums of squared weights.
        n_participants, n_items = (n + rounding for n in self.effective_sizes)
        if item_effects == "fixed":
            return n_participants < MIN_UNITS
        return n_participants < MIN_PARTICIPANTS or n_items < MIN_UNITS

    def variance_terms(self, item_effects: str) -> tuple[Term, Term, Term]:
        """Return the three terms of the variance of a contrast: V_P, V_I and -V_B.

        V_P is the variance due to participants, V_I due to items, and V_B due to blocks (the
        residual of each participant and item). V_P and V_I both include V_B, which is therefore
        subtracted once. The variance of the contrast is the sum of the terms. `CrossedDesign`
        states the formulas.

        Parameters
        ----------
        item_effects
            ``random``, or ``fixed``, for which only the first term differs from 0.
        """
        n_participants, n_items = self.effective_sizes
        df_participants, df_items = n_participants - 1, n_items - 1
        if item_effects == "fixed":
            # Student's t test over N participants, with the sum of their squared deviations Q_P:
            # variance = Q_P N / (N - 1). The other two terms are 0.
            variance = float(self.squares[0]) * n_participants / df_participants
            return Term(variance, df_participants), Term(0.0, 1.0), Term(0.0, 1.0)
        # Variance components of participants, items and blocks (one participant and one item) add
        # up to the variance of the mean. Estimate their three contributions from sums of squares.
        # The two means of a difference can have different designs: use the largest sum.
        contributions = [design.component_coefficients @ self.squares for design in self.designs]
        from_participants, from_items, from_blocks = max(contributions, key=np.sum).tolist()
        # Quasi-F: (mean square of participants) + (of items) - (of blocks). The mean squares of
        # participants and of items also contain the variance of blocks, which is subtracted once.
        return (
            Term(from_participants + from_blocks, df_participants),
            Term(from_items + from_blocks, df_items),
            Term(-from_blocks, df_participants * df_items),
        )

    def estimate(self, item_effects: str = "random") -> MeanEstimate:
        """Return the value with its standard error and degrees of freedom (quasi-F).

        Parameters
        ----------
        item_effects
            ``random``: the standard error takes participants and items as random samples.
            ``fixed``: it takes only participants as a random sample.

        Returns
        -------
        MeanEstimate
            The standard error is NaN if there are too few participants or items.
        """
        if self.has_too_few_units(item_effects):
            return MeanEstimate(self.value, np.nan, np.nan)
        # Q_P and Q_B: sums of squared deviations of participants, and of combinations of a
        # participant and an item.
        participant_squares, _, block_squares = self.squares.tolist()
        min_variance = participant_squares if item_effects == "fixed" else block_squares
        if min_variance == 0.0:
            # No value deviates from the mean, so the standard error is 0.
            return MeanEstimate(self.value, 0.0, sum(self.effective_sizes) - 2)
        participants, items, residual = self.variance_terms(item_effects)
        variance, df = satterthwaite([participants, items, residual], min_variance)
        # Share of the variance that is due to items, (V_I - V_B) / V: the residual term is -V_B.
        item_share = float(np.clip((items.variance + residual.variance) / variance, 0.0, 1.0))
        return MeanEstimate(self.value, float(np.sqrt(variance)), df, item_share)


def sums_of_squares(values: FloatArray, codes: FactorCodes) -> FloatArray:
    """Return the sums of squares of participants, items and blocks, shape (3,).

    For each of these three factors, the values of the C observations are summed within each level
    of the factor, for example within each participant. The squares of these sums are added.
    """
    # Sum of the values of each level, for example of each participant; then Q = sum of squares.
    level_sums = [np.bincount(level_codes, values) for level_codes in codes]
    return np.array([sums @ sums for sums in level_sums])


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
    # The absolute sum of the negative terms is a lower bound of the variance.
    subtracted = -sum(term.variance for term in terms if term.variance < 0)
    total = sum(term.variance for term in terms)
    variance = max(total, subtracted if subtracted > 0 else minimum)
    # df = v² / sum of (v_i² / df_i).
    spread = sum(term.variance**2 / term.df for term in terms)
    return variance, variance**2 / spread if spread else np.inf
