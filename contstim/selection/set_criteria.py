"""Criteria for the selection of sentence pairs that discriminate between the models of a set."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from itertools import combinations
from typing import ClassVar

import numpy as np
import pandas as pd

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.response_model import (
    ResponseModel,
    log_bayes_factors,
    log_prob_std,
    sentence_evidence_bounds,
)
from contstim.selection.scores import RankedScores

# Steps of mirror descent that lower the bound on expected log Bayes factors.
_N_BOUND_STEPS = 80


class SetCriterion(ABC):
    """Base class of the criteria by which `select_set` selects sentence pairs.

    A sentence pair distinguishes some pairs of models and not others. The *contribution* c[k, q]
    measures how well sentence pair k distinguishes the two models of pair q. A selection of
    sentence pairs maximises min_q sum_k c[k, q], that is, it distinguishes the two models that are
    hardest to distinguish as well as possible.

    A subclass defines `contributions` and an upper bound on the smallest sum, `bound`. The
    M (M - 1) / 2 pairs of M models have the order of ``numpy.triu_indices(M, 1)``.

    Parameters
    ----------
    log_probs : (S, M) DataFrame
        Log-probabilities of S sentences under M models, in nats.
    ranked
        Ranks of the R sentences that have a score under every model. The row of a sentence is its
        index in this object.
    rows
        Indices of the sentences from which the standard deviation of each model's log-probabilities
        is computed.
    rank_margin : float, default 0
        Difference between the fractional ranks of two sentences up to which a model prefers none of
        them.
    response_model : ResponseModel, optional
        Model of the probability that a participant chooses a sentence, given log-probabilities of
        the two sentences; by default `ResponseModel()`.

    Attributes
    ----------
    is_count
        Whether contributions are 0 or 1, so that their sum is a number of sentence pairs.
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
        # Standardised log-probabilities, shape (R, M); empty if the criterion needs ranks only.
        self.scaled: FloatArray = np.empty((0, 0))
        if self.uses_response_model:
            # Sentences and models in the order of `ranked`, then divide by the standard deviations.
            named = log_probs.set_axis([str(name) for name in log_probs.columns], axis=1)
            values = named.loc[ranked.labels, list(ranked.models)].to_numpy(dtype=np.float64)
            self.scaled = values / log_prob_std(values[rows], ranked.models)

    @property
    def n_model_pairs(self) -> int:
        """Number of pairs of models, M (M - 1) / 2."""
        return len(self.ranked.models) * (len(self.ranked.models) - 1) // 2

    @property
    def max_separations(self) -> int:
        """Maximum number of pairs of models that disagree about the same sentence pair.

        If k of M models prefer sentence 1 and the other models prefer sentence 2, k (M - k) pairs
        of models disagree. The maximum is reached if k = M // 2.
        """
        n_models = len(self.ranked.models)
        return (n_models // 2) * (n_models - n_models // 2)

    def is_separated(self, pairs: IntArray) -> BoolArray:
        """Return whether each sentence pair separates each pair of models.

        A sentence pair separates two models if one prefers sentence 1 and the other prefers
        sentence 2.

        Parameters
        ----------
        pairs : (P, 2) array
            Indices of the two sentences of each of P pairs.

        Returns
        -------
        (P, n_model_pairs) array of bool
            Whether each sentence pair separates each pair of models.
        """
        preferences = self.ranked.preferences(pairs, self.rank_margin)
        # All pairs of models. The product of two opposite preferences, 1 and -1, is negative.
        i, j = np.triu_indices(len(self.ranked.models), 1)
        return np.asarray(preferences[:, i] * preferences[:, j] < 0)

    @abstractmethod
    def contributions(self, pairs: IntArray) -> FloatArray:
        """Return how well each sentence pair distinguishes each pair of models.

        Parameters
        ----------
        pairs : (P, 2) array
            Indices of the two sentences of each pair.

        Returns
        -------
        (P, n_model_pairs) array
            Contributions of the sentence pairs, with one column for each pair of models.
        """

    @abstractmethod
    def bound(self, rows: IntArray, n: int, max_occurrences: int) -> float:
        """Return an upper bound on the objective of every selection.

        Let c[k, q] be the contribution of sentence pair k, which measures how well it distinguishes
        the two models of pair q. The objective of a selection is min_q s[q] with the sum of
        contributions s[q] = sum_k c[k, q] over the selected sentence pairs. The bound shows how far
        a selection can be from the optimum. Subclasses compute an upper bound on a weighted mean of
        the sums s[q]. It is also an upper bound on their minimum, which cannot exceed their mean.

        Parameters
        ----------
        rows
            Indices of the sentences that may be selected.
        n
            Number of sentence pairs to select.
        max_occurrences
            Maximum number of selected pairs that contain the same sentence.

        Returns
        -------
        float
            Upper bound, in the unit of the contributions.
        """


class Separation(SetCriterion):
    """Criterion that counts the sentence pairs on which two models disagree.

    The contribution of a sentence pair for two models is 1 if one model prefers sentence 1 and the
    other prefers sentence 2, and 0 otherwise. A model prefers the sentence that it ranks higher.
    """

    is_count = True
    uses_rank_margin = True

    def contributions(self, pairs: IntArray) -> FloatArray:
        """Return 1 where two models prefer different sentences of a pair, and 0 elsewhere."""
        return self.is_separated(pairs).astype(np.float64)

    def bound(self, rows: IntArray, n: int, max_occurrences: int) -> float:
        """Return an upper bound on the number of sentence pairs that separate any two models.

        One sentence pair separates at most `max_separations` of the `n_model_pairs` pairs of
        models. The number of the n sentence pairs that separate two models is therefore, on
        average over pairs of models, at most n * max_separations / n_model_pairs. The bound is
        rounded down, because it limits a whole number.
        """
        return float(n * self.max_separations // self.n_model_pairs)


class LogBayesFactor(SetCriterion):
    """Criterion that measures how strongly participants' answers distinguish two models.

    The contribution of a sentence pair for two models is the expected log Bayes factor of one
    answer, that is, the expected evidence for the model that generates the answers
    (`log_bayes_factors`). A response model predicts the probability of each answer from the
    log-probabilities of the sentences.
    """

    uses_response_model = True
    column = "log_bayes_factor"

    def contributions(self, pairs: IntArray) -> FloatArray:
        """Return the expected log Bayes factor of one answer to each sentence pair, in nats."""
        sentence_1, sentence_2 = pairs.T
        # Standardised log p(sentence 2) - log p(sentence 1), shape (P, M).
        scaled_differences = self.scaled[sentence_2] - self.scaled[sentence_1]
        return log_bayes_factors(self.response_model.probabilities(scaled_differences))

    def bound(self, rows: IntArray, n: int, max_occurrences: int) -> float:
        """Return the smaller of two upper bounds on the objective.

        **Bound from the best possible sentence pair.** The mean contribution over all pairs of
        models is largest for a sentence pair that splits the models evenly, with the most extreme
        probabilities of the answers. Proof: let p be the probability of an answer under one model,
        q = p - 1/2, l = logit p, and let Q and L be the sums of q and l over the other models. As a
        function of this model's q, the sum of the contributions is

            ((M - 1) q l - Q l - L q) / 2 + constant.

        If a < 1/2 is the largest |q|, then |Q| <= (M - 1) a, and the second derivative is at least
        (M - 1) (1/4 - a |q|) / (1/4 - q^2)^2 > 0. The sum is convex in q, and is therefore largest
        at an extreme value of q.

        **Bound from the best available sentences.** Let z be the standardised log-probabilities of
        a sentence. The contribution of a sentence pair for models i and j is at most the sum, over
        its two sentences, of b(|z_i - z_j - m|), where b is `sentence_evidence_bounds` and m is the
        mean of z_i - z_j over all sentences. For any weights w_ij with sum 1, the objective is at
        most

            k * (sum of sum_ij w_ij b_ij over the 2 n / k sentences with the largest values),

        where k is `max_occurrences`.

        Mirror descent finds weights with a low bound; the bound is valid at every step.
        """
        n_models, n_model_pairs = len(self.ranked.models), self.n_model_pairs
        # The objective is the smallest sum, over pairs of models, of expected log Bayes factors.
        # Bound from the best possible pair: an even split with the most extreme probabilities.
        max_preference = self.response_model.max_preference
        extremes = self.response_model.probabilities(np.array([-max_preference, max_preference]))
        max_factor = float(log_bayes_factors(extremes)[0])
        pair_bound = n * self.max_separations / n_model_pairs * max_factor

        # Bound from the available sentences, of which n pairs need at least `n_sentences`. Compute
        # the bound b_ij for each sentence (row) and each pair of models (column).
        n_sentences = math.ceil(2 * n / max_occurrences)
        evidence_bounds = np.empty((len(rows), n_model_pairs), dtype=np.float32)
        for column, (i, j) in enumerate(combinations(range(n_models), 2)):
            differences = self.scaled[rows, i] - self.scaled[rows, j]
            centred = np.abs(differences - differences.mean())
            evidence_bounds[:, column] = sentence_evidence_bounds(self.response_model, centred)
        weights = np.full(n_model_pairs, 1 / n_model_pairs)
        sentence_bound = np.inf
        # Mirror descent: multiply the weights by exp(-step size * gradient), and normalise them.
        for step in range(_N_BOUND_STEPS):
            sums = evidence_bounds @ weights.astype(np.float32)
            top = np.argpartition(-sums, min(n_sentences, len(sums)) - 1)[:n_sentences]
            gradient = evidence_bounds[top].sum(axis=0, dtype=np.float64)
            # The factor covers rounding errors in single precision.
            sentence_bound = min(sentence_bound, float(gradient @ weights) * (1 + 1e-6))
            step_size = 2 / np.sqrt(step + 1)
            weights = weights * np.exp(-step_size * gradient / max(gradient.max(), 1e-300))
            weights /= weights.sum()
        return min(pair_bound, max_occurrences * sentence_bound)
