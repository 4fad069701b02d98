"""Assignment of sentences to pairs of models that disagree about them, solved exactly.

A *role* is a pair of models, one that accepts a sentence (ranks it high) and one that rejects it
(ranks it low), with the number of sentences needed. A sentence may be assigned to a role if the
accepting model ranks it high enough. The cost is its rank under the rejecting model.
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
    """Position in the sentence pairs that compare two models: first or second sentence.

    A controversial pair consists of a sentence that model 1 accepts and model 2 rejects
    (``sentence_1``), and a sentence that model 2 accepts and model 1 rejects (``sentence_2``). A
    model accepts a sentence that it ranks high among all sentences, and rejects a sentence that it
    ranks low. Two models therefore define two roles. To select n sentence pairs for two models, n
    sentences are assigned to each of the roles.

    Attributes
    ----------
    model_1, model_2
        Names of the two models.
    role
        Position of the sentences in their pairs, ``sentence_1`` or ``sentence_2``.
    reject, accept
        Column indices of the rejecting model and of the accepting model in the arrays of
        `AssignmentProblem`.
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
        # Model 1 accepts first sentences and rejects second sentences; model 2 does the opposite.
        accept, reject = self.model_1, self.model_2
        if self.role == ROLES[1]:
            accept, reject = reject, accept
        return (
            f"model pair {self.model_1} and {self.model_2}, {self.role} (accepted by {accept}, "
            f"rejected by {reject})"
        )


@dataclass(frozen=True, eq=False)
class AssignmentProblem:
    """Assignment of S sentences to A roles at minimum cost.

    A role (`Role`) is sentence 1 or sentence 2 of the pairs that compare two models. Sentences of
    role a must be accepted by one of these models, accept(a), that is, have a high rank under it.
    They must be rejected by the other model, reject(a), that is, have a low rank under it. Each
    role needs a given number of sentences, and each sentence can take at most one role. With
    x[a, s] = 1 if sentence s takes role a:

        minimise    sum_{a, s} cost[s, reject(a)] x[a, s]
        subject to  sum_s x[a, s] = n_sentences(a)   for every role a,
                    sum_a x[a, s] <= 1               for every sentence s,
                    x[a, s] in {0, 1},
                    x[a, s] = 0 unless accepted[s, accept(a)] and rejected[s, reject(a)].

    Attributes
    ----------
    reject_costs : (S, M) array of int
        Element (s, m) is the cost of assigning sentence s to a role with model m as the
        rejecting model, for example the rank of the sentence under this model.
    accepted : (S, M) array of bool
        Whether each model ranks each sentence high enough to accept it.
    rejected : (S, M) array of bool
        Whether each model ranks each sentence low enough to reject it.
    roles
        The A roles, two for each pair of models.
    """

    reject_costs: IntArray
    accepted: BoolArray
    rejected: BoolArray
    roles: tuple[Role, ...]

    @property
    def n_sentences(self) -> int:
        """Total number of sentences to select, over all roles."""
        return sum(role.n_sentences for role in self.roles)

    @cached_property
    def cost_orders(self) -> dict[int, IntArray]:
        """Mapping from rejecting model (column) to the rows of all sentences by increasing cost."""
        # Sort once per rejecting model, because many roles have the same one.
        columns = {role.reject for role in self.roles}
        return {m: np.argsort(self.reject_costs[:, m], kind="stable") for m in columns}

    def is_allowed(self, role: Role, rows: IntArray | slice = slice(None)) -> BoolArray:
        """Return which sentences may be assigned to a role, as a mask.

        A role is sentence 1 or sentence 2 of the pairs of two models. One of the models must rank
        the sentence high enough to accept it, and the other low enough to reject it.

        Parameters
        ----------
        role
            The role.
        rows
            Rows of the sentences to check; by default all.
        """
        # Each role has one model that accepts its sentences and one that rejects them.
        return self.accepted[rows, role.accept] & self.rejected[rows, role.reject]

    def find_cheapest(self, role: Role, n: int) -> IntArray:
        """Find the sentences of lowest cost that may be selected for a role.

        Parameters
        ----------
        role
            Two models, and whether the sentences become sentence 1 or sentence 2 of their pairs.
            The model that rejects the sentences determines the cost.
        n
            Number of sentences to find.

        Returns
        -------
        array
            Rows of the sentences, by increasing cost; fewer than `n` if fewer may be selected.
        """
        order = self.cost_orders[role.reject]
        # `order` contains all sentences by increasing cost under the model that should reject them.
        # Check a short part of the sorted sentences first, because it is usually sufficient.
        length = 4 * n
        while True:
            candidates = order[:length]
            allowed = candidates[self.is_allowed(role, candidates)]
            if length >= len(order) or len(allowed) >= n:
                return np.asarray(allowed[:n])
            length *= 4

    def sort_by_cost(self, chosen: Sequence[IntArray]) -> list[IntArray]:
        """Sort the rows of the chosen sentences of each role by cost, then by row."""
        # The last key of `lexsort` is the most important one: sort by cost, then by row.
        return [
            rows[np.lexsort((rows, self.reject_costs[rows, role.reject]))]
            for role, rows in zip(self.roles, chosen, strict=True)
        ]

    def total_cost(self, chosen: Sequence[IntArray]) -> float:
        """Return the sum of the costs of the chosen sentences, given their rows for each role."""
        # The cost of a sentence depends on the model that its role says should reject it.
        rows_by_role = zip(self.roles, chosen, strict=True)
        return float(sum(self.reject_costs[rows, role.reject].sum() for role, rows in rows_by_role))

    def cost_matrix(self, rows: IntArray) -> FloatArray:
        """Return the cost of assigning each sentence to each role.

        A role is sentence 1 or sentence 2 of the pairs of two models.

        Parameters
        ----------
        rows
            Rows of R sentences.

        Returns
        -------
        (A, R) array
            Costs for A roles; infinite where a sentence may not be assigned to a role.
        """
        costs = np.empty((len(self.roles), len(rows)))
        for role_id, role in enumerate(self.roles):
            # Role: sentence 1 or 2 of the pairs of two models. The cost depends on the model that
            # should reject the sentence, and is infinite if either model forbids the assignment.
            role_costs = self.reject_costs[rows, role.reject]
            costs[role_id] = np.where(self.is_allowed(role, rows), role_costs, np.inf)
        return costs


def assign(problem: AssignmentProblem) -> list[IntArray]:
    """Assign sentences to roles at minimum cost (see `AssignmentProblem`).

    A role is sentence 1 or sentence 2 of the pairs of two models. The algorithm is:

    1. Find the *candidates* of each role: the K sentences with the lowest costs among the sentences
       that may take the role.
    2. Solve the problem over all candidates (`scipy.optimize.linear_sum_assignment`).
    3. Stop if each role has an unassigned candidate or fewer than K candidates. The solution is
       then also optimal among all sentences. Otherwise double K, and continue with step 2. The
       algorithm ends at the latest when K is the total number of sentences to select.

    Proof of step 3: an unassigned sentence has the dual price 0. Therefore the dual price of a role
    is at most the cost of its unassigned candidate, and all sentences that are not candidates cost
    at least as much. The dual prices are thus feasible for the problem with all sentences.

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
    n_per_role = [role.n_sentences for role in problem.roles]
    n_candidates = min(problem.n_sentences, max(16, 2 * max(n_per_role)))
    # A role that needs n sentences has n rows in the cost matrix, called positions.
    role_by_position = np.repeat(np.arange(len(problem.roles)), n_per_role)
    while True:
        candidates = [problem.find_cheapest(role, n_candidates) for role in problem.roles]
        rows = np.unique(np.concatenate(candidates))
        costs = problem.cost_matrix(rows)[role_by_position]
        try:
            _, columns = scipy.optimize.linear_sum_assignment(costs)
            is_complete = len(columns) == len(role_by_position)
        except ValueError:  # raised by SciPy if no complete assignment exists
            is_complete = False
        if is_complete:
            assigned = rows[columns]
            role_ids = range(len(problem.roles))
            chosen = [assigned[role_by_position == role_id] for role_id in role_ids]
            # More candidates can only reduce the cost if all candidates of a role are assigned.
            may_improve = [
                len(role_rows) == n_candidates and bool(np.isin(role_rows, assigned).all())
                for role_rows in candidates
            ]
            if n_candidates >= problem.n_sentences or not any(may_improve):
                return problem.sort_by_cost(chosen)
        elif n_candidates >= problem.n_sentences:
            is_allowed = np.isfinite(costs)
            raise InfeasibleError(_describe_shortage(problem, is_allowed, role_by_position))
        n_candidates = min(problem.n_sentences, 2 * n_candidates)


def _describe_shortage(
    problem: AssignmentProblem, is_allowed: BoolArray, role_by_position: IntArray
) -> str:
    """Describe which roles have too few sentences in an assignment problem without a solution.

    A role is sentence 1 or sentence 2 of the pairs that compare two models. A role that needs n
    sentences has n positions. By Hall's theorem, there is no assignment only if some set of roles
    needs more sentences than are allowed for these roles together. This function finds such a set
    from a maximum matching between positions and sentences.

    Parameters
    ----------
    problem
        Assignment problem without a solution.
    is_allowed : (n_positions, n_sentences) array of bool
        Whether each candidate sentence may take each position.
    role_by_position : (n_positions,) array
        Index of the role of each position.

    Returns
    -------
    str
        Error message with the roles, the number of sentences needed and the number available.
    """
    # Match as many positions as possible with one sentence each. `sentence_by_position[k]` is the
    # index of the sentence at position k, or -1 if no sentence is left for the position.
    sentence_by_position = maximum_bipartite_matching(csr_array(is_allowed), perm_type="column")
    is_matched = sentence_by_position >= 0
    role_by_sentence = np.full(is_allowed.shape[1], -1)  # -1: not matched
    role_by_sentence[sentence_by_position[is_matched]] = role_by_position[is_matched]

    # Start with a role that lacks a sentence. Add all roles to which the matching assigned
    # sentences that are also allowed for a role in the set, until there are no further ones.
    short_roles = {int(role_by_position[~is_matched][0])}
    while True:
        is_usable = is_allowed[np.isin(role_by_position, sorted(short_roles))].any(axis=0)
        matched_roles = role_by_sentence[is_usable]
        extended = short_roles | set(matched_roles[matched_roles >= 0].tolist())
        if extended == short_roles:
            break
        short_roles = extended
    # The roles in the set need more sentences than are allowed for them (`is_usable`).
    n_needed = sum(problem.roles[role_id].n_sentences for role_id in short_roles)
    # Name up to four roles in the message.
    names = [str(problem.roles[role_id]) for role_id in sorted(short_roles)]
    listed = "; ".join(names[:4]) + (f"; and {len(names) - 4} more" if len(names) > 4 else "")
    return (
        f"{n_needed} different sentences needed, {int(is_usable.sum())} available, for "
        f"{listed}; reduce per_pair (--per-pair) or add sentences"
    )
