"""One analysis and measure: every model's value for every participant, ceilings and resamples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from contstim.arrays import FloatArray, IntArray
from contstim.evaluation.bootstrap import Draws, resample
from contstim.evaluation.inference import ALPHA, benjamini_hochberg
from contstim.evaluation.options import EvaluationOptions
from contstim.evaluation.subset import Subset
from contstim.evaluation.trials import Analysis, TrialData, select
from contstim.selection.planning import unit_of_tests

__all__ = ["Outcome", "analyse", "spans_zero"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """Values of M models for N participants in one analysis and measure.

    Attributes
    ----------
    value
        Shape (N, M); NaN where a participant has no trial or the measure is not defined.
    lower, upper
        Noise ceilings, shape (N, M).
    matched
        Values on the trials that the ceilings rest on, shape (N, M).
    samples
        Bootstrap means, shape (B, M), or None.
    n_units_drawn
        See `Draws.n_units`.
    counts
        One row a model: trials, choices, ties.
    units, unit
        Unit (group or participant) code of each participant, and what a unit is.
    common
        Ceilings of an analysis of all trials, a row of `Evaluation.ceilings`, or None.
    pitted
        Pairs of model indices that trials of this analysis pit against each other.
    """

    data: TrialData
    analysis: Analysis
    measure: str
    models: tuple[str, ...]
    value: FloatArray
    lower: FloatArray
    upper: FloatArray
    matched: FloatArray
    samples: FloatArray | None
    n_units_drawn: int
    counts: pd.DataFrame
    units: IntArray
    unit: str
    common: dict[str, object] | None
    pitted: frozenset[tuple[int, int]]

    def unit_means(self, values: FloatArray) -> FloatArray:
        """Average (N, M) over the participants of each unit, shape (units, M)."""
        n = int(self.units.max()) + 1
        out = np.empty((n, values.shape[1]))
        for column in range(values.shape[1]):
            there = ~np.isnan(values[:, column])
            total = np.bincount(self.units[there], values[there, column], minlength=n)
            size = np.bincount(self.units[there], minlength=n)
            with np.errstate(invalid="ignore", divide="ignore"):
                out[:, column] = total / size
        return out

    def adjust(self, models: pd.DataFrame, comparisons: pd.DataFrame, family: str) -> None:
        """Fill in the adjusted p-values of both tables, as one family or as two, and note them."""
        against = models["p_ceiling"].to_numpy(dtype=float)
        between = comparisons["p"].to_numpy(dtype=float)
        if family == "together":
            q = benjamini_hochberg(np.concatenate([against, between]))
            models["q_ceiling"], comparisons["q"] = q[: len(against)], q[len(against) :]
        else:
            models["q_ceiling"] = benjamini_hochberg(against)
            comparisons["q"] = benjamini_hochberg(between)
        for word, side in (("above", 1), ("below", -1)):
            here = (models["q_ceiling"] < ALPHA) & (np.sign(models["effect_ceiling"]) == side)
            _note(models, here, f"significantly {word} the lower ceiling")
        _note(comparisons, spans_zero(comparisons), "significant, but the interval includes zero")


def spans_zero(comparisons: pd.DataFrame) -> pd.Series:
    """Return in which rows a significant difference has an interval that includes zero."""
    inside = (comparisons["ci_low"] <= 0) & (comparisons["ci_high"] >= 0)
    return (comparisons["q"] < ALPHA) & inside


def _note(table: pd.DataFrame, here: pd.Series, text: str) -> None:
    """Add `text` to the notes of the rows of `table` where `here` holds."""
    notes = table.loc[here, "note"]
    table.loc[here, "note"] = [f"{note}; {text}" if note else text for note in notes]


def analyse(
    data: TrialData, analysis: Analysis, options: EvaluationOptions, draws: Draws
) -> Iterator[Outcome]:
    """Yield the outcome of `analysis` for each measure."""
    mask = select(analysis, data.pairs, data.models)
    groups: dict[bytes, list[int]] = {}
    for m in range(len(data.models)):
        groups.setdefault(mask[:, m].tobytes(), []).append(m)
    subsets = [Subset(data, mask[:, ms[0]], np.array(ms)) for ms in groups.values()]
    everyone = None
    if analysis.target == "all":
        pairs = select(analysis, data.pairs, ["any"])[:, 0]
        everyone = subsets[0] if subsets else Subset(data, pairs, np.zeros(0, dtype=np.int64))
    unit = options.unit
    if unit == "auto":
        unit = unit_of_tests(len(data.groups), options.min_groups)
    n_people, n_models = len(data.participants), len(data.models)
    units = data.group_of if unit == "group" else np.arange(n_people)
    for measure in options.measures:
        values, lower, upper, matched = (np.full((n_people, n_models), np.nan) for _ in range(4))
        samples = None
        if options.n_bootstrap and n_models:
            samples = np.full((options.n_bootstrap, n_models), np.nan)
        counts = []
        common = None
        for subset in subsets if n_models else [everyone]:
            if subset is None or not subset.n_rows:
                continue
            ceilings = subset.ceilings(measure, options.min_others, options.upper)
            if subset is everyone:
                common = _common(analysis, measure, subset, ceilings.lower, ceilings.upper)
            if not n_models:
                continue
            cells = np.ix_(subset.labels, subset.models)
            values[cells] = subset.values(measure)
            lower[cells], upper[cells] = ceilings.lower[:, None], ceilings.upper[:, None]
            inner = ceilings.matched
            if inner is subset:
                matched[cells] = values[cells]
            else:
                matched[np.ix_(inner.labels, inner.models)] = inner.values(measure)
            if samples is not None:
                samples[:, subset.models] = resample(subset, measure, draws)
            tied = subset.tied_predictions()
            for k, m in enumerate(subset.models):
                counts.append(
                    {
                        "model_index": int(m),
                        "n_trials": subset.n_pairs,
                        "n_choices": subset.n_rows,
                        "n_choices_ceiling": inner.n_rows,
                        "n_tied_predictions": int(tied[k]),
                        "n_tied_ratings": subset.tied_ratings(),
                    }
                )
        table = pd.DataFrame(counts, columns=list(_COUNTS)).set_index("model_index")
        yield Outcome(
            data=data,
            analysis=analysis,
            measure=measure,
            models=data.models,
            value=values,
            lower=lower,
            upper=upper,
            matched=matched,
            samples=samples,
            n_units_drawn=draws.n_units,
            counts=table.reindex(range(n_models), fill_value=0),
            units=units,
            unit=unit,
            common=common,
            pitted=_pitted(data, np.asarray(mask.any(axis=1)) if n_models else None),
        )


_COUNTS = (
    "model_index",
    "n_trials",
    "n_choices",
    "n_choices_ceiling",
    "n_tied_predictions",
    "n_tied_ratings",
)


def _common(
    analysis: Analysis, measure: str, subset: Subset, lower: FloatArray, upper: FloatArray
) -> dict[str, object]:
    there = ~np.isnan(lower)
    return {
        "analysis": analysis.name,
        "measure": measure,
        "ceiling_lower": float(lower[there].mean()) if there.any() else np.nan,
        "ceiling_upper": float(upper[there].mean()) if there.any() else np.nan,
        "n_participants": int(there.sum()),
        "n_trials": subset.n_pairs,
        "n_choices": subset.n_rows,
        "note": "" if there.any() else "no trial was seen by enough other participants",
    }


def _pitted(data: TrialData, here: NDArray[np.bool_] | None) -> frozenset[tuple[int, int]]:
    index = {name: i for i, name in enumerate(data.models)}
    found = set()
    if here is not None:
        for first, second in zip(
            data.pairs.loc[here, "model_1"], data.pairs.loc[here, "model_2"], strict=True
        ):
            if first in index and second in index:
                i, j = sorted((index[first], index[second]))
                found.add((i, j))
    return frozenset(found)
