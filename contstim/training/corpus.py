"""Training corpora as token ids, and batches of sentences of equal length."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.word_tokenizer import END, START, UNKNOWN
from contstim.text import PUNCTUATION_POLICIES, tokenize_word
from contstim.text.language import Language
from contstim.text.languages import ENGLISH
from contstim.text_files import read_lines
from contstim.training.batches import batch_by_length

if TYPE_CHECKING:
    from contstim.models.recurrent import TokenVocabulary

#: Token ids of whole texts, in 32 bits to save memory.
TokenArray = NDArray[np.int32]


def tokenize_lines(
    path: str | PathLike[str], punctuation: str, language: Language = ENGLISH
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the tokens of each line that has any tokens.

    Parameters
    ----------
    path
        UTF-8 text file, gzip-compressed if its name ends in ``.gz``.
    punctuation
        Treatment of punctuation marks: ``keep``, ``split`` or ``drop`` (see
        :func:`contstim.text.tokenize_word`).
    language
        Language that determines how lines are split into words.

    Raises
    ------
    InputError
        If `punctuation` is unknown, or the file cannot be read or is not UTF-8.
    """
    if punctuation not in PUNCTUATION_POLICIES:
        choices = ", ".join(PUNCTUATION_POLICIES)
        raise InputError(f"punctuation must be one of {choices}, got {punctuation!r}")
    # The cache pays off because most words of a text are repeated.
    tokenize = cache(partial(tokenize_word, punctuation=punctuation))
    for line_number, line in read_lines(path):
        # Split the line into words and then, if requested, the words into tokens.
        tokens = language.split(line)
        if punctuation != "keep" or not language.is_space_delimited:
            tokens = list(chain.from_iterable(map(tokenize, tokens)))
        if tokens:
            yield line_number, tokens


@dataclass(frozen=True, eq=False)
class TrainingText:
    """Text of S sentences and N tokens as word ids.

    Attributes
    ----------
    words
        The V distinct words in the order of their first occurrence; a word's id is its index.
    ids
        Word ids of all sentences, concatenated, shape (N,).
    lengths
        Number of tokens per sentence, shape (S,).
    n_sentences
        Number of sentences per file.
    """

    words: tuple[str, ...]
    ids: TokenArray
    lengths: IntArray
    n_sentences: tuple[int, ...]

    @property
    def counts(self) -> IntArray:
        """Number of occurrences of each word, shape (V,)."""
        return np.bincount(self.ids, minlength=len(self.words))

    def frequent_words(self, min_count: int) -> tuple[str, ...]:
        """Return the words that occur at least `min_count` times, sorted by frequency.

        Words of equal frequency are sorted by spelling. Special tokens are omitted.
        """
        counts = self.counts.tolist()
        frequent = [word for word, n in zip(self.words, counts, strict=True) if n >= min_count]
        if not frequent:
            raise InputError(f"no word occurs {min_count} times; lower the minimum count")
        return self.sort_by_frequency(sorted(frequent))

    def sort_by_frequency(self, words: Iterable[str]) -> tuple[str, ...]:
        """Sort words by their frequency in the text, without changing the order of ties.

        Special tokens, such as ``<s>``, are omitted.
        """
        counts = dict(zip(self.words, self.counts.tolist(), strict=True))
        ordered = sorted(words, key=lambda word: -counts.get(word, 0))
        return tuple(word for word in ordered if word not in {START, END, UNKNOWN})

    def map_ids(self, ids_by_word: Mapping[str, int], unknown_id: int) -> TokenArray:
        """Convert all N tokens of the text to the ids of another vocabulary.

        Parameters
        ----------
        ids_by_word
            Ids of the words in the other vocabulary.
        unknown_id
            Id of words that the other vocabulary lacks.

        Returns
        -------
        (N,) array of int
            New token ids.
        """
        new_ids = [ids_by_word.get(word, unknown_id) for word in self.words]
        return np.array(new_ids, dtype=np.int32)[self.ids]


def read_text(
    paths: Sequence[str | PathLike[str]],
    punctuation: str,
    max_length: int | None = None,
    language: Language = ENGLISH,
) -> TrainingText:
    """Read text files with one sentence per line, skipping lines without tokens.

    Parameters
    ----------
    paths
        UTF-8 text files, gzip-compressed if the name ends in ``.gz``.
    punctuation
        Treatment of punctuation marks: ``keep``, ``split`` or ``drop``.
    max_length
        Maximum number of tokens per sentence; None for no maximum.
    language
        Language that determines how lines are split into words.

    Raises
    ------
    InputError
        If a file cannot be read, or a line has more than `max_length` tokens.
    """
    word_ids: defaultdict[str, int] = defaultdict()
    # An unseen word gets the next free id, which is the current number of words.
    word_ids.default_factory = word_ids.__len__
    # Compact arrays instead of lists, because a text may have hundreds of millions of words.
    ids, lengths, n_sentences = array("i"), array("i"), []
    for path in paths:
        n_before = len(lengths)
        for line_number, tokens in tokenize_lines(path, punctuation, language):
            if max_length is not None and len(tokens) > max_length:
                raise InputError(
                    f"line {line_number} of {str(path)!r} has {len(tokens)} tokens; "
                    f"give one sentence per line, of at most {max_length}"
                )
            ids.extend(map(word_ids.__getitem__, tokens))
            lengths.append(len(tokens))
        n_sentences.append(len(lengths) - n_before)
    return TrainingText(
        tuple(word_ids),
        np.array(ids, dtype=np.int32),
        np.array(lengths, dtype=np.int64),
        tuple(n_sentences),
    )


@dataclass(frozen=True, eq=False)
class TokenCorpus:
    """Corpus of S sentences as token ids; sentence s is ``ids[offsets[s]:offsets[s + 1]]``.

    Attributes
    ----------
    ids
        Token ids of all sentences, concatenated, without start and end symbols.
    offsets
        Index of the first token of each sentence, and the total number of tokens, shape (S + 1,).
    repeats
        Number of times that each sentence is used per epoch, shape (S,). The fractional part is
        the probability of one additional use: 0.5 means every other epoch on average.
    """

    ids: TokenArray
    offsets: IntArray
    repeats: FloatArray

    @classmethod
    def from_text(
        cls, text: TrainingText, vocabulary: TokenVocabulary, weights: Sequence[float]
    ) -> TokenCorpus:
        """Convert a text to the token ids of a vocabulary.

        Parameters
        ----------
        text
            Text from one or more files.
        vocabulary
            Vocabulary of the network; words that it lacks become its unknown token.
        weights
            Number of times that the sentences of each file are used per epoch.
        """
        ids = text.map_ids(vocabulary.ids(), vocabulary.unknown)
        offsets = np.concatenate([[0], np.cumsum(text.lengths)])
        return cls(ids, offsets, np.repeat(np.array(weights, np.float64), text.n_sentences))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        """Number of tokens per sentence, shape (S,)."""
        return np.diff(self.offsets)

    def select(self, indices: IntArray) -> TokenCorpus:
        """Return a corpus with only the sentences at `indices`, in this order."""
        lengths = self.lengths[indices]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        # For each token, the difference between its positions in the old and the new corpus.
        shifts = np.repeat(self.offsets[indices] - offsets[:-1], lengths)
        ids = self.ids[shifts + np.arange(offsets[-1])]
        return TokenCorpus(ids, offsets, self.repeats[indices])

    def split(self, heldout_share: float, seed: int) -> tuple[TokenCorpus, TokenCorpus]:
        """Split the sentences at random into a training corpus and a held-out corpus.

        Parameters
        ----------
        heldout_share
            Fraction of the sentences to hold out; at least one sentence is held out.
        seed
            Seed of the random split.

        Returns
        -------
        training, heldout : TokenCorpus
            The two parts, with sentences in their original order.
        """
        order = np.random.default_rng([seed, 1]).permutation(len(self))
        n_heldout = max(1, round(heldout_share * len(self)))
        if n_heldout >= len(self):
            raise InputError(
                f"cannot hold out {heldout_share:g} of {len(self)} sentences; give more"
            )
        # Both parts keep the sentences in the order of the corpus.
        training, heldout = order[n_heldout:], order[:n_heldout]
        return self.select(np.sort(training)), self.select(np.sort(heldout))

    def subsample(self, n_tokens: int, seed: int) -> TokenCorpus:
        """Return randomly drawn sentences with about `n_tokens` tokens in total."""
        order = np.random.default_rng([seed, 2]).permutation(len(self))
        n_drawn = int(np.searchsorted(np.cumsum(self.lengths[order]), n_tokens)) + 1
        return self.select(np.sort(order[:n_drawn]))

    def make_batches(self, max_tokens: int, seed: int, epoch: int) -> list[IntArray]:
        """Split the sentences of an epoch into batches, in random order.

        All sentences of a batch have the same length, so that no padding is needed.

        Parameters
        ----------
        max_tokens
            Maximum number of tokens per batch, including end symbols. A single longer sentence
            forms a batch.
        seed, epoch
            Seed and index of the epoch, which together determine the order.

        Returns
        -------
        list of array
            Sentence indices of each batch.
        """
        rng = np.random.default_rng([seed, 3, epoch])
        # Round repetitions up with a probability equal to their fractional part.
        n_uses = np.floor(self.repeats + rng.random(len(self))).astype(np.int64)
        order = rng.permutation(np.repeat(np.arange(len(self)), n_uses))
        batches = batch_by_length(order, self.lengths, lambda length: max_tokens // (length + 1))
        return [batches[i] for i in rng.permutation(len(batches))]

    def inputs_and_targets(
        self, indices: IntArray, vocabulary: TokenVocabulary
    ) -> tuple[IntArray, IntArray]:
        """Return the token ids that a network reads, and the token ids that it must predict.

        Parameters
        ----------
        indices
            Indices of B sentences with the same number T of tokens.
        vocabulary
            Vocabulary with the ids of the start and end symbols.

        Returns
        -------
        inputs : (T + 1, B) array of int
            Start symbol, followed by the tokens.
        targets : (T + 1, B) array of int
            Tokens, followed by the end symbol.
        """
        length = int(self.lengths[indices[0]])
        token_indices = self.offsets[indices] + np.arange(length)[:, None]
        tokens = self.ids[token_indices].astype(np.int64)
        start = np.full((1, len(indices)), vocabulary.start)
        end = np.full((1, len(indices)), vocabulary.end)
        return np.concatenate([start, tokens]), np.concatenate([tokens, end])
