"""Sentences and words: splitting them, reading files of them, and the bundled pool.

Splitting is explicit and reversible, and nothing here is model-specific.

What a word is depends on the language (`contstim.text.language`); in most it is what stands
between white space. Around its *core* a word may carry punctuation. Replacing a word replaces the
core and leaves the punctuation where it was.
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
from itertools import groupby
from os import PathLike

from contstim.errors import InputError
from contstim.text.language import NO_BREAK_SPACES, Language, closing_mark, split_word
from contstim.text.languages import ENGLISH, language_from_script
from contstim.text.normalise import normalise_sentence
from contstim.text_files import format_source, read_csv_header, read_csv_rows, read_lines

#: How a word-level model sees the punctuation around a word's core.
PUNCTUATION_POLICIES = ("keep", "split", "drop")

_MOST_CHARACTERS = 20_000  # of a sentence in a file
_NO_BREAK = re.compile(f"[{NO_BREAK_SPACES}]")  # spaces of marks are none of a word's letters
_RUNS = re.compile(r"((.)\2*)", flags=re.DOTALL)


def tokenize_word(word: str, punctuation: str) -> list[str]:
    """Return the tokens a word-level model scores for one whitespace-separated word.

    Parameters
    ----------
    word
        One word, punctuation attached.
    punctuation
        ``keep``: the word as given is one token. ``split``: each run of one mark is a token of
        its own (``said...`` is ``said`` and ``...``). ``drop``: the core alone; a word of
        punctuation alone has no token.
    """
    # Most words are letters alone, for which all policies agree, or letters and one mark; this is
    # much the faster way.
    if punctuation == "keep" or word.isalpha():
        return [strip_no_break_spaces(word)]
    if closing_mark(word[-1:]) and word[:-1].isalpha():
        return [word[:-1]] if punctuation == "drop" else [word[:-1], word[-1]]
    before, core, after = split_word(strip_no_break_spaces(word))
    if punctuation == "drop":
        return [core] if any(c.isalnum() for c in core) else []
    marks_before = [m.group(1) for m in _RUNS.finditer(before)]
    return [*marks_before, core, *(m.group(1) for m in _RUNS.finditer(after))]


def strip_no_break_spaces(word: str) -> str:
    """Return a word without the no-break spaces of its marks, as word-level models have it."""
    return word if word.isascii() else _NO_BREAK.sub("", word)


def find_repeats(
    words: Iterable[str],
    repeatable: Collection[str] = (),
    fold: Callable[[str], str] = str.casefold,
) -> list[str]:
    """Return, case-folded, the words that come twice or more, but for `repeatable` ones."""
    counts = Counter(map(fold, words))
    return [word for word, n in counts.items() if n > 1 and word not in repeatable]


@dataclass(frozen=True)
class Sentence:
    """A sentence as words with the punctuation around each.

    Attributes
    ----------
    words
        The W cores, in order.
    before, after
        The punctuation that opens and closes each word (W strings each, mostly empty).
    language
        What says how the words are written as one text.

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
        """Split `text` into words; ``str`` of the result is `text`, spaced as the language has it.

        Raises
        ------
        InputError
            If `text` holds no word.
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
        """Make a sentence of bare `words`: first letter capital, `final` mark at the end."""
        if not words:
            raise InputError("a sentence needs at least one word, got none")
        cores = (language.capitalise(words[0]), *words[1:])
        empty = ("",) * (len(cores) - 1)
        opening, closing = (
            language.opening_marks.get(final, ""),
            language.space_before.get(final, "") + final,
        )
        return cls(cores, (opening, *empty), (*empty, closing), language)

    def __str__(self) -> str:
        return self.language.join(self.surfaces)

    @property
    def surfaces(self) -> list[str]:
        """The words with their punctuation."""
        parts = zip(self.before, self.words, self.after, strict=True)
        return [before + word + after for before, word, after in parts]

    @property
    def round_trips(self) -> bool:
        """Whether the sentence, written and read again, has these words and marks."""
        return Sentence.parse(str(self), self.language) == self

    @property
    def agreement_errors(self) -> list[tuple[str, str, str]]:
        """Neighbours, no mark between them, that do not go together; and why each."""
        both = zip(self.words[:-1], self.words[1:], self.after[:-1], self.before[1:], strict=True)
        return [
            (left, right, reason)
            for left, right, *marks in both
            if not any(marks) and (reason := self.language.agreement_error(left, right))
        ]

    def __len__(self) -> int:
        return len(self.words)

    def check_position(self, position: int) -> None:
        """Refuse, by `InputError`, a position at which there is no word."""
        if not 0 <= position < len(self.words):
            raise InputError(
                f"position {position} is outside the {len(self.words)} words of {str(self)!r}"
            )

    def surface(self, position: int, word: str | None = None) -> str:
        """Return the word at `position`, or `word` put there, with its punctuation."""
        core = self.words[position] if word is None else word
        return self.before[position] + core + self.after[position]

    def replace(self, position: int, word: str) -> Sentence:
        """Return the sentence with the core at `position` replaced by `word`.

        Raises
        ------
        InputError
            If there is no such position.
        """
        self.check_position(position)
        return self.with_words((*self.words[:position], word, *self.words[position + 1 :]))

    def with_words(self, words: Sequence[str]) -> Sentence:
        """Return a sentence of as many other cores, with the same marks."""
        return Sentence(tuple(words), self.before, self.after, self.language)


@dataclass(frozen=True, eq=False)
class WordList:
    """An ordered list of V distinct candidate words, compared by identity.

    Models keep what they look up for a list (ids, token tries) under the list itself, so pass
    the same object again rather than an equal copy.

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
            raise InputError(f"the word list holds {word!r} twice; list each word once")

    @classmethod
    def from_words(cls, words: Iterable[str]) -> WordList:
        """Make a list of the distinct `words`, in the order of first occurrence."""
        return cls(tuple(dict.fromkeys(words)))

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each word in the list."""
        return {word: i for i, word in enumerate(self.words)}

    def case_insensitive_index(self, language: Language = ENGLISH) -> dict[str, list[int]]:
        """Return the positions of words that are one if case does not count, by that word."""
        positions = self._folded.get(language)
        if positions is None:
            positions = self._folded[language] = defaultdict(list)
            for i, word in enumerate(self.words):
                positions[language.fold(word)].append(i)
        return positions

    @cached_property
    def _folded(self) -> dict[Language, dict[str, list[int]]]:
        return {}

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index


def highlight_changes(before: str, after: str) -> str:
    """Return `after` as HTML, with ``<b>`` around the words that differ from those of `before`.

    Sentences of as many words are compared word by word; of others the longest common
    subsequences of words are what stayed.
    """
    language = language_from_script(after)
    old, new = language.split(before), language.split(after)
    if len(old) == len(new):
        same = {i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a == b}
    else:
        blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        same = {block.b + k for block in blocks for k in range(block.size)}
    runs = groupby(enumerate(new), key=lambda word: word[0] in same)
    shown = ((stayed, escape(language.join(word for _, word in run))) for stayed, run in runs)
    space = " " if language.is_space_delimited else ""
    return space.join(text if stayed else f"<b>{text}</b>" for stayed, text in shown)


def pool() -> list[str]:
    """Return the natural English sentences that come with contstim, most of eight words.

    They were written for this project and are free to use (CC0).

    Examples
    --------
    >>> pool()[0]
    'The curtains she chose were much too dark.'
    """
    text = (files("contstim") / "data" / "pool.txt").read_text(encoding="utf-8")
    return text.splitlines()


#: Natural sentences of a prompt.
PROMPT = 8


def format_prompt(sentences: Iterable[str]) -> str:
    """Return a text after which a sentence follows: some sentences, each on a line of its own."""
    return "".join(f"{sentence}\n" for sentence in sentences)


def default_prompt() -> str:
    """Return the bundled prompt: the last sentences of `pool`."""
    return format_prompt(pool()[-PROMPT:])


def read_sentences(path: str | PathLike[str], *, pairs: bool = False) -> list[str]:
    r"""Read a file of sentences: one a line, or a CSV with a column ``sentence``.

    The file is a CSV if its name says so or its first line names that column. Blank lines at the
    end are ignored.

    Parameters
    ----------
    path
        A UTF-8 file, gzip-compressed if its name ends in ``.gz``; ``-`` is standard input.
    pairs
        Whether the CSV may have columns ``sentence_1`` and ``sentence_2`` instead; each sentence of
        them is returned once.

    Raises
    ------
    InputError
        If there is no such file, it is not UTF-8 or holds no sentence, a line is empty, has more
        than 20,000 characters or holds a carriage return, or a row of a CSV has more cells than
        the header; the message names the file and the line.

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
        raise InputError(f"{name} holds no sentence; give one sentence per line")
    both = ("sentence_1", "sentence_2") if pairs else ()
    header = read_csv_header(path, lines, "sentence", *both)
    if header is not None and "sentence" not in header:
        columns = [_column(name, lines, header, column) for column in both]
        rows = list(
            {text: (text, number) for column in columns for text, number in column}.values()
        )
    elif header is not None:
        rows = _column(name, lines, header)
    else:
        rows = list(zip(lines, range(1, len(lines) + 1), strict=True))
        for line, number in rows:
            if "\r" in line:
                raise InputError(
                    f"{name}, line {number} holds a carriage return; save the file with the line "
                    "ends of Unix or Windows"
                )
    for text, number in rows:
        if not text.strip():
            raise InputError(f"{name}, line {number} has no sentence; fill or remove the line")
        if len(text) > _MOST_CHARACTERS:
            raise InputError(
                f"{name}, line {number} has {len(text)} characters, more than the "
                f"{_MOST_CHARACTERS} that a sentence may have; give one sentence per line"
            )
    return [normalise_sentence(text) for text, _ in rows]


def _column(
    name: str, lines: list[str], header: list[str], label: str = "sentence"
) -> list[tuple[str, int]]:
    """Return each cell of a column, and the number of the line it ends on."""
    if header.count(label) > 1:
        raise InputError(f"{name} has two columns {label!r}; leave one")
    column = header.index(label)
    rows = [(row[column], number) for number, row in read_csv_rows(lines, name, fill=True)]
    if len(rows) < 2:
        raise InputError(f"{name} holds no sentence, only a header; add rows")
    return rows[1:]


def read_words(path: str | PathLike[str]) -> tuple[str, ...]:
    """Read a list of words between white space, such as one a line; each counts once."""
    return tuple(dict.fromkeys(word for _, line in read_lines(path) for word in line.split()))


def parse_length_range(text: str) -> tuple[int, int]:
    """Read ``8`` or ``6-12`` as the shortest and the longest length in words."""
    shortest, dash, longest = text.partition("-")
    try:
        limits = int(shortest), int(longest if dash else shortest)
    except ValueError:
        raise InputError(f"{text!r} is no length; write 8 or 6-12") from None
    return limits
