"""From values and tests to rows of the result tables; nothing is missing without a note."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from contstim.arrays import BoolArray
from contstim.evaluation.inference import ALPHA, benjamini_hochberg, spans_zero
from contstim.evaluation.inference.base import InferenceResult
from contstim.evaluation.inference.crossed import TOO_FEW, QuasiFInference
from contstim.evaluation.measures import MEASURES, Measure
from contstim.evaluation.options import EvaluationOptions
from contstim.evaluation.result import (
    COMPARISON_COLUMNS,
    CONDITION_COLUMNS,
    MODEL_COLUMNS,
)
from contstim.evaluation.trials import Analysis, TrialData
from contstim.evaluation.values import AnalysisValues, mean_defined, unit_means
from contstim.trial_kinds import EXPERIMENTAL

if TYPE_CHECKING:
    from contstim.evaluation.inference.signed_rank import SignedRankInference

_CEILING_COLUMNS = (
    *("analysis", "measure", "ceiling_lower", "ceiling_upper"),
    *("n_participants", "n_trials", "n_choices", "note"),
)


_COUNTS = ("n_trials", "n_choices", "n_choices_ceiling", "n_tied_predictions", "n_tied_ratings")
_NO_PARTICIPANT = "no participant has a value for both models"
_IDENTICAL = "both models prefer the same sentence of every pair"
# What every inference says of a contrast, beside its p-value and effect size.
_TESTED = ("side", "ci_low", "ci_high", "n_units", "test")


def result_tables(
    outcomes: Iterable[AnalysisValues],
    inference: QuasiFInference | SignedRankInference,
    options: EvaluationOptions,
) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, pd.DataFrame]]:
    """Return models, comparisons, and the values of participants, groups and ceilings by name."""
    models, comparisons, people, groups, ceilings = [], [], [], [], []
    for outcome in outcomes:
        if outcome.analysis.target == "all" and outcome.parts:
            part = outcome.parts[0]
            lower, upper = part.ceilings.lower, part.ceilings.upper
            there = ~np.isnan(lower)
            values = mean_defined(lower), mean_defined(upper[there]), int(there.sum())
            note = "" if there.any() else "no trial was seen by enough other participants"
            sizes = part.subset.n_pairs, part.subset.n_rows
            ceilings.append((*_named(outcome).values(), *values, *sizes, note))
        if not outcome.data.models:
            continue
        pairs = _pairs(outcome, options)
        of_models, of_pairs = inference(outcome, pairs)
        columns, family = inference.columns, _family(outcome, options, "ceiling tests")
        models.append(_model_rows(outcome, of_models, columns[0], family))
        comparisons.append(_comparison_rows(outcome, pairs, of_pairs, columns[1], options))
        people.append(_person_rows(outcome))
        groups.append(_group_rows(outcome))
    tested, compared = _stack(models), _stack(comparisons)
    if len(tested):
        tested["unit"] = compared["unit"] = inference.unit
        _adjust(tested, compared)
    details = {
        "participants": _stack(people),
        "groups": _stack(groups),
        "ceilings": pd.DataFrame(ceilings, columns=list(_CEILING_COLUMNS)),
    }
    return _ordered(tested, MODEL_COLUMNS), _ordered(compared, COMPARISON_COLUMNS), details


def condition_table(
    data: TrialData,
    analyses: Sequence[Analysis],
    inference: QuasiFInference,
    options: EvaluationOptions,
) -> pd.DataFrame:
    """Return how models, and their differences, differ between levels of factors.

    All interactions are one false-discovery family, all differences of single models another.
    """
    rows = []
    contrasts = [
        (column, levels)
        for column, factor in data.factors.items()
        for levels in combinations(factor.levels, 2)
    ]
    every = product(analyses, options.measures, contrasts)
    for analysis, name, (by, levels) in every:
        for models, sizes, mean in inference.compare_conditions(
            data, analysis, MEASURES[name], by, levels
        ):
            low, high = _possible(mean.value, *mean.interval(), MEASURES[name], 2 * len(models))
            called = [data.models[m] for m in models]
            tested = mean.stderr == mean.stderr
            row = (analysis.name, name, by, *levels, *called, *[""] * (2 - len(called)))
            numbers = (mean.value, mean.p_value(), np.nan, low, high, mean.stderr, mean.df)
            rows.append((*row, *numbers, *sizes, "", "" if tested else TOO_FEW))
    table = pd.DataFrame(rows, columns=list(CONDITION_COLUMNS))
    for _, family in table.groupby(table["model_2"] == ""):
        q = benjamini_hochberg(family["p"].to_numpy(dtype=float))
        table.loc[family.index, "q"] = q
    higher = table["level_1"].where(table["difference"] > 0, table["level_2"])
    table["conclusion"] = ("more in " + higher).where(table["q"] < ALPHA, "undecided")
    table["conclusion"] = table["conclusion"].where(table["p"].notna(), "")
    return table


def _possible(
    value: float, low: float, high: float, measure: Measure, steps: int
) -> tuple[float, float]:
    """Return the interval of a difference as far as values are possible, as `bounded_interval`.

    The largest difference is so many `steps` from chance to the top; a measure without a lowest
    value may have larger ones.
    """
    most = steps * (measure.maximum - measure.chance)
    return (low, high) if abs(value) > most else (max(low, -most), min(high, most))


def _stack(parts: list[pd.DataFrame]) -> pd.DataFrame:
    filled = [part for part in parts if len(part)] or parts[:1]
    return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame()


def _ordered(table: pd.DataFrame, columns: tuple[str, ...]) -> pd.DataFrame:
    known = [column for column in columns if column in table]
    return table[known] if len(table) else pd.DataFrame(columns=list(columns))


def _pairs(outcome: AnalysisValues, options: EvaluationOptions) -> list[tuple[int, int]]:
    """Return which models are compared; all pairs where no trial pits any."""
    n = len(outcome.data.models)
    every = [(i, j) for i in range(n) for j in range(i + 1, n)]
    return (outcome.targeted_pairs() or every) if options.contrasts == "targeted" else every


def _named(outcome: AnalysisValues) -> dict[str, object]:
    return {"analysis": outcome.analysis.name, "measure": outcome.measure.name}


def _model_rows(
    outcome: AnalysisValues, contrasts: list[InferenceResult], columns: tuple[str, ...], family: str
) -> pd.DataFrame:
    rows = [
        {
            **_named(outcome),
            "model": model,
            "value": mean_defined(outcome.value[:, m]),
            "ceiling_lower": mean_defined(outcome.lower[:, m]),
            "ceiling_upper": mean_defined(outcome.upper[:, m]),
            "n_participants": int((~np.isnan(outcome.value[:, m])).sum()),
            "p_ceiling": contrast.p,
            "effect_ceiling": contrast.effect,
            **_counts(outcome, m),
            **{name: getattr(contrast, name) for name in _TESTED},
            **{name: contrast.details.get(name, np.nan) for name in columns},
            "note": _model_note(outcome, m, contrast),
            "family": family,
        }
        for m, (model, contrast) in enumerate(zip(outcome.data.models, contrasts, strict=True))
    ]
    return pd.DataFrame(rows)


def _counts(outcome: AnalysisValues, m: int) -> dict[str, int]:
    part, counts = outcome.part_of(m), [0] * len(_COUNTS)
    if part is not None:
        subset, n_ceiling = part.subset, part.ceilings.matched.n_rows
        tied = int(subset.count_tied_predictions()[subset.models == m][0])
        counts = [subset.n_pairs, subset.n_rows, n_ceiling, tied, subset.count_tied_ratings()]
    return dict(zip(_COUNTS, counts, strict=True))


def _model_note(outcome: AnalysisValues, m: int, contrast: InferenceResult) -> str:
    part = outcome.part_of(m)
    if part is None:
        return "no trial of this analysis targets the model"
    there = ~np.isnan(outcome.value[:, m])
    if not there.any():
        return "not defined: the model or the ratings are tied on every trial"
    notes = []
    if absent := int((~there[_took_part(outcome, m)]).sum()):
        notes.append(f"not defined for {absent} participants, who are left out")
    if not contrast.n_units:
        notes.append("no ceiling: no trial was seen by enough other participants")
    elif part.ceilings.matched is not part.subset:
        notes.append("ceiling on the trials that enough other participants saw")
    return "; ".join([*notes, contrast.note] if contrast.note else notes)


def _took_part(outcome: AnalysisValues, m: int) -> BoolArray:
    """Return which participants have a value or a ceiling in the analysis, shape (N,)."""
    return np.asarray(~np.isnan(outcome.value[:, m]) | ~np.isnan(outcome.lower[:, m]))


def _comparison_rows(
    outcome: AnalysisValues,
    pairs: list[tuple[int, int]],
    contrasts: list[InferenceResult],
    columns: tuple[str, ...],
    options: EvaluationOptions,
) -> pd.DataFrame:
    models = outcome.data.models
    family = _family(outcome, options, "comparisons")
    planned = {frozenset(pair) for pair in options.planned}
    rows = [
        {
            **_named(outcome),
            "model_1": models[i],
            "model_2": models[j],
            "difference": mean_defined(outcome.value[:, i] - outcome.value[:, j]),
            "p": contrast.p,
            "effect": contrast.effect,
            **{name: getattr(contrast, name) for name in _TESTED},
            **{name: contrast.details.get(name, np.nan) for name in columns},
            "note": (
                _IDENTICAL
                if contrast.n_units and not np.isnan(contrast.p) and _are_identical(outcome, i, j)
                else contrast.note
                if contrast.n_units
                else _NO_PARTICIPANT
            ),
            "family": "planned" if {models[i], models[j]} in planned else family,
        }
        for (i, j), contrast in zip(pairs, contrasts, strict=True)
    ]
    for row in rows:
        interval = row["difference"], row["ci_low"], row["ci_high"]
        row["ci_low"], row["ci_high"] = _possible(*interval, outcome.measure, 2)
    return pd.DataFrame(rows, columns=None if rows else [*COMPARISON_COLUMNS, "side", "family"])


def _are_identical(outcome: AnalysisValues, i: int, j: int) -> bool:
    """Return whether two models prefer the same sentence of every pair of the analysis."""
    parts = outcome.part_of(i), outcome.part_of(j)
    if parts[0] is None or parts[1] is None:
        return False
    first, second = (np.unique(part.subset.pair) for part in parts if part is not None)
    sign = np.sign(outcome.data.log_ratio)
    return np.array_equal(first, second) and np.array_equal(sign[first, i], sign[first, j])


def _family(outcome: AnalysisValues, options: EvaluationOptions, tests: str) -> str:
    """Return the name of the false-discovery family of the comparisons or ceiling tests."""
    analysis = outcome.analysis
    if options.fdr == "all":
        # Catch trials and fillers are no findings, and must not change those of other trials.
        return f"{tests}/{'' if analysis.kind == EXPERIMENTAL else analysis.name}"
    part = tests if options.fdr == "by_test" else ""
    return f"{analysis.name}/{outcome.measure.name}/{part}"


def _adjust(models: pd.DataFrame, comparisons: pd.DataFrame) -> None:
    """Add the adjusted p-values to both tables, family by family, and note what they say."""
    p = np.concatenate([models["p_ceiling"], comparisons["p"]]).astype(np.float64)
    family = np.array([*models["family"], *comparisons["family"]])
    q = np.empty(len(p))
    for name in np.unique(family):
        q[family == name] = benjamini_hochberg(p[family == name])
    models["q_ceiling"], comparisons["q"] = q[: len(models)], q[len(models) :]
    for word, side in (("above", 1), ("below", -1)):
        here = (models["q_ceiling"] < ALPHA) & (models["side"] == side)
        add_note(models, here, f"significantly {word} the lower ceiling")
    add_note(comparisons, spans_zero(comparisons), "significant, but the interval includes zero")
    comparisons["conclusion"] = _conclusions(comparisons)


def _conclusions(comparisons: pd.DataFrame) -> list[str]:
    """Return for each row ``model 1``, ``model 2`` (which is better), or what else can be said."""
    p, q, side = (comparisons[name].to_numpy(dtype=float) for name in ("p", "q", "side"))
    small = np.full(len(p), np.nan)
    if "p_equivalence" in comparisons:
        small = comparisons["p_equivalence"].to_numpy(dtype=float)
    different = q < ALPHA
    identical = np.array([_IDENTICAL in note for note in comparisons["note"]], dtype=bool)
    cases = [identical, different & (side > 0), different, small < ALPHA, ~np.isnan(p)]
    words = ["indistinguishable", "model 1", "model 2", "equivalent", "undecided"]
    return [str(word) for word in np.select(cases, words, default="")]


def add_note(table: pd.DataFrame, here: pd.Series, text: str) -> None:
    """Add `text` to the notes of the rows of `table` where `here` holds."""
    notes = table.loc[here, "note"]
    table.loc[here, "note"] = [f"{note}; {text}" if note else text for note in notes]


def _person_rows(outcome: AnalysisValues) -> pd.DataFrame:
    """Return one row per model and participant with a trial of the analysis."""
    data = outcome.data
    parts = []
    for m, model in enumerate(data.models):
        who = np.flatnonzero(_took_part(outcome, m))
        value, lower = outcome.value[who, m], outcome.lower[who, m]
        note = np.where(np.isnan(lower), "no ceiling: too few others, or all tied", "")
        columns = {
            **_named(outcome),
            "model": model,
            "participant": data.participants[who],
            "group": data.groups[data.group_codes[who]],
            "value": value,
            "ceiling_lower": lower,
            "ceiling_upper": outcome.upper[who, m],
            "note": np.where(np.isnan(value), "not defined: tied on every trial", note),
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def _group_rows(outcome: AnalysisValues) -> pd.DataFrame:
    """Return one row per model and group, means over the group's participants."""
    data = outcome.data
    value, lower, upper = (
        unit_means(array, data.group_codes)
        for array in (outcome.value, outcome.lower, outcome.upper)
    )
    parts = []
    for m, model in enumerate(data.models):
        with_value = data.group_codes[~np.isnan(outcome.value[:, m])]
        people = np.bincount(with_value, minlength=len(data.groups))
        here = people > 0
        columns = {
            **_named(outcome),
            "model": model,
            "group": data.groups[here],
            "value": value[here, m],
            "ceiling_lower": lower[here, m],
            "ceiling_upper": upper[here, m],
            "n_participants": people[here],
            "note": np.where(np.isnan(lower[here, m]), "no ceiling: too few others", ""),
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)
