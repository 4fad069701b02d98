"""Tables of sentence scores: computation, and conversion to one canonical form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from contstim.columns import EVENT, SPEC, UNIT
from contstim.errors import InputError
from contstim.models import ModelSpec
from contstim.models.base import SentenceModel
from contstim.models.registry import Models, load_models, score_kind
from contstim.tables import MISSING
from contstim.text.normalise import check_sentences, normalise_label, normalise_sentence

#: Factors that convert scores in each unit to log-probabilities in nats; None for other scores.
NATS_PER_UNIT: dict[str, float | None] = {"nats": 1.0, "bits": np.log(2), "log10": np.log(10)}
NATS_PER_UNIT |= {"surprisal": -1.0, "surprisal-bits": -np.log(2), "score": None}
#: Columns of a table of scores that contain no scores.
NON_SCORE_COLUMNS = ("n_tokens", "n_words", "stderr", "kind", "perplexity")


def score_sentences(sentences: Sequence[str], models: SentenceModel | str | Models) -> pd.DataFrame:
    """Score sentences under one or several models, like the command ``contstim score``.

    Parameters
    ----------
    sentences
        The S sentences; repeated ones are scored once.
    models
        M models or model specifications (``hf:gpt2``), or a mapping from names to these.

    Returns
    -------
    (S, M) DataFrame
        Scores, in nats for models that score log-probabilities. The index contains the sentences,
        and there is one column per model, as `select_natural_pairs` and `evaluate` require.

    Raises
    ------
    InputError
        If there are no models, or if a model cannot score a sentence.

    Examples
    --------
    >>> sentences = ["The dog slept near the fire.", "The fire slept near the dog."]
    >>> models = {"bigram": "contstim:bigram", "trigram": "contstim:trigram"}
    >>> score_sentences(sentences, models).round(1)
                                  bigram  trigram
    sentence
    The dog slept near the fire.   -38.1    -35.2
    The fire slept near the dog.   -40.0    -40.4
    """
    loaded = load_models([models] if isinstance(models, SentenceModel | str) else models)
    texts = list(dict.fromkeys(check_sentences(sentences)))
    scores = {model.name: model.score(texts) for model in loaded}
    return pd.DataFrame(scores, index=pd.Index(texts, name="sentence"))


def model_name_in_spec(spec: str) -> str:
    """Return NAME from the specification of a score table, ``table:FILE?model=NAME``.

    Tables with one column per model are specified by ``table:FILE?column=NAME`` instead. For any
    other specification, the result is an empty string.
    """
    with suppress(InputError):
        parsed = ModelSpec.parse(spec)
        if parsed.family == "table":
            return parsed.get("model", "") or parsed.get("column", "")
    return ""


def drop_repeated_scores(scores: pd.Series, source: str) -> pd.Series:
    """Remove rows that repeat both a sentence and its score.

    Parameters
    ----------
    scores
        Scores with the sentences as index.
    source
        Name of the scores, for the error message.

    Raises
    ------
    InputError
        If a sentence has two different scores.
    """
    rows = pd.DataFrame({"sentence": scores.index, "score": scores.to_numpy(np.float64)})
    # Drop rows with the same sentence and score. A sentence that is left twice has two scores.
    distinct = rows.drop_duplicates().set_index("sentence")["score"]
    if not distinct.index.is_unique:
        raise InputError(
            f"{source} has two scores for {distinct.index[distinct.index.duplicated()][0]!r}; keep "
            "one, or, if each row is a word, sum them: as a model, 'table:FILE?rows=words'"
        )
    return distinct


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores of S sentences under M models, oriented so that higher scores are better.

    Scores with a known unit are in nats.

    Attributes
    ----------
    log_probs
        Scores, shape (S, M), float64, with the normalised sentences as index and one column per
        model.
    units
        Mapping from model name to the unit of its scores, for example ``nats``.
    specs
        Mapping from model name to the model specification that the table states, for example
        ``hf:gpt2``.
    notes
        One sentence about each model with scores that were negated or converted.
    events
        Mapping from model name to the definition of its score that the table states, see
        `contstim.models.base.Event`.
    """

    log_probs: pd.DataFrame
    units: dict[str, str]
    specs: dict[str, str]
    notes: tuple[str, ...] = ()
    events: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_wide(
        cls, wide: pd.DataFrame, stated: Mapping[str, tuple[str, str]] | None = None, **specs: str
    ) -> ScoreTable:
        """Create a table of log-probabilities from scores with various units and signs.

        Scores in other units are converted to nats, and scores for which lower is better, such as
        surprisal, are negated.

        Parameters
        ----------
        wide
            Scores, shape (S, M), with the sentences as index and one column per model.
        stated
            Mapping from model name to the unit and the better direction (``higher``, ``lower`` or
            empty) of its scores, as stated in the table.
        specs
            Mapping from model name to the model specification that the table states.
        """
        notes, units = [], {}
        wide = wide.copy()
        for model in map(str, wide.columns):
            # Unit and direction ("higher" or "lower" is better), if the table states them.
            unit, better = (stated or {}).get(model, ("", ""))
            # Convert to nats, and negate scores for which lower is better.
            factor = NATS_PER_UNIT.get(unit) or 1.0
            if better == "lower":
                factor = -abs(factor)
            if factor != 1.0:
                wide[model] *= factor
                # Report the conversion to the user.
                reason = f"in {unit}" if unit in NATS_PER_UNIT else "better where they are lower"
                conversion = "negated" if factor == -1.0 else f"multiplied by {factor:.4g}"
                notes.append(f"The scores of {model} are {reason} and were {conversion}.")
            if NATS_PER_UNIT.get(unit):
                unit = "nats"
            units[model] = unit or score_kind(specs.get(model, model)).unit
        return cls(wide, units, specs, tuple(notes))


def canonical_scores(
    table: pd.DataFrame | ScoreTable, source: str = "the scores table"
) -> ScoreTable:
    """Convert a long or wide table of scores to a `ScoreTable`: in nats, and higher is better.

    Parameters
    ----------
    table
        Long table with the columns `sentence`, `model`, `log_prob` and optionally `unit`, `better`
        and `spec`; or wide table with a column `sentence`, or the sentences as index, and one
        column of scores per model. A `ScoreTable` is returned unchanged.
    source
        Name of the table, for error messages.

    Raises
    ------
    InputError
        If columns are missing, a score is not a number, a sentence has two scores under one model,
        a model has two units, or `better` is neither ``higher`` nor ``lower``.

    Examples
    --------
    >>> table = pd.DataFrame({"sentence": ["He  ran."], "model": ["m"], "log_prob": [7.5]})
    >>> canonical_scores(table.assign(unit="surprisal")).log_probs
               m
    sentence
    He ran.   -7.5
    """
    if isinstance(table, ScoreTable):
        return table
    # Long table: one row per sentence and model.
    columns = {str(column) for column in table.columns}
    if {"sentence", "model", "log_prob"} <= columns:
        return _convert_long_table(table, source)
    # Wide table: one row per sentence and one column per model.
    if "sentence" in columns:
        table = table.set_index("sentence")
    elif table.index.dtype.kind in "iuf":
        raise InputError(
            f"{source} needs a column 'sentence' (wide: one further column per model; long: "
            "columns sentence, model, log_prob)"
        )
    models = [column for column in table.columns if column not in NON_SCORE_COLUMNS]
    if not models:
        raise InputError(f"{source} has no model column; add one column of scores per model")
    sentences = _normalise_index(table.index, source)
    scores = {}
    for column in models:
        model = str(column)
        numbers = _parse_numbers(table[column], source).set_axis(sentences)
        scores[model] = drop_repeated_scores(numbers, f"model {model!r} of {source}")
    wide = pd.DataFrame(scores).reindex(sentences.unique()).rename_axis("sentence")
    return ScoreTable.from_wide(wide)


def _convert_long_table(table: pd.DataFrame, source: str) -> ScoreTable:
    """Convert a long table of scores, with one row per sentence and model, to canonical form.

    See `canonical_scores` for parameters and errors.
    """
    is_missing = table[["sentence", "model"]].isna().any(axis=1).to_numpy()
    if is_missing.any():
        raise InputError(
            f"a sentence or model is missing in row {int(is_missing.argmax()) + 1} of {source}; "
            "fill or remove the row"
        )
    sentences = _normalise_index(pd.Index(table["sentence"]), source)
    models = table["model"].astype("str").map(normalise_label).to_numpy()
    numbers = _parse_numbers(table["log_prob"], source).set_axis(sentences)
    scores = {
        str(model): drop_repeated_scores(block, f"model {model!r} of {source}")
        for model, block in numbers.groupby(models, sort=False)
    }

    # Collect unit, better direction and specification of each model, which must be the same in all
    # of its rows.
    properties: dict[str, dict[str, str]] = {model: {} for model in scores}
    for column in (UNIT, "better", SPEC, EVENT):
        if column not in table:
            continue
        cells = table[column]
        is_filled = (cells.notna() & ~cells.isin(MISSING)).to_numpy()
        for model, values in cells[is_filled].astype("str").groupby(models[is_filled]):
            distinct = values.unique()
            if len(distinct) > 1:
                raise InputError(
                    f"model {model!r} of {source} has {distinct[0]!r} and {distinct[1]!r} in the "
                    f"column {column!r}; keep one"
                )
            properties[str(model)][column] = distinct[0]
    for name, values_by_column in properties.items():
        better, unit = values_by_column.get("better", ""), values_by_column.get(UNIT, "")
        if better not in ("", "higher", "lower"):
            raise InputError(
                f"'better' is {better!r} for model {name!r}; it must be 'higher' or 'lower'"
            )
        if better == "higher" and unit.startswith("surprisal"):
            raise InputError(
                f"the scores of model {name!r} have the unit {unit!r} and 'better' is 'higher'; "
                "lower surprisals are better: correct one of the two columns"
            )
    units = {model: (p.get(UNIT, ""), p.get("better", "")) for model, p in properties.items()}
    specs = {model: p[SPEC] for model, p in properties.items() if SPEC in p}
    wide = pd.DataFrame(scores).reindex(sentences.unique()).rename_axis("sentence")
    events = {model: p[EVENT] for model, p in properties.items() if EVENT in p}
    return replace(ScoreTable.from_wide(wide, units, **specs), events=events)


def _normalise_index(labels: pd.Index, source: str) -> pd.Index:
    """Return an index of the normalised sentences; raise `InputError` if one is missing."""
    if labels.isna().any():
        raise InputError(
            f"a sentence is missing in row {int(labels.isna().argmax()) + 1} of {source}; fill or "
            "remove the row"
        )
    return pd.Index([normalise_sentence(str(text)) for text in labels], name="sentence")


def _parse_numbers(column: pd.Series, source: str) -> pd.Series:
    """Convert a column to float64; raise `InputError` if it contains text or Booleans.

    Empty cells become NaN.
    """
    numbers = pd.to_numeric(column, errors="coerce").astype(np.float64)
    # Text that is not a number becomes NaN. It is an error unless it denotes a missing value.
    is_bad = (numbers.isna() & column.notna() & ~column.isin(MISSING)).to_numpy()
    if is_bad.any() or column.dtype.kind == "b":  # "b": Booleans
        value = column[is_bad].iloc[0] if is_bad.any() else column.iloc[0]
        raise InputError(
            f"column {str(column.name)!r} of {source} contains {value!r}, not a number"
        )
    return numbers
