"""Selection of sentences for the roles of pairs of models: an assignment problem, solved exactly.

A *role* is an ordered pair of models, one that rejects and one that accepts, and a number of
sentences. Each sentence may take a role if the accepting model ranks it high enough; its cost is
its rank under the rejecting model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # loads `scipy.optimize` on first use
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InfeasibleError, format_count

#: Roles of the two sentences of a pair: model 1 accepts sentence 1, model 2 accepts sentence 2.
ROLES = ("sentence_1", "sentence_2")


@dataclass(frozen=True)
class Role:
    """Role of a sentence in the pairs of two models: rejected by one, accepted by the other.

    Attributes
    ----------
    model_1, model_2
        Names of the two models.
    role
        ``sentence_1`` or ``sentence_2``.
    reject, accept
        Columns of the rejecting and of the accepting model in the table of ranks.
    n_sentences
        Number of sentences to select for this role.
    """

    model_1: str
    model_2: str
    role: str
    reject: int
    accept: int
    n_sentences: int

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
    """Assignment of S sentences to A roles.

    With x[a, s] = 1 if sentence s takes role a:

        minimise    sum_{a, s} cost[s, reject(a)] x[a, s]
        subject to  sum_s x[a, s] = n_sentences(a)   for every role a,
                    sum_a x[a, s] <= 1               for every sentence s,
                    x[a, s] in {0, 1}, and 0 unless accept(a) accepts s and reject(a) may reject s.

    Attributes
    ----------
    reject_costs : (S, M) array of int
        Cost of the rejection of each sentence by each model.
    accepted : (S, M) array of bool
        Whether each model ranks each sentence high enough to accept it.
    rejected : (S, M) array of bool
        Whether each model ranks each sentence low enough to reject it.
    roles
        The A roles.
    """

    reject_costs: IntArray
    accepted: BoolArray
    rejected: BoolArray
    roles: tuple[Role, ...]

    @property
    def n_sentences(self) -> int:
        """Total number of sentences to select."""
        return sum(role.n_sentences for role in self.roles)

    @cached_property
    def cost_orders(self) -> dict[int, IntArray]:
        """Sentences by increasing cost, for each rejecting model."""
        columns = {role.reject for role in self.roles}
        return {m: np.argsort(self.reject_costs[:, m], kind="stable") for m in columns}

    def is_allowed(self, role: Role, rows: IntArray | slice = slice(None)) -> BoolArray:
        """Return a mask of the sentences among `rows` (default: all) that may take `role`."""
        return self.accepted[rows, role.accept] & self.rejected[rows, role.reject]

    def cheapest(self, role: Role, n: int) -> IntArray:
        """Return the `n` allowed sentences of lowest cost for `role`, or all if there are fewer."""
        order = self.cost_orders[role.reject]
        length = 4 * n
        while True:
            candidates = order[:length]
            allowed = candidates[self.is_allowed(role, candidates)]
            if length >= len(order) or len(allowed) >= n:
                return np.asarray(allowed[:n])
            length *= 4

    def sort_by_cost(self, chosen: Sequence[IntArray]) -> list[IntArray]:
        """Sort the chosen rows of each role by cost, equal costs by row."""
        return [
            rows[np.lexsort((rows, self.reject_costs[rows, role.reject]))]
            for role, rows in zip(self.roles, chosen, strict=True)
        ]

    def total_cost(self, chosen: Sequence[IntArray]) -> float:
        """Return the objective of a selection, given as the chosen rows of each role."""
        pairs = zip(self.roles, chosen, strict=True)
        return float(sum(self.reject_costs[rows, role.reject].sum() for role, rows in pairs))

    def cost_matrix(self, rows: IntArray) -> FloatArray:
        """Return the costs of the sentences `rows`, shape (A, n_rows); inf where not allowed."""
        costs = np.empty((len(self.roles), len(rows)))
        for a, role in enumerate(self.roles):
            role_costs = self.reject_costs[rows, role.reject]
            costs[a] = np.where(self.is_allowed(role, rows), role_costs, np.inf)
        return costs


def assign(problem: AssignmentProblem) -> list[IntArray]:
    """Solve an assignment problem exactly.

    Only the K cheapest sentences of each role are candidates. The result is optimal among all
    sentences if each role has an unassigned candidate or no sentence besides its candidates: an
    unassigned sentence has the dual price 0, so no role's price exceeds the cost of a sentence
    outside its candidates, and the same prices are feasible in the dual of the full problem.
    Otherwise K is doubled. When K reaches the total number of sentences to select, the condition is
    always satisfied.

    Parameters
    ----------
    problem
        The problem to solve.

    Returns
    -------
    list of arrays
        Rows of the chosen sentences of each role, by increasing cost.

    Raises
    ------
    InfeasibleError
        If some roles have too few sentences; the message names them and both numbers.
    """
    for role in problem.roles:
        n_available = int(problem.is_allowed(role).sum())
        if n_available < role.n_sentences:
            raise InfeasibleError(
                f"{role}: {format_count(role.n_sentences, 'sentence')} needed, {n_available} "
                "available; reduce per_pair (--per-pair) or add sentences"
            )
    n_candidates = min(
        problem.n_sentences, max(16, 2 * max(role.n_sentences for role in problem.roles))
    )
    places = np.repeat(np.arange(len(problem.roles)), [r.n_sentences for r in problem.roles])
    while True:
        candidates = [problem.cheapest(role, n_candidates) for role in problem.roles]
        rows = np.unique(np.concatenate(candidates))
        costs = problem.cost_matrix(rows)[places]
        try:
            _, columns = scipy.optimize.linear_sum_assignment(costs)
            is_complete = len(columns) == len(places)
        except ValueError:  # raised by SciPy if no complete assignment exists
            is_complete = False
        if is_complete:
            chosen = [rows[columns[places == a]] for a in range(len(problem.roles))]
            assigned = rows[columns]
            is_optimal = n_candidates >= problem.n_sentences or all(
                len(listed) < n_candidates or not np.isin(listed, assigned).all()
                for listed in candidates
            )
            if is_optimal:
                return problem.sort_by_cost(chosen)
        elif n_candidates >= problem.n_sentences:
            raise InfeasibleError(_describe_shortage(problem, np.isfinite(costs), places))
        n_candidates = min(problem.n_sentences, 2 * n_candidates)


def _describe_shortage(problem: AssignmentProblem, allowed: BoolArray, places: IntArray) -> str:
    """Name a set of roles with fewer allowed sentences than places (Hall's condition).

    Parameters
    ----------
    problem
        The problem without a solution.
    allowed : (n_places, n_rows) array of bool
        Whether each candidate sentence may take each place.
    places : (n_places,) array
        Role of each place.
    """
    match = maximum_bipartite_matching(csr_array(allowed), perm_type="column")
    role_by_row = np.full(allowed.shape[1], -1)
    role_by_row[match[match >= 0]] = places[match >= 0]

    # Alternating paths from an unmatched place: every reachable sentence is taken by a short role.
    short = {int(places[match < 0][0])}
    while True:
        is_reachable = allowed[np.isin(places, sorted(short))].any(axis=0)
        extended = short | {int(a) for a in role_by_row[is_reachable] if a >= 0}
        if extended == short:
            break
        short = extended
    n_needed = sum(problem.roles[a].n_sentences for a in short)
    names = [str(problem.roles[a]) for a in sorted(short)]
    listed = "; ".join(names[:4]) + (f"; and {len(names) - 4} more" if len(names) > 4 else "")
    return (
        f"{n_needed} different sentences needed, {int(is_reachable.sum())} available, for "
        f"{listed}; reduce per_pair (--per-pair) or add sentences"
    )
