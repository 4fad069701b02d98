"""A pool of written sentences, given to natural ones: an assignment, on scores computed afresh.

Each sentence of the pool may serve any side of any pair, and is used once; among those that are
used few begin or end alike. Of all assignments in which as many places as possible are filled, the
one of lowest loss, in sum, is taken.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # which loads `optimize` at its first use

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.search.results import Synthesis
from contstim.search.targets import Sides
from contstim.text.diversity import ALWAYS, ends_of, words_of

#: How many sentences may begin, or end, alike (`ends_of`).
MOST_ALIKE = 2

# More than any loss can be, so that a place that is filled outweighs them.
_FILLED = 1e6


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
    Without the limits the assignment is optimal (`scipy.optimize`'s ``linear_sum_assignment``). Of
    sentences that are too many of a kind, those of least use are left out, and the others are
    assigned anew.
    """
    gains = np.array([-pool.losses(place) for place in places]).reshape(len(places), -1)
    usable = np.flatnonzero(~np.isnan(gains).all(axis=0))
    limits = _Limits(places, most_alike, most_use)
    while True:
        chosen = _optimal(gains, usable)
        crowded = set(limits.crowded(pool.sentences, chosen, gains))
        if not crowded:
            break
        usable = np.array([i for i in usable.tolist() if i not in crowded], dtype=np.int64)
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


class _Limits:
    """How many of the sentences that are used may be of one kind, as `given_sentences` says."""

    def __init__(self, places: Sequence[Place], most_alike: int, most_use: float) -> None:
        self._groups = [frozenset(place.sides.models) for place in places]
        self._alike, self._limited = most_alike, most_use < 1
        self._usual = Counter(
            (group, word)
            for group, place in zip(self._groups, places, strict=True)
            for word in {*words_of(place.natural)}
        )
        sizes = Counter(self._groups)
        self._most = {g: max(ALWAYS, math.floor(most_use * n + 1e-9)) for g, n in sizes.items()}

    def crowded(
        self, sentences: Sequence[str], chosen: IntArray, gains: FloatArray
    ) -> Iterator[int]:
        """Yield the chosen sentences of least use that are too many of a kind."""
        alike = defaultdict[tuple[bool, tuple[str, ...]], list[tuple[float, int]]](list)
        having = defaultdict[tuple[frozenset[str], str], list[tuple[float, int]]](list)
        for place, i in enumerate(chosen.tolist()):
            if i < 0:
                continue
            use = float(gains[place, i]), i
            for end in ends_of(sentences[i]):
                alike[end].append(use)
            for word in {*words_of(sentences[i])} if self._limited else ():
                having[self._groups[place], word].append(use)
        most = {kind: max(self._most[kind[0]], self._usual[kind]) for kind in having}
        for members, n in (
            *((members, self._alike) for members in alike.values()),
            *((members, most[kind]) for kind, members in having.items()),
        ):
            for _, i in sorted(members)[: max(0, len(members) - n)]:
                yield i


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
            )
        )
    return made


def why_few(pool: SentencePool, places: Sequence[Place]) -> dict[str, float]:
    """Return, by constraint, how many sentences keep it at the median place; and what is left."""
    by_constraint = defaultdict[str, list[int]](list)
    for place in places:
        for name, keeps in pool.keeping(place).items():
            by_constraint[name].append(int(keeps.sum()))
        left = ~np.isnan(pool.losses(place))
        by_constraint["all of these, and a fall"].append(int(left.sum()))
    return {name: float(np.median(counts)) for name, counts in by_constraint.items()}
