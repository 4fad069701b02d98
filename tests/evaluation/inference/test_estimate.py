"""Test confidence intervals and p-values of estimates against their definitions."""

import numpy as np
import pytest
from scipy.stats import t

from contstim.evaluation.inference.estimate import MeanEstimate


def test_interval_and_p_value_agree() -> None:
    rng = np.random.default_rng(6)
    for _ in range(300):
        mean = MeanEstimate(rng.normal(), rng.uniform(0.1, 1), rng.uniform(1, 50))
        low, high = mean.interval()
        assert (mean.p_value() < 0.05) == (low > 0 or high < 0)
        low, high = mean.interval(0.90)
        margin = rng.uniform(0.1, 3)
        assert (mean.p_equivalence(margin) < 0.05) == (-margin < low and high < margin)


def test_bounded_interval_and_its_p_value_agree() -> None:
    rng = np.random.default_rng(6)
    for _ in range(300):
        chance = rng.choice([0.0, 0.5])
        value = chance + (1 - chance) * rng.uniform(-0.3, 0.999)
        mean = MeanEstimate(value, rng.uniform(0.01, 0.4), rng.uniform(1, 50))
        low, high = mean.bounded_interval(chance)
        assert 2 * chance - 1 <= low < value < high <= 1
        assert (mean.p_chance(chance) < 0.05) == (low > chance or high < chance)
    # Half the log-odds: 0.9 of 1 with a standard error of 0.03 is 9 to 1, give or take a third.
    odds = MeanEstimate(0.9, 0.03, 1e9).fisher_z(0.5)
    assert 2 * odds.value == pytest.approx(np.log(9))
    assert 2 * odds.stderr == pytest.approx(0.03 / 0.09)


def test_intervals_without_a_standard_error() -> None:
    assert MeanEstimate(1.0, 0.0, 20.0).bounded_interval(0.5) == (1.0, 1.0)
    assert MeanEstimate(0.5, 0.0, 20.0).p_chance(0.5) == 1.0
    assert MeanEstimate(0.7, 0.0, 20.0).p_chance(0.5) == 0.0


def test_intervals_stay_within_the_possible_values() -> None:
    # People who contradict each other wholly, whose ties leave a lowest ceiling of -0.8.
    low, high = MeanEstimate(-0.8, 0.3, 3.0).bounded_interval(0.0, maximum=0.8)
    assert (low, high) == (-0.8, pytest.approx(-0.8 + 0.3 * t.ppf(0.975, 3)))
    low, high = MeanEstimate(0.8, 0.3, 3.0).bounded_interval(0.0, maximum=0.8)
    assert (low, high) == (pytest.approx(0.8 - 0.3 * t.ppf(0.975, 3)), 0.8)
    assert np.isnan(MeanEstimate(0.8, np.nan, np.nan).bounded_interval(0.0, maximum=0.8)).all()
