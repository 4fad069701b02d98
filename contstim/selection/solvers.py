"""PuLP and the solvers behind it, by name; imported when first needed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from contstim.arrays import BoolArray, FloatArray
from contstim.errors import MissingExtraError, UnknownNameError

__all__ = ["SOLVERS", "BinaryProgramme", "Solver", "SolverOptions", "make_solver", "solve_binary"]

#: Name to PuLP's own names, tried in turn, and how to get the solver.
SOLVERS = {
    "cbc": (("PULP_CBC_CMD", "COIN_CMD"), "pip install 'pulp>=3.3,<4'"),
    "highs": (("HiGHS",), "pip install highspy"),
    "gurobi": (("GUROBI", "GUROBI_CMD"), "install Gurobi and its licence"),
    "cplex": (("CPLEX_PY", "CPLEX_CMD"), "install CPLEX and its licence"),
}

#: A name in `SOLVERS`, or a solver object of PuLP.
Solver = Any

# Zero would be taken for "not given" by PuLP's Gurobi interface; costs are whole numbers below
# 1e9 in all, so that this gap is less than one.
_GAP = 1e-10


@dataclass(frozen=True, eq=False)
class BinaryProgramme:
    """Minimise ``costs @ x`` over x in {0, 1}^n subject to ``lower <= rows @ x <= upper``.

    `rows` is sparse, shape (number of constraints, n).
    """

    costs: FloatArray
    rows: csr_array
    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True)
class SolverOptions:
    """Which solver, and when it may stop.

    Attributes
    ----------
    solver
        A name in `SOLVERS`, or a PuLP solver object, which keeps its own limits.
    time_limit
        Seconds for each call, or None.
    relative_gap
        Stop at a selection proved to be within this fraction of the optimum; 0: at the optimum.
    """

    solver: Solver = "cbc"
    time_limit: float | None = None
    relative_gap: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether "optimal" in the solver's mouth means the optimum."""
        return isinstance(self.solver, str) and self.relative_gap == 0

    def __str__(self) -> str:
        return f"pulp {self.solver if isinstance(self.solver, str) else self.solver.name}"


def make_solver(options: SolverOptions) -> Any:
    """Return the silent PuLP solver that `options` ask for.

    Raises
    ------
    UnknownNameError
        If there is no solver of this name.
    MissingExtraError
        If the solver is not installed.
    """
    import pulp

    solver = options.solver
    if isinstance(solver, pulp.LpSolver):
        return solver
    if solver not in SOLVERS:
        raise UnknownNameError.among("solver", str(solver), SOLVERS)
    names, how = SOLVERS[solver]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PuLP announces here what its next major will drop
        for name in names:
            if name == "HiGHS" and find_spec("highspy") is None:
                continue
            gap = max(_GAP, options.relative_gap)
            # CBC 2.10.3, which PuLP 3 brings, can lose the optimum of a problem of six variables
            # in its preprocessing ("substitutions").
            more = {"options": ["preprocess off"]} if solver == "cbc" else {}
            made = getattr(pulp, name)(msg=False, timeLimit=options.time_limit, gapRel=gap, **more)
            if made.available():
                return made
    raise MissingExtraError(f"solver {solver!r} is not installed; {how}")


def solve_binary(programme: BinaryProgramme, solver: Any) -> tuple[BoolArray | None, str]:
    """Solve a programme with a PuLP solver.

    Returns
    -------
    array or None
        The variables at 1, shape (n,), rounded and checked again against every constraint; None
        if there is no solution or none was found.
    str
        ``optimal``, ``feasible`` (stopped early), ``infeasible`` or ``unknown``.
    """
    import pulp

    n = len(programme.costs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        variables = [pulp.LpVariable(f"x{i}", cat="Binary") for i in range(n)]
        problem = pulp.LpProblem("selection", pulp.LpMinimize)
        problem += pulp.LpAffineExpression(
            list(zip(variables, programme.costs.tolist(), strict=True))
        )
        rows = programme.rows
        for r in range(rows.shape[0]):
            part = slice(rows.indptr[r], rows.indptr[r + 1])
            where, values = rows.indices[part].tolist(), rows.data[part].tolist()
            terms = [(variables[i], value) for i, value in zip(where, values, strict=True)]
            for constraint in _sides(terms, programme.lower[r], programme.upper[r]):
                problem += constraint
        problem.solve(solver)
    if problem.status == pulp.LpStatusInfeasible:
        return None, "infeasible"
    chosen = np.array([round(v.varValue or 0.0) for v in variables], dtype=bool)
    sums = rows @ chosen.astype(np.float64)
    slack = 1e-6 * np.maximum(1.0, abs(rows) @ chosen.astype(np.float64))
    within = (sums >= programme.lower - slack) & (sums <= programme.upper + slack)
    if not within.all():
        return None, "unknown"
    return chosen, "optimal" if problem.sol_status == pulp.LpSolutionOptimal else "feasible"


def _sides(terms: Sequence[tuple[Any, float]], lower: float, upper: float) -> list[Any]:
    import pulp

    expression = pulp.LpAffineExpression(list(terms))
    if lower == upper:
        return [expression == lower]
    sides = []
    if np.isfinite(lower):
        sides.append(expression >= lower)
    if np.isfinite(upper):
        sides.append(expression <= upper)
    return sides
