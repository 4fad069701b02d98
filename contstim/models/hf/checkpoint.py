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
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from contstim.errors import ModelFileError, SpecError
from contstim.files import digest_parts
from contstim.models import ModelSpec
from contstim.models.devices import torch_device
from contstim.models.hf.metrics import METRICS
from contstim.models.hf.network import UNCOMPUTABLE, Network
from contstim.models.hf.opening import open_network, source_of

DTYPES = ("float32", "float64", "float16", "bfloat16")

#: Options of both kinds of model and their defaults.
SHARED_OPTIONS = {
    "revision": "main",
    "device": "cpu",
    "dtype": "float32",
    "first": "auto",
    "punctuation": "keep",
    "unknown": "error",
    "batch_tokens": "auto",
}
#: Options of masked models. `metric` defaults to what Kauf & Ivanova (2023) recommend.
MASKED_OPTIONS = {
    **SHARED_OPTIONS,
    "metric": "pll-word-l2r",
    "restricted": "no",
    "exact": "10",
    "orders": "100",
    "seed": "0",
}
#: Options of causal models.
CAUSAL_OPTIONS = {
    **SHARED_OPTIONS,
    "prefix": "auto",
    "prompt": "none",
    "end": "none",
    "words": "tokens",
}


def whole_number_option(spec: ModelSpec, key: str, default: str, least: int) -> int:
    """Return option `key` as a whole number of at least `least`."""
    text = spec.get(key, default)
    if not text.isdecimal() or int(text) < least:
        raise SpecError(f"{key}={text!r} in {str(spec)!r}: give a whole number of at least {least}")
    return int(text)


@dataclass(frozen=True)
class SharedOptions:
    """Options of both kinds of model.

    Attributes
    ----------
    first
        Form of the first word where a vocabulary marks white space: ``spaced`` puts a space
        before the sentence, ``unspaced`` insists on none, ``auto`` leaves it to the tokenizer.
    punctuation
        ``keep``: a word's marks are scored with it. ``context``: the marks that close the
        sentence are seen and not scored.
    unknown
        ``error`` or ``unk``.
    batch_tokens
        Most tokens of one forward pass; None lets the device decide.
    """

    first: str
    punctuation: str
    unknown: str
    batch_tokens: int | None

    @classmethod
    def read(cls, spec: ModelSpec) -> SharedOptions:
        """Read the options of `spec`. Raises `SpecError` for a bad value."""
        budget = spec.get("batch_tokens", "auto")
        return cls(
            spec.choice("first", ("auto", "spaced", "unspaced"), SHARED_OPTIONS["first"]),
            spec.choice("punctuation", ("keep", "context"), SHARED_OPTIONS["punctuation"]),
            spec.choice("unknown", ("error", "unk"), SHARED_OPTIONS["unknown"]),
            None if budget == "auto" else whole_number_option(spec, "batch_tokens", budget, 1),
        )


@dataclass(frozen=True)
class MaskedOptions:
    """Options of masked models.

    Attributes
    ----------
    metric
        One of `METRICS`.
    restricted
        Normalise each position over tokens of its own class alone (Golan et al. 2023).
    exact
        Most words for which ``permutation`` is exact.
    orders
        Sampled word orders beyond that, an even number.
    seed
        Seed of the sampled orders.
    """

    metric: str
    restricted: bool
    exact: int
    orders: int
    seed: int

    @classmethod
    def read(cls, spec: ModelSpec) -> MaskedOptions:
        """Read the options of `spec`. Raises `SpecError` for a bad value."""
        orders = whole_number_option(spec, "orders", MASKED_OPTIONS["orders"], 4)
        if orders % 2:
            raise SpecError(
                f"orders={orders} in {str(spec)!r}: give an even number, for orders are drawn in "
                "pairs, each with its reverse"
            )
        return cls(
            spec.choice("metric", METRICS, MASKED_OPTIONS["metric"]),
            spec.choice("restricted", ("no", "yes"), MASKED_OPTIONS["restricted"]) == "yes",
            whole_number_option(spec, "exact", MASKED_OPTIONS["exact"], 1),
            orders,
            whole_number_option(spec, "seed", MASKED_OPTIONS["seed"], 0),
        )


@dataclass(frozen=True)
class CausalOptions:
    """Options of causal models.

    Attributes
    ----------
    prefix
        What stands before the first word: ``auto`` (what the tokenizer puts there by itself,
        else its BOS token, else nothing), ``bos``, ``eos``, ``none``, or a token.
    prompt
        A text after it, in which sentences stand on lines of their own: ``natural`` (the bundled
        `natural_prompt`), a file, or ``none``.
    end
        ``scored`` or ``none``: whether the end-of-sequence token is part of the score.
    words
        ``tokens`` or ``corrected``: whether a word's probability is its tokens' product or
        carries the white-space correction.
    """

    prefix: str
    prompt: str
    end: str
    words: str

    @classmethod
    def read(cls, spec: ModelSpec) -> CausalOptions:
        """Read the options of `spec`. Raises `SpecError` for a bad value."""
        return cls(
            spec.get("prefix", CAUSAL_OPTIONS["prefix"]),
            spec.get("prompt", CAUSAL_OPTIONS["prompt"]),
            spec.choice("end", ("none", "scored"), CAUSAL_OPTIONS["end"]),
            spec.choice("words", ("tokens", "corrected"), CAUSAL_OPTIONS["words"]),
        )


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
    """

    kind: str
    network: Network
    tokenizer: Any
    max_tokens: int | None

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of configuration, weights as loaded, and tokenizer; hexadecimal."""
        model = self.network.model
        return digest_weights(model.state_dict(), self.tokenizer, model.config)


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


def open_checkpoint(spec: ModelSpec) -> Checkpoint:
    """Open the checkpoint that `spec` names, or return it if it is open already.

    A folder or a ``.gguf`` file is read as it is. Any other location is a name on the hub: the
    local cache of the hub is looked into first, so that a model once fetched needs no network,
    then the hub is asked. Code that comes with a checkpoint is never run.

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
    device = torch_device(spec.get("device", SHARED_OPTIONS["device"]), spec)
    dtype = getattr(torch, spec.choice("dtype", DTYPES, SHARED_OPTIONS["dtype"]))
    revision = spec.get("revision", SHARED_OPTIONS["revision"])
    path = spec.path
    files = sorted(path.iterdir()) if path.is_dir() else [path] if path.is_file() else []
    stats = [(file.name, file.stat()) for file in files]
    stamp = " ".join(f"{name}:{of.st_mtime_ns}:{of.st_size}" for name, of in stats)
    key = (spec.location, revision, str(device), str(dtype), stamp)
    checkpoint = _OPEN.get(key)
    if checkpoint is None:
        checkpoint = _read(spec, device, dtype)
        _OPEN[key] = checkpoint
    return checkpoint


def _read(spec: ModelSpec, device: torch.device, dtype: torch.dtype) -> Checkpoint:
    def loader_for(config: Any) -> Any:
        return AutoModelForMaskedLM if _kind(config, spec) == "masked" else AutoModelForCausalLM

    opened = open_network(source_of(spec), loader_for, dtype, repr(spec.location))
    model, tokenizer = opened.network.to(device), opened.tokenizer
    kind = _kind(opened.config, spec)
    if opened.missing:
        raise ModelFileError(
            f"{spec.location!r} has no trained language-model head: the checkpoint lacks "
            f"{len(opened.missing)} weights, among them {opened.missing[0]}; use the checkpoint "
            "that was trained to predict words (of ELECTRA, the generator)"
        )
    if kind == "masked" and tokenizer.mask_token_id is None:
        raise ModelFileError(
            f"the tokenizer of {spec.location!r} has no mask token; use a masked language model's"
        )
    try:
        network = Network(model, device)
        looks_ahead = kind == "causal" and _sees_what_follows(network)
    except UNCOMPUTABLE as error:
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
    return Checkpoint(kind, network, tokenizer, longest_input(model, tokenizer))


def _sees_what_follows(network: Network) -> bool:
    """Return whether what is predicted at a place depends on the tokens behind it.

    So it is with networks that have a causal form and were saved in another: XLNet, which is
    causal only under a mask of its own, and decoders of the BERT kind without ``is_decoder``.
    """
    rows = np.tile(network.trial(4, ()), (2, 1))
    rows[1, 2:] = (rows[1, 2:] + 1) % network.n_logits
    ids = torch.from_numpy(rows).to(network.device)
    places = torch.tensor([0, 1], device=network.device)
    with torch.inference_mode():
        before, other = (network.logits(ids[[i]], torch.zeros_like(places), places) for i in (0, 1))
    # One that computes NaN is found out when it scores.
    return not network.alike(before, other) and not bool(before.isnan().any())


def _kind(config: Any, spec: ModelSpec) -> str:
    """Return which kind of language model a configuration is of, causal or masked."""
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


def longest_input(model: Any, tokenizer: Any) -> int | None:
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
