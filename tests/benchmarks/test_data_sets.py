"""Data sets: downloads from a server on this machine, and files from folders."""

from __future__ import annotations

import gc
import hashlib
import warnings

import pytest

from contstim.benchmarks.data_sets import DATA_SETS, DataFile, DataSet, data_folder, fetch
from contstim.errors import InputError, UnknownNameError

CONTENT = bytes(range(256)) * 400
SIZE = len(CONTENT)


@pytest.fixture
def made(served, monkeypatch):
    """Return a function that fetches a data set of one file at a path of the server."""

    def fetch_made(path="data.bin", source=None, name="made"):
        sha256 = hashlib.sha256(CONTENT).hexdigest()
        data_set = DataSet(
            name=name,
            title="made data",
            citation="Nobody (2026)",
            licence="CC0",
            terms="Anything goes.",
            source="http://example.org/made",
            files=(DataFile("data.bin", SIZE, sha256, served.address(path)),),
            benchmarks={"bytes": lambda files: files["data.bin"].read_bytes()},
        )
        monkeypatch.setitem(DATA_SETS._objects, name, data_set)
        return fetch(name, source)

    served.files["data.bin"] = CONTENT
    return fetch_made


def test_a_file_is_downloaded_once_after_its_licence(made, served, capsys):
    data = made()
    assert data.benchmark("bytes") == CONTENT
    shown = capsys.readouterr().err
    assert "Licence: CC0. Anything goes." in shown
    assert "Cite: Nobody (2026)" in shown
    assert str(data_folder(data.data_set)) in shown
    made()
    assert served.asked == ["data.bin"]
    assert capsys.readouterr().err == ""
    with pytest.raises(UnknownNameError, match="unknown benchmark of made 'words'"):
        data.benchmark("words")


def test_a_damaged_file_of_the_cache_is_downloaded_again(made, served):
    place = made().files["data.bin"]
    place.write_bytes(CONTENT[:-1] + b"x")
    assert made().benchmark("bytes") == CONTENT
    assert len(served.asked) == 2


@pytest.mark.parametrize("path", ["gone.bin", "416"])
def test_an_error_of_the_server_is_one_line(made, served, path):
    with pytest.raises(InputError, match="data.bin of made cannot be downloaded .*--from FOLDER"):
        made(path)
    assert served.asked == [path]


def test_other_content_is_not_kept(made, served):
    served.files["other.bin"] = CONTENT[::-1]
    with pytest.raises(InputError, match="data.bin of made cannot be downloaded .*hash"):
        made("other.bin")
    served.files["short.bin"] = CONTENT[:100]
    with pytest.raises(InputError, match="data.bin of made cannot be downloaded"):
        made("short.bin")
    assert not any(path.is_file() for path in data_folder(DATA_SETS["made"]).rglob("*"))


@pytest.mark.parametrize("length", [None, "9", "x", "-5", "9" * 30])
def test_a_download_stops_at_the_published_size(made, served, length):
    served.files["long.bin"] = CONTENT * 20
    if length is not None:
        served.lengths["long.bin"] = length
    with pytest.raises(InputError, match="data.bin of made cannot be downloaded") as caught:
        made("long.bin")
    message = str(caught.value)
    with warnings.catch_warnings():  # requests leaves the socket of an invalid answer open
        warnings.simplefilter("ignore", ResourceWarning)
        del caught
        gc.collect()
    if length in (None, "9" * 30):
        assert "the server sends more than the size of the published file" in message
    assert not any(path.is_file() for path in data_folder(DATA_SETS["made"]).rglob("*"))


def test_files_of_a_folder_by_content_then_by_name(made, served, tmp_path):
    folder = tmp_path / "downloads"
    (folder / "sub").mkdir(parents=True)
    data = made(source=folder)
    with pytest.raises(InputError, match=f"{folder} has no file data.bin as "):
        data.benchmark()
    (folder / "DATA.BIN").write_bytes(CONTENT[::-1])
    data = made(source=folder)
    assert data.benchmark() == CONTENT[::-1]
    (note,) = data.notes
    assert f"{folder / 'DATA.BIN'} differs from the published file" in note
    (folder / "sub" / "renamed").write_bytes(CONTENT)
    data = made(source=folder)
    assert data.benchmark() == CONTENT
    assert data.notes == ()
    assert served.asked == []
    with pytest.raises(InputError, match="there is no folder"):
        made(source=tmp_path / "nowhere")


def test_the_declared_data_sets():
    assert len(DATA_SETS) >= 9
    for name in ("golan2023", "blimp", "syntaxgym"):
        data_set = DATA_SETS[name]
        assert data_set.licence in data_set.card
        for file in data_set.files:
            assert len(file.sha256) == 64
            assert file.size > 0
            assert file.url.startswith("https://raw.githubusercontent.com/")
            assert file.url.endswith(file.name.replace(" ", "%20"))
