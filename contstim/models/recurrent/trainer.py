"""One training run in memory: steps, the sampled softmax's draws, and the saved moments."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from contstim.arrays import IntArray
from contstim.models.recurrent.config import TrainingOptions
from contstim.models.recurrent.corpus import TokenCorpus
from contstim.models.recurrent.network import RecurrentNetwork
from contstim.models.recurrent.softmax import Negatives, cross_entropy

__all__ = ["Trainer", "perplexity"]


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
        shares = (counts + 1) / (counts + 1).sum()
        network.load({"output_bias": torch.from_numpy(np.log(shares)).float()})
        tail = (counts[options.head :] + 1) ** 0.75
        self._tail = tail / tail.sum()
        self._cumulative = np.cumsum(self._tail)
        for tensor in network.weights.values():
            tensor.requires_grad_()
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
        self.optimizer.zero_grad()
        self.step += 1
        self.index += 1
        return loss

    def _gradients(self, batch: IntArray) -> float:
        network = self.network
        dtype = torch.bfloat16 if self.options.precision == "bfloat16" else torch.float32
        inputs, targets = (
            torch.from_numpy(ids).to(network.device)
            for ids in self.corpus.sequences(batch, network.vocabulary)
        )
        hidden, _ = network.layer(inputs, network.start(inputs.shape[1], dtype))
        loss = cross_entropy(
            network.queries(hidden.flatten(0, 1)),
            targets.flatten(),
            network.output,
            network.weights["output_bias"],
            self.negatives(),
        )
        torch.autograd.backward(loss)
        return loss.item()

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
        self.network.load({name: saved[f"now.{name}"] for name in self.network.weights})
        for name, tensor in self.network.weights.items():
            self.optimizer.state[tensor] = {
                key: saved[f"{key}.{name}"].to(tensor.device)
                for key in ("step", "exp_avg", "exp_avg_sq")
            }
        self.step, self.epoch, self.index = step, epoch, index
        self._batches = self.corpus.batches(self.options.batch_tokens, self.options.seed, epoch)
