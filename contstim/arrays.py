"""Names for the arrays that results come in, and how rows are put in batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
#: Ids of the tokens of whole texts, of which there are many.
TokenArray = NDArray[np.int32]
#: Numbers of any type.
AnyArray = NDArray[Any]


def length_batches(
    order: IntArray, lengths: IntArray, most: Callable[[int], int]
) -> list[IntArray]:
    """Cut sentences into batches of one length, shortest first and otherwise as in `order`.

    Parameters
    ----------
    order
        Indices of sentences, shape (N,).
    lengths
        Tokens of each of S sentences, shape (S,).
    most
        From a length to the most sentences of a batch; one at least is taken.
    """
    order = order[np.argsort(lengths[order], kind="stable")]
    batches: list[IntArray] = []
    for same in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        if len(same):
            size = max(1, most(int(lengths[same[0]])))
            batches += [same[i : i + size] for i in range(0, len(same), size)]
    return batches
