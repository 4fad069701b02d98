"""Cross-entropy with a full or a sampled softmax."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True)
class NegativeSamples:
    """Tokens that represent the vocabulary in the normaliser of a sampled softmax.

    The normaliser includes the `head` most frequent tokens and K tokens that are drawn with
    replacement from a distribution q over all other tokens, the tail. A token that was drawn n
    times has the importance weight n / (K q), so that the weighted sum of exp(logit) is an unbiased
    estimate of the sum over the tail (Bengio and Senécal 2003). If `head` is the size of the
    vocabulary, the softmax is not sampled.

    Attributes
    ----------
    head
        Number of most frequent tokens, which have the lowest ids.
    tail
        Ids of the distinct tokens drawn.
    log_weight
        Logarithm of the importance weight of each token of `tail`.
    """

    head: int
    tail: Tensor
    log_weight: Tensor


def cross_entropy(
    queries: Tensor,
    targets: Tensor,
    matrix: Tensor,
    bias: Tensor,
    negatives: NegativeSamples,
    max_logits: int = 8_000_000,
) -> Tensor:
    """Return the mean cross-entropy of next-token predictions in nats.

    The network predicts a token t, the target, from its output vector h (the query). The loss is
    log Z - s_t, where s = E h + b are the logits. The normaliser Z is the sum of exp(s) over the
    most frequent tokens (head), the target, and tokens drawn from all others (tail). Drawn tokens
    are multiplied by their importance weights. A drawn target is not counted twice.

    Parameters
    ----------
    queries
        Query vectors h of N tokens, shape (N, D). Products are computed in their data type, sums
        and exponentials in float32.
    targets
        Ids of the N target tokens.
    matrix, bias
        Output weights E, shape (V, D), and biases b, shape (V,), in float32.
    negatives
        Tokens of the normaliser.
    max_logits
        Maximum number of logits in memory. Logits are computed again for the gradient.
    """
    # The vocabulary consists of the head, the most frequent tokens, and the tail, the other tokens.
    n_head, drawn_ids = negatives.head, negatives.tail
    # The normaliser is a sum over K tokens: all head tokens, then the tokens drawn from the tail.
    # The logarithm of an importance weight is added to the bias of a drawn token.
    sampled_matrix = torch.cat([matrix[:n_head], matrix[drawn_ids]]).to(queries.dtype)
    sampled_bias = torch.cat([bias[:n_head], bias[drawn_ids] + negatives.log_weight])
    # Index of each drawn token among the K tokens, -1 for all other tokens of the vocabulary.
    drawn_positions = torch.full((len(matrix),), -1, dtype=torch.long, device=queries.device)
    drawn_positions[drawn_ids] = torch.arange(n_head, len(sampled_matrix), device=queries.device)

    def sum_losses(query: Tensor, target: Tensor) -> Tensor:
        """Return the total cross-entropy of the predictions of n tokens.

        Parameters
        ----------
        query
            Output vector of the network at the position from which each token is predicted, shape
            (n, D).
        target
            Ids of the tokens to predict, shape (n,).
        """
        logits = (query @ sampled_matrix.t()).float() + sampled_bias
        # These are the logits of the K tokens in the normaliser, shape (n, K): the `n_head` most
        # frequent tokens of the vocabulary (head), followed by tokens that were drawn from the rest
        # (tail). `drawn_positions` contains the column of each drawn token, and -1 for all others.
        # A target in the tail gets a separate logit. If it was also drawn, remove the logit of the
        # drawn token from the normaliser by setting it to -inf, since exp(-inf) = 0.
        target_positions = drawn_positions[target]
        rows = (target_positions >= 0).nonzero().squeeze(1)
        logits[rows, target_positions[rows]] = -torch.inf
        # Compute the target's logit for both cases, target in the head and target in the tail.
        head_logits = logits.gather(1, target.clamp(max=n_head - 1)[:, None]).squeeze(1)
        tail_logits = (query.float() * matrix[target]).sum(1) + bias[target]
        is_tail = target >= n_head
        target_logits = torch.where(is_tail, tail_logits, head_logits)
        # A target in the head is already among the K tokens and must not be added again.
        separate_logits = torch.where(is_tail, target_logits, -torch.inf)
        log_normaliser = torch.cat([logits, separate_logits[:, None]], 1).logsumexp(1)
        return (log_normaliser - target_logits).sum()

    chunk_size = max(1, max_logits // len(sampled_matrix))
    chunks = zip(torch.split(queries, chunk_size), torch.split(targets, chunk_size), strict=True)
    # Checkpointing computes the logits again in the backward pass instead of storing them.
    losses = [checkpoint(sum_losses, *chunk, use_reentrant=False) for chunk in chunks]
    return torch.stack(losses).sum() / len(queries)
