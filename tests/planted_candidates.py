"""Candidates with given scores, and a record of the candidates that a strategy scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.base import ReplacementScores, ScoringCost
from contstim.synthesis.candidates import Candidates, ScoreCounter
from contstim.synthesis.problem import ProblemDefinition
from contstim.text import Sentence, WordList


def on_demand(
    values: Sequence[float],
    *,
    upper: FloatArray | None = None,
    estimate: FloatArray | None = None,
    cost: float | FloatArray = 1.0,
    **sizes: Any,
) -> ReplacementScores:
    """Return scores that are computed on demand; bounds and estimates are 0 by default."""
    scores = np.array(values)
    zeros = np.zeros(len(scores))
    return ReplacementScores(
        zeros if upper is None else upper,
        zeros if estimate is None else estimate,
        False,
        lambda indices: scores[indices],
        ScoringCost(cost, **sizes),
    )


def exact(values: Sequence[float]) -> ReplacementScores:
    """Return scores that are known for all candidates."""
    scores = np.array(values)
    return ReplacementScores(scores, scores, True, lambda indices: scores[indices])


@dataclass
class PlantedCandidates:
    """Candidates with given scores under a rejecting and an accepting model.

    Attributes
    ----------
    reject, accept
        Scores of the candidates.
    minimum
        Minimum score under the accepting model.
    current_reject, current_accept
        Scores of the current sentence.
    decrease
        Decrease of the rejecting model's score since the natural sentence, nats.
    is_valid
        Function from a candidate to whether its verification succeeds.
    """

    reject: ReplacementScores
    accept: ReplacementScores
    minimum: float = -6.0
    current_reject: float = -15.0
    decrease: float = 0.0
    is_valid: Callable[[int], bool] = lambda index: True
    is_allowed: BoolArray | None = None
    current_index: int | None = None
    current_accept: float = -5.0
    round_number: int = 0
    counter: ScoreCounter = field(default_factory=ScoreCounter)
    seed: int = 0
    proposed: list[int] = field(default_factory=list, init=False)
    batches: list[tuple[str, list[int]]] = field(default_factory=list, init=False)

    @property
    def scored(self) -> dict[str, list[int]]:
        """Candidates scored by each model, in order."""
        names = ("reject", "accept")
        return {
            name: [i for model, batch in self.batches if model == name for i in batch]
            for name in names
        }

    def candidates(self) -> Candidates:
        """Return the candidates for a strategy."""
        n = len(self.reject.upper_bounds)
        tables = {
            name: replace(table, score=self._recorded(name, table))
            for name, table in (("reject", self.reject), ("accept", self.accept))
        }
        words = WordList(tuple(f"w{i}" for i in range(n)))
        natural_reject = self.current_reject + self.decrease
        return Candidates(
            definition=ProblemDefinition(("reject",)),
            min_scores={"accept": self.minimum},
            natural_scores={"reject": natural_reject, "accept": self.current_accept},
            current_scores={"reject": self.current_reject, "accept": self.current_accept},
            replacements=tables,
            exact_scores={
                name: table.estimates if table.is_exact else np.full(n, np.nan)
                for name, table in tables.items()
            },
            is_allowed=np.ones(n, dtype=np.bool_) if self.is_allowed is None else self.is_allowed,
            rng=np.random.default_rng(self.seed),
            verify=self._verify,
            counter=self.counter,
            current_index=self.current_index,
            round_number=self.round_number,
            sentence=Sentence.parse("w0 w1"),
            words=words,
        )

    def search(self, search_word: Callable[[Candidates], bool]) -> bool:
        """Run one word search."""
        return search_word(self.candidates())

    def _recorded(self, name: str, table: ReplacementScores) -> Callable[[IntArray], FloatArray]:
        """Return the scoring function of a model, which records its calls."""

        def score(indices: IntArray) -> FloatArray:
            self.batches.append((name, indices.tolist()))
            return table.score(indices)

        return score

    def _verify(self, index: int) -> bool:
        self.proposed.append(index)
        return self.is_valid(index)
