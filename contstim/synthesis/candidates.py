"""Candidate words for one position of a sentence, and their scores under each model.

A word search asks for exact scores of candidates and proposes some of them. A proposal is accepted
if, on scores computed again for the whole sentence, it satisfies the constraints and has a lower
loss. Scores of a batch can differ from these in the last digits. Searches therefore tolerate
violations of up to `SCORE_TOLERANCE` before this final verification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.base import ReplacementScores
from contstim.synthesis.problem import ModelContrast
from contstim.text import Sentence, WordList

#: Violation of a bound, in nats, that searches tolerate until a sentence is scored again.
SCORE_TOLERANCE = 1e-4

_MIN_BATCH_SIZE, _MAX_BATCH_SIZE = 16, 256


@dataclass
class ScoreCounter:
    """Number and cost of the exact scores that one search has computed.

    Attributes
    ----------
    n_scores
        Number of exact scores of candidates, by model.
    cost
        Cost of these scores and of the verification of proposals, in model inputs.
    """

    n_scores: dict[str, int] = field(default_factory=dict)
    cost: float = 0.0


@dataclass(eq=False)
class Candidates:
    """The V candidate words for one position of a sentence.

    Attributes
    ----------
    contrast
        Problem, which defines the loss.
    min_scores
        Minimum score in nats, by constrained model.
    natural_scores
        Scores of the natural sentence in nats, by model.
    current_scores
        Scores of `sentence` in nats, by model.
    replacements
        Estimates and bounds of the candidates' scores, by model.
    exact_scores
        Exact scores (V,) in nats, by model; NaN where not computed yet.
    is_allowed
        Mask (V,) of the candidates that are allowed at this position, given the other words.
    rng
        Random number generator.
    verify
        Function that verifies the candidate of a given index and returns whether it was accepted.
    counter
        Counter of the exact scores of this search.
    current_index
        Index of the present word at this position; None if it is not a candidate.
    round_number
        Number of times that all positions were searched without an improvement.
    sentence
        Sentence in which the candidates replace one word.
    words
        Candidate words.
    incumbent_scores
        Scores of the best sentence so far, by model. They differ from `current_scores` if the
        number of changes is limited and `sentence` takes one change back. None: `current_scores`.
    """

    contrast: ModelContrast
    min_scores: Mapping[str, float]
    natural_scores: Mapping[str, float]
    current_scores: Mapping[str, float]
    replacements: Mapping[str, ReplacementScores]
    exact_scores: Mapping[str, FloatArray]
    is_allowed: BoolArray
    rng: np.random.Generator
    verify: Callable[[int], bool]
    counter: ScoreCounter
    current_index: int | None
    round_number: int
    sentence: Sentence
    words: WordList
    incumbent_scores: Mapping[str, float] | None = None

    @cached_property
    def target_loss(self) -> float:
        """Loss of the best sentence so far, which a proposal must improve."""
        scores = self.current_scores if self.incumbent_scores is None else self.incumbent_scores
        return self.contrast.sentence_loss(scores, self.natural_scores)

    @property
    def has_exact_losses(self) -> bool:
        """Whether the losses of all candidates are known without computing further scores."""
        return all(self.replacements[name].is_exact for name in self.contrast.reject)

    def score_costs(self, name: str) -> FloatArray:
        """Return the cost of an exact score of each candidate, (V,), in inputs of a model."""
        replacements = self.replacements[name]
        n_inputs = 0.0 if replacements.is_exact else replacements.cost.n_inputs
        return np.broadcast_to(
            np.asarray(n_inputs, dtype=np.float64), replacements.upper_bounds.shape
        )

    def promising(self) -> IntArray:
        """Return the indices of the candidates that may improve the sentence.

        Candidates are excluded if the upper bound of a score is below the minimum score, or if the
        losses are known and are not lower than the loss of the best sentence so far.
        """
        mask = self.is_allowed.copy()
        for name, minimum in self.min_scores.items():
            mask &= self.replacements[name].upper_bounds >= minimum - SCORE_TOLERANCE
        if self.has_exact_losses:
            losses = self.contrast.loss(self.exact_scores, self.natural_scores)
            mask &= losses < self.target_loss + SCORE_TOLERANCE
        return np.flatnonzero(mask)

    def scores(self, name: str, indices: IntArray) -> FloatArray:
        """Return the exact scores of candidates under one model, shape (k,).

        Missing scores are computed and stored in `exact_scores`.
        """
        exact = self.exact_scores[name]
        if self.replacements[name].is_exact:
            return exact[indices]
        unknown = indices[np.isnan(exact[indices])]
        missing = np.array(list(dict.fromkeys(unknown.tolist())), dtype=np.int64)
        if len(missing):
            exact[missing] = self.replacements[name].score(missing)
            self.counter.n_scores[name] = self.counter.n_scores.get(name, 0) + len(missing)
            self.counter.cost += float(self.score_costs(name)[missing].sum())
        return exact[indices]

    def filter_feasible(self, indices: IntArray) -> IntArray:
        """Return the candidates that satisfy all constraints, among the given indices.

        Missing scores are computed. Candidates that violate the constraint on one model are not
        scored under the more expensive models.
        """
        # The least expensive models come first.
        for name in sorted(self.min_scores, key=lambda name: self.score_costs(name).min()):
            scores = self.scores(name, indices)
            indices = indices[scores >= self.min_scores[name] - SCORE_TOLERANCE]
        return indices

    def losses(self, indices: IntArray) -> FloatArray:
        """Return the losses of candidates, shape (k,). Missing scores are computed."""
        scores = {name: self.scores(name, indices) for name in self.contrast.reject}
        return self.contrast.loss(scores, self.natural_scores)

    def propose(self, index: int) -> bool:
        """Propose a candidate as the new word, and return whether it was accepted.

        The whole sentence is scored again. An accepted candidate replaces the word, and the search
        at this position ends.
        """
        self.counter.cost += sum(float(self.score_costs(name)[index]) for name in self.replacements)
        return self.verify(index)


def split_into_batches(indices: IntArray) -> Iterator[IntArray]:
    """Split indices into batches of increasing size.

    The first batches are small, so that few scores are computed if one of the first candidates is
    accepted.
    """
    start, size = 0, _MIN_BATCH_SIZE
    while start < len(indices):
        yield indices[start : start + size]
        start, size = start + size, min(2 * size, _MAX_BATCH_SIZE)


def propose_in_order(candidates: Candidates, indices: IntArray, losses: FloatArray) -> None:
    """Propose candidates in the order of their losses (k,) until one is accepted."""
    for i in np.argsort(losses, kind="stable"):
        if losses[i] >= candidates.target_loss + SCORE_TOLERANCE:
            break
        if candidates.propose(int(indices[i])):
            break
