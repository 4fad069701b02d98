"""Reading and writing lines of text and rows of CSV.

Text is UTF-8, with or without a byte-order mark. A file with the ending ``.gz`` is decompressed,
and ``-`` is standard input. Cells of a CSV file are separated by commas, semicolons or tabs: the
most frequent one in the header line. Spreadsheets (``.xlsx``) and Parquet files are converted to
CSV lines first.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import cache, partial
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, cast

from contstim.errors import InputError, MissingExtraError, NoDataError

if TYPE_CHECKING:
    import pandas as pd

#: Separators of cells, with their names in messages.
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}

# Binary formats and the packages that read them.
_PACKAGES = {".xlsx": "openpyxl", ".parquet": "pyarrow", ".pq": "pyarrow"}
#: Suffixes of files that contain tables; other text files are lists with one entry per line.
TABLE_SUFFIXES = (".csv", ".tsv", *_PACKAGES)
# Formats that must be converted by another program, with instructions.
_UNSUPPORTED = {
    ".sav": "in SPSS with File > Save As > CSV, or in R with write.csv(haven::read_sav(...))",
    ".rds": "in R with write.csv(readRDS(...))",
    ".xls": "as .xlsx or CSV",
    ".ods": "as .xlsx or CSV",
}
_BYTE_ORDER_MARK = "\ufeff"
# Maximum length of a line: a small compressed file may expand to an enormous one.
_MAX_LINE_BYTES = 1 << 24


def format_source(path: str | PathLike[str]) -> str:
    """Return the name of a file for messages; ``-`` is ``standard input``."""
    return "standard input" if str(path) == "-" else str(path)


@cache
def print_once(line: str) -> None:
    """Print a line on standard error unless it has been printed before."""
    print(line, file=sys.stderr, flush=True)


def read_lines(path: str | PathLike[str]) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and the text of each line of a file.

    Line ends and a byte-order mark are removed.

    Parameters
    ----------
    path
        Path of a UTF-8 text file, ``.gz``, ``.xlsx`` or ``.parquet`` file; ``-`` is standard input.

    Raises
    ------
    InputError
        If the file cannot be opened or decoded, or a line is longer than 16 MiB. The message names
        the file and the line.
    MissingExtraError
        If the package that reads ``.xlsx`` or ``.parquet`` is not installed.
    """
    name = format_source(path)
    suffix = Path(path).suffix.lower()
    if suffix in _UNSUPPORTED:
        raise InputError(f"cannot read {name}; export it {_UNSUPPORTED[suffix]}")
    if suffix in _PACKAGES:
        text = _read_binary_table(path, _PACKAGES[suffix])
        yield from enumerate(text.removesuffix("\n").split("\n"), 1)
        return
    number = 0
    try:
        with _open_binary(path) as file:
            read_line = partial(file.readline, _MAX_LINE_BYTES + 1)
            for number, line in enumerate(iter(read_line, b""), 1):
                if len(line) > _MAX_LINE_BYTES:
                    raise InputError(
                        f"{name}, line {number} has more than {_MAX_LINE_BYTES >> 20} MiB; break "
                        "it into lines"
                    )
                text = line.decode("utf-8").rstrip("\r\n")
                yield number, text.removeprefix(_BYTE_ORDER_MARK) if number == 1 else text
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name}, line {number} is not UTF-8 text ({error.reason}); save the file as UTF-8"
        ) from None
    except FileNotFoundError:
        raise NoDataError(f"there is no file {name}; check the path") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{name} is not a whole gzip file ({error}); compress it again") from None
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror or error}") from None


def _open_binary(path: str | PathLike[str]) -> IO[bytes] | nullcontext[IO[bytes]]:
    """Open a file or standard input as a context manager; decompress ``.gz``."""
    if str(path) == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed; give a file")
        # A `with` block must not close standard input.
        return nullcontext(sys.stdin.buffer)
    if Path(path).suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return Path(path).open("rb")


def _read_binary_table(path: str | PathLike[str], package: str) -> str:
    """Convert a Parquet file, or the first sheet of a spreadsheet, to CSV text.

    Empty rows, and empty columns without a name, are left out of a spreadsheet.

    Parameters
    ----------
    path
        Path of the file.
    package
        Package that reads the format, ``pyarrow`` or ``openpyxl``.
    """
    import pandas as pd  # takes 0.2 s, which commands that read plain text need not wait for

    try:
        # The table is converted to CSV text, so that all formats are parsed alike.
        if package == "pyarrow":
            return format_csv(pd.read_parquet(path))
        with pd.ExcelFile(path, engine="openpyxl") as workbook:
            first_sheet, *other_sheets = workbook.sheet_names
            # Keep the cells as they are, so that text such as NA is not read as a missing value.
            table = pd.read_excel(workbook, dtype=object, na_values=[""], keep_default_na=False)
    except ImportError as error:
        raise MissingExtraError(
            f"reading {path} needs {package}; pip install {package}, or save the table as CSV"
        ) from error
    except FileNotFoundError:
        raise NoDataError(f"there is no file {path}; check the path") from None
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"cannot read {path}: {' '.join(str(error).split())}") from error
    if other_sheets:
        print_once(
            f"{path}: reading the first of {len(other_sheets) + 1} sheets, {str(first_sheet)!r}"
        )
    # Excel files often have columns and rows without content beyond the table.
    empty = [c for c in table if str(c).startswith("Unnamed: ") and table[c].isna().all()]
    return format_csv(table.drop(columns=empty).dropna(how="all"))


def find_separator(header: str, default: str = ",") -> str:
    """Return the most frequent of commas, semicolons and tabs in the header line of a CSV file."""
    unquoted = re.sub(r'"[^"]*"', "", header)
    # `max` returns the default, which is first, if no other separator is more frequent.
    return max((default, *SEPARATORS), key=unquoted.count)


def read_csv_rows(
    lines: Iterable[str], name: str, *, fill: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV file, header first, each with the number of its last line.

    Parameters
    ----------
    lines
        Lines of the file, without line ends.
    name
        Name of the file, for messages.
    fill
        Whether rows shorter than the header are padded with empty cells instead of refused.

    Raises
    ------
    InputError
        If a row is not CSV or its number of cells differs from the header. The message names the
        line.
    """
    lines = iter(lines)
    header = next(lines, "")
    separator = find_separator(header)
    # The parser needs line ends to keep those that are inside quotation marks.
    terminated = (f"{line}\n" for line in chain([header], lines))
    reader = csv.reader(terminated, strict=True, delimiter=separator)
    # All rows must have as many cells as the header, the first row.
    width = None
    try:
        for row in reader:
            width = len(row) if width is None else width
            # Spreadsheets may leave out empty cells at the end of a row.
            if fill:
                row += [""] * (width - len(row))
            if len(row) != width:
                raise InputError(
                    f"{name}, line {reader.line_num} has {len(row)} cells, the header {width}; "
                    f"put quotes around sentences with {SEPARATORS[separator]}"
                )
            yield reader.line_num, row
    except csv.Error as error:
        raise InputError(
            f"{name}, line {reader.line_num} is not CSV ({error}); check its quotes"
        ) from None


def read_csv_header(
    path: str | PathLike[str], lines: Sequence[str], column: str, *alternative: str
) -> list[str] | None:
    """Return the column names of a CSV file; None for a plain list with one entry per line.

    Parameters
    ----------
    path
        Path of the file.
    lines
        Lines of the file.
    column, alternative
        A file is a CSV file if its first line names `column` or all columns in `alternative`.

    Raises
    ------
    InputError
        If the file has a suffix of tables (``.csv``), but its first line does not name the columns.
    """
    try:
        first_row = csv.reader(lines[:1], delimiter=find_separator("".join(lines[:1])))
        header = [cell.strip() for cell in next(first_row, [])]
    except csv.Error:  # the first line is free text
        header = list(lines[:1])
    # The file is a table if its first line has the column or all alternative columns. Otherwise
    # each line is one entry, unless the file has the suffix of a table.
    is_table = column in header or (alternative and {*alternative} <= {*header})
    if not is_table and {*TABLE_SUFFIXES} & {*Path(path).suffixes}:
        raise InputError(
            f"{format_source(path)} has no column {column!r}, only {', '.join(header) or 'nothing'}"
        )
    return header if is_table else None


def read_list(path: str | PathLike[str], column: str) -> tuple[str, ...]:
    """Read the distinct entries of a list.

    Parameters
    ----------
    path
        Path of a text file with one entry per line, or of a CSV file.
    column
        Column of the CSV file with the entries.

    Returns
    -------
    tuple of str
        Entries without surrounding spaces, in the order of the file. Empty entries are left out.
    """
    lines = [line for _, line in read_lines(path)]
    header = read_csv_header(path, lines, column)
    entries = lines
    if header is not None:
        # Skip the header, and read one column.
        rows = islice(read_csv_rows(lines, format_source(path), fill=True), 1, None)
        entries = [row[header.index(column)] for _, row in rows]
    return tuple(dict.fromkeys(entry.strip() for entry in entries if entry.strip()))


def format_csv_rows(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Format rows as CSV text, in which floats have as many digits as float64 requires.

    Parameters
    ----------
    columns
        Names of the columns.
    rows
        Cells of each row, in the order of the columns.
    """
    cells = [[repr(float(v)) if isinstance(v, float) else v for v in row] for row in rows]
    # `repr` is the shortest text that represents a float exactly, also a float of NumPy.

    def write(quoting: Literal[0, 1]) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n", quoting=quoting).writerows([columns, *cells])
        return text.getvalue()

    text = write(csv.QUOTE_MINIMAL)
    # The writer does not quote a lone carriage return, but readers end a row there.
    return write(csv.QUOTE_ALL) if "\r" in text else text


def format_csv(table: pd.DataFrame) -> str:
    """Return a table as CSV text, without its index; missing cells are empty."""
    text = table.to_csv(index=False, lineterminator="\n")
    if "\r" in text:  # see `format_csv_rows`
        text = table.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    return text
