"""Descriptions of possible problems of sentences, for human reviewers."""

from __future__ import annotations

import re
from functools import cache

from contstim.text import Sentence, find_repeats
from contstim.text.frequencies import has_frequencies, zipf_frequency
from contstim.text.language import Language
from contstim.text.languages import ENGLISH
from contstim.text.word_options import offensive_words

#: Words of a lower Zipf frequency (less than once per million words) are flagged as rare.
RARE = 3.0
_LETTERS_AND_DIGITS = re.compile(r"[^\W_]+")


def sentence_flags(sentence: str, language: Language = ENGLISH) -> list[str]:
    """Return short descriptions of possible problems of a sentence, for a human reviewer.

    The following are flagged: names, rare words and words that wordfreq does not list, repeated
    words, numbers, adjacent words that do not agree, and punctuation that lacks an opening mark or
    a space that the language requires. English sentences are also checked for offensive words, most
    of which are harmless in context.

    Notes
    -----
    The flags are neither necessary nor sufficient signs of a bad sentence.
    """
    parsed = Sentence.parse(sentence, language)
    words = [language.lower(word) for word in parsed.words]
    flags: list[str] = []
    if language.offensive_list == "bundled":
        flags += [f"offensive word: {word}" for word in find_offensive(sentence, 0)]

    names: list[str] = []
    if not language.capitalises_nouns:
        names = [w for w in parsed.words[1:] if w[:1].isupper() and w not in language.capitals]
    if has_frequencies(language.code):
        lower_names = set(map(language.lower, names))
        for word in dict.fromkeys(words):
            zipf = zipf_frequency(word, language.code)
            if word.isalpha() and word not in lower_names and zipf < RARE:
                flags.append(f"rare word: {word} (Zipf {zipf:.1f})")

    # Pairs of adjacent words, with the punctuation after the first.
    adjacent = list(zip(words[:-1], words[1:], parsed.after[:-1], strict=True))
    repeats = find_repeats(words, language.repeatable, language.fold)
    flags += [f"word twice: {word}" for word in repeats if any(map(str.isalnum, word))]
    flags += [
        f"word twice: {left} {right}"
        for left, right, mark in adjacent
        if left == right and left in language.repeatable and not mark
    ]
    flags += [f"name: {word}" for word in names]
    flags += [f"number: {word}" for word in words if any(map(str.isdigit, word))]

    for left, right, mark in adjacent:
        if mark:
            continue
        reason = language.agreement_error(left, right)
        if reason:
            flags.append(f"agreement: {left} {right} ({reason})")

    text = str(parsed)
    for mark, opening in language.opening_marks.items():
        if text.count(mark) > text.count(opening):
            flags.append(f"mark: {mark} without {opening}")
    for after in parsed.after:
        if after[:1] in language.space_before:
            flags.append(f"mark: no space before {after[:1]}")
    return flags


def find_offensive(sentence: str, min_level: int) -> list[str]:
    """Return the words and phrases of a sentence that may be offensive.

    The bundled list rates each as 2 (likely), 1 (perhaps) or 0 (unlikely) offensive. Those of
    level `min_level` or higher are returned. Whole words are matched, ignoring case: "Scunthorpe"
    contains none.
    """
    text = _pad_words(sentence.casefold())
    return [
        phrase
        for phrase, padded in _padded_offensive_words().items()
        if padded in text and offensive_words()[phrase] >= min_level
    ]


@cache
def _padded_offensive_words() -> dict[str, str]:
    return {phrase: _pad_words(phrase) for phrase in offensive_words()}


def _pad_words(text: str) -> str:
    """Return the words of a text with one space before and after each, without punctuation.

    A phrase then occurs in a sentence as whole words if its padded text occurs in the sentence's.
    """
    return f" {' '.join(_LETTERS_AND_DIGITS.findall(text))} "
