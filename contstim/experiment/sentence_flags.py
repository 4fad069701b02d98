"""Descriptions of possible problems of sentences, for human reviewers."""

from __future__ import annotations

import re
from functools import cache

from contstim.text import Sentence, find_repeats
from contstim.text.frequencies import has_frequencies, zipf_frequency
from contstim.text.language import Language
from contstim.text.languages import ENGLISH
from contstim.text.vocabulary import bundled_vocabulary
from contstim.text.word_options import offensive_words

#: Words of a lower Zipf frequency (less than once per million words) are flagged as rare.
RARE = 3.0
# English words that require certain tags of the next word, see `_tag_disagreement`.
_SINGULAR_DETERMINERS = frozenset("a an this every each another one".split())  # noqa: SIM905
_PLURAL_DETERMINERS = frozenset("these those many several few two three".split())  # noqa: SIM905
_THIRD_PERSON = frozenset("he she it this everybody someone".split())  # noqa: SIM905
_OTHER_PERSONS = frozenset("i you we they these those".split())  # noqa: SIM905
_BEFORE_BASE_FORM = frozenset("can could may might must shall should will would to".split())  # noqa: SIM905
# Determiners that may also occur without a noun.
_PRONOUNS = frozenset("this that these those all both some any each no neither either his".split())  # noqa: SIM905
_DETERMINER_TAGS = frozenset({"DT", "PRP$"})
_NON_NOUN_TAGS = frozenset({"VBD", "VBZ", "MD", "IN", "CC"})
_NON_FINAL_TAGS = frozenset({"DT", "CC", "PRP$", "PDT", "WDT"})

_LETTERS_AND_DIGITS = re.compile(r"[^\W_]+")


def sentence_flags(sentence: str, language: Language = ENGLISH) -> list[str]:
    """Return short descriptions of possible problems of a sentence, for a human reviewer.

    Flagged are names, rare words and words that wordfreq does not list, repeated words, numbers,
    adjacent words that do not agree, and punctuation that the language would open or space
    differently. English sentences are also checked for offensive words, most of which are
    harmless in context, and for disagreement of part-of-speech tags. The latter is flagged only
    if it holds for all tags of a word in the bundled vocabulary.

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
    if not language.noun_cues:
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
        if language is ENGLISH and not reason:
            reason = _tag_disagreement(left, right)
        if reason:
            flags.append(f"agreement: {left} {right} ({reason})")

    text = str(parsed)
    for mark, opening in language.opening_marks.items():
        if text.count(mark) > text.count(opening):
            flags.append(f"mark: {mark} without {opening}")
    for after in parsed.after:
        if after[:1] in language.space_before:
            flags.append(f"mark: no space before {after[:1]}")

    # Flag sentences that end in a determiner or a conjunction.
    final_tags = _bundled_tags(words[-1]) if language is ENGLISH else frozenset()
    if final_tags and final_tags <= _NON_FINAL_TAGS and words[-1] not in _PRONOUNS:
        flags.append(f"agreement: ends in {words[-1]}")
    return flags


def _bundled_tags(word: str) -> frozenset[str]:
    """Return the possible part-of-speech tags of a word in the bundled vocabulary."""
    return frozenset(bundled_vocabulary().tags.get(word, ()))


def _tag_disagreement(left: str, right: str) -> str:
    """Return the reason why two adjacent English words do not agree, or an empty text.

    Words can have several part-of-speech tags. They disagree only if no possible tag of the right
    word can follow the left word.
    """
    tags = _bundled_tags(right)
    if not tags:
        return ""
    if left in _SINGULAR_DETERMINERS and tags <= {"NNS"}:
        return "plural after a singular"
    if left in _PLURAL_DETERMINERS and tags <= {"NN"}:
        return "singular after a plural"
    if left in _THIRD_PERSON and tags <= {"VBP", "VB"}:
        return "verb without -s"
    if left in _OTHER_PERSONS and tags <= {"VBZ"}:
        return "verb with -s"
    is_participle = left == "to" and "VBN" in tags
    if left in _BEFORE_BASE_FORM and tags <= {"VBD", "VBZ", "VBN"} and not is_participle:
        return "not a base form"
    left_tags = _bundled_tags(left)
    is_determiner = bool(left_tags) and left_tags <= _DETERMINER_TAGS and left not in _PRONOUNS
    if is_determiner and tags <= _NON_NOUN_TAGS:
        return "no noun"
    return ""


def find_offensive(sentence: str, min_level: int) -> list[str]:
    """Return the offensive words and phrases of level `min_level` or higher in a sentence.

    Whole words are matched, ignoring case: "Scunthorpe" contains none.
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
