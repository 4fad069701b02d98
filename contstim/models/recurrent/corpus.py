"""Training text: files of one sentence a line, as token ids, and batches of equal length."""

from __future__ import annotations

import itertools
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.recurrent import TokenVocabulary
from contstim.models.words import END, START, UNKNOWN, training_sentences

#: A line of more tokens than this is no sentence, and would take memory without bound.
_LONGEST = 2000


def _sentences(path: Path, punctuation: str) -> Iterator[list[str]]:
    """Yield the tokens of each line that has any; refuse lines that are no sentences."""
    for number, tokens in training_sentences(path, punctuation):
        if len(tokens) > _LONGEST:
            raise InputError(
                f"line {number} of {str(path)!r} has {len(tokens)} tokens; "
                f"give one sentence a line, of at most {_LONGEST}"
            )
        yield tokens


def count_words(paths: Iterable[Path], punctuation: str) -> Counter[str]:
    """Count the tokens of text files."""
    counts: Counter[str] = Counter()
    for path in paths:
        for tokens in _sentences(path, punctuation):
            counts.update(tokens)
    return counts


def make_vocabulary(counts: Counter[str], min_count: int) -> TokenVocabulary:
    """Keep the words seen `min_count` times or more, most frequent first, ties by spelling."""
    frequent = [word for word, n in counts.items() if n >= min_count]
    if not frequent:
        raise InputError(f"no word of the text is seen {min_count} times; lower the minimum count")
    return ranked_vocabulary(sorted(frequent), counts)


def ranked_vocabulary(words: Iterable[str], counts: Counter[str]) -> TokenVocabulary:
    """Put `words` in order, most frequent first; equally frequent ones stay in their order."""
    ranked = sorted(words, key=lambda word: -counts[word])
    return TokenVocabulary(tuple(word for word in ranked if word not in {START, END, UNKNOWN}))


@dataclass(frozen=True, eq=False)
class TokenCorpus:
    """S sentences as token ids: sentence s is ``ids[offsets[s]:offsets[s + 1]]``.

    Attributes
    ----------
    ids
        All tokens one after the other, boundary symbols left out.
    offsets
        Shape (S + 1,).
    repeats
        How often each sentence is seen in a pass, shape (S,); 0.5 is every other pass, at random.
    """

    ids: NDArray[np.int32]
    offsets: IntArray
    repeats: FloatArray

    @classmethod
    def read(
        cls,
        paths: Sequence[Path],
        vocabulary: TokenVocabulary,
        punctuation: str,
        weights: Sequence[float],
    ) -> TokenCorpus:
        """Read text files; each sentence of file k is seen ``weights[k]`` times a pass."""
        table = vocabulary.ids()
        # Compact arrays, not lists of objects: a text may have hundreds of millions of words.
        ids, lengths, repeats = array("i"), array("i"), array("d")
        for path, weight in zip(paths, weights, strict=True):
            before = len(lengths)
            for tokens in _sentences(path, punctuation):
                ids.extend(table.get(token, vocabulary.unknown) for token in tokens)
                lengths.append(len(tokens))
            if len(lengths) == before:
                raise InputError(f"there is no sentence in {str(path)!r}")
            repeats.extend(itertools.repeat(weight, len(lengths) - before))
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        return cls(np.frombuffer(ids, dtype=np.int32), offsets, np.frombuffer(repeats))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        """Tokens of each sentence, shape (S,)."""
        return np.diff(self.offsets)

    def choose(self, index: IntArray) -> TokenCorpus:
        """Return the sentences at `index`, in that order."""
        lengths = self.lengths[index]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        starts = np.repeat(self.offsets[index] - offsets[:-1], lengths)
        return TokenCorpus(self.ids[starts + np.arange(offsets[-1])], offsets, self.repeats[index])

    def split(self, share: float, seed: int) -> tuple[TokenCorpus, TokenCorpus]:
        """Part the sentences at random: most of them, and about `share` (at least one)."""
        order = np.random.default_rng([seed, 1]).permutation(len(self))
        n = max(1, round(share * len(self)))
        if n >= len(self):
            raise InputError(f"{len(self)} sentences are too few to hold out {share:g} of them")
        return self.choose(np.sort(order[n:])), self.choose(np.sort(order[:n]))

    def first_tokens(self, n: int, seed: int) -> TokenCorpus:
        """Return sentences drawn at random, with about `n` tokens in all."""
        order = np.random.default_rng([seed, 2]).permutation(len(self))
        kept = int(np.searchsorted(np.cumsum(self.lengths[order]), n)) + 1
        return self.choose(np.sort(order[:kept]))

    def batches(self, tokens: int, seed: int, epoch: int) -> list[IntArray]:
        """Lay one pass out in batches of sentences of one length, in random order.

        A batch has at most `tokens` tokens, the end symbol counted, but at least one sentence.
        """
        rng = np.random.default_rng([seed, 3, epoch])
        times = np.floor(self.repeats + rng.random(len(self))).astype(np.int64)
        drawn = rng.permutation(np.repeat(np.arange(len(self)), times))
        lengths = self.lengths[drawn]
        drawn = drawn[np.argsort(lengths, kind="stable")]
        batches: list[IntArray] = []
        for same in np.split(drawn, np.flatnonzero(np.diff(np.sort(lengths))) + 1):
            if len(same):
                size = max(1, tokens // (int(self.lengths[same[0]]) + 1))
                batches += [same[i : i + size] for i in range(0, len(same), size)]
        return [batches[i] for i in rng.permutation(len(batches))]

    def sequences(self, index: IntArray, vocabulary: TokenVocabulary) -> tuple[IntArray, IntArray]:
        """Return inputs and targets of sentences of one length T, each (T + 1, B)."""
        length = int(self.lengths[index[0]])
        body = self.ids[self.offsets[index] + np.arange(length)[:, None]].astype(np.int64)
        start = np.full((1, len(index)), vocabulary.start)
        end = np.full((1, len(index)), vocabulary.end)
        return np.concatenate([start, body]), np.concatenate([body, end])
