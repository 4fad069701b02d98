"""Stratified selection of triplets: equally many from each stratum of two models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy  # loads `scipy.optimize` on first use
from scipy.sparse import csr_array, vstack

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InfeasibleError, InputError
from contstim.selection.highs import minimise
from contstim.selection.natural import MAX_PER_PAIR

_MAX_DEFAULT_STRATA = 10


def resolve_n_strata(per_pair: int, strata: int | None, name: str = "per_pair") -> int:
    """Return the number of strata, by default the largest divisor of `per_pair` up to ten.

    Parameters
    ----------
    per_pair
        Number of triplets for each pair of models.
    strata
        Number of strata; None for the default.
    name
        Name of `per_pair` in messages.

    Raises
    ------
    InputError
        If `per_pair` is not a multiple of `strata`.
    """
    if not 1 <= per_pair <= MAX_PER_PAIR:
        raise InputError(f"{name} is {per_pair}; give 1 to {MAX_PER_PAIR}")
    if strata is None:
        return next(n for n in range(_MAX_DEFAULT_STRATA, 0, -1) if per_pair % n == 0)
    if strata < 1 or per_pair % strata:
        raise InputError(
            f"{name} is {per_pair}, which is not a multiple of strata, {strata}; change one of "
            "them, or leave strata out"
        )
    return strata


@dataclass(frozen=True, eq=False)
class StratifiedSelection:
    """Selection of rows with a maximum number from each stratum of either model.

    With x_t = 1 if row t is selected, and stratum s_m(t) of row t under model m:

        minimise    sum_t cost_t x_t
        subject to  sum_{t: s_m(t) = k} x_t <= per_stratum  for m = 1, 2 and every stratum k,
                    x_t in {0, 1},

    among the selections with the largest number of rows.

    Attributes
    ----------
    costs : (T,) array
        Costs of the T rows.
    strata : (T, 2) array
        Strata of each row under both models, from 0.
    n_strata
        Number of strata of each model.
    per_stratum
        Maximum number of rows per stratum.
    """

    costs: FloatArray
    strata: IntArray
    n_strata: int
    per_stratum: int

    def solve(self) -> IntArray:
        """Solve the problem exactly as an assignment problem.

        A *slot* is a unit of the capacity of a stratum: each stratum of each model has
        `per_stratum` slots, and a selected row occupies one slot of its stratum under model 1 and
        one slot of its stratum under model 2. The cost matrix has a matrix row for each slot of
        model 1 and for each candidate row, and a matrix column for each slot of model 2 and for
        each candidate row. Its entries are infinite except for four kinds of assignment:

        - a slot of model 1 to a row in its stratum: the cost of the row;
        - a row to a slot of model 2 in its stratum: 0;
        - a row to itself, i.e. the row is not selected: 0;
        - a slot of model 1 to a slot of model 2, i.e. both remain empty: a cost so high that as
          few slots as possible remain empty.

        Returns
        -------
        array
            Sorted indices of the selected rows.
        """
        # Only the cheapest rows in each combination of strata can be selected.
        order = np.lexsort((np.arange(len(self.costs)), self.costs))
        combination = pd.Series(self.strata[order, 0] * self.n_strata + self.strata[order, 1])
        is_cheap = combination.groupby(combination).cumcount().to_numpy() < self.per_stratum
        rows = np.sort(order[is_cheap])
        costs = self.costs[rows]

        n_rows, n_slots = len(rows), self.n_strata * self.per_stratum
        slot_stratum = np.repeat(np.arange(self.n_strata), self.per_stratum)
        matrix = np.full((n_slots + n_rows, n_slots + n_rows), np.inf)
        # An empty slot costs more than any change of the selected rows can save.
        matrix[:n_slots, :n_slots] = 1.0 + 2.0 * float(np.abs(costs).sum())
        is_in_stratum_1 = slot_stratum[:, None] == self.strata[rows, 0][None, :]
        matrix[:n_slots, n_slots:] = np.where(is_in_stratum_1, costs[None, :], np.inf)
        is_in_stratum_2 = self.strata[rows, 1][:, None] == slot_stratum[None, :]
        matrix[n_slots:, :n_slots] = np.where(is_in_stratum_2, 0.0, np.inf)
        np.fill_diagonal(matrix[n_slots:, n_slots:], 0.0)
        _, columns = scipy.optimize.linear_sum_assignment(matrix)
        # A row is selected if a slot of model 1 is assigned to its column.
        slot_columns = columns[:n_slots]
        return np.asarray(rows[np.sort(slot_columns[slot_columns >= n_slots] - n_slots)])

    def solve_with_limits(self, rows: csr_array, limits: FloatArray) -> IntArray:
        """Solve the problem with the additional constraints ``rows @ x <= limits``.

        Two integer programmes are solved. The first maximises the number of selected rows. The
        second minimises the total cost among the selections with this number of rows.

        Parameters
        ----------
        rows : sparse (n_limits, T) array
            Non-negative coefficients.
        limits : (n_limits,) array
            Upper limits.

        Returns
        -------
        array
            Sorted indices of the selected rows.
        """
        n = len(self.costs)
        strata = np.concatenate([self.strata[:, 0], self.n_strata + self.strata[:, 1]])
        columns = np.tile(np.arange(n), 2)
        in_stratum = csr_array((np.ones(2 * n), (strata, columns)), (2 * self.n_strata, n))
        matrix: Any = vstack([in_stratum, rows, csr_array(np.ones((1, n)))], format="csr")
        per_stratum = np.full(2 * self.n_strata, float(self.per_stratum))
        upper = np.concatenate([per_stratum, limits, [np.inf]])
        lower = np.zeros(len(upper))
        selected = np.zeros(n)
        for costs in (-np.ones(n), self.costs):
            lower[-1] = selected.sum()
            solution = minimise(costs, matrix, lower, upper)
            if solution.x is None or solution.status != "optimal":
                raise InfeasibleError(f"HiGHS found no choice of triplets: {solution.status}")
            selected = solution.x
        return np.flatnonzero(selected)

    def unfilled_strata(
        self, selected: IntArray, models: tuple[str, str]
    ) -> list[dict[str, object]]:
        """List the strata with fewer than `per_stratum` selected rows.

        Parameters
        ----------
        selected
            Indices of the selected rows.
        models
            Names of the two models.

        Returns
        -------
        list of dict
            For each such stratum: ``model``, ``stratum`` (numbered from 0), and the numbers of
            rows ``wanted`` (`per_stratum`), ``selected``, and ``available`` (in the stratum).
        """
        unfilled: list[dict[str, object]] = []
        for strata, model in zip(self.strata.T, models, strict=True):
            n_selected = np.bincount(strata[selected], minlength=self.n_strata).tolist()
            n_available = np.bincount(strata, minlength=self.n_strata).tolist()
            for stratum in range(self.n_strata):
                if n_selected[stratum] < self.per_stratum:
                    labels = {"model": model, "stratum": stratum, "wanted": self.per_stratum}
                    numbers = {"selected": n_selected[stratum], "available": n_available[stratum]}
                    unfilled.append(labels | numbers)
        return unfilled
