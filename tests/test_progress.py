from __future__ import annotations

import itertools
import re
import sys
import time
from types import ModuleType

import pytest

from contstim.progress import track, waiting


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


@pytest.mark.parametrize("terminal", [False, True])
def test_more_may_come_than_was_known(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    clock = itertools.count(0, 20.0)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    assert list(track("abc", 2, "work")) == ["a", "b", "c"]
    said = capsys.readouterr().err
    assert terminal or said.splitlines()[-1] == "work: 3 so far"


def test_progress_can_be_turned_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(0, 20.0)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    monkeypatch.setattr("contstim.progress._SECONDS_BETWEEN_LINES", 0.01)
    monkeypatch.setenv("CONTSTIM_PROGRESS", "off")
    for _ in track("abc", 3, "work"):
        pass
    with waiting("step"):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


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


def test_a_step_of_unknown_length_says_how_long_it_has_gone_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with waiting("quick"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("contstim.progress._SECONDS_BETWEEN_LINES", 0.05)
    with waiting("choosing", most=60):
        _until_said(capsys, r"choosing: \d+ s of at most 60 s\n")
    # A step within a step, and a step within what is shown as a whole, are not reported.
    with waiting("outer"), waiting("inner"):
        assert "inner" not in _until_said(capsys, r"outer: \d+ s\n")
    for _ in track([1], 1, "whole"):
        with waiting("part"):
            time.sleep(0.2)
    assert "part" not in capsys.readouterr().err
    with pytest.raises(KeyError), waiting("fails"):
        raise KeyError
    with waiting("after"):
        _until_said(capsys, r"after: \d+ s\n")


def test_a_terminal_gets_a_line_that_goes_when_the_step_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("contstim.progress._SILENT", 0.05)
    with waiting("loading"):
        said = _until_said(capsys, r"\rloading: \d+ s")
    assert "\n" not in said + capsys.readouterr().err


def _until_said(capsys: pytest.CaptureFixture[str], pattern: str) -> str:
    """Wait for a text on standard error; return all that was written."""
    said, end = "", time.monotonic() + 240
    while not re.search(pattern, said):
        assert time.monotonic() < end, f"{pattern!r} is not in {said!r}"
        time.sleep(0.05)
        said += capsys.readouterr().err
    return said


class _Notebook:
    """What a notebook's kernel has: outputs that can be written again."""

    def __init__(self) -> None:
        self.outputs: list[list[dict[str, str]]] = []

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> _Output:
        assert raw
        assert display_id
        self.outputs.append([data])
        return _Output(self.outputs[-1])


class _Output:
    def __init__(self, shown: list[dict[str, str]]) -> None:
        self.shown = shown

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(data)


@pytest.mark.parametrize("how", ["track", "waiting"])
def test_a_notebook_gets_a_line_that_goes_away_and_nothing_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    notebook = _Notebook()
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    module = ModuleType("IPython.display")
    monkeypatch.setattr(module, "display", notebook.display, raising=False)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr("contstim.progress._SILENT", 0.01)
    monkeypatch.setattr("contstim.progress._SECONDS_BETWEEN_TICKS", 0.02)
    if how == "track":
        for _ in track(range(3), 3, "work"):
            time.sleep(0.15)
    else:
        with waiting("work"):
            time.sleep(0.2)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    (shown,) = notebook.outputs  # one place
    lines = [data["text/plain"] for data in shown if "text/plain" in data]
    assert len(lines) > 1
    assert all(line.startswith("work") for line in lines)
    assert shown[-1] == {"text/html": ""}
