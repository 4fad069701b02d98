"""Selection under constraints: an integer programme over few columns, bounded over all of them.

The columns are (role, sentence) choices, millions of them where there are many sentences. Those of
the linear relaxation are generated: the dual prices of the columns present tell which of all the
others could still improve it. When none can, its optimum bounds every selection, and a choice whose
reduced cost exceeds the distance between that bound and a known selection is in no better one. The
remaining columns go to the solver, by way of PuLP, which is imported when first needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, diags_array, hstack, vstack

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InfeasibleError, MissingExtraError, UnknownNameError
from contstim.selection.assignment import AssignmentProblem
from contstim.selection.constraints import ConstraintRows

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


#: More choices than this are not handed to a solver.
MAX_COLUMNS = 400_000

_TOLERANCE = 1e-7


@dataclass(frozen=True, eq=False)
class Programmed:
    """A selection under constraints.

    Attributes
    ----------
    chosen
        For each role the rows of its sentences, that of least cost first.
    relaxation
        Lower bound on the cost of every selection, from the linear relaxation over all choices.
    proven
        Whether the solver proved the optimum over all choices that can matter.
    """

    chosen: list[IntArray]
    relaxation: float
    proven: bool


@dataclass(frozen=True, eq=False)
class _Columns:
    """Choices: `role` and `row` of each, shape (n,) both."""

    role: IntArray
    row: IntArray


@dataclass(frozen=True, eq=False)
class _Dual:
    """Dual prices of roles (A,), sentences (S,), and constraints' upper and lower sides."""

    roles: FloatArray
    sentences: FloatArray
    upper: FloatArray
    lower: FloatArray


def solve_programme(
    problem: AssignmentProblem, constraints: ConstraintRows, options: SolverOptions
) -> Programmed:
    """Choose sentences at the least cost under `constraints`, through PuLP.

    Raises
    ------
    InfeasibleError
        Naming the constraints or roles that cannot be met.
    """
    engine = make_solver(options)
    columns, _, _ = _generate(problem, constraints, _first(problem), feasibility=True)
    _, dual, _ = _generate(problem, constraints, columns, feasibility=False)
    bound = _lagrange_bound(problem, constraints, dual)
    # Costs are whole numbers, so the bound may be rounded up, but for rounding errors.
    bound = float(np.ceil(bound - _TOLERANCE * max(1.0, abs(bound))))
    distance = _first_distance(problem, constraints, dual)
    best: list[IntArray] | None = None
    while True:
        columns, everything = _within(problem, constraints, dual, distance)
        if len(columns.role) > MAX_COLUMNS:
            if best is None:
                raise InfeasibleError(
                    f"no selection found among the {MAX_COLUMNS} most promising choices; "
                    "loosen a constraint or filter the sentences"
                )
            return Programmed(best, bound, proven=False)
        chosen, state = _integer(problem, constraints, columns, engine)
        if chosen is None:
            if everything and state == "infeasible":
                raise InfeasibleError(
                    "every constraint can be met in fractions of sentences, but not in whole ones: "
                    f"{some(constraints.names)}; loosen one"
                )
            if everything:
                raise InfeasibleError(
                    f"solver {engine.name} found no selection in the time allowed; "
                    "allow more, loosen a constraint or use another solver"
                )
            distance *= 8
            continue
        if best is None or _cost(problem, chosen) < _cost(problem, best):
            best = chosen
        excess = _cost(problem, best) - bound
        if excess <= 0:
            return Programmed(best, bound, proven=True)
        proven = state == "optimal" and options.exact
        if not proven or everything or excess <= distance:
            return Programmed(best, bound, proven)
        distance = excess


def feasible_choices(problem: AssignmentProblem, constraints: ConstraintRows) -> list[IntArray]:
    """Return for each role the rows of a selection, in fractions, that keeps the constraints.

    Raises
    ------
    InfeasibleError
        Naming the constraints that cannot be met, and by how much.
    """
    columns, _, share = _generate(problem, constraints, _first(problem), feasibility=True)
    used = share > _TOLERANCE
    return [columns.row[used & (columns.role == a)] for a in range(len(problem.roles))]


def _first(problem: AssignmentProblem) -> _Columns:
    lists = [problem.least_costly(role, max(16, 3 * role.count)) for role in problem.roles]
    return _Columns(np.repeat(np.arange(len(lists)), [len(x) for x in lists]), np.hstack(lists))


def _first_distance(problem: AssignmentProblem, constraints: ConstraintRows, dual: _Dual) -> float:
    """Return a reduced cost that leaves some tens of choices a sentence wanted: mostly ample."""
    reduced = [costs for _, costs in _reduced(problem, constraints, dual, feasibility=False)]
    every = np.hstack(reduced)
    count = min(20 * problem.total, len(every)) - 1
    return max(1.0, float(np.partition(every, count)[count]))


def _cost(problem: AssignmentProblem, chosen: list[IntArray]) -> float:
    pairs = zip(problem.roles, chosen, strict=True)
    return float(sum(problem.doubled[of_role, role.reject].sum() for role, of_role in pairs))


def some(names: Sequence[str]) -> str:
    """Return the first three names, and how many there are besides."""
    shown = "; ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _costs(problem: AssignmentProblem, columns: _Columns) -> FloatArray:
    reject = np.array([role.reject for role in problem.roles])
    return np.asarray(problem.doubled[columns.row, reject[columns.role]], dtype=np.float64)


def _incidence(
    problem: AssignmentProblem, columns: _Columns
) -> tuple[csr_array, csr_array, IntArray]:
    """Return roles by choices, sentences by choices, and which sentences those are."""
    n = len(columns.role)
    ones, where = np.ones(n), np.arange(n)
    places = csr_array(coo_array((ones, (columns.role, where)), shape=(len(problem.roles), n)))
    rows, compact = np.unique(columns.row, return_inverse=True)
    uses = csr_array(coo_array((ones, (compact, where)), shape=(len(rows), n)))
    return places, uses, rows


def _constraint_matrix(constraints: ConstraintRows, columns: _Columns) -> csr_array:
    """Return the weights of the choices, shape (number of constraints, n)."""
    blocks, places = [], []
    for a, weights in enumerate(constraints.weights):
        of_role = np.flatnonzero(columns.role == a)
        blocks.append(weights[columns.row[of_role]])
        places.append(of_role)
    order = np.argsort(np.hstack(places), kind="stable")
    return csr_array(csr_array(vstack(blocks, format="csr"))[order].T)


def _generate(
    problem: AssignmentProblem, constraints: ConstraintRows, columns: _Columns, *, feasibility: bool
) -> tuple[_Columns, _Dual, FloatArray]:
    """Solve the linear relaxation over all choices, adding those that improve it.

    Returns the choices that it needed, the prices, and how much of each is chosen.

    With `feasibility` the shortfall of roles and constraints is minimised, and an
    :class:`~contstim.errors.InfeasibleError` raised where it cannot be 0.
    """
    n_rows = len(problem.doubled)
    while True:
        shortfall, dual, share = _relax(problem, constraints, columns, feasibility=feasibility)
        roles, rows = [columns.role], [columns.row]
        for a, (allowed, reduced) in enumerate(_reduced(problem, constraints, dual, feasibility)):
            better = np.flatnonzero(reduced < -_TOLERANCE)
            most = better[np.argsort(reduced[better], kind="stable")[:200]]
            roles.append(np.full(len(most), a))
            rows.append(allowed[most])
        key = np.unique(np.hstack(roles) * n_rows + np.hstack(rows))
        if len(key) == len(columns.role):
            break
        columns = _Columns(key // n_rows, key % n_rows)
    if shortfall:
        raise InfeasibleError(
            f"the constraints cannot be met together: what falls short is {some(shortfall)}; "
            "loosen a constraint or add sentences"
        )
    return columns, dual, share


def _relax(
    problem: AssignmentProblem, constraints: ConstraintRows, columns: _Columns, *, feasibility: bool
) -> tuple[list[str], _Dual, FloatArray]:
    """Solve the relaxation over `columns`; return what falls short, the prices and the choice."""
    places, uses, rows = _incidence(problem, columns)
    matrix = _constraint_matrix(constraints, columns)
    scale = np.ones(matrix.shape[0])
    for weights in constraints.weights:
        scale = np.maximum(scale, abs(weights).max(axis=0).toarray().ravel())
    matrix = csr_array(diags_array(1.0 / scale) @ matrix)
    up, low = np.isfinite(constraints.upper), np.isfinite(constraints.lower)
    inequalities = [uses, matrix[up], -matrix[low]]
    limits = np.hstack(
        [np.ones(len(rows)), (constraints.upper / scale)[up], -(constraints.lower / scale)[low]]
    )
    below = csr_array(vstack(inequalities, format="csr"))
    equal = places
    costs = _costs(problem, columns)
    if feasibility:
        n_constraints = int(up.sum() + low.sum())
        elastic = coo_array(
            (
                -np.ones(n_constraints),
                (len(rows) + np.arange(n_constraints), np.arange(n_constraints)),
            ),
            shape=(below.shape[0], n_constraints),
        )
        n_roles = len(problem.roles)
        below = csr_array(hstack([below, csr_array((below.shape[0], n_roles)), elastic]))
        equal = csr_array(
            hstack([places, diags_array(np.ones(n_roles)), csr_array((n_roles, n_constraints))])
        )
        # Missing sentences cost more, so that constraints are named where either could be.
        short = np.hstack([np.full(n_roles, 10.0), np.ones(n_constraints)])
        costs = np.hstack([np.zeros(len(costs)), short])
    wanted = np.array([role.count for role in problem.roles], dtype=np.float64)
    solve: Any = linprog  # its type stubs know nothing of sparse matrices
    answer = solve(costs, A_ub=below, b_ub=limits, A_eq=equal, b_eq=wanted, method="highs")
    if answer.status != 0:
        raise InfeasibleError(f"the linear relaxation was not solved: {answer.message}")
    prices = answer.ineqlin.marginals
    sentences = np.zeros(len(problem.doubled))
    sentences[rows] = prices[: len(rows)]
    upper, lower = np.zeros(len(scale)), np.zeros(len(scale))
    end = len(rows) + int(up.sum())
    upper[up] = prices[len(rows) : end] / scale[up]
    lower[low] = prices[end:] / scale[low]
    dual = _Dual(answer.eqlin.marginals, sentences, upper, lower)
    shortfall = []
    if feasibility:
        sides = np.hstack([np.flatnonzero(up), np.flatnonzero(low)])
        names = [*map(str, problem.roles), *(constraints.names[i] for i in sides)]
        units = np.hstack([np.ones(len(problem.roles)), (scale / constraints.units)[sides]])
        missing = answer.x[len(columns.role) :]
        shortfall = [
            f"{names[i]}, by {missing[i] * units[i]:.3g}" for i in np.flatnonzero(missing > 1e-6)
        ]
    return shortfall, dual, answer.x[: len(columns.role)]


def _reduced(
    problem: AssignmentProblem, constraints: ConstraintRows, dual: _Dual, feasibility: bool
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield for each role its allowed rows and their reduced costs."""
    net = dual.upper - dual.lower
    for a, role in enumerate(problem.roles):
        allowed = np.flatnonzero(problem.allowed(role))
        reduced = -dual.roles[a] - dual.sentences[allowed] - constraints.weights[a][allowed] @ net
        if not feasibility:
            reduced += problem.doubled[allowed, role.reject]
        yield allowed, reduced


def _lagrange_bound(problem: AssignmentProblem, constraints: ConstraintRows, dual: _Dual) -> float:
    """Return the Lagrangian bound over all choices, for any dual prices of the right sign."""
    bound = float(dual.roles @ [role.count for role in problem.roles] + dual.sentences.sum())
    up, low = np.isfinite(constraints.upper), np.isfinite(constraints.lower)
    bound += float(
        dual.upper[up] @ constraints.upper[up] - dual.lower[low] @ constraints.lower[low]
    )
    for _, reduced in _reduced(problem, constraints, dual, feasibility=False):
        bound += float(np.minimum(reduced, 0.0).sum())
    return bound


def _within(
    problem: AssignmentProblem, constraints: ConstraintRows, dual: _Dual, distance: float
) -> tuple[_Columns, bool]:
    """Return the choices of reduced cost up to `distance`, and whether those are all."""
    roles, rows, everything = [], [], True
    for a, (allowed, reduced) in enumerate(_reduced(problem, constraints, dual, feasibility=False)):
        of_role = allowed[reduced <= distance + _TOLERANCE * max(1.0, distance)]
        everything = everything and len(of_role) == len(allowed)
        roles.append(np.full(len(of_role), a))
        rows.append(of_role)
    return _Columns(np.hstack(roles), np.hstack(rows)), everything


def _integer(
    problem: AssignmentProblem, constraints: ConstraintRows, columns: _Columns, engine: Any
) -> tuple[list[IntArray] | None, str]:
    places, uses, _ = _incidence(problem, columns)
    shared = uses[np.diff(uses.indptr) > 1]
    wanted = np.array([role.count for role in problem.roles], dtype=np.float64)
    matrix = csr_array(
        vstack([places, shared, _constraint_matrix(constraints, columns)], format="csr")
    )
    lower = np.hstack([wanted, np.full(shared.shape[0], -np.inf), constraints.lower])
    upper = np.hstack([wanted, np.ones(shared.shape[0]), constraints.upper])
    programme = BinaryProgramme(_costs(problem, columns), matrix, lower, upper)
    answer, state = solve_binary(programme, engine)
    if answer is None:
        return None, state
    chosen = []
    for a, role in enumerate(problem.roles):
        of_role = columns.row[answer & (columns.role == a)]
        chosen.append(of_role[np.lexsort((of_role, problem.doubled[of_role, role.reject]))])
    return chosen, state
