"""Sentence prefixes under a causal transformer, with cached keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.hf.kv_cache import KVCache, can_extend_ragged, prefill
from contstim.models.prefixes import COMMA, Prefixes
from contstim.text import Sentence, WordList

if TYPE_CHECKING:
    from contstim.models.hf.causal import CausalModel
    from contstim.models.hf.encoding import SubwordTokenizer

_Tokens = tuple[int, ...]

# Maximum number of rows that are extended together.
_MAX_ROWS = 128


class TokenPrefixes(Prefixes):
    """Base class of prefixes under a subword model, which predicts first tokens of words at once.

    Parameters
    ----------
    tokenizer
        The tokenizer.
    word_lists
        Words for the first and for later positions.
    n_words
        Number of words of each of R prefixes.
    next_log_probs
        Log-probability of each token of the vocabulary after each prefix, shape (R, tokens), nats.
    """

    def __init__(
        self,
        tokenizer: SubwordTokenizer,
        word_lists: tuple[WordList, WordList],
        n_words: int,
        next_log_probs: torch.Tensor,
    ) -> None:
        super().__init__(word_lists, n_words)
        self._next_log_probs = next_log_probs
        # Tokenise the words at the first or a later position; the neighbours make no difference.
        neighbour = tokenizer.sample_word
        words = ("", neighbour) if n_words == 0 else (neighbour, "", neighbour)
        sentence = Sentence(words, ("",) * len(words), ("",) * len(words))
        self._candidates = tokenizer.candidates(sentence, int(n_words > 0), self.next_words)

    def upper_bounds(self) -> tuple[FloatArray, BoolArray]:
        """Return the log-probability of each word's first token, an upper bound of the word's.

        Returns
        -------
        array
            Upper bounds, shape (R, V), nats.
        array
            Whether each word has a single token and thus an exact bound, shape (V,).
        """
        first_tokens = self._candidates.first_tokens
        indices = torch.from_numpy(first_tokens).to(self._next_log_probs.device)
        bounds = self._next_log_probs[:, indices].cpu().numpy().astype(np.float64)
        return np.minimum(bounds, 0.0), self._candidates.n_tokens == 1

    def log_group_sizes(self) -> FloatArray:
        """Return the log number of words with the same first token as each word, shape (V,)."""
        first_tokens = self._candidates.first_tokens
        return np.log(np.bincount(first_tokens)[first_tokens])

    def first_log_probs(self, rows: IntArray, tokens: Sequence[_Tokens]) -> FloatArray:
        """Return the log-probability of the first token of each of k sequences.

        Parameters
        ----------
        rows
            Index of the prefix before each sequence, shape (k,).
        tokens
            The k token sequences.

        Returns
        -------
        array
            Shape (k,), nats.
        """
        device = self._next_log_probs.device
        first_tokens = torch.tensor([ids[0] for ids in tokens], dtype=torch.int64, device=device)
        row_indices = torch.from_numpy(np.asarray(rows, dtype=np.int64)).to(device)
        log_probs = self._next_log_probs[row_indices, first_tokens]
        return log_probs.cpu().numpy().astype(np.float64)


class CausalPrefixes(TokenPrefixes):
    """Prefixes of sentences under a causal model.

    Parameters
    ----------
    model
        A model with a prefix.
    word_lists
        Words for the first and for later positions.
    n_words
        Number of words of each of R prefixes.
    past
        Cached keys and values of the prefixes.
    next_log_probs
        Log-probability of each token of the vocabulary after each prefix, shape (R, tokens), nats.
    pending
        Tokens at the end of each prefix that are not in the cache (a comma).
    """

    def __init__(
        self,
        model: CausalModel,
        word_lists: tuple[WordList, WordList],
        n_words: int,
        past: KVCache,
        next_log_probs: torch.Tensor,
        pending: Sequence[_Tokens] = (),
    ) -> None:
        super().__init__(model.tokenizer, word_lists, n_words, next_log_probs)
        self._model, self._past = model, past
        self._pending = list(pending) or [()] * len(next_log_probs)

    @classmethod
    def empty(cls, model: CausalModel, word_lists: tuple[WordList, WordList]) -> CausalPrefixes:
        """Return one prefix without words."""
        use_cache = can_extend_ragged(model.network, model.prefix[:1])
        ids = np.array(model.prefix, dtype=np.int64)
        logits, past = prefill(model.network, ids, use_cache=use_cache)
        next_log_probs = logits[-1:].log_softmax(dim=1)
        if model.is_corrected:
            # The divisor of the first word; later divisors cancel.
            start_log_probs = next_log_probs[:, model.start_ids]
            next_log_probs = next_log_probs - start_log_probs.logsumexp(dim=1, keepdim=True)
        return cls(model, word_lists, 0, past, next_log_probs)

    def log_probs(self, rows: IntArray, indices: IntArray) -> FloatArray:
        """Return the log-probabilities of k words after selected prefixes, shape (k,), nats.

        Parameters
        ----------
        rows, indices
            Index of the prefix and of the word, shape (k,).
        """
        return self._sequence_log_probs(
            rows, [self._candidates.tokens[i] for i in indices.tolist()]
        )

    def _sequence_log_probs(self, rows: IntArray, tokens: Sequence[_Tokens]) -> FloatArray:
        """Return log p(tokens | prefix) of k token sequences, shape (k,), nats."""
        if not len(tokens):
            return np.zeros(0)
        values = self.first_log_probs(rows, tokens)
        # Compute sequences that differ in their last token only once.
        members: dict[tuple[int, _Tokens], list[int]] = {}
        for i, (row, ids) in enumerate(zip(rows.tolist(), tokens, strict=True)):
            if len(ids) > 1:
                members.setdefault((row, self._pending[row] + ids[:-1]), []).append(i)
        # Extend rows by similar numbers of tokens together, which saves padding.
        extensions = sorted(members, key=lambda extension: len(extension[1]))
        for start in range(0, len(extensions), _MAX_ROWS):
            batch = extensions[start : start + _MAX_ROWS]
            batch_rows, batch_tokens = [row for row, _ in batch], [ids for _, ids in batch]
            logits = self._past.extend(
                self._model.network, batch_rows, batch_tokens, all_logits=True
            )[1]
            log_probs = logits.log_softmax(dim=1)
            stop = 0
            for row, ids in batch:
                stop += len(ids)
                for i in members[row, ids]:
                    targets = torch.tensor(tokens[i][1:], device=log_probs.device)
                    indices = torch.arange(stop - len(targets), stop, device=log_probs.device)
                    values[i] += float(log_probs[indices, targets].double().sum())
        return np.minimum(values, 0.0)

    def _mark_tokens(self, mark: str) -> _Tokens:
        """Return the tokens of a punctuation mark after a word."""
        tokenizer = self._model.tokenizer
        word = tokenizer.sample_word
        word_ids, marked_ids = tokenizer.tokenize([word, word + mark])
        if marked_ids[: len(word_ids)] == word_ids:
            return tuple(marked_ids[len(word_ids) :])
        return tuple(tokenizer.tokenize([mark])[0])

    def _all_log_probs(self, tokens: _Tokens) -> FloatArray:
        """Return log p(tokens | prefix) of all prefixes, shape (R,), nats."""
        rows = np.arange(len(self._next_log_probs))
        if not tokens:
            return np.zeros(len(rows))
        return self._sequence_log_probs(rows, [tokens] * len(rows))

    def end_log_probs(self, mark: str) -> FloatArray:
        """Return the scored log-probability of a mark and the sentence end, shape (R,), nats.

        For corrected words without a scored end, it includes the end of the last word.
        """
        model, mark_tokens = self._model, self._mark_tokens(mark) if mark else ()
        log_probs = self._all_log_probs((*mark_tokens, *model.end))
        if model.is_corrected and not model.end:
            last = self._next_log_probs
            if mark_tokens:
                last = self._extended_log_probs(np.arange(len(last)), mark_tokens)
            boundary = last[:, model.boundary_ids].logsumexp(dim=1)
            log_probs += boundary.cpu().numpy().astype(np.float64)
        if model.tokenizer.options.punctuation == "context":
            return log_probs - self._all_log_probs(mark_tokens)
        return log_probs

    def word_end_log_probs(self) -> FloatArray:
        """Return the log-probability that the last word ends, shape (R,), nats.

        It is the probability of all tokens that do not continue a word, except closing marks.
        """
        closing_ids = self._model.tokenizer.closing_mark_ids
        closing = torch.tensor(closing_ids, device=self._next_log_probs.device)
        end_ids = torch.cat([self._model.boundary_ids, closing])
        log_probs = self._next_log_probs[:, end_ids].logsumexp(dim=1)
        return log_probs.cpu().numpy().astype(np.float64)

    def comma_log_probs(self) -> FloatArray:
        """Return the log-probability of a comma after each prefix, shape (R,), nats."""
        return self._all_log_probs(self._mark_tokens(COMMA))

    def _extended_log_probs(self, rows: IntArray, tokens: _Tokens) -> torch.Tensor:
        """Return the log-probability of each next token after k prefixes and `tokens`."""
        row_tokens = [self._pending[row] + tokens for row in rows]
        logits = self._past.extend(
            self._model.network, rows.tolist(), row_tokens, all_logits=False
        )[1]
        return logits.log_softmax(dim=1)

    def add_commas(self, is_marked: BoolArray) -> CausalPrefixes:
        """Return the prefixes, with a comma appended if `is_marked`, shape (R,), is true."""
        rows, comma = np.flatnonzero(is_marked), self._mark_tokens(COMMA)
        next_log_probs, pending = self._next_log_probs.clone(), list(self._pending)
        if len(rows):
            row_indices = torch.from_numpy(rows).to(next_log_probs.device)
            next_log_probs[row_indices] = self._extended_log_probs(rows, comma)
        for row in rows.tolist():
            pending[row] += comma
        return CausalPrefixes(
            self._model, self.word_lists, self.n_words, self._past, next_log_probs, pending
        )

    def extend(self, rows: IntArray, indices: IntArray) -> CausalPrefixes:
        """Return k prefixes, each a selected prefix extended by a word.

        Parameters
        ----------
        rows, indices
            Index of the prefix and of the word, shape (k,).
        """
        tokens = self._new_tokens(rows, indices)
        past, logits = self._past.extend(
            self._model.network, rows.tolist(), tokens, all_logits=False
        )
        next_log_probs = logits.log_softmax(dim=1)
        return CausalPrefixes(self._model, self.word_lists, self.n_words + 1, past, next_log_probs)

    def score_and_extend(self, rows: IntArray, indices: IntArray) -> tuple[FloatArray, Prefixes]:
        """Return log-probabilities of k words, shape (k,), nats, and the extended prefixes.

        Parameters
        ----------
        rows, indices
            Index of the prefix and of the word, shape (k,).
        """
        words = [self._candidates.tokens[i] for i in indices.tolist()]
        tokens = self._new_tokens(rows, indices)
        past, logits = self._past.extend_by_length(self._model.network, rows.tolist(), tokens)
        values = self.first_log_probs(rows, words)
        for i, (word, word_logits) in enumerate(zip(words, logits, strict=True)):
            if len(word) > 1:
                log_probs = word_logits[-len(word) : -1].log_softmax(dim=1)
                targets = torch.tensor(word[1:], device=log_probs.device)
                values[i] += float(log_probs.gather(1, targets[:, None]).double().sum())
        last_logits = torch.stack([word_logits[-1] for word_logits in logits])
        next_log_probs = last_logits.log_softmax(dim=1)
        extended = CausalPrefixes(
            self._model, self.word_lists, self.n_words + 1, past, next_log_probs
        )
        return np.minimum(values, 0.0), extended

    def _new_tokens(self, rows: IntArray, indices: IntArray) -> list[_Tokens]:
        """Return the tokens that extend the cache by pending tokens and a word."""
        pairs = zip(rows.tolist(), indices.tolist(), strict=True)
        return [self._pending[row] + self._candidates.tokens[i] for row, i in pairs]
