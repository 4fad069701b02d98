"""Means over participants and items that are both random: quasi-F standard errors and t tests.

A participant x item table has a mean square of participants, of items and of what remains. With
both random, the variance of its mean is (MS_participants + MS_items - MS_residual) / (N K), and the
ratio of the mean to its standard error has approximately a t distribution with Satterthwaite's
degrees of freedom: the quasi-F test of Clark (1973), doi 10.1016/S0022-5371(73)80014-3. Tables with
missing cells use the same components of variance, estimated by Henderson's method of moments
(Henderson 1953, doi 10.2307/3001853; Gao & Owen 2017, doi 10.1214/17-EJS1236).

A *cell* is a number for one choice: whether the model predicts it, or the influence of the choice
on the participant's value. Each participant has the same weight in the mean. All cells that a
participant has for one item form a *block*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from contstim.arrays import BoolArray, FloatArray, IntArray

#: Whether tests generalise to new items of the kind, or to new participants on the same items only.
ITEM_EFFECTS = ("random", "fixed")

#: Minimum number of participants, items or groups for inference about a population.
MIN_UNITS = 3
#: Minimum number of participants if items are random too. With three participants, tests had a
#: type-I error of 7 % in simulated studies.
MIN_PARTICIPANTS = 4

# Least-squares sweeps over the factors.
_MAX_SWEEPS = 500
# A Latin square with missing choices has at least this share of all blocks.
_MIN_COMPLETE = 0.8
# Squared differences in weight between conditions, as a share of the squared weights.
_MAX_IMBALANCE = 0.02


@dataclass(frozen=True)
class MeanEstimate:
    """An estimate with its standard error.

    Attributes
    ----------
    value
        The estimate.
    stderr
        Its standard error. NaN if there are too few participants or items, 0 if all cells are
        equal.
    df
        Degrees of freedom of its t distribution.
    shares
        Shares of the variance that are due to participants and to items.
    sizes
        Effective numbers of participants and items.
    """

    value: float
    stderr: float
    df: float
    shares: tuple[float, float] = (np.nan, np.nan)
    sizes: tuple[float, float] = (np.nan, np.nan)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the two-sided confidence interval, value ± t(df) stderr."""
        margin = float(stdtrit(self.df, (1 + level) / 2)) * self.stderr
        return self.value - margin, self.value + margin

    def p(self, null: float = 0.0) -> float:
        """Return the two-sided p-value for the hypothesis that the mean equals `null`."""
        if self.stderr == 0.0:
            return 1.0 if self.value == null else 0.0
        return float(2 * stdtr(self.df, -abs(self.t_statistic(null))))

    def p_equivalence(self, margin: float) -> float:
        """Return the p-value for the hypothesis that the mean is `margin` or more away from 0.

        The larger p-value of two one-sided tests (Schuirmann 1987, doi 10.1007/BF01068419).
        """
        if self.stderr == 0.0:
            return 0.0 if abs(self.value) < margin else 1.0
        return float(stdtr(self.df, max(self.t_statistic(margin), -self.t_statistic(-margin))))

    def t_statistic(self, null: float = 0.0) -> float:
        """Return the t statistic for the hypothesis that the mean equals `null`."""
        return (self.value - null) / self.stderr

    def fisher_z(self, chance: float, maximum: float = 1.0) -> MeanEstimate:
        """Return the estimate on Fisher's z scale, artanh((value - chance) / (maximum - chance)).

        The standard error follows by the delta method. For an accuracy, z is half the logit.
        """
        share = (self.value - chance) / (maximum - chance)
        slope = 1.0 / ((1.0 - share * share) * (maximum - chance))
        return replace(self, value=float(np.arctanh(share)), stderr=self.stderr * slope)

    def has_fisher_z(self, chance: float, maximum: float = 1.0) -> bool:
        """Return whether the value has a place on Fisher's z scale, and a standard error."""
        return self.stderr > 0 and abs(self.value - chance) < (1.0 - 1e-9) * (maximum - chance)

    def bounded_interval(
        self, chance: float, level: float = 0.95, maximum: float = 1.0
    ) -> tuple[float, float]:
        """Return the confidence interval found on Fisher's z scale and transformed back.

        Values that have no place on that scale get the t interval, cut at the possible values.
        """
        if self.has_fisher_z(chance, maximum):
            ends = np.tanh(self.fisher_z(chance, maximum).interval(level))
            low, high = chance + (maximum - chance) * ends
            return float(low), float(high)
        low, high = self.interval(level)
        minimum = 2 * chance - maximum
        if self.value < minimum - 1e-9:  # a measure without a lowest value
            return low, high
        return max(low, min(minimum, self.value)), min(high, max(maximum, self.value))

    def p_chance(self, chance: float, maximum: float = 1.0) -> float:
        """Return the p-value for `chance`, below 0.05 where `bounded_interval` excludes it."""
        on_scale = self.has_fisher_z(chance, maximum)
        return self.fisher_z(chance, maximum).p() if on_scale else self.p(chance)

    def sizes_needed(self, power: float = 0.8) -> tuple[float, float]:
        """Return by which factor participants, or items, must grow for the given power.

        If the true mean equals the estimate, p < 0.05 has the probability `power` when the standard
        error is |value| / (z_0.975 + z_power). The share of the variance that the other kind
        contributes stays; the rest decreases in proportion. Infinite if growth cannot suffice.
        """
        if self.stderr == 0.0:
            return 1.0, 1.0
        wanted = (self.value / self.stderr / float(ndtri(0.975) + ndtri(power))) ** 2
        people, items = (
            (1.0 - fixed) / (wanted - fixed) if fixed < min(wanted, 1.0) else np.inf
            for fixed in self.shares[::-1]
        )
        return people, items


_UNKNOWN = MeanEstimate(np.nan, np.nan, np.nan)


@dataclass(frozen=True, eq=False)
class CrossedDesign:
    """The participant and the item of each of C cells.

    Attributes
    ----------
    participant, item
        Codes of the participant and of the item, shape (C,).

    Notes
    -----
    Cell c of a participant with n_p cells has the weight w_c = 1 / (N n_p) and the deviation
    e_c = x_c - mean. Q_P, Q_I and Q_E are the sums of squares of w e, summed within participants,
    items and blocks. Their expectations are linear in the variances of participants, items and
    blocks (`moments`); solving for these gives unbiased estimates s_P, s_I and s_E. With
    v_k = s_k times the sum of squared weights of kind k (`squares`),

        variance of the mean = V_P + V_I - V_E,  V_P = v_P + v_E,  V_I = v_I + v_E,  V_E = v_E,
        df = variance^2 / (V_P^2 / (N - 1) + V_I^2 / (K - 1) + V_E^2 / ((N - 1) (K - 1))).

    In a complete table V_P = MS_participants / (N K), and likewise for V_I and V_E. The variance is
    not taken to be less than V_E. N and K are effective numbers, 1 / the sum of squared weights.
    """

    participant: IntArray
    item: IntArray

    @cached_property
    def weight(self) -> FloatArray:
        """Weight of each cell in the mean, shape (C,)."""
        sizes = np.bincount(self.participant)
        return np.asarray(1.0 / (np.count_nonzero(sizes) * sizes[self.participant]))

    @cached_property
    def block(self) -> IntArray:
        """Code of the block of each cell, shape (C,)."""
        return block_codes(self.participant, self.item)

    @cached_property
    def _weights(self) -> FloatArray:
        return block_weights(self.weight, self.participant, self.item, self.block)

    @cached_property
    def squares(self) -> FloatArray:
        """Sums of squared weights of participants, items and blocks, shape (3,)."""
        return np.asarray((self._weights[2] * self._weights).sum(axis=1))

    @cached_property
    def moments(self) -> FloatArray:
        """Expectation of each Q (rows) per unit of variance of each kind (columns), (3, 3)."""
        return expected_squares(self._weights)

    @property
    def sizes(self) -> tuple[float, float]:
        """Effective numbers of participants and of items."""
        return 1 / float(self.squares[0]), 1 / float(self.squares[1])

    def average(self, cells: FloatArray) -> FloatArray:
        """Return the mean over participants of `cells` (..., C)."""
        mean = cells @ self.weight
        if not cells.size:
            return np.asarray(mean)
        # Exact if all cells are equal, so that equal models differ by 0.
        return np.where(np.ptp(cells, axis=-1) == 0, cells[..., 0], mean)

    def deviations(self, cells: FloatArray) -> FloatArray:
        """Return the weighted deviations w (x - mean) of `cells`, shape (..., C)."""
        return np.asarray(self.weight * (cells - self.average(cells)[..., None]))

    def estimate(self, cells: FloatArray, population: str = ITEM_EFFECTS[0]) -> MeanEstimate:
        """Return the mean of `cells` (C,) over participants with its standard error."""
        q = sums_of_squares(self.deviations(cells), self.participant, self.item, self.block)
        return sampled_mean(float(self.average(cells)), q, (self,), population)

    def estimate_ratio(
        self, cells: FloatArray, largest: FloatArray, chance: float, population: str = "random"
    ) -> tuple[MeanEstimate, float]:
        """Return the mean of `cells` (C,), and of the `largest` that are possible, (C,).

        The standard error is that of the ratio s = (mean - chance) / (largest mean - chance) times
        its denominator, by the delta method: that of the cells x - s (largest - mean of largest).
        With these, `bounded_interval` is that of the ratio on Fisher's z scale.

        Source
        ------
        Cochran (1977), Sampling techniques, ch. 6, for ratios.
        """
        most = float(self.average(largest))
        share = (float(self.average(cells)) - chance) / (most - chance)
        return self.estimate(cells - share * (largest - most), population), most


def block_codes(*codes: IntArray) -> IntArray:
    """Return a code for each distinct combination of codes, shape (C,)."""
    combined = codes[0]
    for other in codes[1:]:
        combined = combined * (int(other.max(initial=0)) + 1) + other
    return np.asarray(np.unique(combined, return_inverse=True)[1], dtype=np.int64)


def block_weights(
    weight: FloatArray, participant: IntArray, item: IntArray, block: IntArray
) -> FloatArray:
    """Return the weights of each block's participant, of its item, and its own, shape (3, B)."""
    first = np.unique(block, return_index=True)[1]
    sums = (np.bincount(codes, weight)[codes[first]] for codes in (participant, item, block))
    return np.stack(list(sums)).astype(np.float64)


def expected_squares(weights: FloatArray) -> FloatArray:
    """Return the expectation of Q_P, Q_I and Q_E (rows) per unit of each variance (columns).

    Parameters
    ----------
    weights
        As `block_weights` returns them, shape (3, B).
    """
    squares = (weights[2] * weights).sum(axis=1)
    common = (weights[2] * weights) @ weights.T
    joint = np.where(np.eye(3, dtype=bool), squares, squares[2])
    return np.asarray(joint - common - common.T + np.outer(squares, squares))


def sums_of_squares(
    deviations: FloatArray, participant: IntArray, item: IntArray, block: IntArray
) -> FloatArray:
    """Return Q_P, Q_I and Q_E of weighted deviations (..., C), shape (..., 3)."""
    rows = deviations.reshape(-1, deviations.shape[-1])
    q = np.empty((len(rows), 3))
    for kind, codes in enumerate((participant, item, block)):
        n = int(codes.max(initial=-1)) + 1
        bins = (codes + n * np.arange(len(rows))[:, None]).ravel()
        sums = np.bincount(bins, rows.ravel(), n * len(rows)).reshape(len(rows), n)
        q[:, kind] = np.einsum("sc,sc->s", sums, sums)
    return q.reshape(*deviations.shape[:-1], 3)


def variance_components(q: FloatArray, moments: FloatArray, squares: FloatArray) -> FloatArray:
    """Return v_P, v_I and v_E, the contributions to the variance of the mean, shape (3,)."""
    size = np.sqrt(np.diagonal(moments))
    scale = np.where(size > 0, size, 1.0)
    # Where each item has one block, items and blocks are the same; any solution will do.
    solved = np.linalg.lstsq(moments / np.outer(scale, scale), q / scale, rcond=1e-10)[0]
    return np.asarray(squares * solved / scale)


def satterthwaite(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return a sum of mean squares and its degrees of freedom.

    Parameters
    ----------
    parts
        Signed mean squares, each times its coefficient, and their degrees of freedom.

    Source
    ------
    Satterthwaite (1946), doi 10.2307/3002019: df = (sum of v)^2 / sum of (v^2 / df of v).

    Examples
    --------
    >>> satterthwaite([(2.0, 10), (2.0, 10)])
    (4.0, 20.0)
    """
    variance = sum((part for part, _ in parts), 0.0)
    spread = sum(part**2 / df for part, df in parts)
    return variance, variance**2 / spread if spread else np.inf


def sampled_mean(
    value: float,
    q: FloatArray,
    designs: Sequence[CrossedDesign],
    population: str = ITEM_EFFECTS[0],
) -> MeanEstimate:
    """Return a mean, or a difference of means, with its standard error (see `CrossedDesign`).

    Parameters
    ----------
    value
        The estimate.
    q
        `sums_of_squares` of what each cell contributes to it, shape (3,).
    designs
        The designs of the means that were subtracted. The largest variance that one of them gives
        is used, and the smallest effective numbers of participants and items.
    population
        One of `ITEM_EFFECTS`.
    """
    people, items = (min(design.sizes[kind] for design in designs) for kind in (0, 1))
    if _too_few(people, items, population):
        return MeanEstimate(value, np.nan, np.nan)
    if population == ITEM_EFFECTS[1]:
        variance = float(q[0]) * people / (people - 1)
        return MeanEstimate(value, np.sqrt(variance), people - 1, (1.0, 0.0), (people, np.inf))
    if q[2] == 0.0:
        return MeanEstimate(value, 0.0, people + items - 2)
    every = [variance_components(q, d.moments, d.squares) for d in designs]
    v = max(every, key=lambda v: float(v.sum()))
    parts = _mean_squares(v, people - 1, items - 1)
    variance, df = _at_least_residual(parts, float(q[2]))
    shares = np.clip(v[:2] / variance, 0.0, 1.0)
    shares /= max(float(shares.sum()), 1.0)
    stderr = float(np.sqrt(variance))
    return MeanEstimate(value, stderr, df, (float(shares[0]), float(shares[1])), (people, items))


def _too_few(people: float, items: float, population: str) -> bool:
    # Sizes are sums of squared weights, with rounding error.
    if population == ITEM_EFFECTS[1]:
        return people < MIN_UNITS - 1e-9
    return people < MIN_PARTICIPANTS - 1e-9 or items < MIN_UNITS - 1e-9


def _mean_squares(v: FloatArray, df_people: float, df_items: float) -> list[tuple[float, float]]:
    """Return V_P, V_I and -V_E with their degrees of freedom."""
    return [
        (float(v[0] + v[2]), df_people),
        (float(v[1] + v[2]), df_items),
        (-float(v[2]), df_people * df_items),
    ]


def _at_least_residual(parts: Sequence[tuple[float, float]], blocks: float) -> tuple[float, float]:
    """Return variance and degrees of freedom of signed mean squares.

    The variance is at least the residual part; at least `blocks`, the sum of squares of blocks,
    where that part is not positive (which only incomplete tables allow).
    """
    variance = sum(part for part, _ in parts)
    residual = -sum(part for part, _ in parts if part < 0)
    least = max(variance, residual if residual > 0 else blocks)
    spread = sum(part**2 / df for part, df in parts)
    return least, least**2 / spread if spread else np.inf


#: The cells of one mean: their rows among all cells, their design, and their values (..., c).
CellMean = tuple[IntArray, CrossedDesign, FloatArray]


def estimate_differences(
    first: CellMean,
    second: CellMean,
    participant: IntArray,
    item: IntArray,
    population: str = ITEM_EFFECTS[0],
) -> list[MeanEstimate]:
    """Return the difference of two means in each of S studies of one design.

    With both means over the same cells, this is the mean of the differences of cells. Otherwise
    contributions to the difference are summed over both means before they are squared.

    Parameters
    ----------
    first, second
        The two means, with values of shape (S, c).
    participant, item
        Codes of all cells, shape (C,).
    population
        One of `ITEM_EFFECTS`.
    """
    (rows_1, design_1, cells_1), (rows_2, design_2, cells_2) = first, second
    values = design_1.average(cells_1) - design_2.average(cells_2)
    if design_1 is design_2:
        deviations = design_1.deviations(cells_1 - cells_2)
        q = sums_of_squares(deviations, design_1.participant, design_1.item, design_1.block)
        designs = [design_1]
    else:
        deviations = np.zeros((len(cells_1), len(item)))
        deviations[:, rows_1] += design_1.deviations(cells_1)
        deviations[:, rows_2] -= design_2.deviations(cells_2)
        q = sums_of_squares(deviations, participant, item, block_codes(participant, item))
        designs = [design_1, design_2]
    return [
        sampled_mean(float(value), row, designs, population)
        for value, row in zip(values, q, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class _Condition:
    """What each of C cells contributes to a mean, or to a difference of means, in one condition."""

    value: float
    deviations: FloatArray
    weight: FloatArray
    v: FloatArray
    sizes: tuple[float, float]

    @classmethod
    def of(
        cls, means: Sequence[CellMean], participant: IntArray, item: IntArray, block: IntArray
    ) -> _Condition:
        value, deviations, weight = 0.0, np.zeros(len(item)), np.zeros(len(item))
        for sign, (rows, design, cells) in zip((1, -1), means, strict=False):
            value += sign * float(design.average(cells))
            deviations[rows] += sign * design.deviations(cells)
            weight[rows] += design.weight / len(means)
        q = sums_of_squares(deviations, participant, item, block)
        every = [variance_components(q, d.moments, d.squares) for _, d, _ in means]
        v = max(every, key=lambda v: float(v.sum()))
        people, items = (min(d.sizes[kind] for _, d, _ in means) for kind in (0, 1))
        return cls(value, deviations, weight, v, (people, items))


def estimate_contrast(
    first: Sequence[CellMean],
    second: Sequence[CellMean],
    participant: IntArray,
    item: IntArray,
    population: str = ITEM_EFFECTS[0],
) -> MeanEstimate:
    """Return the difference of a mean, or of a difference of means, between two conditions.

    Parameters
    ----------
    first, second
        The mean, or the two means of a difference, in each condition. Either the same participants
        are in both conditions, or different ones; likewise for items.
    participant, item
        Codes of all cells, shape (C,).
    population
        One of `ITEM_EFFECTS`.

    Notes
    -----
    - *Same participants and items, every block in both conditions*: the test of the mean of the
      differences within blocks (`CrossedDesign`).
    - *Same participants and items, every block in one condition, each participant and each item
      with equal weights in both* (a Latin square): the quasi-F of signed residuals, see
      `_latin_square`.
    - *Otherwise*: the variance of either condition's mean, less
      twice their covariance. The covariance is that of the shared items (or participants):
      K / (K - 1) times the sum of products of their deviations in the two conditions. In complete
      tables this is the quasi-F for participants nested in conditions and crossed with items
      (Winer, Brown & Michels 1991), (MS_participants + MS_items:condition - MS_residual) /(N K)
      summed over conditions. It is conservative where participants are in both conditions with
      other items in each.

    With `"fixed"` it is Student's t test of differences within participants, or Welch's
    test between them.
    """
    block = block_codes(participant, item)
    a, b = (_Condition.of(means, participant, item, block) for means in (first, second))
    value = a.value - b.value
    if any(_too_few(*condition.sizes, population) for condition in (a, b)):
        return MeanEstimate(value, np.nan, np.nan)
    is_shared = [_has_both(codes, a, b) for codes in (participant, item, block)]
    q = sums_of_squares(a.deviations - b.deviations, participant, item, block)
    people, items = (np.array([c.sizes[kind] for c in (a, b)]) for kind in (0, 1))
    if population == ITEM_EFFECTS[1]:
        if is_shared[0].any():
            variance, df = float(q[0] * people.min() / (people.min() - 1)), people.min() - 1
        else:
            sums = [sums_of_squares(c.deviations, participant, item, block)[0] for c in (a, b)]
            variance, df = satterthwaite(
                [(float(s * n / (n - 1)), n - 1) for s, n in zip(sums, people, strict=True)]
            )
        return MeanEstimate(value, float(np.sqrt(variance)), df)
    if q[2] == 0.0:
        return MeanEstimate(value, 0.0, np.inf)
    if is_shared[2].any() and np.array_equal(is_shared[2], _has_either(block, a, b)):
        designs = [design for means in (first, second) for _, design, _ in means]
        return sampled_mean(value, q, designs, population)
    if _is_latin_square(a, b, participant, item):
        return _latin_square(value, a, b, participant, item)
    parts: list[tuple[float, float]] = []
    for kind, (codes, sizes) in enumerate(((participant, people), (item, items))):
        each = [(float(c.v[kind] + c.v[2]), n - 1) for c, n in zip((a, b), sizes, strict=True)]
        if is_shared[kind].any():
            n = float(sizes.min())
            sums = [np.bincount(codes, c.deviations) for c in (a, b)]
            covariance = n / (n - 1) * float(sums[0] @ sums[1])
            each = [(sum(part for part, _ in each) - 2 * covariance, n - 1)]
        parts += each
    for c in (a, b):
        parts.append((-float(c.v[2]), (c.sizes[0] - 1) * (c.sizes[1] - 1)))
    variance, df = _at_least_residual(parts, float(q[2]))
    return MeanEstimate(value, float(np.sqrt(variance)), df)


def _has_both(codes: IntArray, a: _Condition, b: _Condition) -> BoolArray:
    """Return which of the coded units have cells in both conditions."""
    return np.asarray((np.bincount(codes, a.weight) > 0) & (np.bincount(codes, b.weight) > 0))


def _has_either(codes: IntArray, a: _Condition, b: _Condition) -> BoolArray:
    return np.asarray(np.bincount(codes, a.weight + b.weight) > 0)


def _is_latin_square(a: _Condition, b: _Condition, participant: IntArray, item: IntArray) -> bool:
    """Return whether participants saw nearly all items, nearly half of them in each condition."""
    sizes = [np.count_nonzero(_has_either(codes, a, b)) for codes in (participant, item)]
    blocks = np.count_nonzero(_has_either(block_codes(participant, item), a, b))
    imbalances = [
        (np.bincount(codes, a.weight - b.weight) ** 2).sum()
        / (np.bincount(codes, a.weight + b.weight) ** 2).sum()
        for codes in (participant, item)
    ]
    is_complete = blocks >= _MIN_COMPLETE * sizes[0] * sizes[1]
    return bool(is_complete and max(imbalances) < _MAX_IMBALANCE)


def _latin_square(
    value: float, a: _Condition, b: _Condition, participant: IntArray, item: IntArray
) -> MeanEstimate:
    """Return a contrast of two conditions in which each participant sees each item once.

    Effects of participants, items and conditions are removed by least squares. The residuals, with
    opposite signs in the two conditions, form a participant x item table; its quasi-F has N - L and
    K - L degrees of freedom, L = 2 N K / (number of blocks) being 2 in a complete square with two
    lists: participants vary within lists (Pollatsek & Well 1995, doi 10.1037/0278-7393.21.3.785).
    If choices are missing, items (and participants) have slightly unequal weights in the two
    conditions: the variance of their effects times the sum of squared differences in weight is
    added.
    """
    weight = np.concatenate([a.weight, b.weight])
    rows = weight > 0
    signed = np.concatenate([a.weight, -b.weight])[rows]
    deviations = np.concatenate([a.deviations, -b.deviations])[rows]
    kinds = [np.tile(codes, 2)[rows] for codes in (participant, item)]
    kinds = [np.unique(codes, return_inverse=True)[1] for codes in kinds]
    condition = (signed < 0).astype(np.int64)
    block = block_codes(*kinds, condition)
    lead = np.unique(block, return_index=True)[1]
    signed, deviations = (np.bincount(block, x).astype(np.float64) for x in (signed, deviations))
    codes = [k[lead] for k in (*kinds, condition)]
    deviations = deviations / signed
    residual, effects = _remove_effects(deviations, np.abs(signed), codes)
    if residual @ residual <= 1e-20 * (deviations @ deviations):  # rounding error only
        residual = np.zeros(len(residual))
    (people, items, _), n_rows = codes, len(signed)
    n_people, n_items = (int(code.max()) + 1 for code in (people, items))
    weights = block_weights(np.abs(signed) / 2, people, items, np.arange(n_rows))
    squares = (weights[2] * weights).sum(axis=1)
    n, k = 1 / squares[:2]
    lists = 2 * n_people * n_items / n_rows
    df = np.array([n - lists, k - lists])
    df_rows = n_rows - n_people - n_items
    if min(*df, df_rows) < 1 - 1e-9:
        return MeanEstimate(value, np.nan, np.nan)
    left, left_rows = df / (np.array([n, k]) - 1), df_rows / (n_rows - 1)
    moments = expected_squares(weights) * [
        [left[0], 1.0, left[0]],
        [1.0, left[1], left[1]],
        [left[0], left[1], left_rows],
    ]
    q = sums_of_squares(signed * residual, people, items, np.arange(n_rows))
    parts = _mean_squares(variance_components(q, moments, squares), *df.tolist())
    variance, df_all = _at_least_residual(parts, float(q[2]))
    uneven = [
        (float(np.var(effect, ddof=1) * (np.bincount(code, signed) ** 2).sum()), len(effect) - 1)
        for code, effect in zip((people, items), effects, strict=False)
    ]
    variance, df_all = satterthwaite([(variance, df_all), *uneven])
    return MeanEstimate(value, float(np.sqrt(variance)), df_all)


def _remove_effects(
    y: FloatArray, weight: FloatArray, codes: Sequence[IntArray]
) -> tuple[FloatArray, list[FloatArray]]:
    """Return residuals of a weighted additive fit of factors, and their effects (backfitting)."""
    totals = [np.bincount(code, weight) for code in codes]
    effects = [np.zeros(len(total)) for total in totals]
    for _ in range(_MAX_SWEEPS):
        change = 0.0
        for effect, code, total in zip(effects, codes, totals, strict=True):
            step = np.bincount(code, weight * y) / total
            effect += step
            y = y - step[code]
            change = max(change, float(np.abs(step).max()))
        if change < 1e-12:
            break
    return y, effects
