"""The encoder of a transformer, without its head: token ids in, the first token's vector out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from contstim.errors import ModelFileError, UnknownNameError
from contstim.models.bundled import bundled_models
from contstim.models.hf.checkpoint import (
    UNREADABLE,
    device_of,
    longest_input,
    quiet,
    source_of,
)
from contstim.models.registry import families
from contstim.models.spec import ModelSpec

__all__ = ["Encoder", "layers_of", "open_encoder"]


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


def layers_of(network: Any) -> torch.nn.ModuleList:
    """Return the list of a network's layers, each of which gives what the next one takes.

    Raises
    ------
    ModelFileError
        If the network is not built of such a list (ALBERT and XLM are not).
    """
    n_layers = int(network.config.num_hidden_layers)
    found = [
        module
        for module in network.modules()
        if isinstance(module, torch.nn.ModuleList) and len(module) == n_layers
    ]
    if len(found) != 1:
        raise ModelFileError(
            f"a network of type {network.config.model_type!r} is not one list of layers, so its "
            "upper layers cannot be trained alone; train all of it"
        )
    return found[0]


def _location(base: str) -> ModelSpec:
    """Find the folder, or the name on the hub, of what `base` names."""
    family, colon, _ = base.partition(":")
    if not colon or family not in families() or Path(base).is_dir():
        return ModelSpec("hf", base)
    spec = ModelSpec.parse(base)
    if spec.family == "contstim":
        if spec.location not in bundled_models():
            raise UnknownNameError.among("bundled model", spec.location, bundled_models())
        entry = bundled_models()[spec.location]
        if entry.family == "hf":
            return ModelSpec("hf", str(entry.path()))
    if spec.family != "hf":
        raise ModelFileError(
            f"{base!r} has no encoder to start from; give a masked transformer, as a folder, "
            "hf:NAME or contstim:NAME"
        )
    return ModelSpec("hf", spec.location, tuple(o for o in spec.options if o[0] == "revision"))


def open_encoder(base: str, device: str = "cpu") -> Encoder:
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
    SpecError
        If the device cannot be used.
    """
    spec = _location(base)
    where = device_of(ModelSpec("hf", spec.location, (("device", device),)))
    source = source_of(spec, Path(spec.location).expanduser(), spec.get("revision", "main"))
    loaded = None
    with quiet():
        for local in (True, False) if source.on_hub else (True,):
            options: dict[str, Any] = {**source.options, "local_files_only": local}
            try:
                config = AutoConfig.from_pretrained(source.name, **options)
                _check_kind(config, base)
                tokenizer = AutoTokenizer.from_pretrained(source.name, **options)
                loaded = AutoModel.from_pretrained(
                    source.name, dtype=torch.float32, output_loading_info=True, **options
                )
                break
            except ModelFileError:
                raise
            except UNREADABLE as error:
                reason: Exception = error
    if loaded is None:
        said = " ".join(str(reason).split())[:200]
        raise ModelFileError(f"cannot load {base!r} as an encoder ({said})") from reason
    network, info = loaded
    # The pooler is a head of its own, which masked models are often saved without.
    missing = sorted(str(k) for k in info["missing_keys"] if not str(k).startswith("pooler"))
    if missing:
        raise ModelFileError(
            f"{base!r} has no trained encoder: the checkpoint lacks {len(missing)} weights, among "
            f"them {missing[0]}"
        )
    if getattr(network, "pooler", None) is not None:
        network.pooler = None
    network.eval().requires_grad_(False).to(where)
    _narrow(network, where)
    return Encoder(network, tokenizer, where, longest_input(network, tokenizer))


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
