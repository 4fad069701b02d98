"""Scores of candidates for one position under a causal model, from one pass over what is before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from contstim.arrays import FloatArray, IntArray
from contstim.models.base import Hints, Replacements
from contstim.models.hf.network import Before
from contstim.models.hf.trie import TokenTrie
from contstim.text.sentence import Sentence, WordList

if TYPE_CHECKING:
    from contstim.models.hf.causal import CausalModel, Chain

__all__ = ["CAUSAL_COST", "causal_replacements", "guessed_steps"]

#: The bounds of all candidates may cost as much as the scores of this many words in sentences like
#: the present one, each computed as one input.
CAUSAL_COST = 100
# Guesses of tokens' log-probabilities: from so many computed ones; else this, nats.
_ENOUGH, _UNKNOWN = 20, -3.0


@dataclass(frozen=True, eq=False)
class _Before:
    """What stands before the open word, computed once.

    Attributes
    ----------
    ids
        Prefix and tokens before the word, shape (P,).
    after
        What stands after the word, the scored end included.
    log_prob
        Log-probability of the scored tokens before the word, nats, less the opening of the first
        word where words are corrected.
    first
        Log-probability of every token as the word's first, shape (V,), nats.
    branch
        What candidates go on from, or None where the network keeps nothing that can be branched.
    """

    ids: IntArray
    after: IntArray
    log_prob: float
    first: FloatArray
    branch: Before | None


def _before(model: CausalModel, chain: Chain, position: int, most: int) -> _Before | None:
    """Compute what stands before the word at `position`, of at most `most` tokens; None if nothing.

    Candidates go on from it where the network has been seen to do so rightly.
    """
    own = chain.encoded.scored[chain.encoded.word_of == position] + len(model.prefix)
    start, stop = int(own[0]), int(own[-1]) + 1
    ids, after = chain.ids[:start], chain.ids[stop:]
    if len(ids) == 0:
        return None
    logits, branch = model.network.read_on(ids)
    longest = start + most + len(after)
    if not model.network.goes_on(longest, model.checkpoint.max_tokens, model.prefix):
        branch = None
    n_scored = int((chain.places < start).sum())
    table = model.look_up(logits, np.append(ids[1:], 0))
    reads = chain.places[:n_scored] - 1
    log_prob = float(table[reads, 0].sum())
    if model.corrected:
        # The factors of a sentence telescope to its two ends; this is the first.
        at = int(chain.places[0]) - 1
        log_prob -= float(table[at, 2 if model.prefix else 1])
    first = logits[-1].log_softmax(dim=0).to(torch.float64).cpu().numpy()
    return _Before(ids, after, log_prob, first, branch)


@dataclass(eq=False)
class _Scorer:
    """Exact scores of chosen candidates."""

    model: CausalModel
    sentence: Sentence
    position: int
    words: WordList
    tokens: list[tuple[int, ...]]
    before: _Before | None

    def __call__(self, index: IntArray) -> FloatArray:
        """Return the scores of candidates `index`, shape (k,), nats."""
        index = np.asarray(index, dtype=np.int64)
        texts = [str(self.sentence.replace(self.position, self.words.words[i])) for i in index]
        scores = np.empty(len(index), dtype=np.float64)
        groups: dict[int, list[int]] = {}
        for place, (i, ids) in enumerate(zip(index, self._ids(texts), strict=True)):
            n = len(self.tokens[i]) if self._fits(ids, self.tokens[i]) else 0
            groups.setdefault(n, []).append(place)
        for n, places in groups.items():
            if n == 0:
                scores[places] = self.model.score([texts[p] for p in places])
            else:
                tokens = np.array([self.tokens[index[p]] for p in places], dtype=np.int64)
                scores[places] = self._continued(tokens, self.model.chains([texts[places[0]]])[0])
        return scores

    def _ids(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of each sentence, from what stands before it to its end."""
        model = self.model
        return [[*model.prefix, *ids, *model.end] for ids in model.tokenizer.ids(texts)]

    def _fits(self, ids: list[int], tokens: tuple[int, ...]) -> bool:
        """Whether a candidate's sentence is what stands before, its tokens, what stands after.

        Some tokenizers cut a word differently beside other words.
        """
        before = self.before
        if before is None or before.branch is None:
            return False
        return ids == [*before.ids.tolist(), *tokens, *before.after.tolist()]

    def _continued(self, tokens: IntArray, example: Chain) -> FloatArray:
        """Score candidates (k, n) from the cached keys and values of what stands before.

        `example` is the chain of one of their sentences, which differ in these tokens alone.
        """
        before, model = self.before, self.model
        assert before is not None
        start = len(before.ids)
        ids = np.hstack([tokens, np.tile(before.after, (len(tokens), 1))])
        scores = before.log_prob + before.first[ids[:, 0]]
        places = example.places[example.places > start]
        reads = places - 1 - start
        ending = model.corrected and not model.end
        if ending:
            reads = np.append(reads, ids.shape[1] - 1)
        if len(reads) == 0:
            return np.asarray(scores)
        following = ids[:, np.minimum(reads + 1, ids.shape[1] - 1)].reshape(-1)
        table = np.zeros((len(following), 3), dtype=np.float64)
        for read, logits in model.network.batches(
            ids[:, : int(reads.max()) + 1],
            np.repeat(np.arange(len(ids)), len(reads)),
            np.tile(reads, len(ids)),
            model.budget,
            before.branch,
        ):
            table[read] = model.look_up(logits, following[read])
        by_row = table.reshape(len(ids), len(reads), 3)
        scores += by_row[:, : len(places), 0].sum(axis=1)
        if ending:
            scores += by_row[:, -1, 1]
        return np.asarray(scores)


def _beyond(
    model: CausalModel, before: _Before, trie: TokenTrie, length: int
) -> tuple[FloatArray, IntArray]:
    """Return log p(token | tokens above it) of the trie's nodes, and the nodes looked beyond.

    Below the nodes that the price allows the values are known; elsewhere they stay 0, so that
    sums along a word's way bound its log-probability.
    """
    steps = np.zeros(len(trie.parent), dtype=np.float64)
    top = np.flatnonzero(trie.depth == 1)
    steps[top] = before.first[trie.token[top]]
    if before.branch is None or len(trie.end) <= CAUSAL_COST:
        # So few candidates cost no more to score than to bound.
        return steps, np.zeros(0, dtype=np.int64)
    body, head = model.network.weights
    spent = len(before.ids) * (body + head)
    budget = CAUSAL_COST * (length * body + head) - spent
    chosen = trie.choose(before.first, (body, head), budget)
    for group in trie.rows(chosen):
        for read, logits in model.network.batches(
            group.ids, group.rows, group.positions, model.budget, before.branch
        ):
            children, place = trie.edges(group.nodes[read])
            at = torch.from_numpy(place).to(logits.device)
            token = torch.from_numpy(trie.token[children]).to(logits.device)
            values = logits[at, token] - logits.logsumexp(dim=1)[at]
            steps[children] = values.to(torch.float64).cpu().numpy()
    return steps, chosen


def causal_replacements(
    model: CausalModel, sentence: Sentence, position: int, words: WordList
) -> Replacements:
    """Score `sentence` with the word at `position` replaced by each of `words`."""
    chain, values = model.base(str(sentence))
    candidates = model.tokenizer.candidates(sentence, position, words)
    before = _before(model, chain, position, int(candidates.n_tokens.max(initial=1)))
    scorer = _Scorer(model, sentence, position, words, candidates.tokens, before)
    multiply_adds = float(len(chain.ids) * sum(model.network.weights))
    if before is None:
        # Without a prefix the first word is what the others are conditioned on.
        whole = np.full(len(words), values.sum())
        return Replacements(
            np.zeros(len(words)),
            whole,
            exact=False,
            score=scorer,
            hints=Hints(multiply_adds=multiply_adds, n_tokens=candidates.n_tokens),
        )
    trie = candidates.trie
    steps, chosen = _beyond(model, before, trie, len(chain.ids))
    upper = np.minimum(before.log_prob + trie.sums(steps), 0.0)
    rest = values[chain.word_of > position].sum()
    known = bool(trie.covered(chosen).all())
    exact = known and len(before.after) == 0 and not model.corrected
    estimate = upper + rest
    if not known:
        estimate += trie.sums(guessed_steps(trie, steps, chosen))
    return Replacements(
        upper.copy(),
        estimate,
        exact=exact,
        score=scorer,
        hints=Hints(_cost(before, candidates.n_tokens), multiply_adds, None, candidates.n_tokens),
    )


def guessed_steps(trie: TokenTrie, steps: FloatArray, chosen: IntArray) -> FloatArray:
    """Guess log p(token | tokens above it), nats, of the nodes that were not computed.

    A token is the likelier the more of the words that pass the node above it pass it, too. The
    guess is a line in the logarithms of both counts, fitted to the computed nodes by least
    squares; below `_ENOUGH` of these it is `_UNKNOWN`.

    Parameters
    ----------
    trie
        The candidates' tokens, N nodes.
    steps
        The values of the computed nodes, shape (N,).
    chosen
        The nodes that were looked beyond, whose children are the computed nodes.

    Returns
    -------
    array
        Shape (N,): at most 0; 0 at computed nodes and first tokens.
    """
    guess = np.zeros(len(trie.parent), dtype=np.float64)
    known = trie.edges(chosen)[0]
    unknown = trie.depth > 1
    unknown[known] = False
    passed = np.log(trie.beyond + np.bincount(trie.end, minlength=len(trie.parent)))
    x = np.column_stack([np.ones(len(passed)), passed, passed[trie.parent]])
    if len(known) < _ENOUGH:
        guess[unknown] = _UNKNOWN
    else:
        line = np.linalg.lstsq(x[known], steps[known], rcond=None)[0]
        guess[unknown] = np.minimum(x[unknown] @ line, 0.0)
    return guess


def _cost(before: _Before, n_tokens: IntArray) -> FloatArray:
    """Return what part of a whole input the score of each candidate costs, (V,)."""
    if before.branch is None:
        return np.ones(len(n_tokens))
    own = n_tokens + len(before.after)
    return np.asarray(own / (own + len(before.ids)))
