"""Options of an evaluation, presets, and analysis plans."""

from __future__ import annotations

from dataclasses import field, fields, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from contstim.errors import InputError, require_known
from contstim.evaluation.exclusion import ExclusionRules
from contstim.evaluation.inference.quasi_f import ITEM_EFFECTS
from contstim.evaluation.measures import MEASURES
from contstim.evaluation.sample import Sample
from contstim.evaluation.trials import Analysis
from contstim.settings import (
    PositiveInt,
    Seed,
    TupleFromList,
    parse_settings,
    read_toml,
    settings,
    validate_choice,
)

#: Methods for p-values of the Wilcoxon test, see `wilcoxon_signed_rank`.
TEST_METHODS = ("exact", "scipy-1.7")
#: Units of a signed-rank test, see `EvaluationOptions`.
UNITS = ("auto", "group", "participant")
#: Units that a bootstrap can resample.
LEVELS = ("group", "participant", "pair")


def _to_tuple(value: object) -> object:
    """Convert a single name to a tuple with this name; return other values unchanged."""
    return (value,) if isinstance(value, str) and value else value


_Measures = Annotated[
    TupleFromList[Annotated[str, validate_choice(MEASURES, "measure")]], Field(min_length=1)
]


@settings
class EvaluationOptions:
    """Options of an evaluation.

    Attributes
    ----------
    analyses
        Analyses, each of which selects some of the trials. Empty: see `default_analyses`.
    measures
        Names of measures: ``accuracy``, ``signed_rank_cosine``, ``speed``, or a measure of an
        installed package, see `MEASURES`.
    inference
        Tests and confidence intervals:

        - ``crossed``: quasi-F tests of means over participants and items, see `CrossedDesign`.
        - ``signed-rank``: Wilcoxon tests across groups or participants with bootstrap intervals, as
          published by Golan et al. (2023).
    items
        Population of ``crossed`` inference: ``random`` if results should generalise to new
        participants and new items (groups of related sentence pairs), ``fixed`` if only to new
        participants.
    equivalence
        Largest difference between equivalent models, as a share of the range from chance to the
        lower noise ceiling.
    min_others
        Minimum number of other participants who must have judged a trial for it to have noise
        ceilings.
    unit
        Units of signed-rank tests: ``group``, ``participant``, or ``auto``. The last uses groups if
        there are at least six, with which the smallest two-sided p-value is 0.031, and participants
        otherwise.
    test_method
        Method for p-values of the Wilcoxon test, see `wilcoxon_signed_rank`.
    contrasts
        Compared pairs of models: ``all``, or ``targeted`` (pairs of models that some trial was
        designed to compare; all pairs if this is unknown).
    fdr
        Families of tests within which the false discovery rate is controlled (Benjamini &
        Hochberg):

        - ``all``: comparisons of all analyses and measures form one family, and tests against the
          ceiling another. Analyses of catch trials and fillers are separate families.
        - ``by_test``: comparisons of one analysis and measure form a family, and its tests against
          the ceiling another (as described by Golan et al. 2023).
        - ``by_analysis``: all tests of one analysis and measure form a family (as published by
          Golan et al. 2023).
    planned
        Pairs of models with planned comparisons, which are a separate family.
    n_bootstrap
        Number of bootstrap samples for signed-rank inference; 0 for no intervals.
    levels
        Levels at which the bootstrap draws with replacement, for example participants and pairs,
        see `draw_resamples`; empty for the result of `default_levels`.
    condition
        Columns of the choices that are experimental factors of participants or items. Models and
        their differences are compared between the levels. Analyses of all trials, or those named in
        `analyses`, are repeated for each level and combination of levels.
    headline
        Name of the analysis that is reported first; None for the first one.
    exclusions
        Rules that exclude participants and trials.
    seed
        Random seed of the bootstrap and of random halves.
    sample
        Planned sample size of a fixed study, from which deviations are reported.

    Examples
    --------
    >>> options = EvaluationOptions(measures=("accuracy",), equivalence=0.05)
    >>> options.measures, options.equivalence, options.inference
    (('accuracy',), 0.05, 'crossed')
    """

    analyses: TupleFromList[Analysis] = ()
    measures: _Measures = ("accuracy", "signed_rank_cosine")
    inference: Annotated[str, validate_choice(("crossed", "signed-rank"), "inference")] = "crossed"
    items: Annotated[str, validate_choice(ITEM_EFFECTS, "items")] = "random"
    equivalence: Annotated[float, Field(gt=0, lt=1)] = 0.1
    min_others: PositiveInt = 1
    unit: Annotated[str, validate_choice(UNITS, "unit")] = "auto"
    test_method: Annotated[str, validate_choice(TEST_METHODS, "test method")] = "exact"
    contrasts: Annotated[str, validate_choice(("all", "targeted"), "contrasts")] = "all"
    fdr: Annotated[str, validate_choice(("all", "by_test", "by_analysis"), "fdr")] = "all"
    planned: TupleFromList[Annotated[TupleFromList[str], Field(min_length=2, max_length=2)]] = ()
    n_bootstrap: Annotated[int, Field(ge=0, le=10**6)] = 1000
    levels: TupleFromList[Annotated[str, validate_choice(LEVELS, "resampling level")]] = ()
    condition: Annotated[TupleFromList[str], BeforeValidator(_to_tuple)] = ()
    headline: str | None = None
    exclusions: ExclusionRules = field(default_factory=ExclusionRules)
    seed: Seed = 0
    sample: Sample | None = None

    def __post_init__(self) -> None:
        # Results are identified by analysis and measure, so no name may occur twice.
        analyses = [analysis.name for analysis in self.analyses]
        for option, names in (("analyses", analyses), ("measures", self.measures)):
            for name in names:
                if names.count(name) > 1:
                    raise InputError(f"{option} names {name!r} twice; name each once")
        # Planned comparisons name two models each.
        for model_1, model_2 in self.planned:
            if model_1 == model_2:
                raise InputError(f"planned compares {model_1!r} with itself; give two models")


#: Inference that an option belongs to; other options belong to both kinds.
INFERENCE_BY_OPTION = {
    **dict.fromkeys(("items", "equivalence", "condition"), "crossed"),
    **dict.fromkeys(("unit", "test_method", "n_bootstrap", "levels"), "signed-rank"),
}

#: Options by name. ``golan2023`` is the published analysis of Golan et al. (2023): p-values as in
#: SciPy 1.7, one family of comparisons and ceiling tests, comparisons of models that trials target
#: together, and at least 11 of 12 catch trials correct. Its tests run across groups of participants
#: with different sentences, so that results generalise to new groups with new sentences.
PRESETS: dict[str, EvaluationOptions] = {
    "default": EvaluationOptions(),
    "golan2023": EvaluationOptions(
        inference="signed-rank",
        test_method="scipy-1.7",
        fdr="by_analysis",
        contrasts="targeted",
        exclusions=ExclusionRules(min_catch_correct=11 / 12),
    ),
}


def preset_options(preset: str, **changes: Any) -> EvaluationOptions:
    """Return the options of a preset with changes.

    Parameters
    ----------
    preset
        Name of a preset in `PRESETS`, for example ``golan2023``.
    **changes
        Fields of `EvaluationOptions` with their new values.

    Raises
    ------
    UnknownNameError
        If the preset or a field is unknown.

    Examples
    --------
    >>> options = preset_options("golan2023", seed=1)
    >>> options.inference, options.contrasts, options.seed
    ('signed-rank', 'targeted', 1)
    """
    require_known("preset", preset, PRESETS)
    known = [f.name for f in fields(EvaluationOptions)]
    for name in changes:
        require_known("option", name, known)
    return replace(PRESETS[preset], **changes)


def read_plan(path: str | Path) -> dict[str, Any]:
    """Read an analysis plan.

    Parameters
    ----------
    path
        Path of a TOML file with fields of `EvaluationOptions` as keys. ``[exclusions]`` is a table
        with fields of `ExclusionRules`, ``[sample]`` with fields of `Sample`, and each
        ``[[analyses]]`` with fields of `Analysis`. A table ``[adaptive]`` is ignored; it belongs to
        `contstim.adaptive`.

    Returns
    -------
    dict
        Options of the plan.

    Raises
    ------
    InputError
        If the file cannot be read or a key is invalid; the message names the key.
    """
    table = read_toml(Path(path))
    table.pop("adaptive", None)
    options = parse_settings(EvaluationOptions, table)
    return {name: getattr(options, name) for name in table}


def describe_deviations(
    options: EvaluationOptions | ExclusionRules,
    planned: EvaluationOptions | ExclusionRules,
    prefix: str = "",
) -> tuple[str, ...]:
    """Describe the deviations of an evaluation from its analysis plan in sentences.

    Parameters
    ----------
    options
        Options (or exclusion rules) of the evaluation.
    planned
        Options (or exclusion rules) of the plan.
    prefix
        Text before the name of each option, for example ``exclusions.``.

    Returns
    -------
    tuple of str
        One sentence for each option or rule that differs from the plan.
    """
    sentences: list[str] = []
    # Compare each option with the planned value.
    for name, planned_value in vars(planned).items():
        value = getattr(options, name)
        # Exclusion rules are options within options: compare each rule.
        if name == "exclusions":
            sentences += describe_deviations(value, planned_value, "exclusions.")
        elif value != planned_value:
            sentences.append(
                f"{prefix}{name} is {_format_value(value)}; the plan has "
                f"{_format_value(planned_value)}."
            )
    return tuple(sentences)


def _format_value(value: object) -> str:
    """Format the value of an option for a sentence; tuples are joined by commas."""
    if value is None or value == ():
        return "not set"
    if isinstance(value, tuple):
        names = [element.name if isinstance(element, Analysis) else element for element in value]
        return ", ".join(map(str, names))
    return f"{value:g}" if isinstance(value, float) else str(value)
