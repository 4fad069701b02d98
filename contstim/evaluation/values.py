"""Performance of each model for each participant in one analysis, with noise ceilings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.evaluation.measures import MEASURES, Measure, NoiseCeilings, compute_ceilings
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import Analysis, TrialData, select_trials

if TYPE_CHECKING:
    from contstim.evaluation.options import EvaluationOptions


@dataclass(frozen=True, eq=False)
class SubsetValues:
    """Values of a measure for a group of m models that are evaluated on the same trials.

    In an analysis of targeted trials, models are evaluated on different trials. Models with
    identical trials form a group, and there is one object of this class per group. A noise ceiling
    compares a participant with others, so it needs trials that enough other participants judged. It
    may therefore use fewer trials and fewer participants than the values.

    Attributes
    ----------
    subset
        Choices of n participants on these trials, and indices of the m models.
    value
        Value of each model for each participant, shape (n, m). NaN where the measure is not
        defined.
    ceilings
        Noise ceilings of the k participants who have trials that enough others judged.
    """

    subset: Subset
    value: FloatArray
    ceilings: NoiseCeilings


@dataclass(frozen=True, eq=False)
class AnalysisValues:
    """Performance of M models for N participants in one analysis, according to one measure.

    Attributes
    ----------
    data
        Choices and predictions on the trials of all analyses.
    analysis
        Rule that selects the trials.
    measure
        Measure of agreement between predictions and choices, for example accuracy.
    subset_values
        One object per group of models that are evaluated on the same trials. A model without trials
        belongs to no group.
    value
        Value of the measure for each participant and model, shape (N, M). NaN for a participant
        without trials, or where the measure is not defined.
    lower, upper
        Lower and upper noise ceilings for each participant and model, shape (N, M).
    value_on_ceiling_trials
        Like `value`, but computed only from trials that have noise ceilings, that is, trials that
        enough other participants judged. It can be compared with the ceilings.
    """

    data: TrialData
    analysis: Analysis
    measure: Measure
    subset_values: tuple[SubsetValues, ...]
    value: FloatArray
    lower: FloatArray
    upper: FloatArray
    value_on_ceiling_trials: FloatArray

    def find_subset_values(self, model: int) -> SubsetValues | None:
        """Return the values of a model on its trials; None if the model has no trials.

        `model` is the index of the model in `data.models`. The result also contains the values of
        other models that are evaluated on the same trials.
        """
        return next((v for v in self.subset_values if model in v.subset.models), None)

    def targeted_pairs(self) -> list[tuple[int, int]]:
        """Return the pairs of models that trials of this analysis were designed to distinguish.

        Returns
        -------
        list of tuple of int
            Sorted pairs of indices (i, j), i < j, of two models that the same trial targets.
        """
        index_by_name = {name: i for i, name in enumerate(self.data.models)}
        # Row in `data.pairs` of each sentence pair on which at least one model is evaluated.
        sentence_pairs = {int(i) for values in self.subset_values for i in values.subset.pair}
        # The columns "model_1" and "model_2" name the two models that a sentence pair was designed
        # to distinguish. Models without scores are not in `data.models` and cannot be compared.
        names = self.data.pairs.loc[sorted(sentence_pairs), ["model_1", "model_2"]]
        model_pairs = set()
        for model_1, model_2 in names.itertuples(index=False):
            if model_1 in index_by_name and model_2 in index_by_name:
                i, j = sorted((index_by_name[model_1], index_by_name[model_2]))
                model_pairs.add((i, j))
        return sorted(model_pairs)


def compute_values(
    data: TrialData, analysis: Analysis, options: EvaluationOptions
) -> Iterator[AnalysisValues]:
    """Compute how well each model predicts the choices of each participant.

    Parameters
    ----------
    data
        Choices of N participants on all trials, and predictions of M models.
    analysis
        Rule that selects the trials, for example all trials of one condition.
    options
        Options of the evaluation, which name the measures to compute, for example accuracy.

    Yields
    ------
    AnalysisValues
        Value of each model for each participant according to one measure, with the noise ceilings
        of each participant.
    """
    shape = len(data.participants), len(data.models)
    # A subset contains the choices on the trials of one group of models.
    subsets = [subset for subset in group_by_trials(data, analysis) if subset.n_rows]
    for name in options.measures:
        measure = MEASURES[name]
        all_subset_values = []
        # Arrays for all N participants and M models, filled in for one group of models at a time.
        value, value_on_ceiling_trials = np.full(shape, np.nan), np.full(shape, np.nan)
        lower, upper = np.full(shape, np.nan), np.full(shape, np.nan)
        for subset in subsets:
            ceilings = compute_ceilings(subset, measure, options.min_others)
            # Noise ceilings may exist for some trials only. Compute the values on all trials of the
            # group, and again on the trials with noise ceilings, so that both can be compared.
            subset_value = measure.values(subset)
            has_all_trials = ceilings.subset is subset
            matched_value = subset_value if has_all_trials else measure.values(ceilings.subset)
            all_subset_values.append(SubsetValues(subset, subset_value, ceilings))

            # Copy the values of these participants and models to the arrays.
            value[np.ix_(subset.participants, subset.models)] = subset_value
            cells = np.ix_(ceilings.subset.participants, subset.models)
            value_on_ceiling_trials[cells] = matched_value
            lower[cells] = ceilings.lower[:, None]
            upper[cells] = ceilings.upper[:, None]
        results = tuple(all_subset_values), value, lower, upper, value_on_ceiling_trials
        yield AnalysisValues(data, analysis, measure, *results)


def group_by_trials(data: TrialData, analysis: Analysis) -> Iterator[Subset]:
    """Yield the choices of an analysis for each group of models with the same trials.

    An analysis may evaluate each model only on the trials that target it, that is, trials that were
    designed to distinguish it from another model. Models with identical trials then form a group.
    In other analyses all models form one group.

    Parameters
    ----------
    data
        Choices on all trials, and predictions of the models.
    analysis
        Rule that selects the trials.

    Yields
    ------
    Subset
        Choices on the trials of one group of models, and the indices of these models.
    """
    if analysis.target == "all":
        # Without models, the group is empty, but noise ceilings can still be computed.
        selected = select_trials(analysis, data.pairs, ["any model"])
        groups = [(selected[:, 0], np.arange(len(data.models)))]
    else:
        selected = select_trials(analysis, data.pairs, data.models)
        # The bytes of a mask of trials identify models with the same trials.
        models_by_mask: dict[bytes, list[int]] = {}
        for model in range(len(data.models)):
            models_by_mask.setdefault(selected[:, model].tobytes(), []).append(model)
        groups = [(selected[:, models[0]], np.array(models)) for models in models_by_mask.values()]
    has_levels = data.has_levels(analysis)
    # Select the choices on these pairs that have the factor levels of the analysis.
    for is_selected, models in groups:
        yield Subset(data, np.flatnonzero(is_selected[data.pair] & has_levels), models)


def mean_defined(values: FloatArray) -> float:
    """Return the mean of the values that are not NaN, or NaN if all are NaN."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def unit_means(values: FloatArray, unit_codes: IntArray) -> FloatArray:
    """Average the values of participants within each unit, ignoring NaN.

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
    is_defined = ~np.isnan(values)
    # Sum and count the values of each unit (participant or group of participants) that are defined.
    totals, counts = np.zeros((2, int(unit_codes.max()) + 1, values.shape[1]))
    np.add.at(totals, unit_codes, np.where(is_defined, values, 0.0))
    np.add.at(counts, unit_codes, is_defined)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(totals / counts)  # 0 / 0 is NaN for a unit without values
