"""Training of an encoder with a linear head, optionally with frozen lower layers.

The outputs of frozen layers do not change during training. They are computed once and cached.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from contstim.arrays import IntArray
from contstim.errors import InputError, ModelFileError
from contstim.progress import track
from contstim.training.batches import batch_by_length
from contstim.training.encoders.network import Encoder, EncoderWithHead, TokenizedSentences
from contstim.training.optimization import gradient_step, linear_schedule
from contstim.training.options import FitOptions

#: Function that computes the mean loss of a batch from the K outputs of the head for n sentences,
#: shape (n, K), and the indices of these sentences, shape (n,).
LossFunction = Callable[[torch.Tensor, IntArray], torch.Tensor]

# Default learning rate times network width: 1e-4 for width 768. The best learning rate of Adam is
# inversely proportional to the width (Yang et al. 2022, Tensor Programs V).
_RATE_TIMES_WIDTH = 0.0768


def find_layers(network: Any) -> nn.ModuleList:
    """Return the layers of a transformer, from the lowest to the highest.

    Raises
    ------
    ModelFileError
        If the network is not a single sequence of layers, like ALBERT and XLM.
    """
    n_layers = int(network.config.num_hidden_layers)
    # The layers are the only list of modules that is as long as the configured number of layers.
    module_lists = [
        module
        for module in network.modules()
        if isinstance(module, nn.ModuleList) and len(module) == n_layers
    ]
    if len(module_lists) != 1:
        raise ModelFileError(
            f"a network of type {network.config.model_type!r} is not a single list of layers, so "
            "its upper layers cannot be trained alone; train all of it"
        )
    return module_lists[0]


class _CachedLayer(nn.Module):
    """Layer that returns a cached output, `hidden`, in place of the frozen layers."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden: torch.Tensor | None = None

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        assert self.hidden is not None
        return self.hidden


class _IdentityLayer(nn.Module):
    """Layer that returns its input; it takes the place of a layer that is not needed."""

    def forward(self, hidden: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return hidden


@dataclass(eq=False)
class TrainableEncoder(EncoderWithHead):
    """An encoder with a linear head that is being trained.

    Attributes
    ----------
    cached_layer
        Layer that returns precomputed outputs of the lower layers, which are not trained, in their
        place. None if all layers are trained.
    """

    cached_layer: _CachedLayer | None = None

    def trained_weights(self) -> dict[str, torch.Tensor]:
        """Return copies of the trained weights by name: those of the head and of trained layers."""
        weights = {}
        for name, parameter in self.head.named_parameters():
            weights[f"head.{name}"] = parameter.detach().clone()
        # Weights of frozen layers are not included, because the original encoder has them.
        for name, parameter in self.network.named_parameters():
            if parameter.requires_grad:
                weights[f"network.{name}"] = parameter.detach().clone()
        return weights


class CachedSentences(TokenizedSentences):
    """S tokenised sentences with the cached outputs of the frozen layers.

    Parameters
    ----------
    ids
        Token ids of each sentence, including special tokens.
    hidden
        Output of the frozen layers for each sentence of L tokens, shape (L, D); None if no layer
        is frozen.
    """

    def __init__(
        self, ids: Sequence[IntArray], hidden: Sequence[NDArray[np.float16]] | None = None
    ) -> None:
        super().__init__(ids)
        self.hidden = hidden

    def run(self, model: EncoderWithHead, indices: IntArray) -> torch.Tensor:
        """Compute the outputs of an encoder's head for some sentences of equal length.

        If layers are frozen, their cached outputs take the place of the lower layers.

        Parameters
        ----------
        model
            Encoder with a head of K outputs.
        indices
            Indices of n sentences with the same number of tokens.

        Returns
        -------
        (n, K) tensor
            Outputs of the head.
        """
        if self.hidden is not None:
            assert isinstance(model, TrainableEncoder)
            assert model.cached_layer is not None
            states = torch.from_numpy(np.stack([self.hidden[i] for i in indices]))
            model.cached_layer.hidden = states.to(model.head.weight.device, torch.float32)
        return super().run(model, indices)

    def make_batches(self, max_sentences: int, rng: np.random.Generator) -> list[IntArray]:
        """Split all sentences into batches of sentences of equal length, in random order.

        Parameters
        ----------
        max_sentences
            Maximum number of sentences per batch.
        rng
            Random number generator.

        Returns
        -------
        list of arrays
            Indices of the sentences in each batch.
        """
        order = rng.permutation(len(self.ids))
        batches = batch_by_length(order, self.lengths, lambda _: max_sentences)
        # Sort the batches by the first occurrence of their sentence length in `order`, so that
        # their order before the shuffle is random too.
        distinct_lengths = dict.fromkeys(self.lengths[order].tolist())
        ranks = {length: rank for rank, length in enumerate(distinct_lengths)}
        batches.sort(key=lambda batch: ranks[int(self.lengths[batch[0]])])
        return [batches[i] for i in rng.permutation(len(batches))]


def _count_frozen_layers(network: Any, n_trained: int | None) -> int:
    """Return the number of lower layers that are not trained.

    Parameters
    ----------
    network
        Encoder of the package `transformers`.
    n_trained
        Number of upper layers to train; None to train all layers.

    Raises
    ------
    InputError
        If the network has fewer than `n_trained` layers.
    """
    if n_trained is None:
        return 0
    # The upper layers are trained, the lower ones are frozen.
    n_layers = len(find_layers(network))
    if not 1 <= n_trained <= n_layers:
        raise InputError(
            f"cannot train {n_trained} layers of a network that has {n_layers}; give a number from "
            f"1 to {n_layers}"
        )
    return n_layers - n_trained


def add_head(
    encoder: Encoder, n_outputs: int, n_trained: int | None, seed: int
) -> TrainableEncoder:
    """Add a new linear head to a copy of an encoder.

    The weights of the head are drawn from a normal distribution with standard deviation 0.02, as in
    BERT (Devlin et al. 2019).

    Parameters
    ----------
    encoder
        The encoder, which is not modified.
    n_outputs
        Number of outputs K of the head.
    n_trained
        Number of upper layers to train. Lower layers are replaced with their cached outputs. None:
        train the whole network, including the embeddings.
    seed
        Seed of the random initial weights.

    Raises
    ------
    InputError
        If the network has fewer than `n_trained` layers.
    """
    network = copy.deepcopy(encoder.network)
    # Initialise the head as in BERT: weights from N(0, 0.02²), biases 0.
    generator = torch.Generator().manual_seed(seed)
    head = nn.Linear(encoder.width, n_outputs)
    with torch.no_grad():
        head.weight.copy_(0.02 * torch.randn(head.weight.shape, generator=generator))
        head.bias.zero_()
    head.to(encoder.device)
    # Without a number of layers, train the whole network, including its embeddings.
    if n_trained is None:
        network.requires_grad_(True)
        return TrainableEncoder(network, head)
    # Otherwise train the upper layers only.
    n_frozen, layers = _count_frozen_layers(network, n_trained), find_layers(network)
    layers[n_frozen:].requires_grad_(True)
    if n_frozen == 0:
        return TrainableEncoder(network, head)
    # The frozen lower layers give the same output in each epoch. Replace them with one layer that
    # returns cached outputs, followed by layers that do nothing.
    cached_layer = _CachedLayer()
    layers[0] = cached_layer
    for i in range(1, n_frozen):
        layers[i] = _IdentityLayer()
    return TrainableEncoder(network, head, cached_layer)


def cache_frozen_layers(
    encoder: Encoder, ids: Sequence[IntArray], n_trained: int | None
) -> CachedSentences:
    """Compute the outputs of the layers that are not trained, once for all epochs.

    The outputs are stored in half precision (float16).

    Parameters
    ----------
    encoder
        Encoder before training.
    ids
        Token ids of each sentence, including special tokens.
    n_trained
        Number of upper layers to train. None: train the whole network, so that nothing is cached.
    """
    sentences = CachedSentences(ids)
    n_frozen = _count_frozen_layers(encoder.network, n_trained)
    if n_frozen == 0:
        return sentences
    # One array per sentence of L tokens, shape (L, D), to be filled in below.
    hidden = [np.zeros((0, 0), dtype=np.float16)] * len(sentences)
    outputs: list[torch.Tensor] = []

    def save_output(module: Any, args: Any, output: torch.Tensor) -> None:
        outputs[:] = [output]

    # Run only the frozen layers, and record the output of the highest one with a hook.
    lower_network = copy.deepcopy(encoder.network)
    layers = find_layers(lower_network)
    for i in range(n_frozen, len(layers)):
        layers[i] = _IdentityLayer()
    layers[n_frozen - 1].register_forward_hook(save_output)
    # Half precision halves the size of the cache. Each array is copied, because a view would keep
    # the whole batch in memory.
    batches = sentences.inference_batches()
    with torch.inference_mode():
        for indices in track(batches, len(batches), "frozen layers, in batches"):
            batch = sentences.stack(indices, encoder.device)
            lower_network(input_ids=batch, attention_mask=torch.ones_like(batch))
            for index, states in zip(indices, outputs[0].half().cpu().numpy(), strict=True):
                hidden[index] = states.copy()
    return CachedSentences(ids, hidden)


def fit(
    model: TrainableEncoder,
    sentences: CachedSentences,
    loss: LossFunction,
    options: FitOptions,
    seed: int,
    progress_label: str,
) -> list[float]:
    """Train an encoder with a linear head, in place, by AdamW without dropout.

    Parameters
    ----------
    model
        Encoder with its head. Weights that require a gradient are trained.
    sentences
        Training sentences.
    loss
        Function that computes the mean loss of a batch.
    options
        Training options.
    seed
        Seed of the order of the sentences.
    progress_label
        Name of the training in the progress report.

    Returns
    -------
    list of float
        Mean loss of each epoch.
    """
    weights = [p for p in model.network.parameters() if p.requires_grad]
    weights += list(model.head.parameters())
    # A wider network needs a lower learning rate.
    max_rate = options.learning_rate or _RATE_TIMES_WIDTH / model.head.in_features
    # Weight decay applies to matrices, but not to biases and normalisation weights (vectors).
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in weights if p.ndim > 1], "weight_decay": options.weight_decay},
            {"params": [p for p in weights if p.ndim <= 1], "weight_decay": 0.0},
        ],
        betas=(0.9, 0.98),
    )
    # List the batches of all epochs in advance, to know the total number of steps.
    steps = [
        (epoch, indices)
        for epoch in range(options.epochs)
        for indices in sentences.make_batches(options.batch, np.random.default_rng([seed, epoch]))
    ]
    device = model.head.weight.device
    use_bfloat16 = options.precision == "bfloat16"
    loss_sums = np.zeros(options.epochs)
    model.network.eval()  # without dropout
    for step, (epoch, indices) in enumerate(track(steps, len(steps), progress_label)):
        with torch.autocast(device.type, torch.bfloat16, enabled=use_bfloat16):
            outputs = sentences.run(model, indices)
        rate = max_rate * linear_schedule(step, len(steps), options.warm_up)
        value = gradient_step(optimizer, weights, loss(outputs.float(), indices), rate)
        # The loss is a mean over the batch. The batch size is its weight in the epoch's mean.
        loss_sums[epoch] += value * len(indices)
    return [float(total) / len(sentences) for total in loss_sums]
