"""Scores of candidate words under a causal model.

The tokens before the word are computed once. From them follow upper bounds for all candidates, and
their cached keys and values are the start of exact scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from contstim.arrays import FloatArray, IntArray
from contstim.models.base import ReplacementScores, ScoringCost
from contstim.models.hf.encoding import EncodedSentence
from contstim.models.hf.kv_cache import KVCache, can_extend, prefill
from contstim.models.hf.transformer import Frame
from contstim.models.hf.trie import TokenTrie, guess_log_probs
from contstim.text import Sentence, WordList

if TYPE_CHECKING:
    from contstim.models.hf.causal import CausalModel

#: Maximum cost of the bounds of all candidates, in exact scores of the present sentence.
MAX_BOUND_SENTENCES = 100
# The bounds may also cost at most one exact score per this number of candidates.
_CANDIDATES_PER_SENTENCE = 10


@dataclass(frozen=True, eq=False)
class LeftContext:
    """The tokens before a word, computed once for all candidates.

    Attributes
    ----------
    model
        The model.
    frame
        The tokens around the word.
    log_prob
        Log-probability of the scored tokens before the word, nats. For corrected words the divisor
        of the first word is subtracted.
    first_log_probs
        Log-probability of each token as first token of the word, shape (V,), nats.
    past
        Cache that candidates continue; None if the network cannot extend it correctly.
    """

    model: CausalModel
    frame: Frame
    log_prob: float
    first_log_probs: FloatArray
    past: KVCache | None

    @classmethod
    def compute(
        cls, model: CausalModel, encoded: EncodedSentence, frame: Frame, max_word_tokens: int
    ) -> LeftContext:
        """Compute the tokens before a word of at most `max_word_tokens` tokens."""
        network, left = model.network, frame.left
        max_length = len(left) + max_word_tokens + len(frame.right)
        use_cache = can_extend(network, max_length, model.checkpoint.max_tokens, model.prefix)
        logits, past = prefill(network, left, use_cache=use_cache)
        predictions = model.predict(logits, np.append(left[1:], 0))
        log_prob = float(predictions["token"][frame.scored_left - 1].sum())
        if model.is_corrected:
            first_position = encoded.scored_positions[0] - 1
            log_prob -= float(predictions[model.first_divisor][first_position])
        first_log_probs = logits[-1].log_softmax(dim=0).to(torch.float64).cpu().numpy()
        return cls(model, frame, log_prob, first_log_probs, None if past.cache is None else past)

    def score_nodes(self, trie: TokenTrie, length: int) -> tuple[FloatArray, IntArray]:
        """Compute log p(token | preceding tokens) of the nodes of a trie, within a budget.

        Parameters
        ----------
        trie
            Trie of the candidates, N nodes.
        length
            Number of tokens of the present sentence.

        Returns
        -------
        array
            Log-probabilities of the nodes, shape (N,), nats; 0, the maximum, if not computed.
        array
            Nodes with computed children, ascending.
        """
        log_probs = np.zeros(len(trie.parents), dtype=np.float64)
        top = np.flatnonzero(trie.depths == 1)
        log_probs[top] = self.first_log_probs[trie.tokens[top]]
        max_sentences = min(MAX_BOUND_SENTENCES, len(trie.ends) // _CANDIDATES_PER_SENTENCE)
        if self.past is None or max_sentences < 2:
            # So few candidates cost little more to score than to bound.
            return log_probs, np.zeros(0, dtype=np.int64)
        network = self.model.network
        body, head = network.n_weights
        prefill_cost = len(self.frame.left) * (body + head)
        budget = max_sentences * (length * body + head) - prefill_cost
        chosen = trie.choose(self.first_log_probs, (body, head), budget)
        for inputs in trie.build_inputs(chosen):
            for batch, logits in network.iter_logits(
                inputs.ids, inputs.rows, inputs.positions, self.model.batch_tokens, self.past
            ):
                children, parent_indices = trie.children(inputs.nodes[batch])
                rows = torch.from_numpy(parent_indices).to(logits.device)
                tokens = torch.from_numpy(trie.tokens[children]).to(logits.device)
                values = logits[rows, tokens] - logits.logsumexp(dim=1)[rows]
                log_probs[children] = values.to(torch.float64).cpu().numpy()
        return log_probs, chosen

    def score_words(self, tokens: IntArray) -> FloatArray:
        """Score the sentence with each of k candidates, continuing the cache.

        Parameters
        ----------
        tokens
            Token ids of the candidates, shape (k, n).

        Returns
        -------
        array
            Scores of the sentences, shape (k,), nats.
        """
        model, start = self.model, len(self.frame.left)
        k, n = tokens.shape
        ids = np.hstack([tokens, np.tile(self.frame.right, (k, 1))])
        scores = self.log_prob + self.first_log_probs[ids[:, 0]]
        scored_positions = self.frame.scored_positions(n)
        positions = scored_positions[scored_positions > start] - 1 - start
        n_tokens = len(positions)
        scores_word_end = model.is_corrected and not model.end
        if scores_word_end:
            positions = np.append(positions, ids.shape[1] - 1)
        if len(positions) == 0:
            return np.asarray(scores)
        rows = np.repeat(np.arange(k), len(positions))
        predictions = model.predict_rows(ids, rows, np.tile(positions, k), self.past)
        predictions = predictions.reshape(k, len(positions))
        scores += predictions["token"][:, :n_tokens].sum(axis=1)
        if scores_word_end:
            scores += predictions["boundary"][:, -1]
        return np.asarray(scores)


def score_causal_candidates(
    model: CausalModel, sentence: Sentence, position: int, words: WordList
) -> ReplacementScores:
    """Score candidates for one position of a sentence under a causal model.

    The upper bound of a candidate is the log-probability of the sentence up to and including the
    candidate's first tokens, as many as the budget allows. The estimate adds a regression for its
    other tokens and the present log-probabilities of the later words.

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
    candidates = model.tokenizer.candidates(sentence, position, words)
    n_tokens = candidates.n_tokens
    multiply_adds = float(len(encoded.ids) * sum(model.network.n_weights))
    frame = Frame.from_encoded(encoded, position, len(model.end))
    if frame is None or len(frame.left) == 0:
        # Without a prefix, the first word is not scored: later words are conditioned on it.
        return ReplacementScores(
            np.zeros(len(words)),
            np.full(len(words), log_probs.sum()),
            is_exact=False,
            score=model.candidate_scorer(sentence, position, words),
            cost=ScoringCost(multiply_adds=multiply_adds, n_tokens=n_tokens),
        )
    context = LeftContext.compute(model, encoded, frame, int(n_tokens.max(initial=1)))
    trie = candidates.trie
    node_log_probs, chosen = context.score_nodes(trie, len(encoded.ids))
    upper_bounds = np.minimum(context.log_prob + trie.sum_to_words(node_log_probs), 0.0)
    estimates = upper_bounds + log_probs[encoded.word_indices > position].sum()
    is_complete = bool(trie.is_covered(chosen).all())
    if not is_complete:
        estimates += trie.sum_to_words(guess_log_probs(trie, node_log_probs, chosen))

    if context.past is None:
        n_inputs = np.ones(len(words))
        score = model.candidate_scorer(sentence, position, words)
    else:
        # An exact score computes the candidate and the tokens after it.
        n_new = n_tokens + len(frame.right)
        n_inputs = n_new / (n_new + len(frame.left))
        score = model.candidate_scorer(sentence, position, words, frame, context.score_words)
    return ReplacementScores(
        upper_bounds.copy(),
        estimates,
        is_exact=is_complete and len(frame.right) == 0 and not model.is_corrected,
        score=score,
        cost=ScoringCost(n_inputs, multiply_adds, n_tokens),
    )
