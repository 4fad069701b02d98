"""Prefixes of sentences as a masked model reads them: guides, for its scores look both ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.hf.prefixes import PiecePrefixes
from contstim.text import WordList

if TYPE_CHECKING:
    from contstim.models.hf.masked import MaskedModel

_Tokens = tuple[int, ...]

# Masks that stand for what is to follow, before the mark that ends the sentence.
_MASKS = 2


class MaskedGuide(PiecePrefixes):
    """Prefixes under a masked model, what follows hidden but for the final mark.

    What it says of the words does not add up to the model's scores.

    Parameters
    ----------
    model
        The model.
    lists
        As in `Prefixes`.
    rows
        The tokens of each beginning.
    n_words
        How many words each beginning has.
    """

    def __init__(
        self,
        model: MaskedModel,
        lists: tuple[WordList, WordList],
        rows: Sequence[_Tokens] = ((),),
        n_words: int = 0,
    ) -> None:
        self._model, self._rows = model, list(rows)
        super().__init__(model.tokenizer, lists, n_words, self._next(self._rows))

    def _next(self, rows: Sequence[_Tokens]) -> torch.Tensor:
        """Return log p(token | row) of every token, (R, tokens)."""
        model = self._model
        example = model.encode([f"{model.tokenizer.sample_word}."])[0]
        before, ended = (
            example.ids[: example.scored_positions[0]],
            example.ids[example.scored_positions[-1] + 1 :],
        )
        mark = model.tokenizer.tokenize_text(".")
        after = [*[model.mask_id] * _MASKS, *mark, *ended]
        whole = [[*before, *row, *after] for row in rows]
        logits = model.network.logits_at(whole, [[len(before) + len(row)] for row in rows])
        return torch.cat(logits).log_softmax(dim=1)

    def log_probs(self, rows: IntArray, index: IntArray) -> FloatArray:
        """Return the sums over the words' pieces, (k,), nats."""
        tokens = [self._candidates.tokens[i] for i in index.tolist()]
        values = self._firsts(rows, tokens)
        ways: dict[_Tokens, list[tuple[int, int]]] = {}
        for i, (row, word) in enumerate(zip(rows.tolist(), tokens, strict=True)):
            for n in range(1, len(word)):
                ways.setdefault((*self._rows[row], *word[:n]), []).append((i, word[n]))
        if ways:
            for logs, asked in zip(self._next(list(ways)), ways.values(), strict=True):
                for i, token in asked:
                    values[i] += float(logs[token])
        return np.minimum(values, 0.0)

    def end_log_probs(self, mark: str) -> FloatArray:
        """Return 0: the mark is seen from the beginning."""
        return np.zeros(len(self._rows))

    def comma_log_probs(self) -> FloatArray:
        """Return 0, as if the model scored no commas."""
        return np.zeros(len(self._rows))

    def add_commas(self, where: BoolArray) -> MaskedGuide:
        """Return the beginnings as they are."""
        return self

    def extend(self, rows: IntArray, index: IntArray) -> MaskedGuide:
        """Return longer beginnings."""
        pairs = zip(rows.tolist(), index.tolist(), strict=True)
        tokens = [(*self._rows[row], *self._candidates.tokens[i]) for row, i in pairs]
        return MaskedGuide(self._model, self.word_lists, tokens, self.n_words + 1)
