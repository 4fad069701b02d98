"""Integer programmes against enumeration of all solutions."""

from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array

from contstim.selection.highs import minimise


@pytest.mark.parametrize("seed", range(20))
def test_optimum_equals_enumeration(seed):
    rng = np.random.default_rng(seed)
    costs, rows = rng.normal(size=7), rng.integers(-3, 4, (3, 7)).astype(float)
    lower = np.array([-np.inf, -1.0, 2.0])
    upper = np.array([3.0, 2.0, 2.0])
    every = np.array(list(product([0.0, 1.0], repeat=7)))
    sums = every @ rows.T
    fits = ((sums >= lower) & (sums <= upper)).all(axis=1)
    solution = minimise(costs, csr_array(rows), lower, upper)
    if not fits.any():
        assert (solution.x, solution.status) == (None, "infeasible")
        return
    assert solution.status == "optimal"
    assert costs @ solution.x == pytest.approx((every[fits] @ costs).min(), abs=1e-9)
    assert solution.lower_bound == pytest.approx(costs @ solution.x, abs=1e-6)


def test_continuous_variables_and_their_bounds():
    # Maximise x + y with x + 2 y <= 3, x <= 1.5 whole, y <= 5: x = 1, y = 1.
    solution = minimise(
        np.array([-1.0, -1.0]),
        csr_array(np.array([[1.0, 2.0]])),
        np.array([-np.inf]),
        np.array([3.0]),
        integer=np.array([True, False]),
        highest=np.array([1.5, 5.0]),
    )
    assert solution.x == pytest.approx([1.0, 1.0])
    assert solution.lower_bound == pytest.approx(-2.0)


def test_equality_constraints_with_and_without_a_solution():
    costs, rows = np.array([2.0, 6, 6]), np.array([[1.0, 1, 0], [0, 0, 1], [-4, -1, 3]])
    limits = np.array([1.0, 1, 0])
    assert minimise(costs, csr_array(rows), limits, limits).status == "infeasible"
    limits[2] = 2.0
    solution = minimise(costs, csr_array(rows), limits, limits)
    assert (solution.x.tolist(), solution.status) == ([0, 1, 1], "optimal")
