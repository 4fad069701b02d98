"""Test the estimates of benchmarks against closed forms, SciPy and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from contstim.benchmarks.estimates import (
    area_under_curve,
    best_threshold,
    ceiling_share,
    clustered_correlation,
    clustered_proportion,
    estimate_mean,
    z_scores,
)
from contstim.errors import InputError


def fieller(g, s_g, c, s_c, t):
    """Return the roots of (g - r c)^2 = t^2 (s_g^2 + r^2 s_c^2), plus one."""
    roots = np.roots([c**2 - (t * s_c) ** 2, -2 * g * c, g**2 - (t * s_g) ** 2])
    return 1 + np.sort(roots.real)


@pytest.mark.parametrize("g", [-0.3, -0.02, 0.0, 0.1])
def test_ceiling_share_interval_equals_fieller_interval(g):
    s_g, c, s_c, t, chance = 0.04, 0.35, 0.05, 1.96, 0.5
    gap = (g, g - t * s_g, g + t * s_g)
    ceiling = (chance + c, chance + c - t * s_c, chance + c + t * s_c)
    share, *ends = ceiling_share(gap, ceiling, chance)
    assert share == pytest.approx(1 + g / c)
    np.testing.assert_allclose(ends, fieller(g, s_g, c, s_c, t))


def test_ceiling_near_chance_gives_no_interval():
    assert ceiling_share((-0.1, -0.2, 0.0), (0.7, 0.5, 0.9), 0.5)[0] == pytest.approx(0.5)
    assert np.isnan(ceiling_share((-0.1, -0.2, 0.0), (0.7, 0.5, 0.9), 0.5)[1:]).all()
    assert np.isnan(ceiling_share((0.1, 0.0, 0.2), (0.4, 0.3, 0.5), 0.5)).all()


def test_mean_over_items_has_a_t_interval_on_fisher_scale():
    values = np.array([0.7, 0.9, 0.8, np.nan, 0.6])
    there = values[~np.isnan(values)]
    z = np.arctanh(2 * there.mean() - 1)
    stderr = stats.sem(there) * 2 / (1 - (2 * there.mean() - 1) ** 2)
    reach = stats.t.ppf(0.975, 3) * stderr
    expected = there.mean(), *(0.5 + 0.5 * np.tanh([z - reach, z + reach]))
    np.testing.assert_allclose(estimate_mean(values, 0.5), expected)
    assert np.isnan(estimate_mean(values[:2], 0.5)[1:]).all()
    assert np.isnan(estimate_mean(values[3:4], 0.5)).all()


def test_area_under_curve_coverage_and_variance():
    true = stats.norm.cdf(1 / np.sqrt(2))
    held = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        labels = np.arange(120) < 80
        value, low, high = area_under_curve(labels, labels + rng.normal(size=120))
        held.append(low < true < high)
    assert 0.92 < np.mean(held) < 0.98
    # DeLong's variance, written out.
    scores = np.round(rng.normal(size=30) + (np.arange(30) < 12), 1)
    labels = np.arange(30) < 12
    wins = (scores[labels][:, None] > scores[~labels]) + 0.5 * (
        scores[labels][:, None] == scores[~labels]
    )
    value, low, high = area_under_curve(labels, scores)
    assert value == pytest.approx(wins.mean())
    stderr = np.sqrt(wins.mean(axis=1).var(ddof=1) / 12 + wins.mean(axis=0).var(ddof=1) / 18)
    z = np.arctanh(2 * value - 1)
    reach = stats.t.ppf(0.975, 11) * stderr * 2 / (1 - (2 * value - 1) ** 2)
    np.testing.assert_allclose([low, high], 0.5 + 0.5 * np.tanh([z - reach, z + reach]))
    assert np.isnan(area_under_curve(np.ones(3, dtype=bool), np.arange(3.0))).all()
    assert np.isnan(area_under_curve(np.arange(5) < 1, np.arange(5.0))[1:]).all()


def test_duplicates_within_clusters_do_not_change_estimates():
    rng = np.random.default_rng(0)
    x, right = rng.normal(size=50), rng.random(50) < 0.7
    y = x + rng.normal(size=50)
    alone, twice = np.arange(50), np.tile(np.arange(50), 2)
    expected = clustered_correlation(x, y, alone)
    np.testing.assert_allclose(clustered_correlation(np.tile(x, 2), np.tile(y, 2), twice), expected)
    assert expected[0] == pytest.approx(stats.pearsonr(x, y).statistic)
    expected = clustered_proportion(right, alone)
    np.testing.assert_allclose(clustered_proportion(np.tile(right, 2), twice), expected)


def test_z_scores_equal_scipy():
    x = np.array([1.0, 4.0, 2.0, 9.0])
    np.testing.assert_allclose(z_scores(x), stats.zscore(x))
    gap = z_scores([1.0, np.nan, 3.0])
    np.testing.assert_allclose(gap[[0, 2]], [-1, 1])
    with pytest.raises(InputError, match="two different values"):
        z_scores([2, 2, 2])


def test_best_threshold_with_one_label_or_infinite_scores():
    with pytest.raises(InputError, match="needs acceptable and unacceptable sentences"):
        best_threshold([1, 1], np.array([1.0, 2.0]))
    assert best_threshold([0, 1], np.array([-np.inf, 2.0])) == -np.inf
