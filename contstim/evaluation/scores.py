"""Model scores of the sentences that people saw, from any of the usual shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd

from contstim.arrays import BoolArray, FloatArray
from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.models.cache import ScoreCache
from contstim.models.registry import Models, load_models, score_kind
from contstim.models.score_table import (
    canonical_scores,
    drop_repeated_scores,
)
from contstim.models.table_model import ScoreTableModel
from contstim.tables import SCORES, SPEC, UNIT
from contstim.text.normalise import match_sentences, normalise_sentence
from contstim.trial_kinds import CATCH

_Source = Mapping[str, float] | pd.Series | Callable[[list[str]], Sequence[float]] | SentenceModel
#: A table, or for each model the model, a series or mapping from sentence to score, or a function
#: of a list of sentences.
ScoreSource = pd.DataFrame | Mapping[str, _Source]


def score_table(scores: ScoreSource, sentences: Sequence[str]) -> pd.DataFrame:
    """Return the scores of `sentences` as one column per model: index the S sentences, nats.

    Parameters
    ----------
    scores
        A long table (columns `sentence`, `model`, `log_prob`), a wide one (`sentence` as column
        or index, every other numeric column a model), or a mapping from model name to the model, a
        series or mapping of sentence to score, or a function that scores a list of sentences.
    sentences
        The S sentences wanted. White space is made single before sentences are compared; a
        final period that one side lacks is overlooked where that leaves no doubt.

    Raises
    ------
    InputError
        If a sentence has no score, two different ones, or one that is not a number.

    Examples
    --------
    >>> import contstim
    >>> bigram = contstim.load_model("contstim:bigram")
    >>> score_table({"bigram": bigram.score}, ["The dog slept."]).round(1)
                    bigram
    The dog slept.   -22.1
    """
    wanted = list(dict.fromkeys(sentences))
    if isinstance(scores, pd.DataFrame):
        wide = canonical_scores(scores).log_probs
    else:
        columns: dict[str, pd.Series] = {}
        for model, source in scores.items():
            if isinstance(source, pd.Series | Mapping):
                columns[str(model)] = _by_sentence(pd.Series(source), model)
            else:
                function = source.score if isinstance(source, SentenceModel) else source
                values = np.asarray(function(wanted), dtype=float)
                if values.shape != (len(wanted),):
                    raise InputError(
                        f"model {model!r} gave scores of shape {values.shape} "
                        f"for {len(wanted)} sentences"
                    )
                columns[str(model)] = pd.Series(values, index=wanted)
        if not columns:
            raise InputError("no model is given; name at least one")
        wide = pd.DataFrame(columns)
    if not len(wide.columns):
        raise InputError("the scores table has no model column")
    wide = _match(wide, wanted)
    for model in wide.columns:
        bad = wide[model].isna()
        if bad.any():
            raise InputError(
                f"model {model!r} has no score for {int(bad.sum())} of {len(wanted)} sentences, "
                f"for example {wide.index[bad.to_numpy()][0]!r}"
            )
        if (wide[model] == np.inf).any():
            text = wide.index[(wide[model] == np.inf).to_numpy()][0]
            raise InputError(f"model {model!r} gives {text!r} an infinite score")
    return wide


def load_score_source(scores: ScoreSource | Models | SentenceModel | str) -> ScoreSource:
    """Return scores in which models that are named by their specs, or in a list, are loaded.

    One model alone will do, or its spec.

    Raises
    ------
    InputError
        As `load_models`.
    """
    if isinstance(scores, pd.DataFrame):
        return scores
    if isinstance(scores, SentenceModel | str):
        scores = [scores]
    if not isinstance(scores, Mapping):
        return {model.name: model for model in load_models(scores)}
    models = {name: m for name, m in scores.items() if isinstance(m, SentenceModel | str)}
    loaded = dict(zip(models, load_models(models), strict=True)) if models else {}
    return {**cast("Mapping[str, _Source]", scores), **loaded}


def find_unscored_catch(trials: pd.DataFrame, scores: ScoreSource) -> BoolArray:
    """Return which of R trials are catch trials that have no scores, shape (R,).

    They test whether people attend, which takes no model. A table lacks their sentences where it
    was made of the sentences that the pairs were selected from; a model may refuse their words. A
    function is not asked.
    """
    none = np.zeros(len(trials), dtype=np.bool_)
    catch = (trials["kind"] == CATCH).to_numpy()
    both = trials[["sentence_1", "sentence_2"]].astype("str")
    catch_sentences = list(dict.fromkeys(both[catch].to_numpy().ravel().tolist()))
    if catch.all() or not catch_sentences:
        return none
    scored = np.ones(len(catch_sentences), dtype=np.bool_)
    sources = {"": scores} if isinstance(scores, pd.DataFrame) else scores
    for model, source in sources.items():
        if isinstance(source, SentenceModel):
            if isinstance(source, ScoreTableModel):
                scored &= source.has_scores(catch_sentences)
            if source.event.unknown == "error":
                words = map(source.language.split, catch_sentences)
                scored &= [bool(source.in_vocabulary(words_of_one).all()) for words_of_one in words]
        elif isinstance(source, pd.DataFrame | pd.Series | Mapping):
            table = (
                canonical_scores(source).log_probs
                if isinstance(source, pd.DataFrame)
                else _by_sentence(pd.Series(source), model).to_frame(model)
            )
            scored &= _match(table, catch_sentences).notna().all(axis=1).to_numpy()
    lacking = {text for text, held in zip(catch_sentences, scored, strict=True) if not held}
    return catch & both.isin(lacking).any(axis=1).to_numpy()


def model_scores(
    models: Sequence[SentenceModel],
    choices: pd.DataFrame,
    cache: str | Path | None = None,
    further: Sequence[str] = (),
) -> pd.DataFrame:
    """Score the sentences of `choices` under `models`, by way of a cache or not: `scores`.

    Those of catch trials that a table lacks are left out. `further` sentences are scored as well.
    """
    choices = choices[~find_unscored_catch(choices, {model.name: model for model in models})]
    both = pd.concat([choices["sentence_1"], choices["sentence_2"]])
    sentences = list(dict.fromkeys([*both, *further]))
    tables = []
    for model in models:
        scored = None if cache is None else ScoreCache(cache)
        totals = (
            model.score_with_counts(sentences)
            if scored is None
            else scored.score_with_counts(model, sentences)
        )
        # Of some models the tokens are not known.
        tokens = totals.n_tokens if totals.n_tokens.all() else np.nan
        counts = tokens, totals.n_words, totals.stderr
        columns = (sentences, model.name, totals.score, *counts, model.kind.unit, model.spec)
        tables.append(pd.DataFrame(dict(zip((*SCORES, UNIT, SPEC), columns, strict=True))))
    return pd.concat(tables, ignore_index=True)


def join_scores(given: pd.DataFrame, scored: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of a table and those of models as one long table.

    Parameters
    ----------
    given
        A long or wide table; of its sentences those that models scored are taken. It may lack some
        of them, such as those of catch trials: whoever needs them says so.
    scored
        Of `model_scores`.

    Raises
    ------
    InputError
        If both have a model of one name.
    """
    names = score_table(given, []).columns
    wide = _match(canonical_scores(given).log_probs, pd.unique(scored["sentence"]).tolist())
    both = [name for name in names if name in set(scored["model"])]
    if both:
        raise InputError(
            f"there are two models {both[0]!r}, one of a table and one scored now; leave one out, "
            "or name it, --model NAME=SPEC"
        )
    long = wide.rename_axis(index="sentence").reset_index()
    tidy = long.melt("sentence", var_name="model", value_name="log_prob").dropna()
    tidy[UNIT] = tidy["model"].map(score_units(given, [str(name) for name in names]))
    tidy[SPEC] = tidy["model"].map(model_specs(given))
    return pd.concat([tidy, scored.drop(columns=["n_tokens", "n_words", "stderr"])])


def model_specs(scores: ScoreSource | None) -> dict[str, str]:
    """Return the specs of models that are called otherwise, as far as they are known."""
    if isinstance(scores, pd.DataFrame):
        named = canonical_scores(scores).specs
    else:
        named = {name: m.spec for name, m in (scores or {}).items() if isinstance(m, SentenceModel)}
    return {name: spec for name, spec in named.items() if name != spec}


def score_units(scores: ScoreSource, models: Sequence[str]) -> dict[str, str]:
    """Return the unit of each model's scores."""
    if isinstance(scores, pd.DataFrame):
        return canonical_scores(scores).units
    loaded = {name: m for name, m in scores.items() if isinstance(m, SentenceModel)}
    return {
        model: loaded[model].kind.unit if model in loaded else score_kind(model).unit
        for model in models
    }


def score_notes(scores: ScoreSource) -> list[str]:
    """Return sentences on what was decided when the table of scores was read."""
    return list(canonical_scores(scores).notes) if isinstance(scores, pd.DataFrame) else []


def log_ratios(wide: pd.DataFrame, pairs: pd.DataFrame) -> FloatArray:
    """Return log p(sentence 2) - log p(sentence 1) of P pairs under M models, shape (P, M), nats.

    Two sentences that both have probability 0 (minus infinity) are tied: 0.

    Source
    ------
    Golan et al. (2023), Eq. 7, with the sign such that a positive ratio prefers sentence 2, as a
    positive rating does.
    """
    first = wide.loc[pairs["sentence_1"].tolist()].to_numpy(dtype=float)
    second = wide.loc[pairs["sentence_2"].tolist()].to_numpy(dtype=float)
    same = first == second
    with np.errstate(invalid="ignore"):
        ratios = second - first
    ratios[same] = 0.0
    return np.asarray(ratios, dtype=np.float64)


def _by_sentence(scores: pd.Series, model: object) -> pd.Series:
    """Return the scores of a model by its sentences, of which white space tells none apart."""
    spaced = scores.set_axis(pd.Index([normalise_sentence(str(text)) for text in scores.index]))
    return drop_repeated_scores(spaced, f"model {str(model)!r}")


def _match(wide: pd.DataFrame, wanted: list[str]) -> pd.DataFrame:
    """Reindex to `wanted` by `match_sentences`."""
    table = wide.set_axis(wide.index.astype("str"), axis=0)
    matches = match_sentences(wanted, table.index)
    missing = pd.DataFrame(np.nan, pd.Index([]), table.columns)
    table = table.loc[~table.index.duplicated()] if len(table) else missing
    return table.reindex([matches.get(text) for text in wanted]).set_axis(pd.Index(wanted), axis=0)
