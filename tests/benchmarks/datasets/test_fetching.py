"""Fetching over local HTTP: every way in which it can fail, and that it goes on.

Tests `contstim.benchmarks.datasets`, `contstim.benchmarks.datasets.fetching` and
`contstim.benchmarks.datasets.dataset`.
"""

from __future__ import annotations

import hashlib
import resource
import shutil
import subprocess
from collections import namedtuple

import pytest

from contstim.benchmarks.datasets import DATA_SETS, DataFile, DataSet, fetch, fetching, github_files
from contstim.errors import InputError, OutputError, UnknownNameError

CONTENT = bytes(range(256)) * 800  # more than three blocks
SIZE = len(CONTENT)


def sha256(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@pytest.fixture
def made(served, monkeypatch):
    """Return a function that makes a data set of one file with given addresses, and fetches it."""

    def fetch_made(*paths, digest=None, size=SIZE, source=None, name="made"):
        addresses = tuple(served.address(path) for path in paths)
        file = DataFile(
            "deep/data.bin", sha256(CONTENT) if digest is None else digest, size, addresses
        )
        data_set = DataSet(
            name=name,
            title="made data",
            citation="Nobody (2026)",
            licence="CC0",
            terms="Anything goes.",
            source="http://example.org/made",
            files=(file,),
            tables={"bytes": lambda folder: (folder / "deep/data.bin").read_bytes()},
        )
        monkeypatch.setitem(DATA_SETS._things, name, data_set)
        return fetch(name, source)

    served.files["data.bin"] = CONTENT
    return fetch_made


def test_a_file_is_fetched_once_and_the_licence_is_shown_before(made, served, capsys):
    data = made("data.bin")
    assert data.table("bytes") == CONTENT
    shown = capsys.readouterr().err
    assert "Licence: CC0. Anything goes." in shown
    assert "Cite: Nobody (2026)" in shown
    assert str(data.folder) in shown
    made("data.bin")
    assert served.asked == [("data.bin", None)]
    assert capsys.readouterr().err == ""
    with pytest.raises(
        UnknownNameError, match="unknown table of made 'words'; choose one of 'bytes'"
    ):
        data.table("words")


def test_a_damaged_file_of_the_cache_is_fetched_again(made, served):
    place = made("data.bin").folder / "deep/data.bin"
    place.write_bytes(CONTENT[:-1] + b"x")
    assert made("data.bin").table("bytes") == CONTENT
    assert len(served.asked) == 2


def test_a_redirect_is_followed(made, served):
    served.moved["old.bin"] = "data.bin"
    assert made("old.bin").table("bytes") == CONTENT


def test_a_wrong_digest_is_no_file_and_the_next_address_is_tried(made, served):
    served.files["other.bin"] = CONTENT[::-1]
    assert made("other.bin", "data.bin").table("bytes") == CONTENT
    with pytest.raises(InputError) as raised:
        made("other.bin", name="wrong")
    assert str(raised.value) == (
        f"deep/data.bin of wrong cannot be fetched ({served.address('other.bin')}: its content has "
        "another digest); try again later, or name a folder that has it, --from FOLDER"
    )
    assert not list(fetching.data_folder(DATA_SETS["wrong"]).rglob("*data.bin*"))


def test_nobody_has_it(made, served):
    with pytest.raises(InputError, match="gone.bin: Not Found; .*lost.bin: Not Found"):
        made("gone.bin", "lost.bin")


def test_a_connection_that_breaks_is_gone_on_with(made, served):
    served.cut["data.bin"] = 70_000
    assert made("data.bin").table("bytes") == CONTENT
    ranges = [asked for _, asked in served.asked]
    assert ranges == [None, "bytes=70000-", "bytes=140000-"]


def test_a_mirror_goes_on_where_the_first_address_broke(made, served):
    served.files["half.bin"] = CONTENT
    served.cut["half.bin"] = 0
    part = fetching.cache_folder() / "datasets/made/deep/.data.bin.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT[:1000])
    assert made("half.bin", "data.bin").table("bytes") == CONTENT
    assert served.asked == [("half.bin", "bytes=1000-")] * 2 + [("data.bin", "bytes=1000-")]


def test_an_interrupted_one_goes_on_in_the_next_call(made, served, monkeypatch):
    served.cut["data.bin"] = 70_000
    reads = fetching._append

    def interrupted(*args):
        reads(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(fetching, "_append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made("data.bin")
    monkeypatch.setattr(fetching, "_append", reads)
    served.cut.clear()
    assert made("data.bin").table("bytes") == CONTENT
    assert [asked for _, asked in served.asked] == [None, "bytes=70000-"]


def test_a_server_without_ranges_sends_the_whole_again(made, served):
    served.no_ranges.add("data.bin")
    part = fetching.cache_folder() / "datasets/made/deep/.data.bin.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"what came before")
    assert made("data.bin").table("bytes") == CONTENT


def test_a_part_that_is_too_long_is_dropped(made, served):
    part = fetching.cache_folder() / "datasets/made/deep/.data.bin.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT + b"more")
    assert made("data.bin").table("bytes") == CONTENT


def test_a_disk_that_fills_up_keeps_what_came(made, served):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(
            OutputError, match=r"cannot write .*\.data\.bin\.part: File too large; make"
        ):
            made("data.bin")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert made("data.bin").table("bytes") == CONTENT
    assert [asked for _, asked in served.asked] == [None, "bytes=100000-"]


def test_a_disk_without_room_is_told_before(made, served, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(9, 9, 1000))
    with pytest.raises(
        OutputError, match="204,800 bytes are needed and 1,000 free; set CONTSTIM_CACHE"
    ):
        made("data.bin")
    assert served.asked == []


def test_from_a_folder_whatever_the_file_is_called(made, served, tmp_path):
    folder = tmp_path / "downloads"
    (folder / "sub").mkdir(parents=True)
    with pytest.raises(InputError, match=f"{folder} has no file with the content of deep/data.bin"):
        made("data.bin", source=folder)
    (folder / "data.bin").write_bytes(CONTENT[::-1])
    (folder / "sub" / "renamed").write_bytes(CONTENT)
    assert made("data.bin", source=folder).table("bytes") == CONTENT
    assert served.asked == []
    with pytest.raises(InputError, match="there is no folder"):
        made("data.bin", source=tmp_path / "nowhere", name="again")


def test_a_file_without_a_digest_is_not_fetched_but_taken_by_name(made, served, tmp_path):
    with pytest.raises(InputError, match="not fetched: no digest of it is known; get it from http"):
        made("data.bin", digest="", size=None)
    (tmp_path / "data.bin").write_bytes(b"any")
    assert made("data.bin", digest="", size=None, source=tmp_path).table("bytes") == b"any"


def test_the_digest_of_a_commit(made, tmp_path):
    (tmp_path / "file").write_bytes(CONTENT)
    line = ["git", "hash-object", "--no-filters", str(tmp_path / "file")]
    name = subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()
    assert fetching.digest_as(tmp_path / "file", "git:") == f"git:{name}"
    assert made("data.bin", digest=f"git:{name}", size=None).table("bytes") == CONTENT


def test_addresses_of_a_repository():
    (file,) = github_files("o/n", "c" * 40, {"a b/é.csv": ("git:12", None)})
    assert file.addresses == (
        f"https://raw.githubusercontent.com/o/n/{'c' * 40}/a%20b/%C3%A9.csv",
        f"https://cdn.jsdelivr.net/gh/o/n@{'c' * 40}/a%20b/%C3%A9.csv",
        "https://archive.softwareheritage.org/api/1/content/sha1_git:12/raw/",
    )
