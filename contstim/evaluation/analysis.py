"""One analysis and measure: every model's value and noise ceilings for every participant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from contstim.arrays import BoolArray, FloatArray
from contstim.evaluation.options import EvaluationOptions
from contstim.evaluation.subset import Ceilings, Subset
from contstim.evaluation.trials import Analysis, TrialData, select


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
    ceilings: Ceilings
    matched: FloatArray

    @classmethod
    def of(cls, subset: Subset, measure: str, options: EvaluationOptions) -> SubsetValues:
        """Compute them."""
        value = subset.values(measure)
        ceilings = subset.ceilings(measure, options.min_others, options.upper)
        whole = ceilings.matched is subset
        return cls(subset, value, ceilings, value if whole else ceilings.matched.values(measure))


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
    measure: str
    parts: tuple[SubsetValues, ...]
    value: FloatArray
    lower: FloatArray
    upper: FloatArray
    matched: FloatArray

    @classmethod
    def of(
        cls, data: TrialData, analysis: Analysis, measure: str, parts: tuple[SubsetValues, ...]
    ) -> AnalysisValues:
        """Spread the values of the parts over all participants and models."""

        def spread(of: Callable[[SubsetValues], tuple[Subset, FloatArray]]) -> FloatArray:
            table = np.full((len(data.participants), len(data.models)), np.nan)
            for part in parts:
                subset, values = of(part)
                table[np.ix_(subset.labels, subset.models)] = values
            return table

        return cls(
            *(data, analysis, measure, parts),
            value=spread(lambda part: (part.subset, part.value)),
            lower=spread(lambda part: (part.subset, part.ceilings.lower[:, None])),
            upper=spread(lambda part: (part.subset, part.ceilings.upper[:, None])),
            matched=spread(lambda part: (part.ceilings.matched, part.matched)),
        )

    def part_of(self, model: int) -> SubsetValues | None:
        """Return the part that this model is in, if it has any trial."""
        return next((part for part in self.parts if model in part.subset.models), None)

    def pitted(self) -> list[tuple[int, int]]:
        """Return the pairs of models (i < j) that some trial of the analysis pits."""
        index = {name: i for i, name in enumerate(self.data.models)}
        seen = np.unique(np.concatenate([[], *(part.subset.pair for part in self.parts)]))
        targets = self.data.pairs.loc[seen.astype(np.int64), ["model_1", "model_2"]]
        both = [
            (index[a], index[b]) for a, b in targets.itertuples(index=False) if {a, b} <= {*index}
        ]
        return sorted({(min(pair), max(pair)) for pair in both})


def analyse(
    data: TrialData, analysis: Analysis, options: EvaluationOptions
) -> Iterator[AnalysisValues]:
    """Yield the values of `analysis` by each measure."""
    subsets = [subset for subset in _subsets(data, analysis) if subset.n_rows]
    for measure in options.measures:
        parts = tuple(SubsetValues.of(subset, measure, options) for subset in subsets)
        yield AnalysisValues.of(data, analysis, measure, parts)


def _subsets(data: TrialData, analysis: Analysis) -> Iterator[Subset]:
    """Yield the models that share their trials; without targets that is all of them, or none."""
    everyone = np.arange(len(data.models))
    if analysis.target == "all":
        pairs = select(analysis, data.pairs, ["any"])[:, 0]
        yield Subset.of_pairs(data, pairs, everyone)
        return
    chosen = select(analysis, data.pairs, data.models)
    columns: dict[bytes, BoolArray] = {chosen[:, m].tobytes(): chosen[:, m] for m in everyone}
    for key, pairs in columns.items():
        same = [m for m in everyone if chosen[:, m].tobytes() == key]
        yield Subset.of_pairs(data, pairs, np.array(same))
