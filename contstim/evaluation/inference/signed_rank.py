"""The published inference: signed-rank tests and bootstrap intervals (Golan et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.evaluation.inference import InferenceResult
from contstim.evaluation.inference.bootstrap import (
    Resamples,
    draw_resamples,
    percentile_intervals,
    resample_values,
)
from contstim.evaluation.inference.quasi_f import MIN_UNITS
from contstim.evaluation.inference.wilcoxon import SignedRankTest, wilcoxon_signed_rank
from contstim.evaluation.options import EvaluationOptions
from contstim.evaluation.trials import TrialData
from contstim.evaluation.values import AnalysisValues, unit_means
from contstim.response_model import inference_unit

# Result for too few participants or groups.
_NO_TEST = SignedRankTest(np.nan, np.nan, np.nan, np.nan, "")


@dataclass(frozen=True, eq=False)
class SignedRankInference:
    """Wilcoxon signed-rank tests across groups or participants, with bootstrap intervals.

    Attributes
    ----------
    unit
        ``group`` or ``participant``.
    unit_codes
        Code of the unit of each participant, shape (N,).
    method
        Method of `wilcoxon_signed_rank`.
    resamples
        Bootstrap resamples, or None for no intervals.
    """

    unit: str
    unit_codes: IntArray
    method: str
    resamples: Resamples | None
    columns = (("p_smallest",), ("p_smallest",))

    @classmethod
    def from_options(
        cls, data: TrialData, options: EvaluationOptions, levels: tuple[str, ...]
    ) -> SignedRankInference:
        """Create the inference from the options of an evaluation.

        Parameters
        ----------
        data
            Choices of all analyses.
        options
            The options `unit`, `test_method`, `n_bootstrap` and `seed` are used. The unit ``auto``
            is replaced with groups if there are enough of them, otherwise with participants.
        levels
            Units that the bootstrap draws with replacement, for example participants and pairs, see
            `draw_resamples`.

        Returns
        -------
        SignedRankInference
            Inference with its bootstrap resamples already drawn, so that all analyses share them.
        """
        unit = inference_unit(len(data.groups)) if options.unit == "auto" else options.unit
        codes = data.group_codes if unit == "group" else np.arange(len(data.participants))
        resamples = None
        if options.n_bootstrap:
            resamples = draw_resamples(data, levels, options.n_bootstrap, options.seed)
        return cls(unit, codes, options.test_method, resamples)

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
        first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        samples = differences = None
        if self.resamples is not None:
            samples = np.full((len(self.resamples.participants), len(values.data.models)), np.nan)
            for part in values.parts:
                means = resample_values(part.subset, values.measure, self.resamples)
                samples[:, part.subset.models] = means
            differences = samples[:, first] - samples[:, second]
        models = self._test(values.matched - values.lower, samples)
        return models, self._test(values.value[:, first] - values.value[:, second], differences)

    def _test(self, values: FloatArray, samples: FloatArray | None) -> list[InferenceResult]:
        """Test whether each of K columns is symmetric about zero, and add its interval.

        `values` contains the differences of N participants, shape (N, K). They are averaged within
        units and tested by the Wilcoxon signed-rank test. `samples` contains B bootstrap samples of
        the quantity of interest, shape (B, K), or is None if there is no bootstrap.
        """
        low = high = np.full(values.shape[1], np.nan)
        no_interval = "no bootstrap"
        if samples is not None and self.resamples is not None:
            low, high = percentile_intervals(samples, self.resamples.n_units)
            no_interval = "no interval: too few units to resample"
        results = []
        columns = unit_means(values, self.unit_codes).T
        for means, ci_low, ci_high in zip(columns, low.tolist(), high.tolist(), strict=True):
            defined = means[~np.isnan(means)]
            test, note = _NO_TEST, no_interval if np.isnan(ci_low) else ""
            if len(defined) >= MIN_UNITS:
                test = wilcoxon_signed_rank(defined, self.method)
            elif len(defined):
                note = f"too few {self.unit}s to test across"
            result = InferenceResult(
                p=test.p,
                effect=test.effect,
                side=float(np.sign(np.nan_to_num(test.effect))),
                ci_low=ci_low,
                ci_high=ci_high,
                n_units=len(defined),
                test=test.method,
                note=note,
                details={"p_smallest": test.p_smallest},
            )
            results.append(result)
        return results
