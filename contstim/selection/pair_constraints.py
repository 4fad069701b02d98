"""Constraints on the sentences of candidate pairs, and pairs that can satisfy them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array, diags_array, hstack

from contstim.arrays import IntArray
from contstim.selection.assignment import POSITIONS, AssignmentProblem, Quota
from contstim.selection.column_generation import find_fractional_assignment
from contstim.selection.constraint_rows import ConstraintRows, SelectionConstraint
from contstim.selection.constraints import compute_pairing_blocks
from contstim.selection.scores import RankedScores

# Number of random pairings of the sentences of a fractional solution.
_N_PAIRINGS = 20
# Descriptions of the sentences in error messages.
_FIRST_AND_SECOND = ("first sentences", "second sentences")


def propose_feasible(
    ranked: RankedScores,
    rows: IntArray,
    constraints: Sequence[SelectionConstraint],
    n: int,
    max_occurrences: int,
    rng: np.random.Generator,
) -> IntArray:
    """Propose pairs of sentences with which the constraints can be satisfied.

    Linear programming finds n first sentences and n second sentences that satisfy the constraints,
    where fractions of a sentence are allowed. They are then paired at random, several times.

    Parameters
    ----------
    ranked
        Sentences with their ranks under each model.
    rows
        Indices, in `ranked`, of the sentences that may be paired.
    constraints
        Constraints, as returned by `merge_equal`.
    n
        Number of pairs to select.
    max_occurrences
        Maximum number of selected pairs that contain the same sentence.
    rng
        Random number generator.

    Returns
    -------
    (n_pairs, 2) array
        Indices, in `ranked`, of the two sentences of each proposed pair.

    Raises
    ------
    InfeasibleError
        If the constraints cannot be satisfied; the message names them and their shortfall.
    """
    copies = np.repeat(rows, max_occurrences)  # k copies of a sentence that may be in k pairs
    # Find n first and n second sentences (two quotas) that satisfy the constraints.
    quotas = _make_quotas(_FIRST_AND_SECOND, n)
    constraint_rows = ConstraintRows(quotas, ranked.labels[copies], constraints)
    # The cost of a sentence is its rank under the first or second model, doubled so that the mean
    # rank of tied sentences is an integer. Any sentence may be a first and a second sentence.
    costs, all_allowed = ranked.doubled_ranks[copies][:, :2], np.ones((len(copies), 2), dtype=bool)
    problem = AssignmentProblem(costs, accepted=all_allowed, rejected=all_allowed, quotas=quotas)
    assignment = find_fractional_assignment(problem, constraint_rows)
    sentences_1, sentences_2 = (copies[indices] for indices in assignment)
    # Pair first and second sentences at random. Only sentences of the same block, which agree in
    # the features that must be equal, may be paired.
    blocks = compute_pairing_blocks(constraints, ranked.labels)
    pairings = []
    for _ in range(_N_PAIRINGS):
        shuffled_1, shuffled_2 = rng.permutation(sentences_1), rng.permutation(sentences_2)
        for block in np.unique(blocks[sentences_1]):
            block_1 = shuffled_1[blocks[shuffled_1] == block]
            block_2 = shuffled_2[blocks[shuffled_2] == block]
            # The last sentences of the longer list remain without a partner.
            n_pairs = min(len(block_1), len(block_2))
            pairings.append(np.column_stack([block_1[:n_pairs], block_2[:n_pairs]]))
    # Leave out pairs of a sentence with itself.
    pairs = np.concatenate(pairings)
    return np.asarray(pairs[pairs[:, 0] != pairs[:, 1]])


def _make_quotas(descriptions: tuple[str, str], n: int) -> tuple[Quota, Quota]:
    """Create quotas for the n first and the n second sentences of n pairs.

    In error messages, `descriptions` of these sentences take the place of names of models.
    """
    first, second = POSITIONS
    # Column 0 contains the costs of first sentences, and column 1 those of second sentences.
    return Quota(descriptions, first, 0, 1, n), Quota(descriptions, second, 1, 0, n)


def build_pair_constraints(
    constraints: Sequence[SelectionConstraint],
    ranked: RankedScores,
    pairs: IntArray,
    preferences: IntArray,
    n: int,
    max_occurrences: int,
) -> tuple[csr_array, list[ConstraintRows]]:
    """Convert linear constraints on sentences to linear constraints on sentence pairs.

    The coefficient of a pair is the sum of the coefficients of its two sentences. A constraint that
    compares the two sentences of a pair is imposed once for each model, on the sentence that this
    model prefers and the other sentence.

    Parameters
    ----------
    constraints
        Constraints, as returned by `merge_equal`.
    ranked
        Sentences with their ranks under each model.
    pairs : (K, 2) array
        Indices, in `ranked`, of the two sentences of each candidate pair.
    preferences : (K, M) array
        1 if a model prefers sentence 1 of a candidate, -1 if it prefers sentence 2, 0 otherwise.
    n
        Number of pairs to select.
    max_occurrences
        Maximum number of selected pairs that contain the same sentence.

    Returns
    -------
    weights : sparse (n_rows, K) array
        Coefficients of K candidate pairs in each constraint.
    all_rows : list of ConstraintRows
        Constraints on sentences, which provide the names and bounds for the rows of `weights`.
    """
    # The constraints only concern sentences in candidate pairs. `first` and `second` are the
    # indices of the two sentences of each pair in this subset.
    sentences, indices = np.unique(pairs, return_inverse=True)
    first, second = indices.reshape(pairs.shape).T
    labels = ranked.labels[sentences]

    # Constraints that do not compare the two sentences of a pair: the coefficient of a pair is the
    # sum of the coefficients of its two sentences.
    separate = [constraint for constraint in constraints if not constraint.compares_within_pair]
    quotas = _make_quotas(_FIRST_AND_SECOND, n)
    rows = ConstraintRows(quotas, labels, separate, max_occurrences)
    all_rows = [rows]
    first_weights, second_weights = rows.weights
    weights = [first_weights[first] + second_weights[second]]

    # Constraints that compare the two sentences, once for each model.
    comparing = [constraint for constraint in constraints if constraint.compares_within_pair]
    for model, model_preferences in zip(ranked.models, preferences.T, strict=True):
        quotas = _make_quotas((f"sentences that {model} prefers", "the others"), n)
        rows = ConstraintRows(quotas, labels, comparing, max_occurrences)
        all_rows.append(rows)
        # Coefficients of a sentence if the model prefers it, and if it prefers the other sentence.
        # Pairs without a preference have the coefficient 0.
        preferred, other = rows.weights
        prefers_first = diags_array((model_preferences == 1).astype(np.float64))
        prefers_second = diags_array((model_preferences == -1).astype(np.float64))
        weights.append(
            prefers_first @ (preferred[first] + other[second])
            + prefers_second @ (preferred[second] + other[first])
        )
    return csr_array(hstack(weights, format="csr").T), all_rows
