"""N-gram models as sorted arrays: the one in-memory form that training, ARPA and scoring share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray

__all__ = ["Level", "NgramTable", "find"]


def find(keys: IntArray, wanted: IntArray) -> IntArray:
    """Return the place of each of `wanted` in the sorted `keys`, or -1 where it is absent."""
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int64)
    places = np.searchsorted(keys, wanted)
    places[places == len(keys)] = 0
    return np.where(keys[places] == wanted, places, -1)


class Level(NamedTuple):
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
        One :class:`Level` an order, from unigrams (all V, in order of id) up. Every n-gram's
        first and last n-1 words are n-grams of the level below.
    """

    words: tuple[str, ...]
    levels: tuple[Level, ...]

    @property
    def order(self) -> int:
        """The highest order."""
        return len(self.levels)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Id of each word."""
        return {word: i for i, word in enumerate(self.words)}

    def select(self, kept: Sequence[BoolArray]) -> NgramTable:
        """Return the table of the n-grams that are `kept`, one mask an order.

        Contexts of n-grams that are kept must be kept.
        """
        size = len(self.words)
        words = tuple(word for word, keep in zip(self.words, kept[0], strict=True) if keep)
        word_ids = np.cumsum(kept[0]) - 1
        context_ids = np.zeros(1, dtype=np.int64)
        levels = []
        for level, keep in zip(self.levels, kept, strict=True):
            old = level.keys[keep]
            keys = context_ids[old // size] * len(words) + word_ids[old % size]
            levels.append(Level(keys, level.log_probs[keep], level.log_backoffs[keep]))
            context_ids = np.cumsum(keep) - 1
        return NgramTable(words, tuple(levels))

    @cached_property
    def suffixes(self) -> list[IntArray]:
        """For each order the ids, one order down, of the n-grams without their first word.

        An id is -1 where the table lacks the shorter n-gram. Unigrams have the id 0.
        """
        size = len(self.words)
        found = [np.zeros(size, dtype=np.int64)]
        for lower, level in zip(self.levels, self.levels[1:], strict=False):
            shorter = found[-1][level.keys // size]
            if len(found) == 1:
                found.append(level.keys % size)
                continue
            places = find(lower.keys, shorter * size + level.keys % size)
            found.append(np.where(shorter < 0, -1, places))
        return found
