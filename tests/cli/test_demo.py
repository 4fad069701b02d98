"""The demonstration's pairs of metrics, on scores made up."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from contstim.cli import demo


def _pairs(
    monkeypatch: pytest.MonkeyPatch, folder: Path, scores: dict[str, list[float] | np.ndarray]
) -> None:
    def load(spec: str) -> SimpleNamespace:
        return SimpleNamespace(score=lambda sentences: np.asarray(scores[spec])[: len(sentences)])

    monkeypatch.setattr(demo, "load_model", load)
    demo._select_pairs(argparse.Namespace(seed=0), folder)


def test_metrics_that_agree_give_no_pairs_and_say_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    falling = -np.arange(1000.0)
    _pairs(monkeypatch, tmp_path, {demo._METRICS[0]: falling, demo._METRICS[1]: 2 * falling})
    assert "the two metrics agree" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_metrics_that_differ_in_one_pair_give_that_pair(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = -np.arange(1000.0)
    two = one.copy()
    last = demo._POOL_OF_METRICS - 1
    two[[0, last]] = one[[last, 0]]
    _pairs(monkeypatch, tmp_path, {demo._METRICS[0]: one, demo._METRICS[1]: two})
    assert "1 prefers" in capsys.readouterr().out
    pairs = pd.read_csv(tmp_path / "metric-pairs.csv")
    assert len(pairs) == 1
