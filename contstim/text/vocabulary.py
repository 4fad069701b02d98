"""Vocabularies: the candidate words at each position of a synthetic sentence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.resources import as_file, files
from os import PathLike
from pathlib import Path
from typing import Protocol

import numpy as np

from contstim.arrays import BoolArray
from contstim.errors import InputError
from contstim.files import digest, replace_atomically
from contstim.text import WordList
from contstim.text.frequencies import check_wordfreq_language, relative_frequencies
from contstim.text.language import Language, split_word
from contstim.text.languages import ENGLISH, get_language
from contstim.text.word_rules import WordRules
from contstim.text.word_tables import flagged_words, parse_frequencies, read_word_rows
from contstim.text_files import format_csv_rows, read_lines

_COLUMNS = ("word", "first", "elsewhere", "repeatable", "frequency")
_SENTENCE_ENDS = frozenset(".?!…。？！")


class _HasVocabulary(Protocol):
    """Model with a method that returns whether each of V words is in its vocabulary, shape (V,)."""

    def in_vocabulary(self, words: Sequence[str], /) -> BoolArray: ...


@dataclass(frozen=True, eq=False, repr=False)
class Vocabulary:
    """Candidate words for each position of a sentence.

    Attributes
    ----------
    first
        Words allowed at the first position, capitalised if the script has capitals.
    elsewhere
        Words allowed at all other positions.
    repeatable
        Words allowed more than once in a sentence, ignoring case.
    frequencies
        Mapping from word to relative frequency (0 to 1). Words may be missing.
    tags
        Mapping from lower-case word to its Penn Treebank tags, the most frequent tag first. Words
        may be missing.
    language
        Language of the words.

    Raises
    ------
    InputError
        If no word is allowed first, or none elsewhere; if a word is listed twice, is empty or
        contains white space or outer punctuation; or if a frequency is not between 0 and 1.

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
                    f"the vocabulary contains {word!r}; give words without white space or outer "
                    "punctuation"
                )
            parts = [word] if self.language.is_space_delimited else self.language.split(word)
            if parts != [word]:
                raise InputError(
                    f"the vocabulary contains {word!r}, which {self.language.name} splits into "
                    f"{' and '.join(parts)}; give single words"
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
        """Build a vocabulary from words in their usual case, for example a model's word list.

        Capitalised words may be used at the first position of a sentence, lower-case words at all
        other positions, and words without case at every position. Entries that are not words
        ("--") are dropped.

        Parameters
        ----------
        words
            Words, usually the most frequent first. Their order is kept.
        frequencies
            Mapping from word to relative frequency or count. If a value exceeds 1, all values are
            divided by their sum. Default: none.
        rules
            Words to accept and their positions. Default `WordRules()`.

        Examples
        --------
        >>> Vocabulary.from_words(["The", "dog", "barks", "it's"]).elsewhere.words
        ('dog', 'barks')
        """
        rules = rules or WordRules()
        return cls._from_accepted_words(rules.filter(words), rules, frequencies or {})

    @classmethod
    def from_text(
        cls,
        paths: str | PathLike[str] | Iterable[str | PathLike[str]],
        *,
        size: int | None = None,
        min_count: int = 1,
        rules: WordRules | None = None,
    ) -> Vocabulary:
        """Build a vocabulary from the words of a text.

        A vocabulary has one list of words for the first position of a sentence and one list for
        all other positions. Capitalised words go to the first list if they begin a sentence in the
        text, that is, at the start of a line or after ``.``, ``?``, ``!`` or ``…``. Lower-case
        words go to the second list, as do names within sentences if `rules` include names.
        In languages that capitalise all nouns, capitalised words after a determiner or similar cue
        also go to the second list.

        Parameters
        ----------
        paths
            UTF-8 text files, preferably with one sentence per line; gzip-compressed if the name
            ends in ``.gz``; ``-`` is standard input.
        size
            Maximum number of word forms ("The" and "the" are two). The most frequent are kept,
            and among equally frequent ones the first in the text. Default: no maximum.
        min_count
            Minimum number of occurrences of a form. Default 1.
        rules
            Words to accept and their positions. Default `WordRules()`.

        Raises
        ------
        InputError
            If a file cannot be read or is not UTF-8, or if no word remains.
        """
        _check_size(size)
        rules = rules or WordRules()
        language = rules.language
        counts: Counter[str] = Counter()
        sentence_initial: set[str] = set()
        sentence_internal: set[str] = set()
        nouns: set[str] = set()
        cached_split = cache(split_word)  # most words of a text occur more than once
        for path in [paths] if isinstance(paths, str | PathLike) else paths:
            for _, line in read_lines(path):
                # Each line begins a sentence.
                is_initial, previous_word = True, ""
                for text in language.split(line):
                    _, word, marks_after = cached_split(text)
                    counts[word] += 1
                    (sentence_initial if is_initial else sentence_internal).add(word)
                    if word[:1].isupper() and previous_word in language.noun_cues:
                        nouns.add(word)
                    is_initial = not _SENTENCE_ENDS.isdisjoint(marks_after)
                    previous_word = "" if marks_after else language.lower(word)

        n_words = counts.total()
        accepted = [word for word in rules.filter(counts) if counts[word] >= min_count]
        # The sort is stable: equally frequent words stay in order of first occurrence.
        words = sorted(accepted, key=lambda word: -counts[word])[:size]
        frequencies = {word: counts[word] / n_words for word in words}
        rules = replace(rules, capitals=rules.capitals | nouns)
        return cls._from_accepted_words(
            words, rules, frequencies, sentence_initial, sentence_internal
        )

    @classmethod
    def from_wordfreq(
        cls, language: str = "en", *, size: int | None = None, rules: WordRules | None = None
    ) -> Vocabulary:
        """Build a vocabulary from the words of the `wordfreq` package (Speer 2022).

        The package lists all words in lower case, including names. The capitalised form of each
        word is allowed at the first position. Use `from_text` if names must be capitalised.

        Parameters
        ----------
        language
            Language code. Default ``en``.
        size
            Maximum number of words. The most frequent are kept. Default: no maximum.
        rules
            Words to accept. Default ``WordRules.for_language(language)``.

        Raises
        ------
        UnknownNameError
            If wordfreq does not cover the language.
        InputError
            If the language capitalises all nouns, which the package does not mark.
        """
        _check_size(size)
        check_wordfreq_language(language)
        rules = rules or WordRules.for_language(language)
        if rules.language.capitalises_nouns:
            raise InputError(
                f"wordfreq lists the words of {rules.language.name} in lower case, nouns too; make "
                "the vocabulary from a text, which has their capitals"
            )
        # wordfreq lists French words such as "l'" without the apostrophe, a form ("l") that the
        # rules exclude. Map it to the correct spelling.
        spellings = {w: f"{w}'" for w in rules.exclude if rules.language.is_elided(f"{w}'")}
        # Words that always have a capital letter are listed in lower case ("i"): map "i" to "I".
        spellings |= {rules.language.fold(word): word for word in sorted(rules.capitals)}
        # Sort the words by decreasing frequency, and select the first `size` that the rules accept.
        listed = relative_frequencies(language)
        by_frequency = sorted(listed, key=lambda word: -listed[word])
        frequencies = {spellings.get(word, word): listed[word] for word in by_frequency}
        words = rules.filter(frequencies)[:size]
        # `derive_first`: at the first position of a sentence, allow each word with a capital.
        return cls._from_accepted_words(words, replace(rules, derive_first=True), frequencies)

    @classmethod
    def _from_accepted_words(
        cls,
        words: Sequence[str],
        rules: WordRules,
        frequencies: Mapping[str, float],
        sentence_initial: set[str] | None = None,
        sentence_internal: set[str] | None = None,
    ) -> Vocabulary:
        """Build a vocabulary: decide at which positions of a sentence each word is allowed.

        `frequencies` maps each word to its count or relative frequency. `sentence_initial` and
        `sentence_internal` are the words that a text contains at the beginning of sentences and
        within sentences. If they are None, only the case of a word determines its positions.
        """
        all_words = set(words)
        first, elsewhere = list[str](), list[str]()
        for word in words:
            occurs_first = sentence_initial is None or word in sentence_initial
            if not word[:1].islower() and occurs_first:
                first.append(word)
            # A capitalised word is allowed within sentences if it is a name, not only the first
            # word of a sentence: it also occurs there, and never in lower case.
            has_capital = word[:1].isupper() or word[:1].istitle()
            occurs_within = sentence_internal is None or word in sentence_internal
            is_name = occurs_within and word.lower() not in all_words
            if not has_capital or word in rules.capitals or (rules.names and is_name):
                elsewhere.append(word)
        word_frequencies = _normalise_counts(frequencies)
        if rules.derive_first:
            capitalise = rules.language.capitalise
            first += map(capitalise, elsewhere)
            # A capitalised form has the frequency of the word, unless it has a frequency itself.
            known_words = [word for word in elsewhere if word in word_frequencies]
            derived = {capitalise(word): word_frequencies[word] for word in known_words}
            word_frequencies = {**derived, **word_frequencies}
        used = {*first, *elsewhere}
        return cls(
            WordList.from_words(first),
            WordList.from_words(elsewhere),
            rules.repeatable,
            {word: frequency for word, frequency in word_frequencies.items() if word in used},
            language=rules.language,
        )

    def __repr__(self) -> str:
        return (
            f"<Vocabulary {len(self.first)} words first, {len(self.elsewhere)} elsewhere, "
            f"{len(self.repeatable)} repeatable>"
        )

    @cached_property
    def digest(self) -> str:
        """First 16 hexadecimal digits of the SHA-256 of the CSV form, for provenance."""
        return digest(self.to_csv())[:16]

    def words_at(self, position: int) -> WordList:
        """Return the words allowed at a position, counted from 0.

        The result is the same object every time, because models cache token ids per word list.
        """
        return self.first if position == 0 else self.elsewhere

    def with_words(self, first: Iterable[str], elsewhere: Iterable[str]) -> Vocabulary:
        """Return a copy of the vocabulary with new words; frequencies of old words are preserved.

        Parameters
        ----------
        first, elsewhere
            Words for the first position of a sentence, and for all other positions.
        """
        first, elsewhere = WordList.from_words(first), WordList.from_words(elsewhere)
        used = {*first, *elsewhere}
        frequencies = {w: p for w, p in self.frequencies.items() if w in used}
        return replace(self, first=first, elsewhere=elsewhere, frequencies=frequencies)

    def restrict(self, models: Iterable[_HasVocabulary]) -> tuple[Vocabulary, dict[str, int]]:
        """Return the words of this vocabulary that all of the given models know.

        Returns
        -------
        vocabulary
            Words that all models know, in the same order.
        n_unknown
            Mapping from model specification to the number of words that the model does not know.

        Raises
        ------
        InputError
            If no word remains for the first position, or for the other positions.
        """
        words = list(dict.fromkeys((*self.first, *self.elsewhere)))
        # Whether each word is known by all models so far; the number unknown to each model.
        is_shared = np.ones(len(words), dtype=np.bool_)
        n_unknown: dict[str, int] = {}
        for model in models:
            is_known = np.asarray(model.in_vocabulary(words), dtype=np.bool_)
            n_unknown[str(getattr(model, "spec", model))] = int((~is_known).sum())
            is_shared &= is_known
        shared = {word for word, keep in zip(words, is_shared, strict=True) if keep}
        first = [word for word in self.first if word in shared]
        elsewhere = [word for word in self.elsewhere if word in shared]
        if not first or not elsewhere:
            position = "first" if not first else "after the first"
            unknown = ", ".join(f"{n} unknown to {name}" for name, n in n_unknown.items())
            raise InputError(
                f"no word that every model knows is allowed {position} (of {len(words)} words "
                f"{unknown}); use another vocabulary or other models"
            )
        return self.with_words(first, elsewhere), n_unknown

    def save(self, path: str | PathLike[str]) -> None:
        """Write the vocabulary as CSV, for `read`.

        The columns are word, first, elsewhere, repeatable and frequency; tags if any word has
        tags; and language if it is not English.

        Raises
        ------
        OutputError
            If the file cannot be written.
        """
        with replace_atomically(Path(path)) as temporary:
            temporary.write_text(self.to_csv(), encoding="utf-8", newline="")

    def to_csv(self) -> str:
        """Return the vocabulary as CSV text, with one row per word and permitted position."""
        fold = self.language.fold
        columns = list(_COLUMNS)
        if self.tags:
            columns.append("tags")
        if self.language is not ENGLISH:
            columns.append("language")
        used = {fold(word) for word in (*self.first, *self.elsewhere)}
        # Repeatable words that are allowed at no position still need a row.
        unused = sorted(self.repeatable - used)
        rows = []
        # The flags state whether a word is allowed first, and elsewhere.
        words_and_flags = ((self.first, 1, 0), (self.elsewhere, 0, 1), (unused, 0, 0))
        for words, is_first, is_elsewhere in words_and_flags:
            for word in words:
                frequency = self.frequencies.get(word)
                cells: dict[str, object] = {
                    "word": word,
                    "first": is_first,
                    "elsewhere": is_elsewhere,
                    "repeatable": int(fold(word) in self.repeatable),
                    "frequency": "" if frequency is None else repr(float(frequency)),
                    "tags": " ".join(self.tags.get(word.lower(), ())),
                    "language": self.language.code,
                }
                rows.append([cells[column] for column in columns])
        return format_csv_rows(columns, rows)

    @classmethod
    def read(
        cls, path: str | PathLike[str], *, rules: WordRules | None = None, language: str = "en"
    ) -> Vocabulary:
        """Read a vocabulary from a word list or CSV file.

        A word list has one word per line. A CSV file needs only the column ``word``; other columns
        are optional. ``first`` and ``elsewhere`` (default: the opposite of ``first``) state the
        positions, which otherwise follow from the case of the words as in `from_words`.
        ``repeatable`` replaces the list of the rules. ``frequency`` may contain counts; if one
        exceeds 1, all values are divided by their sum. ``tags`` contains Penn Treebank tags
        separated by spaces, the most frequent first. ``language`` applies if the argument is
        ``en``.

        Parameters
        ----------
        path
            UTF-8 file, or ``-`` for standard input.
        rules
            Words to accept and their positions. Default `WordRules()`. For a language other than
            English, the lists of the language replace the lists of the rules.
        language
            Code of the language of the words. Default ``en``.

        Raises
        ------
        InputError
            If the file cannot be read, is not UTF-8, or contains an invalid value.
        """
        rules = rules or WordRules()
        rows, columns = read_word_rows(path)
        code = rows[0].get("language", "") if rows and language == "en" else language
        conventions = get_language(code or "en")
        if conventions is not ENGLISH:
            rules = replace(
                rules,
                language=conventions,
                capitals=conventions.capitals,
                repeatable=conventions.repeatable,
            )
        words = [row["word"] for row in rows]
        if "repeatable" in columns:
            rules = replace(rules, repeatable=frozenset(flagged_words(path, rows, "repeatable")))
        frequencies = parse_frequencies(path, rows) if "frequency" in columns else {}
        tags = {row["word"].lower(): tuple(row["tags"].split()) for row in rows if row.get("tags")}

        if "first" not in columns:
            return replace(cls.from_words(words, frequencies=frequencies, rules=rules), tags=tags)
        first = flagged_words(path, rows, "first")
        if "elsewhere" in columns:
            elsewhere = flagged_words(path, rows, "elsewhere")
        else:
            elsewhere = [word for word in words if word not in set(first)]
        return cls(
            WordList.from_words(first),
            WordList.from_words(elsewhere),
            rules.repeatable,
            _normalise_counts(frequencies),
            tags,
            rules.language,
        )


def _check_size(size: int | None) -> None:
    if size is not None and size < 1:
        raise InputError(f"the size of a vocabulary must be at least 1, got {size}")


def _normalise_counts(frequencies: Mapping[str, float]) -> dict[str, float]:
    """Divide counts by their sum; return relative frequencies unchanged."""
    if not any(value > 1 for value in frequencies.values()):
        return dict(frequencies)
    total = math.fsum(frequencies.values())
    return {word: value / total for word, value in frequencies.items()}


@cache
def bundled_vocabulary() -> Vocabulary:
    """Return the bundled English vocabulary, which all bundled models know.

    It contains contemporary words (Zipf frequency of at least 3.2 in wordfreq) without names,
    abbreviations and foreign, archaic or offensive words. ``contstim/data/README.md`` describes
    the selection, and ``models/vocabulary.py`` reproduces it.

    Examples
    --------
    >>> bundled_vocabulary()
    <Vocabulary 1670 words first, 12313 elsewhere, 55 repeatable>
    """
    with as_file(files("contstim") / "data" / "vocabulary.csv") as path:
        return Vocabulary.read(path)
