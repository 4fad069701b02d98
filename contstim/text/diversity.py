"""How varied the words of a set of sentences are, and a limit on how often a word may come."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from contstim.errors import InputError
from contstim.text.language import Language, split_word
from contstim.text.languages import detect_language, get_language, language_from_script
from contstim.text.vocabulary import Vocabulary, has_frequencies

#: Sentences of a set that may have one word whatever their number.
MIN_WORD_LIMIT = 2

#: Words at the beginning and at the end by which sentences are alike.
N_EDGE_WORDS = 3

# A limit on words leaves at least so many of a vocabulary: first, and elsewhere.
_LEAST = 20, 200

# Natural sentences whose sentences are written at a time, at least.
_TOGETHER = 8


def folded_words(sentence: str, language: Language | None = None) -> list[str]:
    """Return a sentence's words, case-folded and without the punctuation around them."""
    of = language or language_from_script(sentence)
    cores = (of.fold(split_word(word)[1]) for word in of.split(sentence))
    return [core for core in cores if any(c.isalnum() for c in core)]


def edge_phrases(sentence: str) -> set[tuple[bool, tuple[str, ...]]]:
    """Return the words with which a sentence begins, and ends: those by which two are alike."""
    words = tuple(folded_words(sentence))
    return {(False, words[:N_EDGE_WORDS]), (True, words[-N_EDGE_WORDS:])}


class WordShareLimit:
    """Which sentences of a set stay, and which are written again, so that no word comes too often.

    A word may be in so large a share of the sentences, in two where that is more, and in as many
    as it would be in if the set were the natural sentences themselves: "the" need not become rare.
    Sentences are written a few at a time, without the words that have come as often as they may,
    those counted that natural sentences still to come are likely to keep. Sentences that all the
    same bring a word too often, or begin or end with the same three words as one before, not all
    of them the natural sentence's, are written again; where in the end a word is in too many, the
    last that got it are. Where too few words are left to write with, the limit is doubled, and
    sentences may come twice.

    Parameters
    ----------
    natural
        The natural sentences, each once.
    each
        How many sentences are written of each, at most.
    share
        The share, above 0 and at most 1; 1: no limit, and all stay.
    vocabulary
        The words that may be written.

    Raises
    ------
    InputError
        If the share is no such number.
    """

    def __init__(
        self, natural: Sequence[str], each: int, share: float, vocabulary: Vocabulary
    ) -> None:
        check_word_share(share)
        self._language = vocabulary.language
        self._before = [frozenset(folded_words(text, self._language)) for text in natural]
        self._each, self._share, self._times = each, share, 1
        self._lists = [
            (frozenset(map(self._language.fold, own)), least)
            for own, least in zip((vocabulary.first, vocabulary.elsewhere), _LEAST, strict=True)
        ]
        # Of the whole set, as far as it is known: its size, and how many natural sentences would
        # have each word; of the sentences that stay, how many have it; of the others, how many may
        # keep it.
        self._sentences = each * len(natural)
        once = Counter(word for words in self._before for word in words)
        self._usual = Counter({word: each * n for word, n in once.items()})
        self._counts, self._to_come = Counter[str](), Counter(self._usual)
        self._words, self._stayed = 2, 1  # of natural sentences; half stay, if nothing is known
        self._together = max(_TOGETHER, self._most)
        self._kept: dict[int, tuple[Sequence[str], frozenset[str]]] = {}
        self._refused = frozenset[str]()  # words for which sentences were refused of late
        self._now: tuple[list[int], frozenset[str]] = [], frozenset()
        self._was_whole, self._enough = False, True

    @property
    def n_accepted(self) -> int:
        """How many natural sentences have sentences that stay, so far."""
        return len(self._kept)

    @property
    def _most(self) -> int:
        return self._times * max(MIN_WORD_LIMIT, math.floor(self._share * self._sentences + 1e-9))

    def _room(self, word: str) -> int:
        """Return how many more sentences may get a word."""
        # What is written again must not bring others above the limit, or there is no end of it.
        stay = 1.0 if self._was_whole else self._stayed / self._words
        coming = math.floor(stay * self._to_come[word])
        return max(self._most, self._usual[word]) - self._counts[word] - coming

    def _full(self) -> frozenset[str]:
        words = {*self._counts, *self._to_come}
        return frozenset(word for word in words if self._room(word) <= 0)

    def next_batch(self) -> tuple[list[int], frozenset[str]]:
        """Return of which natural sentences, by number, sentences are to be written now.

        Returns
        -------
        numbers
            None when all are there.
        without
            The words, case-folded, without which they are to be written.
        """
        left = (i for i in range(len(self._before)) if i not in self._kept)
        numbers = list(islice(left, self._together))
        without = frozenset[str]() if self._share == 1 else self._refused | self._full()
        self._enough = True
        while without and any(len(own - without) < least for own, least in self._lists):
            self._times *= 2
            without, self._enough = self._full(), False
        self._now = numbers, without
        return self._now

    def accept(self, written: Sequence[Sequence[str]]) -> None:
        """Keep what may stay of the sentences that were asked for last.

        Parameters
        ----------
        written
            Of each natural sentence, what was written; less than was asked for, if need be.
        """
        numbers, without = self._now
        stay = (text for texts, _ in self._kept.values() for text in texts)
        there = {end for text in stay for end in edge_phrases(text)}
        refused, before = set[str](), len(self._kept)
        for number, texts in zip(numbers, written, strict=True):
            got = self._got(number, texts)
            over = {word for word, n in got.items() if n > self._room(word)}
            if self._enough:  # else the same would come again, without end
                alike = {end for text in texts for end in edge_phrases(text)} & there
                over.update(w for _, end in alike for w in end if w in got)
            if self._share < 1 and (over := over - without):
                refused |= over
                continue
            there.update(end for text in texts for end in edge_phrases(text))
            self._kept[number] = texts, without
            self._count(number, texts)
        # What was refused is tried again once there are other sentences; else none would ever be.
        self._refused = frozenset(refused if len(self._kept) > before else self._refused | refused)
        if len(self._kept) == len(self._before) and self._share < 1:
            self._was_whole = True
            while self._send_back():
                pass

    def _cores(self, text: str) -> set[str]:
        return {*folded_words(text, self._language)}

    def _got(self, number: int, own: Sequence[str]) -> Counter[str]:
        """Return in how many of the sentences a word is that the natural one does not have."""
        return Counter(w for text in own for w in self._cores(text) - self._before[number])

    def _count(self, number: int, texts: Sequence[str], sign: int = 1) -> None:
        """Count sentences that stay, or no longer those that stayed."""
        before, short = self._before[number], self._each - len(texts)
        self._sentences -= sign * short
        self._words += sign * len(texts) * len(before)
        for word in before:
            self._usual[word] -= sign * short
            self._to_come[word] -= sign * self._each
        for text in texts:
            for word in self._cores(text):
                self._counts[word] += sign
                self._stayed += sign * (word in before)

    def _send_back(self) -> bool:
        """Let go of sentences that got words too often, last first; return whether any did."""
        excess = {word: -room for word in self._counts if (room := self._room(word)) < 0}
        sent_back = False
        for number in sorted(self._kept, reverse=True) if excess else ():
            texts, without = self._kept[number]
            got = self._got(number, texts)
            if over := {word for word in got if excess.get(word, 0) > 0} - without:
                sent_back = True
                del self._kept[number]
                self._count(number, texts, -1)
                self._refused |= over
                for word in over:
                    excess[word] -= got[word]
        return sent_back


def check_word_share(share: float) -> None:
    """Refuse a share of sentences that cannot be meant.

    Raises
    ------
    InputError
        Naming it.
    """
    if not 0 < share <= 1:  # also refuses NaN
        raise InputError(
            f"a word may be in the share {share} of the sentences; give one above 0, up to 1"
        )


@dataclass(frozen=True)
class Diversity:
    """How varied the words of a set are.

    Attributes
    ----------
    n_sentences, n_words, n_distinct
        Numbers of sentences, of their words, and of different ones, ignoring case.
    type_token_ratio
        Different words as a share of the words (type-token ratio); it falls with the size of a set.
    most_frequent
        The words that most sentences have, with the share that has each.
    overused
        The words in more than 2 % of the sentences that the reference sentences have less often.
    mean_length
        Mean number of words.
    mean_zipf
        Mean Zipf frequency of the words, by wordfreq; unlisted words count 0. None where wordfreq
        has no frequencies of the language.
    """

    n_sentences: int
    n_words: int
    n_distinct: int
    type_token_ratio: float
    most_frequent: tuple[tuple[str, float], ...]
    overused: tuple[tuple[str, float], ...]
    mean_length: float
    mean_zipf: float | None

    def row(self) -> dict[str, Any]:
        """Return the figures as JSON values, without those that there are not."""
        values = {key: value for key, value in asdict(self).items() if value is not None}
        return {
            key: {word: round(part, 4) for word, part in value}
            if isinstance(value, tuple)
            else round(value, 4)
            for key, value in values.items()
        }


#: The share of sentences above which `Diversity.overused` names a word, and the default limit.
DEFAULT_WORD_SHARE = 0.02


def measure_diversity(
    sentences: Iterable[str], natural: Iterable[str] = (), language: str = "en"
) -> Diversity:
    """Say how varied the words of sentences are.

    Parameters
    ----------
    sentences
        The set, at least one sentence.
    natural
        Sentences to compare with.
    language
        Of the sentences, by its code, which is also that of wordfreq's frequencies, if any.

    Raises
    ------
    InputError
        If there is no sentence, or none has a word.
    """
    from wordfreq import zipf_frequency

    spoken = get_language(language)
    lists = [folded_words(sentence, spoken) for sentence in sentences]
    words = [word for own in lists for word in own]
    if not words:
        raise InputError("the diversity of no words was asked for; give sentences with words")
    reference = [{*folded_words(sentence, spoken)} for sentence in natural]
    usual = Counter(word for own in reference for word in own)
    counts = Counter(word for own in lists for word in {*own})
    shares = sorted(
        ((word, n / len(lists)) for word, n in counts.items()), key=lambda pair: (-pair[1], pair[0])
    )
    return Diversity(
        n_sentences=len(lists),
        n_words=len(words),
        n_distinct=len({*words}),
        type_token_ratio=len({*words}) / len(words),
        most_frequent=tuple(shares[:5]),
        overused=tuple(
            (word, part)
            for word, part in shares
            if part > max(DEFAULT_WORD_SHARE, usual[word] / max(1, len(reference)))
            and counts[word] > MIN_WORD_LIMIT
        ),
        mean_length=len(words) / len(lists),
        mean_zipf=sum(zipf_frequency(word, language) for word in words) / len(words)
        if has_frequencies(language)
        else None,
    )


def format_diversity(synthetic: Iterable[str], natural: Iterable[str]) -> str:
    """Return in a line how varied the words of written sentences are beside natural ones.

    Their language is that which the natural ones seem to be of.
    """
    before, after = list(natural), list(synthetic)
    if not (any(map(folded_words, before)) and any(map(folded_words, after))):
        return "words: none"
    language = detect_language(before)
    written = measure_diversity(after, before, language.code)
    ordinary = measure_diversity(before, (), language.code)
    above = ", ".join(f"{word!r} in {part:.1%}" for word, part in written.overused[:3]) or "none"
    zipf = ""
    if written.mean_zipf is not None and ordinary.mean_zipf is not None:
        zipf = f"{language.name} Zipf frequency {written.mean_zipf:.2f} "
        zipf += f"(natural {ordinary.mean_zipf:.2f}), "
    return (
        f"words: {written.n_distinct} different ones of {written.n_words} "
        f"({written.type_token_ratio:.0%}; "
        f"natural {ordinary.type_token_ratio:.0%}), {zipf}in "
        f"more than {DEFAULT_WORD_SHARE:.0%} of the sentences and more than naturally: {above}"
    )
