"""Columns of the standard tables, reading of CSV tables, and escaping for spreadsheets.

Spreadsheets evaluate a cell that begins like a formula, and some programs stop reading at a control
character. Tables with text typed by participants are therefore escaped by `escape_table` before
they are written, and `read_table` restores the original text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from contstim.columns import CHOICES, SCORES, TRIPLETS
from contstim.errors import InputError, NoDataError, suggest_names
from contstim.text_files import SEPARATORS, find_separator, format_source, print_once, read_lines

#: Cells that mark a missing number.
MISSING = ("", "NA", "NaN", "nan", "None", "null")

# Columns that remain text even if all their cells are numbers.
_TEXT_COLUMNS = frozenset({"sentence", "model", *TRIPLETS[:5]})
_STANDARD_COLUMNS = _TEXT_COLUMNS | {*CHOICES, *SCORES}
# Columns of numbers even if their cells have leading zeros.
_NUMBER_COLUMNS = frozenset({"trial", "rating", "rt_ms", *SCORES[2:]})
# Columns of labels, which are never converted.
_LABEL_COLUMNS = frozenset({"participant", "group", "condition", "sentence_1", "sentence_2"})
# Columns in which NA (as R writes it) is a missing value.
_OPTIONAL_COLUMNS = frozenset({"model_1", "model_2", "item", "expected", "kind_1", "kind_2"}) | {
    "side_1"
}
_DECIMAL_COMMA = r"\s*[-+]?\d+(,\d+)?([eE][-+]?\d+)?\s*"
# Numbers that may be codes: leading zeros, or an exponent as in 1e5.
_CODE = re.compile(r"\s*(?:0\d+|\d+[eE]\d+)\s*")
_DIGITS = re.compile(r"\s*\d+\s*")
_INTEGER = re.compile(r"\s*-?\d{1,18}\s*")

# Spreadsheets evaluate text that starts with one of these signs (ASCII or full width), unless it is
# a number. A leading apostrophe marks the cell as text.
_NUMBER = r"\s*[-+]?\d+(\.\d*)?([eE][-+]?\d+)?\s*$"
_FORMULA = re.compile(rf"'*(?!{_NUMBER})\s*[-=+@\uff0b\uff0d\uff1d\uff20].", re.DOTALL)
# Control characters other than tabs and line ends are replaced by their Unicode pictures. A picture
# in the original text is preceded by an escape sign.
_ESCAPE_SIGN = "\u2426"
_PICTURES = {chr(c): chr(0x2400 + c) for c in range(0x20) if chr(c) not in "\t\n\r"}
_PICTURES["\x7f"] = "\u2421"
_TO_PICTURES = str.maketrans(
    _PICTURES | {sign: _ESCAPE_SIGN + sign for sign in (*_PICTURES.values(), _ESCAPE_SIGN)}
)
_CONTROLS = {picture: control for control, picture in _PICTURES.items()}
_PICTURE = re.compile(f"{_ESCAPE_SIGN}(.)|([{''.join(_CONTROLS)}])", re.DOTALL)
# Quick tests whether a file may contain escaped text.
_ESCAPED = (re.compile("'\\s*[-=+@\uff0b\uff0d\uff1d\uff20]"), re.compile("[\u2400-\u2426]"))

_Cells = Literal["typed", "text", "inferred"]


def require_columns(table: pd.DataFrame, columns: Iterable[str], name: str) -> None:
    """Raise InputError for the first of `columns` that is missing from a table.

    Parameters
    ----------
    table
        Table to check.
    columns
        Names of the required columns.
    name
        Name of the table in the message, for example ``the triplets table``.
    """
    present = [str(column) for column in table.columns]
    for column in columns:
        if column not in present:
            hint = suggest_names(column, present, "it has") if present else "it has no column"
            raise InputError(f"{name} has no column {column!r}; {hint}")


def read_table(
    path: str | PathLike[str], columns: Iterable[str] = (), *, cells: _Cells = "typed"
) -> pd.DataFrame:
    """Read a table from a CSV, ``.xlsx`` (first sheet) or Parquet file.

    If cells are separated by semicolons or tabs, decimal commas are converted to points, which is
    reported on standard error.

    Parameters
    ----------
    path
        Path of the file; ``-`` is standard input.
    columns
        Names of the required columns.
    cells
        Types of the cells. ``typed``: columns that contain only numbers are converted to numbers;
        the first column and the columns of sentences and models always remain text. ``text``: all
        cells are text, and empty cells are missing. ``inferred``: columns that contain only numbers
        or only Booleans are converted, except labels (for example participants) and codes
        (``007``).

    Raises
    ------
    InputError
        If the file cannot be read or a column is missing.
    MissingExtraError
        If the package that reads ``.xlsx`` or Parquet files is not installed.
    """
    name = format_source(path)
    default_separator = "\t" if ".tsv" in Path(path).suffixes else ","
    table = parse_table([line for _, line in read_lines(path)], name, cells, default_separator)
    require_columns(table, columns, name)
    return table


def parse_table(
    lines: Sequence[str], name: str, cells: _Cells = "inferred", default_separator: str = ","
) -> pd.DataFrame:
    """Parse the lines of a CSV file, header first, into a table.

    Parameters
    ----------
    lines
        Lines of the file, without line ends.
    name
        Name of the file in messages.
    cells
        Types of the cells, as in `read_table`.
    default_separator
        Separator of cells, unless a different separator (comma, semicolon or tab) is more frequent
        in the header.
    """
    text = "\n".join(lines)
    if not text.strip():
        raise NoDataError(f"{name} is empty; give a table with a header and rows")
    separator = find_separator(lines[0], default_separator)
    quote_hint = f"put quotes around sentences with {SEPARATORS[separator]}"
    missing = [] if cells == "typed" else [""]
    try:
        table = pd.read_csv(
            io.StringIO(text), sep=separator, dtype=str, keep_default_na=False, na_values=missing
        )
    except ValueError as error:
        uneven = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        if uneven:
            raise InputError(
                f"{name}, line {uneven[2]} has {uneven[3]} cells, the header {uneven[1]}; "
                f"{quote_hint}"
            ) from None
        raise InputError(f"cannot read {name}: {' '.join(str(error).split())}") from None

    # pandas renames duplicate columns silently.
    header = next(csv.reader([text.partition("\n")[0]], delimiter=separator))
    duplicates = [c for c in header if c in _STANDARD_COLUMNS and header.count(c) > 1]
    if duplicates:
        raise InputError(f"{name} has two columns {duplicates[0]!r}; keep one")
    # pandas uses the first column as row names if rows have more cells than the header.
    if not isinstance(table.index, pd.RangeIndex):
        raise InputError(f"the rows of {name} have more cells than its header; {quote_hint}")

    if separator != ",":
        table, converted = _convert_decimal_commas(table)
        if converted or separator != default_separator:
            commas = f"; decimal commas in {', '.join(map(repr, converted))}" if converted else ""
            print_once(f"{name}: cells are separated by {SEPARATORS[separator]}{commas}")
    if any(pattern.search(text) for pattern in _ESCAPED):
        table = _map_text_cells(table, unescape_text)
    if cells == "text":
        return table
    text_columns = {str(table.columns[0])} | _TEXT_COLUMNS
    converted_columns = {}
    for key, column in table.items():
        if cells == "inferred":
            column = _infer_column_type(column, str(key))
        elif key not in text_columns:
            column = _to_numbers(column)
        converted_columns[key] = column
    return pd.DataFrame(converted_columns)


def _convert_decimal_commas(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Replace decimal commas with points in columns of numbers.

    A column is converted if all its cells are numbers or missing and at least one has a comma.

    Returns
    -------
    table : DataFrame
        Table with the converted columns.
    converted : list of str
        Names of the converted columns.
    """
    converted = {}
    for key, column in table.items():
        texts = column[column.notna() & ~column.isin(MISSING)].astype(str)
        # Skip columns of sentences and names, and columns that are numbers already.
        if str(key) in _TEXT_COLUMNS or pd.api.types.is_numeric_dtype(column) or texts.empty:
            continue
        # Convert the column if all its cells are numbers and at least one has a decimal comma.
        if texts.str.fullmatch(_DECIMAL_COMMA).all() and texts.str.contains(",").any():
            points = column.astype(str).where(column.notna()).str.replace(",", ".")
            converted[str(key)] = points
    return table.assign(**converted), list(converted)


def _to_numbers(column: pd.Series) -> pd.Series:
    """Convert a text column to numbers if all its cells are numbers or missing.

    Whole numbers become int64, other numbers float64. A column that contains other text is returned
    unchanged.
    """
    try:
        if column.str.fullmatch(r"-?\d{1,18}").all():
            # Integers of up to 18 digits fit into 64 bits.
            return column.astype("int64")
        # Python's float parser restores exactly the number that was written.
        numbers = column.mask(column.isin(MISSING), "nan").to_numpy(dtype=object).astype("float64")
    except ValueError:
        return column
    return pd.Series(numbers, index=column.index)


def _infer_column_type(column: pd.Series, name: str) -> pd.Series:
    """Convert a text column to numbers or Booleans if all its cells are numbers or Booleans.

    Columns of labels, such as participants, remain text. So do columns of codes: numbers with
    leading zeros (``007``), or different texts for the same number (``1e5`` and ``100000``), which
    a conversion would make equal.

    Parameters
    ----------
    column
        Column of text; empty cells are missing.
    name
        Name of the column, which determines whether it contains labels.

    Returns
    -------
    Series
        The converted column, or the column as text.
    """
    indices, distinct = pd.factorize(column)
    # Parse each distinct text once. `indices` assigns the texts to the rows, -1 to an empty cell.
    is_missing = distinct.isin(MISSING)
    texts = pd.Series(distinct[~is_missing])
    # In columns where a value is optional, cells such as NA are missing.
    if name in _OPTIONAL_COLUMNS:
        column = column.where(~column.isin(MISSING))
    # Labels, and columns with no value except words such as NA, remain text.
    if name in _LABEL_COLUMNS or (texts.empty and not column.isna().all()):
        return column
    if column.notna().all() and all(text.lower() in ("true", "false") for text in texts):
        return column.str.lower() == "true"
    try:
        numbers = pd.to_numeric(texts)
    except ValueError:
        return column
    if numbers.isna().any():
        return column
    # Codes with leading zeros (007), or different texts of one number (1e5 and 100000), would be
    # changed or merged by the conversion, so they remain text.
    if any(map(_CODE.fullmatch, texts)):
        is_ambiguous = len(texts) > numbers.nunique()
        all_digits = all(map(_DIGITS.fullmatch, texts))
        if is_ambiguous or (name not in _NUMBER_COLUMNS and all_digits):
            return column
    # A column of integers cannot have missing values; with missing values it becomes float64.
    has_missing = is_missing.any() or (indices < 0).any()
    if not has_missing and all(map(_INTEGER.fullmatch, texts)):
        return column.astype("int64")
    # Empty cells have the index -1 and get the last value, NaN.
    values = np.full(len(distinct) + 1, np.nan)
    values[:-1][~is_missing] = texts.to_numpy(dtype=object).astype("float64")
    return pd.Series(values[indices], index=column.index)


def escape_text(text: str) -> str:
    """Escape text so that spreadsheets do not evaluate it as a formula.

    An apostrophe is added before text that looks like a formula, and control characters other than
    tabs and line ends are replaced by Unicode control pictures. `unescape_text` is the inverse.

    Examples
    --------
    >>> print(escape_text("=1+1"), escape_text("-2.5"), escape_text("a" + chr(0) + "b"))
    '=1+1 -2.5 a␀b
    """
    text = text.translate(_TO_PICTURES)
    return f"'{text}" if _FORMULA.match(text) else text


def unescape_text(text: str) -> str:
    """Restore the original text from a text that `escape_text` has escaped."""
    if text.startswith("'") and _FORMULA.match(text):
        text = text[1:]
    return _PICTURE.sub(lambda match: match[1] or _CONTROLS[match[2]], text)


def escape_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with `escape_text` applied to its text cells and column names."""
    return _map_text_cells(table, escape_text)


def _map_text_cells(table: pd.DataFrame, function: Callable[[str], str]) -> pd.DataFrame:
    """Return a table with a function applied to its text cells and column names.

    Parameters
    ----------
    table
        Table, which is not modified.
    function
        Function from text to text.
    """
    cached = cache(function)  # many cells are repeated
    out = table.rename(columns=lambda name: cached(str(name)))
    for index, dtype in enumerate(out.dtypes):
        # Columns of the type object (O) may contain text.
        if dtype.kind == "O":
            cells = [cached(c) if isinstance(c, str) else c for c in out.iloc[:, index]]
            out.isetitem(index, pd.Series(cells, index=out.index, dtype=dtype))
    return out
