"""Gradient steps, learning-rate schedules and early stopping."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch


def linear_schedule(step: int, n_steps: int, warmup: float) -> float:
    """Return the learning rate of a training step as a fraction of the maximum rate.

    The rate increases linearly during the warm-up and then decreases linearly to 0.

    Parameters
    ----------
    step
        Number of steps that were already taken.
    n_steps
        Total number of steps.
    warmup
        Fraction of the steps that belongs to the warm-up.
    """
    n_warmup = max(1, round(warmup * n_steps))
    return min((step + 1) / n_warmup, (n_steps - step) / max(1, n_steps - n_warmup))


def gradient_step(
    optimizer: torch.optim.Optimizer,
    weights: Sequence[torch.Tensor],
    loss: torch.Tensor,
    learning_rate: float,
    max_norm: float = 1.0,
) -> float:
    """Backpropagate a loss, clip the gradients and take one optimizer step.

    Parameters
    ----------
    optimizer
        Optimizer of the `weights`.
    weights
        Trainable weights. Their gradients are reset after the step.
    loss
        Scalar loss.
    learning_rate
        Learning rate of all parameter groups.
    max_norm
        Maximum norm of all gradients taken together; larger gradients are scaled down.

    Returns
    -------
    float
        Value of the loss.
    """
    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_(weights, max_norm)
    # The learning rate changes from step to step according to the caller's schedule.
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.step()
    # Gradients accumulate in PyTorch unless they are reset.
    optimizer.zero_grad()
    return loss.item()


@dataclass(eq=False)
class BestCheckpoint:
    """The weights with the lowest perplexity so far, for early stopping.

    Attributes
    ----------
    perplexity
        Lowest perplexity on held-out text so far, to which the weights belong.
    n_stale
        Number of evaluations since the last improvement.
    weights
        Copies of the weights by name; empty before the first improvement.
    """

    perplexity: float = math.inf
    n_stale: int = 0
    weights: dict[str, torch.Tensor] = field(default_factory=dict)

    def update(self, perplexity: float, weights: Mapping[str, torch.Tensor]) -> bool:
        """Copy `weights` if their perplexity is the lowest so far; return whether it is."""
        self.n_stale += 1
        is_best = perplexity < self.perplexity
        if is_best:
            self.perplexity, self.n_stale = perplexity, 0
            self.weights = {name: tensor.detach().clone() for name, tensor in weights.items()}
        return is_best
