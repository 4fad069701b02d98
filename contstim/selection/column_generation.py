"""Selection under constraints: an integer programme over few columns, bounded over all of them.

The columns are (role, sentence) choices, millions of them where there are many sentences. Those of
the linear relaxation are generated: the dual prices of the columns present tell which of all the
others could still improve it. When none can, its optimum bounds every selection, and a choice whose
reduced cost exceeds the distance between that bound and a known selection is in no better one. The
remaining columns go to HiGHS, through PuLP.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy  # which loads `optimize` at its first use
from scipy.sparse import csr_array, diags_array, eye_array, hstack, vstack

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InfeasibleError
from contstim.selection.assignment import AssignmentProblem
from contstim.selection.constraints import ConstraintRows
from contstim.selection.highs import minimise

#: More choices than this are not handed to a solver.
MAX_COLUMNS = 400_000

_TOLERANCE = 1e-7


def assign_with_constraints(
    problem: AssignmentProblem, constraints: ConstraintRows, time_limit: float | None
) -> tuple[list[IntArray], float, bool]:
    """Choose sentences at the least cost under `constraints`, through PuLP.

    Returns
    -------
    list of array
        For each role the rows of its sentences, that of least cost first.
    float
        Lower bound on the cost of every selection, from the linear relaxation over all choices.
    bool
        Whether the solver proved the optimum over all choices that can matter.

    Raises
    ------
    InfeasibleError
        Naming the constraints or roles that cannot be met.
    """
    relaxation = _Relaxation(problem, constraints)
    columns, _, _ = relaxation.generate(relaxation.first(), feasibility=True)
    _, dual, _ = relaxation.generate(columns, feasibility=False)
    bound = relaxation.bound(dual)
    # Costs are whole numbers, so the bound may be rounded up, but for rounding errors.
    bound = float(np.ceil(bound - _TOLERANCE * max(1.0, abs(bound))))
    distance = relaxation.first_distance(dual)
    best: list[IntArray] | None = None
    while True:
        columns, everything = relaxation.within(dual, distance)
        if len(columns.role) > MAX_COLUMNS:
            if best is None:
                raise InfeasibleError(
                    f"no selection found among the {MAX_COLUMNS} most promising choices; "
                    "loosen a constraint or filter the sentences"
                )
            return best, bound, False
        chosen, state = relaxation.integer(columns, time_limit)
        if chosen is None:
            if everything and state == "infeasible":
                raise InfeasibleError(
                    "every constraint can be met in fractions of sentences, but not in whole ones: "
                    f"{some(constraints.names)}; loosen one"
                )
            if everything:
                raise InfeasibleError(
                    f"HiGHS found no selection within the time limit of {time_limit:g} s; "
                    "raise time_limit or loosen a constraint"
                )
            distance *= 8
            continue
        if best is None or problem.cost(chosen) < problem.cost(best):
            best = chosen
        excess = problem.cost(best) - bound
        proven = state == "optimal"
        if not proven or everything or excess <= max(0.0, distance):
            return best, bound, proven or excess <= 0
        distance = excess


def feasible_choices(problem: AssignmentProblem, constraints: ConstraintRows) -> list[IntArray]:
    """Return for each role the rows of a selection, in fractions, that keeps the constraints.

    Raises
    ------
    InfeasibleError
        Naming the constraints that cannot be met, and by how much.
    """
    relaxation = _Relaxation(problem, constraints)
    columns, _, share = relaxation.generate(relaxation.first(), feasibility=True)
    used = share > _TOLERANCE
    return [columns.row[used & (columns.role == a)] for a in range(len(problem.roles))]


def some(names: Sequence[str]) -> str:
    """Return the first three names, and how many there are besides."""
    shown = "; ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


class _Columns(NamedTuple):
    """Choices: `role` and `row` of each, shape (n,) both."""

    role: IntArray
    row: IntArray


class _Dual(NamedTuple):
    """Dual prices of roles (A,), sentences (S,) and the sides of constraints (B,)."""

    roles: FloatArray
    sentences: FloatArray
    sides: FloatArray


class _Relaxation:
    """The linear relaxation over all choices, and what its prices say of them.

    A constraint has one or two sides: B of them in all, each of which is at most its limit.
    """

    def __init__(self, problem: AssignmentProblem, constraints: ConstraintRows) -> None:
        self.problem, self.constraints = problem, constraints
        self.wanted = np.array([role.count for role in problem.roles], dtype=np.float64)
        up, low = np.isfinite(constraints.upper), np.isfinite(constraints.lower)
        self.sides = np.hstack([np.flatnonzero(up), np.flatnonzero(low)])  # of which constraint
        self.signs = np.repeat([1.0, -1.0], [up.sum(), low.sum()])
        self.limits = np.hstack([constraints.upper[up], -constraints.lower[low]])
        self.scale = np.ones(len(constraints.names))
        for weights in constraints.weights:
            self.scale = np.maximum(self.scale, abs(weights).max(axis=0).toarray().ravel())

    def first(self) -> _Columns:
        """Return the choices that each role begins with."""
        roles = self.problem.roles
        lists = [self.problem.least_costly(role, max(16, 3 * role.count)) for role in roles]
        return _Columns(np.repeat(np.arange(len(lists)), [len(x) for x in lists]), np.hstack(lists))

    def first_distance(self, dual: _Dual) -> float:
        """Return a reduced cost that leaves tens of choices a sentence wanted: mostly ample."""
        every = np.hstack([costs for _, costs in self._reduced(dual, feasibility=False)])
        count = min(20 * self.problem.total, len(every)) - 1
        return max(1.0, float(np.partition(every, count)[count]))

    def generate(
        self, columns: _Columns, *, feasibility: bool
    ) -> tuple[_Columns, _Dual, FloatArray]:
        """Solve the linear relaxation over all choices, adding those that improve it.

        Returns the choices that it needed, the prices, and how much of each is chosen.

        With `feasibility` the shortfall of roles and constraints is minimised, and an
        :class:`~contstim.errors.InfeasibleError` raised where it cannot be 0.
        """
        n_rows = len(self.problem.reject_costs)
        while True:
            shortfall, dual, share = self._relax(columns, feasibility=feasibility)
            roles, rows = [columns.role], [columns.row]
            for a, (allowed, reduced) in enumerate(self._reduced(dual, feasibility)):
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
        self, columns: _Columns, *, feasibility: bool
    ) -> tuple[list[str], _Dual, FloatArray]:
        """Solve the relaxation over `columns`; return what falls short, the prices and shares."""
        places, uses, rows = self._incidence(columns)
        n_roles, n_sides = len(self.wanted), len(self.sides)
        scale = self.scale[self.sides]
        sided = diags_array(self.signs / scale) @ self._weights(columns)[self.sides]
        below, equal, costs = vstack([uses, sided], format="csr"), places, self._costs(columns)
        if feasibility:
            # Missing sentences cost more, so that constraints are named where either could be.
            elastic = vstack([csr_array((len(rows), n_sides)), -eye_array(n_sides)], format="csr")
            below = hstack([below, csr_array((below.shape[0], n_roles)), elastic], format="csr")
            equal = hstack(
                [places, eye_array(n_roles), csr_array((n_roles, n_sides))], format="csr"
            )
            costs = np.repeat([0.0, 10.0, 1.0], [len(costs), n_roles, n_sides])
        limits = np.hstack([np.ones(len(rows)), self.limits / scale])
        solve: Any = scipy.optimize.linprog  # its type stubs know nothing of sparse matrices
        answer = solve(costs, below, limits, equal, self.wanted, method="highs")
        if answer.status != 0:
            raise InfeasibleError(f"the linear relaxation was not solved: {answer.message}")
        prices = answer.ineqlin.marginals
        sentences = np.zeros(len(self.problem.reject_costs))
        sentences[rows] = prices[: len(rows)]
        dual = _Dual(answer.eqlin.marginals, sentences, prices[len(rows) :] / scale)
        missing = answer.x[len(columns.role) :]
        if feasibility:
            missing = missing * np.hstack(
                [np.ones(n_roles), scale / self.constraints.units[self.sides]]
            )
        names = [*map(str, self.problem.roles), *(self.constraints.names[i] for i in self.sides)]
        shortfall = [
            f"{name}, by {by:.3g}" for name, by in zip(names, missing, strict=False) if by > 1e-6
        ]
        return shortfall, dual, answer.x[: len(columns.role)]

    def _reduced(self, dual: _Dual, feasibility: bool) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield for each role its allowed rows and their reduced costs."""
        net = np.bincount(self.sides, self.signs * dual.sides, len(self.scale))
        for a, role in enumerate(self.problem.roles):
            allowed = np.flatnonzero(self.problem.allowed(role))
            weighted = self.constraints.weights[a][allowed] @ net
            reduced = -dual.roles[a] - dual.sentences[allowed] - weighted
            if not feasibility:
                reduced += self.problem.reject_costs[allowed, role.reject]
            yield allowed, reduced

    def bound(self, dual: _Dual) -> float:
        """Return the Lagrangian bound over all choices, for any dual prices of the right sign."""
        bound = dual.roles @ self.wanted + dual.sentences.sum() + dual.sides @ self.limits
        for _, reduced in self._reduced(dual, feasibility=False):
            bound += np.minimum(reduced, 0.0).sum()
        return float(bound)

    def within(self, dual: _Dual, distance: float) -> tuple[_Columns, bool]:
        """Return the choices of reduced cost up to `distance`, and whether those are all."""
        roles, rows, everything = [], [], True
        for a, (allowed, reduced) in enumerate(self._reduced(dual, feasibility=False)):
            of_role = allowed[reduced <= distance + _TOLERANCE * max(1.0, distance)]
            everything = everything and len(of_role) == len(allowed)
            roles.append(np.full(len(of_role), a))
            rows.append(of_role)
        return _Columns(np.hstack(roles), np.hstack(rows)), everything

    def integer(
        self, columns: _Columns, time_limit: float | None
    ) -> tuple[list[IntArray] | None, str]:
        """Choose whole sentences among `columns`; return them by role, and the solver's status."""
        places, uses, _ = self._incidence(columns)
        shared = uses[np.diff(uses.indptr) > 1]
        matrix = csr_array(vstack([places, shared, self._weights(columns)], format="csr"))
        free, once = np.full(shared.shape[0], -np.inf), np.ones(shared.shape[0])
        lower = np.hstack([self.wanted, free, self.constraints.lower])
        upper = np.hstack([self.wanted, once, self.constraints.upper])
        answer = minimise(self._costs(columns), matrix, lower, upper, time_limit=time_limit)
        if answer.x is None:
            return None, answer.status
        used = answer.x > 0.5
        roles = range(len(self.wanted))
        chosen = [columns.row[used & (columns.role == a)] for a in roles]
        return self.problem.in_order(chosen), answer.status

    def _costs(self, columns: _Columns) -> FloatArray:
        reject = np.array([role.reject for role in self.problem.roles])
        costs = self.problem.reject_costs[columns.row, reject[columns.role]]
        return np.asarray(costs, dtype=np.float64)

    def _incidence(self, columns: _Columns) -> tuple[csr_array, csr_array, IntArray]:
        """Return roles by choices, sentences by choices, and which sentences those are."""
        n = len(columns.role)
        ones, where = np.ones(n), np.arange(n)
        places = csr_array((ones, (columns.role, where)), shape=(len(self.wanted), n))
        rows, compact = np.unique(columns.row, return_inverse=True)
        return places, csr_array((ones, (compact, where)), shape=(len(rows), n)), rows

    def _weights(self, columns: _Columns) -> csr_array:
        """Return the weights of the choices, shape (number of constraints, n)."""
        of_roles = [np.flatnonzero(columns.role == a) for a in range(len(self.wanted))]
        blocks = [
            weights[columns.row[of_role]]
            for weights, of_role in zip(self.constraints.weights, of_roles, strict=True)
        ]
        order = np.argsort(np.hstack(of_roles), kind="stable")
        return csr_array(csr_array(vstack(blocks, format="csr"))[order].T)
