"""The published inference: signed-rank tests across groups or participants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.evaluation.inference.base import InferenceResult, InferenceResults
from contstim.evaluation.inference.bootstrap import (
    Resamples,
    draw_resamples,
    percentile_intervals,
    resample_values,
)
from contstim.evaluation.inference.quasi_f import MIN_UNITS
from contstim.evaluation.inference.wilcoxon import wilcoxon_signed_rank
from contstim.evaluation.options import EvaluationOptions
from contstim.evaluation.trials import TrialData
from contstim.evaluation.values import AnalysisValues, unit_means
from contstim.response_model import inference_unit


@dataclass(frozen=True, eq=False)
class SignedRankInference:
    """Wilcoxon's signed-rank tests across groups or participants, and bootstrap intervals.

    Attributes
    ----------
    unit
        ``group`` or ``participant``.
    unit_of
        The unit that each participant belongs to, shape (N,).
    method
        See `wilcoxon_signed_rank`.
    draws
        Resamples for the intervals, or None.
    """

    unit: str
    unit_of: IntArray
    method: str
    draws: Resamples | None
    columns = (("p_smallest",), ("p_smallest",))

    @classmethod
    def of(
        cls, data: TrialData, options: EvaluationOptions, levels: tuple[str, ...]
    ) -> SignedRankInference:
        """Make the tests that `options` ask for; intervals are from resamples of `levels`."""
        unit = options.unit
        if unit == "auto":
            unit = inference_unit(len(data.groups))
        unit_of = data.group_codes if unit == "group" else np.arange(len(data.participants))
        draws = None
        if options.n_bootstrap:
            draws = draw_resamples(data, levels, options.n_bootstrap, options.seed)
        return cls(unit, unit_of, options.test_method, draws)

    def __call__(
        self, outcome: AnalysisValues, pairs: Sequence[tuple[int, int]]
    ) -> InferenceResults:
        """Test the models of an analysis, and compare the `pairs` of them."""
        first, second = (np.array([p[k] for p in pairs], dtype=np.int64) for k in (0, 1))
        samples = apart = None
        if self.draws is not None:
            # Each model's mean in each resample, shape (B, M).
            samples = np.full((len(self.draws.people), len(outcome.data.models)), np.nan)
            for part in outcome.parts:
                samples[:, part.subset.models] = resample_values(
                    part.subset, outcome.measure, self.draws
                )
            apart = samples[:, first] - samples[:, second]
        return (
            self._contrasts(outcome.matched - outcome.lower, samples),
            self._contrasts(outcome.value[:, first] - outcome.value[:, second], apart),
        )

    def _contrasts(self, values: FloatArray, samples: FloatArray | None) -> list[InferenceResult]:
        """Test the columns of `values`, shape (N, K); intervals are those of `samples`, (B, K)."""
        low = high = np.full(values.shape[1], np.nan)
        note = "no bootstrap"
        if samples is not None and self.draws is not None:
            low, high = percentile_intervals(samples, self.draws.n_units)
            note = "no interval: too few units to resample"
        contrasts = []
        for column, mean in enumerate(unit_means(values, self.unit_of).T):
            there = mean[~np.isnan(mean)]
            contrast = InferenceResult(
                ci_low=float(low[column]),
                ci_high=float(high[column]),
                n_units=len(there),
                note=note if np.isnan(low[column]) else "",
            )
            if len(there) >= MIN_UNITS:
                test = wilcoxon_signed_rank(there, self.method)
                tested = {name: getattr(test, name) for name in ("p", "effect", "p_smallest")}
                side = float(np.sign(test.effect))
                contrast = replace(contrast, **tested, side=side, test=test.method)
            elif len(there):
                contrast = replace(contrast, note=f"too few {self.unit}s to test across")
            contrasts.append(contrast)
        return contrasts
