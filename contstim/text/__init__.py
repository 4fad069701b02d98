"""Sentences, words and word lists, and readers of sentence files.

The division of a text into words depends on its language (`contstim.text.language`). In most
languages words are separated by white space. The punctuation around a word stays in place if the
word is replaced. A word without this punctuation is called its *core*.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from html import escape
from importlib.resources import files
from itertools import groupby, pairwise
from operator import itemgetter
from os import PathLike

from contstim.errors import InputError
from contstim.text.language import CLOSING_MARKS, NO_BREAK_SPACES, Language, split_word
from contstim.text.languages import ENGLISH, language_from_script
from contstim.text.normalise import normalise_sentence
from contstim.text_files import format_source, read_csv_header, read_csv_rows, read_lines

#: Treatments of punctuation by word-level models, see `tokenize_word`.
PUNCTUATION_POLICIES = ("keep", "split", "drop")

_MAX_CHARACTERS = 20_000  # of one sentence in a file
_N_PROMPT_SENTENCES = 8
_NO_BREAK_SPACE = re.compile(f"[{NO_BREAK_SPACES}]")
_REPEATED_CHARACTER = re.compile(r"(.)\1*", flags=re.DOTALL)


def tokenize_word(word: str, punctuation: str) -> list[str]:
    """Split a word with punctuation marks into tokens for a word-level language model.

    Parameters
    ----------
    word
        Word of a sentence with its punctuation, for example ``said...``.
    punctuation
        ``keep``: the word with its punctuation is one token. ``split``: the word without
        punctuation is a token, and so is each run of one mark (``said`` and ``...``). ``drop``:
        the word without punctuation is the only token; punctuation alone has no token.
    """
    if punctuation == "keep" or word.isalpha():
        return [strip_no_break_spaces(word)]
    # Treat the frequent case of letters and one closing mark first, because it is fast.
    if word[-1:] in CLOSING_MARKS and word[:-1].isalpha():
        return [word[:-1]] if punctuation == "drop" else [word[:-1], word[-1]]

    before, core, after = split_word(strip_no_break_spaces(word))
    if punctuation == "drop":
        return [core] if any(map(str.isalnum, core)) else []
    # Each run of the same mark is a token: '!!"' becomes "!!" and '"'.
    marks_before = [run.group() for run in _REPEATED_CHARACTER.finditer(before)]
    marks_after = [run.group() for run in _REPEATED_CHARACTER.finditer(after)]
    return [*marks_before, core, *marks_after]


def strip_no_break_spaces(word: str) -> str:
    """Return a word without no-break spaces, which separate a word from its marks in French."""
    return word if word.isascii() else _NO_BREAK_SPACE.sub("", word)


def find_repeats(
    words: Iterable[str],
    repeatable: Collection[str] = (),
    fold: Callable[[str], str] = str.casefold,
) -> list[str]:
    """Return the words that occur more than once, ignoring case.

    Parameters
    ----------
    words
        Words of a sentence.
    repeatable
        Case-folded words that may occur more than once and are not returned.
    fold
        Function that case-folds a word. It depends on the language.

    Returns
    -------
    list of str
        Repeated words, case-folded.
    """
    counts = Counter(map(fold, words))
    return [word for word, n in counts.items() if n > 1 and word not in repeatable]


@dataclass(frozen=True)
class Sentence:
    """Sentence that is split into words and the punctuation before and after each word.

    Attributes
    ----------
    words
        The W words of the sentence, without punctuation.
    before, after
        Punctuation before and after each word: W strings each, most of which are empty.
    language
        Language of the sentence, which determines the spaces between words.

    Examples
    --------
    >>> sentence = Sentence.parse("The dog, at last, slept.")
    >>> sentence.words
    ('The', 'dog', 'at', 'last', 'slept')
    >>> str(sentence)
    'The dog, at last, slept.'
    """

    words: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    language: Language = field(default=ENGLISH, repr=False)

    def __post_init__(self) -> None:
        if not len(self.words) == len(self.before) == len(self.after):
            raise InputError(
                f"a sentence needs as many punctuation entries as words, got {len(self.words)} "
                f"words, {len(self.before)} before and {len(self.after)} after"
            )

    @classmethod
    def parse(cls, text: str, language: Language = ENGLISH) -> Sentence:
        """Split a text into words and punctuation.

        ``str`` converts the result back to text, with the spaces that the language requires.

        Parameters
        ----------
        text
            One sentence.
        language
            Language of the sentence. Default English.

        Raises
        ------
        InputError
            If the text contains no word.
        """
        parts = [split_word(word) for word in language.split(text)]
        if not parts:
            raise InputError(f"a sentence needs at least one word, got {text!r}")
        before, words, after = zip(*parts, strict=True)
        return cls(words, before, after, language)

    @classmethod
    def from_words(
        cls, words: Sequence[str], final: str = ".", language: Language = ENGLISH
    ) -> Sentence:
        """Build a sentence from words, and add a capital letter and final punctuation.

        In Spanish, the sentence also begins with a mark, for example ``¿`` if it ends with ``?``.

        Parameters
        ----------
        words
            Words without punctuation. The first word is capitalised.
        final
            Punctuation mark to add after the last word.
        language
            Language of the words. Default English.
        """
        if not words:
            raise InputError("a sentence needs at least one word, got none")
        first_word, *other_words = words
        capitalised = (language.capitalise(first_word), *other_words)
        # Only the first word can have a mark before it, and only the last word has a mark after it.
        # The final mark determines the opening mark (Spanish) and the space before it (French).
        no_marks = ("",) * len(other_words)
        opening = language.opening_marks.get(final, "")
        closing = language.space_before.get(final, "") + final
        return cls(capitalised, (opening, *no_marks), (*no_marks, closing), language)

    def __str__(self) -> str:
        return self.language.join(self.surfaces)

    @property
    def surfaces(self) -> list[str]:
        """Words with their punctuation."""
        parts = zip(self.before, self.words, self.after, strict=True)
        return [before + word + after for before, word, after in parts]

    @property
    def round_trips(self) -> bool:
        """Whether parsing the text of the sentence gives the same sentence."""
        return Sentence.parse(str(self), self.language) == self

    @property
    def agreement_errors(self) -> list[tuple[str, str, str]]:
        """Pairs of adjacent words that are ungrammatical, such as "a" before "apple".

        Each element is a tuple of the left word, the right word and the reason why they do not
        agree. Words with punctuation between them are not compared.
        """
        errors = []
        for position, (left, right) in enumerate(pairwise(self.words)):
            # Skip words with punctuation between them: after the left or before the right word.
            if self.after[position] or self.before[position + 1]:
                continue
            reason = self.language.agreement_error(left, right)
            if reason:
                errors.append((left, right, reason))
        return errors

    def __len__(self) -> int:
        return len(self.words)

    def check_position(self, position: int) -> None:
        """Raise `InputError` if the sentence has no word at `position`."""
        if not 0 <= position < len(self.words):
            raise InputError(
                f"position {position} is outside the {len(self.words)} words of {str(self)!r}"
            )

    def surface(self, position: int, word: str | None = None) -> str:
        """Return the word at `position` with its punctuation.

        If `word` is set, it replaces the word, but not the punctuation.
        """
        bare_word = self.words[position] if word is None else word
        return self.before[position] + bare_word + self.after[position]

    def replace(self, position: int, word: str) -> Sentence:
        """Return a copy of the sentence with a different word at one position.

        Punctuation is not changed.

        Parameters
        ----------
        position
            Index of the word to replace, counted from 0.
        word
            New word, without punctuation.

        Raises
        ------
        InputError
            If the sentence has no word at `position`.
        """
        self.check_position(position)
        return self.with_words((*self.words[:position], word, *self.words[position + 1 :]))

    def with_words(self, words: Sequence[str]) -> Sentence:
        """Return a sentence of W new words with the same punctuation."""
        return Sentence(tuple(words), self.before, self.after, self.language)


@dataclass(frozen=True, eq=False)
class WordList:
    """Immutable list of V distinct words that can be placed in a sentence.

    Models cache the token ids of each list object. Therefore, two lists with the same words are not
    equal, and it is faster to use one object several times than to build equal lists.

    Examples
    --------
    >>> WordList.from_words(["dog", "cat", "dog"]).words
    ('dog', 'cat')
    """

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        counts = Counter(self.words)
        if len(counts) != len(self.words):
            word = counts.most_common(1)[0][0]
            raise InputError(f"the word list contains {word!r} twice; list each word once")

    @classmethod
    def from_words(cls, words: Iterable[str]) -> WordList:
        """Build a list of the distinct words, in the order of first occurrence."""
        return cls(tuple(dict.fromkeys(words)))

    @cached_property
    def index(self) -> dict[str, int]:
        """Mapping from word to its index in the list."""
        return {word: i for i, word in enumerate(self.words)}

    def case_insensitive_index(self, language: Language = ENGLISH) -> dict[str, list[int]]:
        """Return a mapping from case-folded word to the indices of the word in the list.

        A case-folded word has several indices if the list contains several spellings, such as
        "May" and "may".

        Parameters
        ----------
        language
            Language that determines how words are case-folded. Default English.
        """
        indices = self._case_insensitive_indices.get(language)
        if indices is None:
            indices = self._case_insensitive_indices[language] = defaultdict(list)
            for i, word in enumerate(self.words):
                indices[language.fold(word)].append(i)
        return indices

    @cached_property
    def _case_insensitive_indices(self) -> dict[Language, dict[str, list[int]]]:
        return {}

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index


def highlight_changes(before: str, after: str) -> str:
    """Return an edited sentence as HTML, with its changed words in bold.

    Sentences with the same number of words are compared word by word. Otherwise, unchanged words
    are found by `difflib.SequenceMatcher`.

    Parameters
    ----------
    before
        Original sentence.
    after
        Edited sentence. Its words that differ from the original are enclosed in ``<b>``.
    """
    language = language_from_script(after)
    old_words, new_words = language.split(before), language.split(after)
    # Find the words of the edited sentence that are unchanged.
    if len(old_words) == len(new_words):
        is_same = [old == new for old, new in zip(old_words, new_words, strict=True)]
    else:
        is_same = [False] * len(new_words)
        matcher = SequenceMatcher(None, old_words, new_words, autojunk=False)
        for block in matcher.get_matching_blocks():
            is_same[block.b : block.b + block.size] = [True] * block.size

    # Highlight each run of consecutive changed words.
    runs = []
    pairs = zip(is_same, new_words, strict=True)
    for is_unchanged, run in groupby(pairs, key=itemgetter(0)):
        text = escape(language.join(word for _, word in run))
        runs.append(text if is_unchanged else f"<b>{text}</b>")
    space = " " if language.is_space_delimited else ""
    return space.join(runs)


def pool() -> list[str]:
    """Return the natural English sentences that are bundled with contstim, most of eight words.

    They were written for this project and are free to use (CC0).

    Examples
    --------
    >>> pool()[0]
    'The curtains she chose were much too dark.'
    """
    text = (files("contstim") / "data" / "pool.txt").read_text(encoding="utf-8")
    return text.splitlines()


def format_prompt(sentences: Iterable[str]) -> str:
    """Return a prompt for a language model that consists of sentences on separate lines."""
    return "".join(f"{sentence}\n" for sentence in sentences)


def default_prompt() -> str:
    """Return the default prompt of a language model, the last eight bundled sentences."""
    return format_prompt(pool()[-_N_PROMPT_SENTENCES:])


def read_sentences(path: str | PathLike[str], *, pairs: bool = False) -> list[str]:
    r"""Read sentences from a text file, one per line, or from the column ``sentence`` of a CSV.

    A file is read as CSV if its name ends in ``.csv`` or its first line names that column. Blank
    lines at the end are ignored.

    Parameters
    ----------
    path
        UTF-8 file, gzip-compressed if its name ends in ``.gz``; ``-`` is standard input.
    pairs
        Whether a CSV may have the columns ``sentence_1`` and ``sentence_2`` instead. Each of
        their sentences is returned once. Default False.

    Raises
    ------
    InputError
        If the file does not exist, is not UTF-8 or contains no sentence; if a line is empty,
        contains a carriage return or has more than 20,000 characters; or if a row has more cells
        than the header. The message names the file and the line.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("natural.txt").write_text("The dog slept.\nHe saw a ship.\n")
    >>> read_sentences("natural.txt")
    ['The dog slept.', 'He saw a ship.']
    """
    name = format_source(path)
    lines = [line for _, line in read_lines(path)]
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise InputError(f"{name} contains no sentence; give one sentence per line")

    pair_columns = ("sentence_1", "sentence_2") if pairs else ()
    # Collect each sentence with the number of its line, for error messages.
    header = read_csv_header(path, lines, "sentence", *pair_columns)
    if header is None:
        numbered = [(line, number) for number, line in enumerate(lines, start=1)]
        for line, number in numbered:
            if "\r" in line:
                raise InputError(
                    f"{name}, line {number} contains a carriage return; save the file with the "
                    "line ends of Unix or Windows"
                )
    else:
        columns = ("sentence",) if "sentence" in header else pair_columns
        for column in columns:
            if header.count(column) > 1:
                raise InputError(f"{name} has two columns {column!r}; keep one")
        rows = list(read_csv_rows(lines, name, fill=True))[1:]
        if not rows:
            raise InputError(f"{name} contains no sentence, only a header; add rows")
        numbered = [
            (row[header.index(column)], number) for column in columns for number, row in rows
        ]
        if columns == pair_columns:
            numbered = list(dict(numbered).items())

    for text, number in numbered:
        if not text.strip():
            raise InputError(f"{name}, line {number} has no sentence; fill or remove the line")
        if len(text) > _MAX_CHARACTERS:
            raise InputError(
                f"{name}, line {number} has {len(text)} characters, more than the "
                f"{_MAX_CHARACTERS} allowed in a sentence; give one sentence per line"
            )
    return [normalise_sentence(text) for text, _ in numbered]


def read_words(path: str | PathLike[str]) -> tuple[str, ...]:
    """Read the distinct words of a file, separated by white space or line breaks."""
    return tuple(dict.fromkeys(word for _, line in read_lines(path) for word in line.split()))


def parse_length_range(text: str) -> tuple[int, int]:
    """Parse ``8`` or ``6-12`` as the minimum and maximum number of words."""
    minimum, dash, maximum = text.partition("-")
    try:
        return int(minimum), int(maximum if dash else minimum)
    except ValueError:
        raise InputError(f"{text!r} is not a length in words; write 8 or 6-12") from None
