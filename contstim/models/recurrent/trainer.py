"""One training run in memory: steps, the sampled softmax's draws, and the saved moments."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from contstim.arrays import IntArray
from contstim.models.recurrent.config import TrainingOptions
from contstim.models.recurrent.corpus import TokenCorpus
from contstim.models.recurrent.layers import State, layer_backward, layer_forward
from contstim.models.recurrent.network import RecurrentNetwork
from contstim.models.recurrent.softmax import Negatives, cross_entropy

__all__ = ["Trainer", "perplexity"]

#: Matrices that are multiplied in the type of `TrainingOptions.precision`.
_MULTIPLIED = ("input", "recurrent", "projection")


def perplexity(network: RecurrentNetwork, corpus: TokenCorpus) -> float:
    """Return exp of the mean negative log-probability per token, ends of sentences counted."""
    vocabulary = network.vocabulary
    inputs, targets = [], []
    for s in range(len(corpus)):
        first, second = corpus.sequences(np.array([s]), vocabulary)
        inputs.append(first[:, 0])
        targets.append(second[:, 0])
    log_probs = np.concatenate(network.log_probs(inputs, targets))
    return math.exp(-float(log_probs.mean()))


class Trainer:
    """One training run: a network, its optimiser, and where in the text it is.

    Parameters
    ----------
    network
        The network, changed in place.
    corpus
        The training sentences.
    options
        How to train.
    """

    def __init__(
        self, network: RecurrentNetwork, corpus: TokenCorpus, options: TrainingOptions
    ) -> None:
        self.network, self.corpus, self.options = network, corpus, options
        self.step = self.epoch = self.index = 0
        self._batches = corpus.batches(options.batch_tokens, options.seed, 0)
        # Phases are counted in steps of the first pass's number of batches.
        self.sampled_steps = round(options.epochs * len(self._batches))
        self.total_steps = self.sampled_steps + max(
            1, round(options.full_epochs * len(self._batches))
        ) * (options.full_epochs > 0)
        vocabulary = network.vocabulary
        counts = np.bincount(corpus.ids, minlength=vocabulary.n_outputs).astype(np.float64)
        counts[vocabulary.end] = len(corpus)
        network.weights["output_bias"].copy_(
            torch.from_numpy(np.log((counts + 1) / (counts + 1).sum())).float()
        )
        tail = (counts[options.head :] + 1) ** 0.75
        self._tail = tail / tail.sum()
        self._cumulative = np.cumsum(self._tail)
        for tensor in network.weights.values():
            tensor.grad = torch.zeros_like(tensor)
        self.optimizer = torch.optim.AdamW(
            network.weights.values(),
            lr=options.learning_rate,
            weight_decay=options.weight_decay,
            fused=True,
        )

    @property
    def full(self) -> bool:
        """Whether the step to come uses the full softmax."""
        return self.step >= self.sampled_steps

    @property
    def finished(self) -> bool:
        """Whether no step is left."""
        return self.step >= self.total_steps

    def negatives(self) -> Negatives:
        """Return the tokens of the step's normaliser."""
        options, device = self.options, self.network.device
        n_outputs = self.network.vocabulary.n_outputs
        if self.full or n_outputs <= options.head + options.samples:
            empty = torch.zeros(0, device=device)
            return Negatives(n_outputs, empty.long(), empty)
        rng = np.random.default_rng([self.options.seed, 4, self.step])
        drawn = np.searchsorted(self._cumulative, rng.random(options.samples))
        drawn, times = np.unique(drawn.clip(max=len(self._tail) - 1), return_counts=True)
        weight = np.log(times / (options.samples * self._tail[drawn]))
        return Negatives(
            options.head,
            torch.from_numpy(drawn + options.head).to(device),
            torch.from_numpy(weight).float().to(device),
        )

    def advance(self) -> float:
        """Take one step and return its loss, nats a token."""
        while self.index >= len(self._batches):
            self.epoch, self.index = self.epoch + 1, 0
            self._batches = self.corpus.batches(
                self.options.batch_tokens, self.options.seed, self.epoch
            )
        loss = self._gradients(self._batches[self.index])
        parameters = list(self.network.weights.values())
        torch.nn.utils.clip_grad_norm_(parameters, self.options.clip)
        warm = min(1.0, (self.step + 1) / max(1, self.options.warmup))
        rate = self.options.learning_rate * warm * (1 - self.step / self.total_steps)
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        self.step += 1
        self.index += 1
        return loss

    def _gradients(self, batch: IntArray) -> float:
        network, config = self.network, self.network.config
        weights, device = network.weights, network.device
        grads = {name: tensor.grad for name, tensor in weights.items() if tensor.grad is not None}
        dtype = torch.bfloat16 if self.options.precision == "bfloat16" else torch.float32
        used = {name: weights[name].to(dtype) for name in _MULTIPLIED if name in weights}
        used["bias"] = weights["bias"].to(dtype)
        inputs, targets = (
            torch.from_numpy(ids).to(device)
            for ids in self.corpus.sequences(batch, network.vocabulary)
        )
        steps, sentences = inputs.shape
        embedded = weights["embedding"][inputs].to(dtype)
        start = State.zero(config, sentences, dtype, device)
        tape = layer_forward(config, used, embedded, start)
        hidden = tape.hidden[1:].view(steps * sentences, -1)
        queries = hidden @ used["projection"].t() if config.tied else hidden
        matrix = "embedding" if config.tied else "output"
        n_outputs = network.vocabulary.n_outputs
        loss, grad = cross_entropy(
            queries,
            targets.reshape(-1),
            weights[matrix][:n_outputs],
            weights["output_bias"],
            self.negatives(),
            grads[matrix][:n_outputs],
            grads["output_bias"],
        )
        if config.tied:
            grads["projection"].add_(grad.t() @ hidden)
            grad = grad @ used["projection"]
        grad = layer_backward(config, used, tape, grad.view(steps, sentences, -1), grads)
        grads["embedding"].index_add_(
            0, inputs.view(-1), grad.view(steps * sentences, -1).to(torch.float32)
        )
        return loss

    def skip_to(self, step: int) -> None:
        """Count the steps up to `step` as taken: a phase that ended early."""
        self.step = step

    def tensors(self) -> dict[str, Tensor]:
        """Return weights and moments, by name, for a saved state."""
        saved: dict[str, Tensor] = {}
        for name, tensor in self.network.weights.items():
            saved[f"now.{name}"] = tensor
            for key, value in self.optimizer.state[tensor].items():
                saved[f"{key}.{name}"] = value
        return saved

    def restore(self, saved: dict[str, Tensor], step: int, epoch: int, index: int) -> None:
        """Take up a saved state."""
        for name, tensor in self.network.weights.items():
            tensor.copy_(saved[f"now.{name}"])
            self.optimizer.state[tensor] = {
                key: saved[f"{key}.{name}"].to(tensor.device)
                for key in ("step", "exp_avg", "exp_avg_sq")
            }
        self.step, self.epoch, self.index = step, epoch, index
        self._batches = self.corpus.batches(self.options.batch_tokens, self.options.seed, epoch)
