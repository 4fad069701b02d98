"""A search: one sentence, changed word by word, and the strategies that steer it.

Golan et al. (2023), section 4.6. Positions are visited in random sweeps; at each a word search may
replace the word; it is over when no position brings an improvement any more, so that a sentence
written by the exhaustive strategy is a local optimum under all single replacements.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from contstim.arrays import BoolArray, FloatArray
from contstim.models.base import Replacements
from contstim.search.candidates import Candidates, Spent
from contstim.search.problem import Problem
from contstim.search.proposals import WordReplacement
from contstim.text.sentence import Sentence, WordList

__all__ = ["Search", "Step", "Strategy", "option"]


def option(default: Any, text: str, *, metavar: str) -> Any:
    """Declare a field of a strategy that the command line and experiment files offer as well.

    Parameters
    ----------
    default
        Its default, everywhere.
    text, metavar
        What the command's help says of it.
    """
    return field(default=default, metadata={"help": text, "metavar": metavar})


@dataclass(frozen=True)
class Step:
    """One word that was replaced.

    Attributes
    ----------
    sweep, position, old, new
        When, where and what.
    scores
        The sentence's scores after it, nats, one a model of the problem; after the last of them
        for words that were replaced together.
    n_scores
        Exact scores asked of each model so far, as `Synthesis.n_scores` counts them.
    """

    sweep: int
    position: int
    old: str
    new: str
    scores: tuple[float, ...]
    n_scores: tuple[int, ...]

    @property
    def reject_log_prob(self) -> float:
        """The score by the first model, for a pair the rejecting one."""
        return self.scores[0]

    @property
    def accept_log_prob(self) -> float:
        """The score by the last model, for a pair the accepting one."""
        return self.scores[-1]


class Strategy(ABC):
    """How words are chosen; write your own as a frozen dataclass whose fields are its options."""

    def run(self, search: Search) -> bool:
        """Search from the natural sentence, by sweeps of `look`.

        Strategies that learn from one position for the next keep what they learn in an object
        made here, since equal strategies must search alike.

        Returns
        -------
        bool
            False if the strategy's limits left candidates out that might have brought an
            improvement.
        """
        search.sweep(self.look)
        return True

    @property
    def complete(self) -> bool:
        """Whether it ends only where no single replacement improves, whatever the models."""
        return False

    @abstractmethod
    def look(self, candidates: Candidates) -> bool:
        """Look for a better word at one position and propose what is found.

        Returns
        -------
        bool
            Whether it ended early and would look further in a later `Candidates.round`.
        """


@dataclass(frozen=True, eq=False)
class _Place:
    """What is known of one position as long as the other words stay."""

    words: WordList
    allowed: BoolArray
    tables: dict[str, Replacements]
    known: dict[str, FloatArray]


@dataclass(eq=False)
class Search:
    """One sentence on its way from the natural one.

    Attributes
    ----------
    problem
        What is wanted.
    proposal
        The words that may stand at each position.
    sentence
        The natural sentence; then the sentence as it is.
    seed, attempt
        Order the sweeps and the strategy's chance; another attempt searches in another order.
    natural, now
        By model, the scores of the natural sentence and of the sentence as it is, nats.
    minimum
        By constrained model, the least score, nats.
    steps
        The replacements kept so far.
    spent
        Exact scores asked for so far.
    """

    problem: Problem
    proposal: WordReplacement
    sentence: Sentence
    seed: int
    attempt: int = 0
    steps: list[Step] = field(default_factory=list, init=False)
    spent: Spent = field(init=False)

    def __post_init__(self) -> None:
        self._models = self.problem.by_name
        self.spent = Spent(dict.fromkeys(self._models, 0))
        self.natural = self.now = self.scores(self.sentence)
        self.minimum = self.problem.minima(self.natural, len(self.sentence))
        self._places: dict[int, _Place] = {}
        self._n_sweeps = 0
        # Chance depends on the task alone, so a task gives the same result in any order of tasks.
        key = "\n".join([str(self.sentence), *self._models])
        entropy = np.frombuffer(hashlib.sha256(key.encode()).digest()[:16], dtype=np.uint32)
        self._rng = np.random.default_rng([self.seed, self.attempt, *map(int, entropy)])

    def scores(self, sentence: Sentence) -> dict[str, float]:
        """Score a sentence by every model, nats."""
        text = [str(sentence)]
        return {name: float(model.score(text)[0]) for name, model in self._models.items()}

    def loss(self, scores: dict[str, float]) -> float:
        """Return the loss of a sentence with these scores."""
        arrays = {name: np.array([scores[name]]) for name in self.problem.objective.models}
        return float(self.problem.objective.loss(arrays, self.natural)[0])

    def sweep(self, look: Callable[[Candidates], bool]) -> None:
        """Visit positions in random sweeps until a word search brings nothing at any of them.

        Word searches that would look further (`Strategy.look`) are called again then.
        """
        positions = self.proposal.positions(self.sentence)
        # Positions that brought nothing since the last replacement; all of them, and it is over,
        # unless some word searches would look further.
        settled: set[int] = set()
        unfinished: set[int] = set()
        round_ = 0
        while len(settled) < len(positions):
            self._n_sweeps += 1
            for position in map(int, self._rng.permutation(positions)):
                if position in settled:
                    continue
                n_steps = len(self.steps)
                more = look(self.candidates(position, round_))
                if len(self.steps) > n_steps:
                    settled, unfinished, round_ = set(), set(), 0
                    continue
                settled.add(position)
                if more:
                    unfinished.add(position)
            if len(settled) == len(positions) and unfinished:
                settled -= unfinished
                unfinished = set()
                round_ += 1

    def candidates(self, position: int, round_: int = 0) -> Candidates:
        """Return the words that may stand at `position` of the sentence as it is."""
        sentence, place = self.sentence, self._place(position)
        return Candidates(
            objective=self.problem.objective,
            minimum=self.minimum,
            natural=self.natural,
            now=self.now,
            tables=place.tables,
            known=place.known,
            allowed=place.allowed,
            rng=self._rng.spawn(1)[0],
            verify=lambda index: self.take({position: place.words.words[index]}),
            spent=self.spent,
            present=place.words.index.get(sentence.words[position]),
            round=round_,
            models=self._models,
            sentence=sentence,
            position=position,
            words=place.words,
        )

    def take(self, words: Mapping[int, str]) -> bool:
        """Put words at positions, together or not at all; say whether that was done.

        It is if, on scores computed again, the constraints are kept and the loss falls.
        """
        changed = self.sentence
        for position, word in words.items():
            changed = changed.replace(position, word)
        scores = self.scores(changed)
        kept = all(scores[name] >= minimum for name, minimum in self.minimum.items())
        if not kept or not self.loss(scores) < self.loss(self.now):
            return False
        now, n_scores = tuple(scores.values()), tuple(self.spent.n_scores.values())
        self.steps += [
            Step(self._n_sweeps, position, self.sentence.words[position], word, now, n_scores)
            for position, word in words.items()
        ]
        self.sentence, self.now = changed, scores
        # What is known of a position holds as long as the other words stay.
        self._places = {p: place for p, place in self._places.items() if {*words} == {p}}
        return True

    def branch(self, sentence: Sentence) -> Search:
        """Return a search of the same problem that stands at another sentence.

        It need not keep the constraints. What is spent counts here; chance and steps are its own.
        """
        other = copy(self)
        other.sentence, other.now = sentence, self.scores(sentence)
        other.steps, other._places = [], {}
        other._rng = self._rng.spawn(1)[0]
        return other

    def _place(self, position: int) -> _Place:
        """Return what is known of a position, computing estimates and bounds if they are not."""
        place = self._places.get(position)
        if place is None:
            words = self.proposal.words(self.sentence, position)
            tables = {
                name: model.replacements(self.sentence, position, words)
                for name, model in self._models.items()
            }
            known = {
                name: table.estimate if table.exact else np.full(len(words), np.nan)
                for name, table in tables.items()
            }
            allowed = self.proposal.allowed(self.sentence, position, words)
            place = self._places[position] = _Place(words, allowed, tables, known)
        return place
