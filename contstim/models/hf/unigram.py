"""Unigram probabilities of a transformer's own tokens, for SLOR.

SLOR takes off what the frequency of a sentence's units explains. Kann et al. (2018) define it over
the units that the model itself scores, sub-words where these are its units (their WPSLOR), and so
do we: the sums of both terms and T go over the same units, and every sentence that the model can
score has a value. (Lau et al. 2017 have models of whole words, for which the two agree.)

Their unigram probabilities come from the model's training text. That of a checkpoint is seldom at
hand, so tokens are counted in the text of the bundled models, whose words are listed with their
frequencies: each word is cut into tokens as this tokenizer cuts it, first in a sentence and
elsewhere. With c the count of a token, N their sum and V the size of the vocabulary,
p = (c + 1) / (N + V).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.files import file_digest
from contstim.models.base import Event, Replacements, SentenceModel, SentenceParts
from contstim.models.bundled import bundled_folder
from contstim.models.spec import ModelSpec
from contstim.tables import numbered_lines
from contstim.text.sentence import Sentence, WordList

if TYPE_CHECKING:
    from contstim.models.hf.transformer import TransformerModel

__all__ = ["ScoredTokens", "TokenUnigram", "WordCounts"]

#: The words of the bundled models' training text and their counts (recipe: models/unigram.py).
WORD_COUNTS = "word_counts.tsv.gz"


class ScoredTokens(NamedTuple):
    """The T scored tokens of a sentence: as text, their ids and words (T,), and W."""

    units: tuple[str, ...]
    ids: IntArray
    word_of: IntArray
    n_words: int


@dataclass(frozen=True, eq=False)
class WordCounts:
    """Words as they stand between spaces, punctuation attached, and how often.

    Attributes
    ----------
    words
        The words.
    n, n_first
        How often each occurs, and how often it is the first of a sentence.
    """

    words: tuple[str, ...]
    n: IntArray
    n_first: IntArray

    @classmethod
    def read(cls, path: Path) -> WordCounts:
        """Read a table with columns `word`, `n`, `n_first` and tabs between them.

        Raises
        ------
        InputError
            If the file cannot be read or a line is not such a row.
        """
        words: list[str] = []
        counts: list[tuple[int, int]] = []
        for number, line in numbered_lines(path):
            word, *fields = line.split("\t")
            if number == 1:
                continue
            if len(fields) != 2 or not all(field.isdecimal() for field in fields):
                raise InputError(f"{path}, line {number} is not a word and two counts: {line!r}")
            words.append(word)
            counts.append((int(fields[0]), int(fields[1])))
        table = np.array(counts, dtype=np.int64).reshape(-1, 2)
        return cls(tuple(words), table[:, 0], table[:, 1])


class TokenUnigram(SentenceModel):
    """The tokens of a transformer with their probabilities apart from any context.

    Parameters
    ----------
    model
        The transformer; what it scores of a sentence is scored here.
    path
        Word counts; by default those of the bundled models' training text.
    """

    def __init__(self, model: TransformerModel, path: Path | None = None) -> None:
        super().__init__(ModelSpec("contstim", "unigram", (("units", "tokens"),)))
        self.model = model
        self.path = path or bundled_folder() / WORD_COUNTS
        self.end = np.array(model.end_ids, dtype=np.int64)
        counts = WordCounts.read(self.path)
        found = model.tokenizer.count(counts.words, counts.n, counts.n_first)
        found[self.end] += counts.n_first.sum()
        self.log_probs = np.log((found + 1.0) / (found.sum() + len(found)))

    @property
    def event(self) -> Event:
        """The transformer's event."""
        return self.model.event

    @property
    def packages(self) -> tuple[str, ...]:
        """The transformer's: its tokenizer is what words are cut by."""
        return self.model.packages

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the word counts; the tokenizer is part of the transformer's own."""
        return file_digest(self.path)

    def knows(self, words: Sequence[str]) -> BoolArray:
        """Say which words the transformer knows; shape (V,)."""
        return self.model.knows(words)

    def parts(self, sentences: Sequence[str]) -> list[SentenceParts]:
        """Give the units that the transformer scores their unigram log-probabilities."""
        return [
            SentenceParts(t.units, self.log_probs[t.ids], t.word_of, t.n_words)
            for t in self.model.scored_tokens(sentences)
        ]

    def replacements(self, sentence: Sentence, position: int, words: WordList) -> Replacements:
        """Score candidates, all at once: they change the units of one word alone."""
        parts = self.parts([str(sentence)])[0]
        own = parts.word_of == position
        rest = parts.log_probs[~own].sum()
        if len(self.end) and position == parts.n_words - 1:
            rest += self.log_probs[self.end].sum()
        tokens = self.model.tokenizer.candidates(sentence, position, words).tokens
        # The first word has no units where nothing stands before it.
        scores = [self.log_probs[list(t)].sum() if own.any() else 0.0 for t in tokens]
        table = rest + np.array(scores, dtype=np.float64)

        def score(index: IntArray) -> FloatArray:
            return np.asarray(table[index])

        return Replacements(table, table, exact=True, score=score)
