"""Recurrent networks: what they are, how they compute, and their files.

A file is one of safetensors: the weights by name, and ``record``, bytes of UTF-8 JSON: format
version, configuration, vocabulary and how the network was trained. Nothing is ever unpickled.
Matrices may be stored as float32, float16 or int8 with one float32 scale a row, ``NAME.scale``;
they are float32 once loaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor
from torch.func import functional_call

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError, ModelFileError, require_known
from contstim.files import digest, json_value, replacing
from contstim.models.word_tokenizer import END, START, UNKNOWN
from contstim.progress import track
from contstim.settings import Count, one_of, settings

#: Kinds of recurrent unit.
CELLS = ("rnn", "lstm")

#: How a file can store matrices.
STORAGES = ("float32", "float16", "int8")


@settings
class NetworkConfig:
    """One recurrent layer between an embedding and a softmax.

    The defaults are those of Golan et al. (2023, Supplementary Section 6.1.2), but for `tied`.

    Attributes
    ----------
    cell
        ``rnn`` (units ``max(0, .)``) or ``lstm``.
    embedding
        Width of the word embedding.
    hidden
        Number of hidden units.
    tied
        True: the hidden state is projected linearly to the width of the embedding, whose rows
        are the output weights too (a departure from the paper that makes files several times
        smaller). False: an output matrix of its own on the hidden state, as in the paper.
    """

    cell: Annotated[str, one_of(CELLS, "kind of recurrent unit")]
    embedding: Count = 256
    hidden: Count = 512
    tied: bool = True

    @property
    def n_gates(self) -> int:
        """Pre-activations per hidden unit."""
        return 4 if self.cell == "lstm" else 1

    def weight_shapes(self, n_outputs: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of each parameter, for a vocabulary of `n_outputs` tokens."""
        width = self.n_gates * self.hidden
        shapes: dict[str, tuple[int, ...]] = {
            "embedding": (n_outputs + 1, self.embedding),
            "input": (width, self.embedding),
            "recurrent": (width, self.hidden),
            "bias": (width,),
            "output_bias": (n_outputs,),
        }
        if self.tied:
            shapes["projection"] = (self.embedding, self.hidden)
        else:
            shapes["output"] = (n_outputs, self.hidden)
        return shapes


@dataclass(frozen=True)
class TokenVocabulary:
    """The tokens of a network, most frequent first.

    Id 0 is the end symbol, id 1 the unknown-word class, then come `words`. The start symbol has
    the last id, `start`: it is read, but never predicted, so it has no output.
    """

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.words:
            raise InputError("a vocabulary needs at least one word, got none")
        if len(set(self.words)) != len(self.words) or set(self.words) & {START, END, UNKNOWN}:
            raise InputError(
                f"a vocabulary lists each word once, without {START}, {END} and {UNKNOWN}"
            )

    #: Ids of the end symbol and of the unknown-word class.
    end = 0
    unknown = 1

    @property
    def n_outputs(self) -> int:
        """Number of tokens the network predicts."""
        return len(self.words) + 2

    @property
    def start(self) -> int:
        """Id of the start symbol."""
        return len(self.words) + 2

    def ids(self) -> dict[str, int]:
        """Map each word to its id; the three special symbols are no words."""
        return {word: number for number, word in enumerate(self.words, start=2)}


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
    def initialise(
        cls, config: NetworkConfig, vocabulary: TokenVocabulary, seed: int
    ) -> RecurrentNetwork:
        """Draw the weights a training starts from.

        Matrices on the hidden layer are uniform within 1 / sqrt(H), as in PyTorch; embeddings
        normal with standard deviation 0.1; an LSTM's forget gates start open (bias 1).
        """
        random = torch.Generator().manual_seed(seed)
        limit = config.hidden**-0.5
        weights: dict[str, Tensor] = {}
        for name, shape in config.weight_shapes(vocabulary.n_outputs).items():
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
    def output_weights(self) -> Tensor:
        """Output weights: one row for each token that can be predicted."""
        name = "embedding" if self.config.tied else "output"
        return self.weights[name][: self.vocabulary.n_outputs]

    @property
    def n_multiply_adds(self) -> int:
        """Multiply-additions of one step, the output's included; an embedding is looked up."""
        matrices = [
            self.weights[name]
            for name in ("input", "recurrent", "projection")
            if name in self.weights
        ]
        return sum(matrix.numel() for matrix in [*matrices, self.output_weights])

    def to(self, device: torch.device) -> RecurrentNetwork:
        """Return the network with its weights on `device`."""
        moved = {name: tensor.to(device) for name, tensor in self.weights.items()}
        return RecurrentNetwork(self.config, self.vocabulary, moved)

    @torch.no_grad()
    def copy_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Take over the values of `weights`."""
        for name, tensor in weights.items():
            self.weights[name].copy_(tensor)

    def initial_state(self, n: int = 1, dtype: torch.dtype = torch.float32) -> State:
        """Return the state of `n` sequences before their first symbol."""
        size = 1, n, self.config.hidden
        zero = torch.zeros(size, dtype=dtype, device=self.device)
        return (zero, zero) if self.config.cell == "lstm" else (zero,)

    def forward(self, ids: Tensor, start: State) -> tuple[Tensor, State]:
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
    def run_states(self, ids: IntArray, start: State) -> list[State]:
        """Return the states of one sequence: `start`, then that after each of `ids` (T,)."""
        states = [start]
        for token in torch.from_numpy(ids).to(self.device):
            states.append(self.forward(token.view(1, 1), states[-1])[1])
        return states

    @torch.no_grad()
    def next_log_probs(self, hidden: Tensor) -> Tensor:
        """Return log p(next token) of each vocabulary entry, (N, n_outputs), given (N, H)."""
        logits = torch.addmm(
            self.weights["output_bias"], self.project(hidden), self.output_weights.t()
        )
        return torch.log_softmax(logits, dim=1)

    @torch.no_grad()
    def log_probs(
        self, inputs: Sequence[IntArray], targets: Sequence[IntArray], start: State | None = None
    ) -> list[FloatArray]:
        """Return log p(target t | start, inputs up to t) in nats, (T,) for each sequence.

        Sequences of like length run together, padded on the right; a padded step comes after
        the sequence's last real one and is never scored, so it changes nothing.
        """
        start = self.initial_state() if start is None else start
        results: list[FloatArray] = [np.zeros(0)] * len(inputs)
        order = sorted(range(len(inputs)), key=lambda s: len(inputs[s]))
        batches: list[list[int]] = []
        first = 0
        while first < len(order):
            last = first + 1
            while last < len(order) and len(inputs[order[last]]) * (last + 1 - first) <= _TOKENS:
                last += 1
            batches.append(order[first:last])
            first = last
        costs = [sum(len(inputs[s]) for s in batch) for batch in batches]
        for batch in track(batches, len(batches), "scoring, in batches", weights=costs):
            scored = self._batch([inputs[s] for s in batch], [targets[s] for s in batch], start)
            for s, values in zip(batch, scored, strict=True):
                results[s] = values
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
        outputs, _ = self.forward(torch.from_numpy(padded).to(self.device), copies)
        steps = np.concatenate([np.arange(length) for length in lengths])
        columns = np.repeat(np.arange(len(inputs)), lengths)
        hidden = outputs[torch.from_numpy(steps), torch.from_numpy(columns)]
        flat = torch.from_numpy(np.concatenate(targets)).to(self.device)
        values = self._target_log_probs(self.project(hidden), flat)
        return np.split(values, np.cumsum(lengths)[:-1])

    def project(self, hidden: Tensor) -> Tensor:
        """Return what output weights are multiplied with, given hidden states (N, H)."""
        if not self.config.tied:
            return hidden
        return hidden @ self.weights["projection"].to(hidden.dtype).t()

    def _target_log_probs(self, queries: Tensor, targets: Tensor) -> FloatArray:
        """Return s_t - log sum exp(s) of N positions, in blocks of the vocabulary.

        The sum is kept relative to the largest logit so far and rescaled when a larger one comes.
        """
        matrix, bias = self.output_weights, self.weights["output_bias"]
        if self._buffer is None:
            self._buffer = torch.empty(_ENTRIES * _POSITIONS, device=queries.device)
        result = torch.empty(len(queries), dtype=torch.float64)
        for first in range(0, len(queries), _POSITIONS):
            query, target = queries[first : first + _POSITIONS], targets[first : first + _POSITIONS]
            n = len(query)
            target_scores = (query * matrix[target]).sum(1) + bias[target]
            top, z = torch.full_like(target_scores, -torch.inf), torch.zeros_like(target_scores)
            for block in range(0, len(matrix), _ENTRIES):
                entries = matrix[block : block + _ENTRIES]
                logits = self._buffer[: len(entries) * n].view(len(entries), n)
                offset = bias[block : block + _ENTRIES, None]
                torch.addmm(offset, entries, query.t(), out=logits)
                higher = torch.maximum(top, logits.amax(0))
                z = z * (top - higher).exp_() + logits.sub_(higher).exp_().sum(0)
                top = higher
            # At most 0 whatever the rounding: later terms of a sentence never raise its score.
            values = (target_scores - top - z.log()).clamp_(max=0)
            result[first : first + _POSITIONS] = values.double().cpu()
        return result.numpy()


_FORMAT = "contstim recurrent network"
_VERSION = 1


def tensor_bytes(tensors: dict[str, Tensor], record: dict[str, Any]) -> bytes:
    """Return tensors and a JSON record as the bytes of one file."""
    data = np.frombuffer(json.dumps(record, ensure_ascii=False).encode(), dtype=np.uint8)
    everything = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    everything["record"] = torch.from_numpy(data.copy())
    # Not written by the library, whose files only their owner can read.
    return save(everything)


def write_tensors(path: Path, tensors: dict[str, Tensor], record: dict[str, Any]) -> None:
    """Write tensors and a JSON record as one file, whole or not at all, in a folder that is."""
    with replacing(path) as temporary:
        temporary.write_bytes(tensor_bytes(tensors, record))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any], str]:
    """Read what `write_tensors` wrote: tensors, record, and the file's SHA-256."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise ModelFileError(f"there is no model file {str(path)!r}") from error
    except OSError as error:
        raise ModelFileError(f"cannot read model file {str(path)!r}: {error}") from error
    try:
        tensors = load(data)
        record = json_value(tensors.pop("record").numpy().tobytes().decode())
    except (SafetensorError, KeyError, ValueError) as error:
        raise ModelFileError(
            f"{str(path)!r} is damaged or is not a recurrent network of contstim; "
            "copy it again, or train one with `contstim models train`"
        ) from error
    return tensors, record, digest(data)


def save_network(
    path: Path, network: RecurrentNetwork, training: dict[str, Any], storage: str
) -> None:
    """Write a network; `training` is the record of how it was made.

    Raises
    ------
    OutputError
        If `path` cannot be written.
    """
    require_known("storage type", storage, STORAGES)
    tensors: dict[str, Tensor] = {}
    for name, tensor in network.weights.items():
        values = tensor.detach().cpu()
        if tensor.ndim < 2 or storage == "float32":
            tensors[name] = values
        elif storage == "float16":
            tensors[name] = values.half()
        else:
            # A row of zeros has scale 1; otherwise its largest magnitude becomes 127.
            scale = values.abs().amax(1) / 127
            scale = torch.where(scale > 0, scale, torch.ones_like(scale))
            tensors[name] = (values / scale[:, None]).round().to(torch.int8)
            tensors[name + ".scale"] = scale
    record = {
        "format": _FORMAT,
        "version": _VERSION,
        "config": asdict(network.config),
        "vocabulary": list(network.vocabulary.words),
        "training": training,
    }
    write_tensors(path, tensors, record)


def load_network(path: Path) -> tuple[RecurrentNetwork, dict[str, Any], str]:
    """Read a network, its training record and the file's SHA-256.

    Raises
    ------
    ModelFileError
        If the file is missing, truncated, or of another kind or version.
    """
    tensors, record, digest = read_tensors(path)
    foreign = f"{str(path)!r} is not a recurrent network of contstim"
    if not isinstance(record, dict) or record.get("format") != _FORMAT:
        raise ModelFileError(f"{foreign}; choose a file that `contstim models train` wrote")
    if record.get("version") != _VERSION:
        raise ModelFileError(
            f"{str(path)!r} has format version {record.get('version')!r}, this contstim reads "
            f"version {_VERSION}; use the contstim that wrote it"
        )
    try:
        config = NetworkConfig(**record["config"])
        vocabulary = TokenVocabulary(tuple(record["vocabulary"]))
        training = dict(record["training"])
    except (KeyError, TypeError, ValueError, InputError) as error:
        raise ModelFileError(f"{foreign}: its record is damaged") from error
    weights: dict[str, Tensor] = {}
    for name, shape in config.weight_shapes(vocabulary.n_outputs).items():
        tensor, scale = tensors.get(name), tensors.get(name + ".scale")
        if tensor is None or tuple(tensor.shape) != shape:
            raise ModelFileError(f"{foreign}: weights {name!r} are missing or of a wrong shape")
        weights[name] = tensor.float()
        if scale is not None:
            weights[name] *= scale[:, None]
    return RecurrentNetwork(config, vocabulary, weights), training, digest
