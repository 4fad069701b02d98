"""Values of chains that begin alike, each shared token computed once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.models.hf.prefix_tree import ROW_TOKENS, TreeRow, plan_rows, read_row, takes_trees

if TYPE_CHECKING:
    from contstim.models.hf.causal import CausalModel, Chain

__all__ = ["shared_values"]

# Trees are worth while if they leave at most this share of the tokens.
_WORTH = 0.7


def shared_values(model: CausalModel, chains: Sequence[Chain]) -> list[FloatArray] | None:
    """Compute what `model.values` gives, by trees of tokens.

    Returns
    -------
    list or None
        S arrays (T,), nats; None where sentences share too little or are longer than half a row,
        or where the network takes no trees as large as theirs.
    """
    if len(chains) < 2:
        return None
    reads = [model.reads(chain) for chain in chains]
    # Nothing is read off a last token unless a correction asks for it.
    used = [chain.ids[: int(r.max()) + 1] for chain, r in zip(chains, reads, strict=True)]
    # A row is no longer than an input may be.
    most = min(ROW_TOKENS, model.checkpoint.max_tokens or ROW_TOKENS)
    longest = max(map(len, used))
    if 2 * longest > most:
        return None
    rows = plan_rows(used, most)
    sizes = [len(row.ids) for row in rows]
    if sum(sizes) > _WORTH * sum(map(len, used)):
        return None
    if not takes_trees(model.network, max(sizes), longest, most, model.prefix):
        return None
    found: list[FloatArray] = [np.zeros(0)] * len(chains)
    for row in rows:
        for number, table in _read(model, row, chains, reads):
            found[number] = model.from_reads(chains[number], table)
    return found


def _read(
    model: CausalModel, row: TreeRow, chains: Sequence[Chain], reads: Sequence[IntArray]
) -> list[tuple[int, FloatArray]]:
    """Read what the chains of one row need, each place and following token once."""
    pairs = []
    for number, path in zip(row.sequences, row.paths, strict=True):
        ids, at = chains[number].ids, reads[number]
        pairs.append(np.stack([path[at], ids[np.minimum(at + 1, len(ids) - 1)]], axis=1))
    distinct, which = np.unique(np.concatenate(pairs), axis=0, return_inverse=True)
    logits = read_row(model.network, row, distinct[:, 0])
    table = model.look_up(logits, distinct[:, 1])
    cuts = np.cumsum([len(p) for p in pairs])[:-1]
    return [
        (number, table[index])
        for number, index in zip(row.sequences, np.split(which.reshape(-1), cuts), strict=True)
    ]
