"""Scores of a sentence under a masked model with one word replaced by each of many candidates.

The score of a sentence is a weighted sum of *terms*, log p(token | visible tokens). The network
computes them from copies of the sentence in which some tokens are masked. A term depends on the
candidate in one of three ways:

- If the copy masks the whole candidate and the term predicts a token of another word, the term is
  the same for all candidates.
- If the copy masks the whole candidate and the term predicts a token of the candidate, one run of
  the network gives the term for all candidates.
- If the copy shows a token of the candidate, the term is computed for each candidate separately.

Terms of the first two kinds are called *shared*: candidates with the same number of tokens need the
same copies. Upper bounds of the scores use shared terms only, and not all of them, because the cost
is limited. A term that is not computed is replaced by 0, the highest log-probability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.base import ReplacementScores, ScoringCost
from contstim.models.hf.encoding import check_length
from contstim.models.hf.metrics import MaskingPlan, apply_masks, classify_terms
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

    The score of a sentence is a weighted sum of *terms*, that is, log-probabilities of tokens that
    are predicted from masked copies of the sentence. Copies that mask the whole word are equal for
    all candidates. The terms that they predict, the *shared terms*, are computed only once.

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
    terms
        Log-probabilities that the score of the sentence with a word of `n` tokens needs, and the R
        masked copies of the sentence from which they are predicted.
    ids
        Token ids of the sentence with the whole word masked, shape (L,).
    positions
        Positions of the T scored tokens, shape (T,).
    other_words_sum
        Weighted sum in nats of the computed shared terms that predict tokens of other words.
    candidate_token_sums
        Weighted sums in nats of the computed shared terms that predict tokens of the candidate,
        with token v of the vocabulary as token j of the candidate in element (j, v), shape (n, V).
    is_computed
        Whether the shared terms of each masked copy have been computed, shape (R,).
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
        # A term is the log-probability of one token, predicted from a masked copy of the sentence.
        # The terms depend on the number of tokens of each word, with n tokens at `position`.
        word_lengths = (*word_lengths[:position], n, *word_lengths[position + 1 :])
        self.terms = classify_terms(word_lengths, position, model.options)
        # Tokens of the sentence with n masks in place of the word.
        self.ids = surrounding.fill(np.full((1, n), model.mask_id))[0]
        self.positions = surrounding.scored_positions(n)
        # Sums of the terms that `compute` has computed so far, for tokens of other words and for
        # every possible token of the candidate.
        self.other_words_sum = 0.0
        shape = n, model.network.n_logits
        self.candidate_token_sums = torch.zeros(
            shape, dtype=torch.float64, device=model.network.device
        )
        self.is_computed = np.zeros(len(self.terms.plan.masks), dtype=np.bool_)

    @property
    def n_inputs(self) -> int:
        """Number of masked copies to compute for the exact score of a candidate, at least 1.

        Copies that mask the whole candidate are not counted: all candidates share them.
        """
        rows = self.terms.plan.rows[self.terms.visible_terms]  # masked copy of each term
        # The rows are in ascending order: count the changes to get the number of distinct rows.
        return int(np.count_nonzero(np.diff(rows))) + 1

    def weigh_shared_copies(self) -> tuple[IntArray, FloatArray]:
        """Find the copies of the sentence in which the whole word is masked, and their weights.

        Returns
        -------
        rows : array
            Indices of these copies in the masking plan, in ascending order, shape (r,).
        weights : array
            Sum of the weights, in the score, of the log-probabilities that are predicted from each
            copy, shape (r,).
        """
        plan, terms = self.terms.plan, self.terms.masked_terms
        rows = np.unique(plan.rows[terms])
        weights = np.bincount(plan.rows[terms], plan.weights[terms], minlength=len(plan.masks))
        return rows, weights[rows].astype(np.float64)

    def compute(self, rows: IntArray) -> None:
        """Run the network on masked copies of the sentence, and add the predictions to the sums.

        The log-probabilities of tokens are added to `other_words_sum` or `candidate_token_sums`.

        Parameters
        ----------
        rows
            Indices of copies in the masking plan, in which the whole word is masked. Copies that
            have already been computed are skipped.
        """
        plan, word_tokens = self.terms.plan, self.terms.word_tokens
        is_new = np.zeros(len(self.is_computed), dtype=np.bool_)
        is_new[rows] = True
        is_new &= ~self.is_computed
        terms = self.terms.masked_terms[is_new[plan.rows[self.terms.masked_terms]]]
        if len(terms) == 0:
            return
        self.is_computed |= is_new
        model, network = self.model, self.model.network
        masks, term_rows = _select_masks(plan, terms)
        inputs = apply_masks(self.ids, self.positions, masks, model.mask_id)
        tokens, weights = plan.tokens[terms], plan.weights[terms]
        positions = self.positions[tokens]
        for batch, logits in network.iter_logits(inputs, term_rows, positions, model.batch_tokens):
            batch_weights = torch.from_numpy(weights[batch]).to(network.device)
            # Predictions of other words are the same for all candidates: add them to one number.
            other_terms = np.flatnonzero(~self.terms.is_word_term[terms[batch]])
            if len(other_terms):
                indices = torch.from_numpy(other_terms).to(network.device)
                target_ids = self.ids[positions[batch][other_terms]]
                targets = torch.from_numpy(target_ids).to(network.device)
                log_probs = model.normaliser.log_probs(logits[indices], targets).to(torch.float64)
                self.other_words_sum += float((batch_weights[indices] * log_probs).sum())
            # Predictions of the word depend on the candidate: add them for the whole vocabulary.
            for j, token in enumerate(word_tokens):
                token_terms = np.flatnonzero(tokens[batch] == token)
                if len(token_terms):
                    indices = torch.from_numpy(token_terms).to(network.device)
                    self.candidate_token_sums[j] += model.normaliser.weighted_sum(
                        logits[indices], batch_weights[indices]
                    )

    def sum_candidate_tokens(self, tokens: IntArray) -> FloatArray:
        """Return the part of each candidate's score that predicts the candidate itself.

        The score of a sentence under a masked model is a weighted sum of log-probabilities of
        masked tokens. This method sums the terms for the tokens of the candidate, with the weights
        of the metric. It includes only terms that are predicted with the whole candidate masked,
        and that `compute` has computed.

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
        plan, is_word_term = self.terms.plan, self.terms.is_word_term
        # Predictions of the candidate's tokens (`is_word_term`) with the whole candidate masked, of
        # which some have been computed.
        word_terms = self.terms.masked_terms[is_word_term[self.terms.masked_terms]]
        computed_terms = word_terms[self.is_computed[plan.rows[word_terms]]]
        computed_weight = float(plan.weights[computed_terms].sum())
        if computed_weight == 0.0:
            return None
        # Predictions with other tokens of the candidate visible are more certain, hence the factor.
        visible_terms = self.terms.visible_terms[is_word_term[self.terms.visible_terms]]
        visible_weight = _VISIBLE_WORD_FACTOR * plan.weights[visible_terms].sum()
        total_weight = float(plan.weights[word_terms].sum() + visible_weight)
        return total_weight / computed_weight

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
        normaliser, positions = self.model.normaliser, self.positions[self.terms.word_tokens]
        logits = self.model.network.logits_at([self.ids.tolist()], [positions.tolist()])[0]
        weight = torch.ones(1, device=logits.device)
        log_probs = [normaliser.weighted_sum(row[None], weight) for row in logits]
        table = torch.stack(log_probs).cpu().numpy()
        return np.asarray(table[np.arange(self.n), tokens].sum(axis=1))

    def make_term_keys(self, terms: IntArray) -> list[tuple[bytes, int]]:
        """Return keys that identify predictions independently of the candidate's length.

        A *term* is the log-probability of one token, predicted from a copy of the sentence in which
        some tokens are masked. The same prediction has different indices in sentences with a short
        and with a long candidate, but the same key. With the keys, log-probabilities in the
        original sentence can serve as estimates for candidates of any length.

        Parameters
        ----------
        terms
            Indices of terms that predict tokens outside the candidate, shape (k,).

        Returns
        -------
        list of tuple
            Key of each term: the masks of all tokens outside the candidate, packed into bytes, and
            the index of the predicted token among these tokens.
        """
        plan, candidate_tokens = self.terms.plan, self.terms.word_tokens
        # A term is the log-probability of one token, predicted from one masked copy of a sentence.
        copies, predicted_tokens = plan.rows[terms], plan.tokens[terms]
        other_tokens = np.delete(np.arange(plan.masks.shape[1]), candidate_tokens)
        used_copies = np.unique(copies)
        # Store eight elements of a mask in one byte, which makes the keys short and hashable.
        packed_masks = np.packbits(plan.masks[np.ix_(used_copies, other_tokens)], axis=1)
        mask_by_copy = dict(zip(used_copies.tolist(), map(bytes, packed_masks), strict=True))
        # Number the tokens as if the candidate, which has n tokens, were not in the sentence.
        n_before = np.where(predicted_tokens > candidate_tokens[-1], self.n, 0)
        indices = (predicted_tokens - n_before).tolist()
        return [(mask_by_copy[c], i) for c, i in zip(copies.tolist(), indices, strict=True)]

    def find_missing_terms(self) -> IntArray:
        """Return the indices of terms outside the candidate that `compute` has not computed yet.

        A term is the log-probability of one token, predicted from a copy of the sentence in which
        some tokens are masked. Only terms are returned that predict a token of another word than
        the candidate, from a copy in which the whole candidate is masked. Upper bounds replace
        these terms by 0, and estimates replace them by their values in the original sentence.
        """
        terms = self.terms.masked_terms
        is_other = ~self.terms.is_word_term[terms]
        is_missing = ~self.is_computed[self.terms.plan.rows[terms]]
        return terms[is_other & is_missing]

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
        model, plan, terms = self.model, self.terms.plan, self.terms.visible_terms
        # Terms with the whole candidate masked need the network only once for all candidates.
        self.compute(np.unique(plan.rows[self.terms.masked_terms]))
        # Terms with a visible token of the candidate need masked copies of each sentence.
        visible_sums = np.zeros(len(tokens), dtype=np.float64)
        if len(terms):
            masks, rows = _select_masks(plan, terms)
            positions = self.positions[plan.tokens[terms]]
            sentences = self.surrounding.fill(tokens)  # (candidates, tokens of the sentence)
            n_rows = len(masks)
            # Limit the number of sentences in memory.
            step = max(1, _BATCHES_AT_ONCE * model.batch_tokens // (n_rows * len(self.ids)))
            for start in range(0, len(sentences), step):
                block = sentences[start : start + step]
                inputs = [apply_masks(ids, self.positions, masks, model.mask_id) for ids in block]
                # Log-probabilities of the terms of each sentence: (sentences, terms).
                log_probs = model.network.log_probs(
                    np.concatenate(inputs),
                    np.concatenate([rows + k * n_rows for k in range(len(block))]),
                    np.tile(positions, len(block)),
                    block[:, positions].reshape(-1),
                    model.normaliser,
                    model.batch_tokens,
                ).reshape(len(block), -1)
                visible_sums[start : start + len(block)] = log_probs @ plan.weights[terms]
        return visible_sums + self.other_words_sum + self.sum_candidate_tokens(tokens)


def _select_masks(plan: MaskingPlan, terms: IntArray) -> tuple[BoolArray, IntArray]:
    """Select the masked copies of a sentence from which given terms are predicted.

    A term is the log-probability of one token, predicted from a copy of the sentence in which some
    tokens are masked.

    Parameters
    ----------
    plan
        Masked copies of a sentence with T scored tokens, and the terms predicted from them.
    terms
        Indices of k terms in the plan, shape (k,).

    Returns
    -------
    masks : array
        Whether token t is masked in copy c, shape (r, T), for the r copies that are needed.
    term_rows : array
        Row in `masks` of the copy from which each term is predicted, shape (k,).
    """
    used_rows, term_rows = np.unique(plan.rows[terms], return_inverse=True)
    return plan.masks[used_rows], term_rows.astype(np.int64)


def compute_shared_terms(
    masked_words: dict[int, MaskedWord], n_candidates: dict[int, int], length: int
) -> None:
    """Compute terms of the score that are equal for all candidates, within a budget.

    The network predicts tokens from copies of the sentence with some tokens masked. If the whole
    candidate is masked, all candidates with the same number of tokens share the copy. Copies of
    this kind are selected, and the network is run on them. Upper bounds of scores are computed
    from the results, which `MaskedWord.compute` stores in `masked_words`.

    Copies are selected in decreasing order of benefit / cost. The benefit of a copy is the total
    weight of its predictions in the score, times the number of candidates that share it. Its cost
    is its number of tokens. The total cost is at most `MAX_BOUND_INPUTS` times the length of the
    original sentence, but at least one copy is computed for each number of tokens.

    Parameters
    ----------
    masked_words
        Mapping from a number of tokens to the sentence in which this number of masks replaces the
        word. The computed terms are stored in these objects.
    n_candidates
        Mapping from a number of tokens to the number of candidates with this many tokens.
    length
        Number of tokens of the original sentence.
    """
    copies: list[tuple[float, int, int]] = []
    # List the masked copies of the sentence: benefit per cost, number n of masks that replace the
    # word, and row in the list of copies for n.
    for n, word in masked_words.items():
        rows, weights = word.weigh_shared_copies()
        ratios = weights * n_candidates[n] / len(word.ids)
        if len(ratios):
            # Infinity: the best copy for each number of masks is always computed.
            ratios[np.argmax(ratios)] = np.inf
        copies += [(float(ratio), n, int(row)) for ratio, row in zip(ratios, rows, strict=True)]
    # Select copies in decreasing order of the ratio, as long as the budget of tokens permits.
    copies.sort(key=lambda copy: copy[0], reverse=True)
    selected_rows: dict[int, list[int]] = {n: [] for n in masked_words}
    n_tokens = 0
    for ratio, n, row in copies:
        n_tokens += len(masked_words[n].ids)
        if n_tokens <= MAX_BOUND_INPUTS * length or ratio == np.inf:
            selected_rows[n].append(row)
    # Run the network on the selected copies.
    for n, word in masked_words.items():
        word.compute(np.array(selected_rows[n], dtype=np.int64))


def score_masked_candidates(
    model: MaskedModel, sentence: Sentence, position: int, words: WordList
) -> ReplacementScores:
    """Score a sentence under a masked model with one word replaced by each of V candidates.

    The score of a sentence is a weighted sum of log-probabilities of its tokens, which the network
    predicts from copies of the sentence with some tokens masked. If the whole candidate is masked,
    all candidates with the same number of tokens share the predictions. Some of these shared
    predictions are computed, see `compute_shared_terms`.

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
    masked_words: dict[int, MaskedWord] = {}
    n_candidates: dict[int, int] = {}
    for n, (members, _) in candidates.by_length.items():
        masked_words[n] = MaskedWord(model, surrounding, encoded.word_lengths, position, n)
        n_candidates[n] = len(members)
        example = str(sentence.replace(position, words.words[members[0]]))
        check_length(example, len(masked_words[n].ids), model.checkpoint.max_tokens, model.spec)
    compute_shared_terms(masked_words, n_candidates, len(encoded.ids))

    # The log-probabilities of other words in the original sentence serve as estimates.
    n_original = encoded.word_lengths[position]
    original = masked_words.get(n_original)
    if original is None:
        original = MaskedWord(model, surrounding, encoded.word_lengths, position, n_original)
    terms = original.terms
    visible_terms = terms.visible_terms[~terms.is_word_term[terms.visible_terms]]
    visible_sum = float(terms.plan.weights[visible_terms] @ log_probs[visible_terms])
    masked_terms = terms.masked_terms[~terms.is_word_term[terms.masked_terms]]
    term_keys = original.make_term_keys(masked_terms)
    log_prob_by_key = dict(zip(term_keys, log_probs[masked_terms].tolist(), strict=True))

    upper_bounds = np.zeros(len(words), dtype=np.float64)
    estimates = np.zeros(len(words), dtype=np.float64)
    n_inputs = np.ones(len(words), dtype=np.float64)
    for n, (members, tokens) in candidates.by_length.items():
        word = masked_words[n]
        n_inputs[members] = word.n_inputs
        word_sums = word.sum_candidate_tokens(tokens)
        upper_bounds[members] = word.other_words_sum + word_sums
        factor = word.get_extrapolation_factor()
        if factor is None:
            word_estimates = _VISIBLE_WORD_FACTOR * word.whole_word_log_probs(tokens)
        else:
            word_estimates = word_sums * factor
        missing_terms = word.find_missing_terms()
        substitutes = [log_prob_by_key.get(key, 0.0) for key in word.make_term_keys(missing_terms)]
        missing_weights = word.terms.plan.weights[missing_terms]
        missing_sum = float(missing_weights @ np.array(substitutes, dtype=np.float64))
        estimates[members] = word.other_words_sum + missing_sum + word_estimates + visible_sum

    def score_tokens(tokens: IntArray) -> FloatArray:
        return masked_words[tokens.shape[1]].score(tokens)

    token_cost, prediction_cost = model.network.n_weights
    return ReplacementScores(
        upper_bounds,
        estimates,
        is_exact=False,
        score=model.candidate_scorer(sentence, position, words, surrounding, score_tokens),
        cost=ScoringCost(
            n_inputs=n_inputs,
            multiply_adds=float(len(encoded.ids) * token_cost + prediction_cost),
            n_tokens=candidates.n_tokens,
        ),
    )
