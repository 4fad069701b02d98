"""Scoring sentences that begin alike: tokens that several have in common are computed once.

Sentences become paths of a tree of tokens. A row of the network holds a tree, each token seeing
its ancestors alone and standing at its depth; so every token is computed as in its own sentence,
and those before the first difference once for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from contstim.arrays import BoolArray, IntArray
from contstim.models.hf.network import UNCOMPUTABLE, Network

__all__ = ["ROW_TOKENS", "TreeRow", "plan_rows", "takes_trees", "tree_logits"]

#: Tokens of a row. Each token is compared with all of its row, which must not outweigh the rest.
ROW_TOKENS = 256


@dataclass(frozen=True, eq=False)
class TreeRow:
    """Several sequences as one row.

    Attributes
    ----------
    ids
        Token ids of the N tokens of the tree, parents before children, shape (N,).
    parent
        Parent of each token, -1 where there is none, shape (N,).
    depth
        Its position in its sequences, shape (N,).
    sequences
        Which sequences the row holds.
    paths
        For each of them its tokens' places in the row.
    """

    ids: IntArray
    parent: IntArray
    depth: IntArray
    sequences: tuple[int, ...]
    paths: tuple[IntArray, ...]

    @property
    def sees(self) -> BoolArray:
        """Which tokens each token sees: itself and its ancestors, shape (N, N)."""
        seen = np.eye(len(self.ids), dtype=np.bool_)
        for i, parent in enumerate(self.parent):
            if parent >= 0:
                seen[i] |= seen[parent]
        return seen


def plan_rows(sequences: Sequence[IntArray], most: int = ROW_TOKENS) -> list[TreeRow]:
    """Lay sequences of token ids out as trees of at most `most` tokens, if one alone is no longer.

    Sequences are taken in lexicographic order, where those that begin alike are neighbours.
    """
    order = sorted(range(len(sequences)), key=lambda i: sequences[i].tolist())
    rows: list[TreeRow] = []
    builder = _Builder()
    for i in order:
        ids = sequences[i].tolist()
        if builder.sequences and len(builder.ids) + builder.new_tokens(ids) > most:
            rows.append(builder.row())
            builder = _Builder()
        builder.add(i, ids)
    if builder.sequences:
        rows.append(builder.row())
    return rows


class _Builder:
    """A tree that grows by one sequence after another."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.parent: list[int] = []
        self.depth: list[int] = []
        self.sequences: list[int] = []
        self.paths: list[IntArray] = []
        self._children: dict[tuple[int, int], int] = {}

    def new_tokens(self, ids: Sequence[int]) -> int:
        """Return how many tokens a sequence would add."""
        node = -1
        for place, token in enumerate(ids):
            following = self._children.get((node, token))
            if following is None:
                return len(ids) - place
            node = following
        return 0

    def add(self, number: int, ids: Sequence[int]) -> None:
        """Add a sequence."""
        node, path = -1, []
        for depth, token in enumerate(ids):
            following = self._children.get((node, token))
            if following is None:
                following = len(self.ids)
                self._children[node, token] = following
                self.ids.append(token)
                self.parent.append(node)
                self.depth.append(depth)
            node = following
            path.append(node)
        self.sequences.append(number)
        self.paths.append(np.array(path, dtype=np.int64))

    def row(self) -> TreeRow:
        """Return the tree."""
        return TreeRow(
            np.array(self.ids, dtype=np.int64),
            np.array(self.parent, dtype=np.int64),
            np.array(self.depth, dtype=np.int64),
            tuple(self.sequences),
            tuple(self.paths),
        )


def tree_logits(network: Network, row: TreeRow, places: IntArray) -> torch.Tensor:
    """Return the logits at `places` of a row, shape (m, V), float32 or wider."""
    device = network.device
    sees = torch.from_numpy(row.sees).to(device)
    blocked = torch.zeros(sees.shape, dtype=network.dtype, device=device)
    blocked.masked_fill_(~sees, torch.finfo(network.dtype).min)
    with torch.inference_mode():
        return network.logits(
            torch.from_numpy(row.ids)[None].to(device),
            torch.zeros(len(places), dtype=torch.int64, device=device),
            torch.from_numpy(places).to(device),
            attention_mask=blocked[None, None],
            position_ids=torch.from_numpy(row.depth)[None].to(device),
            use_cache=False,
        )


def takes_trees(
    network: Network, n_tokens: int, depth: int, most: int, prefix: Sequence[int]
) -> bool:
    """Whether a network gives the tokens of trees the logits they have in their sequences.

    Not so where it computes from left to right without attention, keeps to positions of its own,
    or sees a window or chunk of a row: then on large trees or long sequences alone. So it is tried
    on a tree as large as any that is asked for, once for each pair of powers of two.

    Parameters
    ----------
    network
        The network.
    n_tokens, depth
        Tokens of the largest tree, and of its longest sequence, at most half of `most`.
    most
        Tokens of the largest tree of all.
    prefix
        What every sequence begins with. Some networks count positions from a token of it.
    """
    depth = min(max(4, 2 ** (depth - 1).bit_length()), most // 2)
    n_tokens = min(max(2 ** (n_tokens - 1).bit_length(), 2 * depth), most)
    key = ("trees", n_tokens, depth, tuple(prefix))
    if key not in network.tried:
        try:
            network.tried[key] = _takes_tree(network, network.trial(n_tokens, prefix), depth)
        except UNCOMPUTABLE:
            # A network that takes no such mask or positions.
            network.tried[key] = False
    return network.tried[key]


def _takes_tree(network: Network, ids: IntArray, depth: int) -> bool:
    """Compare a tree of `ids` (N,) with its sequences, which share a first half or quarter."""
    sequences, fresh = [ids[:depth]], ids[depth:]
    while len(fresh):
        shared = sequences[0][: depth // (2 if len(sequences) % 2 else 4)]
        new = depth - len(shared)
        sequences.append(np.append(shared, fresh[:new]))
        fresh = fresh[new:]
    row = plan_rows(sequences, most=len(ids))[0]
    for number, path in zip(row.sequences, row.paths, strict=True):
        own = torch.from_numpy(sequences[number])[None].to(network.device)
        at = np.unique(np.linspace(0, len(path) - 1, 9).astype(np.int64))
        places = torch.from_numpy(at).to(network.device)
        with torch.inference_mode():
            alone = network.logits(own, torch.zeros_like(places), places)
        if not network.alike(tree_logits(network, row, path[at]), alone):
            return False
    return True
