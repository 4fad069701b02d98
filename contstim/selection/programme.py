"""Selection under wishes: an integer programme over few columns, with a bound over all of them.

The columns are (slot, sentence) choices. Those of the linear relaxation are generated: prices
from the columns at hand tell which of all the others could still improve it. When none can, its
optimum bounds every selection, and a choice whose reduced cost exceeds the distance between that
bound and a known selection is in no better one. The remaining columns go to the solver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, diags_array, hstack, vstack

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InfeasibleError
from contstim.selection.assignment import SeatProblem
from contstim.selection.solvers import (
    BinaryProgramme,
    SolverOptions,
    make_solver,
    solve_binary,
)
from contstim.selection.wishes import Rows

__all__ = ["Programmed", "solve_programme"]

#: More choices than this are not handed to a solver.
MAX_COLUMNS = 400_000

_TOLERANCE = 1e-7


@dataclass(frozen=True, eq=False)
class Programmed:
    """A selection under wishes.

    Attributes
    ----------
    chosen
        For each slot the rows of its sentences, cheapest first.
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
    """Choices: `slot` and `row` of each, shape (n,) both."""

    slot: IntArray
    row: IntArray


@dataclass(frozen=True, eq=False)
class _Dual:
    """Prices of slots (A,), sentences (S,), and wishes' upper and lower sides."""

    slots: FloatArray
    sentences: FloatArray
    upper: FloatArray
    lower: FloatArray


def solve_programme(problem: SeatProblem, wishes: Rows, options: SolverOptions) -> Programmed:
    """Choose sentences at the least cost under `wishes`, through PuLP.

    Raises
    ------
    InfeasibleError
        Naming the wishes or slots that cannot be met.
    """
    engine = make_solver(options)
    lists = [problem.cheapest(slot, max(16, 3 * slot.seats)) for slot in problem.slots]
    start = _Columns(np.repeat(np.arange(len(lists)), [len(x) for x in lists]), np.hstack(lists))
    columns, _ = _generate(problem, wishes, start, feasibility=True)
    _, dual = _generate(problem, wishes, columns, feasibility=False)
    bound = _lagrange_bound(problem, wishes, dual)
    # Costs are whole numbers, so the bound may be rounded up, but for rounding errors.
    bound = float(np.ceil(bound - _TOLERANCE * max(1.0, abs(bound))))
    room = _first_room(problem, wishes, dual)
    best: list[IntArray] | None = None
    while True:
        columns, everything = _within(problem, wishes, dual, room)
        if len(columns.slot) > MAX_COLUMNS:
            if best is None:
                raise InfeasibleError(
                    f"no selection found among the {MAX_COLUMNS} most promising choices; "
                    "loosen a wish or filter the sentences"
                )
            return Programmed(best, bound, proven=False)
        chosen, state = _integer(problem, wishes, columns, engine)
        if chosen is None:
            if everything and state == "infeasible":
                raise InfeasibleError(
                    "every wish can be met in fractions of sentences, but not in whole ones: "
                    f"{_some(wishes.names)}; loosen one"
                )
            if everything:
                raise InfeasibleError(
                    f"solver {engine.name} found no selection in the time allowed; "
                    "allow more, loosen a wish or use another solver"
                )
            room *= 8
            continue
        if best is None or _cost(problem, chosen) < _cost(problem, best):
            best = chosen
        excess = _cost(problem, best) - bound
        if excess <= 0:
            return Programmed(best, bound, proven=True)
        proven = state == "optimal" and options.exact
        if not proven or everything or excess <= room:
            return Programmed(best, bound, proven)
        room = excess


def _first_room(problem: SeatProblem, wishes: Rows, dual: _Dual) -> float:
    """Return a reduced cost that leaves some tens of choices a seat: ample for most wishes."""
    reduced = [costs for _, costs in _reduced(problem, wishes, dual, feasibility=False)]
    every = np.hstack(reduced)
    count = min(20 * problem.total, len(every)) - 1
    return max(1.0, float(np.partition(every, count)[count]))


def _cost(problem: SeatProblem, chosen: list[IntArray]) -> float:
    pairs = zip(problem.slots, chosen, strict=True)
    return float(sum(problem.doubled[own, slot.reject].sum() for slot, own in pairs))


def _some(names: list[str]) -> str:
    shown = "; ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _costs(problem: SeatProblem, columns: _Columns) -> FloatArray:
    reject = np.array([slot.reject for slot in problem.slots])
    return np.asarray(problem.doubled[columns.row, reject[columns.slot]], dtype=np.float64)


def _incidence(problem: SeatProblem, columns: _Columns) -> tuple[csr_array, csr_array, IntArray]:
    """Return slots by choices, sentences by choices, and which sentences those are."""
    n = len(columns.slot)
    ones, where = np.ones(n), np.arange(n)
    seats = csr_array(coo_array((ones, (columns.slot, where)), shape=(len(problem.slots), n)))
    rows, compact = np.unique(columns.row, return_inverse=True)
    uses = csr_array(coo_array((ones, (compact, where)), shape=(len(rows), n)))
    return seats, uses, rows


def _wish_matrix(wishes: Rows, columns: _Columns) -> csr_array:
    """Return the weights of the choices, shape (number of wish constraints, n)."""
    blocks, places = [], []
    for a, weights in enumerate(wishes.weights):
        own = np.flatnonzero(columns.slot == a)
        blocks.append(weights[columns.row[own]])
        places.append(own)
    order = np.argsort(np.hstack(places), kind="stable")
    return csr_array(csr_array(vstack(blocks, format="csr"))[order].T)


def _generate(
    problem: SeatProblem, wishes: Rows, columns: _Columns, *, feasibility: bool
) -> tuple[_Columns, _Dual]:
    """Solve the linear relaxation over all choices, adding those that improve it.

    With `feasibility` the shortfall of seats and wishes is minimised, and an
    :class:`~contstim.errors.InfeasibleError` raised where it cannot be 0.
    """
    n_rows = len(problem.doubled)
    while True:
        shortfall, dual = _relax(problem, wishes, columns, feasibility=feasibility)
        slots, rows = [columns.slot], [columns.row]
        for a, (allowed, reduced) in enumerate(_reduced(problem, wishes, dual, feasibility)):
            better = np.flatnonzero(reduced < -_TOLERANCE)
            most = better[np.argsort(reduced[better], kind="stable")[:200]]
            slots.append(np.full(len(most), a))
            rows.append(allowed[most])
        key = np.unique(np.hstack(slots) * n_rows + np.hstack(rows))
        if len(key) == len(columns.slot):
            break
        columns = _Columns(key // n_rows, key % n_rows)
    if shortfall:
        raise InfeasibleError(
            f"the wishes cannot be met together: what falls short is {_some(shortfall)}; "
            "loosen a wish or add sentences"
        )
    return columns, dual


def _relax(
    problem: SeatProblem, wishes: Rows, columns: _Columns, *, feasibility: bool
) -> tuple[list[str], _Dual]:
    """Solve the relaxation over `columns`; return what falls short and the prices."""
    seats, uses, rows = _incidence(problem, columns)
    matrix = _wish_matrix(wishes, columns)
    scale = np.ones(matrix.shape[0])
    for weights in wishes.weights:
        scale = np.maximum(scale, abs(weights).max(axis=0).toarray().ravel())
    matrix = csr_array(diags_array(1.0 / scale) @ matrix)
    up, low = np.isfinite(wishes.upper), np.isfinite(wishes.lower)
    inequalities = [uses, matrix[up], -matrix[low]]
    limits = np.hstack(
        [np.ones(len(rows)), (wishes.upper / scale)[up], -(wishes.lower / scale)[low]]
    )
    below = csr_array(vstack(inequalities, format="csr"))
    equal = seats
    costs = _costs(problem, columns)
    if feasibility:
        n_wishes = int(up.sum() + low.sum())
        elastic = coo_array(
            (-np.ones(n_wishes), (len(rows) + np.arange(n_wishes), np.arange(n_wishes))),
            shape=(below.shape[0], n_wishes),
        )
        n_slots = len(problem.slots)
        below = csr_array(hstack([below, csr_array((below.shape[0], n_slots)), elastic]))
        equal = csr_array(
            hstack([seats, diags_array(np.ones(n_slots)), csr_array((n_slots, n_wishes))])
        )
        # Empty seats are made dear, so that it is the wishes that are named where either could be.
        short = np.hstack([np.full(n_slots, 10.0), np.ones(n_wishes)])
        costs = np.hstack([np.zeros(len(costs)), short])
    wanted = np.array([slot.seats for slot in problem.slots], dtype=np.float64)
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
        names = [slot.name for slot in problem.slots]
        names += [wishes.names[i] for i in np.hstack([np.flatnonzero(up), np.flatnonzero(low)])]
        missing = answer.x[len(columns.slot) :] > 1e-6
        shortfall = list(dict.fromkeys(names[i] for i in np.flatnonzero(missing)))
    return shortfall, dual


def _reduced(
    problem: SeatProblem, wishes: Rows, dual: _Dual, feasibility: bool
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield for each slot its allowed rows and their reduced costs."""
    net = dual.upper - dual.lower
    for a, slot in enumerate(problem.slots):
        allowed = np.flatnonzero(problem.allowed(slot))
        reduced = -dual.slots[a] - dual.sentences[allowed] - wishes.weights[a][allowed] @ net
        if not feasibility:
            reduced += problem.doubled[allowed, slot.reject]
        yield allowed, reduced


def _lagrange_bound(problem: SeatProblem, wishes: Rows, dual: _Dual) -> float:
    """Return the Lagrangian bound: valid for any prices of the right sign, over all choices."""
    bound = float(dual.slots @ [slot.seats for slot in problem.slots] + dual.sentences.sum())
    up, low = np.isfinite(wishes.upper), np.isfinite(wishes.lower)
    bound += float(dual.upper[up] @ wishes.upper[up] - dual.lower[low] @ wishes.lower[low])
    for _, reduced in _reduced(problem, wishes, dual, feasibility=False):
        bound += float(np.minimum(reduced, 0.0).sum())
    return bound


def _within(problem: SeatProblem, wishes: Rows, dual: _Dual, room: float) -> tuple[_Columns, bool]:
    """Return the choices of reduced cost up to `room`, and whether those are all."""
    slots, rows, everything = [], [], True
    for a, (allowed, reduced) in enumerate(_reduced(problem, wishes, dual, feasibility=False)):
        own = allowed[reduced <= room + _TOLERANCE * max(1.0, room)]
        everything = everything and len(own) == len(allowed)
        slots.append(np.full(len(own), a))
        rows.append(own)
    return _Columns(np.hstack(slots), np.hstack(rows)), everything


def _integer(
    problem: SeatProblem, wishes: Rows, columns: _Columns, engine: Any
) -> tuple[list[IntArray] | None, str]:
    seats, uses, _ = _incidence(problem, columns)
    shared = uses[np.diff(uses.indptr) > 1]
    wanted = np.array([slot.seats for slot in problem.slots], dtype=np.float64)
    matrix = csr_array(vstack([seats, shared, _wish_matrix(wishes, columns)], format="csr"))
    lower = np.hstack([wanted, np.full(shared.shape[0], -np.inf), wishes.lower])
    upper = np.hstack([wanted, np.ones(shared.shape[0]), wishes.upper])
    programme = BinaryProgramme(_costs(problem, columns), matrix, lower, upper)
    answer, state = solve_binary(programme, engine)
    if answer is None:
        return None, state
    chosen = []
    for a, slot in enumerate(problem.slots):
        own = columns.row[answer & (columns.slot == a)]
        chosen.append(own[np.lexsort((own, problem.doubled[own, slot.reject]))])
    return chosen, state
