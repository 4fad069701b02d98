"""Scores of a sentence under a masked model with one word replaced by each of many candidates.

The score of a sentence is a weighted sum of *predictions*. A prediction is the log-probability of
one token, which the network computes from a copy of the sentence in which some tokens are masked.
It depends on the candidate in one of three ways:

- If the copy masks the whole candidate and a token of another word is predicted, the prediction is
  the same for all candidates.
- If the copy masks the whole candidate and a token of the candidate is predicted, one run of the
  network gives the prediction for all candidates.
- If the copy shows a token of the candidate, the prediction is computed for each candidate
  separately.

Predictions of the first two kinds are called *shared*: candidates with the same number of tokens
need the same copies. Upper bounds of the scores use shared predictions only, and not all of them,
because the cost is limited. A prediction that is not computed is replaced by 0, the highest
log-probability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.base import ReplacementScores, ScoringCost
from contstim.models.hf import metrics
from contstim.models.hf.encoding import check_length
from contstim.models.hf.metrics import MaskingPlan, apply_masks
from contstim.models.hf.transformer import SurroundingTokens
from contstim.text import Sentence, WordList

if TYPE_CHECKING:
    from contstim.models.hf.masked import MaskedModel

#: Maximum cost of the upper bounds of all candidates, as a multiple of the cost of one run of the
#: network on the sentence. Twice this number lowers the bounds by 2 to 3 nats, but does not improve
#: the estimates.
MAX_BOUND_INPUTS = 70
# Typical log-probability of a token with other tokens of its word visible, divided by its
# log-probability with the whole word masked. Only estimates depend on this number.
_VISIBLE_WORD_FACTOR = 0.7
# Number of batches of masked copies that are prepared in memory at a time.
_BATCHES_AT_ONCE = 4


class MaskedWord:
    """Sentence with a masked word, which is replaced by candidates of `n` tokens.

    The network predicts tokens from masked copies of the sentence. The score of the sentence is a
    weighted sum of the predicted log-probabilities, called *predictions*. Copies that mask the
    whole word are equal for all candidates, so their predictions are *shared* and computed once.

    Parameters
    ----------
    model
        Model that scores the candidates.
    surrounding
        Tokens of the sentence before and after the word.
    word_lengths
        Number of scored tokens of each word of the original sentence.
    position
        Index of the word, counted from 0.
    n
        Number of tokens of the candidates.

    Attributes
    ----------
    plan
        The R masked copies of the sentence with a word of `n` tokens, and the predictions.
    predictions
        Indices of the predictions, grouped by predicted token (in the word or in another word) and
        copy (with the whole word masked or not).
    shared, individual
        Indices of the shared and of all other predictions.
    ids
        Token ids of the sentence with the whole word masked, shape (L,).
    positions
        Positions of the T scored tokens, shape (T,).
    other_words_sum
        Weighted sum in nats of the shared predictions computed so far for tokens of other words.
    candidate_token_sums
        Weighted sums in nats of the shared predictions computed so far for tokens of the candidate.
        Element (j, v) assumes that token j of the candidate is token v of the vocabulary, (n, V).
    is_computed
        Whether the network has been run on each masked copy, shape (R,).
    """

    def __init__(
        self,
        model: MaskedModel,
        surrounding: SurroundingTokens,
        word_lengths: tuple[int, ...],
        position: int,
        n: int,
    ) -> None:
        self.model, self.surrounding, self.n = model, surrounding, n
        # The sentence has n tokens at `position`, and the original numbers of tokens elsewhere.
        word_lengths = (*word_lengths[:position], n, *word_lengths[position + 1 :])
        self.plan = metrics.create_masking_plan(word_lengths, model.options)
        kinds = metrics.classify_predictions(word_lengths, position, model.options)
        # Predictions from copies that mask the whole word are shared by all candidates.
        self.shared = np.sort(np.append(kinds.word_from_masked, kinds.others_from_masked))
        self.individual = np.sort(np.append(kinds.word_from_visible, kinds.others_from_visible))
        self.predictions = kinds
        # Tokens of the sentence with n masks in place of the word.
        self.ids = surrounding.fill(np.full((1, n), model.mask_id))[0]
        self.positions = surrounding.scored_positions(n)
        # Sums so far for tokens of other words, and for every possible token of the candidate.
        self.other_words_sum = 0.0
        self.candidate_token_sums = torch.zeros(
            (n, model.network.n_logits), dtype=torch.float64, device=model.network.device
        )
        self.is_computed = np.zeros(len(self.plan.masks), dtype=np.bool_)

    @property
    def n_inputs(self) -> int:
        """Number of masked copies to compute for the exact score of a candidate, at least 1.

        Copies that mask the whole candidate are not counted: all candidates share them.
        """
        copies = self.plan.copy_indices[self.individual]
        # Indices of copies are in ascending order: count the changes to get the number of copies.
        return int(np.count_nonzero(np.diff(copies))) + 1

    def weigh_shared_copies(self) -> tuple[IntArray, FloatArray]:
        """Find the copies of the sentence in which the whole word is masked, and their weights.

        Returns
        -------
        copies : array
            Indices of these copies in the masking plan, in ascending order, shape (r,).
        weights : array
            Sum of the weights, in the score, of the log-probabilities that are predicted from each
            copy, shape (r,).
        """
        copy_by_prediction = self.plan.copy_indices[self.shared]
        weights = np.bincount(copy_by_prediction, self.plan.weights[self.shared])
        copies = np.unique(copy_by_prediction)
        return copies, np.asarray(weights[copies], np.float64)

    def compute(self, copies: IntArray) -> None:
        """Run the network on masked copies of the sentence, and add the predictions to the sums.

        The log-probabilities of tokens are added to `other_words_sum` or `candidate_token_sums`.

        Parameters
        ----------
        copies
            Indices of copies in the masking plan, in which the whole word is masked. Copies that
            have already been computed are skipped.
        """
        plan, model, network = self.plan, self.model, self.model.network
        is_new = np.zeros(len(self.is_computed), dtype=np.bool_)
        is_new[copies] = True
        is_new &= ~self.is_computed
        predictions = self.shared[is_new[plan.copy_indices[self.shared]]]
        if len(predictions) == 0:
            return
        self.is_computed |= is_new
        masks, rows = _select_masks(plan, predictions)
        inputs = apply_masks(self.ids, self.positions, masks, model.mask_id)
        tokens, weights = plan.token_indices[predictions], plan.weights[predictions]
        predicts_word = np.isin(tokens, self.predictions.word_tokens)
        positions = self.positions[tokens]
        for batch, logits in network.iter_logits(inputs, rows, positions, model.batch_tokens):
            batch_weights = torch.from_numpy(weights[batch]).to(network.device)
            # Predictions of other words are the same for all candidates: add them to one number.
            other_words = np.flatnonzero(~predicts_word[batch])
            if len(other_words):
                indices = torch.from_numpy(other_words).to(network.device)
                target_ids = self.ids[positions[batch][other_words]]
                targets = torch.from_numpy(target_ids).to(network.device)
                log_probs = model.normaliser.log_probs(logits[indices], targets).to(torch.float64)
                self.other_words_sum += float((batch_weights[indices] * log_probs).sum())
            # Predictions of the word depend on the candidate: add them for the whole vocabulary.
            for j, token in enumerate(self.predictions.word_tokens):
                of_token = np.flatnonzero(tokens[batch] == token)
                if len(of_token):
                    indices = torch.from_numpy(of_token).to(network.device)
                    self.candidate_token_sums[j] += model.normaliser.weighted_sum(
                        logits[indices], batch_weights[indices]
                    )

    def sum_candidate_tokens(self, tokens: IntArray) -> FloatArray:
        """Return the part of the sentence score that predicts the candidate's own tokens.

        The score of a sentence under a masked model is a weighted sum of log-probabilities of
        masked tokens. This method sums those of the candidate's tokens that were predicted with the
        whole candidate masked, and that `compute` has already computed.

        Parameters
        ----------
        tokens
            Token ids of the candidates, shape (k, n).

        Returns
        -------
        array
            Partial scores in nats, shape (k,).
        """
        table = self.candidate_token_sums.cpu().numpy()
        return np.asarray(table[np.arange(self.n), tokens].sum(axis=1))

    def get_extrapolation_factor(self) -> float | None:
        """Return the factor by which estimates scale the sum from `sum_candidate_tokens`.

        The sum contains only the predictions of the candidate that have been computed. The factor
        extrapolates it to all predictions. It is (w_m + 0.7 w_v) / w_c with three total weights:
        w_m of predictions with the whole candidate masked, w_v of predictions with a visible token
        of the candidate (these are closer to 0), and w_c of the predictions computed so far.

        Returns
        -------
        float or None
            The factor; None if no prediction of the candidate has been computed.
        """
        weights, masked = self.plan.weights, self.predictions.word_from_masked
        computed = masked[self.is_computed[self.plan.copy_indices[masked]]]
        computed_weight = float(weights[computed].sum())
        if computed_weight == 0.0:
            return None
        # Predictions of the candidate's tokens with other tokens of the candidate visible. These
        # log-probabilities are closer to 0, hence the factor.
        visible_weight = _VISIBLE_WORD_FACTOR * weights[self.predictions.word_from_visible].sum()
        return float(weights[masked].sum() + visible_weight) / computed_weight

    def whole_word_log_probs(self, tokens: IntArray) -> FloatArray:
        """Return the log-probability of each candidate, predicted from all other words.

        It is sum_t log p(t | all other words), where t runs over the n tokens of the candidate.

        Parameters
        ----------
        tokens
            Token ids of the candidates, shape (k, n).

        Returns
        -------
        array
            Log-probabilities in nats, shape (k,).
        """
        normaliser, positions = self.model.normaliser, self.positions[self.predictions.word_tokens]
        logits = self.model.network.logits_at([self.ids.tolist()], [positions.tolist()])[0]
        weight = torch.ones(1, device=logits.device)
        log_probs = [normaliser.weighted_sum(row[None], weight) for row in logits]
        table = torch.stack(log_probs).cpu().numpy()
        return np.asarray(table[np.arange(self.n), tokens].sum(axis=1))

    def make_prediction_keys(self, predictions: IntArray) -> list[tuple[bytes, int]]:
        """Return keys that identify predictions independently of the candidate's length.

        A *prediction* is the log-probability of one token, computed from a copy of the sentence in
        which some tokens are masked. The same prediction has different indices in sentences with a
        short and with a long candidate, but the same key. With the keys, log-probabilities in the
        original sentence can serve as estimates for candidates of any length.

        Parameters
        ----------
        predictions
            Indices in the masking plan of k predictions of tokens outside the candidate.

        Returns
        -------
        list of tuple
            Key of each prediction: the masks of all tokens outside the candidate, packed into
            bytes, and the index of the predicted token among these tokens.
        """
        plan, candidate_tokens = self.plan, self.predictions.word_tokens
        # Masked copy of the sentence from which each token is predicted, and index of the token.
        copies, predicted_tokens = plan.copy_indices[predictions], plan.token_indices[predictions]
        other_tokens = np.delete(np.arange(plan.masks.shape[1]), candidate_tokens)
        used_copies = np.unique(copies)
        # Store eight elements of a mask in one byte, which makes the keys short and hashable.
        packed_masks = np.packbits(plan.masks[np.ix_(used_copies, other_tokens)], axis=1)
        mask_by_copy = dict(zip(used_copies.tolist(), map(bytes, packed_masks), strict=True))
        # Number the tokens as if the candidate, which has n tokens, were not in the sentence.
        n_before = np.where(predicted_tokens > candidate_tokens[-1], self.n, 0)
        indices = (predicted_tokens - n_before).tolist()
        return [(mask_by_copy[c], i) for c, i in zip(copies.tolist(), indices, strict=True)]

    def find_missing_predictions(self) -> IntArray:
        """Return the indices of shared predictions of other words that are not computed yet.

        A shared prediction is the log-probability of a token, predicted from a copy of the sentence
        in which the whole candidate is masked. Upper bounds replace the missing log-probabilities
        of other words by 0, and estimates replace them by their values in the original sentence.
        """
        predictions = self.predictions.others_from_masked
        return predictions[~self.is_computed[self.plan.copy_indices[predictions]]]

    def score(self, tokens: IntArray) -> FloatArray:
        """Return the exact scores of the sentence with each of k candidates.

        Predictions with the whole candidate masked are computed first, for all candidates at once.
        The other predictions are computed for each candidate from masked copies of its sentence.

        Parameters
        ----------
        tokens
            Token ids of the candidates, shape (k, n).

        Returns
        -------
        array
            Scores in nats, shape (k,).
        """
        model, plan = self.model, self.plan
        # Copies of the sentence that mask the whole candidate: run the network on them only once.
        self.compute(np.unique(plan.copy_indices[self.shared]))
        # Log-probabilities that are predicted with a token of the candidate visible: run the
        # network on masked copies of the sentence for each candidate, and sum them with weights.
        visible_sums = np.zeros(len(tokens), dtype=np.float64)
        if len(self.individual):
            masks, rows = _select_masks(plan, self.individual)
            positions = self.positions[plan.token_indices[self.individual]]
            sentences = self.surrounding.fill(tokens)  # (candidates, tokens of the sentence)
            n_copies = len(masks)
            # Limit the number of sentences in memory.
            step = max(1, _BATCHES_AT_ONCE * model.batch_tokens // (n_copies * len(self.ids)))
            for start in range(0, len(sentences), step):
                block = sentences[start : start + step]
                inputs = [apply_masks(ids, self.positions, masks, model.mask_id) for ids in block]
                # Log-probabilities of the predicted tokens: (sentences, predictions).
                log_probs = model.network.log_probs(
                    np.concatenate(inputs),
                    np.concatenate([rows + k * n_copies for k in range(len(block))]),
                    np.tile(positions, len(block)),
                    block[:, positions].reshape(-1),
                    model.normaliser,
                    model.batch_tokens,
                ).reshape(len(block), -1)
                visible_sums[start : start + len(block)] = log_probs @ plan.weights[self.individual]
        return visible_sums + self.other_words_sum + self.sum_candidate_tokens(tokens)


def _select_masks(plan: MaskingPlan, predictions: IntArray) -> tuple[BoolArray, IntArray]:
    """Select the masked copies of a sentence from which some tokens are predicted.

    Parameters
    ----------
    plan
        Masked copies of a sentence with T scored tokens, and tokens to predict from each copy.
    predictions
        Indices of k predictions in the plan, shape (k,).

    Returns
    -------
    masks : array
        Whether token t is masked in copy c, shape (r, T), for the r copies that are needed.
    rows : array
        Row in `masks` of the copy that each prediction uses, shape (k,).
    """
    copies, rows = np.unique(plan.copy_indices[predictions], return_inverse=True)
    return plan.masks[copies], rows.astype(np.int64)


def compute_shared_predictions(
    masked_words: dict[int, MaskedWord], n_candidates: dict[int, int], length: int
) -> None:
    """Compute predictions that all candidates with equally many tokens share, within a budget.

    The network predicts tokens from copies of the sentence with some tokens masked. If the whole
    candidate is masked, all candidates with the same number of tokens share the copy. Copies of
    this kind are selected, and the network is run on them. `MaskedWord.compute` stores the results
    in `masked_words`. They give upper bounds of the scores.

    Copies are selected in decreasing order of benefit / cost. The benefit of a copy is the total
    weight of its predictions in the score, times the number of candidates that share it. Its cost
    is its number of tokens. The total cost is at most `MAX_BOUND_INPUTS` times the length of the
    original sentence, but at least one copy is computed for each number of tokens.

    Parameters
    ----------
    masked_words
        Sentence in which n masks replace the word, by n. It stores the computed log-probabilities.
    n_candidates
        Number of candidates of n tokens, by n.
    length
        Number of tokens of the original sentence.
    """
    copies_with_ratios: list[tuple[float, int, int]] = []
    # Copies of the sentence that mask all n tokens of a candidate are equal for all candidates of n
    # tokens. Rank them by benefit / cost. List this ratio, n, and the copy's index in the plan.
    for n, masked_word in masked_words.items():
        copies, weights = masked_word.weigh_shared_copies()
        ratios = weights * n_candidates[n] / len(masked_word.ids)
        if len(ratios):
            # Infinity: the best copy for each number of masks is always computed.
            ratios[np.argmax(ratios)] = np.inf
        copies_with_ratios += zip(ratios.tolist(), [n] * len(copies), copies.tolist(), strict=True)
    # Select copies in this order until their tokens exceed `MAX_BOUND_INPUTS` original sentences.
    copies_with_ratios.sort(key=lambda ranked: ranked[0], reverse=True)
    selected_copies: dict[int, list[int]] = {n: [] for n in masked_words}
    n_tokens = 0
    for ratio, n, copy in copies_with_ratios:
        n_tokens += len(masked_words[n].ids)
        if n_tokens <= MAX_BOUND_INPUTS * length or ratio == np.inf:
            selected_copies[n].append(copy)
    # Run the network on the selected copies.
    for n, masked_word in masked_words.items():
        masked_word.compute(np.array(selected_copies[n], dtype=np.int64))


def score_masked_candidates(
    model: MaskedModel, sentence: Sentence, position: int, words: WordList
) -> ReplacementScores:
    """Score a sentence under a masked model with one word replaced by each of V candidates.

    The score of a sentence is a weighted sum of log-probabilities of its tokens, which the network
    predicts from copies of the sentence with some tokens masked. If the whole candidate is masked,
    all candidates with the same number of tokens share the predictions. Some of these shared
    predictions are computed, see `compute_shared_predictions`.

    - The upper bound of a candidate's score is the weighted sum of the computed predictions. All
      other log-probabilities are replaced by 0, their largest possible value.
    - The estimate of the score also replaces the predictions that were not computed. A token
      outside the candidate gets its log-probability in the original sentence. For the tokens of
      the candidate, the computed sum is extrapolated (`MaskedWord.get_extrapolation_factor`).

    Parameters
    ----------
    model
        Model that scores the candidates.
    sentence
        Original sentence.
    position
        Index of the word to replace, counted from 0.
    words
        The V candidates.

    Returns
    -------
    ReplacementScores
        Upper bounds and estimates of the scores in nats, shape (V,), and a function that computes
        exact scores.
    """
    encoded, log_probs = model.encode_and_score(str(sentence))
    surrounding = SurroundingTokens.from_encoded(encoded, position)
    assert surrounding is not None, "every word of a masked model's sentence has scored tokens"
    candidates = model.tokenizer.candidates(sentence, position, words)
    # By number n of tokens: the sentence with n masks, and the number of candidates of n tokens.
    masked_words: dict[int, MaskedWord] = {}
    n_candidates: dict[int, int] = {}
    for n, (indices, _) in candidates.by_length.items():
        masked_words[n] = MaskedWord(model, surrounding, encoded.word_lengths, position, n)
        n_candidates[n] = len(indices)
        example = str(sentence.replace(position, words.words[indices[0]]))
        check_length(example, len(masked_words[n].ids), model.checkpoint.max_tokens, model.spec)
    compute_shared_predictions(masked_words, n_candidates, len(encoded.ids))

    # For the estimates, the log-probabilities of other words in the original sentence replace those
    # that are not computed. If the network predicts them with the whole word masked, look them up
    # by key. If a token of the word is visible, add up all of them.
    n_original = encoded.word_lengths[position]
    original = masked_words.get(n_original)
    if original is None:
        original = MaskedWord(model, surrounding, encoded.word_lengths, position, n_original)
    masked = original.predictions.others_from_masked
    keys = original.make_prediction_keys(masked)
    log_prob_by_key = dict(zip(keys, log_probs[masked].tolist(), strict=True))
    visible = original.predictions.others_from_visible
    visible_sum = float(original.plan.weights[visible] @ log_probs[visible])

    upper_bounds = np.zeros(len(words), dtype=np.float64)
    estimates = np.zeros(len(words), dtype=np.float64)
    n_inputs = np.ones(len(words), dtype=np.float64)
    for n, (indices, tokens) in candidates.by_length.items():
        word = masked_words[n]
        n_inputs[indices] = word.n_inputs
        word_sums = word.sum_candidate_tokens(tokens)
        upper_bounds[indices] = word.other_words_sum + word_sums
        # Estimate the sum over the candidate's own tokens, then the sum over other words.
        factor = word.get_extrapolation_factor()
        if factor is None:
            word_estimates = _VISIBLE_WORD_FACTOR * word.whole_word_log_probs(tokens)
        else:
            word_estimates = word_sums * factor
        missing = word.find_missing_predictions()
        substitutes = [log_prob_by_key.get(key, 0.0) for key in word.make_prediction_keys(missing)]
        missing_sum = float(word.plan.weights[missing] @ np.array(substitutes, dtype=np.float64))
        estimates[indices] = word.other_words_sum + missing_sum + word_estimates + visible_sum

    def score_tokens(tokens: IntArray) -> FloatArray:
        return masked_words[tokens.shape[1]].score(tokens)

    token_cost, prediction_cost = model.network.n_weights
    return ReplacementScores(
        upper_bounds,
        estimates,
        is_exact=False,
        score=model.token_scorer(sentence, position, words, surrounding, score_tokens),
        cost=ScoringCost(
            n_inputs=n_inputs,
            multiply_adds=float(len(encoded.ids) * token_cost + prediction_cost),
            n_tokens=candidates.n_tokens,
        ),
    )
