"""Natural sentence pairs that set all models of a set against each other at once."""

from __future__ import annotations

from itertools import combinations, islice, product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, hstack, vstack

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.errors import InfeasibleError, InputError
from contstim.selection.natural import eligible_rows
from contstim.selection.ranks import rank_scores

__all__ = ["select_set"]

#: Up to so many sentences all their pairs are candidates.
ALL_PAIRS_UP_TO = 150

#: So many ways of splitting the models in two are tried: all of them up to 10 models.
MAX_SPLITS = 511

#: At most so many sentences from either end of a split's projection are paired, if they suffice.
_EXTREMES = 600


def select_set(
    log_probs: pd.DataFrame,
    n: int = 360,
    *,
    margin: float = 0.0,
    eligible: pd.Series | None = None,
    time_limit: float = 60.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Select sentence pairs that separate every two models of a set as often as possible.

    A pair of sentences *separates* two models that order it oppositely. One pair can separate many
    model pairs, so far fewer trials are needed than with pairs chosen for each two models.

    Parameters
    ----------
    log_probs
        Log-probabilities, shape (S, M): a row a sentence (unique labels), a column a model.
    n
        Number of sentence pairs; no sentence is in two of them.
    margin
        Two models are separated only if the fractional ranks of the two sentences differ by more
        than this under both.
    eligible
        True for each sentence that may be selected, by label. Ranks are taken over all sentences.
    time_limit
        Seconds for the integer programme; if it finds nothing in them, its relaxation is rounded.
    seed
        Settles which splits are tried where there are more than 10 models.

    Returns
    -------
    pandas.DataFrame
        One row a pair: ``sentence_1, sentence_2`` (labels), ``prefer_1`` and ``prefer_2`` (the
        models that rank that sentence higher, joined by spaces), ``separated`` (number of model
        pairs) and ``least_difference`` (of fractional ranks, over the models). In ``.attrs``:
        ``objective`` (how many of the sentence pairs separate the two models that are separated
        least), ``bound`` (no selection reaches more), ``gap``, ``mean`` (model pairs that a
        sentence pair separates), ``separations`` (for each model pair the number), ``solver``,
        ``status`` (``optimal`` where the bound is reached, else ``feasible``), ``ranked``,
        ``candidates`` (sentences) and ``excluded``.

    Raises
    ------
    InfeasibleError
        If there are too few sentences.
    InputError
        If scores or arguments cannot be used.

    Notes
    -----
    A sentence pair that k of M models order one way separates k (M - k) of the M (M - 1) / 2 model
    pairs, at most floor(M / 2) ceil(M / 2). The least number of separations is at most their mean,
    which gives the bound ``n floor(M / 2) ceil(M / 2) / (M (M - 1) / 2)``, rounded down,
    whatever the sentences are: 55.6 % of the pairs for nine models. It is the optimum of the linear
    programme over all splits of the models. Where all pairs of sentences are candidates, the
    integer programme proves a bound for these sentences, which can be lower.

    Not all S (S - 1) / 2 pairs are listed where sentences are many. For each split, sentences at
    both ends of the projection (mean rank of one side minus that of the other) are paired, and
    those pairs are candidates whose smallest rank difference in the split's direction is largest.
    HiGHS then chooses among the candidates of all splits; among equal choices it prefers large
    rank differences.
    """
    for name, value in (("n", n), ("seed", seed)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            raise InputError(f"{name} is {value!r}; give a whole number")
    if n < 1:
        raise InputError(f"n is {n}; give the number of sentence pairs, at least 1")
    if not 0 <= margin < 1:
        raise InputError(f"margin is {margin}; rank differences lie from 0 to below 1")
    ranked = rank_scores(log_probs)
    keep, excluded = eligible_rows(ranked, eligible)
    if len(keep) < 2 * n:
        raise InfeasibleError(
            f"{n} pairs want {2 * n} different sentences, {len(keep)} possible; ask for fewer "
            "pairs or add sentences"
        )
    ranks = ranked.fractions[keep]
    if len(keep) <= ALL_PAIRS_UP_TO:
        pairs = np.column_stack(np.triu_indices(len(keep), 1))
    else:
        pairs = _candidates(ranks, n, np.random.default_rng(seed))
    signs = _signs(ranked.doubled[keep], ranks, pairs, margin)
    models = list(combinations(range(len(ranked.models)), 2))
    separated = np.column_stack([signs[:, i] * signs[:, j] < 0 for i, j in models])
    least = np.abs(ranks[pairs[:, 0]] - ranks[pairs[:, 1]]).min(axis=1)
    half = len(ranked.models) // 2
    bound = n * half * (len(ranked.models) - half) // len(models)
    chosen, proven = _choose(pairs, separated, least, n, bound, time_limit)
    if len(keep) <= ALL_PAIRS_UP_TO:
        bound = min(bound, proven)
    counts = separated[chosen].sum(axis=0)
    table = _table(ranked.models, ranked.labels[keep], ranks, pairs[chosen])
    table["separated"] = separated[chosen].sum(axis=1)
    table["least_difference"] = least[chosen]
    table.attrs = {
        "objective": int(counts.min()),
        "bound": int(bound),
        "gap": int(bound - counts.min()),
        "mean": float(table["separated"].mean()),
        "separations": [
            {"model_1": ranked.models[i], "model_2": ranked.models[j], "separated": int(count)}
            for (i, j), count in zip(models, counts, strict=True)
        ],
        "solver": "scipy milp (HiGHS)",
        "status": "optimal" if counts.min() >= bound else "feasible",
        "ranked": len(ranked.labels),
        "candidates": len(keep),
        "excluded": excluded,
    }
    return table


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
    found = [rng.permutation(len(ranks))[: 2 * n].reshape(n, 2)]
    for split in splits:
        # Means, not sums, of the sides: what all models share must cancel out.
        weights = np.where(split > 0, split / (split > 0).sum(), split / (split < 0).sum())
        projection = values @ weights
        high = np.argpartition(-projection, depth - 1)[:depth]
        low = np.argpartition(projection, depth - 1)[:depth]
        smallest = np.full((depth, depth), np.inf, dtype=np.float32)
        for m, sign in enumerate(split):
            np.minimum(
                smallest, sign * (values[high, m][:, None] - values[low, m][None]), out=smallest
            )
        found.append(_disjoint(smallest, high, low, each))
    return np.unique(np.sort(np.concatenate(found), axis=1), axis=0)


def _disjoint(smallest: NDArray[np.float32], high: IntArray, low: IntArray, count: int) -> IntArray:
    """Return up to `count` pairs of largest `smallest`, greedily, no row twice; shape (., 2)."""
    flat = smallest.ravel()
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


def _signs(doubled: IntArray, ranks: FloatArray, pairs: IntArray, margin: float) -> IntArray:
    """Return which sentence each model ranks higher, 0 within the margin; shape (number, M)."""
    one, two = pairs.T
    beyond = np.abs(ranks[one] - ranks[two]) > margin
    return np.where(beyond, np.sign(doubled[one] - doubled[two]), 0)


def _choose(
    pairs: IntArray, separated: BoolArray, least: FloatArray, n: int, bound: int, time_limit: float
) -> tuple[IntArray, int]:
    """Choose `n` disjoint pairs; return them and a bound on the least separation of any n of them.

    The variables are x, one a pair, and t, the least separation, at most `bound`; maximise t plus
    half the mean of `least`, which cannot outweigh a separation.
    """
    count, models = separated.shape
    column = csr_array((np.ones(2 * count), (pairs.ravel(), np.arange(2 * count) // 2)))
    uses = column[np.diff(column.indptr) > 1]
    rows = vstack(
        [
            hstack([csr_array(separated.T.astype(np.float64)), csr_array(-np.ones((models, 1)))]),
            hstack([csr_array(np.ones((1, count))), csr_array((1, 1))]),
            hstack([uses, csr_array((uses.shape[0], 1))]),
        ],
        format="csr",
    )
    lower = np.hstack([np.zeros(models), n, np.full(uses.shape[0], -np.inf)])
    upper = np.hstack([np.full(models, np.inf), n, np.ones(uses.shape[0])])
    programme: dict[str, Any] = {
        "c": np.append(-0.5 / n * least, -1.0),
        "constraints": LinearConstraint(rows, lower, upper),
        "bounds": Bounds(0, np.append(np.ones(count), bound)),
    }
    options: Any = {"time_limit": time_limit, "mip_rel_gap": max(1e-3, 0.1 / max(1, bound))}
    answer: Any = milp(**programme, integrality=np.ones(count + 1), options=options)
    if answer.x is None:  # out of time: round the linear relaxation
        answer = milp(**programme)
    chosen = _rounded(answer.x[:count], pairs, n)
    if len(chosen) != n:
        raise InfeasibleError(
            f"no {n} pairs were found in {time_limit:g} s; allow more time or ask for fewer pairs"
        )
    least_cost = answer.fun if answer.mip_dual_bound is None else answer.mip_dual_bound
    return chosen, int(np.floor(1e-6 - least_cost))


def _rounded(x: FloatArray, pairs: IntArray, n: int) -> IntArray:
    """Return up to `n` pairs of largest `x` without a row in common, in order."""
    taken: set[int] = set()
    chosen: list[int] = []
    for place in np.argsort(-x, kind="stable").tolist():
        one, two = pairs[place].tolist()
        if len(chosen) < n and not taken & {one, two}:
            taken |= {one, two}
            chosen.append(place)
    return np.sort(np.array(chosen, dtype=np.int64))


def _table(
    models: tuple[str, ...], labels: pd.Index, ranks: FloatArray, pairs: IntArray
) -> pd.DataFrame:
    """Return the two sentences and the models that prefer each, sentence 1 that of the first."""
    rows = []
    for one, two in pairs.tolist():
        difference = ranks[one] - ranks[two]
        if next((value for value in difference if value), 0.0) < 0:
            one, two, difference = two, one, -difference
        prefer = [
            " ".join(model for model, value in zip(models, side, strict=True) if value > 0)
            for side in (difference, -difference)
        ]
        rows.append((labels[one], labels[two], *prefer))
    return pd.DataFrame(rows, columns=["sentence_1", "sentence_2", "prefer_1", "prefer_2"])
