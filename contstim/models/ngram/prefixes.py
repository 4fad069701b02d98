"""Sentence prefixes under an n-gram model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.ngram import ReplacementScorer
from contstim.models.prefixes import COMMA, Prefixes
from contstim.models.word_tokenizer import END, START, WordTokenizer
from contstim.text import WordList

_NATS = float(np.log(10.0))


class NgramPrefixes(Prefixes):
    """R unfinished sentences (prefixes) of equal length, under an n-gram model.

    By default, R = 1 and the prefix is empty. The probabilities of all next words are exact.

    Parameters
    ----------
    scorer
        N-gram model.
    tokenizer
        Tokenizer of the model. It treats punctuation marks as separate tokens or drops them.
    scores_end
        Whether the end symbol is scored.
    word_lists
        Two word lists: words for the first position of a sentence, and words for later positions.
    n_words
        Number of words in each prefix.
    rows
        Token ids of each prefix, beginning with the start symbol. Default: one empty prefix.
    word_ids
        Token ids of the words of both lists. Default: computed by the tokenizer.
    """

    def __init__(
        self,
        scorer: ReplacementScorer,
        tokenizer: WordTokenizer,
        scores_end: bool,
        word_lists: tuple[WordList, WordList],
        n_words: int = 0,
        rows: Sequence[tuple[int, ...]] = (),
        word_ids: Sequence[IntArray] = (),
    ) -> None:
        super().__init__(word_lists, n_words)
        self._scorer, self._tokenizer, self._scores_end = scorer, tokenizer, scores_end
        # Token ids of each prefix, by default of the empty prefix, which has only a start symbol.
        self._rows = list(rows) or [(scorer.table.ids[START],)]
        # Token ids of the words that may be first in a sentence, and of those that may follow.
        self._word_ids = word_ids or [tokenizer.encode_words(words) for words in word_lists]
        self._ids = self._word_ids[min(n_words, 1)]
        # The next word depends on the last N-1 tokens. Compute its log-probabilities once for
        # all prefixes that end in the same tokens.
        n_context = scorer.table.order - 1
        contexts = [row[max(0, len(row) - n_context) :] for row in self._rows]
        log_probs_by_context = {}
        for context in set(contexts):
            log_probs_by_context[context] = scorer.next_log10_probs(list(context)) * _NATS
        self._next_log_probs = [log_probs_by_context[context] for context in contexts]

    def upper_bounds(self) -> tuple[FloatArray, BoolArray]:
        """Return log p(word | prefix) in nats, shape (R, V). All of these bounds are exact."""
        log_probs = np.stack([row[self._ids] for row in self._next_log_probs])
        return log_probs, np.ones(len(self.next_words), dtype=np.bool_)

    def log_probs(self, rows: IntArray, indices: IntArray) -> FloatArray:
        """Return log p(word | prefix) in nats for k pairs of a prefix and a word, shape (k,)."""
        pairs = zip(rows.tolist(), self._ids[indices].tolist(), strict=True)
        return np.array([self._next_log_probs[row][word] for row, word in pairs], dtype=np.float64)

    def _score_continuation(self, tokens: Sequence[int]) -> FloatArray:
        """Return log p(tokens | prefix) in nats for the same tokens after every prefix, (R,).

        The tokens are, for example, a full stop and the end symbol.
        """
        totals = np.zeros(len(self._rows))
        rows = self._rows
        for token in tokens:
            totals += [self._scorer.next_log10_probs(list(row))[token] * _NATS for row in rows]
            rows = [(*row, token) for row in rows]
        return totals

    def end_log_probs(self, mark: str) -> FloatArray:
        """Return the log-probability that each prefix ends with a punctuation mark, shape (R,).

        It includes the mark and the end of the sentence, if the model scores them, in nats.
        """
        end = [self._scorer.table.ids[END]] if self._scores_end else []
        return self._score_continuation([*self._tokenizer.encode_mark(mark), *end])

    def comma_log_probs(self) -> FloatArray:
        """Return log p(comma | prefix) in nats, shape (R,)."""
        return self._score_continuation(self._tokenizer.encode_mark(COMMA))

    def add_commas(self, is_marked: BoolArray) -> NgramPrefixes:
        """Return the prefixes with a comma appended to some of them."""
        comma = tuple(self._tokenizer.encode_mark(COMMA))
        pairs = zip(self._rows, is_marked.tolist(), strict=True)
        return self._with_rows([(*row, *comma) if marked else row for row, marked in pairs])

    def extend(self, rows: IntArray, indices: IntArray) -> NgramPrefixes:
        """Return k prefixes that are one word longer."""
        pairs = zip(rows.tolist(), self._ids[indices].tolist(), strict=True)
        return self._with_rows([(*self._rows[row], word) for row, word in pairs], 1)

    def _with_rows(self, rows: Sequence[tuple[int, ...]], n_new_words: int = 0) -> NgramPrefixes:
        # A copy with other rows of token ids and a larger number of words.
        return NgramPrefixes(
            self._scorer,
            self._tokenizer,
            self._scores_end,
            self.word_lists,
            self.n_words + n_new_words,
            rows,
            self._word_ids,
        )
