import itertools

import pytest

from contstim.progress import track


def test_every_item_comes_through_and_the_end_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(track("abc", 5, "work", done=2)) == ["a", "b", "c"]
    assert capsys.readouterr().err == ""  # quick work is not reported
    clock = itertools.count(0, 1.0)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    assert list(track("abc", 5, "work", done=2)) == ["a", "b", "c"]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "work: 5 of 5, about 0 s left\n"


def test_a_terminal_gets_a_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("contstim.progress._SILENT", 0.0)
    assert list(track(range(3), 3, "work")) == [0, 1, 2]
    assert "work" in capsys.readouterr().err


def test_the_time_left_goes_by_what_items_cost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two quick items and one ten times as long: after 40 s for the two, 200 s are left.
    clock = itertools.count(0, 20.0)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    assert list(track("abc", 3, "work", weights=[1, 1, 10])) == ["a", "b", "c"]
    assert capsys.readouterr().err.splitlines() == [
        "work: 1 of 3, about 220 s left",
        "work: 2 of 3, about 200 s left",
        "work: 3 of 3, about 0 s left",
    ]


def test_work_within_work_is_not_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(0, 20.0)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    assert [list(track("ab", 2, "inner")) for _ in track(range(2), 2, "outer")] == [["a", "b"]] * 2
    assert "inner" not in capsys.readouterr().err
    # Work that is given up leaves the way free.
    next(track("ab", 2, "left"))
    assert list(track("ab", 2, "again")) == ["a", "b"]
    assert "again: 2 of 2" in capsys.readouterr().err
