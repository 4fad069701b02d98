"""Sentence prefixes under a masked transformer, which proposes the next words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.hf.prefixes import TokenPrefixes
from contstim.text import WordList

if TYPE_CHECKING:
    from contstim.models.hf.masked import MaskedModel

_Tokens = tuple[int, ...]

# Number of mask tokens after a prefix, before the final punctuation mark.
_N_MASKS = 2


class MaskedGuide(TokenPrefixes):
    """R unfinished sentences (prefixes) under a masked model, which proposes the next word.

    The input of the network is a prefix, two mask tokens and a full stop. The prediction at the
    first mask token gives the log-probabilities of the next token, with which a search writes a
    sentence from left to right. They do not sum to the model's score of the sentence, which
    predicts each token from later words as well.

    Parameters
    ----------
    model
        Masked model that proposes the words.
    word_lists
        Two word lists: words for the first position of a sentence, and words for later positions.
    rows
        Token ids of each of the R prefixes.
    n_words
        Number of words of each prefix. All prefixes have the same number.
    """

    def __init__(
        self,
        model: MaskedModel,
        word_lists: tuple[WordList, WordList],
        rows: Sequence[_Tokens] = ((),),
        n_words: int = 0,
    ) -> None:
        self._model, self._rows = model, list(rows)
        super().__init__(model.tokenizer, word_lists, n_words, self._predict_next(self._rows))

    def _predict_next(self, rows: Sequence[_Tokens]) -> torch.Tensor:
        """Return the log-probabilities of the next token after each prefix.

        Parameters
        ----------
        rows
            Token ids of R prefixes.

        Returns
        -------
        tensor
            Log-probability in nats of each token of the vocabulary, shape (R, tokens).
        """
        model = self._model
        # Special tokens before and after a sentence, for example [CLS] and [SEP], taken from the
        # tokens of an example sentence.
        example = model.encode([f"{model.tokenizer.sample_word}."])[0]
        positions = example.scored_positions
        before, after = example.ids[: positions[0]], example.ids[positions[-1] + 1 :]
        # Input: [CLS] prefix [MASK] [MASK] . [SEP]. The first mask is predicted.
        masks = [model.mask_id] * _N_MASKS
        full_stop = model.tokenizer.tokenize_text(".")
        inputs = [[*before, *row, *masks, *full_stop, *after] for row in rows]
        first_mask_positions = [[len(before) + len(row)] for row in rows]
        logits = model.network.logits_at(inputs, first_mask_positions)
        return torch.cat(logits).log_softmax(dim=1)

    def log_probs(self, rows: IntArray, indices: IntArray) -> FloatArray:
        """Return the log-probability of each of k words, given the prefix before it.

        Parameters
        ----------
        rows
            Index of the prefix before each word, shape (k,).
        indices
            Index of each word in the list of candidate words for the next position, shape (k,).

        Returns
        -------
        array
            Log-probabilities in nats, shape (k,).
        """
        tokens = [self._candidates.tokens[i] for i in indices.tolist()]
        # Chain rule: the log-probability of a word is the sum over its first and later tokens.
        word_log_probs = self.first_log_probs(rows, tokens)
        # Later tokens of a word: predict each token after the prefix and the earlier tokens of the
        # word. Words with the same earlier tokens share a prediction. Map each context to pairs of
        # a word and the token of this word that follows.
        targets: dict[_Tokens, list[tuple[int, int]]] = {}
        for i, (row, word) in enumerate(zip(rows.tolist(), tokens, strict=True)):
            for n in range(1, len(word)):
                context = (*self._rows[row], *word[:n])
                targets.setdefault(context, []).append((i, word[n]))
        if targets:
            log_probs = self._predict_next(list(targets))  # (contexts, tokens of the vocabulary)
            for next_log_probs, pairs in zip(log_probs, targets.values(), strict=True):
                for i, token in pairs:
                    word_log_probs[i] += float(next_log_probs[token])
        # Rounding may raise a probability of 1 slightly.
        return np.minimum(word_log_probs, 0.0)

    def end_log_probs(self, mark: str) -> FloatArray:
        """Return zeros, shape (R,), because the final mark is part of every input."""
        return np.zeros(len(self._rows))

    def comma_log_probs(self) -> FloatArray:
        """Return zeros, shape (R,), because commas are not scored."""
        return np.zeros(len(self._rows))

    def add_commas(self, is_marked: BoolArray) -> MaskedGuide:
        """Return the prefixes unchanged, because commas are not scored."""
        return self

    def extend(self, rows: IntArray, indices: IntArray) -> MaskedGuide:
        """Return k prefixes that are one word longer.

        Parameters
        ----------
        rows
            Index of the prefix that each of the k prefixes extends, shape (k,).
        indices
            Index of the word to append to it, shape (k,).
        """
        pairs = zip(rows.tolist(), indices.tolist(), strict=True)
        tokens = [(*self._rows[row], *self._candidates.tokens[i]) for row, i in pairs]
        return MaskedGuide(self._model, self.word_lists, tokens, self.n_words + 1)
