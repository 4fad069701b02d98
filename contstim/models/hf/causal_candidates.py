"""Scores of a sentence under a causal model with one word replaced by each of many candidates.

The network computes the tokens before the word once and caches their keys and values. The
predictions after these tokens give upper bounds of the scores of all candidates. Exact scores of
single candidates are computed from the cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from contstim.arrays import FloatArray, IntArray
from contstim.models.base import ReplacementScores, ScoringCost
from contstim.models.hf.encoding import EncodedSentence
from contstim.models.hf.kv_cache import KVCache, prefill, supports_cache
from contstim.models.hf.transformer import SurroundingTokens
from contstim.models.hf.trie import TokenTrie, guess_log_probs
from contstim.text import Sentence, WordList

if TYPE_CHECKING:
    from contstim.models.hf.causal import CausalModel

#: Maximum cost of the upper bounds of all candidates, as a multiple of the cost of scoring the
#: original sentence once.
MAX_BOUND_SENTENCES = 100
# The cost is also at most the number of candidates divided by this number.
_CANDIDATES_PER_SENTENCE = 10


@dataclass(frozen=True, eq=False)
class LeftContext:
    """Outputs of a network for the tokens before a word that is replaced by candidates.

    These tokens are the same for all candidates, so the network computes them only once.

    Attributes
    ----------
    model
        Model that scores the candidates.
    surrounding
        Tokens of the sentence before and after the replaced word.
    log_prob
        Log-probability in nats of the scored tokens before the word. If word probabilities are
        corrected for white space, this includes the correction of the first word.
    first_log_probs
        Log-probability in nats of each token of the vocabulary as the first token of the word. Its
        shape is (tokens,).
    past
        Cached keys and values of the tokens before the word. None if the network cannot extend a
        cache without changing its logits.
    """

    model: CausalModel
    surrounding: SurroundingTokens
    log_prob: float
    first_log_probs: FloatArray
    past: KVCache | None

    @classmethod
    def compute(
        cls,
        model: CausalModel,
        encoded: EncodedSentence,
        surrounding: SurroundingTokens,
        max_word_tokens: int,
    ) -> LeftContext:
        """Run the network on the tokens before the replaced word.

        Parameters
        ----------
        model
            Model that scores the candidates.
        encoded
            Tokens of the original sentence.
        surrounding
            Tokens of the sentence before and after the replaced word.
        max_word_tokens
            Number of tokens of the longest candidate. The cache is used only if the network can
            extend it to a sentence with this candidate.
        """
        network, left = model.network, surrounding.left
        # Run the network on the tokens before the word, and cache their keys and values if the
        # network can continue from a cache to the longest sentence.
        max_length = len(left) + max_word_tokens + len(surrounding.right)
        use_cache = supports_cache(network, max_length, model.checkpoint.max_tokens, model.prefix)
        logits, past = prefill(network, left, use_cache=use_cache)
        # Position i predicts token i + 1. The last position predicts the first token of the
        # candidate. Its log-probability is computed below, so 0 is only a placeholder.
        predictions = model.predict(logits, np.append(left[1:], 0))
        log_prob = float(predictions["token"][surrounding.scored_left - 1].sum())
        if model.corrects_white_space:
            # The correction for white space divides the probability of the first word by the
            # probability that the next token can start a word.
            first_position = encoded.scored_positions[0] - 1
            log_prob -= float(predictions[model.first_divisor][first_position])
        first_log_probs = logits[-1].log_softmax(dim=0).to(torch.float64).cpu().numpy()
        return cls(
            model, surrounding, log_prob, first_log_probs, None if past.cache is None else past
        )

    def score_nodes(self, trie: TokenTrie, length: int) -> tuple[FloatArray, IntArray]:
        """Compute log p(token | preceding tokens) for tokens of the candidates, within a budget.

        The probabilities of all first tokens are known from the tokens before the replaced word.
        Later tokens need further runs of the network, for as many nodes of the trie as the budget
        permits. The budget is the cost of scoring the original sentence 100 times, or V / 10 times
        if this is less.

        Parameters
        ----------
        trie
            Trie (prefix tree) of the tokens of V candidates, with N nodes.
        length
            Number of tokens of the original sentence.

        Returns
        -------
        log_probs : array
            Log-probability in nats of the token of each node, shape (N,). It is 0, the upper bound
            of a log-probability, for nodes at which the network was not run.
        expanded : array
            Nodes at which the network predicted the next token, in ascending order. The computed
            nodes are the children of these nodes.
        """
        # First tokens of candidates: their log-probabilities are already known.
        log_probs = np.zeros(len(trie.parents), dtype=np.float64)
        first_nodes = np.flatnonzero(trie.depths == 1)
        log_probs[first_nodes] = self.first_log_probs[trie.tokens[first_nodes]]
        max_sentences = min(MAX_BOUND_SENTENCES, len(trie.final_nodes) // _CANDIDATES_PER_SENTENCE)
        if self.past is None or max_sentences < 2:
            # For so few candidates, exact scores cost little more than upper bounds.
            return log_probs, np.zeros(0, dtype=np.int64)

        # Select the nodes to expand within the budget.
        network = self.model.network
        # Costs are numbers of multiply-adds, about one per weight: an input token uses the weights
        # of the layers, and a prediction uses the weights of the output layer. Subtract the cost of
        # the run that has already predicted the first tokens.
        token_cost, prediction_cost = network.n_weights
        sentence_cost = length * token_cost + prediction_cost
        first_run_cost = len(self.surrounding.left) * (token_cost + prediction_cost)
        budget = max_sentences * sentence_cost - first_run_cost
        expanded = trie.select_nodes(self.first_log_probs, token_cost, prediction_cost, budget)

        # Run the network on the selected nodes.
        for inputs in trie.build_inputs(expanded):
            for batch, logits in network.iter_logits(
                inputs.ids, inputs.rows, inputs.positions, self.model.batch_tokens, self.past
            ):
                # Each row of `logits` predicts the tokens of the children of one node.
                children, parent_rows = trie.find_children(inputs.nodes[batch])
                rows = torch.from_numpy(parent_rows).to(logits.device)
                tokens = torch.from_numpy(trie.tokens[children]).to(logits.device)
                # Log-softmax of the needed logits only.
                values = logits[rows, tokens] - logits.logsumexp(dim=1)[rows]
                log_probs[children] = values.to(torch.float64).cpu().numpy()
        return log_probs, expanded

    def score_words(self, tokens: IntArray) -> FloatArray:
        """Return the exact score of the sentence with each of k candidates.

        The network computes the tokens of the candidate and the tokens after it. The keys and
        values of the earlier tokens are cached.

        Parameters
        ----------
        tokens
            Token ids of the candidates, shape (k, n). All candidates have n tokens.

        Returns
        -------
        array
            Scores of the sentences in nats, shape (k,).
        """
        model, start = self.model, len(self.surrounding.left)
        n_candidates, n = tokens.shape
        # Each row of `ids` contains a candidate, which begins at position `start` of the sentence,
        # and the tokens after it.
        ids = np.hstack([tokens, np.tile(self.surrounding.right, (n_candidates, 1))])
        # The words before the candidate and its first token have been scored already.
        scores = self.log_prob + self.first_log_probs[ids[:, 0]]
        # The token at a later position p of the sentence is predicted from the token before it,
        # which is in column p - 1 - start of `ids`.
        scored_positions = self.surrounding.scored_positions(n)
        columns = scored_positions[scored_positions > start] - 1 - start
        n_tokens = len(columns)
        # If word probabilities are corrected for white space, the score includes the probability
        # that no further token continues the last word. It is predicted from the last column.
        scores_word_end = model.corrects_white_space and not model.end
        if scores_word_end:
            columns = np.append(columns, ids.shape[1] - 1)
        if len(columns) == 0:
            return np.asarray(scores)
        # Predict the remaining tokens of all candidates: (candidates, columns).
        rows = np.repeat(np.arange(n_candidates), len(columns))
        predictions = model.predict_rows(ids, rows, np.tile(columns, n_candidates), self.past)
        predictions = predictions.reshape(n_candidates, len(columns))
        scores += predictions["token"][:, :n_tokens].sum(axis=1)
        if scores_word_end:
            scores += predictions["boundary"][:, -1]
        return np.asarray(scores)


def score_causal_candidates(
    model: CausalModel, sentence: Sentence, position: int, words: WordList
) -> ReplacementScores:
    """Score a sentence under a causal model with one word replaced by each of V candidates.

    The upper bound of a candidate's score is the log-probability of the words before it and of its
    first tokens. A budget determines how many tokens are computed; other tokens have
    log-probability 0 in the bound. The estimate of the score adds two numbers to the bound:
    predictions of a regression (`guess_log_probs`) for the other tokens of the candidate, and the
    log-probabilities of the later words in the original sentence.

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
    # Tokens and log-probabilities of the original sentence, and tokens of the candidates.
    encoded, log_probs = model.encode_and_score(str(sentence))
    candidates = model.tokenizer.candidates(sentence, position, words)
    n_tokens = candidates.n_tokens
    # Cost of scoring the sentence once: about one multiply-add per token and weight.
    multiply_adds = float(len(encoded.ids) * sum(model.network.n_weights))
    surrounding = SurroundingTokens.from_encoded(encoded, position, len(model.end))
    if surrounding is None or len(surrounding.left) == 0:
        # The first word of a sentence without start token is not scored, but later words depend on
        # it. The score of the original sentence is the estimate for all candidates.
        return ReplacementScores(
            np.zeros(len(words)),
            np.full(len(words), log_probs.sum()),
            is_exact=False,
            score=model.whole_sentence_scorer(sentence, position, words),
            cost=ScoringCost(multiply_adds=multiply_adds, n_tokens=n_tokens),
        )
    # Bounds and estimates: words before the candidate, tokens of the candidate, later words.
    context = LeftContext.compute(model, encoded, surrounding, int(n_tokens.max(initial=1)))
    trie = candidates.trie
    node_log_probs, expanded = context.score_nodes(trie, len(encoded.ids))
    upper_bounds = np.minimum(context.log_prob + trie.sum_to_words(node_log_probs), 0.0)
    estimates = upper_bounds + log_probs[encoded.word_indices > position].sum()
    is_complete = bool(trie.is_covered(expanded).all())
    if not is_complete:
        estimates += trie.sum_to_words(guess_log_probs(trie, node_log_probs, expanded))

    # Function for exact scores, and its cost per candidate as a share of a whole sentence.
    if context.past is None:
        n_inputs = np.ones(len(words))
        score = model.whole_sentence_scorer(sentence, position, words)
    else:
        # With the cache, only the candidate and the tokens after it are computed.
        n_new = n_tokens + len(surrounding.right)
        n_inputs = n_new / (n_new + len(surrounding.left))
        score = model.token_scorer(sentence, position, words, surrounding, context.score_words)
    return ReplacementScores(
        upper_bounds.copy(),
        estimates,
        is_exact=is_complete and len(surrounding.right) == 0 and not model.corrects_white_space,
        score=score,
        cost=ScoringCost(n_inputs, multiply_adds, n_tokens),
    )
