"""The default inference: t tests of means over participants and items that are both random."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.evaluation.inference.base import CEILING_INTERVALS, InferenceResult, InferenceResults
from contstim.evaluation.inference.quasi_f import (
    ITEM_EFFECTS,
    CellMean,
    MeanEstimate,
    estimate_contrast,
    estimate_differences,
)
from contstim.evaluation.measures import Measure
from contstim.evaluation.ranks import rank_biserial
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import Analysis, TrialData
from contstim.evaluation.values import AnalysisValues, group_by_trials, mean_defined

#: Why a mean has no standard error.
TOO_FEW = "too few participants or sentences to say anything of others like them"
_TOO_FEW_JUDGES = (
    "no interval of the ceilings and no test against them: most pairs were seen by two people, "
    "who are judged by each other alone"
)


@dataclass(frozen=True, eq=False)
class QuasiFInference:
    """t tests and intervals of means over participants and items, see `CrossedDesign`.

    Attributes
    ----------
    population
        One of `ITEM_EFFECTS`.
    margin
        Differences are called equivalent within this share of the way from chance to the lower
        noise ceiling.
    """

    population: str
    margin: float
    columns = (
        ("p_chance", "stderr", "df", *CEILING_INTERVALS),
        ("stderr", "df", "margin", "p_equivalence", "participants_needed", "items_needed"),
    )

    @property
    def unit(self) -> str:
        """What is tested across."""
        return "participant" if self.population == ITEM_EFFECTS[1] else "participant and sentence"

    def __call__(
        self, outcome: AnalysisValues, pairs: Sequence[tuple[int, int]]
    ) -> InferenceResults:
        """Test the models of an analysis, and compare the `pairs` of them."""
        means = _cells_of((part.subset for part in outcome.parts), outcome.measure)
        return (
            [self._model(outcome, m, means.get(m)) for m in range(len(outcome.data.models))],
            [self._comparison(outcome, i, j, means.get(i), means.get(j)) for i, j in pairs],
        )

    def between(
        self,
        data: TrialData,
        analysis: Analysis,
        measure: Measure,
        column: str,
        levels: tuple[str, str],
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, int], MeanEstimate]]:
        """Yield by how much models are better at one level of a factor than at another.

        For each model its value, and for each two models their difference: the models, the numbers
        of participants at both levels, and the contrast. If participants have choices at both
        levels, only those participants count.
        """
        first, second = (
            _cells_of(
                group_by_trials(
                    data,
                    replace(analysis, factor_levels=(*analysis.factor_levels, (column, level))),
                ),
                measure,
            )
            for level in levels
        )
        both = [m for m in range(len(data.models)) if m in first and m in second]
        for models in (*((m,) for m in both), *combinations(both, 2)):
            sides = [[cells[m] for m in models] for cells in (first, second)]
            if {*sides[0][0].people} & {*sides[1][0].people}:
                every = _common_participants([*sides[0], *sides[1]])
                here, there = every[: len(models)], every[len(models) :]
            else:
                here, there = map(_common_participants, sides)
            if not all(len(values) for *_, values in (*here, *there)):
                continue
            sizes = [len(np.unique(data.participant[side[0][0]])) for side in (here, there)]
            items = data.item[data.pair]
            interaction = estimate_contrast(here, there, data.participant, items, self.population)
            yield models, (sizes[0], sizes[1]), interaction

    def _model(self, outcome: AnalysisValues, m: int, cells: _Cells | None) -> InferenceResult:
        part = outcome.part_of(m)
        if cells is None or part is None:
            return InferenceResult()
        measure = outcome.measure
        value, most = cells.mean(measure, self.population)
        low, high = value.bounded_interval(measure.chance, maximum=most)
        tested = InferenceResult(
            ci_low=low,
            ci_high=high,
            p_chance=value.p_chance(measure.chance, most),
            stderr=value.stderr,
            df=value.df,
            note="" if value.stderr == value.stderr else TOO_FEW,
        )
        ceilings = part.ceilings
        subset = ceilings.matched
        if not subset.n_rows:
            return tested
        ratio = outcome.data.log_ratio[subset.pair, m]
        matched = _Cells(subset, measure.trial_influence(subset, ratio))
        tested = replace(tested, n_units=len(matched.people), test="crossed")
        if not ceilings.has_test:
            return replace(tested, note=tested.note or _TOO_FEW_JUDGES)
        lower, upper = (_Cells(subset, cells) for cells in measure.ceiling_influence(subset))
        gap = matched.minus(lower, self.population)
        ends = []
        for number, ceiling in enumerate((lower, upper)):
            mean, most = ceiling.mean(measure, self.population, number)
            ends.append(mean.bounded_interval(measure.chance, maximum=most))
        numbers = np.ravel([*ends, gap.interval()]).tolist()
        intervals = dict(zip(CEILING_INTERVALS, numbers, strict=True))
        effect = _rank_biserial(outcome.matched[:, m] - outcome.lower[:, m])
        side = float(np.sign(gap.value))
        return replace(tested, **intervals, p=gap.p(), effect=effect, side=side)

    def _comparison(
        self, outcome: AnalysisValues, i: int, j: int, first: _Cells | None, second: _Cells | None
    ) -> InferenceResult:
        differences = outcome.value[:, i] - outcome.value[:, j]
        n_people = int((~np.isnan(differences)).sum())
        if first is None or second is None or not n_people:
            return InferenceResult()
        difference = first.minus(second, self.population)
        low, high = difference.interval()
        lower = mean_defined(np.minimum(outcome.lower[:, i], outcome.lower[:, j]))
        margin = self.margin * (lower - outcome.measure.chance)
        people, sentences = difference.sizes_needed()
        n_pairs = min(cells.subset.n_pairs for cells in (first, second))
        alike = difference.value == difference.stderr == 0.0  # whatever the margin
        note = "" if margin > 0 or alike else "no margin of equivalence: no ceiling above chance"
        small = difference.p_equivalence(margin) if margin > 0 else np.nan
        return InferenceResult(
            p=difference.p(),
            effect=_rank_biserial(differences),
            side=float(np.sign(difference.value)),
            ci_low=low,
            ci_high=high,
            n_units=n_people,
            test="crossed",
            note=note if difference.stderr == difference.stderr else TOO_FEW,
            stderr=difference.stderr,
            df=difference.df,
            margin=margin,
            p_equivalence=0.0 if alike else small,
            participants_needed=np.ceil(people * n_people),
            items_needed=np.ceil(sentences * n_pairs),
        )


class _Cells:
    """The choices of a subset with a number each, of participants for whom it is defined."""

    def __init__(self, subset: Subset, cells: FloatArray) -> None:
        self.subset = subset
        self.defined = ~np.isnan(cells)
        self.cells = cells
        counts = np.bincount(subset.person[self.defined], minlength=subset.n_participants)
        self.people = subset.participants[counts > 0]

    def mean(
        self, measure: Measure, population: str, number: int = 0
    ) -> tuple[MeanEstimate, float]:
        """Return the mean, and the largest possible one: that `number` of `maximum_influence`."""
        if not self.defined.any():
            return MeanEstimate(np.nan, np.nan, np.nan), measure.maximum
        largest = measure.maximum_influence(self.subset)[number][self.defined]
        design = self.subset.design(self.defined)
        return design.estimate_ratio(self.cells[self.defined], largest, measure.chance, population)

    def minus(self, other: _Cells, population: str) -> MeanEstimate:
        """Return the mean difference over the participants who are in both."""
        first, second = (
            (rows, design, values[None])
            for rows, design, values in _common_participants([self, other])
        )
        if not len(first[0]) or not len(second[0]):
            return MeanEstimate(np.nan, np.nan, np.nan)
        data = self.subset.data
        everybody = data.participant, data.item[data.pair]
        return estimate_differences(first, second, *everybody, population)[0]

    def rows_of(self, people: IntArray) -> BoolArray:
        """Return which rows are of some people, shape (R,)."""
        if np.array_equal(people, self.people):
            return self.defined
        return self.defined & np.isin(self.subset.participants, people)[self.subset.person]


def _cells_of(subsets: Iterable[Subset], measure: Measure) -> dict[int, _Cells]:
    """Return the cells of each model that has any."""
    return {
        int(m): _Cells(
            subset, measure.trial_influence(subset, subset.data.log_ratio[subset.pair, m])
        )
        for subset in subsets
        if subset.n_rows
        for m in subset.models
    }


def _common_participants(several: Sequence[_Cells]) -> list[CellMean]:
    """Return the cells of those participants who are in all."""
    means = []
    for cells in several:
        rows = cells.defined
        for other in several:
            rows = rows & cells.rows_of(other.people)
        means.append((cells.subset.rows[rows], cells.subset.design(rows), cells.cells[rows]))
    return means


def _rank_biserial(values: FloatArray) -> float:
    """Return the matched-pairs rank-biserial correlation of values that are not missing, or NaN."""
    values = values[~np.isnan(values)]
    return rank_biserial(values) if len(values) else float("nan")
