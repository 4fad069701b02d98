"""Lines of text files, rows of CSV files, and formats that need a package."""

import csv
import gzip
import io
import sys

import pandas as pd
import pytest

from contstim.errors import InputError, MissingExtraError
from contstim.tables import read_table
from contstim.text_files import (
    format_csv,
    format_csv_rows,
    read_csv_header,
    read_csv_rows,
    read_lines,
)

SHEET = pd.DataFrame(
    {"sentence": ["null", "12", "a\nb"], "n": [1, 2, 3], "score": [-1.5, None, 2]}, dtype=object
)


def test_read_lines_strips_line_ends_and_byte_order_mark(tmp_path):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress("\ufeffOne \r\n\nThré\ufeffe".encode()))
    assert list(read_lines(path)) == [(1, "One "), (2, ""), (3, "Thré\ufeffe")]


def test_lines_have_a_maximum_length(tmp_path):
    path = tmp_path / "bomb.txt.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"short\n")
        for _ in range(17):
            file.write(bytes(1 << 20))
    with pytest.raises(InputError, match=r"bomb.txt.gz, line 2 has more than 16 MiB; break it"):
        list(read_lines(path))


def test_short_csv_rows_are_padded_or_rejected(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "x" * 200_000 + ",1\n")
    assert read_table(path)["a"].str.len().tolist() == [200_000]
    with pytest.raises(InputError) as caught:
        list(read_csv_rows(["a,b", "1,2", "x" * 200_000 + ",2"], "words.csv"))
    assert str(caught.value) == (
        "words.csv, line 3 is not CSV (field larger than field limit (131072)); check its quotes"
    )
    assert list(read_csv_rows(["a,b", '"1', '2",', "3"], "x", fill=True)) == [
        (1, ["a", "b"]),
        (3, ["1\n2", ""]),
        (4, ["3", ""]),
    ]
    with pytest.raises(InputError, match="^x, line 2 has 1 cells, the header 2; put quotes"):
        list(read_csv_rows(["a,b", "3"], "x"))


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n", "\u2028", "\x85", '"', ","])
def test_line_ends_within_cells_are_preserved(end):
    columns, rows = ["who", "said"], [["a", f"one{end}two"], ["b", "x"]]
    for text in (format_csv_rows(columns, rows), format_csv(pd.DataFrame(rows, columns=columns))):
        assert [*csv.reader(io.StringIO(text, newline=""))] == [columns, *rows]
        assert pd.read_csv(io.StringIO(text, newline="")).to_numpy().tolist() == rows


def test_separator_is_inferred_from_the_header():
    lines = ["n;sentence", "1;One, two.", '2;"a;b"']
    assert read_csv_header("x.txt", lines, "sentence") == ["n", "sentence"]
    assert [row for _, row in read_csv_rows(lines, "x")][1:] == [["1", "One, two."], ["2", "a;b"]]
    with pytest.raises(InputError, match="header 2; put quotes around sentences with semicolons"):
        list(read_csv_rows(["a;b", "1;2;3"], "x"))


@pytest.mark.parametrize("ending", [".xlsx", ".parquet"])
def test_spreadsheets_and_parquet_files_are_converted_to_csv(tmp_path, capsys, ending):
    path = tmp_path / f"own{ending}"
    if ending == ".xlsx":
        pytest.importorskip("openpyxl", reason="an optional package")
        with pd.ExcelWriter(path) as book:
            SHEET.assign(empty=None).rename(columns={"empty": ""}).to_excel(
                book, index=False, sheet_name="Tabelle1"
            )
            SHEET.to_excel(book, sheet_name="other")
    else:
        pytest.importorskip("pyarrow", reason="an optional package")
        SHEET.astype({"n": int, "score": float}).to_parquet(path)
    table = read_table(path, ["n"])
    assert table.columns.tolist() == ["sentence", "n", "score"]
    assert table["sentence"].tolist() == SHEET["sentence"].tolist()
    assert table["n"].tolist() == [1, 2, 3]
    assert table["score"].tolist()[::2] == [-1.5, 2]
    rows = read_csv_rows((line for _, line in read_lines(path)), "x")
    assert [row[0] for _, row in rows] == ["sentence", *SHEET["sentence"]]
    said = f"{path}: reading the first of 2 sheets, 'Tabelle1'\n" if ending == ".xlsx" else ""
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("ending", "package"), [(".xlsx", "openpyxl"), (".XLSX", "openpyxl"), (".parquet", "pyarrow")]
)
def test_missing_reader_package_is_reported(tmp_path, monkeypatch, ending, package):
    path = tmp_path / f"own{ending}"
    path.write_bytes(b"PK")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError) as caught:
        read_table(path)
    assert str(caught.value) == (
        f"reading {path} needs {package}; pip install {package}, or save the table as CSV"
    )


@pytest.mark.parametrize(("ending", "how"), [("sav", "SPSS"), ("xls", ".xlsx"), ("rds", "readRDS")])
def test_unsupported_formats_are_rejected_with_instructions(tmp_path, ending, how):
    path = tmp_path / f"own.{ending}"
    path.write_bytes(b"$FL2")
    with pytest.raises(InputError) as caught:
        read_table(path)
    assert str(caught.value).startswith(f"cannot read {path}; export it ")
    assert how in str(caught.value)
