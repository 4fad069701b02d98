"""The result of an evaluation in three sentences, and the sample that it is based on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from contstim.arrays import FloatArray
from contstim.evaluation.inference import ALPHA
from contstim.evaluation.measures import MEASURES
from contstim.trial_kinds import EXPERIMENTAL

if TYPE_CHECKING:
    from contstim.evaluation.result import Evaluation
    from contstim.evaluation.trials import TrialData

_MAX_NAMED = 3
# Larger studies than this are not suggested.
_MAX_NEEDED = 100_000
_RELATIONS = (
    *("better than", "worse than", "equivalent to", "not tested against"),
    "not significantly different from",
)


def summarize(evaluation: Evaluation) -> list[str]:
    """Return which model predicts people best, how surely, and how far it is from the ceiling.

    The sentences describe the first analysis and measure of the tables. A model is called the best
    only if it is better than chance and than every other model.

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
    rows = select_same_analysis(models, models.iloc[0]).sort_values(
        "value", ascending=False, kind="stable"
    )
    pairs = select_same_analysis(evaluation.comparisons, rows.iloc[0])
    best = rows.iloc[0]
    relations = _relations(str(best["model"]), pairs)
    data = evaluation.data
    identical = group_identical(data.models, experimental_log_ratios(data))
    best_group = next((group for group in identical if best["model"] in group), [])
    sentences = [_best_model(rows, relations, best_group)]
    relations = relations[~relations["other"].isin(best_group)]
    if len(relations):
        sentences.append(_certainty(str(best["model"]), relations))
    if not np.isnan(best["ceiling_lower"]):
        sentences.append(_distance_to_ceiling(best))
    return sentences


def describe_sample(evaluation: Evaluation) -> list[str]:
    """Return how much was analysed and excluded, where models disagree, and what looks wrong."""
    s, excluded = evaluation.summary, evaluation.provenance.excluded
    sentences = [
        f"Analysed: {format_count(s.n_participants, 'participant')}, "
        f"{format_count(s.n_choices, 'choice')} on {format_count(s.n_trials, 'sentence pair')}."
    ]
    rules = [
        f"{rule} ({format_count(block['participant'].nunique(), 'participant')}, "
        f"{format_count(int(block['n_rows'].sum()), 'choice')})"
        for rule, block in excluded.groupby("rule", sort=False)
    ]
    sentences.append(f"Excluded: {'; '.join(rules)}." if rules else "Nothing was excluded.")
    data = evaluation.data
    sentences += describe_disagreement(data.models, experimental_log_ratios(data))
    return [*sentences, *_below_chance(evaluation)]


def describe_disagreement(models: Sequence[str], log_ratio: FloatArray) -> list[str]:
    """Return on how many sentence pairs each two models disagree, identical models first.

    Parameters
    ----------
    models
        Names of the M models.
    log_ratio
        Score of sentence 2 minus score of sentence 1, shape (P, M).
    """
    n = len(log_ratio)
    sentences = [
        f"These trials cannot distinguish {join_names(group)}: they prefer the same sentence in "
        f"all {format_count(n, 'pair')}."
        for group in group_identical(models, log_ratio)
    ]
    disagree = _disagreements(models, log_ratio)
    counts = {pair: count for pair, count in disagree.items() if count}
    if 0 < len(disagree) <= _MAX_NAMED:
        listed = "; ".join(f"{one} and {two}: {count}" for (one, two), count in counts.items())
    else:
        listed = f"each two models: {format_range(counts.values())}" if counts else ""
    if listed:
        sentences.append(f"Disagreements, of {format_count(n, 'sentence pair')}: {listed}.")
    return sentences


def group_identical(models: Sequence[str], log_ratio: FloatArray) -> list[list[str]]:
    """Return groups of two or more models that prefer the same sentence of every pair."""
    disagree = _disagreements(models, log_ratio)
    groups: list[list[str]] = []
    for model in models:
        for group in groups:
            if disagree[group[0], model] == 0:
                group.append(model)
                break
        else:
            groups.append([model])
    return [group for group in groups if len(group) > 1]


def experimental_log_ratios(data: TrialData) -> FloatArray:
    """Return the log-ratios of the experimental pairs; of all pairs if none is experimental."""
    experimental = (data.pairs["kind"] == EXPERIMENTAL).to_numpy()
    return data.log_ratio[experimental if experimental.any() else ~experimental]


def select_same_analysis(table: pd.DataFrame, row: pd.Series) -> pd.DataFrame:
    """Return the rows of a table with the analysis and measure of a row."""
    return table[(table[["analysis", "measure"]] == row[["analysis", "measure"]]).all(axis=1)]


def join_names(names: list[str]) -> str:
    """Return names with commas and ``and``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def format_count(number: int, noun: str) -> str:
    """Return a number of things, in the plural unless it is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_range(values: Iterable[int]) -> str:
    """Return the smallest and the largest of some numbers, or the one that they all are."""
    numbers = sorted(set(values))
    return f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"


def _disagreements(models: Sequence[str], log_ratio: FloatArray) -> dict[tuple[str, str], int]:
    """Return for each two models the number of pairs on which their predictions differ."""
    sign = np.sign(log_ratio)
    return {
        (models[i], models[j]): int((sign[:, i] != sign[:, j]).sum())
        for i, j in combinations(range(len(models)), 2)
    }


def _relations(model: str, pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the comparisons of a model with each other one, as differences from it."""
    here = pairs[(pairs["model_1"] == model) | (pairs["model_2"] == model)]
    first = here["model_1"] == model
    sign = np.where(first, 1.0, -1.0)
    low, high = here["ci_low"] * sign, here["ci_high"] * sign
    better = here["conclusion"] == np.where(first, "model 1", "model 2")
    different = here["conclusion"].isin(["model 1", "model 2"])
    relation = np.select(
        [better, different, here["conclusion"] == "equivalent", here["p"].isna()],
        _RELATIONS[:4],
        _RELATIONS[4],
    )
    return here.assign(
        other=here["model_2"].where(first, here["model_1"]),
        difference=here["difference"] * sign,
        ci_low=np.minimum(low, high),
        ci_high=np.maximum(low, high),
        relation=relation,
    )


def _interval(row: pd.Series) -> str:
    if np.isnan(row["ci_low"]):
        return ""
    return f", 95 % interval {row['ci_low']:.3f} to {row['ci_high']:.3f}"


def _best_model(rows: pd.DataFrame, relations: pd.DataFrame, identical: list[str]) -> str:
    best = rows.iloc[0]
    name, chance = str(best["model"]), MEASURES[best["measure"]].chance
    value = f"{str(best['measure']).replace('_', ' ')} {best['value']:.3f}{_interval(best)}"
    if best["ci_high"] < chance:
        return f"Every model is below chance ({chance:g}); the highest is {name} ({value})."
    if not best["ci_low"] > chance:
        return (
            f"No model predicts people significantly better than chance ({chance:g}); the highest "
            f"is {name} ({value})."
        )
    if len(rows) == 1:
        return f"{name} predicts people better than chance ({value})."
    tied = rows.loc[np.isclose(rows["value"], best["value"], rtol=0, atol=1e-12), "model"]
    others = relations[~relations["other"].isin(identical)]
    if identical and (others["relation"] == "better than").all():
        than = " and better than every other model" if len(others) else ""
        return f"{join_names(identical)} predict people equally well{than} ({value} each)."
    if len(tied) > 1:
        return f"{join_names([str(model) for model in tied])} have the same value ({value})."
    if (relations["relation"] == "better than").all():
        return f"{name} predicts people best ({value})."
    return f"Undecided: {name} has the highest {value}, but is not shown to be the best."


def _certainty(model: str, relations: pd.DataFrame) -> str:
    """Return how the best model compares with the others, and what would decide."""
    parts = []
    for relation in _RELATIONS:
        rows = relations[relations["relation"] == relation]
        if rows.empty:
            continue
        shown = [
            f"{row['other']} (difference {row['difference']:.3f}{_interval(row)}"
            + (")" if np.isnan(row["q"]) else f", q = {row['q']:.2g})")
            for _, row in rows.head(_MAX_NAMED).iterrows()
        ]
        more = [f"{len(rows) - _MAX_NAMED} more"] if len(rows) > _MAX_NAMED else []
        parts.append(f"{relation} {join_names([*shown, *more])}")
    text = f"At a false discovery rate of {ALPHA:g}, {model} is {'; '.join(parts)}"
    undecided = relations[relations["relation"] == _RELATIONS[4]]
    if len(undecided) and "participants_needed" in undecided:
        row = undecided.iloc[0]
        ways = [
            f"{int(row[name]):,} {what}"
            for name, what in (("participants_needed", "participants"), ("items_needed", "items"))
            if row[name] < _MAX_NEEDED
        ]
        if ways:
            text += f"; about {' or '.join(ways)} would be needed to decide ({row['other']})"
    return f"{text}."


def _distance_to_ceiling(row: pd.Series) -> str:
    gap = row["ceiling_lower"] - row["value"]
    where = f"{abs(gap):.3f} {'below' if gap > 0 else 'above'}" if abs(gap) >= 0.0005 else "at"
    bounds = f"{row['ceiling_lower']:.3f} to {row['ceiling_upper']:.3f}"
    tested = "not tested" if np.isnan(row["q_ceiling"]) else f"q = {row['q_ceiling']:.2g}"
    return f"It is {where} the lower bound of the noise ceiling ({bounds}; {tested})."


def _below_chance(evaluation: Evaluation) -> list[str]:
    """Return a warning that names the models below chance in the first analysis."""
    models = evaluation.models[evaluation.models["value"].notna()]
    if models.empty:
        return []
    rows = select_same_analysis(models, models.iloc[0])
    below = rows[rows["ci_high"] < MEASURES[rows["measure"].iloc[0]].chance]
    if below.empty:
        return []
    values = [f"{row['model']} ({row['value']:.3f})" for _, row in below.iterrows()]
    return [
        f"Below chance: {join_names(values)}. Unless the pairs were chosen against these models, "
        "check that the sentences, the ends of the scale or the sign of the scores are not swapped."
    ]
