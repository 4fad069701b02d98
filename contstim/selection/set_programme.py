"""Integer programme that selects sentence pairs to compare all models of a set.

`SetProgramme.select_greedily` is a faster approximation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy  # loads `scipy.optimize` on first use
from scipy.sparse import csr_array, diags_array, hstack, vstack

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InfeasibleError, list_names
from contstim.selection.constraint_rows import SelectionConstraint
from contstim.selection.constraints import compute_pairing_blocks
from contstim.selection.highs import SOLVER, Solution, minimise
from contstim.selection.pair_constraints import build_pair_constraints
from contstim.selection.set_criteria import SetCriterion

#: Messages for a selection without candidates.
NO_PAIR = "no pair of sentences can be selected; give more sentences"
NO_EQUAL_PAIR = (
    "no two sentences agree in the features that must be equal; loosen the constraint or give "
    "more sentences"
)

#: Solver names of selections that HiGHS did not make.
GREEDY = "one pair at a time"
ROUNDED = "the linear relaxation rounded"

# Number of successive exchanges without improvement after which the greedy search stops.
_MAX_IDLE_EXCHANGES = 1000
# Number of candidates above which pairs that the linear relaxation selects completely are fixed.
_FIX_ABOVE = 1500


class SetProgramme:
    """Selection of n of K candidate sentence pairs that best distinguish all pairs of models.

    The contribution c_kq measures how well candidate k distinguishes the two models of pair q
    (`SetCriterion`). With x_k = 1 if candidate k is selected:

        maximise    t
        subject to  sum_k c_kq x_k >= t                        for every pair of models q,
                    sum_k x_k = n,
                    sum_{k contains s} x_k <= max_occurrences  for every sentence s,
                    the additional constraints, x_k in {0, 1}.

    The optimal t is the smallest sum of contributions over the pairs of models.

    Parameters
    ----------
    criterion
        Criterion that defines the contributions.
    pairs : (n_pairs, 2) array
        Indices of the two sentences of each candidate, in any order. Duplicates are removed, and so
        are pairs of sentences that differ in a feature that must be equal.
    constraints
        Constraints, as returned by `merge_equal`.
    n
        Number of pairs to select.
    max_occurrences
        Maximum number of selected pairs that contain the same sentence.

    Attributes
    ----------
    pairs : (K, 2) array
        Indices of the two sentences of each candidate. The order is such that the first model with
        a preference prefers sentence 1.
    contributions : (K, n_model_pairs) array
        Contribution of each candidate for each pair of models.
    smallest_differences : (K,) array
        Difference between the fractional ranks of the two sentences, minimum over the models.
    rows : sparse (n_rows, K) array
        Coefficients of the constraints on x: first the number of pairs, then the number of pairs
        with each sentence, last the additional constraints.
    lower, upper : (n_rows,) array
        Bounds of the constraints.
    names, units
        Descriptions and units of the additional constraints, for error messages.
    """

    def __init__(
        self,
        criterion: SetCriterion,
        pairs: IntArray,
        constraints: Sequence[SelectionConstraint],
        n: int,
        max_occurrences: int,
    ) -> None:
        if not len(pairs):
            raise InfeasibleError(NO_PAIR)
        ranked = criterion.ranked
        # Only sentences of the same block may be paired: their features that must be equal agree.
        blocks = compute_pairing_blocks(constraints, ranked.labels)[pairs]
        pairs = pairs[blocks[:, 0] == blocks[:, 1]]
        if not len(pairs):
            raise InfeasibleError(NO_EQUAL_PAIR)
        self.n, self.is_count = n, criterion.is_count
        self.max_occurrences = max_occurrences

        # Remove duplicates, and swap sentences that the first model does not prefer.
        pairs = np.unique(np.sort(pairs, axis=1), axis=0)
        preferences = ranked.preferences(pairs)
        first_model = (preferences != 0).argmax(axis=1)
        is_swapped = np.take_along_axis(preferences, first_model[:, None], axis=1) < 0
        self.pairs = np.where(is_swapped, pairs[:, ::-1], pairs)
        preferences = np.where(is_swapped, -preferences, preferences)
        self.contributions = criterion.contributions(self.pairs)
        self.smallest_differences = ranked.rank_differences(self.pairs).min(axis=1)

        # Limit the number of selected candidates with the same sentence. The incidence matrix has a
        # row for each sentence and a column for each candidate, and 1 if the candidate contains the
        # sentence. A sentence needs no row if so few candidates contain it that no selection can
        # exceed the limit.
        n_candidates = len(self.pairs)
        _, sentences = np.unique(self.pairs.ravel(), return_inverse=True)
        columns = np.repeat(np.arange(n_candidates), 2)
        incidence = csr_array((np.ones(2 * n_candidates), (sentences.ravel(), columns)))
        incidence = incidence[np.diff(incidence.indptr) > max_occurrences]
        weights, constraint_rows = build_pair_constraints(
            constraints, ranked, self.pairs, preferences, n, max_occurrences
        )
        ones = csr_array(np.ones((1, n_candidates)))
        self.rows = csr_array(vstack([ones, incidence, weights], format="csr"))
        n_limited = incidence.shape[0]
        lower, upper = np.full(n_limited, -np.inf), np.full(n_limited, max_occurrences)
        self.lower = np.hstack([n, lower, *(rows.lower for rows in constraint_rows)])
        self.upper = np.hstack([n, upper, *(rows.upper for rows in constraint_rows)])
        self.names = [name for rows in constraint_rows for name in rows.names]
        self.units = np.hstack([rows.units for rows in constraint_rows])

    def compute_objective(self, chosen: IntArray) -> float:
        """Return the value of the objective for the chosen candidates.

        Each candidate pair of sentences contributes a value to each pair of models, which measures
        how well it distinguishes the two models. The objective is the minimum, over pairs of
        models, of the summed contributions.

        Parameters
        ----------
        chosen
            Indices of the chosen candidates.
        """
        return float(self.contributions[chosen].sum(axis=0).min())

    def compute_dual_prices(self) -> FloatArray:
        """Compute the dual price of each pair of models in the linear relaxation.

        Pairs of models with a high price limit the objective, so further candidates should
        distinguish them.

        Returns
        -------
        (n_model_pairs,) array
            Dual prices with the sum 1. All prices are equal if the relaxation is infeasible.
        """
        n_candidates, n_model_pairs = self.contributions.shape
        # Variables: x_k, the fraction of candidate pair k that is selected, and t, the smallest sum
        # of contributions over the pairs of models, which is maximised. `linprog` minimises, so the
        # cost of t is -1. Write all constraints as upper bounds: t - sum_k c_kq x_k <= 0 for each
        # pair of models q, rows @ x <= upper, and -(rows @ x) <= -lower.
        sums, rows = self._build_model_rows()
        has_upper, has_lower = np.isfinite(self.upper), np.isfinite(self.lower)
        inequalities = vstack([-sums, rows[has_upper], -rows[has_lower]], format="csr")
        limits = np.hstack([np.zeros(n_model_pairs), self.upper[has_upper], -self.lower[has_lower]])
        bounds = [(0, 1)] * n_candidates + [(0, None)]
        costs = np.append(np.zeros(n_candidates), -1.0)
        solve: Any = scipy.optimize.linprog  # its type stubs lack sparse matrices
        result = solve(costs, inequalities, limits, bounds=bounds, method="highs")
        if result.status != 0:
            return np.full(n_model_pairs, 1 / n_model_pairs)
        # The dual values of the first constraints are the prices; `linprog` makes them negative.
        prices = np.maximum(-result.ineqlin.marginals[:n_model_pairs], 0.0)
        return np.asarray(prices / prices.sum())

    def select_greedily(self, upper_bound: float) -> IntArray | None:
        """Select candidates one at a time with multiplicative weights, then exchange them.

        Each pair of models q has the weight exp(-s_q), where s_q is the sum of the contributions of
        the candidates selected so far (method of multiplicative weights; Arora, Hazan & Kale 2012,
        doi 10.4086/toc.2012.v008a006).

        1. Add the candidate with the largest weighted sum of contributions, until n are selected.
        2. Remove a random selected candidate, and add the best candidate as in step 1. Repeat this
           until the objective reaches `upper_bound`, or until 1,000 successive exchanges give no
           improvement.

        Of candidates with equal values, the candidate with the largest value of
        `smallest_differences` is added. Additional constraints are ignored.

        Parameters
        ----------
        upper_bound
            Upper bound on the objective.

        Returns
        -------
        (n,) array or None
            Sorted indices of the selected candidates; None if there are too few sentences.
        """
        order = np.argsort(-self.smallest_differences, kind="stable")
        # Of candidates with equal values, the first in this order is added.
        contributions, pairs = self.contributions[order], self.pairs[order]
        greedy = _GreedySelection(contributions, pairs, self.max_occurrences)
        if not all(greedy.add_best() for _ in range(self.n)):
            return None

        best_chosen, best_objective, n_idle = list(greedy.chosen), greedy.sums.min(), 0
        # Exchange: remove a random selected candidate, and add the best one.
        rng = np.random.default_rng(0)
        while best_objective < upper_bound and n_idle < _MAX_IDLE_EXCHANGES:
            greedy.remove(int(rng.integers(self.n)))
            greedy.add_best()
            n_idle += 1
            if greedy.sums.min() > best_objective:
                best_chosen, best_objective, n_idle = list(greedy.chosen), greedy.sums.min(), 0
        return np.sort(order[best_chosen])

    def solve(self, upper_bound: float, time_limit: float) -> tuple[IntArray, float, str]:
        """Solve the integer programme.

        If the time limit is reached, the best of three selections is returned: the best solution
        that the solver found, the rounded solution of the linear relaxation, and, if there are no
        additional constraints, the result of `select_greedily`.

        Parameters
        ----------
        upper_bound
            Known upper bound on the objective.
        time_limit
            Time limit in seconds.

        Returns
        -------
        chosen : (n,) array
            Sorted indices of the selected candidates.
        upper_bound : float
            Proven upper bound on the objective of every selection of these candidates.
        solver : str
            Name of the method that found the selection.

        Raises
        ------
        InfeasibleError
            If the constraints cannot be satisfied, or if no selection is found in time.
        """
        # If contributions are real numbers, solve the linear relaxation first. Of many candidates,
        # fix those that it selects completely, which makes the integer programme much smaller.
        relaxed = None if self.is_count else self._run_solver(upper_bound, is_relaxed=True)
        solution = None
        if relaxed is not None and relaxed.x is not None and len(self.pairs) > _FIX_ABOVE:
            is_selected = relaxed.x[:-1] > 1 - 1e-6
            solution = self._run_solver(upper_bound, is_selected, time_limit=time_limit)
        if solution is not None and solution.x is not None:
            upper_bounds = [relaxed]
        else:
            solution = self._run_solver(upper_bound, time_limit=time_limit)
            upper_bounds = [solution]
        if solution.status == "infeasible":
            raise InfeasibleError(self._describe_shortfall(time_limit))

        # Collect the selections that were found, with the methods that found them.
        selections: list[tuple[IntArray, str]] = []
        if solution.x is not None:
            selections.append((self._round_solution(solution.x[:-1]), SOLVER))
        if solution.status != "optimal":
            relaxed = self._run_solver(upper_bound, is_relaxed=True) if relaxed is None else relaxed
            upper_bounds.append(relaxed)
            if relaxed.x is not None:
                selections.append((self._round_solution(relaxed.x[:-1]), ROUNDED))
            greedy = None if self.names else self.select_greedily(upper_bound)
            if greedy is not None:
                selections.append((greedy, GREEDY))

        feasible = [(chosen, solver) for chosen, solver in selections if self._is_feasible(chosen)]
        if not feasible:
            raise InfeasibleError(
                f"no {self.n} pairs were found in {time_limit:g} s; allow more time, loosen a "
                "constraint or ask for fewer pairs"
            )
        # Choose the selection with the best objective; of equal ones, the largest differences.
        values = [
            (self.compute_objective(chosen), self.smallest_differences[chosen].sum())
            for chosen, _ in feasible
        ]
        chosen, solver = feasible[values.index(max(values))]
        # The solver minimises -t, so that its lower bounds have the opposite sign.
        proven = 1e-6 - max(result.lower_bound for result in upper_bounds if result is not None)
        return chosen, float(np.floor(proven)) if self.is_count else proven, solver

    def _is_feasible(self, chosen: IntArray) -> bool:
        """Return whether the chosen candidates satisfy all constraints, up to rounding errors."""
        # x is 1 for chosen candidates, so sum their columns.
        sums = self.rows[:, chosen].sum(axis=1)
        tolerance = 1e-6 * np.maximum(1.0, abs(self.rows[:, chosen]).sum(axis=1))
        is_within = (sums >= self.lower - tolerance) & (sums <= self.upper + tolerance)
        return bool(is_within.all())

    def _build_model_rows(self) -> tuple[csr_array, csr_array]:
        """Build the constraint matrix in two parts. Its last column is for the objective t.

        Returns
        -------
        sums : sparse (n_model_pairs, K + 1) array
            Coefficients of sum_k c_kq x_k - t for each pair q of models, where x_k states whether
            candidate k is selected, and c_kq is its contribution.
        rows : sparse (n_rows, K + 1) array
            Coefficients of all other constraints, in which t has the coefficient 0.
        """
        n_model_pairs = self.contributions.shape[1]
        # Coefficients of sum_k c_kq x_k - t for each pair q of models. The last column is for t.
        minus_t = csr_array(-np.ones((n_model_pairs, 1)))
        sums = hstack([csr_array(self.contributions.T), minus_t])
        rows = hstack([self.rows, csr_array((self.rows.shape[0], 1))], format="csr")
        return sums, rows

    def _run_solver(
        self,
        bound: float,
        is_fixed: BoolArray | None = None,
        *,
        is_relaxed: bool = False,
        time_limit: float | None = None,
    ) -> Solution:
        """Maximise the objective t of the integer programme, or of its linear relaxation.

        The objective t is the smallest sum of contributions over the pairs of models. If
        contributions are 0 or 1, t is a number of sentence pairs, and many selections may have the
        same t. Half of the mean of `smallest_differences` is then added to t. It decides between
        these selections, and does not affect others because it is below 1.

        Parameters
        ----------
        bound
            Upper bound on t.
        is_fixed : (K,) array of bool
            Whether each candidate must be selected. Default: no candidate must be selected.
        is_relaxed
            Whether to solve the linear relaxation, in which candidates can be selected in part.
        time_limit
            Time limit in seconds. Default: no limit.

        Returns
        -------
        Solution
            Solution with a value for each candidate and a last value for t. Its objective value
            has the opposite sign, because the solver minimises.
        """
        n_candidates, n_model_pairs = self.contributions.shape
        # Variables: x_k = 1 if candidate pair k is selected, and t, the smallest sum of
        # contributions over the pairs of models. The solver minimises, so t has the cost -1.
        candidate_costs, relative_gap = np.zeros(n_candidates), 1e-3
        if self.is_count:
            # If t is equal, prefer large differences. Stop at a gap of 0.1 pairs.
            candidate_costs = -0.5 / self.n * self.smallest_differences
            relative_gap = max(1e-3, 0.1 / max(1.0, bound))
        # 0 <= x_k <= 1, with the lower bound 1 for fixed candidates, and 0 <= t <= bound.
        lowest = np.zeros(n_candidates) if is_fixed is None else is_fixed
        is_integer = np.full(n_candidates, not is_relaxed)
        return minimise(
            np.append(candidate_costs, -1.0),
            csr_array(vstack(self._build_model_rows(), format="csr")),
            np.hstack([np.zeros(n_model_pairs), self.lower]),
            np.hstack([np.full(n_model_pairs, np.inf), self.upper]),
            integer=np.append(is_integer, not is_relaxed and self.is_count),
            lowest=np.append(lowest, 0.0),
            highest=np.append(np.ones(n_candidates), np.ceil(bound)),
            time_limit=time_limit,
            relative_gap=relative_gap,
        )

    def _round_solution(self, x: FloatArray) -> IntArray:
        """Round a fractional solution of the integer programme to a selection of n candidate pairs.

        Candidates are selected by decreasing value. A candidate is left out if one of its sentences
        is already in the maximum number of selected pairs.

        Parameters
        ----------
        x : (K,) array
            Value of each candidate in the fractional solution, from 0 to 1.

        Returns
        -------
        (n,) array
            Sorted indices of the selected candidates.
        """
        n_selected = np.zeros(int(self.pairs.max()) + 1, dtype=np.int64)  # pairs with each sentence
        chosen: list[int] = []
        for k in np.argsort(-x, kind="stable").tolist():  # by decreasing value
            sentences = self.pairs[k]
            if len(chosen) < self.n and n_selected[sentences].max() < self.max_occurrences:
                n_selected[sentences] += 1
                chosen.append(k)
        return np.sort(np.array(chosen, dtype=np.int64))

    def _describe_shortfall(self, time_limit: float) -> str:
        """Describe which constraints cannot be satisfied, as an error message.

        Each constraint gets two slack variables, the amounts by which its lower and its upper bound
        are violated. The solution with the smallest total slack shows which constraints are
        violated, and by how much.

        Parameters
        ----------
        time_limit
            Time limit of the solver in seconds.
        """
        n_candidates, n_rows = len(self.pairs), self.rows.shape[0]
        scale = np.maximum(1.0, abs(self.rows).max(axis=1).toarray().ravel())
        # The number of pairs and the additional constraints have slack variables.
        elastic = np.r_[0, n_rows - len(self.names) : n_rows]
        n_elastic = len(elastic)
        # Two slack variables for each constraint: one is added to a sum that is too small, the
        # other is subtracted from a sum that is too large.
        missing = csr_array(
            (np.ones(n_elastic), (elastic, np.arange(n_elastic))), shape=(n_rows, n_elastic)
        )
        rows = hstack([diags_array(1 / scale) @ self.rows, missing, -missing], format="csr")
        solution = minimise(
            # Missing pairs cost more, so that a violated constraint is reported if possible.
            np.hstack([np.zeros(n_candidates), 10.0, np.ones(2 * n_elastic - 1)]),
            csr_array(rows),
            self.lower / scale,
            self.upper / scale,
            integer=np.repeat([True, False], [n_candidates, 2 * n_elastic]),
            highest=np.hstack([np.ones(n_candidates), np.full(2 * n_elastic, np.inf)]),
            time_limit=time_limit,
        )
        names = [f"{self.n} pairs", *self.names]
        if solution.x is not None:
            # The larger slack variable of each constraint, in the unit of the feature.
            shortfalls = solution.x[n_candidates:].reshape(2, -1).max(axis=0) * scale[elastic]
            amounts = zip(names, shortfalls / np.hstack([1.0, self.units]), strict=True)
            names = [f"{name}, by {amount:.3g}" for name, amount in amounts if amount > 1e-6]
        return (
            f"the {n_candidates} candidate pairs cannot satisfy all constraints; unmet: "
            f"{list_names(names)}; ask for fewer pairs, loosen a constraint or add sentences"
        )


class _GreedySelection:
    """Candidate sentence pairs that are selected one at a time to distinguish all pairs of models.

    Parameters
    ----------
    contributions : (K, n_model_pairs) array
        How well each candidate distinguishes the two models of each pair.
    pairs : (K, 2) array
        Indices of the two sentences of each candidate.
    max_occurrences
        Maximum number of selected candidates that contain the same sentence.

    Attributes
    ----------
    chosen
        Indices of the selected candidates.
    sums : (n_model_pairs,) array
        Sum of the contributions of the selected candidates.
    """

    def __init__(self, contributions: FloatArray, pairs: IntArray, max_occurrences: int) -> None:
        self.contributions, self.pairs = contributions, pairs
        self.max_occurrences = max_occurrences
        self.chosen: list[int] = []
        self.sums = np.zeros(contributions.shape[1])
        # Number of selected candidates that contain each sentence.
        self.n_selected = np.zeros(int(pairs.max(initial=-1)) + 1, dtype=np.int64)

    def add_best(self) -> bool:
        """Select the candidate of highest value, and return whether any candidate was available.

        The value of candidate k is sum_q c[k, q] exp(-s[q]), where c[k, q] states how well it
        distinguishes the two models of pair q, and s[q] is the sum of c over selected candidates.
        Pairs of models that are not yet distinguished well have the largest weights exp(-s[q]).
        """
        is_available = np.all(self.n_selected[self.pairs] < self.max_occurrences, axis=1)
        is_available[self.chosen] = False
        if not is_available.any():
            return False
        # Pairs of models that are not yet distinguished well have small sums and high weights. The
        # common factor exp(min(sums)) avoids underflow. The addition of 1 rounds values, so that
        # candidates of almost equal value are equal.
        weights = np.exp(self.sums.min() - self.sums)
        values = np.where(is_available, 1.0 + self.contributions @ weights, -np.inf)
        best = int(values.argmax())
        self.n_selected[self.pairs[best]] += 1
        self.sums += self.contributions[best]
        self.chosen.append(best)
        return True

    def remove(self, index: int) -> None:
        """Remove the candidate ``chosen[index]`` from the selection."""
        removed = self.chosen.pop(index)
        self.n_selected[self.pairs[removed]] -= 1
        self.sums -= self.contributions[removed]
