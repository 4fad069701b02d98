"""Training orders: the bookkeeping by hand, and a small study."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny_transformers import SENTENCES

from contstim.errors import InputError
from contstim.report.model_figure import order_figure
from contstim.report.style import save_figure
from contstim.training.finetuning import OrderStudy, acrobatic, order_study
from contstim.training.options import FitOptions

# Three orders, four sentences: the first never flips, the second flips at the second order and
# not again, the third at the third, the fourth is never acceptable (0 is not).
MARGINS = np.array([[1.0, 2.0, -1.0, -1.0], [0.5, -2.0, -1.0, 0.0], [3.0, -1.0, 1.0, -2.0]])


def test_acrobatic_sentences_by_hand() -> None:
    found = acrobatic(MARGINS)
    assert found.astype(int).tolist() == [[0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0]]
    with pytest.raises(InputError, match="give orders by sentences"):
        acrobatic(MARGINS[0])


def test_tables_by_hand(tmp_path: Path) -> None:
    study = OrderStudy(list("abcd"), MARGINS, np.array([0.1, 0.2, 0.3]))
    by_order, by_sentence = study.by_order(), study.by_sentence()
    assert by_order["acrobatic"].tolist() == [0, 0.25, 0.5]
    assert by_order["orders"].tolist() == [1, 2, 3]
    assert by_sentence["acrobatic"].tolist() == [False, True, True, False]
    np.testing.assert_allclose(by_sentence["acceptable"], [1, 1 / 3, 1 / 3, 0])
    np.testing.assert_allclose(by_sentence["margin_mean"], [1.5, -1 / 3, -1 / 3, -1])
    sure = 1 / (1 + np.exp(-np.array([1.0, 0.5, 3.0])))
    assert by_sentence["confidence_mean"][0] == pytest.approx(sure.mean())
    assert by_sentence["confidence_sd"][0] == pytest.approx(sure.std())
    assert save_figure(order_figure(by_order, by_sentence)[0], tmp_path / "x.svg").stat().st_size


def test_only_the_order_differs(bert: Path, cola: Path) -> None:
    options = FitOptions(epochs=1, batch=8, layers=1, learning_rate=3e-3)
    study = order_study(str(bert), cola, SENTENCES, orders=2, options=options, seed=4)
    again = order_study(str(bert), cola, SENTENCES, orders=2, options=options, seed=4)
    assert study.margins.shape == (2, len(SENTENCES))
    np.testing.assert_array_equal(study.margins, again.margins)
    assert not np.allclose(study.margins[0], study.margins[1])
    with pytest.raises(InputError, match="needs at least 2, got 1"):
        order_study(str(bert), cola, SENTENCES, orders=1)
