"""Training an n-gram model from text: counts, Kneser-Ney smoothing and pruning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray, TokenArray
from contstim.errors import InputError
from contstim.models.ngram import NgramLevel, NgramTable
from contstim.models.ngram.arpa import write_arpa
from contstim.models.training_overlap import BloomFilter
from contstim.models.word_tokenizer import END, START, UNKNOWN
from contstim.settings import PositiveInt, settings
from contstim.text.language import Language
from contstim.text.languages import ENGLISH
from contstim.training.corpus import read_text, tokenize_lines

_RESERVED = (UNKNOWN, START, END)


@settings
class NgramVocabulary:
    """Which words of the text a model keeps.

    Attributes
    ----------
    words
        The words, at least one, or None for those of the text.
    min_count
        Of the text's words, keep those that occur at least so often. Given `words` stay whole.
    closed
        If true, the model has no unknown-word class and a word outside `words` is an error;
        otherwise every other word is counted as ``<unk>``.
    """

    words: tuple[str, ...] | None = None
    min_count: PositiveInt = 1
    closed: bool = False

    def __post_init__(self) -> None:
        if self.words is not None and not self.words:
            raise InputError("the vocabulary holds no word; give one at least")
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
    seen
        Which sentences these are.
    """

    words: tuple[str, ...]
    ids: TokenArray
    n_sentences: int
    seen: BloomFilter

    @property
    def n_tokens(self) -> int:
        """Number of words, ``<s>`` and ``</s>`` left out."""
        return len(self.ids) - 2 * self.n_sentences


def read_corpus(
    paths: Sequence[Path],
    vocabulary: NgramVocabulary,
    *,
    punctuation: str = "keep",
    language: Language = ENGLISH,
) -> Corpus:
    """Read texts of one sentence per line.

    Lines without a word are no sentences and are left out.

    Parameters
    ----------
    paths
        UTF-8 files, gzip-compressed if their names end in ``.gz``.
    vocabulary
        Which words to keep.
    punctuation
        Passed to :func:`contstim.text.tokenize_word`; ``keep`` takes words as given.
    language
        What cuts lines into words.

    Raises
    ------
    InputError
        If a file is unreadable or not UTF-8, there is no word in it, ``<s>``, ``</s>`` or
        ``<unk>`` stands in it as a word, or a word is outside a closed vocabulary.
    """
    text = read_text(paths, punctuation, language=language)
    if not set(_RESERVED).isdisjoint(text.words):
        _refuse_reserved(paths, punctuation, language)
    if not len(text.lengths):
        names = ", ".join(repr(str(path)) for path in paths)
        raise InputError(f"there is no sentence in {names}; give one sentence per line")
    if vocabulary.words is None:
        counts = text.counts.tolist()
        vocabulary_words = [
            w for w, n in zip(text.words, counts, strict=True) if n >= vocabulary.min_count
        ]
    else:
        vocabulary_words = [word for word in vocabulary.words if word not in _RESERVED]
    words = (*([] if vocabulary.closed else [UNKNOWN]), START, END, *vocabulary_words)
    place = {word: number for number, word in enumerate(words)}
    outside = next((word for word in text.words if word not in place), None)
    if vocabulary.closed and outside is not None:
        raise InputError(
            f"the text holds {outside!r}, which the closed vocabulary lacks; add it or leave the "
            "vocabulary open"
        )
    ids = text.renumbered(place, place.get(UNKNOWN, 0))
    bounded = _bounded(ids, text.lengths, place[START], place[END])
    return Corpus(words, bounded, len(text.lengths), BloomFilter.from_letters(text.letters()))


def _refuse_reserved(paths: Sequence[Path], punctuation: str, language: Language) -> None:
    for path in paths:
        for number, tokens in tokenize_lines(path, punctuation, language):
            for word in _RESERVED:
                if word in tokens:
                    raise InputError(
                        f"line {number} of {str(path)!r} holds {word}, which stands for itself "
                        "in an n-gram model; take it out of the text"
                    )


def _bounded(ids: TokenArray, lengths: IntArray, start: int, end: int) -> TokenArray:
    """Put `start` and `end` around the sentences of the given `lengths`."""
    out = np.empty(len(ids) + 2 * len(lengths), dtype=np.int32)
    ends = np.cumsum(lengths + 2)
    inner = np.ones(len(out), dtype=np.bool_)
    inner[ends - 1] = inner[ends - lengths - 2] = False
    out[ends - lengths - 2] = start
    out[ends - 1] = end
    out[inner] = ids
    return out


Discounts = tuple[float, float, float]

_LEAST = 1e-99  # ARPA has no logarithm of 0; a back-off weight is 0 only if all discounts are


@dataclass(frozen=True, eq=False)
class Counts:
    """The n-grams of one order that occur in a text.

    Attributes
    ----------
    keys
        As in :class:`~contstim.models.ngram.NgramLevel`.
    suffixes
        Id, one order down, of each n-gram without its first word.
    raw
        How often each occurs.
    adjusted
        For the highest order and for n-grams that begin with ``<s>`` the raw count, otherwise
        the number of different words seen before the n-gram.
    """

    keys: IntArray
    suffixes: IntArray
    raw: IntArray
    adjusted: IntArray


def count_ngrams(corpus: Corpus, order: int) -> list[Counts]:
    """Count the n-grams of orders 1 to `order`, none of which reaches over a sentence's start."""
    size = len(corpus.words)
    start = corpus.words.index(START)
    ids = corpus.ids
    first = np.flatnonzero(ids == start)
    # Place of each token in its sentence, <s> being 0: how long an n-gram may end there.
    place = np.arange(len(ids), dtype=np.int32)
    place -= np.repeat(first, np.diff(np.append(first, len(ids)))).astype(np.int32)
    raw = np.bincount(ids, minlength=size)
    by_order = [(np.arange(size), np.zeros(size, dtype=np.int64), raw)]
    begins = np.arange(size) == start  # which n-grams begin with <s>
    begun = [begins]
    gram_at: TokenArray = ids  # id of the n-gram that ends at each token
    for n in range(2, order + 1):
        at = np.flatnonzero(place >= n - 1)
        keys = gram_at[at - 1].astype(np.int64)
        keys *= size
        keys += ids[at]
        by_key = np.argsort(keys)
        keys = keys[by_key]
        new = np.empty(len(keys), dtype=np.bool_)
        new[:1] = True
        np.not_equal(keys[1:], keys[:-1], out=new[1:])
        head = np.flatnonzero(new)
        suffixes = gram_at[at[by_key[head]]].astype(np.int64)
        by_order.append((keys[head], suffixes, np.diff(np.append(head, len(keys)))))
        begins = begins[keys[head] // size]
        begun.append(begins)
        if n < order:
            numbers = np.cumsum(new, dtype=np.int32)
            numbers -= 1
            gram_at = np.zeros(len(ids), dtype=np.int32)
            gram_at[at[by_key]] = numbers
    levels = []
    for n, ((keys, suffixes, raw), begins) in enumerate(zip(by_order, begun, strict=True), start=1):
        adjusted = raw
        if n < order:
            before = np.bincount(by_order[n][1], minlength=len(keys))
            adjusted = np.where(begins, raw, before)
        if n == 1:
            adjusted = np.where(begins, 0, adjusted)  # <s> is never predicted
        levels.append(Counts(keys, suffixes, raw, adjusted))
    return levels


def estimate_discounts(adjusted: IntArray, n: int, fallback: Discounts | None) -> Discounts:
    """Return the discounts of adjusted counts 1, 2 and 3 or more.

    With n_k n-grams of adjusted count k and Y = n_1 / (n_1 + 2 n_2),
    D_k = k - (k+1) Y n_{k+1} / n_k (Chen and Goodman 1998, equation 26).

    Raises
    ------
    InputError
        If an n_k is 0 or a discount lies outside 0 to k, unless there is a `fallback`.
    """
    n1, n2, n3, n4 = (int((adjusted == k).sum()) for k in (1, 2, 3, 4))
    if min(n1, n2, n3) == 0:
        k = 1 + [n1, n2, n3].index(0)
        problem = f"no {n}-gram has the adjusted count {k}"
    else:
        y = n1 / (n1 + 2 * n2)
        discounts = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
        outside = [k for k, d in enumerate(discounts, start=1) if not 0 <= d <= k]
        if not outside:
            return discounts
        k = outside[0]
        problem = f"the {n}-gram discount of adjusted count {k} is {discounts[k - 1]:.3g}"
    if fallback is None:
        raise InputError(
            f"Kneser-Ney discounts cannot be estimated from this text, since {problem}; use more "
            "text, a lower order, or give fallback discounts, such as --fallback 0.5,1,1.5"
        )
    return fallback


def kneser_ney(
    counts: Sequence[Counts],
    words: tuple[str, ...],
    *,
    cutoffs: Sequence[int] = (),
    fallback: Discounts | None = None,
) -> tuple[NgramTable, list[Discounts], list[BoolArray]]:
    """Estimate the model as KenLM's ``lmplz`` does.

    With the adjusted count a of each n-gram, p(w|h) = [a(hw) - D(a(hw))] / Σ a(h·) + b(h) p(w|h'),
    where b(h) = Σ D(a(h·)) / Σ a(h·) is the back-off weight and below the unigrams stands the
    uniform distribution over all words but ``<s>`` (Chen and Goodman 1998, section 3; Heafield et
    al. 2013, section 3). An n-gram whose raw count is at most its order's cut-off is left out, and
    its whole adjusted count goes to b(h).

    Parameters
    ----------
    counts
        From :func:`count_ngrams`.
    words
        The V words by id.
    cutoffs
        For each order the count up to which n-grams are left out; must not fall. The last value
        holds for all higher orders. ``<s>``, ``</s>`` and ``<unk>`` stay.
    fallback
        Discounts for an order whose own cannot be estimated.

    Returns
    -------
    table, discounts, kept
        The model, the three discounts of each order, and for each order which n-grams of
        `counts` it holds.

    Raises
    ------
    InputError
        For cut-offs that fall or discounts that cannot be estimated.
    """
    if any(c < 0 for c in cutoffs) or list(cutoffs) != sorted(cutoffs):
        raise InputError(f"count cut-offs must be 0 or more and not fall, got {tuple(cutoffs)}")
    if len(cutoffs) > len(counts):
        raise InputError(f"{len(cutoffs)} count cut-offs for a model of order {len(counts)}")
    limits = [*cutoffs, *[(cutoffs[-1] if cutoffs else 0)] * (len(counts) - len(cutoffs))]
    size = len(words)
    special = np.isin(np.array(words, dtype=object), [START, END, UNKNOWN])
    discounts: list[Discounts] = []
    kept_by_order: list[BoolArray] = []
    probs: list[FloatArray] = []
    gammas: list[FloatArray] = []
    lower: FloatArray = np.empty(0)
    for n, (level, limit) in enumerate(zip(counts, limits, strict=True), start=1):
        adjusted = level.adjusted
        context = level.keys // size
        n_contexts = 1 if n == 1 else len(counts[n - 2].keys)
        keep = level.raw > limit
        if n == 1:
            keep = keep | special if limit else np.ones(size, dtype=np.bool_)
        triple = estimate_discounts(adjusted, n, fallback)
        discount = np.array([0.0, *triple])[np.minimum(adjusted, 3)]
        total = np.bincount(context, weights=adjusted, minlength=n_contexts)
        freed = np.where(keep, discount, adjusted)
        followed = total > 0
        gamma = np.ones(n_contexts)
        np.divide(
            np.bincount(context, weights=freed, minlength=n_contexts),
            total,
            out=gamma,
            where=followed,
        )
        if n == 1:
            uniform = 1.0 / (int(keep.sum()) - 1)
            prob = (adjusted - discount) / total[0] + gamma[0] * uniform
        else:
            prob = (adjusted - discount) / total[context] + gamma[context] * lower[level.suffixes]
            gammas.append(gamma)
        discounts.append(triple)
        kept_by_order.append(keep)
        probs.append(prob)
        lower = prob
    gammas.append(np.ones(len(lower)))
    levels = [
        NgramLevel(level.keys, np.log10(np.minimum(prob, 1.0)), np.log10(np.maximum(gamma, _LEAST)))
        for level, prob, gamma in zip(counts, probs, gammas, strict=True)
    ]
    levels[0].log_probs[words.index(START)] = 0.0  # as lmplz writes it; no query asks for it
    return NgramTable(words, tuple(levels)).filter(kept_by_order), discounts, kept_by_order


_LEAST_REST = 1e-6


def prune_by_entropy(
    table: NgramTable, frequencies: Sequence[FloatArray], threshold: float
) -> NgramTable:
    """Leave out n-grams whose loss changes the model least, and compute back-off weights again.

    Leaving out w after h changes the model by the relative entropy
    D = -P(h) {p(w|h) [log p(w|h') + log b'(h) - log p(w|h)] + [log b'(h) - log b(h)] r(h)},
    where b' is the back-off weight without w, b the one with it, and r(h) the mass that h leaves to
    shorter contexts (Stolcke 1998, equation 5). N-grams with exp(D) - 1 below `threshold` go,
    longest first.

    Departures from the paper: P(h) is the relative frequency of h in the training text, since
    the lower orders of a Kneser-Ney model do not give the probability of a history (Chelba et al.
    2010); and an n-gram stays while a longer one that stays begins or ends with it.

    Parameters
    ----------
    table
        The model.
    frequencies
        For each order but the highest the P(h) of its n-grams.
    threshold
        Relative change of perplexity below which an n-gram is left out.

    Raises
    ------
    InputError
        If `threshold` is negative.
    """
    if not threshold >= 0:
        raise InputError(f"the entropy threshold must be 0 or more, got {threshold}")
    size = len(table.words)
    suffixes = table.suffix_ids
    kept_by_order: list[BoolArray] = [
        np.ones(len(level.keys), dtype=np.bool_) for level in table.levels
    ]
    levels = list(table.levels)
    needed = np.zeros(len(levels[-1].keys), dtype=np.bool_)
    for n in range(table.order - 1, 0, -1):
        level, lower = levels[n], levels[n - 1]
        context = level.keys // size
        count = len(lower.keys)
        prob = np.power(10.0, level.log_probs)
        backed = np.power(10.0, lower.log_probs[suffixes[n]])
        rest = _rest(context, prob, count)[context]
        rest_backed = _rest(context, backed, count)[context]
        log_weight = np.log((rest + prob) / (rest_backed + backed))
        change = log_weight - np.log(10.0) * lower.log_backoffs[context]
        inner = prob * (np.log(backed) + log_weight - np.log(prob)) + change * rest
        loss = np.expm1(-frequencies[n - 1][context] * inner)
        keep = needed | (loss >= threshold)
        kept_by_order[n] = keep
        changed = np.zeros(count, dtype=np.bool_)
        changed[context[~keep]] = True
        weights = _rest(context[keep], prob[keep], count)
        below = _rest(context[keep], backed[keep], count)
        log_backoffs = lower.log_backoffs.copy()
        log_backoffs[changed] = np.log10(weights[changed] / below[changed])
        levels[n - 1] = NgramLevel(lower.keys, lower.log_probs, log_backoffs)
        needed = np.zeros(count, dtype=np.bool_)
        needed[context[keep]] = True
        needed[suffixes[n][keep]] = True
    return NgramTable(table.words, tuple(levels)).filter(kept_by_order)


def round_probabilities(table: NgramTable, digits: int) -> NgramTable:
    """Round the logarithms of probabilities and set the back-off weights so that sums stay 1.

    The weight of a context that leaves almost nothing to shorter ones is kept as it is.
    """
    size = len(table.words)
    levels = [level._replace(log_probs=np.round(level.log_probs, digits)) for level in table.levels]
    for n, suffixes in enumerate(table.suffix_ids[1:], start=1):
        level, lower = levels[n], levels[n - 1]
        context = level.keys // size
        count = len(lower.keys)
        rest = _rest(context, np.power(10.0, level.log_probs), count)
        below = _rest(context, np.power(10.0, lower.log_probs[suffixes]), count)
        fit = (rest > _LEAST_REST) & (below > _LEAST_REST) & (rest < 1.0)
        log_backoffs = lower.log_backoffs.copy()
        log_backoffs[fit] = np.log10(rest[fit] / below[fit])
        levels[n - 1] = lower._replace(log_backoffs=log_backoffs)
    return NgramTable(table.words, tuple(levels))


def _rest(context: IntArray, prob: FloatArray, n_contexts: int) -> FloatArray:
    """Return what the probabilities of each context leave of 1."""
    given = np.bincount(context, weights=prob, minlength=n_contexts)
    left: FloatArray = np.maximum(1.0 - given, 0.0)
    return left


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
    language: Language = ENGLISH,
) -> TrainedNgram:
    """Estimate an n-gram model with interpolated modified Kneser-Ney smoothing, as ARPA.

    The estimate agrees with that of KenLM's ``lmplz``, n-gram by n-gram, where both can do the
    same. Here, other than there, a blank line is not a sentence, words outside the vocabulary are
    counted as ``<unk>`` (``lmplz`` drops their n-grams), and ``<unk>`` can be left out.

    Parameters
    ----------
    text
        One or more UTF-8 files, gzip-compressed if their names end in ``.gz``: one sentence a
        line, words between spaces.
    out
        The ARPA file to write; gzipped if its name ends in ``.gz``.
    order
        Length of the longest n-grams, at least 1.
    punctuation
        ``keep``: words as given. ``split`` or ``drop``: as
        :func:`contstim.text.tokenize_word`; give the model the same option when it
        is loaded.
    vocabulary
        Which words to keep; by default all, with an unknown-word class of count 0.
    cutoffs
        For each order the count up to which n-grams are left out, the last value holding for
        higher orders (``lmplz --prune``).
    entropy
        Leave out n-grams whose loss raises the perplexity by less than this share (see
        :func:`~contstim.training.ngram.prune_by_entropy`); 0 keeps all.
    fallback
        Discounts for counts 1, 2 and 3 or more where the text gives none, e.g. (0.5, 1, 1.5)
        (``lmplz --discount_fallback``); without it that is an error.
    digits
        Decimals of the logarithms in the file. With fewer than 7, back-off weights are
        computed again from the rounded probabilities, so that sums stay 1.
    language
        What cuts lines into words; give the model the same option when it is loaded.

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
    if not entropy >= 0:
        raise InputError(f"the entropy threshold must be 0 or more, got {entropy}")
    if fallback is not None and not all(0 <= d <= k for k, d in enumerate(fallback, start=1)):
        raise InputError(f"fallback discounts must lie in 0 to 1, 2 and 3, got {fallback}")
    paths = [Path(p) for p in ([text] if isinstance(text, str | Path) else text)]
    corpus = read_corpus(
        paths, vocabulary or NgramVocabulary(), punctuation=punctuation, language=language
    )
    n_tokens, n_sentences, seen = corpus.n_tokens, corpus.n_sentences, corpus.seen
    counts = count_ngrams(corpus, order)
    words = corpus.words
    del corpus
    table, discounts, masks = kneser_ney(counts, words, cutoffs=cutoffs, fallback=fallback)
    if entropy > 0 and order > 1:
        predictions = float(n_tokens + n_sentences)
        frequencies: list[FloatArray] = []
        for lower, level, keep in zip(counts, counts[1:], masks, strict=False):
            context = level.keys // len(words)
            followed = np.bincount(context, weights=level.raw, minlength=len(lower.keys))
            frequencies.append(followed[keep] / predictions)
        table = prune_by_entropy(table, frequencies, entropy)
    del counts
    if digits < _PRECISE:
        table = round_probabilities(table, digits)
    write_arpa(table, Path(out), digits=digits, comments=seen.format_lines())
    sizes = tuple(len(level.keys) for level in table.levels)
    return TrainedNgram(Path(out), n_sentences, n_tokens, sizes, tuple(discounts))
