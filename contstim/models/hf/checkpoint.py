"""What a spec of family ``hf`` may ask for, and the reading of its checkpoint.

A checkpoint is a folder, a GGUF file or a name on the Hugging Face hub.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForMaskedLM
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from contstim.errors import ModelFileError
from contstim.files import digest_parts
from contstim.models import ModelSpec
from contstim.models.devices import resolve_device
from contstim.models.hf.network import FORWARD_ERRORS, Network
from contstim.models.hf.options import LOADING_OPTIONS
from contstim.models.hf.pretrained import load_pretrained, locate_checkpoint

DTYPES = ("float32", "float64", "float16", "bfloat16")


@dataclass(eq=False)
class Checkpoint:
    """A loaded checkpoint, shared by all specs that differ only in how they score.

    Attributes
    ----------
    kind
        ``causal`` or ``masked``.
    network
        The network with its head.
    tokenizer
        The tokenizer as transformers loads it.
    max_tokens
        Most tokens of an input, special tokens included; None without a limit.
    mask_id
        The id of the token that hides another; None where there is none.
    code
        SHA-256 of the code that came with it and was run; empty if none was.
    """

    kind: str
    network: Network
    tokenizer: Any
    max_tokens: int | None
    mask_id: int | None = None
    code: str = ""

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of configuration, weights as loaded, tokenizer and code; hexadecimal."""
        model = self.network.model
        return digest_weights(model.state_dict(), self.tokenizer, model.config) + self.code


# Of a configuration, what scores do not depend on.
_NO_MATTER = {"_name_or_path", "architectures", "dtype", "transformers_version", "use_cache"}


def digest_weights(weights: Mapping[str, torch.Tensor], tokenizer: Any, config: Any) -> str:
    """Return the SHA-256 of weights, by name, a tokenizer and a configuration; hexadecimal.

    The configuration counts since the same weights give other scores with another number of heads,
    another window or another activation.
    """

    def parts() -> Iterator[bytes]:
        for name, tensor in sorted(weights.items()):
            yield f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode()
            raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            yield raw.numpy().tobytes()
        settings = {k: v for k, v in config.to_dict().items() if k not in _NO_MATTER}
        record = [settings, tokenizer.special_tokens_map]
        if tokenizer.is_fast:
            yield tokenizer.backend_tokenizer.to_str().encode()
        else:
            merges = getattr(tokenizer, "bpe_ranks", {})
            record += [sorted(tokenizer.get_vocab().items()), sorted(merges.items())]
        yield json.dumps(record, sort_keys=True, default=str).encode()

    return digest_parts(parts())


_OPEN: weakref.WeakValueDictionary[tuple[str, ...], Checkpoint] = weakref.WeakValueDictionary()


def load_checkpoint(spec: ModelSpec) -> Checkpoint:
    """Open the checkpoint that `spec` names, or return it if it is open already.

    A folder or a ``.gguf`` file is read as it is. Any other location is a name on the hub: the
    local cache of the hub is looked into first, so that a model once fetched needs no network,
    then the hub is asked. Code that comes with a checkpoint is run with ``code=run`` alone.

    Raises
    ------
    SpecError
        For a device or dtype that cannot be had.
    ModelFileError
        If there is no such checkpoint, if it cannot be read, or if it has no trained
        language-model head.
    MissingExtraError
        If reading GGUF needs a package that is not installed.
    """
    device = resolve_device(spec.get("device", LOADING_OPTIONS["device"]), spec)
    dtype = getattr(torch, spec.get_choice("dtype", DTYPES, LOADING_OPTIONS["dtype"]))
    revision = spec.get("revision", LOADING_OPTIONS["revision"])
    path = spec.path
    files = sorted(path.iterdir()) if path.is_dir() else [path] if path.is_file() else []
    stats = [(file.name, file.stat()) for file in files]
    stamp = " ".join(f"{name}:{of.st_mtime_ns}:{of.st_size}" for name, of in stats)
    run_code = spec.get_choice("code", ("never", "run"), LOADING_OPTIONS["code"]) == "run"
    key = (spec.location, revision, str(device), str(dtype), stamp, str(run_code))
    checkpoint = _OPEN.get(key)
    if checkpoint is None:
        checkpoint = _read(spec, device, dtype, run_code)
        _OPEN[key] = checkpoint
    return checkpoint


def _read(spec: ModelSpec, device: torch.device, dtype: torch.dtype, run_code: bool) -> Checkpoint:
    def loader_for(config: Any) -> Any:
        return AutoModelForMaskedLM if _kind(config, spec) == "masked" else AutoModelForCausalLM

    opened = load_pretrained(
        locate_checkpoint(spec), loader_for, dtype, repr(spec.location), run_code
    )
    model, tokenizer = opened.network.to(device), opened.tokenizer
    kind = _kind(opened.config, spec)
    if opened.missing:
        raise ModelFileError(
            f"{spec.location!r} has no trained language-model head: the checkpoint lacks "
            f"{len(opened.missing)} weights, among them {opened.missing[0]}; use the checkpoint "
            "that was trained to predict words (of ELECTRA, the generator)"
        )
    mask_id = tokenizer.mask_token_id
    if mask_id is None:
        mask_id = getattr(opened.config, "mask_token_id", None)
    if kind == "masked" and mask_id is None:
        raise ModelFileError(
            f"neither tokenizer nor configuration of {spec.location!r} name a mask token; use a "
            "masked language model"
        )
    try:
        network = Network(model, device, attends_to_all=bool(opened.code))
        looks_ahead = kind == "causal" and _sees_what_follows(network)
    except FORWARD_ERRORS as error:
        raise ModelFileError(
            f"{spec.location!r} is a model of type {model.config.model_type!r} that cannot be "
            f"computed here from tokens alone ({' '.join(str(error).split())[:200]}); use another "
            "checkpoint"
        ) from error
    if looks_ahead:
        raise ModelFileError(
            f"{spec.location!r} is a model of type {model.config.model_type!r} whose predictions "
            "see the words that follow, so it gives no log-probabilities from left to right; use a "
            "causal checkpoint (a decoder of the BERT kind has is_decoder in its configuration)"
        )
    if tokenizer.vocab_size > network.n_logits:
        raise ModelFileError(
            f"the tokenizer of {spec.location!r} has {tokenizer.vocab_size} tokens and its network "
            f"{network.n_logits}; they are of different models"
        )
    limit = find_max_tokens(model, tokenizer)
    return Checkpoint(kind, network, tokenizer, limit, mask_id, opened.code)


def _sees_what_follows(network: Network) -> bool:
    """Return whether what is predicted at a place depends on the tokens behind it.

    So it is with networks that have a causal form and were saved in another: XLNet, which is
    causal only under a mask of its own, and decoders of the BERT kind without ``is_decoder``.
    """
    rows = np.tile(network.sample_ids(4, ()), (2, 1))
    rows[1, 2:] = (rows[1, 2:] + 1) % network.n_logits
    ids = torch.from_numpy(rows).to(network.device)
    places = torch.tensor([0, 1], device=network.device)
    with torch.inference_mode():
        before, other = (network.logits(ids[[i]], torch.zeros_like(places), places) for i in (0, 1))
    # One that computes NaN is found out when it scores.
    return not network.agree(before, other) and not bool(before.isnan().any())


def _kind(config: Any, spec: ModelSpec) -> str:
    """Return which kind of language model a configuration is of, causal or masked."""
    if config.model_type not in CONFIG_MAPPING and hasattr(config, "auto_map"):
        # Of code that came with a checkpoint nothing is known but what it says.
        is_masked = getattr(config, "mask_token_id", None) is not None
        is_masked |= AutoModelForMaskedLM.__name__ in config.auto_map
        return "masked" if is_masked else "causal"
    masked = MODEL_FOR_MASKED_LM_MAPPING_NAMES.get(config.model_type)
    causal = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(config.model_type)
    architecture = (getattr(config, "architectures", None) or [""])[0]
    if masked and causal and masked != causal and architecture in (masked, causal):
        return "masked" if architecture == masked else "causal"
    # XLM says "causal" of its models of that kind.
    one_way = getattr(config, "is_decoder", False) or getattr(config, "causal", False)
    if masked and not one_way:
        # Families of both kinds are masked models at heart, unless the configuration says not.
        return "masked"
    if causal:
        return "causal"
    raise ModelFileError(
        f"{spec.location!r} is a model of type {config.model_type!r}, which transformers can load "
        "neither as a causal nor as a masked language model; use a model of one of these kinds"
    )


def find_max_tokens(model: Any, tokenizer: Any) -> int | None:
    """Return the longest input: what positions and tokenizer allow."""
    limits = []
    for name in ("max_position_embeddings", "n_positions", "max_seq_len"):
        limit = getattr(model.config, name, None)
        if isinstance(limit, int) and limit > 0:
            limits.append(limit)
    for name, module in model.named_modules():
        # RoBERTa and its like count positions from one after the padding's.
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            offset = 0 if module.padding_idx is None else module.padding_idx + 1
            limits.append(module.num_embeddings - offset)
    # Tokenizers that know no limit state an absurd one.
    if tokenizer.model_max_length < 10**9:
        limits.append(int(tokenizer.model_max_length))
    return min(limits, default=None)
