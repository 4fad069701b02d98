"""Tree attention: computation of several token sequences that share prefixes in one pass.

The sequences are merged into a tree, and the nodes of the tree form one row of the network's input,
so shared prefixes are computed once. Each token attends only to itself and its ancestors, and its
position is its depth in the tree. Its logits are therefore the same as in a row that contains one
sequence alone. `TreeCache` stores the keys and values of a tree, to which tokens can be appended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from contstim.arrays import BoolArray, IntArray
from contstim.models.hf.kv_cache import prefill
from contstim.models.hf.network import Network

#: Maximum number of tokens in a row. The cost of attention grows with its square.
MAX_ROW_TOKENS = 256
# Number of cached tokens in the test of `TreeCache`. No network is known that passes the test but
# computes different logits from a larger cache.
_TESTED_CACHE = 1024


@dataclass(frozen=True, eq=False)
class TokenTree:
    """Tree of token sequences with N nodes, which form one row of a network's input.

    A node represents a token after certain preceding tokens. Sequences that begin with the same
    tokens share nodes. Nodes are numbered from 0, and parents have lower numbers than children.

    Attributes
    ----------
    ids
        Token id of each node, shape (N,).
    parents
        Index of the parent of each node, shape (N,). It is -1 for the first token of a sequence.
    depths
        Position of each node's token in its sequence, counted from 0, shape (N,).
    sequences
        Indices of the sequences in the list from which the tree was built.
    paths
        Indices of the nodes that represent the tokens of each sequence, one array per sequence.
    """

    ids: IntArray
    parents: IntArray
    depths: IntArray
    sequences: tuple[int, ...]
    paths: tuple[IntArray, ...]

    @classmethod
    def from_sequences(cls, sequences: Sequence[list[int]], members: Sequence[int]) -> TokenTree:
        """Merge selected token sequences into a tree.

        Parameters
        ----------
        sequences
            Token ids of all sequences.
        members
            Indices of the sequences that belong to the tree.
        """
        node_by_edge: dict[tuple[int, int], int] = {}
        # A node is identified by its parent (-1 for the first token of a sequence) and its token.
        # `parents` and `depths` have one element per node. A path lists the nodes of one sequence.
        parents: list[int] = []
        depths: list[int] = []
        paths: list[list[int]] = []
        for member in members:
            path: list[int] = []
            for depth, token in enumerate(sequences[member]):
                parent = path[-1] if path else -1
                # Use the existing node, or give a new node the next free number.
                node = node_by_edge.setdefault((parent, token), len(parents))
                if node == len(parents):  # The node is new.
                    parents.append(parent)
                    depths.append(depth)
                path.append(node)
            paths.append(path)
        return cls(
            ids=np.array([token for _, token in node_by_edge], dtype=np.int64),
            parents=np.array(parents, dtype=np.int64),
            depths=np.array(depths, dtype=np.int64),
            sequences=tuple(members),
            paths=tuple(np.array(path, dtype=np.int64) for path in paths),
        )

    @property
    def attention_mask(self) -> BoolArray:
        """Whether token i attends to token j, shape (N, N): only to itself and its ancestors."""
        mask = np.eye(len(self.ids), dtype=np.bool_)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                mask[node] |= mask[parent]
        return mask


def pack_trees(sequences: Sequence[IntArray], max_tokens: int = MAX_ROW_TOKENS) -> list[TokenTree]:
    """Merge token sequences into one or more trees of limited size.

    Sequences are added in lexicographic order, so that sequences with a shared prefix are adjacent.
    If a tree is full, the next sequence starts a new tree.

    Parameters
    ----------
    sequences
        Token ids of each sequence.
    max_tokens
        Maximum number of tokens of a tree. A longer sequence forms a separate tree.
    """
    sequence_ids = [sequence.tolist() for sequence in sequences]
    # Indices of the sequences of each tree, and number of nodes of the last tree.
    groups: list[list[int]] = []
    n_nodes = 0
    # In lexicographic order, the previous sequence shares the longest prefix with the next one.
    for i in sorted(range(len(sequence_ids)), key=sequence_ids.__getitem__):
        ids = sequence_ids[i]
        previous_ids = sequence_ids[groups[-1][-1]] if groups else []
        is_different = [a != b for a, b in zip(previous_ids, ids, strict=False)]
        n_shared = is_different.index(True) if True in is_different else len(is_different)
        # Shared tokens have nodes already. Add the sequence to the tree if the rest fits in.
        n_new = len(ids) - n_shared
        if groups and n_nodes + n_new <= max_tokens:
            groups[-1].append(i)
            n_nodes += n_new
        else:
            groups.append([i])
            n_nodes = len(ids)
    return [TokenTree.from_sequences(sequence_ids, members) for members in groups]


def tree_logits(
    network: Network, tree: TokenTree, nodes: IntArray, past: TreeCache | None = None
) -> torch.Tensor:
    """Run the network on a tree of token sequences, and return logits at selected nodes.

    In the tree, tokens with which several sequences begin are shared nodes. All nodes are computed
    in one forward pass, in which each node attends only to the earlier tokens of its sequences.

    Parameters
    ----------
    network
        Network for which `supports_trees` returns True or, if `past` is given,
        `supports_tree_cache`.
    tree
        Token sequences as a tree.
    nodes
        Indices of the m selected nodes.
    past
        Cached keys and values of tokens that precede every sequence of the tree, for example a
        prompt. None if there are no further tokens.

    Returns
    -------
    tensor
        Logits of the token after each node, over a vocabulary of V tokens, shape (m, V), float32 or
        wider.
    """
    if past is None:
        return _masked_logits(network, tree.ids, tree.depths, tree.attention_mask, nodes, None)
    # The cached tokens precede every sequence of the tree. Every node attends to all of them, and
    # positions in the sequences are counted from the first cached token.
    n_past = len(past.ids[0])
    is_visible = np.pad(tree.attention_mask, ((0, 0), (n_past, 0)), constant_values=True)
    # The network appends the nodes to the cache that it is given, so pass a copy.
    copied_cache = past.select(np.arange(n_past))
    return _masked_logits(network, tree.ids, tree.depths + n_past, is_visible, nodes, copied_cache)


def _masked_logits(
    network: Network,
    ids: IntArray,
    positions: IntArray,
    is_visible: BoolArray,
    selected: IntArray,
    cache: DynamicCache | None,
) -> torch.Tensor:
    """Run the network on one row of N tokens with an attention mask, and return logits.

    Parameters
    ----------
    network
        The network.
    ids, positions
        Id of each token and its position in its sequence, each of shape (N,).
    is_visible
        Whether each token attends to each of K cached tokens and to each token of the row, shape
        (N, K + N).
    selected
        Indices of the m tokens at which the logits are returned, shape (m,).
    cache
        Keys and values of the K cached tokens. The keys and values of the row are appended.
    """
    device = network.device
    # The network adds the mask to the attention scores. Zeros leave them unchanged, and the lowest
    # possible number hides a token.
    mask = torch.zeros(is_visible.shape, dtype=network.dtype, device=device)
    mask.masked_fill_(torch.from_numpy(~is_visible).to(device), torch.finfo(network.dtype).min)
    # The batch has one row, number 0. The mask needs the shape (batch, attention heads, N, K + N);
    # one head stands for all.
    with torch.inference_mode():
        return network.logits(
            torch.from_numpy(ids)[None].to(device),
            torch.zeros(len(selected), dtype=torch.int64, device=device),  # row of each prediction
            torch.from_numpy(selected).to(device),
            attention_mask=mask[None, None],
            position_ids=torch.from_numpy(positions)[None].to(device),
            past_key_values=cache,
            use_cache=cache is not None,
        )


@dataclass(frozen=True, eq=False)
class TreeCache:
    """Cached keys and values of R token sequences that share prefixes, stored as one tree.

    Attributes
    ----------
    ids
        Token ids of each sequence.
    cache
        Keys and values of the K tokens of the tree, as an object of the package `transformers`.
        None if the network cannot use a cache. It then processes sequences from their first token.
    is_visible
        Whether each sequence contains each token of the tree, shape (R, K).
    """

    ids: tuple[tuple[int, ...], ...]
    cache: Any
    is_visible: BoolArray

    @classmethod
    def prefill(
        cls, network: Network, ids: IntArray, *, use_cache: bool
    ) -> tuple[torch.Tensor, TreeCache]:
        """Run the network on one token sequence, and return the logits and the cache."""
        logits, past = prefill(network, ids, use_cache=use_cache)
        return logits, cls((past.ids,), past.cache, np.ones((1, len(ids)), dtype=np.bool_))

    def select(self, indices: IntArray) -> DynamicCache:
        """Return a new cache object with some of the K tokens of the tree."""
        selected = DynamicCache()
        for number, layer in enumerate(self.cache.layers):
            used = torch.from_numpy(indices).to(layer.keys.device)
            keys, values = layer.keys.index_select(2, used), layer.values.index_select(2, used)
            selected.update(keys, values, number)
        return selected

    def extend(
        self,
        network: Network,
        rows: Sequence[int],
        tokens: Sequence[tuple[int, ...]],
        *,
        all_logits: bool,
    ) -> tuple[TreeCache, torch.Tensor]:
        """Append tokens to cached token sequences, and run the network on the new tokens.

        Parameters
        ----------
        network
            Network that computed the cache.
        rows
            Index of the cached sequence to which each of k extensions is appended. It may occur
            several times.
        tokens
            Ids of the tokens of each extension, at least one.
        all_logits
            Whether to return the logits at all appended tokens, one extension after another, or
            only at the last token of each extension.

        Returns
        -------
        TreeCache
            Cache of the k extended sequences.
        tensor
            Logits at n tokens over the V tokens of the vocabulary, shape (n, V).
        """
        row_ids = tuple(self.ids[row] + new for row, new in zip(rows, tokens, strict=True))
        n_new = np.array([len(new) for new in tokens])
        if self.cache is None:
            # Without a cache, process the extended sequences as a whole, and read the last logits.
            n_read = n_new if all_logits else np.ones_like(n_new)
            positions = [range(len(i) - n, len(i)) for i, n in zip(row_ids, n_read, strict=True)]
            return TreeCache(row_ids, None, self.is_visible), torch.cat(
                network.logits_at(row_ids, positions)
            )
        # The new tokens of all extensions are concatenated: `stops` are the ends of extensions, and
        # `new_rows` is the index of the extension of each new token.
        stops = n_new.cumsum()
        new_rows = np.repeat(np.arange(len(rows)), n_new)
        # New token i of extension r has the position i + position_offsets[r] in its sequence.
        position_offsets = np.array([len(ids) for ids in row_ids]) - stops
        # Drop the cached tokens that belong to none of the extended sequences.
        is_visible = self.is_visible[rows]
        used = np.flatnonzero(is_visible.any(axis=0))
        is_visible, cache = is_visible[:, used], self.select(used)
        # A new token attends to the cached and new tokens of its own sequence, up to itself (lower
        # triangle).
        is_in_row = np.arange(len(rows))[:, None] == new_rows
        logits = _masked_logits(
            network,
            np.concatenate(tokens),
            np.arange(len(new_rows)) + position_offsets[new_rows],
            np.hstack([is_visible[new_rows], np.tril(is_in_row[new_rows])]),
            np.arange(len(new_rows)) if all_logits else stops - 1,
            cache,
        )
        return TreeCache(row_ids, cache, np.hstack([is_visible, is_in_row])), logits


def supports_tree_cache(network: Network, length: int, prefix: Sequence[int]) -> bool:
    """Test whether a network computes the same logits with a `TreeCache` as without a cache.

    A `TreeCache` stores the keys and values of several token sequences that share prefixes. In the
    test, the network processes two sequences of `length` tokens, rounded up to a power of two, in
    two steps, with a cache that also contains many tokens of another sequence.

    Parameters
    ----------
    network
        Causal network.
    length
        Number of tokens of the longest sequence.
    prefix
        Ids of the tokens at the beginning of every sequence.
    """
    length = max(16, 2 ** (length - 1).bit_length())  # rounded up to a power of two
    return network.check_once(_cache_gives_same_logits, length, tuple(prefix))


def _cache_gives_same_logits(network: Network, length: int, prefix: Sequence[int]) -> bool:
    """Return whether a network computes the same logits with and without a `TreeCache`.

    Two sequences of `length` tokens, which begin with `prefix`, are tested.
    """
    n_cached = max(_TESTED_CACHE, 2 * length)
    # Cache all but the last nine of some pseudo-random tokens.
    ids = network.sample_ids(length, prefix)
    _, past = TreeCache.prefill(network, ids[:-9], use_cache=True)
    # Enlarge the cache by copies of its tokens. They are visible only to a second row, which is
    # extended as well, so that they stay in the cache.
    repeated = np.resize(np.arange(length - 9), n_cached - length)
    for layer in past.cache.layers:
        layer.keys = torch.cat([layer.keys, layer.keys[:, :, repeated]], dim=2)
        layer.values = torch.cat([layer.values, layer.values[:, :, repeated]], dim=2)
    is_visible = np.arange(n_cached - 9) < length - 9
    past = TreeCache(past.ids * 2, past.cache, np.stack([is_visible, ~is_visible]))
    # Split the last nine tokens into groups of 1, 3, 2 and 3 tokens. First append the groups a and
    # b to row 0, which gives two new rows, and a to row 1, which gives a third. Then append c to
    # the new row 1 and d to the new row 0.
    a, b, c, d = (tuple(group.tolist()) for group in np.split(ids[-9:], [1, 4, 6]))
    extended, _ = past.extend(network, [0, 0, 1], [a, b, a], all_logits=False)
    _, logits = extended.extend(network, [1, 0, 2], [c, d, a], all_logits=False)
    # Compare the last logits with the logits of the same rows without a cache.
    rows = [past.ids[0] + b + c, past.ids[0] + a + d]
    expected = torch.cat(network.logits_at(rows, [[len(row) - 1] for row in rows]))
    return network.agree(logits[:2], expected)


def supports_trees(
    network: Network, tree_size: int, sequence_length: int, max_tokens: int, prefix: Sequence[int]
) -> bool:
    """Test whether a network computes the same logits in trees as in separate sequences.

    Recurrent networks and networks that ignore position ids compute different logits. Networks with
    sliding windows or attention chunks do so only for large trees or long sequences, so the test is
    repeated whenever `tree_size` or `sequence_length` exceeds a higher power of two.

    Parameters
    ----------
    network
        Network to test.
    tree_size
        Number of tokens of the largest tree to compute.
    sequence_length
        Number of tokens of the longest sequence, at most half of `max_tokens`.
    max_tokens
        Upper limit on the number of tokens of any tree.
    prefix
        Ids of the tokens at the beginning of every sequence. Some networks count positions from one
        of these tokens.
    """
    # Both sizes are rounded up to a power of two, within the limits.
    depth = min(max(4, 2 ** (sequence_length - 1).bit_length()), max_tokens // 2)
    n_tokens = min(max(2 ** (tree_size - 1).bit_length(), 2 * depth), max_tokens)
    return network.check_once(_tree_gives_same_logits, n_tokens, depth, tuple(prefix))


def _tree_gives_same_logits(
    network: Network, n_tokens: int, depth: int, prefix: Sequence[int]
) -> bool:
    """Return whether a network computes the same logits in a tree as in separate sequences.

    The tested tree has `n_tokens` tokens, and its sequences have `depth` tokens each.
    """
    ids = network.sample_ids(n_tokens, prefix)
    # Make sequences of `depth` tokens from the n_tokens sampled tokens. All sequences begin like
    # the first one. They share one half and one quarter of its tokens by turns, so that the tree
    # branches at two depths, as trees of real sentences branch at several.
    sequences, unused = [ids[:depth]], ids[depth:]
    while len(unused):
        n_shared = depth // 2 if len(sequences) % 2 else depth // 4
        n_new = depth - n_shared
        sequences.append(np.append(sequences[0][:n_shared], unused[:n_new]))
        unused = unused[n_new:]
    tree = pack_trees(sequences, max_tokens=len(ids))[0]
    for number, path in zip(tree.sequences, tree.paths, strict=True):
        # Compare the logits at up to nine positions of each sequence.
        sampled = np.unique(np.linspace(0, len(path) - 1, 9).astype(np.int64))
        positions = torch.from_numpy(sampled).to(network.device)
        # The expected logits are computed from the sequence without a tree: a batch of one row.
        sequence = torch.from_numpy(sequences[number])[None].to(network.device)
        row_indices = torch.zeros_like(positions)
        with torch.inference_mode():
            expected = network.logits(sequence, row_indices, positions)
        if not network.agree(tree_logits(network, tree, path[sampled]), expected):
            return False
    return True
