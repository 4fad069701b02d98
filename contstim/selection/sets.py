"""Sentence pairs that set all models of a set against each other at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_array, diags_array, hstack, vstack

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InfeasibleError, InputError, UnknownNameError
from contstim.selection.assignment import ROLES, AssignmentProblem, Role
from contstim.selection.constraints import ConstraintRows, SelectionConstraint
from contstim.selection.natural import eligible_rows
from contstim.selection.people import People, log_bayes_factors, log_ratio_scale, steepest
from contstim.selection.programme import feasible_choices, some
from contstim.selection.ranks import RankedScores, rank_scores

#: What a selection for a set makes as large as possible for the two models where it is least.
CRITERIA = ("separation", "log-bf")

#: Up to so many sentences all their pairs are candidates.
ALL_PAIRS_UP_TO = 150

#: So many ways of splitting the models in two are tried: all of them up to 10 models.
MAX_SPLITS = 511

#: At most so many sentences from either end of a split's projection are paired, if they suffice.
_EXTREMES = 600

#: Rounds in which candidates for expected log Bayes factors are added, and sentences from an end.
_ROUNDS = 6
_PRICED_EXTREMES = 400

#: Units in which the bound on expected log Bayes factors is divided for the integer programme.
_UNITS = 1e5

#: With more candidates, those that the linear relaxation chooses for log Bayes factors are kept.
_DIVE_ABOVE = 1500

#: Steps in which the bound on expected log Bayes factors is lowered.
_BOUND_STEPS = 80


def select_set(
    log_probs: pd.DataFrame,
    n: int = 360,
    *,
    criterion: Literal["separation", "log-bf"] = "separation",
    margin: float = 0.0,
    people: People | None = None,
    eligible: pd.Series | None = None,
    pairs: pd.DataFrame | None = None,
    constraints: Sequence[SelectionConstraint] = (),
    uses: int = 1,
    time_limit: float = 60.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Select sentence pairs that tell every two models of a set apart as well as possible.

    A pair of sentences *separates* two models that order it oppositely. One pair can separate many
    model pairs, so far fewer trials are needed than with pairs chosen for each two models.

    Parameters
    ----------
    log_probs
        Log-probabilities, shape (S, M): a row a sentence (unique labels), a column a model.
    n
        Number of sentence pairs.
    criterion
        What is made large for the two models for which it is least: ``separation``, how many
        sentence pairs separate them; ``log-bf``, the sum over sentence pairs of the expected log
        Bayes factor of one answer between them, see `people`.
    margin
        Two models are separated only if the fractional ranks of the two sentences differ by more
        than this under both.
    people
        For ``log-bf``: how people answer if a model is right; by default `People()`.
    eligible
        True for each sentence that may be put together with another, by label. Ranks are taken
        over all sentences.
    pairs
        Further candidates, as `triplet_pairs` makes them: ``sentence_1, sentence_2``, labels of
        `log_probs`, eligible or not.
    constraints
        What the selection must keep. Sentence 1 is the one that the first model (by name) prefers;
        a constraint between the two sides (`Balance`) holds between what a model prefers and what
        it does not, for every model.
    uses
        In how many of the pairs a sentence may be.
    time_limit
        Seconds for the integer programme; if it finds nothing in them, its relaxation is rounded.
    seed
        Settles which splits are tried where there are more than 10 models.

    Returns
    -------
    pandas.DataFrame
        One row a pair: ``sentence_1, sentence_2`` (labels), ``prefer_1`` and ``prefer_2`` (the
        models that rank that sentence higher, joined by spaces), ``separated`` (number of model
        pairs), ``least_difference`` (of fractional ranks, over the models) and, for ``log-bf``,
        ``log_bayes_factor`` (the mean over model pairs, nats). In ``.attrs``: ``objective``
        (the criterion, for the two models for which it is least), ``bound`` (no selection reaches
        more), ``gap``, ``mean`` (model pairs that a sentence pair separates), ``separations`` (for
        each model pair ``separated`` and for ``log-bf`` ``log_bayes_factor``, summed over sentence
        pairs), ``criterion``, ``solver``, ``status`` (``optimal`` where the bound is reached, else
        ``feasible``), ``ranked``, ``candidates`` (sentences), ``considered`` (their pairs) and
        ``excluded``.

    Raises
    ------
    InfeasibleError
        If there are too few sentences, or naming the constraints that cannot be met and by how
        much.
    InputError
        If scores or arguments cannot be used.

    Notes
    -----
    A sentence pair that k of M models order one way separates k (M - k) of the M (M - 1) / 2 model
    pairs, at most floor(M / 2) ceil(M / 2). The least number of separations is at most their mean,
    which gives the bound ``n floor(M / 2) ceil(M / 2) / (M (M - 1) / 2)``, rounded down,
    whatever the sentences are: 55.6 % of the pairs for nine models. It is the optimum of the linear
    programme over all splits of the models. Where all pairs of sentences are candidates, the
    integer programme proves a bound for these sentences, which can be lower. For the bound on
    expected log Bayes factors see `_Measure.bound`.

    Not all S (S - 1) / 2 pairs are listed where sentences are many. For each split, sentences at
    both ends of the projection (mean rank of one side minus that of the other) are paired, and
    those pairs are candidates whose smallest rank difference in the split's direction is largest.
    For ``log-bf`` the linear relaxation over these gives each model pair a price, and pairs that
    are highest in value at these prices are added, in several rounds. HiGHS then chooses among the
    candidates; among equal separations it prefers large rank differences.
    """
    for name, value, fewest in (("n", n, 1), ("seed", seed, 0), ("uses", uses, 1)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < fewest:
            raise InputError(f"{name} is {value!r}; give a whole number of at least {fewest}")
    if criterion not in CRITERIA:
        raise UnknownNameError.among("criterion", criterion, CRITERIA)
    if not 0 <= margin < 1:
        raise InputError(f"margin is {margin}; rank differences lie from 0 to below 1")
    if criterion == "log-bf" and margin:
        raise InputError(f"margin is {margin}, but the criterion 'log-bf' has none; leave it out")
    if criterion != "log-bf" and people is not None:
        raise InputError(f"how people answer is of no use for {criterion!r}; choose 'log-bf'")
    ranked = rank_scores(log_probs)
    keep, excluded = eligible_rows(ranked, eligible)
    given = _given(pairs, ranked)
    if pairs is not None:
        excluded["pair with a missing or infinite score"] = len(pairs) - len(given)
    elif uses * len(keep) < 2 * n:
        raise InfeasibleError(
            f"{n} pairs want {-(-2 * n // uses)} different sentences, {len(keep)} possible; ask "
            "for fewer pairs or add sentences"
        )
    rows = np.union1d(keep, given)
    asked = (people or People()) if criterion == "log-bf" else None
    measure = _Measure.of(log_probs, ranked, keep if len(keep) > 1 else rows, margin, asked)
    complete = len(keep) <= ALL_PAIRS_UP_TO
    rng = np.random.default_rng(seed)
    if complete:
        found = [given, keep[np.column_stack(np.triu_indices(len(keep), 1))]]
    else:
        found = [given, keep[_candidates(ranked.fractions[keep], n, rng)]]
    if constraints:
        kept = _kept(ranked, rows, constraints, n, uses, rng)
        found += [] if complete else [kept[np.isin(kept, keep).all(axis=1)]]
    problem = _Problem.of(ranked, np.concatenate(found), measure, constraints, n, uses)
    if asked is not None and not complete:
        for _ in range(_ROUNDS):
            more = _priced(measure, keep, problem.prices(), n)
            problem = _Problem.of(
                ranked, np.concatenate([problem.pairs, more]), measure, constraints, n, uses
            )
    bound = measure.bound(rows, n, uses)
    chosen, proven = problem.choose(bound, time_limit)
    if complete:
        bound = min(bound, proven)
    own = problem.pairs[chosen]
    signs = _signs(ranked.doubled, ranked.fractions, own, margin)
    model_pairs = list(combinations(range(len(ranked.models)), 2))
    separated = np.column_stack([signs[:, i] * signs[:, j] < 0 for i, j in model_pairs])
    names = [(ranked.models[i], ranked.models[j]) for i, j in model_pairs]
    separations: list[dict[str, Any]] = [
        {"model_1": one, "model_2": two, "separated": int(count)}
        for (one, two), count in zip(names, separated.sum(axis=0), strict=True)
    ]
    table = _table(ranked, own)
    table["separated"] = separated.sum(axis=1)
    table["least_difference"] = problem.least[chosen]
    totals = problem.terms[chosen].sum(axis=0)
    if asked is not None:
        table["log_bayes_factor"] = problem.terms[chosen].mean(axis=1)
        for row, total in zip(separations, totals, strict=True):
            row["log_bayes_factor"] = float(total)
    objective = float(totals.min())
    if bound < objective <= bound * (1 + 1e-6):  # but for rounding
        bound = objective
    if asked is None:
        objective, bound = int(objective), int(bound)
    table.attrs = {
        "objective": objective,
        "bound": bound,
        "gap": bound - objective,
        "mean": float(table["separated"].mean()),
        "separations": separations,
        "criterion": criterion,
        "solver": "scipy milp (HiGHS)",
        "status": "optimal" if objective >= bound * (1 - 1e-9) else "feasible",
        "ranked": len(ranked.labels),
        "candidates": len(rows),
        "considered": len(problem.pairs),
        "excluded": excluded,
    }
    return table


def triplet_pairs(triplets: pd.DataFrame) -> pd.DataFrame:
    """Return the sentence pairs of triplets: natural and either synthetic one, and both of these.

    Parameters
    ----------
    triplets
        With the columns ``natural``, ``synthetic_1`` and ``synthetic_2``.

    Returns
    -------
    pandas.DataFrame
        ``sentence_1, sentence_2``: three rows a triplet, each pair once, without those of equal
        sentences.
    """
    parts = [
        triplets[[one, two]].set_axis(["sentence_1", "sentence_2"], axis=1)
        for one, two in combinations(("natural", "synthetic_1", "synthetic_2"), 2)
    ]
    pairs = pd.concat(parts, ignore_index=True)
    unequal = pairs[pairs["sentence_1"] != pairs["sentence_2"]]
    return unequal.drop_duplicates(ignore_index=True)


def _given(pairs: pd.DataFrame | None, ranked: RankedScores) -> IntArray:
    """Return the rows of the pairs given, shape (number, 2), without those of no finite score."""
    if pairs is None:
        return np.empty((0, 2), dtype=np.int64)
    place = pd.Series(np.arange(len(ranked.labels)), index=ranked.labels)
    columns = []
    for column in ("sentence_1", "sentence_2"):
        if column not in pairs:
            raise InputError(f"pairs has no column {column!r}; give sentence_1 and sentence_2")
        columns.append(place.reindex(pairs[column]).fillna(-1).to_numpy(dtype=np.int64))
    rows = np.column_stack(columns)
    there = (rows >= 0).all(axis=1)
    return np.asarray(rows[there & ranked.finite[rows].all(axis=1)])


@dataclass(frozen=True, eq=False)
class _Measure:
    """What a pair of sentences adds for every two models, of which a selection has the sum.

    Attributes
    ----------
    ranked
        Ranks, shape (R, M).
    scaled
        Log-probabilities in standard deviations, shape (R, M).
    margin
        Of rank differences, for separations.
    people
        For expected log Bayes factors; None: separations count.
    """

    ranked: RankedScores
    scaled: FloatArray
    margin: float
    people: People | None

    @classmethod
    def of(
        cls,
        log_probs: pd.DataFrame,
        ranked: RankedScores,
        rows: IntArray,
        margin: float,
        people: People | None,
    ) -> _Measure:
        """Make it; standard deviations are over the sentences `rows`."""
        if people is None:
            return cls(ranked, np.empty((0, 0)), margin, None)
        named = log_probs.set_axis([str(name) for name in log_probs.columns], axis=1)
        values = named.loc[ranked.labels, list(ranked.models)].to_numpy(dtype=np.float64)
        return cls(ranked, values / log_ratio_scale(values[rows]), margin, people)

    def terms(self, pairs: IntArray) -> FloatArray:
        """Return what each pair of rows adds for every two models, shape (number, pairs)."""
        if self.people is not None:
            one, two = pairs.T
            return log_bayes_factors(self.people.probabilities(self.scaled[two] - self.scaled[one]))
        signs = _signs(self.ranked.doubled, self.ranked.fractions, pairs, self.margin)
        i, j = np.triu_indices(len(self.ranked.models), 1)
        return np.asarray(signs[:, i] * signs[:, j] < 0, dtype=np.float64)

    def bound(self, rows: IntArray, n: int, uses: int) -> float:
        """Return what no `n` pairs of the sentences `rows` exceed for the two models of least.

        The least is at most every weighted mean over model pairs. With equal weights no pair of
        sentences has more value than one on which the models split evenly and are as sure as they
        can be. For separations see `select_set`. For expected log Bayes factors, with
        q = p - 1/2 and l = logit p, the sum over model pairs depends on one model's q as
        ((M - 1) q l - P l - L q) / 2, where P and L are the sums of q and l over the others. Its
        second derivative is at least (M - 1) (1/4 - a |q|) / (1/4 - q²)² > 0, as
        |P| <= (M - 1) a with a < 1/2 the largest |q|: convex, so the maximum has every q at an end.

        A second bound looks at the sentences. With c of `steepest`, models i and j get at most
        c (d_i - d_j)², where d is the difference of the two sentences' standardised and
        centred log-probabilities z, and so at most 2 c times the sum of (z_i - z_j)² over both
        sentences. Summed with weights over model pairs and then over n pairs of different
        sentences, that is at most 2 c times the sum over the 2 n sentences of most. Mirror descent
        moves the weights to where the bound is low; it holds at every step.
        """
        m = len(self.ranked.models)
        count = m * (m - 1) // 2
        even = n * (m // 2) * (m - m // 2)
        if self.people is None:
            return float(even // count)
        most = self.people.probabilities(np.array([-self.people.most, self.people.most]))
        bound = even / count * float(log_bayes_factors(most)[0])
        sentences = -(-2 * n // uses)
        z = self.scaled[rows] - self.scaled[rows].mean(axis=0)  # differences stay as they are
        i, j = np.triu_indices(m, 1)
        weights = np.full(count, 1 / count)
        lowest = np.inf
        for step in range(_BOUND_STEPS):
            matrix = np.zeros((m, m))
            matrix[i, j] = matrix[j, i] = weights
            laplacian = np.diag(matrix.sum(axis=0)) - matrix
            sums = ((z @ laplacian) * z).sum(axis=1)
            top = np.argpartition(-sums, min(sentences, len(sums)) - 1)[:sentences]
            lowest = min(lowest, float(sums[top].sum()))
            each = ((z[top][:, i] - z[top][:, j]) ** 2).sum(axis=0)
            weights = weights * np.exp(-2 / np.sqrt(step + 1) * each / each.max())
            weights /= weights.sum()
        return min(bound, 2 * uses * steepest(self.people) * lowest)


def _splits(models: int, rng: np.random.Generator) -> FloatArray:
    """Return ways to split the models in two, as rows of 1 and -1, the first model 1."""
    if 2 ** (models - 1) - 1 <= MAX_SPLITS:
        rest = islice(product((1.0, -1.0), repeat=models - 1), 1, None)
        return np.array([(1.0, *signs) for signs in rest])
    # The most even splits separate most; the bound is reached by them alone.
    even = np.where(np.arange(models) < models // 2, 1.0, -1.0)
    splits = np.array([rng.permutation(even) for _ in range(MAX_SPLITS)])
    return np.unique(splits * splits[:, :1], axis=0)


def _candidates(ranks: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """Return candidate pairs of rows, shape (number, 2), among them `n` without a row in common."""
    values = ranks.astype(np.float32)
    splits = _splits(ranks.shape[1], rng).astype(np.float32)
    each = max(2, -(-5 * n // len(splits)))
    depth = min(len(ranks), max(2 * each, min(_EXTREMES, len(ranks) // 20)))
    # Random disjoint pairs, so that there are always n to choose.
    disjoint = min(n, len(ranks) // 2)
    found = [rng.permutation(len(ranks))[: 2 * disjoint].reshape(disjoint, 2)]
    for split in splits:
        # Means, not sums, of the sides: what all models share must cancel out.
        weights = np.where(split > 0, split / (split > 0).sum(), split / (split < 0).sum())
        high, low = _ends(values @ weights, depth)
        smallest = np.full((depth, depth), np.inf, dtype=np.float32)
        for m, sign in enumerate(split):
            np.minimum(
                smallest, sign * (values[high, m][:, None] - values[low, m][None]), out=smallest
            )
        found.append(_disjoint(smallest, high, low, each))
    return np.concatenate(found)


def _priced(measure: _Measure, keep: IntArray, prices: FloatArray, n: int) -> IntArray:
    """Return pairs of the rows `keep` of most value at the model pairs' `prices`.

    Directions in which sentences are looked for are the largest eigenvectors of the prices'
    Laplacian, along which the sum of squared differences is largest, and the differences between
    two models of a high price.
    """
    assert measure.people is not None
    m = len(measure.ranked.models)
    i, j = np.triu_indices(m, 1)
    matrix = np.zeros((m, m))
    matrix[i, j] = matrix[j, i] = prices
    laplacian = np.diag(matrix.sum(axis=0)) - matrix
    directions = [*np.linalg.eigh(laplacian)[1].T[-4:]]
    for pair in np.argsort(-prices)[:m]:
        directions.append(np.eye(m)[i[pair]] - np.eye(m)[j[pair]])
    z = measure.scaled[keep]
    depth = min(len(keep), _PRICED_EXTREMES)
    each = max(2, -(-2 * n // len(directions)))
    found = []
    for direction in directions:
        high, low = _ends(z @ direction, depth)
        chances = measure.people.probabilities(z[high][:, None] - z[low][None])
        found.append(_disjoint(log_bayes_factors(chances, matrix), high, low, each))
    return keep[np.concatenate(found)]


def _ends(projection: NDArray[Any], depth: int) -> tuple[IntArray, IntArray]:
    """Return the `depth` rows of largest and of smallest projection."""
    high = np.argpartition(-projection, depth - 1)[:depth]
    return high, np.argpartition(projection, depth - 1)[:depth]


def _disjoint(values: NDArray[Any], high: IntArray, low: IntArray, count: int) -> IntArray:
    """Return up to `count` pairs of largest `values`, greedily, no row twice; shape (., 2)."""
    flat = values.ravel()
    best = np.argpartition(-flat, min(40 * count, flat.size) - 1)[: 40 * count]
    taken: set[int] = set()
    pairs = []
    for place in best[np.argsort(-flat[best], kind="stable")]:
        one, two = int(high[place // len(low)]), int(low[place % len(low)])
        if one != two and not taken & {one, two}:
            taken |= {one, two}
            pairs.append((one, two))
            if len(pairs) == count:
                break
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _kept(
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
    limits = ConstraintRows(roles, ranked.labels[sentences])
    for constraint in constraints:
        constraint.add_rows(limits)
    one, two = (sentences[own] for own in feasible_choices(problem, limits))
    shuffled = [
        np.column_stack([rng.permutation(one)[:size], rng.permutation(two)[:size]])
        for size in 20 * [min(len(one), len(two))]
    ]
    pairs = np.concatenate(shuffled)
    return np.asarray(pairs[pairs[:, 0] != pairs[:, 1]])


def _roles(sides: tuple[str, str], n: int) -> tuple[Role, Role]:
    one, two = (Role(*sides, role, reject, 1 - reject, n) for reject, role in enumerate(ROLES))
    return one, two


def _signs(doubled: IntArray, ranks: FloatArray, pairs: IntArray, margin: float) -> IntArray:
    """Return which sentence each model ranks higher, 0 within the margin; shape (number, M)."""
    one, two = pairs.T
    beyond = np.abs(ranks[one] - ranks[two]) > margin
    return np.where(beyond, np.sign(doubled[one] - doubled[two]), 0)


@dataclass(frozen=True, eq=False)
class _Problem:
    """Which `n` of K candidate pairs are chosen.

    Attributes
    ----------
    pairs
        Rows of the two sentences, shape (K, 2); sentence 1 is what the first model prefers.
    terms
        What each adds to the sums of every two models, shape (K, number of model pairs).
    least
        The smallest rank difference of each, shape (K,).
    rows, lower, upper
        What the choice must keep: the number of pairs, the uses of sentences, the constraints.
    names, units
        Of the constraints, the last rows.
    n, uses
        As in `select_set`.
    """

    pairs: IntArray
    terms: FloatArray
    least: FloatArray
    rows: csr_array
    lower: FloatArray
    upper: FloatArray
    names: list[str]
    units: FloatArray
    n: int
    uses: int
    counted: bool

    @classmethod
    def of(
        cls,
        ranked: RankedScores,
        pairs: IntArray,
        measure: _Measure,
        constraints: Sequence[SelectionConstraint],
        n: int,
        uses: int,
    ) -> _Problem:
        """Make the problem from candidates in any order, repeated or not."""
        pairs = np.unique(np.sort(pairs, axis=1), axis=0)
        signs = _signs(ranked.doubled, ranked.fractions, pairs, 0.0)
        first = np.take_along_axis(signs, (signs != 0).argmax(axis=1)[:, None], axis=1)
        pairs = np.where(first < 0, pairs[:, ::-1], pairs)
        signs = np.where(first < 0, -signs, signs)
        used, place = np.unique(pairs.ravel(), return_inverse=True)
        place = place.reshape(pairs.shape)
        count = len(pairs)
        incidence = csr_array((np.ones(2 * count), (place.ravel(), np.arange(2 * count) // 2)))
        incidence = incidence[np.diff(incidence.indptr) > uses]
        limits = _pair_limits(constraints, ranked, used, place, signs, n)
        matrix, lower, upper, names, units = limits
        return cls(
            pairs,
            measure.terms(pairs),
            np.abs(ranked.fractions[pairs[:, 0]] - ranked.fractions[pairs[:, 1]]).min(axis=1),
            csr_array(vstack([csr_array(np.ones((1, count))), incidence, matrix], format="csr")),
            np.hstack([n, np.full(incidence.shape[0], -np.inf), lower]),
            np.hstack([n, np.full(incidence.shape[0], uses), upper]),
            names,
            units,
            n,
            uses,
            measure.people is None,
        )

    def _programme(self, bound: float, unit: float) -> dict[str, Any]:
        """Return the programme: the variables are x, one a pair, and t, units of the least sum.

        Maximise t; among equal separations, half the mean of `least` as well, which cannot
        outweigh one.
        """
        count, models = self.terms.shape
        least = hstack([csr_array(unit * self.terms.T), csr_array(-np.ones((models, 1)))])
        kept = hstack([self.rows, csr_array((self.rows.shape[0], 1))])
        lower = np.hstack([np.zeros(models), self.lower])
        upper = np.hstack([np.full(models, np.inf), self.upper])
        tie = -0.5 / self.n * self.least if self.counted else np.zeros(count)
        return {
            "c": np.append(tie, -1.0),
            "constraints": LinearConstraint(vstack([least, kept], format="csr"), lower, upper),
            "bounds": Bounds(0, np.append(np.ones(count), np.ceil(unit * bound))),
        }

    def prices(self) -> FloatArray:
        """Return the model pairs' weights at which the linear relaxation is least."""
        count, models = self.terms.shape
        up, low = np.isfinite(self.upper), np.isfinite(self.lower)
        kept = vstack([self.rows[up], -self.rows[low]], format="csr")
        below = vstack(
            [
                hstack([csr_array(-self.terms.T), csr_array(np.ones((models, 1)))]),
                hstack([kept, csr_array((kept.shape[0], 1))]),
            ],
            format="csr",
        )
        limits = np.hstack([np.zeros(models), self.upper[up], -self.lower[low]])
        solve: Any = linprog  # its type stubs know nothing of sparse matrices
        answer = solve(
            np.append(np.zeros(count), -1.0),
            A_ub=below,
            b_ub=limits,
            bounds=[(0, 1)] * count + [(0, None)],
            method="highs",
        )
        if answer.status != 0:  # the candidates keep no constraint: any prices will do
            return np.full(models, 1 / models)
        prices = np.maximum(-answer.ineqlin.marginals[:models], 0.0)
        return np.asarray(prices / prices.sum())

    def choose(self, bound: float, time_limit: float) -> tuple[IntArray, float]:
        """Choose pairs; return them and a bound on the least sum of any choice of candidates.

        Raises
        ------
        InfeasibleError
            Naming what cannot be kept and by how much, or if nothing is found in time.
        """
        count = len(self.pairs)
        if not count:
            raise InfeasibleError("no pair of sentences can be selected; give more sentences")
        # A whole number of small units, so that all variables are whole numbers: with others
        # HiGHS writes to standard output.
        unit = 1.0 if self.counted or not bound else _UNITS / bound
        programme = self._programme(bound, unit)
        gap = max(1e-3, 0.1 / max(1.0, bound)) if self.counted else 1e-3
        whole: dict[str, Any] = {
            "integrality": np.ones(count + 1, dtype=int),
            "options": {"time_limit": time_limit, "mip_rel_gap": gap},
        }
        relaxed: Any = None if self.counted else milp(**programme)
        answer: Any = None
        if relaxed is not None and relaxed.x is not None and count > _DIVE_ABOVE:
            # Few pairs are fractions in the relaxation; the others stay, so that little is left.
            fixed = np.append(relaxed.x[:count] > 1 - 1e-6, False)
            bounds = Bounds(fixed.astype(np.float64), programme["bounds"].ub)
            answer = milp(**{**programme, "bounds": bounds}, **whole)
        if answer is None or answer.x is None:
            answer = milp(**programme, **whole)
            relaxed = None
        if answer.status == 2:
            raise InfeasibleError(self._shortfall(time_limit))
        if answer.x is None:  # out of time: round the linear relaxation
            answer = milp(**programme)
        chosen = self._rounded(answer.x[:count])
        sums = self.rows[:, chosen].sum(axis=1)
        slack = 1e-6 * np.maximum(1.0, abs(self.rows[:, chosen]).sum(axis=1))
        within = (sums >= self.lower - slack) & (sums <= self.upper + slack)
        if not within.all():
            raise InfeasibleError(
                f"no {self.n} pairs were found in {time_limit:g} s; allow more time, loosen a "
                "constraint or ask for fewer pairs"
            )
        source = answer if relaxed is None else relaxed
        cost = source.fun if source.mip_dual_bound is None else source.mip_dual_bound
        proven = 1e-6 - float(cost)
        return chosen, float(np.floor(proven)) if self.counted else (proven + 1) / unit

    def _rounded(self, x: FloatArray) -> IntArray:
        """Return up to `n` pairs of largest `x`, no sentence in too many, in order."""
        taken: dict[int, int] = {}
        chosen: list[int] = []
        for place in np.argsort(-x, kind="stable").tolist():
            if len(chosen) == self.n:
                break
            one, two = self.pairs[place].tolist()
            if max(taken.get(one, 0), taken.get(two, 0)) < self.uses:
                taken[one] = taken.get(one, 0) + 1
                taken[two] = taken.get(two, 0) + 1
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
        answer: Any = milp(
            # Missing pairs cost more, so that constraints are named where either could be.
            np.hstack([np.zeros(count), 10.0, np.ones(2 * len(soft) - 1)]),
            constraints=LinearConstraint(rows, self.lower / scale, self.upper / scale),
            bounds=Bounds(0, np.hstack([np.ones(count), np.full(2 * len(soft), np.inf)])),
            integrality=np.repeat([1, 0], [count, 2 * len(soft)]),
            options={"time_limit": time_limit},
        )
        told = [f"{self.n} pairs", *self.names]
        if answer.x is not None:
            short = answer.x[count:].reshape(2, -1).max(axis=0) * scale[soft]
            short /= np.hstack([1.0, self.units])
            told = [
                f"{name}, by {by:.3g}" for name, by in zip(told, short, strict=True) if by > 1e-6
            ]
        return (
            f"the {count} candidate pairs cannot meet everything together: what falls short is "
            f"{some(told)}; ask for fewer pairs, loosen a constraint or add sentences"
        )


def _pair_limits(
    constraints: Sequence[SelectionConstraint],
    ranked: RankedScores,
    used: IntArray,
    place: IntArray,
    signs: IntArray,
    n: int,
) -> tuple[csr_array, FloatArray, FloatArray, list[str], FloatArray]:
    """Return the constraints' rows over pairs, with bounds, names and units.

    `place` holds for each pair the places of its sentences in `used`, `signs` which of them each
    model prefers.
    """
    labels = ranked.labels[used]
    one, two = place.T
    plain = ConstraintRows(_roles(("sentences 1", "sentences 2"), n), labels)
    sides = [
        ConstraintRows(_roles((f"what {name} prefers", "what it does not"), n), labels)
        for name in ranked.models
    ]
    for constraint in constraints:
        for limits in sides if constraint.between_sides else [plain]:
            constraint.add_rows(limits)
    matrices = [plain.weights[0][one] + plain.weights[1][two]]
    for sign, limits in zip(signs.T, sides, strict=True):
        first, second = limits.weights
        prefers_1 = diags_array((sign > 0).astype(np.float64))
        prefers_2 = diags_array((sign < 0).astype(np.float64))
        matrices.append(
            prefers_1 @ (first[one] + second[two]) + prefers_2 @ (first[two] + second[one])
        )
    every = [plain, *sides]
    return (
        csr_array(hstack(matrices, format="csr").T),
        np.hstack([limits.lower for limits in every]),
        np.hstack([limits.upper for limits in every]),
        [name for limits in every for name in limits.names],
        np.hstack([limits.units for limits in every]),
    )


def _table(ranked: RankedScores, pairs: IntArray) -> pd.DataFrame:
    """Return the two sentences and the models that prefer each."""
    difference = ranked.doubled[pairs[:, 0]] - ranked.doubled[pairs[:, 1]]
    prefer = [
        [" ".join(m for m, value in zip(ranked.models, row, strict=True) if value > 0) for row in d]
        for d in (difference.tolist(), (-difference).tolist())
    ]
    return pd.DataFrame(
        {
            "sentence_1": ranked.labels[pairs[:, 0]],
            "sentence_2": ranked.labels[pairs[:, 1]],
            "prefer_1": prefer[0],
            "prefer_2": prefer[1],
        }
    )
