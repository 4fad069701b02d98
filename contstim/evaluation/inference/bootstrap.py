"""Bootstrap intervals over groups, participants and sentence pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from contstim.arrays import FloatArray, IntArray
from contstim.errors import require_known
from contstim.evaluation.measures import Measure
from contstim.evaluation.options import LEVELS
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData
from contstim.response_model import MIN_GROUPS, inference_unit

# Number of elements of an array that fits into the cache.
_CHUNK_SIZE = 200_000


@dataclass(frozen=True, eq=False)
class Resamples:
    """Bootstrap resamples, stored as the number of times that each unit was drawn.

    Attributes
    ----------
    participants
        Number of times that each of N participants was drawn in each of B resamples, shape (B, N).
    pairs
        Number of times that each of P sentence pairs was drawn, shape (B, P). None if pairs are not
        resampled.
    n_units
        Number of groups, participants or items in the sample. If several of them are resampled, the
        smallest number. See `percentile_intervals` for its use.
    """

    participants: IntArray
    pairs: IntArray | None
    n_units: int


def default_levels(data: TrialData, min_groups: int = MIN_GROUPS) -> tuple[str, ...]:
    """Return the levels to resample: groups if possible, otherwise participants and pairs.

    Groups are resampled if there are at least `min_groups` and if no pair was judged by two groups,
    so that the participants and the pairs of a group are resampled together.
    """
    if inference_unit(len(data.groups), min_groups) == "group" and data.has_disjoint_groups:
        return ("group",)
    return ("participant", "pair")


def draw_resamples(data: TrialData, levels: Sequence[str], n_draws: int, seed: int) -> Resamples:
    """Draw resamples of groups, participants and sentence pairs with replacement.

    Participants and pairs are drawn independently of each other. In a resample, a choice therefore
    occurs c_p times c_i times, where c_p is the number of copies of its participant and c_i the
    number of copies of its pair (Owen 2007, doi 10.1214/07-AOAS122).

    Parameters
    ----------
    data
        Choices of all analyses.
    levels
        ``group``: whole groups. ``participant``: participants within each drawn group. ``pair``:
        items, with all their sentence pairs.
    n_draws
        Number of resamples B.
    seed
        Seed of the random numbers.

    Raises
    ------
    UnknownNameError
        If a level is unknown.
    """
    for level in levels:
        require_known("resampling level", level, LEVELS)
    rng = np.random.default_rng(seed)
    n_groups, n_items = len(data.groups), data.n_items
    group_counts = np.ones((n_draws, n_groups), dtype=np.int64)
    if "group" in levels:
        group_counts = _draw_counts(rng, np.full(n_draws, n_groups), n_groups)
    participants, pairs = group_counts[:, data.group_codes], None
    if "participant" in levels:
        for group in range(n_groups):
            members = np.flatnonzero(data.group_codes == group)
            n_drawn = group_counts[:, group] * len(members)
            participants[:, members] = _draw_counts(rng, n_drawn, len(members))
    if "pair" in levels:
        pairs = _draw_counts(rng, np.full(n_draws, n_items), n_items)[:, data.item]
    n_units = {"group": n_groups, "participant": len(data.participants), "pair": n_items}
    smallest = min((n_units[level] for level in levels), default=len(data.participants))
    return Resamples(participants, pairs, smallest)


def _draw_counts(rng: np.random.Generator, n_drawn: IntArray, n_units: int) -> IntArray:
    """Draw units with replacement, and count how often each one is drawn in each of B resamples.

    `n_drawn` is the number of draws per resample, shape (B,). The result has the shape
    (B, n_units).
    """
    return rng.multinomial(n_drawn, np.full(n_units, 1 / n_units))


def resample_values(subset: Subset, measure: Measure, resamples: Resamples) -> FloatArray:
    """Return the mean value of each model in each resample.

    The value of each participant is computed from the resampled pairs. The values are then averaged
    over participants, weighted by the number of copies of each participant.

    Parameters
    ----------
    subset
        Choices and models of an analysis.
    measure
        Measure of the values.
    resamples
        B resamples.

    Returns
    -------
    array
        Means, shape (B, M), NaN in a resample without a defined value.
    """
    participants = resamples.participants[:, subset.participants].astype(np.float64)
    total, n_values = np.zeros((2, len(participants), len(subset.models)))
    if resamples.pairs is None:
        values = measure.values(subset)
        total, n_values = participants @ np.nan_to_num(values), participants @ ~np.isnan(values)
    else:
        log_ratio = subset.data.log_ratio[:, subset.models]
        for members, pairs, rating in subset.iterate_pair_sets(measure.responses(subset)):
            # Split the draws, so that arrays of draws x participants x pairs stay in the cache.
            n_chunks = min(len(total), 1 + len(total) * rating.size // _CHUNK_SIZE)
            for draws in np.array_split(np.arange(len(total)), n_chunks):
                copies = resamples.pairs[np.ix_(draws, pairs)].astype(np.float64)
                values = measure.resampled_values(rating, log_ratio[pairs], copies)
                weights = participants[np.ix_(draws, members)]
                for sums, array in ((total, np.nan_to_num(values)), (n_values, ~np.isnan(values))):
                    sums[draws] += np.einsum("bn,bnm->bm", weights, array.astype(np.float64))
    with np.errstate(invalid="ignore"):
        return total / n_values


def percentile_intervals(
    samples: FloatArray, n_units: int, level: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Return the expanded percentile interval of each column of bootstrap samples.

    Percentile intervals are too short in small samples. The expanded interval uses the percentiles
    Φ(± sqrt(n / (n - 1)) t), where Φ is the normal distribution function and t the quantile of
    Student's distribution with n - 1 degrees of freedom. The interval of a mean of n values then
    has the width of the t interval (Hesterberg 2015, doi 10.1080/00031305.2015.1089789).

    Parameters
    ----------
    samples
        B resampled values in each of K columns, shape (B, K). NaN values are ignored.
    n_units
        Number n of resampled units.
    level
        Confidence level.

    Returns
    -------
    low, high : array
        Ends of the intervals, shape (K,) each, NaN without a sample or with fewer than two units.
    """
    low, high = np.full((2, samples.shape[1]), np.nan)
    has_samples = ~np.isnan(samples).all(axis=0)
    if n_units >= 2 and has_samples.any():
        z = np.sqrt(n_units / (n_units - 1)) * student.ppf((1 + level) / 2, n_units - 1)
        tail = float(norm.sf(z))
        ends = np.nanquantile(samples[:, has_samples], [tail, 1 - tail], axis=0)
        low[has_samples], high[has_samples] = ends
    return low, high
