"""Progress reports of long tasks."""

from __future__ import annotations

import pytest

from contstim.progress import track


@pytest.fixture
def report_every_item(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report every item, without waiting for seconds to pass."""
    monkeypatch.setattr("contstim.progress._SILENT_SECONDS", 1e-9)
    monkeypatch.setattr("contstim.progress._SECONDS_BETWEEN_LINES", 0.0)


def test_quick_tasks_are_not_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(track("abc", 5, "work", n_done=2)) == ["a", "b", "c"]
    assert capsys.readouterr().err == ""


def test_progress_lines_without_a_terminal(
    report_every_item: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(track("abc", 5, "work", n_done=2)) == ["a", "b", "c"]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [line.partition("%")[0] for line in captured.err.splitlines()] == [
        "work: 60",
        "work: 80",
        "work: 100",
    ]


def test_progress_bar_in_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("contstim.progress._SILENT_SECONDS", 0.0)
    assert list(track(range(3), 3, "work")) == [0, 1, 2]
    assert "work" in capsys.readouterr().err


def test_progress_uses_the_weights_of_items(
    report_every_item: None, capsys: pytest.CaptureFixture[str]
) -> None:
    list(track("abc", 3, "work", weights=[1, 1, 8]))
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("%")[0] for line in lines[:3]] == ["work: 10", "work: 20", "work: 100"]


def test_progress_ends_at_100_percent_with_extra_items(
    report_every_item: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(track("abc", 2, "work")) == ["a", "b", "c"]
    assert "work: 100%" in capsys.readouterr().err


def test_progress_can_be_turned_off(
    report_every_item: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTSTIM_PROGRESS", "off")
    for _ in track("abc", 3, "work"):
        pass
    assert capsys.readouterr().err == ""


def test_nested_progress_is_not_reported(
    report_every_item: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [list(track("ab", 2, "inner")) for _ in track(range(2), 2, "outer")] == [["a", "b"]] * 2
    assert "inner" not in capsys.readouterr().err
    # Work that is given up leaves the way free.
    next(track("ab", 2, "left"))
    assert list(track("ab", 2, "again")) == ["a", "b"]
    assert "again: 100%" in capsys.readouterr().err
