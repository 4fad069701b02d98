"""The published inference: signed-rank tests, and intervals by resampling.

Groups, participants and sentence pairs can be resampled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from contstim.arrays import FloatArray, IntArray
from contstim.errors import require_known
from contstim.evaluation.contrasts import AnalysisValues, Contrast, Inferred, unit_means
from contstim.evaluation.crossed import FEWEST
from contstim.evaluation.options import LEVELS, EvaluationOptions
from contstim.evaluation.ranks import square_sum, wilcoxon_signed_rank
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData
from contstim.selection.people import MIN_GROUPS, unit_of_tests

_MOST_COST = 500_000_000
_FEWEST_DRAWS = 200
# Up to so many sizes of ratings, ranks of many participants are found together.
_MOST_SIZES = 16
# Work arrays of so many numbers stay in the cache; much larger ones cost four times as much.
_MOST_CELLS = 300_000

# From how often each of k pairs counts in B resamples, (B, k), to values of n participants, (B, n),
# one array a model.
_Values = Callable[[FloatArray], Iterator[FloatArray]]


@dataclass(frozen=True, eq=False)
class Draws:
    """B resamples as counts.

    Attributes
    ----------
    people
        How often each participant counts, shape (B, N).
    pairs
        How often each pair counts, shape (B, P), or None if pairs are not resampled.
    n_units
        Number of units at the level with fewest, which widens the interval (see `intervals`).
    """

    people: FloatArray
    pairs: FloatArray | None
    n_units: int


def default_levels(data: TrialData, min_groups: int = MIN_GROUPS) -> tuple[str, ...]:
    """Return ``("group",)`` if groups can carry the interval, else participants and pairs.

    They can if there are at least `min_groups` and no pair is seen by two: a resampled group
    then brings its participants and its pairs with it, and resampling those again would widen
    the interval for nothing.
    """
    if unit_of_tests(len(data.groups), min_groups) == "group" and pairs_apart(data):
        return ("group",)
    return ("participant", "pair")


def pairs_apart(data: TrialData) -> bool:
    """Return whether no pair was seen by two groups."""
    seen = np.unique(np.stack([data.pair, data.group_of[data.participant]]), axis=1)
    return bool(len(np.unique(seen[0])) == seen.shape[1])


def affordable_draws(data: TrialData, levels: Sequence[str], wanted: int) -> int:
    """Return how many of the `wanted` resamples are drawn.

    All of them, unless pairs are resampled in a large study whose participants saw different
    trials or used a slider: everybody's ranks must then be found again in every resample, and
    beyond a bound on the cost (choices times models times resamples) 200 must do.
    """
    cost = len(data.rating) * max(len(data.models), 1)
    if "pair" not in levels or cost * wanted <= _MOST_COST:
        return wanted
    whole = Subset(data, np.arange(len(data.rating)), np.arange(len(data.models)))
    few_sizes = len(np.unique(np.abs(data.rating))) <= _MOST_SIZES
    if few_sizes and whole.shared.n <= max(4, whole.n_people // 8):
        return wanted
    return min(wanted, max(_FEWEST_DRAWS, _MOST_COST // cost))


def draw(data: TrialData, levels: Sequence[str], n_draws: int, seed: int) -> Draws:
    """Draw B = `n_draws` resamples with replacement.

    With ``group`` whole groups are drawn, with ``participant`` participants within their group
    (within the drawn groups if both are named), with ``pair`` sentence pairs; pairs are crossed
    with people, so that the counts multiply.

    Raises
    ------
    UnknownNameError
        For a level that is not among `LEVELS`.

    Source
    ------
    Owen (2007), doi 10.1214/07-AOAS122, for crossed resampling.
    """
    for level in levels:
        require_known("resampling level", level, LEVELS)
    rng = np.random.default_rng(seed)
    n_people, n_groups = len(data.participants), len(data.groups)
    people = np.ones((n_draws, n_people))
    sizes = []
    group_counts = np.ones((n_draws, n_groups), dtype=np.int64)
    if "group" in levels:
        group_counts = rng.multinomial(n_groups, np.full(n_groups, 1 / n_groups), size=n_draws)
        sizes.append(n_groups)
        people = group_counts[:, data.group_of].astype(np.float64)
    if "participant" in levels:
        sizes.append(n_people)
        for g in range(n_groups):
            members = np.flatnonzero(data.group_of == g)
            trials = group_counts[:, g] * len(members)
            share = np.full(len(members), 1 / len(members))
            people[:, members] = rng.multinomial(trials, share)
    pairs: FloatArray | None = None
    if "pair" in levels:
        n_pairs = data.n_pairs
        counts = rng.multinomial(n_pairs, np.full(n_pairs, 1 / n_pairs), size=n_draws)
        pairs = counts.astype(np.float64)
        sizes.append(n_pairs)
    return Draws(people, pairs, min(sizes, default=n_people))


def resample(subset: Subset, measure: str, draws: Draws) -> FloatArray:
    """Return each model's mean over participants in each resample, shape (B, M here).

    The values of `Subset.values` with each pair as often as drawn, averaged; here as products of
    dense matrices, one for each set of participants who saw the same pairs. NaN in a resample
    that holds no participant for whom the measure is defined.
    """
    people = draws.people[:, subset.labels]
    shape = (len(people), len(subset.models))
    total, weight = np.zeros(shape), np.zeros(shape)
    if draws.pairs is None:
        value = subset.values(measure)
        there = ~np.isnan(value)
        total, weight = people @ np.where(there, value, 0.0), people @ there.astype(np.float64)
    else:
        prepare = _accuracy if measure == "accuracy" else _cosine
        for members, pair, rating in subset.set_blocks():
            values = prepare(rating, subset.data.log_ratio[pair][:, subset.models])
            step = max(1, _MOST_CELLS // max(rating.size, len(members)))
            for start in range(0, len(people), step):
                here = slice(start, start + step)
                chosen = people[here][:, members]
                for m, value in enumerate(values(draws.pairs[here][:, pair])):
                    there = ~np.isnan(value)
                    total[here, m] += np.einsum("bn,bn->b", chosen, np.where(there, value, 0.0))
                    weight[here, m] += np.einsum("bn,bn->b", chosen, there.astype(np.float64))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(total / weight)


def _accuracy(rating: FloatArray, ratios: FloatArray) -> _Values:
    human, model = np.sign(rating), np.sign(ratios)

    def values(weights: FloatArray) -> Iterator[FloatArray]:
        n = weights.sum(axis=1)[:, None]
        for sign in model.T:
            with np.errstate(invalid="ignore", divide="ignore"):
                yield 0.5 + 0.5 * ((weights * sign) @ human.T) / n

    return values


def _cosine(rating: FloatArray, ratios: FloatArray) -> _Values:
    models = [_ranker(ratio) for ratio in ratios.T]
    sizes = np.unique(np.abs(rating))
    sizes = sizes[sizes > 0]
    blocks = [np.where(np.abs(rating) == size, np.sign(rating), 0.0).T for size in sizes]
    people = [_ranker(row) for row in rating] if len(sizes) > _MOST_SIZES else []

    def values(weights: FloatArray) -> Iterator[FloatArray]:
        ranks, n_human = [], np.zeros((len(weights), len(rating)))
        if people:
            ranks, counts = (list(part) for part in zip(*(p(weights) for p in people), strict=True))
            n_human = np.stack(counts, axis=1)
        else:
            for block in blocks:
                mass = weights @ np.abs(block)  # how many trials have this size, (B, n)
                ranks.append(n_human + (mass + 1) / 2)
                n_human = n_human + mass
        human_norm = np.sqrt(square_sum(n_human))
        for rank_model in models:
            model, n_model = rank_model(weights)
            weighted = weights * model
            if people:
                dot = np.stack([np.einsum("bk,bk->b", weighted, rank) for rank in ranks], axis=1)
            else:
                dot = np.zeros_like(n_human)
                for rank, block in zip(ranks, blocks, strict=True):
                    dot += rank * (weighted @ block)
            with np.errstate(invalid="ignore", divide="ignore"):
                yield dot / (human_norm * np.sqrt(square_sum(n_model))[:, None])

    return values


def _ranker(values: FloatArray) -> Callable[[FloatArray], tuple[FloatArray, FloatArray]]:
    """Return a function from weights (B, k) to signed ranks of k values (B, k) and counts (B,).

    A value of weight w counts as w tied values; zeros take no rank.
    """
    nonzero = np.flatnonzero(values)
    order = nonzero[np.argsort(np.abs(values[nonzero]), kind="stable")]
    first = np.ones(len(order), dtype=bool)
    first[1:] = np.diff(np.abs(values[order])) != 0
    starts, tie = np.flatnonzero(first), np.cumsum(first) - 1

    def ranks(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        signed = np.zeros_like(weights)
        if not len(order):
            return signed, np.zeros(len(weights))
        mass = np.add.reduceat(weights[:, order], starts, axis=1)
        after = np.cumsum(mass, axis=1)
        signed[:, order] = (after - mass + (mass + 1) / 2)[:, tie] * np.sign(values[order])
        return signed, after[:, -1]

    return ranks


def intervals(
    samples: FloatArray, n_units: int, level: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the percentile interval of each column, NaN without a usable sample.

    The percentiles are moved outwards so that the interval of a mean of `n_units` values has the
    width of Student's interval: the plain one is too narrow by sqrt((n - 1) / n) and by the use
    of normal for Student's quantiles.

    Source
    ------
    Hesterberg (2015), doi 10.1080/00031305.2015.1089789, the expanded percentile interval.
    """
    low, high = np.full(samples.shape[1], np.nan), np.full(samples.shape[1], np.nan)
    if n_units < 2:
        return low, high
    reach = np.sqrt(n_units / (n_units - 1)) * student.ppf((1 + level) / 2, n_units - 1)
    tail = float(norm.sf(reach))
    for column in range(samples.shape[1]):
        values = samples[:, column]
        values = values[~np.isnan(values)]
        if len(values):
            low[column], high[column] = np.quantile(values, [tail, 1 - tail])
    return low, high


@dataclass(frozen=True, eq=False)
class RankTests:
    """Wilcoxon's signed-rank tests across groups or participants, and bootstrap intervals.

    Attributes
    ----------
    unit
        ``group`` or ``participant``.
    unit_of
        The unit that each participant belongs to, shape (N,).
    zero_method, method
        See `wilcoxon_signed_rank`.
    draws
        Resamples for the intervals, or None.
    """

    unit: str
    unit_of: IntArray
    zero_method: str
    method: str
    draws: Draws | None
    columns = (("p_smallest",), ("p_smallest",))

    @classmethod
    def of(cls, data: TrialData, options: EvaluationOptions, levels: tuple[str, ...]) -> RankTests:
        """Make the tests that `options` ask for; intervals are from resamples of `levels`."""
        unit = options.unit
        if unit == "auto":
            unit = unit_of_tests(len(data.groups), options.min_groups)
        unit_of = data.group_of if unit == "group" else np.arange(len(data.participants))
        draws = None
        if options.n_bootstrap:
            draws = draw(data, levels, options.n_bootstrap, options.seed)
        return cls(unit, unit_of, options.zero_method, options.test_method, draws)

    def __call__(self, outcome: AnalysisValues, pairs: Sequence[tuple[int, int]]) -> Inferred:
        """Test the models of an analysis, and compare the `pairs` of them."""
        first, second = (np.array([p[k] for p in pairs], dtype=np.int64) for k in (0, 1))
        samples = self._samples(outcome)
        apart = None if samples is None else samples[:, first] - samples[:, second]
        return (
            self._contrasts(outcome.matched - outcome.lower, samples),
            self._contrasts(outcome.value[:, first] - outcome.value[:, second], apart),
        )

    def _samples(self, outcome: AnalysisValues) -> FloatArray | None:
        """Return each model's mean in each resample, shape (B, M)."""
        if self.draws is None:
            return None
        samples = np.full((len(self.draws.people), len(outcome.data.models)), np.nan)
        for part in outcome.parts:
            samples[:, part.subset.models] = resample(part.subset, outcome.measure, self.draws)
        return samples

    def _contrasts(self, values: FloatArray, samples: FloatArray | None) -> list[Contrast]:
        """Test the columns of `values`, shape (N, K); intervals are those of `samples`, (B, K)."""
        low = high = np.full(values.shape[1], np.nan)
        note = "no bootstrap"
        if samples is not None and self.draws is not None:
            low, high = intervals(samples, self.draws.n_units)
            note = "no interval: too few units to resample"
        contrasts = []
        for column, mean in enumerate(unit_means(values, self.unit_of).T):
            there = mean[~np.isnan(mean)]
            contrast = Contrast(
                ci_low=float(low[column]),
                ci_high=float(high[column]),
                n_units=len(there),
                note=note if np.isnan(low[column]) else "",
            )
            if len(there) >= FEWEST:
                test = wilcoxon_signed_rank(there, self.zero_method, self.method)
                contrast = replace(
                    contrast,
                    p=test.p,
                    effect=test.effect,
                    side=float(np.sign(test.effect)),
                    p_smallest=test.p_smallest,
                    test=test.method,
                )
            elif len(there):
                contrast = replace(contrast, note=f"too few {self.unit}s to test across")
            contrasts.append(contrast)
        return contrasts
