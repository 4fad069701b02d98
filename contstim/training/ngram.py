"""Estimation of n-gram models by counting and modified Kneser-Ney smoothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError
from contstim.models.ngram import NgramLevel, NgramTable
from contstim.models.ngram.arpa import write_arpa
from contstim.models.word_tokenizer import END, START, UNKNOWN
from contstim.settings import PositiveInt, settings
from contstim.text.language import Language
from contstim.text.languages import ENGLISH
from contstim.training.corpus import TokenArray, read_text, tokenize_lines
from contstim.training.pruning import prune_by_entropy, round_probabilities

_RESERVED = (UNKNOWN, START, END)

#: Discounts of n-grams with adjusted count 1, 2, and 3 or more.
Discounts = tuple[float, float, float]

# Minimum back-off weight, because ARPA files cannot contain the logarithm of 0.
_MIN_BACKOFF = 1e-99

# Decimals of an ARPA file from which rounding needs no correction of the back-off weights.
_FULL_DIGITS = 7


@settings
class NgramVocabulary:
    """Rules for the vocabulary of an n-gram model.

    Attributes
    ----------
    words
        Words of the vocabulary. None: the words of the training text.
    min_count
        Minimum number of occurrences of a word in the text. Ignored if `words` is set.
    closed
        If true, the model has no unknown-word class, and a training text with a word outside the
        vocabulary is refused. If false, words outside the vocabulary are counted as ``<unk>``.
    """

    words: tuple[str, ...] | None = None
    min_count: PositiveInt = 1
    closed: bool = False

    def __post_init__(self) -> None:
        if self.words is not None and not self.words:
            raise InputError("the vocabulary is empty; give at least one word")
        # A closed vocabulary gives unknown words no probability, so it must contain every word of
        # the text.
        if self.closed and self.words is None and self.min_count > 1:
            raise InputError(
                f"a closed vocabulary cannot exclude words by min_count {self.min_count}; give "
                "min_count 1, a list of words, or leave the vocabulary open"
            )


@dataclass(frozen=True, eq=False)
class NgramCorpus:
    """A training text as word ids with sentence boundaries.

    Attributes
    ----------
    words
        The V words by id, including ``<s>``, ``</s>`` and, unless the vocabulary is closed,
        ``<unk>``.
    ids
        Word ids of all sentences, each sentence between ``<s>`` and ``</s>``.
    n_sentences
        Number of sentences.
    """

    words: tuple[str, ...]
    ids: TokenArray
    n_sentences: int

    @property
    def n_tokens(self) -> int:
        """Number of tokens without ``<s>`` and ``</s>``."""
        return len(self.ids) - 2 * self.n_sentences


def read_corpus(
    paths: Sequence[Path],
    vocabulary: NgramVocabulary,
    *,
    punctuation: str = "keep",
    language: Language = ENGLISH,
) -> NgramCorpus:
    """Read text files with one sentence per line, skipping lines without words.

    Parameters
    ----------
    paths
        UTF-8 text files, gzip-compressed if their names end in ``.gz``.
    vocabulary
        Rules for the vocabulary.
    punctuation
        Treatment of punctuation marks: ``keep``, ``split`` or ``drop`` (see
        :func:`contstim.text.tokenize_word`).
    language
        Language that determines how lines are split into words.

    Raises
    ------
    InputError
        If a file cannot be read or is not UTF-8, no file contains a word, the text contains the
        word ``<s>``, ``</s>`` or ``<unk>``, or a word is outside a closed vocabulary.
    """
    text = read_text(paths, punctuation, language=language)
    if not set(_RESERVED).isdisjoint(text.words):
        # Read the files again, to name the line.
        for path in paths:
            for line_number, tokens in tokenize_lines(path, punctuation, language):
                for symbol in _RESERVED:
                    if symbol in tokens:
                        raise InputError(
                            f"line {line_number} of {str(path)!r} contains {symbol}, a reserved "
                            "symbol of n-gram models; remove it from the text"
                        )
    if not len(text.lengths):
        names = ", ".join(repr(str(path)) for path in paths)
        raise InputError(f"there is no sentence in {names}; give one sentence per line")

    # Assign ids to the words of the vocabulary.
    if vocabulary.words is None:
        is_frequent = text.counts >= vocabulary.min_count
        vocabulary_words = [text.words[i] for i in np.flatnonzero(is_frequent)]
    else:
        vocabulary_words = [word for word in vocabulary.words if word not in _RESERVED]
    words = (*([] if vocabulary.closed else [UNKNOWN]), START, END, *vocabulary_words)
    ids_by_word = {word: word_id for word_id, word in enumerate(words)}
    missing = next((word for word in text.words if word not in ids_by_word), None)
    if vocabulary.closed and missing is not None:
        raise InputError(
            f"the closed vocabulary lacks {missing!r}, a word of the text; add the word or leave "
            "the vocabulary open"
        )

    # Put <s> and </s> around each sentence.
    ids = np.empty(len(text.ids) + 2 * len(text.lengths), dtype=np.int32)
    end_indices = np.cumsum(text.lengths + 2) - 1
    start_indices = end_indices - text.lengths - 1
    is_word = np.ones(len(ids), dtype=np.bool_)
    is_word[start_indices] = is_word[end_indices] = False
    ids[start_indices], ids[end_indices] = ids_by_word[START], ids_by_word[END]
    ids[is_word] = text.map_ids(ids_by_word, ids_by_word.get(UNKNOWN, 0))
    return NgramCorpus(words, ids, len(text.lengths))


@dataclass(frozen=True, eq=False)
class NgramCounts:
    """The distinct n-grams of one order in a text and their counts.

    Attributes
    ----------
    keys
        Keys of the n-grams, ``context id * V + word id``, as in
        :class:`~contstim.models.ngram.NgramLevel`.
    suffix_ids
        Index, one order below, of each n-gram without its first word.
    raw
        Number of occurrences of each n-gram.
    adjusted
        Adjusted count of Kneser-Ney smoothing: the raw count for the highest order and for n-grams
        that begin with ``<s>``, otherwise the number of distinct words that precede the n-gram.
    """

    keys: IntArray
    suffix_ids: IntArray
    raw: IntArray
    adjusted: IntArray


def count_ngrams(corpus: NgramCorpus, order: int) -> list[NgramCounts]:
    """Count the n-grams of orders 1 to `order` within sentences.

    An n-gram is identified by a key, ``context id * V + word id``: the context is the n-gram
    without its last word, and its id is its index among the n-grams of order n - 1. V is the size
    of the vocabulary. Sorting the keys of all tokens brings equal n-grams together.

    Parameters
    ----------
    corpus
        Text as word ids.
    order
        Maximum length of an n-gram.

    Returns
    -------
    list of NgramCounts
        One element per order.
    """
    n_words = len(corpus.words)
    start = corpus.words.index(START)
    ids = corpus.ids
    # Position of each token in its sentence, which is the maximum length of its context.
    sentence_starts = np.flatnonzero(ids == start)
    sentence_lengths = np.diff(np.append(sentence_starts, len(ids)))
    positions = np.arange(len(ids), dtype=np.int32)
    positions -= np.repeat(sentence_starts, sentence_lengths).astype(np.int32)

    word_ids, word_counts = np.arange(n_words), np.bincount(ids, minlength=n_words)
    levels = [(word_ids, np.zeros(n_words, dtype=np.int64), word_counts)]
    starts_sentence = [word_ids == start]  # whether each n-gram begins with <s>
    gram_ids: TokenArray = ids  # id of the n-gram that ends at each token
    for n in range(2, order + 1):
        tokens = np.flatnonzero(positions >= n - 1)
        keys = gram_ids[tokens - 1].astype(np.int64)
        keys *= n_words
        keys += ids[tokens]
        key_order = np.argsort(keys)
        keys = keys[key_order]
        # First occurrence of each distinct key.
        is_new = np.empty(len(keys), dtype=np.bool_)
        is_new[:1] = True
        np.not_equal(keys[1:], keys[:-1], out=is_new[1:])
        first_indices = np.flatnonzero(is_new)
        distinct_keys = keys[first_indices]
        suffix_ids = gram_ids[tokens[key_order[first_indices]]].astype(np.int64)
        n_occurrences = np.diff(np.append(first_indices, len(keys)))
        levels.append((distinct_keys, suffix_ids, n_occurrences))
        starts_sentence.append(starts_sentence[-1][distinct_keys // n_words])
        if n < order:
            # The id of an n-gram is the rank of its key.
            new_ids = np.cumsum(is_new, dtype=np.int32)
            new_ids -= 1
            gram_ids = np.zeros(len(ids), dtype=np.int32)
            gram_ids[tokens[key_order]] = new_ids

    counts = []
    for n, (keys, suffix_ids, raw) in enumerate(levels, start=1):
        adjusted = raw
        if n < order:
            # Each distinct longer n-gram with this suffix has another preceding word.
            n_preceding = np.bincount(levels[n][1], minlength=len(keys))
            adjusted = np.where(starts_sentence[n - 1], raw, n_preceding)
        if n == 1:
            adjusted = np.where(starts_sentence[0], 0, adjusted)  # <s> is never predicted
        counts.append(NgramCounts(keys, suffix_ids, raw, adjusted))
    return counts


def estimate_discounts(adjusted: IntArray, order: int, fallback: Discounts | None) -> Discounts:
    """Estimate the discounts of modified Kneser-Ney smoothing for the n-grams of one order.

    The discount D_k is subtracted from adjusted counts of k = 1, 2, and 3 or more. The adjusted
    count of an n-gram is the number of distinct words that precede it (with the exceptions that
    `NgramCounts` describes). The discount is D_k = k - (k + 1) Y n_{k+1} / n_k, where n_k is the
    number of n-grams with adjusted count k and Y = n_1 / (n_1 + 2 n_2) (Chen and Goodman 1998,
    equation 26).

    Parameters
    ----------
    adjusted
        Adjusted count of each n-gram.
    order
        Order of the n-grams, for messages.
    fallback
        Discounts to use if the estimate fails.

    Raises
    ------
    InputError
        If there is no `fallback` and n_1, n_2 or n_3 is 0 or a D_k lies outside 0 to k.
    """
    n1, n2, n3, n4 = (int((adjusted == k).sum()) for k in (1, 2, 3, 4))
    # n_k is the number of n-grams with count k. The formulas divide by n_1, n_2 and n_3.
    if min(n1, n2, n3) == 0:
        k = 1 + [n1, n2, n3].index(0)
        problem = f"no {order}-gram has the adjusted count {k}"
    else:
        # Discounts of modified Kneser-Ney smoothing for counts k = 1, 2, and 3 or more:
        # D_k = k - (k + 1) y n_{k+1} / n_k (Chen and Goodman 1998).
        y = n1 / (n1 + 2 * n2)
        discounts = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
        # A discount is subtracted from a count, so it must not exceed the count.
        invalid = [k for k, d in enumerate(discounts, start=1) if not 0 <= d <= k]
        if not invalid:
            return discounts
        k = invalid[0]
        problem = f"the {order}-gram discount of adjusted count {k} is {discounts[k - 1]:.3g}"
    if fallback is None:
        raise InputError(
            f"Kneser-Ney discounts cannot be estimated from this text, since {problem}; use more "
            "text, a lower order, or give fallback discounts, such as --fallback 0.5,1,1.5"
        )
    return fallback


def kneser_ney(
    counts: Sequence[NgramCounts], words: tuple[str, ...], fallback: Discounts | None = None
) -> NgramTable:
    """Estimate an n-gram model (log10) with interpolated modified Kneser-Ney smoothing.

    The probability of word w after context h is

        p(w|h) = [a(hw) - D(a(hw))] / Σ_v a(hv) + b(h) p(w|h'),
        b(h) = Σ_v D(a(hv)) / Σ_v a(hv).

    Here a is the adjusted count, D its discount, b(h) the back-off weight, and h' is h without its
    first word. Unigrams are interpolated with the uniform distribution over all words except
    ``<s>`` (Chen and Goodman 1998, section 3; Heafield et al. 2013, section 3). KenLM's ``lmplz``
    gives equal estimates.

    Parameters
    ----------
    counts
        Counts of each order, from :func:`count_ngrams`.
    words
        The V words by id.
    fallback
        Discounts for orders without an estimate.

    Raises
    ------
    InputError
        If discounts cannot be estimated and there is no `fallback`.
    """
    n_words = len(words)
    probs: list[FloatArray] = []
    weights: list[FloatArray] = []
    for n, level in enumerate(counts, start=1):
        contexts = level.keys // n_words
        if n == 1:
            # Interpolate the empty context with the uniform distribution.
            n_contexts, lower_probs = 1, np.array([1.0 / (n_words - 1)])
        else:
            n_contexts, lower_probs = len(probs[-1]), probs[-1]

        # Subtract the discounts and give their mass to the lower order.
        discounts = estimate_discounts(level.adjusted, n, fallback)
        discount = np.array([0.0, *discounts])[np.minimum(level.adjusted, 3)]
        total = np.bincount(contexts, weights=level.adjusted, minlength=n_contexts)
        total_discount = np.bincount(contexts, weights=discount, minlength=n_contexts)
        # Back-off weight b(h) of each context, then p(w|h) of each n-gram.
        backoff = np.ones(n_contexts)
        np.divide(total_discount, total, out=backoff, where=total > 0)
        prob = (level.adjusted - discount) / total[contexts]
        prob += backoff[contexts] * lower_probs[level.suffix_ids]
        probs.append(prob)
        weights.append(backoff)
    # The weights of order n belong to the contexts, which are the n-grams of order n - 1.
    weights.append(np.ones(len(probs[-1])))
    levels = [
        NgramLevel(
            level.keys, np.log10(np.minimum(prob, 1.0)), np.log10(np.maximum(weight, _MIN_BACKOFF))
        )
        for level, prob, weight in zip(counts, probs, weights[1:], strict=True)
    ]
    levels[0].log_probs[words.index(START)] = 0.0  # as lmplz writes it; <s> is never predicted
    return NgramTable(words, tuple(levels))


@dataclass(frozen=True)
class TrainedNgram:
    """Summary of a model trained by :func:`train_ngram`.

    Attributes
    ----------
    path
        Path of the ARPA file that was written.
    n_sentences, n_tokens
        Size of the text, without sentence ends.
    n_ngrams
        Number of n-grams in the file for each order.
    """

    path: Path
    n_sentences: int
    n_tokens: int
    n_ngrams: tuple[int, ...]


def train_ngram(
    text: Path | str | Sequence[Path | str],
    out: Path | str,
    *,
    order: int = 3,
    punctuation: str = "keep",
    vocabulary: NgramVocabulary | None = None,
    entropy: float = 0.0,
    fallback: Discounts | None = None,
    digits: int = 7,
    language: Language = ENGLISH,
) -> TrainedNgram:
    """Train an n-gram model with modified Kneser-Ney smoothing; write an ARPA file.

    KenLM's ``lmplz`` gives equal estimates. Unlike in ``lmplz``, blank lines are not sentences,
    words outside the vocabulary are counted as ``<unk>`` (``lmplz`` removes their n-grams), and the
    vocabulary can be closed.

    Parameters
    ----------
    text
        One or more UTF-8 text files with one sentence per line and words separated by spaces,
        gzip-compressed if their names end in ``.gz``.
    out
        ARPA file to write, gzip-compressed if its name ends in ``.gz``.
    order
        Maximum length of an n-gram, at least 1.
    punctuation
        Treatment of punctuation marks: ``keep``, ``split`` or ``drop`` (see
        :func:`contstim.text.tokenize_word`). Load the model with the same option.
    vocabulary
        Rules for the vocabulary; by default all words, with an unknown-word class of count 0.
    entropy
        Threshold of entropy pruning: remove n-grams if this increases the perplexity by less than
        this fraction (see :func:`~contstim.training.pruning.prune_by_entropy`). 0: no pruning.
    fallback
        Three discounts, for adjusted counts 1, 2 and 3 or more, to use if the text is too small to
        estimate them, for example (0.5, 1, 1.5) (``lmplz --discount_fallback``).
    digits
        Number of decimals of the logarithms in the file. With fewer than 7, the back-off weights
        are computed again after rounding, so that the probabilities sum to 1.
    language
        Language that determines how lines are split into words. Load the model with the same
        option.

    Raises
    ------
    InputError
        If an option is invalid, the text cannot be read, is empty or contains ``<s>``, ``</s>`` or
        ``<unk>`` as a word, or discounts cannot be estimated and there is no `fallback`.
    OutputError
        If `out` cannot be written.
    """
    if order < 1:
        raise InputError(f"the order of an n-gram model must be at least 1, got {order}")
    if not entropy >= 0:
        raise InputError(f"the entropy threshold must be 0 or more, got {entropy}")
    if fallback is not None and len(fallback) != 3:
        raise InputError(
            f"there must be three fallback discounts, for counts 1, 2 and 3 or more, got {fallback}"
        )
    if fallback is not None and not all(0 <= d <= k for k, d in enumerate(fallback, start=1)):
        raise InputError(f"fallback discounts must lie in 0 to 1, 2 and 3, got {fallback}")
    paths = [Path(path) for path in ([text] if isinstance(text, str | Path) else text)]
    corpus = read_corpus(
        paths, vocabulary or NgramVocabulary(), punctuation=punctuation, language=language
    )
    n_tokens, n_sentences, words = corpus.n_tokens, corpus.n_sentences, corpus.words
    counts = count_ngrams(corpus, order)
    del corpus  # to free memory
    table = kneser_ney(counts, words, fallback)
    if entropy > 0 and order > 1:
        # Relative frequency of each n-gram as the context of a predicted word or sentence end.
        n_predictions = float(n_tokens + n_sentences)
        frequencies: list[FloatArray] = []
        for lower, level in pairwise(counts):
            contexts = level.keys // len(words)
            context_counts = np.bincount(contexts, weights=level.raw, minlength=len(lower.keys))
            frequencies.append(context_counts / n_predictions)
        table = prune_by_entropy(table, frequencies, entropy)
    del counts
    if digits < _FULL_DIGITS:
        table = round_probabilities(table, digits)
    write_arpa(table, Path(out), digits=digits)
    n_ngrams = tuple(len(level.keys) for level in table.levels)
    return TrainedNgram(Path(out), n_sentences, n_tokens, n_ngrams)
