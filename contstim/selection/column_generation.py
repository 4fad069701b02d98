"""Assignment of sentences to pairs of models under constraints, by column generation.

A *quota* (`Quota`) is the number of sentences to select that one model ranks high and another ranks
low. The integer programme has a binary variable x_j for each quota and each sentence that may be
assigned to it. There may be millions of variables, so only a part of them is used (column
generation). The *reduced cost* of a variable, its cost minus the dual prices of its constraints,
estimates how much the total cost increases if its sentence is assigned to its quota.

1. The linear relaxation, in which fractions of sentences can be assigned, is solved over few
   variables. Variables with a negative reduced cost are added until there are none. The optimum is
   a lower bound on the cost of every selection.
2. An integer programme is solved by HiGHS over the variables with a low reduced cost.
3. A variable can be 1 in a better selection only if its reduced cost is at most the gap between
   the cost of the best selection and the lower bound. If step 2 left out any of these variables,
   it is repeated with all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy  # loads `scipy.optimize` on first use
from scipy.sparse import csr_array, diags_array, eye_array, hstack, vstack

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InfeasibleError, list_names
from contstim.selection.assignment import AssignmentProblem
from contstim.selection.constraint_rows import ConstraintRows
from contstim.selection.highs import minimise

#: Maximum number of variables of an integer programme.
MAX_VARIABLES = 400_000

# Tolerance for rounding errors of the solver.
_TOLERANCE = 1e-7
# Maximum number of variables that an iteration of column generation adds, per quota.
_MAX_NEW_VARIABLES = 200


def assign_with_constraints(
    problem: AssignmentProblem, constraints: ConstraintRows, time_limit: float | None
) -> tuple[list[IntArray], float, bool]:
    """Assign sentences to quotas at minimum cost, subject to additional linear constraints.

    A quota is the number of sentences to select that one model ranks high and another ranks low.
    `AssignmentProblem` and `ConstraintRows` contain the formulas.

    Parameters
    ----------
    problem
        Assignment problem without the constraints.
    constraints
        Additional constraints.
    time_limit
        Time limit of each integer programme in seconds. None: no limit.

    Returns
    -------
    chosen : list of arrays
        Indices of the sentences chosen for each quota, by increasing cost.
    bound : float
        Lower bound on the cost of every selection, from the linear relaxation.
    is_proven : bool
        Whether the selection is proven optimal.

    Raises
    ------
    InfeasibleError
        If the constraints cannot be satisfied; the message names them.
    """
    # Find variables (possible assignments of a sentence to a quota) with which the constraints can
    # be satisfied, and add more until the relaxation is optimal. It gives a lower bound.
    relaxation = _Relaxation(problem, constraints)
    variables, _ = relaxation.find_feasible()
    _, dual, _ = relaxation.solve_by_column_generation(variables)
    bound = relaxation.compute_bound(dual)
    # All costs are integers, so the bound can be rounded up, except for rounding errors.
    bound = float(np.ceil(bound - _TOLERANCE * max(1.0, abs(bound))))
    max_reduced_cost = relaxation.compute_initial_threshold(dual)
    best: list[IntArray] | None = None
    # Solve integer programmes over an increasing number of variables.
    while True:
        variables, has_all = relaxation.select_variables(dual, max_reduced_cost)
        if len(variables.quota_ids) > MAX_VARIABLES:
            if best is None:
                raise InfeasibleError(
                    f"no selection found among the {MAX_VARIABLES} most promising choices; "
                    "loosen a constraint or filter the sentences"
                )
            return best, bound, False
        chosen, status = relaxation.solve_integer(variables, time_limit)
        if chosen is None:
            if has_all and status == "infeasible":
                raise InfeasibleError(
                    "every constraint can be met in fractions of sentences, but not in whole ones: "
                    f"{list_names(constraints.names)}; loosen one"
                )
            if has_all:
                raise InfeasibleError(
                    f"HiGHS found no selection within the time limit of {time_limit:g} s; "
                    "raise time_limit or loosen a constraint"
                )
            max_reduced_cost *= 8
            continue
        if best is None or problem.total_cost(chosen) < problem.total_cost(best):
            best = chosen
        # A variable with a reduced cost above the gap cannot be part of a better selection. If the
        # programme contained all other variables, the best selection is optimal.
        gap = problem.total_cost(best) - bound
        is_optimal = status == "optimal"
        if not is_optimal or has_all or gap <= max(0.0, max_reduced_cost):
            return best, bound, is_optimal or gap <= 0
        max_reduced_cost = gap


def find_fractional_assignment(
    problem: AssignmentProblem, constraints: ConstraintRows
) -> list[IntArray]:
    """Find sentences that satisfy the constraints, for use as additional candidates.

    The sentences of lowest cost may be unable to satisfy the constraints together. This function
    solves the linear relaxation, in which fractions of sentences may be assigned, without costs.

    Parameters
    ----------
    problem
        Assignment problem without the constraints.
    constraints
        Additional constraints.

    Returns
    -------
    list of arrays
        For each quota, the indices of the sentences with a positive weight in the solution.

    Raises
    ------
    InfeasibleError
        If no fractional solution exists; the message names the violated constraints.
    """
    variables, x = _Relaxation(problem, constraints).find_feasible()
    return variables.split_by_quota(x > _TOLERANCE, len(problem.quotas))


class _Variables(NamedTuple):
    """Variables of a programme that assigns sentences to quotas, sorted by quota.

    Variable j of n variables assigns sentence ``sentence_ids[j]`` to quota ``quota_ids[j]``.
    """

    quota_ids: IntArray
    sentence_ids: IntArray

    def split_by_quota(self, is_selected: BoolArray, n_quotas: int) -> list[IntArray]:
        """Return the rows of the sentences of the selected variables, for each quota."""
        ids = range(n_quotas)
        return [self.sentence_ids[is_selected & (self.quota_ids == quota_id)] for quota_id in ids]


class _DualPrices(NamedTuple):
    """Dual prices of the constraints of a linear relaxation.

    A dual price states how much the minimum cost changes if the bound of the constraint increases.
    The arrays have the shapes (A,) for the A quotas, (S,) for the S sentences, and (B,) for the B
    inequalities that additional constraints impose.
    """

    quotas: FloatArray
    sentences: FloatArray
    inequalities: FloatArray


class _Relaxation:
    """Linear relaxation of an assignment problem with additional constraints.

    The variable x_j >= 0 is the fraction of a sentence s that is assigned to a quota a. A quota is
    the number of sentences to select that one model ranks high and another ranks low.

        minimise    sum_j cost_j x_j
        subject to  sum_{j of quota a} x_j = n_sentences(a)   (price u_a),
                    sum_{j of sentence s} x_j <= 1            (price v_s <= 0),
                    sum_j sign_b w_bj x_j <= limit_b          (price y_b <= 0),

    The last inequalities b are the finite bounds of the additional constraints: w_bj is the weight
    of variable j, and sign_b is 1 for upper and -1 for lower bounds. The symbols in parentheses are
    dual prices. The reduced cost of variable j is cost_j - u_a - v_s - sum_b sign_b y_b w_bj.
    """

    def __init__(self, problem: AssignmentProblem, constraints: ConstraintRows) -> None:
        self.problem, self.constraints = problem, constraints
        # Number of sentences to select for each quota.
        n_sentences = [quota.n_sentences for quota in problem.quotas]
        self.n_sentences = np.array(n_sentences, dtype=np.float64)

        # Convert each finite bound lower <= w x <= upper to an inequality sign w x <= limit, with
        # the sign 1 and the limit `upper`, or the sign -1 and the limit `-lower`. `rows` contains
        # the index of the constraint of each inequality.
        has_upper, has_lower = np.isfinite(constraints.upper), np.isfinite(constraints.lower)
        self.rows = np.hstack([np.flatnonzero(has_upper), np.flatnonzero(has_lower)])
        self.signs = np.repeat([1.0, -1.0], [has_upper.sum(), has_lower.sum()])
        self.limits = np.hstack([constraints.upper[has_upper], -constraints.lower[has_lower]])

        # Divide inequalities by the largest absolute weight of their constraint, so that the
        # solver's absolute tolerances are equally strict for all constraints.
        self.scale = np.ones(len(constraints.names))
        for weights in constraints.weights:
            self.scale = np.maximum(self.scale, abs(weights).max(axis=0).toarray().ravel())

    def find_feasible(self) -> tuple[_Variables, FloatArray]:
        """Find variables with which the relaxed constraints can be satisfied, and their values."""
        # Start with the cheapest sentences for each quota, three times as many as needed.
        quotas = self.problem.quotas
        sentences = [self.problem.find_cheapest(q, max(16, 3 * q.n_sentences)) for q in quotas]
        quota_ids = np.repeat(np.arange(len(quotas)), [len(ids) for ids in sentences])
        initial = _Variables(quota_ids, np.hstack(sentences))
        variables, _, x = self.solve_by_column_generation(initial, minimise_violations=True)
        return variables, x

    def compute_initial_threshold(self, dual: _DualPrices) -> float:
        """Return the maximum reduced cost of the variables in the first integer programme.

        `dual` contains the dual prices of the constraints of the linear relaxation.
        """
        # The n-th smallest reduced cost, so that there are about 20 variables per sentence.
        reduced = np.hstack([costs for _, costs in self._reduced_costs(dual)])
        n = min(20 * self.problem.n_sentences, len(reduced)) - 1
        return max(1.0, float(np.partition(reduced, n)[n]))

    def solve_by_column_generation(
        self, variables: _Variables, *, minimise_violations: bool = False
    ) -> tuple[_Variables, _DualPrices, FloatArray]:
        """Solve the linear relaxation over all variables by column generation.

        The relaxation is first solved over the given variables only. Variables with a negative
        reduced cost could improve the solution and are added, until there are none.

        Parameters
        ----------
        variables
            Initial variables.
        minimise_violations
            Whether to minimise the total violation of the constraints instead of the cost.

        Returns
        -------
        variables
            Variables of the final relaxation.
        dual
            Dual prices of the constraints.
        x : (n,) array
            Value of each of these variables in the solution.

        Raises
        ------
        InfeasibleError
            If the minimum total violation is positive.
        """
        n_sentences = len(self.problem.reject_costs)
        # A variable is a possible assignment of a sentence to a quota, which is the number of
        # sentences to select that one model ranks high and another ranks low. The relaxation is
        # first solved over few variables; others are added until none can improve the solution.
        while True:
            violations, dual, x = self._solve_restricted(variables, minimise_violations)
            quota_ids, sentence_ids = [variables.quota_ids], [variables.sentence_ids]
            # Add the variables with the most negative reduced costs (cost minus dual prices).
            reduced_costs = self._reduced_costs(dual, ignore_costs=minimise_violations)
            for quota_id, (allowed, reduced) in enumerate(reduced_costs):
                negative = np.flatnonzero(reduced < -_TOLERANCE)
                lowest = negative[np.argsort(reduced[negative], kind="stable")[:_MAX_NEW_VARIABLES]]
                quota_ids.append(np.full(len(lowest), quota_id))
                sentence_ids.append(allowed[lowest])
            # Remove duplicates. Each combination of a quota and a sentence is encoded as a number.
            keys = np.unique(np.hstack(quota_ids) * n_sentences + np.hstack(sentence_ids))
            if len(keys) == len(variables.quota_ids):  # no new variable: the solution is optimal
                break
            variables = _Variables(keys // n_sentences, keys % n_sentences)
        if violations:
            raise InfeasibleError(
                f"the constraints cannot be satisfied together; unmet: {list_names(violations)}; "
                "loosen a constraint or add sentences"
            )
        return variables, dual, x

    def _solve_restricted(
        self, variables: _Variables, minimise_violations: bool
    ) -> tuple[list[str], _DualPrices, FloatArray]:
        """Solve the linear relaxation over n variables.

        If `minimise_violations` is true, slack variables are added to the constraints, and the
        weighted sum of the slack variables is minimised instead of the cost.

        Returns
        -------
        violations : list of str
            Violated constraints, with the amounts; empty if `minimise_violations` is false.
        dual : _DualPrices
            Dual prices of the constraints.
        x : (n,) array
            Value of each variable in the solution.
        """
        quota_matrix, sentence_matrix, rows = self._build_count_matrices(variables)
        n_quotas, n_sentences, n_inequalities = len(self.n_sentences), len(rows), len(self.rows)
        scale = self.scale[self.rows]
        # Equalities: number of sentences of each quota. Inequalities: at most one quota for each
        # sentence, and the finite bounds of the additional constraints.
        bounds = diags_array(self.signs / scale) @ self._get_weights(variables)[self.rows]
        inequalities, equalities = vstack([sentence_matrix, bounds], format="csr"), quota_matrix
        limits = np.hstack([np.ones(n_sentences), self.limits / scale])
        costs = self._get_costs(variables)
        if minimise_violations:
            # Add slack variables: the number of missing sentences of each quota, and the excess of
            # each bound. Missing sentences cost more, so that a violated bound is reported rather
            # than missing sentences if either explains the failure.
            no_missing = csr_array((n_sentences + n_inequalities, n_quotas))
            excess = -eye_array(n_sentences + n_inequalities, n_inequalities, k=-n_sentences)
            inequalities = hstack([inequalities, no_missing, excess], format="csr")
            no_excess = csr_array((n_quotas, n_inequalities))
            equalities = hstack([quota_matrix, eye_array(n_quotas), no_excess], format="csr")
            costs = np.repeat([0.0, 10.0, 1.0], [len(costs), n_quotas, n_inequalities])
        solve: Any = scipy.optimize.linprog  # its type stubs lack sparse matrices
        result = solve(costs, inequalities, limits, equalities, self.n_sentences, method="highs")
        if result.status != 0:
            raise InfeasibleError(f"the linear relaxation was not solved: {result.message}")

        prices = result.ineqlin.marginals
        sentence_prices = np.zeros(len(self.problem.reject_costs))
        sentence_prices[rows] = prices[:n_sentences]
        dual = _DualPrices(result.eqlin.marginals, sentence_prices, prices[n_sentences:] / scale)
        n_variables, violations = len(variables.quota_ids), list[str]()
        if minimise_violations:
            units = np.hstack([np.ones(n_quotas), scale / self.constraints.units[self.rows]])
            names = [*map(str, self.problem.quotas), *np.take(self.constraints.names, self.rows)]
            amounts = zip(names, result.x[n_variables:] * units, strict=True)
            violations = [f"{name}, by {amount:.3g}" for name, amount in amounts if amount > 1e-6]
        return violations, dual, result.x[:n_variables]

    def _reduced_costs(
        self, dual: _DualPrices, *, ignore_costs: bool = False
    ) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield the reduced costs of all assignments of a sentence to a quota, quota by quota.

        The reduced cost is the cost of the assignment minus the dual prices of its constraints:
        cost(a, s) - u_a - v_s - sum_b y_b weight_b(a, s), where u_a, v_s and y_b are the prices of
        quota a, sentence s and inequality b. Assignments with a negative reduced cost can improve
        the current solution.

        Parameters
        ----------
        dual
            Dual prices of the constraints.
        ignore_costs
            Whether all assignments have the cost 0, because the total violation of the constraints
            is minimised.

        Yields
        ------
        allowed : (k,) array
            Indices of the sentences that may be assigned to the quota.
        reduced : (k,) array
            Reduced costs of assigning these sentences to the quota.
        """
        constraint_prices = np.bincount(self.rows, self.signs * dual.inequalities, len(self.scale))
        # `constraint_prices` adds up the prices of both bounds of each constraint, with signs.
        for quota_id, quota in enumerate(self.problem.quotas):
            # cost(a, s) - u_a - v_s - sum_b y_b weight_b(a, s), for all allowed sentences s
            allowed = np.flatnonzero(self.problem.is_allowed(quota))
            inequality_prices = self.constraints.weights[quota_id][allowed] @ constraint_prices
            reduced = -dual.quotas[quota_id] - dual.sentences[allowed] - inequality_prices
            if not ignore_costs:
                reduced += self.problem.reject_costs[allowed, quota.reject_column]
            yield allowed, reduced

    def compute_bound(self, dual: _DualPrices) -> float:
        """Compute the Lagrangian lower bound on the cost of every selection.

        The bound is sum_a n_sentences(a) u_a + sum_s v_s + sum_b limit_b y_b + sum_j min(r_j, 0),
        where u_a, v_s and y_b are the dual prices of quota a, sentence s and inequality b, and r_j
        is the reduced cost of variable j. It is valid for any prices with v_s <= 0 and y_b <= 0.
        """
        # sum_a n_sentences(a) u_a + sum_s v_s + sum_b limit_b y_b
        bound = dual.quotas @ self.n_sentences + dual.sentences.sum()
        bound += dual.inequalities @ self.limits
        # + sum_j min(r_j, 0), over all variables, also those that the relaxation left out
        for _, reduced in self._reduced_costs(dual):
            bound += np.minimum(reduced, 0.0).sum()
        return float(bound)

    def select_variables(
        self, dual: _DualPrices, max_reduced_cost: float
    ) -> tuple[_Variables, bool]:
        """Return the variables with a reduced cost of at most `max_reduced_cost`.

        A variable assigns a sentence to a quota (n sentences to select that one model ranks high
        and another ranks low). Its reduced cost estimates the increase of the total cost.

        Returns
        -------
        variables
            Variables with a low reduced cost.
        has_all : bool
            Whether these are all variables of the problem.
        """
        quota_ids, sentence_ids, has_all = [], [], True
        # Select assignments of sentences to quotas with a low reduced cost, which estimates by how
        # much an assignment increases the total cost.
        # The tolerance allows for rounding errors.
        threshold = max_reduced_cost + _TOLERANCE * max(1.0, max_reduced_cost)
        for quota_id, (allowed, reduced) in enumerate(self._reduced_costs(dual)):
            cheap = allowed[reduced <= threshold]
            has_all = has_all and len(cheap) == len(allowed)
            quota_ids.append(np.full(len(cheap), quota_id))
            sentence_ids.append(cheap)
        return _Variables(np.hstack(quota_ids), np.hstack(sentence_ids)), has_all

    def solve_integer(
        self, variables: _Variables, time_limit: float | None
    ) -> tuple[list[IntArray] | None, str]:
        """Solve the integer programme with HiGHS for a subset of its variables.

        A variable is 1 if a sentence is assigned to a quota (n sentences to select that one model
        ranks high and another ranks low). Variables outside the subset are fixed at 0.

        Parameters
        ----------
        variables
            Variables that may be 1; all others are 0.
        time_limit
            Time limit in seconds. None: no limit.

        Returns
        -------
        chosen : list of arrays or None
            Indices of the sentences chosen for each quota, by increasing cost. None if no solution
            was found.
        status : str
            Status of the solution (`Solution`).
        """
        quota_matrix, sentence_matrix, _ = self._build_count_matrices(variables)
        # Constraints: the number of sentences of each quota, at most one quota for each sentence
        # (only needed for sentences with several variables), and the additional constraints.
        sentence_matrix = sentence_matrix[np.diff(sentence_matrix.indptr) > 1]
        matrices = [quota_matrix, sentence_matrix, self._get_weights(variables)]
        n_shared = sentence_matrix.shape[0]
        lower = np.hstack([self.n_sentences, np.full(n_shared, -np.inf), self.constraints.lower])
        upper = np.hstack([self.n_sentences, np.ones(n_shared), self.constraints.upper])
        matrix = csr_array(vstack(matrices, format="csr"))
        solution = minimise(self._get_costs(variables), matrix, lower, upper, time_limit=time_limit)
        if solution.x is None:
            return None, solution.status
        # The solver returns 0 or 1 for each variable, up to rounding.
        chosen = variables.split_by_quota(solution.x > 0.5, len(self.n_sentences))
        return self.problem.sort_by_cost(chosen), solution.status

    def _get_costs(self, variables: _Variables) -> FloatArray:
        """Return the objective coefficients of n variables, shape (n,)."""
        reject_columns = np.array([quota.reject_column for quota in self.problem.quotas])
        columns = reject_columns[variables.quota_ids]  # column of the rejecting model
        costs = self.problem.reject_costs[variables.sentence_ids, columns]
        return np.asarray(costs, dtype=np.float64)

    def _build_count_matrices(self, variables: _Variables) -> tuple[csr_array, csr_array, IntArray]:
        """Build two matrices, which count the selected variables by quota and by sentence.

        Each of the n variables x_j is 1 if a sentence is selected for a quota, else 0. A quota is
        the number of sentences to select that one model ranks high and another ranks low.

        Returns
        -------
        quota_matrix : sparse (A, n) array
            1 if the variable belongs to the quota, else 0. The product with x is the number of
            sentences selected for each of the A quotas.
        sentence_matrix : sparse (R, n) array
            1 if the variable belongs to the sentence, else 0. The product with x is the number of
            quotas for which each of the R sentences is selected.
        rows : (R,) array
            Indices of the R sentences that occur in `variables`.
        """
        n = len(variables.quota_ids)
        # A variable assigns a sentence to a quota. Its column contains a single 1, in the row of
        # the quota or of the sentence. Sentences without variables get no row.
        ones, columns = np.ones(n), np.arange(n)
        rows, numbers = np.unique(variables.sentence_ids, return_inverse=True)
        shape = (len(self.n_sentences), n)
        quota_matrix = csr_array((ones, (variables.quota_ids, columns)), shape=shape)
        sentence_matrix = csr_array((ones, (numbers, columns)), shape=(len(rows), n))
        return quota_matrix, sentence_matrix, rows

    def _get_weights(self, variables: _Variables) -> csr_array:
        """Return the coefficients of n variables in the K additional constraints, shape (K, n)."""
        # Each quota has a matrix of weights, with a row per sentence and a column per constraint.
        # Stack the rows of the variables, which are sorted by quota, and transpose the result.
        blocks = [
            weights[variables.sentence_ids[variables.quota_ids == quota_id]]
            for quota_id, weights in enumerate(self.constraints.weights)
        ]
        return csr_array(vstack(blocks, format="csr").T)
