"""Test downloads of data sets from a local server, and data sets in folders."""

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
def fetch_data_set(served, monkeypatch):
    """Return a function that fetches a data set with one file from the local server."""

    def fetch_example(path="data.bin", source=None, name="made"):
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
    return fetch_example


def test_files_are_downloaded_once_after_showing_the_licence(fetch_data_set, served, capsys):
    data = fetch_data_set()
    assert data.benchmark("bytes") == CONTENT
    shown = capsys.readouterr().err
    assert "Licence: CC0. Anything goes." in shown
    assert "Cite: Nobody (2026)" in shown
    assert str(data_folder(data.data_set)) in shown
    fetch_data_set()
    assert served.asked == ["data.bin"]
    assert capsys.readouterr().err == ""
    with pytest.raises(UnknownNameError, match="unknown benchmark of made 'words'"):
        data.benchmark("words")


def test_damaged_cached_files_are_downloaded_again(fetch_data_set, served):
    place = fetch_data_set().files["data.bin"]
    place.write_bytes(CONTENT[:-1] + b"x")
    assert fetch_data_set().benchmark("bytes") == CONTENT
    assert len(served.asked) == 2


@pytest.mark.parametrize("path", ["gone.bin", "416"])
def test_server_errors_are_reported_as_input_errors(fetch_data_set, served, path):
    with pytest.raises(InputError, match="data.bin of made cannot be downloaded .*--from FOLDER"):
        fetch_data_set(path)
    assert served.asked == [path]


def test_downloads_with_wrong_content_are_discarded(fetch_data_set, served):
    served.files["other.bin"] = CONTENT[::-1]
    with pytest.raises(InputError, match="data.bin of made cannot be downloaded .*hash"):
        fetch_data_set("other.bin")
    served.files["short.bin"] = CONTENT[:100]
    with pytest.raises(InputError, match="data.bin of made cannot be downloaded"):
        fetch_data_set("short.bin")
    assert not any(path.is_file() for path in data_folder(DATA_SETS["made"]).rglob("*"))


@pytest.mark.parametrize("length", [None, "9", "x", "-5", "9" * 30])
def test_downloads_stop_at_the_published_size(fetch_data_set, served, length):
    served.files["long.bin"] = CONTENT * 20
    if length is not None:
        served.lengths["long.bin"] = length
    with pytest.raises(InputError, match="data.bin of made cannot be downloaded") as caught:
        fetch_data_set("long.bin")
    message = str(caught.value)
    with warnings.catch_warnings():  # requests leaves the socket of an invalid answer open
        warnings.simplefilter("ignore", ResourceWarning)
        del caught
        gc.collect()
    if length in (None, "9" * 30):
        assert "the server sends more than the size of the published file" in message
    assert not any(path.is_file() for path in data_folder(DATA_SETS["made"]).rglob("*"))


def test_folder_files_are_found_by_content_then_by_name(fetch_data_set, served, tmp_path):
    folder = tmp_path / "downloads"
    (folder / "sub").mkdir(parents=True)
    data = fetch_data_set(source=folder)
    with pytest.raises(InputError, match=f"{folder} has no file data.bin as "):
        data.benchmark()
    (folder / "DATA.BIN").write_bytes(CONTENT[::-1])
    data = fetch_data_set(source=folder)
    assert data.benchmark() == CONTENT[::-1]
    (note,) = data.notes
    assert f"{folder / 'DATA.BIN'} differs from the published file" in note
    (folder / "sub" / "renamed").write_bytes(CONTENT)
    data = fetch_data_set(source=folder)
    assert data.benchmark() == CONTENT
    assert data.notes == ()
    assert served.asked == []
    with pytest.raises(InputError, match="there is no folder"):
        fetch_data_set(source=tmp_path / "nowhere")


def test_declared_data_sets_have_hashes_sizes_and_urls():
    assert len(DATA_SETS) >= 9
    for name in ("golan2023", "blimp", "syntaxgym"):
        data_set = DATA_SETS[name]
        assert data_set.licence in data_set.card
        for file in data_set.files:
            assert len(file.sha256) == 64
            assert file.size > 0
            assert file.url.startswith("https://raw.githubusercontent.com/")
            assert file.url.endswith(file.name.replace(" ", "%20"))
