"""Tree attention: computation of several token sequences that share prefixes in one pass.

The sequences are merged into a tree, and the nodes of the tree form one row of the network's input,
so shared prefixes are computed once. Each token attends only to itself and its ancestors, and its
position is its depth in the tree. Its logits are therefore the same as in a row that contains one
sequence alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from contstim.arrays import BoolArray, IntArray
from contstim.models.hf.network import Network

#: Maximum number of tokens in a row. The cost of attention grows with its square.
MAX_ROW_TOKENS = 256


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
        Number of the parent of each node, -1 for the first token of a sequence, shape (N,).
    depths
        Position of the token of each node in its sequence, counted from 0, shape (N,).
    sequences
        Index of each sequence of the tree in the list from which the tree was built.
    paths
        Numbers of the nodes on the path of each sequence, one array per sequence.
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
        parents: list[int] = []
        depths: list[int] = []
        paths: list[list[int]] = []
        for member in members:
            path: list[int] = []
            for depth, token in enumerate(sequences[member]):
                parent = path[-1] if path else -1
                node = node_by_edge.setdefault((parent, token), len(parents))
                if node == len(parents):
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
    groups: list[list[int]] = []
    n_tokens = 0
    for i in sorted(range(len(sequence_ids)), key=sequence_ids.__getitem__):
        ids = sequence_ids[i]
        # The previous sequence shares the longest prefix with this one.
        previous = sequence_ids[groups[-1][-1]] if groups else []
        is_different = [a != b for a, b in zip(previous, ids, strict=False)]
        n_shared = is_different.index(True) if True in is_different else len(is_different)
        n_new = len(ids) - n_shared
        if groups and n_tokens + n_new <= max_tokens:
            groups[-1].append(i)
            n_tokens += n_new
        else:
            groups.append([i])
            n_tokens = len(ids)
    return [TokenTree.from_sequences(sequence_ids, members) for members in groups]


def tree_logits(network: Network, tree: TokenTree, nodes: IntArray) -> torch.Tensor:
    """Run the network on a tree of token sequences, and return logits at selected nodes.

    Parameters
    ----------
    network
        Network that passes the test `supports_trees`.
    tree
        Token sequences that are merged into a tree.
    nodes
        Numbers of the m selected nodes.

    Returns
    -------
    tensor
        Logits of the token after each node, shape (m, V), float32 or wider.
    """
    device = network.device
    is_visible = torch.from_numpy(tree.attention_mask).to(device)
    # The mask is added to the attention scores: 0 leaves them unchanged, the lowest number hides.
    mask = torch.zeros(is_visible.shape, dtype=network.dtype, device=device)
    mask.masked_fill_(~is_visible, torch.finfo(network.dtype).min)
    with torch.inference_mode():
        return network.logits(
            torch.from_numpy(tree.ids)[None].to(device),
            torch.zeros(len(nodes), dtype=torch.int64, device=device),
            torch.from_numpy(nodes).to(device),
            attention_mask=mask[None, None],
            position_ids=torch.from_numpy(tree.depths)[None].to(device),
            use_cache=False,
        )


def supports_trees(
    network: Network, n_tokens: int, depth: int, max_tokens: int, prefix: Sequence[int]
) -> bool:
    """Test whether a network computes the same logits in trees as in separate sequences.

    Recurrent networks and networks that ignore position ids compute other logits. Networks with
    sliding windows or attention chunks do so only for large trees or long sequences, so the test is
    repeated whenever `n_tokens` or `depth` exceeds another power of two.

    Parameters
    ----------
    network
        The network.
    n_tokens
        Number of tokens of the largest tree.
    depth
        Number of tokens of the longest sequence, at most half of `max_tokens`.
    max_tokens
        Maximum number of tokens of any tree.
    prefix
        Ids of the tokens at the beginning of every sequence. Some networks count positions from one
        of these tokens.
    """
    # Round both sizes up to a power of two, within the limits.
    depth = min(max(4, 2 ** (depth - 1).bit_length()), max_tokens // 2)
    n_tokens = min(max(2 ** (n_tokens - 1).bit_length(), 2 * depth), max_tokens)

    def is_correct() -> bool:
        # Fill a tree with sequences that share half or a quarter of the first sequence.
        ids = network.sample_ids(n_tokens, prefix)
        sequences, unused = [ids[:depth]], ids[depth:]
        while len(unused):
            n_shared = depth // (2 if len(sequences) % 2 else 4)
            n_new = depth - n_shared
            sequences.append(np.append(sequences[0][:n_shared], unused[:n_new]))
            unused = unused[n_new:]
        tree = pack_trees(sequences, max_tokens=len(ids))[0]
        for number, path in zip(tree.sequences, tree.paths, strict=True):
            sequence = torch.from_numpy(sequences[number])[None].to(network.device)
            # Compare the logits at up to nine positions of the sequence.
            sampled = np.unique(np.linspace(0, len(path) - 1, 9).astype(np.int64))
            positions = torch.from_numpy(sampled).to(network.device)
            with torch.inference_mode():
                expected = network.logits(sequence, torch.zeros_like(positions), positions)
            if not network.agree(tree_logits(network, tree, path[sampled]), expected):
                return False
        return True

    return network.check_once(("trees", n_tokens, depth, tuple(prefix)), is_correct)
