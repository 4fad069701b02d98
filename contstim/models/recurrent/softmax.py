"""Cross-entropy over a large vocabulary, full or sampled."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

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
    budget: int = 8_000_000,
) -> Tensor:
    """Return the mean loss in nats.

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
    budget
        Most logits held at a time; they are computed again for the gradient.
    """
    head, tail = negatives.head, negatives.tail
    columns = torch.cat([matrix[:head], matrix[tail]]).to(queries.dtype)
    offset = torch.cat([bias[:head], bias[tail] + negatives.log_weight])
    column_of = torch.full((len(matrix),), -1, dtype=torch.long, device=queries.device)
    column_of[tail] = torch.arange(head, len(columns), device=queries.device)

    def loss(query: Tensor, target: Tensor) -> Tensor:
        scores = (query @ columns.t()).float() + offset
        rare = target >= head
        # A rare target has a term of its own, in place of any draw of it.
        drawn = column_of[target]
        rows_drawn = (drawn >= 0).nonzero().squeeze(1)
        places = rows_drawn, drawn[rows_drawn]
        scores = scores.index_put(places, torch.tensor(-torch.inf, device=scores.device))
        common = scores.gather(1, target.clamp(max=head - 1)[:, None]).squeeze(1)
        alone = (query.float() * matrix[target]).sum(1) + bias[target]
        own = torch.where(rare, alone, common)
        extra = torch.where(rare, own, -torch.inf)
        return (torch.cat([scores, extra[:, None]], 1).logsumexp(1) - own).sum()

    rows = max(1, budget // len(columns))
    blocks = zip(torch.split(queries, rows), torch.split(targets, rows), strict=True)
    total = [checkpoint(loss, query, target, use_reentrant=False) for query, target in blocks]
    return torch.stack(total).sum() / len(queries)
