"""A pool of written sentences, given to natural ones: an assignment, on scores computed afresh.

Each sentence of the pool may serve any side of any pair, and is used once; among those that are
used few begin or end alike. Of all assignments in which as many places as possible are filled, the
one of lowest loss, in sum, is taken.
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
from contstim.synthesis.results import Synthesis
from contstim.synthesis.targets import Sides
from contstim.text.diversity import ALWAYS, ends_of, words_of

#: How many sentences may begin, or end, alike (`ends_of`).
MOST_ALIKE = 2

# A beginning or an end of sentences (`ends_of`), or models and a word.
_Kind = tuple[bool, tuple[str, ...]] | tuple[frozenset[str], str]

# More than any loss can be, so that a place that is filled outweighs them.
_FILLED = 1e6
# A share of a sentence that is none.
_NONE = 1e-6


@dataclass(frozen=True)
class Place:
    """What is wanted beside one natural sentence.

    Attributes
    ----------
    natural
        The sentence.
    sides
        Who rejects and who accepts, models by canonical spec.
    """

    natural: str
    sides: Sides


@dataclass(frozen=True, eq=False)
class SentencePool:
    """P sentences with their scores, and those of the natural sentences.

    Attributes
    ----------
    sentences
        The sentences that may be given.
    scores
        By model, the score of each sentence of the pool and of each natural one, nats.
    resolution
        By model, how far scores may differ with the batch.
    """

    sentences: tuple[str, ...]
    scores: Mapping[str, Mapping[str, float]]
    resolution: Mapping[str, float]

    def of(self, model: str) -> FloatArray:
        """Return the scores of the pool under one model, (P,), NaN where it has none."""
        scores = self.scores[model]
        return np.array([scores.get(s, np.nan) for s in self.sentences], dtype=np.float64)

    def keeping(self, place: Place) -> dict[str, BoolArray]:
        """Return which sentences keep each constraint of a place, (P,), by its text."""
        lengths = np.array([len(s.split()) for s in self.sentences])
        by_constraint: dict[str, BoolArray] = {}
        for constraint in place.sides.constraints:
            name = constraint.model
            natural, scores = self.scores[name][place.natural], self.of(name)
            least = np.empty(len(scores))
            for n in np.unique(lengths):
                least[lengths == n] = constraint.minimum(natural, int(n))
            by_constraint[str(constraint)] = scores >= least + self.resolution.get(name, 0.0)
        return by_constraint

    def losses(self, place: Place) -> FloatArray:
        """Return the loss of each sentence, (P,); NaN where it keeps not all constraints."""
        objective = place.sides.objective
        scores = {name: self.of(name) for name in objective.models}
        natural = {name: self.scores[name][place.natural] for name in scores}
        losses = objective.loss(scores, natural)
        keeps_all = np.all([*self.keeping(place).values(), losses < 0], axis=0)
        return np.where(keeps_all, losses, np.nan)


def given_sentences(
    pool: SentencePool,
    places: Sequence[Place],
    most_alike: int = MOST_ALIKE,
    most_use: float = 1.0,
) -> list[str | None]:
    """Return the sentence of each place, or None where there is none for it.

    Parameters
    ----------
    pool
        The sentences.
    places
        Where they may go.
    most_alike
        How many of those that are used may have the same first words or the same last words.
    most_use
        In what share of the places of the same models a word may be, at most: in two where that is
        more, and in as many as natural sentences have it at these places. 1: no limit.

    Notes
    -----
    Where it keeps the limits, the assignment is the best of all (`scipy.optimize`'s
    ``linear_sum_assignment``). Else the linear programme is solved whose variables are shares of
    sentences at places; what has the largest shares is taken as far as the limits allow, and as
    long as there are further sentences for which there is room, places are assigned anew.
    """
    gains = np.array([-pool.losses(place) for place in places]).reshape(len(places), -1)
    every = np.flatnonzero(~np.isnan(gains).all(axis=0))
    chosen = _optimal(gains, every)
    limits = _Limits(pool.sentences, places, gains, most_alike, most_use)
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
    """Return which of the `usable` sentences each place gets, -1 for none."""
    chosen = np.full(len(gains), -1, dtype=np.int64)
    some = gains[:, usable]
    rows, columns = scipy.optimize.linear_sum_assignment(
        np.where(np.isnan(some), 0.0, _FILLED + some), maximize=True
    )
    filled = ~np.isnan(some[rows, columns])
    chosen[rows[filled]] = usable[columns[filled]]
    return chosen


def _worth(gains: FloatArray, chosen: IntArray) -> float:
    """Return what an assignment makes large."""
    filled = np.flatnonzero(chosen >= 0)
    return float((_FILLED + gains[filled, chosen[filled]]).sum())


class _Limits:
    """How many of the sentences that are used may be of one kind, as `given_sentences` says.

    A kind is a beginning, or an end; or models and a word beside their natural sentences.
    """

    def __init__(
        self,
        sentences: Sequence[str],
        places: Sequence[Place],
        gains: FloatArray,
        most_alike: int,
        most_use: float,
    ) -> None:
        self._gains = gains
        self._groups = [frozenset(place.sides.models) for place in places]
        self._ends = [ends_of(sentence) for sentence in sentences]
        self._words = [{*words_of(s)} if most_use < 1 else set[str]() for s in sentences]
        self._alike = most_alike
        self._usual: Counter[_Kind] = Counter(
            (group, word)
            for group, place in zip(self._groups, places, strict=True)
            for word in {*words_of(place.natural)}
        )
        sizes = Counter(self._groups)
        self._most = {g: max(ALWAYS, math.floor(most_use * n + 1e-9)) for g, n in sizes.items()}

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


def syntheses(
    pool: SentencePool,
    places: Sequence[Place],
    seed: int,
    strategy: str = "fluent",
    most_alike: int = MOST_ALIKE,
    most_use: float = 1.0,
) -> list[Synthesis]:
    """Return the assignment as syntheses, one a place; the natural sentence where there is none."""
    made, given = [], given_sentences(pool, places, most_alike, most_use)
    for place, sentence in zip(places, given, strict=True):
        models = place.sides.models
        natural = {name: pool.scores[name][place.natural] for name in models}
        text = place.natural if sentence is None else sentence
        scores = {name: pool.scores[name][text] for name in models}
        objective = place.sides.objective
        loss = objective.of_one(scores, natural) - objective.of_one(natural, natural)
        made.append(
            Synthesis(
                natural=place.natural,
                sentence=text,
                models=models,
                natural_scores=tuple(natural.values()),
                scores=tuple(scores.values()),
                loss=loss,
                steps=(),
                n_scores=(0,) * len(models),
                problem=repr(place.sides),
                strategy=strategy,
                seed=seed,
                attempt=0,
                accepting=place.sides.accept,
            )
        )
    return made


def why_few(pool: SentencePool, places: Sequence[Place]) -> dict[str, float]:
    """Return, by constraint, how many sentences keep it at the median place; and what is left."""
    by_constraint, left = defaultdict[str, list[int]](list), list[int]()
    for place in places:
        for name, keeps in pool.keeping(place).items():
            by_constraint[name].append(int(keeps.sum()))
        left.append(int((~np.isnan(pool.losses(place))).sum()))
    by_constraint["all of these, and a fall"] = left
    return {name: float(np.median(counts)) for name, counts in by_constraint.items()}
