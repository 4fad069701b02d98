"""The published inference: signed-rank tests and bootstrap intervals (Golan et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr
from scipy.stats import norm, rankdata
from scipy.stats import t as student

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError, require_known
from contstim.evaluation.inference import InferenceResult
from contstim.evaluation.inference.quasi_f import MIN_UNITS
from contstim.evaluation.measures import Measure
from contstim.evaluation.options import TEST_METHODS, EvaluationOptions
from contstim.evaluation.ranks import DECIMALS, rank_biserial
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import TrialData
from contstim.evaluation.values import AnalysisValues, unit_means
from contstim.response_model import inference_unit

# Largest number of differences for the exact distribution.
_MAX_EXACT = 100
# Number of elements of an array that fits into the cache.
_CHUNK_SIZE = 200_000


@dataclass(frozen=True, eq=False)
class SignedRankInference:
    """Wilcoxon signed-rank tests across groups or participants, with bootstrap intervals.

    Attributes
    ----------
    unit
        Unit of the tests, ``group`` or ``participant``. Values are averaged within each unit, and
        a test has one observation per unit.
    unit_codes
        Integer code of the unit to which each participant belongs, shape (N,).
    method
        Method of `wilcoxon_signed_rank`.
    resamples
        Bootstrap resamples. If there are none, no intervals are computed.
    """

    unit: str
    unit_codes: IntArray
    method: str
    resamples: Resamples
    columns = (("p_smallest",), ("p_smallest",))

    @classmethod
    def from_options(
        cls, data: TrialData, options: EvaluationOptions, resampling_levels: tuple[str, ...]
    ) -> SignedRankInference:
        """Choose the unit of the tests and draw the bootstrap resamples, as the options require.

        Parameters
        ----------
        data
            Choices of all analyses.
        options
            The options `unit`, `test_method`, `n_bootstrap` and `seed` are used. The unit ``auto``
            means groups of participants if there are enough of them, otherwise participants.
        resampling_levels
            Levels at which the bootstrap draws with replacement, for example participants and pairs
            (see `draw_resamples`). They do not depend on the unit of the tests.

        Returns
        -------
        SignedRankInference
            Inference with its bootstrap resamples already drawn, so that all analyses share them.
        """
        # Unit of the tests: groups of participants who judged the same sentences, or participants.
        unit = inference_unit(len(data.groups)) if options.unit == "auto" else options.unit
        codes = data.group_codes if unit == "group" else np.arange(len(data.participants))
        resamples = draw_resamples(data, resampling_levels, options.n_bootstrap, options.seed)
        return cls(unit, codes, options.test_method, resamples)

    def __call__(
        self, values: AnalysisValues, pairs: Sequence[tuple[int, int]]
    ) -> tuple[list[InferenceResult], list[InferenceResult]]:
        """Test each model against the lower noise ceiling, and compare pairs of models.

        Parameters
        ----------
        values
            Values and noise ceilings of M models in one analysis.
        pairs
            Indices of the two models of each comparison.

        Returns
        -------
        models : list of InferenceResult
            One result per model.
        comparisons : list of InferenceResult
            One result per pair of models.
        """
        first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        # `reshape` also handles an empty list of pairs. `samples` contains the mean value of each
        # model in each bootstrap resample, shape (B, M), for the confidence intervals.
        samples = np.full((len(self.resamples.participants), len(values.data.models)), np.nan)
        for group in values.subset_values:
            means = resample_values(group.subset, values.measure, self.resamples)
            samples[:, group.subset.models] = means
        # There are two families of tests. The first examines whether each model differs from the
        # lower noise ceiling. For a fair comparison, the model's value is computed on the same
        # trials as the ceiling, that is, trials that enough other participants judged.
        models = self._test_columns(values.value_on_ceiling_trials - values.lower, samples)
        # The second family examines whether the two models of each pair differ.
        differences = values.value[:, first] - values.value[:, second]
        return models, self._test_columns(differences, samples[:, first] - samples[:, second])

    def _test_columns(self, values: FloatArray, samples: FloatArray) -> list[InferenceResult]:
        """Return the signed-rank test and the bootstrap interval of each of K quantities.

        Parameters
        ----------
        values
            Differences of N participants, shape (N, K). The Wilcoxon test examines whether their
            means over units (participants or groups) are symmetric about zero.
        samples
            B bootstrap samples of each quantity, shape (B, K), from which its interval is computed.

        Returns
        -------
        list of InferenceResult
            One result per column.
        """
        low, high = percentile_intervals(samples, self.resamples.n_units)
        no_interval = "no interval: too few units to resample" if len(samples) else "no bootstrap"
        results = []
        # Average over the participants of each unit. A row of `unit_values` contains one number per
        # unit and corresponds to a column of `values`.
        unit_values = unit_means(values, self.unit_codes).T
        for means, ci_low, ci_high in zip(unit_values, low.tolist(), high.tolist(), strict=True):
            defined = means[~np.isnan(means)]
            test, note = SignedRankTest(), no_interval if np.isnan(ci_low) else ""
            # Fewer units than `MIN_UNITS` do not allow a test.
            if len(defined) >= MIN_UNITS:
                test = wilcoxon_signed_rank(defined, self.method)
            elif len(defined):
                note = f"too few {self.unit}s to test across"
            result = InferenceResult(
                p=test.p,
                effect=test.effect,
                side=float(np.sign(np.nan_to_num(test.effect))),
                ci_low=ci_low,
                ci_high=ci_high,
                n_units=len(defined),
                test=test.method,
                note=note,
                statistics={"p_smallest": test.p_smallest},
            )
            results.append(result)
        return results


@dataclass(frozen=True)
class SignedRankTest:
    """Result of a two-sided signed-rank test.

    Attributes
    ----------
    statistic
        Sum of the ranks of positive differences.
    p
        Two-sided p-value; NaN if there is no test.
    effect
        Matched-pairs rank-biserial correlation: sum of the ranks of positive minus negative
        differences, divided by the sum of all ranks, -1 to 1.
    p_smallest
        Smallest p-value of the exact test with n differences, 2 / 2^n.
    method
        Distribution that was used, ``exact`` or ``asymptotic``; empty if there is no test.
    """

    statistic: float = np.nan
    p: float = np.nan
    effect: float = np.nan
    p_smallest: float = np.nan
    method: str = ""


def wilcoxon_signed_rank(differences: ArrayLike, method: str = "exact") -> SignedRankTest:
    """Test whether paired differences are symmetric about zero.

    Differences are rounded to 12 decimals, so that equal differences are ties in spite of rounding
    errors. Ties have average ranks. Zeros are ranked, and half of their ranks counts for each sign
    (``zsplit`` of SciPy).

    Parameters
    ----------
    differences
        One number per participant or group, without missing values, shape (n,).
    method
        ``exact``: distribution over all 2^n changes of sign, up to 100 differences, otherwise the
        normal approximation. ``scipy-1.7``: rule of SciPy 1.7, as in the analysis of Golan et al.
        (2023): exact distribution of untied ranks up to 25 differences without zeros, otherwise the
        normal approximation.

    Returns
    -------
    SignedRankTest
        p = 1 and effect = 0 if all differences are 0.

    Raises
    ------
    InputError
        If there is no difference, a difference is not finite, or the method is unknown.

    References
    ----------
    Wilcoxon (1945), doi 10.2307/3001968; Kerby (2014), doi 10.2466/11.IT.3.1, for the effect size.

    Examples
    --------
    >>> test = wilcoxon_signed_rank([0.11, 0.04, -0.02, 0.09, 0.07, 0.03])
    >>> round(test.p, 3)
    0.062
    """
    require_known("test method", method, TEST_METHODS)
    d = np.round(np.asarray(differences, dtype=np.float64), DECIMALS)
    if d.ndim != 1 or not len(d) or not np.isfinite(d).all():
        raise InputError("a signed-rank test needs a vector of finite differences, at least one")
    # The smallest two-sided p-value, if all n signs are equal, is 2 / 2^n.
    n, p_smallest = len(d), min(1.0, 2.0 ** (1 - len(d)))
    if not d.any():
        # All differences are 0: the test statistic and the effect are 0, and p is 1.
        return SignedRankTest(0.0, 1.0, 0.0, p_smallest, "exact")
    # Rank the absolute differences, then sum the ranks of positive and of zero differences.
    ranks = np.asarray(rankdata(np.abs(d)), dtype=np.float64)
    sum_positive, sum_zero = float(ranks[d > 0].sum()), float(ranks[d == 0].sum())
    # SciPy 1.7 ignored ties in the exact distribution: it used the ranks 1 to n, and truncated the
    # statistic.
    if method == "scipy-1.7":
        is_exact = n <= 25 and sum_zero == 0
        used_ranks, statistic = np.arange(1.0, n + 1), float(int(sum_positive))
    else:
        is_exact = n <= _MAX_EXACT
        used_ranks, statistic = ranks[d != 0], sum_positive
    if is_exact:
        p = _exact_p_value(used_ranks, statistic)
    else:
        # Normal approximation with a correction for ties, as `scipy.stats.wilcoxon`.
        counts = np.unique(ranks, return_counts=True)[1]
        variance = (n * (n + 1) * (2 * n + 1) - (counts**3 - counts).sum() / 2) / 24
        z = (sum_positive + sum_zero / 2 - n * (n + 1) / 4) / np.sqrt(variance)
        p = 2 * float(ndtr(-abs(z)))
    name = "exact" if is_exact else "asymptotic"
    return SignedRankTest(sum_positive + sum_zero / 2, p, rank_biserial(d), p_smallest, name)


def _exact_p_value(ranks: FloatArray, statistic: float) -> float:
    """Return the exact two-sided p-value of the Wilcoxon signed-rank test.

    Under the null hypothesis each rank is positive with probability 1/2. The distribution of the
    sum of positive ranks is built up rank by rank. The p-value is twice the smaller tail
    probability, at most 1.

    Parameters
    ----------
    ranks
        Ranks of the absolute differences, shape (n,). Average ranks of ties can end in .5.
    statistic
        Observed sum of the ranks of positive differences.
    """
    probability = np.ones(1)
    # Element s of `probability` is the probability of the sum s / 2, since average ranks can be
    # multiples of 1/2.
    for rank in np.round(2 * ranks).astype(np.int64):
        # A negative rank leaves the sum unchanged, a positive rank shifts it.
        sums = np.zeros(len(probability) + rank)
        sums[: len(probability)] += probability / 2
        sums[rank:] += probability / 2
        probability = sums
    # p = 2 min(P(sum <= observed), P(sum >= observed)).
    observed = round(2 * statistic)
    lower, upper = probability[: observed + 1].sum(), probability[observed:].sum()
    return min(1.0, 2 * float(min(lower, upper)))


class Resamples(NamedTuple):
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


def default_levels(data: TrialData) -> tuple[str, ...]:
    """Return the levels to resample: groups if possible, otherwise participants and pairs.

    Groups are resampled if there are enough of them, see `inference_unit`, and if no pair was
    judged by two groups, so that the participants and the pairs of a group are resampled together.
    """
    if inference_unit(len(data.groups)) == "group" and data.has_disjoint_groups:
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
        Levels at which to resample: ``group`` (whole groups), ``participant`` (participants within
        each drawn group), ``pair`` (items, that is, related sentence pairs, drawn together).
    n_draws
        Number of resamples B.
    seed
        Seed of the random numbers.
    """
    rng = np.random.default_rng(seed)
    n_groups, n_items = len(data.groups), data.n_items
    # Number of times that each group is drawn. Without resampling, each is used once.
    group_counts = np.ones((n_draws, n_groups), dtype=np.int64)
    if "group" in levels:
        group_counts = _draw_counts(rng, np.full(n_draws, n_groups), n_groups)
    # All participants of a group are copied with it.
    participant_counts, pair_counts = group_counts[:, data.group_codes], None
    if "participant" in levels:
        # Draw as many participants as the copies of the group contain.
        for group in range(n_groups):
            members = np.flatnonzero(data.group_codes == group)
            n_drawn = group_counts[:, group] * len(members)
            participant_counts[:, members] = _draw_counts(rng, n_drawn, len(members))
    if "pair" in levels:
        # All sentence pairs of an item are drawn together.
        pair_counts = _draw_counts(rng, np.full(n_draws, n_items), n_items)[:, data.item]
    # The interval is expanded for the smallest number of resampled units.
    n_units = {"group": n_groups, "participant": len(data.participants), "pair": n_items}
    min_units = min((n_units[level] for level in levels), default=len(data.participants))
    return Resamples(participant_counts, pair_counts, min_units)


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
        Measure that is computed.
    resamples
        B resamples.

    Returns
    -------
    array
        Means, shape (B, M), NaN in a resample without a defined value.
    """
    participant_counts = resamples.participants[:, subset.participants].astype(np.float64)
    # A resample contains a participant several times or not at all: counts of shape (B, N). The
    # mean of a model is the sum of its defined values, weighted by these counts, divided by the sum
    # of the weights. Both sums have the shape (B, M).
    sums, weight_sums = np.zeros((2, len(participant_counts), len(subset.models)))
    if resamples.pairs is None:
        # If pairs are not resampled, the value of a participant is the same in all resamples.
        values = measure.values(subset)
        sums = participant_counts @ np.nan_to_num(values)
        weight_sums = participant_counts @ ~np.isnan(values)
    else:
        log_ratio = subset.data.log_ratio[:, subset.models]
        # Process n participants who judged the same k pairs together, with ratings of shape (n, k).
        for members, pairs, rating in subset.iterate_pair_sets(measure.responses(subset)):
            # Process some resamples at a time, so that the arrays fit into the processor's cache.
            chunk_length = 1 + _CHUNK_SIZE // rating.size
            for start in range(0, len(sums), chunk_length):
                chunk = slice(start, start + chunk_length)
                counts = resamples.pairs[chunk][:, pairs].astype(np.float64)  # copies of each pair
                values = measure.resampled_values(rating, log_ratio[pairs], counts)
                # Weighted sums over participants (n) for each resample (b) and model (m).
                weights, is_missing = participant_counts[chunk][:, members], np.isnan(values)
                defined = np.where(is_missing, 0.0, values)
                sums[chunk] += np.einsum("bn,bnm->bm", weights, defined)
                weight_sums[chunk] += np.einsum("bn,bnm->bm", weights, 1.0 - is_missing)
    with np.errstate(invalid="ignore"):
        return sums / weight_sums


def percentile_intervals(samples: FloatArray, n_units: int) -> tuple[FloatArray, FloatArray]:
    """Return the expanded 95 % percentile interval of each column of bootstrap samples.

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

    Returns
    -------
    low, high : array
        Ends of the intervals, shape (K,) each. NaN for a column without samples, or if there are
        fewer than two units.
    """
    low, high = np.full((2, samples.shape[1]), np.nan)
    has_samples = ~np.isnan(samples).all(axis=0)
    if n_units >= 2 and has_samples.any():
        # Expand the percentiles from Φ(± 1.96) to Φ(± sqrt(n / (n - 1)) t). The quantile t of
        # Student's distribution replaces 1.96, because the variance is estimated. The square root
        # corrects for the variance of resampled means, which is too small by (n - 1) / n.
        z = np.sqrt(n_units / (n_units - 1)) * student.ppf(0.975, n_units - 1)
        # Probability below the lower percentile, and above the upper one.
        tail = float(norm.sf(z))
        ends = np.nanquantile(samples[:, has_samples], [tail, 1 - tail], axis=0)
        low[has_samples], high[has_samples] = ends
    return low, high
