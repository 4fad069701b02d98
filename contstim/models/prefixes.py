"""Sentence prefixes and log-probabilities of the next word, to write sentences from left to right.

Notation: R prefixes with the same number of words, V candidates for the next word.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.text import WordList

#: The only punctuation mark allowed between two words.
COMMA = ","


class Prefixes(ABC):
    """R unfinished sentences (prefixes) under one model, which a search extends word by word.

    The log-probabilities of the words, the commas and the end of a sentence add up to the model's
    score of the sentence. Objects are immutable: `extend` and `add_commas` return new objects.

    Attributes
    ----------
    word_lists
        Candidates for the first word of a sentence, and for all later words.
    n_words
        Number of words of every prefix.
    """

    def __init__(self, word_lists: tuple[WordList, WordList], n_words: int) -> None:
        self.word_lists = word_lists
        self.n_words = n_words

    @property
    def next_words(self) -> WordList:
        """The V candidates for the next word."""
        return self.word_lists[min(self.n_words, 1)]

    @abstractmethod
    def upper_bounds(self) -> tuple[FloatArray, BoolArray]:
        """Return upper bounds of log p(word | prefix) for all prefixes and candidates.

        Returns
        -------
        bounds : array
            Upper bounds in nats, shape (R, V).
        is_exact : array
            Whether the bounds of each word are equal to its log-probabilities, shape (V,).
        """

    @abstractmethod
    def log_probs(self, rows: IntArray, indices: IntArray) -> FloatArray:
        """Return log p(word | prefix) of k pairs of a prefix and a word, shape (k,), in nats.

        Parameters
        ----------
        rows, indices
            Indices of the prefixes and of the words in `next_words`, each of shape (k,).
        """

    def log_group_sizes(self) -> FloatArray:
        """Return, for each word, the log of the number of words with the same upper bound, (V,).

        Models of subword tokens compute the bound from the first token of a word, so words with the
        same first token share a bound. The result is 0 for models of whole words.
        """
        return np.zeros(len(self.next_words))

    def word_end_log_probs(self) -> FloatArray:
        """Return log p(the last word is complete | prefix), shape (R,), in nats.

        Models of subword tokens can continue a word with further tokens. For models of whole words
        the result is 0.
        """
        return np.zeros(len(self.upper_bounds()[0]))

    @abstractmethod
    def end_log_probs(self, mark: str) -> FloatArray:
        """Return the log-probability that each prefix ends with a punctuation mark, shape (R,).

        It includes the mark and the end of the sentence, if the model scores them, in nats.
        """

    @abstractmethod
    def comma_log_probs(self) -> FloatArray:
        """Return log p(comma | prefix), shape (R,), in nats; 0 if commas are not scored."""

    @abstractmethod
    def add_commas(self, is_marked: BoolArray) -> Prefixes:
        """Return the prefixes with a comma appended to some of them.

        Log-probabilities of the next word are conditioned on the comma, but do not include its
        log-probability.

        Parameters
        ----------
        is_marked
            Whether to append a comma to each prefix, shape (R,); False before the first word.
        """

    @abstractmethod
    def extend(self, rows: IntArray, indices: IntArray) -> Prefixes:
        """Return k prefixes that are one word longer.

        Parameters
        ----------
        rows, indices
            Indices of the prefixes and of the words in `next_words`, each of shape (k,). A prefix
            can be extended by several words.
        """

    def score_and_extend(self, rows: IntArray, indices: IntArray) -> tuple[FloatArray, Prefixes]:
        """Return the log-probabilities of k words, and the prefixes extended by these words.

        Neural networks compute both in one run. See `log_probs` and `extend`.

        Parameters
        ----------
        rows, indices
            Indices of the prefixes and of the words in `next_words`, each of shape (k,).
        """
        return self.log_probs(rows, indices), self.extend(rows, indices)


class PrefixModel:
    """Mixin of sentence models that can score prefixes of sentences, or propose next words.

    Search strategies that write sentences from left to right require it.
    """

    def empty_prefix(self, first: WordList, later: WordList) -> Prefixes | None:
        """Return an empty sentence prefix, which can be extended word by word.

        The result is None if the score of a sentence is not a sum of log-probabilities of words
        given the preceding words.

        Parameters
        ----------
        first, later
            Candidates for the first word and for all later words, in the model's vocabulary.
        """
        return None

    def guide_prefix(self, first: WordList, later: WordList) -> Prefixes | None:
        """Return an empty prefix that proposes words but does not score sentences.

        Its log-probabilities may be approximate. They need not sum to the score of a sentence. The
        result is None if the model cannot propose words at low cost.
        """
        return None

    def with_context(self, text: str) -> PrefixModel | None:
        """Return a model that scores sentences as continuations of `text`, for example a prompt.

        The result is None if the model cannot read a context before a sentence.
        """
        return None


def empty_prefix(
    model: SentenceModel, word_lists: tuple[WordList, WordList], *, guide: bool = False
) -> Prefixes | None:
    """Return the empty prefix under a model, from which sentences are written word by word.

    The result is None if the model cannot score or propose words from left to right.

    Parameters
    ----------
    model
        Model under which the sentences are written.
    word_lists
        Candidates for the first word and for all later words.
    guide
        Whether the prefix only needs to propose words, see `PrefixModel.guide_prefix`.
    """
    if not isinstance(model, PrefixModel):
        return None
    return model.guide_prefix(*word_lists) if guide else model.empty_prefix(*word_lists)


def empty_prefix_after(
    model: SentenceModel, text: str, word_lists: tuple[WordList, WordList]
) -> Prefixes:
    """Return an empty sentence prefix after a text, for example a prompt.

    The text affects the probabilities of the words, but is not scored.

    Parameters
    ----------
    model
        Causal model that accepts text before a sentence.
    text
        Text before the sentences, for example a prompt of natural sentences.
    word_lists
        Candidates for the first word and for all later words.

    Raises
    ------
    InputError
        If the model reads no context before a sentence.
    """
    model_in_context = model.with_context(text) if isinstance(model, PrefixModel) else None
    # None: the model does not read a text before the sentence, or scores only whole sentences.
    prefix = None if model_in_context is None else model_in_context.empty_prefix(*word_lists)
    if prefix is None:
        raise InputError(
            f"{model.spec!r} cannot write sentences because it reads no context before them; name "
            "a causal model, for example contstim:smollm2"
        )
    return prefix


class ScoredPrefixes(Prefixes):
    """Prefixes under a left-to-right model that can only score whole texts.

    The log-probability of a word is the score of the prefix with the word minus the score of the
    prefix.

    Parameters
    ----------
    model
        Model whose score does not include the end of the text.
    closed_model
        The same model with the end of the text included in the score, if possible.
    word_lists
        Candidates for the first word and for all later words.
    texts
        The R prefixes.
    """

    def __init__(
        self,
        model: SentenceModel,
        closed_model: SentenceModel,
        word_lists: tuple[WordList, WordList],
        texts: Sequence[str] = ("",),
    ) -> None:
        super().__init__(word_lists, len(texts[0].split()))
        self._model, self._closed_model, self._texts = model, closed_model, list(texts)
        self._scores = model.score(texts) if self.n_words else np.zeros(len(texts))

    def upper_bounds(self) -> tuple[FloatArray, BoolArray]:
        """Return the bound 0 for all words. No bound is exact."""
        n = len(self.next_words)
        return np.zeros((len(self._texts), n)), np.zeros(n, dtype=np.bool_)

    def _extended_texts(self, rows: IntArray, indices: IntArray) -> list[str]:
        """Return the texts of k prefixes that are extended by one word."""
        words = self.next_words.words
        pairs = zip(rows.tolist(), indices.tolist(), strict=True)
        return [f"{self._texts[row]} {words[i]}".strip() for row, i in pairs]

    def log_probs(self, rows: IntArray, indices: IntArray) -> FloatArray:
        """Return the score differences (nats) between texts with and without the word, (k,)."""
        if not len(rows):
            return np.zeros(0)
        return (
            np.asarray(self._model.score(self._extended_texts(rows, indices))) - self._scores[rows]
        )

    def end_log_probs(self, mark: str) -> FloatArray:
        """Return the score differences (nats) due to the mark and the end, shape (R,)."""
        closed = self._closed_model.score([text + mark for text in self._texts])
        return np.asarray(closed - self._scores)

    def comma_log_probs(self) -> FloatArray:
        """Return the score differences (nats) due to a comma, shape (R,)."""
        return np.asarray(self._model.score([text + COMMA for text in self._texts]) - self._scores)

    def add_commas(self, is_marked: BoolArray) -> ScoredPrefixes:
        """Return the prefixes with a comma appended to some of them."""
        pairs = zip(self._texts, is_marked.tolist(), strict=True)
        return self._with_texts([text + COMMA if marked else text for text, marked in pairs])

    def extend(self, rows: IntArray, indices: IntArray) -> ScoredPrefixes:
        """Return k prefixes that are one word longer."""
        return self._with_texts(self._extended_texts(rows, indices))

    def _with_texts(self, texts: Sequence[str]) -> ScoredPrefixes:
        return ScoredPrefixes(self._model, self._closed_model, self.word_lists, texts)
