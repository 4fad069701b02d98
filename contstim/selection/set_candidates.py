"""Candidate sentence pairs of a selection for a set of models.

All S (S - 1) / 2 pairs of many sentences are too many candidates of an integer programme. The
functions of this module propose pairs with large differences in the directions that separate
models.
"""

from __future__ import annotations

from itertools import islice, product

import numpy as np

from contstim.arrays import AnyArray, FloatArray, IntArray
from contstim.response_model import log_bayes_factors
from contstim.selection.set_criteria import LogBayesFactor

# Maximum number of splits of the models into two sides: all of them for up to 10 models.
_MAX_SPLITS = 511

# Maximum number of sentence pairs compared for even splits, and pairs retained per pair to select.
_MAX_COMPARISONS, _RETAINED_PER_PAIR = 10_000_000, 14

# Maximum number of sentences at each end of a projection that are paired with each other.
_MAX_SPLIT_DEPTH = 600
_MAX_PRICED_DEPTH = 400

# Number of eigenvectors of the Laplacian that are used as directions.
_N_EIGENVECTORS = 4


def tries_all_splits(n_models: int) -> bool:
    """Return whether there are so few models that every split into two sides is tried."""
    return bool(2 ** (n_models - 1) - 1 <= _MAX_SPLITS)


def even_split_pairs(ranks: FloatArray, n: int, rank_margin: float) -> IntArray:
    """Propose pairs on which half of the models prefer each sentence.

    With many models, only few splits can be tried, but every even split separates the same number
    of pairs of models. Sentences are sorted by mean rank and compared with their neighbours in this
    order, whose shared part of the ranks cancels out.

    Parameters
    ----------
    ranks : (S, M) array
        Fractional ranks.
    n
        Number of pairs to select.
    rank_margin
        Difference of ranks that must be exceeded under every model.

    Returns
    -------
    (n_pairs, 2) array
        Rows of the sentences, pairs with the largest smallest rank difference first.
    """
    order = np.argsort(ranks.mean(axis=1), kind="stable")
    values = ranks[order].astype(np.float32)
    n_sentences, n_models = values.shape
    half = n_models // 2
    pairs, smallest = np.empty((0, 2), dtype=np.int64), np.empty(0, dtype=np.float32)
    for distance in range(1, min(n_sentences, 1 + -(-_MAX_COMPARISONS // n_sentences))):
        differences = values[distance:] - values[:-distance]
        n_positive = (differences > 0).sum(axis=1)
        even = np.flatnonzero((n_positive == half) | (n_positive == n_models - half))
        new_smallest = np.abs(differences[even]).min(axis=1)
        is_clear = new_smallest > rank_margin
        even = even[is_clear]
        pairs = np.concatenate([pairs, np.column_stack([even, even + distance])])
        smallest = np.concatenate([smallest, new_smallest[is_clear]])
        best = np.argsort(-smallest, kind="stable")[: _RETAINED_PER_PAIR * n]
        pairs, smallest = pairs[best], smallest[best]
    return np.asarray(order[pairs])


def extreme_pairs(ranks: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """Propose pairs with large rank differences in the direction of each split of the models.

    For each split into two sides, sentences are projected on the mean rank of one side minus that
    of the other, and sentences at both ends of the projection are paired. Of more than 10 models,
    random even splits are used. Random disjoint pairs ensure that there are always n to select.

    Parameters
    ----------
    ranks : (S, M) array
        Fractional ranks.
    n
        Number of pairs to select.
    rng
        Random number generator.

    Returns
    -------
    (n_pairs, 2) array
        Rows of the sentences.
    """
    values = ranks.astype(np.float32)
    n_sentences, n_models = values.shape
    if tries_all_splits(n_models):
        signs = islice(product((1.0, -1.0), repeat=n_models - 1), 1, None)
        splits = np.array([(1.0, *row) for row in signs], dtype=np.float32)
    else:
        even = np.where(np.arange(n_models) < n_models // 2, 1.0, -1.0)
        random_splits = np.array([rng.permutation(even) for _ in range(_MAX_SPLITS)])
        # The sign of a split is arbitrary: model 1 is always on the positive side.
        splits = np.unique(random_splits * random_splits[:, :1], axis=0).astype(np.float32)
    n_per_split = max(2, -(-5 * n // len(splits)))
    depth = min(n_sentences, max(2 * n_per_split, min(_MAX_SPLIT_DEPTH, n_sentences // 20)))
    n_disjoint = min(n, n_sentences // 2)
    parts = [rng.permutation(n_sentences)[: 2 * n_disjoint].reshape(n_disjoint, 2)]
    for split in splits:
        weights = np.where(split > 0, split / (split > 0).sum(), split / (split < 0).sum())
        high, low = _extreme_rows(values @ weights, depth)
        smallest = np.full((depth, depth), np.inf, dtype=np.float32)
        for model, sign in enumerate(split):
            differences = sign * (values[high, model][:, None] - values[low, model][None])
            np.minimum(smallest, differences, out=smallest)
        parts.append(_best_disjoint_pairs(smallest, high, low, n_per_split))
    return np.concatenate(parts)


def priced_pairs(
    criterion: LogBayesFactor, rows: IntArray, n: int, dual_prices: FloatArray
) -> IntArray:
    """Propose pairs with large expected log Bayes factors, weighted by dual prices.

    Sentences are projected on the last eigenvectors of the Laplacian of the prices, along which the
    weighted sum of squared differences between models is largest, and on the differences between
    two models with a high price. Sentences at both ends of a projection are paired.

    Parameters
    ----------
    criterion
        Criterion with standardised log-probabilities.
    rows
        Rows of the sentences that may be paired.
    n
        Number of pairs to select.
    dual_prices : (n_model_pairs,) array
        Weights of the pairs of models.

    Returns
    -------
    (n_pairs, 2) array
        Rows of the sentences.
    """
    n_models = len(criterion.ranked.models)
    i, j = np.triu_indices(n_models, 1)
    weights = np.zeros((n_models, n_models))
    weights[i, j] = weights[j, i] = dual_prices
    laplacian = np.diag(weights.sum(axis=0)) - weights
    directions = [*np.linalg.eigh(laplacian)[1].T[-_N_EIGENVECTORS:]]
    identity = np.eye(n_models)
    for pair in np.argsort(-dual_prices)[:n_models]:
        directions.append(identity[i[pair]] - identity[j[pair]])
    scaled = criterion.scaled[rows]
    depth = min(len(rows), _MAX_PRICED_DEPTH)
    n_per_direction = max(2, -(-2 * n // len(directions)))
    pairs = []
    for direction in directions:
        high, low = _extreme_rows(scaled @ direction, depth)
        differences = scaled[high][:, None] - scaled[low][None]
        factors = log_bayes_factors(criterion.response_model.probabilities(differences), weights)
        pairs.append(_best_disjoint_pairs(factors, high, low, n_per_direction))
    return rows[np.concatenate(pairs)]


def _extreme_rows(projection: AnyArray, depth: int) -> tuple[IntArray, IntArray]:
    """Return the `depth` rows with the largest and with the smallest projection."""
    high = np.argpartition(-projection, depth - 1)[:depth]
    low = np.argpartition(projection, depth - 1)[:depth]
    return high, low


def _best_disjoint_pairs(values: AnyArray, high: IntArray, low: IntArray, n: int) -> IntArray:
    """Return up to `n` disjoint pairs (high[a], low[b]) with large values[a, b], greedily."""
    flat = values.ravel()
    best = np.argpartition(-flat, min(40 * n, flat.size) - 1)[: 40 * n]
    used: set[int] = set()
    pairs: list[tuple[int, int]] = []
    for position in best[np.argsort(-flat[best], kind="stable")]:
        first, second = int(high[position // len(low)]), int(low[position % len(low)])
        if first == second or first in used or second in used:
            continue
        used.update((first, second))
        pairs.append((first, second))
        if len(pairs) == n:
            break
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)
