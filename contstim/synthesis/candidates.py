"""Candidate words for one position of a sentence, and their scores under each model.

Each model provides an estimate and an upper bound of the score of every candidate. The exact score,
computed by the model for the whole sentence, costs more and is requested only for promising
candidates. A search proposes its best candidates. A proposal is verified: the whole sentence is
scored again, and it is accepted if it satisfies the constraints and has a lower loss. Because
scores computed in a batch can differ from these in the last digits, searches tolerate violations of
up to `SCORE_TOLERANCE` before the verification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.base import ReplacementScores
from contstim.synthesis.problem import ProblemDefinition
from contstim.text import Sentence, WordList

#: Violation of a constraint, in nats, that searches tolerate until a sentence is scored again.
SCORE_TOLERANCE = 1e-4

# Sizes of the first and of the largest batch in `split_into_batches`.
_MIN_BATCH_SIZE, _MAX_BATCH_SIZE = 16, 256


@dataclass
class ScoreCounter:
    """Counter of the scores that the search for one synthetic sentence has computed.

    Attributes
    ----------
    n_scores
        Mapping from model name to the number of candidate words that the model has scored exactly.
    n_inputs
        Total number of model inputs (sequences passed through a network) for these scores and for
        the verification of proposals.
    """

    n_scores: dict[str, int] = field(default_factory=dict)
    n_inputs: float = 0.0


@dataclass(eq=False)
class Candidates:
    """V candidate words that may replace the word at one position of a sentence.

    A score is the log-probability of the whole sentence with the candidate, in nats. Dictionaries
    have the names of models as keys.

    Attributes
    ----------
    definition
        Synthesis problem, which defines the loss that is minimised and the models.
    min_scores
        Minimum score of a sentence under each model that constrains the search.
    natural_scores
        Score of the natural sentence, from which the search started, under each model.
    current_scores
        Score of `sentence` under each model.
    replacements
        Estimates and upper bounds of the scores of the candidates under each model.
    exact_scores
        Exact scores of the candidates under each model, shape (V,); NaN until computed.
    is_allowed
        Mask of the candidates that do not repeat another word of the sentence, shape (V,).
    rng
        Random number generator.
    verify
        Function that verifies the candidate with a given index. It scores the whole sentence again
        and returns whether the candidate was accepted as the new word.
    counter
        Counter of the exact scores of this search.
    current_index
        Index of the word that is now at this position; None if it is not a candidate.
    round_number
        Number of rounds over all positions so far that found no improvement.
    sentence
        Sentence in which the candidates replace one word.
    words
        Candidate words.
    incumbent_scores
        Score of the best sentence so far under each model. Default: `current_scores`. Both differ
        if the number of changes is limited and one change was undone in `sentence`.
    """

    definition: ProblemDefinition
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
        """Loss of the best sentence so far. Only candidates with a lower loss are accepted."""
        scores = self.current_scores if self.incumbent_scores is None else self.incumbent_scores
        return self.definition.sentence_loss(scores, self.natural_scores)

    @property
    def has_exact_losses(self) -> bool:
        """Whether the losses of all candidates are known without computing further scores."""
        return all(self.replacements[name].is_exact for name in self.definition.reject)

    def score_costs(self, name: str) -> FloatArray:
        """Return the cost of computing the exact score of each candidate under one model.

        Parameters
        ----------
        name
            Name of the model.

        Returns
        -------
        array
            Number of model inputs (sequences passed through a network) per candidate, shape (V,).
            0 if all scores are known.
        """
        replacements = self.replacements[name]
        n_inputs = 0.0 if replacements.is_exact else replacements.cost.n_inputs
        costs = np.asarray(n_inputs, dtype=np.float64)
        return np.broadcast_to(costs, replacements.upper_bounds.shape)

    def find_promising(self) -> IntArray:
        """Return the indices of the candidates that may improve the sentence, shape (k,).

        A candidate is excluded if the upper bound of its score is below the minimum score under any
        model, or if its loss is known and not lower than the loss of the best sentence so far.
        """
        mask = self.is_allowed.copy()
        # Use only bounds and scores that are known without further computation.
        for name, minimum in self.min_scores.items():
            mask &= self.replacements[name].upper_bounds >= minimum - SCORE_TOLERANCE
        if self.has_exact_losses:
            losses = self.definition.loss(self.exact_scores, self.natural_scores)
            mask &= losses < self.target_loss + SCORE_TOLERANCE
        return np.flatnonzero(mask)

    def scores(self, name: str, indices: IntArray) -> FloatArray:
        """Return the exact scores of some candidates under one model.

        Scores that are not known yet are computed and stored in `exact_scores`.

        Parameters
        ----------
        name
            Name of the model.
        indices
            Indices of the candidates, shape (k,).

        Returns
        -------
        array
            Log-probabilities of the sentence with each candidate in nats, shape (k,).
        """
        exact = self.exact_scores[name]  # NaN for candidates that have not been scored yet
        if self.replacements[name].is_exact:
            return exact[indices]
        # Score each unknown candidate once, in the order of its first occurrence.
        unknown = indices[np.isnan(exact[indices])]
        missing = np.array(list(dict.fromkeys(unknown.tolist())), dtype=np.int64)
        if len(missing):
            exact[missing] = self.replacements[name].score(missing)
            self.counter.n_scores[name] = self.counter.n_scores.get(name, 0) + len(missing)
            self.counter.n_inputs += float(self.score_costs(name)[missing].sum())
        return exact[indices]

    def filter_feasible(self, indices: IntArray) -> IntArray:
        """Return the candidates that satisfy the minimum score under each model.

        Unknown scores are computed, first under the model with the lowest cost per score. A
        candidate that violates the constraint on one model is not scored under the next model.

        Parameters
        ----------
        indices
            Indices of the candidates to check, shape (k,).
        """
        for name in sorted(self.min_scores, key=lambda name: self.score_costs(name).min()):
            scores = self.scores(name, indices)
            indices = indices[scores >= self.min_scores[name] - SCORE_TOLERANCE]
        return indices

    def losses(self, indices: IntArray) -> FloatArray:
        """Return the losses of the candidates `indices` (k,), after computing unknown scores."""
        scores = {name: self.scores(name, indices) for name in self.definition.reject}
        return self.definition.loss(scores, self.natural_scores)

    def propose(self, index: int) -> bool:
        """Propose the candidate `index` as the new word, and return whether it was accepted.

        All models score the whole sentence again. If it satisfies the constraints and has a lower
        loss than the best sentence so far, the candidate replaces the word.
        """
        n_inputs = (float(self.score_costs(name)[index]) for name in self.replacements)
        self.counter.n_inputs += sum(n_inputs)
        return self.verify(index)


def split_into_batches(indices: IntArray) -> Iterator[IntArray]:
    """Split an array of indices into consecutive batches, each twice as large as the previous one.

    A search scores one batch of candidates after the other. The first batches are small, so that
    few scores are computed if one of the first candidates is accepted.

    Parameters
    ----------
    indices
        Indices of candidates, best first.
    """
    start, size = 0, _MIN_BATCH_SIZE
    while start < len(indices):
        yield indices[start : start + size]
        start, size = start + size, min(2 * size, _MAX_BATCH_SIZE)


def propose_in_order(candidates: Candidates, indices: IntArray, losses: FloatArray) -> None:
    """Propose candidate words, lowest loss first, until one is accepted or none can be better.

    Parameters
    ----------
    candidates
        Candidate words for one position of a sentence.
    indices
        Indices of k candidates to propose, shape (k,).
    losses
        Loss of the sentence with each of these candidates, shape (k,).
    """
    for i in np.argsort(losses, kind="stable"):
        if losses[i] >= candidates.target_loss + SCORE_TOLERANCE:
            break
        if candidates.propose(int(indices[i])):
            break
