"""The model family ``table:FILE``: sentence scores from another program, read from a file.

These models can be used for selection, evaluation and design, but cannot score new sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from contstim.arrays import BoolArray, FloatArray
from contstim.columns import UNIT
from contstim.errors import InputError, ModelFileError, suggest_names
from contstim.files import file_digest
from contstim.models import ModelSpec
from contstim.models.base import (
    UNSTATED,
    Event,
    ScoreKind,
    SentenceModel,
    SentenceScores,
    TokenScores,
)
from contstim.models.score_table import NATS_PER_UNIT, NON_SCORE_COLUMNS, drop_repeated_scores
from contstim.tables import read_table
from contstim.text import read_sentences
from contstim.text.normalise import check_sentences, normalise_sentence

_OPTIONS = ("column", "model", "rows", "sentences", "unit")
_ROW_KINDS = ("sentences", "words")
# Columns with the position of a word or token in its sentence.
_POSITION_COLUMNS = ("position", "token_id", "word_id")
# Columns of tables with one row per word or token.
_WORD_COLUMNS = ("word", "token", *_POSITION_COLUMNS)
_MAX_EXAMPLES = 3
_ADVICE = (
    "a table scores only the sentences it contains: score these in the program that wrote it and "
    "add them, or use a model that can be loaded"
)


class ScoreTableModel(SentenceModel):
    """A CSV or Parquet file with a column `sentence` and a column of scores.

    Whitespace between words is ignored when sentences are looked up.

    The model specification can have these options:

    - ``column``: column of the scores, if there are several.
    - ``model``: model, if the table has the columns `sentence`, `model` and `log_prob`.
    - ``unit``: ``nats`` (default), ``bits`` or ``log10`` for log-probabilities; ``surprisal`` (in
      nats) or ``surprisal-bits``; ``score`` for other numbers, higher for better sentences.
    - ``rows=words``: each row is a word or token, and the scores of a sentence are summed.
    - ``sentences``: file with the sentences in order, if the table only has a column
      `sentence_id`.

    Parameters
    ----------
    spec
        Model specification, for example ``table:scores.csv?unit=bits``.

    Raises
    ------
    SpecError
        If an option is unknown.
    ModelFileError
        If the file does not exist.
    InputError
        If the column or model is missing, a score is not a number, a sentence has two scores, or a
        score is not in the range of its unit.
    """

    def __init__(self, spec: ModelSpec) -> None:
        spec.check_options(_OPTIONS)
        super().__init__(spec.canonical({"unit": "nats", "rows": "sentences"}))
        path = spec.path
        if not path.is_file():
            raise ModelFileError(f"{str(spec)!r}: there is no file {spec.location}; check the path")
        self._unit = spec.get_choice("unit", NATS_PER_UNIT, "nats")
        self._row_kind = spec.get_choice("rows", _ROW_KINDS, "sentences")
        scores = _read_scores(read_table(path), spec)
        # The scores depend on the table and on the file of sentences, if there is one.
        files = [path, *(Path(value) for key, value in spec.options if key == "sentences")]
        self._fingerprint = "".join(map(file_digest, files))
        # Convert to nats. The factor is negative for surprisals (which are negative
        # log-probabilities), and None for scores without a unit.
        nats = NATS_PER_UNIT[self._unit]
        self._scores = scores * (nats or 1.0)
        # Log-probabilities above 0 show that the unit is wrong.
        if nats and not self._scores.max() <= 0:
            raise InputError(
                f"{str(spec)!r} contains the log-probability {scores.max():g}, which is above 0; "
                "add unit=surprisal (or surprisal-bits) if its numbers are surprisals, or "
                "unit=score if they are other scores, higher for better sentences"
                if nats > 0
                else f"{str(spec)!r} contains the surprisal {scores.min():g}, which is below 0; "
                "remove unit= if its numbers are log-probabilities"
            )

    @classmethod
    def kind_of(cls, spec: ModelSpec) -> ScoreKind:
        """Return the quantity and unit of the scores from the option ``unit``."""
        if spec.get("unit", "nats") != "score":
            return ScoreKind(splits_over_words=False)
        return ScoreKind(
            "score from a table", "score", np.inf, splits_over_words=False, differs_in_nats=False
        )

    @property
    def event(self) -> Event:
        """Definition of the score, of which a table states only the units.

        Each row of the table is the score of a sentence or of a word.
        """
        units = "sentences"
        if self._row_kind == "words":
            units = f"sentences (sums of words, {self._unit})"
        return Event(units, *([UNSTATED] * 5))

    @property
    def kind(self) -> ScoreKind:
        """Quantity and unit of the scores."""
        return self.kind_of(self._spec)

    @property
    def fingerprint(self) -> str:
        """Digests of the table and of the file of sentences."""
        return self._fingerprint

    def in_vocabulary(self, words: Sequence[str]) -> BoolArray:
        """Raise `InputError`, since a table scores no new sentences."""
        raise InputError(_ADVICE)

    def has_scores(self, sentences: Sequence[str]) -> BoolArray:
        """Return whether the table contains each of S sentences, shape (S,)."""
        is_scored = [normalise_sentence(text) in self._scores.index for text in sentences]
        return np.array(is_scored, dtype=np.bool_)

    def score_tokens(self, sentences: Sequence[str]) -> list[TokenScores]:
        """Raise `InputError`, since the table contains no token scores."""
        raise InputError(f"{self.spec!r} contains scores of sentences, not of their words")

    def score_with_counts(self, sentences: Sequence[str]) -> SentenceScores:
        """Look up the scores of S sentences. Token counts are unknown and set to 0.

        Raises
        ------
        InputError
            If the table does not contain a sentence.
        """
        texts = [normalise_sentence(text) for text in check_sentences(sentences)]
        scores: FloatArray = self._scores.reindex(texts).to_numpy(dtype=np.float64)
        # Sentences that are not in the table have NaN: list each once, in their order.
        missing = list(dict.fromkeys(np.array(texts, dtype=object)[np.isnan(scores)]))
        if missing:
            examples = ", ".join(map(repr, missing[:_MAX_EXAMPLES]))
            ellipsis = ", ..." if len(missing) > _MAX_EXAMPLES else ""
            raise InputError(
                f"{self.spec!r} lacks scores for {len(missing)} of {len(set(texts))} sentences: "
                f"{examples}{ellipsis}; {_ADVICE}"
            )
        # The numbers of tokens are unknown, hence 0.
        n_words = np.array([len(text.split()) for text in texts], dtype=np.int64)
        return SentenceScores(scores, np.zeros_like(n_words), n_words, stderr=np.zeros(len(texts)))


def _read_scores(table: pd.DataFrame, spec: ModelSpec) -> pd.Series:
    """Select the scores of one model from a table, without conversion of their unit.

    Parameters
    ----------
    table
        Table of scores with one row per sentence or, with the option ``rows=words``, per word.
    spec
        Model specification. Its location is the name of the table, and its options select the rows
        (``model``) and the column (``column``).

    Returns
    -------
    Series
        Scores, indexed by sentence.

    Raises
    ------
    InputError
        If the options do not identify the scores, or if a score is missing.
    """
    location, options = spec.location, dict(spec.options)
    if "sentences" in options:
        table = _insert_sentences(table, spec)
    if "sentence" not in table:
        raise InputError(f"{location} has no column 'sentence'; a table of scores needs one")

    # Select the rows of the model.
    if "model" in table:
        models = list(dict.fromkeys(table["model"].astype(str)))
        model = options.get("model", models[0] if len(models) == 1 else "")
        if model not in models:
            hint = suggest_names(model, models)
            raise InputError(
                f"{location} contains scores of {len(models)} models; add model=: {hint}"
            )
        table = table[table["model"].astype(str) == model]
    elif "model" in options:
        raise InputError(
            f"model={options['model']!r}: {location} has no column 'model'; use column="
        )

    # Select the column of scores.
    other_columns = ("sentence", "sentence_id", "model", *NON_SCORE_COLUMNS, *_POSITION_COLUMNS)
    columns = [str(column) for column in table.columns if column not in other_columns]
    numeric = [column for column in columns if pd.api.types.is_numeric_dtype(table[column])]
    default = "log_prob" if "log_prob" in numeric else numeric[0] if len(numeric) == 1 else ""
    score_column = options.get("column", default)
    if score_column not in columns:
        hint = suggest_names(score_column, numeric) if numeric else "it has no numeric column"
        raise InputError(f"which column of {location} contains the scores? add column=: {hint}")

    # Refuse a unit that contradicts the table.
    table_units = table.get(UNIT, pd.Series(dtype=object)).dropna().unique().tolist()
    if (table.get("better", pd.Series(dtype=object)) == "lower").any():
        table_units = ["surprisal"]
    unit = options.get("unit", "nats")
    if any(name in NATS_PER_UNIT and name != unit for name in table_units):
        raise InputError(
            f"{location} states that its scores are in {table_units[0]}, but the spec states "
            f"{unit}; write unit={table_units[0]}"
        )

    scores = pd.to_numeric(table[score_column], errors="coerce").astype(float)
    texts = table["sentence"].astype(str).map(normalise_sentence)
    if options.get("rows") == "words":
        return _sum_over_words(table, texts, scores, location)
    if scores.isna().any():
        text = table.loc[scores.isna(), "sentence"].iloc[0]
        raise InputError(
            f"column {score_column!r} of {location} contains no number for {text!r}; fill or "
            "remove it"
        )
    word_columns = [str(column) for column in table.columns if column in _WORD_COLUMNS]
    if word_columns and texts.duplicated().any():
        raise InputError(
            f"{location} has several rows of {texts[texts.duplicated()].iloc[0]!r} and a column "
            f"{word_columns[0]!r}, so each row seems to be a word; add rows=words to sum them"
        )
    return drop_repeated_scores(scores.set_axis(texts), location)


def _insert_sentences(table: pd.DataFrame, spec: ModelSpec) -> pd.DataFrame:
    """Add the column `sentence` to a table that has only sentence numbers.

    The option ``sentences`` of the spec names the file with the sentences. The numbers in the
    column `sentence_id` count its lines from 0 or 1.
    """
    location, path = spec.location, spec.get("sentences", "")
    if "sentence_id" not in table:
        raise InputError(f"{location} has no column 'sentence_id'; sentences= needs one")
    # The column must number all sentences of the file, from 1 or from 0 on.
    sentences = np.array(read_sentences(path), dtype=object)
    numbers = pd.to_numeric(table["sentence_id"], errors="coerce")
    indices = numbers - numbers.min()
    is_complete = sorted(indices.unique()) == list(range(len(sentences)))
    if numbers.min() not in (0, 1) or not is_complete:
        raise InputError(
            f"sentence_id of {location} does not number the {len(sentences)} sentences of {path} "
            "from 1 (or 0) on; name the file that was scored"
        )
    return table.assign(sentence=sentences[indices.astype(int)])


def _has_duplicate_rows(sentence: str, values: list[Any]) -> bool:
    """Return whether consecutive rows of a table list the words of a sentence more than once.

    This happens if a table contains the same sentence twice. The summed score would be wrong. Rows
    are repeated if their values consist of two or more copies of the same sequence, unless the
    sentence itself has these words, as in "no no".

    Parameters
    ----------
    sentence
        Sentence of the rows.
    values
        One value in each of n rows: the word, the token or, if the table has neither, the score.
    """
    n = len(values)
    # Test whether the values consist of repetitions of the first k values.
    if not any(values == values[:k] * (n // k) for k in range(1, n // 2 + 1)):
        return False
    # A sentence such as "no no no" repeats words itself. Then the values match the sentence.
    if isinstance(values[0], str):
        # Remove the markers of word-initial tokens, and compare with the text of the sentence.
        letters = "".join(text.strip("Ġ▁ ") for text in values)
        return letters.casefold() != "".join(sentence.split()).casefold()
    # Numbers: one for each word of the sentence.
    return n != len(sentence.split())


def _sum_over_words(
    table: pd.DataFrame, texts: pd.Series, scores: pd.Series, location: str
) -> pd.Series:
    """Sum the scores of the words of each sentence.

    Parameters
    ----------
    table
        Table with one row per word or token.
    texts, scores
        Normalised sentence and score of each row. Some models do not score the first word of a
        sentence. Its score may be missing, but then it must be missing in all sentences.
    location
        Name of the table in error messages.

    Returns
    -------
    Series
        Sums, indexed by sentence.
    """
    positions = next((table[name] for name in _POSITION_COLUMNS if name in table), None)
    repeated: list[str] = []
    if positions is None:
        # Number the words of each run of consecutive rows with the same sentence.
        numbers = table.get("sentence_id", texts)
        runs = (texts.ne(texts.shift()) | numbers.ne(numbers.shift())).cumsum()
        positions = texts.groupby(runs).cumcount()
        # Compare the tokens or words of a run, or its scores if the table has neither.
        column = next((table[c].astype(str) for c in ("token", "word") if c in table), scores)
        values_by_run = column.groupby(runs).agg(list)
        pairs = zip(texts.groupby(runs).first(), values_by_run, strict=True)
        repeated = [sentence for sentence, values in pairs if _has_duplicate_rows(sentence, values)]
    keys = pd.DataFrame({"sentence": texts, "position": positions})
    repeated += texts[keys.duplicated()].tolist()
    if repeated:
        raise InputError(f"{location} has the words of {repeated[0]!r} twice; keep them once")

    is_missing, is_first = scores.isna(), ~texts.duplicated()
    # Missing scores are errors after the first word, or if other sentences have a first score.
    is_error = is_missing & ~is_first
    if not is_error.any() and (is_first & ~is_missing).any():
        is_error = is_missing
    if is_error.any():
        raise InputError(
            f"{location} lacks the number of a word of {texts[is_error].iloc[0]!r}; fill it in "
            "(only the first word's may be missing, and then in every sentence)"
        )
    sums = scores.groupby(texts.to_numpy(), sort=False).sum(min_count=1)
    if sums.isna().any():
        sentence = sums.index[sums.isna()][0]
        raise InputError(f"{location} contains no number for {sentence!r}; fill or remove it")
    return sums
