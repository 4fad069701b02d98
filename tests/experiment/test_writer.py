"""Test that the writer survives failing jobs and commits."""

import sqlite3
from concurrent.futures import Future
from pathlib import Path

import pytest

from contstim.errors import OutputError
from contstim.experiment.schema import connect
from contstim.experiment.writer import Writer


def test_jobs_share_commits_and_fail_separately(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite3"
    commits: list[str] = []
    gate: Future[None] = Future()

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("CREATE TABLE t (n)")
        connection.set_trace_callback(
            lambda sql: commits.append(sql) if sql.startswith("COMMIT") else None
        )
        return connection

    def bad(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO t VALUES (-1)")
        raise ValueError("no")

    writer = Writer(connect)
    held = writer.submit(lambda _: gate.result())
    futures = [
        writer.submit(lambda c, n=n: c.execute("INSERT INTO t VALUES (?)", (n,)).rowcount)
        for n in range(50)
    ]
    cancelled = writer.submit(bad)
    assert cancelled.cancel()
    failed = writer.submit(bad)
    gate.set_result(None)
    assert [f.result() for f in futures] == [1] * 50
    assert held.result() is None
    with pytest.raises(ValueError, match="no"):
        failed.result()
    writer.close()
    # All that waited behind the first job, which may have come to be with it.
    assert len(commits) <= 2
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*), min(n) FROM t").fetchone() == (50, 0)
    connection.close()
    with pytest.raises(RuntimeError, match="closed"):
        writer.submit(bad)


def test_failed_commits_raise_in_their_jobs(tmp_path: Path) -> None:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(tmp_path / "x.sqlite3", isolation_level=None)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("CREATE TABLE a (n PRIMARY KEY)")
        connection.execute("CREATE TABLE b (n REFERENCES a DEFERRABLE INITIALLY DEFERRED)")
        return connection

    writer = Writer(connect)
    failed = writer.submit(lambda c: c.execute("INSERT INTO b VALUES (1)").rowcount)
    with pytest.raises(sqlite3.IntegrityError):
        failed.result()
    fine = writer.submit(lambda c: c.execute("INSERT INTO a VALUES (1)").rowcount)
    assert fine.result() == 1
    writer.close()


def test_writer_survives_failing_jobs_and_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(lambda: connect(tmp_path / "x.sqlite3"))

    def leave(_: sqlite3.Connection) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        writer.submit(leave).result(timeout=240)
    with monkeypatch.context() as patch:
        patch.setattr("contstim.experiment.writer._check_inodes", lambda _: [].pop())
        failed = writer.submit(lambda c: c.execute("CREATE TABLE t (n)").rowcount)
        with pytest.raises(IndexError):
            failed.result(timeout=240)
    # Nothing of it is stored.
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        writer.submit(lambda c: c.execute("SELECT * FROM t").fetchall()).result(timeout=240)
    writer.close()


def test_removed_data_file_fails_the_commit(tmp_path: Path) -> None:
    path = tmp_path / "data.sqlite3"
    writer = Writer(lambda: connect(path))
    writer.submit(lambda c: c.execute("CREATE TABLE t (x)") and None).result()

    def remove(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO t VALUES (1)")
        path.unlink()

    with pytest.raises(OutputError, match="was removed or replaced"):
        writer.submit(remove).result()
    writer.close()
