"""Intervals by resampling groups, participants and sentence pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from contstim.arrays import FloatArray
from contstim.errors import require_known
from contstim.evaluation.measures import Measure
from contstim.evaluation.options import LEVELS
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData
from contstim.response_model import MIN_GROUPS, inference_unit

# Work arrays of so many numbers stay in the cache; much larger ones cost four times as much.
_MOST_CELLS = 300_000


@dataclass(frozen=True, eq=False)
class Resamples:
    """B resamples as counts.

    Attributes
    ----------
    people
        How often each participant counts, shape (B, N).
    pairs
        How often each pair counts, shape (B, P), or None if pairs are not resampled.
    n_units
        Number of units at the level with fewest, see `percentile_intervals`.
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
    if inference_unit(len(data.groups), min_groups) == "group" and data.has_disjoint_groups:
        return ("group",)
    return ("participant", "pair")


def draw_resamples(data: TrialData, levels: Sequence[str], n_draws: int, seed: int) -> Resamples:
    """Draw B = `n_draws` resamples with replacement.

    With ``group`` whole groups are drawn, with ``participant`` participants within their group
    (within the drawn groups if both are named), with ``pair`` sentence pairs, whole items where
    pairs were made of one another; pairs are crossed with people, so that the counts multiply.

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
        people = group_counts[:, data.group_codes].astype(np.float64)
    if "participant" in levels:
        sizes.append(n_people)
        for g in range(n_groups):
            members = np.flatnonzero(data.group_codes == g)
            trials = group_counts[:, g] * len(members)
            share = np.full(len(members), 1 / len(members))
            people[:, members] = rng.multinomial(trials, share)
    pairs: FloatArray | None = None
    if "pair" in levels:
        n_items = data.n_items
        counts = rng.multinomial(n_items, np.full(n_items, 1 / n_items), size=n_draws)
        pairs = counts.astype(np.float64)[:, data.item]
        sizes.append(n_items)
    return Resamples(people, pairs, min(sizes, default=n_people))


def resample_values(subset: Subset, measure: Measure, draws: Resamples) -> FloatArray:
    """Return each model's mean over participants in each resample, shape (B, M here).

    The values of `Measure.values` with each pair as often as drawn, averaged; here as products of
    dense matrices, one for each set of participants who saw the same pairs. NaN in a resample
    that holds no participant for whom the measure is defined.
    """
    people = draws.people[:, subset.participants]
    shape = (len(people), len(subset.models))
    total, weight = np.zeros(shape), np.zeros(shape)
    if draws.pairs is None:
        value = measure.values(subset)
        there = ~np.isnan(value)
        total, weight = people @ np.where(there, value, 0.0), people @ there.astype(np.float64)
    else:
        for members, pair, rating in subset.iterate_pair_sets(measure.responses(subset)):
            values = measure.resampled(rating, subset.data.log_ratio[pair][:, subset.models])
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


def percentile_intervals(
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
