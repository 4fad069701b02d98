"""A pool of sampled sentences and its assignment to natural sentences, on fresh scores.

Each sentence of the pool may serve any side of any pair, and is used once; few of the assigned
sentences begin or end alike. Among the assignments that fill most places, the one of lowest total
loss is taken.
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

#: Maximum number of assigned sentences that begin, or end, alike (`edge_phrases`).
DIVERSITY_CAP = 2

# The first or the last words of sentences (`edge_phrases`), or models and a word.
_Kind = tuple[bool, tuple[str, ...]] | tuple[frozenset[str], str]

# More than any loss, so that a filled place outweighs all losses.
_FILLED = 1e6
# Shares of a sentence below this are zero.
_NONE = 1e-6


@dataclass(frozen=True)
class Slot:
    """A natural sentence that needs a synthetic one for a contrast of models."""

    natural: str
    contrast: ModelContrast


@dataclass(frozen=True, eq=False)
class SentencePool:
    """P sampled sentences with their scores, and the scores of the natural sentences.

    Attributes
    ----------
    sentences
        The sampled sentences.
    scores
        By model, the score of each sampled and each natural sentence, nats.
    batch_tolerance
        By model, by how much scores may differ with the batch.
    """

    sentences: tuple[str, ...]
    scores: Mapping[str, Mapping[str, float]]
    batch_tolerance: Mapping[str, float]

    def of(self, model: str) -> FloatArray:
        """Return the scores of the pool under one model, (P,), NaN where it has none."""
        scores = self.scores[model]
        return np.array([scores.get(s, np.nan) for s in self.sentences], dtype=np.float64)

    def satisfied(self, place: Slot) -> dict[str, BoolArray]:
        """Return which sentences satisfy each constraint of a place, (P,), by its text."""
        by_constraint: dict[str, BoolArray] = {}
        for constraint in place.contrast.constraints:
            name = constraint.model
            minimum = constraint.minimum(self.scores[name][place.natural])
            by_constraint[str(constraint)] = self.of(name) >= minimum + self.batch_tolerance.get(
                name, 0.0
            )
        return by_constraint

    def losses(self, place: Slot) -> FloatArray:
        """Return the loss of each sentence, (P,); NaN where it violates a constraint."""
        scores = {name: self.of(name) for name in place.contrast.reject}
        natural = {name: self.scores[name][place.natural] for name in scores}
        losses = place.contrast.loss(scores, natural)
        feasible = np.all([*self.satisfied(place).values(), losses < 0], axis=0)
        return np.where(feasible, losses, np.nan)


def assign_sentences(
    pool: SentencePool,
    places: Sequence[Slot],
    diversity_cap: int = DIVERSITY_CAP,
    max_word_share: float = 1.0,
) -> list[str | None]:
    """Return the sentence assigned to each place, or None.

    Parameters
    ----------
    pool
        The sentences.
    places
        The places.
    diversity_cap
        Maximum number of assigned sentences with the same first, or the same last, three words.
    max_word_share
        Maximum share of the places of the same models whose sentences contain the same word; two
        places, and as many as natural sentences contain it, are always allowed. 1: no limit.

    Notes
    -----
    If it satisfies the limits, the optimal assignment is returned (`scipy.optimize`'s
    ``linear_sum_assignment``). Otherwise the linear relaxation is solved and rounded, the largest
    shares first, and places are assigned again as long as that improves the assignment.
    """
    gains = np.array([-pool.losses(place) for place in places]).reshape(len(places), -1)
    every = np.flatnonzero(~np.isnan(gains).all(axis=0))
    chosen = _optimal(gains, every)
    limits = _Limits(pool.sentences, places, gains, diversity_cap, max_word_share)
    if not limits.keeps(chosen):
        chosen = limits.rounded(every)
        while True:
            fitting = limits.fitting(chosen, every)
            again = _optimal(gains, np.union1d(chosen[chosen >= 0], fitting))
            if not (limits.keeps(again) and _worth(gains, again) > _worth(gains, chosen)):
                break
            chosen = again
    return [None if i < 0 else pool.sentences[i] for i in chosen.tolist()]


def _optimal(gains: FloatArray, usable: IntArray) -> IntArray:
    """Return the `usable` sentence of each place, -1 for none, in the optimal assignment."""
    chosen = np.full(len(gains), -1, dtype=np.int64)
    some = gains[:, usable]
    rows, columns = scipy.optimize.linear_sum_assignment(
        np.where(np.isnan(some), 0.0, _FILLED + some), maximize=True
    )
    filled = ~np.isnan(some[rows, columns])
    chosen[rows[filled]] = usable[columns[filled]]
    return chosen


def _worth(gains: FloatArray, chosen: IntArray) -> float:
    """Return the value that an assignment maximises."""
    filled = np.flatnonzero(chosen >= 0)
    return float((_FILLED + gains[filled, chosen[filled]]).sum())


class _Limits:
    """Limits on the number of assigned sentences of one kind, as in `assign_sentences`.

    A kind is given by the first words, by the last words, or by models and a word.
    """

    def __init__(
        self,
        sentences: Sequence[str],
        places: Sequence[Slot],
        gains: FloatArray,
        diversity_cap: int,
        max_word_share: float,
    ) -> None:
        self._gains = gains
        self._groups = [frozenset(place.contrast.names) for place in places]
        self._ends = [edge_phrases(sentence) for sentence in sentences]
        self._words = [{*folded_words(s)} if max_word_share < 1 else set[str]() for s in sentences]
        self._alike = diversity_cap
        self._usual: Counter[_Kind] = Counter(
            (group, word)
            for group, place in zip(self._groups, places, strict=True)
            for word in {*folded_words(place.natural)}
        )
        sizes = Counter(self._groups)
        self._most = {
            g: max(MIN_WORD_LIMIT, math.floor(max_word_share * n + 1e-9)) for g, n in sizes.items()
        }

    def _kinds(self, i: int, groups: Collection[frozenset[str]]) -> set[_Kind]:
        """Return the kinds of sentence `i` where it is used beside natural sentences of groups."""
        return {*self._ends[i], *product(groups, self._words[i])}

    def _may(self, kind: _Kind) -> int:
        """Return how many sentences may be of a kind."""
        group, _ = kind
        if isinstance(group, bool):
            return self._alike
        return max(self._most[group], self._usual[kind])

    def _counts(self, chosen: IntArray) -> Counter[_Kind]:
        """Return how many chosen sentences are of each kind."""
        pairs = enumerate(chosen.tolist())
        return Counter(k for p, i in pairs if i >= 0 for k in self._kinds(i, [self._groups[p]]))

    def keeps(self, chosen: IntArray) -> bool:
        """Return whether no kind has too many of the chosen sentences."""
        return all(n <= self._may(kind) for kind, n in self._counts(chosen).items())

    def rounded(self, every: IntArray) -> IntArray:
        """Return an assignment that keeps the limits: the best one in shares, rounded."""
        places, sentences, shares = self._relaxed(every)
        chosen = np.full(len(self._groups), -1, dtype=np.int64)
        there, counts = set[int](), Counter[_Kind]()
        for n in np.argsort(-shares, kind="stable").tolist():
            place, i = int(places[n]), int(sentences[n])
            kinds = self._kinds(i, [self._groups[place]])
            if (
                shares[n] > _NONE
                and chosen[place] < 0
                and i not in there
                and all(counts[kind] < self._may(kind) for kind in kinds)
            ):
                chosen[place] = i
                there.add(i)
                counts.update(kinds)
        return chosen

    def _relaxed(self, every: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Return places, sentences and what share of each sentence each place gets, (N,) each.

        Variables are the shares x, and for each sentence and group of places the share y that the
        group has of it, by which the limits are written.
        """
        places, columns = np.nonzero(~np.isnan(self._gains[:, every]))
        sentences = every[columns]
        names = {group: n for n, group in enumerate(dict.fromkeys(self._groups))}
        groups = np.array([names[group] for group in self._groups])[places]
        parts, part = np.unique(np.stack([sentences, groups]), axis=1, return_inverse=True)
        n, m = len(places), parts.shape[1]
        rows: list[tuple[IntArray, IntArray, IntArray]] = []  # of constraints: row, column, factor
        bounds: list[FloatArray] = []

        def limit(row: IntArray, column: IntArray, most: FloatArray) -> None:
            rows.append((row + sum(map(len, bounds)), column, np.ones_like(row)))
            bounds.append(most)

        limit(places, np.arange(n), np.ones(len(self._groups)))
        limit(np.unique(parts[0], return_inverse=True)[1], n + np.arange(m), np.ones(len(every)))
        offset = sum(map(len, bounds))
        rows += [(offset + part, np.arange(n), np.ones(n, dtype=np.int64))]
        rows += [(offset + np.arange(m), n + np.arange(m), np.full(m, -1))]
        bounds.append(np.zeros(m))
        numbers = dict[_Kind, int]()
        of_part = [
            [numbers.setdefault(kind, len(numbers)) for kind in sorted(kinds, key=repr)]
            for kinds in (
                self._kinds(i, [group]) for i, g in parts.T.tolist() for group in [list(names)[g]]
            )
        ]
        limit(
            np.array([kind for kinds in of_part for kind in kinds], dtype=np.int64),
            n + np.repeat(np.arange(m), [len(kinds) for kinds in of_part]),
            np.array([self._may(kind) for kind in numbers], dtype=np.float64),
        )
        row, column, factor = (np.concatenate(part) for part in zip(*rows, strict=True))
        matrix = scipy.sparse.csr_array((factor, (row, column)), (sum(map(len, bounds)), n + m))
        gains = self._gains[places, sentences]
        # That places are filled counts for more than all that there is to gain.
        filled = 1.0 + len(self._groups) * gains.max(initial=0.0)
        cost = np.concatenate([-1.0 - gains / filled, np.zeros(m)])
        solve: Any = scipy.optimize.linprog  # its type stubs know nothing of sparse matrices
        result = solve(cost, matrix, np.concatenate(bounds), bounds=(0, 1), method="highs")
        return places, sentences, np.asarray(result.x[:n])

    def fitting(self, chosen: IntArray, every: IntArray) -> IntArray:
        """Return sentences that may be used beside the chosen ones, wherever they are.

        Those for places that are empty come first, and then those of most use.
        """
        there, counts = set(chosen[chosen >= 0].tolist()), self._counts(chosen)
        others = np.array([i for i in every.tolist() if i not in there], dtype=np.int64)
        gains = np.nan_to_num(self._gains[:, others], nan=-np.inf)
        order = np.lexsort([-gains.max(axis=0), -gains[chosen < 0].max(axis=0, initial=-np.inf)])
        fitting = []
        for n in order.tolist():
            groups = {self._groups[place] for place in np.flatnonzero(np.isfinite(gains[:, n]))}
            kinds = self._kinds(int(others[n]), groups)
            if all(counts[kind] < self._may(kind) for kind in kinds):
                counts.update(kinds)
                fitting.append(int(others[n]))
        return np.array(fitting, dtype=np.int64)


def assign_syntheses(
    pool: SentencePool,
    places: Sequence[Slot],
    seed: int,
    strategy: str = "sample",
    diversity_cap: int = DIVERSITY_CAP,
    max_word_share: float = 1.0,
) -> list[Synthesis]:
    """Return one synthesis per place, of the natural sentence itself where none is assigned."""
    made, assigned = [], assign_sentences(pool, places, diversity_cap, max_word_share)
    for place, sentence in zip(places, assigned, strict=True):
        contrast = place.contrast
        natural = {name: pool.scores[name][place.natural] for name in contrast.names}
        text = place.natural if sentence is None else sentence
        scores = {name: pool.scores[name][text] for name in contrast.names}
        made.append(
            Synthesis(
                natural=place.natural,
                sentence=text,
                models=contrast.names,
                natural_scores=tuple(natural.values()),
                scores=tuple(scores.values()),
                loss=contrast.sentence_loss(scores, natural),
                steps=(),
                n_scores=(0,) * len(contrast.names),
                problem=repr(contrast),
                strategy=strategy,
                seed=seed,
                attempt=0,
                accepting=contrast.accept,
            )
        )
    return made


def explain_shortfall(pool: SentencePool, places: Sequence[Slot]) -> dict[str, float]:
    """Return, by constraint, the median number over places of sentences that satisfy it."""
    by_constraint, usable = defaultdict[str, list[int]](list), list[int]()
    for place in places:
        for name, satisfied in pool.satisfied(place).items():
            by_constraint[name].append(int(satisfied.sum()))
        usable.append(int((~np.isnan(pool.losses(place))).sum()))
    by_constraint["all of these and a negative loss"] = usable
    return {name: float(np.median(counts)) for name, counts in by_constraint.items()}
