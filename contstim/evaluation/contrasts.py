"""One analysis and measure: every model's value and noise ceilings, and how they are tested.

An inference is a function from the values of an analysis, and the pairs of models to compare, to a
`Contrast` for each. `CrossedTests` is the one used unless asked otherwise,
:class:`~contstim.evaluation.bootstrap.RankTests` the published one; another is a class of the same
members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.evaluation.crossed import POPULATIONS, STEP, CellDesign, SampledMean, difference_of
from contstim.evaluation.options import EvaluationOptions
from contstim.evaluation.ranks import wilcoxon_signed_rank
from contstim.evaluation.subset import Ceilings, Subset
from contstim.evaluation.trials import Analysis, TrialData, select

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
        """Compute the values of one measure."""
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
        Standard error of a model's value or of a difference, and degrees of freedom of its
        interval and test (on Fisher's scale, where that is used).
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


#: A contrast for each of M models, and for each pair of models asked for.
Inferred = tuple[list[Contrast], list[Contrast]]


class Inference(Protocol):
    """From values to tests and intervals."""

    @property
    def unit(self) -> str:
        """What is tested across."""

    @property
    def columns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What it says of each model, and of each comparison, beside what every inference does."""

    def __call__(self, outcome: AnalysisValues, pairs: Sequence[tuple[int, int]]) -> Inferred:
        """Test the models of an analysis, and compare the `pairs` of them.

        Of a model it is its value with its interval, and the test of it (on the trials that the
        ceiling rests on) against the lower noise ceiling; of a pair the first minus the second.
        """


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
        return (
            [self._model(outcome, m, means.get(m)) for m in range(len(outcome.data.models))],
            [self._comparison(outcome, i, j, means.get(i), means.get(j)) for i, j in pairs],
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
        gap = matched.minus(lower, self.population, chance, from_ceiling=True)
        low_bound, high_bound = self._ceiling_intervals(outcome.measure, part.ceilings)
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
        intervals = []
        for which, cells in enumerate((ceilings.lower_cells, ceilings.upper_cells)):
            side = _Cells(ceilings.matched, cells)
            mean = side.mean(self.population)
            tilted = None
            if measure != "accuracy" and self.population == POPULATIONS[0] and mean.stderr > 0:
                lean = np.zeros(len(cells))
                lean[side.there] = side.design.lean(cells[side.there], mean.stderr)
                steps = (ceilings.weighed(1 + step * lean)[which] for step in (-STEP, STEP))
                less, more = (mean_there(values) for values in steps)
                tilted = less, more
            top = mean_there(ceilings.tops[which])
            intervals.append(mean.bounded_interval(CHANCE[measure], top=top, tilted=tilted))
        return intervals

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
            mean_there(np.minimum(outcome.lower[:, i], outcome.lower[:, j])) - chance
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


_NOTHING = SampledMean(np.nan, np.nan, np.nan)


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
            return _NOTHING
        return self.design.mean(self.cells[self.there], population)

    def minus(
        self,
        other: _Cells,
        population: str,
        chance: float | None = None,
        *,
        from_ceiling: bool = False,
    ) -> SampledMean:
        """Return the mean difference over the participants who are in both: `difference_of`."""
        mine, others = self._of_people(other.people), other._of_people(self.people)
        if not mine.any() or not others.any():
            return _NOTHING
        data = self.subset.data
        first, second = (
            (cells.subset.rows[rows], cells.subset.design(rows), cells.cells[rows])
            for cells, rows in ((self, mine), (other, others))
        )
        everybody = data.participant, data.pair
        return difference_of(
            first, second, *everybody, population, chance, from_ceiling=from_ceiling
        )

    def _of_people(self, people: IntArray) -> BoolArray:
        if np.array_equal(people, self.people):
            return self.there
        return self.there & np.isin(self.subset.labels, people)[self.subset.person]


def mean_there(values: FloatArray) -> float:
    """Return the mean of the values that are not missing; NaN without any."""
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
