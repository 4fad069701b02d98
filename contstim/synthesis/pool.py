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

# A group of sentences with a common limit: the same first or last words (edge_phrases), or the same
# models and a common word.
_Group = tuple[bool, tuple[str, ...]] | tuple[frozenset[str], str]

# Value of an assigned sentence, which exceeds any loss.
_ASSIGNED_VALUE = 1e6
# Fractions of a sentence below this are 0.
_MIN_FRACTION = 1e-6


@dataclass(frozen=True)
class Slot:
    """A natural sentence and a contrast of models that need a synthetic sentence.

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
        """Return the mask (P,) of the sentences that satisfy each constraint, by its text."""
        masks: dict[str, BoolArray] = {}
        for constraint in slot.contrast.constraints:
            name = constraint.model
            minimum = constraint.minimum(self.scores[name][slot.natural])
            minimum += self.batch_tolerance.get(name, 0.0)
            masks[str(constraint)] = self.model_scores(name) >= minimum
        return masks

    def losses(self, slot: Slot) -> FloatArray:
        """Return the loss of each sentence, (P,); NaN if it is infeasible or not negative."""
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
    gains = np.array([-pool.losses(slot) for slot in slots]).reshape(len(slots), -1)
    usable = np.flatnonzero(~np.isnan(gains).all(axis=0))
    assigned = _solve_assignment(gains, usable)
    limits = _Limits(pool.sentences, slots, gains, diversity_cap, max_word_share)
    if not limits.are_satisfied(assigned):
        assigned = limits.round_relaxation(usable)
        while True:
            fitting = limits.find_fitting(assigned, usable)
            improved = _solve_assignment(gains, np.union1d(assigned[assigned >= 0], fitting))
            is_better = _total_value(gains, improved) > _total_value(gains, assigned)
            if not (limits.are_satisfied(improved) and is_better):
                break
            assigned = improved
    return [None if i < 0 else pool.sentences[i] for i in assigned.tolist()]


def _solve_assignment(gains: FloatArray, usable: IntArray) -> IntArray:
    """Return the index of the usable sentence for each slot in the optimal assignment, or -1."""
    assigned = np.full(len(gains), -1, dtype=np.int64)
    usable_gains = gains[:, usable]
    rows, columns = scipy.optimize.linear_sum_assignment(
        np.where(np.isnan(usable_gains), 0.0, _ASSIGNED_VALUE + usable_gains), maximize=True
    )
    is_assigned = ~np.isnan(usable_gains[rows, columns])
    assigned[rows[is_assigned]] = usable[columns[is_assigned]]
    return assigned


def _total_value(gains: FloatArray, assigned: IntArray) -> float:
    """Return the objective of an assignment: number of sentences first, then total gain."""
    slots = np.flatnonzero(assigned >= 0)
    return float((_ASSIGNED_VALUE + gains[slots, assigned[slots]]).sum())


class _Limits:
    """Limits on the number of assigned sentences per group, as in `assign_sentences`.

    A group contains the sentences with the same first words, with the same last words, or with the
    same models and a common word.
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
        """Return the groups of sentence `i` if it is assigned to slots of the given models."""
        return {*self._edge_phrases[i], *product(models, self._words[i])}

    def _cap(self, group: _Group) -> int:
        """Return the maximum number of sentences of a group."""
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
        """Return an assignment within the limits, rounded from the linear relaxation."""
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
        """Solve the linear relaxation of the assignment with limits.

        The variables are the fraction x of each sentence in each slot and, for the limits, the
        fraction y of each sentence in all slots of the same models.

        Returns
        -------
        slots, sentences, fractions
            Slot, sentence and fraction of each of the N possible assignments, (N,).
        """
        slots, columns = np.nonzero(~np.isnan(self._gains[:, usable]))
        sentences = usable[columns]
        model_numbers = {models: n for n, models in enumerate(dict.fromkeys(self._models))}
        numbers = np.array([model_numbers[models] for models in self._models])[slots]
        parts, part_indices = np.unique(np.stack([sentences, numbers]), axis=1, return_inverse=True)
        n_x, n_y = len(slots), parts.shape[1]
        # Entries of the constraint matrix (row, column, coefficient), and upper bounds of the rows.
        entries: list[tuple[IntArray, IntArray, IntArray]] = []
        bounds: list[FloatArray] = []

        def add_limits(rows: IntArray, columns: IntArray, maxima: FloatArray) -> None:
            """Limit sums of variables."""
            offset = sum(map(len, bounds))
            entries.append((offset + rows, columns, np.ones_like(rows)))
            bounds.append(maxima)

        # Each slot has at most one sentence, and each sentence at most one slot.
        x, y = np.arange(n_x), n_x + np.arange(n_y)
        add_limits(slots, x, np.ones(len(self._models)))
        sentence_rows = np.unique(parts[0], return_inverse=True)[1]
        add_limits(sentence_rows, y, np.ones(len(usable)))
        # y is at least the sum of x over the slots of the same models.
        entries.append((sum(map(len, bounds)) + np.arange(n_y), y, np.full(n_y, -1)))
        add_limits(part_indices, x, np.zeros(n_y))
        # Each group has a maximum number of sentences.
        group_numbers = dict[_Group, int]()
        group_rows, group_columns = list[int](), list[int]()
        models_by_number = list(model_numbers)
        for column, (i, number) in zip(y.tolist(), parts.T.tolist(), strict=True):
            for group in sorted(self._groups(i, [models_by_number[number]]), key=repr):
                group_rows.append(group_numbers.setdefault(group, len(group_numbers)))
                group_columns.append(column)
        add_limits(
            np.array(group_rows, dtype=np.int64),
            np.array(group_columns, dtype=np.int64),
            np.array([self._cap(group) for group in group_numbers], dtype=np.float64),
        )
        rows, columns, coefficients = (np.concatenate(part) for part in zip(*entries, strict=True))
        shape = (sum(map(len, bounds)), n_x + n_y)
        matrix = scipy.sparse.csr_array((coefficients, (rows, columns)), shape)

        # An assigned sentence is worth more than all gains together.
        gains = self._gains[slots, sentences]
        max_total = 1.0 + len(self._models) * gains.max(initial=0.0)
        cost = np.concatenate([-1.0 - gains / max_total, np.zeros(n_y)])
        solve: Any = scipy.optimize.linprog  # its type stubs do not allow sparse matrices
        result = solve(cost, matrix, np.concatenate(bounds), bounds=(0, 1), method="highs")
        return slots, sentences, np.asarray(result.x[:n_x])

    def find_fitting(self, assigned: IntArray, usable: IntArray) -> IntArray:
        """Return unused sentences that fit within the limits in whichever slot they are used.

        Sentences for empty slots come first, then those with the largest gains.
        """
        used, sizes = set(assigned[assigned >= 0].tolist()), self._group_sizes(assigned)
        unused = np.array([i for i in usable.tolist() if i not in used], dtype=np.int64)
        gains = np.nan_to_num(self._gains[:, unused], nan=-np.inf)
        empty_slot_gains = gains[assigned < 0].max(axis=0, initial=-np.inf)
        fitting = []
        for n in np.lexsort([-gains.max(axis=0), -empty_slot_gains]).tolist():
            models = {self._models[slot] for slot in np.flatnonzero(np.isfinite(gains[:, n]))}
            groups = self._groups(int(unused[n]), models)
            if all(sizes[group] < self._cap(group) for group in groups):
                sizes.update(groups)
                fitting.append(int(unused[n]))
        return np.array(fitting, dtype=np.int64)


def assign_syntheses(
    pool: SentencePool,
    slots: Sequence[Slot],
    seed: int,
    strategy: str = "sample",
    diversity_cap: int = DIVERSITY_CAP,
    max_word_share: float = 1.0,
) -> list[Synthesis]:
    """Return one synthesis per slot, with the natural sentence itself if none is assigned."""
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
    """Return the median number, over slots, of the sentences that satisfy each constraint."""
    n_by_constraint, n_usable = defaultdict[str, list[int]](list), list[int]()
    for slot in slots:
        for name, mask in pool.constraint_masks(slot).items():
            n_by_constraint[name].append(int(mask.sum()))
        n_usable.append(int((~np.isnan(pool.losses(slot))).sum()))
    n_by_constraint["all of these and a negative loss"] = n_usable
    return {name: float(np.median(counts)) for name, counts in n_by_constraint.items()}
