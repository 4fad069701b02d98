"""The word list files that a vocabulary is read from and saved to."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path

from contstim.errors import InputError
from contstim.tables import csv_rows, numbered_lines

__all__ = ["WordTable"]

_COLUMNS = ("word", "first", "elsewhere", "repeatable", "frequency")
_FLAGS = {"1": True, "yes": True, "true": True, "0": False, "no": False, "false": False, "": False}


@dataclass(frozen=True)
class WordTable:
    """What a word list file says; None is a column that it does not have.

    Attributes
    ----------
    words
        The words of all rows, in order; a word may have several rows.
    first, elsewhere
        The words marked as allowed first, or after the first.
    repeatable
        The words marked as allowed more than once in a sentence; they need not be in `words`.
    frequencies
        Frequency, or count, of the words that have one.
    """

    words: Sequence[str]
    first: Sequence[str] | None
    elsewhere: Sequence[str] | None
    repeatable: frozenset[str] | None
    frequencies: Mapping[str, float]

    @classmethod
    def read(cls, path: str | PathLike[str]) -> WordTable:
        """Read a file: a CSV if it is called so or its first line names a column ``word``.

        Raises
        ------
        InputError
            For a file that cannot be read, is not UTF-8, or has a cell that cannot be used.
        """
        lines = [text for _, text in numbered_lines(path)]
        try:
            header = [cell.strip() for cell in next(csv.reader(lines[:1]), [])]
        except csv.Error:  # a line that is no line of a CSV
            header = [lines[0]]
        named_csv = ".csv" in Path(path).suffixes
        if "word" not in header and named_csv:
            raise InputError(f"{path} has no column 'word', only {', '.join(header) or 'nothing'}")
        if "word" not in header or not (named_csv or len(header) > 1):
            words = [line.strip() for line in lines if line.strip()]
            return cls(words, None, None, None, {})
        rows = []
        for number, cells in islice(csv_rows(lines, str(path), fill=True), 1, None):
            row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
            if any(row.values()) and not row["word"]:
                raise InputError(f"{path}, row {number} has no word; fill the column 'word'")
            if row["word"]:
                rows.append(row)
        column = _Columns(str(path), rows)
        repeatable = column.flagged("repeatable") if "repeatable" in header else None
        return cls(
            [row["word"] for row in rows],
            column.flagged("first") if "first" in header else None,
            column.flagged("elsewhere") if "elsewhere" in header else None,
            None if repeatable is None else frozenset(repeatable),
            column.numbers("frequency") if "frequency" in header else {},
        )

    def __str__(self) -> str:
        """Return the table as CSV text: a row each for a word first and elsewhere, in order."""
        first, elsewhere = self.first or (), self.elsewhere or ()
        repeatable = frozenset(word.casefold() for word in self.repeatable or ())
        extra = sorted(repeatable - {word.casefold() for word in (*first, *elsewhere)})
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for words, place in ((first, (1, 0)), (elsewhere, (0, 1)), (extra, (0, 0))):
            for word in words:
                frequency = self.frequencies.get(word)
                number = "" if frequency is None else repr(float(frequency))
                writer.writerow([word, *place, int(word.casefold() in repeatable), number])
        return out.getvalue()


@dataclass(frozen=True)
class _Columns:
    """Rows of a CSV word list, with the file's name for messages."""

    name: str
    rows: list[dict[str, str]]

    def flagged(self, column: str) -> list[str]:
        """Return the words whose cell in `column` says yes."""
        found = []
        for row in self.rows:
            cell = row.get(column, "")
            if cell.lower() not in _FLAGS:
                raise InputError(
                    f"{self.name}: column {column!r} of {row['word']!r} is {cell!r}; write 1 or 0"
                )
            if _FLAGS[cell.lower()]:
                found.append(row["word"])
        return found

    def numbers(self, column: str) -> dict[str, float]:
        """Return the numbers in `column` by word, leaving out empty cells."""
        found = {}
        for row in self.rows:
            cell = row.get(column, "")
            if not cell:
                continue
            try:
                found[row["word"]] = float(cell)
            except ValueError:
                raise InputError(
                    f"{self.name}: column {column!r} of {row['word']!r} is {cell!r}, not a number"
                ) from None
        return found
