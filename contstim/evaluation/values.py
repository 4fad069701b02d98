"""Every model's value and noise ceilings in one analysis by one measure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.evaluation.ceilings import NoiseCeilings
from contstim.evaluation.measures import MEASURES, Measure
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import Analysis, TrialData, select

if TYPE_CHECKING:
    from contstim.evaluation.options import EvaluationOptions


@dataclass(frozen=True, eq=False)
class SubsetValues:
    """What one measure says of m models that share their trials.

    Attributes
    ----------
    subset
        The trials and models.
    value
        Shape (n participants here, m); NaN where the measure is not defined.
    ceilings
        Of the same participants.
    matched
        Values on the trials that the ceilings rest on, shape (n', m) for the n' participants of
        `ceilings.matched`.
    """

    subset: Subset
    value: FloatArray
    ceilings: NoiseCeilings
    matched: FloatArray

    @classmethod
    def of(cls, subset: Subset, measure: Measure, options: EvaluationOptions) -> SubsetValues:
        """Compute the values of one measure."""
        value = measure.values(subset)
        ceilings = NoiseCeilings.of(subset, measure, options.min_others)
        whole = ceilings.matched is subset
        return cls(subset, value, ceilings, value if whole else measure.values(ceilings.matched))


@dataclass(frozen=True, eq=False)
class AnalysisValues:
    """Values of M models for N participants in one analysis and measure.

    Attributes
    ----------
    parts
        One for the models that share their trials; none for models without a trial.
    value, lower, upper
        Values and noise ceilings, shape (N, M); NaN where a participant has no trial or the
        measure is not defined.
    matched
        Values on the trials that the ceilings rest on, shape (N, M).
    """

    data: TrialData
    analysis: Analysis
    measure: Measure
    parts: tuple[SubsetValues, ...]
    value: FloatArray
    lower: FloatArray
    upper: FloatArray
    matched: FloatArray

    @classmethod
    def of(
        cls, data: TrialData, analysis: Analysis, measure: Measure, parts: tuple[SubsetValues, ...]
    ) -> AnalysisValues:
        """Spread the values of the parts over all participants and models."""

        def spread(of: Callable[[SubsetValues], FloatArray], matched: bool = False) -> FloatArray:
            table = np.full((len(data.participants), len(data.models)), np.nan)
            for part in parts:
                subset = part.ceilings.matched if matched else part.subset
                table[np.ix_(subset.participants, subset.models)] = of(part)
            return table

        return cls(
            *(data, analysis, measure, parts),
            value=spread(lambda part: part.value),
            lower=spread(lambda part: part.ceilings.lower[:, None], matched=True),
            upper=spread(lambda part: part.ceilings.upper[:, None], matched=True),
            matched=spread(lambda part: part.matched, matched=True),
        )

    def part_of(self, model: int) -> SubsetValues | None:
        """Return the part that this model is in, if it has any trial."""
        return next((part for part in self.parts if model in part.subset.models), None)

    def targeted_pairs(self) -> list[tuple[int, int]]:
        """Return the pairs of models (i < j) that some trial of the analysis pits."""
        index = {name: i for i, name in enumerate(self.data.models)}
        seen = np.unique(np.concatenate([[], *(part.subset.pair for part in self.parts)]))
        targets = self.data.pairs.loc[seen.astype(np.int64), ["model_1", "model_2"]]
        both = [
            (index[a], index[b]) for a, b in targets.itertuples(index=False) if {a, b} <= {*index}
        ]
        return sorted({(min(pair), max(pair)) for pair in both})


def compute_values(
    data: TrialData, analysis: Analysis, options: EvaluationOptions
) -> Iterator[AnalysisValues]:
    """Yield the values of `analysis` by each measure."""
    subsets = [subset for subset in group_by_trials(data, analysis) if subset.n_rows]
    for measure in (MEASURES[name] for name in options.measures):
        parts = tuple(SubsetValues.of(subset, measure, options) for subset in subsets)
        yield AnalysisValues.of(data, analysis, measure, parts)


def group_by_trials(data: TrialData, analysis: Analysis) -> Iterator[Subset]:
    """Yield the models that share their trials; without targets that is all of them, or none."""
    everyone, there = np.arange(len(data.models)), data.has_levels(analysis)
    if analysis.target == "all":
        pairs = select(analysis, data.pairs, ["any"])[:, 0]
        yield Subset(data, np.flatnonzero(pairs[data.pair] & there), everyone)
        return
    chosen = select(analysis, data.pairs, data.models)
    columns: dict[bytes, BoolArray] = {chosen[:, m].tobytes(): chosen[:, m] for m in everyone}
    for key, pairs in columns.items():
        same = [m for m in everyone if chosen[:, m].tobytes() == key]
        yield Subset(data, np.flatnonzero(pairs[data.pair] & there), np.array(same))


def mean_defined(values: FloatArray) -> float:
    """Return the mean of the values that are not missing; NaN without any."""
    there = values[~np.isnan(values)]
    return float(there.mean()) if len(there) else float("nan")


def unit_means(values: FloatArray, unit_of: IntArray) -> FloatArray:
    """Average (N, K) over the participants of each unit, shape (units, K); NaN do not count."""
    n = int(unit_of.max()) + 1
    means = np.empty((n, values.shape[1]))
    for column in range(values.shape[1]):
        there = ~np.isnan(values[:, column])
        total = np.bincount(unit_of[there], values[there, column], minlength=n)
        size = np.bincount(unit_of[there], minlength=n)
        with np.errstate(invalid="ignore", divide="ignore"):
            means[:, column] = total / size
    return means
