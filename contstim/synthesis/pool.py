"""Assignment of sampled sentences to natural sentences.

A language model samples a pool of sentences. Each *target* is a natural sentence to which one
sentence of the pool will be assigned, as its synthetic sentence. A sentence can be assigned to at
most one target, and must satisfy the constraints of this target. The first aim is to assign as many
sentences as possible, the second aim is a low total loss. The number of assigned sentences with the
same first or last words is limited.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import scipy  # which loads `optimize` at its first use

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.synthesis.problem import ProblemDefinition
from contstim.synthesis.results import SynthesisResult
from contstim.text.diversity import MIN_WORD_LIMIT, edge_phrases, infrequent_words
from contstim.text.language import Language
from contstim.text.languages import ENGLISH

#: Maximum number of assigned sentences with the same first, or the same last, words.
DIVERSITY_CAP = 2

# Key of a group of similar sentences, of which only a limited number may be assigned: either a
# boolean and the common first or last words (`edge_phrases`), or the names of the models of a
# target and a word that the sentences contain.
_Group = tuple[bool, tuple[str, ...]] | tuple[frozenset[str], str]

# Value of an assigned sentence. It exceeds any loss, so that the number of sentences has priority.
_ASSIGNED_VALUE = 1e6
# Values of the linear relaxation up to this number are regarded as 0.
_MIN_FRACTION = 1e-6


@dataclass(frozen=True)
class Target:
    """Natural sentence that needs a synthetic sentence, with the requirements for the latter.

    A triplet needs two targets with the same natural sentence, one for each synthetic sentence.

    Attributes
    ----------
    natural
        Text of the natural sentence.
    problem
        Models (by name), loss and constraints of the synthetic sentence.
    """

    natural: str
    problem: ProblemDefinition


@dataclass(frozen=True, eq=False)
class SentencePool:
    """Pool of P sampled sentences with their scores.

    Attributes
    ----------
    sentences
        Sampled sentences.
    scores
        Mapping from model name to a mapping from sentence to score in nats, for sampled and for
        natural sentences.
    batch_tolerance
        Mapping from model name to the maximum numerical difference, in nats, between scores of the
        same sentence in different batches.
    language
        Language of the sentences.
    """

    sentences: tuple[str, ...]
    scores: Mapping[str, Mapping[str, float]]
    batch_tolerance: Mapping[str, float]
    language: Language = ENGLISH

    def get_scores(self, model: str) -> FloatArray:
        """Return the scores of the sampled sentences under one model, (P,); NaN if missing."""
        scores = self.scores[model]
        return np.array([scores.get(s, np.nan) for s in self.sentences], dtype=np.float64)

    def check_constraints(self, target: Target) -> dict[str, BoolArray]:
        """Return which sentences of the pool satisfy each constraint of a target.

        Parameters
        ----------
        target
            Natural sentence, and constraints on the sentence that is assigned to it.

        Returns
        -------
        dict
            Mapping from the text of a constraint, for example ``contstim:gpt>=natural``, to a mask
            of the sentences that satisfy it, shape (P,).
        """
        masks: dict[str, BoolArray] = {}
        for constraint in target.problem.constraints:
            name = constraint.model
            minimum = constraint.minimum(self.scores[name][target.natural])
            # Exceed the bound by the numerical error, so that it is still satisfied if the sentence
            # is scored again in another batch.
            minimum += self.batch_tolerance.get(name, 0.0)
            masks[str(constraint)] = self.get_scores(name) >= minimum
        return masks

    def losses(self, target: Target) -> FloatArray:
        """Return the loss that results from assigning each sentence of the pool to a target.

        Parameters
        ----------
        target
            Natural sentence, and synthesis problem with the loss and the constraints.

        Returns
        -------
        array
            Loss of each sentence, shape (P,). NaN for sentences that violate a constraint or have a
            loss of 0 or more, which means that they are no better than the natural sentence.
        """
        scores = {name: self.get_scores(name) for name in target.problem.reject}
        natural_scores = {name: self.scores[name][target.natural] for name in scores}
        losses = target.problem.loss(scores, natural_scores)
        is_feasible = np.all([*self.check_constraints(target).values(), losses < 0], axis=0)
        return np.where(is_feasible, losses, np.nan)


def assign_sentences(
    pool: SentencePool,
    targets: Sequence[Target],
    diversity_cap: int = DIVERSITY_CAP,
    max_word_share: float = 1.0,
) -> list[str | None]:
    """Choose one of many sampled sentences as the synthetic sentence of each natural sentence.

    No sampled sentence is used twice, and as many as possible are used. Among the assignments with
    this number of sentences, the function minimises the total loss. If this assignment
    (`linear_sum_assignment`) contains too many similar sentences, a near-optimal assignment within
    the limits is returned: the linear relaxation is rounded, and then improved by adding sentences.

    Parameters
    ----------
    pool
        Sampled sentences with their scores.
    targets
        Natural sentences, each with the loss and the constraints of its synthetic sentence.
    diversity_cap
        Maximum number of assigned sentences that begin, or that end, with the same three words.
    max_word_share
        Maximum fraction of sentences that may contain the same word, among all sentences chosen for
        the same models. The limit is never below two sentences, nor below the number of natural
        sentences that contain the word. Frequent words (`contstim.text.diversity.FREQUENT_ZIPF`)
        are not limited. 1: no limit.

    Returns
    -------
    list of str or None
        Sentence for each target; None if no sentence can be assigned.
    """
    gains = np.array([-pool.losses(target) for target in targets]).reshape(len(targets), -1)
    # A gain is the decrease in loss if a sentence is assigned to a target (natural sentence), shape
    # (targets, sentences). It is NaN if the sentence violates a constraint of the target.
    usable = np.flatnonzero(~np.isnan(gains).all(axis=0))
    # Find the optimal assignment without regard to the limits on similar sentences.
    assigned = _solve_assignment(gains, usable)
    similarity_limits = _SimilarityLimits(pool, targets, gains, diversity_cap, max_word_share)
    if not similarity_limits.are_satisfied(assigned):
        # Find another assignment that satisfies the limits. Then add unused sentences that exceed
        # no limit, and reassign all sentences. Repeat this until the assignment improves no more.
        assigned = similarity_limits.find_feasible_assignment(usable)
        while True:
            addable = similarity_limits.find_addable_sentences(assigned, usable)
            improved = _solve_assignment(gains, np.union1d(assigned[assigned >= 0], addable))
            is_better = _compute_value(gains, improved) > _compute_value(gains, assigned)
            if not (similarity_limits.are_satisfied(improved) and is_better):
                break
            assigned = improved
    return [None if i < 0 else pool.sentences[i] for i in assigned.tolist()]


def _solve_assignment(gains: FloatArray, usable: IntArray) -> IntArray:
    """Assign as many sentences as possible, with the largest total decrease in loss.

    Parameters
    ----------
    gains
        Decrease in loss if sentence i is assigned to natural sentence t, shape (T, S); NaN if the
        assignment is invalid.
    usable
        Indices of the sentences that may be assigned.

    Returns
    -------
    array
        Index of the sentence assigned to each natural sentence, shape (T,); -1 for none.
    """
    assigned = np.full(len(gains), -1, dtype=np.int64)  # -1: no sentence
    usable_gains = gains[:, usable]
    # The large value of each valid assignment gives priority to the number of assigned sentences.
    rows, columns = scipy.optimize.linear_sum_assignment(
        np.where(np.isnan(usable_gains), 0.0, _ASSIGNED_VALUE + usable_gains), maximize=True
    )
    is_assigned = ~np.isnan(usable_gains[rows, columns])
    assigned[rows[is_assigned]] = usable[columns[is_assigned]]
    return assigned


def _compute_value(gains: FloatArray, assigned: IntArray) -> float:
    """Return the value of an assignment, to compare it with other assignments.

    The value is the total decrease in loss plus a large constant for each assigned sentence, so
    that an assignment of more sentences always has a higher value.

    Parameters
    ----------
    gains
        Decrease in loss if sentence i is assigned to natural sentence t, shape (T, S).
    assigned
        Index of the sentence assigned to each natural sentence, shape (T,); -1 for none.
    """
    rows = np.flatnonzero(assigned >= 0)
    return float((_ASSIGNED_VALUE + gains[rows, assigned[rows]]).sum())


class _SimilarityLimits:
    """Limits on the number of similar sampled sentences that are assigned to natural sentences.

    Each limit is the maximum number of sentences of a group that may be assigned. A group consists
    of the sentences that begin with the same words, that end with the same words, or that contain
    the same word and are assigned for the same models. A sentence belongs to several groups.
    """

    def __init__(
        self,
        pool: SentencePool,
        targets: Sequence[Target],
        gains: FloatArray,
        diversity_cap: int,
        max_word_share: float,
    ) -> None:
        self._gains = gains
        # Models of each target; first and last words, and all limited words, of each sentence.
        self._models = [frozenset(target.problem.names) for target in targets]
        self._edge_phrases = [edge_phrases(sentence) for sentence in pool.sentences]
        self._words = [
            infrequent_words(sentence, pool.language) if max_word_share < 1 else set[str]()
            for sentence in pool.sentences
        ]
        # The limit of a word is a share of the targets, or the number of natural sentences with it.
        self._diversity_cap = diversity_cap
        self._natural_counts: Counter[_Group] = Counter(
            (models, word)
            for models, target in zip(self._models, targets, strict=True)
            for word in infrequent_words(target.natural, pool.language)
        )
        self._word_caps = {
            models: max(MIN_WORD_LIMIT, math.floor(max_word_share * n_targets + 1e-9))
            for models, n_targets in Counter(self._models).items()
        }

    def _find_groups(self, i: int, models: Collection[frozenset[str]]) -> set[_Group]:
        """Return the groups of sentence `i` if it is assigned to targets with these `models`.

        `models` contains one set of model names for each target.
        """
        return {*self._edge_phrases[i], *product(models, self._words[i])}

    def _get_cap(self, group: _Group) -> int:
        """Return the maximum number of assigned sentences in a group."""
        # The first part of the key is a boolean for groups with the same first or last words.
        models, _ = group
        if isinstance(models, bool):
            return self._diversity_cap
        return max(self._word_caps[models], self._natural_counts[group])

    def _count_groups(self, assigned: IntArray) -> Counter[_Group]:
        """Return the number of assigned sentences of each group."""
        sizes = Counter[_Group]()
        for target, i in enumerate(assigned.tolist()):
            if i >= 0:
                sizes.update(self._find_groups(i, [self._models[target]]))
        return sizes

    def are_satisfied(self, assigned: IntArray) -> bool:
        """Return whether an assignment satisfies the limits of all groups."""
        return all(n <= self._get_cap(group) for group, n in self._count_groups(assigned).items())

    def find_feasible_assignment(self, usable: IntArray) -> IntArray:
        """Return an assignment within the limits, found by rounding the linear relaxation.

        In the relaxation, fractions of a sentence can be assigned to several natural sentences. In
        the order of decreasing fractions, a sentence is assigned to the natural sentence with this
        fraction, unless one of the two is already used or a limit would be exceeded.

        Parameters
        ----------
        usable
            Indices of the sentences that may be assigned.

        Returns
        -------
        array
            Index of the sentence assigned to each natural sentence; -1 for none.
        """
        targets, sentences, fractions = self._solve_relaxation(usable)
        # Assign sentences to targets (natural sentences) in the order of decreasing fractions.
        assigned = np.full(len(self._models), -1, dtype=np.int64)  # -1: no sentence
        # `sizes` counts the assigned sentences in each group of similar sentences.
        used, sizes = set[int](), Counter[_Group]()
        for n in np.argsort(-fractions, kind="stable").tolist():
            target, sentence = int(targets[n]), int(sentences[n])
            if fractions[n] <= _MIN_FRACTION or assigned[target] >= 0 or sentence in used:
                continue
            groups = self._find_groups(sentence, [self._models[target]])
            if all(sizes[group] < self._get_cap(group) for group in groups):
                assigned[target] = sentence
                used.add(sentence)
                sizes.update(groups)
        return assigned

    def _solve_relaxation(self, usable: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Solve the linear relaxation of the assignment problem with limits on similar sentences.

        Each natural sentence t has a set m(t) of models that rank it and its synthetic sentence.
        The variables are the fractions

            x[t, i]  of sampled sentence i that is assigned to natural sentence t, and
            y[m, i]  of sampled sentence i that is assigned for the models m.

        With the decrease in loss gain[t, i], the linear programme is

            maximise    sum_{t, i} (1 + gain[t, i] / max_total) x[t, i]
            subject to  sum_i x[t, i] <= 1                    for each natural sentence t,
                        sum_m y[m, i] <= 1                    for each sampled sentence i,
                        sum_{t: m(t) = m} x[t, i] <= y[m, i]  for each m and i,
                        sum_{(m, i) in g} y[m, i] <= cap_g    for each group g of similar sentences.

        The constant max_total exceeds the total gain of any assignment, so that the number of
        assigned sentences has priority.

        Parameters
        ----------
        usable
            Indices of the sentences that may be assigned.

        Returns
        -------
        targets, sentences, fractions
            Index of the natural sentence, index of the sampled sentence and value of x, for each of
            the N valid pairs, shape (N,).
        """
        targets, columns = np.nonzero(~np.isnan(self._gains[:, usable]))
        sentences = usable[columns]
        model_numbers = {models: n for n, models in enumerate(dict.fromkeys(self._models))}
        numbers = np.array([model_numbers[models] for models in self._models])[targets]
        y_keys, y_indices = np.unique(np.stack([sentences, numbers]), axis=1, return_inverse=True)
        n_x, n_y = len(targets), y_keys.shape[1]
        # Each row of the sparse constraint matrix is an upper limit on a sum of variables. Collect
        # the entries (row, column, coefficient) of the matrix and the limits.
        entries: list[tuple[IntArray, IntArray, IntArray]] = []
        upper_limits: list[FloatArray] = []

        def add_limits(rows: IntArray, columns: IntArray, maxima: FloatArray) -> None:
            """Append rows to the constraint matrix, with coefficients 1 in the given columns."""
            first_row = sum(map(len, upper_limits))
            entries.append((first_row + rows, columns, np.ones_like(rows)))
            upper_limits.append(maxima)

        # sum_i x[t, i] <= 1 and sum_m y[m, i] <= 1.
        x, y = np.arange(n_x), n_x + np.arange(n_y)
        add_limits(targets, x, np.ones(len(self._models)))
        sentence_rows = np.unique(y_keys[0], return_inverse=True)[1]
        add_limits(sentence_rows, y, np.ones(len(usable)))
        # sum_{t with m} x[t, i] - y[m, i] <= 0.
        entries.append((sum(map(len, upper_limits)) + np.arange(n_y), y, np.full(n_y, -1)))
        add_limits(y_indices, x, np.zeros(n_y))
        # sum_{(m, i) in g} y[m, i] <= cap_g.
        group_numbers = dict[_Group, int]()
        group_rows, group_columns = list[int](), list[int]()
        models_by_number = list(model_numbers)
        for column, (i, number) in zip(y.tolist(), y_keys.T.tolist(), strict=True):
            for group in sorted(self._find_groups(i, [models_by_number[number]]), key=repr):
                group_rows.append(group_numbers.setdefault(group, len(group_numbers)))
                group_columns.append(column)
        add_limits(
            np.array(group_rows, dtype=np.int64),
            np.array(group_columns, dtype=np.int64),
            np.array([self._get_cap(group) for group in group_numbers], dtype=np.float64),
        )
        rows, columns, coefficients = (np.concatenate(part) for part in zip(*entries, strict=True))
        shape = (sum(map(len, upper_limits)), n_x + n_y)
        matrix = scipy.sparse.csr_array((coefficients, (rows, columns)), shape)

        # `linprog` minimises, so the coefficients of the objective are negative.
        gains = self._gains[targets, sentences]
        max_total = 1.0 + len(self._models) * gains.max(initial=0.0)
        cost = np.concatenate([-1.0 - gains / max_total, np.zeros(n_y)])
        solve: Any = scipy.optimize.linprog  # its type stubs do not allow sparse matrices
        result = solve(cost, matrix, np.concatenate(upper_limits), bounds=(0, 1), method="highs")
        return targets, sentences, np.asarray(result.x[:n_x])

    def find_addable_sentences(self, assigned: IntArray, usable: IntArray) -> IntArray:
        """Find unused sentences that could improve an assignment without exceeding a limit.

        Sentences are selected greedily, in the order of the largest decrease in loss that they
        offer to a natural sentence without an assigned sentence; ties are broken by the largest
        decrease for any natural sentence. It is not yet known to which natural sentence a selected
        sentence will be assigned, so it counts towards the limits of all for which it is valid.

        Parameters
        ----------
        assigned
            Index of the sentence assigned to each natural sentence; -1 for none.
        usable
            Indices of the sentences that can be assigned to at least one natural sentence.

        Returns
        -------
        array
            Indices of the sentences that can be added.
        """
        used, sizes = set(assigned[assigned >= 0].tolist()), self._count_groups(assigned)
        unused = np.array([i for i in usable.tolist() if i not in used], dtype=np.int64)
        gains = np.nan_to_num(self._gains[:, unused], nan=-np.inf)
        largest_gains = gains.max(axis=0)
        largest_unassigned_gains = gains[assigned < 0].max(axis=0, initial=-np.inf)
        addable = []
        # Sort by the gain for targets without a sentence, then by any gain (last key first).
        for n in np.lexsort([-largest_gains, -largest_unassigned_gains]).tolist():
            models = {self._models[target] for target in np.flatnonzero(np.isfinite(gains[:, n]))}
            groups = self._find_groups(int(unused[n]), models)
            if all(sizes[group] < self._get_cap(group) for group in groups):
                sizes.update(groups)
                addable.append(int(unused[n]))
        return np.array(addable, dtype=np.int64)


def synthesize_from_pool(
    pool: SentencePool,
    targets: Sequence[Target],
    seed: int,
    strategy: str = "sample",
    diversity_cap: int = DIVERSITY_CAP,
    max_word_share: float = 1.0,
) -> list[SynthesisResult]:
    """Assign sentences of a pool to natural sentences as their synthetic sentences.

    If no sentence can be assigned to a natural sentence, the result contains the natural sentence
    in place of a synthetic sentence, and the loss 0.

    Parameters
    ----------
    pool
        Sampled sentences with their scores.
    targets
        Natural sentences, each with the loss and the constraints of its synthetic sentence.
    seed, strategy
        Random seed of the run and name of the strategy, for the description of the results.
    diversity_cap, max_word_share
        Limits on similar sentences, as in `assign_sentences`.

    Returns
    -------
    list of SynthesisResult
        One result for each element of `targets`.
    """
    assigned = assign_sentences(pool, targets, diversity_cap, max_word_share)
    # Without an assigned sentence, the result contains the natural sentence.
    results = []
    for target, assigned_sentence in zip(targets, assigned, strict=True):
        natural, problem = target.natural, target.problem
        synthetic = natural if assigned_sentence is None else assigned_sentence
        natural_scores = {name: pool.scores[name][natural] for name in problem.names}
        scores = {name: pool.scores[name][synthetic] for name in problem.names}
        results.append(
            SynthesisResult(
                natural=natural,
                sentence=synthetic,
                models=problem.names,
                natural_scores=tuple(natural_scores.values()),
                scores=tuple(scores.values()),
                loss=problem.sentence_loss(scores, natural_scores),
                strategy=strategy,
                seed=seed,
                # These sentences were not found by separate searches with replacement steps.
                steps=(),
                n_scores=(0,) * len(problem.names),
                attempt=0,
                accepting=problem.accept,
            )
        )
    return results
