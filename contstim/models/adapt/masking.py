"""The masked-token objective: which tokens are hidden, and what is put in their place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from contstim.arrays import IntArray
from contstim.models.hf.encoding import Encoded

__all__ = ["MaskedBatch", "hide", "shuffled_batches"]

# Of the hidden tokens these shares become the mask token and a random token; the others stay.
_MASK, _RANDOM = 0.8, 0.1


@dataclass(frozen=True, eq=False)
class MaskedBatch:
    """Rows of one length with hidden tokens.

    Attributes
    ----------
    ids
        Token ids with some replaced, shape (R, L).
    rows, positions
        The m hidden places, shape (m,), rows ascending.
    targets
        The tokens that stood there, shape (m,).
    """

    ids: IntArray
    rows: IntArray
    positions: IntArray
    targets: IntArray


def shuffled_batches(
    encoded: Sequence[Encoded], tokens: int, rng: np.random.Generator
) -> Iterator[list[int]]:
    """Yield one pass over S sentences, in batches of one length and at most `tokens` tokens.

    Both what stands together and the order of the batches are drawn again by `rng`.
    """
    order = rng.permutation(len(encoded))
    lengths = np.array([len(encoded[i].ids) for i in order])
    order = order[np.argsort(lengths, kind="stable")]
    groups: list[list[int]] = []
    for i in order.tolist():
        length = len(encoded[i].ids)
        last = groups[-1] if groups else []
        if last and len(encoded[last[0]].ids) == length and (len(last) + 1) * length <= tokens:
            last.append(i)
        else:
            groups.append([i])
    for g in rng.permutation(len(groups)):
        yield groups[g]


def hide(
    encoded: Sequence[Encoded],
    share: float,
    mask_id: int,
    ordinary: IntArray,
    rng: np.random.Generator,
) -> MaskedBatch:
    """Hide tokens of sentences of one length, drawn again each time.

    Of the T scored tokens of a sentence ``max(1, round(share * T))`` are hidden, special tokens
    never. Of the hidden ones 80 % become the mask token, 10 % a random one, and 10 % stay as they
    are (Devlin et al. 2019, section 3.1), drawn again in each pass (Liu et al. 2019, section 4.1).

    Parameters
    ----------
    encoded
        R sentences of one length.
    share
        Share of tokens that are hidden.
    mask_id
        The mask token.
    ordinary
        Ids from which random tokens are drawn.
    rng
        The source of chance.
    """
    ids = np.array([e.ids for e in encoded])
    rows, positions = [], []
    for row, e in enumerate(encoded):
        n = max(1, round(share * len(e.scored)))
        places = np.sort(rng.choice(e.scored, size=n, replace=False))
        rows.append(np.full(n, row, dtype=np.int64))
        positions.append(places)
    at, where = np.concatenate(rows), np.concatenate(positions)
    targets = ids[at, where]
    fate = rng.random(len(at))
    random = rng.choice(ordinary, size=len(at))
    replaced = np.where(fate < _MASK, mask_id, np.where(fate < _MASK + _RANDOM, random, targets))
    ids[at, where] = replaced
    return MaskedBatch(ids, at, where, targets)
