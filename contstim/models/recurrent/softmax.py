"""Cross-entropy over a large vocabulary, full or sampled, with its gradient in one pass."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Negatives", "cross_entropy"]


@dataclass(frozen=True)
class Negatives:
    """The tokens that stand for the whole vocabulary in the softmax's normaliser.

    The `head` most frequent tokens are always there. The tail is represented by K draws with
    replacement from a distribution q over it: `tail` holds the distinct ids drawn and
    `log_weight` = log(times drawn / (K q(id))), so that the weighted sum of exponentials is an
    unbiased estimate of the tail's share of the normaliser (importance sampling, Bengio and
    Senecal 2003; "logQ correction"). With ``head`` the whole vocabulary and no tail, the
    softmax is the full one.
    """

    head: int
    tail: Tensor
    log_weight: Tensor


def cross_entropy(
    queries: Tensor,
    targets: Tensor,
    matrix: Tensor,
    bias: Tensor,
    negatives: Negatives,
    grad_matrix: Tensor,
    grad_bias: Tensor,
    budget: int = 8_000_000,
) -> tuple[float, Tensor]:
    """Return the mean loss in nats and its gradient in `queries`; add the weights' gradients.

    The loss of a token with query h and target t is log Z(h) - s_t, s = E h + b, where Z sums
    exp(s) over the head, the target itself and the weighted draws from the tail but the target.

    Parameters
    ----------
    queries
        (N, D), in the type the products are computed in; sums and exponentials are float32.
    targets
        Ids of the N tokens to predict.
    matrix, bias
        Output weights E (V, D) in float32 and biases (V,).
    negatives
        The normaliser's tokens.
    grad_matrix, grad_bias
        Float32 tensors of those shapes; the gradients are added to them.
    budget
        Most logits held at a time.
    """
    n, dtype = len(queries), queries.dtype
    head, tail = negatives.head, negatives.tail
    width = head + len(tail)
    rows = max(1, min(n, budget // width))
    columns = torch.cat([matrix[:head].to(dtype), matrix[tail].to(dtype)])
    offset = torch.cat([bias[:head], bias[tail] + negatives.log_weight])
    device = queries.device
    column_of = torch.full((len(matrix),), -1, dtype=torch.long, device=device)
    column_of[tail] = torch.arange(head, width, device=device)
    grad_queries = torch.empty_like(queries)
    grad_columns = torch.zeros(width, matrix.shape[1], device=device)
    grad_offset = torch.zeros(width, device=device)
    product = torch.empty(rows, width, dtype=dtype, device=device)
    logits = torch.empty(rows, width, device=device)
    total = 0.0
    for first in range(0, n, rows):
        query, target = queries[first : first + rows], targets[first : first + rows]
        here = len(query)
        raw, scores = product[:here], logits[:here]
        torch.mm(query, columns.t(), out=raw)
        torch.add(raw, offset, out=scores)
        in_tail = (target >= head).nonzero().squeeze(1)
        in_head = (target < head).nonzero().squeeze(1)
        rare, wide = target[in_tail], query[in_tail].float()
        own = torch.empty(here, device=device)
        own[in_head] = scores[in_head, target[in_head]]
        rare_rows = matrix[rare]
        own[in_tail] = (wide * rare_rows).sum(1) + bias[rare]
        drawn = column_of[rare]
        scores[in_tail[drawn >= 0], drawn[drawn >= 0]] = -torch.inf
        top = torch.maximum(scores.amax(1), own)
        torch.exp(scores.sub_(top[:, None]), out=scores)
        own_exp = torch.exp(own - top)
        z = scores.sum(1)
        z[in_tail] += own_exp[in_tail]
        total += float((z.log() + top - own).sum())
        # Gradient in the logits: the probabilities, less 1 at the target, over N.
        scores.mul_((1 / (n * z))[:, None])
        scores[in_head, target[in_head]] -= 1 / n
        pull = ((own_exp / z)[in_tail] - 1) / n
        raw.copy_(scores)
        grad = grad_queries[first : first + rows]
        torch.mm(raw, columns, out=grad)
        grad.index_add_(0, in_tail, (pull[:, None] * rare_rows).to(dtype))
        grad_columns += raw.t() @ query
        grad_offset += scores.sum(0)
        grad_matrix.index_add_(0, rare, pull[:, None] * wide)
        grad_bias.index_add_(0, rare, pull)
    grad_matrix[:head] += grad_columns[:head]
    grad_bias[:head] += grad_offset[:head]
    if len(tail):
        grad_matrix.index_add_(0, tail, grad_columns[head:])
        grad_bias.index_add_(0, tail, grad_offset[head:])
    return total / n, grad_queries
