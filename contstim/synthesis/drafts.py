"""Sentences that are being sampled word by word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.prefixes import COMMA
from contstim.text import Sentence
from contstim.text.language import Language


@dataclass(frozen=True)
class Draft:
    """Sampled sentence with its log-probabilities under the model from which it was sampled.

    The model continues a prompt of natural sentences. Values are in nats.

    Attributes
    ----------
    sentence
        Text of the sentence.
    log_prob
        Log-probability of the sentence, including its final mark.
    worst
        Log-probability of the least probable word.
    end
        Log-probability of the final punctuation mark.
    """

    sentence: str
    log_prob: float
    worst: float
    end: float


@dataclass(frozen=True, eq=False)
class DraftBatch:
    """Batch of R unfinished sentences with the same number of words.

    A language model samples the sentences word by word. Sentences that cannot be continued are
    removed from the batch, so R can decrease.

    Attributes
    ----------
    original_rows
        Index of each sentence in the batch before any removal, shape (R,).
    words
        Words of each sentence.
    commas
        For each sentence, whether each word is followed by a comma.
    log_probs
        For each sentence, the log-probability of each word and its comma under the language model.
    """

    original_rows: IntArray
    words: tuple[tuple[str, ...], ...]
    commas: tuple[tuple[bool, ...], ...]
    log_probs: tuple[tuple[float, ...], ...]

    @classmethod
    def empty(cls, n: int) -> DraftBatch:
        """Create a batch of `n` sentences without words."""
        return cls(np.arange(n), ((),) * n, ((),) * n, ((),) * n)

    def extend(self, rows: IntArray, words: Sequence[str], log_probs: FloatArray) -> DraftBatch:
        """Return a batch of k sentences that are extended by one word each.

        Parameters
        ----------
        rows
            Index of each sentence to extend, shape (k,).
        words
            New word of each of these sentences.
        log_probs
            Log-probability of each new word in nats, under the language model that samples the
            sentences, shape (k,).
        """
        new_words = zip(rows.tolist(), words, strict=True)
        new_log_probs = zip(rows.tolist(), log_probs.tolist(), strict=True)
        # Append the word and its log-probability; commas are added by `add_commas`.
        return DraftBatch(
            original_rows=self.original_rows[rows],
            words=tuple((*self.words[row], word) for row, word in new_words),
            commas=tuple((*self.commas[row], False) for row in rows.tolist()),
            log_probs=tuple((*self.log_probs[row], value) for row, value in new_log_probs),
        )

    def add_commas(self, has_comma: BoolArray, log_probs: FloatArray) -> DraftBatch:
        """Return a batch with a comma after the last word of some sentences.

        Parameters
        ----------
        has_comma
            Whether a comma follows each sentence, shape (R,).
        log_probs
            Log-probability of a comma after each sentence in nats, under the language model that
            samples the sentences, shape (R,).
        """
        # The log-probability of a comma is added to that of the preceding word.
        added_log_probs = np.where(has_comma, log_probs, 0.0).tolist()
        commas, word_log_probs = [], []
        for row, (comma, added) in enumerate(zip(has_comma.tolist(), added_log_probs, strict=True)):
            commas.append((*self.commas[row][:-1], comma))
            word_log_probs.append((*self.log_probs[row][:-1], self.log_probs[row][-1] + added))
        return replace(self, commas=tuple(commas), log_probs=tuple(word_log_probs))

    def finish(self, row: int, mark: str, mark_log_prob: float, language: Language) -> Draft | None:
        """Complete a sentence of the batch with a final punctuation mark.

        Parameters
        ----------
        row
            Index of the sentence in the batch.
        mark
            Final punctuation mark.
        mark_log_prob
            Log-probability of the mark in nats, under the language model that samples the sentence.
        language
            Language, which determines opening marks such as the Spanish ``¿``.

        Returns
        -------
        Draft or None
            Complete sentence. None if parsing its text would yield different words.
        """
        words, log_probs = self.words[row], self.log_probs[row]
        # Punctuation after each word: a comma or nothing, and the final mark after the last word.
        after = [COMMA if has_comma else "" for has_comma in self.commas[row]]
        after[-1] = mark
        # Punctuation before each word: nothing, but in Spanish "¿" before the first word.
        before = [""] * len(words)
        before[0] = language.opening_marks.get(mark, "")
        sentence = Sentence(words, tuple(before), tuple(after), language)
        if not sentence.round_trips:
            return None  # Parsing the text would yield different words.
        return Draft(str(sentence), sum(log_probs) + mark_log_prob, min(log_probs), mark_log_prob)
