"""Training an n-gram model from text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.models.ngram.arpa import write_arpa
from contstim.models.ngram.corpus import NgramVocabulary, read_corpus
from contstim.models.ngram.kneser_ney import Discounts, count_ngrams, kneser_ney
from contstim.models.ngram.pruning import prune_by_entropy, round_probabilities
from contstim.text.sentence import PUNCTUATION_POLICIES

__all__ = ["TrainedNgram", "train_ngram"]

_PRECISE = 7


@dataclass(frozen=True)
class TrainedNgram:
    """What :func:`train_ngram` made.

    Attributes
    ----------
    path
        The ARPA file.
    n_sentences, n_tokens
        Size of the text, sentence ends not counted.
    n_ngrams
        N-grams in the file, by order.
    discounts
        The three discounts of each order.
    """

    path: Path
    n_sentences: int
    n_tokens: int
    n_ngrams: tuple[int, ...]
    discounts: tuple[Discounts, ...]


def train_ngram(
    text: Path | str | Sequence[Path | str],
    out: Path | str,
    *,
    order: int = 3,
    punctuation: str = "keep",
    vocabulary: NgramVocabulary | None = None,
    cutoffs: Sequence[int] = (),
    entropy: float = 0.0,
    fallback: Discounts | None = None,
    digits: int = 7,
) -> TrainedNgram:
    """Estimate an n-gram model with interpolated modified Kneser-Ney smoothing, as ARPA.

    The estimate agrees with that of KenLM's ``lmplz``, n-gram by n-gram, where both can do the
    same. Here, other than there, a blank line is not a sentence, words outside the vocabulary are
    counted as ``<unk>`` (``lmplz`` drops their n-grams), and ``<unk>`` can be left out.

    Parameters
    ----------
    text
        One or more UTF-8 files, plain or gzipped: one sentence a line, words between spaces.
    out
        The ARPA file to write; gzipped if its name ends in ``.gz``.
    order
        Length of the longest n-grams, at least 1.
    punctuation
        ``keep``: words as given. ``split`` or ``drop``: as
        :func:`contstim.text.sentence.tokens_of_word`; give the model the same option when it
        is loaded.
    vocabulary
        Which words to keep; by default all, with an unknown-word class of count 0.
    cutoffs
        For each order the count up to which n-grams are left out, the last value holding for
        higher orders (``lmplz --prune``).
    entropy
        Leave out n-grams whose loss raises the perplexity by less than this share (see
        :func:`~contstim.models.ngram.pruning.prune_by_entropy`); 0 keeps all.
    fallback
        Discounts for counts 1, 2 and 3 or more where the text gives none, e.g. (0.5, 1, 1.5)
        (``lmplz --discount_fallback``); without it that is an error.
    digits
        Decimals of the logarithms in the file. With fewer than 7, back-off weights are
        computed again from the rounded probabilities, so that sums stay 1.

    Raises
    ------
    InputError
        For text that cannot be read, is empty, or holds ``<s>``, ``</s>`` or ``<unk>`` as a
        word; for text too small or too regular to estimate discounts from; for bad options.
    OutputError
        If `out` cannot be written.
    """
    if order < 1:
        raise InputError(f"the order of an n-gram model must be at least 1, got {order}")
    if punctuation not in PUNCTUATION_POLICIES:
        choices = ", ".join(PUNCTUATION_POLICIES)
        raise InputError(f"punctuation must be one of {choices}, got {punctuation!r}")
    if not entropy >= 0:
        raise InputError(f"the entropy threshold must be 0 or more, got {entropy}")
    if fallback is not None and not all(0 <= d <= k for k, d in enumerate(fallback, start=1)):
        raise InputError(f"fallback discounts must lie in 0 to 1, 2 and 3, got {fallback}")
    paths = [Path(p) for p in ([text] if isinstance(text, str | Path) else text)]
    corpus = read_corpus(paths, vocabulary or NgramVocabulary(), punctuation=punctuation)
    n_tokens, n_sentences = corpus.n_tokens, corpus.n_sentences
    counts = count_ngrams(corpus, order)
    words = corpus.words
    del corpus
    table, discounts, kept = kneser_ney(counts, words, cutoffs=cutoffs, fallback=fallback)
    if entropy > 0 and order > 1:
        predictions = float(n_tokens + n_sentences)
        frequencies: list[FloatArray] = []
        for lower, level, keep in zip(counts, counts[1:], kept, strict=False):
            context = level.keys // len(words)
            followed = np.bincount(context, weights=level.raw, minlength=len(lower.keys))
            frequencies.append(followed[keep] / predictions)
        table = prune_by_entropy(table, frequencies, entropy)
    del counts
    if digits < _PRECISE:
        table = round_probabilities(table, digits)
    write_arpa(table, Path(out), digits=digits)
    sizes = tuple(len(level.keys) for level in table.levels)
    return TrainedNgram(Path(out), n_sentences, n_tokens, sizes, tuple(discounts))
