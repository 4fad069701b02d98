"""The encoder of a transformer with a linear head on the first token's vector, and rows to run."""

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

from contstim.arrays import FloatArray, IntArray, length_batches
from contstim.errors import ModelFileError, require_known
from contstim.models import ModelSpec
from contstim.models.devices import resolve_device
from contstim.models.hf.checkpoint import find_max_tokens
from contstim.models.hf.pretrained import load_pretrained, locate_checkpoint
from contstim.models.registry import available_families, bundled_models


@dataclass(eq=False)
class Encoder:
    """A loaded encoder.

    Attributes
    ----------
    network
        The network without a head, in evaluation mode, float32.
    tokenizer
        The tokenizer as transformers loads it.
    device
        Where the network is.
    max_tokens
        Most tokens of an input, special tokens included; None without a limit.
    """

    network: Any
    tokenizer: Any
    device: torch.device
    max_tokens: int | None

    @property
    def width(self) -> int:
        """Length of the first token's vector."""
        return int(self.network.config.hidden_size)


def _location(base: str) -> ModelSpec:
    """Find the folder, or the name on the hub, of what `base` names."""
    family, colon, _ = base.partition(":")
    if not colon or family not in available_families() or Path(base).is_dir():
        return ModelSpec("hf", base)
    spec = ModelSpec.parse(base)
    if spec.family == "contstim":
        require_known("bundled model", spec.location, bundled_models())
        entry = bundled_models()[spec.location]
        if entry.family == "hf":
            return ModelSpec("hf", str(entry.path()))
    if spec.family != "hf":
        raise ModelFileError(
            f"{base!r} has no encoder to start from; give a masked transformer, as a folder, "
            "hf:NAME or contstim:NAME"
        )
    return ModelSpec("hf", spec.location, tuple(o for o in spec.options if o[0] == "revision"))


def load_encoder(base: str, device: str = "cpu") -> Encoder:
    """Open the encoder of a masked transformer.

    Parameters
    ----------
    base
        A folder, a name on the Hugging Face hub, or the spec of a masked model (``hf:...``,
        ``contstim:bert``).
    device
        Where to put it, as PyTorch names it.

    Raises
    ------
    ModelFileError
        If there is no such checkpoint, or it has no trained encoder.
    InputError
        If the device cannot be used.
    """
    where = resolve_device(device)

    def loader_for(config: Any) -> Any:
        _check_kind(config, base)
        return AutoModel

    source = locate_checkpoint(_location(base))
    opened = load_pretrained(source, loader_for, torch.float32, f"{base!r} as an encoder")
    network, tokenizer = opened.network.to(where), opened.tokenizer
    # The pooler is a head of its own, which masked models are often saved without.
    missing = [name for name in opened.missing if not name.startswith("pooler")]
    if missing:
        raise ModelFileError(
            f"{base!r} has no trained encoder: the checkpoint lacks {len(missing)} weights, among "
            f"them {missing[0]}"
        )
    if getattr(network, "pooler", None) is not None:
        network.pooler = None
    _narrow(network, where)
    return Encoder(network, tokenizer, where, find_max_tokens(network, tokenizer))


def _narrow(network: Any, device: torch.device) -> None:
    """Compute of the last layer no more than the first token, where that changes nothing.

    In networks built like BERT what follows the attention works place by place.
    """
    names = [name for name, _ in network.named_modules() if name.endswith("attention.output")]
    if not names:
        return
    ids = torch.arange(6, device=device).reshape(2, 3)
    mask = torch.ones_like(ids)
    with torch.inference_mode():
        full = network(input_ids=ids, attention_mask=mask)[0][:, 0]
        handle = network.get_submodule(names[-1]).register_forward_pre_hook(_first_alone)
        try:
            narrowed = network(input_ids=ids, attention_mask=mask)[0]
        except (RuntimeError, ValueError, TypeError, IndexError):
            # A network that cannot do without the other places.
            narrowed = full[:0]
    same = narrowed.shape[:2] == (2, 1)
    if not (same and torch.allclose(narrowed[:, 0], full, rtol=1e-3, atol=1e-4)):
        handle.remove()


def _first_alone(module: Any, args: Any) -> Any:
    return tuple(states[:, :1] for states in args)


def _check_kind(config: Any, base: str) -> None:
    both_ways = (
        config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES
        and not getattr(config, "is_decoder", False)
        and not getattr(config, "is_encoder_decoder", False)
    )
    if not both_ways:
        raise ModelFileError(
            f"{base!r} is a model of type {config.model_type!r}, which has no encoder that reads a "
            "sentence both ways; start from a masked model such as BERT"
        )


# Tokens of a forward pass without gradients.
_TOKENS = 4096


@dataclass(eq=False)
class EncoderWithHead:
    """A network with its head.

    Attributes
    ----------
    network
        The encoder.
    head
        From the first token's vector to K outputs.
    """

    network: Any
    head: nn.Linear

    def outputs(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the head's outputs for rows of one length: (N, L) to (N, K)."""
        states = self.network(input_ids=ids, attention_mask=torch.ones_like(ids))[0]
        outputs: torch.Tensor = self.head(states[:, 0])
        return outputs


class TokenizedSentences:
    """Tokenised sentences that a member is run on, S of them.

    Parameters
    ----------
    ids
        Token ids of each sentence, special tokens included.
    """

    def __init__(self, ids: Sequence[IntArray]) -> None:
        self.ids = list(ids)
        self.lengths = np.array([len(row) for row in self.ids], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.ids)

    def run(self, member: EncoderWithHead, index: IntArray) -> torch.Tensor:
        """Return the member's outputs for sentences of one length, (n, K)."""
        device = member.head.weight.device
        ids = torch.from_numpy(np.stack([self.ids[i] for i in index])).to(device)
        return member.outputs(ids)

    def blocks(self) -> list[IntArray]:
        """Return all sentences in blocks of one length, shortest first."""
        every = np.arange(len(self.ids))
        return length_batches(every, self.lengths, lambda length: _TOKENS // length)

    def outputs(self, member: EncoderWithHead) -> FloatArray:
        """Return the member's outputs for all sentences, (S, K), float64."""
        found = np.zeros((len(self.ids), member.head.out_features), dtype=np.float64)
        with torch.inference_mode():
            for index in self.blocks():
                found[index] = self.run(member, index).double().cpu().numpy()
        return found
