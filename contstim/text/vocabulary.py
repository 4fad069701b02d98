"""The words that a synthetic sentence may be made of: word lists, their rules and files."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import as_file, files
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Protocol

import numpy as np

from contstim.arrays import BoolArray
from contstim.errors import InputError, require_known
from contstim.files import digest, replacing
from contstim.text import WordList
from contstim.text.language import Language, split_word
from contstim.text.languages import ENGLISH, get_language
from contstim.text_files import (
    TABLE_SUFFIXES,
    format_csv_rows,
    read_csv_header,
    read_csv_rows,
    read_lines,
)

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
    language
        How words are cut and capitalised.
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
        """Return the rules of a language; of one without a record, rules without any list."""
        language = get_language(code)
        return cls(
            capitals=language.capitals,
            exclude=language.fragments,
            repeatable=language.repeatable,
            language=language,
        )

    def filter(self, words: Iterable[str]) -> list[str]:
        """Return those of `words` that the rules admit, each once, in order."""
        listed = dict.fromkeys(words)
        language = self.language
        exclude = set(map(language.fold, self.exclude))
        return [
            word
            for word in listed
            if self._formed(word)
            and language.fold(word) not in exclude
            # A shouted word that is listed in another case as well is that word.
            and not (
                len(word) > 1
                and word.isupper()
                and not language.is_elided(word)
                and (lower := language.lower(word))
                and (language.capitalise(lower) in listed or lower in listed)
            )
        ]

    def _formed(self, word: str) -> bool:
        if split_word(word)[1] != word or self.language.split(word) != [word]:
            return False
        if self.language.is_elided(word):
            return True
        if self.characters == "any":
            return any(c.isalnum() for c in word)
        bare = word.translate(_INNER_MARKS) if self.characters == "marks" else word
        ends_in_letters = word[:1].isalnum() and (word[-1].isalnum() or _is_letter(word[-1]))
        return ends_in_letters and (bare.isalpha() or all(map(_is_letter, bare)))


def _is_letter(character: str) -> bool:
    # Vowel signs of Indic scripts are marks (M), not letters (L), to Unicode.
    return unicodedata.category(character)[0] in "LM"


_COLUMNS = ("word", "first", "elsewhere", "repeatable", "frequency")
_FLAGS = {"1": True, "yes": True, "true": True, "0": False, "no": False, "false": False, "": False}


class _Knower(Protocol):
    def in_vocabulary(self, words: Sequence[str], /) -> BoolArray: ...


@dataclass(frozen=True, eq=False, repr=False)
class Vocabulary:
    """The candidate words for each position of a sentence.

    Attributes
    ----------
    first
        Words allowed first, in the form they have there (capitalised, where the script has
        capitals).
    elsewhere
        Words allowed at every other position.
    repeatable
        Words allowed more than once in a sentence, compared ignoring case.
    frequencies
        Relative frequency of a word in the form given (0 to 1); may lack words, or be empty.
    tags
        Penn Treebank tags of a word in lower case, most frequent first; may lack words, or be
        empty.
    language
        Of the words, which says how sentences of them are written.

    Raises
    ------
    InputError
        If no word is allowed first, or none elsewhere; if a word is listed twice, is empty,
        holds white space or carries punctuation; if a frequency is not between 0 and 1.

    Examples
    --------
    >>> words = Vocabulary.from_words(["The", "A", "dog", "cat", "slept"])
    >>> words.elsewhere.words
    ('dog', 'cat', 'slept')
    """

    first: WordList
    elsewhere: WordList
    repeatable: frozenset[str] = ENGLISH.repeatable
    frequencies: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    language: Language = ENGLISH

    def __post_init__(self) -> None:
        if not len(self.first) and not len(self.elsewhere):
            raise InputError("the vocabulary is empty; give words, or lower the thresholds")
        if not len(self.first):
            raise InputError(
                "the vocabulary has no word allowed first; list capitalised words as well, or "
                "derive them from the others (derive_first)"
            )
        if not len(self.elsewhere):
            raise InputError(
                "the vocabulary has no word allowed after the first; list lower-case words as "
                "well, or allow capitalised ones there (names)"
            )
        for word in (*self.first, *self.elsewhere):
            if not word or word.split() != [word] or split_word(word)[1] != word:
                raise InputError(
                    f"the vocabulary holds {word!r}; give words without white space or the "
                    "punctuation around them"
                )
            if not self.language.is_space_delimited and self.language.split(word) != [word]:
                raise InputError(
                    f"the vocabulary holds {word!r}, which {self.language.name} cuts into "
                    f"{' and '.join(self.language.split(word))}; give single words"
                )
        for word, frequency in self.frequencies.items():
            if not 0 <= frequency <= 1:  # also refuses NaN
                raise InputError(
                    f"the relative frequency of {word!r} is {frequency}; give one from 0 to 1"
                )
        folded = frozenset(map(self.language.fold, self.repeatable))
        object.__setattr__(self, "repeatable", folded)

    @classmethod
    def from_words(
        cls,
        words: Iterable[str],
        *,
        frequencies: Mapping[str, float] | None = None,
        rules: WordRules | None = None,
    ) -> Vocabulary:
        """Make a vocabulary of words in their natural case, such as a model's own word list.

        Capitalised words are allowed first, lower-case ones elsewhere, words without case in
        both places; `rules` may allow more, and drops what is not a word ("--").

        Parameters
        ----------
        words
            The words, most frequent first by custom; order is kept.
        frequencies
            Relative frequencies, or counts: if one exceeds 1, all are divided by their sum.
        rules
            What to admit; by default `WordRules()`.

        Examples
        --------
        >>> Vocabulary.from_words(["The", "dog", "barks", "it's"]).elsewhere.words
        ('dog', 'barks')
        """
        rules = rules or WordRules()
        return cls._arrange(rules.filter(words), rules, frequencies or {})

    @classmethod
    def from_text(
        cls,
        paths: str | PathLike[str] | Iterable[str | PathLike[str]],
        *,
        size: int | None = None,
        min_count: int = 1,
        per_million: float = 0.0,
        rules: WordRules | None = None,
    ) -> Vocabulary:
        """Make a vocabulary of the words seen in a text.

        Allowed first are the capitalised words seen at the start of a sentence (of a line, or
        after a word that ends in ``.``, ``?``, ``!`` or ``…``), elsewhere the words seen in
        lower case, and names seen inside a sentence if `rules` ask for them. Where nouns have
        capitals, those are nouns that are seen after an article or the like.

        Parameters
        ----------
        paths
            One or more UTF-8 text files, best one sentence per line; gzip-compressed if the name
            ends in ``.gz``; ``-`` is standard input.
        size
            Keep the `size` most frequent forms ("The" and "the" are two), the earlier seen of
            equally frequent ones.
        min_count
            Keep forms seen at least so often.
        per_million
            Keep forms seen at least so often in a million words of the text.
        rules
            What to admit; by default `WordRules()`.

        Raises
        ------
        InputError
            For a file that cannot be read or is not UTF-8, and where no word is left.
        """
        if size is not None and size < 1:
            raise InputError(f"the size of a vocabulary must be at least 1, got {size}")
        rules = rules or WordRules()
        files = [paths] if isinstance(paths, str | PathLike) else paths
        counts, opening, inside, nouns = _count(files, rules.language)
        total = counts.total()
        admitted = [
            word
            for word in rules.filter(counts)
            if counts[word] >= min_count and counts[word] * 1e6 / total >= per_million
        ]
        # The sort is stable: equally frequent words stay in order of first occurrence.
        words = sorted(admitted, key=lambda word: -counts[word])[:size]
        frequencies = {word: counts[word] / total for word in words}
        rules = replace(rules, capitals=rules.capitals | nouns)
        return cls._arrange(words, rules, frequencies, opening, inside)

    @classmethod
    def from_wordfreq(
        cls,
        language: str = "en",
        *,
        size: int | None = None,
        per_million: float = 0.0,
        rules: WordRules | None = None,
    ) -> Vocabulary:
        """Make a vocabulary of the words of the `wordfreq` package (Speer 2022).

        Its words are all in lower case, names among them, so every word is allowed first in
        capitalised form; for names in their own case use a text.

        Parameters
        ----------
        language
            A language code such as ``en``.
        size
            Keep the `size` most frequent words that the rules admit.
        per_million
            Keep words at least so frequent; Zipf value z is 10 ** (z - 3) per million.
        rules
            What to admit; by default ``WordRules.for_language(language)``.

        Raises
        ------
        UnknownNameError
            For a language that wordfreq does not have.
        InputError
            For one in which nouns have capitals, which that list does not know.
        """
        import wordfreq

        if size is not None and size < 1:
            raise InputError(f"the size of a vocabulary must be at least 1, got {size}")
        check_wordfreq_language(language)
        rules = rules or WordRules.for_language(language)
        spoken = rules.language
        if spoken.noun_cues:
            raise InputError(
                f"wordfreq lists the words of {spoken.name} in lower case, nouns too; make the "
                "vocabulary from a text, which has their capitals"
            )
        # An elided word is listed without its apostrophe.
        capitals = {t: t + "'" for t in rules.exclude if spoken.is_elided(t + "'")}
        capitals |= {spoken.fold(word): word for word in sorted(rules.capitals)}
        table = wordfreq.get_frequency_dict(language)
        ordered = sorted(table, key=lambda word: -table[word])
        frequencies = {
            capitals.get(word, word): table[word]
            for word in ordered
            if table[word] * 1e6 >= per_million
        }
        words = rules.filter(frequencies)[:size]
        return cls._arrange(words, replace(rules, derive_first=True), frequencies)

    @classmethod
    def _arrange(
        cls,
        words: Sequence[str],
        rules: WordRules,
        frequencies: Mapping[str, float],
        opening: set[str] | None = None,
        inside: set[str] | None = None,
    ) -> Vocabulary:
        """Make a vocabulary of admitted words, each where it was seen; None: seen anywhere."""
        listed = set(words)
        # Words without case (digits, scripts without capitals) may stand anywhere.
        first = [w for w in words if not w[:1].islower() and (opening is None or w in opening)]
        elsewhere = [
            w
            for w in words
            if not (w[:1].isupper() or w[:1].istitle())
            or w in rules.capitals
            or (rules.names and w.lower() not in listed and (inside is None or w in inside))
        ]
        relative = _relative(frequencies)
        if rules.derive_first:
            capital = rules.language.capitalise
            first = list(dict.fromkeys([*first, *map(capital, elsewhere)]))
            relative = {
                **{capital(w): relative[w] for w in elsewhere if w in relative},
                **relative,
            }
        used = {*first, *elsewhere}
        return cls(
            WordList.from_words(first),
            WordList.from_words(elsewhere),
            rules.repeatable,
            {w: p for w, p in relative.items() if w in used},
            language=rules.language,
        )

    def __repr__(self) -> str:
        return (
            f"<Vocabulary {len(self.first)} words first, {len(self.elsewhere)} elsewhere, "
            f"{len(self.repeatable)} repeatable>"
        )

    @property
    def digest(self) -> str:
        """First 16 hexadecimal digits of the SHA-256 of the saved form, for provenance."""
        return digest(self.to_csv())[:16]

    def words_at(self, position: int) -> WordList:
        """Return the words allowed at `position`, counted from 0; always the same object."""
        return self.first if position == 0 else self.elsewhere

    def unlisted_words(self, words: Sequence[str]) -> list[str]:
        """Return those of a sentence's W cores that are not allowed where they stand."""
        return [word for i, word in enumerate(words) if word not in self.words_at(i)]

    def with_words(self, first: Iterable[str], elsewhere: Iterable[str]) -> Vocabulary:
        """Return the vocabulary with other words, each once, of which it may know something."""
        lists = WordList.from_words(first), WordList.from_words(elsewhere)
        used = {*lists[0], *lists[1]}
        frequencies = {w: p for w, p in self.frequencies.items() if w in used}
        return replace(self, first=lists[0], elsewhere=lists[1], frequencies=frequencies)

    def without_words(self, words: Collection[str]) -> Vocabulary:
        """Return the vocabulary without some words, given case-folded."""
        first, elsewhere = (
            WordList(tuple(word for word in own if self.language.fold(word) not in words))
            for own in (self.first, self.elsewhere)
        )
        return replace(self, first=first, elsewhere=elsewhere, frequencies={})

    def restrict(self, models: Iterable[_Knower]) -> tuple[Vocabulary, dict[str, int]]:
        """Keep the words that every one of `models` knows.

        Returns
        -------
        vocabulary
            What is left, in the same order.
        left_out
            For each model (by its spec) how many of the words it does not know.

        Raises
        ------
        InputError
            If nothing is left to stand first, or elsewhere.
        """
        words = list(dict.fromkeys((*self.first, *self.elsewhere)))
        by_all = np.ones(len(words), dtype=np.bool_)
        left_out: dict[str, int] = {}
        for model in models:
            knows = np.asarray(model.in_vocabulary(words), dtype=np.bool_)
            left_out[str(getattr(model, "spec", model))] = int((~knows).sum())
            by_all &= knows
        shared = {word for word, keep in zip(words, by_all, strict=True) if keep}
        first, elsewhere = ([w for w in own if w in shared] for own in (self.first, self.elsewhere))
        if not first or not elsewhere:
            where = "first" if not first else "after the first"
            unknown = ", ".join(f"{n} unknown to {name}" for name, n in left_out.items())
            raise InputError(
                f"no word is left that every model knows and that may stand {where} (of "
                f"{len(words)} words {unknown}); use another vocabulary or other models"
            )
        return self.with_words(first, elsewhere), left_out

    def save(self, path: str | PathLike[str]) -> None:
        """Write a CSV with columns word, first, elsewhere, repeatable, frequency, for `read`.

        If any word has tags there is a column tags as well, with spaces between; if they are not
        English a column language, with its code.

        Raises
        ------
        OutputError
            If the file cannot be written.
        """
        with replacing(Path(path)) as temporary:
            temporary.write_text(self.to_csv(), encoding="utf-8", newline="")

    def to_csv(self) -> str:
        """Return the CSV that `save` writes: a row for each word first, then elsewhere."""
        fold, tagged, foreign = self.language.fold, bool(self.tags), self.language is not ENGLISH
        used = {fold(word) for word in (*self.first, *self.elsewhere)}
        rows = []
        unused = sorted(self.repeatable - used)
        for words, place in ((self.first, (1, 0)), (self.elsewhere, (0, 1)), (unused, (0, 0))):
            for word in words:
                frequency = self.frequencies.get(word)
                number = "" if frequency is None else repr(float(frequency))
                row = [word, *place, int(fold(word) in self.repeatable), number]
                if tagged:
                    row.append(" ".join(self.tags.get(word.lower(), ())))
                rows.append([*row, self.language.code] if foreign else row)
        return format_csv_rows((*_COLUMNS, *["tags"] * tagged, *["language"] * foreign), rows)

    @classmethod
    def read(
        cls, path: str | PathLike[str], *, rules: WordRules | None = None, language: str = "en"
    ) -> Vocabulary:
        """Read a word list: one word a line, or a CSV with the columns that `save` writes.

        Of the CSV's columns only ``word`` is needed. With a column ``first`` the list says
        itself where words may stand (``elsewhere``, if missing, is the opposite of ``first``),
        otherwise their case does, as in `from_words`. ``repeatable`` replaces the rules' list.
        ``frequency`` may hold counts: if one exceeds 1, all are divided by their sum. ``tags`` may
        hold Penn Treebank tags, most frequent first, with spaces between. ``language`` says what
        the words are of, where `language` does not say another than English, and so which lists
        stand in for those of the rules.

        Raises
        ------
        InputError
            For a file that cannot be read, is not UTF-8, or has a cell that cannot be used.
        """
        rules = rules or WordRules()
        rows, columns = read_word_rows(path)
        code = rows[0].get("language", "") if rows and language == "en" else language
        if (spoken := get_language(code or "en")) is not ENGLISH:
            rules = replace(
                rules, language=spoken, capitals=spoken.capitals, repeatable=spoken.repeatable
            )
        words = [row["word"] for row in rows]
        if "repeatable" in columns:
            rules = replace(rules, repeatable=frozenset(_flagged(path, rows, "repeatable")))
        frequencies = _numbers(path, rows, "frequency") if "frequency" in columns else {}
        tags = {r["word"].lower(): tuple(r["tags"].split()) for r in rows if r.get("tags")}
        if "first" not in columns:
            return replace(cls.from_words(words, frequencies=frequencies, rules=rules), tags=tags)
        first = _flagged(path, rows, "first")
        elsewhere = (
            _flagged(path, rows, "elsewhere")
            if "elsewhere" in columns
            else [word for word in words if word not in set(first)]
        )
        return cls(
            WordList.from_words(first),
            WordList.from_words(elsewhere),
            rules.repeatable,
            _relative(frequencies),
            tags,
            rules.language,
        )


def has_frequencies(language: str) -> bool:
    """Return whether wordfreq has frequencies of a language, by its code."""
    import wordfreq

    return language in wordfreq.available_languages("best")


def check_wordfreq_language(language: str) -> None:
    """Refuse a language that wordfreq does not have.

    Raises
    ------
    UnknownNameError
        Naming it, and near matches.
    """
    import wordfreq

    languages = wordfreq.available_languages("best")
    require_known("wordfreq language", language, languages)


def read_word_rows(path: str | PathLike[str]) -> tuple[list[dict[str, str]], list[str]]:
    """Read a word list, one word a line or a CSV with a column ``word``.

    Returns
    -------
    rows, columns
        The cells of each row that holds a word, by column, and the names of the columns.

    Raises
    ------
    InputError
        For a file that cannot be read or is not UTF-8, and for a row without a word.
    """
    lines = [text for _, text in read_lines(path)]
    header = read_csv_header(path, lines, "word")
    if header is None or (len(header) == 1 and not {*TABLE_SUFFIXES} & {*Path(path).suffixes}):
        return [{"word": line.strip()} for line in lines if line.strip()], ["word"]
    rows = []
    for number, cells in islice(read_csv_rows(lines, str(path), fill=True), 1, None):
        row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
        if any(row.values()) and not row["word"]:
            raise InputError(f"{path}, row {number} has no word; fill the column 'word'")
        if row["word"]:
            rows.append(row)
    return rows, header


def _flagged(path: str | PathLike[str], rows: list[dict[str, str]], column: str) -> list[str]:
    """Return the words whose cell in `column` says yes."""
    words = []
    for row in rows:
        if row[column].lower() not in _FLAGS:
            raise InputError(
                f"{path}: column {column!r} of {row['word']!r} is {row[column]!r}; write 1 or 0"
            )
        if _FLAGS[row[column].lower()]:
            words.append(row["word"])
    return words


def _numbers(
    path: str | PathLike[str], rows: list[dict[str, str]], column: str
) -> dict[str, float]:
    """Return the numbers in `column` by word, leaving out empty cells."""
    numbers = {}
    for row in rows:
        try:
            if row[column]:
                numbers[row["word"]] = float(row[column])
        except ValueError:
            raise InputError(
                f"{path}: column {column!r} of {row['word']!r} is {row[column]!r}, not a number"
            ) from None
    return numbers


def _relative(frequencies: Mapping[str, float]) -> dict[str, float]:
    """Divide counts by their sum; leave relative frequencies as they are."""
    total = math.fsum(frequencies.values())
    counts = any(value > 1 for value in frequencies.values())
    return {word: value / total if counts else value for word, value in frequencies.items()}


def _count(
    paths: Iterable[str | PathLike[str]], language: Language
) -> tuple[Counter[str], set[str], set[str], set[str]]:
    """Count the cores in files; say which open sentences, stand inside, and follow noun cues."""
    counts: Counter[str] = Counter()
    opening: set[str] = set()
    inside: set[str] = set()
    nouns: set[str] = set()
    split = cache(split_word)  # a text repeats most of its words
    for path in paths:
        for _, line in read_lines(path):
            at_start, before = True, ""
            for word in language.split(line):
                _, core, after = split(word)
                counts[core] += 1
                (opening if at_start else inside).add(core)
                if language.noun_cues and core[:1].isupper() and before in language.noun_cues:
                    nouns.add(core)
                at_start = any(mark in after for mark in ".?!…。？！") if after else False
                before = "" if after else language.lower(core)
    return counts, opening, inside, nouns


@cache
def bundled_vocabulary() -> Vocabulary:
    """Return the bundled English vocabulary, all of it known to the bundled models.

    They are words in use today (Zipf frequency of at least 3.2 in wordfreq), without names,
    abbreviations, foreign, archaic and offensive words; ``contstim/data/README.md`` says by what
    rule, ``models/vocabulary.py`` makes it.

    Examples
    --------
    >>> bundled_vocabulary()
    <Vocabulary 1670 words first, 12313 elsewhere, 55 repeatable>
    """
    with as_file(files("contstim") / "data" / "vocabulary.csv") as path:
        return Vocabulary.read(path)
