"""Summary of an evaluation in sentences: the result, and the sample on which it is based."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from contstim.arrays import FloatArray
from contstim.errors import format_count
from contstim.evaluation.inference import ALPHA
from contstim.evaluation.measures import MEASURES
from contstim.trial_kinds import EXPERIMENTAL

if TYPE_CHECKING:
    from contstim.evaluation.result import Evaluation
    from contstim.evaluation.trials import TrialData

_MAX_NAMED = 3
_BETTER, _WORSE, _EQUIVALENT = "better than", "worse than", "equivalent to"
_UNTESTED, _UNDECIDED = "not tested against", "not significantly different from"


def summarize(evaluation: Evaluation) -> list[str]:
    """Summarise in sentences which model predicts people's choices best.

    The sentences name the best model, compare it with the other models, and state its distance to
    the noise ceiling. They describe the first analysis and measure of the tables. A model is called
    the best only if it is better than chance and than every other model.

    Examples
    --------
    >>> from contstim import datasets, evaluate
    >>> choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
    >>> scores = datasets.natural_scores()[["contstim:gpt", "contstim:trigram"]]
    >>> summarize(evaluate(choices, scores))[0]
    'contstim:gpt predicts people best (accuracy 0.789, 95 % interval 0.703 to 0.855).'
    """
    models = evaluation.models[evaluation.models["value"].notna()]
    if models.empty:
        notes = [text for text in dict.fromkeys(evaluation.models["note"]) if text]
        reason = "; ".join(notes[:_MAX_NAMED]) or "no scores of models were given"
        return [f"No model was evaluated: {reason}."]
    # Describe the first analysis and measure of the table, best model first.
    rows = filter_analysis(models, models.iloc[0])
    rows = rows.sort_values("value", ascending=False, kind="stable")
    best = rows.iloc[0]
    name = str(best["model"])
    comparisons = _compare_with_others(name, filter_analysis(evaluation.comparisons, best))
    data = evaluation.data
    # Models with the same preferences as the best model cannot be compared with it.
    groups = group_identical(data.models, experimental_log_ratios(data))
    identical = next((group for group in groups if name in group), [])
    sentences = [_describe_best_model(rows, comparisons, identical)]
    # Leave out these models from the sentence on comparisons.
    comparisons = comparisons[~comparisons["other"].isin(identical)]
    if len(comparisons):
        sentences.append(_describe_comparisons(name, comparisons))
    if not np.isnan(best["ceiling_lower"]):
        sentences.append(_describe_distance_to_ceiling(best))
    return sentences


def describe_sample(evaluation: Evaluation) -> list[str]:
    """Describe in sentences the data on which an evaluation is based.

    Parameters
    ----------
    evaluation
        Result of `evaluate`.

    Returns
    -------
    list of str
        Sentences on the size of the sample, the exclusions and the number of pairs on which models
        disagree, and a warning if models are below chance.
    """
    summary, excluded = evaluation.summary, evaluation.provenance.excluded
    sentences = [
        f"Analysed: {format_count(summary.n_participants, 'participant')}, "
        f"{format_count(summary.n_choices, 'choice')} on "
        f"{format_count(summary.n_trials, 'sentence pair')}."
    ]
    # Number of participants and choices that each rule excluded.
    rules = []
    for rule, rows in excluded.groupby("rule", sort=False):
        participants = format_count(rows["participant"].nunique(), "participant")
        choices = format_count(int(rows["n_rows"].sum()), "choice")
        rules.append(f"{rule} ({choices} of {participants})")
    sentences.append(f"Excluded: {'; '.join(rules)}." if rules else "Nothing was excluded.")
    # Models differ only on pairs on which they prefer different sentences.
    data = evaluation.data
    sentences += describe_disagreement(data.models, experimental_log_ratios(data))
    return [*sentences, *_warn_below_chance(evaluation)]


def describe_disagreement(models: Sequence[str], log_ratio: FloatArray) -> list[str]:
    """Describe in sentences on how many pairs models disagree about the preferred sentence.

    Human choices can distinguish two models only on pairs about which the models disagree.

    Parameters
    ----------
    models
        Names of the M models.
    log_ratio
        Score of sentence 2 minus score of sentence 1 for P pairs and M models, shape (P, M).

    Returns
    -------
    list of str
        One sentence for each group of models that prefer the same sentence of every pair. If any
        models disagree, a last sentence gives the number of disagreements between them.
    """
    n_pairs = len(log_ratio)
    sentences = [
        f"These trials cannot distinguish {join_names(group)}: they prefer the same sentence in "
        f"all {format_count(n_pairs, 'pair')}."
        for group in group_identical(models, log_ratio)
    ]
    # Number of pairs on which each two models disagree, without models that always agree.
    counts = _count_disagreements(models, log_ratio)
    nonzero_counts = {names: count for names, count in counts.items() if count}
    if not nonzero_counts:
        return sentences
    # Name up to three pairs of models; otherwise give the range of the numbers.
    if len(counts) <= _MAX_NAMED:
        parts = [
            f"{first} and {second} disagree on {n}" for (first, second), n in nonzero_counts.items()
        ]
        text = "; ".join(parts)
    else:
        text = f"two models disagree on {format_range(nonzero_counts.values())}"
    return [*sentences, f"Of {format_count(n_pairs, 'sentence pair')}, {text}."]


def group_identical(models: Sequence[str], log_ratio: FloatArray) -> list[list[str]]:
    """Group models that prefer the same sentence of every pair, so that no trial can compare them.

    Parameters
    ----------
    models
        Names of the M models.
    log_ratio
        Score of sentence 2 minus score of sentence 1 for P pairs and M models, shape (P, M).

    Returns
    -------
    list of list of str
        Groups of two or more models with the same preferences, as lists of names.
    """
    # The bytes of the signs of all P log-ratios identify models with the same preferences.
    groups: dict[bytes, list[str]] = {}
    for model, preferences in zip(models, np.sign(log_ratio).T, strict=True):
        # Adding 0 turns -0 into 0, so that equal preferences have equal bytes.
        groups.setdefault((preferences + 0.0).tobytes(), []).append(model)
    return [group for group in groups.values() if len(group) > 1]


def _count_disagreements(
    models: Sequence[str], log_ratio: FloatArray
) -> dict[tuple[str, str], int]:
    """Count the sentence pairs on which two models prefer different sentences.

    Parameters
    ----------
    models
        Names of the M models.
    log_ratio
        Score of sentence 2 minus score of sentence 1, shape (P, M).

    Returns
    -------
    dict
        Number of sentence pairs by the names of the two models, for every pair of models.
    """
    signs = np.sign(log_ratio)
    return {
        (models[i], models[j]): int((signs[:, i] != signs[:, j]).sum())
        for i, j in combinations(range(len(models)), 2)
    }


def experimental_log_ratios(data: TrialData) -> FloatArray:
    """Return the log-ratios of the experimental pairs; of all pairs if none is experimental.

    A log-ratio is log p(sentence 2) - log p(sentence 1) in nats. The result has one row per pair
    and one column per model.
    """
    is_experimental = (data.pairs["kind"] == EXPERIMENTAL).to_numpy()
    return data.log_ratio[is_experimental] if is_experimental.any() else data.log_ratio


def filter_analysis(table: pd.DataFrame, row: pd.Series) -> pd.DataFrame:
    """Return the rows of a result table that have the same analysis and measure as `row`."""
    keys = ["analysis", "measure"]
    return table[(table[keys] == row[keys]).all(axis=1)]


def join_names(names: list[str]) -> str:
    """Return names separated by commas, with ``and`` before the last."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def format_range(values: Iterable[int]) -> str:
    """Return the minimum and maximum of numbers as text; one number if they are equal."""
    numbers = sorted(set(values))
    return f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"


def _format_interval(row: pd.Series) -> str:
    """Format the confidence interval of a row as text that is appended to an estimate.

    The text is empty if there is no interval.
    """
    if np.isnan(row["ci_low"]):
        return ""
    return f", 95 % interval {row['ci_low']:.3f} to {row['ci_high']:.3f}"


def _compare_with_others(model: str, comparisons: pd.DataFrame) -> pd.DataFrame:
    """Return the comparisons of one model with all others, as model minus other model.

    A comparison may list the model first or second. If it is second, the sign of the difference and
    the ends of the interval are reversed.

    Parameters
    ----------
    model
        Name of the model.
    comparisons
        Rows of `Evaluation.comparisons` of one analysis and measure.

    Returns
    -------
    DataFrame
        Rows that contain the model, with two further columns: `other`, the name of the other model,
        and `relation`, a phrase such as ``better than``.
    """
    rows = comparisons[(comparisons["model_1"] == model) | (comparisons["model_2"] == model)]
    # `rows` are the comparisons that contain the model, in either position.
    is_first = rows["model_1"] == model
    sign = np.where(is_first, 1.0, -1.0)
    # Reversing the sign exchanges the ends of an interval; sort them below.
    limits = rows[["ci_low", "ci_high"]].mul(sign, axis=0)
    # The conclusion names the better model by its position.
    is_model_better = rows["conclusion"] == np.where(is_first, "model 1", "model 2")
    is_any_better = rows["conclusion"].isin(["model 1", "model 2"])
    relation_by_condition = {
        _BETTER: is_model_better,
        _WORSE: is_any_better & ~is_model_better,
        _EQUIVALENT: rows["conclusion"] == "equivalent",
        _UNTESTED: rows["p"].isna(),
    }
    # The first condition that is true determines the relation.
    relations, conditions = list(relation_by_condition), list(relation_by_condition.values())
    return rows.assign(
        other=rows["model_2"].where(is_first, rows["model_1"]),
        difference=rows["difference"] * sign,
        ci_low=limits.min(axis=1),
        ci_high=limits.max(axis=1),
        relation=np.select(conditions, relations, _UNDECIDED),
    )


def _describe_best_model(
    rows: pd.DataFrame, comparisons: pd.DataFrame, identical: list[str]
) -> str:
    """Describe in one sentence whether the model with the highest value is the best.

    Parameters
    ----------
    rows
        Models of one analysis and measure, highest value first.
    comparisons
        Comparisons of the first model with the others.
    identical
        Models with the same predictions as the first one, including itself.
    """
    best = rows.iloc[0]
    name, chance = str(best["model"]), MEASURES[best["measure"]].chance
    measure = str(best["measure"]).replace("_", " ")
    value = f"{measure} {best['value']:.3f}{_format_interval(best)}"
    # Compare the confidence interval with chance first.
    if best["ci_high"] < chance:
        return f"Every model is below chance ({chance:g}); the highest is {name} ({value})."
    # This condition is also true if the interval is missing (NaN).
    if not best["ci_low"] > chance:
        return (
            f"No model predicts people significantly better than chance ({chance:g}); the highest "
            f"is {name} ({value})."
        )
    if len(rows) == 1:
        return f"{name} predicts people better than chance ({value})."
    # Models with the same preferences as the best model share its place.
    other_models = comparisons[~comparisons["other"].isin(identical)]
    if identical and (other_models["relation"] == _BETTER).all():
        than = " and better than every other model" if len(other_models) else ""
        return f"{join_names(identical)} predict people equally well{than} ({value} each)."
    # Different models can have the same value by chance.
    is_tied = np.isclose(rows["value"], best["value"], rtol=0, atol=1e-12)
    if is_tied.sum() > 1:
        names = [str(model) for model in rows.loc[is_tied, "model"]]
        return f"{join_names(names)} have the same value ({value})."
    if (comparisons["relation"] == _BETTER).all():
        return f"{name} predicts people best ({value})."
    return f"Undecided: {name} has the highest {value}, but is not shown to be the best."


def _describe_comparisons(model: str, comparisons: pd.DataFrame) -> str:
    """Describe in one sentence how the best model compares with the other models.

    The other models are grouped by the relation to the best model, for example ``better than`` or
    ``equivalent to``.

    Parameters
    ----------
    model
        Name of the best model.
    comparisons
        Result of `_compare_with_others`.
    """
    parts = []
    # Group the other models by their relation to the best model, such as "better than".
    for relation in (_BETTER, _WORSE, _EQUIVALENT, _UNTESTED, _UNDECIDED):
        rows = comparisons[comparisons["relation"] == relation]
        if rows.empty:
            continue
        names = []
        # Name up to three models with their difference, interval and adjusted p-value.
        for _, row in rows.head(_MAX_NAMED).iterrows():
            test = "" if np.isnan(row["q"]) else f", q = {row['q']:.2g}"
            difference = f"difference {row['difference']:.3f}{_format_interval(row)}"
            names.append(f"{row['other']} ({difference}{test})")
        if len(rows) > _MAX_NAMED:
            names.append(f"{len(rows) - _MAX_NAMED} more")
        parts.append(f"{relation} {join_names(names)}")
    return f"At a false discovery rate of {ALPHA:g}, {model} is {'; '.join(parts)}."


def _describe_distance_to_ceiling(row: pd.Series) -> str:
    """Describe in one sentence how far a model's value is from the lower noise ceiling.

    Parameters
    ----------
    row
        Row of the model in the table `Evaluation.models`.
    """
    distance_below = row["ceiling_lower"] - row["value"]
    # Distances that round to 0.000 are described as "at the lower bound".
    if round(abs(distance_below), 3) == 0:
        distance = "at"
    else:
        distance = f"{abs(distance_below):.3f} {'below' if distance_below > 0 else 'above'}"
    bounds = f"{row['ceiling_lower']:.3f} to {row['ceiling_upper']:.3f}"
    # The adjusted p-value is NaN if the model was not tested against the ceiling.
    test = "not tested" if np.isnan(row["q_ceiling"]) else f"q = {row['q_ceiling']:.2g}"
    return f"It is {distance} the lower bound of the noise ceiling ({bounds}; {test})."


def _warn_below_chance(evaluation: Evaluation) -> list[str]:
    """Warn of models that are significantly below chance in the first analysis.

    Values below chance often result from exchanged sentences or a wrong sign of the scores.

    Parameters
    ----------
    evaluation
        Result of `evaluate`.

    Returns
    -------
    list of str
        A sentence that names the models; empty if no value is below chance.
    """
    models = evaluation.models[evaluation.models["value"].notna()]
    if models.empty:
        return []
    # Consider the first analysis and measure only.
    rows = filter_analysis(models, models.iloc[0])
    # The whole confidence interval is below chance.
    below = rows[rows["ci_high"] < MEASURES[rows["measure"].iloc[0]].chance]
    if below.empty:
        return []
    values = [f"{row['model']} ({row['value']:.3f})" for _, row in below.iterrows()]
    return [
        f"Below chance: {join_names(values)}. Unless the pairs were chosen against these models, "
        "check that the sentences, the ends of the scale or the sign of the scores are not swapped."
    ]
