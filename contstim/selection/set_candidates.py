"""Candidate pairs of sentences of a selection for a set of models."""

from __future__ import annotations

from itertools import islice, product

import numpy as np

from contstim.arrays import AnyArray, FloatArray, IntArray
from contstim.response_model import log_bayes_factors
from contstim.selection.set_criteria import (
    LogBayesFactor,
)

# So many ways of splitting the models in two are tried: all of them up to 10 models.
_MAX_SPLITS = 511


# So many comparisons of two sentences are made for even splits at most, and so many pairs kept for
# each that is to be chosen.
_COMPARED, _KEPT = 10_000_000, 14


# At most so many sentences from either end of a split's projection are paired, if they suffice.
_EXTREMES = 600


# Sentences from either end that are paired for expected log Bayes factors.
_PRICED_EXTREMES = 400


def tries_all_splits(models: int) -> bool:
    """Return whether every way of splitting so many models in two is tried."""
    return bool(2 ** (models - 1) - 1 <= _MAX_SPLITS)


def even_split_pairs(ranks: FloatArray, n: int, rank_margin: float) -> IntArray:
    """Return pairs of rows on which half of the models prefer either sentence, shape (number, 2).

    Of many models few splits can be tried one by one, but any even split separates as many of them.
    Sentences are compared that stand close to each other in the order of mean ranks, where what
    models share cancels out. The pairs whose smallest rank difference is largest are kept.

    Parameters
    ----------
    ranks
        Fractional ranks, shape (S, M).
    n
        Number of pairs that are to be chosen.
    rank_margin
        What the rank differences of all models must exceed.
    """
    order = np.argsort(ranks.mean(axis=1), kind="stable")
    values = ranks[order].astype(np.float32)
    rows, models = values.shape
    pairs, least = np.empty((0, 2), dtype=np.int64), np.empty(0, dtype=np.float32)
    for apart in range(1, min(rows, 1 + -(-_COMPARED // rows))):
        difference = values[apart:] - values[:-apart]
        above = (difference > 0).sum(axis=1)
        even = np.flatnonzero((above == models // 2) | (above == models - models // 2))
        smallest = np.abs(difference[even]).min(axis=1)
        even, smallest = even[smallest > rank_margin], smallest[smallest > rank_margin]
        pairs = np.concatenate([pairs, np.column_stack([even, even + apart])])
        least = np.concatenate([least, smallest])
        best = np.argsort(-least, kind="stable")[: _KEPT * n]
        pairs, least = pairs[best], least[best]
    return np.asarray(order[pairs])


def _splits(models: int, rng: np.random.Generator) -> FloatArray:
    """Return ways to split the models in two, as rows of 1 and -1, the first model 1."""
    if tries_all_splits(models):
        rest = islice(product((1.0, -1.0), repeat=models - 1), 1, None)
        return np.array([(1.0, *signs) for signs in rest])
    # The most even splits separate most; the bound is reached by them alone.
    even = np.where(np.arange(models) < models // 2, 1.0, -1.0)
    splits = np.array([rng.permutation(even) for _ in range(_MAX_SPLITS)])
    return np.unique(splits * splits[:, :1], axis=0)


def extreme_pairs(ranks: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """Return candidate pairs of rows, shape (number, 2), among them `n` without a row in common."""
    values = ranks.astype(np.float32)
    splits = _splits(ranks.shape[1], rng).astype(np.float32)
    each = max(2, -(-5 * n // len(splits)))
    depth = min(len(ranks), max(2 * each, min(_EXTREMES, len(ranks) // 20)))
    # Random disjoint pairs, so that there are always n to choose.
    disjoint = min(n, len(ranks) // 2)
    parts = [rng.permutation(len(ranks))[: 2 * disjoint].reshape(disjoint, 2)]
    for split in splits:
        # Means, not sums, of the sides: what all models share must cancel out.
        weights = np.where(split > 0, split / (split > 0).sum(), split / (split < 0).sum())
        high, low = _ends(values @ weights, depth)
        smallest = np.full((depth, depth), np.inf, dtype=np.float32)
        for m, sign in enumerate(split):
            np.minimum(
                smallest, sign * (values[high, m][:, None] - values[low, m][None]), out=smallest
            )
        parts.append(_disjoint(smallest, high, low, each))
    return np.concatenate(parts)


def priced_pairs(
    measure: LogBayesFactor, keep: IntArray, n: int, dual_prices: FloatArray
) -> IntArray:
    """Return pairs of the rows `keep` of most value at the model pairs' `dual_prices`.

    Directions in which sentences are looked for are the largest eigenvectors of the dual_prices'
    Laplacian, along which the sum of squared differences is largest, and the differences between
    two models of a high price.
    """
    m = len(measure.ranked.models)
    i, j = np.triu_indices(m, 1)
    matrix = np.zeros((m, m))
    matrix[i, j] = matrix[j, i] = dual_prices
    laplacian = np.diag(matrix.sum(axis=0)) - matrix
    directions = [*np.linalg.eigh(laplacian)[1].T[-4:]]
    for pair in np.argsort(-dual_prices)[:m]:
        directions.append(np.eye(m)[i[pair]] - np.eye(m)[j[pair]])
    z = measure.scaled[keep]
    depth = min(len(keep), _PRICED_EXTREMES)
    each = max(2, -(-2 * n // len(directions)))
    pairs = []
    for direction in directions:
        high, low = _ends(z @ direction, depth)
        probabilities = measure.response_model.probabilities(z[high][:, None] - z[low][None])
        pairs.append(_disjoint(log_bayes_factors(probabilities, matrix), high, low, each))
    return keep[np.concatenate(pairs)]


def _ends(projection: AnyArray, depth: int) -> tuple[IntArray, IntArray]:
    """Return the `depth` rows of largest and of smallest projection."""
    high = np.argpartition(-projection, depth - 1)[:depth]
    return high, np.argpartition(projection, depth - 1)[:depth]


def _disjoint(values: AnyArray, high: IntArray, low: IntArray, count: int) -> IntArray:
    """Return up to `count` pairs of largest `values`, greedily, no row twice; shape (., 2)."""
    flat = values.ravel()
    best = np.argpartition(-flat, min(40 * count, flat.size) - 1)[: 40 * count]
    taken: set[int] = set()
    pairs = []
    for place in best[np.argsort(-flat[best], kind="stable")]:
        first, second = int(high[place // len(low)]), int(low[place % len(low)])
        if first != second and not taken & {first, second}:
            taken |= {first, second}
            pairs.append((first, second))
            if len(pairs) == count:
                break
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)
