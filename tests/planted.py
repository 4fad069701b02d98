"""Candidates written out by hand, a strategy let loose on them, and what it asked and proposed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.base import ReplacementScores, ScoringCost
from contstim.synthesis.candidates import Candidates, ScoreCounter
from contstim.synthesis.problem import ModelContrast
from contstim.text import Sentence, WordList


def on_demand(
    values: Sequence[float],
    *,
    upper: FloatArray | None = None,
    estimate: FloatArray | None = None,
    cost: float | FloatArray = 1.0,
    **sizes: Any,
) -> ReplacementScores:
    """Return a table of scores known on demand; bounds and estimates say nothing unless given."""
    scores = np.array(values)
    nothing = np.zeros(len(scores))
    return ReplacementScores(
        nothing if upper is None else upper,
        nothing if estimate is None else estimate,
        False,
        lambda i: scores[i],
        ScoringCost(cost, **sizes),
    )


def at_once(values: Sequence[float]) -> ReplacementScores:
    """Return a table of scores known at once."""
    scores = np.array(values)
    return ReplacementScores(scores, scores, True, lambda i: scores[i])


@dataclass
class Planted:
    """Candidates of a rejecting and an accepting model, and a record of what a strategy did.

    Attributes
    ----------
    reject, accept
        The tables.
    minimum, below
        The accepting model's least score; the rejecting one's score of the sentence as it is.
    brought
        By how much the rejecting model's score has fallen already, nats.
    holds
        Which proposals are taken.
    """

    reject: ReplacementScores
    accept: ReplacementScores
    minimum: float = -6.0
    below: float = -15.0
    brought: float = 0.0
    holds: Callable[[int], bool] = lambda i: True
    allowed: BoolArray | None = None
    present: int | None = None
    accepted: float = -5.0
    round: int = 0
    counter: ScoreCounter = field(default_factory=ScoreCounter)
    seed: int = 0
    proposed: list[int] = field(default_factory=list, init=False)
    batches: list[tuple[str, list[int]]] = field(default_factory=list, init=False)

    @property
    def asked(self) -> dict[str, list[int]]:
        """The candidates asked of each model, in order."""
        names = ("reject", "accept")
        return {
            name: [i for n, batch in self.batches if n == name for i in batch] for name in names
        }

    def candidates(self) -> Candidates:
        """Return the candidates as a strategy sees them."""
        n = len(self.reject.upper_bounds)
        tables = {
            name: replace(table, score=self._noting(name, table))
            for name, table in (("reject", self.reject), ("accept", self.accept))
        }
        words = WordList(tuple(f"w{i}" for i in range(n)))
        return Candidates(
            contrast=ModelContrast(("reject",)),
            min_scores={"accept": self.minimum},
            natural_scores={"reject": self.below + self.brought, "accept": self.accepted},
            current_scores={"reject": self.below, "accept": self.accepted},
            replacements=tables,
            exact_scores={
                name: table.estimates if table.is_exact else np.full(n, np.nan)
                for name, table in tables.items()
            },
            is_allowed=np.ones(n, dtype=np.bool_) if self.allowed is None else self.allowed,
            rng=np.random.default_rng(self.seed),
            verify=self._verify,
            counter=self.counter,
            current_index=self.present,
            round_number=self.round,
            sentence=Sentence.parse("w0 w1"),
            words=words,
        )

    def play(self, search: Callable[[Candidates], bool]) -> bool:
        """Run one word search."""
        return search(self.candidates())

    def _noting(self, name: str, table: ReplacementScores) -> Callable[[IntArray], FloatArray]:
        def score(index: IntArray) -> FloatArray:
            self.batches.append((name, index.tolist()))
            return table.score(index)

        return score

    def _verify(self, index: int) -> bool:
        self.proposed.append(index)
        return self.holds(index)
