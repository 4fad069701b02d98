"""The network's weights, and the log-probabilities of token sequences under them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from contstim.arrays import FloatArray, IntArray
from contstim.models.recurrent.config import NetworkConfig, TokenVocabulary

__all__ = ["RecurrentNetwork", "State"]

#: Hidden state of B sequences, (1, B, H), and in an LSTM its cells after it, of like shape.
State = tuple[Tensor, ...]

#: Most input tokens run through the layer at a time.
_TOKENS = 4096
#: Logits held at a time: so many vocabulary entries for so many positions. A block of this size
#: stays in a processor's cache, which makes scoring half as fast again as whole rows do.
_ENTRIES = 4096
_POSITIONS = 512


@dataclass(eq=False)
class RecurrentNetwork:
    """A recurrent network: its `config`, `vocabulary` and float32 `weights` by name.

    The layer is PyTorch's, its pre-activations in the order of files: the gates of an LSTM are
    i, f, o, g there.
    """

    config: NetworkConfig
    vocabulary: TokenVocabulary
    weights: dict[str, Tensor]
    _buffer: Tensor | None = field(default=None, repr=False)

    @classmethod
    def initial(
        cls, config: NetworkConfig, vocabulary: TokenVocabulary, seed: int
    ) -> RecurrentNetwork:
        """Draw the weights a training starts from.

        Matrices on the hidden layer are uniform within 1 / sqrt(H), as in PyTorch; embeddings
        normal with standard deviation 0.1; an LSTM's forget gates start open (bias 1).
        """
        random = torch.Generator().manual_seed(seed)
        limit = config.hidden**-0.5
        weights: dict[str, Tensor] = {}
        for name, shape in config.shapes(vocabulary.n_outputs).items():
            tensor = torch.zeros(shape)
            if name == "embedding":
                tensor.normal_(0.0, 0.1, generator=random)
            elif len(shape) == 2:
                tensor.uniform_(-limit, limit, generator=random)
            weights[name] = tensor
        if config.cell == "lstm":
            weights["bias"][config.hidden : 2 * config.hidden] = 1.0
        return cls(config, vocabulary, weights)

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.weights["embedding"].device

    @property
    def output(self) -> Tensor:
        """Output weights: one row for each token that can be predicted."""
        name = "embedding" if self.config.tied else "output"
        return self.weights[name][: self.vocabulary.n_outputs]

    @property
    def n_multiplications(self) -> int:
        """Multiply-additions of one step, the output's included; an embedding is looked up."""
        matrices = [
            self.weights[name]
            for name in ("input", "recurrent", "projection")
            if name in self.weights
        ]
        return sum(matrix.numel() for matrix in [*matrices, self.output])

    def to(self, device: torch.device) -> RecurrentNetwork:
        """Return the network with its weights on `device`."""
        moved = {name: tensor.to(device) for name, tensor in self.weights.items()}
        return RecurrentNetwork(self.config, self.vocabulary, moved)

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Take over the values of `weights`."""
        for name, tensor in weights.items():
            self.weights[name].copy_(tensor)

    def start(self, n: int = 1, dtype: torch.dtype = torch.float32) -> State:
        """Return the state of `n` sequences before their first symbol."""
        size = 1, n, self.config.hidden
        zero = torch.zeros(size, dtype=dtype, device=self.device)
        return (zero, zero) if self.config.cell == "lstm" else (zero,)

    def layer(self, ids: Tensor, start: State) -> tuple[Tensor, State]:
        """Run the layer over `ids` (T, B) in the type of `start`.

        Returns the hidden state after each, (T, B, H), and the state after the last.
        """
        lstm, dtype = self.config.cell == "lstm", start[0].dtype
        shape = self.config.embedding, self.config.hidden
        # On "meta" it is a layer without weights of its own.
        bare = (
            torch.nn.LSTM(*shape, device="meta")
            if lstm
            else torch.nn.RNN(*shape, nonlinearity="relu", device="meta")
        )
        given = {name: self.weights[name].to(dtype) for name in ("input", "recurrent", "bias")}
        if lstm:
            chunks = {name: weight.chunk(4) for name, weight in given.items()}
            given = {name: torch.cat([i, f, g, o]) for name, (i, f, o, g) in chunks.items()}
        parameters = {
            "weight_ih_l0": given["input"],
            "weight_hh_l0": given["recurrent"],
            "bias_ih_l0": given["bias"],
            "bias_hh_l0": torch.zeros_like(given["bias"]),
        }
        inputs = self.weights["embedding"][ids].to(dtype)
        hidden, end = functional_call(bare, parameters, (inputs, start if lstm else start[0]))
        return hidden, end if lstm else (end,)

    @torch.no_grad()
    def run(self, ids: IntArray, start: State) -> list[State]:
        """Return the states of one sequence: `start`, then that after each of `ids` (T,)."""
        states = [start]
        for token in torch.from_numpy(ids).to(self.device):
            states.append(self.layer(token.view(1, 1), states[-1])[1])
        return states

    @torch.no_grad()
    def next_log_probs(self, hidden: Tensor) -> Tensor:
        """Return log p(next token) of each vocabulary entry, (N, n_outputs), given (N, H)."""
        logits = torch.addmm(self.weights["output_bias"], self.queries(hidden), self.output.t())
        return torch.log_softmax(logits, dim=1)

    @torch.no_grad()
    def log_probs(
        self, inputs: Sequence[IntArray], targets: Sequence[IntArray], start: State | None = None
    ) -> list[FloatArray]:
        """Return log p(target t | start, inputs up to t) in nats, (T,) for each sequence.

        Sequences of like length run together, padded on the right; a padded step comes after
        the sequence's last real one and is never scored, so it changes nothing.
        """
        start = self.start() if start is None else start
        results: list[FloatArray] = [np.zeros(0)] * len(inputs)
        order = sorted(range(len(inputs)), key=lambda s: len(inputs[s]))
        first = 0
        while first < len(order):
            last = first + 1
            while last < len(order) and len(inputs[order[last]]) * (last + 1 - first) <= _TOKENS:
                last += 1
            batch = order[first:last]
            scored = self._batch([inputs[s] for s in batch], [targets[s] for s in batch], start)
            for s, values in zip(batch, scored, strict=True):
                results[s] = values
            first = last
        return results

    def _batch(
        self, inputs: list[IntArray], targets: list[IntArray], start: State
    ) -> list[FloatArray]:
        """Score sequences in one pass of the layer."""
        lengths = [len(sequence) for sequence in inputs]
        padded = np.zeros((max(lengths), len(inputs)), dtype=np.int64)
        for column, sequence in enumerate(inputs):
            padded[: len(sequence), column] = sequence
        copies = tuple(part.expand(-1, len(inputs), -1).contiguous() for part in start)
        outputs, _ = self.layer(torch.from_numpy(padded).to(self.device), copies)
        steps = np.concatenate([np.arange(length) for length in lengths])
        columns = np.repeat(np.arange(len(inputs)), lengths)
        hidden = outputs[torch.from_numpy(steps), torch.from_numpy(columns)]
        flat = torch.from_numpy(np.concatenate(targets)).to(self.device)
        values = self._target_log_probs(self.queries(hidden), flat)
        return np.split(values, np.cumsum(lengths)[:-1])

    def queries(self, hidden: Tensor) -> Tensor:
        """Return what output weights are multiplied with, given hidden states (N, H)."""
        if not self.config.tied:
            return hidden
        return hidden @ self.weights["projection"].to(hidden.dtype).t()

    def _target_log_probs(self, queries: Tensor, targets: Tensor) -> FloatArray:
        """Return s_t - log sum exp(s) of N positions, in blocks of the vocabulary.

        The sum is kept relative to the largest logit so far and rescaled when a larger one comes.
        """
        matrix, bias = self.output, self.weights["output_bias"]
        if self._buffer is None:
            self._buffer = torch.empty(_ENTRIES * _POSITIONS, device=queries.device)
        result = torch.empty(len(queries), dtype=torch.float64)
        for first in range(0, len(queries), _POSITIONS):
            query, target = queries[first : first + _POSITIONS], targets[first : first + _POSITIONS]
            n = len(query)
            own = (query * matrix[target]).sum(1) + bias[target]
            top, z = torch.full_like(own, -torch.inf), torch.zeros_like(own)
            for block in range(0, len(matrix), _ENTRIES):
                entries = matrix[block : block + _ENTRIES]
                logits = self._buffer[: len(entries) * n].view(len(entries), n)
                offset = bias[block : block + _ENTRIES, None]
                torch.addmm(offset, entries, query.t(), out=logits)
                higher = torch.maximum(top, logits.amax(0))
                z = z * (top - higher).exp_() + logits.sub_(higher).exp_().sum(0)
                top = higher
            # At most 0 whatever the rounding: later terms of a sentence never raise its score.
            values = (own - top - z.log()).clamp_(max=0)
            result[first : first + _POSITIONS] = values.double().cpu()
        return result.numpy()
