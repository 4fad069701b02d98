"""The default inference: quasi-F tests of models, of their differences and of interactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from contstim.arrays import FloatArray
from contstim.evaluation.inference.base import CEILING_INTERVALS, InferenceResult
from contstim.evaluation.inference.conditions import estimate_contrast
from contstim.evaluation.inference.estimate import MeanEstimate
from contstim.evaluation.inference.quasi_f import CellMean, estimate_differences
from contstim.evaluation.measures import Measure
from contstim.evaluation.ranks import rank_biserial
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import Analysis, TrialData
from contstim.evaluation.values import AnalysisValues, group_by_trials, mean_defined

#: Note on a mean without a standard error.
TOO_FEW = "too few participants or items for a standard error"
_TOO_FEW_JUDGES = (
    "no interval and no test of the ceilings: most pairs were judged by two participants only"
)


@dataclass(frozen=True, eq=False)
class QuasiFInference:
    """Quasi-F tests with Satterthwaite degrees of freedom (Clark 1973), see `CrossedDesign`.

    Attributes
    ----------
    item_effects
        ``random`` if results generalise to new items, ``fixed`` if they describe the items used.
    equivalence
        Largest difference of equivalent models, as a share of the distance from chance to the lower
        noise ceiling.
    """

    item_effects: str
    equivalence: float
    columns = (
        ("p_chance", "stderr", "df", *CEILING_INTERVALS),
        ("stderr", "df", "margin", "p_equivalence", "participants_needed", "items_needed"),
    )

    @property
    def unit(self) -> str:
        """Kind of unit to which results generalise, for the column `unit` of the tables."""
        return "participant" if self.item_effects == "fixed" else "participant and sentence"

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
        cells = _model_cells((part.subset for part in values.parts), values.measure)
        models = range(len(values.data.models))
        return (
            [self._test_model(values, model, cells.get(model)) for model in models],
            [self._compare(values, i, j, cells.get(i), cells.get(j)) for i, j in pairs],
        )

    def compare_conditions(
        self,
        data: TrialData,
        analysis: Analysis,
        measure: Measure,
        column: str,
        levels: tuple[str, str],
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, int], MeanEstimate]]:
        """Yield the difference between two levels of a factor, for models and for pairs of models.

        For a pair of models, the difference between their values is compared between the levels,
        which tests the interaction of model and factor. If some participants have choices at both
        levels, only these participants are used.

        Parameters
        ----------
        data
            Trials of all analyses.
        analysis, measure
            Analysis and measure of the values.
        column, levels
            Name of the factor, and the two levels.

        Yields
        ------
        models : tuple of int
            Index of the model, or of the two models of an interaction.
        n_participants : tuple of int
            Number of participants at each level.
        estimate : MeanEstimate
            Value, or difference of the two models, at the first level minus the second.
        """
        level_cells = []
        for level in levels:
            factor_levels = (*analysis.factor_levels, (column, level))
            subsets = group_by_trials(data, replace(analysis, factor_levels=factor_levels))
            level_cells.append(_model_cells(subsets, measure))
        tested = sorted(level_cells[0].keys() & level_cells[1].keys())
        for models in (*((model,) for model in tested), *combinations(tested, 2)):
            cells = [[cells_by_model[model] for model in models] for cells_by_model in level_cells]
            if np.intersect1d(cells[0][0].participants, cells[1][0].participants).size:
                means = _common_participants([*cells[0], *cells[1]])
                conditions = [means[: len(models)], means[len(models) :]]
            else:
                conditions = [_common_participants(condition) for condition in cells]
            if any(len(mean.rows) == 0 for mean in (*conditions[0], *conditions[1])):
                continue
            sizes = [len(np.unique(data.participant[means[0].rows])) for means in conditions]
            estimate = estimate_contrast(
                conditions[0], conditions[1], data.design, self.item_effects
            )
            yield models, (sizes[0], sizes[1]), estimate

    def _test_model(
        self, values: AnalysisValues, model: int, cells: _Cells | None
    ) -> InferenceResult:
        """Test whether a model differs from chance and from the lower noise ceiling.

        The ceilings and their tests use only the trials that enough other participants judged.
        """
        part = values.part_of(model)
        if cells is None or part is None:
            return InferenceResult()
        measure, ceilings, subset = values.measure, part.ceilings, part.ceilings.matched
        estimate, (low, high), p_chance = cells.describe(measure, self.item_effects)
        details = {"p_chance": p_chance, "stderr": estimate.stderr, "df": estimate.df}
        note = TOO_FEW if np.isnan(estimate.stderr) else ""
        result = InferenceResult(ci_low=low, ci_high=high, note=note, details=details)
        if not subset.n_rows:
            return result

        # Compare with the noise ceilings on the trials that enough other participants judged.
        log_ratio = values.data.log_ratio[subset.pair, model]
        matched = _Cells(subset, measure.trial_influence(subset, log_ratio))
        result = replace(result, n_units=len(matched.participants), test="crossed")
        if not ceilings.has_test:
            return replace(result, note=note or _TOO_FEW_JUDGES)
        lower, upper = (
            _Cells(subset, influence)
            for influence in (ceilings.lower_influence, ceilings.upper_influence)
        )
        gap = matched.difference(lower, self.item_effects)
        intervals = (
            *lower.describe(measure, self.item_effects)[1],
            *upper.describe(measure, self.item_effects, is_upper_ceiling=True)[1],
            *gap.interval(),
        )
        return replace(
            result,
            p=gap.p_value(),
            effect=rank_biserial(values.matched[:, model] - values.lower[:, model]),
            side=float(np.sign(gap.value)),
            details=details | dict(zip(CEILING_INTERVALS, intervals, strict=True)),
        )

    def _compare(
        self, values: AnalysisValues, i: int, j: int, first: _Cells | None, second: _Cells | None
    ) -> InferenceResult:
        """Compare models i and j by a test of their difference and a test of equivalence.

        The result also contains the sample size at which the difference would be significant, if
        the true difference equals the estimate.
        """
        differences = values.value[:, i] - values.value[:, j]
        n_participants = int((~np.isnan(differences)).sum())
        if first is None or second is None or not n_participants:
            return InferenceResult()
        estimate = first.difference(second, self.item_effects)
        low, high = estimate.interval()
        lower_ceiling = mean_defined(np.minimum(values.lower[:, i], values.lower[:, j]))
        margin = self.equivalence * (lower_ceiling - values.measure.chance)
        note, p_equivalence = "", np.nan
        if estimate.value == estimate.stderr == 0.0:
            p_equivalence = 0.0
        elif margin > 0:
            p_equivalence = estimate.p_equivalence(margin)
        else:
            note = "no equivalence test: the lower noise ceiling is not above chance"
        growth_participants, growth_items = estimate.required_growth()
        details = {
            "stderr": estimate.stderr,
            "df": estimate.df,
            "margin": margin,
            "p_equivalence": p_equivalence,
            "participants_needed": np.ceil(growth_participants * n_participants),
            "items_needed": np.ceil(growth_items * min(first.n_pairs, second.n_pairs)),
        }
        return InferenceResult(
            p=estimate.p_value(),
            effect=rank_biserial(differences),
            side=float(np.sign(estimate.value)),
            ci_low=low,
            ci_high=high,
            n_units=n_participants,
            test="crossed",
            note=TOO_FEW if np.isnan(estimate.stderr) else note,
            details=details,
        )


class _Cells:
    """One number per choice, from which the mean value of a model or ceiling is estimated.

    The numbers, called cells, are values of single trials or jackknife pseudo-values (see
    `Measure.trial_influence`). They are NaN for participants without a value.
    """

    def __init__(self, subset: Subset, cells: FloatArray) -> None:
        self.subset, self.cells = subset, cells
        self.n_pairs = subset.n_pairs
        self.is_defined = ~np.isnan(cells)
        self.participants = subset.participants[
            np.unique(subset.participant_index[self.is_defined])
        ]

    def describe(
        self, measure: Measure, item_effects: str, is_upper_ceiling: bool = False
    ) -> tuple[MeanEstimate, tuple[float, float], float]:
        """Return the mean of the cells with its confidence interval and a test against chance.

        Parameters
        ----------
        measure
            Measure of the cells, which defines chance and the largest possible value.
        item_effects
            ``random`` or ``fixed``.
        is_upper_ceiling
            Whether the cells belong to the upper noise ceiling, which has another maximum.

        Returns
        -------
        estimate : MeanEstimate
            Mean with its standard error.
        interval : tuple of float
            95 % confidence interval, computed on Fisher's z scale.
        p_chance : float
            Two-sided p-value of the test that the mean equals chance.
        """
        if not self.is_defined.any():
            return MeanEstimate(np.nan, np.nan, np.nan), (np.nan, np.nan), np.nan
        largest = measure.maximum_influence(self.subset)[int(is_upper_ceiling)]
        estimate, maximum = self.subset.design(self.is_defined).estimate_ratio(
            *(self.cells[self.is_defined], largest[self.is_defined], measure.chance, item_effects)
        )
        interval = estimate.bounded_interval(measure.chance, maximum=maximum)
        return estimate, interval, estimate.p_chance(measure.chance, maximum)

    def difference(self, other: _Cells, item_effects: str) -> MeanEstimate:
        """Return the difference between two means over the same participants.

        Participants without a value in either of the two means are excluded from both.
        """
        first, second = (
            mean._replace(cells=mean.cells[None]) for mean in _common_participants([self, other])
        )
        if not len(first.rows) or not len(second.rows):
            return MeanEstimate(np.nan, np.nan, np.nan)
        return estimate_differences(first, second, self.subset.data.design, item_effects)[0]


def _model_cells(subsets: Iterable[Subset], measure: Measure) -> dict[int, _Cells]:
    """Return the pseudo-values of each model for its choices, by index of the model.

    Models without trials are left out.
    """
    cells = {}
    for subset in subsets:
        for model in subset.models if subset.n_rows else ():
            log_ratio = subset.data.log_ratio[subset.pair, model]
            cells[int(model)] = _Cells(subset, measure.trial_influence(subset, log_ratio))
    return cells


def _common_participants(several: Sequence[_Cells]) -> list[CellMean]:
    """Restrict several means to the participants who have a value in all of them.

    Comparing means of different participants would confound the difference with differences between
    participants. The result contains one `CellMean` for each element of `several`.
    """
    means = []
    for cells in several:
        rows = cells.is_defined
        for compared in several:
            if not np.array_equal(compared.participants, cells.participants):
                is_shared = np.isin(cells.subset.participants, compared.participants)
                rows = rows & is_shared[cells.subset.participant_index]
        means.append(
            CellMean(cells.subset.rows[rows], cells.subset.design(rows), cells.cells[rows])
        )
    return means
