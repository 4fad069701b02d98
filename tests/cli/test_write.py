"""`contstim write`: a pool that selections take as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from contstim.cli import main
from contstim.tables import SCORES, UNIT
from contstim.text import pool

HOW = ["--writer", "contstim:gpt", "--prompt", "0", "--begun", "32", "--ends", "0.02"]
PAIR = ["--pair", "contstim:bigram", "contstim:trigram", "--limit", "3"]


def test_a_pool_is_written_and_selected_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["write", *PAIR, *HOW, "--out", "pool.csv"]) == 0
    assert "different sentences were written" in capsys.readouterr().err
    assert main(["write", *PAIR, *HOW, "--out", "pool.csv"]) == 0
    assert "up to date" in capsys.readouterr().err
    assert main(["select", "natural", "pool.csv", "--per-pair", "2", "--out", "pairs.csv"]) == 0
    assert len(Path("pairs.csv").read_text("utf-8").splitlines()) == 3
    header = Path("pool.csv").read_text("utf-8").partition("\n")[0].split(",")
    assert header[:8] == [*SCORES, UNIT, "source"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--fixed", "0", "--out", "x.csv"], "writes no pool"),
        ([], "give --out FILE"),
        (["--writer", "contstim:bert", "--prompt", "2", "--out", "x.csv"], "cannot write"),
    ],
)
def test_what_cannot_be_a_pool_is_refused(
    more: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = [str(tmp_path / part) if part == "x.csv" else part for part in more]
    assert main(["write", pool()[0], *PAIR[:3], *HOW, *more]) in (1, 2)
    assert message in capsys.readouterr().err
    assert not (tmp_path / "x.csv").exists()
