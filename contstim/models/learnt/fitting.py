"""Training an encoder and its head on a loss of the head's outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import numpy as np
import torch
from pydantic import Field

from contstim.arrays import IntArray
from contstim.models.learnt.encoder import Member, TokenRows
from contstim.progress import track
from contstim.settings import Count, one_of, settings

#: A function from outputs (n, K) and the places (n,) of their sentences to the mean loss.
Loss = Callable[[torch.Tensor, IntArray], torch.Tensor]

# 1e-4 for networks 768 wide. The step that suits Adam falls with the width (Yang et al. 2022,
# Tensor Programs V).
_RATE_TIMES_WIDTH = 0.0768


@settings
class FitOptions:
    """How a network is trained: AdamW, a linear warm-up and a linear fall to 0, no dropout.

    Attributes
    ----------
    epochs
        Passes over the sentences.
    batch
        Most sentences of a batch; a batch holds sentences of one length, so nothing is padded.
    learning_rate
        Highest step; None: 0.0768 over the width of the network, which is 1e-4 for BERT base.
    layers
        Upper layers that are trained; None: everything.
    weight_decay
        Of the matrices.
    warm_up
        Share of the steps in which the rate rises.
    precision
        ``bfloat16`` or ``float32``, of the matrix products; weights are float32.
    """

    epochs: Count = 3
    batch: Count = 32
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    layers: int | None = None
    weight_decay: float = 0.01
    warm_up: float = 0.1
    precision: Annotated[str, one_of(("bfloat16", "float32"))] = "bfloat16"


def fit(
    member: Member, rows: TokenRows, loss: Loss, options: FitOptions, order: int, label: str
) -> list[float]:
    """Train a member in place.

    Parameters
    ----------
    member
        The network and its head; weights that require a gradient are trained.
    rows
        The sentences.
    loss
        The loss of a batch.
    options
        How to train.
    order
        Seed of the order of the sentences.
    label
        What is being done, for the progress report.

    Returns
    -------
    list of float
        Mean loss of each pass.
    """
    weights = [p for p in member.network.parameters() if p.requires_grad]
    weights += list(member.head.parameters())
    rate = options.learning_rate or _RATE_TIMES_WIDTH / member.head.in_features
    optimiser = torch.optim.AdamW(
        [
            {"params": [p for p in weights if p.ndim > 1], "weight_decay": options.weight_decay},
            {"params": [p for p in weights if p.ndim <= 1], "weight_decay": 0.0},
        ],
        lr=rate,
        betas=(0.9, 0.98),
    )
    passes = [
        list(rows.batches(options.batch, np.random.default_rng([order, epoch])))
        for epoch in range(options.epochs)
    ]
    steps = [(epoch, batch) for epoch, batches in enumerate(passes) for batch in batches]
    warm = max(1, round(options.warm_up * len(steps)))
    device = member.head.weight.device
    sums = np.zeros(options.epochs)
    member.network.eval()
    for number, (epoch, index) in enumerate(track(steps, len(steps), label)):
        share = min((number + 1) / warm, (len(steps) - number) / max(1, len(steps) - warm))
        for group in optimiser.param_groups:
            group["lr"] = rate * share
        half = options.precision == "bfloat16"
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            outputs = rows.run(member, index)
        value = loss(outputs.float(), index)
        optimiser.zero_grad()
        torch.autograd.backward(value)
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
        sums[epoch] += float(value.detach()) * len(index)
    return [float(total) / len(rows) for total in sums]
