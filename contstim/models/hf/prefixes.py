"""Sentence prefixes under a causal transformer, with cached keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.hf.token_tree import TreeCache, supports_tree_cache
from contstim.models.prefixes import COMMA, Prefixes
from contstim.text import Sentence, WordList

if TYPE_CHECKING:
    from contstim.models.hf.causal import CausalModel
    from contstim.models.hf.encoding import SubwordTokenizer

_Tokens = tuple[int, ...]

# Maximum number of rows that are extended together.
_MAX_ROWS = 128


class TokenPrefixes(Prefixes):
    """Base class of R unfinished sentences (prefixes) under a model of subword tokens.

    Predicting the next token once gives the log-probability of the first token of every word, which
    is an upper bound of the log-probability of the word.

    Parameters
    ----------
    tokenizer
        Tokenizer of the model.
    word_lists
        Two word lists: words for the first position of a sentence, and words for later positions.
    n_words
        Number of words of each prefix. All prefixes have the same number.
    next_log_probs
        Log-probabilities in nats of the tokens of the vocabulary after each prefix, with the shape
        (R, tokens).
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
        # Tokenise all words that may come next (`self.next_words`). The tokens of a word depend on
        # whether it is the first word of the sentence, but not on the words around it. So an
        # example sentence is sufficient, in which the next words replace the empty string: as first
        # words if the prefixes are empty, otherwise as second words.
        other_word = tokenizer.sample_word
        words = ("", other_word) if n_words == 0 else (other_word, "", other_word)
        position = 0 if n_words == 0 else 1
        no_marks = ("",) * len(words)
        sentence = Sentence(words, before=no_marks, after=no_marks)
        self._candidates = tokenizer.candidates(sentence, position, self.next_words)

    def upper_bounds(self) -> tuple[FloatArray, BoolArray]:
        """Return upper bounds of the log-probability of each word after each prefix.

        The bound is the log-probability of the first token of the word.

        Returns
        -------
        bounds : array
            Upper bounds in nats, shape (R, V).
        is_exact : array
            Whether the bounds of each word equal its log-probabilities, because it has only one
            token, shape (V,).
        """
        first_tokens = self._candidates.first_tokens
        # (prefixes, tokens of the vocabulary) -> (prefixes, words)
        indices = torch.from_numpy(first_tokens).to(self._next_log_probs.device)
        bounds = self._next_log_probs[:, indices].cpu().numpy().astype(np.float64)
        return np.minimum(bounds, 0.0), self._candidates.n_tokens == 1

    def log_group_sizes(self) -> FloatArray:
        """Return, for each word, the log of the number of words with the same first token.

        Words with the same first token have the same upper bound (`upper_bounds`), and share the
        probability of this token.

        Returns
        -------
        array
            Natural logarithms, shape (V,).
        """
        first_tokens = self._candidates.first_tokens
        return np.log(np.bincount(first_tokens)[first_tokens])

    def first_log_probs(self, rows: IntArray, tokens: Sequence[_Tokens]) -> FloatArray:
        """Return the log-probability of the first token of each of k token sequences.

        Parameters
        ----------
        rows
            Index of the prefix before each sequence, shape (k,).
        tokens
            The k token sequences. Only their first tokens are used.

        Returns
        -------
        array
            Log-probabilities in nats, shape (k,).
        """
        device = self._next_log_probs.device
        first_tokens = torch.tensor([ids[0] for ids in tokens], dtype=torch.int64, device=device)
        row_indices = torch.from_numpy(np.asarray(rows, dtype=np.int64)).to(device)
        log_probs = self._next_log_probs[row_indices, first_tokens]
        return log_probs.cpu().numpy().astype(np.float64)


class CausalPrefixes(TokenPrefixes):
    """R unfinished sentences (prefixes) under a causal model, with cached keys and values.

    Parameters
    ----------
    model
        Model that predicts the words. It has a start token or other tokens before a sentence.
    word_lists
        Two word lists: words for the first position of a sentence, and words for later positions.
    n_words
        Number of words of each prefix. All prefixes have the same number.
    past
        Cached keys and values of the R prefixes.
    next_log_probs
        Log-probabilities in nats of the tokens of the vocabulary after each prefix, with the shape
        (R, tokens).
    pending_commas
        For each prefix, the tokens of a comma at its end, which are not in the cache yet. They are
        added to the cache together with the next word. Empty for prefixes without such a comma.
    """

    def __init__(
        self,
        model: CausalModel,
        word_lists: tuple[WordList, WordList],
        n_words: int,
        past: TreeCache,
        next_log_probs: torch.Tensor,
        pending_commas: Sequence[_Tokens] = (),
    ) -> None:
        super().__init__(model.tokenizer, word_lists, n_words, next_log_probs)
        self._model, self._past = model, past
        self._pending_commas = list(pending_commas) or [()] * len(next_log_probs)

    @classmethod
    def empty(cls, model: CausalModel, word_lists: tuple[WordList, WordList]) -> CausalPrefixes:
        """Return the empty sentence prefix, from which sentences are written word by word.

        Parameters
        ----------
        model
            Model that predicts the words.
        word_lists
            Words for the first position of a sentence, and words for later positions.
        """
        ids = np.array(model.prefix, dtype=np.int64)
        # Predict the first word from the special tokens and the prompt, `ids`. Before the first use
        # of a cache, a test checks that the network computes the same logits with it. The test is
        # run on random tokens after the first special token, `model.prefix[:1]`, because some
        # networks count positions from this token.
        use_cache = supports_tree_cache(model.network, len(ids), model.prefix[:1])
        logits, past = TreeCache.prefill(model.network, ids, use_cache=use_cache)
        next_log_probs = logits[-1:].log_softmax(dim=1)
        if model.corrects_white_space:
            # Corrected word probabilities (see `CausalModel`): subtract log p(the next token starts
            # a word), so that the probabilities of all first words sum to 1.
            start_log_probs = next_log_probs[:, model.start_ids]
            next_log_probs = next_log_probs - start_log_probs.logsumexp(dim=1, keepdim=True)
        return cls(model, word_lists, 0, past, next_log_probs)

    def log_probs(self, rows: IntArray, indices: IntArray) -> FloatArray:
        """Return the log-probability of each of k words, given the prefix before it.

        Parameters
        ----------
        rows
            Index of the prefix before each word, shape (k,).
        indices
            Index of each word in the word list of the next position, shape (k,).

        Returns
        -------
        array
            Log-probabilities in nats, shape (k,).
        """
        return self._sequence_log_probs(
            rows, [self._candidates.tokens[i] for i in indices.tolist()]
        )

    def _sequence_log_probs(self, rows: IntArray, tokens: Sequence[_Tokens]) -> FloatArray:
        """Return log p(tokens | prefix) of k token sequences, by the chain rule.

        Parameters
        ----------
        rows
            Index of the prefix before each sequence, shape (k,).
        tokens
            The k token sequences.

        Returns
        -------
        array
            Log-probabilities in nats, shape (k,).
        """
        if not len(tokens):
            return np.zeros(0)
        # Chain rule: sum the log-probabilities of the first token and of the later tokens.
        sequence_log_probs = self.first_log_probs(rows, tokens)
        # To predict the tokens after the first, the network needs all tokens of a sequence but the
        # last. Sequences that differ only in the last token share one extension of a prefix.
        # An extension is a prefix with its new tokens, after a comma that is not cached yet.
        members: dict[tuple[int, _Tokens], list[int]] = {}
        for i, (row, ids) in enumerate(zip(rows.tolist(), tokens, strict=True)):
            if len(ids) > 1:
                members.setdefault((row, self._pending_commas[row] + ids[:-1]), []).append(i)
        # Compute extensions by similar numbers of tokens together, which saves padding.
        extensions = sorted(members, key=lambda extension: len(extension[1]))
        for start in range(0, len(extensions), _MAX_ROWS):
            batch = extensions[start : start + _MAX_ROWS]
            batch_rows, batch_tokens = [row for row, _ in batch], [ids for _, ids in batch]
            _, logits = self._extend_rows(batch_rows, batch_tokens, all_logits=True)
            log_probs = logits.log_softmax(dim=1)
            # The logits of all extensions are concatenated; `stop` is the end of the current one.
            # List, for each predicted token, its sequence, the position that predicts it, its id.
            stop, sequences, positions, targets = 0, list[int](), list[int](), list[int]()
            for row, ids in batch:
                stop += len(ids)
                for i in members[row, ids]:
                    n_later = len(tokens[i]) - 1
                    sequences += [i] * n_later
                    positions += range(stop - n_later, stop)
                    targets += tokens[i][1:]
            later_log_probs = log_probs[positions, targets].cpu().numpy().astype(np.float64)
            # `np.add.at` adds up values with the same index; += would keep only the last one.
            np.add.at(sequence_log_probs, sequences, later_log_probs)
        return np.minimum(sequence_log_probs, 0.0)

    def _extend_rows(
        self, rows: Sequence[int], tokens: Sequence[_Tokens], *, all_logits: bool
    ) -> tuple[TreeCache, torch.Tensor]:
        """Run the network on new tokens that continue prefixes in the cache.

        The keys and values of the prefixes are read from the cache. If the network does not support
        a cache for sequences of this length, for example because its sliding window is shorter,
        the prefixes are processed again from their first token.

        `rows` are the indices of the prefixes, and `tokens` their new tokens. See
        `TreeCache.extend` for the results.
        """
        past, network = self._past, self._model.network
        length = max(len(past.ids[row]) + len(new) for row, new in zip(rows, tokens, strict=True))
        if not supports_tree_cache(network, length, self._model.prefix[:1]):
            past = replace(past, cache=None)
        return past.extend(network, rows, tokens, all_logits=all_logits)

    def _find_mark_tokens(self, mark: str) -> _Tokens:
        """Return the tokens of a punctuation mark that is attached to a word.

        These are the tokens that the mark adds to the tokens of a word. If it changes the tokens of
        the word, the mark is tokenised alone.
        """
        tokenizer = self._model.tokenizer
        word = tokenizer.sample_word
        word_ids, marked_ids = tokenizer.tokenize([word, word + mark])
        if marked_ids[: len(word_ids)] == word_ids:
            return tuple(marked_ids[len(word_ids) :])
        return tuple(tokenizer.tokenize([mark])[0])

    def _log_probs_after_each(self, tokens: _Tokens) -> FloatArray:
        """Return log p(tokens | prefix) in nats for each prefix and the same tokens, shape (R,)."""
        rows = np.arange(len(self._next_log_probs))
        if not tokens:
            return np.zeros(len(rows))
        return self._sequence_log_probs(rows, [tokens] * len(rows))

    def end_log_probs(self, mark: str) -> FloatArray:
        """Return the log-probability that each prefix ends with a punctuation mark.

        It includes the mark and the end-of-sentence token, if the model scores them. If word
        probabilities are corrected for white space and the end is not scored, it also includes the
        probability that the last word ends.

        Parameters
        ----------
        mark
            Final punctuation mark, for example ``.``; empty for none.

        Returns
        -------
        array
            Log-probabilities in nats, shape (R,).
        """
        model, mark_tokens = self._model, self._find_mark_tokens(mark) if mark else ()
        # log p(mark, end of sentence | prefix)
        log_probs = self._log_probs_after_each((*mark_tokens, *model.end))
        if model.corrects_white_space and not model.end:
            # The correction for white space adds log p(the next token starts a new word), after
            # the mark if there is one.
            next_log_probs = self._next_log_probs
            if mark_tokens:
                rows = np.arange(len(next_log_probs))
                next_log_probs = self._predict_next_token(rows, mark_tokens)
            boundary = next_log_probs[:, model.boundary_ids].logsumexp(dim=1)
            log_probs += boundary.cpu().numpy().astype(np.float64)
        if model.tokenizer.options.punctuation == "context":
            # The model reads the mark without scoring it: subtract its log-probability.
            return log_probs - self._log_probs_after_each(mark_tokens)
        return log_probs

    def word_end_log_probs(self) -> FloatArray:
        """Return the log-probability that the last word of each prefix is complete.

        The last word is complete if the next token cannot continue a word or is a closing
        punctuation mark.

        Returns
        -------
        array
            Log-probabilities in nats, shape (R,).
        """
        closing_ids = self._model.tokenizer.closing_mark_ids
        closing = torch.tensor(closing_ids, device=self._next_log_probs.device)
        end_ids = torch.cat([self._model.boundary_ids, closing])
        log_probs = self._next_log_probs[:, end_ids].logsumexp(dim=1)
        return log_probs.cpu().numpy().astype(np.float64)

    def comma_log_probs(self) -> FloatArray:
        """Return the log-probability in nats of a comma after each prefix, shape (R,)."""
        return self._log_probs_after_each(self._find_mark_tokens(COMMA))

    def _predict_next_token(self, rows: IntArray, tokens: _Tokens) -> torch.Tensor:
        """Return the log-probabilities of the next token after appending tokens to prefixes.

        Parameters
        ----------
        rows
            Indices of k prefixes.
        tokens
            Tokens to append to each of the k prefixes.

        Returns
        -------
        tensor
            Log-probability in nats of each token of the vocabulary, shape (k, tokens).
        """
        row_tokens = [self._pending_commas[row] + tokens for row in rows]
        _, logits = self._extend_rows(rows.tolist(), row_tokens, all_logits=False)
        return logits.log_softmax(dim=1)

    def add_commas(self, is_marked: BoolArray) -> CausalPrefixes:
        """Return the prefixes with a comma appended to some of them.

        Parameters
        ----------
        is_marked
            Whether to append a comma to each prefix, shape (R,).

        Returns
        -------
        CausalPrefixes
            All R prefixes, with and without comma.
        """
        rows, comma = np.flatnonzero(is_marked), self._find_mark_tokens(COMMA)
        # After a comma, the next token has different probabilities.
        next_log_probs = self._next_log_probs.clone()
        if len(rows):
            row_indices = torch.from_numpy(rows).to(next_log_probs.device)
            next_log_probs[row_indices] = self._predict_next_token(rows, comma)
        # The cache is not extended: `extend` appends the comma and the next word together.
        commas = list(self._pending_commas)
        for row in rows.tolist():
            commas[row] += comma
        return CausalPrefixes(
            self._model, self.word_lists, self.n_words, self._past, next_log_probs, commas
        )

    def extend(self, rows: IntArray, indices: IntArray) -> CausalPrefixes:
        """Return k prefixes that are one word longer.

        Parameters
        ----------
        rows
            Index of the prefix that each of the k prefixes extends, shape (k,).
        indices
            Index of the word to append to it, shape (k,).
        """
        tokens = self._list_new_tokens(rows, indices)
        past, logits = self._extend_rows(rows.tolist(), tokens, all_logits=False)
        next_log_probs = logits.log_softmax(dim=1)
        return CausalPrefixes(self._model, self.word_lists, self.n_words + 1, past, next_log_probs)

    def score_and_extend(self, rows: IntArray, indices: IntArray) -> tuple[FloatArray, Prefixes]:
        """Append words to prefixes and compute their log-probabilities in one run of the network.

        Parameters
        ----------
        rows
            Index of the prefix before each word, shape (k,).
        indices
            Index of each word, shape (k,).

        Returns
        -------
        array
            Log-probability in nats of each word, shape (k,).
        Prefixes
            The k prefixes with the words appended.
        """
        words = [self._candidates.tokens[i] for i in indices.tolist()]
        # Append each word, after a comma that is not cached yet. Split the logits by word.
        tokens = self._list_new_tokens(rows, indices)
        past, all_logits = self._extend_rows(rows.tolist(), tokens, all_logits=True)
        logits = torch.split(all_logits, [len(ids) for ids in tokens])
        # Chain rule: the log-probability of a word is the sum over its tokens.
        word_log_probs = self.first_log_probs(rows, words)
        for i, (word, word_logits) in enumerate(zip(words, logits, strict=True)):
            if len(word) > 1:
                # The logits at each token but the last predict the next token of the word.
                log_probs = word_logits[-len(word) : -1].log_softmax(dim=1)
                targets = torch.tensor(word[1:], device=log_probs.device)
                word_log_probs[i] += float(log_probs.gather(1, targets[:, None]).double().sum())
        # The logits at the last token of each word predict the token after the longer prefix.
        last_logits = torch.stack([word_logits[-1] for word_logits in logits])
        next_log_probs = last_logits.log_softmax(dim=1)
        extended = CausalPrefixes(
            self._model, self.word_lists, self.n_words + 1, past, next_log_probs
        )
        return np.minimum(word_log_probs, 0.0), extended

    def _list_new_tokens(self, rows: IntArray, indices: IntArray) -> list[_Tokens]:
        """Return the tokens to append to the cache for each word: a pending comma and the word."""
        pairs = zip(rows.tolist(), indices.tolist(), strict=True)
        return [self._pending_commas[row] + self._candidates.tokens[i] for row, i in pairs]
