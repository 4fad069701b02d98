"""Criteria of a selection for a set of models, with upper bounds on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import combinations
from typing import ClassVar

import numpy as np
import pandas as pd

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.response_model import (
    ResponseModel,
    log_bayes_factors,
    log_prob_scale,
    sentence_evidence_bounds,
)
from contstim.selection.scores import RankedScores

# Steps in which the bound on expected log Bayes factors is lowered.
_BOUND_STEPS = 80


class SetCriterion(ABC):
    """What a pair of sentences adds for every two models, of which a selection has the sum.

    Attributes
    ----------
    is_count
        Whether it adds 1 or 0: sums are numbers of pairs.
    uses_rank_margin, uses_response_model
        Whether it knows a margin, and how participants answer if a model is right.
    column
        Of the selection's table, what a pair adds on average over model pairs; None: none.
    ranked
        Ranks, shape (R, M).
    scaled
        Log-probabilities in standard deviations over the sentences `rows`, shape (R, M), for a
        criterion that uses a response model.
    rank_margin
        Of rank differences, for separations.
    response_model
        How participants answer.
    """

    is_count: ClassVar[bool] = False
    uses_rank_margin: ClassVar[bool] = False
    uses_response_model: ClassVar[bool] = False
    column: ClassVar[str | None] = None

    def __init__(
        self,
        log_probs: pd.DataFrame,
        ranked: RankedScores,
        rows: IntArray,
        rank_margin: float = 0.0,
        response_model: ResponseModel | None = None,
    ) -> None:
        self.ranked, self.rank_margin, self.response_model = (
            ranked,
            rank_margin,
            response_model or ResponseModel(),
        )
        self.scaled: FloatArray = np.empty((0, 0))
        if self.uses_response_model:
            named = log_probs.set_axis([str(name) for name in log_probs.columns], axis=1)
            values = named.loc[ranked.labels, list(ranked.models)].to_numpy(dtype=np.float64)
            self.scaled = values / log_prob_scale(values[rows], ranked.models)

    def separated(self, pairs: IntArray) -> BoolArray:
        """Return which two models each pair of rows separates, shape (pairs, model pairs)."""
        signs = self.ranked.signs(pairs, self.rank_margin)
        i, j = np.triu_indices(len(self.ranked.models), 1)
        return np.asarray(signs[:, i] * signs[:, j] < 0)

    @abstractmethod
    def contributions(self, pairs: IntArray) -> FloatArray:
        """Return what each pair of rows adds for every two models, shape (pairs, model pairs).

        Model pairs are in the order of ``numpy.triu_indices(M, 1)``.
        """

    @abstractmethod
    def bound(self, rows: IntArray, n: int, uses: int) -> float:
        """Return what no `n` pairs of the sentences `rows` exceed for the two models of least.

        The least is at most every weighted mean over model pairs.
        """

    @property
    def even_splits(self) -> int:
        """How many of the model pairs a sentence pair separates that splits the models evenly."""
        m = len(self.ranked.models)
        return (m // 2) * (m - m // 2)


class Separation(SetCriterion):
    """How many sentence pairs separate two models."""

    is_count = True
    uses_rank_margin = True

    def contributions(self, pairs: IntArray) -> FloatArray:
        """Return 1 for two models that a pair separates."""
        return self.separated(pairs).astype(np.float64)

    def bound(self, rows: IntArray, n: int, uses: int) -> float:
        """Return the mean where every pair splits the models evenly; see `select_set`."""
        m = len(self.ranked.models)
        return float(n * self.even_splits // (m * (m - 1) // 2))


class LogBayesFactor(SetCriterion):
    """The expected log Bayes factor of one answer between two models."""

    uses_response_model = True
    column = "log_bayes_factor"

    def contributions(self, pairs: IntArray) -> FloatArray:
        """Return the expected log Bayes factors, nats."""
        one, two = pairs.T
        return log_bayes_factors(
            self.response_model.probabilities(self.scaled[two] - self.scaled[one])
        )

    def bound(self, rows: IntArray, n: int, uses: int) -> float:
        """Return what no `n` pairs of the sentences `rows` exceed for the two models of least.

        With equal weights no pair of sentences has more value than one on which the models split
        evenly and are as sure as they can be. With q = p - 1/2 and l = logit p, the sum over model
        pairs depends on one model's q as ((M - 1) q l - P l - L q) / 2, where P and L are the sums
        of q and l over the others. Its second derivative is at least
        (M - 1) (1/4 - a |q|) / (1/4 - q²)² > 0, as |P| <= (M - 1) a with a < 1/2 the largest |q|:
        convex, so the maximum has every q at an end.

        A second bound looks at the sentences. With z a sentence's standardised log-probabilities,
        models i and j get at most k(|z_i - z_j|) of either sentence together, k of
        `sentence_evidence_bounds`; the mean of z_i - z_j is taken off, as it is in both sentences.
        Summed with weights over model pairs and then over n pairs of different sentences, that is
        at most the sum over the 2 n sentences of most. Mirror descent moves the weights to where
        the bound is low; it holds at every step. It is not reached where the sentences of most are
        not opposite to each other.
        """
        m = len(self.ranked.models)
        count = m * (m - 1) // 2
        most = self.response_model.probabilities(
            np.array([-self.response_model.max_preference, self.response_model.max_preference])
        )
        bound = n * self.even_splits / count * float(log_bayes_factors(most)[0])
        sentences = -(-2 * n // uses)
        values = np.empty((len(rows), count), dtype=np.float32)
        for pair, (i, j) in enumerate(combinations(range(m), 2)):
            apart = self.scaled[rows, i] - self.scaled[rows, j]
            values[:, pair] = sentence_evidence_bounds(
                self.response_model, np.abs(apart - apart.mean())
            )
        weights = np.full(count, 1 / count)
        lowest = np.inf
        for step in range(_BOUND_STEPS):
            sums = values @ weights.astype(np.float32)
            top = np.argpartition(-sums, min(sentences, len(sums)) - 1)[:sentences]
            each = values[top].sum(axis=0, dtype=np.float64)
            # What single precision rounds off is far below one in a million.
            lowest = min(lowest, float(each @ weights) * (1 + 1e-6))
            weights = weights * np.exp(-2 / np.sqrt(step + 1) * each / max(each.max(), 1e-300))
            weights /= weights.sum()
        return min(bound, uses * lowest)
