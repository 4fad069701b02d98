"""Assignment of sampled sentences to natural sentences.

A language model samples a pool of sentences. Each *slot* is a natural sentence that needs one
sentence of the pool as its synthetic sentence. A sentence can be assigned to at most one slot, and
must satisfy the constraints of this slot. The first aim is to fill as many slots as possible, the
second aim is a low total loss. The number of assigned sentences with the same first or last words
is limited.
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
from contstim.synthesis.problem import ModelContrast
from contstim.synthesis.results import Synthesis
from contstim.text.diversity import MIN_WORD_LIMIT, edge_phrases, infrequent_words
from contstim.text.language import Language
from contstim.text.languages import ENGLISH

#: Maximum number of assigned sentences with the same first, or the same last, words.
DIVERSITY_CAP = 2

# Key of a group of similar sentences, of which only a limited number may be assigned: either a
# boolean and the common first or last words (`edge_phrases`), or the names of the models of a slot
# and a word that the sentences contain.
_Group = tuple[bool, tuple[str, ...]] | tuple[frozenset[str], str]

# Value of an assigned sentence. It exceeds any loss, so that the number of sentences has priority.
_ASSIGNED_VALUE = 1e6
# Values of the linear relaxation up to this number are regarded as 0.
_MIN_FRACTION = 1e-6


@dataclass(frozen=True)
class Slot:
    """Natural sentence that needs one synthetic sentence.

    A triplet has two slots with the same natural sentence, one for each synthetic sentence.

    Attributes
    ----------
    natural
        Natural sentence.
    contrast
        Loss and constraints of the synthetic sentence.
    """

    natural: str
    contrast: ModelContrast


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

    def check_constraints(self, slot: Slot) -> dict[str, BoolArray]:
        """Return which sentences of the pool satisfy each constraint on a synthetic sentence.

        Parameters
        ----------
        slot
            Natural sentence with the constraints on its synthetic sentence.

        Returns
        -------
        dict
            Mapping from the text of a constraint, for example ``contstim:gpt>=natural``, to a mask
            of the sentences that satisfy it, shape (P,).
        """
        masks: dict[str, BoolArray] = {}
        for constraint in slot.contrast.constraints:
            name = constraint.model
            minimum = constraint.minimum(self.scores[name][slot.natural])
            minimum += self.batch_tolerance.get(name, 0.0)
            masks[str(constraint)] = self.get_scores(name) >= minimum
        return masks

    def losses(self, slot: Slot) -> FloatArray:
        """Return the loss of each sentence of the pool as a synthetic sentence, shape (P,).

        It is NaN for sentences that violate a constraint, and for sentences with a loss of 0 or
        more, which are no better than the natural sentence.

        Parameters
        ----------
        slot
            Natural sentence with the loss and the constraints of its synthetic sentence.
        """
        scores = {name: self.get_scores(name) for name in slot.contrast.reject}
        natural_scores = {name: self.scores[name][slot.natural] for name in scores}
        losses = slot.contrast.loss(scores, natural_scores)
        is_feasible = np.all([*self.check_constraints(slot).values(), losses < 0], axis=0)
        return np.where(is_feasible, losses, np.nan)


def assign_sentences(
    pool: SentencePool,
    slots: Sequence[Slot],
    diversity_cap: int = DIVERSITY_CAP,
    max_word_share: float = 1.0,
) -> list[str | None]:
    """Assign a sentence of a pool to each natural sentence that needs a synthetic sentence.

    The assignment uses as many sentences as possible. Among the assignments with this number of
    sentences, it minimises the total loss. With limits on similar sentences, the result is
    approximate (see Notes).

    Parameters
    ----------
    pool
        Sampled sentences with their scores.
    slots
        Natural sentences, each with the loss and the constraints of its synthetic sentence.
    diversity_cap
        Maximum number of assigned sentences with the same first, or the same last, three words.
    max_word_share
        Maximum fraction of the sentences for the same models that may contain the same word. Each
        word may always occur in two sentences, and in as many as natural sentences contain it.
        Frequent words (`contstim.text.diversity.FREQUENT_ZIPF`) are not limited. 1: no limit.

    Returns
    -------
    list of str or None
        Sentence for each slot; None if no sentence can be assigned.

    Notes
    -----
    If the optimal assignment without limits (`scipy.optimize.linear_sum_assignment`) satisfies the
    limits, it is returned. Otherwise:

    1. The linear relaxation of the problem with all limits is solved. Its fractions are rounded in
       decreasing order.
    2. Unused sentences are added as far as the limits permit, and the assignment of the used and
       added sentences is optimised. This step is repeated as long as it improves the assignment.
    """
    # Matrix (slots, sentences) of the decreases in loss; NaN for impossible assignments.
    gains = np.array([-pool.losses(slot) for slot in slots]).reshape(len(slots), -1)
    usable = np.flatnonzero(~np.isnan(gains).all(axis=0))
    assigned = _solve_assignment(gains, usable)
    limits = _Limits(pool, slots, gains, diversity_cap, max_word_share)
    if not limits.are_satisfied(assigned):
        assigned = limits.round_relaxation(usable)
        while True:
            addable = limits.find_addable_sentences(assigned, usable)
            improved = _solve_assignment(gains, np.union1d(assigned[assigned >= 0], addable))
            is_better = _compute_value(gains, improved) > _compute_value(gains, assigned)
            if not (limits.are_satisfied(improved) and is_better):
                break
            assigned = improved
    return [None if i < 0 else pool.sentences[i] for i in assigned.tolist()]


def _solve_assignment(gains: FloatArray, usable: IntArray) -> IntArray:
    """Assign as many sentences as possible to slots, with the largest total decrease in loss.

    A slot is a natural sentence that needs a synthetic sentence.

    Parameters
    ----------
    gains
        Decrease in loss if a sentence (column) is assigned to a slot (row), shape (slots,
        sentences); NaN if the assignment is impossible.
    usable
        Indices of the sentences that may be assigned.

    Returns
    -------
    array
        Index of the sentence for each slot; -1 for slots without a sentence.
    """
    assigned = np.full(len(gains), -1, dtype=np.int64)
    usable_gains = gains[:, usable]
    rows, columns = scipy.optimize.linear_sum_assignment(
        np.where(np.isnan(usable_gains), 0.0, _ASSIGNED_VALUE + usable_gains), maximize=True
    )
    is_assigned = ~np.isnan(usable_gains[rows, columns])
    assigned[rows[is_assigned]] = usable[columns[is_assigned]]
    return assigned


def _compute_value(gains: FloatArray, assigned: IntArray) -> float:
    """Return the total decrease in loss plus a large constant for each assigned sentence.

    An assignment of more sentences therefore always has a higher value.

    Parameters
    ----------
    gains
        Decrease in loss if a sentence (column) is assigned to a natural sentence (row).
    assigned
        Index of the sentence for each row of `gains`; -1 for rows without a sentence.
    """
    slots = np.flatnonzero(assigned >= 0)
    return float((_ASSIGNED_VALUE + gains[slots, assigned[slots]]).sum())


class _Limits:
    """Limits on the number of similar sentences in an assignment (see `assign_sentences`).

    Each limit is the maximum number of assigned sentences of a group. A group consists of the
    sentences that have the same first words, that have the same last words, or that contain the
    same word and are assigned to slots with the same models. A sentence belongs to several groups.
    """

    def __init__(
        self,
        pool: SentencePool,
        slots: Sequence[Slot],
        gains: FloatArray,
        diversity_cap: int,
        max_word_share: float,
    ) -> None:
        self._gains = gains
        self._models = [frozenset(slot.contrast.names) for slot in slots]
        self._edge_phrases = [edge_phrases(sentence) for sentence in pool.sentences]
        self._words = [
            infrequent_words(sentence, pool.language) if max_word_share < 1 else set[str]()
            for sentence in pool.sentences
        ]
        self._diversity_cap = diversity_cap
        self._natural_counts: Counter[_Group] = Counter(
            (models, word)
            for models, slot in zip(self._models, slots, strict=True)
            for word in infrequent_words(slot.natural, pool.language)
        )
        self._word_caps = {
            models: max(MIN_WORD_LIMIT, math.floor(max_word_share * n_slots + 1e-9))
            for models, n_slots in Counter(self._models).items()
        }

    def _find_groups(self, i: int, models: Collection[frozenset[str]]) -> set[_Group]:
        """Return the groups of sentence `i` if it is assigned to slots with these `models`.

        `models` contains one set of model names for each slot.
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
        for slot, i in enumerate(assigned.tolist()):
            if i >= 0:
                sizes.update(self._find_groups(i, [self._models[slot]]))
        return sizes

    def are_satisfied(self, assigned: IntArray) -> bool:
        """Return whether an assignment satisfies the limits of all groups."""
        return all(n <= self._get_cap(group) for group, n in self._count_groups(assigned).items())

    def round_relaxation(self, usable: IntArray) -> IntArray:
        """Return an assignment within the limits, found by rounding the linear relaxation.

        A slot is a natural sentence that needs a synthetic sentence. In the relaxation, fractions
        of a sentence can be assigned to several slots. In the order of decreasing fractions, each
        sentence is assigned to its slot, unless the slot or the sentence is already used or a limit
        would be exceeded.

        Parameters
        ----------
        usable
            Indices of the sentences that may be assigned.

        Returns
        -------
        array
            Index of the sentence for each slot; -1 for slots without a sentence.
        """
        slots, sentences, fractions = self._solve_relaxation(usable)
        assigned = np.full(len(self._models), -1, dtype=np.int64)
        used, sizes = set[int](), Counter[_Group]()
        for n in np.argsort(-fractions, kind="stable").tolist():
            slot, i = int(slots[n]), int(sentences[n])
            if fractions[n] <= _MIN_FRACTION or assigned[slot] >= 0 or i in used:
                continue
            groups = self._find_groups(i, [self._models[slot]])
            if all(sizes[group] < self._get_cap(group) for group in groups):
                assigned[slot] = i
                used.add(i)
                sizes.update(groups)
        return assigned

    def _solve_relaxation(self, usable: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Solve the linear relaxation of the assignment problem with limits on groups.

        A slot is a natural sentence that needs a synthetic sentence. The variables are x[t, i], the
        fraction of sentence i that is assigned to slot t, and y[m, i], the fraction of sentence i
        that is assigned to slots with the models m. With the decrease in loss gain[t, i]:

            maximise    sum_{t, i} (1 + gain[t, i] / max_total) x[t, i]
            subject to  sum_i x[t, i] <= 1                  for every slot t,
                        sum_m y[m, i] <= 1                  for every sentence i,
                        sum_{t with m} x[t, i] <= y[m, i]   for all models m and sentences i,
                        sum_{(m, i) in g} y[m, i] <= cap_g  for every group g.

        The constant max_total exceeds the sum of all gains, so that the number of sentences has
        priority.

        Returns
        -------
        slots, sentences, fractions
            Arrays of length N with one entry for each sentence that can be used in a slot: index of
            the slot, index of the sentence, and value of x.
        """
        slots, columns = np.nonzero(~np.isnan(self._gains[:, usable]))
        sentences = usable[columns]
        model_numbers = {models: n for n, models in enumerate(dict.fromkeys(self._models))}
        numbers = np.array([model_numbers[models] for models in self._models])[slots]
        y_keys, y_indices = np.unique(np.stack([sentences, numbers]), axis=1, return_inverse=True)
        n_x, n_y = len(slots), y_keys.shape[1]
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
        add_limits(slots, x, np.ones(len(self._models)))
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
        gains = self._gains[slots, sentences]
        max_total = 1.0 + len(self._models) * gains.max(initial=0.0)
        cost = np.concatenate([-1.0 - gains / max_total, np.zeros(n_y)])
        solve: Any = scipy.optimize.linprog  # its type stubs do not allow sparse matrices
        result = solve(cost, matrix, np.concatenate(upper_limits), bounds=(0, 1), method="highs")
        return slots, sentences, np.asarray(result.x[:n_x])

    def find_addable_sentences(self, assigned: IntArray, usable: IntArray) -> IntArray:
        """Find unused sentences that could improve an assignment without exceeding a limit.

        The sentences are found greedily, in the order of their largest decrease in loss for any
        empty slot; ties are resolved by the largest decrease for any slot. Since it is not yet
        known to which slot a sentence will be assigned, it counts towards the limits of all slots
        for which it is usable.

        Parameters
        ----------
        assigned
            Index of the sentence for each natural sentence that needs a synthetic sentence; -1 if
            no sentence is assigned.
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
        empty_slot_gains = gains[assigned < 0].max(axis=0, initial=-np.inf)
        addable = []
        for n in np.lexsort([-gains.max(axis=0), -empty_slot_gains]).tolist():
            models = {self._models[slot] for slot in np.flatnonzero(np.isfinite(gains[:, n]))}
            groups = self._find_groups(int(unused[n]), models)
            if all(sizes[group] < self._get_cap(group) for group in groups):
                sizes.update(groups)
                addable.append(int(unused[n]))
        return np.array(addable, dtype=np.int64)


def assign_syntheses(
    pool: SentencePool,
    slots: Sequence[Slot],
    seed: int,
    strategy: str = "sample",
    diversity_cap: int = DIVERSITY_CAP,
    max_word_share: float = 1.0,
) -> list[Synthesis]:
    """Assign sentences of a pool to natural sentences, and return the results as `Synthesis`.

    A slot is a natural sentence that needs a synthetic sentence. The result for an empty slot
    contains the natural sentence in place of a synthetic sentence, and the loss 0.

    Parameters
    ----------
    pool
        Sampled sentences with their scores.
    slots
        Natural sentences, each with the loss and the constraints of its synthetic sentence.
    seed, strategy
        Random seed of the run and name of the strategy, for the description of the results.
    diversity_cap, max_word_share
        Limits on similar sentences, as in `assign_sentences`.

    Returns
    -------
    list of Synthesis
        One result for each element of `slots`.
    """
    assigned = assign_sentences(pool, slots, diversity_cap, max_word_share)
    syntheses = []
    for slot, sentence in zip(slots, assigned, strict=True):
        contrast = slot.contrast
        text = slot.natural if sentence is None else sentence
        natural_scores = {name: pool.scores[name][slot.natural] for name in contrast.names}
        scores = {name: pool.scores[name][text] for name in contrast.names}
        syntheses.append(
            Synthesis(
                natural=slot.natural,
                sentence=text,
                models=contrast.names,
                natural_scores=tuple(natural_scores.values()),
                scores=tuple(scores.values()),
                loss=contrast.sentence_loss(scores, natural_scores),
                steps=(),
                n_scores=(0,) * len(contrast.names),
                problem=repr(contrast),
                strategy=strategy,
                seed=seed,
                attempt=0,
                accepting=contrast.accept,
            )
        )
    return syntheses
