"""Linear and mixed-integer programmes, solved by HiGHS through PuLP."""

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
    """Solution of a programme, and whether it is optimal or only feasible (after the time limit).

    Attributes
    ----------
    x
        Values of the n variables, or None if no solution was found.
    status
        ``optimal``; ``feasible`` if the time limit stopped the solver; ``infeasible``; or
        ``unknown``.
    lower_bound
        Lower bound on the objective of every solution.
    """

    x: FloatArray | None
    status: str
    lower_bound: float


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
    """Solve a linear or mixed-integer programme with HiGHS.

    The programme is

        minimise    costs @ x
        subject to  lower <= rows @ x <= upper,
                    lowest <= x <= highest,
                    x[i] integer for each i with integer[i].

    Parameters
    ----------
    costs : (n,) array
        Coefficients of the objective.
    rows : sparse (n_constraints, n) array
        Coefficients of the constraints.
    lower, upper : (n_constraints,) array
        Bounds of the constraints; may be infinite.
    integer : (n,) array or bool, default True
        Whether each variable must be an integer.
    lowest, highest : (n,) array or float, default 0 and 1
        Bounds of the variables; `highest` may be infinite.
    time_limit
        Time limit in seconds; by default none.
    relative_gap : float, default 0
        Gap between the objective and its lower bound, relative to the objective, at which the
        solver may stop.

    Returns
    -------
    Solution
        Solution in which integer variables are rounded. If it then violates a constraint, the
        values are None and the status is ``unknown``.
    """
    import pulp  # takes a second to load

    n = len(costs)
    is_integer = np.broadcast_to(integer, n)
    lowest, highest = np.broadcast_to(lowest, n), np.broadcast_to(highest, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations announced for PuLP 4
        variables = [
            pulp.LpVariable(
                f"x{i}",
                lowest[i],
                None if math.isinf(highest[i]) else highest[i],
                "Integer" if is_integer[i] else "Continuous",
            )
            for i in range(n)
        ]
        problem = pulp.LpProblem("selection", pulp.LpMinimize)
        problem += pulp.LpAffineExpression(list(zip(variables, costs.tolist(), strict=True)))
        for row, (minimum, maximum) in enumerate(zip(lower.tolist(), upper.tolist(), strict=True)):
            entries = slice(rows.indptr[row], rows.indptr[row + 1])
            row_variables = [variables[i] for i in rows.indices[entries].tolist()]
            coefficients = rows.data[entries].tolist()
            total = pulp.LpAffineExpression(list(zip(row_variables, coefficients, strict=True)))
            if minimum == maximum:
                problem += total == minimum
                continue
            if math.isfinite(minimum):
                problem += total >= minimum
            if math.isfinite(maximum):
                problem += total <= maximum
        problem.solve(pulp.HiGHS(msg=False, timeLimit=time_limit, gapRel=relative_gap, threads=1))
        information = problem.solverModel.getInfo()
        is_mixed = bool(is_integer.any())
        bound = information.mip_dual_bound if is_mixed else information.objective_function_value
        status = {
            pulp.LpSolutionOptimal: "optimal",
            pulp.LpSolutionIntegerFeasible: "feasible",
            pulp.LpSolutionInfeasible: "infeasible",
        }.get(problem.sol_status, "unknown")
    if status in ("infeasible", "unknown"):
        return Solution(None, status, bound)

    # Round integer variables, and check that the rounded solution satisfies the constraints.
    values = np.array([variable.varValue or 0.0 for variable in variables])
    values[is_integer] = np.round(values[is_integer])
    sums = rows @ values
    tolerance = 1e-6 * np.maximum(1.0, abs(rows) @ np.abs(values))
    if ((sums < lower - tolerance) | (sums > upper + tolerance)).any():
        return Solution(None, "unknown", bound)
    return Solution(values, status, bound)
