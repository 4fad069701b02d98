"""Readers of word lists and of CSV files with one word per row."""

from __future__ import annotations

from itertools import islice
from os import PathLike
from pathlib import Path

from contstim.errors import InputError
from contstim.text_files import TABLE_SUFFIXES, read_csv_header, read_csv_rows, read_lines

_FLAGS = {"1": True, "yes": True, "true": True, "0": False, "no": False, "false": False, "": False}


def read_word_rows(path: str | PathLike[str]) -> tuple[list[dict[str, str]], list[str]]:
    """Read a list of words, one per line, or a CSV file with a column ``word``.

    Parameters
    ----------
    path
        Path of the file, in UTF-8.

    Returns
    -------
    rows
        For each word, a mapping from column name to the cell in the row of the word.
    columns
        Names of the columns.

    Raises
    ------
    InputError
        If the file cannot be read or is not UTF-8, or if a row has no word.
    """
    lines = [text for _, text in read_lines(path)]
    header = read_csv_header(path, lines, "word")
    # A file without a header is a list with one word per line. So is a file with the header "word"
    # only, unless its name ends like a table.
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


def flagged_words(path: str | PathLike[str], rows: list[dict[str, str]], column: str) -> list[str]:
    """Return the words in a table for which a column contains 1, yes or true.

    Parameters
    ----------
    path
        Path of the table, for error messages.
    rows
        Rows of the table as mappings from column name to cell, with a column ``word``.
    column
        Name of the column. Its cells must be 1, 0, yes, no, true, false or empty.

    Raises
    ------
    InputError
        If a cell has another value.
    """
    words = []
    for row in rows:
        flag = _FLAGS.get(row[column].lower())  # None: the cell is neither 1 nor 0, yes nor no
        if flag is None:
            raise InputError(
                f"{path}: column {column!r} of {row['word']!r} is {row[column]!r}; write 1 or 0"
            )
        if flag:
            words.append(row["word"])
    return words


def parse_frequencies(path: str | PathLike[str], rows: list[dict[str, str]]) -> dict[str, float]:
    """Read the frequencies of words from the column ``frequency`` of a table.

    Parameters
    ----------
    path
        Path of the table, for error messages.
    rows
        Rows of the table as mappings from column name to cell, with a column ``word``.

    Returns
    -------
    dict
        Mapping from word to frequency. Words with an empty cell are left out.

    Raises
    ------
    InputError
        If a cell is not a number.
    """
    frequencies = {}
    for row in rows:
        try:
            if row["frequency"]:
                frequencies[row["word"]] = float(row["frequency"])
        except ValueError:
            raise InputError(
                f"{path}: column 'frequency' of {row['word']!r} is {row['frequency']!r}, not a "
                "number"
            ) from None
    return frequencies
