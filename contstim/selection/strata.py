"""Stratified selection of triplets, with the same number from each range of scores."""

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
    """Return the number of strata, from each of which the same number of triplets is selected.

    Parameters
    ----------
    per_pair
        Number of triplets for each pair of models.
    strata
        Number of strata. Default: the largest divisor of `per_pair` up to ten.
    name
        Name of `per_pair` in error messages.

    Raises
    ------
    InputError
        If `per_pair` is not a multiple of `strata`.
    """
    if not 1 <= per_pair <= MAX_PER_PAIR:
        raise InputError(f"{name} is {per_pair}; give 1 to {MAX_PER_PAIR}")
    if strata is None:
        # Largest divisor of `per_pair` up to ten.
        return next(n for n in range(_MAX_DEFAULT_STRATA, 0, -1) if per_pair % n == 0)
    if strata < 1 or per_pair % strata:
        raise InputError(
            f"{name} is {per_pair}, which is not a multiple of strata, {strata}; change one of "
            "them, or leave strata out"
        )
    return strata


@dataclass(frozen=True, eq=False)
class StratifiedSelection:
    """Selection from T triplets with a maximum number of triplets per stratum.

    A triplet is a natural sentence with two synthetic sentences, about which two models disagree.
    The strata of a model are ranges of its scores of natural sentences. Each triplet therefore
    belongs to two strata, one under each model. With x_t = 1 if triplet t is selected, and s_m(t)
    the stratum of triplet t under model m:

        minimise    sum_t cost_t x_t
        subject to  sum_{t: s_m(t) = k} x_t <= per_stratum  for m = 1, 2 and every stratum k,
                    x_t in {0, 1},

    among the selections with the largest number of triplets.

    Attributes
    ----------
    costs : (T,) array
        Cost of selecting each of T triplets; the sum of the costs is minimised.
    strata : (T, 2) array
        Stratum of each triplet under model 1 and under model 2, numbered from 0.
    n_strata
        Number of strata of each model.
    per_stratum
        Maximum number of triplets per stratum.
    """

    costs: FloatArray
    strata: IntArray
    n_strata: int
    per_stratum: int

    def solve(self) -> IntArray:
        """Solve the selection problem exactly, as an assignment problem.

        A stratum is a range of scores under one model, to be filled with `per_stratum` triplets. It
        is represented by `per_stratum` empty places. A selected triplet fills one place in its
        stratum of model 1 and one place in its stratum of model 2. The assignment problem matches
        each row of a cost matrix with one column. The rows are the places of model 1, then the
        triplets. The columns are the places of model 2, then the triplets. Four matches are
        possible:

        - row of a place of model 1, column of a triplet in its stratum: the triplet fills the
          place, at the cost of the triplet;
        - row of a triplet, column of a place of model 2 in its stratum: the triplet also fills this
          place, at no further cost;
        - row and column of the same triplet: it is not selected, at the cost 0;
        - row of a place of model 1, column of a place of model 2: both remain empty, at a cost so
          high that as few places as possible remain empty.

        Returns
        -------
        array
            Sorted indices of the selected triplets.
        """
        order = np.lexsort((np.arange(len(self.costs)), self.costs))
        # A stratum is a range of the scores under one model. Each triplet belongs to a stratum of
        # model 1 and to a stratum of model 2. Only the cheapest triplets of each combination of two
        # strata can be selected.
        combination = pd.Series(self.strata[order, 0] * self.n_strata + self.strata[order, 1])
        is_cheap = combination.groupby(combination).cumcount().to_numpy() < self.per_stratum
        triplets = np.sort(order[is_cheap])
        costs = self.costs[triplets]

        # Each stratum has `per_stratum` places for triplets. Solve an assignment problem, which
        # matches each row of the cost matrix with one column; an infinite cost forbids a match:
        #
        #                        places of model 2        triplets
        #     places of model 1  both remain empty        triplet fills place of model 1
        #     triplets           fills place of model 2   diagonal: triplet is not selected
        #
        n_triplets, n_places = len(triplets), self.n_strata * self.per_stratum
        place_strata = np.repeat(np.arange(self.n_strata), self.per_stratum)
        matrix = np.full((n_places + n_triplets, n_places + n_triplets), np.inf)
        # An empty place costs more than any change of the selected triplets can save.
        matrix[:n_places, :n_places] = 1.0 + 2.0 * float(np.abs(costs).sum())
        is_in_stratum_1 = place_strata[:, None] == self.strata[triplets, 0][None, :]
        matrix[:n_places, n_places:] = np.where(is_in_stratum_1, costs[None, :], np.inf)
        is_in_stratum_2 = self.strata[triplets, 1][:, None] == place_strata[None, :]
        matrix[n_places:, :n_places] = np.where(is_in_stratum_2, 0.0, np.inf)
        np.fill_diagonal(matrix[n_places:, n_places:], 0.0)
        _, columns = scipy.optimize.linear_sum_assignment(matrix)
        # A triplet is selected if the row of a place of model 1 is matched with its column.
        place_columns = columns[:n_places]
        selected = np.sort(place_columns[place_columns >= n_places] - n_places)
        return np.asarray(triplets[selected])

    def solve_with_limits(self, rows: csr_array, limits: FloatArray) -> IntArray:
        """Solve the selection problem with the additional constraints ``rows @ x <= limits``.

        Two integer programmes are solved. The first maximises the number of selected triplets. The
        second minimises the total cost among the selections with this number of triplets.

        Parameters
        ----------
        rows : sparse (n_limits, T) array
            Coefficients, which must not be negative.
        limits : (n_limits,) array
            Upper limits.

        Returns
        -------
        array
            Sorted indices of the selected triplets.
        """
        n = len(self.costs)
        # The rows of `matrix` count the selected triplets in each stratum of model 1 and of model
        # 2, compute the given constraints, and count all selected triplets.
        strata = np.concatenate([self.strata[:, 0], self.n_strata + self.strata[:, 1]])
        columns = np.tile(np.arange(n), 2)
        in_stratum = csr_array((np.ones(2 * n), (strata, columns)), (2 * self.n_strata, n))
        matrix: Any = vstack([in_stratum, rows, csr_array(np.ones((1, n)))], format="csr")
        per_stratum = np.full(2 * self.n_strata, float(self.per_stratum))
        upper = np.concatenate([per_stratum, limits, [np.inf]])
        lower = np.zeros(len(upper))
        selected = np.zeros(n)
        # Minimising -sum(x) selects as many triplets as possible. Minimising the costs then finds
        # the cheapest selection of at least this number (last row of the matrix).
        for coefficients in (-np.ones(n), self.costs):
            lower[-1] = selected.sum()
            solution = minimise(coefficients, matrix, lower, upper)
            if solution.x is None or solution.status != "optimal":
                raise InfeasibleError(f"HiGHS found no choice of triplets: {solution.status}")
            selected = solution.x
        return np.flatnonzero(selected)

    def find_unfilled_strata(
        self, selected: IntArray, models: tuple[str, str]
    ) -> list[dict[str, object]]:
        """List the strata from which fewer than `per_stratum` triplets were selected.

        Parameters
        ----------
        selected
            Indices of the selected triplets.
        models
            Names of model 1 and model 2.

        Returns
        -------
        list of dict
            For each of these strata: ``model``, ``stratum`` (number from 0), and the numbers of
            triplets that were ``wanted`` (equal to `per_stratum`), ``selected`` and ``available``.
        """
        unfilled: list[dict[str, object]] = []
        # A stratum is a range of the scores under one model, numbered from 0.
        for strata, model in zip(self.strata.T, models, strict=True):
            # Count the selected and the available triplets in each stratum of the model.
            n_selected = np.bincount(strata[selected], minlength=self.n_strata).tolist()
            n_available = np.bincount(strata, minlength=self.n_strata).tolist()
            for stratum in range(self.n_strata):
                if n_selected[stratum] < self.per_stratum:
                    labels = {"model": model, "stratum": stratum, "wanted": self.per_stratum}
                    numbers = {"selected": n_selected[stratum], "available": n_available[stratum]}
                    unfilled.append(labels | numbers)
        return unfilled
