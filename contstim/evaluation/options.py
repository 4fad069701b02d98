"""Every choice of an evaluation in one frozen value, the published one by name, and plans."""

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
from contstim.settings import Count, Seed, Several, build, one_of, read_toml, settings

#: How the p-value is found.
TEST_METHODS = ("exact", "scipy-1.7")
#: Over what a signed-rank test runs; ``auto`` is explained in `EvaluationOptions`.
UNITS = ("auto", "group", "participant")
#: What a bootstrap can resample.
LEVELS = ("group", "participant", "pair")


def _listed(given: object) -> object:
    """Return one name as a list of it."""
    return (given,) if isinstance(given, str) and given else given


_Measures = Annotated[Several[Annotated[str, one_of(MEASURES, "measure")]], Field(min_length=1)]


@settings
class EvaluationOptions:
    """How choices are evaluated.

    Attributes
    ----------
    analyses
        The trial selections; empty for those that `default_analyses` finds.
    measures
        ``accuracy``, ``signed_rank_cosine``, ``speed``, or one that a package brings, see
        `MEASURES`.
    inference
        ``crossed``: Student's tests and intervals of means over participants and sentences (see
        `CrossedDesign`). ``signed-rank``: Wilcoxon's tests across groups or participants, as
        published, with bootstrap intervals.
    items
        ``random``: results generalise to new participants and new items. ``fixed``: to new
        participants only.
    equivalence
        Margin of equivalence, as a share of the range from chance to the lower noise ceiling.
    min_others
        A trial supports a noise ceiling if at least this many other participants saw it.
    unit
        What signed-rank tests run across: ``group``, ``participant``, or ``auto``: groups if there
        are at least six (the smallest two-sided p is then 0.031), otherwise participants.
    test_method
        See `wilcoxon_signed_rank`.
    contrasts
        ``all`` pairs of models, or only the ``targeted`` ones, which some trial pits against each
        other (all pairs where none is).
    fdr
        Tests across which the false discovery rate is controlled (Benjamini and Hochberg).
        ``all``: comparisons of all analyses and measures and, separately, all tests against the
        ceiling; analyses of catch trials or fillers are separate. ``by_test``: within each analysis
        and measure, separately for comparisons and for tests against the ceiling (the text of Golan
        et al. 2023). ``by_analysis``: within each analysis and measure (their published analysis).
    planned
        Pairs of models whose comparisons were planned; they are adjusted separately.
    n_bootstrap
        Resamples for the intervals of signed-rank inference; 0 for none.
    levels
        What is resampled, see `draw_resamples`; empty for what `default_levels` finds.
    condition
        Columns of the choices with conditions of participants or factors of items. Analyses of all
        trials, or those that `analyses` names, are also made for each level and combination of
        levels, and models and their differences are compared between levels.
    headline
        The name of the analysis that the answer and the first figure are of; None: the first.
    exclusions
        Participants and trials left out.
    seed
        Of the bootstrap and the random halves.
    sample
        How many people a fixed study asks, from which its choices may depart.

    Examples
    --------
    >>> options = EvaluationOptions(measures=("accuracy",), equivalence=0.05)
    >>> options.measures, options.equivalence, options.inference
    (('accuracy',), 0.05, 'crossed')
    """

    analyses: Several[Analysis] = ()
    measures: _Measures = ("accuracy", "signed_rank_cosine")
    inference: Annotated[str, one_of(("crossed", "signed-rank"), "inference")] = "crossed"
    items: Annotated[str, one_of(ITEM_EFFECTS, "items")] = "random"
    equivalence: Annotated[float, Field(gt=0, lt=1)] = 0.1
    min_others: Count = 1
    unit: Annotated[str, one_of(UNITS, "unit")] = "auto"
    test_method: Annotated[str, one_of(TEST_METHODS, "test method")] = "exact"
    contrasts: Annotated[str, one_of(("all", "targeted"), "contrasts")] = "all"
    fdr: Annotated[str, one_of(("all", "by_test", "by_analysis"), "fdr")] = "all"
    planned: Several[Annotated[Several[str], Field(min_length=2, max_length=2)]] = ()
    n_bootstrap: Annotated[int, Field(ge=0, le=10**6)] = 1000
    levels: Several[Annotated[str, one_of(LEVELS, "resampling level")]] = ()
    condition: Annotated[Several[str], BeforeValidator(_listed)] = ()
    headline: str | None = None
    exclusions: ExclusionRules = field(default_factory=ExclusionRules)
    seed: Seed = 0
    sample: Sample | None = None

    def __post_init__(self) -> None:
        names = [analysis.name for analysis in self.analyses]
        for what, given in (("analyses", names), ("measures", self.measures)):
            for name in given:
                if given.count(name) > 1:  # one row of the tables would be another's namesake
                    raise InputError(f"{what} has {name!r} twice; name each once")
        for model_1, model_2 in self.planned:
            if model_1 == model_2:
                raise InputError(f"planned compares {model_1!r} with itself; give two models")


#: Options by name. ``golan2023`` is the published analysis of Golan et al. (2023): SciPy 1.7's
#: choice between exact and normal p-values, one false-discovery family of comparisons and
#: ceiling tests, contrasts only between models that trials pit against each other, and the
#: rule that at least 11 of 12 catch trials are right.
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
    """Return the options of `preset` with the named fields changed.

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
        A TOML file whose keys are fields of `EvaluationOptions`; ``[exclusions]`` is a table of
        those of `ExclusionRules`, ``[sample]`` of those of `Sample`, and each ``[[analyses]]`` of
        those of `Analysis`. A table ``[adaptive]`` is left to `contstim.adaptive`.

    Returns
    -------
    dict
        The options that the plan fixes.

    Raises
    ------
    InputError
        If the file cannot be read, or naming the key that is not right.
    """
    table = read_toml(Path(path))
    table.pop("adaptive", None)
    options = build(EvaluationOptions, table)
    return {name: getattr(options, name) for name in table}


def describe_deviations(
    options: EvaluationOptions | ExclusionRules,
    planned: EvaluationOptions | ExclusionRules,
    where: str = "",
) -> tuple[str, ...]:
    """Return a sentence for each option, or rule of exclusion, that is not as planned."""
    sentences: list[str] = []
    for name, then in vars(planned).items():
        now = getattr(options, name)
        if name == "exclusions":
            sentences += describe_deviations(now, then, "exclusions.")
        elif now != then:
            sentences.append(f"{where}{name} is {_said(now)}; the plan has {_said(then)}.")
    return tuple(sentences)


def _said(value: object) -> str:
    if value is None or value == ():
        return "not set"
    if isinstance(value, tuple):
        return ", ".join(str(getattr(item, "name", item)) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
