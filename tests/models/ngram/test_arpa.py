"""Reading and writing of ARPA files, and errors for damaged ones."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from toy_corpus import random_table, write_random

from contstim.errors import ModelFileError, OutputError
from contstim.models.ngram import NgramTable
from contstim.models.ngram.arpa import read_arpa, read_unigrams, write_arpa


def assert_same(one: NgramTable | None, other: NgramTable, atol: float) -> None:
    assert one is not None
    assert one.words == other.words
    for a, b in zip(one.levels, other.levels, strict=True):
        assert np.array_equal(a.keys, b.keys)
        np.testing.assert_allclose(a.log_probs, b.log_probs, rtol=0, atol=atol)
        np.testing.assert_allclose(a.log_backoffs, b.log_backoffs, rtol=0, atol=atol)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("name", ["m.arpa", "m.arpa.gz"])
def test_arpa_round_trip(tmp_path: Path, order: int, name: str) -> None:
    table = random_table(order, seed=order)
    write_arpa(table, tmp_path / name)
    assert_same(read_arpa(tmp_path / name), table, 6e-8)
    found, words, log_probs = read_unigrams(tmp_path / name)
    assert (found, words) == (order, table.words)
    np.testing.assert_allclose(log_probs, table.levels[0].log_probs, rtol=0, atol=6e-8)
    again = tmp_path / f"again-{name}"
    write_arpa(table, again)
    assert again.read_bytes() == (tmp_path / name).read_bytes()
    if name.endswith(".gz"):
        assert again.read_bytes()[4:8] == bytes(4)  # the time of writing


def test_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    path = write_random(tmp_path / "m.arpa", 2, seed=0)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert_same(read_arpa(path), random_table(2, seed=0), 6e-8)
    assert read_unigrams(path)[1] == random_table(2, seed=0).words


def test_small_blocks_give_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_random(tmp_path / "m.arpa", 4, seed=0)
    monkeypatch.setattr("contstim.models.ngram.arpa._BLOCK_BYTES", 100)
    monkeypatch.setattr("contstim.models.ngram.arpa._READ_BYTES", 64)
    assert_same(read_arpa(path), random_table(4, seed=0), 6e-8)
    assert read_unigrams(path)[1] == random_table(4, seed=0).words


def test_arpa_files_of_other_tools_are_read(tmp_path: Path) -> None:
    # Blank lines, CRLF, spaces for tabs, exponents, unsorted n-grams, and no back-off where none
    # is needed, as various tools write them. Words longer than eight bytes and beyond ASCII.
    path = tmp_path / "m.arpa"
    path.write_bytes(
        "\r\n\\data\\\r\nngram 1=6\r\nngram  2 = 3\r\n\r\n\\1-grams:\r\n-1e0 <unk>\r\n"
        "-99\t<s>\t-0.5\r\n-1.25\t</s>\r\n-.5\tincomprehensibilities\t-3.5E-1\r\n"
        "-0.75\tincomprehensibility\t+0.25\r\n-0.123456789012345678\tÉtienne\r\n\r\n"
        "\\2-grams:\r\n-0.5\tincomprehensibility </s>\r\n-0.25\t<s> Étienne\r\n"
        "-2 <s> incomprehensibilities\r\n\r\n\\end\\\r\n".encode()
    )
    table = read_arpa(path)
    assert table is not None
    assert table.words[3:] == ("incomprehensibilities", "incomprehensibility", "Étienne")
    first, second = table.levels
    assert first.log_probs.tolist() == [-1, -99, -1.25, -0.5, -0.75, -0.123456789012345678]
    assert first.log_backoffs.tolist() == [0, -0.5, 0, -0.35, 0.25, 0]
    assert second.keys.tolist() == [1 * 6 + 3, 1 * 6 + 5, 4 * 6 + 2]
    assert second.log_probs.tolist() == [-2, -0.25, -0.5]


def test_missing_shorter_ngrams_are_detected(tmp_path: Path) -> None:
    lines = write_random(tmp_path / "m.arpa", 3, seed=0).read_text().split("\n")
    at = lines.index("\\2-grams:") + 2
    del lines[at]
    count = int(lines[2].partition("=")[2])
    lines[2] = f"ngram 2={count - 1}"
    (tmp_path / "m.arpa").write_text("\n".join(lines))
    assert read_arpa(tmp_path / "m.arpa") is None


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.3, 0.5, 0.8, 0.97])
@pytest.mark.parametrize("name", ["m.arpa", "m.arpa.gz"])
def test_truncated_files_are_refused(tmp_path: Path, share: float, name: str) -> None:
    path = write_random(tmp_path / name, 3, seed=0)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ModelFileError) as raised:
        read_arpa(path)
    assert "\n" not in str(raised.value)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ngram 2=", "ngram 2=9", "the header states 9"),
        ("\\data\\", "data", "is not an n-gram model"),
        ("dog </s>", "dog </s", "contain a word that is not a unigram"),
        ("\n\\end\\", "", "truncated"),
        ("\n\\end\\", "\n\\en", "lacks its last line"),
        ("\tbee\t", "\tcat\t", "list a word twice"),
        ("\tbee\t", "\tbee bee bee\t", "has too few or many fields"),
        ("</s>\t", "</S>\t", "lack </s>"),
        ("-0.", "-0,", "where a number belongs"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = write_random(tmp_path / "m.arpa", 3, seed=1)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ModelFileError, match=message):
        read_arpa(path)


def test_unreadable_and_unwritable_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="No such file"):
        read_arpa(tmp_path / "none.arpa")
    (tmp_path / "zip.gz").write_bytes(gzip.compress(b"\\data\\\n")[:12])
    with pytest.raises(ModelFileError, match="is damaged"):
        read_arpa(tmp_path / "zip.gz")
    with pytest.raises(OutputError, match=r"^cannot write .*m\.arpa: No such file"):
        write_arpa(random_table(2, 0), tmp_path / "none" / "m.arpa")
    (tmp_path / "folder.arpa").mkdir()
    with pytest.raises(OutputError, match=r"^cannot write .*folder\.arpa: "):
        write_arpa(random_table(2, 0), tmp_path / "folder.arpa")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder.arpa", "zip.gz"]
