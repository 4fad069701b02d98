"""Scoring metrics of masked models: which tokens are masked, predicted and added up.

Every metric is a weighted sum of *predictions* log p(token | visible tokens). A `MaskingPlan` lists
the masked copies of a sentence, the tokens to predict from each copy, and their weights. It
depends only on the numbers of tokens of the words, so sentences with the same numbers share one
cached plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.plugins import Registry

if TYPE_CHECKING:
    from contstim.models.hf.options import MaskedOptions

#: Number of scored tokens of each word of a sentence.
_WordLengths = tuple[int, ...]

#: Maximum number of masked copies of a sentence for the exact mean over all word orders. Sentences
#: that need more copies are scored by sampling word orders.
MAX_EXACT_ROWS = 65_536
# Maximum number of tokens of a word for the exact mean over all orders of its tokens while word
# orders are sampled. For longer words, token orders are sampled as well.
_MAX_EXACT_TOKENS = 5


@dataclass(frozen=True, eq=False)
class MaskingPlan:
    """Instructions for scoring a sentence of T tokens with a masked language model.

    The network predicts masked tokens from R copies of the sentence, each with a different set of
    masked tokens. The score is a weighted sum of n *predictions*, the log-probabilities of the
    predicted tokens.

    Some plans average over sampled orders of the words. Each order is paired with its reverse, and
    the standard error is computed from the scores of the pairs. The last four attributes describe
    the pairs; they are empty or 0 for plans without sampling.

    Attributes
    ----------
    masks
        Whether each copy masks each scored token, shape (R, T).
    copy_indices
        Index, in `masks`, of the copy that each prediction uses, in ascending order, shape (n,).
    token_indices
        Index of the predicted token among the scored tokens, shape (n,).
    weights
        Weight of each prediction in the score, shape (n,).
    pair_indices, prediction_indices, pair_weights
        The score of each pair of orders is a weighted sum of predictions. These three arrays list
        its weights: for each index e, the weight of prediction ``prediction_indices[e]`` in the
        score of pair ``pair_indices[e]`` is ``pair_weights[e]``.
    n_pairs
        Number of sampled pairs of orders.
    """

    masks: BoolArray
    copy_indices: IntArray
    token_indices: IntArray
    weights: FloatArray
    pair_indices: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    prediction_indices: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    pair_weights: FloatArray = field(default_factory=lambda: np.zeros(0))
    n_pairs: int = 0

    def sum_by_token(self, values: FloatArray) -> FloatArray:
        """Return the score of each token of the sentence.

        A token can be predicted from several masked copies of the sentence. Its score is the sum of
        the predicted log-probabilities, each multiplied by its element of `weights`.

        Parameters
        ----------
        values
            Log-probabilities in nats of the n predicted tokens, shape (n,). Element i is for token
            ``token_indices[i]``, predicted from copy ``copy_indices[i]`` of the sentence.

        Returns
        -------
        array
            Scores in nats of the T scored tokens, shape (T,); their sum is the sentence score.
        """
        sums = np.bincount(self.token_indices, self.weights * values, minlength=self.masks.shape[1])
        return sums.astype(np.float64)

    def stderr(self, values: FloatArray) -> float:
        """Return the standard error of a score that is averaged over sampled word orders.

        With the scores s_1, ..., s_K of K pairs, each of an order and its reverse, it is the
        standard deviation of s divided by the square root of K.

        Parameters
        ----------
        values
            Log-probabilities in nats of the n predicted tokens, shape (n,). Element i is for token
            ``token_indices[i]``, predicted from copy ``copy_indices[i]`` of the sentence.

        Returns
        -------
        float
            Standard error in nats; 0 if no orders are sampled.
        """
        if not self.n_pairs:
            return 0.0
        weighted_values = self.pair_weights * values[self.prediction_indices]
        pair_scores = np.bincount(self.pair_indices, weighted_values, minlength=self.n_pairs)
        return float(pair_scores.std(ddof=1) / np.sqrt(self.n_pairs))


def apply_masks(ids: IntArray, positions: IntArray, masks: BoolArray, mask_id: int) -> IntArray:
    """Create R copies of a sentence, each with a different set of masked tokens.

    Parameters
    ----------
    ids
        Token ids of the sentence, shape (L,).
    positions
        Positions of the scored tokens, shape (T,).
    masks
        Whether each copy masks each scored token, shape (R, T).
    mask_id
        Id of the mask token.

    Returns
    -------
    array
        Token ids of the copies, shape (R, L).
    """
    rows = np.tile(ids, (len(masks), 1))
    rows[:, positions] = np.where(masks, mask_id, rows[:, positions])
    return rows


#: Type of functions that build a masking plan. Their arguments are the number of scored tokens of
#: each word, the index of the word of each scored token, shape (T,), and the options of the model.
Metric = Callable[[_WordLengths, IntArray, "MaskedOptions"], MaskingPlan]


def one_mask_per_token(masks: BoolArray) -> MaskingPlan:
    """Return a masking plan that predicts each token once, from a separate copy of the sentence.

    Parameters
    ----------
    masks
        Element (t, u) states whether the copy that predicts token t masks token u, shape (T, T).
    """
    tokens = np.arange(len(masks))
    return MaskingPlan(masks, tokens, tokens, np.ones(len(masks)))


def pll(word_lengths: _WordLengths, word_indices: IntArray, options: MaskedOptions) -> MaskingPlan:
    """Return a plan that masks each token alone (Salazar et al. 2020, Eq. 2)."""
    return one_mask_per_token(np.eye(len(word_indices), dtype=np.bool_))


def pll_word_l2r(
    word_lengths: _WordLengths, word_indices: IntArray, options: MaskedOptions
) -> MaskingPlan:
    """Return a plan that masks a token and the rest of its word (Kauf & Ivanova 2023, Eq. 2)."""
    return one_mask_per_token(np.triu(word_indices[:, None] == word_indices[None, :]))


def pll_whole_word(
    word_lengths: _WordLengths, word_indices: IntArray, options: MaskedOptions
) -> MaskingPlan:
    """Return a plan that masks all tokens of a word (Kauf & Ivanova 2023, Eq. 3)."""
    masks = word_indices[None, :] == np.arange(len(word_lengths))[:, None]
    tokens = np.arange(len(word_indices))
    return MaskingPlan(masks, word_indices, tokens, np.ones(len(tokens)))


def pll_sentence_l2r(
    word_lengths: _WordLengths, word_indices: IntArray, options: MaskedOptions
) -> MaskingPlan:
    """Return a plan that masks a token and all later tokens (Kauf & Ivanova 2023, appendix G)."""
    n_tokens = len(word_indices)
    return one_mask_per_token(np.triu(np.ones((n_tokens, n_tokens), dtype=np.bool_)))


def permutation(
    word_lengths: _WordLengths, word_indices: IntArray, options: MaskedOptions
) -> MaskingPlan:
    """Return a plan that averages over the orders of the words (Golan et al. 2023, section 4.3).

    In a given order, the words are revealed one at a time, and each is predicted from the words
    that were revealed before. By the chain rule, the sum of the log-probabilities is a
    log-probability of the sentence. For W words, the mean over all W! orders is

        sum_i sum_R |R|! (W - 1 - |R|)! / W! log P(w_i | R revealed),

    where R runs over the subsets of the words other than word i. The log-probability of a word of
    several tokens is the mean over the orders of its tokens, by the same formula.

    The mean is exact if the sentence has at most ``options.exact`` words and needs at most
    `MAX_EXACT_ROWS` masked copies. Otherwise ``options.orders`` orders are sampled.
    """
    n_words = len(word_lengths)
    # Each word is predicted after other words have been revealed, averaged over the orders of the
    # words. `options.exact` is the largest number of words for which all orders are used.
    if n_words <= options.exact:
        # Each set of masked words needs one copy. A masked word of k tokens can also be masked in
        # part, in 2**k - 2 ways, for each set of the other words.
        n_partial = sum(2**k - 2 for k in word_lengths) * 2 ** (n_words - 1)
        if 2**n_words - 1 + n_partial <= MAX_EXACT_ROWS:
            return _plan_all_orders(word_lengths, word_indices)
    # Otherwise average over a random sample of orders.
    return _plan_sampled_orders(word_lengths, word_indices, options)


def shapley_weights(n: int) -> FloatArray:
    """Return the weights of the Shapley value, r! (n - 1 - r)! / n! for r = 0, ..., n - 1.

    Weight r is the probability that, in a random order of n elements, the elements before a given
    element are exactly a given set of r elements (Shapley 1953).
    """
    return np.array([1.0 / (n * comb(n - 1, r)) for r in range(n)])


def _plan_all_orders(word_lengths: _WordLengths, word_indices: IntArray) -> MaskingPlan:
    """Build the masking plan for the exact mean over all orders of words and of their tokens.

    A masking plan lists masked copies of the sentence and the tokens to predict from them. Many
    orders need the same masked copy, which is listed once. The weight of a prediction is the
    probability that a random order needs it (`shapley_weights`).
    """
    n_words = len(word_lengths)

    # One copy for every non-empty set of masked words predicts all tokens of these words. The
    # binary digits of the numbers 1, ..., 2**W - 1 enumerate the sets.
    is_masked = (np.arange(1, 2**n_words)[:, None] >> np.arange(n_words)) & 1 == 1
    n_revealed = n_words - is_masked.sum(axis=1)
    word_weights = shapley_weights(n_words)[n_revealed]
    is_token_masked = is_masked[:, word_indices]
    rows, tokens = np.nonzero(is_token_masked)
    # Each of the k tokens of a word is predicted first in 1 / k of the orders of its tokens.
    first_token_weights = 1 / np.asarray(word_lengths)[word_indices]
    masks, row_parts, token_parts = [is_token_masked], [rows], [tokens]
    weight_parts = [word_weights[rows] * first_token_weights[tokens]]

    # Further copies reveal some tokens of one masked word and predict its other tokens.
    n_rows = len(is_masked)
    for word in range(n_words):
        word_tokens = np.flatnonzero(word_indices == word)
        token_weights = shapley_weights(len(word_tokens))
        base_rows = np.flatnonzero(is_masked[:, word])
        for revealed in _list_proper_subsets(word_tokens.tolist()):
            word_masks = is_token_masked[base_rows]
            word_masks[:, revealed] = False
            targets = np.setdiff1d(word_tokens, revealed)
            # Multiply the weight over word orders by the weight over orders of the word's tokens.
            weights = word_weights[base_rows] * token_weights[len(revealed)]
            masks.append(word_masks)
            new_rows = np.arange(n_rows, n_rows + len(base_rows))
            row_parts.append(np.repeat(new_rows, len(targets)))
            token_parts.append(np.tile(targets, len(base_rows)))
            weight_parts.append(np.repeat(weights, len(targets)))
            n_rows += len(base_rows)
    return MaskingPlan(
        masks=np.concatenate(masks),
        copy_indices=np.concatenate(row_parts),
        token_indices=np.concatenate(token_parts),
        weights=np.concatenate(weight_parts),
    )


def _plan_sampled_orders(
    word_lengths: _WordLengths, word_indices: IntArray, options: MaskedOptions
) -> MaskingPlan:
    """Build the masking plan for the mean over sampled orders of the words.

    Each order is paired with its reverse (antithetic sampling), which decreases the variance of the
    mean. The orders depend only on the seed and the number of words, so sentences with the same
    number of words are scored with the same orders.
    """
    n_words, n_pairs = len(word_lengths), options.orders // 2
    rng = np.random.default_rng([options.seed, n_words])
    word_tokens = [np.flatnonzero(word_indices == word).tolist() for word in range(n_words)]
    # Number the masked copies (rows) and the predictions by first occurrence. A prediction is
    # identified by its row and the predicted token.
    row_by_mask: dict[frozenset[int], int] = {}
    index_by_prediction: dict[tuple[int, int], int] = {}
    pair_indices: list[int] = []
    prediction_indices: list[int] = []
    pair_weights: list[float] = []
    for pair in range(n_pairs):
        word_order = rng.permutation(n_words)
        # The mean over the token orders of a word is exact for all but long words.
        token_orders = [rng.permutation(k) if k > _MAX_EXACT_TOKENS else None for k in word_lengths]
        reversed_token_orders = [None if order is None else order[::-1] for order in token_orders]
        orders = (word_order, token_orders), (word_order[::-1], reversed_token_orders)
        for words, orders_within_words in orders:
            predictions = _iter_order_predictions(word_tokens, words, orders_within_words)
            for mask, target, weight in predictions:
                row = row_by_mask.setdefault(mask, len(row_by_mask))
                pair_indices.append(pair)
                index = index_by_prediction.setdefault((row, target), len(index_by_prediction))
                prediction_indices.append(index)
                # The score of a pair is the mean over its two orders.
                pair_weights.append(weight / 2)

    masks = np.zeros((len(row_by_mask), len(word_indices)), dtype=np.bool_)
    for mask, row in row_by_mask.items():
        masks[row, list(mask)] = True
    # Sort the predictions by row. `argsort(order)` gives the new number of each prediction.
    rows, tokens = np.array(list(index_by_prediction), dtype=np.int64).T
    order = np.argsort(rows, kind="stable")
    sorted_indices = np.argsort(order)[np.array(prediction_indices)]
    weights = np.array(pair_weights)
    return MaskingPlan(
        masks=masks,
        copy_indices=rows[order],
        token_indices=tokens[order],
        weights=np.bincount(sorted_indices, weights, minlength=len(rows)) / n_pairs,
        pair_indices=np.array(pair_indices, dtype=np.int64),
        prediction_indices=sorted_indices,
        pair_weights=weights,
        n_pairs=n_pairs,
    )


def _iter_order_predictions(
    word_tokens: Sequence[list[int]], word_order: IntArray, token_orders: Sequence[IntArray | None]
) -> Iterator[tuple[frozenset[int], int, float]]:
    """Yield the predictions of all tokens of a sentence whose words are unmasked in one order.

    The tokens of a word are predicted from the words that come before it in this order.

    Parameters
    ----------
    word_tokens
        Indices of the tokens of each of W words.
    word_order
        Indices of the words in the order in which they are revealed, shape (W,).
    token_orders
        Order of the tokens of each word; None for the mean over all orders.

    Yields
    ------
    masked : frozenset of int
        Indices of the masked tokens.
    target : int
        Index of the predicted token.
    weight : float
        Weight of the prediction.
    """
    masked = frozenset(token for tokens in word_tokens for token in tokens)
    # At first, all tokens are masked. The words are predicted one at a time, in `word_order`.
    for word in word_order:
        tokens, token_order = word_tokens[word], token_orders[word]
        # Within the word, the tokens are also predicted one at a time: some of its tokens are
        # visible already, and the target tokens are predicted from them and from the other words.
        for visible, targets, weight in _iter_word_predictions(tokens, token_order):
            for target in targets:
                yield masked.difference(visible), target, weight
        # The words that follow in this order are predicted with this word unmasked.
        masked = masked.difference(tokens)


def _iter_word_predictions(
    tokens: list[int], order: IntArray | None
) -> Iterator[tuple[Sequence[int], Collection[int], float]]:
    """Yield the steps in which the tokens of one masked word are predicted.

    In each step, some tokens of the word are already visible, and one or more of the other tokens
    are predicted from them.

    Parameters
    ----------
    tokens
        Indices of the tokens of the word in the sentence.
    order
        Order in which the tokens are predicted, as a permutation of 0, ..., ``len(tokens) - 1``. If
        it is None, the steps of all orders are yielded, with weights that average over the orders.

    Yields
    ------
    visible : sequence of int
        Tokens of the word that are not masked.
    targets : collection of int
        Tokens that are predicted.
    weight : float
        Weight of each prediction.
    """
    if order is None:
        # Mean over all orders: each subset of the tokens may be visible, and each other token may
        # be predicted next. The weight is the fraction of all orders in which this happens. Yield
        # the visible tokens, the tokens to predict, and the weight.
        weights = shapley_weights(len(tokens))
        for visible in [[], *_list_proper_subsets(tokens)]:
            yield visible, set(tokens).difference(visible), float(weights[len(visible)])
    else:
        # One order: predict each token from the tokens that precede it in this order.
        for n_visible, index in enumerate(order):
            yield [tokens[k] for k in order[:n_visible]], [tokens[index]], 1.0


def _list_proper_subsets(tokens: list[int]) -> list[list[int]]:
    """Return all subsets of the tokens, except the empty set and the whole set."""
    sizes = range(1, len(tokens))
    return [list(subset) for size in sizes for subset in combinations(tokens, size)]


#: Metrics by name.
METRICS = Registry[Metric](
    "metric",
    "contstim.metrics",
    {
        "pll": pll,
        "pll-word-l2r": pll_word_l2r,
        "pll-whole-word": pll_whole_word,
        "pll-sentence-l2r": pll_sentence_l2r,
        "permutation": permutation,
    },
)


@lru_cache(maxsize=128)
def create_masking_plan(word_lengths: _WordLengths, options: MaskedOptions) -> MaskingPlan:
    """Return the copies of a sentence to mask, and the tokens to predict from them, for a metric.

    Parameters
    ----------
    word_lengths
        Number of scored tokens of each word, for example (1, 2, 1).
    options
        Options of the model; ``options.metric`` is the name of the metric.
    """
    word_indices = np.repeat(np.arange(len(word_lengths)), word_lengths)
    return METRICS[options.metric](word_lengths, word_indices, options)


@dataclass(frozen=True, eq=False)
class ClassifiedPredictions:
    """Predictions that add up to the score of a sentence, classified by their relation to one word.

    A *prediction* is the log-probability of a token, computed from a copy of the sentence in which
    some tokens are masked. The score of the sentence is the weighted sum of K predictions, which
    its `MaskingPlan` lists.

    Attributes
    ----------
    word_tokens
        Indices of the n tokens of the word among the scored tokens of the sentence, shape (n,).
    word_from_masked, others_from_masked
        Indices, in the plan, of the predictions from copies in which the whole word is masked:
        predictions of the word's tokens, and of the tokens of other words.
    word_from_visible, others_from_visible
        Indices of the predictions from copies in which a token of the word is visible.
    """

    word_tokens: IntArray
    word_from_masked: IntArray
    others_from_masked: IntArray
    word_from_visible: IntArray
    others_from_visible: IntArray


@lru_cache(maxsize=128)
def classify_predictions(
    word_lengths: tuple[int, ...], position: int, options: MaskedOptions
) -> ClassifiedPredictions:
    """Classify the predictions of a sentence's tokens by whether they change with one word.

    Each token is predicted from a copy of the sentence with some masked tokens. A prediction
    changes with the word if it is for one of the word's tokens, or if the copy shows one.

    Parameters
    ----------
    word_lengths
        Number of scored tokens of each word of the sentence.
    position
        Index of the word, counted from 0.
    options
        Options of the model, including the metric, which determines the predictions.

    """
    plan = create_masking_plan(word_lengths, options)
    start = sum(word_lengths[:position])  # index of the word's first token
    word_tokens = np.arange(start, start + word_lengths[position])
    # The plan lists tokens to predict from masked copies of the sentence. Find predictions of
    # the word's tokens, and copies that mask the whole word.
    predicts_word = np.isin(plan.token_indices, word_tokens)
    is_word_masked = np.all(plan.masks[:, word_tokens], axis=1)[plan.copy_indices]
    return ClassifiedPredictions(
        word_tokens,
        word_from_masked=np.flatnonzero(predicts_word & is_word_masked),
        others_from_masked=np.flatnonzero(~predicts_word & is_word_masked),
        word_from_visible=np.flatnonzero(predicts_word & ~is_word_masked),
        others_from_visible=np.flatnonzero(~predicts_word & ~is_word_masked),
    )
