"""Exact selection of sentences for seats: an assignment problem on a few candidates, with proof.

A *slot* is an ordered pair of models, one that rejects and one that accepts, with a number of
*seats*. A sentence may take a seat of a slot if the accepting model ranks it high enough, at the
cost of its rank under the rejecting model. Every condition concerns one sentence, so the choice
of sentences is a transportation problem; who meets whom in a pair is settled afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InfeasibleError

__all__ = ["SeatProblem", "Slot", "assign_seats", "dual_bound"]


@dataclass(frozen=True)
class Slot:
    """Seats of one role in one model pair, for sentences that one model rejects, one accepts.

    Attributes
    ----------
    reject, accept
        Columns of the two models in the table of ranks.
    seats
        How many sentences are wanted.
    name
        The pair and role, for messages.
    """

    reject: int
    accept: int
    seats: int
    name: str


@dataclass(frozen=True, eq=False)
class SeatProblem:
    """Which sentence may take a seat where, and at what cost.

    Attributes
    ----------
    doubled
        Twice the ranks, shape (S, M), of sentences in canonical order.
    accepted
        Whether a model ranks a sentence high enough to accept it, shape (S, M).
    rejected
        Whether a model ranks a sentence low enough to reject it, shape (S, M).
    slots
        The A slots.
    """

    doubled: IntArray
    accepted: BoolArray
    rejected: BoolArray
    slots: tuple[Slot, ...]

    @property
    def total(self) -> int:
        """Number of seats, N."""
        return sum(slot.seats for slot in self.slots)

    @cached_property
    def _orders(self) -> dict[int, IntArray]:
        columns = {slot.reject for slot in self.slots}
        return {m: np.argsort(self.doubled[:, m], kind="stable") for m in columns}

    def allowed(self, slot: Slot) -> BoolArray:
        """Say which sentences may take a seat of `slot`, shape (S,)."""
        return self.accepted[:, slot.accept] & self.rejected[:, slot.reject]

    def cheapest(self, slot: Slot, count: int) -> IntArray:
        """Return the `count` cheapest allowed sentences of `slot`, or all if there are fewer."""
        order = self._orders[slot.reject]
        length = 4 * count
        while True:
            head = order[:length]
            fit = self.accepted[head, slot.accept] & self.rejected[head, slot.reject]
            if length >= len(order) or fit.sum() >= count:
                return np.asarray(head[fit][:count])
            length *= 4

    def costs(self, rows: IntArray) -> FloatArray:
        """Return the costs of the sentences `rows`, shape (A, len(rows)); inf where forbidden."""
        table = np.empty((len(self.slots), len(rows)))
        for a, slot in enumerate(self.slots):
            fit = self.accepted[rows, slot.accept] & self.rejected[rows, slot.reject]
            table[a] = np.where(fit, self.doubled[rows, slot.reject], np.inf)
        return table


def assign_seats(problem: SeatProblem) -> list[IntArray]:
    """Choose the sentences of every slot at the least total cost, each sentence at most once.

    Returns
    -------
    list of arrays
        For each slot the rows of its sentences, cheapest first.

    Raises
    ------
    InfeasibleError
        Naming the slots that cannot be filled together, and how many sentences they share.

    Notes
    -----
    Only the K cheapest sentences of each slot are candidates. That this loses nothing is proved
    in two ways.

    *While solving.* A candidate that no seat takes has price 0 in the dual of the candidates'
    problem. If every slot either has such a candidate in its own list, or a list that holds all
    its allowed sentences, then no slot's price exceeds the cost of a sentence outside its list,
    hence the same prices (0 for the others) are feasible in the dual of the full problem, and
    the solution is optimal there too. Otherwise K is doubled.

    *In advance.* With K = N, the number of seats, the condition always holds: at most N - 1 other
    seats are taken, or the list is complete. So the doubling ends, and a problem without a solution
    on N candidates a slot has none at all.
    """
    _refuse_short_slots(problem)
    count = min(problem.total, max(16, 2 * max(slot.seats for slot in problem.slots)))
    while True:
        lists = [problem.cheapest(slot, count) for slot in problem.slots]
        rows = np.unique(np.concatenate(lists))
        chosen = _solve(problem, rows)
        if chosen is not None:
            taken = np.concatenate(chosen)
            if all(len(own) < count or not np.isin(own, taken).all() for own in lists):
                return chosen
        if count >= problem.total:
            if chosen is not None:
                return chosen
            raise InfeasibleError(_shortage(problem, rows))
        count = min(problem.total, 2 * count)


def _solve(problem: SeatProblem, rows: IntArray) -> list[IntArray] | None:
    seat_slot = np.repeat(np.arange(len(problem.slots)), [s.seats for s in problem.slots])
    if len(rows) < len(seat_slot):
        return None
    costs = problem.costs(rows)
    try:
        _, columns = linear_sum_assignment(costs[seat_slot])
    except ValueError:  # SciPy's way to say that no complete assignment exists
        return None
    chosen = []
    for a, slot in enumerate(problem.slots):
        own = rows[columns[seat_slot == a]]
        # Canonical rows settle equal ranks.
        chosen.append(own[np.lexsort((own, problem.doubled[own, slot.reject]))])
    return chosen


def dual_bound(problem: SeatProblem, chosen: Sequence[IntArray]) -> float:
    """Return a lower bound on the total cost of every selection, from slot prices.

    For any prices u of the slots, ``sum_a seats_a u_a - sum_s max(0, max_a (u_a - c[s, a]))``
    is a lower bound (weak duality), the second sum being over all sentences. The prices are
    shortest paths: no slot pays more than its cheapest free sentence costs, nor more than
    another slot plus the cost of fetching one of its sentences. For an optimal `chosen` the
    bound equals its cost, which proves the optimum whatever solver found it.
    """
    slots = problem.slots
    taken = np.concatenate([*chosen])
    free = np.ones(len(problem.doubled), dtype=bool)
    free[taken] = False
    dear = 4.0 * (len(slots) + 1) * (float(problem.doubled.max()) + 1.0)
    prices = np.full(len(slots), dear)
    move = np.full((len(slots), len(slots)), np.inf)
    for a, (slot, own) in enumerate(zip(slots, chosen, strict=True)):
        open_to = free & problem.allowed(slot)
        if open_to.any():
            prices[a] = problem.doubled[open_to, slot.reject].min()
        if len(own):
            change = problem.costs(own) - problem.doubled[own, slot.reject]
            move[a] = change.min(axis=1)
    for _ in slots:
        lower = np.minimum(prices, (prices[:, None] + move).min(axis=0))
        if np.array_equal(lower, prices):
            break
        prices = lower
    worth = np.zeros(len(problem.doubled))
    for a, slot in enumerate(slots):
        gain = np.where(problem.allowed(slot), prices[a] - problem.doubled[:, slot.reject], 0.0)
        np.maximum(worth, gain, out=worth)
    return float(np.dot(prices, [slot.seats for slot in slots]) - worth.sum())


def _refuse_short_slots(problem: SeatProblem) -> None:
    for slot in problem.slots:
        possible = int(problem.allowed(slot).sum())
        if possible < slot.seats:
            raise InfeasibleError(
                f"{slot.name}: {slot.seats} wanted, {possible} possible; "
                "ask for fewer pairs, lower the threshold or add sentences"
            )


def _shortage(problem: SeatProblem, rows: IntArray) -> str:
    """Find slots that have fewer sentences among them than seats (Hall's condition)."""
    allowed = np.isfinite(problem.costs(rows))
    seat_slot = np.repeat(np.arange(len(problem.slots)), [s.seats for s in problem.slots])
    match = maximum_bipartite_matching(csr_array(allowed[seat_slot]), perm_type="column")
    slot_of = np.full(len(rows), -1)
    slot_of[match[match >= 0]] = seat_slot[match >= 0]
    short = {int(seat_slot[np.flatnonzero(match < 0)[0]])}
    while True:
        reach = allowed[sorted(short)].any(axis=0)
        grown = short | {int(a) for a in slot_of[reach] if a >= 0}
        if grown == short:
            break
        short = grown
    seats = sum(problem.slots[a].seats for a in short)
    names = [problem.slots[a].name for a in sorted(short)]
    shown = "; ".join(names[:4]) + (f"; and {len(names) - 4} more" if len(names) > 4 else "")
    return (
        f"{seats} different sentences wanted, {int(reach.sum())} possible, for {shown}; "
        "ask for fewer pairs, lower the threshold or add sentences"
    )
