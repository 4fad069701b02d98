"""Tests and intervals of an analysis, in the one form that the tables are made from.

An inference is a function from the values of an analysis, and the pairs of models to compare, to
`Inferred`. `CrossedTests` is the one used unless asked otherwise, `RankTests` the published one;
another is a class of the same two members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.evaluation.analysis import AnalysisValues
from contstim.evaluation.bootstrap import Draws, intervals, resample
from contstim.evaluation.crossed import (
    FEWEST,
    POPULATIONS,
    STEP,
    CellDesign,
    SampledMean,
    difference_of,
    from_ceiling,
)
from contstim.evaluation.inference import SignedRankTest, wilcoxon_signed_rank
from contstim.evaluation.options import EvaluationOptions
from contstim.evaluation.subset import Ceilings, Subset
from contstim.evaluation.trials import TrialData
from contstim.selection.planning import unit_of_tests

#: Each measure's value for a model that guesses.
CHANCE = {"accuracy": 0.5, "signed_rank_cosine": 0.0}

#: Columns of the intervals of the two noise ceilings.
CEILING_INTERVALS = (
    *("ceiling_lower_ci_low", "ceiling_lower_ci_high"),
    *("ceiling_upper_ci_low", "ceiling_upper_ci_high"),
)

_TOO_FEW = "too few participants or sentences to say anything of others like them"
_TOO_FEW_JUDGES = (
    "no interval of the ceilings and no test against them: most pairs were seen by two people, "
    "who are judged by each other alone"
)


@dataclass(frozen=True)
class Contrast:
    """A test of a mean against zero and an interval, with what a table says of them.

    Attributes
    ----------
    p, effect
        Two-sided p-value and effect size; NaN where nothing could be tested.
    ci_low, ci_high
        95 % interval, or NaN.
    n_units
        Number of units with a value.
    p_smallest
        The smallest p that so many units can give.
    test
        How p was found.
    note
        Why a number is missing.
    stderr, df
        Standard error and degrees of freedom of what was tested.
    side
        1 if what was tested lies above zero, -1 if below, 0 if on it.
    p_chance
        Two-sided p-value of the value against chance.
    margin, p_equivalence
        How large a difference is called equivalent, and the p-value of one as large as that.
    more_people, more_sentences
        How many participants, or sentences, in all would decide with probability 0.8 if the
        difference is as large as it seems; see `SampledMean.factors`.
    ceiling_lower_ci_low, ceiling_lower_ci_high, ceiling_upper_ci_low, ceiling_upper_ci_high
        Intervals of the two noise ceilings.
    """

    p: float = np.nan
    effect: float = np.nan
    ci_low: float = np.nan
    ci_high: float = np.nan
    n_units: int = 0
    p_smallest: float = np.nan
    test: str = ""
    note: str = ""
    stderr: float = np.nan
    df: float = np.nan
    side: float = 0.0
    p_chance: float = np.nan
    margin: float = np.nan
    p_equivalence: float = np.nan
    more_people: float = np.nan
    more_sentences: float = np.nan
    ceiling_lower_ci_low: float = np.nan
    ceiling_lower_ci_high: float = np.nan
    ceiling_upper_ci_low: float = np.nan
    ceiling_upper_ci_high: float = np.nan


@dataclass(frozen=True)
class Inferred:
    """What an inference says of M models.

    Attributes
    ----------
    unit
        What was tested across.
    models
        Each model's value with its interval, and the test of it (on the trials that the ceiling
        rests on) against the lower noise ceiling; M entries.
    comparisons
        The first minus the second model of each pair asked for.
    """

    unit: str
    models: list[Contrast]
    comparisons: list[Contrast]


class Inference(Protocol):
    """From values to tests and intervals."""

    @property
    def unit(self) -> str:
        """What is tested across."""

    @property
    def columns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What it says of each model, and of each comparison, beside what every inference does."""

    def __call__(self, outcome: AnalysisValues, pairs: Sequence[tuple[int, int]]) -> Inferred:
        """Test the models of an analysis, and compare the `pairs` of them."""


@dataclass(frozen=True, eq=False)
class RankTests:
    """Wilcoxon's signed-rank tests across groups or participants, and bootstrap intervals.

    Attributes
    ----------
    unit
        ``group`` or ``participant``.
    unit_of
        The unit that each participant belongs to, shape (N,).
    zero_method, method
        See `wilcoxon_signed_rank`.
    draws
        Resamples for the intervals, or None.
    """

    unit: str
    unit_of: IntArray
    zero_method: str
    method: str
    draws: Draws | None
    columns = (("p_smallest",), ("p_smallest",))

    @classmethod
    def of(cls, data: TrialData, options: EvaluationOptions, draws: Draws | None) -> RankTests:
        """Make the tests that `options` ask for."""
        unit = options.unit
        if unit == "auto":
            unit = unit_of_tests(len(data.groups), options.min_groups)
        unit_of = data.group_of if unit == "group" else np.arange(len(data.participants))
        return cls(unit, unit_of, options.zero_method, options.test_method, draws)

    def __call__(self, outcome: AnalysisValues, pairs: Sequence[tuple[int, int]]) -> Inferred:
        """Test the models of an analysis, and compare the `pairs` of them."""
        first, second = (np.array([p[k] for p in pairs], dtype=np.int64) for k in (0, 1))
        samples = self._samples(outcome)
        return Inferred(
            self.unit,
            models=self._contrasts(outcome.matched - outcome.lower, samples),
            comparisons=self._contrasts(
                outcome.value[:, first] - outcome.value[:, second],
                None if samples is None else samples[:, first] - samples[:, second],
            ),
        )

    def _samples(self, outcome: AnalysisValues) -> FloatArray | None:
        """Return each model's mean in each resample, shape (B, M)."""
        if self.draws is None:
            return None
        samples = np.full((len(self.draws.people), len(outcome.data.models)), np.nan)
        for part in outcome.parts:
            samples[:, part.subset.models] = resample(part.subset, outcome.measure, self.draws)
        return samples

    def _contrasts(self, values: FloatArray, samples: FloatArray | None) -> list[Contrast]:
        """Test the columns of `values`, shape (N, K); intervals are those of `samples`, (B, K)."""
        low = high = np.full(values.shape[1], np.nan)
        note = "no bootstrap"
        if samples is not None and self.draws is not None:
            low, high = intervals(samples, self.draws.n_units)
            note = "no interval: too few units to resample"
        rows = []
        few = f"too few {self.unit}s to test across"
        for column, (n, test) in enumerate(self._tests(values)):
            interval = Contrast(
                ci_low=float(low[column]),
                ci_high=float(high[column]),
                note=note if np.isnan(low[column]) else "",
            )
            if test is not None:
                interval = replace(
                    interval,
                    p=test.p,
                    effect=test.effect,
                    side=float(np.sign(test.effect)),
                    n_units=test.n,
                    p_smallest=test.p_smallest,
                    test=test.method,
                )
            elif n:
                interval = replace(interval, n_units=n, note=few)
            rows.append(interval)
        return rows

    def _tests(self, values: FloatArray) -> list[tuple[int, SignedRankTest | None]]:
        """Return how many units each column of (N, K) has, and the test if they are enough."""
        tests: list[tuple[int, SignedRankTest | None]] = []
        for column in unit_means(values, self.unit_of).T:
            there = column[~np.isnan(column)]
            test = (
                wilcoxon_signed_rank(there, self.zero_method, self.method)
                if len(there) >= FEWEST
                else None
            )
            tests.append((len(there), test))
        return tests


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
        ("stderr", "df", "margin", "p_equivalence", "more_people", "more_sentences"),
    )

    @property
    def unit(self) -> str:
        """What is tested across."""
        return "participant" if self.population == POPULATIONS[1] else "participant and sentence"

    def __call__(self, outcome: AnalysisValues, pairs: Sequence[tuple[int, int]]) -> Inferred:
        """Test the models of an analysis, and compare the `pairs` of them."""
        means = {}
        for part in outcome.parts:
            for model in part.subset.models:
                ratio = outcome.data.log_ratio[part.subset.pair, model]
                means[int(model)] = _Cells.of(part.subset, outcome.measure, ratio)
        return Inferred(
            self.unit,
            models=[self._model(outcome, m, means.get(m)) for m in range(outcome.value.shape[1])],
            comparisons=[
                self._comparison(outcome, i, j, means.get(i), means.get(j)) for i, j in pairs
            ],
        )

    def _model(self, outcome: AnalysisValues, m: int, cells: _Cells | None) -> Contrast:
        part = outcome.part_of(m)
        if cells is None or part is None:
            return Contrast()
        chance = CHANCE[outcome.measure]
        value = cells.mean(self.population)
        low, high = value.bounded_interval(chance)
        contrast = Contrast(
            ci_low=low,
            ci_high=high,
            p_chance=value.p_chance(chance),
            stderr=value.stderr,
            df=value.df,
            note="" if value.stderr == value.stderr else _TOO_FEW,
        )
        subset = part.ceilings.matched
        if not subset.n_rows:
            return contrast
        matched = _Cells.of(subset, outcome.measure, outcome.data.log_ratio[subset.pair, m])
        contrast = replace(contrast, n_units=len(matched.people), test="crossed")
        if not part.ceilings.surveyed:
            return replace(contrast, note=contrast.note or _TOO_FEW_JUDGES)
        lower = _Cells(subset, part.ceilings.lower_cells)
        gap = matched.minus(lower, self.population, chance, difference=from_ceiling)
        (low_bound, high_bound) = self._ceiling_intervals(outcome.measure, part.ceilings)
        return replace(
            contrast,
            ceiling_lower_ci_low=low_bound[0],
            ceiling_lower_ci_high=low_bound[1],
            ceiling_upper_ci_low=high_bound[0],
            ceiling_upper_ci_high=high_bound[1],
            p=gap.p(),
            effect=_rank_biserial(outcome.matched[:, m] - outcome.lower[:, m]),
            side=float(np.sign(gap.value)),
        )

    def _ceiling_intervals(self, measure: str, ceilings: Ceilings) -> list[tuple[float, float]]:
        """Return the intervals of the lower and of the upper noise ceiling."""
        found = []
        for which, cells in enumerate((ceilings.lower_cells, ceilings.upper_cells)):
            side = _Cells(ceilings.matched, cells)
            mean = side.mean(self.population)
            tilted = None
            if measure != "accuracy" and self.population == POPULATIONS[0] and mean.stderr > 0:
                lean = np.zeros(len(cells))
                lean[side.there] = side.design.lean(cells[side.there], mean.stderr)
                steps = (ceilings.weighed(1 + step * lean)[which] for step in (-STEP, STEP))
                less, more = (_mean(values) for values in steps)
                tilted = less, more
            top = _mean(ceilings.tops[which])
            found.append(mean.bounded_interval(CHANCE[measure], top=top, tilted=tilted))
        return found

    def _comparison(
        self, outcome: AnalysisValues, i: int, j: int, first: _Cells | None, second: _Cells | None
    ) -> Contrast:
        differences = outcome.value[:, i] - outcome.value[:, j]
        n_people = int((~np.isnan(differences)).sum())
        if first is None or second is None or not n_people:
            return Contrast()
        # The derivative of a cosine depends on its value, that of a mean over trials does not.
        chance = CHANCE[outcome.measure]
        difference = first.minus(
            second, self.population, None if outcome.measure == "accuracy" else chance
        )
        low, high = difference.interval()
        margin = self.margin * (
            _mean(np.minimum(outcome.lower[:, i], outcome.lower[:, j])) - chance
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
            note=note if difference.stderr == difference.stderr else _TOO_FEW,
            stderr=difference.stderr,
            df=difference.df,
            margin=margin,
            p_equivalence=0.0 if alike else small,
            more_people=np.ceil(people * n_people),
            more_sentences=np.ceil(sentences * n_pairs),
        )


class _Cells:
    """The choices of a subset, each with a number, at those participants for whom it is defined."""

    def __init__(self, subset: Subset, cells: FloatArray) -> None:
        self.subset = subset
        self.there = ~np.isnan(cells)
        self.cells = cells
        counts = np.bincount(subset.person[self.there], minlength=subset.n_people)
        self.people = subset.labels[counts > 0]

    @classmethod
    def of(cls, subset: Subset, measure: str, prediction: FloatArray) -> _Cells:
        return cls(subset, subset.cells(measure, prediction))

    @property
    def design(self) -> CellDesign:
        return self.subset.design(self.there)

    def mean(self, population: str) -> SampledMean:
        if not self.there.any():
            return SampledMean(np.nan, np.nan, np.nan)
        return self.design.mean(self.cells[self.there], population)

    def minus(
        self,
        other: _Cells,
        population: str,
        chance: float | None = None,
        difference: Callable[..., SampledMean] = difference_of,
    ) -> SampledMean:
        """Return the mean difference over the participants who are in both.

        Its standard error is found on Fisher's scale if `chance` is given, see `difference_of`.
        """
        mine, others = self._of_people(other.people), other._of_people(self.people)
        if not mine.any() or not others.any():
            return SampledMean(np.nan, np.nan, np.nan)
        data = self.subset.data
        sides = [
            (cells.subset.rows[rows], cells.subset.design(rows), cells.cells[rows])
            for cells, rows in ((self, mine), (other, others))
        ]
        return difference(sides[0], sides[1], data.participant, data.pair, population, chance)

    def _of_people(self, people: IntArray) -> BoolArray:
        if np.array_equal(people, self.people):
            return self.there
        return self.there & np.isin(self.subset.labels, people)[self.subset.person]


def _mean(values: FloatArray) -> float:
    there = values[~np.isnan(values)]
    return float(there.mean()) if len(there) else float("nan")


def _rank_biserial(values: FloatArray) -> float:
    """Return the matched-pairs rank-biserial correlation of values that are there, or NaN."""
    there = values[~np.isnan(values)]
    return wilcoxon_signed_rank(there, method="asymptotic").effect if len(there) else float("nan")


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
