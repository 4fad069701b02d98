"""Sentences as they are written from the left: what a model says of the next word.

Notation: R beginnings, all of one number of words, V words that may follow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.text import WordList

#: What may stand between two words of a sentence, besides white space.
COMMA = ","


class Prefixes(ABC):
    """R beginnings of sentences under one model, and what it says of the words that may follow.

    What the model says of the words one after the other, and of the end, adds up to its score of
    the sentence. Objects stay as they are: `extend` makes new ones.

    Attributes
    ----------
    lists
        The words that may come first in a sentence, and those that may come later.
    n_words
        How many words each beginning has.
    """

    def __init__(self, lists: tuple[WordList, WordList], n_words: int) -> None:
        self.word_lists = lists
        self.n_words = n_words

    @property
    def words(self) -> WordList:
        """The V words that may follow."""
        return self.word_lists[min(self.n_words, 1)]

    @abstractmethod
    def upper_bounds(self) -> tuple[FloatArray, BoolArray]:
        """Return bounds of log p(word | beginning), (R, V), nats, and which words' are exact (V,).

        A word whose bound is not exact is no more probable than its bound.
        """

    @abstractmethod
    def log_probs(self, rows: IntArray, index: IntArray) -> FloatArray:
        """Return log p(word | beginning), nats, of k words of chosen beginnings; shape (k,).

        Parameters
        ----------
        rows, index
            Which beginnings, and which of `words` after each; shape (k,).
        """

    def log_group_sizes(self) -> FloatArray:
        """Return log of how many words share each word's bound, (V,): 0 where bounds are exact."""
        return np.zeros(len(self.words))

    def word_end_log_probs(self) -> FloatArray:
        """Return log p(the last word ends here | beginning), (R,), nats: 0 for models of words."""
        return np.zeros(len(self.upper_bounds()[0]))

    @abstractmethod
    def end_log_probs(self, mark: str) -> FloatArray:
        """Return what the score gains where the sentence ends with `mark`, (R,), nats.

        That is the probability of the mark and of the end symbol, as far as they are scored.
        """

    @abstractmethod
    def comma_log_probs(self) -> FloatArray:
        """Return log p(a comma | beginning), (R,), nats; 0 where the model does not score it."""

    @abstractmethod
    def add_commas(self, where: BoolArray) -> Prefixes:
        """Return the beginnings, with a comma at the end of some, (R,); before the first word none.

        What the model says of the comma is no part of what it says of the word that follows.
        """

    @abstractmethod
    def extend(self, rows: IntArray, index: IntArray) -> Prefixes:
        """Return k beginnings, each one of these and a word more.

        Parameters
        ----------
        rows, index
            Which beginnings, and which of `words` after each; shape (k,). A beginning may be
            followed by several words.
        """

    def score_and_extend(self, rows: IntArray, index: IntArray) -> tuple[FloatArray, Prefixes]:
        """Return what `log_probs` and `extend` give, for a network at the cost of the latter.

        Parameters
        ----------
        rows, index
            Which beginnings, and which of `words` after each; shape (k,).
        """
        return self.log_probs(rows, index), self.extend(rows, index)


class PrefixModel:
    """What a sentence model adds that scores, or proposes words for, sentences from left to right.

    Strategies that write sentences need it. A family inherits from `SentenceModel` and this class.
    """

    @property
    def is_self_guided(self) -> bool:
        """Whether the model proposes words for its own sentences, which cost few inputs each."""
        return False

    def empty_prefix(self, first: WordList, later: WordList) -> Prefixes | None:
        """Return the empty prefix; None if the score is not a sum over words from left to right.

        Parameters
        ----------
        first, later
            The words that may come first in a sentence, and those that may come later; the model
            has them all in its vocabulary.
        """
        return None

    def guide_prefix(self, first: WordList, later: WordList) -> Prefixes | None:
        """Return the empty prefix for proposals, whose values need not sum to scores."""
        return self.empty_prefix(first, later)

    def with_context(self, text: str) -> PrefixModel | None:
        """Return the model of sentences that follow a text; None if it reads no context."""
        return None


def empty_prefix(
    model: SentenceModel, lists: tuple[WordList, WordList], *, guide: bool = False
) -> Prefixes | None:
    """Return the empty prefix under a model, exact or as a guide; None if it has none."""
    if not isinstance(model, PrefixModel):
        return None
    return model.guide_prefix(*lists) if guide else model.empty_prefix(*lists)


def empty_prefix_after(
    model: SentenceModel, text: str, lists: tuple[WordList, WordList]
) -> Prefixes:
    """Return the empty prefix of sentences that follow a text.

    Raises
    ------
    InputError
        If the model reads no text before a sentence.
    """
    following = model.with_context(text) if isinstance(model, PrefixModel) else None
    prefix = None if following is None else following.empty_prefix(*lists)
    if prefix is None:
        raise InputError(
            f"{model.spec!r} cannot write: it reads nothing before a sentence; name a causal "
            "model, such as contstim:smollm2"
        )
    return prefix


class ScoredPrefixes(Prefixes):
    """Prefixes of a model that only scores texts, each beginning as one, from left to right.

    Parameters
    ----------
    model
        The model, which does not score the end of a text.
    whole
        The same model with the end, if that is scored.
    lists
        As in `Prefixes`.
    texts
        The beginnings.
    """

    def __init__(
        self,
        model: SentenceModel,
        whole: SentenceModel,
        lists: tuple[WordList, WordList],
        texts: Sequence[str] = ("",),
    ) -> None:
        super().__init__(lists, len(texts[0].split()))
        self._model, self._whole, self._texts = model, whole, list(texts)
        self._scores = self._score(self._texts)

    def _score(self, texts: Sequence[str]) -> FloatArray:
        return self._model.score(texts) if texts[0] else np.zeros(len(texts))

    def upper_bounds(self) -> tuple[FloatArray, BoolArray]:
        """Return 0 for all words, none of which is known."""
        n = len(self.words)
        return np.zeros((len(self._texts), n)), np.zeros(n, dtype=np.bool_)

    def _extended(self, rows: IntArray, index: IntArray) -> list[str]:
        words = self.words.words
        pairs = zip(rows.tolist(), index.tolist(), strict=True)
        return [f"{self._texts[row]} {words[word]}".strip() for row, word in pairs]

    def log_probs(self, rows: IntArray, index: IntArray) -> FloatArray:
        """Return differences of the scores of texts with and without the word, (k,), nats."""
        if not len(rows):
            return np.zeros(0)
        return np.asarray(self._score(self._extended(rows, index)) - self._scores[rows])

    def end_log_probs(self, mark: str) -> FloatArray:
        """Return what mark and end add to the scores of the texts, (R,), nats."""
        return np.asarray(self._whole.score([text + mark for text in self._texts]) - self._scores)

    def comma_log_probs(self) -> FloatArray:
        """Return what a comma adds to the scores of the texts, (R,), nats."""
        return np.asarray(self._score([text + COMMA for text in self._texts]) - self._scores)

    def add_commas(self, where: BoolArray) -> ScoredPrefixes:
        """Return texts, some with a comma."""
        pairs = zip(self._texts, where.tolist(), strict=True)
        return self._of([text + COMMA * marked for text, marked in pairs])

    def extend(self, rows: IntArray, index: IntArray) -> ScoredPrefixes:
        """Return longer texts."""
        return self._of(self._extended(rows, index))

    def _of(self, texts: Sequence[str]) -> ScoredPrefixes:
        return ScoredPrefixes(self._model, self._whole, self.word_lists, texts)
