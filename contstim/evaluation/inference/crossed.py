"""The default inference: Student's tests over participants and sentences that are both sampled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.evaluation.ceilings import Ceilings
from contstim.evaluation.inference.contrasts import CEILING_INTERVALS, Contrast, Inferred
from contstim.evaluation.measures import Measure
from contstim.evaluation.ranks import rank_biserial
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import Analysis, TrialData
from contstim.evaluation.values import AnalysisValues, mean_there, subsets_of
from contstim.sampling import (
    POPULATIONS,
    STEP,
    CellDesign,
    SampledMean,
    Side,
    contrast_of,
    difference_of,
)

#: Why a mean has no standard error.
TOO_FEW = "too few participants or sentences to say anything of others like them"
_NO_CELLS = "no interval of the ceilings and no test against them: the measure has none"
_TOO_FEW_JUDGES = (
    "no interval of the ceilings and no test against them: most pairs were seen by two people, "
    "who are judged by each other alone"
)


@dataclass(frozen=True, eq=False)
class CrossedTests:
    """Student's tests and intervals of means over participants and sentences, see `CellDesign`.

    Attributes
    ----------
    population
        One of `POPULATIONS`.
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
        return "participant" if self.population == POPULATIONS[1] else "participant and sentence"

    def __call__(self, outcome: AnalysisValues, pairs: Sequence[tuple[int, int]]) -> Inferred:
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
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, int], SampledMean]]:
        """Yield by how much models are better at one level of a factor than at another.

        Of each model its value, and of each two their difference: the models, the numbers of
        participants at both levels, and the contrast. Where people have choices at both levels, it
        is of those people: a mean of differences within them.
        """
        first, second = (
            _cells_of(
                subsets_of(data, replace(analysis, where=(*analysis.where, (column, level)))),
                measure,
            )
            for level in levels
        )
        both = [m for m in range(len(data.models)) if m in first and m in second]
        for models in (*((m,) for m in both), *combinations(both, 2)):
            sides = [[cells[m] for m in models] for cells in (first, second)]
            # Where the same people are at both levels, those who are count.
            within = bool({*sides[0][0].people} & {*sides[1][0].people})
            if within:
                every = _together([*sides[0], *sides[1]])
                here, there = every[: len(models)], every[len(models) :]
            else:
                here, there = map(_together, sides)
            if not all(len(values) for *_, values in (*here, *there)):
                continue
            sizes = [len(np.unique(data.participant[side[0][0]])) for side in (here, there)]
            contrast = contrast_of(
                here, there, data.participant, data.item[data.pair], self.population
            )
            yield models, (sizes[0], sizes[1]), contrast

    def _model(self, outcome: AnalysisValues, m: int, cells: _Cells | None) -> Contrast:
        part = outcome.part_of(m)
        if cells is None or part is None:
            return Contrast()
        measure = outcome.measure
        ratios = cells.subset.data.log_ratio[cells.subset.pair, m]
        value = cells.mean(self.population, measure.leverage(cells.subset, ratios))
        low, high = value.bounded_interval(measure.chance, top=measure.top)
        contrast = Contrast(
            ci_low=low,
            ci_high=high,
            p_chance=value.p_chance(measure.chance, measure.top),
            stderr=value.stderr,
            df=value.df,
            note="" if value.stderr == value.stderr else TOO_FEW,
        )
        ceilings = part.ceilings
        subset, lower = ceilings.matched, ceilings.lower.cells
        if not subset.n_rows:
            return contrast
        ratio = outcome.data.log_ratio[subset.pair, m]
        matched = _Cells(subset, measure.cells(subset, ratio))
        contrast = replace(contrast, n_units=len(matched.people), test="crossed")
        if lower is None or not ceilings.surveyed:
            missing = _NO_CELLS if lower is None else _TOO_FEW_JUDGES
            return replace(contrast, note=contrast.note or missing)
        gap = matched.minus(_Cells(subset, lower), self.population, measure, from_ceiling=True)
        ends = [*np.ravel(self._ceiling_intervals(ceilings)).tolist(), *gap.interval()]
        intervals = dict(zip(CEILING_INTERVALS, ends, strict=True))
        effect = _rank_biserial(outcome.matched[:, m] - outcome.lower[:, m])
        side = float(np.sign(gap.value))
        return replace(contrast, **intervals, p=gap.p(), effect=effect, side=side)

    def _ceiling_intervals(self, ceilings: Ceilings) -> list[tuple[float, float]]:
        """Return the intervals of the lower and of the upper noise ceiling."""
        intervals = []
        for which, ceiling in enumerate((ceilings.lower, ceilings.upper)):
            if ceiling.cells is None:
                intervals.append((np.nan, np.nan))
                continue
            side = _Cells(ceilings.matched, ceiling.cells)
            mean = side.mean(self.population, ceiling.leverage)
            tilted = None
            if self.population == POPULATIONS[0] and mean.stderr > 0:
                lean = np.zeros(len(side.cells))
                lean[side.there] = side.design.lean(side.cells[side.there], mean.stderr)
                less, more = (ceilings.weighed(1 + step * lean) for step in (-STEP, STEP))
                if less is not None and more is not None:
                    tilted = mean_there(less[which]), mean_there(more[which])
            top = mean_there(ceiling.top)
            intervals.append(mean.bounded_interval(ceilings.measure.chance, top=top, tilted=tilted))
        return intervals

    def _comparison(
        self, outcome: AnalysisValues, i: int, j: int, first: _Cells | None, second: _Cells | None
    ) -> Contrast:
        differences = outcome.value[:, i] - outcome.value[:, j]
        n_people = int((~np.isnan(differences)).sum())
        if first is None or second is None or not n_people:
            return Contrast()
        # The derivative of a cosine depends on its value, that of a mean over trials does not.
        measure = outcome.measure
        scale = None if measure.mean_of_trials else measure
        difference = first.minus(second, self.population, scale)
        low, high = difference.interval()
        margin = self.margin * (
            mean_there(np.minimum(outcome.lower[:, i], outcome.lower[:, j])) - measure.chance
        )
        people, sentences = difference.factors(difference.value)
        n_pairs = min(cells.subset.n_pairs for cells in (first, second))
        alike = difference.value == difference.stderr == 0.0  # whatever the margin
        note = "" if margin > 0 or alike else "no margin of equivalence: no ceiling above chance"
        small = difference.p_equivalence(margin) if margin > 0 else np.nan
        return Contrast(
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


_NOTHING = SampledMean(np.nan, np.nan, np.nan)


class _Cells:
    """The choices of a subset, each with a number, at those participants for whom it is defined."""

    def __init__(self, subset: Subset, cells: FloatArray) -> None:
        self.subset = subset
        self.there = ~np.isnan(cells)
        self.cells = cells
        counts = np.bincount(subset.person[self.there], minlength=subset.n_people)
        self.people = subset.labels[counts > 0]

    @property
    def design(self) -> CellDesign:
        return self.subset.design(self.there)

    def mean(self, population: str, leverage: FloatArray | None) -> SampledMean:
        if not self.there.any():
            return _NOTHING
        counts = None if leverage is None else leverage[self.there]
        return self.design.mean(self.cells[self.there], population, counts)

    def minus(
        self,
        other: _Cells,
        population: str,
        scale: Measure | None = None,
        *,
        from_ceiling: bool = False,
    ) -> SampledMean:
        """Return the mean difference over the participants who are in both: `difference_of`.

        On the Fisher's scale of the measure `scale`, if there is one.
        """
        first, second = _together([self, other])
        if not len(first[0]) or not len(second[0]):
            return _NOTHING
        data = self.subset.data
        chance, top = (None, 1.0) if scale is None else (scale.chance, scale.top)
        everybody = data.participant, data.item[data.pair], population
        return difference_of(first, second, *everybody, chance, top=top, from_ceiling=from_ceiling)

    def of_people(self, people: IntArray) -> BoolArray:
        """Return which rows are of some people, shape (R,)."""
        if np.array_equal(people, self.people):
            return self.there
        return self.there & np.isin(self.subset.labels, people)[self.subset.person]


def _cells_of(subsets: Iterable[Subset], measure: Measure) -> dict[int, _Cells]:
    """Return the numbers of each model that has any."""
    return {
        int(m): _Cells(subset, measure.cells(subset, subset.data.log_ratio[subset.pair, m]))
        for subset in subsets
        if subset.n_rows
        for m in subset.models
    }


def _together(several: Sequence[_Cells]) -> list[Side]:
    """Return the numbers of participants who are in all."""
    sides = []
    for cells in several:
        rows = cells.there
        for other in several:
            rows = rows & cells.of_people(other.people)
        sides.append((cells.subset.rows[rows], cells.subset.design(rows), cells.cells[rows]))
    return sides


def _rank_biserial(values: FloatArray) -> float:
    """Return the matched-pairs rank-biserial correlation of values that are there, or NaN."""
    there = values[~np.isnan(values)]
    return rank_biserial(there) if len(there) else float("nan")
