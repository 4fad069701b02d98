"""Candidate words as a trie of their tokens: shared beginnings are computed once.

A row of the network holds a tree of tokens, each seeing its ancestors alone and standing at its
depth; so every token is computed as in its own sentence, and those before the first difference
once for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from contstim.arrays import BoolArray, FloatArray, IntArray
from contstim.models.hf.network import Network

#: Tokens of a row. Each token is compared with all of its row, which must not outweigh the rest.
ROW_TOKENS = 256


@dataclass(frozen=True, eq=False)
class TokenTree:
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

    @classmethod
    def of(cls, sequences: Sequence[list[int]], members: Sequence[int]) -> TokenTree:
        """Lay `members` of `sequences` out as one tree; they are in lexicographic order."""
        ids: list[int] = []
        parent: list[int] = []
        depth: list[int] = []
        paths: list[list[int]] = []
        for i, member in enumerate(members):
            sequence = sequences[member]
            shared = n_shared(sequences[members[i - 1]], sequence) if i else 0
            path = paths[-1][:shared] if i else []
            for place in range(shared, len(sequence)):
                parent.append(path[-1] if path else -1)
                path.append(len(ids))
                ids.append(sequence[place])
                depth.append(place)
            paths.append(path)
        return cls(
            np.array(ids, dtype=np.int64),
            np.array(parent, dtype=np.int64),
            np.array(depth, dtype=np.int64),
            tuple(members),
            tuple(np.array(path, dtype=np.int64) for path in paths),
        )

    @property
    def sees(self) -> BoolArray:
        """Which tokens each token sees: itself and its ancestors, shape (N, N)."""
        seen = np.eye(len(self.ids), dtype=np.bool_)
        for i, parent in enumerate(self.parent):
            if parent >= 0:
                seen[i] |= seen[parent]
        return seen


def pack_trees(sequences: Sequence[IntArray], most: int = ROW_TOKENS) -> list[TokenTree]:
    """Lay sequences of token ids out as trees of at most `most` tokens, if one alone is no longer.

    Sequences are taken in lexicographic order, where those that begin alike are neighbours.
    """
    listed = [sequence.tolist() for sequence in sequences]
    rows: list[list[int]] = []
    n_tokens = 0
    for i in sorted(range(len(listed)), key=listed.__getitem__):
        # Of all sequences before it, the last shares most with it.
        n_new = len(listed[i]) - (n_shared(listed[rows[-1][-1]], listed[i]) if rows else 0)
        if rows and n_tokens + n_new <= most:
            rows[-1].append(i)
            n_tokens += n_new
        else:
            rows.append([i])
            n_tokens = len(listed[i])
    return [TokenTree.of(listed, members) for members in rows]


def n_shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many tokens two sequences begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def tree_logits(network: Network, row: TokenTree, places: IntArray) -> torch.Tensor:
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


def supports_trees(
    network: Network, n_tokens: int, depth: int, most: int, prefix: Sequence[int]
) -> bool:
    """Return whether a network gives the tokens of trees the logits they have in their sequences.

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
    what = "trees", n_tokens, depth, tuple(prefix)
    return network.check_once(
        what, lambda: _takes_tree(network, network.sample_ids(n_tokens, prefix), depth)
    )


def _takes_tree(network: Network, ids: IntArray, depth: int) -> bool:
    """Compare a tree of `ids` (N,) with its sequences, which share a first half or quarter."""
    sequences, fresh = [ids[:depth]], ids[depth:]
    while len(fresh):
        shared = sequences[0][: depth // (2 if len(sequences) % 2 else 4)]
        new = depth - len(shared)
        sequences.append(np.append(shared, fresh[:new]))
        fresh = fresh[new:]
    row = pack_trees(sequences, most=len(ids))[0]
    for number, path in zip(row.sequences, row.paths, strict=True):
        sequence = torch.from_numpy(sequences[number])[None].to(network.device)
        at = np.unique(np.linspace(0, len(path) - 1, 9).astype(np.int64))
        places = torch.from_numpy(at).to(network.device)
        with torch.inference_mode():
            alone = network.logits(sequence, torch.zeros_like(places), places)
        if not network.agree(tree_logits(network, row, path[at]), alone):
            return False
    return True


# A line through fewer computed nodes than this guesses worse than one value for all: then what
# tokens inside common English words are near on average, nats.
_ENOUGH, _UNKNOWN = 20, -3.0


@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs of one length that show what follows some nodes.

    Attributes
    ----------
    ids
        The tokens from the root down to the deepest node of each row, shape (R, d).
    rows, positions
        Where what follows each node is read, shape (m,), rows ascending.
    nodes
        The node of each of these places, shape (m,).
    """

    ids: IntArray
    rows: IntArray
    positions: IntArray
    nodes: IntArray


@dataclass(frozen=True, eq=False)
class TokenTrie:
    """The trie of V words as sequences of tokens, N nodes below its root.

    Attributes
    ----------
    parent
        The node above each node, -1 for the root, shape (N,). Parents come before their children.
    token
        The last token of each node, shape (N,).
    depth
        How many tokens lead to each node, shape (N,).
    beyond
        How many words go on beyond each node, shape (N,).
    end
        The node of each whole word, shape (V,).
    path
        The tokens that lead to each node, padded with zeros, shape (N, D).
    """

    parent: IntArray
    token: IntArray
    depth: IntArray
    beyond: IntArray
    end: IntArray
    path: IntArray

    @classmethod
    def of(cls, words: Sequence[tuple[int, ...]]) -> TokenTrie:
        """Build the trie of `words`, each of one token at least."""
        places: dict[tuple[int, ...], int] = {}
        parent: list[int] = []
        beyond: list[int] = []
        for word in words:
            above = -1
            for depth in range(1, len(word) + 1):
                node = places.setdefault(word[:depth], len(places))
                if node == len(parent):
                    parent.append(above)
                    beyond.append(0)
                beyond[node] += depth < len(word)
                above = node
        depths = np.array([len(prefix) for prefix in places], dtype=np.int64)
        path = np.zeros((len(places), int(depths.max())), dtype=np.int64)
        for node, prefix in enumerate(places):
            path[node, : len(prefix)] = prefix
        return cls(
            np.array(parent, dtype=np.int64),
            path[np.arange(len(path)), depths - 1],
            depths,
            np.array(beyond, dtype=np.int64),
            np.array([places[word] for word in words], dtype=np.int64),
            path,
        )

    def choose(self, first: FloatArray, cost: tuple[float, float], budget: float) -> IntArray:
        """Choose the nodes to look beyond: those that most words pass, while the budget lasts.

        Each further prediction lowers the bounds of all words that pass the node. Of nodes that
        equally many words pass, the more probable come first, for their bounds exclude least.

        Parameters
        ----------
        first
            Log-probability of every token as a word's first.
        cost
            The cost of a token of the rows that show the nodes, and of a place read.
        budget
            What all chosen nodes may cost.

        Returns
        -------
        array
            The chosen nodes, ascending; with a node all nodes above it.
        """
        inner = np.flatnonzero(self.beyond)
        # A node is passed by no more words than the one above it, which is as probable by its
        # first token; so sorting on depth last puts every node after those above it.
        by_depth, by_first = self.depth[inner], first[self.path[inner, 0]]
        order = inner[np.lexsort((by_depth, self.path[inner, 0], -by_first, -self.beyond[inner]))]
        # The first node chosen below another lengthens its row by a token; others are new rows.
        above = self.parent[order]
        longer = np.zeros(len(order), dtype=np.bool_)
        longer[np.unique(above, return_index=True)[1]] = True
        tokens = np.where(longer & (above >= 0), 1, self.depth[order])
        total = np.cumsum(tokens * cost[0] + cost[1])
        return np.sort(order[: int(np.searchsorted(total, budget, side="right"))])

    def rows(self, chosen: IntArray) -> list[Rows]:
        """Lay out inputs that show what follows each of the `chosen` nodes, one a branch."""
        inside = np.zeros(len(self.parent), dtype=np.bool_)
        inside[chosen] = True
        reader = np.full(len(self.parent), -1, dtype=np.int64)
        for depth in range(int(self.depth[chosen].max(initial=0)), 0, -1):
            here = chosen[self.depth[chosen] == depth]
            alone = here[reader[here] < 0]
            reader[alone] = alone
            if depth > 1:
                reader[self.parent[here]] = reader[here]
        inputs = []
        for depth in np.unique(self.depth[reader[chosen]]):
            nodes = chosen[self.depth[reader[chosen]] == depth]
            leaves, rows = np.unique(reader[nodes], return_inverse=True)
            order = np.argsort(rows, kind="stable")
            inputs.append(
                Rows(
                    self.path[leaves, :depth],
                    rows[order].astype(np.int64),
                    self.depth[nodes[order]] - 1,
                    nodes[order],
                )
            )
        return inputs

    def edges(self, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """Return the children of `nodes`, and the place among `nodes` of each one's parent."""
        place = np.full(len(self.parent) + 1, -1, dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        # The root's place, at -1, stays empty.
        above = place[self.parent]
        children = np.flatnonzero(above >= 0)
        return children, above[children]

    def sums(self, steps: FloatArray) -> FloatArray:
        """Add up each node's step (N,) along the way to every word: shape (V,)."""
        total = steps.copy()
        for depth in range(2, self.path.shape[1] + 1):
            here = np.flatnonzero(self.depth == depth)
            total[here] += total[self.parent[here]]
        return np.asarray(total[self.end])

    def covered(self, chosen: IntArray) -> BoolArray:
        """Return whether every node on the way to each word is among `chosen`; shape (V,)."""
        known = np.zeros(len(self.parent) + 1, dtype=np.bool_)
        known[chosen] = True
        known[-1] = True
        # With a node all nodes above it are chosen, so the last one decides.
        return np.asarray(known[self.parent[self.end]])


def guess_log_probs(trie: TokenTrie, steps: FloatArray, chosen: IntArray) -> FloatArray:
    """Guess log p(token | tokens above it), nats, of the nodes that were not computed.

    A token is the likelier the more of the words that pass the node above it pass it, too. The
    guess is a line in the logarithms of both counts, fitted to the computed nodes by least
    squares; below `_ENOUGH` of these it is `_UNKNOWN`.

    Parameters
    ----------
    trie
        The candidates' tokens, N nodes.
    steps
        The values of the computed nodes, shape (N,).
    chosen
        The nodes that were looked beyond, whose children are the computed nodes.

    Returns
    -------
    array
        Shape (N,): at most 0; 0 at computed nodes and first tokens.
    """
    guess = np.zeros(len(trie.parent), dtype=np.float64)
    computed = trie.edges(chosen)[0]
    unknown = trie.depth > 1
    unknown[computed] = False
    passed = np.log(trie.beyond + np.bincount(trie.end, minlength=len(trie.parent)))
    x = np.column_stack([np.ones(len(passed)), passed, passed[trie.parent]])
    if len(computed) < _ENOUGH:
        guess[unknown] = _UNKNOWN
    else:
        line = np.linalg.lstsq(x[computed], steps[computed], rcond=None)[0]
        guess[unknown] = np.minimum(x[unknown] @ line, 0.0)
    return guess
