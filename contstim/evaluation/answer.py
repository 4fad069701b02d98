"""Which model predicts people best, how surely, and how near the ceiling: in sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pandas as pd

from contstim.evaluation.inference import ALPHA, spans_zero
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.wording import condition_sentences, counted, span, stopping_sentences
from contstim.tables import side_of_ceiling

if TYPE_CHECKING:
    from contstim.evaluation.result import Evaluation

_MOST_NAMED = 3
# Nobody runs a study of more people or pairs.
_MOST_WANTED = 100_000
# Of one figure: analyses, and rows of them for all models together.
_MOST_TOGETHER, _MOST_LANES = 6, 45
# Analyses that no figure puts beside others: of pairs that compare no models, and of trials that
# are not the same for every model.
_APART = ("catch", "fillers", "targeted")
_TEST_NAMES = {"crossed": "test over people and sentences"}


def answer_sentences(evaluation: Evaluation) -> list[str]:
    """Return who predicts people best, by how much and how surely, and how near the ceiling.

    Of the first analysis and measure in the tables; three sentences, fewer where there is nothing
    to say. A model is called the best only if it is shown to be better than chance and than every
    other model. Without a model's value the first sentence says so.

    Examples
    --------
    >>> from contstim import datasets, evaluate
    >>> choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
    >>> scores = datasets.natural_scores()[["contstim:gpt", "contstim:trigram"]]
    >>> answer_sentences(evaluate(choices, scores))[0]
    'contstim:gpt predicts people best (accuracy 0.789, 95 % interval 0.704 to 0.855).'
    """
    models = evaluation.models[evaluation.models["value"].notna()]
    if models.empty:
        return _without_models(evaluation)
    rows = of_same(models, models.iloc[0]).sort_values("value", ascending=False, kind="stable")
    pairs = of_same(evaluation.comparisons, rows.iloc[0])
    leaders = _leading(rows)
    sentences = [_headline(rows, leaders, pairs)]
    outside = pairs[~(pairs["model_1"].isin(leaders) & pairs["model_2"].isin(leaders))]
    seen = {model: _seen_by(model, outside) for model in leaders}
    against = _of_each(leaders, lambda model: _against_others(seen[model]))
    if not against.startswith(("it ", "each ")):  # what is the same for all is said once
        brief = _of_each(leaders, lambda model: _against_others(seen[model], brief=True))
        against = brief if brief.startswith("each ") else against
    if against:
        sentences.append(f"At a false discovery rate of {ALPHA:g} {against}.")
        beats = any((rows_of["verdict"] == "better than").any() for rows_of in seen.values())
        if beats and rows.iloc[0]["ci_low"] <= MEASURES[rows.iloc[0]["measure"]].chance:
            sentences.append(
                "Chance and other models are tested apart; with few people or pairs one may be "
                "shown without the other."
            )
    elif len(outside):
        others = [name for name in rows["model"] if name not in leaders]
        named = others[0] if len(others) == 1 else "other models"
        subject = "it" if len(leaders) == 1 else "one of them"
        sentences.append(f"Whether {subject} is better than {named} could not be tested.")
    near = _of_each(leaders, lambda model: _near_ceiling(rows[rows["model"] == model].iloc[0]))
    if near:
        # A sentence that begins with a model's name keeps it as it is.
        begins = near.startswith(("it ", "each "))
        sentences.append(f"{near[0].upper() if begins else near[0]}{near[1:]}.")
    first = rows.iloc[0]
    by = condition_sentences(evaluation, first["analysis"], first["measure"])
    return [*sentences, *by, *stopping_sentences(evaluation)]


def result_sentences(evaluation: Evaluation, analysis: str, measure: str) -> list[str]:
    """Return the highest value, its ceiling, and how many comparisons came out."""
    rows = evaluation.models.query("analysis == @analysis and measure == @measure")
    rows = rows[rows["value"].notna()]
    if rows.empty:
        return ["No model has a value in this analysis."]
    names = _leading(rows)
    first = _highest(rows.sort_values("value").iloc[-1])
    if len(names) > 1:
        first = f"The highest value, {rows['value'].max():.3f}, is shared by {_listed(names)}; "
        first += "their intervals and ceilings are in the table."
    pairs = evaluation.comparisons.query("analysis == @analysis and measure == @measure")
    clear, spanning = int((pairs["q"] < ALPHA).sum()), int(spans_zero(pairs).sum())
    second = (
        f"{clear} of {counted(len(pairs), 'comparison')} of models differ at a false discovery "
        f"rate of {ALPHA:g}"
    )
    if spanning:
        many = spanning > 1
        second += (
            f"; the interval{'s' * many} of {spanning} of them include{'s' * (not many)} zero, so "
            f"that {'these are' if many else 'one is'} not certain"
        )
    return [
        first,
        f"{second}. The analysis rests on {span(rows['n_trials'])} sentence pairs and "
        f"{span(rows['n_choices'])} choices per model.",
    ]


def analyses_together(models: pd.DataFrame) -> list[str]:
    """Return the analyses that one figure shows: the first, and its parts if they are few.

    These are those by levels of factors, without their combinations if there are many, or else the
    conditions of pairs on which every model is evaluated.
    """
    analyses = dict.fromkeys(models.loc[models["value"].notna(), "analysis"].astype("str"))
    first, *rest = analyses
    by = [name for name in rest if name.startswith(f"{first}, ")]
    single = [name for name in by if ", " not in name.removeprefix(f"{first}, ")]
    of_pairs = [n for n in rest if n not in _APART and "/" not in n and ", " not in n]
    for parts in (by, single) if by else (of_pairs,):
        rows = (1 + len(parts)) * models["model"].nunique()
        if len(parts) < _MOST_TOGETHER and rows <= _MOST_LANES:
            return [first, *parts]
    return [first]


def of_same(table: pd.DataFrame, row: pd.Series) -> pd.DataFrame:
    """Return the rows of a table that are of the analysis and measure of a row."""
    return table[(table[["analysis", "measure"]] == row[["analysis", "measure"]]).all(axis=1)]


def _leading(rows: pd.DataFrame) -> list[str]:
    """Return the models with the highest value; means that are equal but for rounding tie."""
    values = rows["value"].round(12)
    return [str(name) for name in rows.loc[values == values.max(), "model"]]


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _interval(row: pd.Series, frame: str) -> str:
    """Return the interval of a value in its frame; nothing where there is none."""
    if row["ci_low"] != row["ci_low"]:
        return ""
    return frame.format(f"95 % interval {row['ci_low']:.3f} to {row['ci_high']:.3f}")


def _headline(rows: pd.DataFrame, leaders: list[str], pairs: pd.DataFrame) -> str:
    """Return what is claimed of the models with the highest value."""
    best, names = rows.iloc[0], _listed(leaders)
    chance, measure = MEASURES[best["measure"]].chance, str(best["measure"]).replace("_", " ")
    value = f"{best['value']:.3f}" + _interval(best, ", {}")
    if best["ci_high"] < chance:
        every = "Both models lie" if len(rows) == 2 else f"All {len(rows)} models lie"
        return (
            f"{every if len(rows) > 1 else f'{names} lies'} below chance ({chance:g}); the highest "
            f"{measure} is {value}, of {names}. Unless the trials were made to mislead models, "
            "check that neither the rating scale nor the scores are turned round."
        )
    if best["ci_low"] <= chance:
        if len(rows) == 1:
            return f"{names} is not shown to predict people better than chance ({measure} {value})."
        worse = [str(name) for name in rows.loc[rows["ci_high"] < chance, "model"]]
        below = ""
        if worse:
            which = _listed(worse) if len(worse) <= _MOST_NAMED else f"{len(worse)} models"
            below = f"; {which} {'lies' if len(worse) == 1 else 'lie'} below chance"
        return (
            f"No model is shown to predict people better than chance ({chance:g}): the highest "
            f"{measure} is {value}, of {names}{below}."
        )
    if len(leaders) > 1:
        among = pairs[pairs["model_1"].isin(leaders) & pairs["model_2"].isin(leaders)]
        alike = len(among) > 0 and (among["verdict"] == "equivalent").all()
        so = "predict people equally well" if alike else "share the highest value"
        return f"Tied: {names} {so} ({measure} {value})."
    if len(rows) == 1:
        return (
            f"{names} predicts people better than chance ({measure} {value}); there is no other "
            "model to compare it with."
        )
    if (_seen_by(leaders[0], pairs)["verdict"] == "better than").sum() == len(rows) - 1:
        return f"{names} predicts people best ({measure} {value})."
    return f"Undecided: {names} has the highest {measure} ({value}), but is not shown to be best."


def _without_models(evaluation: Evaluation) -> list[str]:
    """Say that no model is judged, why, and what can be said all the same."""
    notes = [text for text in dict.fromkeys(evaluation.models["note"]) if text]
    if len(evaluation.models):
        why = f" ({'; '.join(notes[:_MOST_NAMED])})" if notes else ""
        return [f"No answer: no model has a value in any analysis{why}."]
    sentences = ["No answer: no scores of models were given, so that none could be judged."]
    ceilings = evaluation.details.ceilings
    ceilings = ceilings[ceilings["ceiling_lower"].notna()]
    if len(ceilings):
        first = ceilings.iloc[0]
        bounds = bounds_text(first["ceiling_lower"], first["ceiling_upper"])
        sentences.append(
            f"The best possible model of these people would reach {bounds} "
            f"({str(first['measure']).replace('_', ' ')}, noise ceiling)."
        )
    return sentences


def bounds_text(lower: float, upper: float) -> str:
    """Write a noise ceiling, as one number where its bounds coincide."""
    low, up = f"{lower:.3f}", f"{upper:.3f}"
    return low if low == up else f"{low} to {up}"


def _seen_by(model: str, pairs: pd.DataFrame) -> pd.DataFrame:
    """Return a model's comparisons as `other`, `difference` (its own less the other's), `verdict`.

    Numbers of the row that do not depend on who is first stay.
    """
    here = pairs[(pairs["model_1"] == model) | (pairs["model_2"] == model)]
    first = here["model_1"] == model
    sign = first.map({True: 1.0, False: -1.0}).astype(float)
    low, high = here["ci_low"] * sign, here["ci_high"] * sign
    wins = here["verdict"] == first.map({True: "model 1", False: "model 2"})
    loses = here["verdict"].isin(["model 1", "model 2"]) & ~wins
    words = {"equivalent": "equivalent to", "undecided": "not told apart from"}
    verdict = here["verdict"].replace(words).mask(wins, "better than").mask(loses, "worse than")
    return here.assign(
        other=here["model_2"].where(first, here["model_1"]),
        difference=here["difference"] * sign,
        ci_low=low.where(first, high),
        ci_high=high.where(first, low),
        verdict=verdict.mask(here["verdict"] == "", "not tested against"),
    )


def _of_each(models: list[str], predicate: Callable[[str], str]) -> str:
    """Return the predicates of models with a subject, one for all where they are the same."""
    texts = {model: predicate(model) for model in models}
    if len(set(texts.values())) == 1:
        text = texts[models[0]]
        return text and f"{'it' if len(models) == 1 else 'each'} {text}"
    return "; ".join(f"{model} {text}" for model, text in texts.items() if text)


def _against_others(pairs: pd.DataFrame, *, brief: bool = False) -> str:
    """Say how a model compares with each other one, and what would decide; see `_seen_by`.

    In `brief` without distances.
    """
    if (pairs["verdict"] == "not tested against").all():
        return ""
    parts = []
    better = pairs[pairs["verdict"] == "better than"]
    if len(better) == len(pairs) == 1:
        other = better.iloc[0]
        parts = [f"better than {other['other'] if brief else _distant(other)}"]
    elif len(better):
        every = f"all {len(pairs)}" if len(pairs) > 2 else "both"
        share = f"{len(better)} of {len(pairs)}" if len(better) < len(pairs) else every
        parts = [f"better than {share} other models"]
    for words in ("not tested against", "worse than", "equivalent to", "not told apart from"):
        rows = pairs[pairs["verdict"] == words]
        if rows.empty:
            continue
        shown = rows.iloc[:_MOST_NAMED]
        apart = words == "not told apart from" and not brief
        named = [_distant(row) if apart else str(row["other"]) for _, row in shown.iterrows()]
        more = len(rows) - len(shown)
        parts.append(f"{words} {', '.join(named)}" + (f" and {more} more" if more else ""))
    undecided = pairs[pairs["verdict"] == "not told apart from"]
    if len(undecided) and "more_people" in pairs and not brief:
        parts[-1] += _what_decides(undecided.iloc[0], of_several=len(undecided) > 1)
    return f"is {'; '.join(parts)}"


def _distant(row: pd.Series) -> str:
    """Return the other model of a comparison and how far it is."""
    return f"{row['other']} (difference {row['difference']:.3f}" + _interval(row, ", {}") + ")"


def _what_decides(row: pd.Series, *, of_several: bool) -> str:
    """Say how many people or sentence pairs would decide a comparison, the rest as it is."""
    ways = [
        f"{int(row[name]):,} {what}"
        for name, what in (("more_people", "people"), ("more_sentences", "sentence pairs"))
        if row[name] < _MOST_WANTED
    ]
    which = "the first of these" if of_several else "this"
    if row["p"] < ALPHA:
        return f" (taken alone {which} has p = {row['p']:.2g}, among all tests q = {row['q']:.2g})"
    if not ways:
        return f" (more people alone, or pairs alone, would hardly decide {which})"
    return f" (about {' or '.join(ways)} would decide {which}, p < {ALPHA:g} with probability 0.8)"


def _near_ceiling(row: pd.Series) -> str:
    """Say how far a model is from its lower noise ceiling; nothing without one."""
    if row["ceiling_lower"] != row["ceiling_lower"]:
        return ""
    gap = row["ceiling_lower"] - row["value"]
    where = f"{abs(gap):.3f} {'below' if gap > 0 else 'above'}" if abs(gap) >= 0.0005 else "at"
    certain = ", a difference that chance can explain"
    if row["q_ceiling"] < ALPHA or where == "at":
        certain = ""
    if row["q_ceiling"] != row["q_ceiling"]:
        certain = ", which could not be tested"
    lower, upper = f"{row['ceiling_lower']:.3f}", f"{row['ceiling_upper']:.3f}"
    ceiling = f"the noise ceiling of {lower}"
    if upper != lower:
        ceiling = f"the lower noise ceiling of {lower} (upper: {upper})"
    return f"lies {where} {ceiling}{certain}"


def _highest(row: pd.Series) -> str:
    highest = f"{row['value']:.3f}{_interval(row, ' ({})')}"
    sentence = f"The highest value is {highest}, of {row['model']}"
    if row["ceiling_lower"] == row["ceiling_lower"]:
        sentence += (
            f"; its noise ceiling runs from {row['ceiling_lower']:.3f} to "
            f"{row['ceiling_upper']:.3f}"
        )
    if row["p_ceiling"] == row["p_ceiling"]:
        gap = side_of_ceiling(row.to_frame().T.infer_objects()).iloc[0]
        side = "above" if gap > 0 else "below" if gap < 0 else "different from"
        sentence += (
            f"; the model is {'' if row['q_ceiling'] < ALPHA else 'not '}significantly {side} its "
            f"lower bound ({_TEST_NAMES.get(row['test'], 'signed-rank test')}: "
            f"p = {row['p_ceiling']:.2g}, q = {row['q_ceiling']:.2g})"
        )
    return sentence + "."
