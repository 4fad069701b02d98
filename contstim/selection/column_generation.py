"""Assignment of sentences to pairs of models under constraints, by column generation.

A *role* is sentence 1 or sentence 2 of the pairs of two models. The integer programme has a binary
variable x_j for each combination j of a role and a sentence that may be assigned to it. There may
be millions of variables, so only a part of them is used (column generation):

1. The linear relaxation is solved over few variables. Variables with a negative reduced cost are
   added until there are none. The optimum is a lower bound on the cost of every selection.
2. An integer programme is solved by HiGHS over the variables with a low reduced cost.
3. A variable can be 1 in a better selection only if its reduced cost is at most the gap between
   the cost of the best selection and the lower bound. If step 2 left out any of these variables,
   it is repeated with all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy  # loads `scipy.optimize` on first use
from scipy.sparse import csr_array, diags_array, eye_array, hstack, vstack

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InfeasibleError
from contstim.selection.assignment import AssignmentProblem
from contstim.selection.constraint_rows import ConstraintRows
from contstim.selection.highs import minimise

#: Maximum number of variables of an integer programme.
MAX_VARIABLES = 400_000

_TOLERANCE = 1e-7
_MAX_NEW_VARIABLES = 200  # per role and iteration


def assign_with_constraints(
    problem: AssignmentProblem, constraints: ConstraintRows, time_limit: float | None
) -> tuple[list[IntArray], float, bool]:
    """Assign sentences to roles at minimum cost, subject to additional linear constraints.

    A role is sentence 1 or sentence 2 of the pairs of two models. With x[a, s] = 1 if sentence s is
    assigned to role a, each constraint k is
    lower[k] <= sum_{a, s} weights[a][s, k] x[a, s] <= upper[k]. `AssignmentProblem` states the
    problem without these constraints.

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
        Rows of the chosen sentences of each role, by increasing cost.
    bound : float
        Lower bound on the cost of every selection, from the linear relaxation.
    is_proven : bool
        Whether the selection is proven optimal.

    Raises
    ------
    InfeasibleError
        If the constraints cannot be satisfied; the message names them.
    """
    relaxation = _Relaxation(problem, constraints)
    variables, _, _ = relaxation.generate(relaxation.select_initial_variables(), feasibility=True)
    _, dual, _ = relaxation.generate(variables, feasibility=False)
    bound = relaxation.compute_bound(dual)
    # All costs are integers, so the bound can be rounded up, except for rounding errors.
    bound = float(np.ceil(bound - _TOLERANCE * max(1.0, abs(bound))))
    max_reduced_cost = relaxation.compute_initial_threshold(dual)
    best: list[IntArray] | None = None
    # Solve integer programmes over an increasing number of variables.
    while True:
        variables, has_all = relaxation.select_variables(dual, max_reduced_cost)
        if len(variables.role) > MAX_VARIABLES:
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
        gap = problem.total_cost(best) - bound
        is_optimal = status == "optimal"
        if not is_optimal or has_all or gap <= max(0.0, max_reduced_cost):
            return best, bound, is_optimal or gap <= 0
        max_reduced_cost = gap


def find_fractional_assignment(
    problem: AssignmentProblem, constraints: ConstraintRows
) -> list[IntArray]:
    """Find sentences that satisfy the constraints if fractions of sentences may be assigned.

    The linear relaxation is solved without the costs. Its sentences are useful candidates for a
    selection that could not satisfy the constraints with the sentences of lowest cost.

    Parameters
    ----------
    problem
        Assignment problem without the constraints.
    constraints
        Additional constraints.

    Returns
    -------
    list of arrays
        For each role, the rows of the sentences with a positive weight in the fractional solution.

    Raises
    ------
    InfeasibleError
        If no fractional solution exists; the message names the violated constraints.
    """
    relaxation = _Relaxation(problem, constraints)
    # A role is the first or second sentence of the pairs for two models. Find any assignment of
    # sentences to roles that satisfies the constraints; costs are ignored.
    variables, _, x = relaxation.generate(relaxation.select_initial_variables(), feasibility=True)
    # Variables above a rounding error; each assigns a (fraction of a) sentence to a role.
    is_used = x > _TOLERANCE
    role_ids = range(len(problem.roles))
    return [variables.row[is_used & (variables.role == role_id)] for role_id in role_ids]


def list_names(names: Sequence[str]) -> str:
    """Join the first three names for an error message, and add the number of further names."""
    listed = "; ".join(names[:3])
    return listed if len(names) <= 3 else f"{listed} and {len(names) - 3} more"


class _Variables(NamedTuple):
    """Variables of a linear programme that assigns sentences to roles.

    Variable j is 1 if sentence `row[j]` is assigned to role `role[j]`. Both arrays of indices have
    the shape (n,), for n variables.
    """

    role: IntArray
    row: IntArray


class _DualPrices(NamedTuple):
    """Dual prices of the constraints of a linear relaxation.

    The arrays have the shapes (A,) for the A roles, (S,) for the S sentences, and (B,) for the B
    inequalities that additional constraints impose.
    """

    roles: FloatArray
    sentences: FloatArray
    inequalities: FloatArray


class _Relaxation:
    """Linear relaxation of an assignment problem with additional constraints.

    The variable x_j >= 0 is the fraction of a sentence s that is assigned to a role a. A role is
    sentence 1 or sentence 2 of the pairs of two models.

        minimise    sum_j cost_j x_j
        subject to  sum_{j of role a} x_j = n_sentences(a)    (price u_a),
                    sum_{j of sentence s} x_j <= 1            (price v_s <= 0),
                    sum_j sign_b w_bj x_j <= limit_b          (price y_b <= 0),

    The last inequalities b are the finite bounds of the additional constraints: w_bj is the weight
    of variable j, and sign_b is 1 for upper and -1 for lower bounds. The symbols in parentheses are
    dual prices. The reduced cost of variable j is cost_j - u_a - v_s - sum_b sign_b y_b w_bj.
    """

    def __init__(self, problem: AssignmentProblem, constraints: ConstraintRows) -> None:
        self.problem, self.constraints = problem, constraints
        # Number of sentences that each role needs.
        self.n_sentences = np.array([r.n_sentences for r in problem.roles], dtype=np.float64)

        # Convert each finite bound lower <= w x <= upper to an inequality sign w x <= limit, with
        # the sign 1 and the limit `upper`, or the sign -1 and the limit `-lower`.
        has_upper, has_lower = np.isfinite(constraints.upper), np.isfinite(constraints.lower)
        self.rows = np.hstack([np.flatnonzero(has_upper), np.flatnonzero(has_lower)])
        self.signs = np.repeat([1.0, -1.0], [has_upper.sum(), has_lower.sum()])
        self.limits = np.hstack([constraints.upper[has_upper], -constraints.lower[has_lower]])

        # Inequalities are divided by the largest absolute weight of their constraint, so that the
        # solver's absolute tolerances are equally strict for all constraints.
        self.scale = np.ones(len(constraints.names))
        for weights in constraints.weights:
            self.scale = np.maximum(self.scale, abs(weights).max(axis=0).toarray().ravel())

    def select_initial_variables(self) -> _Variables:
        """Return the variables that assign the cheapest sentences to each role."""
        # A role is the first or second sentence of the pairs for two models. Take three times as
        # many sentences as it needs, so that the constraints leave a choice.
        roles = self.problem.roles
        rows = [self.problem.find_cheapest(role, max(16, 3 * role.n_sentences)) for role in roles]
        role_by_variable = np.repeat(np.arange(len(roles)), [len(role_rows) for role_rows in rows])
        return _Variables(role_by_variable, np.hstack(rows))

    def compute_initial_threshold(self, dual: _DualPrices) -> float:
        """Return the maximum reduced cost of the variables in the first integer programme.

        With this threshold, the programme has about 20 variables per sentence to select. `dual`
        contains the dual prices of the constraints of the linear relaxation.
        """
        # Take the n-th smallest reduced cost as the threshold, n = 20 per sentence to select.
        reduced = np.hstack([costs for _, costs in self._reduced_costs(dual, feasibility=False)])
        n = min(20 * self.problem.n_sentences, len(reduced)) - 1
        return max(1.0, float(np.partition(reduced, n)[n]))

    def generate(
        self, variables: _Variables, *, feasibility: bool
    ) -> tuple[_Variables, _DualPrices, FloatArray]:
        """Solve the linear relaxation over all variables by column generation.

        The relaxation is first solved over the given variables only. Variables with a negative
        reduced cost could improve the solution and are added, until there are none.

        Parameters
        ----------
        variables
            Initial variables.
        feasibility
            Whether to minimise the total violation of the constraints instead of the cost.

        Returns
        -------
        variables
            Variables of the final relaxation.
        dual
            Dual prices of the constraints.
        x : (n,) array
            Value of each variable in the solution.

        Raises
        ------
        InfeasibleError
            If the minimum total violation is positive.
        """
        n_rows = len(self.problem.reject_costs)
        while True:
            shortfalls, dual, x = self._solve_restricted(variables, feasibility=feasibility)
            roles, rows = [variables.role], [variables.row]
            # For each role (first or second sentence of the pairs for two models), add the
            # variables with the most negative reduced costs, each for one sentence.
            for role_id, (allowed, reduced) in enumerate(self._reduced_costs(dual, feasibility)):
                negative = np.flatnonzero(reduced < -_TOLERANCE)
                lowest = negative[np.argsort(reduced[negative], kind="stable")[:_MAX_NEW_VARIABLES]]
                roles.append(np.full(len(lowest), role_id))
                rows.append(allowed[lowest])
            # Remove duplicates, with one number for each combination of role and sentence.
            keys = np.unique(np.hstack(roles) * n_rows + np.hstack(rows))
            # If no variable was added, the solution is optimal over all variables.
            if len(keys) == len(variables.role):
                break
            variables = _Variables(keys // n_rows, keys % n_rows)
        # In a feasibility problem, positive slack variables state how far constraints are violated.
        if shortfalls:
            raise InfeasibleError(
                f"the constraints cannot be satisfied together; unmet: {list_names(shortfalls)}; "
                "loosen a constraint or add sentences"
            )
        return variables, dual, x

    def _solve_restricted(
        self, variables: _Variables, *, feasibility: bool
    ) -> tuple[list[str], _DualPrices, FloatArray]:
        """Solve the linear relaxation over n variables.

        If `feasibility` is true, slack variables are added to the constraints, and the weighted sum
        of the slack variables is minimised instead of the cost.

        Returns
        -------
        shortfalls : list of str
            Violated constraints, with the amounts; empty if `feasibility` is false.
        dual : _DualPrices
            Dual prices of the constraints.
        x : (n,) array
            Value of each variable in the solution.
        """
        role_counts, sentence_counts, rows = self._build_count_matrices(variables)
        n_roles, n_inequalities = len(self.n_sentences), len(self.rows)
        scale = self.scale[self.rows]
        scaled = diags_array(self.signs / scale) @ self._get_weights(variables)[self.rows]
        inequalities, equalities = vstack([sentence_counts, scaled], format="csr"), role_counts
        costs = self._get_costs(variables)
        if feasibility:
            # Slack variables are the number of missing sentences of each role and the excess of
            # each inequality. Missing sentences cost more, so that a violated constraint is
            # reported rather than missing sentences if either explains the failure.
            excess = vstack(
                [csr_array((len(rows), n_inequalities)), -eye_array(n_inequalities)], format="csr"
            )
            no_roles = csr_array((inequalities.shape[0], n_roles))
            inequalities = hstack([inequalities, no_roles, excess], format="csr")
            no_excess = csr_array((n_roles, n_inequalities))
            equalities = hstack([role_counts, eye_array(n_roles), no_excess], format="csr")
            costs = np.repeat([0.0, 10.0, 1.0], [len(costs), n_roles, n_inequalities])
        limits = np.hstack([np.ones(len(rows)), self.limits / scale])
        solve: Any = scipy.optimize.linprog  # its type stubs lack sparse matrices
        result = solve(costs, inequalities, limits, equalities, self.n_sentences, method="highs")
        if result.status != 0:
            raise InfeasibleError(f"the linear relaxation was not solved: {result.message}")

        prices = result.ineqlin.marginals
        sentence_prices = np.zeros(len(self.problem.reject_costs))
        sentence_prices[rows] = prices[: len(rows)]
        dual = _DualPrices(result.eqlin.marginals, sentence_prices, prices[len(rows) :] / scale)
        n_variables = len(variables.role)
        shortfalls: list[str] = []
        if feasibility:
            units = np.hstack([np.ones(n_roles), scale / self.constraints.units[self.rows]])
            names = [*map(str, self.problem.roles), *np.take(self.constraints.names, self.rows)]
            amounts = zip(names, result.x[n_variables:] * units, strict=True)
            shortfalls = [f"{name}, by {amount:.3g}" for name, amount in amounts if amount > 1e-6]
        return shortfalls, dual, result.x[:n_variables]

    def _reduced_costs(
        self, dual: _DualPrices, feasibility: bool
    ) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield the reduced cost of each assignment of a sentence, for one role after another.

        The reduced cost is the cost of the assignment minus the dual prices of its constraints:
        cost(a, s) - u_a - v_s - sum_b y_b weight_b(a, s), where u_a, v_s and y_b are the prices of
        role a, sentence s and inequality b. Assignments with a negative reduced cost can improve
        the current solution.

        Parameters
        ----------
        dual
            Dual prices of the constraints.
        feasibility
            Whether the total violation of the constraints is minimised. All assignments then have
            the cost 0.

        Yields
        ------
        allowed : (k,) array
            Rows of the sentences that may take the role.
        reduced : (k,) array
            Reduced costs of assigning these sentences to the role.
        """
        constraint_prices = np.bincount(self.rows, self.signs * dual.inequalities, len(self.scale))
        # `constraint_prices` contains the sum of the prices of both bounds of each constraint.
        for role_id, role in enumerate(self.problem.roles):
            # cost(a, s) - u_a - v_s - sum_b y_b weight_b(a, s), for all allowed sentences s
            allowed = np.flatnonzero(self.problem.is_allowed(role))
            inequality_prices = self.constraints.weights[role_id][allowed] @ constraint_prices
            reduced = -dual.roles[role_id] - dual.sentences[allowed] - inequality_prices
            if not feasibility:
                reduced += self.problem.reject_costs[allowed, role.reject]
            yield allowed, reduced

    def compute_bound(self, dual: _DualPrices) -> float:
        """Compute the Lagrangian lower bound on the cost of every selection.

        The bound is sum_a n_sentences(a) u_a + sum_s v_s + sum_b limit_b y_b + sum_j min(r_j, 0),
        where u_a, v_s and y_b are the dual prices of role a, sentence s and inequality b, and r_j
        is the reduced cost of variable j. It is valid for any prices with v_s <= 0 and y_b <= 0.
        """
        # sum_a n_sentences(a) u_a + sum_s v_s + sum_b limit_b y_b
        bound = dual.roles @ self.n_sentences + dual.sentences.sum()
        bound += dual.inequalities @ self.limits
        # + sum_j min(r_j, 0), over all variables, also those that the relaxation left out
        for _, reduced in self._reduced_costs(dual, feasibility=False):
            bound += np.minimum(reduced, 0.0).sum()
        return float(bound)

    def select_variables(
        self, dual: _DualPrices, max_reduced_cost: float
    ) -> tuple[_Variables, bool]:
        """Return the variables with a reduced cost of at most `max_reduced_cost`.

        Returns
        -------
        variables
            Variables with a low reduced cost, each for the assignment of a sentence to a role.
        has_all : bool
            Whether these are all variables of the problem.
        """
        roles, rows, has_all = [], [], True
        # Variables above the threshold cannot be part of a better selection, up to rounding.
        threshold = max_reduced_cost + _TOLERANCE * max(1.0, max_reduced_cost)
        for role_id, (allowed, reduced) in enumerate(self._reduced_costs(dual, feasibility=False)):
            # Sentences that may be assigned to this role at a low reduced cost.
            role_rows = allowed[reduced <= threshold]
            has_all = has_all and len(role_rows) == len(allowed)
            roles.append(np.full(len(role_rows), role_id))
            rows.append(role_rows)
        return _Variables(np.hstack(roles), np.hstack(rows)), has_all

    def solve_integer(
        self, variables: _Variables, time_limit: float | None
    ) -> tuple[list[IntArray] | None, str]:
        """Solve the integer programme with HiGHS for a subset of its variables.

        A variable is 1 if a sentence is assigned to a role, that is, selected as first or second
        sentence of the pairs for two models. Variables outside the subset are fixed at 0.

        Parameters
        ----------
        variables
            Subset of the variables. Each belongs to one role and one sentence.
        time_limit
            Time limit in seconds. None: no limit.

        Returns
        -------
        chosen : list of arrays or None
            Indices of the sentences that are assigned to each role, sorted by the increasing cost
            of the assignment. None if no solution was found.
        status : str
            Status of the solution (`Solution`).
        """
        # Constraints on the number of sentences of each role, the number of roles of each sentence,
        # and additional ones. A sentence with a single variable can only have one role.
        role_counts, sentence_counts, _ = self._build_count_matrices(variables)
        sentence_counts = sentence_counts[np.diff(sentence_counts.indptr) > 1]
        constraint_rows = [role_counts, sentence_counts, self._get_weights(variables)]
        matrix = csr_array(vstack(constraint_rows, format="csr"))
        n_shared = sentence_counts.shape[0]
        lower = np.hstack([self.n_sentences, np.full(n_shared, -np.inf), self.constraints.lower])
        upper = np.hstack([self.n_sentences, np.ones(n_shared), self.constraints.upper])
        solution = minimise(self._get_costs(variables), matrix, lower, upper, time_limit=time_limit)
        if solution.x is None:
            return None, solution.status
        # The solver returns 0 or 1 for each variable, up to rounding.
        is_used = solution.x > 0.5
        roles = range(len(self.n_sentences))
        chosen = [variables.row[is_used & (variables.role == role_id)] for role_id in roles]
        return self.problem.sort_by_cost(chosen), solution.status

    def _get_costs(self, variables: _Variables) -> FloatArray:
        """Return the objective coefficients of n variables, shape (n,).

        The coefficient of a variable is the cost of its sentence under the rejecting model.
        """
        # Column of the rejecting model of each role, then of each variable.
        rejecting_models = np.array([role.reject for role in self.problem.roles])
        costs = self.problem.reject_costs[variables.row, rejecting_models[variables.role]]
        return np.asarray(costs, dtype=np.float64)

    def _build_count_matrices(self, variables: _Variables) -> tuple[csr_array, csr_array, IntArray]:
        """Build two matrices: for the sentences of each role, and for the roles of each sentence.

        A role is sentence 1 or 2 of the pairs of two models. Each of the n variables x_j is 1 if a
        sentence is selected for a role, else 0. The product of a matrix and x contains the counts.

        Returns
        -------
        role_counts : sparse (A, n) array
            1 if the variable belongs to the role, one of A roles, else 0.
        sentence_counts : sparse (R, n) array
            1 if the variable belongs to the sentence, else 0.
        rows : (R,) array
            Indices of the R sentences that occur in `variables`.
        """
        n = len(variables.role)
        # Sparse matrices from (value, (row, column)): a column for each variable with a single 1.
        ones, indices = np.ones(n), np.arange(n)
        role_counts = csr_array((ones, (variables.role, indices)), shape=(len(self.n_sentences), n))
        # Number the sentences that occur, so that the matrix has no empty rows.
        rows, codes = np.unique(variables.row, return_inverse=True)
        sentence_counts = csr_array((ones, (codes, indices)), shape=(len(rows), n))
        return role_counts, sentence_counts, rows

    def _get_weights(self, variables: _Variables) -> csr_array:
        """Return the coefficients of n variables in the K additional constraints, shape (K, n)."""
        role_ids = range(len(self.n_sentences))
        indices = [np.flatnonzero(variables.role == role_id) for role_id in role_ids]
        # Each role has a matrix of weights, with a row per sentence and a column per constraint.
        # Stack the rows of the variables role by role.
        blocks = [
            weights[variables.row[role_indices]]
            for weights, role_indices in zip(self.constraints.weights, indices, strict=True)
        ]
        stacked = csr_array(vstack(blocks, format="csr"))
        # Return to the order of `variables`, and transpose: one row per constraint.
        variable_order = np.argsort(np.hstack(indices), kind="stable")
        return csr_array(stacked[variable_order].T)
