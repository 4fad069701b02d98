"""Files that are there whole or not at all."""

import os
from pathlib import Path

import pytest

from contstim.durable import digest_of, write_whole
from contstim.errors import OutputError


def test_the_digest_is_of_the_value_not_of_its_order() -> None:
    assert digest_of({"a": 1, "b": [1.5, "é"]}) == digest_of({"b": [1.5, "é"], "a": 1})
    assert digest_of([1]) != digest_of(["1"])
    assert len(digest_of(None)) == 32


def test_a_file_that_could_not_be_finished_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new" / "deep" / "file.json"
    write_whole(path, "old é")
    assert path.read_text("utf-8") == "old é"

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OutputError, match="No space left"):
        write_whole(path, "new")
    assert path.read_text("utf-8") == "old é"
    assert os.listdir(path.parent) == ["file.json"]


def test_file_and_folder_are_synchronised_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synchronised = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        synchronised.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    path = tmp_path / "file.json"
    write_whole(path, "text")
    assert synchronised == [path.stat().st_ino, tmp_path.stat().st_ino]
