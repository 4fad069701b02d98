"""Training text: files of one sentence a line, as token ids, and batches of equal length."""

from __future__ import annotations

import gzip
import io
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
from contstim.models.recurrent.network import TokenVocabulary
from contstim.models.words import END, START, UNKNOWN
from contstim.text.sentence import PUNCTUATION_POLICIES, tokens_of_word

__all__ = ["TokenCorpus", "count_words", "make_vocabulary", "read_ranked_words"]

#: A line of more tokens than this is no sentence, and would take memory without bound.
_LONGEST = 2000


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, or of one compressed with gzip (``.gz``)."""
    try:
        with (
            path.open("rb") as raw,
            gzip.open(raw) if path.suffix == ".gz" else raw as data,
            io.TextIOWrapper(data, encoding="utf-8") as lines,
        ):
            yield from lines
    except FileNotFoundError as error:
        raise InputError(f"there is no file {str(path)!r}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{str(path)!r} is not UTF-8 text; convert it first") from error
    except (OSError, EOFError) as error:
        raise InputError(f"{str(path)!r} cannot be read: {error}") from error


def _sentences(path: Path, punctuation: str) -> Iterator[list[str]]:
    """Yield the tokens of each line that has any."""
    if punctuation not in PUNCTUATION_POLICIES:
        raise InputError(
            f"punctuation must be one of {', '.join(PUNCTUATION_POLICIES)}, got {punctuation!r}"
        )
    for number, line in enumerate(_lines(path), start=1):
        tokens = line.split()
        if punctuation != "keep":
            tokens = [token for word in tokens for token in tokens_of_word(word, punctuation)]
        if len(tokens) > _LONGEST:
            raise InputError(
                f"line {number} of {str(path)!r} has {len(tokens)} tokens; "
                f"give one sentence a line, of at most {_LONGEST}"
            )
        if tokens:
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
    kept = [word for word, n in counts.items() if n >= min_count]
    kept.sort(key=lambda word: (-counts[word], word))
    if not kept:
        raise InputError(f"no word of the text is seen {min_count} times; lower the minimum count")
    return _without_symbols(kept)


def read_ranked_words(path: Path, counts: Counter[str]) -> TokenVocabulary:
    """Read a file of one word a line; `counts` orders the words, most frequent first."""
    words = [line.strip() for line in _lines(path)]
    listed = list(dict.fromkeys(word for word in words if word))
    for word in listed:
        if len(word.split()) > 1:
            raise InputError(f"{str(path)!r} must hold one word a line, got {word!r}")
    listed.sort(key=lambda word: -counts[word])
    if not listed:
        raise InputError(f"the vocabulary file {str(path)!r} is empty")
    return _without_symbols(listed)


def _without_symbols(words: Iterable[str]) -> TokenVocabulary:
    return TokenVocabulary(tuple(word for word in words if word not in {START, END, UNKNOWN}))


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
        How often each sentence is seen in a pass, shape (S,); 0.5 is every other pass, by lot.
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
        """Part the sentences by lot: most of them, and about `share` (at least one)."""
        order = np.random.default_rng([seed, 1]).permutation(len(self))
        n = max(1, round(share * len(self)))
        if n >= len(self):
            raise InputError(f"{len(self)} sentences are too few to hold out {share:g} of them")
        return self.choose(np.sort(order[n:])), self.choose(np.sort(order[:n]))

    def first_tokens(self, n: int, seed: int) -> TokenCorpus:
        """Return sentences drawn by lot, with about `n` tokens in all."""
        order = np.random.default_rng([seed, 2]).permutation(len(self))
        kept = int(np.searchsorted(np.cumsum(self.lengths[order]), n)) + 1
        return self.choose(np.sort(order[:kept]))

    def batches(self, tokens: int, seed: int, epoch: int) -> list[IntArray]:
        """Deal one pass out into batches of sentences of one length, in an order drawn by lot.

        A batch has at most `tokens` tokens, the end symbol counted, but at least one sentence.
        """
        rng = np.random.default_rng([seed, 3, epoch])
        times = np.floor(self.repeats + rng.random(len(self))).astype(np.int64)
        drawn = rng.permutation(np.repeat(np.arange(len(self)), times))
        lengths = self.lengths[drawn]
        drawn = drawn[np.argsort(lengths, kind="stable")]
        dealt: list[IntArray] = []
        for same in np.split(drawn, np.flatnonzero(np.diff(np.sort(lengths))) + 1):
            if len(same):
                size = max(1, tokens // (int(self.lengths[same[0]]) + 1))
                dealt += [same[i : i + size] for i in range(0, len(same), size)]
        return [dealt[i] for i in rng.permutation(len(dealt))]

    def sequences(self, index: IntArray, vocabulary: TokenVocabulary) -> tuple[IntArray, IntArray]:
        """Return inputs and targets of sentences of one length T, each (T + 1, B)."""
        length = int(self.lengths[index[0]])
        body = self.ids[self.offsets[index] + np.arange(length)[:, None]].astype(np.int64)
        start = np.full((1, len(index)), vocabulary.start)
        end = np.full((1, len(index)), vocabulary.end)
        return np.concatenate([start, body]), np.concatenate([body, end])
