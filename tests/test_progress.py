"""Progress reports of long tasks."""

from __future__ import annotations

import itertools

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


def test_progress_lines_are_at_least_30_seconds_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = 0.0
    monkeypatch.setattr("tqdm.std.time", lambda: clock)
    for _ in track(range(10), 10, "work"):  # ten items of eight seconds
        clock += 8.0
    lines = capsys.readouterr().err.splitlines()
    # The last line is printed at the end, whenever that is.
    times = [line.split(", ")[1].split(":") for line in lines[:-1]]
    seconds = [60 * int(minutes) + int(rest) for minutes, rest in times]
    assert len(seconds) == 2
    assert all(after - before >= 30 for before, after in itertools.pairwise([0, *seconds]))
    assert lines[-1] == "work: 100%, 01:20, about 00:00 left"


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize(("may_end_early", "bound"), [(True, "at most"), (False, "about")])
def test_remaining_time_is_a_maximum_if_items_may_end_early(
    may_end_early: bool,
    bound: str,
    is_terminal: bool,
    report_every_item: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = 0.0
    monkeypatch.setattr("tqdm.std.time", lambda: clock)
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    for _ in track(range(2), 8, "work", may_end_early=may_end_early):
        clock += 10.0
    states = capsys.readouterr().err.replace("\r", "\n")
    # After one of eight items, seven items of ten seconds may remain. There are only two.
    assert f"00:10, {bound} 01:10 left" in states
    # The bar of a terminal disappears at the end.
    assert (f"100%, 00:20, {bound} 00:00 left" in states) is not is_terminal


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
