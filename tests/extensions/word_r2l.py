"""A custom metric: the tokens of a word are predicted from its last to its first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from contstim.arrays import IntArray
from contstim.models.hf import metrics

if TYPE_CHECKING:
    from contstim.models.hf.options import MaskedOptions


def word_r2l(
    word_lengths: tuple[int, ...], word_indices: IntArray, options: MaskedOptions
) -> metrics.MaskingPlan:
    """Hide each token and the earlier ones of its word."""
    tokens = np.arange(len(word_indices))
    same_word = word_indices[:, None] == word_indices[None, :]
    hidden = same_word & (tokens[None, :] <= tokens[:, None])
    return metrics.one_mask_per_token(hidden)
