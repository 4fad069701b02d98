"""Reading text files and tables as people have them, and the columns of tables."""

import csv
import gzip
import io
import sys

import numpy as np
import pandas as pd
import pytest

from contstim.errors import InputError, MissingExtraError
from contstim.tables import (
    CHOICES,
    csv_rows,
    escape_table,
    escape_text,
    format_csv,
    format_csv_rows,
    numbered_lines,
    read_csv_header,
    read_table,
    require_columns,
    unescape_text,
)


def test_columns_that_are_there():
    require_columns(pd.DataFrame(columns=[*CHOICES, "more"]), CHOICES, "the choices")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["ratings"], "the choices has no column 'rating'; did you mean 'ratings'?"),
        (["x", "y"], "the choices has no column 'rating'; it has 'x', 'y'"),
        ([], "the choices has no column 'rating'; it has no column"),
    ],
)
def test_columns_that_are_missing(columns, message):
    with pytest.raises(InputError) as caught:
        require_columns(pd.DataFrame(columns=columns), ["rating"], "the choices")
    assert str(caught.value) == message


def test_line_ends_and_the_byte_order_mark_are_dropped(tmp_path):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress("\ufeffOne \r\n\nThré\ufeffe".encode()))
    assert list(numbered_lines(path)) == [(1, "One "), (2, ""), (3, "Thré\ufeffe")]


def test_a_line_without_an_end_is_not_read_whole(tmp_path):
    path = tmp_path / "bomb.txt.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"short\n")
        for _ in range(17):
            file.write(bytes(1 << 20))
    with pytest.raises(InputError, match=r"bomb.txt.gz, line 2 has more than 16 MiB; break it"):
        list(numbered_lines(path))


TABLE = "\ufeffsentence,n,score\nnull,1,NA\n12,2,0.1\n"


@pytest.mark.parametrize("way", ["plain", "windows", "gzip", "input"])
def test_tables_as_people_have_them(tmp_path, monkeypatch, way):
    path = tmp_path / ("table.csv.gz" if way == "gzip" else "table.csv")
    data = TABLE.replace("\n", "\r\n" if way == "windows" else "\n").encode()
    path.write_bytes(gzip.compress(data) if way == "gzip" else data)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    table = read_table("-" if way == "input" else path, ["score"])
    assert table["sentence"].tolist() == ["null", "12"]
    assert table["n"].tolist() == [1, 2]
    assert np.isnan(table["score"][0])
    assert table["score"][1] == 0.1
    text = read_table(path, cells="text")
    assert text.to_numpy().tolist() == [["null", "1", "NA"], ["12", "2", "0.1"]]
    guessed = read_table(path, cells="guessed")
    assert np.isnan(guessed["sentence"][0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "{} is empty; give a table with a header and rows"),
        (
            b"a,b\n1,2\n1,2,3\n",
            "{}, line 3 has 3 cells, the header 2; put quotes around sentences with commas",
        ),
        (
            b"a,b\n1,2,3\n4,5,6\n",
            "the rows of {} have more cells than its header; put quotes "
            "around sentences with commas",
        ),
        (
            b"a,b\n\xff,2\n",
            "{}, line 2 is not UTF-8 text (invalid start byte); save the file as UTF-8",
        ),
        (b"a,c\n1,2\n", "{} has no column 'b'; it has 'a', 'c'"),
    ],
)
def test_tables_that_cannot_be_used(tmp_path, content, message):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_table(path, ["b"])
    assert str(caught.value) == message.format(path)


def test_cells_of_any_length_and_the_line_of_a_fault(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "x" * 200_000 + ",1\n")
    assert read_table(path)["a"].str.len().tolist() == [200_000]
    with pytest.raises(InputError) as caught:
        list(csv_rows(["a,b", "1,2", "x" * 200_000 + ",2"], "words.csv"))
    assert str(caught.value) == (
        "words.csv, line 3 is not CSV (field larger than field limit (131072)); check its quotes"
    )
    assert list(csv_rows(["a,b", '"1', '2",', "3"], "x", fill=True)) == [
        (1, ["a", "b"]),
        (3, ["1\n2", ""]),
        (4, ["3", ""]),
    ]
    with pytest.raises(InputError, match="^x, line 2 has 1 cells, the header 2; put quotes"):
        list(csv_rows(["a,b", "3"], "x"))


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n", "\u2028", "\x85", '"', ","])
def test_whatever_ends_a_line_in_a_cell_ends_no_row(end):
    columns, rows = ["who", "said"], [["a", f"one{end}two"], ["b", "x"]]
    for text in (format_csv_rows(columns, rows), format_csv(pd.DataFrame(rows, columns=columns))):
        assert [*csv.reader(io.StringIO(text, newline=""))] == [columns, *rows]
        assert pd.read_csv(io.StringIO(text, newline="")).to_numpy().tolist() == rows


FORMULAS = [
    *('=HYPERLINK("http://evil","x")', "@SUM(1+1)*cmd|' /C calc'!A0", "+1+cmd", "-2+3", "- Yes."),
    *("\t=1+1", " =1+1", "\r=1+1", "\n@a", "\uff1d1+1", "'=1+1", "''-a", "-1e", "=1"),
]
PLAIN = ["", "-", "-2.5", "+3", "-1e-05", "'tis", "'-2", "don't", "a=b", "-7 ", "A sentence."]
CONTROLS = ["a\x00b", "\x1b[31m", "\x7f", "\x0c=1", "\u2400", "\u2426\u2400\x00", "'\u2426"]


@pytest.mark.parametrize("text", [*FORMULAS, *PLAIN, *CONTROLS])
def test_no_cell_is_a_formula_and_each_can_be_taken_back(text):
    written = escape_text(text)
    assert unescape_text(written) == text
    assert (written == text) == (text in PLAIN)
    assert not any(sign in written for sign in "\x00\x0c\x1b\x7f")
    if text in FORMULAS:
        assert written == f"'{text}"


def test_tables_are_read_back_as_they_were_before_they_were_made_neutral(tmp_path):
    texts = [*FORMULAS, *PLAIN[1:], *CONTROLS]
    table = pd.DataFrame({"who": texts, "n": range(len(texts)), "=1+1": [*texts[1:], "x"]})
    path = tmp_path / "pay.csv"
    path.write_bytes(format_csv(escape_table(table)).encode())
    cells = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert not cells["who"].str.match(r"\s*[=@]|\s*[-+](?!\d|$)").any()
    assert list(cells) == ["who", "n", "'=1+1"]
    for kind in ("typed", "text"):
        back = read_table(path, cells=kind)
        assert back["who"].tolist() == table["who"].tolist()
        assert back["=1+1"].tolist() == table["=1+1"].tolist()
    mixed = pd.DataFrame({"n": [1, None, "=1"]}, dtype=object)
    assert format_csv(escape_table(mixed)) == 'n\n1\n""\n\'=1\n'


GERMAN = """\
participant;sentence_1;rt;n;note
p1;"Er kam; sie ging, leider.";1,5;2;1,5
p2;null;-2;3;
p3;12,5;;4;1,x
"""


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_and_decimal_commas_are_found_and_said(tmp_path, capsys, separator):
    path = tmp_path / "own_de.csv"
    path.write_text(GERMAN.replace("kam;", "kam").replace(";", separator), "utf-8")
    called = {";": "semicolons", "\t": "tabs"}[separator]
    numbers = [1.5, -2.0, None]
    for cells in ("typed", "guessed"):
        table = read_table(path, cells=cells)
        assert table["rt"].astype(object).where(table["rt"].notna(), None).tolist() == numbers
        assert table["n"].tolist() == [2, 3, 4]
        assert table["note"].tolist()[::2] == ["1,5", "1,x"]  # not all are numbers
    text = read_table(path, cells="text")
    assert text["rt"].tolist()[:2] == ["1.5", "-2"]
    assert text["sentence_1"].tolist()[1:] == ["null", "12,5"]  # of sentences nothing is changed
    said = f"{path}: cells are separated by {called}; decimal commas in 'rt'\n"
    assert capsys.readouterr().err == said  # once
    path.with_suffix(".tsv").write_text("a\tb\n1\t2\n")
    read_table(path.with_suffix(".tsv"))
    assert capsys.readouterr().err == ""  # as its name says


def test_a_comma_stays_where_commas_separate(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text('word,"a; b; c"\nx,"1,5"\n')
    assert read_table(path)["a; b; c"].tolist() == ["1,5"]
    path.write_text("a;b\n1;2;3\n4;5;6\n")
    with pytest.raises(InputError, match="than its header; put quotes around sentences with semi"):
        read_table(path)


def test_lines_of_lists_and_designs_have_the_same_separators():
    lines = ["n;sentence", "1;One, two.", '2;"a;b"']
    assert read_csv_header("x.txt", lines, "sentence") == ["n", "sentence"]
    assert [row for _, row in csv_rows(lines, "x")][1:] == [["1", "One, two."], ["2", "a;b"]]
    with pytest.raises(InputError, match="header 2; put quotes around sentences with semicolons"):
        list(csv_rows(["a;b", "1;2;3"], "x"))


SHEET = pd.DataFrame(
    {"sentence": ["null", "12", "a\nb"], "n": [1, 2, 3], "score": [-1.5, None, 2]}, dtype=object
)


@pytest.mark.parametrize("ending", [".xlsx", ".parquet"])
def test_spreadsheets_and_parquet_are_read_as_the_csv_of_their_cells(tmp_path, capsys, ending):
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
    rows = csv_rows((line for _, line in numbered_lines(path)), "x")
    assert [row[0] for _, row in rows] == ["sentence", *SHEET["sentence"]]
    said = f"{path}: of 2 sheets the first, 'Tabelle1', is read\n" if ending == ".xlsx" else ""
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("ending", "package"), [(".xlsx", "openpyxl"), (".XLSX", "openpyxl"), (".parquet", "pyarrow")]
)
def test_the_package_that_reads_a_file_is_named(tmp_path, monkeypatch, ending, package):
    path = tmp_path / f"own{ending}"
    path.write_bytes(b"PK")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError) as caught:
        read_table(path)
    assert str(caught.value) == (
        f"reading {path} needs {package}; pip install {package}, or save the table as CSV"
    )


@pytest.mark.parametrize(("ending", "how"), [("sav", "SPSS"), ("xls", ".xlsx"), ("rds", "readRDS")])
def test_files_of_other_programs_are_to_be_exported(tmp_path, ending, how):
    path = tmp_path / f"own.{ending}"
    path.write_bytes(b"$FL2")
    with pytest.raises(InputError) as caught:
        read_table(path)
    assert str(caught.value).startswith(f"cannot read {path}; export it ")
    assert how in str(caught.value)
