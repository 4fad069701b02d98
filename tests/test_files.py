"""Atomic writes of files and folders, and locks."""

import hashlib
import os
import platform
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from contstim import files
from contstim.errors import OutputError
from contstim.files import (
    LockedError,
    decode_json,
    digest,
    file_digest,
    find_lock_holder,
    json_digest,
    lock,
    replace_atomically,
    write_atomically,
)


def test_digests_are_sha256(tmp_path: Path) -> None:
    expected = hashlib.sha256("é".encode()).hexdigest()
    (tmp_path / "file").write_bytes("é".encode())
    assert digest("é") == digest("é".encode()) == file_digest(tmp_path / "file") == expected


def test_decode_json_rejects_invalid_json() -> None:
    assert decode_json('{"a": [1, "é"]}') == {"a": [1, "é"]}
    assert decode_json("\ufeff[1]") == decode_json(b"\xef\xbb\xbf[1]") == [1]
    for text in ("", "{", "[" * 100_000, b"\xff"):
        with pytest.raises(ValueError, match=r"Expecting|too many levels|codec"):
            decode_json(text)


def test_json_digest_ignores_key_order() -> None:
    assert json_digest({"a": 1, "b": [1.5, "é"]}) == json_digest({"b": [1.5, "é"], "a": 1})
    assert json_digest([1]) != json_digest(["1"])
    assert len(json_digest(None)) == 32


def test_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "deep" / "file.json"
    write_atomically(path, "old é")
    assert path.read_text("utf-8") == "old é"

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OutputError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text("utf-8") == "old é"
    assert os.listdir(path.parent) == ["file.json"]


def test_write_atomically_synchronises_file_and_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synchronised = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        synchronised.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    path = tmp_path / "file.json"
    write_atomically(path, "text")
    assert synchronised == [path.stat().st_ino, tmp_path.stat().st_ino]


def test_replace_atomically_never_leaves_partial_folders(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def write(place: Path) -> None:
        (place / "deep").mkdir(parents=True)
        (place / "deep" / "file").write_text("whole")

    def interrupted(place: Path) -> None:
        write(place)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), replace_atomically(out) as place:
        interrupted(place)
    assert os.listdir(tmp_path) == []
    with replace_atomically(out) as place:
        write(place)
        assert not out.exists()
    assert (out / "deep" / "file").read_text() == "whole"
    with pytest.raises(OutputError) as error, replace_atomically(out) as place:
        write(place)
    assert str(error.value) == f"cannot write {out}: Directory not empty"
    assert os.listdir(tmp_path) == ["out"]


def test_pipes_are_written_in_place(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    with replace_atomically(tmp_path / "pipe") as place:
        place.write_text("text")
    reader.join()
    assert read == ["text"]
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("there", [True, False])
def test_write_through_a_symbolic_link_keeps_the_link(tmp_path: Path, there: bool) -> None:
    target = tmp_path / "elsewhere" / "file.csv"
    target.parent.mkdir()
    if there:
        target.write_text("old")
    link = tmp_path / "link.csv"
    link.symlink_to(Path("elsewhere") / "file.csv")
    write_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "link.csv"]
    assert os.listdir(target.parent) == ["file.csv"]


def test_broken_symbolic_links_are_reported(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "gone").symlink_to(Path("no") / "such" / "file")
    for name, reason in (("loop", "its links form a circle"), ("gone", "No such file")):
        with pytest.raises(OutputError, match=f"cannot write {tmp_path / name}: {reason}"):
            write_atomically(tmp_path / name, "new")
    assert sorted(os.listdir(tmp_path)) == ["gone", "loop"]


def _forge(path: Path, old: str, new: str) -> None:
    """Leave a lock that a process would leave, with a line of it changed."""
    with lock(path, "it"):
        text = path.read_text("utf-8")
    changed = re.sub(old, new, text, flags=re.MULTILINE)
    assert changed != text
    path.write_text(changed, "utf-8")


def test_lock_error_names_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "run.lock"
    with lock(path, "the run") as check:
        holder = find_lock_holder(path)
        assert holder is not None
        assert abs(time.mktime(time.strptime(holder.since, "%Y-%m-%d %H:%M:%S")) - time.time()) < 60
        with pytest.raises(LockedError) as error, lock(path, "the run"):
            pass
        assert str(error.value) == (
            f"the run is held by process {os.getpid()} on {holder.host} since {holder.since}; "
            "wait for it, or end it first"
        )
        assert holder.host.startswith(platform.node())
        check()
    assert list(path.parent.iterdir()) == []
    assert find_lock_holder(path) is None
    with lock(path, "the run"):
        pass


def test_lock_of_a_dead_process_is_released_at_once(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    for _ in range(2):
        _forge(path, r"^pid=.*", f"pid={process.pid}")
        begun = time.monotonic()
        with lock(path, "it") as check:
            check()
        assert time.monotonic() - begun < files.LOCK_TIMEOUT
    _forge(path, r"^pid=.*", f"pid={process.pid}")
    assert find_lock_holder(path) is None


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs the start times of processes")
def test_lock_detects_a_reused_process_id(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with lock(path, "it"), pytest.raises(LockedError), lock(path, "it"):
        pass
    _forge(path, r"^start=.*", "start=1")
    with lock(path, "it"):
        pass


def test_lock_of_another_host_expires_without_heartbeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "LOCK_TIMEOUT", 3.0)
    monkeypatch.setattr(files, "HEARTBEAT_INTERVAL", 1.0)
    path = tmp_path / "lock"
    _forge(path, r"^host=.*", "host=elsewhere")
    done = threading.Event()

    def beat() -> None:
        while not done.wait(0.1):
            os.utime(path)

    beating = threading.Thread(target=beat)
    beating.start()
    try:
        with pytest.raises(LockedError, match="on elsewhere since"), lock(path, "it"):
            pass
    finally:
        done.set()
        beating.join()
    begun = time.monotonic()
    with lock(path, "it"):
        assert time.monotonic() - begun > 2.5
    assert "waiting for a heartbeat of process" in capsys.readouterr().err


def test_heartbeat_detects_a_lock_that_was_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "HEARTBEAT_INTERVAL", 0.02)
    path = tmp_path / "lock"
    with lock(path, "it") as check:
        os.utime(path, (1, 1))
        end = time.monotonic() + 240
        while path.stat().st_mtime < 2:
            assert time.monotonic() < end
            time.sleep(0.01)
        check()
        (tmp_path / "other").write_text(path.read_text("utf-8"), "utf-8")
        (tmp_path / "other").replace(path)

        def keep_checking() -> None:  # the next sign of life finds it
            while time.monotonic() < end:
                check()
                time.sleep(0.01)

        with pytest.raises(LockedError) as error:
            keep_checking()
        assert str(error.value) == (
            f"the lock {path} was taken over by another process; this one stops"
        )
    assert path.exists()


def test_concurrent_threads_hold_a_lock_one_at_a_time(tmp_path: Path) -> None:
    """Also when all find the lock of a dead process."""
    path = tmp_path / "lock"
    _forge(path, r"^pid=.*", f"pid={2**22 + 1}")
    inside = threading.Semaphore(1)
    start = threading.Barrier(8)
    held, refused, clashes = [], [], []

    def contend(number: int) -> None:
        start.wait()
        try:
            with lock(path, "it"):
                if not inside.acquire(blocking=False):
                    clashes.append(number)
                    return
                time.sleep(0.02)
                held.append(number)
                inside.release()
        except LockedError:
            refused.append(number)

    threads = [threading.Thread(target=contend, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not clashes
    assert held
    assert len(held) + len(refused) == 8
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wait", [False, True])
def test_empty_lock_file_is_reported_after_a_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait: bool
) -> None:
    """As a process leaves it that is killed between making the file and writing into it."""
    monkeypatch.setattr(files, "UNSIGNED_TIMEOUT", 0.6)
    path = tmp_path / "run.lock"
    path.touch()
    with pytest.raises(LockedError) as error, lock(path, "the run", wait=wait):
        raise AssertionError
    assert str(error.value) == (
        f"the lock {path} has no holder, because the process that locked the run was killed at "
        "that moment; remove the lock if no such process runs"
    )
    path.unlink()
    with lock(path, "the run", wait=wait):
        assert path.read_text("utf-8")


def test_unwritable_lock_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = pytest.raises(OutputError, match="^cannot lock .*: (Not a directory|File exists)$")
    with refused, lock(tmp_path / "file" / "lock", "it"):
        pass
