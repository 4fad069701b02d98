"""Exact selection of sentences for the roles of model pairs: an assignment problem, with proof.

A *role* is an ordered pair of models, one that rejects and one that accepts, with a number of
sentences. A sentence may be assigned to a role if the accepting model ranks it high enough, at the
cost of its rank under the rejecting model. Every condition concerns one sentence, so the choice
of sentences is a transportation problem; which two make a pair is settled afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # which loads `optimize` at its first use
from scipy.sparse import csr_array

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InfeasibleError

#: What a sentence can be in a pair; model 1 accepts sentence 1, model 2 sentence 2.
ROLES = ("sentence_1", "sentence_2")


@dataclass(frozen=True)
class Role:
    """One role in the pairs of two models, for sentences that one rejects and the other accepts.

    Attributes
    ----------
    model_1, model_2
        The models of the pairs.
    role
        One of `ROLES`.
    reject, accept
        Columns of the two models in the table of ranks.
    count
        How many sentences are wanted.
    """

    model_1: str
    model_2: str
    role: str
    reject: int
    accept: int
    count: int

    def __str__(self) -> str:
        accept, reject = self.model_1, self.model_2
        if self.role == ROLES[1]:
            accept, reject = reject, accept
        return (
            f"model pair {self.model_1} and {self.model_2}, {self.role} (accepted by {accept}, "
            f"rejected by {reject})"
        )


@dataclass(frozen=True, eq=False)
class AssignmentProblem:
    """Which sentence may be assigned to which role, and at what cost.

    Attributes
    ----------
    reject_costs
        What it costs that a model rejects a sentence, whole numbers, shape (S, M); sentences in
        canonical order.
    accepted
        Whether a model ranks a sentence high enough to accept it, shape (S, M).
    rejected
        Whether a model ranks a sentence low enough to reject it, shape (S, M).
    roles
        The A roles.
    """

    reject_costs: IntArray
    accepted: BoolArray
    rejected: BoolArray
    roles: tuple[Role, ...]

    @property
    def total(self) -> int:
        """Number of sentences wanted, N."""
        return sum(role.count for role in self.roles)

    @cached_property
    def _orders(self) -> dict[int, IntArray]:
        columns = {role.reject for role in self.roles}
        return {m: np.argsort(self.reject_costs[:, m], kind="stable") for m in columns}

    def allowed(self, role: Role, rows: IntArray | slice = slice(None)) -> BoolArray:
        """Return which of the sentences `rows`, by default all, may be assigned to `role`."""
        return self.accepted[rows, role.accept] & self.rejected[rows, role.reject]

    def least_costly(self, role: Role, count: int) -> IntArray:
        """Return the `count` allowed sentences of `role` that cost least, or all there are."""
        order = self._orders[role.reject]
        length = 4 * count
        while True:
            head = order[:length]
            fit = self.allowed(role, head)
            if length >= len(order) or fit.sum() >= count:
                return np.asarray(head[fit][:count])
            length *= 4

    def in_order(self, chosen: Sequence[IntArray]) -> list[IntArray]:
        """Return each role's rows, that of least cost first; canonical rows settle equal ranks."""
        pairs = zip(self.roles, chosen, strict=True)
        return [
            rows[np.lexsort((rows, self.reject_costs[rows, role.reject]))] for role, rows in pairs
        ]

    def cost(self, chosen: Sequence[IntArray]) -> float:
        """Return the sum of the costs of each role's rows."""
        pairs = zip(self.roles, chosen, strict=True)
        return float(sum(self.reject_costs[rows, role.reject].sum() for role, rows in pairs))

    def costs(self, rows: IntArray) -> FloatArray:
        """Return the costs of the sentences `rows`, shape (A, len(rows)); inf where forbidden."""
        table = np.empty((len(self.roles), len(rows)))
        for a, role in enumerate(self.roles):
            costs = self.reject_costs[rows, role.reject]
            table[a] = np.where(self.allowed(role, rows), costs, np.inf)
        return table


def assign(problem: AssignmentProblem) -> list[IntArray]:
    """Choose the sentences of every role at the least total cost, each sentence at most once.

    Returns
    -------
    list of arrays
        For each role the rows of its sentences, that of least cost first.

    Raises
    ------
    InfeasibleError
        Naming the roles that cannot be filled together, and how many sentences they share.

    Notes
    -----
    Only the K sentences of each role that cost least are candidates. That this loses nothing is
    proved in two ways.

    *While solving.* A candidate that is not assigned has price 0 in the dual of the candidates'
    problem. If every role either has such a candidate in its own list, or a list that holds all
    its allowed sentences, then no role's price exceeds the cost of a sentence outside its list,
    hence the same prices (0 for the others) are feasible in the dual of the full problem, and
    the solution is optimal there too. Otherwise K is doubled.

    *In advance.* With K = N, the number of sentences wanted, the condition always holds: at most
    N - 1 others are assigned, or the list is complete. So the doubling ends, and a problem without
    a solution on N candidates a role has none at all.
    """
    for role in problem.roles:
        possible = int(problem.allowed(role).sum())
        if possible < role.count:
            raise InfeasibleError(
                f"{role}: {role.count} wanted, {possible} possible; "
                "ask for fewer pairs, lower the threshold or add sentences"
            )
    count = min(problem.total, max(16, 2 * max(role.count for role in problem.roles)))
    while True:
        lists = [problem.least_costly(role, count) for role in problem.roles]
        rows = np.unique(np.concatenate(lists))
        chosen = _solve(problem, rows)
        if chosen is not None:
            taken = np.concatenate(chosen)
            if all(len(listed) < count or not np.isin(listed, taken).all() for listed in lists):
                return chosen
        if count >= problem.total:
            if chosen is not None:
                return chosen
            raise InfeasibleError(_shortage(problem, rows))
        count = min(problem.total, 2 * count)


def _solve(problem: AssignmentProblem, rows: IntArray) -> list[IntArray] | None:
    place_role = np.repeat(np.arange(len(problem.roles)), [s.count for s in problem.roles])
    if len(rows) < len(place_role):
        return None
    costs = problem.costs(rows)
    try:
        _, columns = scipy.optimize.linear_sum_assignment(costs[place_role])
    except ValueError:  # SciPy's way to say that no complete assignment exists
        return None
    chosen = [rows[columns[place_role == a]] for a in range(len(problem.roles))]
    return problem.in_order(chosen)


def _shortage(problem: AssignmentProblem, rows: IntArray) -> str:
    """Find roles that have fewer sentences among them than places (Hall's condition)."""
    allowed = np.isfinite(problem.costs(rows))
    place_role = np.repeat(np.arange(len(problem.roles)), [s.count for s in problem.roles])
    from scipy.sparse.csgraph import maximum_bipartite_matching  # few need it, and it loads much

    match = maximum_bipartite_matching(csr_array(allowed[place_role]), perm_type="column")
    role_of = np.full(len(rows), -1)
    role_of[match[match >= 0]] = place_role[match >= 0]
    short = {int(place_role[np.flatnonzero(match < 0)[0]])}
    while True:
        reach = allowed[sorted(short)].any(axis=0)
        grown = short | {int(a) for a in role_of[reach] if a >= 0}
        if grown == short:
            break
        short = grown
    places = sum(problem.roles[a].count for a in short)
    names = [str(problem.roles[a]) for a in sorted(short)]
    shown = "; ".join(names[:4]) + (f"; and {len(names) - 4} more" if len(names) > 4 else "")
    return (
        f"{places} different sentences wanted, {int(reach.sum())} possible, for {shown}; "
        "ask for fewer pairs, lower the threshold or add sentences"
    )
