"""What precision changes, against SciPy, published numbers and a model that is known to be moved.

Tests `contstim.models.precision`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from contstim.cli import main
from contstim.errors import InputError
from contstim.models.precision import PrecisionComparison, compare_precisions
from contstim.models.registry import load_model


def _comparison(reference: list[float], pairs: list[float]) -> PrecisionComparison:
    both = np.array(reference), np.array(pairs)
    return PrecisionComparison("a", "b", both[1] - both[0], *both)


def test_winners_that_change_are_counted_by_margin() -> None:
    comparison = _comparison([-3.0, 0.5, -0.2, 0.0, 1.0], [-2.0, -0.5, -0.3, 0.1, 0.0])
    # A tie that is one under the reference alone, or under the other alone, is another winner.
    np.testing.assert_array_equal(comparison.flipped, [False, True, False, True, True])
    counts = [(f.pairs, f.flipped) for f in map(comparison.flips, (0.0, 0.3, 0.75, 2.0, 9.0))]
    assert counts == [(5, 3), (3, 2), (2, 1), (1, 0), (0, 0)]
    assert np.isnan(comparison.flips(9.0).upper)


@pytest.mark.parametrize(("n", "k"), [(1, 0), (1, 1), (20, 0), (20, 3), (200, 7), (5, 5)])
def test_the_bound_of_a_rate_is_exact(n: int, k: int) -> None:
    rng = np.random.default_rng(0)
    reference = rng.uniform(1, 2, n)
    comparison = _comparison(list(reference), list(np.where(np.arange(n) < k, -1, 1) * reference))
    exact = binomtest(k, n, alternative="less").proportion_ci(0.95, "exact").high
    assert comparison.flips().upper == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize(
    ("n", "share", "from_the_top"),
    # Wilks' numbers: 59, 93 and 124 for the largest, second and third of 95 %; 299 for 99 %.
    [(58, 0.95, None), (59, 0.95, 1), (92, 0.95, 1), (93, 0.95, 2), (124, 0.95, 3), (299, 0.99, 1)],
)
def test_the_margin_is_wilks(n: int, share: float, from_the_top: int | None) -> None:
    moves = np.random.default_rng(1).permutation(n) + 1.0
    margin, sure = _comparison([0.0] * n, list(moves)).margin(share)
    if from_the_top is None:
        assert margin == n
        assert sure == pytest.approx(0.05 ** (1 / n))
        assert sure < share
    else:
        assert (margin, sure) == (n + 1 - from_the_top, share)


def test_it_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    moves = rng.exponential(size=(4000, 100))
    margins = [_comparison([0.0] * 100, list(row)).margin(0.9)[0] for row in moves]
    covered = np.mean(1 - np.exp(-np.array(margins)) >= 0.9)
    assert 0.95 <= covered <= 0.99  # order statistics lie apart, so that it is a little more


def test_beyond_the_margin_no_winner_changes() -> None:
    rng = np.random.default_rng(3)
    reference, moves = rng.normal(0, 1, 300), rng.normal(0, 0.3, 300)
    comparison = _comparison(list(reference), list(reference + moves))
    margin, _ = comparison.margin(0.98)
    assert comparison.flips().flipped > 0
    wrong = comparison.flips(margin).flipped
    assert wrong <= (comparison.moved > margin).sum()


def test_one_checkpoint_in_two_precisions() -> None:
    pairs = [
        ("The dog slept near the fire.", "The fire slept near the dog."),
        ("A cat ran away.", "The dog slept near the fire."),
    ]
    models = {"whole": "contstim:gpt", "half": "contstim:gpt?dtype=bfloat16"}
    (comparison,) = compare_precisions(models, pairs)
    whole, half = (
        load_model(spec).score([t for p in pairs for t in p]) for spec in models.values()
    )
    np.testing.assert_allclose(comparison.reference_pairs, whole[::2] - whole[1::2], atol=1e-4)
    np.testing.assert_allclose(comparison.pairs, half[::2] - half[1::2], atol=0.1)
    assert len(comparison.score_differences) == 3  # each sentence once
    assert 1e-3 < np.abs(comparison.score_differences).max() < 2
    assert comparison.lines()[0] == "half"


def test_what_it_refuses() -> None:
    pair = [("a", "b")]
    for models, pairs, words in (
        (["contstim:bigram"], pair, "is alone; name the same model in another precision"),
        (["contstim:bigram", "contstim:trigram"], [], "there are no pairs of sentences"),
        (["contstim:bigram", "contstim:bigram?reduction=ppl"], pair, "compare scores of one kind"),
    ):
        with pytest.raises(InputError, match=words):
            compare_precisions(models, pairs)
    with pytest.raises(InputError, match="share is 1.5; give a number between 0 and 1"):
        _comparison([1.0], [1.0]).margin(1.5)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "pairs.csv"
    models = ["gpt=contstim:gpt", "half=contstim:gpt?dtype=bfloat16"]
    assert main(["models", "precision", *models, "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "105 pairs; the reference is gpt"
    assert lines[2] == "half"
    assert lines[4].startswith("     0 nats apart or more:    105 pairs, ")
    assert "nats, by which the differences of 95.0% of such pairs move at most" in lines[-1]
    table = pd.read_csv(out)
    assert [*table] == ["sentence_1", "sentence_2", "gpt", "half", "beyond_margin"]
    beyond = table[table.beyond_margin]
    assert (np.sign(beyond.gpt) == np.sign(beyond.half)).all()
    assert 0 < len(beyond) < len(table)
    # Its own table is one of pairs.
    assert main(["models", "precision", *models, "--pairs", str(out)]) == 0
    assert capsys.readouterr().out.splitlines() == lines
    (tmp_path / "wrong.csv").write_text("a,b\n1,2\n")
    assert main(["models", "precision", *models, "--pairs", str(tmp_path / "wrong.csv")]) == 2
