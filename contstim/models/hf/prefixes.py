"""Prefixes of sentences under a causal transformer, whose keys and values are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.hf.network import KVCache, Network
from contstim.models.prefixes import COMMA, Prefixes
from contstim.text import Sentence, WordList

if TYPE_CHECKING:
    from contstim.models.hf.causal import CausalModel
    from contstim.models.hf.encoding import SubwordTokenizer

_Tokens = tuple[int, ...]

# Rows that go on together.
_ROWS = 128


def can_extend(network: Network, prefix: Sequence[int]) -> bool:
    """Return whether rows of several lengths may go on together from what is kept of them.

    Tried once, on rows that go on by one and three tokens, then by two and three, and again by
    as many, filled up and not.
    """
    return network.check_once(("rows go on", tuple(prefix)), lambda: _tried(network, prefix))


def _tried(network: Network, prefix: Sequence[int]) -> bool:
    n = len(prefix)
    ids = tuple(network.sample_ids(n + 10, prefix).tolist())
    _, before = network.begin(np.array(ids[: n + 1]))
    if before.cache is None:
        return False
    steps = [[ids[n + 1 : n + 2], ids[n + 2 : n + 5]], [ids[n + 5 : n + 7], ids[n + 7 :]]]
    for rows, step in zip(([0, 0], [1, 0], [0, 1]), [*steps, steps[0]], strict=True):
        more, logits = before.extend(network, rows, step, every=False)
        whole = KVCache(before.ids, None, before.seen).extend(network, rows, step, every=False)[1]
        before, read = before.read(network, rows, step)
        every = torch.stack([values[-1] for values in read])
        again = more.extend(network, [0, 1], step, every=False)[1]
        joined = before.extend(network, [0, 1], step, every=False)[1]
        pairs = (logits, whole), (every, whole), (again, joined)
        if not all(network.agree(*both) for both in pairs):
            return False
    return True


class PiecePrefixes(Prefixes):
    """Prefixes under a model of pieces, which says at once what a word's first piece has.

    Parameters
    ----------
    tokenizer
        What makes pieces of words.
    lists, n_words
        As in `Prefixes`.
    last
        log p(token | row) of every token, shape (R, tokens), nats.
    """

    def __init__(
        self,
        tokenizer: SubwordTokenizer,
        lists: tuple[WordList, WordList],
        n_words: int,
        last: torch.Tensor,
    ) -> None:
        super().__init__(lists, n_words)
        self._last = last
        word = tokenizer.sample_word
        # A place for a first or a later word, with neighbours that make no difference.
        cores = (word, "", word)[n_words == 0 :]
        place = Sentence(cores, ("",) * len(cores), ("",) * len(cores))
        self._candidates = tokenizer.candidates(place, int(n_words > 0), self.next_words)

    def upper_bounds(self) -> tuple[FloatArray, BoolArray]:
        """Return log p of each word's first piece, and which words are of one piece."""
        first = torch.from_numpy(self._candidates.first).to(self._last.device)
        values = self._last[:, first].cpu().numpy().astype(np.float64)
        return np.minimum(values, 0.0), self._candidates.n_tokens == 1

    def log_group_sizes(self) -> FloatArray:
        """Return log of how many words begin with each word's first piece, (V,)."""
        return np.log(np.bincount(self._candidates.first)[self._candidates.first])

    def _firsts(self, rows: IntArray, tokens: Sequence[_Tokens]) -> FloatArray:
        """Return log p(first of the tokens | row), (k,), nats."""
        firsts = torch.tensor([t[0] for t in tokens], dtype=torch.int64, device=self._last.device)
        at = torch.from_numpy(np.asarray(rows, dtype=np.int64)).to(self._last.device)
        return self._last[at, firsts].cpu().numpy().astype(np.float64)


class CausalPrefixes(PiecePrefixes):
    """Prefixes of sentences under a causal model.

    What each model of pieces knows at once is the probability of a word's first piece; further
    pieces are asked for.

    Parameters
    ----------
    model
        The model, which has a prefix.
    lists
        As in `Prefixes`.
    n_words
        How many words each beginning has.
    before, last
        What is kept of the rows, and log p(token | row) of every token, shape (R, tokens).
    pending
        Tokens of each row that are not among what is kept: those of a comma.
    """

    def __init__(
        self,
        model: CausalModel,
        lists: tuple[WordList, WordList],
        n_words: int,
        before: KVCache,
        last: torch.Tensor,
        pending: Sequence[_Tokens] = (),
    ) -> None:
        super().__init__(model.tokenizer, lists, n_words, last)
        self._model, self._kept = model, before
        self._pending = list(pending) or [()] * len(last)

    @classmethod
    def begun(cls, model: CausalModel, lists: tuple[WordList, WordList]) -> CausalPrefixes:
        """Return one beginning without a word."""
        keep = can_extend(model.network, model.prefix[:1])
        logits, before = model.network.begin(np.array(model.prefix, dtype=np.int64), keep=keep)
        last = logits[-1:].log_softmax(dim=1)
        if model.corrected:
            # The factors of a sentence telescope to its two ends; this is the first.
            last = last - last[:, model.opening].logsumexp(dim=1, keepdim=True)
        return cls(model, lists, 0, before, last)

    def log_probs(self, rows: IntArray, index: IntArray) -> FloatArray:
        """Return the sums over the words' pieces, (k,), nats."""
        return self._chain(rows, [self._candidates.tokens[i] for i in index.tolist()])

    def _chain(self, rows: IntArray, tokens: Sequence[_Tokens]) -> FloatArray:
        """Return log p(tokens | row), (k,), nats; each way that several go is computed once."""
        if not len(tokens):
            return np.zeros(0)
        values = self._firsts(rows, tokens)
        ways: dict[tuple[int, _Tokens], list[int]] = {}
        for i, (row, whole) in enumerate(zip(rows.tolist(), tokens, strict=True)):
            if len(whole) > 1:
                ways.setdefault((row, self._pending[row] + whole[:-1]), []).append(i)
        # Ways of like length together: little is padded.
        order = sorted(ways, key=lambda way: len(way[1]))
        for start in range(0, len(order), _ROWS):
            group = order[start : start + _ROWS]
            logits = self._kept.extend(
                self._model.network,
                [row for row, _ in group],
                [way for _, way in group],
                every=True,
            )[1]
            log_probs = logits.log_softmax(dim=1)
            place = 0
            for row, way in group:
                place += len(way)
                for i in ways[row, way]:
                    steps = torch.tensor(tokens[i][1:], device=log_probs.device)
                    at = torch.arange(place - len(steps), place, device=log_probs.device)
                    values[i] += float(log_probs[at, steps].double().sum())
        return np.minimum(values, 0.0)

    def _mark(self, mark: str) -> _Tokens:
        """Return the tokens of a mark behind a word."""
        tokenizer = self._model.tokenizer
        word = tokenizer.sample_word
        alone, marked = tokenizer.tokenize([word, word + mark])
        same = marked[: len(alone)] == alone
        return tuple(marked[len(alone) :] if same else tokenizer.tokenize([mark])[0])

    def _every(self, tokens: _Tokens) -> FloatArray:
        """Return log p(tokens | beginning) of every beginning, (R,), nats."""
        rows = np.arange(len(self._last))
        return self._chain(rows, [tokens] * len(rows)) if tokens else np.zeros(len(rows))

    def end_log_probs(self, mark: str) -> FloatArray:
        """Return log p of the mark and of the end, as far as they are scored, (R,), nats.

        Where words are corrected and the end is not scored, that of the last word's end is in it.
        """
        model, tokens = self._model, self._mark(mark) if mark else ()
        total = self._every((*tokens, *model.end))
        if model.corrected and not model.end:
            last = self._gone_on(np.arange(len(self._last)), tokens) if tokens else self._last
            total += last[:, model.boundary].logsumexp(dim=1).cpu().numpy().astype(np.float64)
        seen = model.tokenizer.options.punctuation == "context"
        return total - self._every(tokens) if seen else total

    def word_end_log_probs(self) -> FloatArray:
        """Return log of the share of tokens that do not continue the last word, (R,), nats."""
        closing = self._model.tokenizer.closing_mark_ids
        keep = torch.cat([self._model.boundary, torch.tensor(closing, device=self._last.device)])
        return self._last[:, keep].logsumexp(dim=1).cpu().numpy().astype(np.float64)

    def comma_log_probs(self) -> FloatArray:
        """Return log p(comma | beginning), (R,), nats."""
        return self._every(self._mark(COMMA))

    def _gone_on(self, rows: IntArray, mark: _Tokens) -> torch.Tensor:
        """Return log p(token | row, mark) of every token, (k, tokens)."""
        tokens = [self._pending[row] + mark for row in rows]
        logits = self._kept.extend(self._model.network, rows.tolist(), tokens, every=False)[1]
        return logits.log_softmax(dim=1)

    def add_commas(self, where: BoolArray) -> CausalPrefixes:
        """Return the beginnings, some with a comma."""
        marked, last, comma = np.flatnonzero(where), self._last.clone(), self._mark(COMMA)
        if len(marked):
            last[torch.from_numpy(marked).to(last.device)] = self._gone_on(marked, comma)
        pending = [p + comma * bool(w) for p, w in zip(self._pending, where, strict=True)]
        return CausalPrefixes(self._model, self.word_lists, self.n_words, self._kept, last, pending)

    def extend(self, rows: IntArray, index: IntArray) -> CausalPrefixes:
        """Return longer beginnings."""
        pairs = zip(rows.tolist(), index.tolist(), strict=True)
        tokens = [self._pending[row] + self._candidates.tokens[i] for row, i in pairs]
        before, logits = self._kept.extend(self._model.network, rows.tolist(), tokens, every=False)
        last = logits.log_softmax(dim=1)
        return CausalPrefixes(self._model, self.word_lists, self.n_words + 1, before, last)

    def score_and_extend(self, rows: IntArray, index: IntArray) -> tuple[FloatArray, Prefixes]:
        """Return what the words have, (k,), nats, and longer beginnings, computed together."""
        words = [self._candidates.tokens[i] for i in index.tolist()]
        tokens = [self._pending[row] + word for row, word in zip(rows, words, strict=True)]
        before, logits = self._kept.read(self._model.network, rows.tolist(), tokens)
        values, last = self._firsts(rows, words), torch.stack([read[-1] for read in logits])
        for i, (word, read) in enumerate(zip(words, logits, strict=True)):
            if len(word) > 1:
                log_probs = read[-len(word) : -1].log_softmax(dim=1)
                at = torch.tensor(word[1:], device=log_probs.device)
                values[i] += float(log_probs.gather(1, at[:, None]).double().sum())
        last = last.log_softmax(dim=1)
        further = CausalPrefixes(self._model, self.word_lists, self.n_words + 1, before, last)
        return np.minimum(values, 0.0), further
