"""Scores of candidate words under a masked model.

A score is a weighted sum of terms log p(token | visible tokens). For the candidates of one word,

- terms of other words from inputs that mask the whole word are equal for all candidates,
- inputs that mask the whole word predict the tokens of all candidates at once,
- terms from inputs in which tokens of the word are visible are computed for each candidate.

Candidates with equal numbers of tokens share the first two kinds. Bounds are computed within a
budget: they omit terms of low weight, replacing them by 0, their maximum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.base import ReplacementScores, ScoringCost
from contstim.models.hf.encoding import check_length
from contstim.models.hf.metrics import MaskingPlan, apply_masks, masking_plan
from contstim.models.hf.options import MaskedOptions
from contstim.models.hf.transformer import Frame
from contstim.text import Sentence, WordList

if TYPE_CHECKING:
    from contstim.models.hf.masked import MaskedModel

#: Maximum cost of the bounds of all candidates, in inputs of the length of the present sentence.
#: Twice this number lowers bounds by 2 to 3 nats and does not improve estimates.
MAX_BOUND_INPUTS = 70
# Estimated log-probability of a token if other tokens of its word are visible, relative to its
# log-probability if the whole word is masked. Only estimates depend on it.
_VISIBLE_WORD_FACTOR = 0.7
# Number of batches of candidates' inputs that are prepared at a time.
_BATCHES_AT_ONCE = 4


@dataclass(frozen=True, eq=False)
class SplitPlan:
    """Masking plan with terms split by the visibility of one word.

    Attributes
    ----------
    plan
        The masking plan of the sentence, with M terms.
    word_tokens
        Indices of the word's scored tokens in the plan, shape (n,).
    is_word_term
        Whether each term predicts a token of the word, shape (M,).
    masked_terms
        Indices of the terms from inputs that mask all tokens of the word.
    visible_terms
        Indices of the other terms.
    """

    plan: MaskingPlan
    word_tokens: IntArray
    is_word_term: BoolArray
    masked_terms: IntArray
    visible_terms: IntArray


@lru_cache(maxsize=128)
def split_plan(layout: tuple[int, ...], position: int, options: MaskedOptions) -> SplitPlan:
    """Split the masking plan of a layout by the visibility of the word at `position`."""
    plan = masking_plan(layout, options)
    start = sum(layout[:position])
    word_tokens = np.arange(start, start + layout[position])
    is_word_term = np.isin(plan.tokens, word_tokens)
    is_masked = np.all(plan.masks[:, word_tokens], axis=1)[plan.rows]
    masked_terms, visible_terms = np.flatnonzero(is_masked), np.flatnonzero(~is_masked)
    return SplitPlan(plan, word_tokens, is_word_term, masked_terms, visible_terms)


class MaskedWord:
    """Sentence with one masked word of `n` tokens, and the values that its candidates share.

    Parameters
    ----------
    model
        The model.
    frame
        The tokens around the word.
    layout
        Number of scored tokens of each word of the present sentence.
    position
        Position of the word.
    n
        Number of tokens of the word.

    Attributes
    ----------
    split
        Masking plan of the sentence with a word of `n` tokens.
    ids
        Token ids of the sentence with the whole word masked, shape (L,).
    positions
        Positions of the T scored tokens, shape (T,).
    other_sum
        Weighted sum of the computed masked terms of other words, nats.
    token_sums
        Weighted sum of the computed masked terms of the word, for each of its tokens and each
        token of the vocabulary, shape (n, V), nats.
    is_computed
        Whether each input of the plan is computed, shape (R,).
    """

    def __init__(
        self, model: MaskedModel, frame: Frame, layout: tuple[int, ...], position: int, n: int
    ) -> None:
        self.model, self.frame, self.n = model, frame, n
        layout = (*layout[:position], n, *layout[position + 1 :])
        self.split = split_plan(layout, position, model.options)
        self.ids = frame.fill(np.full((1, n), model.mask_id))[0]
        self.positions = frame.scored_positions(n)
        self.other_sum = 0.0
        shape = n, model.network.n_logits
        self.token_sums = torch.zeros(shape, dtype=torch.float64, device=model.network.device)
        self.is_computed = np.zeros(len(self.split.plan.masks), dtype=np.bool_)

    @property
    def n_inputs(self) -> int:
        """Number of inputs of an exact score, at least 1."""
        rows = self.split.plan.rows[self.split.visible_terms]
        return int(np.count_nonzero(np.diff(rows))) + 1

    def shared_inputs(self) -> tuple[IntArray, FloatArray]:
        """Return the inputs that mask the whole word, and the sum of the weights of their terms."""
        plan, terms = self.split.plan, self.split.masked_terms
        rows = np.unique(plan.rows[terms])
        weights = np.bincount(plan.rows[terms], plan.weights[terms], minlength=len(plan.masks))
        return rows, weights[rows].astype(np.float64)

    def compute(self, rows: IntArray) -> None:
        """Compute the masked terms of the shared inputs `rows`, unless they are computed."""
        plan, word_tokens = self.split.plan, self.split.word_tokens
        is_new = np.zeros(len(self.is_computed), dtype=np.bool_)
        is_new[rows] = True
        is_new &= ~self.is_computed
        terms = self.split.masked_terms[is_new[plan.rows[self.split.masked_terms]]]
        if len(terms) == 0:
            return
        self.is_computed |= is_new
        model, network = self.model, self.model.network
        masks, term_rows = _used_masks(plan, terms)
        inputs = apply_masks(self.ids, self.positions, masks, model.mask_id)
        tokens, weights = plan.tokens[terms], plan.weights[terms]
        positions = self.positions[tokens]
        for batch, logits in network.iter_logits(inputs, term_rows, positions, model.batch_tokens):
            batch_weights = torch.from_numpy(weights[batch]).to(network.device)
            other_terms = np.flatnonzero(~self.split.is_word_term[terms[batch]])
            if len(other_terms):
                indices = torch.from_numpy(other_terms).to(network.device)
                target_ids = self.ids[positions[batch][other_terms]]
                targets = torch.from_numpy(target_ids).to(network.device)
                log_probs = model.normaliser.log_probs(logits[indices], targets).to(torch.float64)
                self.other_sum += float((batch_weights[indices] * log_probs).sum())
            for j, token in enumerate(word_tokens):
                token_terms = np.flatnonzero(tokens[batch] == token)
                if len(token_terms):
                    indices = torch.from_numpy(token_terms).to(network.device)
                    self.token_sums[j] += model.normaliser.weighted_sum(
                        logits[indices], batch_weights[indices]
                    )

    def word_sums(self, tokens: IntArray) -> FloatArray:
        """Return the computed masked terms of the word for k candidates.

        Parameters
        ----------
        tokens
            Token ids of the candidates, shape (k, n).

        Returns
        -------
        array
            Weighted sums, shape (k,), nats.
        """
        table = self.token_sums.cpu().numpy()
        return np.asarray(table[np.arange(self.n), tokens].sum(axis=1))

    def word_scale(self) -> float | None:
        """Return the estimated ratio of all terms of the word to the computed ones.

        It is the ratio of their weights. Weights of terms from inputs with visible tokens of the
        word are multiplied by `_VISIBLE_WORD_FACTOR`. The result is None if no term is computed.
        """
        plan, is_word_term = self.split.plan, self.split.is_word_term
        word_terms = self.split.masked_terms[is_word_term[self.split.masked_terms]]
        computed_terms = word_terms[self.is_computed[plan.rows[word_terms]]]
        computed_weight = float(plan.weights[computed_terms].sum())
        if computed_weight == 0.0:
            return None
        visible_terms = self.split.visible_terms[is_word_term[self.split.visible_terms]]
        visible_weight = _VISIBLE_WORD_FACTOR * plan.weights[visible_terms].sum()
        return float(plan.weights[word_terms].sum() + visible_weight) / computed_weight

    def whole_word_log_probs(self, tokens: IntArray) -> FloatArray:
        """Return sum_t log p(t | all other words) over the tokens t of k candidates.

        Parameters
        ----------
        tokens
            Token ids of the candidates, shape (k, n).

        Returns
        -------
        array
            Shape (k,), nats.
        """
        normaliser, positions = self.model.normaliser, self.positions[self.split.word_tokens]
        logits = self.model.network.logits_at([self.ids.tolist()], [positions.tolist()])[0]
        weight = torch.ones(1, device=logits.device)
        log_probs = [normaliser.weighted_sum(row[None], weight) for row in logits]
        table = torch.stack(log_probs).cpu().numpy()
        return np.asarray(table[np.arange(self.n), tokens].sum(axis=1))

    def contexts(self, terms: IntArray) -> list[tuple[bytes, int]]:
        """Identify terms of other words, independently of `n`.

        The key of a term consists of the mask of all other words and the index of its token among
        the tokens of other words.
        """
        plan, word_tokens = self.split.plan, self.split.word_tokens
        other_tokens = np.delete(np.arange(plan.masks.shape[1]), word_tokens)
        rows = np.unique(plan.rows[terms])
        packed = np.packbits(plan.masks[np.ix_(rows, other_tokens)], axis=1)
        key_by_row = {row: mask.tobytes() for row, mask in zip(rows.tolist(), packed, strict=True)}
        is_later = plan.tokens > word_tokens[-1]
        indices = np.where(is_later, plan.tokens - self.n, plan.tokens)
        pairs = zip(plan.rows[terms].tolist(), indices[terms].tolist(), strict=True)
        return [(key_by_row[row], index) for row, index in pairs]

    def missing_terms(self) -> IntArray:
        """Return the masked terms of other words that are not computed."""
        terms = self.split.masked_terms
        is_missing = (
            ~self.split.is_word_term[terms] & ~self.is_computed[self.split.plan.rows[terms]]
        )
        return terms[is_missing]

    def score(self, tokens: IntArray) -> FloatArray:
        """Return the exact scores of the sentence with each of k candidates.

        Parameters
        ----------
        tokens
            Token ids of the candidates, shape (k, n).

        Returns
        -------
        array
            Shape (k,), nats.
        """
        model, plan, terms = self.model, self.split.plan, self.split.visible_terms
        self.compute(np.unique(plan.rows[self.split.masked_terms]))
        visible_sums = np.zeros(len(tokens), dtype=np.float64)
        if len(terms):
            masks, rows = _used_masks(plan, terms)
            positions = self.positions[plan.tokens[terms]]
            sentences = self.frame.fill(tokens)
            n_rows = len(masks)
            step = max(1, _BATCHES_AT_ONCE * model.batch_tokens // (n_rows * len(self.ids)))
            for start in range(0, len(sentences), step):
                block = sentences[start : start + step]
                inputs = [apply_masks(ids, self.positions, masks, model.mask_id) for ids in block]
                log_probs = model.network.log_probs(
                    np.concatenate(inputs),
                    np.concatenate([rows + k * n_rows for k in range(len(block))]),
                    np.tile(positions, len(block)),
                    block[:, positions].reshape(-1),
                    model.normaliser,
                    model.batch_tokens,
                ).reshape(len(block), -1)
                visible_sums[start : start + len(block)] = log_probs @ plan.weights[terms]
        return visible_sums + self.other_sum + self.word_sums(tokens)


def _used_masks(plan: MaskingPlan, terms: IntArray) -> tuple[BoolArray, IntArray]:
    """Return the masks of the inputs of `terms`, and the row of each term in these masks."""
    used_rows, term_rows = np.unique(plan.rows[terms], return_inverse=True)
    return plan.masks[used_rows], term_rows.astype(np.int64)


def compute_shared_inputs(
    masked_words: dict[int, MaskedWord], n_candidates: dict[int, int], length: int
) -> None:
    """Compute shared inputs that lower the bounds of many candidates, within a budget.

    The gain of an input is the weight of its terms times the number of candidates; its cost is its
    number of tokens. Inputs are computed in decreasing order of gain / cost. The budget is
    `MAX_BOUND_INPUTS` times the length of the present sentence. At least one input is computed for
    each number of tokens.

    Parameters
    ----------
    masked_words
        Masked words by number of tokens.
    n_candidates
        Number of candidates by number of tokens.
    length
        Number of tokens of the present sentence.
    """
    inputs: list[tuple[float, int, int]] = []
    for n, word in masked_words.items():
        rows, weights = word.shared_inputs()
        gains = weights * n_candidates[n] / len(word.ids)
        if len(gains):
            gains[np.argmax(gains)] = np.inf
        inputs += [(gain, n, row) for gain, row in zip(gains.tolist(), rows.tolist(), strict=True)]
    inputs.sort(key=lambda gain_n_row: -gain_n_row[0])
    chosen: dict[int, list[int]] = {n: [] for n in masked_words}
    n_tokens = 0
    for gain, n, row in inputs:
        n_tokens += len(masked_words[n].ids)
        if n_tokens <= MAX_BOUND_INPUTS * length or gain == np.inf:
            chosen[n].append(row)
    for n, word in masked_words.items():
        word.compute(np.array(chosen[n], dtype=np.int64))


def score_masked_candidates(
    model: MaskedModel, sentence: Sentence, position: int, words: WordList
) -> ReplacementScores:
    """Score candidates for one position of a sentence under a masked model.

    The upper bound of a candidate is the sum of its computed shared terms. The estimate adds the
    terms of other words in the present sentence and scales the terms of the word.

    Parameters
    ----------
    model
        The model.
    sentence, position
        The sentence and the position of the word.
    words
        V candidates.
    """
    encoded, log_probs = model.encode_and_score(str(sentence))
    frame = Frame.from_encoded(encoded, position)
    assert frame is not None, "every word of a masked model's sentence has scored tokens"
    candidates = model.tokenizer.candidates(sentence, position, words)
    masked_words: dict[int, MaskedWord] = {}
    n_candidates: dict[int, int] = {}
    for n, (members, _) in candidates.by_length.items():
        masked_words[n] = MaskedWord(model, frame, encoded.layout, position, n)
        n_candidates[n] = len(members)
        example = str(sentence.replace(position, words.words[members[0]]))
        check_length(example, len(masked_words[n].ids), model.checkpoint.max_tokens, model.spec)
    compute_shared_inputs(masked_words, n_candidates, len(encoded.ids))

    # The terms of other words in the present sentence serve as estimates.
    n_present = encoded.layout[position]
    present = masked_words.get(n_present)
    if present is None:
        present = MaskedWord(model, frame, encoded.layout, position, n_present)
    split = present.split
    visible_terms = split.visible_terms[~split.is_word_term[split.visible_terms]]
    visible_sum = float(split.plan.weights[visible_terms] @ log_probs[visible_terms])
    masked_terms = split.masked_terms[~split.is_word_term[split.masked_terms]]
    contexts = present.contexts(masked_terms)
    log_prob_by_context = dict(zip(contexts, log_probs[masked_terms].tolist(), strict=True))

    upper_bounds = np.zeros(len(words), dtype=np.float64)
    estimates = np.zeros(len(words), dtype=np.float64)
    n_inputs = np.ones(len(words), dtype=np.float64)
    for n, (members, tokens) in candidates.by_length.items():
        word = masked_words[n]
        n_inputs[members] = word.n_inputs
        word_sums = word.word_sums(tokens)
        upper_bounds[members] = word.other_sum + word_sums
        scale = word.word_scale()
        if scale is None:
            word_estimates = _VISIBLE_WORD_FACTOR * word.whole_word_log_probs(tokens)
        else:
            word_estimates = word_sums * scale
        missing = word.missing_terms()
        guesses = [log_prob_by_context.get(context, 0.0) for context in word.contexts(missing)]
        missing_sum = float(word.split.plan.weights[missing] @ np.array(guesses, dtype=np.float64))
        estimates[members] = word.other_sum + missing_sum + word_estimates + visible_sum

    def score_tokens(tokens: IntArray) -> FloatArray:
        return masked_words[tokens.shape[1]].score(tokens)

    body, head = model.network.n_weights
    return ReplacementScores(
        upper_bounds,
        estimates,
        is_exact=False,
        score=model.candidate_scorer(sentence, position, words, frame, score_tokens),
        cost=ScoringCost(
            n_inputs=n_inputs,
            multiply_adds=float(len(encoded.ids) * body + head),
            n_tokens=candidates.n_tokens,
        ),
    )
