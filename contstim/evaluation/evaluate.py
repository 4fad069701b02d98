"""Evaluation of models on human choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.arrays import IntArray
from contstim.errors import InputError, require_known
from contstim.evaluation.agreement import (
    agreement_table,
    model_agreement_table,
    reliability_table,
    trial_table,
)
from contstim.evaluation.choices import HumanData, RawChoices, prepare_choices
from contstim.evaluation.exclusion import (
    catch_accuracy,
    check_rules,
    exclude,
    exclude_unknown_words,
)
from contstim.evaluation.inference.crossed import QuasiFInference
from contstim.evaluation.inference.signed_rank import SignedRankInference, default_levels
from contstim.evaluation.items import warn_related_pairs
from contstim.evaluation.options import (
    INFERENCE_BY_OPTION,
    EvaluationOptions,
    describe_deviations,
    preset_options,
    read_plan,
)
from contstim.evaluation.result import (
    CONDITION_COLUMNS,
    DetailTables,
    Evaluation,
    Provenance,
    Summary,
)
from contstim.evaluation.rows import concat_exclusions
from contstim.evaluation.scores import (
    ScoreSource,
    find_unscored_catch_trials,
    load_score_source,
    model_scores,
    model_specs,
    note_unscored_targets,
    resolve_targets,
    score_table,
    score_units,
)
from contstim.evaluation.tables import condition_table, result_tables
from contstim.evaluation.trials import (
    MAX_CONDITIONS,
    Analysis,
    TrialData,
    default_analyses,
    factors_match_conditions,
    split_by_level,
)
from contstim.evaluation.values import compute_values
from contstim.models.base import SentenceModel
from contstim.models.cache import package_versions
from contstim.models.registry import Models
from contstim.models.score_table import ScoreTable, canonical_scores
from contstim.progress import track
from contstim.settings import read_toml
from contstim.trial_kinds import EXPERIMENTAL


def evaluate(
    choices: pd.DataFrame | HumanData,
    scores: ScoreSource | Models | SentenceModel | str | None = None,
    preset: str = "default",
    plan: str | Path | None = None,
    **changes: object,
) -> Evaluation:
    """Evaluate how well language models predict human choices between two sentences.

    Parameters
    ----------
    choices
        Choices table (see `CHOICE_COLUMNS`), or the result of `read_choices`.
    scores
        Either log-probabilities in nats, as a table or mapping (see `score_table`), or models: one
        model or a model specification string such as ``hf:gpt2``, a list of them, or a mapping from
        name to model. Trials with a word that a model does not know are excluded for all models. By
        default, the scores in the file of choices are used. Without scores, only noise ceilings and
        agreement are computed.
    preset
        Name of the default options: ``default`` or ``golan2023``, see `PRESETS`.
    plan
        Path of an analysis plan, see `read_plan`. Its options replace those of the preset.
    changes
        Fields of `EvaluationOptions` that replace those of the preset and the plan. Deviations from
        the plan are listed in the result.

    Returns
    -------
    Evaluation
        Tables of results; `Evaluation.report` writes them with figures and an HTML page.

    Raises
    ------
    InputError
        If choices or scores are invalid; the message names the rows or the sentence.

    Examples
    --------
    >>> from contstim import datasets
    >>> choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
    >>> scores = datasets.natural_scores()[["contstim:gpt", "contstim:trigram"]]
    >>> result = evaluate(choices, scores)
    >>> everything = result.models.query("analysis == 'all' and measure == 'accuracy'")
    >>> everything[["model", "value"]].round(2)
                  model  value
    0      contstim:gpt   0.79
    1  contstim:trigram   0.31
    """
    plan_options = {} if plan is None else read_plan(plan)
    planned = preset_options(preset, **plan_options)
    options = preset_options(preset, **(plan_options | changes))
    for name, value in (plan_options | changes).items():
        if INFERENCE_BY_OPTION.get(name, options.inference) != options.inference:
            text = ", ".join(value) if isinstance(value, tuple) else value
            origin = "" if name in changes else f" in plan {plan}"
            raise InputError(
                f"{name} {text}{origin} cannot be combined with inference {options.inference} "
                f"(preset {preset}); leave out one of the two"
            )
    human = choices if isinstance(choices, HumanData) else prepare_choices(RawChoices(choices))
    deviations = None if plan is None else describe_deviations(options, planned)
    if deviations is not None and planned.sample is not None:
        deviations = (*deviations, *planned.sample.describe_deviations(human.choices))
    check_rules(human.choices, options.exclusions)

    # Exclude choices, and score the sentences of the remaining ones.
    source = human.scores if scores is None else load_score_source(scores)
    if isinstance(source, Mapping):
        models = [model for model in source.values() if isinstance(model, SentenceModel)]
        # Models with `unknown="error"` in the definition of their score refuse unknown words.
        refusing_models = [model for model in models if model.event.unknown == "error"]
        human = exclude_unknown_words(human, refusing_models)
        if len(models) == len(source):
            source = model_scores(models, human.choices)
    if isinstance(source, pd.DataFrame):
        source = canonical_scores(source)
    included, excluded = exclude(human.choices, options.exclusions)
    item_notes = []
    if options.inference == "crossed" and options.items == "random":
        item_notes = warn_related_pairs(included)
    scored_choices, table, score_notes = included, pd.DataFrame(), list[str]()
    units, specs = dict[str, str](), dict[str, str]()
    if source is not None:
        is_unscored = find_unscored_catch_trials(included, source)
        scored_choices = included[~is_unscored]
        table = score_table(source, [*scored_choices["sentence_1"], *scored_choices["sentence_2"]])
        units, specs = score_units(source, list(table.columns)), model_specs(source)
        score_notes = [
            *_note_unscored_catch_trials(included[is_unscored]),
            *(source.notes if isinstance(source, ScoreTable) else ()),
            *_note_positive_scores(table, units),
        ]
    scored_choices, target_notes = resolve_targets(scored_choices, list(units), specs)
    data = TrialData.from_choices(scored_choices, table, options.condition)
    for name in {name for pair in options.planned for name in pair}:
        require_known("model", name, data.models)
    notes = [*human.notes, *item_notes, *score_notes, *target_notes]
    if plan is not None and "adaptive" in read_toml(Path(plan)):
        notes.append(
            "The plan has a table [adaptive]: p and q do not account for stopping early. For "
            "differences by the stopping rule use `contstim watch --plan`."
        )
    notes += note_unscored_targets(data.pairs, data.models)

    # Compute values, noise ceilings and tests of each analysis.
    inference, options, levels = _create_inference(data, options)
    analyses, split_analyses, analysis_notes = _select_analyses(data, options)
    notes += analysis_notes
    outcomes = (
        outcome
        for analysis in track(analyses, len(analyses), "evaluating")
        for outcome in compute_values(data, analysis, options)
    )
    model_table, comparisons, details = result_tables(outcomes, inference, options)
    conditions = pd.DataFrame(columns=[*CONDITION_COLUMNS])
    if isinstance(inference, QuasiFInference) and options.condition:
        conditions = condition_table(data, split_analyses, inference, options)
    return Evaluation(
        models=model_table,
        comparisons=comparisons,
        conditions=conditions,
        details=DetailTables(
            **details,
            trials=trial_table(data),
            agreement=agreement_table(data),
            reliability=reliability_table(data, seed=options.seed),
            model_agreement=model_agreement_table(data),
        ),
        summary=_summarize_sample(data, included, n_choices_read=len(human.choices)),
        provenance=Provenance(
            scores=table.rename_axis("sentence").reset_index(),
            excluded=concat_exclusions(human.excluded, excluded),
            levels=levels,
            options=options,
            preset=preset,
            units=units,
            specs={model: specs[model] for model in data.models if model in specs},
            events=source.events if isinstance(source, ScoreTable) else {},
            notes=tuple(notes),
            deviations=deviations,
            versions=package_versions("pandas"),
        ),
        data=data,
        human=replace(human, choices=included),
    )


def _summarize_sample(data: TrialData, choices: pd.DataFrame, n_choices_read: int) -> Summary:
    """Count participants, trials and choices after exclusions.

    Parameters
    ----------
    data
        Choices that are evaluated, as arrays.
    choices
        All choices that are not excluded, including catch trials without scores.
    n_choices_read
        Number of choices before exclusions.
    """
    has_times = choices["rt_ms"].notna().any()
    # Proportion of correct catch trials of each participant; empty without catch trials.
    catch = catch_accuracy(choices)
    # `data` lacks catch trials without scores, which `choices` contains.
    return Summary(
        n_participants=len(data.participants),
        n_groups=len(data.groups),
        n_trials=data.n_pairs,
        n_choices=len(choices),
        n_choices_read=n_choices_read,
        trials_per_participant=_summarize_counts(data.participant),
        participants_per_trial=_summarize_counts(data.pair),
        median_rt_ms=float(choices["rt_ms"].median()) if has_times else None,
        catch_correct=None if catch.empty else (float(catch.min()), float(catch.mean())),
        models=data.models,
    )


def _note_unscored_catch_trials(choices: pd.DataFrame) -> list[str]:
    """Report the number of catch trials that are not used to evaluate models.

    Catch trials test whether participants pay attention, and need no scores. `choices` contains the
    choices in the catch trials that lack a score under at least one model. The result is empty if
    there are none, and one sentence otherwise.
    """
    n = len(choices[["sentence_1", "sentence_2"]].drop_duplicates())
    if not n:
        return []
    return [
        f"Catch trials that lack a score under at least one model: {n}. They serve to exclude "
        "inattentive participants, but models are not evaluated on them."
    ]


def _note_positive_scores(scores: pd.DataFrame, units: Mapping[str, str]) -> list[str]:
    """Report the models whose scores cannot be log-probabilities because all are positive.

    Parameters
    ----------
    scores
        Scores, one row per sentence and one column per model.
    units
        Unit of each model's scores. Only scores in nats are checked.

    Returns
    -------
    list of str
        One sentence per model.
    """
    return [
        f"All scores of {model} are above 0, so they are not log-probabilities; the higher score "
        "is taken to be better. If they are surprisals, state it in a column 'unit' of the table: "
        "surprisal."
        for model, unit in units.items()
        if unit == "nats" and (scores[model] > 0).all()
    ]


def _create_inference(
    data: TrialData, options: EvaluationOptions
) -> tuple[QuasiFInference | SignedRankInference, EvaluationOptions, tuple[str, ...]]:
    """Create the statistical tests and confidence intervals that the options name.

    Parameters
    ----------
    data
        Choices, from which the units of a bootstrap are drawn.
    options
        Options of the evaluation: ``crossed`` inference (quasi-F tests) or ``signed-rank``
        inference (Wilcoxon tests with bootstrap intervals).

    Returns
    -------
    inference : QuasiFInference or SignedRankInference
        Tests and confidence intervals.
    options : EvaluationOptions
        Copy of the options, with 0 bootstrap samples if no bootstrap is used.
    levels : tuple of str
        Units that the bootstrap draws with replacement; empty without a bootstrap.
    """
    # The default inference uses no bootstrap.
    if options.inference == "crossed":
        inference = QuasiFInference(options.items, options.equivalence)
        return inference, replace(options, n_bootstrap=0), ()
    levels = options.levels or default_levels(data)
    return SignedRankInference.from_options(data, options, levels), options, levels


def _select_analyses(
    data: TrialData, options: EvaluationOptions
) -> tuple[list[Analysis], list[Analysis], list[str]]:
    """Select the analyses to carry out, each of which uses a part of the trials.

    Parameters
    ----------
    data
        Trials and their conditions.
    options
        Options of the evaluation, with the names of analyses, if any, and the factors that split
        the analyses.

    Returns
    -------
    analyses : list of Analysis
        All analyses in the order of the tables. An analysis that is repeated for the levels of a
        factor, such as ``long`` and ``short``, is followed by the analysis of each level.
    split_analyses : list of Analysis
        The analyses that are repeated in this way.
    notes : list of str
        A note if there are too many conditions to analyse each of them separately.
    """
    notes = []
    analyses = list(options.analyses)
    are_named = bool(analyses)
    if not are_named:
        pairs = data.pairs
        n_conditions = pairs.loc[pairs["kind"] == EXPERIMENTAL, "condition"].nunique()
        if n_conditions > MAX_CONDITIONS:
            notes.append(
                f"There are {n_conditions} conditions; they are not analysed separately unless "
                "named."
            )
        # Ignore targets if none of them has scores.
        if data.models and not pairs[["model_1", "model_2"]].isin(data.models).any(axis=None):
            pairs = pairs.assign(model_1=None, model_2=None)
        analyses = list(default_analyses(pairs))

    # Repeat analyses for each level of the factors, but not default analyses of one condition.
    split_analyses: list[Analysis] = []
    if options.condition:
        split_analyses = [
            a for a in analyses if not a.factor_levels and (are_named or not a.conditions)
        ]
        with_combinations = are_named or not factors_match_conditions(data)
        repetitions = split_by_level(split_analyses, data.factors, with_combinations)
        analyses = [*repetitions, *(a for a in analyses if a not in split_analyses)]
    for analysis in analyses:
        if analysis.factor_levels and not options.condition:
            column, _ = analysis.factor_levels[0]
            raise InputError(
                f"the analysis {analysis.name!r} names levels of {column!r}; name that column as a "
                "condition"
            )
    if options.headline is not None:
        require_known("analysis", options.headline, [a.name for a in analyses])
        analyses.sort(key=lambda analysis: analysis.name != options.headline)
    return analyses, split_analyses, notes


def _summarize_counts(codes: IntArray) -> tuple[int, float, int]:
    """Return the minimum, median and maximum number of occurrences of the codes 0, 1, 2, ..."""
    # Number of occurrences of each code 0, 1, 2, ...
    counts = np.bincount(codes)
    return int(counts.min()), float(np.median(counts)), int(counts.max())
