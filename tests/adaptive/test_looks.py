"""Limits at announced looks: against published tables, simulation and what spends the error."""

import numpy as np
import pytest

from contstim.adaptive.looks import futile_limits, information, limits, next_limit, spent_by

FIVE = (10, 20, 30, 40, 50)


@pytest.mark.parametrize(
    ("spending", "published"),
    [
        ("obrien-fleming", [4.8769, 3.3569, 2.6803, 2.2898, 2.0310]),
        ("pocock", [2.4380, 2.4268, 2.4101, 2.3966, 2.3859]),
    ],
)
def test_limits_are_the_published_ones(spending, published):
    ours = limits(information(FIVE), spent_by(FIVE, 0.05, spending))
    np.testing.assert_allclose(ours, published, atol=1.5e-4)


@pytest.mark.parametrize("items", [0.0, 0.4, 0.9])
def test_the_error_is_spent_also_where_items_are_the_same_at_all_looks(items):
    rng = np.random.default_rng(3)
    people = np.cumsum(rng.normal(size=(100_000, 5)), axis=1) * np.sqrt(10) / np.array(FIVE)
    shared = rng.normal(size=(100_000, 1)) * np.sqrt(items / (1 - items) / 50)
    z = (people + shared) / np.sqrt(1 / np.array(FIVE) + items / (1 - items) / 50)
    upper = limits(information(FIVE, items), spent_by(FIVE, 0.05, "pocock"))
    assert (np.abs(z) > upper).any(axis=1).mean() == pytest.approx(0.05, abs=0.0025)


def test_what_is_given_up_costs_few_participants_and_binds_nobody():
    share = information(FIVE)
    upper = limits(share, spent_by(FIVE, 0.05, "obrien-fleming"))
    lost = spent_by(FIVE, 0.2, "obrien-fleming") / 2
    lost[-1] = 0.2
    near, drift = futile_limits(share, upper, lost)
    assert 1.02 < (drift / 2.8016) ** 2 < 1.05  # of the participants of a design with one look
    rng = np.random.default_rng(4)
    steps = rng.normal(drift / 5, np.sqrt(0.2), (200_000, 5))
    z = steps.cumsum(axis=1) / np.sqrt(share)
    outside, inside = np.abs(z) > upper, np.abs(z) < near
    first = (outside | inside).argmax(axis=1)
    assert outside[np.arange(len(z)), first].mean() == pytest.approx(0.8, abs=0.004)


def test_where_all_is_spent_nothing_is_left():
    assert next_limit(np.array([0.5, 1.0]), [1.0], 0.05) == np.inf
