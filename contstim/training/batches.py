"""Batches of sentences of equal length."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from contstim.arrays import IntArray


def length_batches(
    order: IntArray, lengths: IntArray, most: Callable[[int], int]
) -> list[IntArray]:
    """Divide sentences into batches of sentences with the same number of tokens.

    Batches of equal length need no padding. The shortest sentences come first, and sentences of
    equal length in the order of `order`.

    Parameters
    ----------
    order : (N,) array
        Indices of the sentences to divide.
    lengths : (S,) array
        Number of tokens of each of S sentences.
    most
        Function that returns the maximum number of sentences in a batch, given their number of
        tokens. A batch contains at least one sentence.

    Returns
    -------
    list of arrays
        Indices of the sentences in each batch.
    """
    order = order[np.argsort(lengths[order], kind="stable")]
    batches: list[IntArray] = []
    for same in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        if len(same):
            size = max(1, most(int(lengths[same[0]])))
            batches += [same[i : i + size] for i in range(0, len(same), size)]
    return batches
