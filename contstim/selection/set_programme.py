"""What pairs of sentences tell of every two models, and which of them are chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy  # which loads `optimize` at its first use
from scipy.sparse import csr_array, diags_array, hstack, vstack

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InfeasibleError
from contstim.selection.assignment import ROLES, AssignmentProblem, Role
from contstim.selection.column_generation import feasible_choices, some
from contstim.selection.constraints import ConstraintRows, SelectionConstraint, pairing_codes
from contstim.selection.highs import SOLVER, Solution, minimise
from contstim.selection.scores import RankedScores
from contstim.selection.set_criteria import SetCriterion

#: What is said where there is nothing to choose from.
NO_PAIR = "no pair of sentences can be selected; give more sentences"
NO_PAIR_TIED = (
    "no two sentences have the same value of what is to be equal; loosen the constraint or give "
    "more sentences"
)


# Exchanges of a chosen pair for another in a row that bring nothing, after which no more are tried.
_EXCHANGES = 1000

# With more candidates, those that the linear relaxation chooses for log Bayes factors are kept.
_DIVE_ABOVE = 1500


class SetProgramme:
    """Which `n` of K candidate pairs are chosen.

    Parameters
    ----------
    measure
        What pairs add.
    pairs
        Candidates in any order, repeated or not: rows of their two sentences. Those that have not
        in common what they must are left out.
    constraints
        As in `select_set`, but `merge_equal`.
    n, uses
        As in `select_set`.

    Attributes
    ----------
    pairs
        Rows of the two sentences, shape (K, 2); sentence 1 is what the first model prefers.
    contributions
        What each adds to the sums of every two models, shape (K, number of model pairs).
    least
        The smallest rank difference of each, shape (K,).
    rows, lower, upper
        What the choice must keep: the number of pairs, the uses of sentences, the constraints.
    names, units
        Of the constraints, the last rows.
    is_count
        Whether sums are numbers of separations.
    """

    def __init__(
        self,
        measure: SetCriterion,
        pairs: IntArray,
        constraints: Sequence[SelectionConstraint],
        n: int,
        uses: int,
    ) -> None:
        if not len(pairs):
            raise InfeasibleError(NO_PAIR)
        ties = pairing_codes(constraints, measure.ranked.labels)[pairs]
        pairs = pairs[ties[:, 0] == ties[:, 1]]
        if not len(pairs):
            raise InfeasibleError(NO_PAIR_TIED)
        self.n, self.uses, self.is_count = n, uses, measure.is_count
        pairs = np.unique(np.sort(pairs, axis=1), axis=0)
        signs = measure.ranked.signs(pairs)
        first = np.take_along_axis(signs, (signs != 0).argmax(axis=1)[:, None], axis=1)
        self.pairs = np.where(first < 0, pairs[:, ::-1], pairs)
        signs = np.where(first < 0, -signs, signs)
        self.contributions = measure.contributions(self.pairs)
        self.least = measure.ranked.apart(self.pairs).min(axis=1)
        used, place = np.unique(self.pairs.ravel(), return_inverse=True)
        place, count = place.reshape(self.pairs.shape), len(self.pairs)
        incidence = csr_array((np.ones(2 * count), (place.ravel(), np.arange(2 * count) // 2)))
        incidence = incidence[np.diff(incidence.indptr) > uses]
        matrix, limits = _pair_limits(constraints, measure.ranked, used, place, signs, n, uses)
        every = vstack([csr_array(np.ones((1, count))), incidence, matrix], format="csr")
        self.rows = csr_array(every)
        never, often = (np.full(incidence.shape[0], most) for most in (-np.inf, uses))
        self.lower = np.hstack([n, never, *(own.lower for own in limits)])
        self.upper = np.hstack([n, often, *(own.upper for own in limits)])
        self.names = [name for own in limits for name in own.names]
        self.units = np.hstack([own.units for own in limits])

    def least_sum(self, chosen: IntArray) -> float:
        """Return the sum over some candidates for the two models for which it is least."""
        return float(self.contributions[chosen].sum(axis=0).min())

    def _sums(self) -> tuple[csr_array, csr_array]:
        """Return rows of the model pairs' sums less t, and of what must be kept."""
        models = self.contributions.shape[1]
        sums = hstack([csr_array(self.contributions.T), csr_array(-np.ones((models, 1)))])
        kept = hstack([self.rows, csr_array((self.rows.shape[0], 1))], format="csr")
        return sums, kept

    def _solve(
        self,
        bound: float,
        fixed: BoolArray | None = None,
        *,
        relaxed: bool = False,
        time_limit: float | None = None,
    ) -> Solution:
        """Maximise the least sum t over x, one variable a pair, with the pairs `fixed` chosen.

        Of equal numbers of separations the larger mean of `least` is preferred: its weight of a
        half cannot outweigh one separation.
        """
        count, models = self.contributions.shape
        tie = -0.5 / self.n * self.least if self.is_count else np.zeros(count)
        gap = max(1e-3, 0.1 / max(1.0, bound)) if self.is_count else 1e-3
        lowest = np.zeros(count + 1)
        if fixed is not None:
            lowest[:count] = fixed
        return minimise(
            np.append(tie, -1.0),
            csr_array(vstack(self._sums(), format="csr")),
            np.hstack([np.zeros(models), self.lower]),
            np.hstack([np.full(models, np.inf), self.upper]),
            integer=np.append(np.full(count, not relaxed), not relaxed and self.is_count),
            lowest=lowest,
            highest=np.append(np.ones(count), np.ceil(bound)),
            time_limit=time_limit,
            relative_gap=gap,
        )

    def dual_prices(self) -> FloatArray:
        """Return the model pairs' weights at which the linear relaxation is least."""
        count, models = self.contributions.shape
        up, low = np.isfinite(self.upper), np.isfinite(self.lower)
        sums, to_keep = self._sums()
        below = vstack([-sums, to_keep[up], -to_keep[low]], format="csr")
        limits = np.hstack([np.zeros(models), self.upper[up], -self.lower[low]])
        ends = [(0, 1)] * count + [(0, None)]
        solve: Any = scipy.optimize.linprog  # its type stubs know nothing of sparse matrices
        answer = solve(np.append(np.zeros(count), -1.0), below, limits, bounds=ends, method="highs")
        if answer.status != 0:  # the candidates keep no constraint: any dual_prices will do
            return np.full(models, 1 / models)
        dual_prices = np.maximum(-answer.ineqlin.marginals[:models], 0.0)
        return np.asarray(dual_prices / dual_prices.sum())

    def greedy_set(self, bound: float) -> IntArray | None:
        """Choose pairs one by one, then exchange them, so that no two models fall behind.

        Each model pair has the weight exp(-its sum), as in the method of multiplicative weights
        (Arora, Hazan & Kale 2012, doi 10.4086/toc.2012.v008a006), and the pair of sentences of
        most weight comes next; of equals, that of the largest smallest rank difference. Then one
        chosen pair after another, at random, is exchanged for that of most weight, until the bound
        is reached or exchanges bring nothing.

        Returns
        -------
        array or None
            Candidates in order; None if they run out of sentences. Constraints are not looked at.
        """
        order = np.argsort(-self.least, kind="stable")
        contributions, (first, second) = self.contributions[order], self.pairs[order].T
        rng = np.random.default_rng(0)
        used = np.zeros(int(self.pairs.max(initial=-1)) + 1, dtype=np.int64)
        sums = np.zeros(contributions.shape[1])
        chosen: list[int] = []

        def weight(own: FloatArray) -> FloatArray:
            return np.asarray(np.exp(own.min() - own))

        def best() -> int | None:
            values = np.where((used[first] < self.uses) & (used[second] < self.uses), 1.0, -np.inf)
            values[chosen] = -np.inf
            values += contributions @ weight(sums)
            place = int(values.argmax())
            return place if values[place] > -np.inf else None

        def add(place: int, count: int) -> None:
            used[[first[place], second[place]]] += count
            sums[:] += count * contributions[place]

        for _ in range(min(self.n, len(contributions))):
            place = best()
            if place is None:
                break
            add(place, 1)
            chosen.append(place)
        if len(chosen) < self.n:
            return None
        best_choice, best_least, idle = list(chosen), sums.min(), 0
        while best_least < bound and idle < _EXCHANGES:
            place = chosen.pop(int(rng.integers(self.n)))
            add(place, -1)
            again = best()
            assert again is not None, "the pair that was put back can be chosen"
            add(again, 1)
            chosen.append(again)
            idle += 1
            if sums.min() > best_least:
                best_choice, best_least, idle = list(chosen), sums.min(), 0
        return np.sort(order[best_choice])

    def choose(self, bound: float, time_limit: float) -> tuple[IntArray, float, str]:
        """Choose pairs; return them, a bound on the least sum of any choice, and what chose.

        Where HiGHS has no time to end, what it holds by then may be far from the best, so that the
        linear relaxation rounded and, without constraints, pairs chosen one at a time
        (`greedy_set`) are looked at as well.

        Raises
        ------
        InfeasibleError
            Naming what cannot be kept and by how much, or if nothing is found in time.
        """
        relaxed = None if self.is_count else self._solve(bound, relaxed=True)
        proofs = [relaxed]
        answer: Solution | None = None
        if relaxed is not None and relaxed.x is not None and len(self.pairs) > _DIVE_ABOVE:
            # Few pairs are fractions in the relaxation; the others stay, so that little is left.
            answer = self._solve(bound, relaxed.x[:-1] > 1 - 1e-6, time_limit=time_limit)
        if answer is None or answer.x is None:
            answer = self._solve(bound, time_limit=time_limit)
            proofs = [answer]
        if answer.status == "infeasible":
            raise InfeasibleError(self._shortfall(time_limit))
        candidates = [(SOLVER, answer.x)]
        if answer.status != "optimal":  # out of time
            relaxed = self._solve(bound, relaxed=True) if relaxed is None else relaxed
            proofs = [*proofs, relaxed]
            candidates.append(("the linear relaxation rounded", relaxed.x))
        ways = [(self._rounded(x[:-1]), how) for how, x in candidates if x is not None]
        if answer.status != "optimal" and not self.names:
            greedy_set = self.greedy_set(bound)
            ways += [] if greedy_set is None else [(greedy_set, "one pair at a time")]
        keeping = [way for way in ways if self._keeps(way[0])]
        if not keeping:
            raise InfeasibleError(
                f"no {self.n} pairs were found in {time_limit:g} s; allow more time, loosen a "
                "constraint or ask for fewer pairs"
            )
        chosen, how = max(
            keeping, key=lambda way: (self.least_sum(way[0]), self.least[way[0]].sum())
        )
        proven = 1e-6 - max(own.bound for own in proofs if own is not None)
        return chosen, float(np.floor(proven)) if self.is_count else proven, how

    def _keeps(self, chosen: IntArray) -> bool:
        """Return whether candidates are as many as wanted and keep what must be kept."""
        sums = self.rows[:, chosen].sum(axis=1)
        slack = 1e-6 * np.maximum(1.0, abs(self.rows[:, chosen]).sum(axis=1))
        return bool(((sums >= self.lower - slack) & (sums <= self.upper + slack)).all())

    def _rounded(self, x: FloatArray) -> IntArray:
        """Return up to `n` pairs of largest `x`, no sentence in too many, in order."""
        taken = Counter[int]()
        chosen: list[int] = []
        for place in np.argsort(-x, kind="stable").tolist():
            both = self.pairs[place].tolist()
            if len(chosen) < self.n and max(taken[one] for one in both) < self.uses:
                taken.update(both)
                chosen.append(place)
        return np.sort(np.array(chosen, dtype=np.int64))

    def _shortfall(self, time_limit: float) -> str:
        """Say what cannot be kept, and by how much, in the least sum of scaled shortfalls."""
        count, first = len(self.pairs), self.rows.shape[0] - len(self.names)
        scale = np.maximum(1.0, abs(self.rows).max(axis=1).toarray().ravel())
        soft = np.r_[0, first : self.rows.shape[0]]
        where = (soft, np.arange(len(soft)))
        missing = csr_array((np.ones(len(soft)), where), shape=(len(self.lower), len(soft)))
        rows = hstack([diags_array(1 / scale) @ self.rows, missing, -missing], format="csr")
        answer = minimise(
            # Missing pairs cost more, so that constraints are named where either could be.
            np.hstack([np.zeros(count), 10.0, np.ones(2 * len(soft) - 1)]),
            csr_array(rows),
            self.lower / scale,
            self.upper / scale,
            integer=np.repeat([True, False], [count, 2 * len(soft)]),
            highest=np.hstack([np.ones(count), np.full(2 * len(soft), np.inf)]),
            time_limit=time_limit,
        )
        wanted = [f"{self.n} pairs", *self.names]
        if answer.x is not None:
            short = answer.x[count:].reshape(2, -1).max(axis=0) * scale[soft]
            short /= np.hstack([1.0, self.units])
            named = zip(wanted, short, strict=True)
            wanted = [f"{name}, by {by:.3g}" for name, by in named if by > 1e-6]
        return (
            f"the {count} candidate pairs cannot meet everything together: what falls short is "
            f"{some(wanted)}; ask for fewer pairs, loosen a constraint or add sentences"
        )


def feasible_pairs(
    ranked: RankedScores,
    rows: IntArray,
    constraints: Sequence[SelectionConstraint],
    n: int,
    uses: int,
    rng: np.random.Generator,
) -> IntArray:
    """Return pairs of sentences that keep the constraints in fractions, whatever models prefer.

    Raises
    ------
    InfeasibleError
        Naming the constraints that no sentences keep, and by how much.
    """
    sentences = np.repeat(rows, uses)
    everywhere = np.ones((len(sentences), 2), dtype=bool)
    roles = _roles(("sentences 1", "sentences 2"), n)
    problem = AssignmentProblem(ranked.doubled[sentences][:, :2], everywhere, everywhere, roles)
    limits = ConstraintRows(roles, ranked.labels[sentences], constraints)
    first, second = (sentences[own] for own in feasible_choices(problem, limits))
    ties = pairing_codes(constraints, ranked.labels)
    shuffled = []
    for _ in range(20):
        both = rng.permutation(first), rng.permutation(second)
        for tie in np.unique(ties[first]):
            of_both = [side[ties[side] == tie] for side in both]
            size = min(map(len, of_both))
            shuffled.append(np.column_stack([own[:size] for own in of_both]))
    pairs = np.concatenate(shuffled)
    return np.asarray(pairs[pairs[:, 0] != pairs[:, 1]])


def _roles(sides: tuple[str, str], n: int) -> tuple[Role, Role]:
    one, two = (Role(*sides, role, reject, 1 - reject, n) for reject, role in enumerate(ROLES))
    return one, two


def _pair_limits(
    constraints: Sequence[SelectionConstraint],
    ranked: RankedScores,
    used: IntArray,
    place: IntArray,
    signs: IntArray,
    n: int,
    uses: int,
) -> tuple[csr_array, list[ConstraintRows]]:
    """Return the weights of pairs in the constraints' rows, and these rows.

    `place` holds for each pair the places of its sentences in `used`, `signs` which of them each
    model prefers.
    """
    labels = ranked.labels[used]
    row_1, row_2 = place.T
    of_all = [constraint for constraint in constraints if not constraint.compares_sides]
    plain = ConstraintRows(_roles(("sentences 1", "sentences 2"), n), labels, of_all, uses)
    between = [constraint for constraint in constraints if constraint.compares_sides]
    sides = [
        ConstraintRows(
            _roles((f"what {name} prefers", "what it does not"), n), labels, between, uses
        )
        for name in ranked.models
    ]
    matrices = [plain.weights[0][row_1] + plain.weights[1][row_2]]
    for sign, limits in zip(signs.T, sides, strict=True):
        first, second = limits.weights
        prefers_1, prefers_2 = (diags_array((sign == k).astype(np.float64)) for k in (1, -1))
        as_said, turned = first[row_1] + second[row_2], first[row_2] + second[row_1]
        matrices.append(prefers_1 @ as_said + prefers_2 @ turned)
    return csr_array(hstack(matrices, format="csr").T), [plain, *sides]
