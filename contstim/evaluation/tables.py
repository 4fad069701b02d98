"""From outcomes to rows of the result tables; nothing is missing without a note."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from contstim.arrays import FloatArray
from contstim.evaluation.analysis import Outcome
from contstim.evaluation.bootstrap import intervals
from contstim.evaluation.inference import SignedRankTest, wilcoxon_signed_rank
from contstim.evaluation.options import EvaluationOptions

__all__ = ["comparison_rows", "model_rows", "person_rows", "unit_rows"]


def _mean(values: FloatArray) -> float:
    there = values[~np.isnan(values)]
    return float(there.mean()) if len(there) else float("nan")


def _tested(differences: FloatArray, options: EvaluationOptions) -> SignedRankTest | None:
    there = differences[~np.isnan(differences)]
    if not len(there):
        return None
    return wilcoxon_signed_rank(there, options.zero_method, options.test_method)


def _test_columns(test: SignedRankTest | None, unit: str) -> dict[str, object]:
    return {
        "unit": unit,
        "n_units": 0 if test is None else test.n,
        "p_smallest": np.nan if test is None else test.p_smallest,
        "test": "" if test is None else test.method,
    }


def _intervals(
    outcome: Outcome, samples: FloatArray | None, n: int
) -> tuple[FloatArray, FloatArray]:
    if samples is None:
        return np.full(n, np.nan), np.full(n, np.nan)
    return intervals(samples, outcome.n_units_drawn)


def model_rows(outcome: Outcome, options: EvaluationOptions) -> pd.DataFrame:
    """Return the rows of `Evaluation.models`, without adjusted p-values."""
    low, high = _intervals(outcome, outcome.samples, len(outcome.models))
    gaps = outcome.unit_means(outcome.matched - outcome.lower)
    rows = []
    for m, model in enumerate(outcome.models):
        counts = {str(k): int(outcome.counts[k].iloc[m]) for k in outcome.counts}
        test = _tested(gaps[:, m], options)
        there = ~np.isnan(outcome.value[:, m])
        notes = []
        if not counts["n_choices"]:
            notes.append("no trial of this analysis targets the model")
        elif not there.any():
            notes.append("not defined: the model or the ratings are tied on every trial")
        else:
            absent = int((~there[_seen(outcome, m)]).sum())
            if absent:
                notes.append(f"not defined for {absent} participants, who are left out")
            if test is None:
                notes.append("no ceiling: no trial was seen by enough other participants")
            elif counts["n_choices_ceiling"] < counts["n_choices"]:
                notes.append("ceiling on the trials that enough other participants saw")
            if outcome.samples is None:
                notes.append("no bootstrap")
            elif np.isnan(low[m]):
                notes.append("no interval: too few units to resample")
        rows.append(
            {
                "analysis": outcome.analysis.name,
                "measure": outcome.measure,
                "model": model,
                "value": _mean(outcome.value[:, m]),
                "ci_low": low[m],
                "ci_high": high[m],
                "ceiling_lower": _mean(outcome.lower[:, m]),
                "ceiling_upper": _mean(outcome.upper[:, m]),
                "n_participants": int(there.sum()),
                "p_ceiling": np.nan if test is None else test.p,
                "q_ceiling": np.nan,
                "effect_ceiling": np.nan if test is None else test.effect,
                **counts,
                **_test_columns(test, outcome.unit),
                "note": "; ".join(notes),
            }
        )
    return pd.DataFrame(rows)


def _seen(outcome: Outcome, m: int) -> NDArray[np.bool_]:
    """Return which participants have a trial of the analysis: those with a ceiling or a value."""
    return ~np.isnan(outcome.value[:, m]) | ~np.isnan(outcome.lower[:, m])


def comparison_rows(outcome: Outcome, options: EvaluationOptions) -> pd.DataFrame:
    """Return the rows of `Evaluation.comparisons`, without adjusted p-values."""
    n_models = len(outcome.models)
    pairs = [(i, j) for i in range(n_models) for j in range(i + 1, n_models)]
    if options.contrasts == "targeted" and outcome.pitted:
        pairs = [pair for pair in pairs if pair in outcome.pitted]
    first = np.array([i for i, _ in pairs], dtype=np.int64)
    second = np.array([j for _, j in pairs], dtype=np.int64)
    per_person = outcome.value[:, first] - outcome.value[:, second]
    per_unit = outcome.unit_means(per_person) if pairs else per_person
    samples = None
    if outcome.samples is not None:
        samples = outcome.samples[:, first] - outcome.samples[:, second]
    low, high = _intervals(outcome, samples, len(pairs))
    rows = []
    for k, (i, j) in enumerate(pairs):
        test = _tested(per_unit[:, k], options)
        rows.append(
            {
                "analysis": outcome.analysis.name,
                "measure": outcome.measure,
                "model_1": outcome.models[i],
                "model_2": outcome.models[j],
                "difference": _mean(per_person[:, k]),
                "p": np.nan if test is None else test.p,
                "q": np.nan,
                "effect": np.nan if test is None else test.effect,
                "ci_low": low[k],
                "ci_high": high[k],
                **_test_columns(test, outcome.unit),
                "note": _comparison_note(outcome, test, float(low[k])),
            }
        )
    columns = ["analysis", "measure", "model_1", "model_2", "difference", "p", "q", "effect"]
    columns += ["ci_low", "ci_high", "unit", "n_units", "p_smallest", "test", "note"]
    return pd.DataFrame(rows, columns=columns)


def _comparison_note(outcome: Outcome, test: SignedRankTest | None, low: float) -> str:
    if test is None:
        return "no participant has a value for both models"
    if outcome.samples is None:
        return "no bootstrap"
    return "no interval: too few units to resample" if np.isnan(low) else ""


def person_rows(outcome: Outcome) -> pd.DataFrame:
    """Return one row a model and participant with a trial of the analysis."""
    data = outcome.data
    parts = []
    for m, model in enumerate(outcome.models):
        here = np.flatnonzero(_seen(outcome, m))
        value, lower = outcome.value[here, m], outcome.lower[here, m]
        note = np.where(np.isnan(value), "not defined: tied on every trial", "")
        note = np.where(
            np.isnan(lower) & (note == ""), "no ceiling: too few others, or all tied", note
        )
        parts.append(
            pd.DataFrame(
                {
                    "analysis": outcome.analysis.name,
                    "measure": outcome.measure,
                    "model": model,
                    "participant": data.participants[here],
                    "group": data.groups[data.group_of[here]],
                    "value": value,
                    "ceiling_lower": lower,
                    "ceiling_upper": outcome.upper[here, m],
                    "note": note,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def unit_rows(outcome: Outcome) -> pd.DataFrame:
    """Return one row a model and group, means over the group's participants."""
    data = outcome.data
    n = len(data.groups)
    parts = []
    for m, model in enumerate(outcome.models):
        columns = {}
        for name in ("value", "lower", "upper"):
            array = getattr(outcome, name)[:, m]
            there = ~np.isnan(array)
            size = np.bincount(data.group_of[there], minlength=n)
            with np.errstate(invalid="ignore", divide="ignore"):
                columns[name] = np.bincount(data.group_of[there], array[there], minlength=n) / size
            if name == "value":
                people = size
        here = people > 0
        lower = columns["lower"][here]
        parts.append(
            pd.DataFrame(
                {
                    "analysis": outcome.analysis.name,
                    "measure": outcome.measure,
                    "model": model,
                    "group": data.groups[here],
                    "value": columns["value"][here],
                    "ceiling_lower": lower,
                    "ceiling_upper": columns["upper"][here],
                    "n_participants": people[here],
                    "note": np.where(np.isnan(lower), "no ceiling: too few others", ""),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)
