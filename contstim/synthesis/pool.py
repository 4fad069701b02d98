"""Assignment of sampled sentences to natural sentences.

A language model samples a pool of sentences. A *request* asks for a synthetic sentence for one
natural sentence, which must satisfy the constraints of the request. One sentence of the pool can be
assigned to each request, and each sentence to at most one request. The first aim is to fulfil as
many requests as possible, the second aim is a low total loss. The number of assigned sentences with
the same first or last words is limited.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # which loads `optimize` at its first use
from numpy.typing import ArrayLike
from scipy.sparse import block_array, csr_array, eye_array

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.synthesis.problem import ProblemDefinition
from contstim.synthesis.results import SynthesisResult
from contstim.text.diversity import MIN_WORD_LIMIT, edge_phrases, infrequent_words
from contstim.text.language import Language
from contstim.text.languages import ENGLISH

#: Maximum number of assigned sentences with the same first, or the same last, words.
DIVERSITY_CAP = 2

# Value of an assigned sentence. It exceeds any loss, so that the number of sentences has priority.
_ASSIGNED_VALUE = 1e6
# Fractions of a sentence up to this number are regarded as 0.
_MIN_FRACTION = 1e-6


@dataclass(frozen=True)
class Request:
    """Request for a synthetic sentence for one natural sentence.

    A triplet needs two requests for the same natural sentence, one for each synthetic sentence.

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

    def check_constraints(self, request: Request) -> dict[str, BoolArray]:
        """Return which sentences of the pool satisfy each constraint of a request.

        Parameters
        ----------
        request
            Natural sentence, and constraints on its synthetic sentence.

        Returns
        -------
        dict
            Mapping from the text of a constraint, for example ``contstim:gpt>=natural``, to a mask
            of the sentences that satisfy it, shape (P,).
        """
        masks: dict[str, BoolArray] = {}
        for constraint in request.problem.constraints:
            name = constraint.model
            minimum = constraint.minimum(self.scores[name][request.natural])
            # Exceed the bound by the numerical error, so that it is still satisfied if the sentence
            # is scored again in another batch.
            minimum += self.batch_tolerance.get(name, 0.0)
            masks[str(constraint)] = self.get_scores(name) >= minimum
        return masks

    def losses(self, request: Request) -> FloatArray:
        """Return the loss of each sentence of the pool if it is assigned to a request.

        Parameters
        ----------
        request
            Natural sentence, with the loss and the constraints of its synthetic sentence.

        Returns
        -------
        array
            Loss of each sentence, shape (P,). NaN for sentences that violate a constraint or have a
            loss of 0 or more, which means that they are no better than the natural sentence.
        """
        problem = request.problem
        scores = {name: self.get_scores(name) for name in problem.reject}
        natural_scores = {name: self.scores[name][request.natural] for name in problem.reject}
        losses = problem.loss(scores, natural_scores)
        is_feasible = np.all([*self.check_constraints(request).values(), losses < 0], axis=0)
        return np.where(is_feasible, losses, np.nan)


def assign_sentences(
    pool: SentencePool,
    requests: Sequence[Request],
    diversity_cap: int = DIVERSITY_CAP,
    max_word_share: float = 1.0,
) -> list[str | None]:
    """Choose sampled sentences as the synthetic sentences of natural sentences.

    Each sampled sentence is used at most once, and as many as possible are used. Among the
    assignments with this number of sentences, the function minimises the total loss. If this
    assignment (`linear_sum_assignment`) contains too many similar sentences, a near-optimal
    assignment within the limits is returned: the linear relaxation is rounded, and then improved by
    adding sentences.

    Parameters
    ----------
    pool
        Sampled sentences with their scores.
    requests
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
        Sentence for each request; None if no sentence can be assigned.
    """
    gains = np.array([-pool.losses(request) for request in requests]).reshape(len(requests), -1)
    # gains[r, i] is the decrease in loss if sampled sentence i is assigned to request r, which asks
    # for a synthetic sentence for one natural sentence. NaN if this would violate a constraint.
    usable = np.flatnonzero(~np.isnan(gains).all(axis=0))
    # Find the optimal assignment without regard to the limits on similar sentences.
    assigned = _solve_assignment(gains, usable)
    limits = _SimilarityLimits(pool, requests, gains, diversity_cap, max_word_share)
    if not limits.are_satisfied(assigned):
        # Find another assignment that satisfies the limits. Then add unused sentences that exceed
        # no limit, and reassign all sentences. Repeat this until the assignment improves no more.
        assigned = limits.find_feasible_assignment(usable)
        while True:
            addable = limits.find_addable_sentences(assigned, usable)
            improved = _solve_assignment(gains, np.union1d(assigned[assigned >= 0], addable))
            is_better = _compute_value(gains, improved) > _compute_value(gains, assigned)
            if not (is_better and limits.are_satisfied(improved)):
                break
            assigned = improved
    return [None if i < 0 else pool.sentences[i] for i in assigned.tolist()]


def _solve_assignment(gains: FloatArray, usable: IntArray) -> IntArray:
    """Assign as many sentences as possible, with the largest total decrease in loss.

    Parameters
    ----------
    gains
        Decrease in loss if sentence i is assigned to natural sentence r, shape (R, P); NaN if the
        assignment is invalid.
    usable
        Indices of the sentences that may be assigned.

    Returns
    -------
    array
        Index of the sentence assigned to each natural sentence, shape (R,); -1 for none.
    """
    assigned = np.full(len(gains), -1, dtype=np.int64)  # -1: no sentence
    usable_gains = gains[:, usable]
    # The large value of each valid assignment gives priority to the number of assigned sentences.
    rows, columns = scipy.optimize.linear_sum_assignment(
        np.where(np.isnan(usable_gains), 0.0, _ASSIGNED_VALUE + usable_gains), maximize=True
    )
    is_valid = ~np.isnan(usable_gains[rows, columns])
    assigned[rows[is_valid]] = usable[columns[is_valid]]
    return assigned


def _compute_value(gains: FloatArray, assigned: IntArray) -> float:
    """Return the value of an assignment, to compare it with other assignments.

    The value is the total decrease in loss plus a large constant for each assigned sentence, so
    that an assignment of more sentences always has a higher value.

    The arguments are as in `_solve_assignment`, and its result.
    """
    rows = np.flatnonzero(assigned >= 0)
    return float((_ASSIGNED_VALUE + gains[rows, assigned[rows]]).sum())


# Group of similar sentences, of which only a limited number may be assigned: what they have in
# common ("first words", "last words" or "word"), these words and, for a single word, the names of
# the models for which the sentences are assigned.
_Group = tuple[str, tuple[str, ...], frozenset[str]]


class _SimilarityLimits:
    """Limits on the number of similar sampled sentences that are assigned to natural sentences.

    Each limit is the maximum number of sentences of a group that may be assigned. A group consists
    of the sentences that begin with the same words, that end with the same words, or that contain
    the same word and are assigned for the same models. A sentence belongs to several groups.
    """

    def __init__(
        self,
        pool: SentencePool,
        requests: Sequence[Request],
        gains: FloatArray,
        diversity_cap: int,
        max_word_share: float,
    ) -> None:
        self._gains = gains
        # Models of each request; first and last words, and all limited words, of each sentence.
        self._models = [frozenset(request.problem.names) for request in requests]
        self._phrases = [edge_phrases(sentence) for sentence in pool.sentences]
        self._words = [
            infrequent_words(sentence, pool.language) if max_word_share < 1 else set[str]()
            for sentence in pool.sentences
        ]
        # The limit of a word is a share of the requests for the same models. It is not below the
        # number of natural sentences with the word.
        self._diversity_cap = diversity_cap
        self._natural_counts: Counter[_Group] = Counter(
            ("word", (word,), models)
            for models, request in zip(self._models, requests, strict=True)
            for word in infrequent_words(request.natural, pool.language)
        )
        self._word_caps = {
            models: max(MIN_WORD_LIMIT, math.floor(max_word_share * n_requests + 1e-9))
            for models, n_requests in Counter(self._models).items()
        }

    def _find_groups(self, i: int, model_sets: Iterable[frozenset[str]]) -> set[_Group]:
        """Return the groups of similar sentences to which sentence `i` belongs.

        If it may be assigned for several sets of models, its words count for each set separately.
        """
        groups: set[_Group] = {
            ("last words" if is_end else "first words", words, frozenset())
            for is_end, words in self._phrases[i]
        }
        return groups | {
            ("word", (word,), names) for names in model_sets for word in self._words[i]
        }

    def _get_cap(self, group: _Group) -> int:
        """Return the maximum number of assigned sentences in a group."""
        kind, _, models = group
        if kind == "word":
            return max(self._word_caps[models], self._natural_counts[group])
        return self._diversity_cap

    def _count_groups(self, assigned: IntArray) -> Counter[_Group]:
        """Return the number of assigned sentences of each group."""
        sizes = Counter[_Group]()
        for request, i in enumerate(assigned.tolist()):
            if i >= 0:
                sizes.update(self._find_groups(i, [self._models[request]]))
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
        requests, sentences, fractions = self._solve_relaxation(usable)
        # Assign sentences to requests (natural sentences) in the order of decreasing fractions. A
        # limited number of sentences may be assigned from each group of similar sentences.
        assigned = np.full(len(self._models), -1, dtype=np.int64)  # -1: no sentence
        used_sentences, group_sizes = set[int](), Counter[_Group]()
        for n in np.argsort(-fractions, kind="stable").tolist():
            request, sentence = int(requests[n]), int(sentences[n])
            is_used = assigned[request] >= 0 or sentence in used_sentences
            if is_used or fractions[n] <= _MIN_FRACTION:
                continue
            groups = self._find_groups(sentence, [self._models[request]])
            if all(group_sizes[group] < self._get_cap(group) for group in groups):
                assigned[request] = sentence
                used_sentences.add(sentence)
                group_sizes.update(groups)  # add 1 to the size of each group
        return assigned

    def _solve_relaxation(self, usable: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Solve the linear relaxation of the assignment problem with limits on similar sentences.

        Each request r has a set m(r) of models that rank its natural and its synthetic sentence.
        The variables are the fractions

            x[r, i]  of sampled sentence i that is assigned to request r, and
            y[m, i]  of sampled sentence i that is assigned for the models m.

        With the decrease in loss gain[r, i], the linear programme is

            maximise    sum_{r, i} (1 + gain[r, i] / max_total) x[r, i]
            subject to  sum_i x[r, i] <= 1                    for each request r,
                        sum_m y[m, i] <= 1                    for each sampled sentence i,
                        sum_{r: m(r) = m} x[r, i] <= y[m, i]  for each m and i,
                        sum_{(m, i) in g} y[m, i] <= cap_g    for each group g of similar sentences.

        The constant max_total exceeds the total gain of any assignment: numbers have priority.

        Parameters
        ----------
        usable
            Indices of the sentences that may be assigned.

        Returns
        -------
        requests, sentences, fractions
            Index of the request, index of the sampled sentence and value of x, for each of the N
            valid pairs, shape (N,).
        """
        # Variable x_k assigns sentence `sentences[k]` to request `requests[k]`.
        requests, columns = np.nonzero(~np.isnan(self._gains[:, usable]))
        sentences = usable[columns]
        # Variable y_l concerns sentence `y_sentences[l]` and the models number `y_models[l]`.
        # `y_by_x` contains the index of the y that belongs to each x.
        model_sets = list(dict.fromkeys(self._models))
        models_by_request = np.array([model_sets.index(models) for models in self._models])
        keys = np.stack([sentences, models_by_request[requests]])
        (y_sentences, y_models), y_by_x = np.unique(keys, axis=1, return_inverse=True)
        x, y, n_y = np.arange(len(requests)), np.arange(len(y_sentences)), len(y_sentences)
        # Index of a y and of a group to which its sentence belongs, for each membership.
        group_ids = dict[_Group, int]()
        group_rows, group_columns = list[int](), list[int]()
        for column, (i, m) in enumerate(zip(y_sentences.tolist(), y_models.tolist(), strict=True)):
            for group in sorted(self._find_groups(i, [model_sets[m]]), key=repr):
                group_rows.append(group_ids.setdefault(group, len(group_ids)))
                group_columns.append(column)

        # Each row of the constraint matrix limits a sum of variables. The columns are x, then y.
        n_requests, n_sentences = len(self._models), len(usable)
        sentence_rows = np.searchsorted(usable, y_sentences)
        caps = [float(self._get_cap(group)) for group in group_ids]
        blocks: list[list[Any]] = [
            [_indicator_matrix(requests, x, (n_requests, len(x))), None],
            [None, _indicator_matrix(sentence_rows, y, (n_sentences, n_y))],
            [_indicator_matrix(y_by_x, x, (n_y, len(x))), -eye_array(n_y)],
            [None, _indicator_matrix(group_rows, group_columns, (len(caps), n_y))],
        ]
        limits = np.concatenate([np.ones(n_requests + n_sentences), np.zeros(n_y), caps])

        # `linprog` minimises, so the coefficients of the objective are negative.
        gains = self._gains[requests, sentences]
        max_total = 1.0 + n_requests * gains.max(initial=0.0)
        costs = np.concatenate([-1.0 - gains / max_total, np.zeros(n_y)])
        solve: Any = scipy.optimize.linprog  # its type stubs do not allow sparse matrices
        matrix = block_array(blocks, format="csr")
        result = solve(costs, matrix, limits, bounds=(0, 1), method="highs")
        return requests, sentences, np.asarray(result.x[: len(x)])

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
        unused = np.setdiff1d(usable, assigned)
        gains = np.nan_to_num(self._gains[:, unused], nan=-np.inf)
        largest_gains = gains.max(axis=0)
        largest_unassigned_gains = gains[assigned < 0].max(axis=0, initial=-np.inf)
        # A gain is the decrease in loss if an unused sentence is assigned to a natural sentence.
        # Count the assigned and the added sentences in each group of similar sentences.
        group_sizes = self._count_groups(assigned)
        addable = []
        # Sort by the gain for natural sentences without an assigned sentence, then by the gain for
        # any natural sentence. The last key of `lexsort` is the most important one.
        for n in np.lexsort([-largest_gains, -largest_unassigned_gains]).tolist():
            requests = np.flatnonzero(np.isfinite(gains[:, n])).tolist()
            groups = self._find_groups(
                int(unused[n]), {self._models[request] for request in requests}
            )
            if all(group_sizes[group] < self._get_cap(group) for group in groups):
                group_sizes.update(groups)  # add 1 to the size of each group
                addable.append(int(unused[n]))
        return np.array(addable, dtype=np.int64)


def _indicator_matrix(rows: ArrayLike, columns: ArrayLike, shape: tuple[int, int]) -> csr_array:
    """Return a sparse matrix that is 1 at the given rows and columns, and 0 elsewhere."""
    return csr_array((np.ones(np.size(rows)), (rows, columns)), shape)


def synthesize_from_pool(
    pool: SentencePool,
    requests: Sequence[Request],
    seed: int,
    strategy: str = "sample",
    max_word_share: float = 1.0,
) -> list[SynthesisResult]:
    """Assign sentences of a pool to natural sentences as their synthetic sentences.

    If no sentence can be assigned to a natural sentence, the result contains the natural sentence
    in place of a synthetic sentence, and the loss 0.

    Parameters
    ----------
    pool
        Sampled sentences with their scores.
    requests
        Natural sentences, each with the loss and the constraints of its synthetic sentence.
    seed, strategy
        Random seed of the run and name of the strategy, for the description of the results.
    max_word_share
        Limit on sentences with the same word, as in `assign_sentences`.

    Returns
    -------
    list of SynthesisResult
        One result for each element of `requests`.
    """
    assigned = assign_sentences(pool, requests, max_word_share=max_word_share)
    results = []
    for request, assigned_sentence in zip(requests, assigned, strict=True):
        natural, problem = request.natural, request.problem
        # Without an assigned sentence, the result contains the natural sentence.
        synthetic = natural if assigned_sentence is None else assigned_sentence
        natural_scores = {name: pool.scores[name][natural] for name in problem.names}
        scores = {name: pool.scores[name][synthetic] for name in problem.names}
        result = SynthesisResult(
            natural=natural,
            sentence=synthetic,
            models=problem.names,
            natural_scores=tuple(natural_scores.values()),
            scores=tuple(scores.values()),
            loss=problem.sentence_loss(scores, natural_scores),
            strategy=strategy,
            seed=seed,
            steps=(),  # The sentences were sampled, and not changed word by word.
            n_scores=(0,) * len(problem.names),
            attempt=0,
            accepting=problem.accept,
        )
        results.append(result)
    return results
