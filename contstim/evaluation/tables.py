"""Result tables: models, comparisons, conditions, participants, groups and noise ceilings.

Each missing number has a note with the reason.
"""

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
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.options import EvaluationOptions
from contstim.evaluation.result import COMPARISON_COLUMNS, CONDITION_COLUMNS, MODEL_COLUMNS
from contstim.evaluation.trials import Analysis, TrialData
from contstim.evaluation.values import AnalysisValues, mean_defined, unit_means
from contstim.trial_kinds import EXPERIMENTAL

if TYPE_CHECKING:
    from contstim.evaluation.inference.signed_rank import SignedRankInference

_CEILING_COLUMNS = (
    *("analysis", "measure", "ceiling_lower", "ceiling_upper"),
    *("n_participants", "n_trials", "n_choices", "note"),
)
_COUNT_COLUMNS = (
    *("n_trials", "n_choices", "n_choices_ceiling"),
    *("n_tied_predictions", "n_tied_ratings"),
)
# Attributes of all inference results that become columns.
_RESULT_COLUMNS = ("side", "ci_low", "ci_high", "n_units", "test")
_NO_PARTICIPANT = "no participant has a value for both models"
_IDENTICAL = "both models prefer the same sentence of every pair"


def result_tables(
    outcomes: Iterable[AnalysisValues],
    inference: QuasiFInference | SignedRankInference,
    options: EvaluationOptions,
) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, pd.DataFrame]]:
    """Return the tables of models, comparisons and details.

    Parameters
    ----------
    outcomes
        Values and noise ceilings of each analysis and measure.
    inference
        Tests and confidence intervals.
    options
        Options of the evaluation.

    Returns
    -------
    models : DataFrame
        One row per analysis, measure and model, see `MODEL_COLUMNS`.
    comparisons : DataFrame
        One row per analysis, measure and pair of models, see `COMPARISON_COLUMNS`.
    details : dict of DataFrame
        ``participants``, ``groups`` and ``ceilings``.
    """
    models, comparisons, participants, groups, ceilings = [], [], [], [], []
    for outcome in outcomes:
        if outcome.analysis.target == "all" and outcome.parts:
            part = outcome.parts[0]
            lower, upper = part.ceilings.lower, part.ceilings.upper
            is_defined = ~np.isnan(lower)
            bounds = mean_defined(lower), mean_defined(upper[is_defined])
            counts = int(is_defined.sum()), part.subset.n_pairs, part.subset.n_rows
            note = "" if is_defined.any() else "no trial was seen by enough other participants"
            ceilings.append((outcome.analysis.name, outcome.measure.name, *bounds, *counts, note))
        if not outcome.data.models:
            continue
        pairs = list(combinations(range(len(outcome.data.models)), 2))
        if options.contrasts == "targeted":
            pairs = outcome.targeted_pairs() or pairs
        model_results, pair_results = inference(outcome, pairs)
        model_columns, comparison_columns = inference.columns
        models.append(_model_rows(outcome, model_results, model_columns, options))
        comparisons.append(
            _comparison_rows(outcome, pairs, pair_results, comparison_columns, options)
        )
        participants.append(_participant_rows(outcome))
        groups.append(_group_rows(outcome))
    model_table, comparison_table = _concat(models), _concat(comparisons)
    if len(model_table):
        model_table["unit"] = comparison_table["unit"] = inference.unit
        _adjust_p_values(model_table, comparison_table)
        comparison_table["conclusion"] = _conclusions(comparison_table)
    details = {
        "participants": _concat(participants),
        "groups": _concat(groups),
        "ceilings": pd.DataFrame(ceilings, columns=list(_CEILING_COLUMNS)),
    }
    model_table = _order_columns(model_table, MODEL_COLUMNS)
    return model_table, _order_columns(comparison_table, COMPARISON_COLUMNS), details


def condition_table(
    data: TrialData,
    analyses: Sequence[Analysis],
    inference: QuasiFInference,
    options: EvaluationOptions,
) -> pd.DataFrame:
    """Return the differences between levels of factors, of models and of pairs of models.

    P-values are adjusted across all differences of single models, and separately across all
    interactions (differences of pairs of models). Catch trials and fillers are families of their
    own.
    """
    rows = []
    level_pairs = [
        (column, levels)
        for column, factor in data.factors.items()
        for levels in combinations(factor.levels, 2)
    ]
    for analysis, name, (column, levels) in product(analyses, options.measures, level_pairs):
        measure = MEASURES[name]
        differences = inference.compare_conditions(data, analysis, measure, column, levels)
        for models, n_participants, estimate in differences:
            max_difference = 2 * len(models) * (measure.maximum - measure.chance)
            low, high = _clip_interval(estimate.value, *estimate.interval(), max_difference)
            names = [data.models[m] for m in models]
            labels = (analysis.name, name, column, *levels, *names, *[""] * (2 - len(names)))
            numbers = (
                *(estimate.value, estimate.p_value(), np.nan),
                *(low, high, estimate.stderr, estimate.df, *n_participants),
            )
            note = TOO_FEW if np.isnan(estimate.stderr) else ""
            rows.append((*labels, *numbers, "", note))
    table = pd.DataFrame(rows, columns=list(CONDITION_COLUMNS))
    kinds = {a.name: "" if a.kind == EXPERIMENTAL else a.name for a in analyses}
    for _, family in table.groupby([table["model_2"] == "", table["analysis"].map(kinds)]):
        table.loc[family.index, "q"] = benjamini_hochberg(family["p"].to_numpy(dtype=float))
    higher_level = table["level_1"].where(table["difference"] > 0, table["level_2"])
    conclusion = ("more in " + higher_level).where(table["q"] < ALPHA, "undecided")
    table["conclusion"] = conclusion.where(table["p"].notna(), "")
    return table


def _clip_interval(
    value: float, low: float, high: float, max_difference: float
) -> tuple[float, float]:
    """Clip the interval of a difference to the possible range.

    A measure without a minimum can have a larger difference; its interval is not clipped.
    """
    if abs(value) > max_difference:
        return low, high
    return max(low, -max_difference), min(high, max_difference)


def _concat(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate tables, leaving out empty ones.

    If all tables are empty, the result has the columns of the first table.
    """
    filled = [table for table in tables if len(table)] or tables[:1]
    return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame()


def _order_columns(table: pd.DataFrame, columns: tuple[str, ...]) -> pd.DataFrame:
    """Put the columns of a result table in their standard order.

    Columns that the table lacks are left out. An empty table gets all standard columns.
    """
    present = [column for column in columns if column in table]
    return table[present] if len(table) else pd.DataFrame(columns=list(columns))


def _model_rows(
    outcome: AnalysisValues,
    results: list[InferenceResult],
    columns: tuple[str, ...],
    options: EvaluationOptions,
) -> pd.DataFrame:
    """Return the rows of the table of models for one analysis and measure.

    Parameters
    ----------
    outcome
        Values and noise ceilings of M models.
    results
        Test and confidence interval of each model.
    columns
        Names of the columns that depend on the inference, see `InferenceResult.details`.
    options
        Options of the evaluation.
    """
    family = _family(outcome, options, "ceiling tests")
    rows = []
    for m, (model, result) in enumerate(zip(outcome.data.models, results, strict=True)):
        counts = [0] * len(_COUNT_COLUMNS)
        part = outcome.part_of(m)
        if part is not None:
            subset = part.subset
            n_tied = int(subset.count_tied_predictions()[subset.models == m][0])
            n_ceiling = part.ceilings.matched.n_rows
            counts = [
                *(subset.n_pairs, subset.n_rows, n_ceiling),
                *(n_tied, subset.count_tied_ratings()),
            ]
        rows.append(
            {
                "analysis": outcome.analysis.name,
                "measure": outcome.measure.name,
                "model": model,
                "value": mean_defined(outcome.value[:, m]),
                "ceiling_lower": mean_defined(outcome.lower[:, m]),
                "ceiling_upper": mean_defined(outcome.upper[:, m]),
                "n_participants": int((~np.isnan(outcome.value[:, m])).sum()),
                "p_ceiling": result.p,
                "effect_ceiling": result.effect,
                **dict(zip(_COUNT_COLUMNS, counts, strict=True)),
                **{name: getattr(result, name) for name in _RESULT_COLUMNS},
                **{name: result.details.get(name, np.nan) for name in columns},
                "note": _model_note(outcome, m, result),
                "family": family,
            }
        )
    return pd.DataFrame(rows)


def _model_note(outcome: AnalysisValues, m: int, result: InferenceResult) -> str:
    """Return the reasons why numbers of a model are missing or are based on fewer trials."""
    part = outcome.part_of(m)
    if part is None:
        return "no trial of this analysis targets the model"
    is_defined = ~np.isnan(outcome.value[:, m])
    if not is_defined.any():
        return "not defined: the model or the ratings are tied on every trial"
    notes = []
    n_undefined = int((~is_defined[_has_trials(outcome, m)]).sum())
    if n_undefined:
        notes.append(f"not defined for {n_undefined} participants, who are left out")
    if not result.n_units:
        notes.append("no ceiling: no trial was seen by enough other participants")
    elif part.ceilings.matched is not part.subset:
        notes.append("ceiling on the trials that enough other participants saw")
    return "; ".join([*notes, result.note] if result.note else notes)


def _has_trials(outcome: AnalysisValues, m: int) -> BoolArray:
    """Return which participants have a value or a noise ceiling for a model, as a mask (N,)."""
    return np.asarray(~np.isnan(outcome.value[:, m]) | ~np.isnan(outcome.lower[:, m]))


def _comparison_rows(
    outcome: AnalysisValues,
    pairs: list[tuple[int, int]],
    results: list[InferenceResult],
    columns: tuple[str, ...],
    options: EvaluationOptions,
) -> pd.DataFrame:
    """Return the rows of the table of comparisons for one analysis and measure.

    Parameters
    ----------
    outcome
        Values and noise ceilings of M models.
    pairs
        Indices of the two models of each comparison.
    results
        Test and confidence interval of each comparison.
    columns
        Names of the columns that depend on the inference, see `InferenceResult.details`.
    options
        Options of the evaluation.
    """
    models, measure = outcome.data.models, outcome.measure
    family = _family(outcome, options, "comparisons")
    planned = {frozenset(pair) for pair in options.planned}
    max_difference = 2 * (measure.maximum - measure.chance)
    rows = []
    for (i, j), result in zip(pairs, results, strict=True):
        note = result.note if result.n_units else _NO_PARTICIPANT
        if result.n_units and not np.isnan(result.p) and _are_identical(outcome, i, j):
            note = _IDENTICAL
        difference = mean_defined(outcome.value[:, i] - outcome.value[:, j])
        interval = _clip_interval(difference, result.ci_low, result.ci_high, max_difference)
        rows.append(
            {
                "analysis": outcome.analysis.name,
                "measure": measure.name,
                "model_1": models[i],
                "model_2": models[j],
                "difference": difference,
                "p": result.p,
                "effect": result.effect,
                **{name: getattr(result, name) for name in _RESULT_COLUMNS},
                **{name: result.details.get(name, np.nan) for name in columns},
                "ci_low": interval[0],
                "ci_high": interval[1],
                "note": note,
                "family": "planned" if {models[i], models[j]} in planned else family,
            }
        )
    return pd.DataFrame(rows, columns=None if rows else [*COMPARISON_COLUMNS, "side", "family"])


def _are_identical(outcome: AnalysisValues, i: int, j: int) -> bool:
    """Return whether two models prefer the same sentence of every pair in an analysis.

    Models that are evaluated on different pairs are not identical.
    """
    first, second = outcome.part_of(i), outcome.part_of(j)
    if first is None or second is None:
        return False
    pairs, other_pairs = np.unique(first.subset.pair), np.unique(second.subset.pair)
    signs = np.sign(outcome.data.log_ratio)
    return np.array_equal(pairs, other_pairs) and np.array_equal(signs[pairs, i], signs[pairs, j])


def _family(outcome: AnalysisValues, options: EvaluationOptions, tests: str) -> str:
    """Return a label of the family of tests to which a p-value belongs.

    P-values with the same label are adjusted together for the false discovery rate. `tests` states
    the kind of test, ``ceiling tests`` or ``comparisons``. See `EvaluationOptions` for the choice
    of families.
    """
    analysis = outcome.analysis
    if options.fdr == "all":
        # Tests on catch trials and fillers must not change those on experimental trials.
        return f"{tests}/{'' if analysis.kind == EXPERIMENTAL else analysis.name}"
    suffix = tests if options.fdr == "by_test" else ""
    return f"{analysis.name}/{outcome.measure.name}/{suffix}"


def _adjust_p_values(models: pd.DataFrame, comparisons: pd.DataFrame) -> None:
    """Adjust the p-values of both tables for the false discovery rate, in place.

    P-values are adjusted within each family of tests. A family can contain rows of both tables.
    Notes on significance are added as well.
    """
    p = np.concatenate([models["p_ceiling"], comparisons["p"]]).astype(np.float64)
    family = np.array([*models["family"], *comparisons["family"]])
    q = np.empty(len(p))
    for name in np.unique(family):
        q[family == name] = benjamini_hochberg(p[family == name])
    models["q_ceiling"], comparisons["q"] = q[: len(models)], q[len(models) :]
    for word, side in (("above", 1), ("below", -1)):
        mask = (models["q_ceiling"] < ALPHA) & (models["side"] == side)
        _add_note(models, mask, f"significantly {word} the lower ceiling")
    _add_note(comparisons, spans_zero(comparisons), "significant, but the interval includes zero")


def _conclusions(comparisons: pd.DataFrame) -> list[str]:
    """Return a conclusion in words for each comparison of two models.

    The first of these conditions that is true determines the conclusion:

    1. ``indistinguishable``: the models prefer the same sentence of every pair.
    2. ``model 1`` or ``model 2``, the better model: the adjusted p-value q is below `ALPHA`.
    3. ``equivalent``: the p-value of the equivalence test is below `ALPHA`.
    4. ``undecided``: there is a test, and none of the above is true.

    The conclusion is an empty string if there is no test.
    """
    p, q, side = (comparisons[name].to_numpy(dtype=float) for name in ("p", "q", "side"))
    p_equivalence = np.full(len(p), np.nan)
    if "p_equivalence" in comparisons:
        p_equivalence = comparisons["p_equivalence"].to_numpy(dtype=float)
    is_identical = np.array([_IDENTICAL in note for note in comparisons["note"]], dtype=bool)
    conclusions = np.select(
        [is_identical, (q < ALPHA) & (side > 0), q < ALPHA, p_equivalence < ALPHA, ~np.isnan(p)],
        ["indistinguishable", "model 1", "model 2", "equivalent", "undecided"],
        default="",
    )
    return [str(conclusion) for conclusion in conclusions]


def _add_note(table: pd.DataFrame, mask: pd.Series, text: str) -> None:
    """Append a text to the notes of the rows selected by a mask, in place."""
    notes = table.loc[mask, "note"]
    table.loc[mask, "note"] = [f"{note}; {text}" if note else text for note in notes]


def _participant_rows(outcome: AnalysisValues) -> pd.DataFrame:
    """Return the values and noise ceilings of single participants as a table.

    The table has one row per model and participant, without participants who have no trial.
    """
    data = outcome.data
    tables = []
    for m, model in enumerate(data.models):
        indices = np.flatnonzero(_has_trials(outcome, m))
        value, lower = outcome.value[indices, m], outcome.lower[indices, m]
        note = np.where(np.isnan(lower), "no ceiling: too few others, or all tied", "")
        columns = {
            "analysis": outcome.analysis.name,
            "measure": outcome.measure.name,
            "model": model,
            "participant": data.participants[indices],
            "group": data.groups[data.group_codes[indices]],
            "value": value,
            "ceiling_lower": lower,
            "ceiling_upper": outcome.upper[indices, m],
            "note": np.where(np.isnan(value), "not defined: tied on every trial", note),
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def _group_rows(outcome: AnalysisValues) -> pd.DataFrame:
    """Return the mean values and noise ceilings of groups of participants as a table.

    The table has one row per model and group, without groups that have no value.
    """
    data = outcome.data
    value, lower, upper = (
        unit_means(array, data.group_codes)
        for array in (outcome.value, outcome.lower, outcome.upper)
    )
    tables = []
    for m, model in enumerate(data.models):
        groups = data.group_codes[~np.isnan(outcome.value[:, m])]
        n_participants = np.bincount(groups, minlength=len(data.groups))
        has_values = n_participants > 0
        columns = {
            "analysis": outcome.analysis.name,
            "measure": outcome.measure.name,
            "model": model,
            "group": data.groups[has_values],
            "value": value[has_values, m],
            "ceiling_lower": lower[has_values, m],
            "ceiling_upper": upper[has_values, m],
            "n_participants": n_participants[has_values],
            "note": np.where(np.isnan(lower[has_values, m]), "no ceiling: too few others", ""),
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)
