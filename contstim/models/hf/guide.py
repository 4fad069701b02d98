"""Sentence prefixes under a masked transformer, for proposing words."""

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
    """Prefixes under a masked model, followed by mask tokens and a full stop.

    The log-probabilities of the words do not sum to the scores of the model, which depend on later
    words.

    Parameters
    ----------
    model
        The model.
    word_lists
        Words for the first and for later positions.
    rows
        Token ids of each of R prefixes.
    n_words
        Number of words of each prefix.
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
        """Return the log-probability of each token after each prefix, shape (R, tokens), nats."""
        model = self._model
        example = model.encode([f"{model.tokenizer.sample_word}."])[0]
        positions = example.scored_positions
        before, after = example.ids[: positions[0]], example.ids[positions[-1] + 1 :]
        full_stop = model.tokenizer.tokenize_text(".")
        end = [*[model.mask_id] * _N_MASKS, *full_stop, *after]
        inputs = [[*before, *row, *end] for row in rows]
        logits = model.network.logits_at(inputs, [[len(before) + len(row)] for row in rows])
        return torch.cat(logits).log_softmax(dim=1)

    def log_probs(self, rows: IntArray, indices: IntArray) -> FloatArray:
        """Return the log-probabilities of k words after selected prefixes, shape (k,), nats.

        Parameters
        ----------
        rows, indices
            Index of the prefix and of the word, shape (k,).
        """
        tokens = [self._candidates.tokens[i] for i in indices.tolist()]
        values = self.first_log_probs(rows, tokens)
        # Predict the later tokens of all words, each distinct prefix of tokens once.
        targets: dict[_Tokens, list[tuple[int, int]]] = {}
        for i, (row, word) in enumerate(zip(rows.tolist(), tokens, strict=True)):
            for n in range(1, len(word)):
                targets.setdefault((*self._rows[row], *word[:n]), []).append((i, word[n]))
        if targets:
            log_probs = self._predict_next(list(targets))
            for next_log_probs, pairs in zip(log_probs, targets.values(), strict=True):
                for i, token in pairs:
                    values[i] += float(next_log_probs[token])
        return np.minimum(values, 0.0)

    def end_log_probs(self, mark: str) -> FloatArray:
        """Return 0 for each prefix: the final mark is part of every input."""
        return np.zeros(len(self._rows))

    def comma_log_probs(self) -> FloatArray:
        """Return 0 for each prefix: commas are not scored."""
        return np.zeros(len(self._rows))

    def add_commas(self, is_marked: BoolArray) -> MaskedGuide:
        """Return the prefixes unchanged: commas are not scored."""
        return self

    def extend(self, rows: IntArray, indices: IntArray) -> MaskedGuide:
        """Return k prefixes, each a selected prefix extended by a word.

        Parameters
        ----------
        rows, indices
            Index of the prefix and of the word, shape (k,).
        """
        pairs = zip(rows.tolist(), indices.tolist(), strict=True)
        tokens = [(*self._rows[row], *self._candidates.tokens[i]) for row, i in pairs]
        return MaskedGuide(self._model, self.word_lists, tokens, self.n_words + 1)
