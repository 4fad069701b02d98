"""Test Wilcoxon signed-rank tests and false discovery rates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from contstim.errors import InputError, UnknownNameError
from contstim.evaluation import benjamini_hochberg, wilcoxon_signed_rank

# Hamilton depression scale of nine patients, Hollander and Wolfe (1973), the example on the help
# page of wilcox.test in R, which prints V = 40 and p = 0.01953 for the one-sided test.
FIRST = np.array([1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30])
SECOND = np.array([0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29])


def test_wilcoxon_test_reproduces_the_r_example():
    test = wilcoxon_signed_rank(FIRST - SECOND)
    assert test.statistic == 40
    assert test.p == pytest.approx(2 * 0.01953125)
    assert test.effect == pytest.approx((40 - 5) / 45)
    assert (test.method, test.p_smallest) == ("exact", 2 / 2**9)


@pytest.mark.parametrize("n", [5, 10, 30, 60])
def test_exact_p_value_equals_scipy_without_ties(n):
    d = np.random.default_rng(n).normal(0.3, 1, size=n)
    expected = stats.wilcoxon(d, zero_method="zsplit", method="exact").pvalue
    assert wilcoxon_signed_rank(d, method="exact").p == pytest.approx(expected, rel=1e-10)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-5, 5), min_size=2, max_size=9).filter(any))
def test_exact_p_value_enumerates_sign_changes(values):
    d = np.array(values, dtype=float)
    ranks, sign = stats.rankdata(np.abs(d))[d != 0], np.sign(d[d != 0])
    observed = (ranks * (sign > 0)).sum()
    n = len(ranks)
    patterns = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    sums = patterns @ ranks
    tail = min((sums <= observed + 1e-9).mean(), (sums >= observed - 1e-9).mean())
    test = wilcoxon_signed_rank(d)
    assert test.p == pytest.approx(min(1, 2 * tail))


@pytest.mark.parametrize("zeros", [0, 4])
def test_asymptotic_p_value_equals_scipy_with_ties_and_zeros(zeros):
    d = np.random.default_rng(1).integers(1, 8, size=30) * np.resize([1, 1, 1, -1], 30)
    d = np.append(d, np.zeros(zeros)).astype(float)
    expected = stats.wilcoxon(d, zero_method="zsplit", method="asymptotic").pvalue
    test = wilcoxon_signed_rank(d, "scipy-1.7")
    assert test.p == pytest.approx(expected, rel=1e-10)
    assert test.method == "asymptotic"


def test_scipy_17_method_switches_to_asymptotic():
    # Thirty differences of one sign: the published 1.7e-6 comes from the normal approximation
    # (z = 4.782), the exact value is 2 / 2^30.
    d = np.arange(1, 31) / 40
    published = wilcoxon_signed_rank(d, method="scipy-1.7")
    assert published.p == pytest.approx(1.7344e-06, rel=1e-4)
    assert published.method == "asymptotic"
    assert wilcoxon_signed_rank(d).p == pytest.approx(2.0**-29)
    small = wilcoxon_signed_rank(np.arange(1, 11), method="scipy-1.7")
    assert (small.p, small.method) == (2.0**-9, "exact")
    with_zero = wilcoxon_signed_rank(np.arange(10), method="scipy-1.7")
    assert with_zero.method == "asymptotic"


def test_equal_differences_tie_despite_rounding():
    d = [0.3 - 0.1, -(0.5 - 0.3), 0.1]
    assert d[0] != -d[1]
    assert wilcoxon_signed_rank(d).statistic == 2.5 + 1


def test_wilcoxon_edge_cases():
    none = wilcoxon_signed_rank([0.0, 0.0, 0.0])
    assert (none.p, none.effect) == (1, 0)
    one = wilcoxon_signed_rank([0.4])
    assert (one.p, one.p_smallest, one.effect) == (1, 1, 1)
    assert wilcoxon_signed_rank(np.ones(150)).method == "asymptotic"
    with pytest.raises(InputError, match="at least one"):
        wilcoxon_signed_rank([])
    with pytest.raises(InputError, match="finite"):
        wilcoxon_signed_rank([np.nan, 1])
    with pytest.raises(UnknownNameError, match="unknown test method 'exactly'; did you mean"):
        wilcoxon_signed_rank([1.0], "exactly")


def test_benjamini_hochberg_by_hand():
    # As p.adjust(p, "BH") of R: n p / rank, made monotone from the largest down.
    p = [0.20, 0.005, 0.05, 0.30, 0.009, 0.10]
    np.testing.assert_allclose(benjamini_hochberg(p), [0.24, 0.027, 0.1, 0.3, 0.027, 0.15])
    np.testing.assert_allclose(benjamini_hochberg([0.01, 0.02, 0.03, 0.04, 0.05]), [0.05] * 5)


def test_missing_p_values_are_excluded_from_the_family():
    q = benjamini_hochberg([0.01, np.nan, 0.02])
    np.testing.assert_allclose(q[[0, 2]], [0.02, 0.02])
    assert np.isnan(q[1])
    with pytest.raises(InputError, match="between 0 and 1"):
        benjamini_hochberg([1.2])
