"""Trie (prefix tree) of candidate words as token sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray

# Minimum number of computed nodes for a regression, and the prediction in nats with fewer nodes:
# the approximate mean of tokens inside frequent English words.
_MIN_COMPUTED, _DEFAULT_LOG_PROB = 20, -3.0


@dataclass(frozen=True, eq=False)
class TrieInputs:
    """Rows of equal length that predict the children of some nodes.

    Attributes
    ----------
    ids
        Tokens from the root to the deepest node of each row, shape (R, L).
    rows, positions
        Row and position of the prediction of each of m nodes, shape (m,); rows ascend.
    nodes
        The nodes, shape (m,).
    """

    ids: IntArray
    rows: IntArray
    positions: IntArray
    nodes: IntArray


@dataclass(frozen=True, eq=False)
class TokenTrie:
    """Trie of V words with N nodes below the root.

    Attributes
    ----------
    parents
        Parent of each node, -1 for the root, shape (N,). Parents precede their children.
    tokens
        Last token of each node, shape (N,).
    depths
        Number of tokens from the root to each node, shape (N,).
    n_longer
        Number of words that continue beyond each node, shape (N,).
    ends
        Node of each complete word, shape (V,).
    paths
        Tokens from the root to each node, padded with zeros, shape (N, D).
    """

    parents: IntArray
    tokens: IntArray
    depths: IntArray
    n_longer: IntArray
    ends: IntArray
    paths: IntArray

    @classmethod
    def from_words(cls, words: Sequence[tuple[int, ...]]) -> TokenTrie:
        """Build the trie of words of one or more tokens."""
        node_by_prefix: dict[tuple[int, ...], int] = {}
        parents: list[int] = []
        n_longer: list[int] = []
        for word in words:
            parent = -1
            for depth in range(1, len(word) + 1):
                node = node_by_prefix.setdefault(word[:depth], len(node_by_prefix))
                if node == len(parents):
                    parents.append(parent)
                    n_longer.append(0)
                n_longer[node] += depth < len(word)
                parent = node
        depths = np.array([len(prefix) for prefix in node_by_prefix], dtype=np.int64)
        paths = np.zeros((len(node_by_prefix), int(depths.max())), dtype=np.int64)
        for node, prefix in enumerate(node_by_prefix):
            paths[node, : len(prefix)] = prefix
        return cls(
            np.array(parents, dtype=np.int64),
            paths[np.arange(len(paths)), depths - 1],
            depths,
            np.array(n_longer, dtype=np.int64),
            np.array([node_by_prefix[word] for word in words], dtype=np.int64),
            paths,
        )

    def choose(
        self, first_log_probs: FloatArray, cost: tuple[float, float], budget: float
    ) -> IntArray:
        """Choose nodes for the prediction of their children, within a budget.

        A prediction lowers the upper bounds of all words that continue beyond the node. Nodes are
        chosen in decreasing order of the number of these words, then of the probability of the
        first token.

        Parameters
        ----------
        first_log_probs
            Log-probability of each token of the vocabulary as first token of the word, nats.
        cost
            Cost of an input token and of a prediction.
        budget
            Maximum cost of all chosen nodes.

        Returns
        -------
        array
            Chosen nodes, ascending. The ancestors of a chosen node are chosen, too.
        """
        inner = np.flatnonzero(self.n_longer)
        # A child has at most as many longer words as its parent and the same first token, so depth
        # as the last sort key places it after its parent.
        first_tokens = self.paths[inner, 0]
        first, count = first_log_probs[first_tokens], self.n_longer[inner]
        order = inner[np.lexsort((self.depths[inner], first_tokens, -first, -count))]
        # The first chosen child of a node extends its row by a token; other children need a row.
        parents = self.parents[order]
        is_first_child = np.zeros(len(order), dtype=np.bool_)
        is_first_child[np.unique(parents, return_index=True)[1]] = True
        n_tokens = np.where(is_first_child & (parents >= 0), 1, self.depths[order])
        total_cost = np.cumsum(n_tokens * cost[0] + cost[1])
        return np.sort(order[: int(np.searchsorted(total_cost, budget, side="right"))])

    def build_inputs(self, chosen: IntArray) -> list[TrieInputs]:
        """Return inputs that predict the children of the `chosen` nodes, one row per branch."""
        # Assign each node to the row of its last chosen descendant.
        row_ends = np.full(len(self.parents), -1, dtype=np.int64)
        for depth in range(int(self.depths[chosen].max(initial=0)), 0, -1):
            level = chosen[self.depths[chosen] == depth]
            leaves = level[row_ends[level] < 0]
            row_ends[leaves] = leaves
            if depth > 1:
                row_ends[self.parents[level]] = row_ends[level]
        inputs = []
        row_lengths = self.depths[row_ends[chosen]]
        for length in np.unique(row_lengths):
            nodes = chosen[row_lengths == length]
            leaves, rows = np.unique(row_ends[nodes], return_inverse=True)
            order = np.argsort(rows, kind="stable")
            inputs.append(
                TrieInputs(
                    self.paths[leaves, :length],
                    rows[order].astype(np.int64),
                    self.depths[nodes[order]] - 1,
                    nodes[order],
                )
            )
        return inputs

    def children(self, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """Return all children of `nodes`, and the index of each child's parent in `nodes`."""
        # The last element, addressed by the parent -1 of the first tokens, stays -1.
        indices = np.full(len(self.parents) + 1, -1, dtype=np.int64)
        indices[nodes] = np.arange(len(nodes))
        parent_indices = indices[self.parents]
        children = np.flatnonzero(parent_indices >= 0)
        return children, parent_indices[children]

    def sum_to_words(self, values: FloatArray) -> FloatArray:
        """Sum node values, shape (N,), along the path to each word, shape (V,)."""
        sums = values.copy()
        for depth in range(2, self.paths.shape[1] + 1):
            level = np.flatnonzero(self.depths == depth)
            sums[level] += sums[self.parents[level]]
        return np.asarray(sums[self.ends])

    def is_covered(self, chosen: IntArray) -> BoolArray:
        """Return whether all proper ancestors of each word's node are `chosen`, shape (V,)."""
        # Ancestors of chosen nodes are chosen, so the parent decides; -1 is the root.
        is_chosen = np.zeros(len(self.parents) + 1, dtype=np.bool_)
        is_chosen[chosen] = True
        is_chosen[-1] = True
        return np.asarray(is_chosen[self.parents[self.ends]])


def guess_log_probs(trie: TokenTrie, log_probs: FloatArray, chosen: IntArray) -> FloatArray:
    """Predict log p(token | preceding tokens) of nodes that were not computed, by regression.

    Let n be the number of words that contain a node and n' the number for its parent. The
    prediction is b0 + b1 log n + b2 log n', fitted to the computed nodes by least squares. It is
    -3 nats if fewer than 20 nodes are computed.

    Parameters
    ----------
    trie
        Trie of the candidates, N nodes.
    log_probs
        Log-probabilities of the computed nodes, nats, shape (N,).
    chosen
        Nodes with computed children.

    Returns
    -------
    array
        Predictions in nats, at most 0, shape (N,); 0 for computed nodes and first tokens.
    """
    predictions = np.zeros(len(trie.parents), dtype=np.float64)
    computed = trie.children(chosen)[0]
    is_unknown = trie.depths > 1
    is_unknown[computed] = False
    log_counts = np.log(trie.n_longer + np.bincount(trie.ends, minlength=len(trie.parents)))
    design = np.column_stack([np.ones(len(log_counts)), log_counts, log_counts[trie.parents]])
    if len(computed) < _MIN_COMPUTED:
        predictions[is_unknown] = _DEFAULT_LOG_PROB
    else:
        coefficients = np.linalg.lstsq(design[computed], log_probs[computed], rcond=None)[0]
        predictions[is_unknown] = np.minimum(design[is_unknown] @ coefficients, 0.0)
    return predictions
