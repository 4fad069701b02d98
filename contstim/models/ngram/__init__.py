"""N-gram models as sorted arrays, and scores of all replacements of one word.

Training, ARPA files and scoring share the arrays of `NgramTable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
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
    """N-grams of one order with base-10 logarithms of probabilities, sorted by key.

    Attributes
    ----------
    keys
        Integers ``context * V + word`` that identify the n-grams. `word` is the id of the last
        word, `context` the id of the (n-1)-gram of the other words (0 for unigrams), and V the size
        of the vocabulary.
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
        The V words of the vocabulary, including ``<s>`` and ``</s>``. A word has its index as id.
    levels
        One :class:`NgramLevel` per order, that is, per number of words n. The first level contains
        all V unigrams. The first n-1 and the last n-1 words of each n-gram are n-grams of the next
        lower order.
    """

    words: tuple[str, ...]
    levels: tuple[NgramLevel, ...]

    @property
    def order(self) -> int:
        """Length of the longest n-grams."""
        return len(self.levels)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Mapping from word to id."""
        return {word: i for i, word in enumerate(self.words)}

    def select_ngrams(self, masks: Sequence[BoolArray]) -> NgramTable:
        """Return a table with selected n-grams.

        Parameters
        ----------
        masks
            Whether to select each n-gram, one boolean array per order. If an n-gram is selected,
            its context (all words but the last) must be selected too.
        """
        is_selected_word = masks[0]  # The first mask selects unigrams, that is, words.
        words = tuple(compress(self.words, is_selected_word))
        # The new id of an n-gram is the number of selected n-grams of its order before it.
        new_word_ids = np.cumsum(is_selected_word) - 1
        new_context_ids = np.zeros(1, dtype=np.int64)  # The empty context of unigrams has id 0.
        levels = []
        for level, is_selected in zip(self.levels, masks, strict=True):
            # The key of an n-gram is (id of its context) * V + (id of its last word), where the
            # context is the n-gram without its last word and V is the number of words.
            contexts, last_words = np.divmod(level.keys[is_selected], len(self.words))
            keys = new_context_ids[contexts] * len(words) + new_word_ids[last_words]
            log_probs, log_backoffs = level.log_probs[is_selected], level.log_backoffs[is_selected]
            levels.append(NgramLevel(keys, log_probs, log_backoffs))
            new_context_ids = np.cumsum(is_selected) - 1
        return NgramTable(words, tuple(levels))

    @cached_property
    def suffix_ids(self) -> list[IntArray]:
        """Ids of the suffixes of all n-grams, one array per order.

        The suffix of an n-gram is the (n-1)-gram of all words but the first. Its id is -1 if the
        table does not contain it, and 0 for the empty suffix of unigrams.
        """
        n_words = len(self.words)
        # The suffix of a word is the empty n-gram, which has the id 0.
        suffix_ids = [np.zeros(n_words, dtype=np.int64)]
        for lower, level in zip(self.levels, self.levels[1:], strict=False):
            # The key of an n-gram is (id of its first n-1 words) * V + (id of its last word).
            contexts, last_words = np.divmod(level.keys, n_words)
            if len(suffix_ids) == 1:  # The suffix of a bigram is its last word.
                suffix_ids.append(last_words)
                continue
            # The suffix of "a b c" consists of the suffix of its context "a b" and the word "c".
            # If the table does not contain it, its id is -1.
            context_suffixes = suffix_ids[-1][contexts]
            indices = find_sorted(lower.keys, context_suffixes * n_words + last_words)
            suffix_ids.append(np.where(context_suffixes < 0, -1, indices))
        return suffix_ids


class _CandidateNgrams(NamedTuple):
    """N-grams of one order that contain a candidate word, at most one for each candidate.

    The n-gram ``ids[i]`` contains the candidate with the word id ``words[i]``.
    """

    words: IntArray
    ids: IntArray


class ReplacementScorer:
    """Scorer of a sentence with each of V candidate words at one position, for back-off models.

    In a model of order N, a candidate affects the log-probabilities of N words: the candidate and
    the N-1 words after it. Each is computed for all candidates at once, by the back-off formula

        log p(w | c) = log_prob(c w)                     if the table contains the n-gram c w,
                       log_backoff(c) + log p(w | c')    otherwise,

    where c' is the context c without its first word. The computation starts with the shortest
    context. For each longer context c, the back-off weight of c is added for all candidates for
    which the table contains c. The result is then replaced by the log-probability of the n-gram c w
    for all candidates for which the table contains c w.

    Parameters
    ----------
    table
        N-gram model that contains the suffixes of all its n-grams.
    """

    def __init__(self, table: NgramTable) -> None:
        self.table = table
        self._size = len(table.words)
        all_words = np.arange(self._size)
        self._unigrams = _CandidateNgrams(all_words, all_words)

        # For example, the n-gram "the big dog" has the context "the big" and the suffix "big dog".
        # To find all first words that can precede a suffix, sort the n-grams of each order above 1
        # by their suffix. `level` contains the n-grams of n + 1 words.
        self._by_suffix: list[tuple[_CandidateNgrams, IntArray]] = []
        first_words = all_words
        for n, level in enumerate(table.levels[1:], start=1):
            # The key of an n-gram is (id of its context) * V + (id of its last word). The n-gram
            # has the same first word as its context, whose first word is known from the last order.
            context_ids = level.keys // self._size
            first_words = first_words[context_ids]
            suffix_ids = table.suffix_ids[n]
            sorted_ids = np.argsort(suffix_ids, kind="stable")
            # Count the n-grams with each suffix. The sum of the counts up to suffix s is the end of
            # the slice of sorted n-grams with suffix s.
            counts = np.bincount(suffix_ids, minlength=len(table.levels[n - 1].keys))
            sorted_ngrams = _CandidateNgrams(first_words[sorted_ids], sorted_ids)
            self._by_suffix.append((sorted_ngrams, np.cumsum(counts)))

    def _find_ngram(self, order: int, context: int, word: int) -> int:
        """Return the id of an n-gram, or -1 if the table does not contain it.

        The n-gram is given by the id of its context (all words but the last) and its last word.
        """
        keys = self.table.levels[order - 1].keys
        key = context * self._size + word
        index = int(keys.searchsorted(key))
        return index if index < len(keys) and keys[index] == key else -1

    def _find_context_ids(self, tokens: list[int], stop: int) -> list[int]:
        """Return the ids of the contexts of the token at index `stop`, the shortest first.

        The contexts are the n-grams of the last 1, 2, ... tokens before `stop`. The list ends
        before the first n-gram that the table does not contain.
        """
        ids: list[int] = []
        # In a model of order N, contexts have 1, 2, ..., N-1 tokens.
        for length in range(1, min(self.table.order - 1, stop) + 1):
            first_token, *next_tokens = tokens[stop - length : stop]
            ngram = first_token
            # Extend the n-gram word by word. -1: the table does not contain it.
            for n, token in enumerate(next_tokens, start=2):
                ngram = self._find_ngram(n, ngram, token)
                if ngram < 0:
                    return ids
            ids.append(ngram)
        return ids

    def _log10_prob(self, context_ids: list[int], word: int) -> float:
        """Return log10 p(word | context) for one word, by the back-off formula.

        Starting with the longest context, back-off weights are added until the table contains the
        n-gram of the context and the word.

        Parameters
        ----------
        context_ids
            Ids of the contexts of the word, the shortest first (`_find_context_ids`).
        word
            Id of the word.
        """
        levels = self.table.levels
        log_backoff = 0.0
        # Start with the longest context. In each step, the context has `order - 1` words.
        for order in range(len(context_ids) + 1, 1, -1):
            context = context_ids[order - 2]
            ngram = self._find_ngram(order, context, word)
            if ngram >= 0:
                return log_backoff + float(levels[order - 1].log_probs[ngram])
            # The table lacks the n-gram: add the back-off weight, and drop the first word.
            log_backoff += float(levels[order - 2].log_backoffs[context])
        return log_backoff + float(levels[0].log_probs[word])

    def _score_all_words(self, context_ids: list[int]) -> tuple[FloatArray, list[_CandidateNgrams]]:
        """Score every word as the continuation of one context.

        Parameters
        ----------
        context_ids
            Ids of the n-grams of the last 1, 2, ... words of the context, see `_find_context_ids`.

        Returns
        -------
        log_probs
            log10 p(word | context), shape (V,).
        ngrams
            N-grams that end with a candidate word, by the number n of context words before it.
            Element 0 contains the unigrams of all words. Element n contains the n-grams of the
            table that consist of the last n words of the context and one further word.
        """
        levels, ngrams = self.table.levels, [self._unigrams]
        # Start with unigram probabilities, and proceed from the shortest to the longest context.
        log_probs = levels[0].log_probs.copy()
        for n, context in enumerate(context_ids, start=1):
            # Find the n-grams that continue the context. A key is context * V + word for V words,
            # and keys are sorted, so these n-grams are consecutive.
            keys = levels[n].keys
            first_key = context * self._size
            begin, end = keys.searchsorted((first_key, first_key + self._size)).tolist()
            continued = _CandidateNgrams(keys[begin:end] - first_key, np.arange(begin, end))
            ngrams.append(continued)
            # Words without such an n-gram back off to the shorter context.
            log_probs += levels[n - 1].log_backoffs[context]
            log_probs[continued.words] = levels[n].log_probs[continued.ids]
        return log_probs, ngrams

    def next_log10_probs(self, tokens: list[int]) -> FloatArray:
        """Return log10 p(word | tokens) for all V words, given `tokens` from ``<s>`` on."""
        log_probs, _ = self._score_all_words(self._find_context_ids(tokens, len(tokens)))
        return log_probs

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
            Log-probability of the sentence with each of the V words of the vocabulary, shape (V,).
        """
        levels, order = self.table.levels, self.table.order
        # Words that do not depend on the candidate.
        constant = sum(
            self._log10_prob(self._find_context_ids(tokens, t), tokens[t])
            for t in range(1, len(tokens))
            if not position <= t < position + order
        )
        totals = np.full(self._size, constant, dtype=np.float64)

        # Add log p(candidate | words before it). ngrams[j] contains the n-grams of the j words
        # before the candidate and the candidate.
        log_probs, ngrams = self._score_all_words(self._find_context_ids(tokens, position))
        totals += log_probs

        # Add log p(word | words before it) for each following word with a context that includes the
        # candidate. ngrams[j] then contains the n-grams from j words before the candidate to the
        # word.
        suffix = -1  # id of the n-gram from the word after the candidate to the word
        for distance in range(1, min(order, len(tokens) - position)):
            word = tokens[position + distance]
            between = tokens[position + 1 : position + distance]
            if distance == 1:
                suffix = word
            elif suffix >= 0:
                suffix = self._find_ngram(distance, suffix, word)
            # The n-grams that end before the word are its contexts.
            contexts = ngrams[: order - distance]
            ngrams = [self._prepend_candidates(distance + 1, suffix)]
            for n, context in enumerate(contexts[1:], start=distance + 2):
                ngrams.append(self._append_word(n, context, word))
            # Start with the longest context that does not include the candidate, and apply the
            # back-off formula to longer contexts.
            log_probs.fill(self._log10_prob(self._find_context_ids(between, distance - 1), word))
            pairs = zip(contexts, ngrams, strict=True)
            for n, (context, extended) in enumerate(pairs, start=distance):
                log_probs[context.words] += levels[n - 1].log_backoffs[context.ids]
                log_probs[extended.words] = levels[n].log_probs[extended.ids]
            totals += log_probs
        return totals

    def _prepend_candidates(self, order: int, suffix: int) -> _CandidateNgrams:
        """Return the n-grams of one order that consist of a candidate followed by `suffix`.

        `suffix` is the id of an (n-1)-gram. If it is -1, no n-gram is returned.
        """
        ngrams, ends = self._by_suffix[order - 2]  # sorted by suffix, for orders from 2
        start = ends[suffix - 1] if suffix > 0 else 0
        stop = ends[suffix] if suffix >= 0 else 0
        group = slice(start, stop)
        return _CandidateNgrams(ngrams.words[group], ngrams.ids[group])

    def _append_word(self, order: int, contexts: _CandidateNgrams, word: int) -> _CandidateNgrams:
        """Return the n-grams of one order that consist of one of `contexts` followed by `word`."""
        ids = find_sorted(self.table.levels[order - 1].keys, contexts.ids * self._size + word)
        is_found = ids >= 0
        return _CandidateNgrams(contexts.words[is_found], ids[is_found])
