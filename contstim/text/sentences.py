"""Natural sentences: the bundled pool, files of sentences, and samples of a user's own text."""

from __future__ import annotations

import csv
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from os import PathLike
from pathlib import Path

import numpy as np

from contstim.errors import InfeasibleError, InputError, UnknownNameError
from contstim.tables import csv_rows, numbered_lines
from contstim.text.sentence import Sentence
from contstim.text.vocabulary import ENGLISH_REPEATABLE, Vocabulary

__all__ = [
    "PUNCTUATION",
    "SentenceRules",
    "length_range",
    "pool",
    "read_sentences",
    "read_words",
    "sample_sentences",
]

#: What `SentenceRules` may ask of punctuation.
PUNCTUATION = ("final-only", "any")

_MOST_CHARACTERS = 20_000  # of a sentence in a file
_INNER_MARKS = frozenset("'’-")


def pool() -> list[str]:
    """Return the natural English sentences that come with contstim, most of eight words.

    They were written for this project and are free to use (CC0).
    """
    text = (files("contstim") / "data" / "pool.txt").read_text(encoding="utf-8")
    return text.splitlines()


def read_sentences(path: str | PathLike[str]) -> list[str]:
    """Read a file of sentences: one a line, or a CSV with a column ``sentence``.

    The file is a CSV if its name says so or its first line names that column. Blank lines at the
    end are ignored.

    Parameters
    ----------
    path
        A UTF-8 file, gzip-compressed if its name ends in ``.gz``; ``-`` is standard input.

    Raises
    ------
    InputError
        If there is no such file, it is not UTF-8 or holds no sentence, a line is empty, has more
        than 20,000 characters or holds a carriage return, or a row of a CSV has more cells than
        the header; the message names the file and the line.
    """
    name = "standard input" if str(path) == "-" else str(path)
    lines = [line for _, line in numbered_lines(path)]
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise InputError(f"{name} holds no sentence; give one sentence a line")
    header = _cells(lines[0])
    if "sentence" in header:
        rows = _column(name, lines, header)
    elif ".csv" in Path(path).suffixes:
        raise InputError(f"{name} has no column 'sentence', only {', '.join(header)}")
    else:
        rows = [(line, number) for number, line in enumerate(lines, start=1)]
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
                f"{_MOST_CHARACTERS} that a sentence may have; give one sentence a line"
            )
    return [text.strip() for text, _ in rows]


def _cells(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line]))]
    except csv.Error:  # a line that is no line of a CSV
        return [line]


def _column(name: str, lines: list[str], header: list[str]) -> list[tuple[str, int]]:
    """Return each cell of the column `sentence`, and the number of the line it ends on."""
    if header.count("sentence") > 1:
        raise InputError(f"{name} has two columns 'sentence'; leave one")
    column = header.index("sentence")
    rows = [(row[column], number) for number, row in csv_rows(lines, name, fill=True)]
    if len(rows) < 2:
        raise InputError(f"{name} holds no sentence, only a header; add rows")
    return rows[1:]


def read_words(path: str | PathLike[str]) -> frozenset[str]:
    """Read a list of words, one a line, such as words to keep out of a sample."""
    return frozenset(line.strip() for _, line in numbered_lines(path) if line.strip())


def length_range(text: str) -> tuple[int, int]:
    """Read ``8`` or ``6-12`` as the shortest and the longest length in words."""
    shortest, dash, longest = text.partition("-")
    try:
        limits = int(shortest), int(longest if dash else shortest)
    except ValueError:
        raise InputError(f"{text!r} is no length; write 8 or 6-12") from None
    return limits


@dataclass(frozen=True)
class SentenceRules:
    """Which sentences of a text may be sampled.

    Attributes
    ----------
    min_words, max_words
        The shortest and longest sentence, in words.
    vocabulary
        If given, each word must be allowed where it stands.
    distinct
        Whether no word may occur twice, ignoring case, but for `repeatable` ones.
    punctuation
        ``final-only``: one mark, at the end, and words of letters, digits, apostrophes and
        hyphens. ``any``: as it comes.
    final_marks
        The marks that may end the sentence, for ``final-only``.
    block
        Words that no sentence may hold, ignoring case.
    repeatable
        Words that `distinct` allows twice, where no vocabulary says so.
    """

    min_words: int = 8
    max_words: int = 8
    vocabulary: Vocabulary | None = None
    distinct: bool = False
    punctuation: str = "final-only"
    final_marks: str = ".?!"
    block: frozenset[str] = frozenset()
    repeatable: frozenset[str] = ENGLISH_REPEATABLE

    def __post_init__(self) -> None:
        if not 1 <= self.min_words <= self.max_words:
            raise InputError(
                f"no sentence has {self.min_words} to {self.max_words} words; give the shortest "
                "length first, at least 1"
            )
        if self.punctuation not in PUNCTUATION:
            raise UnknownNameError.among("punctuation rule", self.punctuation, PUNCTUATION)
        object.__setattr__(self, "block", frozenset(word.casefold() for word in self.block))
        folded = frozenset(word.casefold() for word in self.repeatable)
        object.__setattr__(self, "repeatable", folded)

    def objection(self, text: str) -> str | None:
        """Return why `text` may not be sampled, the first reason that holds, or None.

        The reasons, in order: ``length``, ``punctuation``, ``blocked word``, ``repeated word``,
        ``word outside the vocabulary``.
        """
        if not self.min_words <= len(text.split()) <= self.max_words:
            return "length"
        sentence = Sentence.parse(text)
        if self.punctuation == "final-only" and not self._plain(sentence):
            return "punctuation"
        folded = [word.casefold() for word in sentence.words]
        if not self.block.isdisjoint(folded):
            return "blocked word"
        if self.distinct:
            repeatable = self.repeatable if self.vocabulary is None else self.vocabulary.repeatable
            counts = Counter(folded)
            if any(n > 1 and word not in repeatable for word, n in counts.items()):
                return "repeated word"
        if self.vocabulary is not None and self.vocabulary.unlisted(sentence.words):
            return "word outside the vocabulary"
        return None

    def _plain(self, sentence: Sentence) -> bool:
        *inner, last = sentence.after
        marked = len(last) == 1 and last in self.final_marks
        return (
            marked and not any((*sentence.before, *inner)) and all(map(_wordlike, sentence.words))
        )


def _wordlike(word: str) -> bool:
    return word.isalpha() or (
        word[0].isalnum()
        and all(c.isalnum() or c in _INNER_MARKS or unicodedata.category(c)[0] == "M" for c in word)
    )


@dataclass(frozen=True)
class SampleReport:
    """What became of the sentences of a text.

    Attributes
    ----------
    read
        How many sentences were read.
    dropped
        How many were dropped, by reason: those of `SentenceRules.objection`, and ``duplicate``
        (the same words as an earlier one, ignoring case and punctuation).
    kept
        How many were left to sample from.
    sampled
        How many were sampled.
    """

    read: int
    dropped: Mapping[str, int]
    kept: int
    sampled: int

    def __str__(self) -> str:
        reasons = ", ".join(f"{n} {reason}" for reason, n in self.dropped.items()) or "none"
        return (
            f"{self.read} sentences read; dropped: {reasons}; {self.kept} left, "
            f"{self.sampled} sampled"
        )


def sample_sentences(
    sentences: Iterable[str],
    *,
    n: int | None = None,
    seed: int = 0,
    rules: SentenceRules | None = None,
) -> tuple[list[str], SampleReport]:
    """Draw natural sentences, each at most once, from those that `rules` admit.

    Parameters
    ----------
    sentences
        The sentences of a text, for example from `contstim.text.corpora.corpus_sentences`.
    n
        How many to draw, every admitted sentence being equally probable; None: all of them, in
        the order of the text.
    seed
        Seed of the draw. The same sentences, rules and seed give the same sample, and a larger
        `n` the same sentences and more.
    rules
        What to admit; by default `SentenceRules()`: eight words and one final mark.

    Returns
    -------
    sample
        The sentences drawn, in the order of the draw.
    report
        How many were dropped for which reason.

    Raises
    ------
    InfeasibleError
        If fewer than `n` sentences are admitted, or none.
    """
    if n is not None and n < 1:
        raise InputError(f"the number of sentences to sample must be at least 1, got {n}")
    rules = rules or SentenceRules()
    read = 0
    dropped: Counter[str] = Counter()
    kept: dict[tuple[str, ...], str] = {}
    for text in sentences:
        read += 1
        reason = rules.objection(text)
        if reason is None:
            words = tuple(word.casefold() for word in Sentence.parse(text).words)
            if words in kept:
                reason = "duplicate"
            else:
                kept[words] = " ".join(text.split())
        if reason is not None:
            dropped[reason] += 1
    admitted = list(kept.values())
    report = SampleReport(read, dict(dropped.most_common()), len(kept), n or len(kept))
    if len(admitted) < (n or 1):
        reasons = ", ".join(f"{k} {reason}" for reason, k in report.dropped.items())
        raise InfeasibleError(
            f"{n or 'some'} sentences were asked for, but of {read} read only {len(admitted)} fit "
            f"(dropped: {reasons or 'none'}); relax a rule or give more text"
        )
    if n is None:
        return admitted, report
    order = np.random.default_rng(seed).permutation(len(admitted))
    return [admitted[i] for i in order[:n]], report
