"""Lexical diversity of sets of sentences, and a limit on the share of sentences with one word."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from contstim.errors import InputError
from contstim.text.frequencies import has_frequencies, mean_zipf_frequency, zipf_frequency
from contstim.text.language import Language, split_word
from contstim.text.languages import detect_language, get_language, language_from_script

if TYPE_CHECKING:
    from contstim.text.vocabulary import Vocabulary

#: Default maximum share of sentences that may contain the same word.
DEFAULT_WORD_SHARE = 0.02

#: Number of sentences that may contain the same word whatever the share.
MIN_WORD_LIMIT = 2

#: Zipf frequency (log10 of occurrences per billion words) from which a word counts as frequent.
#: Most words above it are function words.
FREQUENT_ZIPF = 5.5

#: Number of words at the start and at the end of a sentence that must differ between sentences.
N_EDGE_WORDS = 3

# Minimum number of usable words at the first position and elsewhere.
_MIN_VOCABULARY = (20, 200)

_MIN_BATCH_SIZE = 8  # natural sentences
_MAX_WITHDRAWALS = 10  # of the synthetic sentences of one natural sentence


def folded_words(sentence: str, language: Language | None = None) -> list[str]:
    """Return the words of a sentence, case-folded and without punctuation."""
    language = language or language_from_script(sentence)
    cores = (language.fold(split_word(word)[1]) for word in language.split(sentence))
    return [core for core in cores if any(map(str.isalnum, core))]


def infrequent_words(sentence: str, language: Language) -> set[str]:
    """Return the distinct words of a sentence, case-folded, without frequent words such as "the".

    A word is frequent if its Zipf frequency (log10 of occurrences per billion words) is at least
    `FREQUENT_ZIPF`. In languages that wordfreq does not cover, no word counts as frequent.
    """
    words = {*folded_words(sentence, language)}
    if not has_frequencies(language.code):
        return words
    return {word for word in words if zipf_frequency(word, language.code) < FREQUENT_ZIPF}


def edge_phrases(sentence: str) -> set[tuple[bool, tuple[str, ...]]]:
    """Return the first three and the last three words of a sentence, case-folded.

    Each phrase is a tuple of a boolean, whether it is at the end of the sentence, and the words.
    Two sentences begin or end with the same words if their sets have an element in common.
    """
    words = tuple(folded_words(sentence))
    return {(False, words[:N_EDGE_WORDS]), (True, words[-N_EDGE_WORDS:])}


class WordShareLimit:
    """Scheduler of sentences to edit, which limits how many sentences may contain the same word.

    Synthetic sentences are made from natural sentences by replacing words. The natural sentences
    are processed in batches: `next_batch` returns the sentences to edit and the words to avoid, and
    `accept` receives the results, some of which it rejects. The two methods are called in turn
    until a batch is empty.

    1. The limit of a word is a number of sentences: the largest of `max_share` times the number of
       sentences, two, and the number of natural sentences with the word. Frequent words such as
       "the" can therefore remain frequent.
    2. Words that have reached their limit are avoided. Natural sentences that have not been edited
       yet also count towards the limit of a word that they contain: the expected number of them
       in which the word will remain is added to its count.
    3. A synthetic sentence is rejected if it contains a new word above its limit, or if it has the
       same first or last three words as an accepted sentence. Its natural sentence is edited again.
    4. Once all sentences are accepted, sentences with words above the limit are rejected, the
       last ones first, and edited again, each at most ten times.
    5. If too few words of the vocabulary are left, the limit is doubled, and sentences may have the
       same first or last words.

    Parameters
    ----------
    natural
        Distinct natural sentences.
    n_per_natural
        Maximum number of synthetic sentences per natural sentence.
    max_share
        Maximum share of sentences that contain a word, above 0 and at most 1 (no limit).
    vocabulary
        Words that may replace words of natural sentences.

    Raises
    ------
    InputError
        If `max_share` is out of range.
    """

    def __init__(
        self, natural: Sequence[str], n_per_natural: int, max_share: float, vocabulary: Vocabulary
    ) -> None:
        check_word_share(max_share)
        self._language = vocabulary.language
        # Words of each natural sentence, and vocabulary words for the first position and elsewhere.
        self._natural_words = [frozenset(folded_words(text, self._language)) for text in natural]
        self._n_per_natural, self._max_share = n_per_natural, max_share
        self._folded_lists = [
            frozenset(map(self._language.fold, words))
            for words in (vocabulary.first, vocabulary.elsewhere)
        ]
        self._limit_factor = 1  # It is doubled if too few words are left.

        # Number of synthetic sentences, and number that would contain each word without any edits.
        self._n_sentences = n_per_natural * len(natural)
        n_natural = Counter(word for words in self._natural_words for word in words)
        self._natural_counts = Counter({word: n_per_natural * n for word, n in n_natural.items()})
        # Number of accepted sentences, and of sentences that are not yet accepted, with each word.
        self._accepted_counts = Counter[str]()
        self._pending_counts = Counter(self._natural_counts)
        # Number of words of the natural sentences of accepted sentences, and number of these that
        # were not replaced. They start with the assumption that half of the words remain.
        self._n_natural_words, self._n_retained_words = 2, 1

        self._batch_size = max(_MIN_BATCH_SIZE, self._limit)
        # Indices of the natural sentences in the current batch, and words to avoid in it.
        self._batch: tuple[list[int], frozenset[str]] = [], frozenset()
        # Accepted synthetic sentences by index of the natural sentence, with the words that were
        # avoided when they were written.
        self._accepted: dict[int, tuple[Sequence[str], frozenset[str]]] = {}
        self._n_withdrawals = Counter[int]()  # by index of the natural sentence
        self._rejected_words = frozenset[str]()
        self._was_complete = False
        self._can_vary_edges = True

    @property
    def n_accepted(self) -> int:
        """Number of natural sentences with accepted synthetic sentences."""
        return len(self._accepted)

    @property
    def _limit(self) -> int:
        """Number of synthetic sentences that may contain the same word."""
        share = math.floor(self._max_share * self._n_sentences + 1e-9)
        return self._limit_factor * max(MIN_WORD_LIMIT, share)

    def _count_remaining(self, word: str) -> int:
        """Return the number of further synthetic sentences that may contain a word.

        It is the limit of the word, minus the number of accepted sentences with the word, minus the
        number of natural sentences not yet edited in which the word is expected to remain. It is
        negative if the word already exceeds its limit.
        """
        # While a complete set is revised, assume that pending sentences retain all their words.
        # Otherwise a rewritten sentence could push another above the limit, without end.
        retention = 1.0 if self._was_complete else self._n_retained_words / self._n_natural_words
        n_expected = math.floor(retention * self._pending_counts[word])
        limit = max(self._limit, self._natural_counts[word])
        return limit - self._accepted_counts[word] - n_expected

    def _find_exhausted_words(self) -> frozenset[str]:
        """Return the words that have reached the limit, which new sentences must not contain."""
        words = {*self._accepted_counts, *self._pending_counts}
        return frozenset(word for word in words if self._count_remaining(word) <= 0)

    def next_batch(self) -> tuple[list[int], frozenset[str]]:
        """Return the natural sentences to edit next and the words to avoid.

        Returns
        -------
        indices
            Indices of natural sentences; empty if synthetic sentences for all of them are accepted.
        excluded
            Case-folded words that the synthetic sentences must not contain.
        """
        pending = (i for i in range(len(self._natural_words)) if i not in self._accepted)
        # The batch consists of the next natural sentences without accepted synthetic sentences.
        indices = list(islice(pending, self._batch_size))
        # Avoid the words that led to a rejection, and those that have reached their limit.
        excluded = frozenset[str]()
        if self._max_share < 1:
            excluded = self._rejected_words | self._find_exhausted_words()
        self._can_vary_edges = True
        # If too few words of the vocabulary are left, at the first position or elsewhere, double
        # the number of sentences that may contain the same word.
        while excluded and any(
            len(words - excluded) < minimum
            for words, minimum in zip(self._folded_lists, _MIN_VOCABULARY, strict=True)
        ):
            self._limit_factor *= 2
            excluded = self._find_exhausted_words()
            self._can_vary_edges = False
        self._batch = indices, excluded
        return self._batch

    def accept(self, written: Sequence[Sequence[str]]) -> None:
        """Accept the synthetic sentences of the last batch that contain no overused word.

        A new word of a sentence is overused if, with this sentence, more synthetic sentences would
        contain the word than permitted (`max_share`), or if it is part of a phrase with which
        another accepted sentence begins or ends. Sentences with an overused word are rejected, and
        their natural sentences are edited again in a later batch.

        Parameters
        ----------
        written
            Synthetic sentences for each natural sentence in the batch. There may be fewer than
            requested.
        """
        indices, excluded = self._batch
        accepted_texts = (text for texts, _ in self._accepted.values() for text in texts)
        accepted_edges = {edge for text in accepted_texts for edge in edge_phrases(text)}
        n_accepted_before = self.n_accepted
        rejected_words = set[str]()
        for index, texts in zip(indices, written, strict=True):
            new_counts = self._count_new_words(index, texts)
            # A new word is overused if it is above its limit, or if it is part of a phrase with
            # which another accepted sentence begins or ends.
            overused = {word for word, n in new_counts.items() if n > self._count_remaining(word)}
            edges = {edge for text in texts for edge in edge_phrases(text)}
            if self._can_vary_edges:
                for _, phrase in edges & accepted_edges:
                    overused.update(word for word in phrase if word in new_counts)
            overused -= excluded
            if self._max_share < 1 and overused:
                rejected_words |= overused
                continue
            accepted_edges |= edges
            self._accepted[index] = texts, excluded
            self._update_counts(index, texts, 1)

        # The loop terminates: each batch without an accepted sentence rejects a further word or
        # doubles the limit, which can happen finitely often, and a sentence is withdrawn a limited
        # number of times.
        # Words that led to a rejection are allowed again once other sentences have been accepted.
        if self.n_accepted == n_accepted_before:
            rejected_words |= self._rejected_words
        self._rejected_words = frozenset(rejected_words)
        if len(self._accepted) == len(self._natural_words) and self._max_share < 1:
            self._was_complete = True
            while self._withdraw_excess():
                pass

    def _count_new_words(self, index: int, texts: Sequence[str]) -> Counter[str]:
        """Count the words of synthetic sentences that their natural sentence does not contain.

        Parameters
        ----------
        index
            Index of the natural sentence.
        texts
            Synthetic sentences made from the natural sentence.

        Returns
        -------
        Counter
            Number of sentences in `texts` that contain each new word.
        """
        natural = self._natural_words[index]
        new_words = (set(folded_words(text, self._language)) - natural for text in texts)
        return Counter(word for words in new_words for word in words)

    def _update_counts(self, index: int, texts: Sequence[str], sign: int) -> None:
        """Update the counts of words when synthetic sentences are accepted or withdrawn.

        Parameters
        ----------
        index
            Index of the natural sentence.
        texts
            Synthetic sentences made from the natural sentence.
        sign
            1 if the sentences are accepted, -1 if they are withdrawn.
        """
        natural = self._natural_words[index]
        # With the sign 1, count accepted sentences; with the sign -1, undo this. The totals were
        # computed for `n_per_natural` sentences: subtract the sentences that are missing.
        n_missing = self._n_per_natural - len(texts)
        self._n_sentences -= sign * n_missing
        self._n_natural_words += sign * len(texts) * len(natural)
        for word in natural:
            self._natural_counts[word] -= sign * n_missing
            self._pending_counts[word] -= sign * self._n_per_natural
        # Count each word of the synthetic sentences, and the words that were not replaced.
        for text in texts:
            for word in set(folded_words(text, self._language)):
                self._accepted_counts[word] += sign
                self._n_retained_words += sign * (word in natural)

    def _withdraw_excess(self) -> bool:
        """Withdraw accepted sentences with words that occur in too many sentences, the last first.

        The maximum number of sentences that may contain a word (its limit) depends on the number of
        sentences and on the natural sentences. A withdrawal can therefore push another word above
        its limit. The caller repeats the call until the method returns False.

        Returns
        -------
        bool
            Whether a sentence was withdrawn.
        """
        remaining = {word: self._count_remaining(word) for word in self._accepted_counts}
        # Each word may occur in a limited number of sentences. Map words that occur in more to the
        # number of excess sentences.
        excess = {word: -n for word, n in remaining.items() if n < 0}
        has_withdrawn = False
        # Withdraw the last sentences first, as long as they have introduced a word above its limit.
        for index in sorted(self._accepted, reverse=True):
            # Texts are the synthetic sentences; `excluded` are the words that they had to avoid.
            texts, excluded = self._accepted[index]
            new_counts = self._count_new_words(index, texts)
            words = {word for word in new_counts if excess.get(word, 0) > 0} - excluded
            if not words or self._n_withdrawals[index] == _MAX_WITHDRAWALS:
                continue
            # The natural sentence will be edited again, without these words.
            has_withdrawn = True
            self._n_withdrawals[index] += 1
            del self._accepted[index]
            self._update_counts(index, texts, -1)
            self._rejected_words |= words
            for word in words:
                excess[word] -= new_counts[word]
        return has_withdrawn


def check_word_share(share: float) -> None:
    """Raise `InputError` unless a share of sentences is above 0 and at most 1."""
    if not 0 < share <= 1:  # also refuses NaN
        raise InputError(
            f"the maximum share of sentences with one word is {share}; give a value above 0 and "
            "at most 1"
        )


@dataclass(frozen=True)
class Diversity:
    """Lexical diversity of a set of sentences; case is ignored.

    Attributes
    ----------
    n_sentences, n_words, n_distinct
        Numbers of sentences, words and distinct words.
    type_token_ratio
        Number of distinct words divided by the number of words. The ratio decreases with the number
        of sentences.
    most_frequent
        The five words that occur in most sentences, each with the fraction of sentences that
        contain it.
    overused
        Words that occur in more than 2 % of the sentences and in a larger fraction of these than of
        the reference sentences. Each word is given with the fraction of sentences that contain it.
    mean_length
        Mean number of words per sentence.
    mean_zipf
        Mean Zipf frequency of the words: log10 of occurrences per billion words, 0 for words that
        wordfreq does not list. None if wordfreq does not cover the language.
    """

    n_sentences: int
    n_words: int
    n_distinct: int
    type_token_ratio: float
    most_frequent: tuple[tuple[str, float], ...]
    overused: tuple[tuple[str, float], ...]
    mean_length: float
    mean_zipf: float | None

    def to_record(self) -> dict[str, Any]:
        """Return a mapping from the name of each field to its JSON value, for a table or file.

        Numbers are rounded to four decimals, and fields that are None are left out. Fields that
        list words become mappings from word to the fraction of sentences that contain it.
        """
        cells: dict[str, Any] = {}
        for name, value in asdict(self).items():
            # Tuples list words, each with the share of sentences that contain it.
            if isinstance(value, tuple):
                cells[name] = {word: round(share, 4) for word, share in value}
            elif value is not None:
                cells[name] = round(value, 4)
        return cells


def measure_diversity(
    sentences: Iterable[str], natural: Iterable[str] = (), language: str = "en"
) -> Diversity:
    """Measure the lexical diversity of sentences, for example their type-token ratio.

    Parameters
    ----------
    sentences
        Sentences to describe, at least one.
    natural
        Reference sentences. Words that are frequent in them do not count as overused. Default:
        none.
    language
        Code of the language of all sentences. Default ``en``.

    Raises
    ------
    InputError
        If the sentences contain no word.
    """
    conventions = get_language(language)
    words_by_sentence = [folded_words(sentence, conventions) for sentence in sentences]
    words = [word for sentence in words_by_sentence for word in sentence]
    if not words:
        raise InputError("cannot measure the diversity of no words; give sentences with words")
    n_sentences, n_words, n_distinct = len(words_by_sentence), len(words), len(set(words))
    # Number of sentences that contain each word, here and in the reference sentences.
    counts = Counter(word for sentence in words_by_sentence for word in set(sentence))
    reference = [set(folded_words(sentence, conventions)) for sentence in natural]
    reference_counts = Counter(word for sentence in reference for word in sentence)

    # Share of the sentences that contain each word, in decreasing order, then alphabetical.
    shares = [(word, n / n_sentences) for word, n in counts.items()]
    shares.sort(key=lambda word_share: (-word_share[1], word_share[0]))
    # A word is overused if more sentences contain it than a limit and than the reference suggests.
    overused = []
    for word, share in shares:
        reference_share = reference_counts[word] / max(1, len(reference))
        if counts[word] > MIN_WORD_LIMIT and share > max(DEFAULT_WORD_SHARE, reference_share):
            overused.append((word, share))
    return Diversity(
        n_sentences=n_sentences,
        n_words=n_words,
        n_distinct=n_distinct,
        type_token_ratio=n_distinct / n_words,
        most_frequent=tuple(shares[:5]),
        overused=tuple(overused),
        mean_length=n_words / n_sentences,
        mean_zipf=mean_zipf_frequency(words, language) if has_frequencies(language) else None,
    )


def format_diversity(synthetic: Iterable[str], natural: Iterable[str]) -> str:
    """Return a line of text that compares the words of synthetic and natural sentences.

    It contains the number of distinct words, the mean Zipf frequency and the overused words. The
    language is detected from the natural sentences.

    Parameters
    ----------
    synthetic
        Synthetic sentences to describe.
    natural
        Natural sentences with which they are compared.
    """
    natural, synthetic = list(natural), list(synthetic)
    if not (any(map(folded_words, natural)) and any(map(folded_words, synthetic))):
        return "words: none"
    language = detect_language(natural)
    # Compare the synthetic sentences with the natural sentences.
    reference = measure_diversity(natural, (), language.code)
    measured = measure_diversity(synthetic, natural, language.code)
    zipf = ""
    if measured.mean_zipf is not None and reference.mean_zipf is not None:
        zipf = (
            f"{language.name} Zipf frequency {measured.mean_zipf:.2f} "
            f"(natural {reference.mean_zipf:.2f}), "
        )
    overused = ", ".join(f"{word!r} in {share:.1%}" for word, share in measured.overused[:3])
    return (
        f"words: {measured.n_distinct} distinct of {measured.n_words} "
        f"({measured.type_token_ratio:.0%}; natural {reference.type_token_ratio:.0%}), {zipf}in "
        f"more than {DEFAULT_WORD_SHARE:.0%} of the sentences and more often than in natural "
        f"sentences: {overused or 'none'}"
    )
