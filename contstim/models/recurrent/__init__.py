"""Recurrent language models over words: configuration, computation and files.

A network is saved as a safetensors file, which contains the weights by name and ``record``, a
UTF-8 encoded JSON object with format version, configuration, vocabulary and training record.
Matrices are stored as float32, float16 or int8. For int8 the tensor ``NAME.scale`` contains one
float32 scale per row. All weights are float32 in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor
from torch.func import functional_call

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError, ModelFileError
from contstim.files import decode_json, digest
from contstim.models.word_tokenizer import END, START, UNKNOWN
from contstim.progress import track
from contstim.settings import PositiveInt, settings, validate_choice

#: Kinds of recurrent unit.
CELLS = ("rnn", "lstm")


#: Format and version of the files.
NETWORK_FORMAT = "contstim recurrent network"
NETWORK_VERSION = 1

# Maximum number of input tokens per pass of the recurrent layer.
_TOKENS_PER_BATCH = 4096
# Size of a block of logits: number of tokens of the vocabulary times number of positions. Blocks of
# this size fit the cache of a processor, which makes scoring 1.5 times as fast as with the whole
# vocabulary at once.
_VOCABULARY_BLOCK = 4096
_POSITION_BLOCK = 512

#: Recurrent state of B sequences: hidden states of shape (1, B, H), and LSTM cells if any.
State = tuple[Tensor, ...]


@settings
class NetworkConfig:
    """Architecture of a language model with one recurrent layer.

    The layer has a word embedding as input and a softmax over the vocabulary as output. The
    defaults follow Golan et al. (2023, Supplementary Section 6.1.2), except `tied`.

    Attributes
    ----------
    cell
        Recurrent unit: ``rnn`` (with ReLU activation) or ``lstm``.
    embedding
        Dimension of the word embedding.
    hidden
        Number of hidden units H.
    tied
        Whether the rows of the embedding are also the output weights (tied weights). The hidden
        state is then projected to the dimension of the embedding, and files are several times
        smaller. Otherwise the model has a separate output matrix, as in the paper.
    """

    cell: Annotated[str, validate_choice(CELLS, "kind of recurrent unit")]
    embedding: PositiveInt = 256
    hidden: PositiveInt = 512
    tied: bool = True

    def weight_shapes(self, n_outputs: int) -> dict[str, tuple[int, ...]]:
        """Return a mapping from the name of each weight array to its shape.

        Parameters
        ----------
        n_outputs
            Number of tokens that the network predicts. The embedding has one more row, for the
            start symbol.
        """
        width = (4 if self.cell == "lstm" else 1) * self.hidden  # an LSTM has four gates
        # The embedding has one row more than the output, for the start symbol.
        shapes: dict[str, tuple[int, ...]] = {
            "embedding": (n_outputs + 1, self.embedding),
            "input": (width, self.embedding),
            "recurrent": (width, self.hidden),
            "bias": (width,),
            "output_bias": (n_outputs,),
        }
        # With tied weights, the output uses the embedding, after a projection to its dimension.
        if self.tied:
            shapes["projection"] = (self.embedding, self.hidden)
        else:
            shapes["output"] = (n_outputs, self.hidden)
        return shapes


@dataclass(frozen=True)
class TokenVocabulary:
    """Token ids of a recurrent network.

    Id 0 is the end symbol, id 1 the unknown-word symbol, and the following ids are `words`, the
    most frequent first. The last id is the start symbol, which the network never predicts.
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
        """Number of tokens that the network predicts."""
        return len(self.words) + 2

    @property
    def start(self) -> int:
        """Id of the start symbol."""
        return len(self.words) + 2

    def ids(self) -> dict[str, int]:
        """Return a mapping from word to id. Special symbols are not included."""
        return {word: word_id for word_id, word in enumerate(self.words, start=2)}


@dataclass(eq=False)
class RecurrentNetwork:
    """A recurrent network with its configuration, vocabulary and float32 weights by name.

    PyTorch computes the recurrent layer. The gates of an LSTM are stored in the order input,
    forget, output, cell, which differs from PyTorch's.
    """

    config: NetworkConfig
    vocabulary: TokenVocabulary
    weights: dict[str, Tensor]
    _logits: Tensor | None = field(default=None, repr=False)

    @classmethod
    def initialise(
        cls, config: NetworkConfig, vocabulary: TokenVocabulary, seed: int
    ) -> RecurrentNetwork:
        """Return a network with random weights for training.

        Embeddings are drawn from a normal distribution with standard deviation 0.1, and elements of
        other matrices from a uniform distribution between -1 / sqrt(H) and 1 / sqrt(H) for H hidden
        units, as in PyTorch. Biases are 0, except for the forget gate of an LSTM, where they are 1.
        """
        generator = torch.Generator().manual_seed(seed)
        # Embedding: normal distribution. Weight matrices: uniform between -1/sqrt(H) and 1/sqrt(H)
        # for H hidden units, as in PyTorch. Biases: zero.
        limit = config.hidden**-0.5
        weights: dict[str, Tensor] = {}
        for name, shape in config.weight_shapes(vocabulary.n_outputs).items():
            weights[name] = torch.zeros(shape)
            if name == "embedding":
                weights[name].normal_(0.0, 0.1, generator=generator)
            elif len(shape) == 2:
                weights[name].uniform_(-limit, limit, generator=generator)
        # The forget gate, the second of the four gates of an LSTM, is open at first.
        if config.cell == "lstm":
            forget_gate = slice(config.hidden, 2 * config.hidden)
            weights["bias"][forget_gate] = 1.0
        return cls(config, vocabulary, weights)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.weights["embedding"].device

    @property
    def output_weights(self) -> Tensor:
        """Output weights, one row for each token that can be predicted."""
        name = "embedding" if self.config.tied else "output"
        return self.weights[name][: self.vocabulary.n_outputs]

    @property
    def n_multiply_adds(self) -> int:
        """Number of multiply-add operations per token, including the output."""
        names = {"input", "recurrent", "projection"} & self.weights.keys()
        return sum(self.weights[name].numel() for name in names) + self.output_weights.numel()

    def to(self, device: torch.device) -> RecurrentNetwork:
        """Return the network with its weights on `device`."""
        weights = {name: tensor.to(device) for name, tensor in self.weights.items()}
        return RecurrentNetwork(self.config, self.vocabulary, weights)

    @torch.no_grad()
    def copy_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Copy the values of `weights` into the weights of the same names."""
        for name, tensor in weights.items():
            self.weights[name].copy_(tensor)

    def initial_state(self, n: int = 1, dtype: torch.dtype = torch.float32) -> State:
        """Return the zero state of `n` sequences before their first token."""
        zeros = torch.zeros((1, n, self.config.hidden), dtype=dtype, device=self.device)
        return (zeros, zeros) if self.config.cell == "lstm" else (zeros,)

    def forward(self, ids: Tensor, start: State) -> tuple[Tensor, State]:
        """Run the recurrent layer in the data type of `start`.

        Parameters
        ----------
        ids
            Token ids of B sequences of T tokens, shape (T, B).
        start
            State before the first token.

        Returns
        -------
        hidden
            Hidden states after each token, shape (T, B, H).
        end
            State after the last token.
        """
        is_lstm, dtype = self.config.cell == "lstm", start[0].dtype
        shape = self.config.embedding, self.config.hidden
        # The layer on the device "meta" has no memory for weights. `functional_call` computes it
        # with the weights of this network.
        layer: torch.nn.Module
        if is_lstm:
            layer = torch.nn.LSTM(*shape, device="meta")
        else:
            layer = torch.nn.RNN(*shape, nonlinearity="relu", device="meta")
        weights = {name: self.weights[name].to(dtype) for name in ("input", "recurrent", "bias")}
        if is_lstm:
            # Reorder the four gates as PyTorch expects them.
            for name, weight in weights.items():
                input_gate, forget_gate, output_gate, cell = weight.chunk(4)
                weights[name] = torch.cat([input_gate, forget_gate, cell, output_gate])
        # Names of PyTorch: "ih" from input to hidden, "hh" from hidden to hidden. Its second bias
        # is redundant.
        parameters = {
            "weight_ih_l0": weights["input"],
            "weight_hh_l0": weights["recurrent"],
            "bias_ih_l0": weights["bias"],
            "bias_hh_l0": torch.zeros_like(weights["bias"]),
        }
        inputs = self.weights["embedding"][ids].to(dtype)  # (tokens, sequences, embedding)
        # The state of an LSTM is a pair (hidden state, cell state).
        initial = start if is_lstm else start[0]
        hidden, end = functional_call(layer, parameters, (inputs, initial))
        return hidden, end if is_lstm else (end,)

    @torch.no_grad()
    def run_states(self, ids: IntArray, start: State) -> list[State]:
        """Return the T + 1 states of the network before, between and after T tokens.

        Parameters
        ----------
        ids
            Token ids of one sequence, shape (T,).
        start
            State before the first token.
        """
        states = [start]
        for token in torch.from_numpy(ids).to(self.device):
            states.append(self.forward(token.view(1, 1), states[-1])[1])
        return states

    def project(self, hidden: Tensor) -> Tensor:
        """Convert N hidden states, shape (N, H), to inputs of the output layer.

        If the embedding is also the output matrix (tied weights), the states are projected to the
        dimension of the embedding. Otherwise they are returned unchanged.
        """
        if not self.config.tied:
            return hidden
        return hidden @ self.weights["projection"].to(hidden.dtype).t()

    @torch.no_grad()
    def next_log_probs(self, hidden: Tensor) -> Tensor:
        """Return log p(next token) in nats, shape (N, n_outputs), for N hidden states, (N, H)."""
        vectors, bias = self.project(hidden), self.weights["output_bias"]
        return torch.log_softmax(torch.addmm(bias, vectors, self.output_weights.t()), dim=1)

    @torch.no_grad()
    def log_probs(
        self, inputs: Sequence[IntArray], targets: Sequence[IntArray], start: State | None = None
    ) -> list[FloatArray]:
        """Return the log-probability of each target token in nats.

        Sequences of similar length are computed together, padded on the right. Padding comes
        after the last scored step, so it affects no result.

        Parameters
        ----------
        inputs
            Input token ids of S sequences, (T,) each.
        targets
            Token ids that follow each input, (T,) each.
        start
            State of the network before the first token, the same for all sequences. Default: the
            initial state.

        Returns
        -------
        list of ndarray
            log p(target t | start, inputs 1..t), (T,) for each sequence.
        """
        start = self.initial_state() if start is None else start
        # Fill batches in the order of length, so that little padding is needed.
        by_length = sorted(range(len(inputs)), key=lambda s: len(inputs[s]))
        batches: list[list[int]] = []
        for s in by_length:
            if batches and len(inputs[s]) * (len(batches[-1]) + 1) <= _TOKENS_PER_BATCH:
                batches[-1].append(s)
            else:
                batches.append([s])

        results: list[FloatArray] = [np.zeros(0)] * len(inputs)
        n_tokens = [sum(len(inputs[s]) for s in batch) for batch in batches]
        for batch in track(batches, len(batches), "scoring, in batches", weights=n_tokens):
            lengths = [len(inputs[s]) for s in batch]
            padded = np.zeros((max(lengths), len(batch)), dtype=np.int64)
            for column, s in enumerate(batch):
                padded[: lengths[column], column] = inputs[s]
            starts = tuple(part.expand(-1, len(batch), -1).contiguous() for part in start)
            hidden, _ = self.forward(torch.from_numpy(padded).to(self.device), starts)

            # Select the steps that are not padding, one sequence after the other, and score them.
            steps = torch.from_numpy(np.concatenate([np.arange(length) for length in lengths]))
            columns = torch.from_numpy(np.repeat(np.arange(len(batch)), lengths))
            tokens = torch.from_numpy(np.concatenate([targets[s] for s in batch])).to(self.device)
            values = self._score_targets(self.project(hidden[steps, columns]), tokens)
            values_by_sequence = np.split(values, np.cumsum(lengths)[:-1])
            for s, sequence_values in zip(batch, values_by_sequence, strict=True):
                results[s] = sequence_values
        return results

    def _score_targets(self, vectors: Tensor, targets: Tensor) -> FloatArray:
        """Return the log-probability of the target token at each of N positions, shape (N,).

        For the logits x of one position, log p(t) = x_t - m - log sum_v exp(x_v - m), where m is
        the maximum of x. Sum and maximum are computed in one pass over blocks of the vocabulary
        (online softmax, Milakov & Gimelshein 2018): the sum is rescaled whenever a block has a
        larger maximum.

        Parameters
        ----------
        vectors
            Inputs of the output layer, see `project`, one row per position.
        targets
            Ids of the target tokens, shape (N,).
        """
        weights, bias = self.output_weights, self.weights["output_bias"]
        # Memory for one block of logits, which is used again for every block.
        if self._logits is None:
            size = _VOCABULARY_BLOCK * _POSITION_BLOCK
            self._logits = torch.empty(size, device=vectors.device)
        log_probs = torch.empty(len(vectors), dtype=torch.float64)
        for first in range(0, len(vectors), _POSITION_BLOCK):
            positions = slice(first, first + _POSITION_BLOCK)
            block, block_targets = vectors[positions], targets[positions]
            n_positions = len(block)
            target_logits = (block * weights[block_targets]).sum(1) + bias[block_targets]
            # log p(target) = target logit - maximum - log(total), where total is the sum of
            # exp(logit - maximum) over the vocabulary. Go through the vocabulary in blocks.
            maximum = torch.full_like(target_logits, -torch.inf)
            total = torch.zeros_like(target_logits)
            for start in range(0, len(weights), _VOCABULARY_BLOCK):
                tokens = slice(start, start + _VOCABULARY_BLOCK)
                n_tokens = len(weights[tokens])
                logits = self._logits[: n_tokens * n_positions].view(n_tokens, n_positions)
                torch.addmm(bias[tokens, None], weights[tokens], block.t(), out=logits)
                # Rescale the sum of the blocks so far to the new maximum, and add this block.
                new_maximum = torch.maximum(maximum, logits.amax(0))
                rescaled = total * (maximum - new_maximum).exp_()
                total = rescaled + logits.sub_(new_maximum).exp_().sum(0)
                maximum = new_maximum
            # Rounding can give a positive value, but searches rely on log-probabilities of at
            # most 0.
            block_log_probs = (target_logits - maximum - total.log()).clamp_(max=0)
            log_probs[positions] = block_log_probs.double().cpu()
        return log_probs.numpy()


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any], str]:
    """Read a safetensors file that contains tensors and a JSON record.

    Returns
    -------
    tensors
        Mapping from name to tensor.
    record
        The JSON record.
    digest
        SHA-256 of the file.

    Raises
    ------
    ModelFileError
        If the file is missing, is damaged, or has a different format.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise ModelFileError(f"there is no model file {str(path)!r}") from error
    except OSError as error:
        raise ModelFileError(f"cannot read model file {str(path)!r}: {error}") from error
    try:
        # The configuration and the vocabulary are stored as JSON, in an array of bytes.
        tensors = load(data)
        record = decode_json(tensors.pop("record").numpy().tobytes().decode())
    except (SafetensorError, KeyError, ValueError) as error:
        raise ModelFileError(
            f"{str(path)!r} is damaged or is not a recurrent network of contstim; "
            "copy it again, or train one with `contstim models train`"
        ) from error
    return tensors, record, digest(data)


def load_network(path: Path) -> tuple[RecurrentNetwork, dict[str, Any], str]:
    """Load a network from a file.

    Returns
    -------
    network
        The network, with float32 weights on the CPU.
    training
        Record of how the network was trained.
    digest
        SHA-256 of the file.

    Raises
    ------
    ModelFileError
        If the file is missing or damaged, or if its kind or version is not supported.
    """
    tensors, record, digest = read_tensors(path)
    mismatch = f"{str(path)!r} is not a recurrent network of contstim"
    # Check the record, which describes the network.
    if not isinstance(record, dict) or record.get("format") != NETWORK_FORMAT:
        raise ModelFileError(f"{mismatch}; choose a file that `contstim models train` wrote")
    if record.get("version") != NETWORK_VERSION:
        raise ModelFileError(
            f"{str(path)!r} has format version {record.get('version')!r}, this contstim reads "
            f"version {NETWORK_VERSION}; use the contstim that wrote it"
        )
    try:
        config = NetworkConfig(**record["config"])
        vocabulary = TokenVocabulary(tuple(record["vocabulary"]))
        training = dict(record["training"])
    except (KeyError, TypeError, ValueError, InputError) as error:
        raise ModelFileError(f"{mismatch}: its record is damaged; copy it again") from error
    weights: dict[str, Tensor] = {}
    for name, shape in config.weight_shapes(vocabulary.n_outputs).items():
        tensor, scale = tensors.get(name), tensors.get(name + ".scale")
        if tensor is None or tuple(tensor.shape) != shape:
            raise ModelFileError(f"{mismatch}: weights {name!r} are missing or of a wrong shape")
        weights[name] = tensor.float()
        # Weights in 8 bits are stored with one scale factor for each row.
        if scale is not None:
            weights[name] *= scale[:, None]
    return RecurrentNetwork(config, vocabulary, weights), training, digest
