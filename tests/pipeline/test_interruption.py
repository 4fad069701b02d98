"""Runs whose process trees are killed with SIGKILL at random times.

The environment variable ``CONTSTIM_KILLS`` sets the number of kills, by default 4.
"""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from small_study import command, make_study, run_alone, tables

from contstim.pipeline.engine import SequentialExecutor
from contstim.pipeline.study import read_study_plan, run_study

KILLS = int(os.environ.get("CONTSTIM_KILLS", "4"))


def _committed(out: Path) -> dict[Path, int]:
    """Return the times of modification of the files of results, by path."""
    found: dict[Path, int] = {}
    with suppress(FileNotFoundError):  # a run removes its folder when it ends
        for path in (*out.glob("tasks/??/*.json"), *out.glob("scores/*/*.json")):
            found[path] = path.stat().st_mtime_ns
    return found


def test_kills_lose_and_repeat_no_results(tmp_path: Path) -> None:
    file = str(make_study(tmp_path, starts=10, words=800))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run_study(read_study_plan(file), SequentialExecutor(), out=whole).is_complete
    total = len(_committed(whole))
    rng = np.random.default_rng(KILLS)
    # Moments in the course of the work: after so many results, or while the tables are made.
    targets = np.sort(rng.integers(0, total + total // 10, KILLS))
    moments = []
    seen: dict[Path, int] = {}
    for target, delay in zip(targets, rng.uniform(0, 0.1, KILLS), strict=True):
        process = subprocess.Popen(
            command(file, "--executor", "local:2", "--out", str(killed)),
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
    last = run_alone(file, "--executor", "local:2", "--out", str(killed))
    assert last.returncode == 0, last.stderr
    now = _committed(killed)
    assert {path: now.get(path) for path in seen} == seen
    assert {path.name for path in now} == {path.name for path in _committed(whole)}
    assert tables(killed) == tables(whole)


def test_second_process_reports_the_holder_of_the_lock(tmp_path: Path) -> None:
    file = str(make_study(tmp_path, starts=10, words=800))
    process = subprocess.Popen(
        command(file), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    lock = tmp_path / "runs" / "small" / "locks" / "run.lock"
    deadline = time.monotonic() + 240
    while not (lock.exists() and "since=" in lock.read_text("utf-8")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    # Stopped, it holds its lock for as long as the second takes to start.
    os.kill(process.pid, signal.SIGSTOP)
    second = run_alone(file)
    assert second.returncode == 2
    assert f"is held by process {process.pid} on " in second.stderr
    assert second.stderr.count("\n") == 1
    os.kill(process.pid, signal.SIGCONT)
    # What a cluster sends before the time is up ends it as Ctrl-C does.
    os.kill(process.pid, signal.SIGTERM)
    said = process.communicate()[1]
    assert process.returncode == 130
    assert (
        "contstim: interrupted; finished results are saved; repeat the command with the same"
        in said
    )
    assert not lock.exists()
    assert not list((tmp_path / "runs").rglob("*.tmp"))


def _synthesis(folder: Path, out: Path) -> list[str]:
    specs = [f"ngram:{folder}/{order}.arpa?punctuation=split" for order in (1, 3)]
    words = ["--vocabulary", str(folder / "words.csv"), "--executor", "local:2"]
    words += ["--strategy", "edit?candidates=all", "--max-word-share", "0.5"]
    sentences = ["--sentences", str(folder / "natural.txt"), "--limit", "12"]
    return command("--pair", *specs, *sentences, *words, "--out", str(out), name="synthesize")


def test_triplets_are_identical_after_kills(tmp_path: Path) -> None:
    make_study(tmp_path, words=800)
    whole, killed = tmp_path / "whole.csv", tmp_path / "killed.csv"
    subprocess.run(_synthesis(tmp_path, whole), check=True, stderr=subprocess.DEVNULL)
    seen: dict[Path, int] = {}
    store = tmp_path / ".killed.csv.run"
    for target in (3, 14):
        process = subprocess.Popen(
            _synthesis(tmp_path, killed), stderr=subprocess.DEVNULL, start_new_session=True
        )
        while len(_committed(store)) < target and process.poll() is None:
            time.sleep(0.002)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        now = _committed(store)
        # Nothing committed was lost or done again.
        assert {path: now.get(path) for path in seen} == seen
        assert len(now) > len(seen)
        seen = now
    assert not killed.exists()
    subprocess.run(_synthesis(tmp_path, killed), check=True, stderr=subprocess.DEVNULL)
    assert killed.read_bytes() == whole.read_bytes()
    assert not store.exists()


def _children(parent: int) -> set[int]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text("utf-8").rpartition(")")[2].split()[1]) == parent:
                found.add(int(path.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs the parents of processes")
def test_workers_end_with_the_main_process(tmp_path: Path) -> None:
    make_study(tmp_path, words=800)
    out = tmp_path / "triplets.csv"
    process = subprocess.Popen(_synthesis(tmp_path, out), stderr=subprocess.DEVNULL)
    while len(_committed(tmp_path / ".triplets.csv.run")) < 5 and process.poll() is None:
        time.sleep(0.01)
    workers = _children(process.pid)
    assert len(workers) >= 2
    process.kill()
    process.wait()
    deadline = time.monotonic() + 240
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)
