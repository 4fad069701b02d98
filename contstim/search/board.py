"""What a strategy sees at one position, and what it may ask for.

A strategy is a generator, the ask-tell loop of one word search. It yields `Ask` (score these
candidates exactly; the scores are sent back) and `Pick` (take this one; sent back is whether it
was taken). It never calls a model itself, so the caller decides on batches, caches and budgets.

A pick is verified by the caller on scores computed afresh. Scores computed at once may differ from
those in the last digits, so strategies let candidates within `SLACK` of the bounds through to
verification rather than lose one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.base import Replacements
from contstim.search.belief import Belief

__all__ = [
    "ROLES",
    "SLACK",
    "Answered",
    "Ask",
    "Board",
    "Memory",
    "Pick",
    "Role",
    "Strategy",
    "Turn",
    "batches",
    "pick_in_order",
]

#: Nats within which a score computed at once is taken for equal to a bound.
SLACK = 1e-4

Role = Literal["reject", "accept"]

ROLES: tuple[Role, Role] = ("reject", "accept")

_FIRST_BATCH, _LARGEST_BATCH = 16, 256


@dataclass(frozen=True)
class Ask:
    """A request for the exact scores of the candidates `index` (k,) under one model."""

    role: Role
    index: IntArray


@dataclass(frozen=True)
class Pick:
    """A request to take candidate `index`; answered by whether it held when scored afresh."""

    index: int


#: A word search. It returns True if it stopped early and would look further when called again
#: with a greater `depth`.
Turn = Generator[Ask | Pick, FloatArray | bool, bool]
Answered = Generator[Ask | Pick, FloatArray | bool, FloatArray]


@dataclass
class Memory:
    """What the word searches of one synthesis learn for those that follow.

    Attributes
    ----------
    belief
        How far the exact scores of each model lie from their estimates.
    gain, cost
        Nats by which the loss has fallen, and the cost of the exact scores spent (the sum of
        their ``price``), those of the sentences kept included.
    n_scores
        How many exact scores a strategy has asked for, those of the cheaper model in parts of one.
    price
        What a score of the natural sentence by both models costs, once a strategy has asked.
    limited
        Set by a strategy that leaves candidates out because it could not pay for their scores.
    """

    belief: dict[Role, Belief] = field(default_factory=lambda: {r: Belief() for r in ROLES})
    gain: float = 0.0
    cost: float = 0.0
    n_scores: float = 0.0
    price: float | None = None
    limited: bool = False


def _no_words(model: str) -> FloatArray | None:
    return None


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
        The rejecting model's score must fall below this, nats: its score of the sentence as it is.
    rng
        Source of chance.
    present
        The candidate that stands here now, if it is among them.
    accepted
        The accepting model's score of the sentence as it is, nats.
    known
        Exact scores that are known already, by role and candidate; asking for them again is free.
    conditional
        Function that gives, for ``reject``, ``accept`` or the spec of another model, bounds
        (V,), nats, on log p(candidate | words before it); None if that model of the pair does
        not score from left to right.
    depth
        How often the word searches of this sentence have all ended without a replacement.
    memory
        What earlier word searches learnt.
    """

    reject: Replacements
    accept: Replacements
    allowed: BoolArray
    minimum: float
    below: float
    rng: np.random.Generator
    present: int | None = None
    accepted: float = np.nan
    known: dict[Role, dict[int, float]] = field(default_factory=lambda: {r: {} for r in ROLES})
    conditional: Callable[[str], FloatArray | None] = _no_words
    depth: int = 0
    memory: Memory = field(default_factory=Memory)

    def table(self, role: Role) -> Replacements:
        """Return the replacement scores under one of the models."""
        return self.reject if role == "reject" else self.accept

    def prices(self, role: Role) -> FloatArray:
        """Return what an exact score of each candidate costs, (V,): 0 where all are known."""
        table = self.table(role)
        price = np.asarray(0.0 if table.exact else table.hints.cost, dtype=np.float64)
        return np.broadcast_to(price, table.upper.shape)

    def work(self, role: Role) -> float:
        """Return what the cheapest candidate's exact score costs, to compare the two models.

        In multiply-additions where both models say how many an input takes, else in inputs.
        """
        known = all(self.table(r).hints.multiply_adds is not None for r in ROLES)
        input_cost = self.table(role).hints.multiply_adds if known else None
        return float(self.prices(role).min()) * (input_cost or 1.0)

    def open(self) -> IntArray:
        """Return the candidates that no bound rules out."""
        mask = self.allowed & (self.accept.upper >= self.minimum - SLACK)
        if self.reject.exact:
            mask &= self.reject.upper < self.below + SLACK
        return np.flatnonzero(mask)

    def scores(self, role: Role, index: IntArray) -> Answered:
        """Give exact scores of `index`, asking for them where they are not known at once."""
        table = self.table(role)
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


def pick_in_order(board: Board, index: IntArray, values: FloatArray) -> Turn:
    """Pick candidates from the lowest rejecting score upwards until one holds."""
    for i in np.argsort(values, kind="stable"):
        if values[i] >= board.below + SLACK:
            break
        if (yield Pick(int(index[i]))):
            break
    return False
