"""The sentences of the report: what was done, in words fit for a methods section."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from contstim.evaluation.inference import ALPHA, benjamini_hochberg
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.options import PRESETS, EvaluationOptions
from contstim.response_model import unit_sentence
from contstim.sampling import POPULATIONS

if TYPE_CHECKING:
    from contstim.adaptive.interim import InterimResult
    from contstim.evaluation.result import Evaluation

_MOST_STOPPED = 3  # pairs of models that are named
_METHODS = {
    "auto": "exact (all changes of sign of the differences at hand) up to 100 units",
    "exact": "exact (all changes of sign of the differences at hand)",
    "asymptotic": "by the normal approximation corrected for ties",
    "scipy-1.7": (
        "exact for at most 25 units without zeros and otherwise by the normal approximation, "
        "as in SciPy 1.7"
    ),
}
_TRIALS_OF_NAME = {
    "all": "every model on every trial but catch trials and fillers",
    "catch": "every model on the catch trials",
    "fillers": "every model on the fillers",
}
_TRIALS_OF_TARGET = {
    "accept": "a model on the trials whose synthetic sentence it was to accept",
    "reject": "a model on the trials whose synthetic sentence it was to reject",
    "targeted": "a model on the trials made to target it",
    "either": "a model on the trials made to target it",
}
_FAMILIES = {
    "page": (
        "with all comparisons of all analyses and measures as one family and all tests against the "
        "ceiling as another (catch trials and fillers apart)"
    ),
    "together": (
        "within each analysis and measure, with comparisons and ceiling tests as one family"
    ),
    "apart": (
        "within each analysis and measure, with one family for comparisons and one for ceiling "
        "tests"
    ),
}
_NESTED = {
    True: "people are nested in conditions, and sentences that both saw count as the same",
    False: "differences of conditions of pairs are those within people and items",
}
_ZEROS = {
    "zsplit": "zero differences are ranked and split between the signs",
    "pratt": "zero differences are ranked and then left out (Pratt)",
    "wilcox": "zero differences are left out before ranking",
}


def methods_sentences(evaluation: Evaluation) -> list[str]:
    """Return paragraphs on participants, trials, measures, tests and versions."""
    s, options = evaluation.summary, evaluation.provenance.options
    people = (
        f"{counted(s.n_participants, 'participant')} in {counted(s.n_groups, 'group')} made "
        f"{s.n_choices:,} choices on {s.n_trials:,} sentence pairs "
        f"({_range(*s.trials_per_participant)} trials per participant, "
        f"{_range(*s.participants_per_trial)} participants a pair)."
    )
    if s.median_rt_ms is not None:
        people += f" The median response time was {s.median_rt_ms:.0f} ms."
    if s.catch_correct is not None:
        worst, mean = s.catch_correct
        people += (
            f" On catch trials {100 * mean:.1f} % of choices were right on average, "
            f"{100 * worst:.1f} % for the participant with fewest."
        )
    paragraphs = [people, measure_words(options), _analyses(evaluation)]
    if len(evaluation.models):
        paragraphs.append(_tests(evaluation))
    if options.adaptive is not None:
        from contstim.adaptive.preregister import plan_paragraphs  # few studies are adaptive

        design = options.adaptive.design.capitalize()
        paragraphs += [
            f"{design} design, {name[0].lower()}{name[1:]}: {text}"
            for name, text in plan_paragraphs(options.adaptive).items()
        ]
    versions = ", ".join(
        f"{name} {number}" for name, number in evaluation.provenance.versions.items()
    )
    preset = evaluation.provenance.preset
    changed = "" if options == PRESETS[preset] else ", with changes"
    paragraphs.append(
        f"The preset was {preset!r}{changed}. Computed with {versions}; seed {options.seed}."
    )
    return paragraphs


def standing_sentences(evaluation: Evaluation) -> list[str]:
    """Return posterior, fit and verdict of an adaptive study, and when it could have ended."""
    standing = evaluation.standing
    if standing is None:
        return []
    after = standing.first_stop
    settled = "never" if after is None else f"first after {after.n_participants} participants"
    sentences = [f"{text[0].upper()}{text[1:]}." for text in standing.sentences]
    return [*sentences, f"By its stopping rule the study could have ended: {settled}."]


def stopping_sentences(evaluation: Evaluation) -> list[str]:
    """Say what may be reported of a study that may have stopped early: differences by its rule."""
    if evaluation.standing is None or not evaluation.standing.conclusions:
        return []
    table = stopping_table(evaluation.standing)
    tested = [name for name in ("p", "q") if name in table]
    parts = [
        f"{row['model_1']} less {row['model_2']} {row['difference']:.3f} ("
        + ", ".join(
            [f"{row['low']:.3f} to {row['high']:.3f}", *(f"{k} = {row[k]:.2g}" for k in tested)]
        )
        + ")"
        for row in table.head(_MOST_STOPPED).to_dict("records")
    ]
    more = f" and {len(table) - _MOST_STOPPED} more" if len(table) > _MOST_STOPPED else ""
    return [
        "This study could stop early, for which p-values, q-values and verdicts of comparisons.csv "
        f"do not allow; stopping.csv has what does: {'; '.join(parts)}{more}."
    ]


def measure_words(options: EvaluationOptions) -> str:
    """Say what the measures and their ceilings are, for the methods section and for plans."""
    used = [MEASURES[name] for name in options.measures]
    measures = " ".join(m.words + m.upper_bounds[options.upper] for m in used)
    return (
        f"{measures} Ceilings are computed for each analysis on exactly the trials analysed that "
        f"at least {counted(options.min_others, 'other participant')} saw. Values are means over "
        "participants."
    )


def stopping_table(standing: InterimResult) -> pd.DataFrame:
    """Return every two models' difference by the stopping rule, `q` beside `p` if that is there.

    As in the comparisons q is the least false discovery rate, of all of them together.
    """
    table = standing.pairs
    if "p" not in table:
        return table
    return table.assign(q=benjamini_hochberg(table["p"].to_numpy(dtype=np.float64)))


def exclusion_sentences(evaluation: Evaluation) -> list[str]:
    """Return what was left out, by rule; one sentence says so if nothing was."""
    table = evaluation.provenance.excluded
    if table.empty:
        return ["No participant and no trial was left out."]
    return [
        f"{rule}: {counted(int(block['n_rows'].sum()), 'choice')} of "
        f"{counted(block['participant'].nunique(), 'participant')} left out."
        for rule, block in table.groupby("rule", sort=False)
    ]


def scope_sentence(evaluation: Evaluation, unit: str) -> str:
    """Return what a test across this unit holds for."""
    if unit == "pair":
        return "This test is across sentence pairs, not people."
    if unit == "participant and sentence":
        return (
            "These tests hold for people and sentences like these: both are taken as samples, so "
            "that other sentences of the kind would tell the same."
        )
    if unit == "group" and evaluation.summary.groups_apart:
        return (
            "Each group saw pairs of its own, so these tests hold for sentences like these, not "
            "for these only."
        )
    return "These tests hold for these sentences only, not for others like them."


def _analyses(evaluation: Evaluation) -> str:
    """Return a sentence on which trials each analysis rests on."""
    given = {analysis.name: analysis for analysis in evaluation.provenance.options.analyses}
    names = [*evaluation.models["analysis"], *evaluation.details.ceilings["analysis"]]
    factors = evaluation.data.factors
    by = [f", {column} {level}" for column in factors for level in factors[column].levels]
    parts: dict[str, list[str]] = {}
    for name in dict.fromkeys(str(n) for n in names):
        if any(level in name for level in by):
            continue
        target = given[name].target if name in given else name.rpartition("/")[2]
        trials = _TRIALS_OF_TARGET.get(target, "every model on the trials of that condition")
        text = _TRIALS_OF_NAME.get(name, trials)
        parts.setdefault(text, []).append(name.replace("_", " "))
    named = "; ".join(f"{', '.join(alike)}: {text}" for text, alike in parts.items())
    text = f"Analyses, by the trials they rest on. {named}."
    if by:
        columns = [f"{column} ({', '.join(f.levels)})" for column, f in factors.items()]
        text += (
            f" Analyses were also made by {' and '.join(columns)}, and "
            "models, and differences of two models, were compared between conditions: "
            f"{', and '.join(dict.fromkeys(_NESTED[f.of_people] for f in factors.values()))}."
        )
    return text


def condition_sentences(evaluation: Evaluation, analysis: str, measure: str) -> list[str]:
    """Say for which conditions the difference between two models is another."""
    table, by = evaluation.conditions, " or ".join(evaluation.provenance.options.by)
    rows = table[(table["analysis"] == analysis) & (table["measure"] == measure)]
    rows = rows[(rows["model_2"] != "") & rows["q"].notna()]
    if rows.empty:
        return []
    shown = rows[rows["q"] < ALPHA]
    if shown.empty:
        first = rows.iloc[int(rows["difference"].abs().argmax())]
        return [
            f"No difference between two models is shown to depend on {by}; the one that depends "
            f"most on it: {_between(first)}."
        ]
    first = shown.iloc[int(shown["p"].argmin())]
    by = first["by"]
    more = f", and {len(shown) - 1} more like it" if len(shown) > 1 else ""
    return [f"How models differ depends on {by}: {_between(first)}{more} (see conditions.csv)."]


def _between(row: pd.Series) -> str:
    """Say by how much the lead of one model over another differs between conditions."""
    return (
        f"{row['model_1']} less {row['model_2']} is {abs(row['difference']):.3f} "
        f"{'higher' if row['difference'] > 0 else 'lower'} for {row['by']} {row['level_1']} than "
        f"for {row['by']} {row['level_2']} (difference {row['difference']:.3f}, 95 % interval "
        f"{row['ci_low']:.3f} to {row['ci_high']:.3f}, q = {row['q']:.2g})"
    )


def _tests(evaluation: Evaluation) -> str:
    options = evaluation.provenance.options
    crossed = options.inference == "crossed"
    tests = (
        _crossed(evaluation)
        if crossed
        else _signed_rank(options, f"{evaluation.models['unit'].iloc[0]}s")
    )
    text = _compared(options, tests, "were")
    if options.unit == "auto" and not crossed:
        text += f" {unit_sentence(evaluation.summary.n_groups, options.min_groups)}"
    if options.contrasts == "targeted":
        text += " Only models that trials pit against each other were compared."
    if options.n_bootstrap:
        levels = " and ".join(f"{level}s" for level in evaluation.provenance.levels)
        text += _resampled(options.n_bootstrap, levels)
    return text


def planned_tests(options: EvaluationOptions) -> str:
    """Say how models are going to be compared, by a plan alone."""
    if options.inference == "crossed":
        items = ""
        if options.population == POPULATIONS[0]:
            items = " Pairs that were made of one another are one item, by the column 'item'."
        tests, n_bootstrap = f"{_student(options)}{items} {_equivalence(options)}", 0
    else:
        units = {
            "auto": f"groups, or across participants where there are fewer than "
            f"{options.min_groups} groups"
        }
        tests = _signed_rank(options, units.get(options.unit, f"{options.unit}s"))
        n_bootstrap = options.n_bootstrap
    text = f"{_compared(options, tests, 'are')} A difference counts as found if q < {ALPHA:g}."
    if options.contrasts == "targeted":
        text += " Only models that trials pit against each other are compared."
    if n_bootstrap:
        levels = " and ".join(f"{level}s" for level in options.levels)
        usual = "groups, or over participants and pairs where groups are few or share pairs"
        text += _resampled(n_bootstrap, levels or usual)
    return text


def planned_analyses(options: EvaluationOptions) -> str:
    """Say which trials analyses are going to rest on, by a plan alone."""
    parts = []
    for analysis in options.analyses:
        trials = _TRIALS_OF_TARGET.get(analysis.target, "every model on the trials")
        if analysis.conditions:
            trials += f", of the conditions {', '.join(analysis.conditions)}"
        for column in dict.fromkeys(column for column, _ in analysis.where):
            levels = [level for name, level in analysis.where if name == column]
            trials += f", of {column} {' or '.join(levels)}"
        parts.append(f"{analysis.name}: {trials}")
    if not parts:
        parts = [
            f"all: {_TRIALS_OF_NAME['all']}",
            f"targeted, where trials were made for models: {_TRIALS_OF_TARGET['targeted']}",
            "each condition by its name, where there are several, in the same two ways",
        ]
    text = f"Analyses, by the trials they rest on. {'; '.join(parts)}."
    if options.headline is not None:
        text += f" The main result is that of {options.headline}."
    if options.by:
        text += (
            f" They are also made by {' and '.join(options.by)}, and models, and differences of "
            "two models, are compared between conditions."
        )
    return text


def _compared(options: EvaluationOptions, tests: str, be: str) -> str:
    """Say that models are, or were, compared by some tests, and what becomes of the p-values."""
    was = {"are": "is", "were": "was"}[be]
    text = (
        f"Models {be} compared with each other and with the lower noise ceiling by two-sided "
        f"{tests} The false discovery rate {was} controlled by the Benjamini-Hochberg procedure, "
        f"{_FAMILIES[options.family]}"
    )
    if options.planned:
        named = ", ".join(" and ".join(pair) for pair in options.planned)
        text += f"; comparisons planned before ({named}) are a family of their own"
    return f"{text}. Effect sizes are rank-biserial correlations across participants."


def _signed_rank(options: EvaluationOptions, units: str) -> str:
    return (
        f"Wilcoxon signed-rank tests across {units} ({_ZEROS[options.zero_method]}; p-values "
        f"{_METHODS[options.test_method]})."
    )


def _resampled(n_bootstrap: int, levels: str) -> str:
    return (
        f" Intervals are expanded percentile intervals of {n_bootstrap:,} bootstrap samples over "
        f"{levels}."
    )


def _student(options: EvaluationOptions) -> str:
    if options.population == POPULATIONS[1]:
        return (
            "Student's tests across participants, which take the sentences as they are and "
            "speak of these only."
        )
    return (
        "Student's tests that take both participants and sentences as samples: the variance "
        "of a mean is the sum of the parts due to participants, to sentence pairs and to the "
        "rest, estimated without bias for the choices at hand, with Satterthwaite's degrees of "
        "freedom (Cameron, Gelbach & Miller 2011; Gao & Owen 2017)."
    )


def _crossed(evaluation: Evaluation) -> str:
    options, data = evaluation.provenance.options, evaluation.data
    text = _student(options)
    if options.population == POPULATIONS[0]:
        if data.n_items < data.n_pairs:
            text = text.replace("sentence pairs", "items") + (
                f" Pairs that were made of one another are one item, by the column 'item': "
                f"{data.n_pairs} pairs are {counted(data.n_items, 'item')}."
            )
        else:
            text += " Each sentence pair is an item of its own."
    return f"{text} {_equivalence(options)}"


_BENT = (
    "Signed-rank cosines enter by their derivatives with respect to each choice (the infinitesimal "
    "jackknife). "
)


def _equivalence(options: EvaluationOptions) -> str:
    bent = "" if all(MEASURES[name].mean_of_trials for name in options.measures) else _BENT
    return (
        f"{bent}Intervals and p-values are of the same distribution, those of "
        "values and ceilings on Fisher's scale, where chance is 0 and perfection infinite. Two "
        "models are called equivalent if two one-sided tests show their difference to be "
        f"smaller than {options.margin:g} of the way from chance to the lower noise ceiling."
    )


def counted(number: int, noun: str) -> str:
    """Return a number of things, in the plural unless it is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _range(low: float, middle: float, high: float) -> str:
    return f"{low:g}" if low == high else f"{low:g} to {high:g}, median {middle:g},"


def span(values: Iterable[int]) -> str:
    """Return the least and the greatest of some numbers, or the one that they all are."""
    numbers = sorted(set(values))
    return f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"
