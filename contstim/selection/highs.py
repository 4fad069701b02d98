"""Integer programmes through PuLP and the solver HiGHS."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from contstim.arrays import BoolArray, FloatArray

#: Name of the solver in results.
SOLVER = "PuLP with HiGHS"


class Solution(NamedTuple):
    """Result of `minimise`.

    Attributes
    ----------
    x
        Variables, shape (n,), or None if no solution was found.
    status
        ``optimal``, ``feasible`` (stopped by the time limit), ``infeasible`` or ``unknown``.
    bound
        Lower bound on the objective of every solution.
    """

    x: FloatArray | None
    status: str
    bound: float


def minimise(
    costs: FloatArray,
    rows: csr_array,
    lower: FloatArray,
    upper: FloatArray,
    *,
    integer: BoolArray | bool = True,
    lowest: FloatArray | float = 0.0,
    highest: FloatArray | float = 1.0,
    time_limit: float | None = None,
    relative_gap: float = 0.0,
) -> Solution:
    """Minimise ``costs @ x`` subject to ``lower <= rows @ x <= upper``.

    Parameters
    ----------
    costs
        Shape (n,).
    rows
        Sparse, shape (number of constraints, n).
    lower, upper
        Bounds of the constraints, shape (number of constraints,).
    integer
        Whether each variable must be a whole number.
    lowest, highest
        Bounds of the variables.
    time_limit
        Seconds, or None.
    relative_gap
        Stop at a solution within this fraction of the bound.

    Returns
    -------
    Solution
        Integer variables are rounded, and the solution is checked against every constraint.
    """
    import pulp

    n = len(costs)
    whole, low, high = (np.broadcast_to(own, n) for own in (integer, lowest, highest))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations announced for PuLP 4
        variables = [
            pulp.LpVariable(
                f"x{i}",
                low[i],
                None if math.isinf(high[i]) else high[i],
                "Integer" if whole[i] else "Continuous",
            )
            for i in range(n)
        ]
        problem = pulp.LpProblem("selection", pulp.LpMinimize)
        problem += pulp.LpAffineExpression(list(zip(variables, costs.tolist(), strict=True)))
        for r, (least, most) in enumerate(zip(lower.tolist(), upper.tolist(), strict=True)):
            row = slice(rows.indptr[r], rows.indptr[r + 1])
            in_row = [variables[i] for i in rows.indices[row].tolist()]
            total = pulp.LpAffineExpression(list(zip(in_row, rows.data[row].tolist(), strict=True)))
            if least == most:
                problem += total == least
                continue
            if math.isfinite(least):
                problem += total >= least
            if math.isfinite(most):
                problem += total <= most
        problem.solve(pulp.HiGHS(msg=False, timeLimit=time_limit, gapRel=relative_gap, threads=1))
        information = problem.solverModel.getInfo()
        is_mixed = bool(whole.any())
        bound = information.mip_dual_bound if is_mixed else information.objective_function_value
        status = {
            pulp.LpSolutionOptimal: "optimal",
            pulp.LpSolutionIntegerFeasible: "feasible",
            pulp.LpSolutionInfeasible: "infeasible",
        }.get(problem.sol_status, "unknown")
    if status in ("infeasible", "unknown"):
        return Solution(None, status, bound)
    values = np.array([variable.varValue or 0.0 for variable in variables])
    values[whole] = np.round(values[whole])
    sums, sizes = rows @ values, abs(rows) @ np.abs(values)
    slack = 1e-6 * np.maximum(1.0, sizes)
    if not ((sums >= lower - slack) & (sums <= upper + slack)).all():
        return Solution(None, "unknown", bound)
    return Solution(values, status, bound)
