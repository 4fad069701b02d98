"""Means over people and sentences that are both sampled: standard errors, intervals, p-values.

A study's claim is about people and sentences like those at hand, so both are a sample, crossed:
every participant judged several pairs and most pairs were judged by several participants. What is
averaged is written as one number per choice (a *cell*: this participant, this pair); the mean
weighs participants alike. Pairs that were made of one another are one *item*, and items are what
is sampled; a pair without kin is an item of its own. The variance of the mean has a part from
participants, one from items, and one from what is left, and no bootstrap is needed to find them.

Measures that are no plain means over trials, such as the signed-rank cosine, enter by the
influence of each trial (the infinitesimal jackknife, Jaeckel 1972): numbers whose mean is the
measure and whose deviations are n times its derivative by the weight of the trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.special import ndtri, stdtr, stdtrit

from contstim.arrays import FloatArray, IntArray

#: What a test speaks of: these sentences (people are sampled), or such sentences (both are).
POPULATIONS = ("such sentences", "these sentences")

#: Fewer people, sentences or groups than this say nothing about others like them.
FEWEST = 3
#: And fewer people than this, if sentences are sampled too: with three, whose share in the variance
#: has two degrees of freedom, and 120 sentences tests erred in 7 % of simulated studies.
FEWEST_PEOPLE = 4

#: What share of the skewness of few items `contrast_of` goes by, see there.
TRUSTED_SKEWNESS = 0.25
#: By how many standard errors `CellDesign.lean` is followed to see how a measure bends.
STEP = 0.5


@dataclass(frozen=True)
class SampledMean:
    """An estimate, and how far it would move with other people and sentences.

    Attributes
    ----------
    value
        The mean.
    stderr
        Its standard error; NaN where the design cannot tell, 0 where every cell is alike.
    df
        Degrees of freedom of Student's distribution that interval and p-value share.
    shares
        Of the variance that is due to participants and to sentences; the rest falls with more of
        either.
    sizes
        How many participants and sentences there are, counted by their weight.
    """

    value: float
    stderr: float
    df: float
    shares: tuple[float, float] = (np.nan, np.nan)
    sizes: tuple[float, float] = (np.nan, np.nan)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of the two-sided interval; NaN without a standard error."""
        reach = float(stdtrit(self.df, (1 + level) / 2)) * self.stderr
        return self.value - reach, self.value + reach

    def p(self, null: float = 0.0) -> float:
        """Return the two-sided p-value of the hypothesis that the mean is `null`.

        It is below 0.05 exactly where the 95 % interval leaves `null` out; NaN without a standard
        error, 1 where all cells are `null`.
        """
        if self.stderr == 0.0:
            return 1.0 if self.value == null else 0.0
        return float(2 * stdtr(self.df, -abs(self._standing(null))))

    def p_equivalence(self, margin: float) -> float:
        """Return the p-value of the hypothesis that the mean is `margin` or more away from 0.

        The larger of two one-sided p-values (Schuirmann 1987, doi 10.1007/BF01068419); below 0.05
        exactly where the 90 % interval lies within the margin.
        """
        if self.stderr == 0.0:
            return 0.0 if abs(self.value) < margin else 1.0
        return float(stdtr(self.df, max(self._standing(margin), -self._standing(-margin))))

    def _standing(self, null: float) -> float:
        """Return the number whose distribution is Student's if the mean is `null`."""
        return (self.value - null) / self.stderr

    def on_z(self, chance: float, top: float = 1.0) -> SampledMean:
        """Return the same on Fisher's scale, z = artanh((value - chance) / (top - chance)).

        Accuracies and similarities vary less the nearer they come to the highest they can be,
        which makes Student's intervals of them too short on one side and too long on the other; on
        this scale they vary alike (Fisher 1921). For an accuracy it is half the log-odds.
        """
        share = (self.value - chance) / (top - chance)
        slope = 1.0 / ((1.0 - share * share) * (top - chance))
        return replace(self, value=float(np.arctanh(share)), stderr=self.stderr * slope)

    def bounded_interval(
        self,
        chance: float,
        level: float = 0.95,
        top: float = 1.0,
        tilted: tuple[float, float] | None = None,
    ) -> tuple[float, float]:
        """Return the interval found on Fisher's scale; within it no value passes `top`.

        Where that scale does not hold the value, it is the plain one as far as values are possible.

        Parameters
        ----------
        chance, top
            The ends of the scale: what guessing gives, and the highest possible value.
        level
            How often the interval is to hold the mean.
        tilted
            The value if items weigh `STEP` times their `CellDesign.lean` less, and more: where
            both are not as far from it, on this scale, the ends follow the bend. They are where
            the value comes as pairs weigh ever less, or more, up to Student's quantile t: those
            of percentile intervals along the direction of steepest change (DiCiccio & Efron
            1992, doi 10.1093/biomet/79.2.231), less the bias that the bend gives, so that a bend
            of c t^2 moves both ends by c (t^2 - 1).
        """
        if not self.inside(chance, top):
            low, high = self.interval(level)
            if self.value < 2 * chance - top - 1e-9:  # a measure without a lowest value
                return low, high
            low = max(low, min(2 * chance - top, self.value))  # which may be off by rounding
            return low, min(high, max(top, self.value))
        z = self.on_z(chance, top)
        ends = np.array(z.interval(level))
        reach = float(ends[1] - z.value)
        shares = (np.array(np.nan if tilted is None else tilted) - chance) / (top - chance)
        if (np.abs(shares) < 1.0).all():  # with weights a value may pass the top
            less, more = np.arctanh(shares)
            bend = (less + more - 2 * z.value) / (2 * STEP**2) * ((reach / z.stderr) ** 2 - 1)
            ends = ends + np.clip(bend, -reach / 2, reach / 2)  # no further, to stay in order
        low, high = chance + (top - chance) * np.tanh(ends)
        return float(low), float(high)

    def p_chance(self, chance: float, top: float = 1.0) -> float:
        """Return the p-value of `chance`, below 0.05 where `bounded_interval` leaves it out."""
        return self.on_z(chance, top).p() if self.inside(chance, top) else self.p(chance)

    def inside(self, chance: float, top: float = 1.0) -> bool:
        """Return whether Fisher's scale holds the value: it is not perfect, nor sure."""
        return self.stderr > 0 and abs(self.value - chance) < (1.0 - 1e-9) * (top - chance)

    def factors(self, distance: float, power: float = 0.8) -> tuple[float, float]:
        """Return how many times the participants, or the sentences, would decide.

        Parameters
        ----------
        distance
            How far the mean is taken to lie from what it is tested against.
        power
            With what probability p is then to fall below 0.05.

        Returns
        -------
        tuple
            The factor by which participants would have to grow in number with the sentences as
            they are, and the reverse; 1 where nothing is in doubt, infinite where more of that
            kind alone cannot do it.
        """
        if self.stderr == 0.0:
            return 1.0, 1.0
        return self._factor(0, distance, power), self._factor(1, distance, power)

    def _factor(self, grown: int, distance: float, power: float) -> float:
        """Return how many times as many participants (0) or sentences (1) are needed."""
        growing, fixed = self.shares[grown], self.shares[1 - grown]
        rest = max(1.0 - growing - fixed, 0.0)
        reach = float(ndtri(0.975) + ndtri(power))
        factor = 1.0
        for _ in range(20):  # degrees of freedom grow too
            left = (distance / reach / self.stderr) ** 2 - fixed
            if not (left > 0 and fixed < 1.0):
                return np.inf
            factor = (1.0 - fixed) / left
            df_own = max(self.sizes[grown] * factor - 1, 1.0)
            df_fixed = self.sizes[1 - grown] - 1
            falling = (growing + rest) / factor
            spread = falling**2 / df_own + (fixed + rest / factor) ** 2 / df_fixed
            df = max((falling + fixed) ** 2 / spread, min(df_own, df_fixed))
            reach = float(stdtrit(df, 0.975) + stdtrit(df, power))
        return factor


@dataclass(frozen=True)
class BoundedDifference(SampledMean):
    """A difference of two means that is tested, and has its interval, on Fisher's scale.

    There it is the difference e of their places. Differences are brought back along the line on
    which the means move as their difference does, each by its share in its variance.

    Attributes
    ----------
    on_scale
        e, with its standard error.
    ends
        The two means, as shares of the way from chance to the top.
    moves
        By how much the first mean moves if the difference does by 1; the second by that less 1.
    way
        From chance to the top.
    """

    on_scale: SampledMean = SampledMean(np.nan, np.nan, np.nan)
    ends: tuple[float, float] = (np.nan, np.nan)
    moves: float = 0.5
    way: float = 1.0

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of the two-sided interval.

        A step x up leads to u = first + moves x and w = second - (1 - moves) x, and there
        tanh(artanh u - artanh w) = (u - w) / (1 - u w) is that of the end on Fisher's scale: a
        quadratic equation.
        """
        first, second = self.ends
        t = np.tanh(self.on_scale.interval(level))
        slope = 1 + t * (self.moves * second - (1 - self.moves) * first)
        left = t * (1 - first * second) - (first - second)
        root = np.sqrt(slope**2 - 4 * t * self.moves * (1 - self.moves) * left)
        low, high = self.value + self.way * 2 * left / (slope + root)
        return float(low), float(high)

    def p(self, null: float = 0.0) -> float:
        """Return the two-sided p-value of the hypothesis that the difference is `null`."""
        return self.on_scale.p(self._place(null))

    def p_equivalence(self, margin: float) -> float:
        """Return the p-value of the hypothesis that it is `margin` or more away from 0."""
        low, high = self._place(-margin), self._place(margin)
        room = min(high - self.on_scale.value, self.on_scale.value - low)
        if self.on_scale.stderr == 0.0:
            return 0.0 if room > 0 else 1.0
        return float(stdtr(self.df, -room / self.on_scale.stderr))

    def _place(self, difference: float) -> float:
        """Return where a difference lies on Fisher's scale; infinite where there is no room."""
        step = (difference - self.value) / self.way
        first = self.ends[0] + self.moves * step
        second = self.ends[1] - (1 - self.moves) * step
        if max(abs(first), abs(second)) >= 1:
            return float(np.copysign(np.inf, first - second))
        return float(np.arctanh(first) - np.arctanh(second))


@dataclass(frozen=True)
class SkewedMean(SampledMean):
    """A mean that is skewed: t = (value - mean) / stderr is bent before it is Student's.

    Attributes
    ----------
    skewness
        Of the mean, a number g; t + g t^2 / 3 + g^2 t^3 / 27 + g / 6 = x has Student's
        distribution. It grows with t, and t = 3 (c - 1) / g, with c^3 = 1 + g x - g^2 / 6 (Hall
        1992, doi 10.1111/j.2517-6161.1992.tb01872.x).
    """

    skewness: float = 0.0

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of the two-sided interval; NaN without a standard error."""
        x = np.array([1.0, -1.0]) * stdtrit(self.df, (1 + level) / 2) - self.skewness / 6
        c = np.cbrt(1 + self.skewness * x)
        low, high = self.value - self.stderr * 3 * x / (c * c + c + 1)
        return float(low), float(high)

    def _standing(self, null: float) -> float:
        t, g = super()._standing(null), self.skewness
        return t + g * t**2 / 3 + g**2 * t**3 / 27 + g / 6


@dataclass(frozen=True, eq=False)
class CellDesign:
    """Which of N participants judged pairs of which of K items: C cells.

    Attributes
    ----------
    person, item
        Codes of each cell's participant and item, shape (C,). A participant has as many cells of an
        item as they judged pairs of it; one each where every pair is an item of its own.

    Notes
    -----
    With weights w_c = 1 / (N n_p) for the n_p cells of participant p and deviations
    e_c = x_c - mean, let Q_p, Q_i and Q_e be the sums of squares of w e added up by participant, by
    item, and by both: a *block* is what one participant judged of one item, a single cell where
    each pair is an item of its own. The variance of the mean is estimated by
    a_p Q_p + a_i Q_i + a_e Q_e: the coefficients are those that make it unbiased if the mean of a
    block sums independent effects of participant, item and block, whatever blocks are missing; what
    the pairs of an item add of their own is in the effects of item and block. With all blocks
    present and alike in size this is the textbook (MS_p + MS_i - MS_e) / (N K); with many
    participants and items the coefficients tend to 1, 1 and -1, which needs no such model. The
    estimate is never taken to be less than Q_e, that of blocks without effects of participant or
    item. Degrees of freedom are Satterthwaite's, with d_p = 1 / sum w_p^2 - 1 for participants, d_i
    likewise for items, and d_p d_i for blocks; no fewer than the smaller of d_p and d_i, which his
    formula undercuts where the parts all but cancel, and d_p d_i where the estimate is that of
    blocks alone. Where a few items make most of a value (`mean`, `leverage`), d_i is
    `free_of_shares`.

    Sources: Cameron, Gelbach & Miller (2011), doi 10.1198/jbes.2010.07136, for the sum of three
    parts: clusters of either kind, and their intersections; Gao & Owen (2017), doi
    10.1214/17-EJS1236, for moments with missing cells; Schütt et al. (2023), doi
    10.7554/eLife.82566, who correct a two-factor bootstrap to the same end: naive resampling of
    both estimates the part of the cells three times.
    """

    person: IntArray
    item: IntArray

    @cached_property
    def weight(self) -> FloatArray:
        """The weight of each cell in the mean, shape (C,)."""
        sizes = np.bincount(self.person)
        return np.asarray(1.0 / (np.count_nonzero(sizes) * sizes[self.person]))

    @cached_property
    def block(self) -> IntArray | None:
        """The block of each cell, see `blocks_of`."""
        return blocks_of(self.person, self.item)

    @cached_property
    def blocks(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Participant, item and weight of each block."""
        if self.block is None:
            return self.person, self.item, self.weight
        first = np.unique(self.block, return_index=True)[1]
        weight = np.bincount(self.block, self.weight).astype(np.float64)
        return self.person[first], self.item[first], weight

    @cached_property
    def _shares(self) -> FloatArray:
        """Weights of each block's participant and item, and its own, shape (3, B)."""
        person, item, w = self.blocks
        return np.stack([np.bincount(person, w)[person], np.bincount(item, w)[item], w])

    @cached_property
    def _squares(self) -> FloatArray:
        """Sums of squared weights of participants, items and blocks."""
        return _overlaps(self._shares, self._shares)

    @cached_property
    def _moments(self) -> FloatArray:
        """Expectation of each Q (rows) if one component alone had variance 1 (columns)."""
        return _moments(self._shares, self._shares)

    @cached_property
    def coefficients(self) -> FloatArray:
        """a_p, a_i and a_e."""
        return _coefficients(self._moments, self._squares)

    @cached_property
    def of_rest(self) -> FloatArray:
        """The coefficients of the part of the variance that effects of blocks alone make, (3,)."""
        return _coefficients(self._moments, self._squares * [0, 0, 1])

    def components(self, cells: FloatArray) -> FloatArray:
        """Return variances and covariances of the effects that blocks sum.

        Parameters
        ----------
        cells
            D numbers of each cell, shape (D, C).

        Returns
        -------
        array
            Of effects of participant, item and block, shape (3, D, D): the unbiased estimates that
            the standard error rests on, but nowhere negative (eigenvalues below 0 are made 0).
        """
        deviations = self.deviations(cells)
        squares: list[FloatArray] = []
        for codes in (self.person, self.item, self.block):
            sums = deviations
            if codes is not None:
                sums = np.stack([np.bincount(codes, row).astype(np.float64) for row in deviations])
            squares.append(sums @ sums.T)
        flat = np.stack(squares).reshape(3, -1)
        estimated = np.linalg.lstsq(self._moments, flat, rcond=1e-10)[0]
        values, vectors = np.linalg.eigh(estimated.reshape(3, *squares[0].shape))
        return np.asarray((vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.mT)

    @cached_property
    def sizes(self) -> tuple[float, float]:
        """Numbers of participants and of items, counted by their weight in the mean."""
        p2, i2, _ = self._squares.tolist()
        return 1 / p2, 1 / i2

    def average(self, cells: FloatArray) -> FloatArray:
        """Return the mean over people of `cells` (..., C); exactly theirs if all are alike."""
        mean = cells @ self.weight
        if not cells.size:
            return np.asarray(mean)
        return np.where(np.ptp(cells, axis=-1) == 0, cells[..., 0], mean)

    def deviations(self, cells: FloatArray) -> FloatArray:
        """Return w (x - mean) of each cell, shape (..., C), for `squares_of`."""
        return np.asarray(self.weight * (cells - self.average(cells)[..., None]))

    def lean(self, cells: FloatArray, stderr: float) -> FloatArray:
        """Return by how much each cell's item is to weigh more to raise the mean, shape (C,).

        The direction of steepest change, as far as the part of items in one standard error goes.
        """
        total = np.bincount(self.item, self.deviations(cells))
        return np.asarray((total / max(stderr, float(np.sqrt(total @ total))))[self.item])

    def mean(
        self,
        cells: FloatArray,
        population: str = POPULATIONS[0],
        leverage: FloatArray | None = None,
    ) -> SampledMean:
        """Return the mean of `cells` (C,) over participants and its standard error.

        Where items have several pairs, degrees of freedom go by how much each cell counts in its
        participant's value, `leverage` (C,), up to a factor; by default all count alike. Pairs that
        are items of their own are as many as simulations have found to be enough without.
        """
        q = squares_of(self.deviations(cells), self.person, self.item, self.block)
        free = None
        if leverage is not None and self.block is not None:
            total = np.bincount(self.person, leverage)[self.person]
            n = np.bincount(self.person)[self.person]
            counts = np.where(total > 0, n * leverage / np.where(total > 0, total, 1.0), 1.0)
            free = free_of_shares(_added(self.weight * counts, self.item))
        return mean_of(float(self.average(cells)), q, (self,), population, free)


def blocks_of(person: IntArray, item: IntArray) -> IntArray | None:
    """Return the block of each cell, shape (C,); None if each cell is a block of its own.

    Parameters
    ----------
    person, item
        Codes of each cell, shape (C,).
    """
    codes = person * (int(item.max(initial=0)) + 1) + item
    block: IntArray
    found, block = np.unique(codes, return_inverse=True)
    return None if len(found) == len(codes) else block


def _added(x: FloatArray, codes: IntArray | None) -> FloatArray:
    """Return numbers of cells (C,) added up by their codes; as they are where there are none."""
    return x if codes is None else np.bincount(codes, x).astype(np.float64)


def _overlaps(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return, for participants, items and blocks, the sum of products of their weights, (3,)."""
    return np.asarray((first[2] * second).sum(axis=1))


def _moments(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return what sums of products of the deviations of two means are expected to be.

    Parameters
    ----------
    first, second
        The weights of each block's participant and item, and its own, in either mean, shape (3, B).

    Returns
    -------
    array
        Of sums over participants, items and blocks (rows), if effects of one kind alone had
        variance 1 (columns).
    """
    each = _overlaps(first, second)
    common = (first[2] * second) @ second.T + (second[2] * first) @ first.T
    joint = np.where(np.eye(3, dtype=bool), each, each[2])
    return np.asarray(joint - common + np.outer(each, each))


def _coefficients(moments: FloatArray, wanted: FloatArray) -> FloatArray:
    """Return the coefficients of sums of products (3,) whose expectation is `wanted` (3,).

    `wanted` is of effects of participants, items and blocks with variance 1, as are the columns of
    `_moments`.
    """
    # Where each item has one block, items and blocks are one; any solution will do.
    size = np.sqrt(np.diagonal(moments))
    scale = np.where(size > 0, size, 1.0)
    scaled = moments / np.outer(scale, scale)
    return np.asarray(np.linalg.lstsq(scaled, wanted / scale, rcond=1e-10)[0] / scale)


def squares_of(
    deviations: FloatArray, person: IntArray, item: IntArray, block: IntArray | None
) -> FloatArray:
    """Return the sums of squares by participant, item and block, see `CellDesign`.

    Parameters
    ----------
    deviations
        Of C cells, shape (..., C): of several studies of one design at once.
    person, item
        Codes of each cell, shape (C,).
    block
        As `blocks_of` returns it.

    Returns
    -------
    array
        Shape (..., 3).
    """
    rows = deviations.reshape(-1, deviations.shape[-1])
    q = np.empty((len(rows), 3))
    for part, codes in enumerate((person, item, block)):
        sums = rows
        if codes is not None:
            n = int(codes.max(initial=-1)) + 1
            places = codes + n * np.arange(len(rows))[:, None]
            added = np.bincount(places.ravel(), rows.ravel(), n * len(rows))
            sums = added.astype(np.float64).reshape(len(rows), n)
        q[:, part] = np.einsum("sc,sc->s", sums, sums)
    return q.reshape(*deviations.shape[:-1], 3)


def free_of_shares(share: FloatArray) -> float:
    """Return the degrees of freedom of the variance of a mean of K items with these shares in it.

    The mean is m = sum g_k y_k, its variance estimated by the sum of g_k^2 (y_k - m)^2. If all y
    vary alike, g_k (y_k - m) have the covariances A_jk = g_j g_k (1[j = k] - g_j - g_k + sum g^2),
    and the degrees of freedom are (tr A)^2 / tr A^2: K - 1 where shares are equal, 1 where an item
    makes all of the mean.

    Parameters
    ----------
    share
        g, not negative and of sum 1, shape (K,).

    Source
    ------
    Bell & McCaffrey (2002), Survey Methodology 28, 169-181; Imbens & Kolesár (2016), doi
    10.1162/REST_a_00552.

    Examples
    --------
    >>> round(free_of_shares(np.full(6, 1 / 6)), 9)
    5.0
    >>> round(free_of_shares(np.array([0.9, 0.05, 0.05])), 2)
    1.27
    """
    g = share
    p2, p3, p4 = (float((g**power).sum()) for power in (2, 3, 4))
    diagonal = g**2 * (1 - 2 * g + p2)
    # The sum of squares over all j, k without the 1[j = k], less that of j = k.
    apart = p2**4 - 4 * p2**2 * p3 + 2 * p2 * p4 + 2 * p3**2
    apart -= float((g**4 * (p2 - 2 * g) ** 2).sum())
    total = float(diagonal.sum())
    return total**2 / (float((diagonal**2).sum()) + apart) if total > 0 else 1.0


def mean_of(
    value: float,
    q: FloatArray,
    designs: tuple[CellDesign, ...],
    population: str = POPULATIONS[0],
    free_items: float | None = None,
) -> SampledMean:
    """Return a mean, or a difference of means, with its standard error.

    Parameters
    ----------
    value
        The estimate.
    q
        Sums of squares, `squares_of`, of what each cell adds to it beyond its share
        (`CellDesign.deviations`), shape (3,); for a difference of means over different cells the
        difference of both, 0 where a cell is missing.
    designs
        Of the means that it is made of; the less informative sets coefficients and degrees of
        freedom.
    population
        One of `POPULATIONS`.
    free_items
        Degrees of freedom of the part of items; by default their number less 1.
    """
    people = min(design.sizes[0] for design in designs)
    items = min(design.sizes[1] for design in designs)
    both = population == POPULATIONS[0]
    fewest = FEWEST_PEOPLE if both else FEWEST
    # Sizes are sums of squared weights, a little off whole numbers.
    if people < fewest - 1e-9 or (both and items < FEWEST - 1e-9):
        return SampledMean(value, np.nan, np.nan)
    q_person, q_item, q_block = (float(part) for part in q)
    if not both:
        stderr = float(np.sqrt(q_person * people / (people - 1)))
        return SampledMean(value, stderr, people - 1, (1.0, 0.0), (people, np.inf))
    if q_block == 0.0:
        return SampledMean(value, 0.0, people + items - 2)
    parts = max((design.coefficients for design in designs), key=lambda a: float(a @ q)) * q
    variance = max(float(parts.sum()), q_block)
    df_person, df_item = people - 1, items - 1 if free_items is None else free_items
    df = df_person * df_item
    if variance > q_block:
        spread = parts**2 / np.array([df_person, df_item, df_person * df_item])
        df = max(min(df_person, df_item), variance**2 / float(spread.sum()))
    of_people, of_items = max(q_person - q_block, 0.0), max(q_item - q_block, 0.0)
    total = of_people + of_items + q_block
    shares = of_people / total, of_items / total
    return SampledMean(value, float(np.sqrt(variance)), df, shares, (people, items))


#: Of a mean, the places of its cells among all C, their design, and their values.
Side = tuple[IntArray, CellDesign, FloatArray]


def difference_of(
    first: Side,
    second: Side,
    person: IntArray,
    item: IntArray,
    population: str = POPULATIONS[0],
    chance: float | None = None,
    *,
    top: float = 1.0,
    from_ceiling: bool = False,
) -> SampledMean:
    """Return the difference of two means, which may share cells.

    Parameters
    ----------
    first, second
        The two means.
    person, item
        Codes of all cells, shape (C,).
    population
        One of `POPULATIONS`.
    chance
        Tests the difference on Fisher's scale above this chance, unless a mean is perfect or sure.
    top
        Where that scale ends: the value of a perfect model.
    from_ceiling
        The second mean is a lower noise ceiling, and Fisher's scale is for what is below it. That
        scale grows without limit as the model comes near to perfection, and a model that is above
        the ceiling by chance would seem surely so: from the ceiling on it goes straight, which
        leaves the plain difference.
    """
    alone = [(places, design, cells[None]) for places, design, cells in (first, second)]
    (difference,) = differences_of(
        alone[0],
        alone[1],
        person,
        item,
        population,
        chance,
        top=top,
        from_ceiling=from_ceiling,
    )
    return difference


def differences_of(
    first: Side,
    second: Side,
    person: IntArray,
    item: IntArray,
    population: str = POPULATIONS[0],
    chance: float | None = None,
    *,
    top: float = 1.0,
    from_ceiling: bool = False,
) -> list[SampledMean]:
    """Return the difference of two means in each of S studies of one design, `difference_of`.

    The values of the cells have the shape (S, c), all else is as there.
    """
    sides = first, second
    designs = (first[1],) if first[1] is second[1] else (first[1], second[1])
    values = [design.average(cells) for _, design, cells in sides]
    deviations = [design.deviations(cells) for _, design, cells in sides]
    difference = values[0] - values[1]
    block = designs[0].block if len(designs) == 1 else blocks_of(person, item)

    def apart(left: FloatArray, right: FloatArray) -> FloatArray:
        if len(designs) == 1:  # the same cells: the others need no look
            return squares_of(left - right, designs[0].person, designs[0].item, block)
        beyond = np.zeros((len(left), len(item)))
        beyond[:, first[0]] += left
        beyond[:, second[0]] -= right
        return squares_of(beyond, person, item, block)

    plain = [
        mean_of(float(value), q, designs, population)
        for value, q in zip(difference, apart(*deviations), strict=True)
    ]
    if chance is None:
        return plain
    means = [
        [
            mean_of(float(value), q, (design,), population)
            for value, q in zip(
                own, squares_of(beyond, design.person, design.item, design.block), strict=True
            )
        ]
        for (_, design, _), own, beyond in zip(sides, values, deviations, strict=True)
    ]
    tested = [
        study
        for study, mean in enumerate(plain)
        if all(side[study].inside(chance, top) for side in means)
        and (mean.value < 0 or not from_ceiling)
    ]
    if not tested:
        return plain
    on_z = [[side[study].on_z(chance, top) for study in tested] for side in means]
    steep = [
        np.array([z.stderr / side[study].stderr for z, study in zip(zs, tested, strict=True)])
        for zs, side in zip(on_z, means, strict=True)
    ]
    squares = apart(*(s[:, None] * own[tested] for s, own in zip(steep, deviations, strict=True)))
    for number, study in enumerate(tested):
        z_1, z_2 = (zs[number] for zs in on_z)
        on_scale = mean_of(z_1.value - z_2.value, squares[number], designs, population)
        mean_1, mean_2 = (side[study] for side in means)
        here = plain[study]
        more = mean_1.stderr**2 - mean_2.stderr**2
        moves = 0.5 + 0.5 * more / here.stderr**2 if here.stderr > 0 else 0.5
        plain[study] = BoundedDifference(
            *(here.value, here.stderr, on_scale.df, here.shares, here.sizes),
            on_scale=on_scale,
            ends=(
                (mean_1.value - chance) / (top - chance),
                (mean_2.value - chance) / (top - chance),
            ),
            moves=float(np.clip(moves, 0.0, 1.0)),
            way=top - chance,
        )
    return plain


def contrast_of(
    first: Sequence[Side],
    second: Sequence[Side],
    person: IntArray,
    item: IntArray,
    population: str = POPULATIONS[0],
) -> SampledMean:
    """Return by how much a mean, or a difference of means, is higher in some cells than in others.

    Parameters
    ----------
    first, second
        A mean, or the two means of a difference, of cells of one and of another condition. People
        are the same in both, as at two levels of a factor of pairs, or none is in both; items may
        be shared or not.
    person, item
        Codes of all cells, shape (C,).
    population
        One of `POPULATIONS`.

    Notes
    -----
    The variance is that of either mean by its own design, less twice their covariance, which people
    and items that are in both conditions make: a sum of three sums of products, of both
    conditions' deviations by participant, by item and by block, with coefficients that make it
    unbiased if effects of participants, items and blocks are independent. With people nested in
    conditions, all of them on all pairs, it is the textbook 2 (MS_people + MS_items-by-condition -
    MS_rest) / (N K) of a quasi F ratio. It is not taken to be less than the part of blocks alone,
    2 MS_rest / (N K) there; than that of blocks with all their effects, as in `CellDesign`, where
    the same people judge the same items in both conditions. Where they judge an item in one of them
    each, as in a Latin square, it is that of `_counterbalanced`. Degrees of freedom are
    Satterthwaite's, no fewer than the fewer of those of people and of items; of people or items
    that are in one condition each both conditions' together (Welch), of shared ones the fewer.

    Few items tell an interaction apart, and those that do are large: the larger the estimate is by
    chance, the larger is its standard error too. So tests err too seldom where there is nothing
    (in about 3 % with 10 and 10 people on the same 20 pairs), and where there is an interaction
    deviations are skewed, and intervals too short on one side. Interval and p-value are therefore
    those of `SkewedMean`, by a quarter of the skewness that the deviations have: K / variance^1.5,
    kept within -1 and 1, with K the third cumulant of the mean, the sum of cubes by participant and
    by item less that by block. As estimated from so few items skewness goes with the estimate, and
    with all of it tests err in up to 11 %; a quarter is what brings all designs of
    `experiments/calibration/by.py` to between 3.5 and 6.5 % (its option `--trusted` tries others).

    With `"these sentences"` it is Welch's test across people, or Student's of differences within
    them.

    Sources: Winer, Brown & Michels (1991), Statistical principles in experimental design, on quasi
    F ratios with people nested in groups and crossed with items; Hall (1992) for `SkewedMean`; the
    covariance, and the quarter, are our own.
    """
    both = population == POPULATIONS[0]
    block = blocks_of(person, item)
    codes = (person, item, block)
    lead = slice(None) if block is None else np.unique(block, return_index=True)[1]
    averages = [[float(design.average(x)) for _, design, x in sides] for sides in (first, second)]
    value, other = (means[0] - sum(means[1:]) for means in averages)
    value -= other
    sums: list[list[FloatArray]] = []
    shares: list[FloatArray] = []
    # Parts of the variance by participant, item and block, and their degrees of freedom.
    parts: list[FloatArray] = []
    free: list[tuple[float, float, float]] = []
    rest: list[tuple[float, float]] = []
    for sides in (first, second):
        beyond, weight = np.zeros((2, len(item)))
        for side, (places, design, cells) in zip((1, -1), sides, strict=False):
            beyond[places] += side * design.deviations(cells)
        n, k = (min(design.sizes[kind] for _, design, _ in sides) for kind in (0, 1))
        fewest = FEWEST_PEOPLE if both else FEWEST
        if n < fewest - 1e-9 or (both and k < FEWEST - 1e-9):
            return SampledMean(value, np.nan, np.nan)
        q = squares_of(beyond, person, item, block)
        places, design, _ = max(sides, key=lambda side: float(side[1].coefficients @ q))
        weight[places] = design.weight
        sums.append([_added(beyond, code) for code in codes])
        of_blocks = (lead if code is None else code[lead] for code in codes)
        weights = (_added(weight, code) for code in codes)
        shares.append(np.stack([w[where] for w, where in zip(weights, of_blocks, strict=True)]))
        parts.append(design.coefficients * q if both else q[:1] * n / (n - 1))
        free.append((n - 1, k - 1, (n - 1) * (k - 1)))
        rest.append((float(design.of_rest @ q), free[-1][2]))
    shared = _overlaps(*shares)
    alike = all(np.array_equal(s[0][0], places) for s in (first, second) for places, *_ in s)
    if both and alike and shared[:2].all() and not shared[2]:
        beyond, weight = (one[2] - other[2] for one, other in (sums, shares))
        within = _counterbalanced(value, beyond, weight, person[lead], item[lead])
        if within is not None:
            return within
    crossed = np.array([one @ other for one, other in zip(*sums, strict=True)])
    crossed *= _coefficients(_moments(*shares), shared) if both else n / (n - 1)
    components: list[list[tuple[float, float]]] = []
    for kind in range(len(parts[0])):
        of_sides = [(float(part[kind]), df[kind]) for part, df in zip(parts, free, strict=True)]
        if shared[kind] > 0:
            part = sum(part for part, _ in of_sides) - 2 * float(crossed[kind])
            of_sides = [(part, min(df for _, df in of_sides))]
        components.append(of_sides)
    variance, df = _welch([part for of_sides in components for part in of_sides])
    if not both:
        return SampledMean(value, float(np.sqrt(variance)), df)
    totals = [one - other for one, other in zip(*sums, strict=True)]
    blocks = float(totals[2] @ totals[2])
    if blocks == 0.0:
        return SampledMean(value, 0.0, np.inf)
    least, df_least = _welch(rest)
    if least <= 0 or shared[:2].all():
        least = blocks
    if variance > least:
        df = max(df, min(_welch(components[kind])[1] for kind in (0, 1)))
    else:
        variance, df = least, df_least
    return _skewed(value, variance, df, totals)


def _counterbalanced(
    value: float, beyond: FloatArray, weight: FloatArray, person: IntArray, item: IntArray
) -> SampledMean | None:
    """Return a contrast of two conditions, where people judge an item in one of them each.

    None where people, or items, that are in both are too few to tell how much they vary.

    In a Latin square what items have in common in both conditions cancels, but adds to all people
    of a list at once, and what people have in common to all items. So effects of participants,
    items and conditions are taken off first, by least squares. The variance is then a sum of three
    sums of squares of what is left, by participant, by item and by block, with coefficients that
    make it unbiased if the interactions of condition with participant and with item, and blocks,
    have independent effects; it is not taken to be less than if nothing interacts. Added is what
    the effects that were taken off contribute where an item, or a participant, weighs unlike in the
    two conditions: their variance, less what blocks add to it, times the squares of how unlike. So
    it is unbiased where all judge all items, and too large where people judge a few each. Degrees
    of freedom are Satterthwaite's: those of an interaction are the number of participants, or of
    items, counted by their weight, times what is left of it in its sum of squares.

    Parameters
    ----------
    value
        The contrast.
    beyond, weight
        By block, what it adds to the contrast beyond its share, and its weight in it: negative in
        the second condition, 0 in neither. Shape (B,).
    person, item
        Codes of each block's participant and item, shape (B,).

    Source
    ------
    Pollatsek & Well (1995), doi 10.1037/0278-7393.21.3.785, on lists as a factor of the analysis;
    the moments, for any pattern, are our own.
    """
    there = np.flatnonzero(weight)
    a = weight[there]
    rows = np.arange(len(a))
    kinds = [np.unique(codes[there], return_inverse=True)[1] for codes in (person, item)]

    def columns(codes: IntArray, values: FloatArray) -> sparse.csr_array:
        return sparse.csr_array((values, (rows, codes)), shape=(len(a), int(codes.max()) + 1))

    # The inverse of the products of indicators; those of participants are a diagonal.
    of_people, of_others = (
        sparse.hstack([columns(k, np.ones(len(a))) for k in some]).tocsr()
        for some in (kinds[:1], (kinds[1], (a < 0).astype(np.int64)))
    )
    effects = sparse.hstack([of_people, of_others]).tocsr()
    each = 1 / np.bincount(kinds[0])
    common = each[:, None] * (of_people.T @ of_others).toarray()
    without = (of_others.T @ of_others).toarray() - (of_others.T @ of_people) @ common
    inner = np.linalg.pinv(without, rcond=1e-10, hermitian=True)
    cross = -common @ inner
    inverse = np.block([[np.diag(each) - cross @ common.T, cross], [cross.T, inner]])
    deviations = beyond[there] / a
    fitted = inverse @ (effects.T @ deviations)
    left = deviations - effects @ fitted
    if left @ left <= 1e-20 * (deviations @ deviations):  # rounding
        left = np.zeros(len(a))
    # What is summed by participant and by item, and their interactions with the condition.
    sums = [columns(k, a) for k in kinds]
    apart = [columns(k, np.where(a > 0, 0.5, -0.5)) for k in kinds]
    totals = [*(s.T @ left for s in sums), a * left]
    squares = np.array([total @ total for total in totals])
    weighed = effects.T @ sparse.diags_array(a**2)
    crossed, fits = (weighed @ effects).toarray(), [inverse @ (effects.T @ z) for z in apart]
    moments = np.empty((3, 3))
    for row, s in enumerate(sums):
        on_effects = (s.T @ effects).toarray()
        for column, (z, fit) in enumerate(zip(apart, fits, strict=True)):
            moments[row, column] = (((s.T @ z).toarray() - on_effects @ fit) ** 2).sum()
        moments[row, 2] = a @ a - np.vdot(on_effects @ inverse, on_effects)
    for column, (z, fit) in enumerate(zip(apart, fits, strict=True)):
        of_both = 2 * np.vdot(fit, (weighed @ z).toarray())
        moments[2, column] = a @ a / 4 - of_both + np.vdot(fit, crossed @ fit)
    moments[2, 2] = a @ a - np.vdot(inverse, crossed)
    sizes = [float((np.bincount(k, np.abs(a)) ** 2).sum()) / 4 for k in kinds]
    free = [float(moments[k, k]) / sizes[k] ** 2 for k in (0, 1)]
    df_rest = len(a) - len(each) - int(np.linalg.matrix_rank(inner, hermitian=True))
    if min(*free, df_rest) < FEWEST - 1 - 1e-9:
        return None
    parts = _coefficients(moments.T, np.array([*sizes, a @ a])) * squares
    of_block = squares[2] / moments[2, 2]  # its variance, if nothing interacts
    uneven: list[tuple[float, float]] = []
    ends = np.cumsum([len(np.bincount(k)) for k in kinds])
    for k, effect, first in zip(kinds, np.split(fitted, ends), (0, ends[0]), strict=False):
        n = len(effect)
        of_fit = inverse[first : first + n, first : first + n]
        noise = of_block * (np.trace(of_fit) - of_fit.mean() * n) / (n - 1)
        variance = max(float(np.var(effect, ddof=1)) - noise, 0.0)
        unlike = float((np.bincount(k, a) ** 2).sum())
        uneven.append((variance * unlike if unlike > 1e-20 * (a @ a) else 0.0, n - 1))  # rounding
    least = _welch([(float(of_block * (a @ a)), df_rest), *uneven])
    variance, df = _welch([*zip(parts.tolist(), (*free, df_rest), strict=True), *uneven])
    if variance > least[0]:
        df = max(df, min(free))
    else:
        variance, df = least
    if variance == 0.0:
        return SampledMean(value, 0.0, np.inf)
    return _skewed(value, variance, df, totals)


def _skewed(value: float, variance: float, df: float, totals: Sequence[FloatArray]) -> SkewedMean:
    """Return a contrast with what is trusted of its skewness, by sums of its three kinds."""
    cubes = [float((total * total) @ total) for total in totals]
    skewness = (cubes[0] + cubes[1] - cubes[2]) / variance**1.5
    trusted = TRUSTED_SKEWNESS * float(np.clip(skewness, -1.0, 1.0))
    return SkewedMean(value, float(np.sqrt(variance)), df, skewness=trusted)


def _welch(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the sum of parts of a variance, and Satterthwaite's degrees of freedom of it.

    No fewer than the fewest of a part, which estimates below 0 would lead to.
    """
    variance = sum((part for part, _ in parts), 0.0)
    spread = sum(part**2 / df for part, df in parts)
    return variance, max(variance**2 / spread, min(df for _, df in parts)) if spread else np.inf
