"""Text for training: sentences to word ids under a vocabulary."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from contstim.errors import InputError
from contstim.models.words import END, START, UNKNOWN
from contstim.text.sentence import tokens_of_word

__all__ = ["Corpus", "NgramVocabulary", "read_corpus", "read_word_set"]

_CHUNK = 1 << 23
_RESERVED = (UNKNOWN, START, END)


@dataclass(frozen=True)
class NgramVocabulary:
    """Which words of the text a model keeps.

    Attributes
    ----------
    words
        The words, or None for those of the text.
    min_count
        Of the text's words, keep those that occur at least so often. Given `words` stay whole.
    closed
        If true, the model has no unknown-word class and a word outside `words` is an error;
        otherwise every other word is counted as ``<unk>``.
    """

    words: tuple[str, ...] | None = None
    min_count: int = 1
    closed: bool = False

    def __post_init__(self) -> None:
        if self.min_count < 1:
            raise InputError(f"min_count must be at least 1, got {self.min_count}")
        if self.closed and self.words is None and self.min_count > 1:
            raise InputError(
                "a closed vocabulary cannot leave out words of the text; give min_count 1, a list "
                "of words, or leave the vocabulary open"
            )


@dataclass(frozen=True, eq=False)
class Corpus:
    """Sentences as ids, one after the other.

    Attributes
    ----------
    words
        The V words by id, with ``<s>``, ``</s>`` and, unless closed, ``<unk>``.
    ids
        The tokens of all sentences, each sentence between ``<s>`` and ``</s>``.
    n_sentences
        Number of sentences.
    """

    words: tuple[str, ...]
    ids: NDArray[np.int32]
    n_sentences: int

    @property
    def n_tokens(self) -> int:
        """Number of words, ``<s>`` and ``</s>`` left out."""
        return len(self.ids) - 2 * self.n_sentences


class _Interned(dict[str, int]):
    """Gives each new word the next id."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


class _Tokens(dict[str, list[str]]):
    """Remembers the tokens of each whitespace-separated word."""

    def __init__(self, punctuation: str) -> None:
        super().__init__()
        self.punctuation = punctuation

    def __missing__(self, word: str) -> list[str]:
        self[word] = tokens = tokens_of_word(word, self.punctuation)
        return tokens


def _open(path: Path) -> IO[bytes]:
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
    except OSError as error:
        raise InputError(f"cannot read the text {str(path)!r}: {error.strerror}") from error
    return cast(IO[bytes], gzip.open(path, "rb")) if zipped else path.open("rb")


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield blocks of lines, each with the number of its first line."""
    number = 1
    with _open(path) as file:
        try:
            while raw := file.readlines(_CHUNK):
                try:
                    text = b"".join(raw).decode()
                except UnicodeDecodeError as error:
                    line = number + error.object[: error.start].count(b"\n")
                    raise InputError(
                        f"line {line} of {str(path)!r} is not UTF-8; convert the text to UTF-8"
                    ) from error
                yield number, text.split("\n")
                number += len(raw)
        except (EOFError, gzip.BadGzipFile) as error:
            raise InputError(f"the gzipped text {str(path)!r} is damaged: {error}") from error


def read_word_set(path: Path) -> tuple[str, ...]:
    """Read a vocabulary file, words separated by white space; repeated words count once.

    Raises
    ------
    InputError
        If the file cannot be read, holds no word, or lists a symbol such as ``<s>``.
    """
    words = tuple(dict.fromkeys(w for _, lines in _lines(path) for x in lines for w in x.split()))
    if not words:
        raise InputError(f"the vocabulary {str(path)!r} holds no word")
    return words


def read_corpus(
    paths: Sequence[Path], vocabulary: NgramVocabulary, *, punctuation: str = "keep"
) -> Corpus:
    """Read texts of one sentence a line, words separated by white space.

    Lines without a word are no sentences and are left out.

    Parameters
    ----------
    paths
        Plain or gzipped UTF-8 files.
    vocabulary
        Which words to keep.
    punctuation
        Passed to :func:`contstim.text.sentence.tokens_of_word`; ``keep`` takes words as given.

    Raises
    ------
    InputError
        If a file is unreadable or not UTF-8, there is no word in it, ``<s>``, ``</s>`` or
        ``<unk>`` stands in it as a word, or a word is outside a closed vocabulary.
    """
    interned = _Interned({word: number for number, word in enumerate(_RESERVED)})
    tokens = _Tokens(punctuation)
    unknown, start, end = (interned[word] for word in _RESERVED)
    blocks: list[NDArray[np.int32]] = []
    n_sentences = 0
    for path in paths:
        for first, lines in _lines(path):
            flat: list[str] = []
            lengths: list[int] = []
            for line in lines:
                words = line.split()
                if punctuation != "keep":
                    words = list(chain.from_iterable(map(tokens.__getitem__, words)))
                if words:
                    flat += words
                    lengths.append(len(words))
            ids = np.fromiter(map(interned.__getitem__, flat), np.int32, len(flat))
            if len(ids) and ids.min() < len(_RESERVED):
                _refuse_reserved(path, first, lines)
            blocks.append(_bounded(ids, np.array(lengths, dtype=np.int64), start, end))
            n_sentences += len(lengths)
    if not n_sentences:
        names = ", ".join(repr(str(path)) for path in paths)
        raise InputError(f"there is no sentence in {names}; give one sentence a line")
    ids = np.concatenate(blocks)
    blocks.clear()
    counts = np.bincount(ids, minlength=len(interned))
    names_seen = list(interned)
    if vocabulary.words is None:
        kept = [
            w for w, n in zip(names_seen[3:], counts[3:], strict=True) if n >= vocabulary.min_count
        ]
    else:
        kept = [word for word in vocabulary.words if word not in _RESERVED]
    symbols = [START, END] if vocabulary.closed else [UNKNOWN, START, END]
    final = [*symbols, *kept]
    place = {word: number for number, word in enumerate(final)}
    renumber = np.array([place.get(w, -1) for w in names_seen], dtype=np.int32)
    outside = (renumber < 0) & (counts > 0)
    if vocabulary.closed and outside.any():
        word = names_seen[int(np.flatnonzero(outside)[0])]
        raise InputError(
            f"the text holds {word!r}, which the closed vocabulary lacks; add it or leave the "
            "vocabulary open"
        )
    renumber[renumber < 0] = place.get(UNKNOWN, unknown)
    return Corpus(tuple(final), renumber[ids], n_sentences)


def _refuse_reserved(path: Path, first: int, lines: list[str]) -> None:
    for number, line in enumerate(lines, start=first):
        for word in _RESERVED:
            if word in line:
                raise InputError(
                    f"line {number} of {str(path)!r} holds {word}, which stands for itself in an "
                    "n-gram model; take it out of the text"
                )


def _bounded(
    ids: NDArray[np.int32], lengths: NDArray[np.int64], start: int, end: int
) -> NDArray[np.int32]:
    """Put `start` and `end` around the sentences of the given `lengths`."""
    out = np.empty(len(ids) + 2 * len(lengths), dtype=np.int32)
    ends = np.cumsum(lengths + 2)
    inner = np.ones(len(out), dtype=np.bool_)
    inner[ends - 1] = inner[ends - lengths - 2] = False
    out[ends - lengths - 2] = start
    out[ends - 1] = end
    out[inner] = ids
    return out
