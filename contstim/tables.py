"""Reading the text files and tables that people have; the columns of tables, and their CSV.

Text is UTF-8, with a byte-order mark or without, gzip-compressed by the file's ending, and ``-`` is
standard input, wherever a file is read. Cells of a table may be separated by commas, semicolons or
tabs, which its header tells. A spreadsheet or Parquet file is read as the CSV of its cells, by
whatever reads lines.

Spreadsheets compute a cell that begins like a formula, and some programs stop reading at a control
character. Tables that hold what others typed are therefore written with `escape_text`, which
`read_table` takes back.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import cache, partial
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, cast

from contstim.errors import InputError, MissingExtraError, NoDataError, near_matches

if TYPE_CHECKING:
    import pandas as pd

#: One row per sentence and model; `log_prob` in nats.
SCORES = ("sentence", "model", "log_prob", "n_tokens", "n_words", "stderr")
#: The column of a table of scores that has the unit of each model's scores.
UNIT = "unit"
#: The column of a table of scores that has the specs of models, which may be called otherwise.
SPEC = "spec"

#: One row per trial and participant; `rating` is negative where sentence 1 was chosen.
CHOICES = (
    "participant",
    "group",
    "trial",
    "condition",
    "sentence_1",
    "sentence_2",
    "model_1",
    "model_2",
    "rating",
    "rt_ms",
)

#: One row per triplet; ``..._lp_k`` is the log-probability under model k, nats.
TRIPLETS = (
    "model_1",
    "model_2",
    "natural",
    "synthetic_1",
    "synthetic_2",
    "natural_lp_1",
    "natural_lp_2",
    "synthetic_1_lp_1",
    "synthetic_1_lp_2",
    "synthetic_2_lp_1",
    "synthetic_2_lp_2",
)

#: Columns that hold text even where every cell of them reads as a number.
_TEXT = frozenset({"sentence", "model", *TRIPLETS[:5]})

_OURS = _TEXT | {*CHOICES, *SCORES}
# Columns of ours whose zeros before numbers are no names.
_NUMBERS = frozenset({"trial", "rating", "rt_ms", *SCORES[2:]})

#: What stands for no number.
MISSING = ("", "NA", "NaN", "nan", "None", "null")

# What may stand between cells, and what messages call it.
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_COMMA_NUMBER = r"\s*[-+]?\d+(,\d+)?([eE][-+]?\d+)?\s*"
# Columns that hold labels, which stay as they are written.
_LABELS = frozenset({"participant", "group", "condition", "sentence_1", "sentence_2"})
# Columns in which NA, as R writes it, says that there is none.
_OPTIONAL = frozenset({"model_1", "model_2", "item", "expected", "kind_1", "kind_2", "side_1"})
# What is a number, but may be a label.
_CODE_ALONE = r"\s*(?:0\d+|\d+[eE]\d+)\s*"
_WHOLE = r"\s*\d+\s*"
# Files that no free library reads as it is, and how they become ones that can be read.
_EXPORTED = {
    ".sav": "in SPSS with File > Save As > CSV, or in R with write.csv(haven::read_sav(...))",
    ".rds": "in R with write.csv(readRDS(...))",
    ".xls": "as .xlsx or CSV",
    ".ods": "as .xlsx or CSV",
}
_PACKAGES = {".xlsx": "openpyxl", ".parquet": "pyarrow", ".pq": "pyarrow"}

#: Endings of files that are tables, not lists with an entry a line.
TABLES = (".csv", ".tsv", *_PACKAGES)

_BOM = "\ufeff"
# More is no line of a text or table: what a small compressed file may swell to.
_MOST_BYTES = 1 << 24

# What spreadsheets take for a formula: a sign, ASCII or full-width, and something after it that
# does not make the cell a number. Apostrophes before it make it text.
_NUMBER = r"\s*[-+]?\d+(\.\d*)?([eE][-+]?\d+)?\s*$"
_FORMULA = re.compile(rf"'*(?!{_NUMBER})\s*[-=+@\uff0b\uff0d\uff1d\uff20].", re.DOTALL)
# Whether `escape_text` may have written something; to be quick, no more is asked.
_MARKED = (re.compile(r"'\s*[-=+@\uff0b\uff0d\uff1d\uff20]"), re.compile("[\u2400-\u2426]"))
# Control characters, but tabs and line ends, and the pictures that stand for them. Pictures that
# stand for themselves come after another sign.
_ITSELF = "\u2426"
_PICTURES = {chr(c): chr(0x2400 + c) for c in range(0x20) if chr(c) not in "\t\n\r"}
_PICTURES["\x7f"] = "\u2421"
_AS_PICTURES = str.maketrans(
    _PICTURES | {sign: _ITSELF + sign for sign in (*_PICTURES.values(), _ITSELF)}
)
_CONTROLS = {picture: control for control, picture in _PICTURES.items()}
_PICTURE = re.compile(f"{_ITSELF}(.)|([{''.join(_CONTROLS)}])", re.DOTALL)


def require_columns(frame: pd.DataFrame, columns: Iterable[str], what: str) -> None:
    """Refuse a table that lacks one of `columns`.

    Parameters
    ----------
    frame
        The table.
    columns
        Names that must be among its columns.
    what
        What the table is, for the message, e.g. ``the triplets table``.

    Raises
    ------
    InputError
        Naming the first column that is missing.
    """
    present = [str(column) for column in frame.columns]
    for column in columns:
        if column not in present:
            hint = near_matches(column, present, "it has") if present else "it has no column"
            raise InputError(f"{what} has no column {column!r}; {hint}")


def read_table(
    path: str | PathLike[str],
    columns: Iterable[str] = (),
    *,
    cells: Literal["typed", "text", "guessed"] = "typed",
) -> pd.DataFrame:
    """Read a table: cells between commas, semicolons or tabs, as .xlsx or as Parquet.

    Of a spreadsheet it is the first sheet. Where cells are separated by semicolons or tabs, a
    column that holds nothing but numbers, some of them with a decimal comma, gets decimal points.
    What was so decided is said on standard error, in one line.

    Parameters
    ----------
    path
        The file; ``-`` is standard input.
    columns
        Columns that it must have.
    cells
        What the cells are. ``typed``: numbers in columns that hold nothing
        else, otherwise text, be it ``null`` or ``12``; the first column and those of sentences
        and models are always text. ``text``: all text, empty ones missing. ``guessed``: numbers
        or truth values in columns that hold nothing else, except labels such as participants.

    Raises
    ------
    InputError
        If the file cannot be read or lacks a column; the message names file and place.
    MissingExtraError
        If the package that reads such a file, openpyxl or pyarrow, is not installed.
    """
    name = format_source(path)
    table = _parse(name, path, cells)
    require_columns(table, columns, name)
    return table


def _text_of(path: str | PathLike[str], package: str) -> str:
    """Return the CSV of a spreadsheet's first sheet, or of a Parquet file."""
    import pandas as pd  # half a second, which commands that read lines of text need not wait

    try:
        if package == "pyarrow":
            return format_csv(pd.read_parquet(path))
        with pd.ExcelFile(path, engine="openpyxl") as book:
            first, *others = book.sheet_names
            table = pd.read_excel(book, dtype=object, na_values=[""], keep_default_na=False)
    except ImportError as error:
        raise MissingExtraError(
            f"reading {path} needs {package}; pip install {package}, or save the table as CSV"
        ) from error
    except FileNotFoundError:
        raise NoDataError(f"there is no file {path}; check the path") from None
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"cannot read {path}: {' '.join(str(error).split())}") from error
    if others:
        print_once(f"{path}: of {len(others) + 1} sheets the first, {str(first)!r}, is read")
    unused = [c for c in table if str(c).startswith("Unnamed: ") and table[c].isna().all()]
    return format_csv(table.drop(columns=unused).dropna(how="all"))


@cache
def print_once(line: str) -> None:
    """Say on standard error, once, how a file was read."""
    print(line, file=sys.stderr, flush=True)


def _separator(header: str, usual: str = ",") -> str:
    """Return what stands between cells, by the first line of a table."""
    bare = re.sub(r'"[^"]*"', "", header)
    return max((usual, *_SEPARATORS), key=bare.count)


def _put_quotes(separator: str) -> str:
    return f"put quotes around sentences with {_SEPARATORS[separator]}"


def _parse(
    name: str, path: str | PathLike[str], cells: Literal["typed", "text", "guessed"]
) -> pd.DataFrame:
    usual = "\t" if ".tsv" in Path(path).suffixes else ","
    return _parse_lines(name, [line for _, line in numbered_lines(path)], usual, cells)


def parse_table(lines: Sequence[str], name: str) -> pd.DataFrame:
    """Return the table in the lines of a CSV, with numbers where a column holds nothing else."""
    return _parse_lines(name, lines, ",", "guessed")


def _parse_lines(
    name: str, lines: Sequence[str], usual: str, cells: Literal["typed", "text", "guessed"]
) -> pd.DataFrame:
    import pandas as pd

    text = "\n".join(lines)
    if not text.strip():
        raise NoDataError(f"{name} is empty; give a table with a header and rows")
    separator = _separator(lines[0], usual)
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
                f"{_put_quotes(separator)}"
            ) from None
        raise InputError(f"cannot read {name}: {' '.join(str(error).split())}") from None
    header = next(csv.reader([text.partition("\n")[0]], delimiter=separator))
    twice = [column for column in header if column in _OURS and header.count(column) > 1]
    if twice:  # pandas would give the second another name
        raise InputError(f"{name} has two columns {twice[0]!r}; keep one")
    if not isinstance(table.index, pd.RangeIndex):
        # pandas took the first column for row names, and so moved every cell by one column.
        raise InputError(
            f"the rows of {name} have more cells than its header; {_put_quotes(separator)}"
        )
    if separator != ",":
        table, with_commas = _with_points(table)
        if with_commas or separator != usual:
            commas = (
                f"; decimal commas in {', '.join(map(repr, with_commas))}" if with_commas else ""
            )
            print_once(f"{name}: cells are separated by {_SEPARATORS[separator]}{commas}")
    if any(mark.search(text) for mark in _MARKED):
        table = _with_texts(table, unescape_text)
    if cells == "typed":
        as_text = {str(table.columns[0])} | _TEXT
        table = pd.DataFrame(
            {key: column if key in as_text else _typed(column) for key, column in table.items()}
        )
    elif cells == "guessed":
        table = pd.DataFrame({key: _guessed(column, str(key)) for key, column in table.items()})
    return table


def _guessed(column: pd.Series, name: str) -> pd.Series:
    """Return a column as numbers or truth values if it holds nothing else, but never labels.

    ``NA`` and the like are missing numbers, but labels among labels. Codes are labels too: numbers
    with a zero before them, and those of which several would be one number, as 1e5 and 100000.
    """
    import pandas as pd

    missing = column.isna() | column.isin(MISSING)
    given = column[~missing]
    if name in _OPTIONAL:
        column = column.where(~missing)
    if name in _LABELS or (given.empty and not column.isna().all()):
        return column
    if column.notna().all() and given.str.lower().isin(("true", "false")).all():
        return column.str.lower() == "true"
    numbers = pd.to_numeric(given, errors="coerce")
    has_codes = given.str.fullmatch(_CODE_ALONE).any()
    whole = given.str.fullmatch(_WHOLE).all()
    if numbers.isna().any() or (
        has_codes and (given.nunique() > numbers.nunique() or (name not in _NUMBERS and whole))
    ):
        return column
    if not missing.any() and given.str.fullmatch(r"\s*-?\d{1,18}\s*").all():
        return given.astype("int64")
    # Python's own parser reads back exactly what was written.
    values = column.mask(missing, "nan").to_numpy(dtype=object).astype("float64")
    return pd.Series(values, index=column.index)


def _with_points(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return a table with points in place of decimal commas, and in which columns they were."""
    import pandas as pd

    changed = {}
    for key, column in table.items():
        texts = column[column.notna() & ~column.isin(MISSING)].astype(str)
        if str(key) in _TEXT or pd.api.types.is_numeric_dtype(column) or texts.empty:
            continue
        if texts.str.fullmatch(_COMMA_NUMBER).all() and texts.str.contains(",").any():
            points = column.astype(str).where(column.notna()).str.replace(",", ".")
            changed[str(key)] = points
    return table.assign(**changed), list(changed)


def _typed(column: pd.Series) -> pd.Series:
    """Return a column of text as numbers if it holds nothing else, else as it is."""
    import pandas as pd

    missing = column.isin(MISSING)
    try:
        if column.str.fullmatch(r"-?\d{1,18}").all():
            return column.astype("int64")
        # Python's own parser, by way of objects: it reads back exactly what was written.
        numbers = column.mask(missing, "nan").to_numpy(dtype=object).astype("float64")
    except ValueError:
        return column
    return pd.Series(numbers, index=column.index)


def read_csv_header(
    path: str | PathLike[str], lines: Sequence[str], column: str, *instead: str
) -> list[str] | None:
    """Return the names of a CSV's columns, or None if a file is a plain list, one entry a line.

    It is a CSV if its name says so or its first line names `column`, or all columns `instead`.

    Raises
    ------
    InputError
        If it is called a CSV and lacks these columns.
    """
    try:
        first = csv.reader(lines[:1], delimiter=_separator("".join(lines[:1])))
        header = [cell.strip() for cell in next(first, [])]
    except csv.Error:  # a line that is no line of a CSV
        header = list(lines[:1])
    is_table = column in header or (instead and {*instead} <= {*header})
    if not is_table and {*TABLES} & {*Path(path).suffixes}:
        raise InputError(
            f"{format_source(path)} has no column {column!r}, only {', '.join(header) or 'nothing'}"
        )
    return header if is_table else None


def read_list(path: str | PathLike[str], column: str) -> tuple[str, ...]:
    """Read a list, one entry a line, or the column of a table that has them; each counts once."""
    name, lines = format_source(path), [line for _, line in numbered_lines(path)]
    header = read_csv_header(path, lines, column)
    entries = lines
    if header is not None:
        rows = islice(csv_rows(lines, name, fill=True), 1, None)
        entries = [row[header.index(column)] for _, row in rows]
    return tuple(dict.fromkeys(entry.strip() for entry in entries if entry.strip()))


def csv_rows(
    lines: Iterable[str], name: str, *, fill: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV file, the header first, each with the number of its last line.

    Parameters
    ----------
    lines
        The file's lines, without line ends.
    name
        The file, for messages.
    fill
        Whether rows shorter than the header are filled up with empty cells, not refused.

    Raises
    ------
    InputError
        If a row has more or fewer cells than the header or is not CSV; the message names the line.
    """
    lines = iter(lines)
    header = next(lines, "")
    separator = _separator(header)
    rest = (line + "\n" for line in chain([header], lines))
    reader = csv.reader(rest, strict=True, delimiter=separator)
    width = None
    try:
        for row in reader:
            width = len(row) if width is None else width
            if fill:
                row += [""] * (width - len(row))
            if len(row) != width:
                raise InputError(
                    f"{name}, line {reader.line_num} has {len(row)} cells, the header {width}; "
                    f"{_put_quotes(separator)}"
                )
            yield reader.line_num, row
    except csv.Error as error:
        raise InputError(
            f"{name}, line {reader.line_num} is not CSV ({error}); check its quotes"
        ) from None


def numbered_lines(path: str | PathLike[str]) -> Iterator[tuple[int, str]]:
    """Yield each line of a text file, without its line end, and its number from 1.

    Parameters
    ----------
    path
        A UTF-8 file (a byte-order mark is skipped), gzip-compressed if its name ends in
        ``.gz``; ``-`` is standard input. Of ``.xlsx`` and ``.parquet`` the lines are those of the
        table as CSV.

    Raises
    ------
    InputError
        If the file cannot be opened, is not what its ending promises or of another program that
        has to export it, or holds a line that is
        not UTF-8 or longer than 16 MiB; the message names the file and the line.
    MissingExtraError
        If the package that reads ``.xlsx`` or ``.parquet`` is not installed.
    """
    name = format_source(path)
    number = 0
    ending = Path(path).suffix.lower()
    if ending in _EXPORTED:
        raise InputError(f"cannot read {name}; export it {_EXPORTED[ending]}")
    if ending in _PACKAGES:
        text = _text_of(path, _PACKAGES[ending])
        yield from enumerate(text.removesuffix("\n").split("\n"), 1)
        return
    try:
        with _open(path) as file:
            for number, raw in enumerate(iter(partial(file.readline, _MOST_BYTES + 1), b""), 1):
                if len(raw) > _MOST_BYTES:
                    raise InputError(
                        f"{name}, line {number} has more than {_MOST_BYTES >> 20} MiB; break it "
                        "into lines"
                    )
                line = raw.decode("utf-8").rstrip("\r\n")
                yield number, line.removeprefix(_BOM) if number == 1 else line
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name}, line {number} is not UTF-8 text ({error.reason}); save the file as UTF-8"
        ) from None
    except FileNotFoundError:
        raise NoDataError(f"there is no file {name}; check the path") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{name} is not a whole gzip file ({error}); make it again") from None
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror or error}") from None


def format_csv_rows(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return rows as CSV; floats are written so that they read back as the same float64."""
    cells = [[repr(float(v)) if isinstance(v, float) else v for v in row] for row in rows]

    def written(quoting: Literal[0, 1]) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n", quoting=quoting).writerows([columns, *cells])
        return text.getvalue()

    text = written(csv.QUOTE_MINIMAL)
    # Readers take a carriage return for the end of a row, writers do not know that of line feeds.
    return written(csv.QUOTE_ALL) if "\r" in text else text


def escape_text(text: str) -> str:
    """Return text that no spreadsheet computes, without control characters.

    An apostrophe is put before what a spreadsheet would take for a formula, and control characters
    but tabs and line ends become their pictures. Numbers stay. `unescape_text` takes it back.

    Examples
    --------
    >>> print(escape_text("=1+1"), escape_text("-2.5"), escape_text("a" + chr(0) + "b"))
    '=1+1 -2.5 a␀b
    """
    text = text.translate(_AS_PICTURES)
    return f"'{text}" if _FORMULA.match(text) else text


def unescape_text(text: str) -> str:
    """Return the text of which `escape_text` made this one."""
    if text.startswith("'") and _FORMULA.match(text):
        text = text[1:]
    return _PICTURE.sub(lambda sign: sign[1] or _CONTROLS[sign[2]], text)


def escape_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its texts, and the names of its columns, as of `escape_text`."""
    return _with_texts(table, escape_text)


def _with_texts(table: pd.DataFrame, change: Callable[[str], str]) -> pd.DataFrame:
    """Return a table with all its texts, and the names of its columns, changed."""
    import pandas as pd

    changed = cache(change)  # texts recur
    out = table.rename(columns=lambda name: changed(str(name)))
    for place, kind in enumerate(out.dtypes):
        if kind.kind == "O":
            cells = [changed(c) if isinstance(c, str) else c for c in out.iloc[:, place]]
            out.isetitem(place, pd.Series(cells, index=out.index, dtype=kind))
    return out


def format_csv(table: pd.DataFrame) -> str:
    """Return a table as CSV text, without its index; missing cells are empty."""
    text = table.to_csv(index=False, lineterminator="\n")
    if "\r" in text:  # as in `format_csv_rows`
        text = table.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    return text


def _open(path: str | PathLike[str]) -> IO[bytes] | nullcontext[IO[bytes]]:
    if str(path) == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed; give a file")
        return nullcontext(sys.stdin.buffer)
    if Path(path).suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return Path(path).open("rb")


def format_source(path: str | PathLike[str]) -> str:
    """Return what messages call a file; ``-`` is standard input."""
    return "standard input" if str(path) == "-" else str(path)


def side_of_ceiling(models: pd.DataFrame) -> pd.Series[int]:
    """Return on which side of its lower ceiling each model was tested to be: 1 above, -1 below.

    Crossed tests are of means, which the effect, one of ranks, may not follow; a rank test is of
    the ranks.

    Parameters
    ----------
    models
        Rows of the table `models` of an evaluation.
    """
    gap = (models["value"] - models["ceiling_lower"]).round(12)
    tested = gap.where(models["test"] == "crossed", models["effect_ceiling"])
    return (tested > 0).astype(int) - (tested < 0).astype(int)
