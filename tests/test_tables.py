"""Reading of text files and tables, and columns of tables."""

import gzip
import io
import sys

import numpy as np
import pandas as pd
import pytest

from contstim.columns import CHOICES
from contstim.errors import InputError
from contstim.tables import escape_table, escape_text, read_table, require_columns, unescape_text
from contstim.text_files import (
    format_csv,
)


def test_require_columns_accepts_extra_columns():
    require_columns(pd.DataFrame(columns=[*CHOICES, "more"]), CHOICES, "the choices")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["ratings"], "the choices has no column 'rating'; did you mean 'ratings'?"),
        (["x", "y"], "the choices has no column 'rating'; it has 'x', 'y'"),
        ([], "the choices has no column 'rating'; it has no column"),
    ],
)
def test_missing_columns_are_reported(columns, message):
    with pytest.raises(InputError) as caught:
        require_columns(pd.DataFrame(columns=columns), ["rating"], "the choices")
    assert str(caught.value) == message


TABLE = "\ufeffsentence,n,score\nnull,1,NA\n12,2,0.1\n"


@pytest.mark.parametrize("way", ["plain", "windows", "gzip", "input"])
def test_read_table_supports_line_ends_gzip_and_stdin(tmp_path, monkeypatch, way):
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
    guessed = read_table(path, cells="inferred")
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
def test_invalid_tables_are_rejected(tmp_path, content, message):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_table(path, ["b"])
    assert str(caught.value) == message.format(path)


FORMULAS = [
    *('=HYPERLINK("http://evil","x")', "@SUM(1+1)*cmd|' /C calc'!A0", "+1+cmd", "-2+3", "- Yes."),
    *("\t=1+1", " =1+1", "\r=1+1", "\n@a", "\uff1d1+1", "'=1+1", "''-a", "-1e", "=1"),
]
PLAIN = ["", "-", "-2.5", "+3", "-1e-05", "'tis", "'-2", "don't", "a=b", "-7 ", "A sentence."]
CONTROLS = ["a\x00b", "\x1b[31m", "\x7f", "\x0c=1", "\u2400", "\u2426\u2400\x00", "'\u2426"]


@pytest.mark.parametrize("text", [*FORMULAS, *PLAIN, *CONTROLS])
def test_escaping_is_reversible(text):
    written = escape_text(text)
    assert unescape_text(written) == text
    assert (written == text) == (text in PLAIN)
    assert not any(sign in written for sign in "\x00\x0c\x1b\x7f")
    if text in FORMULAS:
        assert written == f"'{text}"


def test_escaped_tables_are_restored(tmp_path):
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
def test_separators_and_decimal_commas_are_inferred(tmp_path, capsys, separator):
    path = tmp_path / "own_de.csv"
    path.write_text(GERMAN.replace("kam;", "kam").replace(";", separator), "utf-8")
    called = {";": "semicolons", "\t": "tabs"}[separator]
    numbers = [1.5, -2.0, None]
    for cells in ("typed", "inferred"):
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


def test_decimal_commas_are_kept_in_comma_separated_files(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text('word,"a; b; c"\nx,"1,5"\n')
    assert read_table(path)["a; b; c"].tolist() == ["1,5"]
    path.write_text("a;b\n1;2;3\n4;5;6\n")
    with pytest.raises(InputError, match="than its header; put quotes around sentences with semi"):
        read_table(path)
