"""N-gram models: Kneser-Ney training, ARPA files, and scoring through KenLM.

Here: models as sorted arrays, the form that the three share.

A `ReplacementScorer` scores a sentence with every word at one position, in one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from contstim.models.word_tokenizer import WordTokenizer


def find_sorted(keys: IntArray, wanted: IntArray) -> IntArray:
    """Return the place of each of `wanted` in the sorted `keys`, or -1 where it is absent."""
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int64)
    places = np.searchsorted(keys, wanted)
    places[places == len(keys)] = 0
    return np.where(keys[places] == wanted, places, -1)


class NgramLevel(NamedTuple):
    """The n-grams of one order, sorted by key; an n-gram's place is its id.

    Attributes
    ----------
    keys
        ``context * V + word``, where `context` is the id, one order down, of the n-gram without
        its last word (0 for unigrams), V the size of the vocabulary and `word` the last word.
    log_probs
        Base-10 logarithms of the probabilities, as in the file.
    log_backoffs
        Base-10 logarithms of the back-off weights, 0 for the highest order.
    """

    keys: IntArray
    log_probs: FloatArray
    log_backoffs: FloatArray


@dataclass(frozen=True, eq=False)
class NgramTable:
    """A back-off n-gram model.

    Attributes
    ----------
    words
        The V words by id, among them ``<s>`` and ``</s>``.
    levels
        One :class:`NgramLevel` an order, from unigrams (all V, in order of id) up. Every n-gram's
        first and last n-1 words are n-grams of the level below.
    """

    words: tuple[str, ...]
    levels: tuple[NgramLevel, ...]

    @property
    def order(self) -> int:
        """The highest order."""
        return len(self.levels)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Id of each word."""
        return {word: i for i, word in enumerate(self.words)}

    def filter(self, masks: Sequence[BoolArray]) -> NgramTable:
        """Return the table of the n-grams that `masks` keep, one mask an order.

        Contexts of n-grams that are kept must be kept.
        """
        size = len(self.words)
        words = tuple(word for word, keep in zip(self.words, masks[0], strict=True) if keep)
        word_ids = np.cumsum(masks[0]) - 1
        context_ids = np.zeros(1, dtype=np.int64)
        levels = []
        for level, keep in zip(self.levels, masks, strict=True):
            old = level.keys[keep]
            keys = context_ids[old // size] * len(words) + word_ids[old % size]
            levels.append(NgramLevel(keys, level.log_probs[keep], level.log_backoffs[keep]))
            context_ids = np.cumsum(keep) - 1
        return NgramTable(words, tuple(levels))

    @cached_property
    def suffix_ids(self) -> list[IntArray]:
        """For each order the ids, one order down, of the n-grams without their first word.

        An id is -1 where the table lacks the shorter n-gram. Unigrams have the id 0.
        """
        size = len(self.words)
        suffixes = [np.zeros(size, dtype=np.int64)]
        for lower, level in zip(self.levels, self.levels[1:], strict=False):
            shorter = suffixes[-1][level.keys // size]
            if len(suffixes) == 1:
                suffixes.append(level.keys % size)
                continue
            places = find_sorted(lower.keys, shorter * size + level.keys % size)
            suffixes.append(np.where(shorter < 0, -1, places))
        return suffixes


class _Stretch(NamedTuple):
    """The n-grams that are one fixed stretch of the sentence with word after word in the slot.

    `words` are those for which the n-gram exists, `ids` the n-grams.
    """

    words: IntArray
    ids: IntArray


_NOTHING = _Stretch(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


class ReplacementScorer:
    """Scores sentences with one open slot under a back-off model, for all V words at once.

    In a model of order N the word in the slot changes N terms of the sentence: its own, and those
    of the N-1 words that follow. Each term is resolved for all words together, from the shortest
    context to the longest: the back-off weight of a context is added for the words for which the
    context exists, then the probability is set for those for which the n-gram exists. The table is
    closed under leaving out the first word, so each such set lies within the one before.

    Parameters
    ----------
    table
        The model.
    """

    def __init__(self, table: NgramTable) -> None:
        self.table = table
        self.size = len(table.words)
        everything = np.arange(self.size)
        self.everything = _Stretch(everything, everything)
        # The n-grams of each order from 2 on, sorted by what follows their first word, and for
        # each shorter n-gram where those end that are a word and then it.
        self.longer: list[tuple[_Stretch, IntArray]] = []
        first = everything
        for level, suffixes in zip(table.levels[1:], table.suffix_ids[1:], strict=True):
            first = first[level.keys // self.size]
            by_suffix = np.argsort(suffixes, kind="stable")
            n_shorter = len(table.levels[len(self.longer)].keys)
            ends = np.cumsum(np.bincount(suffixes, minlength=n_shorter))
            self.longer.append((_Stretch(first[by_suffix], by_suffix), ends))

    def _id(self, n: int, context: int, word: int) -> int:
        """Return the id of the n-gram of order `n`, -1 if there is none."""
        keys = self.table.levels[n - 1].keys
        key = context * self.size + word
        at = int(keys.searchsorted(key))
        return at if at < len(keys) and keys[at] == key else -1

    def _left(self, ids: list[int], stop: int) -> list[int]:
        """Return the ids of the n-grams of orders 1, 2 ... that end before `stop`, if any."""
        grams: list[int] = []
        for n in range(1, min(self.table.order - 1, stop) + 1):
            gram = ids[stop - n]
            for k in range(2, n + 1):
                gram = self._id(k, gram, ids[stop - n + k - 1])
                if gram < 0:
                    return grams
            grams.append(gram)
        return grams

    def _preceded(self, n: int, gram: int) -> _Stretch:
        """Return those n-grams of order `n` that are any word and then `gram`."""
        if gram < 0:
            return _NOTHING
        (words, ids), ends = self.longer[n - 2]
        rows = slice(ends[gram - 1] if gram else 0, ends[gram])
        return _Stretch(words[rows], ids[rows])

    def _followed(self, n: int, contexts: _Stretch, word: int) -> _Stretch:
        """Return those n-grams of order `n` that are one of `contexts` and then `word`."""
        ids = find_sorted(self.table.levels[n - 1].keys, contexts.ids * self.size + word)
        found = ids >= 0
        return _Stretch(contexts.words[found], ids[found])

    def _children(self, n: int, context: int) -> _Stretch:
        """Return the n-grams of order `n` that are `context` and then any word."""
        keys = self.table.levels[n - 1].keys
        begin, end = keys.searchsorted((context * self.size, (context + 1) * self.size)).tolist()
        return _Stretch(keys[begin:end] - context * self.size, np.arange(begin, end))

    def log_prob(self, left: list[int], word: int) -> float:
        """Return log10 p(word | context); `left` holds the context's suffixes, shortest first."""
        levels = self.table.levels
        backoff = 0.0
        for n in range(len(left) + 1, 1, -1):
            gram = self._id(n, left[n - 2], word)
            if gram >= 0:
                return backoff + float(levels[n - 1].log_probs[gram])
            backoff += float(levels[n - 2].log_backoffs[left[n - 2]])
        return backoff + float(levels[0].log_probs[word])

    def _following(self, left: Sequence[int]) -> tuple[FloatArray, list[_Stretch]]:
        """Return log10 p(word | context) of all words, and their n-grams; `left` as above."""
        levels, sets = self.table.levels, [self.everything]
        term = levels[0].log_probs.copy()
        for j, gram in enumerate(left, start=1):
            sets.append(self._children(j + 1, gram))
            term += levels[j - 1].log_backoffs[gram]
            term[sets[j].words] = levels[j].log_probs[sets[j].ids]
        return term, sets

    def following(self, ids: list[int]) -> FloatArray:
        """Return log10 p(word | ids), with ``<s>`` first, of all words, shape (V,)."""
        return self._following(self._left(ids, len(ids)))[0]

    def score(self, ids: list[int], slot: int) -> FloatArray:
        """Return the base-10 log-probability of a sentence for each word in its slot.

        Parameters
        ----------
        ids
            The sentence from ``<s>`` on, ending in ``</s>`` where the end is scored. The value at
            `slot` does not matter.
        slot
            Place of the open word, at least 1.

        Returns
        -------
        scores
            Shape (V,).
        """
        levels = self.table.levels
        order = self.table.order
        fixed = sum(
            self.log_prob(self._left(ids, t), ids[t])
            for t in range(1, len(ids))
            if not slot <= t < slot + order
        )
        total = np.full(self.size, fixed, dtype=np.float64)
        # sets[j]: the n-grams of j words before the slot, the slot, and the words up to a term.
        term, sets = self._following(self._left(ids, slot))
        total += term
        gram = -1  # what follows the slot, up to the term
        for k in range(1, min(order, len(ids) - slot)):
            word = ids[slot + k]
            between = ids[slot + 1 : slot + k]
            term.fill(self.log_prob(self._left(between, k - 1), word))
            contexts = sets[: order - k]
            gram = word if k == 1 else self._id(k, gram, word) if gram >= 0 else -1
            sets = [self._preceded(k + 1, gram)]
            sets += [self._followed(j + k + 1, s, word) for j, s in enumerate(contexts) if j]
            for j, (context, gram_set) in enumerate(zip(contexts, sets, strict=True)):
                term[context.words] += levels[j + k - 1].log_backoffs[context.ids]
                term[gram_set.words] = levels[j + k].log_probs[gram_set.ids]
            total += term
        return total


class BackOff(NamedTuple):
    """A model of words whose score is the sum of what a table says of each of its tokens.

    Attributes
    ----------
    table
        The n-grams; the first token follows ``<s>``.
    tokenizer
        What the tokens are.
    scores_end
        Whether ``</s>`` counts.
    """

    table: NgramTable
    tokenizer: WordTokenizer
    scores_end: bool
