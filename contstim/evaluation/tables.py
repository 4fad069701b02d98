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
from contstim.evaluation.inference import ALPHA, InferenceResult, benjamini_hochberg, spans_zero
from contstim.evaluation.inference.crossed import TOO_FEW, QuasiFInference
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.options import EvaluationOptions
from contstim.evaluation.result import COMPARISON_COLUMNS, CONDITION_COLUMNS, MODEL_COLUMNS
from contstim.evaluation.trials import Analysis, TrialData
from contstim.evaluation.values import AnalysisValues, mean_defined, unit_means
from contstim.trial_kinds import EXPERIMENTAL

if TYPE_CHECKING:
    from contstim.evaluation.inference.signed_rank import SignedRankInference

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
    """Return the result tables: tests and comparisons of models, participants and ceilings.

    Parameters
    ----------
    outcomes
        One object for each combination of an analysis and a measure, with the values of the models
        and the noise ceilings for each participant.
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
        The tables ``participants``, ``groups`` and ``ceilings`` of `DetailTables`.
    """
    models, comparisons, participants, groups, ceilings = [], [], [], [], []
    for outcome in outcomes:
        # Noise ceilings need no model, if all models are evaluated on the same trials.
        if outcome.analysis.target == "all" and outcome.subset_values:
            ceilings.append(_ceiling_row(outcome))
        if not outcome.data.models:
            continue
        # Compare all pairs of models, or only pairs that trials were designed to distinguish.
        pairs = list(combinations(range(len(outcome.data.models)), 2))
        if options.contrasts == "targeted":
            pairs = outcome.targeted_pairs() or pairs
        model_results, pair_results = inference(outcome, pairs)
        model_columns, pair_columns = inference.columns
        models.append(_model_rows(outcome, model_results, model_columns, options))
        comparisons.append(_comparison_rows(outcome, pairs, pair_results, pair_columns, options))
        participants.append(_participant_rows(outcome))
        groups.append(_group_rows(outcome))
    model_table, comparison_table = _concat_tables(models), _concat_tables(comparisons)
    # P-values are adjusted across analyses, so this has to wait until all of them are computed.
    if len(model_table):
        model_table["unit"] = comparison_table["unit"] = inference.unit
        _adjust_p_values(model_table, comparison_table)
        comparison_table["conclusion"] = _conclusions(comparison_table)
    details = {
        "participants": _concat_tables(participants),
        "groups": _concat_tables(groups),
        "ceilings": pd.DataFrame(ceilings),
    }
    model_table = _order_columns(model_table, MODEL_COLUMNS)
    return model_table, _order_columns(comparison_table, COMPARISON_COLUMNS), details


def _ceiling_row(outcome: AnalysisValues) -> dict[str, object]:
    """Average the noise ceilings of all participants in one analysis.

    `outcome` contains the noise ceilings of each participant for one measure. The result is a row
    of the table `DetailTables.ceilings`, as a mapping from column to value.
    """
    # All models are evaluated on the same trials, so there is one subset of choices.
    (values,) = outcome.subset_values
    lower, upper = values.ceilings.lower, values.ceilings.upper
    # The ceiling is NaN for participants without a preference.
    is_defined = ~np.isnan(lower)
    return {
        "analysis": outcome.analysis.name,
        "measure": outcome.measure.name,
        "ceiling_lower": mean_defined(lower),
        "ceiling_upper": mean_defined(upper[is_defined]),
        "n_participants": int(is_defined.sum()),
        "n_trials": values.subset.n_pairs,
        "n_choices": values.subset.n_rows,
        "note": "" if is_defined.any() else "no trial was seen by enough other participants",
    }


def condition_table(
    data: TrialData,
    analyses: Sequence[Analysis],
    inference: QuasiFInference,
    options: EvaluationOptions,
) -> pd.DataFrame:
    """Test whether the values of models depend on the levels of a factor.

    Two levels are compared at a time. For a single model, the result is its value (for example,
    accuracy) at the first level minus its value at the second. For a pair of models, it is the
    result of the first model minus the result of the second, that is, an interaction. P-values are
    adjusted for the number of tests, separately for single models and for pairs of models, and
    separately for each analysis of catch trials or fillers.

    Parameters
    ----------
    data
        Choices, factors and predictions of models.
    analyses
        Selections of trials.
    inference
        Tests and confidence intervals.
    options
        Options with the names of the measures.

    Returns
    -------
    DataFrame
        One row per analysis, measure, pair of levels, and model or pair of models, see
        `CONDITION_COLUMNS`.
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
            rows.append(
                {
                    "analysis": analysis.name,
                    "measure": name,
                    "factor": column,
                    "level_1": levels[0],
                    "level_2": levels[1],
                    "model_1": data.models[models[0]],
                    "model_2": data.models[models[1]] if len(models) == 2 else "",
                    "difference": estimate.value,
                    "p": estimate.p_value(),
                    "ci_low": low,
                    "ci_high": high,
                    "stderr": estimate.stderr,
                    "df": estimate.df,
                    "n_participants_1": n_participants[0],
                    "n_participants_2": n_participants[1],
                    "note": TOO_FEW if np.isnan(estimate.stderr) else "",
                }
            )
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
    """Clip the confidence interval of a difference to the possible differences.

    Possible differences lie between ``-max_difference`` and `max_difference`, unless the measure
    has no minimum. If the estimate `value` itself is outside this range, the interval from `low` to
    `high` is returned unchanged.
    """
    if abs(value) > max_difference:
        return low, high
    return max(low, -max_difference), min(high, max_difference)


def _concat_tables(tables: list[pd.DataFrame]) -> pd.DataFrame:
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
    """Return the performance and test result of each model in one analysis, by one measure.

    `outcome` contains the values and noise ceilings of M models, and `results` the test and the
    confidence interval of each model. `columns` are the names of the columns that depend on the
    inference method, see `InferenceResult.statistics`. The result has one row per model.
    """
    family = _label_family(outcome, options, "ceiling tests")
    # P-values of the same family are adjusted together for the false discovery rate.
    rows = []
    for model, (name, result) in enumerate(zip(outcome.data.models, results, strict=True)):
        # Copy the numbers that all inference methods provide, then the numbers of this method.
        rows.append(
            {
                "analysis": outcome.analysis.name,
                "measure": outcome.measure.name,
                "model": name,
                "value": mean_defined(outcome.value[:, model]),
                "ceiling_lower": mean_defined(outcome.lower[:, model]),
                "ceiling_upper": mean_defined(outcome.upper[:, model]),
                "n_participants": int((~np.isnan(outcome.value[:, model])).sum()),
                "p_ceiling": result.p,
                "effect_ceiling": result.effect,
                **_count_choices(outcome, model),
                **{column: getattr(result, column) for column in _RESULT_COLUMNS},
                **{column: result.statistics.get(column, np.nan) for column in columns},
                "note": _model_note(outcome, model, result),
                "family": family,
            }
        )
    return pd.DataFrame(rows)


def _count_choices(outcome: AnalysisValues, model: int) -> dict[str, int]:
    """Count the trials, choices and ties from which the value of a model is computed.

    `model` is the index of the model. The result maps each column of `_COUNT_COLUMNS` to a number,
    which is 0 if the model is evaluated on no trial of the analysis.
    """
    values = outcome.find_subset_values(model)
    if values is None:  # the model is evaluated on no trial of the analysis
        return dict.fromkeys(_COUNT_COLUMNS, 0)
    subset = values.subset
    tied_predictions = subset.count_tied_predictions()[subset.models == model]
    return {
        "n_trials": subset.n_pairs,
        "n_choices": subset.n_rows,
        "n_choices_ceiling": values.ceilings.subset.n_rows,
        "n_tied_predictions": int(tied_predictions[0]),
        "n_tied_ratings": subset.count_tied_ratings(),
    }


def _model_note(outcome: AnalysisValues, model: int, result: InferenceResult) -> str:
    """Explain in words why numbers of a model are missing or are based on fewer trials.

    `model` is the index of the model, and `result` its test against the noise ceiling. The text is
    empty if there is nothing to explain.
    """
    values = outcome.find_subset_values(model)
    if values is None:
        return "no trial of this analysis targets the model"
    is_defined = ~np.isnan(outcome.value[:, model])
    if not is_defined.any():
        return "not defined: the model or the ratings are tied on every trial"
    # Participants with trials but no value have no preference, or the model has none.
    notes = []
    n_undefined = int((~is_defined[_has_trials(outcome, model)]).sum())
    if n_undefined:
        notes.append(f"not defined for {n_undefined} participants, who are left out")
    # Noise ceilings use only the trials that enough other participants judged (`ceilings.subset`).
    if not result.n_units:
        notes.append("no ceiling: no trial was seen by enough other participants")
    elif values.ceilings.subset.n_rows < values.subset.n_rows:
        notes.append("ceiling on the trials that enough other participants saw")
    return "; ".join([*notes, result.note] if result.note else notes)


def _has_trials(outcome: AnalysisValues, model: int) -> BoolArray:
    """Return which participants have a value or a noise ceiling for a model, as a mask (N,)."""
    return np.asarray(~np.isnan(outcome.value[:, model]) | ~np.isnan(outcome.lower[:, model]))


def _comparison_rows(
    outcome: AnalysisValues,
    pairs: list[tuple[int, int]],
    results: list[InferenceResult],
    columns: tuple[str, ...],
    options: EvaluationOptions,
) -> pd.DataFrame:
    """Return the difference and test result of pairs of models in one analysis, by one measure.

    `pairs` contains the indices of the two models of each comparison, and `results` its test and
    confidence interval. `columns` are the names of the columns that depend on the inference method,
    see `InferenceResult.statistics`.
    """
    models, measure = outcome.data.models, outcome.measure
    family = _label_family(outcome, options, "comparisons")
    planned = {frozenset(pair) for pair in options.planned}
    # A value lies within (maximum - chance) of chance, if the measure is symmetric around it.
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
                **{name: result.statistics.get(name, np.nan) for name in columns},
                "ci_low": interval[0],
                "ci_high": interval[1],
                "note": note,
                "family": "planned" if {models[i], models[j]} in planned else family,
            }
        )
    return pd.DataFrame(rows, columns=None if rows else [*COMPARISON_COLUMNS, "side", "family"])


def _are_identical(outcome: AnalysisValues, i: int, j: int) -> bool:
    """Return whether models i and j prefer the same sentence of every pair in an analysis.

    Models that are evaluated on different pairs are not identical.
    """
    values_1, values_2 = outcome.find_subset_values(i), outcome.find_subset_values(j)
    # The values are None if the analysis contains no trial on which the model is evaluated.
    if values_1 is None or values_2 is None:
        return False
    pairs_1, pairs_2 = np.unique(values_1.subset.pair), np.unique(values_2.subset.pair)
    if not np.array_equal(pairs_1, pairs_2):
        return False
    # Signs of the log-ratios: which sentence of each pair each model prefers.
    preferences = np.sign(outcome.data.log_ratio[pairs_1])
    return np.array_equal(preferences[:, i], preferences[:, j])


def _label_family(outcome: AnalysisValues, options: EvaluationOptions, tests: str) -> str:
    """Return the label of the family of tests to which p-values of an analysis belong.

    P-values with the same label are adjusted together for the false discovery rate, see
    `EvaluationOptions.fdr`. `tests` is the kind of the tests, ``ceiling tests`` or ``comparisons``.
    """
    analysis = outcome.analysis
    if options.fdr == "all":
        # Tests on catch trials and fillers must not change those on experimental trials.
        return f"{tests}/{'' if analysis.kind == EXPERIMENTAL else analysis.name}"
    label = f"{analysis.name}/{outcome.measure.name}/"
    return label + tests if options.fdr == "by_test" else label


def _adjust_p_values(models: pd.DataFrame, comparisons: pd.DataFrame) -> None:
    """Adjust the p-values of both tables for the false discovery rate, in place.

    P-values are adjusted within each family of tests. A family can contain rows of both tables.
    Notes on significance are added as well.
    """
    p = np.concatenate([models["p_ceiling"], comparisons["p"]]).astype(np.float64)
    family = np.array([*models["family"], *comparisons["family"]])
    # Adjust the stacked p-values of both tables within each family, then split the result again.
    q = np.empty(len(p))
    for name in np.unique(family):
        q[family == name] = benjamini_hochberg(p[family == name])
    models["q_ceiling"], comparisons["q"] = q[: len(models)], q[len(models) :]
    # `side` is the sign of the difference between a model and its lower noise ceiling.
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
    columns = comparisons.reindex(columns=["p", "q", "side", "p_equivalence"]).astype(float)
    is_significant = columns["q"] < ALPHA
    is_identical = comparisons["note"].str.contains(_IDENTICAL, regex=False).astype(bool)
    # `np.select` uses the first condition that is true, so "model 2" applies only if the
    # significant difference does not favour model 1.
    conclusion_by_condition = {
        "indistinguishable": is_identical,
        "model 1": is_significant & (columns["side"] > 0),
        "model 2": is_significant,
        "equivalent": columns["p_equivalence"] < ALPHA,
        "undecided": columns["p"].notna(),
    }
    names, conditions = list(conclusion_by_condition), list(conclusion_by_condition.values())
    return [str(name) for name in np.select(conditions, names, default="")]


def _add_note(table: pd.DataFrame, mask: pd.Series, text: str) -> None:
    """Append a text to the notes of the rows selected by a mask, in place."""
    notes = table.loc[mask, "note"]
    table.loc[mask, "note"] = [f"{note}; {text}" if note else text for note in notes]


def _participant_rows(outcome: AnalysisValues) -> pd.DataFrame:
    """Return the values and noise ceilings of single participants in one analysis as a table.

    The table has one row per model and participant, without participants who have no trial on which
    the model is evaluated.
    """
    data = outcome.data
    tables = []
    for model, name in enumerate(data.models):
        # Participants with trials on which the model is evaluated.
        indices = np.flatnonzero(_has_trials(outcome, model))
        value, lower = outcome.value[indices, model], outcome.lower[indices, model]
        # The more severe reason for a missing number replaces the other.
        note = np.where(np.isnan(lower), "no ceiling: too few others, or all tied", "")
        columns = {
            "analysis": outcome.analysis.name,
            "measure": outcome.measure.name,
            "model": name,
            "participant": data.participants[indices],
            "group": data.groups[data.group_codes[indices]],
            "value": value,
            "ceiling_lower": lower,
            "ceiling_upper": outcome.upper[indices, model],
            "note": np.where(np.isnan(value), "not defined: tied on every trial", note),
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def _group_rows(outcome: AnalysisValues) -> pd.DataFrame:
    """Average the values and noise ceilings of one analysis within groups of participants.

    The table has one row per model and group, except for groups in which the model has no value.
    """
    data = outcome.data
    # Means of the participants of each group, shape (n_groups, M) each.
    value, lower, upper = (
        unit_means(array, data.group_codes)
        for array in (outcome.value, outcome.lower, outcome.upper)
    )
    tables = []
    for model, name in enumerate(data.models):
        # Group of each participant with a value.
        groups = data.group_codes[~np.isnan(outcome.value[:, model])]
        n_participants = np.bincount(groups, minlength=len(data.groups))
        has_values = n_participants > 0
        columns = {
            "analysis": outcome.analysis.name,
            "measure": outcome.measure.name,
            "model": name,
            "group": data.groups[has_values],
            "value": value[has_values, model],
            "ceiling_lower": lower[has_values, model],
            "ceiling_upper": upper[has_values, model],
            "n_participants": n_participants[has_values],
            "note": np.where(np.isnan(lower[has_values, model]), "no ceiling: too few others", ""),
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)
