"""Proposal of sentence pairs that discriminate between the models of a set.

The integer programme of `select_set` cannot consider all S (S - 1) / 2 pairs of many sentences. The
functions of this module propose candidate pairs of sentences that are ranked very differently by
different models.
"""

from __future__ import annotations

import math
from itertools import islice, product

import numpy as np

from contstim.arrays import AnyArray, FloatArray, IntArray
from contstim.response_model import log_bayes_factors
from contstim.selection.set_criteria import LogBayesFactor

# Maximum number of splits of the models into two groups: all splits of up to 10 models.
_MAX_SPLITS = 511

# Maximum number of sentence pairs that `propose_even_pairs` compares, and number of pairs that it
# proposes for each pair to select.
_MAX_COMPARISONS, _RETAINED_PER_PAIR = 10_000_000, 14

# Number of best combinations, for each pair to propose, among which disjoint pairs are searched.
_COMBINATIONS_PER_PAIR = 40

# Maximum number of sentences with the largest, and with the smallest, values that are combined to
# pairs, in `propose_extreme_pairs` and in `propose_targeted_pairs`.
_MAX_EXTREMES_PER_SPLIT = 600
_MAX_EXTREMES_PER_DIRECTION = 400

# Number of eigenvectors of the Laplacian that are used as directions.
_N_EIGENVECTORS = 4


def tries_all_splits(n_models: int) -> bool:
    """Return whether `propose_extreme_pairs` tries all splits of the models into two groups."""
    return bool(2 ** (n_models - 1) - 1 <= _MAX_SPLITS)


def propose_even_pairs(ranks: FloatArray, n: int, rank_margin: float) -> IntArray:
    """Propose pairs in which half of the models prefer sentence 1, and half prefer sentence 2.

    An even split separates the largest number of pairs of models, M^2 / 4 of M models. If there are
    too many models to try all splits, it is therefore enough to search for even splits.

    Sentences are sorted by their mean rank over the models. Each sentence is compared with its
    neighbours in this order. Neighbours have similar mean ranks, so that some models rank one of
    them higher and other models the other.

    Parameters
    ----------
    ranks : (S, M) array
        Fractional rank of each sentence under each model.
    n
        Number of pairs to select.
    rank_margin
        Rank difference between the two sentences that each model must exceed.

    Returns
    -------
    (n_pairs, 2) array
        Indices of the two sentences of each pair. Pairs are sorted by min_m |rank difference under
        model m|, largest value first.
    """
    order = np.argsort(ranks.mean(axis=1), kind="stable")
    # In this order, sentences with similar mean ranks over the models are neighbours.
    sorted_ranks = ranks[order].astype(np.float32)
    n_sentences, n_models = sorted_ranks.shape
    # Best pairs so far, with the smallest rank difference of each pair over the models.
    pairs, margins = np.empty((0, 2), dtype=np.int64), np.empty(0, dtype=np.float32)
    # Compare each sentence with the sentence `distance` positions later.
    for distance in range(1, min(n_sentences, 1 + math.ceil(_MAX_COMPARISONS / n_sentences))):
        differences = sorted_ranks[distance:] - sorted_ranks[:-distance]
        # A split is even if half of the models prefer the later sentence of the pair. If the number
        # of models is odd, the halves differ by one model. `n_later` counts models that prefer it.
        n_later = (differences > 0).sum(axis=1)
        is_even_split = (n_later == n_models // 2) | (n_later == n_models - n_models // 2)
        earlier = np.flatnonzero(is_even_split)
        new_margins = np.abs(differences[earlier]).min(axis=1)
        # Retain a pair only if every model ranks its sentences further apart than the margin.
        is_clear = new_margins > rank_margin
        earlier = earlier[is_clear]
        # Add them to the best pairs so far, and keep the best of all.
        pairs = np.concatenate([pairs, np.column_stack([earlier, earlier + distance])])
        margins = np.concatenate([margins, new_margins[is_clear]])
        best = np.argsort(-margins, kind="stable")[: _RETAINED_PER_PAIR * n]
        pairs, margins = pairs[best], margins[best]
    return np.asarray(order[pairs])


def propose_extreme_pairs(ranks: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """Propose sentence pairs that two groups of models rank in opposite order.

    For each split of the models into two groups:

    1. Compute, for each sentence, its mean rank under the models of the first group minus its mean
       rank under the models of the second group.
    2. Find the sentences with the largest and with the smallest differences.
    3. Combine sentences from both ends into pairs in which each model of the first group prefers
       one sentence, each model of the second group prefers the other, and the smallest rank
       difference under any model is large.

    All splits of up to 10 models are used, and random even splits of more models. Random disjoint
    pairs are added, so that there are always n pairs to select.

    Parameters
    ----------
    ranks : (S, M) array
        Fractional rank of each sentence under each model.
    n
        Number of pairs to select.
    rng
        Random number generator.

    Returns
    -------
    (n_pairs, 2) array
        Indices of the sentences.
    """
    ranks = ranks.astype(np.float32)
    n_sentences, n_models = ranks.shape
    # A split is a vector of signs, 1 for the models of the first group and -1 for the second group.
    # The first model is in the first group, because exchanging the groups gives the same pairs.
    if tries_all_splits(n_models):
        signs = islice(product((1.0, -1.0), repeat=n_models - 1), 1, None)
        splits = np.array([(1.0, *row) for row in signs], dtype=np.float32)
    else:
        even_split = np.where(np.arange(n_models) < n_models // 2, 1.0, -1.0)
        random_splits = np.array([rng.permutation(even_split) for _ in range(_MAX_SPLITS)])
        splits = np.unique(random_splits * random_splits[:, :1], axis=0).astype(np.float32)
    # Number of pairs per split, and number of sentences at each end from which they are formed.
    n_per_split = max(2, math.ceil(5 * n / len(splits)))
    n_extreme = max(2 * n_per_split, min(_MAX_EXTREMES_PER_SPLIT, n_sentences // 20))
    n_extreme = min(n_sentences, n_extreme)
    # Start with random disjoint pairs, so that there are always n pairs to select.
    n_disjoint = min(n, n_sentences // 2)
    proposals = [rng.permutation(n_sentences)[: 2 * n_disjoint].reshape(n_disjoint, 2)]
    for split in splits:
        # Find the sentences on which the mean ranks of the two groups of models differ most.
        weights = np.where(split > 0, split / (split > 0).sum(), split / (split < 0).sum())
        top_rows, bottom_rows = _find_extreme_rows(ranks @ weights, n_extreme)
        # Rank difference by which each model prefers the sentence that its group should prefer, for
        # each combination of a top and a bottom sentence; minimum over the models.
        margins = np.full((n_extreme, n_extreme), np.inf, dtype=np.float32)
        for model, sign in enumerate(split):
            differences = ranks[top_rows, model][:, None] - ranks[bottom_rows, model][None]
            np.minimum(margins, sign * differences, out=margins)
        proposals.append(_select_disjoint_pairs(margins, top_rows, bottom_rows, n_per_split))
    return np.concatenate(proposals)


def propose_targeted_pairs(
    criterion: LogBayesFactor, rows: IntArray, n: int, model_pair_weights: FloatArray
) -> IntArray:
    """Propose pairs of sentences for the models that are still hard to distinguish.

    The selection maximises the smallest log Bayes factor of any two models. Some pairs of models
    limit this objective. The weight y_ij of models i and j (the dual price in the linear
    relaxation) states how much the objective would increase if they were distinguished better. New
    candidates should therefore distinguish models with high weights. This is a heuristic pricing
    step of column generation. Each sentence has a vector z of standardised log-probabilities under
    the M models, which is projected on two sets of directions d in R^M:

    1. The directions that maximise sum_ij y_ij (d_i - d_j)^2. They are the eigenvectors with the
       largest eigenvalues of the Laplacian of a graph with the models as vertices and y as weights
       of the edges.
    2. The differences z_i - z_j of two models, for the pairs of models with the highest weights.

    Sentences from both ends of each projection are combined into pairs with a large expected log
    Bayes factor, averaged over pairs of models with the weights y.

    Parameters
    ----------
    criterion
        Criterion with standardised log-probabilities.
    rows
        Indices of the sentences that may be paired.
    n
        Number of pairs to select.
    model_pair_weights : (n_model_pairs,) array
        Weight of each pair of models, in the order of ``numpy.triu_indices(M, 1)``.

    Returns
    -------
    (n_pairs, 2) array
        Indices of the sentences.
    """
    n_models = len(criterion.ranked.models)
    models_1, models_2 = np.triu_indices(n_models, 1)
    weights = np.zeros((n_models, n_models))
    weights[models_1, models_2] = weights[models_2, models_1] = model_pair_weights
    # A direction is a vector d with an element for each model. Find directions in which models that
    # are hard to distinguish differ most: the sum of weights[i, j] (d_i - d_j)^2 over all pairs of
    # models should be large. The sum equals d^T L d, where L is the graph Laplacian of the weights,
    # so the best directions are the eigenvectors of L with the largest eigenvalues.
    laplacian = np.diag(weights.sum(axis=0)) - weights
    _, eigenvectors = np.linalg.eigh(laplacian)  # in columns, by increasing eigenvalue
    directions = [*eigenvectors.T[-_N_EIGENVECTORS:]]
    # Further directions compare only two models: 1 for model i, -1 for model j, 0 for the others.
    unit_vectors = np.eye(n_models)
    for pair in np.argsort(-model_pair_weights)[:n_models]:
        directions.append(unit_vectors[models_1[pair]] - unit_vectors[models_2[pair]])

    # Propose about twice as many pairs as needed, the same number for each direction. Combine
    # sentences with a high and with a low projection, so that the expected answers differ most
    # between the models.
    n_per_direction = max(2, math.ceil(2 * n / len(directions)))
    log_probs = criterion.scaled[rows]
    n_extreme = min(len(rows), _MAX_EXTREMES_PER_DIRECTION)
    proposals = []
    for direction in directions:
        top_rows, bottom_rows = _find_extreme_rows(log_probs @ direction, n_extreme)
        differences = log_probs[top_rows][:, None] - log_probs[bottom_rows][None]
        answer_probs = criterion.response_model.probabilities(differences)
        factors = log_bayes_factors(answer_probs, weights)
        proposals.append(_select_disjoint_pairs(factors, top_rows, bottom_rows, n_per_direction))
    return rows[np.concatenate(proposals)]


def _find_extreme_rows(values: AnyArray, n: int) -> tuple[IntArray, IntArray]:
    """Find the n sentences with the largest and the n sentences with the smallest values.

    Parameters
    ----------
    values
        Value of each of S sentences, shape (S,).
    n
        Number of sentences to find at each end.

    Returns
    -------
    top_rows, bottom_rows : (n,) array
        Indices of the sentences with the largest and with the smallest values, unsorted.
    """
    # `argpartition` finds the n smallest values without sorting all of them.
    return np.argpartition(-values, n - 1)[:n], np.argpartition(values, n - 1)[:n]


def _select_disjoint_pairs(
    values: AnyArray, top_rows: IntArray, bottom_rows: IntArray, n: int
) -> IntArray:
    """Combine sentences from two lists into pairs of high value, using each sentence at most once.

    Pairs are selected greedily by decreasing value. Only the best combinations are searched, so
    there may be fewer than `n` pairs.

    Parameters
    ----------
    values : (n_top, n_bottom) array
        Value of the pair of ``top_rows[a]`` and ``bottom_rows[b]`` at ``values[a, b]``.
    top_rows, bottom_rows
        Indices of the sentences in the two lists.
    n
        Maximum number of pairs.

    Returns
    -------
    (n_pairs, 2) array
        Indices of the two sentences of each pair.
    """
    flat_values = values.ravel()
    # Find the best combinations without sorting all of them, then sort these by decreasing value.
    n_searched = _COMBINATIONS_PER_PAIR * n
    best = np.argpartition(-flat_values, min(n_searched, flat_values.size) - 1)[:n_searched]
    used: set[int] = set()
    pairs: list[tuple[int, int]] = []
    for flat_index in best[np.argsort(-flat_values[best], kind="stable")]:
        top, bottom = divmod(flat_index, len(bottom_rows))  # row and column in `values`
        sentence_1, sentence_2 = int(top_rows[top]), int(bottom_rows[bottom])
        # Skip pairs with a sentence that is in a better pair already.
        if sentence_1 == sentence_2 or sentence_1 in used or sentence_2 in used:
            continue
        used.update((sentence_1, sentence_2))
        pairs.append((sentence_1, sentence_2))
        if len(pairs) == n:
            break
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)
