"""Transformer encoders with a linear head on the output of the first token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import AutoModel
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from contstim.arrays import FloatArray, IntArray
from contstim.errors import ModelFileError, require_known
from contstim.models import ModelSpec
from contstim.models.devices import resolve_device
from contstim.models.hf.checkpoint import find_max_tokens
from contstim.models.hf.pretrained import load_pretrained, locate_checkpoint
from contstim.models.registry import available_families, bundled_models
from contstim.training.batches import batch_by_length

# Maximum number of tokens per forward pass without gradients.
_MAX_TOKENS = 4096


@dataclass(eq=False)
class Encoder:
    """A pretrained encoder with its tokenizer.

    Attributes
    ----------
    network
        Encoder network of the package `transformers` without a prediction head, in float32 and
        evaluation mode.
    tokenizer
        Tokenizer of the package `transformers`.
    device
        Device of the network.
    max_tokens
        Maximum number of tokens per sentence, including special tokens; None if there is none.
    """

    network: Any
    tokenizer: Any
    device: torch.device
    max_tokens: int | None

    @property
    def width(self) -> int:
        """Dimension of the output of a token."""
        return int(self.network.config.hidden_size)


def load_encoder(base: str, device: str = "cpu") -> Encoder:
    """Load the encoder of a masked transformer.

    Parameters
    ----------
    base
        Folder of a checkpoint, name on the Hugging Face Hub, or model specification string of a
        masked model (``hf:NAME``, ``contstim:bert``).
    device
        PyTorch name of the device.

    Raises
    ------
    ModelFileError
        If the checkpoint does not exist or has no trained bidirectional encoder.
    InputError
        If the device is not available.
    """
    torch_device = resolve_device(device)

    def model_class(config: Any) -> Any:
        is_bidirectional = (
            config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES
            and not getattr(config, "is_decoder", False)
            and not getattr(config, "is_encoder_decoder", False)
        )
        # The output of the first token depends on the whole sentence only if attention is
        # bidirectional.
        if not is_bidirectional:
            raise ModelFileError(
                f"{base!r} is a model of type {config.model_type!r}, which has no bidirectional "
                "encoder; start from a masked model such as BERT"
            )
        return AutoModel

    source = locate_checkpoint(_resolve_base(base))
    loaded = load_pretrained(source, model_class, torch.float32, f"{base!r} as an encoder")
    network, tokenizer = loaded.network.to(torch_device), loaded.tokenizer
    # Checkpoints of masked models often lack the pooler, which is not used here.
    missing = [name for name in loaded.missing if not name.startswith("pooler")]
    if missing:
        raise ModelFileError(
            f"{base!r} has no trained encoder: the checkpoint lacks {len(missing)} weights, among "
            f"them {missing[0]}"
        )
    if getattr(network, "pooler", None) is not None:
        network.pooler = None
    _restrict_to_first_token(network, torch_device)
    return Encoder(network, tokenizer, torch_device, find_max_tokens(network, tokenizer))


def _resolve_base(base: str) -> ModelSpec:
    """Return the ``hf:`` specification of a folder, a name on the Hugging Face Hub, or a model.

    Options of the model string other than ``revision`` are dropped, since they concern scoring.

    Parameters
    ----------
    base
        Folder of a checkpoint, name on the Hugging Face Hub, or model specification string.

    Raises
    ------
    ModelFileError
        If the model string names a model without an encoder, such as an n-gram model.
    """
    family, colon, _ = base.partition(":")
    is_spec = colon and family in available_families() and not Path(base).is_dir()
    if not is_spec:
        return ModelSpec("hf", base)
    # A bundled transformer is stored in a folder; a bundled n-gram model has no encoder.
    spec = ModelSpec.parse(base)
    if spec.family == "contstim":
        require_known("bundled model", spec.location, bundled_models())
        bundled = bundled_models()[spec.location]
        if bundled.family == "hf":
            return ModelSpec("hf", str(bundled.path()))
    if spec.family != "hf":
        raise ModelFileError(
            f"{base!r} has no encoder to start from; give a masked transformer, as a folder, "
            "hf:NAME or contstim:NAME"
        )
    # The other options concern the scoring of sentences, which the encoder does not do.
    revision = tuple(option for option in spec.options if option[0] == "revision")
    return ModelSpec("hf", spec.location, revision)


def _restrict_to_first_token(network: Any, device: torch.device) -> None:
    """Make a network compute only the first token after its last attention layer, to save time.

    In networks like BERT, the layers after the attention process each token separately, so the
    output of the first token stays the same. This is tested with a small input. A network that
    fails or gives a different output is left unchanged.

    Parameters
    ----------
    network
        Encoder of the package `transformers`, which is modified in place.
    device
        Device of the network.
    """
    names = [name for name, _ in network.named_modules() if name.endswith("attention.output")]
    if not names:
        return
    # Compare the outputs for two sentences of three tokens without and with the restriction.
    n_sentences, n_tokens = 2, 3
    ids = torch.arange(n_sentences * n_tokens, device=device).reshape(n_sentences, n_tokens)
    mask = torch.ones_like(ids)
    with torch.inference_mode():
        expected = network(input_ids=ids, attention_mask=mask)[0][:, 0]
        # A hook passes only the first token on to the layers after the last attention.
        last_attention_output = network.get_submodule(names[-1])
        handle = last_attention_output.register_forward_pre_hook(
            lambda module, args: tuple(states[:, :1] for states in args)
        )
        try:
            states = network(input_ids=ids, attention_mask=mask)[0]
        except (RuntimeError, ValueError, TypeError, IndexError):
            # The network needs the other tokens after the attention.
            states = expected[:0]
    # Remove the hook if the output of the first token is missing or has changed.
    has_first_only = states.shape[:2] == (n_sentences, 1)
    if not (has_first_only and torch.allclose(states[:, 0], expected, rtol=1e-3, atol=1e-4)):
        handle.remove()


@dataclass(eq=False)
class EncoderWithHead:
    """An encoder with a linear head on the output of the first token.

    Attributes
    ----------
    network
        Encoder network from the library `transformers`, for example a BERT model.
    head
        Linear layer that maps the encoder's output for the first token to K values.
    """

    network: Any
    head: nn.Linear

    def outputs(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the outputs (n, K) of the head for n sentences of L tokens, ids (n, L)."""
        states = self.network(input_ids=ids, attention_mask=torch.ones_like(ids))[0]
        outputs: torch.Tensor = self.head(states[:, 0])
        return outputs


class TokenizedSentences:
    """S tokenised sentences as the input of an `EncoderWithHead`.

    Parameters
    ----------
    ids
        Token ids of each sentence, including special tokens.
    """

    def __init__(self, ids: Sequence[IntArray]) -> None:
        self.ids = list(ids)
        self.lengths = np.array([len(row) for row in self.ids], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.ids)

    def stack(self, indices: IntArray, device: torch.device) -> torch.Tensor:
        """Return the token ids of n sentences of equal length L, shape (n, L)."""
        return torch.from_numpy(np.stack([self.ids[i] for i in indices])).to(device)

    def run(self, model: EncoderWithHead, indices: IntArray) -> torch.Tensor:
        """Return the model's outputs for n sentences of equal length, shape (n, K)."""
        return model.outputs(self.stack(indices, model.head.weight.device))

    def inference_batches(self) -> list[IntArray]:
        """Split all sentences into batches of sentences of equal length, shortest first."""
        indices = np.arange(len(self.ids))
        return batch_by_length(indices, self.lengths, lambda length: _MAX_TOKENS // length)

    def outputs(self, model: EncoderWithHead) -> FloatArray:
        """Return the model's outputs for all sentences, shape (S, K)."""
        outputs = np.zeros((len(self.ids), model.head.out_features), dtype=np.float64)
        with torch.inference_mode():
            for indices in self.inference_batches():
                outputs[indices] = self.run(model, indices).double().cpu().numpy()
        return outputs
