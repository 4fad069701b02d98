"""Texts to train on: their words as ids, and sentences in batches of one length."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from contstim.arrays import FloatArray, IntArray, TokenArray, length_batches
from contstim.errors import InputError
from contstim.text import PUNCTUATION_POLICIES, tokenize_word
from contstim.text.language import Language
from contstim.text.languages import ENGLISH
from contstim.text.normalise import alphanumeric_key
from contstim.text_files import read_lines

if TYPE_CHECKING:
    from contstim.models.recurrent import TokenVocabulary


def tokenize_lines(
    path: str | PathLike[str], punctuation: str, language: Language = ENGLISH
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the tokens of each line that has any.

    Parameters
    ----------
    path
        A UTF-8 file, gzip-compressed if its name ends in ``.gz``.
    punctuation
        Passed to :func:`contstim.text.tokenize_word`; ``keep`` takes words as given.
    language
        What cuts lines into words.

    Raises
    ------
    InputError
        For another `punctuation`, and for a file that cannot be read or is not UTF-8.
    """
    if punctuation not in PUNCTUATION_POLICIES:
        choices = ", ".join(PUNCTUATION_POLICIES)
        raise InputError(f"punctuation must be one of {choices}, got {punctuation!r}")
    # A text repeats most of its words.
    tokens_of = cache(partial(tokenize_word, punctuation=punctuation))
    for number, line in read_lines(path):
        tokens = language.split(line)
        if punctuation != "keep" or not language.is_space_delimited:
            tokens = list(chain.from_iterable(map(tokens_of, tokens)))
        if tokens:
            yield number, tokens


class _Interned(dict[str, int]):
    """Gives each new word the next id."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


@dataclass(frozen=True, eq=False)
class TrainingText:
    """S sentences of N tokens as ids, one after the other.

    Attributes
    ----------
    words
        The V words by id, in the order in which they first occur.
    ids
        The tokens, shape (N,).
    lengths
        Tokens of each sentence, shape (S,).
    n_sentences
        Number of sentences of each file.
    """

    words: tuple[str, ...]
    ids: TokenArray
    lengths: IntArray
    n_sentences: tuple[int, ...]

    @property
    def counts(self) -> IntArray:
        """How often each word occurs, shape (V,)."""
        return np.bincount(self.ids, minlength=len(self.words))

    def letters(self) -> Iterator[str]:
        """Yield of each sentence its :func:`~contstim.text.normalise.alphanumeric_key`."""
        # Case is folded letter by letter, so each word's letters are found once.
        letters = [alphanumeric_key(word) for word in self.words]
        end = 0
        for length in self.lengths.tolist():
            begin, end = end, end + length
            yield "".join([letters[i] for i in self.ids[begin:end].tolist()])

    def renumbered(self, table: Mapping[str, int], other: int) -> TokenArray:
        """Return the tokens by the ids of `table`, and `other` where it has none; shape (N,)."""
        return np.array([table.get(word, other) for word in self.words], dtype=np.int32)[self.ids]


def read_text(
    paths: Sequence[str | PathLike[str]],
    punctuation: str,
    longest: int | None = None,
    language: Language = ENGLISH,
) -> TrainingText:
    """Read text files, lines without a token left out.

    Parameters
    ----------
    paths, punctuation, language
        As for `tokenize_lines`.
    longest
        Most tokens of a sentence; any number if None.

    Raises
    ------
    InputError
        As `tokenize_lines`, and for a line of more than `longest` tokens.
    """
    interned = _Interned()
    # Compact arrays, not lists of objects: a text may have hundreds of millions of words.
    ids, lengths, n_sentences = array("i"), array("i"), []
    for path in paths:
        before = len(lengths)
        for number, tokens in tokenize_lines(path, punctuation, language):
            if longest is not None and len(tokens) > longest:
                raise InputError(
                    f"line {number} of {str(path)!r} has {len(tokens)} tokens; "
                    f"give one sentence per line, of at most {longest}"
                )
            ids.extend(map(interned.__getitem__, tokens))
            lengths.append(len(tokens))
        n_sentences.append(len(lengths) - before)
    return TrainingText(
        tuple(interned),
        np.array(ids, dtype=np.int32),
        np.array(lengths, dtype=np.int64),
        tuple(n_sentences),
    )


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

    ids: TokenArray
    offsets: IntArray
    repeats: FloatArray

    @classmethod
    def from_text(
        cls, text: TrainingText, vocabulary: TokenVocabulary, weights: Sequence[float]
    ) -> TokenCorpus:
        """Take the ids of `vocabulary`; each sentence of file k is seen ``weights[k]`` times."""
        ids = text.renumbered(vocabulary.ids(), vocabulary.unknown)
        offsets = np.concatenate([[0], np.cumsum(text.lengths)])
        return cls(ids, offsets, np.repeat(np.array(weights, np.float64), text.n_sentences))

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
        """Split the sentences at random: most of them, and about `share` (at least one)."""
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
        batches = length_batches(drawn, self.lengths, lambda length: tokens // (length + 1))
        return [batches[i] for i in rng.permutation(len(batches))]

    def sequences(self, index: IntArray, vocabulary: TokenVocabulary) -> tuple[IntArray, IntArray]:
        """Return inputs and targets of sentences of one length T, each (T + 1, B)."""
        length = int(self.lengths[index[0]])
        body = self.ids[self.offsets[index] + np.arange(length)[:, None]].astype(np.int64)
        start = np.full((1, len(index)), vocabulary.start)
        end = np.full((1, len(index)), vocabulary.end)
        return np.concatenate([start, body]), np.concatenate([body, end])
