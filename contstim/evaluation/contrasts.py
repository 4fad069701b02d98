"""Tests and intervals of an analysis, in the one form that the tables are made from.

An inference is a function from the values of an analysis, and the pairs of models to compare, to
`Inferred`. `RankTests` is the published one; another is a class of the same two members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.evaluation.analysis import AnalysisValues
from contstim.evaluation.bootstrap import Draws, intervals, resample
from contstim.evaluation.inference import SignedRankTest, wilcoxon_signed_rank
from contstim.evaluation.options import EvaluationOptions
from contstim.evaluation.trials import TrialData
from contstim.selection.planning import unit_of_tests

__all__ = ["Contrast", "Inference", "Inferred", "RankTests"]


@dataclass(frozen=True)
class Contrast:
    """A test of a mean against zero and its interval, with what a table says of them.

    Attributes
    ----------
    p, effect
        Two-sided p-value and effect size; NaN where nothing could be tested.
    ci_low, ci_high
        95 % interval, or NaN.
    n_units
        Number of units tested across; 0 where nothing could be tested.
    p_smallest
        The smallest p that so many units can give.
    test
        How p was found.
    note
        Why a number is missing.
    """

    p: float = np.nan
    effect: float = np.nan
    ci_low: float = np.nan
    ci_high: float = np.nan
    n_units: int = 0
    p_smallest: float = np.nan
    test: str = ""
    note: str = ""


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
        for column, test in enumerate(self._tests(values)):
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
                    n_units=test.n,
                    p_smallest=test.p_smallest,
                    test=test.method,
                )
            rows.append(interval)
        return rows

    def _tests(self, values: FloatArray) -> list[SignedRankTest | None]:
        tests: list[SignedRankTest | None] = []
        for column in unit_means(values, self.unit_of).T:
            there = column[~np.isnan(column)]
            test = (
                wilcoxon_signed_rank(there, self.zero_method, self.method) if len(there) else None
            )
            tests.append(test)
        return tests


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
