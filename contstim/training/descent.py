"""One step down a loss, how long it is, and the best weights so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch


def linear_rate(step: int, steps: int, warm_up: float) -> float:
    """Return the share of the learning rate at a step: a linear rise, then a linear fall to 0.

    Parameters
    ----------
    step, steps
        Steps done, and steps in all.
    warm_up
        Share of the steps in which the rate rises.
    """
    rise = max(1, round(warm_up * steps))
    return min((step + 1) / rise, (steps - step) / max(1, steps - rise))


def descend(
    optimiser: torch.optim.Optimizer,
    weights: Sequence[torch.Tensor],
    loss: torch.Tensor,
    rate: float,
    clip: float = 1.0,
) -> float:
    """Take one step down a loss.

    Parameters
    ----------
    optimiser
        Changes the `weights`, whose gradients are none before and after.
    weights
        Those whose gradients have together a norm of at most `clip`.
    loss
        The loss, a number.
    rate
        The learning rate of all groups of weights.
    clip
        Largest norm; longer gradients are shortened to it.

    Returns
    -------
    float
        The loss.
    """
    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_(weights, clip)
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.step()
    optimiser.zero_grad()
    return loss.item()


@dataclass(eq=False)
class BestWeights:
    """The weights of the lowest perplexity so far, for early stopping.

    Attributes
    ----------
    perplexity
        Their perplexity.
    stale
        How many evaluations since have found none lower.
    weights
        The weights by name; none before the first evaluation.
    """

    perplexity: float = math.inf
    stale: int = 0
    weights: dict[str, torch.Tensor] = field(default_factory=dict)

    def offer(self, perplexity: float, weights: Mapping[str, torch.Tensor]) -> bool:
        """Keep a copy of `weights` if their perplexity is the lowest; return whether it is."""
        self.stale += 1
        lowest = perplexity < self.perplexity
        if lowest:
            self.perplexity, self.stale = perplexity, 0
            self.weights = {name: tensor.detach().clone() for name, tensor in weights.items()}
        return lowest
