"""Rules for the entries of a word list or text that are used as words of a vocabulary."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from contstim.errors import require_known
from contstim.text.language import Language, split_word
from contstim.text.languages import ENGLISH, get_language

#: Characters that a word may consist of, see `WordRules`.
CHARACTERS = ("letters", "marks", "any")

# Translation table that removes apostrophes and hyphens.
_REMOVE_MARKS = str.maketrans("", "", "'’-")


@dataclass(frozen=True)
class WordRules:
    """Rules for the words of a vocabulary and the positions in a sentence where they are allowed.

    The defaults are for English; use `for_language` for other languages.

    Attributes
    ----------
    characters
        ``letters``: words of letters only. ``marks``: words with inner apostrophes and hyphens
        as well ("don't"). ``any``: all words with a letter or digit.
    derive_first
        Whether the capitalised form of each word allowed elsewhere is allowed at the first
        position, even if the list or text does not contain it. Default False.
    names
        Whether capitalised words without a lower-case form in the list are allowed after the
        first position. Default False.
    capitals
        Capitalised words that are always allowed after the first position.
    exclude
        Words to exclude, ignoring case.
    repeatable
        Words that may occur more than once in a sentence, ignoring case.
    language
        Language of the words.
    """

    characters: str = "letters"
    derive_first: bool = False
    names: bool = False
    capitals: frozenset[str] = ENGLISH.capitals
    exclude: frozenset[str] = ENGLISH.fragments
    repeatable: frozenset[str] = ENGLISH.repeatable
    language: Language = ENGLISH

    def __post_init__(self) -> None:
        require_known("kind of characters", self.characters, CHARACTERS)

    @classmethod
    def for_language(cls, code: str) -> WordRules:
        """Return the rules for a language, given by its code."""
        language = get_language(code)
        # The language provides the lists of words, for example words that are always capitalised.
        return cls(
            capitals=language.capitals,
            exclude=language.fragments,
            repeatable=language.repeatable,
            language=language,
        )

    def filter(self, words: Iterable[str]) -> list[str]:
        """Return the distinct words that satisfy the rules, in order."""
        language = self.language
        listed = dict.fromkeys(words)  # removes duplicates and keeps the order
        excluded = set(map(language.fold, self.exclude))
        accepted = []
        for word in listed:
            if not self.is_word(word) or language.fold(word) in excluded:
                continue
            # Skip "DOG" if "dog" or "Dog" is listed as well.
            if len(word) > 1 and word.isupper() and not language.is_elided(word):
                lower = language.lower(word)
                if lower in listed or language.capitalise(lower) in listed:
                    continue
            accepted.append(word)
        return accepted

    def is_word(self, text: str) -> bool:
        """Return whether a text is a single word that consists of allowed characters.

        Punctuation before or after the word is not allowed.
        """
        _, core, _ = split_word(text)
        # The text must not have outer punctuation, and the language must not split it.
        if core != text or self.language.split(text) != [text]:
            return False
        # Elided words, for example the French "l'", may end in an apostrophe.
        if self.language.is_elided(text):
            return True
        if self.characters == "any":
            return any(map(str.isalnum, text))
        # Apostrophes and hyphens are only allowed inside the word.
        if not text[0].isalnum() or not (text[-1].isalnum() or _is_letter(text[-1])):
            return False
        letters = text.translate(_REMOVE_MARKS) if self.characters == "marks" else text
        return all(map(_is_letter, letters))


def _is_letter(character: str) -> bool:
    # Unicode classifies the vowel signs of Indic scripts as marks (M), not as letters (L).
    return unicodedata.category(character)[0] in "LM"
