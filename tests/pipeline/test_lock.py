"""The lock of a run: who holds it, and when it may be taken over."""

import json
import os
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from contstim.pipeline.lock import PATIENCE, LockedError, RunLock, holders


def _forge(folder: Path, **changes: object) -> Path:
    """Leave a lock that a run would leave, with some fields changed."""
    with RunLock(folder).held():
        holder = json.loads((folder / "run.lock").read_text("utf-8"))
    path = folder / "run.lock"
    path.write_text(json.dumps({**holder, **changes}), "utf-8")
    return path


def test_the_second_is_told_who_holds_it(tmp_path: Path) -> None:
    with RunLock(tmp_path / "locks").held() as lock:
        (holder,) = holders(tmp_path / "locks")
        with pytest.raises(LockedError) as error, RunLock(tmp_path / "locks").held():
            pass
        message = str(error.value)
        for part in (f"process {os.getpid()}", platform.node(), holder["since"]):
            assert part in message
        lock.check()
    assert not list((tmp_path / "locks").iterdir())
    with RunLock(tmp_path / "locks").held():
        pass


def test_shards_go_together_but_not_with_the_whole_run(tmp_path: Path) -> None:
    with RunLock(tmp_path, "shard-1-of-2").held():
        with RunLock(tmp_path, "shard-2-of-2").held():
            assert len(holders(tmp_path)) == 2
        with pytest.raises(LockedError, match="shard-1-of-2 is held"), RunLock(tmp_path).held():
            pass
    shard = RunLock(tmp_path, "shard-1-of-2")
    with RunLock(tmp_path).held(), pytest.raises(LockedError, match="run is held"), shard.held():
        pass
    assert not list(tmp_path.iterdir())


def test_a_dead_process_of_this_machine_loses_it_at_once(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    _forge(tmp_path, pid=process.pid, token="other")
    assert holders(tmp_path) == []
    with RunLock(tmp_path).held() as lock:
        lock.check()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs the start times of processes")
def test_a_process_number_used_again_is_not_taken_for_the_holder(tmp_path: Path) -> None:
    _forge(tmp_path, birth="another boot:1", token="other")
    with RunLock(tmp_path).held():
        pass


def test_another_machine_is_believed_until_it_is_silent(tmp_path: Path) -> None:
    path = _forge(tmp_path, host="elsewhere", token="other")
    with pytest.raises(LockedError, match="on elsewhere"), RunLock(tmp_path).held():
        pass
    silent = time.time() - PATIENCE - 5
    os.utime(path, (silent, silent))
    with RunLock(tmp_path).held():
        pass


def test_signs_of_life_and_a_lock_that_was_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("contstim.pipeline.lock.HEARTBEAT", 0.01)
    with RunLock(tmp_path).held() as lock:
        os.utime(lock.path, (1, 1))
        deadline = time.monotonic() + 10
        while lock.path.stat().st_mtime < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert lock.path.stat().st_mtime > 2
        holder = json.loads(lock.path.read_text("utf-8"))
        lock.path.write_text(json.dumps({**holder, "token": "other"}), "utf-8")
        while not lock._lost and time.monotonic() < deadline:
            time.sleep(0.01)
        with pytest.raises(LockedError, match="taken over"):
            lock.check()
    assert lock.path.exists()


def test_only_the_dead_lock_itself_is_removed(tmp_path: Path) -> None:
    """Another may have taken over between a look at the dead lock and its removal."""
    path = _forge(tmp_path, token="new")
    dead = {**json.loads(path.read_text("utf-8")), "token": "dead"}
    temporary = tmp_path / "temporary"
    temporary.write_text("{}", "utf-8")
    RunLock(tmp_path)._remove_dead(dead, temporary)
    assert json.loads(path.read_text("utf-8"))["token"] == "new"
    RunLock(tmp_path)._remove_dead({**dead, "token": "new"}, temporary)
    assert not path.exists()


def test_of_many_at_once_one_holds_it(tmp_path: Path) -> None:
    """Also when all find the lock of a dead process."""
    _forge(tmp_path, birth="another boot:1", pid=2**22 + 1, token="other")
    inside = threading.Semaphore(1)
    start = threading.Barrier(8)
    held, refused, clashes = [], [], []

    def contend(number: int) -> None:
        start.wait()
        try:
            with RunLock(tmp_path).held():
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
    assert not list(tmp_path.iterdir())
