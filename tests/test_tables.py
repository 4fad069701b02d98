"""Reading text files and tables as people have them, and the columns of tables."""

import csv
import gzip
import io
import sys

import numpy as np
import pandas as pd
import pytest

from contstim.errors import InputError
from contstim.tables import (
    CHOICES,
    csv_rows,
    csv_text,
    neutral_table,
    neutral_text,
    numbered_lines,
    original_text,
    read_table,
    require_columns,
    table_text,
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
    for text in (csv_text(columns, rows), table_text(pd.DataFrame(rows, columns=columns))):
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
    written = neutral_text(text)
    assert original_text(written) == text
    assert (written == text) == (text in PLAIN)
    assert not any(sign in written for sign in "\x00\x0c\x1b\x7f")
    if text in FORMULAS:
        assert written == f"'{text}"


def test_tables_are_read_back_as_they_were_before_they_were_made_neutral(tmp_path):
    texts = [*FORMULAS, *PLAIN[1:], *CONTROLS]
    table = pd.DataFrame({"who": texts, "n": range(len(texts)), "=1+1": [*texts[1:], "x"]})
    path = tmp_path / "pay.csv"
    path.write_bytes(table_text(neutral_table(table)).encode())
    cells = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert not cells["who"].str.match(r"\s*[=@]|\s*[-+](?!\d|$)").any()
    assert list(cells) == ["who", "n", "'=1+1"]
    for kind in ("typed", "text"):
        back = read_table(path, cells=kind)
        assert back["who"].tolist() == table["who"].tolist()
        assert back["=1+1"].tolist() == table["=1+1"].tolist()
    mixed = pd.DataFrame({"n": [1, None, "=1"]}, dtype=object)
    assert table_text(neutral_table(mixed)) == 'n\n1\n""\n\'=1\n'
