"""Constraints on the sentences of candidate pairs, and pairs that can satisfy them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array, diags_array, hstack

from contstim.arrays import IntArray
from contstim.selection.assignment import ROLES, AssignmentProblem, Role
from contstim.selection.column_generation import find_fractional_assignment
from contstim.selection.constraint_rows import ConstraintRows, SelectionConstraint
from contstim.selection.constraints import compute_pairing_codes
from contstim.selection.scores import RankedScores

# Number of random pairings of the sentences of a fractional solution.
_N_PAIRINGS = 20
# Descriptions of the roles in error messages.
_SIDES = ("first sentences", "second sentences")


def propose_feasible(
    ranked: RankedScores,
    rows: IntArray,
    constraints: Sequence[SelectionConstraint],
    n: int,
    uses: int,
    rng: np.random.Generator,
) -> IntArray:
    """Propose pairs of sentences with which the constraints can be satisfied.

    Linear programming finds n first sentences and n second sentences that satisfy the constraints,
    where fractions of a sentence are allowed. They are then paired at random, several times.

    Parameters
    ----------
    ranked
        Ranked sentences.
    rows
        Rows of the sentences that may be paired.
    constraints
        Constraints, as returned by `merge_equal`.
    n
        Number of pairs to select.
    uses
        Maximum number of selected pairs that contain the same sentence.
    rng
        Random number generator.

    Returns
    -------
    (n_pairs, 2) array
        Rows of the sentences of candidate pairs.

    Raises
    ------
    InfeasibleError
        If the constraints cannot be satisfied; the message names them and their shortfall.
    """
    sentences = np.repeat(rows, uses)
    # There are `uses` copies of each sentence. Every sentence may be a first or second sentence;
    # only the constraints matter.
    any_role = np.ones((len(sentences), 2), dtype=bool)
    roles = _make_roles(_SIDES, n)
    problem = AssignmentProblem(ranked.doubled_ranks[sentences][:, :2], any_role, any_role, roles)
    constraint_rows = ConstraintRows(roles, ranked.labels[sentences], constraints)
    rows_1, rows_2 = find_fractional_assignment(problem, constraint_rows)
    sentences_1, sentences_2 = sentences[rows_1], sentences[rows_2]
    # Pair sentences at random, but only sentences that agree in the features that must be equal.
    codes = compute_pairing_codes(constraints, ranked.labels)
    pairings = []
    for _ in range(_N_PAIRINGS):
        shuffled_1, shuffled_2 = rng.permutation(sentences_1), rng.permutation(sentences_2)
        for code in np.unique(codes[sentences_1]):
            equal_1 = shuffled_1[codes[shuffled_1] == code]
            equal_2 = shuffled_2[codes[shuffled_2] == code]
            # Shuffled sentences are paired in order; the longer list loses its remainder.
            size = min(len(equal_1), len(equal_2))
            pairings.append(np.column_stack([equal_1[:size], equal_2[:size]]))
    # Leave out pairs of a sentence with itself.
    pairs = np.concatenate(pairings)
    return np.asarray(pairs[pairs[:, 0] != pairs[:, 1]])


def _make_roles(sides: tuple[str, str], n: int) -> tuple[Role, Role]:
    """Create roles to which the first and the second sentences of n pairs are assigned.

    The names in `sides` describe these sentences in error messages, in place of names of models.
    """
    return Role(*sides, ROLES[0], 0, 1, n), Role(*sides, ROLES[1], 1, 0, n)


def pair_constraints(
    constraints: Sequence[SelectionConstraint],
    ranked: RankedScores,
    used: IntArray,
    codes: IntArray,
    preferences: IntArray,
    n: int,
    uses: int,
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
        Ranked sentences.
    used
        Rows of the sentences that occur in candidates.
    codes : (K, 2) array
        Indices in `used` of the two sentences of each candidate.
    preferences : (K, M) array
        1 if a model prefers sentence 1 of a candidate, -1 if it prefers sentence 2, 0 otherwise.
    n
        Number of pairs to select.
    uses
        Maximum number of selected pairs that contain the same sentence.

    Returns
    -------
    weights : sparse (n_rows, K) array
        Coefficients of K candidate pairs in each constraint.
    all_rows : list of ConstraintRows
        Constraints on sentences, which provide the names and bounds for the rows of `weights`.
    """
    labels = ranked.labels[used]
    sentence_1, sentence_2 = codes.T
    # Constraints that do not compare the two sentences of a pair.
    plain = [constraint for constraint in constraints if not constraint.compares_sides]
    # The coefficient of a pair is the sum of the coefficients of its two sentences.
    rows = ConstraintRows(_make_roles(_SIDES, n), labels, plain, uses)
    all_rows = [rows]
    weights_1, weights_2 = rows.weights
    weights = [weights_1[sentence_1] + weights_2[sentence_2]]
    # Constraints that compare them, once for each model.
    comparing = [constraint for constraint in constraints if constraint.compares_sides]
    for model, model_preferences in zip(ranked.models, preferences.T, strict=True):
        sides = (f"sentences that {model} prefers", "the others")
        rows = ConstraintRows(_make_roles(sides, n), labels, comparing, uses)
        all_rows.append(rows)
        # Coefficients of preferred sentences and of other sentences.
        preferred, other = rows.weights
        prefers_1 = diags_array((model_preferences == 1).astype(np.float64))
        prefers_2 = diags_array((model_preferences == -1).astype(np.float64))
        # Exchange the two for pairs of which the model prefers sentence 2. A pair without a
        # preference has the coefficient 0.
        weights.append(
            prefers_1 @ (preferred[sentence_1] + other[sentence_2])
            + prefers_2 @ (preferred[sentence_2] + other[sentence_1])
        )
    return csr_array(hstack(weights, format="csr").T), all_rows
