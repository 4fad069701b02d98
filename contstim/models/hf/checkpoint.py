"""Checkpoints: networks with their tokenizers, loaded once and shared by several models."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

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

# Configuration entries that do not influence scores.
_IGNORED_SETTINGS = {"_name_or_path", "architectures", "dtype", "transformers_version", "use_cache"}


@dataclass(eq=False)
class Checkpoint:
    """A loaded checkpoint, shared by all models that differ only in the options of scoring.

    Attributes
    ----------
    kind
        ``causal`` or ``masked``.
    network
        Network with its language-model head.
    tokenizer
        Tokenizer loaded by the package `transformers`.
    max_tokens
        Maximum number of input tokens, special tokens included; None if there is no limit.
    mask_id
        Id of the mask token; None if there is none.
    code_digest
        SHA-256 of the checkpoint's own code; empty if it has none.
    """

    kind: str
    network: Network
    tokenizer: Any
    max_tokens: int | None
    mask_id: int | None = None
    code_digest: str = ""

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of weights, tokenizer, configuration and code as hexadecimal text."""
        model = self.network.model
        weights_digest = digest_weights(model.state_dict(), self.tokenizer, model.config)
        return weights_digest + self.code_digest


def digest_weights(weights: Mapping[str, torch.Tensor], tokenizer: Any, config: Any) -> str:
    """Return the SHA-256 of weights, tokenizer and configuration as hexadecimal text.

    The configuration is included because the same weights give different scores with a different
    number of attention heads, window size or activation function.

    Parameters
    ----------
    weights
        Mapping from name to weight tensor of the network.
    tokenizer, config
        Tokenizer and configuration loaded by the package `transformers`.
    """
    return digest_parts(_serialise_parts(weights, tokenizer, config))


def _serialise_parts(
    weights: Mapping[str, torch.Tensor], tokenizer: Any, config: Any
) -> Iterator[bytes]:
    """Yield everything in a checkpoint that can influence scores, as bytes."""
    # Name, type, shape and bytes of each weight.
    for name, tensor in sorted(weights.items()):
        yield f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode()
        raw_bytes = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        yield raw_bytes.numpy().tobytes()
    # Settings of the network that can influence scores, and special tokens.
    settings = {k: v for k, v in config.to_dict().items() if k not in _IGNORED_SETTINGS}
    record = [settings, tokenizer.special_tokens_map]
    # Definition of the tokenizer. Slow tokenizers, which are written in Python, cannot be
    # serialised: use the vocabulary and the merge rules of byte-pair encoding (BPE).
    if tokenizer.is_fast:
        yield tokenizer.backend_tokenizer.to_str().encode()
    else:
        merges = getattr(tokenizer, "bpe_ranks", {})
        record += [sorted(tokenizer.get_vocab().items()), sorted(merges.items())]
    yield json.dumps(record, sort_keys=True, default=str).encode()


_LOADED: weakref.WeakValueDictionary[tuple[str, ...], Checkpoint] = weakref.WeakValueDictionary()


def load_checkpoint(spec: ModelSpec) -> Checkpoint:
    """Load a checkpoint, or return it if it has already been loaded.

    Code that is part of a checkpoint runs only with the option ``code=run``.

    Parameters
    ----------
    spec
        Model specification ``hf:LOCATION?option=value&...``. The location is a folder, a ``.gguf``
        file or a name on the Hugging Face hub, which is downloaded unless it is in the local cache.

    Raises
    ------
    SpecError
        If the device or dtype is not available.
    ModelFileError
        If the checkpoint does not exist, cannot be read, or has no trained language-model head.
    MissingExtraError
        If a package for reading GGUF is not installed.
    """
    device = resolve_device(spec.get("device", LOADING_OPTIONS["device"]), spec)
    dtype = getattr(torch, spec.get_choice("dtype", DTYPES, LOADING_OPTIONS["dtype"]))
    revision = spec.get("revision", LOADING_OPTIONS["revision"])
    run_code = spec.get_choice("code", ("never", "run"), LOADING_OPTIONS["code"]) == "run"

    # The key contains time and size of the files, so that a changed checkpoint is loaded again.
    path = spec.path
    files = [path] if path.is_file() else []
    if path.is_dir():
        files = sorted(path.iterdir())
    stats = [(file.name, file.stat()) for file in files]
    file_states = " ".join(f"{name}:{stat.st_mtime_ns}:{stat.st_size}" for name, stat in stats)
    key = (spec.location, revision, str(device), str(dtype), file_states, str(run_code))

    # Models that differ only in the options of scoring share one loaded checkpoint.
    checkpoint = _LOADED.get(key)
    if checkpoint is None:
        checkpoint = _read_checkpoint(spec, device, dtype, run_code)
        _LOADED[key] = checkpoint
    return checkpoint


def _read_checkpoint(
    spec: ModelSpec, device: torch.device, dtype: torch.dtype, run_code: bool
) -> Checkpoint:
    """Load a checkpoint and check that it can score sentences.

    Parameters
    ----------
    spec
        Model specification.
    device, dtype
        Device and data type of the weights.
    run_code
        Whether code that is part of the checkpoint may run.

    Raises
    ------
    ModelFileError
        If the network has no trained language-model head, if a masked model defines no mask token,
        or if the predictions of a causal model depend on later words.
    """

    def loader_for(config: Any) -> Any:
        is_masked = _find_model_kind(config, spec) == "masked"
        return AutoModelForMaskedLM if is_masked else AutoModelForCausalLM

    source = locate_checkpoint(spec)
    pretrained = load_pretrained(source, loader_for, dtype, repr(spec.location), run_code)
    model, tokenizer = pretrained.network.to(device), pretrained.tokenizer
    kind = _find_model_kind(pretrained.config, spec)
    if pretrained.missing:
        raise ModelFileError(
            f"{spec.location!r} has no trained language-model head: the checkpoint lacks "
            f"{len(pretrained.missing)} weights, among them {pretrained.missing[0]}; use a "
            "checkpoint that was trained to predict words (for ELECTRA, the generator)"
        )
    mask_id = tokenizer.mask_token_id
    if mask_id is None:
        mask_id = getattr(pretrained.config, "mask_token_id", None)
    if kind == "masked" and mask_id is None:
        raise ModelFileError(
            f"neither tokenizer nor configuration of {spec.location!r} defines a mask token; use "
            "a masked language model"
        )

    model_type = f"{spec.location!r} is a model of type {model.config.model_type!r}"
    try:
        network = Network(model, device, attends_to_all=bool(pretrained.code_digest))
        is_causal = kind == "masked" or network.is_causal()
    except FORWARD_ERRORS as error:
        raise ModelFileError(
            f"{model_type} that cannot be computed from token ids alone "
            f"({' '.join(str(error).split())[:200]}); use another checkpoint"
        ) from error
    if not is_causal:
        raise ModelFileError(
            f"{model_type} with predictions that depend on later words, so it has no left-to-right "
            "log-probabilities; use a causal checkpoint (a decoder of the BERT family has "
            "is_decoder in its configuration)"
        )
    if tokenizer.vocab_size > network.n_logits:
        raise ModelFileError(
            f"the tokenizer of {spec.location!r} has {tokenizer.vocab_size} tokens and its network "
            f"{network.n_logits}; use tokenizer and weights of the same model"
        )
    max_tokens = find_max_tokens(model, tokenizer)
    return Checkpoint(kind, network, tokenizer, max_tokens, mask_id, pretrained.code_digest)


def _find_model_kind(config: Any, spec: ModelSpec) -> str:
    """Return the kind of a language model, ``causal`` or ``masked``.

    Parameters
    ----------
    config
        Configuration of the model, loaded by the package `transformers`.
    spec
        Model specification, for the error message.

    Raises
    ------
    ModelFileError
        If transformers can load the model neither as a causal nor as a masked language model.
    """
    if config.model_type not in CONFIG_MAPPING and hasattr(config, "auto_map"):
        # transformers does not implement this network: the checkpoint contains its code.
        has_mask_token = getattr(config, "mask_token_id", None) is not None
        if has_mask_token or AutoModelForMaskedLM.__name__ in config.auto_map:
            return "masked"
        return "causal"
    # Names of the classes in transformers that implement this type of model, for example
    # "BertForMaskedLM" and "BertLMHeadModel"; None if there is no such class.
    masked_class = MODEL_FOR_MASKED_LM_MAPPING_NAMES.get(config.model_type)
    causal_class = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(config.model_type)
    trained_class = (getattr(config, "architectures", None) or [""])[0]
    # If there are two classes, the checkpoint usually names the class that was trained.
    has_two_classes = masked_class and causal_class and masked_class != causal_class
    if has_two_classes and trained_class in (masked_class, causal_class):
        return "masked" if trained_class == masked_class else "causal"
    # Otherwise a model is masked unless it is a decoder. XLM calls this attribute "causal".
    is_decoder = getattr(config, "is_decoder", False) or getattr(config, "causal", False)
    if masked_class and not is_decoder:
        return "masked"
    if causal_class:
        return "causal"
    raise ModelFileError(
        f"{spec.location!r} is a model of type {config.model_type!r}, which transformers can load "
        "neither as a causal nor as a masked language model; use a model of one of these kinds"
    )


def find_max_tokens(model: Any, tokenizer: Any) -> int | None:
    """Return the maximum number of input tokens; None if there is no limit.

    The configuration, the position embeddings and the tokenizer may each define a limit. The result
    is the smallest of them.

    Parameters
    ----------
    model
        Network loaded by the package `transformers`.
    tokenizer
        Tokenizer loaded by the package `transformers`.
    """
    names = ("max_position_embeddings", "n_positions", "max_seq_len")
    # Configurations use one of these names for the limit. Any value but a positive integer means
    # that there is none.
    values = [getattr(model.config, name, None) for name in names]
    limits = [value for value in values if isinstance(value, int) and value > 0]
    # A table of position embeddings has one row for each position.
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            # RoBERTa and related networks start to count positions after the padding index.
            offset = 0 if module.padding_idx is None else module.padding_idx + 1
            limits.append(module.num_embeddings - offset)
    # Tokenizers without a limit have a very large model_max_length.
    if tokenizer.model_max_length < 10**9:
        limits.append(int(tokenizer.model_max_length))
    return min(limits, default=None)
