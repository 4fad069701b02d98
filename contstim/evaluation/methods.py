"""Description of the analysis for the methods section of a report or a preregistration."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

from contstim.errors import format_count
from contstim.evaluation.inference import ALPHA
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.options import PRESETS, EvaluationOptions
from contstim.response_model import MIN_GROUPS

if TYPE_CHECKING:
    from contstim.evaluation.result import Evaluation

_TARGETS = {
    "all": "every model on the experimental trials",
    "accept": "each model on the trials with the synthetic sentence that it accepts",
    "reject": "each model on the trials with the synthetic sentence that it rejects",
    "targeted": "each model on the trials that target it",
    "either": "each model on the trials that target it",
}
_FAMILIES = {
    "all": "across all analyses and measures, separately for comparisons and for tests against "
    "the ceiling",
    "by_analysis": "within each analysis and measure, across comparisons and tests against the "
    "ceiling",
    "by_test": "within each analysis and measure, separately for comparisons and for tests against "
    "the ceiling",
}


def methods_paragraphs(evaluation: Evaluation) -> list[str]:
    """Write the methods section of a paper about an evaluation.

    Parameters
    ----------
    evaluation
        Result of `evaluate`.

    Returns
    -------
    list of str
        Paragraphs on the sample, the exclusions, the measures, the analyses, the tests (if models
        were evaluated), and the versions of the software.
    """
    summary, provenance = evaluation.summary, evaluation.provenance
    options = provenance.options
    sample = (
        f"{format_count(summary.n_participants, 'participant')} in "
        f"{format_count(summary.n_groups, 'group')} made {summary.n_choices:,} choices on "
        f"{summary.n_trials:,} sentence pairs "
        f"({_format_spread(*summary.trials_per_participant)} trials per participant, "
        f"{_format_spread(*summary.participants_per_trial)} participants per pair)."
    )
    if summary.median_rt_ms is not None:
        sample += f" The median response time was {summary.median_rt_ms:.0f} ms."
    if summary.catch_correct is not None:
        lowest, mean = summary.catch_correct
        sample += (
            f" Accuracy on catch trials was {100 * mean:.1f} % on average and {100 * lowest:.1f} % "
            "for the least accurate participant."
        )
    tests = describe_tests(options)
    if options.inference == "crossed" and options.items == "random":
        data = evaluation.data
        tests += (
            f" The {data.n_pairs:,} pairs form {format_count(data.n_items, 'item')}."
            if data.n_items < data.n_pairs
            else " Each pair is a separate item."
        )
    elif options.n_bootstrap:
        levels = " and ".join(f"{level}s" for level in provenance.levels)
        tests += f" Intervals use {options.n_bootstrap:,} bootstrap samples of {levels}."
    # The seed is stated separately, and the crossed inference uses no bootstrap.
    preset = replace(PRESETS[provenance.preset], seed=options.seed)
    if options.inference == "crossed":
        preset = replace(preset, n_bootstrap=0)
    changed = [
        f.name for f in fields(options) if getattr(options, f.name) != getattr(preset, f.name)
    ]
    changes = f" with changes in {', '.join(changed)}" if changed else ""
    versions = ", ".join(f"{name} {number}" for name, number in provenance.versions.items())
    software = f"Preset {provenance.preset!r}{changes}; seed {options.seed}; {versions}."
    return [
        sample,
        options.exclusions.description,
        describe_measures(options),
        describe_analyses(options),
        *([tests] if len(evaluation.models) else []),
        software,
    ]


def describe_measures(options: EvaluationOptions) -> str:
    """Describe in a paragraph how the measures and their noise ceilings are defined.

    `options` names the measures, for example accuracy. The text is part of a methods section.
    """
    measures = [MEASURES[name] for name in options.measures]
    # The description of the upper ceiling completes the sentence of the first description.
    descriptions = " ".join(m.description + m.upper_ceiling_description for m in measures)
    min_others = format_count(options.min_others, "other participant")
    # Ceilings need other participants who judged the same trial.
    return (
        f"{descriptions} Noise ceilings are computed for each analysis on the analysed trials that "
        f"at least {min_others} saw. Values are means over participants."
    )


def describe_analyses(options: EvaluationOptions) -> str:
    """List the analyses and their trials in a paragraph of a methods section.

    Parameters
    ----------
    options
        Options of the evaluation. Each of its analyses evaluates the models on a subset of the
        trials. If no analysis is named, the paragraph describes the default analyses: all trials,
        and each condition separately.
    """
    parts = []
    for analysis in options.analyses:
        trials = _TARGETS.get(analysis.target, _TARGETS["all"])
        if analysis.conditions:
            trials += f", of the conditions {', '.join(analysis.conditions)}"
        # Levels of the same factor are alternatives: "of native yes or no".
        for column in dict.fromkeys(column for column, _ in analysis.factor_levels):
            levels = [level for name, level in analysis.factor_levels if name == column]
            trials += f", of {column} {' or '.join(levels)}"
        parts.append(f"{analysis.name} ({trials})")
    # Without named analyses, the default analyses are carried out.
    if not parts:
        parts = [
            f"all ({_TARGETS['all']})",
            f"targeted ({_TARGETS['targeted']}, if trials target models)",
            "each condition separately, in the same two ways, if there are several",
        ]
    text = f"Analyses: {'; '.join(parts)}."
    if options.headline is not None:
        text += f" The main result is the analysis {options.headline}."
    if options.condition:
        text += (
            " Values of models, and differences between models, are also compared between levels "
            f"of {' and '.join(options.condition)}."
        )
    return text


def describe_tests(options: EvaluationOptions) -> str:
    """Describe in a paragraph how models are compared, and how p-values are adjusted.

    Parameters
    ----------
    options
        Options of the evaluation, which name the tests.

    Returns
    -------
    str
        Text for the methods section of a report or preregistration.
    """
    if options.inference == "crossed" and options.items == "fixed":
        tests = "t-tests across participants; items are fixed, so results hold for these items only"
    elif options.inference == "crossed":
        tests = (
            "quasi-F tests that treat participants and items as random (Clark 1973): the "
            "variance of a mean is the sum of components due to participants, items and residual, "
            "which the method of moments estimates (Gao & Owen 2017), with Satterthwaite degrees "
            "of freedom"
        )
    else:
        units = f"{options.unit}s"
        if options.unit == "auto":
            units = f"groups (participants if there are fewer than {MIN_GROUPS} groups)"
        tests = f"Wilcoxon signed-rank tests across {units}"
    text = (
        "Models are compared with each other and with the lower noise ceiling by two-sided "
        f"{tests}."
    )
    if options.inference == "crossed":
        for measure in (MEASURES[name] for name in options.measures):
            if not measure.is_trial_mean:
                text += (
                    f" Standard errors of the {measure.label} come from pseudo-values of the "
                    f"{measure.jackknife} jackknife."
                )
            elif options.items == "random":
                text += (
                    f" Tests of {measure.name} against the ceiling include two pseudo-items, one "
                    "on which the model is better and one on which it is worse (compare Agresti & "
                    "Min 2005)."
                )
        text += (
            " Intervals are 95 % intervals of the same distribution, on Fisher's z scale for values"
            " and ceilings. Two models are equivalent if two one-sided tests show that they differ "
            f"by less than {options.equivalence:g} of the range from chance to the lower ceiling."
        )
    text += (
        f" P-values are adjusted by the Benjamini-Hochberg procedure {_FAMILIES[options.fdr]}; "
        f"a difference is significant if q < {ALPHA:g}. Effect sizes are rank-biserial correlations"
        " across participants."
    )
    if options.planned:
        named = ", ".join(" and ".join(pair) for pair in options.planned)
        text += f" Planned comparisons ({named}) are adjusted separately."
    if options.contrasts == "targeted":
        text += " Only models that some trial targets together are compared."
    return text


def _format_spread(minimum: float, median: float, maximum: float) -> str:
    """Format the range and median of counts as text; if all counts are equal, only their value."""
    if minimum == maximum:
        return f"{minimum:g}"
    return f"{minimum:g} to {maximum:g}, median {median:g},"
