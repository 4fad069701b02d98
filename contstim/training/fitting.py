"""Training an encoder with its head, of which lower layers may stay as they are and run once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from contstim.arrays import IntArray, length_batches
from contstim.errors import InputError, ModelFileError
from contstim.progress import track
from contstim.training.encoders.network import Encoder, EncoderWithHead, TokenizedSentences
from contstim.training.optimization import gradient_step, linear_schedule
from contstim.training.options import FitOptions


def find_layers(network: Any) -> torch.nn.ModuleList:
    """Return the list of a network's layers, each of which gives what the next one takes.

    Raises
    ------
    ModelFileError
        If the network is not built of such a list (ALBERT and XLM are not).
    """
    n_layers = int(network.config.num_hidden_layers)
    lists = [
        module
        for module in network.modules()
        if isinstance(module, torch.nn.ModuleList) and len(module) == n_layers
    ]
    if len(lists) != 1:
        raise ModelFileError(
            f"a network of type {network.config.model_type!r} is not one list of layers, so its "
            "upper layers cannot be trained alone; train all of it"
        )
    return lists[0]


class _Played(nn.Module):
    """Stands for the frozen layers: gives back what they gave when they were run."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden: torch.Tensor | None = None

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Return the states that were set."""
        assert self.hidden is not None
        return self.hidden


class _Passed(nn.Module):
    """Stands for a frozen layer above which its successors' states are played."""

    def forward(self, hidden: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Return what came in."""
        return hidden


@dataclass(eq=False)
class TrainableEncoder(EncoderWithHead):
    """A network with its head, in training.

    Attributes
    ----------
    played
        Where the states of frozen layers are put, if those layers were taken out.
    """

    played: _Played | None = None

    def trained(self) -> dict[str, torch.Tensor]:
        """Return the weights that are trained, by name: the head's and the network's."""
        found = {f"head.{n}": p.detach().clone() for n, p in self.head.named_parameters()}
        for name, parameter in self.network.named_parameters():
            if parameter.requires_grad:
                found[f"network.{name}"] = parameter.detach().clone()
        return found


class CachedSentences(TokenizedSentences):
    """Tokenised sentences to train on, S of them.

    Parameters
    ----------
    ids
        Token ids of each sentence, special tokens included.
    hidden
        For each sentence what the frozen layers gave, (L, D); None where all layers are run.
    """

    def __init__(
        self, ids: Sequence[IntArray], hidden: Sequence[NDArray[np.float16]] | None = None
    ) -> None:
        super().__init__(ids)
        self.hidden = hidden

    def run(self, member: EncoderWithHead, index: IntArray) -> torch.Tensor:
        """Return the member's outputs for sentences of one length, (n, K)."""
        if self.hidden is not None:
            assert isinstance(member, TrainableEncoder)
            assert member.played is not None
            states = torch.from_numpy(np.stack([self.hidden[i] for i in index]))
            member.played.hidden = states.to(member.head.weight.device, torch.float32)
        return super().run(member, index)

    def batches(self, size: int, rng: np.random.Generator) -> list[IntArray]:
        """Return one pass in random order, each batch at most `size` sentences of one length."""
        order = rng.permutation(len(self.ids))
        batches = length_batches(order, self.lengths, lambda _: size)
        # Lengths in the order in which they are drawn.
        rank = {n: k for k, n in enumerate(dict.fromkeys(self.lengths[order].tolist()))}
        batches.sort(key=lambda batch: rank[int(self.lengths[batch[0]])])
        return [batches[j] for j in rng.permutation(len(batches))]


def _n_frozen(network: Any, n_trained: int | None) -> int:
    """Return how many lower layers are not trained; 0 where `n_trained` is None, everything."""
    if n_trained is None:
        return 0
    n_layers = len(find_layers(network))
    if not 1 <= n_trained <= n_layers:
        raise InputError(
            f"{n_trained} layers cannot be trained of a network that has {n_layers}; give a "
            f"number from 1 to {n_layers}"
        )
    return n_layers - n_trained


def add_head(
    encoder: Encoder, n_outputs: int, n_trained: int | None, seed: int
) -> TrainableEncoder:
    """Put a new head, small random weights of `seed`, on a copy of the encoder.

    Parameters
    ----------
    encoder
        The encoder, which is left as it is.
    n_outputs
        K, outputs of the head.
    n_trained
        How many upper layers are trained; the others are taken out and their states played.
        None: everything is trained, embeddings too.
    seed
        Seed of the head's weights.

    Raises
    ------
    InputError
        If the network has fewer layers.
    """
    network = copy.deepcopy(encoder.network)
    generator = torch.Generator().manual_seed(seed)
    head = nn.Linear(encoder.width, n_outputs)
    with torch.no_grad():
        # As BERT starts its heads: a normal of standard deviation 0.02 (Devlin et al. 2019).
        head.weight.copy_(0.02 * torch.randn(head.weight.shape, generator=generator))
        head.bias.zero_()
    head.to(encoder.device)
    if n_trained is None:
        network.requires_grad_(True)
        return TrainableEncoder(network, head)
    n_frozen, layers = _n_frozen(network, n_trained), find_layers(network)
    layers[n_frozen:].requires_grad_(True)
    if n_frozen == 0:
        return TrainableEncoder(network, head)
    played = _Played()
    layers[0] = played
    for i in range(1, n_frozen):
        layers[i] = _Passed()
    return TrainableEncoder(network, head, played)


def cache_frozen_layers(
    encoder: Encoder, ids: Sequence[IntArray], n_trained: int | None
) -> CachedSentences:
    """Run the layers that stay frozen once, and keep what they give (16 bits a number).

    Parameters as in `add_head`; with nothing frozen the rows are as they are.
    """
    rows = CachedSentences(ids)
    n_frozen = _n_frozen(encoder.network, n_trained)
    if n_frozen == 0:
        return rows
    hidden = [np.zeros((0, 0), dtype=np.float16)] * len(rows)
    last: list[torch.Tensor] = []

    def keep(module: Any, args: Any, output: torch.Tensor) -> None:
        last[:] = [output]

    lower = copy.deepcopy(encoder.network)
    layers = find_layers(lower)
    for i in range(n_frozen, len(layers)):
        layers[i] = _Passed()
    handle = layers[n_frozen - 1].register_forward_hook(keep)
    with torch.inference_mode():
        blocks = rows.blocks()
        for index in track(blocks, len(blocks), "frozen layers, in batches"):
            batch = torch.from_numpy(np.stack([rows.ids[i] for i in index])).to(encoder.device)
            lower(input_ids=batch, attention_mask=torch.ones_like(batch))
            for place, states in zip(index, last[0].half().cpu().numpy(), strict=True):
                hidden[place] = states.copy()
    handle.remove()
    return CachedSentences(ids, hidden)


#: A function from outputs (n, K) and the places (n,) of their sentences to the mean loss.
Loss = Callable[[torch.Tensor, IntArray], torch.Tensor]

# 1e-4 for networks 768 wide. The step that suits Adam falls with the width (Yang et al. 2022,
# Tensor Programs V).
_RATE_TIMES_WIDTH = 0.0768


def fit(
    member: TrainableEncoder,
    rows: CachedSentences,
    loss: Loss,
    options: FitOptions,
    order: int,
    label: str,
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
        betas=(0.9, 0.98),
    )
    passes = [
        rows.batches(options.batch, np.random.default_rng([order, epoch]))
        for epoch in range(options.epochs)
    ]
    steps = [(epoch, batch) for epoch, batches in enumerate(passes) for batch in batches]
    device = member.head.weight.device
    sums = np.zeros(options.epochs)
    member.network.eval()
    for number, (epoch, index) in enumerate(track(steps, len(steps), label)):
        half = options.precision == "bfloat16"
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            outputs = rows.run(member, index)
        now = rate * linear_schedule(number, len(steps), options.warm_up)
        sums[epoch] += gradient_step(optimiser, weights, loss(outputs.float(), index), now) * len(
            index
        )
    return [float(total) / len(rows) for total in sums]
