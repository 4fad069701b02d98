"""Prefixes of sentences under an n-gram model, by its last tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.ngram import BackOff, ReplacementScorer
from contstim.models.prefixes import COMMA, Prefixes
from contstim.models.word_tokenizer import END, START
from contstim.text import WordList

_NATS = float(np.log(10.0))


class NgramPrefixes(Prefixes):
    """Prefixes of sentences under a table of n-grams; all words that follow are known at once.

    Parameters
    ----------
    model
        The table, and how words are tokens of it. Marks are tokens of their own, or none.
    replacer
        The table, ready to be asked.
    lists
        As in `Prefixes`.
    n_words
        How many words each beginning has.
    rows
        The tokens of each, from ``<s>`` on.
    word_ids
        The tokens of the words of both lists; looked up if left out.
    """

    def __init__(
        self,
        model: BackOff,
        replacer: ReplacementScorer,
        lists: tuple[WordList, WordList],
        n_words: int = 0,
        rows: Sequence[tuple[int, ...]] = (),
        word_ids: Sequence[IntArray] = (),
    ) -> None:
        super().__init__(lists, n_words)
        self._model, self._replacer = model, replacer
        self._rows = list(rows) or [(model.table.ids[START],)]
        self._word_ids = word_ids or [model.tokenizer.encode_words(words) for words in lists]
        self._ids = self._word_ids[min(n_words, 1)]
        seen = model.table.order - 1
        contexts = [row[max(0, len(row) - seen) :] for row in self._rows]
        by_context = {c: replacer.following(list(c)) * _NATS for c in set(contexts)}
        self._after = [by_context[context] for context in contexts]

    def upper_bounds(self) -> tuple[FloatArray, BoolArray]:
        """Return log p of every word, all exact."""
        return np.stack([after[self._ids] for after in self._after]), np.ones(
            len(self.next_words), dtype=np.bool_
        )

    def log_probs(self, rows: IntArray, index: IntArray) -> FloatArray:
        """Return what is known, (k,), nats."""
        pairs = zip(rows.tolist(), self._ids[index].tolist(), strict=True)
        return np.array([self._after[row][word] for row, word in pairs], dtype=np.float64)

    def _chain(self, tokens: Sequence[int]) -> FloatArray:
        """Return log p(tokens | beginning), (R,), nats."""
        total = np.zeros(len(self._rows))
        rows = self._rows
        for token in tokens:
            total += [self._replacer.following(list(row))[token] * _NATS for row in rows]
            rows = [(*row, token) for row in rows]
        return total

    def _mark(self, mark: str) -> list[int]:
        return self._model.tokenizer.encode_mark(mark)

    def end_log_probs(self, mark: str) -> FloatArray:
        """Return log p of the mark and of ``</s>``, as far as they are scored, (R,), nats."""
        end = [self._model.table.ids[END]] if self._model.scores_end else []
        return self._chain([*self._mark(mark), *end])

    def comma_log_probs(self) -> FloatArray:
        """Return log p(comma | beginning), (R,), nats."""
        return self._chain(self._mark(COMMA))

    def add_commas(self, where: BoolArray) -> NgramPrefixes:
        """Return the beginnings, some with a comma."""
        comma = tuple(self._mark(COMMA))
        pairs = zip(self._rows, where.tolist(), strict=True)
        return self._of(self.n_words, [row + comma * marked for row, marked in pairs])

    def extend(self, rows: IntArray, index: IntArray) -> NgramPrefixes:
        """Return longer beginnings."""
        pairs = zip(rows.tolist(), self._ids[index].tolist(), strict=True)
        return self._of(self.n_words + 1, [(*self._rows[row], word) for row, word in pairs])

    def _of(self, n_words: int, rows: Sequence[tuple[int, ...]]) -> NgramPrefixes:
        return NgramPrefixes(
            self._model, self._replacer, self.word_lists, n_words, rows, self._word_ids
        )
