"""Test signed ranks and the signed-rank cosine."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from contstim.errors import InputError
from contstim.evaluation import signed_rank_cosine, signed_ranks
from contstim.evaluation.ranks import SegmentRanks, sum_of_squares

ratings = st.lists(st.sampled_from([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]), min_size=2, max_size=12)


def random_ranks(x, rng, n_draws):
    """Return signed ranks of nonzero entries with ties broken at random, (n_draws, n)."""
    nonzero = np.flatnonzero(x)
    out = np.zeros((n_draws, len(x)))
    keys = np.abs(x[nonzero]) + 1e-6 * rng.random((n_draws, len(nonzero)))
    order = keys.argsort(axis=1).argsort(axis=1) + 1
    out[:, nonzero] = np.sign(x[nonzero]) * order
    return out


@pytest.mark.parametrize("zeros", [False, True])
def test_closed_form_equals_mean_over_random_tie_breaking(zeros):
    rng = np.random.default_rng(3)
    x = rng.choice([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], size=25)
    y = np.round(rng.normal(size=25) + 0.5 * x, 0 if zeros else 1)
    if zeros:
        x[[2, 9]] = 0
        assert (y == 0).any()
    draws_x, draws_y = random_ranks(x, rng, 100_000), random_ranks(y, rng, 100_000)
    cosine = (draws_x * draws_y).sum(axis=1) / np.sqrt(
        (draws_x**2).sum(axis=1) * (draws_y**2).sum(axis=1)
    )
    assert signed_rank_cosine(x, y) == pytest.approx(cosine.mean(), abs=1e-3)


def test_signed_rank_cosine_known_values():
    np.testing.assert_array_equal(signed_ranks([-3, 0, 1, 1, 2]), [-4, 0, 1.5, 1.5, 3])
    assert signed_rank_cosine([1, -2, 3], [10, -20, 30]) == 1
    assert signed_rank_cosine([1, -2, 3], [-10, 20, -30]) == -1
    assert signed_rank_cosine([1, 2], [2, 1]) == pytest.approx(4 / 5)
    # Four ties and itself: 4 * 2.5^2 / (1 + 4 + 9 + 16).
    assert signed_rank_cosine([1, 1, -1, 1], [1, 1, -1, 1]) == pytest.approx(25 / 30)
    assert float(sum_of_squares(4)) == 30


@given(ratings, st.integers(0, 2**31 - 1))
def test_signed_rank_cosine_is_invariant_to_swapped_sides(x, seed):
    rng = np.random.default_rng(seed)
    x = np.array(x)
    y = rng.normal(size=len(x))
    turn = rng.choice([-1, 1], size=len(x))
    value = signed_rank_cosine(x, y)
    assert signed_rank_cosine(x * turn, y * turn) == pytest.approx(value, abs=1e-12)
    assert -1 - 1e-12 <= value <= 1 + 1e-12
    assert signed_rank_cosine(-x, y) == pytest.approx(-value, abs=1e-12)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=30))
def test_signed_ranks_equal_scipy_ranks_of_nonzero_values(x):
    x = np.array(x, dtype=float)
    expected = np.zeros(len(x))
    expected[x != 0] = np.sign(x[x != 0]) * rankdata(np.abs(x[x != 0]))
    np.testing.assert_allclose(signed_ranks(x), expected)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.randoms())
def test_segment_ranks_equal_separate_ranks(x, random):
    x = np.array(x, dtype=float)
    segment = np.sort([random.randrange(3) for _ in x])
    ranked = SegmentRanks(x, segment, 3)
    weight = np.array([random.random() for _ in x])
    raised = ranked.sum_above(weight)
    for k in range(3):
        here = segment == k
        expected = np.zeros(here.sum())
        size = np.abs(x[here])
        expected[size > 0] = rankdata(size[size > 0]) * np.sign(x[here])[size > 0]
        np.testing.assert_array_equal(ranked.ranks[here], expected)
        assert ranked.counts[k] == (size > 0).sum()
        above = (size[:, None] < size) + (size[:, None] == size) / 2
        expected = np.where(size > 0, above @ weight[here], 0.0)
        np.testing.assert_allclose(raised[here], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([1, 2], [1], "the vectors have 2 and 1 entries, not the same"),
        ([0, 0], [1, 2], "a vector that is zero on every trial has no signed-rank cosine"),
        ([], [], "a vector that is zero on every trial has no signed-rank cosine"),
        ([np.nan, 1], [1, 2], "signed ranks need numbers, got a missing value"),
        ([[1.0]], [1], "signed ranks need a vector, got an array of shape (1, 1)"),
    ],
)
def test_undefined_signed_rank_cosine_raises(x, y, message):
    with pytest.raises(InputError) as caught:
        signed_rank_cosine(x, y)
    assert str(caught.value) == message
