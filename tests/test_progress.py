import pytest

from contstim.progress import track


def test_every_item_comes_through_and_the_end_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert list(track("abc", 5, "work", done=2)) == ["a", "b", "c"]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "work: 5 of 5, about 0 s left\n"


def test_a_terminal_gets_a_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert list(track(range(3), 3, "work")) == [0, 1, 2]
    assert "work" in capsys.readouterr().err
