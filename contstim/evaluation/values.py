"""Values of models and noise ceilings in one analysis by one measure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.evaluation.ceilings import NoiseCeilings, compute_ceilings
from contstim.evaluation.measures import MEASURES, Measure
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import Analysis, TrialData, select_trials

if TYPE_CHECKING:
    from contstim.evaluation.options import EvaluationOptions


@dataclass(frozen=True, eq=False)
class SubsetValues:
    """Values of a measure for models that are evaluated on the same trials.

    In an analysis of targeted trials, models are evaluated on different trials. The models are
    therefore divided into groups with identical trials, and each group has one object of this
    class. A noise ceiling needs trials that enough other participants judged, so it may use fewer
    trials and fewer participants than the values.

    Attributes
    ----------
    subset
        Choices of n participants, and the m models of the group.
    value
        Value of each model for each participant, shape (n, m). NaN where the measure is not
        defined.
    ceilings
        Noise ceilings of the k participants with trials that enough others judged.
    matched
        Value of each model for each of these k participants, computed only from the trials that
        support the noise ceilings, shape (k, m).
    """

    subset: Subset
    value: FloatArray
    ceilings: NoiseCeilings
    matched: FloatArray


@dataclass(frozen=True, eq=False)
class AnalysisValues:
    """Values of M models for N participants in one analysis by one measure.

    Attributes
    ----------
    data
        Choices on the trials of all analyses.
    analysis
        Selection of trials.
    measure
        Measure of the values, for example accuracy.
    parts
        One object per group of models that are evaluated on the same trials. A model without trials
        belongs to no group.
    value, lower, upper
        Value, lower noise ceiling and upper noise ceiling of each model for each participant, shape
        (N, M). NaN for a participant without trials, or where the measure is not defined.
    matched
        Value of each model for each participant, computed only from the trials that support the
        noise ceilings, shape (N, M).
    """

    data: TrialData
    analysis: Analysis
    measure: Measure
    parts: tuple[SubsetValues, ...]
    value: FloatArray
    lower: FloatArray
    upper: FloatArray
    matched: FloatArray

    def part_of(self, model: int) -> SubsetValues | None:
        """Return the part that contains the model, or None if the model has no trials."""
        return next((part for part in self.parts if model in part.subset.models), None)

    def targeted_pairs(self) -> list[tuple[int, int]]:
        """Return the pairs of models that trials of this analysis were designed to distinguish.

        A pair consists of the indices i < j of two models that are the targets of the same trial.
        """
        index = {name: i for i, name in enumerate(self.data.models)}
        pairs = np.unique(np.concatenate([[], *(part.subset.pair for part in self.parts)]))
        targets = self.data.pairs.loc[pairs.astype(np.int64), ["model_1", "model_2"]]
        targeted = set()
        for first, second in targets.itertuples(index=False):
            if first in index and second in index:
                targeted.add((min(index[first], index[second]), max(index[first], index[second])))
        return sorted(targeted)


def compute_values(
    data: TrialData, analysis: Analysis, options: EvaluationOptions
) -> Iterator[AnalysisValues]:
    """Yield the values and noise ceilings of all models in an analysis, by each measure.

    Parameters
    ----------
    data
        Trials of all analyses.
    analysis
        Selection of trials.
    options
        Options with the names of the measures.

    Yields
    ------
    AnalysisValues
        One object per measure.
    """
    subsets = [subset for subset in group_by_trials(data, analysis) if subset.n_rows]
    shape = len(data.participants), len(data.models)
    for measure in (MEASURES[name] for name in options.measures):
        parts = []
        value, lower, upper, matched = (np.full(shape, np.nan) for _ in range(4))
        for subset in subsets:
            ceilings = compute_ceilings(subset, measure, options.min_others)
            part_value = part_matched = measure.values(subset)
            if ceilings.matched is not subset:
                part_matched = measure.values(ceilings.matched)
            parts.append(SubsetValues(subset, part_value, ceilings, part_matched))
            value[np.ix_(subset.participants, subset.models)] = part_value
            cells = np.ix_(ceilings.matched.participants, subset.models)
            matched[cells] = part_matched
            lower[cells], upper[cells] = ceilings.lower[:, None], ceilings.upper[:, None]
        yield AnalysisValues(data, analysis, measure, tuple(parts), value, lower, upper, matched)


def group_by_trials(data: TrialData, analysis: Analysis) -> Iterator[Subset]:
    """Yield the choices of an analysis for each group of models with the same trials.

    If the analysis selects trials by the models that they target, each model has its own trials,
    and models with identical trials form a group. Otherwise all models form one group.
    """
    models, has_levels = np.arange(len(data.models)), data.has_levels(analysis)
    if analysis.target == "all":
        pairs = select_trials(analysis, data.pairs, ["any"])[:, 0]
        yield Subset(data, np.flatnonzero(pairs[data.pair] & has_levels), models)
        return
    selected = select_trials(analysis, data.pairs, data.models)
    groups: dict[bytes, list[int]] = {}
    for model in models:
        groups.setdefault(selected[:, model].tobytes(), []).append(int(model))
    for members in groups.values():
        pairs = selected[:, members[0]]
        yield Subset(data, np.flatnonzero(pairs[data.pair] & has_levels), np.array(members))


def mean_defined(values: FloatArray) -> float:
    """Return the mean of the values that are not NaN, or NaN without any."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def unit_means(values: FloatArray, unit_codes: IntArray) -> FloatArray:
    """Return the mean value of each unit, ignoring NaN.

    A *unit* is a participant or a group of participants, whichever a test treats as independent.

    Parameters
    ----------
    values
        K values of each of N participants, shape (N, K).
    unit_codes
        Code (0, 1, ...) of the unit to which each participant belongs, shape (N,).

    Returns
    -------
    array
        Means, one row per unit and K columns. NaN for a unit without a value.
    """
    n_units = int(unit_codes.max()) + 1
    means = np.empty((n_units, values.shape[1]))
    for column in range(values.shape[1]):
        is_defined = ~np.isnan(values[:, column])
        total = np.bincount(unit_codes[is_defined], values[is_defined, column], minlength=n_units)
        count = np.bincount(unit_codes[is_defined], minlength=n_units)
        with np.errstate(invalid="ignore", divide="ignore"):
            means[:, column] = total / count
    return means
