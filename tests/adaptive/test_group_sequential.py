"""Test group-sequential boundaries against published tables and simulation."""

import numpy as np
import pytest
from scipy.stats import norm

from contstim.adaptive.group_sequential import (
    alpha_spent,
    interim_boundaries,
    next_boundary,
    repeated_p_value,
)

FIVE = (10, 20, 30, 40, 50)


def boundaries(analyses, alpha, spending, item_shares):
    spent = tuple(alpha_spent(analyses, alpha, spending).tolist())
    return np.array(interim_boundaries(analyses, spent, tuple(item_shares.tolist())))


@pytest.mark.parametrize(
    ("spending", "published"),
    [
        ("obrien-fleming", [4.8769, 3.3569, 2.6803, 2.2898, 2.0310]),
        ("pocock", [2.4380, 2.4268, 2.4101, 2.3966, 2.3859]),
    ],
)
def test_boundaries_equal_published_tables(spending, published):
    ours = boundaries(FIVE, 0.05, spending, np.zeros(5))
    np.testing.assert_allclose(ours, published, atol=1.5e-4)


@pytest.mark.parametrize("items", [0.0, 0.4, 0.9])
def test_error_rate_is_controlled_if_analyses_share_items(items):
    rng = np.random.default_rng(3)
    people = np.cumsum(rng.normal(size=(100_000, 5)), axis=1) * np.sqrt(10) / np.array(FIVE)
    item_variance = items / (1 - items) / 50
    variance = 1 / np.array(FIVE) + item_variance
    shared = rng.normal(size=(100_000, 1)) * np.sqrt(item_variance)
    z = (people + shared) / np.sqrt(variance)
    upper = boundaries(FIVE, 0.05, "pocock", item_variance / variance)
    assert (np.abs(z) > upper).any(axis=1).mean() == pytest.approx(0.05, abs=0.0025)


def test_boundary_is_infinite_once_all_error_is_spent():
    assert next_boundary(np.array([0.5, 1.0]), [1.0], 0.05) == np.inf


@pytest.mark.parametrize("spending", ["obrien-fleming", "pocock"])
def test_repeated_p_value_inverts_the_boundaries(spending):
    items = (0.3, 0.5, 0.4)
    for alpha in (0.001, 0.05, 0.4):
        spent = tuple(alpha_spent(FIVE, alpha, spending).tolist())
        upper = interim_boundaries(FIVE, spent, items)
        for k in range(3):
            p = 2 * norm.sf(upper[k])
            assert repeated_p_value(p, FIVE, spending, items[: k + 1]) == pytest.approx(
                alpha, rel=1e-3
            )
    # A single analysis needs no adjustment.
    assert repeated_p_value(0.03, (20,), spending, (0.5,)) == pytest.approx(0.03, rel=1e-3)
    assert repeated_p_value(1.0, FIVE, spending, items) == 1.0
    assert repeated_p_value(0.0, FIVE, spending, items) < 1e-8


def test_repeated_p_value_agrees_with_the_boundaries():
    rng, looks = np.random.default_rng(5), (10, 20, 30)
    z = np.cumsum(rng.normal(0.7, 1, size=(30, 3)), axis=1) / np.sqrt([1, 2, 3])
    p = [
        [
            repeated_p_value(2 * norm.sf(abs(of[k])), looks, "pocock", (0.0,) * (k + 1))
            for k in range(3)
        ]
        for of in z
    ]
    for level in (0.01, 0.05, 0.2, 0.6):
        upper = boundaries(looks, level, "pocock", np.zeros(3))
        assert ((np.array(p) < level) == (np.abs(z) > upper)).all()
