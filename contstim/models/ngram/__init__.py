"""N-gram models as sorted arrays, and scores of all replacements of one word.

Training, ARPA files and scoring share the arrays of `NgramTable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray


def find_sorted(keys: IntArray, wanted: IntArray) -> IntArray:
    """Return the index of each element of `wanted` in the sorted array `keys`, or -1 if absent."""
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int64)
    indices = np.searchsorted(keys, wanted)
    indices[indices == len(keys)] = 0
    return np.where(keys[indices] == wanted, indices, -1)


class NgramLevel(NamedTuple):
    """The n-grams of one order, sorted by key. The index of an n-gram is its id.

    Attributes
    ----------
    keys
        ``context * V + word``: `word` is the id of the last word, `context` the id of the other
        words among the n-grams of the next lower order (0 for unigrams), and V the vocabulary
        size.
    log_probs
        Base-10 logarithms of the probabilities.
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
        V words by id, including ``<s>`` and ``</s>``.
    levels
        One :class:`NgramLevel` per order, starting with all V unigrams in the order of their ids.
        The first and the last n-1 words of each n-gram are n-grams of the next lower order.
    """

    words: tuple[str, ...]
    levels: tuple[NgramLevel, ...]

    @property
    def order(self) -> int:
        """Length of the longest n-grams."""
        return len(self.levels)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Word ids, by word."""
        return {word: i for i, word in enumerate(self.words)}

    def filter(self, masks: Sequence[BoolArray]) -> NgramTable:
        """Return the table with some of the n-grams.

        Parameters
        ----------
        masks
            Whether to retain each n-gram, one boolean array per order. If an n-gram is retained,
            its context (all words but the last) must be retained too.
        """
        words = tuple(word for word, keep in zip(self.words, masks[0], strict=True) if keep)
        # The new id of an n-gram is the number of kept n-grams of its order before it.
        new_word_ids = np.cumsum(masks[0]) - 1
        new_context_ids = np.zeros(1, dtype=np.int64)  # The empty context of unigrams has id 0.
        levels = []
        for level, is_kept in zip(self.levels, masks, strict=True):
            contexts, last_words = np.divmod(level.keys[is_kept], len(self.words))
            keys = new_context_ids[contexts] * len(words) + new_word_ids[last_words]
            levels.append(NgramLevel(keys, level.log_probs[is_kept], level.log_backoffs[is_kept]))
            new_context_ids = np.cumsum(is_kept) - 1
        return NgramTable(words, tuple(levels))

    @cached_property
    def suffix_ids(self) -> list[IntArray]:
        """Ids of the suffixes of all n-grams, one array per order.

        The suffix of an n-gram is the n-gram without its first word, which belongs to the next
        lower order. The id is -1 if the table does not contain the suffix, and 0 for unigrams.
        """
        n_words = len(self.words)
        suffix_ids = [np.zeros(n_words, dtype=np.int64)]
        for lower, level in zip(self.levels, self.levels[1:], strict=False):
            contexts, last_words = np.divmod(level.keys, n_words)
            if len(suffix_ids) == 1:  # The suffix of a bigram is its last word.
                suffix_ids.append(last_words)
                continue
            # The suffix of "a b c" consists of the suffix of its context "a b" and the word "c".
            context_suffixes = suffix_ids[-1][contexts]
            indices = find_sorted(lower.keys, context_suffixes * n_words + last_words)
            suffix_ids.append(np.where(context_suffixes < 0, -1, indices))
        return suffix_ids


class _Matches(NamedTuple):
    """N-grams of one order that contain candidate words, with no more than one per candidate.

    ``ids[i]`` is the id of the n-gram that contains the candidate with the word id ``words[i]``.
    """

    words: IntArray
    ids: IntArray


class ReplacementScorer:
    """Scorer of a sentence with each of V candidate words at one position, for back-off models.

    In a model of order N the candidate affects N word log-probabilities: the candidate's, and those
    of the N-1 words after it. Each is computed for all candidates at once, by the back-off formula

        log p(w | c) = log_prob(c w)                     if the table contains the n-gram c w,
                       log_backoff(c) + log p(w | c')    otherwise,

    where c' is the context c without its first word. The computation proceeds from the shortest
    context to the longest. For each length, it adds the back-off weight of the candidates whose
    context c is in the table, and then inserts the log-probability of the candidates whose n-gram
    is in the table. The table contains the suffixes of all n-grams, so a candidate with a longer
    context also has all shorter ones.

    Parameters
    ----------
    table
        N-gram model with all suffixes.
    """

    def __init__(self, table: NgramTable) -> None:
        self.table = table
        self._size = len(table.words)
        all_words = np.arange(self._size)
        self._unigrams = _Matches(all_words, all_words)

        # For each order above 1, the n-grams sorted by suffix, with their first words, and the
        # end of the group of n-grams with each suffix.
        self._by_suffix: list[tuple[_Matches, IntArray]] = []
        first_words = all_words
        for n, suffixes in enumerate(table.suffix_ids[1:], start=1):
            first_words = first_words[table.levels[n].keys // self._size]
            order = np.argsort(suffixes, kind="stable")
            n_suffixes = len(table.levels[n - 1].keys)
            ends = np.cumsum(np.bincount(suffixes, minlength=n_suffixes))
            self._by_suffix.append((_Matches(first_words[order], order), ends))

    def _find_ngram(self, order: int, context: int, word: int) -> int:
        """Return the id of an n-gram, or -1 if the table does not contain it.

        The n-gram is given by the id of its context (all words but the last) and its last word.
        """
        keys = self.table.levels[order - 1].keys
        key = context * self._size + word
        index = int(keys.searchsorted(key))
        return index if index < len(keys) and keys[index] == key else -1

    def _context_ids(self, tokens: list[int], stop: int) -> list[int]:
        """Return the ids of the contexts of the token at index `stop`, the shortest first.

        A context consists of the 1, 2, ... tokens before `stop`. The list ends before the first
        context that the table does not contain.
        """
        ids: list[int] = []
        for order in range(1, min(self.table.order - 1, stop) + 1):
            first_token, *next_tokens = tokens[stop - order : stop]
            ngram = first_token
            # Extend the n-gram word by word.
            for n, token in enumerate(next_tokens, start=2):
                ngram = self._find_ngram(n, ngram, token)
                if ngram < 0:
                    return ids
            ids.append(ngram)
        return ids

    def _log10_prob(self, context_ids: list[int], word: int) -> float:
        """Return log10 p(word | context).

        `context_ids` are the contexts of the word, see `_context_ids`. Back-off weights are added
        until a context is found that forms an n-gram with the word.
        """
        levels = self.table.levels
        log_backoff = 0.0
        for order in range(len(context_ids) + 1, 1, -1):
            context = context_ids[order - 2]
            ngram = self._find_ngram(order, context, word)
            if ngram >= 0:
                return log_backoff + float(levels[order - 1].log_probs[ngram])
            log_backoff += float(levels[order - 2].log_backoffs[context])
        return log_backoff + float(levels[0].log_probs[word])

    def _score_candidates(self, context_ids: list[int]) -> tuple[FloatArray, list[_Matches]]:
        """Score every word as the continuation of one context.

        Returns
        -------
        log_probs
            log10 p(word | context), shape (V,).
        matches
            ``matches[n]``: n-grams that consist of the last n words of the context and a word.
        """
        levels, matches = self.table.levels, [self._unigrams]
        log_probs = levels[0].log_probs.copy()
        for n, context in enumerate(context_ids, start=1):
            # The keys of the n-grams of one context are consecutive.
            keys = levels[n].keys
            first_key = context * self._size
            begin, end = keys.searchsorted((first_key, first_key + self._size)).tolist()
            matches.append(_Matches(keys[begin:end] - first_key, np.arange(begin, end)))
            log_probs += levels[n - 1].log_backoffs[context]
            log_probs[matches[n].words] = levels[n].log_probs[matches[n].ids]
        return log_probs, matches

    def next_log10_probs(self, tokens: list[int]) -> FloatArray:
        """Return log10 p(word | tokens) for all V words; `tokens` begin with ``<s>``."""
        return self._score_candidates(self._context_ids(tokens, len(tokens)))[0]

    def score(self, tokens: list[int], position: int) -> FloatArray:
        """Return the base-10 log-probability of a sentence for each word at one position.

        Parameters
        ----------
        tokens
            Token ids of the sentence, from ``<s>`` to ``</s>`` if the end is scored. The id at
            `position` is ignored.
        position
            Index of the word to replace, at least 1.

        Returns
        -------
        scores
            Shape (V,).
        """
        levels, order = self.table.levels, self.table.order
        constant = sum(
            self._log10_prob(self._context_ids(tokens, t), tokens[t])
            for t in range(1, len(tokens))
            if not position <= t < position + order
        )
        totals = np.full(self._size, constant, dtype=np.float64)

        # Add log p(candidate | words before it). matches[j] contains the n-grams of the j words
        # before the candidate and the candidate.
        log_probs, matches = self._score_candidates(self._context_ids(tokens, position))
        totals += log_probs

        # Add log p(word | words before it) for each following word whose context includes the
        # candidate. matches[j] is extended to the n-grams that end with this word.
        suffix = -1  # n-gram from the word after the candidate to this word
        for distance in range(1, min(order, len(tokens) - position)):
            word = tokens[position + distance]
            between = tokens[position + 1 : position + distance]
            if distance == 1:
                suffix = word
            elif suffix >= 0:
                suffix = self._find_ngram(distance, suffix, word)
            contexts = matches[: order - distance]
            matches = [self._prepend_candidates(distance + 1, suffix)]
            for n, context in enumerate(contexts[1:], start=distance + 2):
                matches.append(self._append_word(n, context, word))
            # Start with the longest context that does not include the candidate.
            log_probs.fill(self._log10_prob(self._context_ids(between, distance - 1), word))
            for n, (context, ngrams) in enumerate(
                zip(contexts, matches, strict=True), start=distance
            ):
                log_probs[context.words] += levels[n - 1].log_backoffs[context.ids]
                log_probs[ngrams.words] = levels[n].log_probs[ngrams.ids]
            totals += log_probs
        return totals

    def _prepend_candidates(self, order: int, suffix: int) -> _Matches:
        """Return the n-grams of one order that consist of a candidate followed by `suffix`.

        `suffix` is the id of an n-gram of the next lower order, or -1 for no n-gram.
        """
        matches, ends = self._by_suffix[order - 2]
        if suffix < 0:
            return _Matches(matches.words[:0], matches.ids[:0])
        group = slice(ends[suffix - 1] if suffix else 0, ends[suffix])
        return _Matches(matches.words[group], matches.ids[group])

    def _append_word(self, order: int, contexts: _Matches, word: int) -> _Matches:
        """Return the n-grams of one order that consist of one of `contexts` followed by `word`."""
        ids = find_sorted(self.table.levels[order - 1].keys, contexts.ids * self._size + word)
        return _Matches(contexts.words[ids >= 0], ids[ids >= 0])
