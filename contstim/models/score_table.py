"""A model that is a table: sentences and the scores that something else gave them.

For selection, evaluation and the planning of designs, which need no new sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from contstim.arrays import BoolArray, FloatArray
from contstim.errors import InputError, ModelFileError, near_matches
from contstim.files import file_digest
from contstim.models import ModelSpec
from contstim.models.base import (
    UNSTATED,
    Event,
    ScoreKind,
    SentenceModel,
    SentenceScores,
    TokenScores,
    check_sentences,
)
from contstim.models.registry import score_kind
from contstim.tables import MISSING, SPEC, UNIT, read_table
from contstim.text import read_sentences
from contstim.text.normalise import normalise_label, normalise_sentence

# The log-probability of a score of one, in nats; None for a score that is not a log-probability.
_UNITS = {
    **{"nats": 1.0, "bits": np.log(2), "log10": np.log(10)},
    **{"surprisal": -1.0, "surprisal-bits": -np.log(2), "score": None},
}
_OPTIONS = ("column", "model", "rows", "sentences", "unit")
# What a row is.
_ROWS = ("sentences", "words")
# Columns that say where in its sentence a word or token stands.
_PLACES = ("position", "token_id", "word_id")
# Columns of tables whose rows are words.
_OF_WORDS = ("word", "token", *_PLACES)
_SHOWN = 3
#: Columns of a table of scores that hold no score.
NON_SCORE_COLUMNS = ("n_tokens", "n_words", "stderr", "kind", "perplexity")


class ScoreTableModel(SentenceModel):
    """``table:FILE``: a CSV or Parquet file with a column `sentence` and one of scores.

    Options of the spec: ``column``, the column of scores where there are several; ``model``, where
    the table is long (`sentence`, `model`, `log_prob`) and holds several models; ``unit`` of the
    scores: ``nats`` (the default), ``bits`` or ``log10`` of log-probabilities, ``surprisal`` (in
    nats) or ``surprisal-bits``, or ``score`` for other numbers, higher for better sentences;
    ``rows=words`` where a row is a word or token, whose numbers are added up; ``sentences``, a file
    of the sentences in their order, where such a table only numbers them (``sentence_id``).

    Sentences are looked up whatever the white space between their words.

    Raises
    ------
    SpecError
        If an option is not known.
    ModelFileError
        If there is no such file.
    InputError
        If the table has no such column or model, a score that is no number, two scores of one
        sentence, a log-probability above 0 or a surprisal below it.
    """

    def __init__(self, spec: ModelSpec) -> None:
        spec.check_options(_OPTIONS)
        super().__init__(spec.canonical({"unit": "nats", "rows": "sentences"}))
        path = spec.path
        if not path.is_file():
            raise ModelFileError(f"{str(spec)!r}: there is no file {spec.location}; check the path")
        self._unit = spec.get_choice("unit", _UNITS, "nats")
        self._rows = spec.get_choice("rows", _ROWS, "sentences")
        given, nats = _column(read_table(path), spec), _UNITS[self._unit]
        files = [path, *(Path(value) for key, value in spec.options if key == "sentences")]
        self._fingerprint = "".join(map(file_digest, files))
        self._scores = given * (nats or 1.0)
        if nats and not self._scores.max() <= 0:
            raise InputError(
                f"{str(spec)!r} holds the log-probability {given.max():g}, which is above 0; say "
                "unit=surprisal (or surprisal-bits) if its numbers are surprisals, unit=score if "
                "they are scores of another kind, higher for better sentences"
                if nats > 0
                else f"{str(spec)!r} holds the surprisal {given.min():g}, which is below 0; leave "
                "unit= out if its numbers are log-probabilities"
            )

    @classmethod
    def kind_of(cls, spec: ModelSpec) -> ScoreKind:
        """Return what the scores of such a spec are, without reading the table."""
        if spec.get("unit", "nats") != "score":
            return ScoreKind(splits_over_words=False)
        return ScoreKind(
            *("score from a table", "score", np.inf), splits_over_words=False, differs_in_nats=False
        )

    @property
    def event(self) -> Event:
        """What a row is, and its unit; the rest is for whoever made the table to say."""
        units = "sentences"
        if self._rows == "words":
            units = f"sentences (sums of words, {self._unit})"
        return Event(units, *([UNSTATED] * 5))

    @property
    def kind(self) -> ScoreKind:
        """What a score is, by the spec's unit."""
        return self.kind_of(self._spec)

    @property
    def fingerprint(self) -> str:
        """Digest of the file, and of that of its sentences."""
        return self._fingerprint

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Refuse: a table knows sentences, not words."""
        raise InputError(self._no_new())

    def has_scores(self, sentences: Sequence[str]) -> BoolArray:
        """Return which sentences the table has, shape (S,)."""
        found = [normalise_sentence(text) in self._scores.index for text in sentences]
        return np.array(found, dtype=np.bool_)

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Refuse: the shares of words are not in the table."""
        raise InputError(f"{self.spec!r} holds scores of sentences, not of their words")

    def score_with_counts(self, sentences: Sequence[str]) -> SentenceScores:
        """Look sentences up. The number of tokens is not known: 0.

        Raises
        ------
        InputError
            If the table lacks sentences; the message names some.
        """
        spaced = [normalise_sentence(text) for text in check_sentences(sentences)]
        values: FloatArray = self._scores.reindex(spaced).to_numpy(dtype=np.float64)
        lacking = list(dict.fromkeys(np.array(spaced, dtype=object)[np.isnan(values)]))
        if lacking:
            shown = ", ".join(map(repr, lacking[:_SHOWN])) + (", ..." * (len(lacking) > _SHOWN))
            raise InputError(
                f"{self.spec!r} has no score of {len(lacking)} of {len(set(spaced))} sentences: "
                f"{shown}; {self._no_new()}"
            )
        words = np.array([len(text.split()) for text in spaced], dtype=np.int64)
        return SentenceScores(
            values, np.zeros(len(spaced), dtype=np.int64), words, np.zeros(len(spaced))
        )

    def _no_new(self) -> str:
        return (
            "a table scores the sentences it holds and no others: score these where its scores "
            "come from and add them, or use a model that can be loaded"
        )


def model_name_in_spec(spec: str) -> str:
    """Return what the table of a spec ``table:FILE`` calls its model; empty for any other text."""
    with suppress(InputError):
        parsed = ModelSpec.parse(spec)
        if parsed.family == "table":
            return parsed.get("model", "") or parsed.get("column", "")
    return ""


def drop_repeated_scores(scores: pd.Series, whose: str) -> pd.Series:
    """Return scores by sentence, which are the index, without those that come again.

    Raises
    ------
    InputError
        If a sentence has two scores; the message begins with `whose` they are.
    """
    rows = pd.DataFrame({"sentence": scores.index, "score": scores.to_numpy(np.float64)})
    once = rows.drop_duplicates().set_index("sentence")["score"]
    if not once.index.is_unique:
        raise InputError(
            f"{whose} has two scores of {once.index[once.index.duplicated()][0]!r}; keep one, or, "
            "if a row is a word, have them added up: as a model, 'table:FILE?rows=words'"
        )
    return once


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores in canonical form.

    Attributes
    ----------
    log_probs
        Shape (S, M), float64: a row per normalised sentence, a column per model; nats where the
        unit is known, and the higher score is the better.
    units
        The unit of each model's scores, see `ScoreKind`.
    specs
        The specs that the table states, by model.
    notes
        Sentences on scores that were negated or converted.
    """

    log_probs: pd.DataFrame
    units: dict[str, str]
    specs: dict[str, str]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, wide: pd.DataFrame, stated: Mapping[str, tuple[str, str]] | None = None, **specs: str
    ) -> ScoreTable:
        """Return scores, a column per model, with what a table states: unit and ``better``."""
        notes, units = [], {}
        wide = wide.copy()
        for model in map(str, wide.columns):
            unit, better = (stated or {}).get(model, ("", ""))
            factor = _UNITS.get(unit) or 1.0
            if better == "lower":
                factor = -abs(factor)
            if factor != 1.0:
                wide[model] *= factor
                which = f"in {unit}" if unit in _UNITS else "better where they are lower"
                how = "negated" if factor == -1.0 else f"multiplied by {factor:.4g}"
                notes.append(f"The scores of {model} are {which} and were {how}.")
            unit = "nats" if _UNITS.get(unit) else unit
            units[model] = unit or score_kind(specs.get(model, model)).unit
        return cls(wide, units, specs, tuple(notes))


def canonical_scores(table: pd.DataFrame, what: str = "the scores table") -> ScoreTable:
    """Return the scores of a table in canonical form.

    Parameters
    ----------
    table
        Long (columns `sentence`, `model`, `log_prob`, perhaps `unit`, `better` and `spec`) or wide
        (`sentence` as column or index, every other column a model).
    what
        Name of the table, for messages.

    Raises
    ------
    InputError
        If it is neither, a score is not a number, a sentence has two scores under one model, or a
        model has two units or a `better` that is neither ``higher`` nor ``lower``.

    Examples
    --------
    >>> table = pd.DataFrame({"sentence": ["He  ran."], "model": ["m"], "log_prob": [7.5]})
    >>> canonical_scores(table.assign(unit="surprisal")).log_probs
               m
    sentence
    He ran.   -7.5
    """
    columns = {str(column) for column in table.columns}
    if {"sentence", "model", "log_prob"} <= columns:
        return _long_scores(table, what)
    if "sentence" in columns:
        table = table.set_index("sentence")
    elif table.index.dtype.kind in "iuf":
        raise InputError(
            f"{what} needs a column 'sentence' (wide: one further column a model; long: columns "
            "sentence, model, log_prob)"
        )
    models = [column for column in table.columns if column not in NON_SCORE_COLUMNS]
    if not models:
        raise InputError(f"{what} has no model column; give one column of scores for each model")
    sentences = _sentence_index(table.index, what)
    scores = {
        str(model): drop_repeated_scores(
            _numbers(table[model], what).set_axis(sentences), f"model {str(model)!r} of {what}"
        )
        for model in models
    }
    return ScoreTable.of(pd.DataFrame(scores).reindex(sentences.unique()).rename_axis("sentence"))


def _long_scores(table: pd.DataFrame, what: str) -> ScoreTable:
    missing = table[["sentence", "model"]].isna().any(axis=1).to_numpy()
    if missing.any():
        raise InputError(
            f"a sentence or model is missing in row {int(missing.argmax()) + 1} of {what}"
        )
    sentences = _sentence_index(pd.Index(table["sentence"]), what)
    models = table["model"].astype("str").map(normalise_label).to_numpy()
    numbers = _numbers(table["log_prob"], what).set_axis(sentences)
    scores = {
        str(model): drop_repeated_scores(block, f"model {model!r} of {what}")
        for model, block in numbers.groupby(models, sort=False)
    }
    texts = {column: table[column] for column in (UNIT, "better", SPEC) if column in table}
    stated: dict[str, dict[str, str]] = {}
    for column, cells in texts.items():
        given = (cells.notna() & ~cells.isin(MISSING)).to_numpy()
        for model, values in cells[given].astype("str").groupby(models[given]):
            if (values != values.iloc[0]).any():
                first, second, *_ = values.unique()
                raise InputError(
                    f"model {model!r} of {what} has {first!r} and {second!r} in the column "
                    f"{column!r}; keep one"
                )
            stated.setdefault(str(model), {})[column] = values.iloc[0]
    for name, of_model in stated.items():
        better, unit = of_model.get("better", ""), of_model.get(UNIT, "")
        if better not in ("", "higher", "lower"):
            raise InputError(
                f"'better' is {better!r} for model {name!r}; it must be 'higher' or 'lower'"
            )
        if better == "higher" and unit.startswith("surprisal"):
            raise InputError(
                f"the scores of model {name!r} have the unit {unit!r} and 'better' is 'higher'; "
                "lower surprisals are better: correct one of the two columns"
            )
    kinds = {m: (s.get(UNIT, ""), s.get("better", "")) for m, s in stated.items()}
    specs = {name: of_model[SPEC] for name, of_model in stated.items() if SPEC in of_model}
    wide = pd.DataFrame(scores).reindex(sentences.unique()).rename_axis("sentence")
    return ScoreTable.of(wide, kinds, **specs)


def _sentence_index(labels: pd.Index, what: str) -> pd.Index:
    if labels.isna().any():
        raise InputError(
            f"a sentence is missing in row {int(labels.isna().argmax()) + 1} of {what}"
        )
    return pd.Index([normalise_sentence(str(text)) for text in labels], name="sentence")


def _numbers(column: pd.Series, what: str) -> pd.Series:
    """Return a column as float64, refusing text."""
    numbers = pd.to_numeric(column, errors="coerce").astype(np.float64)
    bad = (numbers.isna() & column.notna() & ~column.isin(MISSING)).to_numpy()
    if bad.any() or column.dtype.kind == "b":
        value, name = column[bad].iloc[0] if bad.any() else column.iloc[0], str(column.name)
        raise InputError(f"column {name!r} of {what} holds {value!r}, not a number")
    return numbers


def _column(table: pd.DataFrame, spec: ModelSpec) -> pd.Series:
    """Return the scores that a spec names, by sentence."""
    where = spec.location
    options = dict(spec.options)
    if "sentences" in options:
        table = _with_sentences(table, spec)
    if "sentence" not in table:
        raise InputError(f"{where} has no column 'sentence'; a table of scores needs one")
    name = options.get("column")
    if "model" in table:
        models = list(dict.fromkeys(table["model"].astype(str)))
        wanted = options.get("model", models[0] if len(models) == 1 else None)
        if wanted is None or wanted not in models:
            hint = near_matches(wanted or "", models)
            raise InputError(f"{where} holds scores of {len(models)} models; say model=: {hint}")
        table = table[table["model"].astype(str) == wanted]
    elif "model" in options:
        raise InputError(f"model={options['model']!r}: {where} has no column 'model'; use column=")
    no_scores = ("sentence", "sentence_id", "model", *NON_SCORE_COLUMNS, *_PLACES)
    offered = [str(c) for c in table.columns if c not in no_scores]
    numeric = [c for c in offered if pd.api.types.is_numeric_dtype(table[c])]
    if name is None and "log_prob" in numeric:
        name = "log_prob"
    elif name is None and len(numeric) == 1:
        name = numeric[0]
    if name is None or name not in offered:
        hint = near_matches(name or "", numeric) if numeric else "it holds no number"
        raise InputError(f"which column of {where} is the scores? say column=: {hint}")
    stated = table.get(UNIT, pd.Series(dtype=object)).dropna().unique().tolist()
    if (table.get("better", pd.Series(dtype=object)) == "lower").any():
        stated = ["surprisal"]
    unit = options.get("unit", "nats")
    if any(other in _UNITS and other != unit for other in stated):
        raise InputError(
            f"{where} says that its scores are in {stated[0]}, and the spec says {unit}; write "
            f"unit={stated[0]}"
        )
    scores = pd.to_numeric(table[name], errors="coerce").astype(float)
    if options.get("rows") == "words":
        return _added_up(table, scores, spec)
    if scores.isna().any():
        text = table.loc[scores.isna(), "sentence"].iloc[0]
        raise InputError(
            f"column {name!r} of {where} holds no number for {text!r}; fill or remove it"
        )
    spaced = table["sentence"].astype(str).map(normalise_sentence)
    by_word = [str(c) for c in table.columns if c in _OF_WORDS]
    if by_word and spaced.duplicated().any():
        raise InputError(
            f"{where} has several rows of {spaced[spaced.duplicated()].iloc[0]!r} and a column "
            f"{by_word[0]!r}, so that a row is a word; say rows=words, which adds them up"
        )
    return drop_repeated_scores(scores.set_axis(spaced), where)


def _with_sentences(table: pd.DataFrame, spec: ModelSpec) -> pd.DataFrame:
    """Return a table that numbers sentences from 1, or from 0, with the sentences of a file."""
    where = spec.location
    if "sentence_id" not in table:
        raise InputError(f"{where} has no column 'sentence_id'; sentences= needs one")
    sentences = np.array(read_sentences(spec.get("sentences", "")), dtype=object)
    numbers = pd.to_numeric(table["sentence_id"], errors="coerce")
    places = numbers - numbers.min()
    numbered = sorted(places.unique())
    if numbers.min() not in (0, 1) or numbered != list(range(len(sentences))):
        raise InputError(
            f"sentence_id of {where} does not number the {len(sentences)} sentences of "
            f"{spec.get('sentences', '')} from 1 (or 0) on; give the file that was scored"
        )
    return table.assign(sentence=sentences[places.astype(int)])


def _several(sentence: str, units: list[Any]) -> bool:
    """Return whether the words, or their numbers, of rows without places are a sentence's twice."""
    n = len(units)
    if not any(units == units[:k] * (n // k) for k in range(1, n // 2 + 1)):
        return False
    # It may be so itself: "no no".
    if isinstance(units[0], str):
        letters = "".join(unit.strip("Ġ▁ ") for unit in units)
        return letters.casefold() != "".join(sentence.split()).casefold()
    return n != len(sentence.split())


def _added_up(table: pd.DataFrame, scores: pd.Series, spec: ModelSpec) -> pd.Series:
    """Return the sum of the words' scores, by sentence.

    The first word's may be missing, if it is of every sentence: some models give it none.
    """
    where = spec.location
    text = table["sentence"].astype(str).map(normalise_sentence)
    place = next((table[column] for column in _PLACES if column in table), None)
    again: list[str] = []
    if place is None:
        number = table.get("sentence_id", text)
        run = (text.ne(text.shift()) | number.ne(number.shift())).cumsum()
        place = text.groupby(run).cumcount()
        units = next((table[c].astype(str) for c in ("token", "word") if c in table), scores)
        runs = zip(text.groupby(run).first(), units.groupby(run).agg(list), strict=True)
        again = [sentence for sentence, of_run in runs if _several(sentence, of_run)]
    twice = [*again, *text[pd.DataFrame({"sentence": text, "place": place}).duplicated()]]
    if twice:
        raise InputError(f"{where} has the words of {twice[0]!r} twice; keep them once")
    missing, first = scores.isna(), ~text.duplicated()
    wrong = missing & ~first if (missing & ~first).any() else first & ~missing
    if missing.any() and wrong.any():
        text = text[wrong if (missing & wrong).any() else missing]
        raise InputError(
            f"{where} lacks the number of a word of {text.iloc[0]!r}; fill it in (only "
            "that of the first word may be missing, and then of every first word)"
        )
    sums = scores.groupby(text.to_numpy(), sort=False).sum(min_count=1)
    if sums.isna().any():
        nothing = sums.index[sums.isna()][0]
        raise InputError(f"{where} holds no number for {nothing!r}; fill or remove it")
    return sums
