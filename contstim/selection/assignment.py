"""Assignment of sentences to pairs of models that disagree about them, solved exactly.

Every two models are compared by sentence pairs. One model must accept the first sentences (rank
them high) and the other must reject them (rank them low); for second sentences, the models are
exchanged. Each requirement of the form "n sentences that one model accepts and another rejects" is
a *quota*. The cost of a sentence is its rank under the rejecting model.
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

#: Positions of the two sentences in a pair: model 1 accepts the first, model 2 the second.
POSITIONS = ("sentence_1", "sentence_2")


@dataclass(frozen=True)
class Quota:
    """Number of sentences to select that one model accepts and another model rejects.

    A controversial pair consists of a sentence that model 1 accepts and model 2 rejects
    (``sentence_1``), and a sentence that model 2 accepts and model 1 rejects (``sentence_2``). A
    model accepts a sentence that it ranks high among all sentences, and rejects a sentence that it
    ranks low. To select n sentence pairs for two models, two quotas of n sentences must be filled,
    one for the first and one for the second sentences.

    Attributes
    ----------
    models
        Names of model 1 and model 2.
    position
        Position of the sentences in their pairs, ``sentence_1`` or ``sentence_2``.
    reject_column, accept_column
        Column indices of the rejecting model and of the accepting model in the arrays of
        `AssignmentProblem`.
    n_sentences
        Number of sentences to select.
    """

    models: tuple[str, str]
    position: str
    reject_column: int
    accept_column: int
    n_sentences: int

    @property
    def is_first(self) -> bool:
        """Whether the sentences are the first of their pairs, which model 1 accepts."""
        return self.position == POSITIONS[0]

    def __str__(self) -> str:
        model_1, model_2 = self.models
        accept, reject = (model_1, model_2) if self.is_first else (model_2, model_1)
        return (
            f"model pair {model_1} and {model_2}, {self.position} (accepted by {accept}, "
            f"rejected by {reject})"
        )


@dataclass(frozen=True, eq=False)
class AssignmentProblem:
    """Assignment of S sentences to A quotas at minimum cost.

    Quota a (`Quota`) is filled with n_sentences(a) sentences that the model accept(a) ranks high
    and the model reject(a) ranks low. Each sentence can be assigned to at most one quota. With
    x[a, s] = 1 if sentence s is assigned to quota a:

        minimise    sum_{a, s} cost[s, reject(a)] x[a, s]
        subject to  sum_s x[a, s] = n_sentences(a)   for every quota a,
                    sum_a x[a, s] <= 1               for every sentence s,
                    x[a, s] in {0, 1},
                    x[a, s] = 0 unless accepted[s, accept(a)] and rejected[s, reject(a)].

    Attributes
    ----------
    reject_costs : (S, M) array of int
        Element (s, m) is the cost of selecting sentence s as a sentence that model m rejects, for
        example its rank under this model.
    accepted : (S, M) array of bool
        Whether each model ranks each sentence high enough to accept it.
    rejected : (S, M) array of bool
        Whether each model ranks each sentence low enough to reject it.
    quotas
        The A quotas, two for each pair of models.
    """

    reject_costs: IntArray
    accepted: BoolArray
    rejected: BoolArray
    quotas: tuple[Quota, ...]

    @property
    def n_sentences(self) -> int:
        """Total number of sentences to select, over all quotas."""
        return sum(quota.n_sentences for quota in self.quotas)

    @cached_property
    def cost_orders(self) -> dict[int, IntArray]:
        """Mapping from rejecting model (column) to the rows of all sentences by increasing cost."""
        # Sort once per rejecting model, because many quotas have the same rejecting model.
        columns = {quota.reject_column for quota in self.quotas}
        return {m: np.argsort(self.reject_costs[:, m], kind="stable") for m in columns}

    def is_allowed(self, quota: Quota, rows: IntArray | slice = slice(None)) -> BoolArray:
        """Return which sentences may count towards a quota, as a mask.

        The accepting model of the quota must rank the sentence high enough, and the rejecting model
        must rank it low enough.

        Parameters
        ----------
        quota
            Number of sentences that one model accepts and another rejects.
        rows
            Indices of the sentences to check; by default all.
        """
        return self.accepted[rows, quota.accept_column] & self.rejected[rows, quota.reject_column]

    def find_cheapest(self, quota: Quota, n: int) -> IntArray:
        """Find the sentences of lowest cost that may count towards a quota.

        Parameters
        ----------
        quota
            Number of sentences that one model accepts and another rejects. The rejecting model
            determines the cost.
        n
            Number of sentences to find.

        Returns
        -------
        array
            Indices of the sentences, by increasing cost; fewer than `n` if fewer may be selected.
        """
        order = self.cost_orders[quota.reject_column]
        # Check the sentences in the order of increasing cost. The first 4 n are usually sufficient.
        length = 4 * n
        while True:
            candidates = order[:length]
            allowed = candidates[self.is_allowed(quota, candidates)]
            if length >= len(order) or len(allowed) >= n:
                return np.asarray(allowed[:n])
            length *= 4

    def sort_by_cost(self, chosen: Sequence[IntArray]) -> list[IntArray]:
        """Sort the rows of the sentences chosen for each quota by cost, then by row."""
        # The last key of `lexsort` is the most important one: sort by cost, then by row.
        return [
            rows[np.lexsort((rows, self.reject_costs[rows, quota.reject_column]))]
            for quota, rows in zip(self.quotas, chosen, strict=True)
        ]

    def total_cost(self, chosen: Sequence[IntArray]) -> float:
        """Return the sum of the costs of the sentences chosen for each quota, given their rows."""
        total = 0
        for quota, rows in zip(self.quotas, chosen, strict=True):
            # The cost of a sentence depends on the model that should reject it.
            total += int(self.reject_costs[rows, quota.reject_column].sum())
        return float(total)

    def cost_matrix(self, rows: IntArray) -> FloatArray:
        """Return the cost of assigning each sentence to each quota.

        A quota is the number of sentences to select that one model ranks high and another ranks
        low.

        Parameters
        ----------
        rows
            Indices of R sentences.

        Returns
        -------
        (A, R) array
            Costs for A quotas; infinite where a sentence may not be assigned to a quota.
        """
        costs = np.empty((len(self.quotas), len(rows)))
        for quota_id, quota in enumerate(self.quotas):
            # Cost under the rejecting model; infinite if either model forbids the assignment.
            quota_costs = self.reject_costs[rows, quota.reject_column]
            costs[quota_id] = np.where(self.is_allowed(quota, rows), quota_costs, np.inf)
        return costs


def assign(problem: AssignmentProblem) -> list[IntArray]:
    """Assign sentences to quotas at minimum cost (see `AssignmentProblem`).

    A quota is the number of sentences to select that one model ranks high and another ranks low.
    The algorithm is:

    1. Find the *candidates* of each quota: the K sentences with the lowest costs among the
       sentences that may be assigned to it.
    2. Solve the problem over all candidates (`scipy.optimize.linear_sum_assignment`).
    3. Stop if each quota has an unassigned candidate or fewer than K candidates. The solution is
       then also optimal among all sentences. Otherwise double K, and continue with step 1. The
       algorithm ends at the latest when K is the total number of sentences to select.

    Proof of step 3: an unassigned sentence has the dual price 0. Therefore the dual price of a
    quota is at most the cost of its unassigned candidate, and all sentences that are not candidates
    cost at least as much. The dual prices are thus feasible for the problem with all sentences.

    Parameters
    ----------
    problem
        The problem to solve.

    Returns
    -------
    list of arrays
        Indices of the sentences chosen for each quota, by increasing cost.

    Raises
    ------
    InfeasibleError
        If some quotas have too few sentences; the message names them and both numbers.
    """
    for quota in problem.quotas:
        n_available = int(problem.is_allowed(quota).sum())
        if n_available < quota.n_sentences:
            raise InfeasibleError(
                f"{quota}: {format_count(quota.n_sentences, 'sentence')} needed, {n_available} "
                "available; reduce per_pair (--per-pair) or add sentences"
            )
    quota_ids = np.arange(len(problem.quotas))
    # A quota of n sentences has n equal rows in the cost matrix, one for each sentence to select.
    quota_by_row = np.repeat(quota_ids, [quota.n_sentences for quota in problem.quotas])
    max_per_quota = max(quota.n_sentences for quota in problem.quotas)
    n_candidates = min(problem.n_sentences, max(16, 2 * max_per_quota))
    while True:
        candidates = [problem.find_cheapest(quota, n_candidates) for quota in problem.quotas]
        sentences = np.unique(np.concatenate(candidates))
        costs = problem.cost_matrix(sentences)[quota_by_row]
        try:
            _, columns = scipy.optimize.linear_sum_assignment(costs)
            is_complete = len(columns) == len(quota_by_row)
        except ValueError:  # raised by SciPy if no complete assignment exists
            is_complete = False
        if is_complete:
            assigned = sentences[columns]
            # More candidates can only reduce the cost if all candidates of a quota are assigned.
            may_improve = any(
                len(quota_candidates) == n_candidates and np.isin(quota_candidates, assigned).all()
                for quota_candidates in candidates
            )
            if n_candidates >= problem.n_sentences or not may_improve:
                return problem.sort_by_cost([assigned[quota_by_row == i] for i in quota_ids])
        elif n_candidates >= problem.n_sentences:
            is_allowed = np.isfinite(costs)
            raise InfeasibleError(_describe_shortage(problem, is_allowed, quota_by_row))
        n_candidates = min(problem.n_sentences, 2 * n_candidates)


def _describe_shortage(
    problem: AssignmentProblem, is_allowed: BoolArray, quota_by_row: IntArray
) -> str:
    """Describe which quotas have too few sentences in an assignment problem without a solution.

    A quota is the number of sentences to select that one model ranks high and another ranks low. By
    Hall's theorem, a problem without a solution has a set of quotas that together need more
    sentences than are allowed for any of them. This function finds such a set from a maximum
    matching.

    Parameters
    ----------
    problem
        Assignment problem without a solution.
    is_allowed : (n_rows, n_candidates) array of bool
        Whether each candidate sentence may be assigned to the quota of each row. A quota of n
        sentences has n equal rows.
    quota_by_row : (n_rows,) array
        Index of the quota of each row.

    Returns
    -------
    str
        Error message with the quotas, the number of sentences needed and the number available.
    """
    sentence_by_row = maximum_bipartite_matching(csr_array(is_allowed), perm_type="column")
    # The matching gives as many rows as possible one sentence each; -1: no sentence was left.
    is_matched = sentence_by_row >= 0

    # A quota of n sentences has n rows. Find quotas that compete for too few sentences: start with
    # a quota that lacks a sentence. Add the quotas to which sentences were assigned that are also
    # allowed for a quota in the set, until the set no longer changes.
    in_set = quota_by_row == quota_by_row[~is_matched][0]  # whether the set contains the quota
    while True:
        is_usable = is_allowed[in_set].any(axis=0)  # sentences allowed for a quota in the set
        competitors = quota_by_row[is_matched & is_usable[sentence_by_row]]
        extended = in_set | np.isin(quota_by_row, competitors)
        if (extended == in_set).all():
            break
        in_set = extended
    # The set now has more rows than usable sentences. Name up to four of its quotas.
    names = [str(problem.quotas[quota_id]) for quota_id in np.unique(quota_by_row[in_set])]
    listed = "; ".join(names[:4]) + (f"; and {len(names) - 4} more" if len(names) > 4 else "")
    return (
        f"{int(in_set.sum())} different sentences needed, {int(is_usable.sum())} available, for "
        f"{listed}; reduce per_pair (--per-pair) or add sentences"
    )
