"""Strategies for one position: which candidates to score, and which to take.

A strategy is a generator, the ask-tell loop of one word search. It yields `Ask` (score these
candidates exactly; the scores are sent back) and `Pick` (take this one; sent back is whether it
was taken). It never calls a model itself, so the caller decides on batches, caches and budgets.

A pick is verified by the caller on scores computed afresh. Scores computed at once may differ from
those in the last digits, so strategies let candidates within `SLACK` of the bounds through to
verification rather than lose one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from contstim.errors import UnknownNameError
from contstim.models.base import BoolArray, FloatArray, IntArray, Replacements

__all__ = ["SLACK", "STRATEGIES", "Ask", "Board", "Pick", "Strategy", "Turn", "strategy"]

#: Nats within which a score computed at once is taken for equal to a bound.
SLACK = 1e-4

_FIRST_BATCH, _LARGEST_BATCH = 16, 256


@dataclass(frozen=True)
class Ask:
    """A request for the exact scores of the candidates `index` (k,) under one model."""

    role: Literal["reject", "accept"]
    index: IntArray


@dataclass(frozen=True)
class Pick:
    """A request to take candidate `index`; answered by whether it held when scored afresh."""

    index: int


Turn = Generator[Ask | Pick, FloatArray | bool, None]
Answered = Generator[Ask | Pick, FloatArray | bool, FloatArray]


@dataclass(frozen=True)
class Board:
    """What is known of the V candidates at one position.

    Attributes
    ----------
    reject, accept
        Replacement scores under the two models.
    allowed
        Which candidates may stand here, shape (V,).
    minimum
        The accepting model's score must reach this, nats.
    below
        The rejecting model's score must fall below this, nats.
    rng
        Source of chance.
    """

    reject: Replacements
    accept: Replacements
    allowed: BoolArray
    minimum: float
    below: float
    rng: np.random.Generator

    def open(self) -> IntArray:
        """Return the candidates that no bound rules out."""
        mask = self.allowed & (self.accept.upper >= self.minimum - SLACK)
        if self.reject.exact:
            mask &= self.reject.upper < self.below + SLACK
        return np.flatnonzero(mask)

    def scores(self, role: Literal["reject", "accept"], index: IntArray) -> Answered:
        """Give exact scores of `index`, asking for them where they are not known at once."""
        table = self.reject if role == "reject" else self.accept
        if table.exact:
            return table.estimate[index]
        answer = yield Ask(role, index)
        assert isinstance(answer, np.ndarray)
        return answer


Strategy = Callable[[Board], Turn]


def batches(index: IntArray) -> Iterator[IntArray]:
    """Cut `index` into batches that grow, so that an early success costs little."""
    start, size = 0, _FIRST_BATCH
    while start < len(index):
        yield index[start : start + size]
        start, size = start + size, min(2 * size, _LARGEST_BATCH)


def exhaustive(board: Board) -> Turn:
    """Take the feasible candidate that the rejecting model finds least probable.

    Always the best word, whatever the models: where the rejecting model's scores are known at
    once, candidates are tried from its lowest score upwards and the first feasible one is the
    best; otherwise every candidate that the accepting model's bound admits is scored.
    """
    index = board.open()
    if board.reject.exact:
        index = index[np.argsort(board.reject.estimate[index], kind="stable")]
        for batch in batches(index):
            accept = yield from board.scores("accept", batch)
            for i in batch[accept >= board.minimum - SLACK]:
                if (yield Pick(int(i))):
                    return
        return
    feasible = []
    for batch in batches(index):
        accept = yield from board.scores("accept", batch)
        feasible.append(batch[accept >= board.minimum - SLACK])
    index = np.concatenate([*feasible, np.empty(0, dtype=np.int64)])
    scored = []
    for batch in batches(index):
        scored.append((yield from board.scores("reject", batch)))
    values = np.concatenate([*scored, np.empty(0)])
    yield from _pick_in_order(board, index, values)


def first_improvement(board: Board) -> Turn:
    """Take the first feasible candidate, in random order, that lowers the rejecting score."""
    index = board.open()
    for batch in batches(index[board.rng.permutation(len(index))]):
        accept = yield from board.scores("accept", batch)
        feasible = batch[accept >= board.minimum - SLACK]
        if len(feasible) == 0:
            continue
        reject = yield from board.scores("reject", feasible)
        for i in feasible[reject < board.below + SLACK]:
            if (yield Pick(int(i))):
                return


def _pick_in_order(board: Board, index: IntArray, values: FloatArray) -> Turn:
    """Pick candidates from the lowest rejecting score upwards until one holds."""
    for i in np.argsort(values, kind="stable"):
        if values[i] >= board.below + SLACK:
            return
        if (yield Pick(int(index[i]))):
            return


@dataclass(frozen=True)
class Bounded:
    """Spend at most `budget` exact scores a model at one position, the most promising first.

    Candidates whose upper bound already breaks the accepting model's constraint are never scored.
    The rest are taken by the rejecting model's estimate, lowest first; those that the accepting
    model's estimate makes infeasible come after the others.

    Attributes
    ----------
    budget
        Most exact scores asked of each model at one position.
    """

    budget: int = 64

    def __call__(self, board: Board) -> Turn:
        """Run the word search on one position's `board`."""
        if board.accept.exact and board.reject.exact:
            yield from exhaustive(board)
            return
        index = board.open()
        doubtful = board.accept.estimate[index] < board.minimum
        index = index[np.lexsort((board.reject.estimate[index], doubtful))][: self.budget]
        feasible, values = [], []
        for batch in batches(index):
            accept = yield from board.scores("accept", batch)
            kept = batch[accept >= board.minimum - SLACK]
            if len(kept):
                feasible.append(kept)
                values.append((yield from board.scores("reject", kept)))
        if feasible:
            yield from _pick_in_order(board, np.concatenate(feasible), np.concatenate(values))


#: Strategies by name.
STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "exhaustive": lambda: exhaustive,
    "first-improvement": lambda: first_improvement,
    "bounded": Bounded,
}


def strategy(name: str) -> Strategy:
    """Return the strategy called `name`.

    Raises
    ------
    UnknownNameError
        If there is none; near matches are named.
    """
    if name not in STRATEGIES:
        raise UnknownNameError.among("strategy", name, STRATEGIES)
    return STRATEGIES[name]()
