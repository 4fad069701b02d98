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

# Number of best combinations, per requested pair, among which disjoint pairs are searched.
_COMBINATIONS_PER_PAIR = 40

# Maximum number of sentences at each end of a projection that are paired with each other.
_MAX_SPLIT_DEPTH = 600
_MAX_PRICED_DEPTH = 400

# Number of eigenvectors of the Laplacian that are used as directions.
_N_EIGENVECTORS = 4


def tries_all_splits(n_models: int) -> bool:
    """Return whether there are so few models that every split into two sides is tried."""
    return bool(2 ** (n_models - 1) - 1 <= _MAX_SPLITS)


def even_split_pairs(ranks: FloatArray, n: int, rank_margin: float) -> IntArray:
    """Propose pairs in which half of the models prefer sentence 1, and half prefer sentence 2.

    Such an even split separates the largest number of pairs of models, whichever models are on
    which side. It is therefore enough to find even splits when there are too many models to try
    every split. Sentences are sorted by their mean rank over models, and each sentence is compared
    with its neighbours in this order. Neighbours have similar mean ranks, so their differences have
    different signs under different models.

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
    # Compare each sentence with the sentence `distance` places later in the order.
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
    """Propose pairs that separate one half of the models clearly from the other.

    A *split* divides the models into two groups. For each split:

    1. Compute the mean rank of each sentence in one group minus its mean rank in the other.
    2. Take the sentences with the largest and with the smallest value of this difference.
    3. Pair them such that every model ranks the two sentences as its group requires, by a large
       margin.

    All splits of up to 10 models are used, and random even splits of more models. Random disjoint
    pairs are added, so that there are always n pairs to select.

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
        # Weights 1 / n of the models in each group: the projection is a difference of means.
        weights = np.where(split > 0, split / (split > 0).sum(), split / (split < 0).sum())
        top_rows, bottom_rows = _extreme_rows(values @ weights, depth)
        # Smallest difference over models, negative if a model prefers the wrong sentence.
        smallest = np.full((depth, depth), np.inf, dtype=np.float32)
        for model, sign in enumerate(split):
            ranks_top, ranks_bottom = values[top_rows, model], values[bottom_rows, model]
            np.minimum(smallest, sign * (ranks_top[:, None] - ranks_bottom[None]), out=smallest)
        parts.append(_best_disjoint_pairs(smallest, top_rows, bottom_rows, n_per_split))
    return np.concatenate(parts)


def priced_pairs(
    criterion: LogBayesFactor, rows: IntArray, n: int, dual_prices: FloatArray
) -> IntArray:
    """Propose pairs that distinguish those pairs of models which limit the objective.

    The dual price of a pair of models states how much the objective would gain if these two models
    were distinguished better. Sentences are projected on two sets of directions in the space of
    models:

    1. The eigenvectors with the largest eigenvalues of the graph Laplacian, in which the models are
       vertices and the prices are weights of edges. Along these directions, the weighted sum of
       squared differences between models is largest.
    2. The differences between the two models of each pair with a high price.

    Sentences from both ends of each projection are paired if their expected log Bayes factors,
    weighted by the prices, are large.

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
        top_rows, bottom_rows = _extreme_rows(scaled @ direction, depth)
        differences = scaled[top_rows][:, None] - scaled[bottom_rows][None]
        factors = log_bayes_factors(criterion.response_model.probabilities(differences), weights)
        pairs.append(_best_disjoint_pairs(factors, top_rows, bottom_rows, n_per_direction))
    return rows[np.concatenate(pairs)]


def _extreme_rows(projection: AnyArray, depth: int) -> tuple[IntArray, IntArray]:
    """Find the sentences at both ends of a projection.

    Two arrays of `depth` rows are returned: first the sentences with the largest values, then the
    sentences with the smallest values, each in any order.
    """
    top_rows = np.argpartition(-projection, depth - 1)[:depth]
    bottom_rows = np.argpartition(projection, depth - 1)[:depth]
    return top_rows, bottom_rows


def _best_disjoint_pairs(
    values: AnyArray, top_rows: IntArray, bottom_rows: IntArray, n: int
) -> IntArray:
    """Combine sentences from two lists to pairs of high value, using no sentence twice.

    The value of the pair of ``top_rows[a]`` and ``bottom_rows[b]`` is ``values[a, b]``. Pairs are
    selected greedily from the highest value down. Only the best combinations are searched, so there
    may be fewer than `n` pairs.

    Returns
    -------
    (n_pairs, 2) array
        Rows of the two sentences of each pair.
    """
    flat_values = values.ravel()
    n_searched = _COMBINATIONS_PER_PAIR * n
    best = np.argpartition(-flat_values, min(n_searched, flat_values.size) - 1)[:n_searched]
    used: set[int] = set()
    pairs: list[tuple[int, int]] = []
    for flat_index in best[np.argsort(-flat_values[best], kind="stable")]:
        a, b = divmod(flat_index, len(bottom_rows))
        sentence_1, sentence_2 = int(top_rows[a]), int(bottom_rows[b])
        if sentence_1 == sentence_2 or sentence_1 in used or sentence_2 in used:
            continue
        used.update((sentence_1, sentence_2))
        pairs.append((sentence_1, sentence_2))
        if len(pairs) == n:
            break
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)
