"""`evaluate`: people's choices and models' scores in, tables out."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

import contstim
from contstim.evaluation.analysis import Outcome, analyse
from contstim.evaluation.bootstrap import affordable_draws, default_levels, draw, pairs_apart
from contstim.evaluation.choices import HumanData, align_choices, check_choices
from contstim.evaluation.controls import (
    FEATURE_COLUMNS,
    TOKEN_COLUMNS,
    feature_control,
    token_counts,
)
from contstim.evaluation.exclusion import catch_accuracy, exclude
from contstim.evaluation.human import agreement_table, reliability_table, trial_table
from contstim.evaluation.importers import ColumnMapping, read_choices, read_mapped
from contstim.evaluation.matrices import (
    consistency_table,
    instructive_table,
    model_agreement_table,
    natural_preference_table,
)
from contstim.evaluation.normalisation import NORMALISATION_COLUMNS, normalisation_control
from contstim.evaluation.options import EvaluationOptions, preset_options
from contstim.evaluation.result import COMPARISON_COLUMNS, MODEL_COLUMNS, Evaluation
from contstim.evaluation.scores import ScoreSource, score_table, token_table
from contstim.evaluation.tables import comparison_rows, model_rows, person_rows, unit_rows
from contstim.evaluation.trials import TrialData, check_targets, default_analyses
from contstim.tables import read_table

__all__ = ["evaluate", "evaluate_file"]


def evaluate(
    choices: pd.DataFrame | HumanData,
    scores: ScoreSource | None = None,
    preset: str = "default",
    features: pd.DataFrame | None = None,
    **changes: object,
) -> Evaluation:
    """Evaluate models on people's choices.

    Parameters
    ----------
    choices
        The choices table (see `CHOICE_COLUMNS`), which is validated and aligned here, or what an
        importer returned.
    scores
        Log-probabilities in nats: a wide or long table, or a mapping from model name to scores
        or to a function that scores sentences (see `score_table`). Where not given, those of
        the importer; where there are none, only what needs no model is evaluated.
    preset
        ``default`` or ``golan2023``, see `PRESETS`.
    features
        Features of the sentences (index the sentences), such as `sentence_features` returns, for
        the control on word features.
    changes
        Fields of `EvaluationOptions` that differ from the preset.

    Returns
    -------
    Evaluation
        Tables; `report` writes them with figures and an HTML page.

    Raises
    ------
    InputError
        If choices or scores cannot be used; the message names the rows or the sentence.
    """
    options = preset_options(preset, **changes)
    human = choices if isinstance(choices, HumanData) else _human_data(choices)
    notes = list(human.notes)
    kept, removed = exclude(human.choices, options.exclusions)
    excluded = pd.concat([t for t in (human.excluded, removed) if len(t)] or [removed])
    source = human.scores if scores is None else scores
    wide = None
    if source is not None:
        wide = score_table(source, [*kept["sentence_1"], *kept["sentence_2"]])
    data = TrialData.of(kept, wide)
    notes += check_targets(data.pairs, data.models)
    levels = options.levels or default_levels(data, options.min_groups)
    n_draws = affordable_draws(data, levels, options.n_bootstrap)
    if n_draws < options.n_bootstrap:
        notes.append(
            f"{n_draws} bootstrap samples were drawn instead of {options.n_bootstrap:,}, because "
            "participants saw different trials and each sample ranks them all again."
        )
        options = replace(options, n_bootstrap=n_draws)
    outcomes = list(_outcomes(data, options, levels))
    analyses = {outcome.analysis.name for outcome in outcomes}
    conditions = data.pairs["condition"].nunique()
    if not options.analyses and conditions > 1 and len(analyses) <= 3 < conditions:
        notes.append(
            f"There are {conditions} conditions; they are not analysed one by one unless named."
        )
    tokens = None
    if wide is not None and isinstance(source, pd.DataFrame):
        tokens = token_table(source, list(wide.index))
    trials = trial_table(data)
    frames = _model_frames(outcomes, options)
    return Evaluation(
        models=frames.models,
        comparisons=frames.comparisons,
        participants=frames.participants,
        groups=frames.groups,
        ceilings=frames.ceilings,
        trials=trials,
        agreement=agreement_table(data),
        reliability=reliability_table(data, seed=options.seed),
        model_agreement=model_agreement_table(data),
        consistency=consistency_table(data),
        natural_preference=natural_preference_table(data),
        instructive=_instructive(data, wide, trials),
        normalisation=_empty(NORMALISATION_COLUMNS)
        if wide is None or tokens is None
        else normalisation_control(data, wide, tokens),
        token_counts=_empty(TOKEN_COLUMNS) if tokens is None else token_counts(data, tokens),
        features=_empty(FEATURE_COLUMNS) if features is None else feature_control(data, features),
        scores=_empty(("sentence",))
        if wide is None
        else wide.rename_axis("sentence").reset_index(),
        excluded=excluded.reset_index(drop=True),
        summary=_summary(human.choices, kept, data),
        levels=levels,
        options=options,
        preset=preset,
        notes=tuple(notes),
        versions={
            "contstim": contstim.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "pandas": pd.__version__,
        },
    )


def evaluate_file(
    path: str | Path,
    format: str = "tidy",
    scores: str | Path | ScoreSource | None = None,
    out: str | Path | None = None,
    preset: str = "default",
    features: pd.DataFrame | None = None,
    mapping: ColumnMapping | None = None,
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
    mapping
        Says where any other CSV keeps what is needed; `format` then has no part.
    preset, features, changes
        As in `evaluate`.

    Raises
    ------
    InputError
        If a file cannot be read or used.
    OutputError
        If the results cannot be written.
    """
    human = read_choices(path, format) if mapping is None else read_mapped(path, mapping)
    given = read_table(scores) if isinstance(scores, (str, Path)) else scores
    result = evaluate(human, given, preset, features, **changes)
    if out is not None:
        result.report(out)
    return result


def _human_data(choices: pd.DataFrame) -> HumanData:
    return HumanData(align_choices(check_choices(choices)))


def _outcomes(
    data: TrialData, options: EvaluationOptions, levels: tuple[str, ...]
) -> Iterator[Outcome]:
    draws = draw(data, levels, options.n_bootstrap, options.seed)
    for analysis in options.analyses or default_analyses(data.pairs):
        yield from analyse(data, analysis, options, draws)


@dataclass(frozen=True, eq=False)
class _Frames:
    models: pd.DataFrame
    comparisons: pd.DataFrame
    participants: pd.DataFrame
    groups: pd.DataFrame
    ceilings: pd.DataFrame


def _model_frames(outcomes: list[Outcome], options: EvaluationOptions) -> _Frames:
    models, comparisons, people, groups, ceilings = [], [], [], [], []
    for outcome in outcomes:
        if outcome.models:
            tested = model_rows(outcome, options)
            compared = comparison_rows(outcome, options)
            outcome.adjust(tested, compared, options.family)
            models.append(tested)
            comparisons.append(compared)
            people.append(person_rows(outcome))
            groups.append(unit_rows(outcome))
        if outcome.common is not None:
            ceilings.append(outcome.common)

    def stack(parts: list[pd.DataFrame], columns: tuple[str, ...] = ()) -> pd.DataFrame:
        filled = [part for part in parts if len(part)]
        if not filled:
            return pd.DataFrame(columns=list(columns))
        table = pd.concat(filled, ignore_index=True)
        return table[list(columns)] if columns else table

    return _Frames(
        stack(models, MODEL_COLUMNS),
        stack(comparisons, COMPARISON_COLUMNS),
        stack(people),
        stack(groups),
        stack([pd.DataFrame(ceilings)]),
    )


def _instructive(data: TrialData, wide: pd.DataFrame | None, trials: pd.DataFrame) -> pd.DataFrame:
    if wide is None:
        return pd.DataFrame()
    return instructive_table(data, wide, trials)


def _empty(columns: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame(columns=list(columns))


def _summary(before: pd.DataFrame, kept: pd.DataFrame, data: TrialData) -> dict[str, object]:
    per_person = NDArray[np.int64]
    counts: per_person = np.bincount(data.participant)
    seen = np.bincount(data.pair)
    catch = catch_accuracy(kept)
    return {
        "n_participants": len(data.participants),
        "n_groups": len(data.groups),
        "groups_apart": pairs_apart(data),
        "n_trials": data.n_pairs,
        "n_choices": len(kept),
        "n_choices_read": len(before),
        "trials_per_participant": (int(counts.min()), float(np.median(counts)), int(counts.max())),
        "participants_per_trial": (int(seen.min()), float(np.median(seen)), int(seen.max())),
        "median_rt_ms": None if kept["rt_ms"].isna().all() else float(kept["rt_ms"].median()),
        "catch_correct": None if catch.empty else (float(catch.min()), float(catch.mean())),
        "models": list(data.models),
    }
