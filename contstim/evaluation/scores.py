"""Model scores of the presented sentences, from tables, functions or models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd

from contstim.arrays import BoolArray, FloatArray
from contstim.columns import EVENT, SPEC, UNIT
from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.models.cache import ScoreCache
from contstim.models.registry import Models, load_models, score_kind
from contstim.models.score_table import (
    ScoreTable,
    canonical_scores,
    drop_repeated_scores,
    model_name_in_spec,
)
from contstim.models.table_model import ScoreTableModel
from contstim.text.normalise import match_sentences, normalise_sentence
from contstim.trial_kinds import CATCH

_Source = Mapping[str, float] | pd.Series | Callable[[list[str]], Sequence[float]] | SentenceModel
#: A table, or a mapping from model name to a model, a mapping from sentence to score, or a function
#: that scores a list of sentences.
ScoreSource = pd.DataFrame | ScoreTable | Mapping[str, _Source]


def score_table(scores: ScoreSource, sentences: Sequence[str]) -> pd.DataFrame:
    """Return the scores of sentences as a table, one row per sentence and one column per model.

    Parameters
    ----------
    scores
        Scores in one of these forms:

        - a long table with the columns `sentence`, `model` and `log_prob`;
        - a wide table with one numeric column per model, and `sentence` as column or index;
        - a mapping from model name to a model, to a mapping from sentence to score, or to a
          function that scores a list of sentences.
    sentences
        The S sentences. They are matched after normalising white space. A final period that only
        one of two texts has is ignored if the match is unambiguous.

    Raises
    ------
    InputError
        If a sentence lacks a score, has two different scores, or has a score that is not a number.

    Examples
    --------
    >>> import contstim
    >>> bigram = contstim.load_model("contstim:bigram")
    >>> score_table({"bigram": bigram.score}, ["The dog slept."]).round(1)
                    bigram
    The dog slept.   -22.1
    """
    sentences = list(dict.fromkeys(sentences))
    if not isinstance(scores, Mapping):
        table = canonical_scores(scores).log_probs
    else:
        columns: dict[str, pd.Series] = {}
        for model, source in scores.items():
            if isinstance(source, pd.Series | Mapping):
                columns[str(model)] = _normalise_index(pd.Series(source), model)
                continue
            function = source.score if isinstance(source, SentenceModel) else source
            values = np.asarray(function(sentences), dtype=float)
            if values.shape != (len(sentences),):
                raise InputError(
                    f"model {model!r} gave scores of shape {values.shape} for {len(sentences)} "
                    "sentences"
                )
            columns[str(model)] = pd.Series(values, index=sentences)
        if not columns:
            raise InputError("no model is given; name at least one")
        table = pd.DataFrame(columns)
    if not len(table.columns):
        raise InputError("the scores table has no model column")
    table = _match_rows(table, sentences)
    for model in table.columns:
        is_missing = table[model].isna().to_numpy()
        if is_missing.any():
            raise InputError(
                f"model {model!r} has no score for {is_missing.sum()} of {len(sentences)} "
                f"sentences, for example {table.index[is_missing][0]!r}"
            )
        is_infinite = (table[model] == np.inf).to_numpy()
        if is_infinite.any():
            raise InputError(f"model {model!r} scores {table.index[is_infinite][0]!r} as infinite")
    return table


def load_score_source(scores: ScoreSource | Models | SentenceModel | str) -> ScoreSource:
    """Load the models from which scores will be computed, or convert a table of scores.

    Parameters
    ----------
    scores
        Score table, which is converted to canonical form; one model or model specification string
        (such as ``hf:gpt2``), or a list of these; or a mapping from name to a model, a
        specification string, a mapping from sentence to score, or a function.

    Raises
    ------
    InputError
        If `load_models` cannot load a model.
    """
    if isinstance(scores, pd.DataFrame | ScoreTable):
        return canonical_scores(scores)
    if isinstance(scores, SentenceModel | str):
        scores = [scores]
    # A list of models or specification strings: use the names of the models.
    if not isinstance(scores, Mapping):
        return {model.name: model for model in load_models(scores)}
    # A mapping: load the models, and leave tables and functions unchanged.
    specs = {name: m for name, m in scores.items() if isinstance(m, SentenceModel | str)}
    loaded = dict(zip(specs, load_models(specs), strict=True)) if specs else {}
    return {**cast("Mapping[str, _Source]", scores), **loaded}


def find_unscored_catch_trials(trials: pd.DataFrame, scores: ScoreSource) -> BoolArray:
    """Find the catch trials that lack a score under at least one model.

    Catch trials test whether participants pay attention. Models are not needed for this purpose,
    so a score table may lack the sentences of catch trials, and their words may be outside a
    model's vocabulary.

    Parameters
    ----------
    trials
        R trials with the columns `kind`, `sentence_1` and `sentence_2`.
    scores
        Score table, or a mapping from model name to a model, a table or a scoring function.
        Scoring functions are assumed to accept every sentence.

    Returns
    -------
    array of bool
        Mask of the catch trials without a score, shape (R,). All False if every trial is a catch
        trial.
    """
    is_catch_trial = (trials["kind"] == CATCH).to_numpy()
    pairs = trials[["sentence_1", "sentence_2"]].astype("str")
    sentences = list(dict.fromkeys(pairs[is_catch_trial].to_numpy().ravel().tolist()))
    # If every trial is a catch trial, each of them needs a score.
    if is_catch_trial.all() or not sentences:
        return np.zeros(len(trials), dtype=np.bool_)
    # A mapping contains one source of scores per model; a table contains the scores of all models.
    sources = scores if isinstance(scores, Mapping) else {"": scores}
    has_all_scores = np.ones(len(sentences), dtype=np.bool_)
    for model, source in sources.items():
        has_all_scores &= _has_scores(source, sentences, model)
    # A catch trial needs the scores of both of its sentences.
    unscored = {s for s, is_scored in zip(sentences, has_all_scores, strict=True) if not is_scored}
    return is_catch_trial & pairs.isin(unscored).any(axis=1).to_numpy()


def _has_scores(source: object, sentences: list[str], model: str) -> BoolArray:
    """Return whether a source of scores can score each of S sentences, shape (S,).

    `source` is a table, a model, a mapping from sentence to score, or a function, which is assumed
    to accept every sentence. `model` is the name of the model in error messages.
    """
    is_scored = np.ones(len(sentences), dtype=np.bool_)
    if isinstance(source, pd.DataFrame | ScoreTable):
        table = canonical_scores(source).log_probs
        is_scored &= _match_rows(table, sentences).notna().all(axis=1).to_numpy()
    elif isinstance(source, pd.Series | Mapping):
        table = _normalise_index(pd.Series(source), model).to_frame()
        is_scored &= _match_rows(table, sentences).notna().all(axis=1).to_numpy()
    elif isinstance(source, ScoreTableModel):
        is_scored &= source.has_scores(sentences)
    # Models with `unknown="error"` refuse sentences with words outside their vocabulary.
    if isinstance(source, SentenceModel) and source.event.unknown == "error":
        words = [source.language.split(sentence) for sentence in sentences]
        is_scored &= [bool(source.in_vocabulary(w).all()) for w in words]
    return is_scored


def model_scores(
    models: Sequence[SentenceModel],
    choices: pd.DataFrame,
    cache: str | Path | None = None,
    extra_sentences: Sequence[str] = (),
) -> pd.DataFrame:
    """Compute the score of each sentence in a choices table under each of several models.

    Sentences of catch trials that a model cannot score are left out for this model.

    Parameters
    ----------
    models
        Models that score the sentences.
    choices
        Choices table with the sentences.
    cache
        Path of a file in which scores are stored and looked up; None for no cache.
    extra_sentences
        Further sentences to score.

    Returns
    -------
    DataFrame
        Long table with the columns `SCORES`, ``unit``, ``spec`` and ``event``.
    """
    choices = choices[~find_unscored_catch_trials(choices, {model.name: model for model in models})]
    # Score each sentence once, although several participants judged it.
    presented = [*choices["sentence_1"], *choices["sentence_2"]]
    sentences = list(dict.fromkeys([*presented, *extra_sentences]))
    tables = []
    for model in models:
        if cache is None:
            totals = model.score_with_counts(sentences)
        else:
            totals = ScoreCache(cache).score_with_counts(model, sentences)
        # Models that cannot count tokens return 0.
        has_token_counts = totals.n_tokens.all()
        columns = {
            "sentence": sentences,
            "model": model.name,
            "log_prob": totals.score,
            "n_tokens": totals.n_tokens if has_token_counts else np.nan,
            "n_words": totals.n_words,
            "stderr": totals.stderr,
            UNIT: model.kind.unit,
            SPEC: model.spec,
            EVENT: str(model.event),
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def join_scores(table: pd.DataFrame, scored: pd.DataFrame) -> pd.DataFrame:
    """Combine an existing score table with newly computed scores of other models in one long table.

    Parameters
    ----------
    table
        Long or wide score table. Only the sentences in `scored` are used; some may be missing.
    scored
        Scores of models, as returned by `model_scores`.

    Raises
    ------
    InputError
        If a model name is in both tables.
    """
    sentences = pd.unique(scored["sentence"]).tolist()
    old_models = score_table(table, []).columns
    duplicates = [name for name in old_models if name in set(scored["model"])]
    if duplicates:
        raise InputError(
            f"the model {duplicates[0]!r} is in the score table and is also scored now; leave one "
            "of them out, or rename it, --model NAME=SPEC"
        )
    # Read the existing table with one row per sentence and one column per model, and reshape it to
    # one row per sentence and model, as in `scored`.
    wide = _match_rows(canonical_scores(table).log_probs, sentences).rename_axis(index="sentence")
    old = wide.reset_index().melt("sentence", var_name="model", value_name="log_prob").dropna()
    # Add further columns by the name of the model: the unit of its scores (stated in the existing
    # table or inferred from the name), its specification, and what text its score refers to.
    old[UNIT] = old["model"].map(score_units(table, [str(name) for name in old_models]))
    old[SPEC] = old["model"].map(model_specs(table))
    old[EVENT] = old["model"].map(canonical_scores(table).events)
    return pd.concat([old, scored.drop(columns=["n_tokens", "n_words", "stderr"])])


def model_specs(scores: ScoreSource) -> dict[str, str]:
    """Return the specification string of each model whose name differs from this string.

    A *model specification*, or spec, is a string that identifies a model, such as ``hf:gpt2``.

    Parameters
    ----------
    scores
        Score table, or mapping from model name to a source of scores.

    Returns
    -------
    dict of str
        Model specification by name of the model. Models without a separate name are called by their
        specification, and are omitted.
    """
    if isinstance(scores, Mapping):
        specs = {name: m.spec for name, m in scores.items() if isinstance(m, SentenceModel)}
    else:
        specs = canonical_scores(scores).specs
    return {name: spec for name, spec in specs.items() if name != spec}


def score_units(scores: ScoreSource, models: Sequence[str]) -> dict[str, str]:
    """Return the unit of each model's scores, for example ``nats``, by name of the model.

    Parameters
    ----------
    scores
        Score table, or mapping from model name to a source of scores. A score table states the
        unit of each model, and so does a `SentenceModel` in a mapping.
    models
        Names of all models of a mapping. The unit of other sources in a mapping is inferred from
        the name of the model. Not used for a score table.
    """
    if not isinstance(scores, Mapping):
        return canonical_scores(scores).units
    units = {model: score_kind(model).unit for model in models}
    return units | {n: m.kind.unit for n, m in scores.items() if isinstance(m, SentenceModel)}


def log_ratios(scores: pd.DataFrame, pairs: pd.DataFrame) -> FloatArray:
    """Return log p(sentence 2) - log p(sentence 1) in nats, shape (P, M).

    This is Eq. 7 of Golan et al. (2023) with the sign of ratings: positive values prefer sentence
    2. Two sentences of probability 0 (log-probability minus infinity) are tied.

    Parameters
    ----------
    scores : (S, M) DataFrame
        Scores in nats, one column per model, with sentences as index.
    pairs
        Table with P rows and the columns `sentence_1` and `sentence_2`.
    """
    sentences_1, sentences_2 = pairs["sentence_1"].tolist(), pairs["sentence_2"].tolist()
    # The rows of `scores` are sentences and the columns models. Look up the scores of the first and
    # of the second sentence of each pair, shape (P, M).
    first = scores.loc[sentences_1].to_numpy(dtype=float)
    second = scores.loc[sentences_2].to_numpy(dtype=float)
    with np.errstate(invalid="ignore"):
        ratios = second - first
    # -inf - (-inf) is NaN: two impossible sentences are tied.
    ratios[first == second] = 0.0
    return np.asarray(ratios, dtype=np.float64)


def _normalise_index(scores: pd.Series, model: object) -> pd.Series:
    """Normalise the sentences in the index of a series of scores.

    InputError is raised if two different scores belong to the same normalised sentence.
    """
    sentences = pd.Index([normalise_sentence(str(text)) for text in scores.index])
    return drop_repeated_scores(scores.set_axis(sentences), f"model {str(model)!r}")


def _match_rows(table: pd.DataFrame, sentences: list[str]) -> pd.DataFrame:
    """Look up sentences in a score table.

    Parameters
    ----------
    table
        Scores with the sentences as index, one column per model.
    sentences
        Sentences to look up. Differences in white space or in a final period are ignored if the
        match is unambiguous.

    Returns
    -------
    DataFrame
        One row per sentence, in the order of `sentences`; NaN if the table has no matching
        sentence.
    """
    if not len(table):
        return pd.DataFrame(np.nan, pd.Index(sentences), table.columns)
    # Labels can be numbers, and sentences may differ from them in white space or a final period.
    table = table.set_axis(table.index.astype("str"), axis=0)
    matches = match_sentences(sentences, table.index)
    table = table.loc[~table.index.duplicated()]
    # Sentences without a match have the label None, which gives a row of NaN.
    rows = table.reindex([matches.get(sentence) for sentence in sentences])
    return rows.set_axis(pd.Index(sentences), axis=0)


def resolve_targets(
    choices: pd.DataFrame, models: Sequence[str], specs: Mapping[str, str]
) -> tuple[pd.DataFrame, list[str]]:
    """Replace the models' names in the choices by the names under which they are evaluated.

    The columns `model_1` and `model_2` of the choices name the two models that a pair was made to
    compare (its targeted models). They may contain a model specification string, or the model's
    column in a score table (``a`` for ``table:scores.csv?column=a``), instead of the name in
    `models`. Such a name is replaced if it stands for exactly one of the evaluated models.

    Parameters
    ----------
    choices
        Choices table with the columns `model_1` and `model_2`.
    models
        Names of the evaluated models.
    specs
        Model specification strings by name of the model, except for models that are named by their
        specification.

    Returns
    -------
    choices : DataFrame
        Choices with the replaced names.
    notes : list of str
        One sentence for each replaced name.
    """
    models_by_alias: dict[str, list[str]] = {}
    # Other names of each model: its specification string and the name in this string.
    for model in models:
        spec = specs.get(model, model)
        aliases = {spec, model_name_in_spec(spec)} - {"", model}
        for alias in aliases:
            models_by_alias.setdefault(alias, []).append(model)
    columns = choices[["model_1", "model_2"]]
    targets = {*columns["model_1"].dropna(), *columns["model_2"].dropna()}
    # Rename only targets that are not evaluated models, and only if one model has this alias.
    unknown_targets = targets - set(models)
    new_names = {
        alias: candidates[0]
        for alias, candidates in models_by_alias.items()
        if alias in unknown_targets and len(candidates) == 1
    }
    if not new_names:
        return choices, []
    notes = [f"Model {old} of the trials is taken to be {new}." for old, new in new_names.items()]
    return choices.assign(**columns.replace(new_names)), notes


def note_unscored_targets(pairs: pd.DataFrame, models: Sequence[str]) -> tuple[str, ...]:
    """Report models that trials were designed to compare, but that have no scores.

    A pair of sentences *targets* the two models that it was selected or synthesized to distinguish.

    Parameters
    ----------
    pairs
        Table of the sentence pairs with the targeted models in the columns `model_1` and `model_2`.
    models
        Names of the evaluated models.

    Returns
    -------
    tuple of str
        One sentence that names the models, or no sentence if all of them have scores or no model
        is evaluated.
    """
    # A pair of sentences targets the two models that it was designed to distinguish.
    targeted = set(pairs["model_1"].dropna()) | set(pairs["model_2"].dropna())
    unscored = sorted(targeted - set(models))
    if not models or not unscored:
        return ()
    # None of the targets has scores: the trials and the models may use different names.
    if unscored == sorted(targeted):
        return (
            f"The trials target {', '.join(unscored)}, of which none has scores; "
            f"{', '.join(models)} {'is' if len(models) == 1 else 'are'} evaluated on all trials. "
            "If a target is one of these models, give both the same name.",
        )
    return (f"These targeted models have no scores and are not evaluated: {', '.join(unscored)}.",)
