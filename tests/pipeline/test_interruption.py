"""``kill -9`` of a run's whole process tree at random moments.

Six kills by default; ``CONTSTIM_KILLS=20`` kills as often as that.
"""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from small import command, make_study, run_alone, tables

KILLS = int(os.environ.get("CONTSTIM_KILLS", "6"))


def _committed(out: Path) -> dict[Path, int]:
    """Return the files of committed results, and when each was written."""
    found = [*out.glob("tasks/??/*.json"), *out.glob("scores/*/*.json")]
    return {path: path.stat().st_mtime_ns for path in found}


def test_kills_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    file = str(make_study(tmp_path, starts=10, words=800))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run_alone(file, "--workers", "2", "--out", str(whole)).returncode == 0
    total = len(_committed(whole))
    rng = np.random.default_rng(KILLS)
    # Moments in the course of the work: after so many results, or while the tables are made.
    targets = np.sort(rng.integers(0, total + total // 10, KILLS))
    moments = []
    seen: dict[Path, int] = {}
    for target, delay in zip(targets, rng.uniform(0, 0.1, KILLS), strict=True):
        process = subprocess.Popen(
            command(file, "--workers", "2", "--out", str(killed)),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while len(_committed(killed)) < min(target, total) and process.poll() is None:
            time.sleep(0.002)
        time.sleep(delay)
        with suppress(ProcessLookupError):  # the run may have come to its end
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        now = _committed(killed)
        # Nothing committed was lost or done again.
        assert {path: now.get(path) for path in seen} == seen
        moments.append(len(now))
        seen = now
    assert len(set(moments)) > 2
    print(f"of {total} results on disk at the {KILLS} kills: {moments}")
    last = run_alone(file, "--workers", "2", "--out", str(killed))
    assert last.returncode == 0, last.stderr
    now = _committed(killed)
    assert {path: now.get(path) for path in seen} == seen
    assert {path.name for path in now} == {path.name for path in _committed(whole)}
    assert tables(killed) == tables(whole)


def test_the_second_process_is_told_who_holds_the_run(tmp_path: Path) -> None:
    file = str(make_study(tmp_path, starts=10, words=800))
    process = subprocess.Popen(
        command(file), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    lock = tmp_path / "runs" / "small" / "locks" / "run.lock"
    deadline = time.monotonic() + 60
    while not lock.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    # Stopped, it holds its lock for as long as the second takes to start.
    os.kill(process.pid, signal.SIGSTOP)
    second = run_alone(file)
    assert second.returncode == 2
    assert f"the run is held by process {process.pid} on " in second.stderr
    assert second.stderr.count("\n") == 1
    os.kill(process.pid, signal.SIGCONT)
    # What a cluster sends before the time is up ends it as Ctrl-C does.
    os.kill(process.pid, signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "interrupted; finished results are kept" in said
    assert not lock.exists()
    assert not list((tmp_path / "runs").rglob("*.tmp"))
