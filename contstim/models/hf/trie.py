"""Trie (prefix tree) of candidate words as token sequences.

Each candidate word is a path from the root of the tree, one token per node. Words that begin with
the same tokens share the nodes of these tokens, so a network computes the tokens only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contstim.arrays import BoolArray, FloatArray, IntArray

# The regression of `guess_log_probs` needs at least this number of computed nodes. With fewer nodes
# the prediction is a constant in nats, about the mean log-probability of the second and later
# tokens of frequent English words.
_MIN_COMPUTED, _DEFAULT_LOG_PROB = 20, -3.0


@dataclass(frozen=True, eq=False)
class TrieInputs:
    """Batch of R token sequences of equal length L, from which a network predicts trie nodes.

    A node of the trie represents the first tokens of one or more words. A node is expanded if the
    network predicts the token after it, which gives the log-probabilities of its children. Each
    sequence of the batch is the path of tokens to an expanded node. Other nodes on the path can be
    expanded from the same sequence. The batch has m expanded nodes.

    Attributes
    ----------
    ids
        Token ids of the sequences, shape (R, L).
    rows
        Index of the sequence that contains each expanded node, in ascending order, shape (m,).
    positions
        Position of each expanded node in its sequence, counted from 0, shape (m,).
    nodes
        Indices of the expanded nodes in the trie, shape (m,).
    """

    ids: IntArray
    rows: IntArray
    positions: IntArray
    nodes: IntArray


@dataclass(frozen=True, eq=False)
class TokenTrie:
    """Trie (prefix tree) of V words with N nodes below the root.

    A node represents the first tokens of one or more words. The nodes have the indices 0 to N - 1,
    and parents have lower indices than their children. The root, the empty sequence, has the index
    -1.

    Attributes
    ----------
    parents
        Index of the parent of each node, shape (N,).
    tokens
        Id of the last token of each node, shape (N,).
    depths
        Number of tokens from the root to each node, at least 1, shape (N,).
    n_longer
        Number of words that start with the tokens of each node and have more tokens, shape (N,).
    final_nodes
        Index of the node of the last token of each word, shape (V,).
    paths
        Token ids from the root to each node, padded with zeros, shape (N, D). D is the number of
        tokens of the longest word.
    """

    parents: IntArray
    tokens: IntArray
    depths: IntArray
    n_longer: IntArray
    final_nodes: IntArray
    paths: IntArray

    @classmethod
    def from_words(cls, words: Sequence[tuple[int, ...]]) -> TokenTrie:
        """Build the trie of V words.

        Parameters
        ----------
        words
            Token ids of each word, at least one, for example [(7,), (7, 2), (5, 2)].
        """
        node_by_prefix: dict[tuple[int, ...], int] = {}
        # A node is identified by the first tokens of a word (prefix). `n_longer` counts the words
        # that begin with these tokens and continue.
        parents: list[int] = []
        n_longer: list[int] = []
        for word in words:
            parent = -1  # the root
            for depth in range(1, len(word) + 1):
                # Use the existing node, or give a new node the next free number.
                node = node_by_prefix.setdefault(word[:depth], len(node_by_prefix))
                if node == len(parents):  # The node is new.
                    parents.append(parent)
                    n_longer.append(0)
                n_longer[node] += depth < len(word)
                parent = node
        # Tokens from the root to each node, padded with zeros: (nodes, maximum depth).
        depths = np.array([len(prefix) for prefix in node_by_prefix], dtype=np.int64)
        paths = np.zeros((len(node_by_prefix), int(depths.max())), dtype=np.int64)
        for node, prefix in enumerate(node_by_prefix):
            paths[node, : len(prefix)] = prefix
        return cls(
            parents=np.array(parents, dtype=np.int64),
            tokens=paths[np.arange(len(paths)), depths - 1],
            depths=depths,
            n_longer=np.array(n_longer, dtype=np.int64),
            final_nodes=np.array([node_by_prefix[word] for word in words], dtype=np.int64),
            paths=paths,
        )

    def select_nodes(
        self, first_log_probs: FloatArray, token_cost: float, prediction_cost: float, budget: float
    ) -> IntArray:
        """Select the nodes to expand: nodes at which the network predicts the next token.

        A node represents the first tokens of one or more words. The prediction gives the
        log-probabilities of the next token, and so lowers the upper bounds of all words that begin
        with the tokens of the node and have more tokens. Nodes with the largest number of longer
        words (`n_longer`) are selected first, until the budget is spent. Among nodes with equal
        `n_longer`, a node with a more probable first token is selected first.

        Parameters
        ----------
        first_log_probs
            Log-probability in nats of each token of the vocabulary as first token of the word.
        token_cost, prediction_cost
            Cost of one input token and cost of one prediction, in the same unit.
        budget
            Maximum total cost, in the unit of `token_cost`.

        Returns
        -------
        array
            Indices of the selected nodes, in ascending order. All ancestors of a selected node are
            selected as well.
        """
        inner = np.flatnonzero(self.n_longer)  # nodes with children, which can be expanded
        # Sort by number of longer words, probability of the first token, first token, and depth. A
        # child has the same first token as its parent and no more longer words, so the sort key
        # depth places it after its parent. The last argument of `lexsort` is the first sort key.
        first_tokens = self.paths[inner, 0]
        log_probs, n_longer = first_log_probs[first_tokens], self.n_longer[inner]
        order = inner[np.lexsort((self.depths[inner], first_tokens, -log_probs, -n_longer))]
        # The first selected child of a node extends the sequence of its parent by one token. Every
        # other child needs a new sequence of all tokens from the root.
        parents = self.parents[order]
        is_first_child = np.zeros(len(order), dtype=np.bool_)
        _, first_children = np.unique(parents, return_index=True)
        is_first_child[first_children] = True
        n_tokens = np.where(is_first_child & (parents >= 0), 1, self.depths[order])
        # Select nodes in this order until the budget is spent.
        total_costs = np.cumsum(n_tokens * token_cost + prediction_cost)
        n_expanded = int(np.searchsorted(total_costs, budget, side="right"))
        return np.sort(order[:n_expanded])

    def build_inputs(self, expanded: IntArray) -> list[TrieInputs]:
        """Return batches of token sequences, from which the network predicts the next tokens.

        Each sequence is the path of tokens to one of the nodes. It also serves the other nodes on
        this path, so that each node is computed only once.

        Parameters
        ----------
        expanded
            Indices of the nodes at which the network predicts the next token, the result of
            `select_nodes`.

        Returns
        -------
        list of TrieInputs
            One batch for each length of the sequences, in ascending order of length.
        """
        last_nodes = np.full(len(self.parents), -1, dtype=np.int64)
        # A sequence is the path to its last node. `last_nodes` assigns each node to expand to a
        # sequence on which it lies, and contains the last node of this sequence. -1: not assigned.
        # In a trie with the paths a, a b and a c, all to be expanded, there are two sequences: a b
        # and a c. The node a lies on both and is assigned to one of them.

        # Proceed from the deepest level upwards. A node to which no child has passed a sequence is
        # the last node of a new sequence. Then each node passes its sequence to its parent.
        for depth in range(int(self.depths[expanded].max(initial=0)), 0, -1):
            level = expanded[self.depths[expanded] == depth]
            new_ends = level[last_nodes[level] < 0]
            last_nodes[new_ends] = new_ends
            if depth > 1:
                last_nodes[self.parents[level]] = last_nodes[level]
        # Sequences of equal length form a batch, which needs no padding.
        inputs = []
        lengths = self.depths[last_nodes[expanded]]
        for length in np.unique(lengths):
            nodes = expanded[lengths == length]
            # Each sequence of the batch is a row of `ids`. Sort the nodes by their rows. A node of
            # depth d is at position d - 1 of its row, because the root of the trie has no token.
            sequence_ends, rows = np.unique(last_nodes[nodes], return_inverse=True)
            order = np.argsort(rows, kind="stable")
            inputs.append(
                TrieInputs(
                    ids=self.paths[sequence_ends, :length],
                    rows=rows[order].astype(np.int64),
                    positions=self.depths[nodes[order]] - 1,
                    nodes=nodes[order],
                )
            )
        return inputs

    def find_children(self, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """Find all children of selected nodes.

        Parameters
        ----------
        nodes
            Indices of the nodes, shape (m,).

        Returns
        -------
        array
            Indices of the children, ascending, shape (c,).
        array
            Index from 0 to m - 1 of the parent of each child in `nodes`, shape (c,).
        """
        indices = np.full(len(self.parents) + 1, -1, dtype=np.int64)
        # Nodes of depth 1 have the parent -1 and read the last element, which stays -1.
        indices[nodes] = np.arange(len(nodes))
        parent_indices = indices[self.parents]
        children = np.flatnonzero(parent_indices >= 0)
        return children, parent_indices[children]

    def sum_to_words(self, values: FloatArray) -> FloatArray:
        """Return the sum of the values of the nodes on the path of each word.

        If the values are log-probabilities of tokens, the sums are log-probabilities of words.

        Parameters
        ----------
        values
            Value of each node, shape (N,).

        Returns
        -------
        array
            Sum of each word, shape (V,).
        """
        # From the root downwards, add to each node the sum of its parent.
        sums = values.copy()
        for depth in range(2, self.paths.shape[1] + 1):
            level = np.flatnonzero(self.depths == depth)
            sums[level] += sums[self.parents[level]]
        return np.asarray(sums[self.final_nodes])

    def is_covered(self, expanded: IntArray) -> BoolArray:
        """Return whether the log-probabilities of all tokens of each word are known.

        A token is known if the network has predicted the next token at the node before it. The
        first token of a word is always known.

        Parameters
        ----------
        expanded
            Indices of the nodes at which the network has predicted the next token, see
            `select_nodes`.

        Returns
        -------
        array
            Whether each word has known tokens only, shape (V,).
        """
        # All ancestors of an expanded node are expanded, so it suffices to test the node before the
        # last token. The last element stands for the root, which has the number -1.
        is_expanded = np.zeros(len(self.parents) + 1, dtype=np.bool_)
        is_expanded[expanded] = True
        is_expanded[-1] = True
        return np.asarray(is_expanded[self.parents[self.final_nodes]])


def guess_log_probs(trie: TokenTrie, log_probs: FloatArray, expanded: IntArray) -> FloatArray:
    """Estimate log p(token | preceding tokens) for trie nodes that the network has not computed.

    A node that belongs to a larger share of its parent's words tends to be more probable. The
    estimate is the linear regression b0 + b1 log n + b2 log n', where n is the number of words that
    contain the node and n' the number of words that contain its parent. The coefficients are fitted
    to the computed nodes by ordinary least squares. If fewer than 20 nodes are computed, the
    estimate is -3 nats.

    Parameters
    ----------
    trie
        Trie (prefix tree) of the tokens of candidate words, with N nodes.
    log_probs
        Log-probability in nats of each node, shape (N,). Only values of computed nodes are used.
    expanded
        Nodes at which the network has predicted the next token. Their children are the computed
        nodes.

    Returns
    -------
    array
        Estimates in nats, at most 0, shape (N,); 0 for computed nodes and for nodes of depth 1, the
        first tokens of the words.
    """
    estimates = np.zeros(len(trie.parents), dtype=np.float64)
    # The network has computed the children of the expanded nodes. First tokens are known, too.
    computed, _ = trie.find_children(expanded)
    is_unknown = trie.depths > 1
    is_unknown[computed] = False
    # Number of words that contain each node: words that continue, plus words that end there.
    n_ending = np.bincount(trie.final_nodes, minlength=len(trie.parents))
    log_counts = np.log(trie.n_longer + n_ending)
    # Regress log p(token) on a constant and the log counts of the node and its parent.
    design = np.column_stack([np.ones(len(log_counts)), log_counts, log_counts[trie.parents]])
    if len(computed) < _MIN_COMPUTED:  # too few to fit the coefficients
        estimates[is_unknown] = _DEFAULT_LOG_PROB
    else:
        coefficients = np.linalg.lstsq(design[computed], log_probs[computed], rcond=None)[0]
        estimates[is_unknown] = np.minimum(design[is_unknown] @ coefficients, 0.0)
    return estimates
