"""Features of sentences, to filter, match and balance them by, and what a reader should look at."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from contstim.text import Sentence, find_repeats
from contstim.text.language import Language, split_word
from contstim.text.languages import ENGLISH, get_language, language_from_script
from contstim.text.vocabulary import bundled_vocabulary, has_frequencies
from contstim.text.word_options import find_offensive

#: A word of a lower Zipf frequency is flagged as rare: less than once in a million words.
RARE = 3.0

_SINGULAR = frozenset("a an this every each another one".split())  # noqa: SIM905
_PLURAL = frozenset("these those many several few two three".split())  # noqa: SIM905
_THIRD = frozenset("he she it this everybody someone".split())  # noqa: SIM905
_OTHERS = frozenset("i you we they these those".split())  # noqa: SIM905
_MODALS = frozenset("can could may might must shall should will would to".split())  # noqa: SIM905
_ALONE = frozenset("this that these those all both some any each no neither either his".split())  # noqa: SIM905
_NO_NOUNS = frozenset({"VBD", "VBZ", "MD", "IN", "CC"})
_OPEN_ENDS = frozenset({"DT", "CC", "PRP$", "PDT", "WDT"})


def sentence_features(
    sentences: Iterable[str],
    language: str = "en",
    vectors: Mapping[str, ArrayLike] | None = None,
) -> pd.DataFrame:
    """Return length and frequency of sentences, and how alike their words are.

    Parameters
    ----------
    sentences
        S sentences.
    language
        What cuts the sentences into words; and of the frequencies, as `wordfreq` names it, if it
        has any.
    vectors
        From lower-case word to its vector, for the column `similarity`.

    Returns
    -------
    pandas.DataFrame
        Shape (S, 3 or 4), indexed by sentence: ``words`` (how many), ``characters``,
        ``zipf`` (mean Zipf frequency of the words without punctuation: log10 of occurrences per
        thousand million words; 0 for a word that is not listed; missing where wordfreq has no
        frequencies of the language) and, only with `vectors`,
        ``similarity`` (mean Pearson correlation of the vectors of all two words; words without
        a vector are passed over, and a sentence with fewer than two is missing).

    Notes
    -----
    Source: Golan et al. (2023), Supplementary Section 7.3, there with SUBTLEX and GloVe.

    Examples
    --------
    >>> sentence_features(["The dog slept near the fire.", "A vixen dozed."]).T.round(2)
                The dog slept near the fire.  A vixen dozed.
    words                               6.00            3.00
    characters                         28.00           14.00
    zipf                                5.89            4.28
    """
    from wordfreq import zipf_frequency

    labels = list(sentences)
    of = get_language(language)
    words = [[of.lower(split_word(word)[1]) for word in of.split(text)] for text in labels]
    columns: dict[str, list[float]] = {
        "words": [len(own) for own in words],
        "characters": [len(sentence) for sentence in labels],
        "zipf": [
            sum(zipf_frequency(word, language) for word in own) / max(1, len(own)) for own in words
        ]
        if has_frequencies(language)
        else [float("nan")] * len(words),
    }
    if vectors is not None:
        columns["similarity"] = [_mean_correlation(own, vectors) for own in words]
    return pd.DataFrame(columns, index=pd.Index(labels))


def _mean_correlation(words: Sequence[str], vectors: Mapping[str, ArrayLike]) -> float:
    listed = [np.asarray(vectors[w], dtype=np.float64) for w in words if w in vectors]
    if len(listed) < 2:
        return float("nan")
    matrix = np.asarray(np.corrcoef(np.stack(listed)))
    return float(matrix[np.triu_indices(len(listed), 1)].mean())


def has_distinct_words(sentences: Iterable[str], repeatable: Collection[str] = ()) -> pd.Series:
    """Return for each sentence whether no word occurs twice in it, `repeatable` words aside.

    Parameters
    ----------
    sentences
        S sentences.
    repeatable
        Words that may recur. Case and punctuation do not count.

    Returns
    -------
    pandas.Series
        S truth values indexed by sentence, for the `eligible` of
        :func:`~contstim.selection.select_natural_pairs`.

    Notes
    -----
    Source: Golan et al. (2023), Supplementary Section 6.2, where only prepositions may recur.

    Examples
    --------
    >>> has_distinct_words(["The dog saw the cat.", "The dog saw a cat."]).to_list()
    [False, True]
    """
    free = {word.casefold() for word in repeatable}
    labels = list(sentences)
    answers = [
        not find_repeats((split_word(word)[1] for word in language_from_script(s).split(s)), free)
        for s in labels
    ]
    return pd.Series(answers, index=pd.Index(labels), dtype=bool)


def sentence_flags(sentence: str, language: Language = ENGLISH) -> list[str]:
    """Return what a reader should look at in a sentence, in whole phrases.

    Flagged are names, words that are rare today or that wordfreq does not list, a word that comes
    twice (but determiners and prepositions, which are flagged only side by side), numbers, pairs of
    neighbours that do not agree (`Language.agreement`), and marks that the language would open, or
    set apart. In English also listed offensive words (of level 0 up: most are harmless), and
    neighbours by the tags of the bundled vocabulary, so only where every tag of a word speaks
    against them. A name is not flagged as rare too; where nouns have capitals nothing is a name.

    Notes
    -----
    A flag is a reason to look, no fault; a sentence without one may be as bad.
    """
    from wordfreq import zipf_frequency

    parsed = Sentence.parse(sentence, language)
    lower, free = language.lower, language.repeatable
    words = [lower(word) for word in parsed.words]
    listed = find_offensive(sentence, 0) if language.offensive_list == "bundled" else []
    flags = [f"offensive word: {word}" for word in listed]
    capital = [w for w in parsed.words[1:] if w[:1].isupper() and w not in language.capitals]
    names = [] if language.noun_cues else capital
    others = [word for word in words if word.isalpha() and word not in map(lower, names)]
    rated = others if has_frequencies(language.code) else []
    frequencies = {word: zipf_frequency(word, language.code) for word in rated}
    flags += [
        f"rare word: {word} (Zipf {zipf:.1f})" for word, zipf in frequencies.items() if zipf < RARE
    ]
    flags += [
        f"word twice: {word}"
        for word in find_repeats(words, free, language.fold)
        if any(c.isalnum() for c in word)
    ]
    neighbours = list(zip(words[:-1], words[1:], parsed.after[:-1], strict=True))
    flags += [
        f"word twice: {left} {right}"
        for left, right, mark in neighbours
        if left == right and left in free and not mark
    ]
    flags += [f"name: {word}" for word in names]
    flags += [f"number: {word}" for word in words if any(c.isdigit() for c in word)]
    for left, right, mark in neighbours:
        reason = language.agreement_error(left, right)
        if language is ENGLISH:
            reason = reason or _disagreement(left, right) or ""
        if not mark and reason:
            flags.append(f"agreement: {left} {right} ({reason})")
    flags += _mark_flags(parsed)
    last = _tags(words[-1]) if language is ENGLISH else frozenset()
    if last and last <= _OPEN_ENDS and words[-1] not in _ALONE:
        flags.append(f"agreement: ends in {words[-1]}")
    return flags


def _mark_flags(sentence: Sentence) -> list[str]:
    """Return which marks are not opened, or have no space before them, as the language has it."""
    language, text = sentence.language, str(sentence)
    flags = [
        f"mark: {mark} without {opening}"
        for mark, opening in language.opening_marks.items()
        if text.count(mark) > text.count(opening)
    ]
    firsts = (after[:1] for after in sentence.after)
    return flags + [
        f"mark: no space before {mark}" for mark in firsts if mark in language.space_before
    ]


def _tags(word: str) -> frozenset[str]:
    return frozenset(bundled_vocabulary().tags.get(word, ()))


def _disagreement(left: str, right: str) -> str | None:
    """Return why two neighbours do not agree by their tags; None if they do, or these are none."""
    tags = _tags(right)
    if not tags:
        return None
    if left in _SINGULAR and tags <= {"NNS"}:
        return "plural after a singular"
    if left in _PLURAL and tags <= {"NN"}:
        return "singular after a plural"
    if left in _THIRD and tags <= {"VBP", "VB"}:
        return "verb without -s"
    if left in _OTHERS and tags <= {"VBZ"}:
        return "verb with -s"
    if left in _MODALS and tags <= {"VBD", "VBZ", "VBN"} and not (left == "to" and "VBN" in tags):
        return "no plain verb"
    before = _tags(left)
    if before and before <= {"DT", "PRP$"} and left not in _ALONE and tags <= _NO_NOUNS:
        return "no noun"
    return None
