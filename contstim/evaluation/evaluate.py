"""`evaluate`: people's choices and models' scores in, tables out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

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
from contstim.evaluation.importers import read_choices
from contstim.evaluation.inference.crossed import QuasiFInference
from contstim.evaluation.items import warn_related_pairs
from contstim.evaluation.options import (
    EvaluationOptions,
    describe_deviations,
    preset_options,
    read_plan,
)
from contstim.evaluation.result import DetailTables, Evaluation, Provenance, Summary
from contstim.evaluation.rows import concat_exclusions
from contstim.evaluation.scores import (
    ScoreSource,
    find_unscored_catch,
    load_score_source,
    model_scores,
    model_specs,
    score_notes,
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
    note_unscored_targets,
    resolve_targets,
    split_by_level,
)
from contstim.evaluation.values import compute_values
from contstim.models.base import SentenceModel
from contstim.models.cache import package_versions
from contstim.models.registry import Models
from contstim.progress import track
from contstim.settings import read_toml
from contstim.tables import read_table
from contstim.trial_kinds import EXPERIMENTAL

if TYPE_CHECKING:
    from contstim.evaluation.inference.signed_rank import SignedRankInference


def evaluate(
    choices: pd.DataFrame | HumanData,
    scores: ScoreSource | Models | SentenceModel | str | None = None,
    preset: str = "default",
    plan: str | Path | None = None,
    **changes: object,
) -> Evaluation:
    """Evaluate models on people's choices.

    Parameters
    ----------
    choices
        The choices table (see `CHOICE_COLUMNS`), which is validated and aligned here, or what an
        importer returned.
    scores
        Log-probabilities in nats: a wide or long table, or a mapping from model name to scores or
        to a function that scores sentences (see `score_table`); or the models themselves, or their
        specs, one alone, in a list or by their names: trials with a word that one of them does not
        know are then left out. Where not given, those of the importer; where there are none, only
        what needs no model is evaluated.
    preset
        ``default`` or ``golan2023``, see `PRESETS`.
    plan
        A file with an analysis plan, see `read_plan`; what it does not fix is as in the preset.
    changes
        Fields of `EvaluationOptions` that differ from the preset and the plan; those that depart
        from a plan are listed.

    Returns
    -------
    Evaluation
        Tables; `report` writes them with figures and an HTML page.

    Raises
    ------
    InputError
        If choices or scores cannot be used; the message names the rows or the sentence.

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
    fixed = {} if plan is None else read_plan(plan)
    planned = preset_options(preset, **fixed)
    options = preset_options(preset, **(fixed | changes))
    human = choices if isinstance(choices, HumanData) else prepare_choices(RawChoices(choices))
    deviations = None if plan is None else describe_deviations(options, planned)
    if deviations is not None and planned.sample is not None:
        deviations = (*deviations, *planned.sample.describe_deviations(human.choices))
    check_rules(human.choices, options.exclusions)
    given = None if scores is None else load_score_source(scores)
    if isinstance(given, Mapping):
        models = [model for model in given.values() if isinstance(model, SentenceModel)]
        human = exclude_unknown_words(human, [m for m in models if m.event.unknown == "error"])
        if len(models) == len(given):
            given = model_scores(models, human.choices)
    choices_kept, removed = exclude(human.choices, options.exclusions)
    on_items = []
    if (options.inference, options.items) == ("crossed", "random"):
        on_items = warn_related_pairs(choices_kept)
    source = human.scores if given is None else given
    study = _Scored.of(choices_kept, source)
    specs = model_specs(study.source)
    choices, named = resolve_targets(study.choices, list(study.units), specs)
    data = TrialData.from_choices(choices, study.scores, options.condition)
    for name in {name for pair in options.planned for name in pair}:
        require_known("model", name, data.models)
    notes = [*human.notes, *on_items, *study.notes, *named]
    if plan is not None and "adaptive" in read_toml(Path(plan)):
        notes.append(
            "The plan has a table [adaptive]: p and q do not account for stopping early. For "
            "differences by the stopping rule use `contstim watch --plan`."
        )
    notes += note_unscored_targets(data.pairs, data.models)
    inference, options, levels = _inference(data, options)
    analyses, compared_by_level = _by_level(data, options, notes)
    shown = track(analyses, len(analyses), "evaluating")
    outcomes = (outcome for a in shown for outcome in compute_values(data, a, options))
    compared, comparisons, values = result_tables(outcomes, inference, options)
    between = {}
    if isinstance(inference, QuasiFInference) and options.condition:
        between["conditions"] = condition_table(data, compared_by_level, inference, options)
    return Evaluation(
        models=compared,
        comparisons=comparisons,
        details=DetailTables(
            **values,
            trials=trial_table(data),
            agreement=agreement_table(data),
            reliability=reliability_table(data, seed=options.seed),
            model_agreement=model_agreement_table(data),
        ),
        summary=_summary(human.choices, choices_kept, data),
        provenance=Provenance(
            scores=study.scores.rename_axis("sentence").reset_index(),
            excluded=concat_exclusions(human.excluded, removed),
            levels=levels,
            options=options,
            preset=preset,
            units=study.units,
            specs={model: specs[model] for model in data.models if model in specs},
            notes=tuple(notes),
            deviations=deviations,
            versions=package_versions("pandas"),
        ),
        data=data,
        **between,
    )


def _inference(
    data: TrialData, options: EvaluationOptions
) -> tuple[QuasiFInference | SignedRankInference, EvaluationOptions, tuple[str, ...]]:
    """Return how means are tested, the options with the samples drawn for it, and their levels."""
    if options.condition and options.inference != "crossed":
        raise InputError(
            f"condition {', '.join(options.condition)} cannot be combined with inference "
            "signed-rank; leave out one of the two"
        )
    if options.inference == "crossed":
        tests = QuasiFInference(options.items, options.equivalence)
        return tests, replace(options, n_bootstrap=0), ()
    # The published inference, which few ask for.
    from contstim.evaluation.inference.bootstrap import default_levels
    from contstim.evaluation.inference.signed_rank import SignedRankInference

    levels = options.levels or default_levels(data)
    return SignedRankInference.from_options(data, options, levels), options, levels


@dataclass(frozen=True, eq=False)
class _Scored:
    """Choices that models can be evaluated on, and the models' scores.

    Attributes
    ----------
    choices
        Without catch trials that have no scores.
    source
        Where scores come from.
    scores
        One column per model, higher is better, of the sentences of the choices, (S, M); without a
        column if there are no scores.
    units
        The unit of each model's scores.
    notes
        On what was decided.
    """

    choices: pd.DataFrame
    source: ScoreSource
    scores: pd.DataFrame
    units: dict[str, str]
    notes: list[str]

    @classmethod
    def of(cls, choices: pd.DataFrame, source: ScoreSource | None) -> _Scored:
        if source is None:
            return cls(choices, {}, pd.DataFrame(), {}, [])
        unscored = find_unscored_catch(choices, source)
        notes = []
        if n := len(choices.loc[unscored, ["sentence_1", "sentence_2"]].drop_duplicates()):
            notes.append(
                f"{n} catch {'trial has' if n == 1 else 'trials have'} no scores under every "
                "model: they tell who attended, and no model is evaluated on them."
            )
        choices = choices[~unscored]
        table = score_table(source, [*choices["sentence_1"], *choices["sentence_2"]])
        units = score_units(source, list(table.columns))
        notes += score_notes(source)
        notes += [
            f"All scores of {model} are above 0, so that they are no log-probabilities; the higher "
            "score is taken to be the better. If they are surprisals, say so in a column 'unit' of "
            "the table: surprisal."
            for model, unit in units.items()
            if unit == "nats" and (table[model] > 0).all()
        ]
        return cls(choices, source, table, units, notes)


def evaluate_file(
    path: str | Path,
    format: str = "tidy",
    scores: str | Path | ScoreSource | Models | None = None,
    out: str | Path | None = None,
    preset: str = "default",
    plan: str | Path | None = None,
    **changes: object,
) -> Evaluation:
    """Read a file of choices, evaluate it, and write tables, figures and report to `out`.

    Parameters
    ----------
    path
        The file of choices.
    format
        See `read_choices`.
    scores
        A CSV or Parquet file of scores, or what `evaluate` takes.
    out
        A folder; nothing is written if None.
    preset, plan, changes
        As in `evaluate`.

    Raises
    ------
    InputError
        If a file cannot be read or used.
    OutputError
        If the results cannot be written.

    Examples
    --------
    >>> from contstim import datasets
    >>> choices = datasets.simulated_choices().query("condition == 'natural_controversial'")
    >>> scores = datasets.natural_scores()[["contstim:gpt", "contstim:trigram"]]
    >>> choices.to_csv("choices.csv", index=False)
    >>> evaluate_file("choices.csv", scores=scores).summary.n_participants
    30
    """
    human = read_choices(path, format)
    given = read_table(scores) if isinstance(scores, (str, Path)) else scores
    result = evaluate(human, given, preset, plan, **changes)
    if out is not None:
        result.report(out)
    return result


def _analyses(data: TrialData, notes: list[str]) -> tuple[Analysis, ...]:
    """Return the analyses where none are named; conditions left out are added to the notes."""
    pairs = data.pairs
    conditions = pairs.loc[pairs["kind"] == EXPERIMENTAL, "condition"].nunique()
    if conditions > MAX_CONDITIONS:
        notes.append(
            f"There are {conditions} conditions; they are not analysed one by one unless named."
        )
    if data.models and not pairs[["model_1", "model_2"]].isin(data.models).any(axis=None):
        pairs = pairs.assign(model_1=None, model_2=None)  # of targeted models none has scores
    return default_analyses(pairs)


def _by_level(
    data: TrialData, options: EvaluationOptions, notes: list[str]
) -> tuple[list[Analysis], list[Analysis]]:
    """Return the analyses, and those that are made for each level of factors as well."""
    analyses = list(options.analyses or _analyses(data, notes))
    chosen = []
    if options.condition:
        named = bool(options.analyses)
        chosen = [a for a in analyses if not a.factor_levels and (named or not a.conditions)]
        rest = [a for a in analyses if a not in chosen]
        combined = bool(options.analyses) or not factors_match_conditions(data)
        analyses = [*split_by_level(chosen, data.factors, combined), *rest]
    for analysis in analyses:
        if analysis.factor_levels and not options.condition:
            raise InputError(
                f"the analysis {analysis.name!r} names levels of "
                f"{analysis.factor_levels[0][0]!r}; name that column as a condition"
            )
    if options.headline is not None:
        require_known("analysis", options.headline, [a.name for a in analyses])
        analyses.sort(key=lambda analysis: analysis.name != options.headline)
    return analyses, chosen


def _summary(before: pd.DataFrame, included: pd.DataFrame, data: TrialData) -> Summary:
    catch = catch_accuracy(included)
    return Summary(
        n_participants=len(data.participants),
        n_groups=len(data.groups),
        n_trials=data.n_pairs,
        n_choices=len(included),
        n_choices_read=len(before),
        has_disjoint_groups=data.has_disjoint_groups,
        trials_per_participant=_spread(data.participant),
        participants_per_trial=_spread(data.pair),
        median_rt_ms=None if included["rt_ms"].isna().all() else float(included["rt_ms"].median()),
        catch_correct=None if catch.empty else (float(catch.min()), float(catch.mean())),
        models=data.models,
    )


def _spread(codes: IntArray) -> tuple[int, float, int]:
    """Return how often the rarest, the middle and the commonest code occurs."""
    counts = np.bincount(codes)
    return int(counts.min()), float(np.median(counts)), int(counts.max())
