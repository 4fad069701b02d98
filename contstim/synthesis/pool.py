"""Assignment of sampled sentences to natural sentences.

Each sentence of a pool can be assigned to any natural sentence and any side of any pair, but only
once. The number of assigned sentences with the same first or last words is limited. Of all
assignments with the maximum number of sentences, the one with the lowest total loss is used.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import scipy  # which loads `optimize` at its first use

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.synthesis.problem import ModelContrast
from contstim.synthesis.results import Synthesis
from contstim.text.diversity import MIN_WORD_LIMIT, edge_phrases, folded_words

#: Maximum number of assigned sentences with the same first, or the same last, words.
DIVERSITY_CAP = 2

# Key of a group of sentences. The number of assigned sentences in each group is limited. The
# sentences of a group have the same first or last words (`edge_phrases`), or they contain the same
# word and are assigned to slots with the same models.
_Group = tuple[bool, tuple[str, ...]] | tuple[frozenset[str], str]

# Value of an assigned sentence, which exceeds any loss.
_ASSIGNED_VALUE = 1e6
# Fractions of a sentence below this are 0.
_MIN_FRACTION = 1e-6


@dataclass(frozen=True)
class Slot:
    """One synthetic sentence to be found: a row of the assignment problem.

    One sentence of the pool is assigned to each slot. A triplet has two slots, because it needs two
    synthetic sentences for the same natural sentence.

    Attributes
    ----------
    natural
        Natural sentence.
    contrast
        Problem that the synthetic sentence must solve.
    """

    natural: str
    contrast: ModelContrast


@dataclass(frozen=True, eq=False)
class SentencePool:
    """P sampled sentences with their scores, and the scores of the natural sentences.

    Attributes
    ----------
    sentences
        Sampled sentences.
    scores
        Scores in nats of the sampled and the natural sentences, by model and sentence.
    batch_tolerance
        Maximum difference in nats between scores in different batches, by model.
    """

    sentences: tuple[str, ...]
    scores: Mapping[str, Mapping[str, float]]
    batch_tolerance: Mapping[str, float]

    def model_scores(self, model: str) -> FloatArray:
        """Return the scores of the pool under one model, (P,); NaN for missing scores."""
        scores = self.scores[model]
        return np.array([scores.get(s, np.nan) for s in self.sentences], dtype=np.float64)

    def constraint_masks(self, slot: Slot) -> dict[str, BoolArray]:
        """Return which sentences of the pool satisfy each constraint of a slot.

        The dictionary contains a boolean mask (P,) for each constraint. Its keys are the texts of
        the constraints, for example ``contstim:gpt>=natural``.
        """
        masks: dict[str, BoolArray] = {}
        for constraint in slot.contrast.constraints:
            name = constraint.model
            minimum = constraint.minimum(self.scores[name][slot.natural])
            minimum += self.batch_tolerance.get(name, 0.0)
            masks[str(constraint)] = self.model_scores(name) >= minimum
        return masks

    def losses(self, slot: Slot) -> FloatArray:
        """Return the loss of each sentence of the pool in a slot, shape (P,).

        The loss is NaN if the sentence violates a constraint of the slot, or if its loss is not
        negative, that is, if it is no better than the natural sentence.
        """
        scores = {name: self.model_scores(name) for name in slot.contrast.reject}
        natural_scores = {name: self.scores[name][slot.natural] for name in scores}
        losses = slot.contrast.loss(scores, natural_scores)
        is_feasible = np.all([*self.constraint_masks(slot).values(), losses < 0], axis=0)
        return np.where(is_feasible, losses, np.nan)


def assign_sentences(
    pool: SentencePool,
    slots: Sequence[Slot],
    diversity_cap: int = DIVERSITY_CAP,
    max_word_share: float = 1.0,
) -> list[str | None]:
    """Assign sentences of a pool to slots.

    Parameters
    ----------
    pool
        Sampled sentences.
    slots
        Natural sentences that need a synthetic one.
    diversity_cap
        Maximum number of assigned sentences with the same first, or the same last, three words.
    max_word_share
        Maximum fraction of the sentences for the same models that may contain the same word. Two
        sentences are always allowed, and as many as natural sentences contain the word. 1: no
        limit.

    Returns
    -------
    list of str or None
        Sentence for each slot; None if there is none.

    Notes
    -----
    If the optimal assignment without limits (`scipy.optimize.linear_sum_assignment`) satisfies the
    limits, it is returned. Otherwise:

    1. The linear relaxation with all limits is solved and rounded, largest fractions first.
    2. Unused sentences that fit within the limits are added, and the assignment is optimised
       again. This is repeated as long as it improves the assignment.
    """
    # Matrix (slots, sentences) of the decreases of the loss; NaN for impossible assignments.
    gains = np.array([-pool.losses(slot) for slot in slots]).reshape(len(slots), -1)
    usable = np.flatnonzero(~np.isnan(gains).all(axis=0))
    assigned = _solve_assignment(gains, usable)
    limits = _Limits(pool.sentences, slots, gains, diversity_cap, max_word_share)
    if not limits.are_satisfied(assigned):
        assigned = limits.round_relaxation(usable)
        while True:
            addable = limits.find_addable_sentences(assigned, usable)
            improved = _solve_assignment(gains, np.union1d(assigned[assigned >= 0], addable))
            is_better = _total_value(gains, improved) > _total_value(gains, assigned)
            if not (limits.are_satisfied(improved) and is_better):
                break
            assigned = improved
    return [None if i < 0 else pool.sentences[i] for i in assigned.tolist()]


def _solve_assignment(gains: FloatArray, usable: IntArray) -> IntArray:
    """Solve the linear assignment problem without limits on groups of sentences.

    Parameters
    ----------
    gains
        Decrease of the loss by each sentence (column) in each slot (row); NaN if the sentence
        cannot be used in the slot.
    usable
        Indices of the sentences to assign.

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


def _total_value(gains: FloatArray, assigned: IntArray) -> float:
    """Return the objective of an assignment.

    It is the total gain plus a large constant per assigned sentence, so that an assignment of more
    sentences always has a higher value.
    """
    slots = np.flatnonzero(assigned >= 0)
    return float((_ASSIGNED_VALUE + gains[slots, assigned[slots]]).sum())


class _Limits:
    """Limits on the number of similar sentences in an assignment (see `assign_sentences`).

    Each limit applies to a group of sentences. A group contains the sentences that have the same
    first words, that have the same last words, or that contain the same word and are assigned to
    slots with the same models. A sentence belongs to several groups.
    """

    def __init__(
        self,
        sentences: Sequence[str],
        slots: Sequence[Slot],
        gains: FloatArray,
        diversity_cap: int,
        max_word_share: float,
    ) -> None:
        self._gains = gains
        self._models = [frozenset(slot.contrast.names) for slot in slots]
        self._edge_phrases = [edge_phrases(sentence) for sentence in sentences]
        self._words = [
            {*folded_words(sentence)} if max_word_share < 1 else set[str]()
            for sentence in sentences
        ]
        self._diversity_cap = diversity_cap
        self._natural_counts: Counter[_Group] = Counter(
            (models, word)
            for models, slot in zip(self._models, slots, strict=True)
            for word in {*folded_words(slot.natural)}
        )
        self._word_caps = {
            models: max(MIN_WORD_LIMIT, math.floor(max_word_share * n_slots + 1e-9))
            for models, n_slots in Counter(self._models).items()
        }

    def _groups(self, i: int, models: Collection[frozenset[str]]) -> set[_Group]:
        """Return all groups that sentence `i` would belong to after its assignment.

        `models` contains the set of model names of each slot that the sentence may be assigned to.
        """
        return {*self._edge_phrases[i], *product(models, self._words[i])}

    def _cap(self, group: _Group) -> int:
        """Return the maximum number of assigned sentences in a group."""
        # The first part of the key is a boolean for groups with the same first or last words.
        models, _ = group
        if isinstance(models, bool):
            return self._diversity_cap
        return max(self._word_caps[models], self._natural_counts[group])

    def _group_sizes(self, assigned: IntArray) -> Counter[_Group]:
        """Return the number of assigned sentences of each group."""
        sizes = Counter[_Group]()
        for slot, i in enumerate(assigned.tolist()):
            if i >= 0:
                sizes.update(self._groups(i, [self._models[slot]]))
        return sizes

    def are_satisfied(self, assigned: IntArray) -> bool:
        """Return whether no group has too many assigned sentences."""
        return all(n <= self._cap(group) for group, n in self._group_sizes(assigned).items())

    def round_relaxation(self, usable: IntArray) -> IntArray:
        """Return an assignment within the limits, as an array of sentence indices by slot.

        The fractions of the linear relaxation are rounded greedily. In the order of decreasing
        fractions, each sentence is assigned to its slot, unless the slot or the sentence is already
        used or a limit would be exceeded. Slots without a sentence have the index -1.
        """
        slots, sentences, fractions = self._solve_relaxation(usable)
        assigned = np.full(len(self._models), -1, dtype=np.int64)
        used, sizes = set[int](), Counter[_Group]()
        for n in np.argsort(-fractions, kind="stable").tolist():
            slot, i = int(slots[n]), int(sentences[n])
            if fractions[n] <= _MIN_FRACTION or assigned[slot] >= 0 or i in used:
                continue
            groups = self._groups(i, [self._models[slot]])
            if all(sizes[group] < self._cap(group) for group in groups):
                assigned[slot] = i
                used.add(i)
                sizes.update(groups)
        return assigned

    def _solve_relaxation(self, usable: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Solve the linear relaxation of the assignment problem with limits.

        In the linear program, a sentence can be divided between slots. The variables are the
        fraction x of each sentence that is assigned to each slot, and the fraction y of each
        sentence that is assigned to all slots with the same models. The limits on groups of
        sentences are constraints on sums of y.

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
        # Each row of the sparse constraint matrix limits a sum of variables. Collect the entries
        # (row, column, coefficient) of the matrix, and the upper limits of its rows.
        entries: list[tuple[IntArray, IntArray, IntArray]] = []
        upper_limits: list[FloatArray] = []

        def add_limits(rows: IntArray, columns: IntArray, maxima: FloatArray) -> None:
            """Append rows to the constraint matrix, with coefficients 1 in the given columns."""
            first_row = sum(map(len, upper_limits))
            entries.append((first_row + rows, columns, np.ones_like(rows)))
            upper_limits.append(maxima)

        # Each slot has at most one sentence, and each sentence at most one slot.
        x, y = np.arange(n_x), n_x + np.arange(n_y)
        add_limits(slots, x, np.ones(len(self._models)))
        sentence_rows = np.unique(y_keys[0], return_inverse=True)[1]
        add_limits(sentence_rows, y, np.ones(len(usable)))
        # y is at least the sum of x over the slots with the same models: sum x - y <= 0.
        entries.append((sum(map(len, upper_limits)) + np.arange(n_y), y, np.full(n_y, -1)))
        add_limits(y_indices, x, np.zeros(n_y))
        # Each group has a maximum number of sentences.
        group_numbers = dict[_Group, int]()
        group_rows, group_columns = list[int](), list[int]()
        models_by_number = list(model_numbers)
        for column, (i, number) in zip(y.tolist(), y_keys.T.tolist(), strict=True):
            for group in sorted(self._groups(i, [models_by_number[number]]), key=repr):
                group_rows.append(group_numbers.setdefault(group, len(group_numbers)))
                group_columns.append(column)
        add_limits(
            np.array(group_rows, dtype=np.int64),
            np.array(group_columns, dtype=np.int64),
            np.array([self._cap(group) for group in group_numbers], dtype=np.float64),
        )
        rows, columns, coefficients = (np.concatenate(part) for part in zip(*entries, strict=True))
        shape = (sum(map(len, upper_limits)), n_x + n_y)
        matrix = scipy.sparse.csr_array((coefficients, (rows, columns)), shape)

        # Minimise -1 per assigned sentence minus its share of the gains. All shares together are
        # below 1, so the number of sentences comes first.
        gains = self._gains[slots, sentences]
        max_total = 1.0 + len(self._models) * gains.max(initial=0.0)
        cost = np.concatenate([-1.0 - gains / max_total, np.zeros(n_y)])
        solve: Any = scipy.optimize.linprog  # its type stubs do not allow sparse matrices
        result = solve(cost, matrix, np.concatenate(upper_limits), bounds=(0, 1), method="highs")
        return slots, sentences, np.asarray(result.x[:n_x])

    def find_addable_sentences(self, assigned: IntArray, usable: IntArray) -> IntArray:
        """Return unused sentences that can be added to an assignment without exceeding a limit.

        The limits remain satisfied whichever possible slots the added sentences are assigned to.
        Sentences are considered in the order of their largest gains in empty slots, then of their
        largest gains in any slot.

        Parameters
        ----------
        assigned
            Index of the sentence for each slot; -1 for empty slots.
        usable
            Indices of the sentences that can be used in at least one slot.

        Returns
        -------
        array
            Indices of the sentences that can be added.
        """
        used, sizes = set(assigned[assigned >= 0].tolist()), self._group_sizes(assigned)
        unused = np.array([i for i in usable.tolist() if i not in used], dtype=np.int64)
        gains = np.nan_to_num(self._gains[:, unused], nan=-np.inf)
        empty_slot_gains = gains[assigned < 0].max(axis=0, initial=-np.inf)
        addable = []
        for n in np.lexsort([-gains.max(axis=0), -empty_slot_gains]).tolist():
            models = {self._models[slot] for slot in np.flatnonzero(np.isfinite(gains[:, n]))}
            groups = self._groups(int(unused[n]), models)
            if all(sizes[group] < self._cap(group) for group in groups):
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
    """Assign the sentences of a pool to slots, and return one synthesis per slot.

    If no sentence of the pool can be assigned to a slot, the sentence of its synthesis is the
    natural sentence, with the loss 0.

    Parameters
    ----------
    pool, slots, diversity_cap, max_word_share
        Parameters of `assign_sentences`.
    seed, strategy
        Random seed of the run, and name of the strategy. Both are copied to each synthesis.

    Returns
    -------
    list of Synthesis
        Results in the order of the slots.
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


def explain_shortfall(pool: SentencePool, slots: Sequence[Slot]) -> dict[str, float]:
    """Count the sentences of a pool that satisfy each constraint.

    The counts show which constraint is responsible if slots remain without a sentence.

    Returns
    -------
    dict
        Median number of sentences over all slots, by the text of the constraint. The last entry
        counts the sentences that satisfy all constraints and have a negative loss.
    """
    n_by_constraint, n_usable = defaultdict[str, list[int]](list), list[int]()
    for slot in slots:
        for name, mask in pool.constraint_masks(slot).items():
            n_by_constraint[name].append(int(mask.sum()))
        n_usable.append(int((~np.isnan(pool.losses(slot))).sum()))
    n_by_constraint["all of these and a negative loss"] = n_usable
    return {name: float(np.median(counts)) for name, counts in n_by_constraint.items()}
