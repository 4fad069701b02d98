"""Criteria of a selection of sentence pairs for a set of models, with upper bounds."""

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

# Steps of mirror descent that lower the bound on expected log Bayes factors.
_N_BOUND_STEPS = 80


class SetCriterion(ABC):
    """Base class of the criteria that score sentence pairs in `select_set`.

    A sentence pair helps to distinguish some pairs of models and not others. A criterion measures
    this help by one number for each sentence pair and each pair of models, the *contribution*. The
    contributions of the selected sentence pairs are added for each pair of models, and the
    selection maximises the smallest of these sums. The most similar models are thus distinguished
    as well as possible.

    A subclass defines `contributions` and an upper bound on the smallest sum, `bound`. Of M models,
    there are M (M - 1) / 2 pairs (`n_model_pairs`), in the order of ``numpy.triu_indices(M, 1)``.

    Parameters
    ----------
    log_probs : (S, M) DataFrame
        Log-probabilities of S sentences under M models, in nats.
    ranked
        Ranks of the R sentences that have a score under every model. Sentences are identified by
        their rows in this object.
    rows
        Rows of the sentences from which the standard deviation of each model's log-probabilities
        is computed.
    rank_margin : float, default 0
        A model prefers a sentence if the fractional ranks of the two sentences differ by more than
        this number.
    response_model : ResponseModel, optional
        Probabilities that participants choose a sentence, given the log-probabilities of a model;
        by default `ResponseModel()`.

    Attributes
    ----------
    is_count
        Whether contributions are 0 or 1, so that sums count sentence pairs.
    uses_rank_margin, uses_response_model
        Whether the criterion depends on `rank_margin` and on `response_model`.
    column
        Name of the output column that contains the mean contribution of each sentence pair over
        all pairs of models; None for no column.
    scaled : (R, M) array
        Log-probabilities divided by their standard deviation under each model. Empty if the
        criterion does not use `response_model`.
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
        self.ranked = ranked
        self.rank_margin = rank_margin
        self.response_model = response_model or ResponseModel()
        self.scaled: FloatArray = np.empty((0, 0))
        if self.uses_response_model:
            named = log_probs.set_axis([str(name) for name in log_probs.columns], axis=1)
            values = named.loc[ranked.labels, list(ranked.models)].to_numpy(dtype=np.float64)
            self.scaled = values / log_prob_scale(values[rows], ranked.models)

    @property
    def n_model_pairs(self) -> int:
        """Number of pairs of models, M (M - 1) / 2."""
        return len(self.ranked.models) * (len(self.ranked.models) - 1) // 2

    @property
    def max_separations(self) -> int:
        """Maximum number of pairs of models that one sentence pair separates.

        If k of M models prefer sentence 1 and the others sentence 2, k (M - k) pairs of models
        disagree. The maximum is reached by an even split, k = M // 2.
        """
        n_models = len(self.ranked.models)
        return (n_models // 2) * (n_models - n_models // 2)

    def separated(self, pairs: IntArray) -> BoolArray:
        """Return which pairs of models each sentence pair separates.

        A sentence pair separates two models if one model prefers sentence 1 and the other prefers
        sentence 2.

        Parameters
        ----------
        pairs : (P, 2) array
            Rows of the two sentences of each of P pairs.

        Returns
        -------
        (P, n_model_pairs) array of bool
            Whether each sentence pair separates each pair of models.
        """
        preferences = self.ranked.preferences(pairs, self.rank_margin)
        i, j = np.triu_indices(len(self.ranked.models), 1)
        return np.asarray(preferences[:, i] * preferences[:, j] < 0)

    @abstractmethod
    def contributions(self, pairs: IntArray) -> FloatArray:
        """Return the contribution of each sentence pair for each pair of models.

        Parameters
        ----------
        pairs : (P, 2) array
            Rows of the two sentences of each pair.

        Returns
        -------
        (P, n_model_pairs) array
            Contributions, one row per sentence pair and one column per pair of models.
        """

    @abstractmethod
    def bound(self, rows: IntArray, n: int, uses: int) -> float:
        """Return an upper bound on the objective of every selection.

        The objective is the smallest, over all pairs of models, of the sum of contributions. The
        bound shows how far a selection can be from the optimum. Since the smallest of several
        numbers is at most their weighted mean, subclasses bound a weighted mean of the sums.

        Parameters
        ----------
        rows
            Rows of the sentences that may be selected.
        n
            Number of sentence pairs to select.
        uses
            Maximum number of selected pairs that contain the same sentence.

        Returns
        -------
        float
            Upper bound, in the unit of the contributions.
        """


class Separation(SetCriterion):
    """Criterion that counts the sentence pairs on which two models disagree.

    A sentence pair contributes 1 for two models if one prefers sentence 1 and the other prefers
    sentence 2, and 0 otherwise.
    """

    is_count = True
    uses_rank_margin = True

    def contributions(self, pairs: IntArray) -> FloatArray:
        """Return 1 where the two models prefer different sentences, else 0."""
        return self.separated(pairs).astype(np.float64)

    def bound(self, rows: IntArray, n: int, uses: int) -> float:
        """Return the number of separations per pair of models if all splits are even.

        An even split of the models separates `max_separations` pairs of models, the maximum. With
        n sentence pairs, the mean over pairs of models is n `max_separations` / `n_model_pairs`,
        rounded down because separations are counted.
        """
        return float(n * self.max_separations // self.n_model_pairs)


class LogBayesFactor(SetCriterion):
    """Criterion that measures how strongly answers distinguish two models.

    The contribution of a sentence pair for two models is the expected log Bayes factor of one
    participant's answer, see `log_bayes_factors`. Probabilities of answers are predicted by
    `response_model`.
    """

    uses_response_model = True
    column = "log_bayes_factor"

    def contributions(self, pairs: IntArray) -> FloatArray:
        """Return the expected log Bayes factor of one answer in nats."""
        sentence_1, sentence_2 = pairs.T
        scaled_differences = self.scaled[sentence_2] - self.scaled[sentence_1]
        return log_bayes_factors(self.response_model.probabilities(scaled_differences))

    def bound(self, rows: IntArray, n: int, uses: int) -> float:
        """Return the smaller of two upper bounds on the objective.

        The first bound considers the best possible sentence pair, the second the best available
        sentences.

        **Sentence pairs.** With equal weights, no sentence pair contributes more than one that
        splits the models evenly with the most extreme probabilities. With q = p - 1/2 and
        l = logit p, the sum over pairs of models is, as a function of one model's q,
        ((M - 1) q l - P l - L q) / 2 plus a constant, where P and L are the sums of q and l over
        the other models. Its second derivative is at least
        (M - 1) (1/4 - a |q|) / (1/4 - q²)² > 0, since |P| <= (M - 1) a with a < 1/2 the largest
        |q|. The sum is convex in each q, so each q is extreme at the maximum.

        **Sentences.** With z the standardised log-probabilities of a sentence, the contribution of
        a pair for models i and j is at most the sum over its two sentences of k(|z_i - z_j - m|),
        where k is `sentence_evidence_bounds` and m the mean of z_i - z_j. With weights over pairs
        of models, the weighted sum over n pairs is therefore at most the sum over the 2 n / uses
        sentences with the largest weighted bounds, times `uses`. Mirror descent over the weights
        lowers this bound, which is valid at every step.
        """
        n_models, n_model_pairs = len(self.ranked.models), self.n_model_pairs
        # Bound on sentence pairs: an even split with the most extreme probabilities.
        max_preference = self.response_model.max_preference
        extremes = self.response_model.probabilities(np.array([-max_preference, max_preference]))
        max_factor = float(log_bayes_factors(extremes)[0])
        pair_bound = n * self.max_separations / n_model_pairs * max_factor

        # Bound on sentences: n pairs need at least 2 n / uses sentences, rounded up. `values`
        # are the largest shares of each sentence in the factor of each pair of models.
        n_sentences = -(-2 * n // uses)
        values = np.empty((len(rows), n_model_pairs), dtype=np.float32)
        for k, (i, j) in enumerate(combinations(range(n_models), 2)):
            differences = self.scaled[rows, i] - self.scaled[rows, j]
            centred = np.abs(differences - differences.mean())
            values[:, k] = sentence_evidence_bounds(self.response_model, centred)
        weights = np.full(n_model_pairs, 1 / n_model_pairs)
        sentence_bound = np.inf
        # Mirror descent: multiply the weights by exp(-step size * gradient), and normalise them.
        for step in range(_N_BOUND_STEPS):
            sums = values @ weights.astype(np.float32)
            top = np.argpartition(-sums, min(n_sentences, len(sums)) - 1)[:n_sentences]
            gradient = values[top].sum(axis=0, dtype=np.float64)
            # The factor covers rounding errors in single precision.
            sentence_bound = min(sentence_bound, float(gradient @ weights) * (1 + 1e-6))
            step_size = 2 / np.sqrt(step + 1)
            weights = weights * np.exp(-step_size * gradient / max(gradient.max(), 1e-300))
            weights /= weights.sum()
        return min(pair_bound, uses * sentence_bound)
