"""Writing conventions of languages: words, punctuation, capitals, elision and agreement.

Words are separated by white space in most languages. French also splits after an elided ``l'``, and
scripts without spaces need a segmenter. The *core* of a word is the word without the punctuation
around it. In ``"Stop!" she said.`` the first word is ``"Stop!"`` and its core is ``Stop``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from contstim.errors import InputError

#: The no-break space and the narrow no-break space, which attach a mark to its word.
NO_BREAK_SPACES = "\u00a0\u202f"

#: Invisible characters that change the direction in which text is displayed.
DIRECTION_MARKS = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)

#: Punctuation that may follow the core of a word.
CLOSING_MARKS = '"“”«»)]}>.,;:!?…。！？›、，；：）」』》】〕'
# Apostrophes and hyphens belong to neither list: they are part of the core ("don't", "dogs'").
_OPENING_MARKS = '"“”„«»‘([{<¿¡‚‹（「『《【〔'
# Marks that open a word even if a segmenter returns them alone. '"', "”" and "»" may also close.
_ALWAYS_OPENING = frozenset(_OPENING_MARKS) - {'"', "”", "»"}

_BEFORE_CORE = re.escape(_OPENING_MARKS + NO_BREAK_SPACES)
_AFTER_CORE = re.escape(CLOSING_MARKS + NO_BREAK_SPACES)
_WORD_PARTS = re.compile(f"^([{_BEFORE_CORE}]*)(.*?)([{_AFTER_CORE}]*)$", flags=re.DOTALL)
_BREAKING_SPACES = re.compile(rf"[^\S{NO_BREAK_SPACES}]+")
_NEVER = "(?!)"  # a regular expression without a match


def split_word(word: str) -> tuple[str, str, str]:
    """Split a word into opening punctuation, the word itself and closing punctuation.

    The concatenation of the three parts equals `word`. Text that consists of punctuation only
    (``--``, ``...``) is not split, but returned as the second part.
    """
    match = _WORD_PARTS.match(word)
    if match is None:
        return "", word, ""
    before, core, after = match.groups()
    return (before, core, after) if core else ("", word, "")


def is_closing(text: str) -> bool:
    """Return whether a text is not empty and consists of closing punctuation only."""
    return bool(text) and all(character in CLOSING_MARKS for character in text)


@dataclass(frozen=True)
class AgreementRule:
    """Rule that two adjacent words are ungrammatical together, such as "a" before a vowel.

    Attributes
    ----------
    left, right
        Regular expressions for the first and the second word. They must match the whole word, in
        lower case and without punctuation.
    reason
        Short explanation of the error, which is shown to reviewers of sentences.

    Examples
    --------
    >>> rule = AgreementRule("a", "[aeio].*", "'an' before a vowel")
    >>> rule.forbids("a", "apple"), rule.forbids("a", "dog")
    (True, False)
    """

    left: str
    right: str
    reason: str

    def forbids(self, left: str, right: str) -> bool:
        """Return whether the rule forbids two adjacent words.

        The words are given in lower case and without punctuation.
        """
        return bool(re.fullmatch(self.left, left) and re.fullmatch(self.right, right))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Language:
    """Writing conventions of one language, for example how sentences are split into words.

    Attributes
    ----------
    code, name
        ISO 639-1 code (``de``) and English name (``German``).
    direction
        Writing direction, ``ltr`` or ``rtl``.
    script_pattern
        Regular expression for letters that no other registered language uses. Empty if the letters
        do not identify the language.
    frequent_words
        Frequent words in lower case; `detect_language` uses them to recognise the language.
    segment
        Function that segments a text without spaces into words and punctuation marks. None if words
        are separated by white space.
    elision_pattern
        Regular expression for lower-case words that are joined to the next word without a space,
        for example the French "l'".
    space_before
        Mapping from closing mark to the no-break space that precedes it.
    space_after
        Mapping from opening mark to the no-break space that follows it.
    opening_marks
        Mapping from final mark to the mark that opens the sentence, for example ``?`` to ``¿``.
    upper
        Mapping from lower-case to upper-case letter, for letters that differ from Unicode's
        mapping, such as the Turkish i.
    has_case
        Whether sentences begin with a capital letter.
    noun_cues
        Words that precede nouns, in languages that capitalise all nouns. A capitalised word after
        a cue is a common noun, not a name.
    capitals
        Words that are capitalised within a sentence although they are not names.
    fragments
        Parts of words that are not words themselves.
    repeatable
        Words that may occur twice in a sentence.
    agreement
        Rules that adjacent words must satisfy.
    offensive_list
        Source of a list of offensive words: ``bundled`` for the list in this package, or the
        name of another list. Empty if none is known.

    Examples
    --------
    >>> italian = Language(code="it", name="Italian", elision_pattern="(?:l|un|dell)'")
    >>> italian.split("L'amico dell'uomo.")
    ["L'", 'amico', "dell'", 'uomo.']
    """

    code: str
    name: str
    direction: str = "ltr"
    script_pattern: str = ""
    frequent_words: frozenset[str] = frozenset()
    segment: Callable[[str], Sequence[str]] | None = None
    elision_pattern: str = ""
    space_before: Mapping[str, str] = field(default_factory=dict)
    space_after: Mapping[str, str] = field(default_factory=dict)
    opening_marks: Mapping[str, str] = field(default_factory=dict)
    upper: Mapping[str, str] = field(default_factory=dict)
    has_case: bool = True
    noun_cues: frozenset[str] = frozenset()
    capitals: frozenset[str] = frozenset()
    fragments: frozenset[str] = frozenset()
    repeatable: frozenset[str] = frozenset()
    agreement: tuple[AgreementRule, ...] = ()
    offensive_list: str = ""

    def __repr__(self) -> str:
        return f"<Language {self.code}>"

    @cached_property
    def is_space_delimited(self) -> bool:
        """Whether white space alone separates words."""
        has_spacing_rules = self.elision_pattern or self.space_before or self.space_after
        return self.segment is None and not has_spacing_rules

    @property
    def capitalises_nouns(self) -> bool:
        """Whether all nouns begin with a capital letter within sentences, as in German."""
        return bool(self.noun_cues)

    def unit_name(self, unit: str) -> str:
        """Return the name of a unit of text, such as ``words`` or, for French, ``words of fr``.

        The language code is added if words are not separated by white space alone.
        """
        return unit if self.is_space_delimited else f"{unit} of {self.code}"

    @cached_property
    def _lower_table(self) -> dict[int, str]:
        """Translation table from upper-case letters to the lower case of this language."""
        return str.maketrans({capital: letter for letter, capital in self.upper.items()})

    @cached_property
    def _elision(self) -> re.Pattern[str]:
        """Regular expression of an elided word at the start of a text, for example ``l'``.

        It includes opening marks (``«l'``), and requires that a letter or digit follows.
        """
        elided = self.elision_pattern or _NEVER
        return re.compile(
            rf"[{_BEFORE_CORE}]*(?:{elided})(?=[{_BEFORE_CORE}]*[^\W_])", re.IGNORECASE
        )

    def lower(self, text: str) -> str:
        """Return a text in lower case."""
        return text.translate(self._lower_table).lower() if self.upper else text.lower()

    def fold(self, word: str) -> str:
        """Return the case-folded form of a word, for comparisons that ignore case."""
        return word.translate(self._lower_table).casefold() if self.upper else word.casefold()

    def capitalise(self, word: str) -> str:
        """Return a word with its first letter in upper case and its other letters unchanged."""
        return self.upper.get(word[:1], word[:1].upper()) + word[1:]

    def split(self, text: str) -> list[str]:
        r"""Split a text into words with their punctuation.

        Spaces between a word and its marks become no-break spaces.

        Raises
        ------
        MissingExtraError
            If the segmenter of the language is not installed.

        Examples
        --------
        >>> from contstim.text.languages import get_language
        >>> get_language("fr").split("L'homme dort !")
        ["L'", 'homme', 'dort\u202f!']
        """
        if self.is_space_delimited:
            return text.split()

        # French puts spaces between words and marks ("Quoi ?"). Replace them by no-break spaces, so
        # that the marks are not separated from their words below.
        if self.space_before:
            marks = re.escape("".join(self.space_before))
            text = re.sub(rf"(?<=\S)\s+([{marks}])", lambda m: self.space_before[m[1]] + m[1], text)
        if self.space_after:
            marks = re.escape("".join(self.space_after))
            text = re.sub(rf"([{marks}])\s+", lambda m: m[1] + self.space_after[m[1]], text)

        words: list[str] = []
        for chunk in _BREAKING_SPACES.split(text):
            if not chunk.strip():
                continue
            # Languages without spaces between words, such as Chinese, have a segmenter.
            if self.segment is not None:
                words += _attach_marks(self.segment(chunk))
                continue
            # Split after each elided word: "l'homme" becomes "l'" and "homme".
            match = self._elision.match(chunk)
            start = 0
            while match:
                words.append(match.group())
                start = match.end()
                match = self._elision.match(chunk, start)
            words.append(chunk[start:])
        return words

    def join(self, words: Iterable[str]) -> str:
        """Join words with their punctuation into one text; the inverse of `split`.

        Examples
        --------
        >>> from contstim.text.languages import get_language
        >>> get_language("fr").join(["L'", "homme", "dort."])
        "L'homme dort."
        """
        if self.is_space_delimited:
            return " ".join(words)
        listed = list(words)
        text = "".join(listed[:1])
        for previous, word in pairwise(listed):
            if self.segment is None:
                # Elided words are followed by no space, for example the French "l'".
                elision = self._elision.match(previous + word)
                needs_space = elision is None or elision.end() != len(previous)
            else:
                # In a text without spaces, only adjacent Latin words or numbers need one.
                boundary = previous[-1:] + word[:1]
                needs_space = boundary.isascii() and boundary.isalnum()
            text += f" {word}" if needs_space else word
        return text

    def normalise_spacing(self, text: str) -> str:
        """Return a text with the spaces that the language prescribes between words and marks."""
        return self.join(self.split(text))

    def is_elided(self, word: str) -> bool:
        """Return whether a word is elided (``l'``), that is, joined to the next word."""
        return bool(re.fullmatch(self.elision_pattern or _NEVER, word, re.IGNORECASE))

    def agreement_error(self, left: str, right: str) -> str:
        """Return the reason why two adjacent words are ungrammatical; empty if they are correct.

        The words must be given without punctuation.
        """
        if not self.agreement:
            return ""
        left, right = self.lower(left).replace("’", "'"), self.lower(right)
        reasons = (rule.reason for rule in self.agreement if rule.forbids(left, right))
        return next(reasons, "")

    def word_spans(self, text: str) -> list[tuple[int, int]]:
        """Return the character offsets of the start and the end of each word in a text.

        Raises
        ------
        InputError
            If the spaces of the text differ from the output of `normalise_spacing`.
        """
        spans = []
        # Search for each word after the end of the previous word.
        end = 0
        for word in self.split(text):
            start = text.find(word, end)
            if start < 0:
                raise InputError(
                    f"cannot find the word {word!r} in {text!r}, because the spaces differ from "
                    f"the rules of {self.name}; apply Language.normalise_spacing first"
                )
            end = start + len(word)
            spans.append((start, end))
        return spans


def _attach_marks(pieces: Iterable[str]) -> list[str]:
    """Attach punctuation marks to words.

    Opening marks, such as a left parenthesis, are attached to the next word. Closing marks, such as
    a full stop, are attached to the previous word.

    Parameters
    ----------
    pieces
        Words and punctuation marks of a text in their order, separated by a word segmenter.

    Returns
    -------
    list of str
        Words with the attached marks.
    """
    words: list[str] = []
    opening = ""  # opening marks that wait for the next word
    for piece in pieces:
        if all(character in _ALWAYS_OPENING for character in piece):
            opening += piece
        elif words and not opening and all(character in CLOSING_MARKS for character in piece):
            words[-1] += piece
        else:
            words.append(opening + piece)
            opening = ""
    # Opening marks at the end of the text have no next word. Attach them to the last word.
    if opening and words:
        words[-1] += opening
    elif opening:
        words.append(opening)
    return words
