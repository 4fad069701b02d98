"""Which words of a list or a text are words to make sentences of, and the English defaults."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from contstim.errors import UnknownNameError
from contstim.text.sentence import split_word

__all__ = [
    "CHARACTERS",
    "ENGLISH_CAPITALS",
    "ENGLISH_LETTERS",
    "ENGLISH_REPEATABLE",
    "WordRules",
]

#: English determiners and prepositions: the words that a sentence may hold twice (Golan et al.
#: 2023 allow 42 such words; this list is our own).
ENGLISH_REPEATABLE = frozenset(
    """
    the a an this these those each every some any
    of in on at by for from with without within into onto to toward towards upon over under
    above below beneath between among through throughout during before after since until
    against about across along around behind beside beyond near inside outside up down off past
    """.split()  # noqa: SIM905 - as a list literal this is 55 lines
)

#: English words that keep their capital inside a sentence without being names.
ENGLISH_CAPITALS = frozenset({"I", "I'm", "I'll", "I've", "I'd", "I’m", "I’ll", "I’ve", "I’d"})

#: Single letters that are no English words.
ENGLISH_LETTERS = frozenset("bcdefghjklmnopqrstuvwxyz")

#: Which characters a word may be made of, see `WordRules`.
CHARACTERS = ("letters", "marks", "any")

_INNER_MARKS = str.maketrans("", "", "'’-")


@dataclass(frozen=True)
class WordRules:
    """Which words of a list or text become part of a vocabulary, and where they may stand.

    The defaults are for English; see `for_language`.

    Attributes
    ----------
    characters
        ``letters``: words of letters alone. ``marks``: with apostrophes and hyphens inside as
        well ("don't"). ``any``: whatever has a letter or digit.
    derive_first
        Whether every word allowed elsewhere is also allowed first, in capitalised form, even
        where that form was not listed or seen.
    names
        Whether capitalised words without a lower-case form in the list are allowed elsewhere too.
    capitals
        Capitalised words that are always allowed elsewhere.
    exclude
        Words to leave out, ignoring case.
    repeatable
        Words that a sentence may hold more than once, ignoring case.
    """

    characters: str = "letters"
    derive_first: bool = False
    names: bool = False
    capitals: frozenset[str] = ENGLISH_CAPITALS
    exclude: frozenset[str] = ENGLISH_LETTERS
    repeatable: frozenset[str] = ENGLISH_REPEATABLE

    def __post_init__(self) -> None:
        if self.characters not in CHARACTERS:
            raise UnknownNameError.among("kind of characters", self.characters, CHARACTERS)

    @classmethod
    def for_language(cls, language: str) -> WordRules:
        """Return the defaults for English, and rules without any list of words otherwise."""
        if language.split("-")[0].split("_")[0].lower() == "en":
            return cls()
        return cls(capitals=frozenset(), exclude=frozenset(), repeatable=frozenset())

    def admit(self, words: Iterable[str]) -> list[str]:
        """Return those of `words` that the rules admit, each once, in order."""
        listed = dict.fromkeys(words)
        exclude = {word.casefold() for word in self.exclude}
        return [
            word
            for word in listed
            if self._formed(word)
            and word.casefold() not in exclude
            and not (_shouted(word) and (word.capitalize() in listed or word.lower() in listed))
        ]

    def _formed(self, word: str) -> bool:
        if split_word(word)[1] != word or word.split() != [word]:
            return False
        if self.characters == "any":
            return any(c.isalnum() for c in word)
        bare = word.translate(_INNER_MARKS) if self.characters == "marks" else word
        ends_in_letters = word[:1].isalnum() and (word[-1].isalnum() or _is_letter(word[-1]))
        return ends_in_letters and (bare.isalpha() or all(map(_is_letter, bare)))


def _is_letter(character: str) -> bool:
    # Vowel signs of Indic scripts are marks (M), not letters (L), to Unicode.
    return unicodedata.category(character)[0] in "LM"


def _shouted(word: str) -> bool:
    return len(word) > 1 and word.isupper()
