"""Batches of sentences of equal length."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from contstim.arrays import IntArray


def batch_by_length(
    order: IntArray, lengths: IntArray, max_sentences: Callable[[int], int]
) -> list[IntArray]:
    """Split sentences into batches, each of which contains sentences of one length.

    Batches of equal length need no padding. Batches of short sentences come first. Sentences of
    equal length keep their relative order in `order`.

    Parameters
    ----------
    order : (N,) array
        Indices of the sentences to split.
    lengths : (S,) array
        Number of tokens of each of S sentences.
    max_sentences
        Function that computes the maximum number of sentences in a batch from their number of
        tokens. A batch contains at least one sentence, even if the maximum is 0.

    Returns
    -------
    list of arrays
        Indices of the sentences in each batch.
    """
    if not len(order):
        return []
    # The stable sort keeps sentences of equal length in their given order.
    order = order[np.argsort(lengths[order], kind="stable")]
    # A new group starts wherever the sorted length changes.
    group_starts = np.flatnonzero(np.diff(lengths[order])) + 1
    batches: list[IntArray] = []
    for group in np.split(order, group_starts):
        batch_size = max(1, max_sentences(int(lengths[group[0]])))
        for start in range(0, len(group), batch_size):
            batches.append(group[start : start + batch_size])
    return batches
