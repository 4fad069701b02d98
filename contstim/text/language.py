"""What a language wants of written sentences: words, marks, capitals, elision, agreement.

A *word* is what stands between white space, unless the language says otherwise: French cuts after
an elided ``l'``, a script without spaces has a segmenter. Around its *core* a word may carry
marks: in ``"Stop!" she said.`` the first word is ``"Stop!"``, its core ``Stop``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from contstim.errors import InputError

#: No-break spaces, the wide and the narrow one: part of the word whose marks they set apart.
NO_BREAK_SPACES = "\u00a0\u202f"

# Apostrophes and hyphens are part of the core ("don't", "dogs'", "well-known").
_OPENING = '"“”„«»‘([{<¿¡‚‹（「『《【〔'
_CLOSING = '"“”«»)]}>.,;:!?…。！？›、，；：）」』》】〕'
# Of marks that do both, these open where nothing else tells.
_OPENS = frozenset(_OPENING) - {'"', "”", "»"}
_BEFORE, _AFTER = re.escape(_OPENING + NO_BREAK_SPACES), re.escape(_CLOSING + NO_BREAK_SPACES)
_AFFIXES = re.compile(f"^([{_BEFORE}]*)(.*?)([{_AFTER}]*)$", flags=re.DOTALL)
# White space where a line may break.
_BREAKS = re.compile(rf"[^\S{NO_BREAK_SPACES}]+")


def split_word(word: str) -> tuple[str, str, str]:
    """Split a word into opening punctuation, core and closing punctuation.

    The three parts joined give back the word. A word of punctuation alone (``--``, ``...``) is
    its own core.
    """
    match = _AFFIXES.match(word)
    if match is None or not match.group(2):
        return "", word, ""
    return match.group(1), match.group(2), match.group(3)


def is_closing(text: str) -> bool:
    """Return whether a text is of marks that close a word, one at least."""
    return bool(text) and all(character in _CLOSING for character in text)


def closing_mark(character: str) -> bool:
    """Return whether a character, which may be none, is a mark that closes a word."""
    return character in _CLOSING


@dataclass(frozen=True)
class AgreementRule:
    """Two words that do not go side by side, no mark between them.

    Attributes
    ----------
    left, right
        Regular expressions for the whole of either core, in lower case.
    reason
        Why, in a few words, as the review shows it.

    Examples
    --------
    >>> rule = AgreementRule("a", "[aeio].*", "'an' before a vowel")
    >>> rule.forbids("a", "apple"), rule.forbids("a", "dog")
    (True, False)
    """

    left: str
    right: str
    reason: str

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        return re.compile(self.left), re.compile(self.right)

    def forbids(self, left: str, right: str) -> bool:
        """Return whether two cores in lower case are such words."""
        first, second = self._patterns
        return first.fullmatch(left) is not None and second.fullmatch(right) is not None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Language:
    """A language: what its words, marks and sentences look like. One record each, by its code.

    Attributes
    ----------
    code, name
        ``de`` as in ISO 639-1, and ``German``.
    direction
        ``ltr`` or ``rtl``.
    script_pattern
        Regular expression of a letter that only texts of this language have, of those that have a
        record; empty where letters do not tell.
    frequent_words
        Words in lower case by which a text is taken to be of the language.
    segment
        Function that cuts a text without spaces into words and marks, whose concatenation is the
        text; None where white space does.
    elision_pattern
        Regular expression of words in lower case after which the next follows without a space.
    space_before
        By mark that closes a word, the no-break space before it.
    space_after
        By mark that opens a word, the no-break space after it.
    opening_marks
        By mark that ends a sentence, the mark that must open it.
    upper
        By letter, its upper case where that is not Unicode's, as of the Turkish i.
    has_case
        Whether a sentence begins with a capital.
    noun_cues
        Where nouns have capitals: words after which one with a capital is no name.
    capitals
        Words that keep their capital inside a sentence without being names.
    fragments
        What is no word alone.
    repeatable
        Words that a sentence may hold twice.
    agreement
        Neighbours that do not go together.
    offensive_list
        Where a documented list of offensive words can be had; ``bundled`` for that which comes
        with contstim; empty where none is known.

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
        """Whether words are what stands between white space."""
        return self.segment is None and not (
            self.elision_pattern or self.space_before or self.space_after
        )

    def unit_name(self, name: str) -> str:
        """Return what a model's units are called that are cut so: ``words``, or ``words of fr``."""
        return name if self.is_space_delimited else f"{name} of {self.code}"

    @cached_property
    def _lower(self) -> dict[int, str]:
        return str.maketrans({capital: small for small, capital in self.upper.items()})

    def lower(self, text: str) -> str:
        """Return a text in lower case."""
        return text.translate(self._lower).lower() if self._lower else text.lower()

    def fold(self, word: str) -> str:
        """Return what is alike for all writings of a word: it without case."""
        return word.translate(self._lower).casefold() if self._lower else word.casefold()

    def capitalise(self, word: str) -> str:
        """Return a word with its first letter in upper case and the others untouched."""
        return self.upper.get(word[:1], word[:1].upper()) + word[1:]

    def split(self, text: str) -> list[str]:
        r"""Cut a text into its words, each with its marks; spaces of marks are made no-break.

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
        chunks = [chunk for chunk in _BREAKS.split(self._with_spaces(text)) if chunk.strip()]
        if self.segment is not None:
            return [word for chunk in chunks for word in self._segmented(chunk)]
        return [word for chunk in chunks for word in self._unelided(chunk)]

    def join(self, words: Iterable[str]) -> str:
        """Write words, each with its marks, as one text.

        Examples
        --------
        >>> from contstim.text.languages import get_language
        >>> get_language("fr").join(["L'", "homme", "dort."])
        "L'homme dort."
        """
        if self.is_space_delimited:
            return " ".join(words)
        text = last = ""
        for word in words:
            text += (self._between(last, word) if text else "") + word
            last = word
        return text

    def normalise_spacing(self, text: str) -> str:
        """Return a text as the language writes it: its words joined again."""
        return self.join(self.split(text))

    def round_trips(self, words: Sequence[str]) -> bool:
        """Return whether words that are written as one text are read as these words again."""
        return self.split(self.join(words)) == list(words)

    def is_elided(self, word: str) -> bool:
        """Return whether a core is one after which the next follows without a space."""
        return (
            bool(self.elision_pattern)
            and re.fullmatch(self.elision_pattern, word, re.IGNORECASE) is not None
        )

    def agreement_error(self, left: str, right: str) -> str:
        """Return why two cores do not go side by side; nothing if they do, or nobody can tell."""
        if not self.agreement:
            return ""
        pair = self.lower(left).replace("’", "'"), self.lower(right)
        rules = (rule.reason for rule in self.agreement if rule.forbids(*pair))
        return next(rules, "")

    def word_spans(self, text: str) -> list[tuple[int, int]]:
        """Return where in a tidy text each word begins and ends.

        Raises
        ------
        InputError
            If the text is not as the language writes it.
        """
        places, at = [], 0
        for word in self.split(text):
            start = text.find(word, at)
            if start < 0:
                raise InputError(f"{text!r} is not written as {self.name} is: {word!r}")
            at = start + len(word)
            places.append((start, at))
        return places

    def _with_spaces(self, text: str) -> str:
        """Return a text in which a space before or after a mark that wants one is no-break."""
        if self.space_before:
            marks = re.escape("".join(self.space_before))
            text = re.sub(rf"(?<=\S)\s+([{marks}])", lambda m: self.space_before[m[1]] + m[1], text)
        if self.space_after:
            marks = re.escape("".join(self.space_after))
            text = re.sub(rf"([{marks}])\s+", lambda m: m[1] + self.space_after[m[1]], text)
        return text

    @cached_property
    def _elision(self) -> re.Pattern[str] | None:
        if not self.elision_pattern:
            return None
        return re.compile(
            rf"[{_BEFORE}]*(?:{self.elision_pattern})(?=[{_BEFORE}]*[^\W_])", re.IGNORECASE
        )

    def _unelided(self, chunk: str) -> list[str]:
        """Cut what stands between spaces after elided words."""
        words, at = [], 0
        while self._elision and (match := self._elision.match(chunk, at)):
            words.append(match.group())
            at = match.end()
        return [*words, chunk[at:]]

    def _segmented(self, chunk: str) -> list[str]:
        """Cut what stands between spaces by the segmenter, marks put to their words."""
        assert self.segment is not None
        words: list[str] = []
        pending = ""
        for piece in self.segment(chunk):
            if all(c in _OPENS for c in piece):
                pending += piece
            elif all(c in _CLOSING for c in piece) and words and not pending:
                words[-1] += piece
            else:
                words.append(pending + piece)
                pending = ""
        if pending and words:
            words[-1] += pending
        elif pending:
            words.append(pending)
        return words

    def _between(self, word: str, following: str) -> str:
        """Return what stands between two words."""
        if self.segment is None:
            elided = self._elision and self._elision.match(word + following)
            return "" if elided and elided.end() == len(word) else " "
        both = word[-1:] + following[:1]
        return " " if both.isascii() and both.isalnum() else ""
