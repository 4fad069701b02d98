"""What a spec of family ``hf`` may ask for, and the reading of its checkpoint.

A checkpoint is a folder, a GGUF file or a name on the Hugging Face hub.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForMaskedLM
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
from contstim.text.languages import LANGUAGES

DTYPES = ("float32", "float64", "float16", "bfloat16")

# Options that say what is loaded and how, and their defaults.
_LOADING = {"revision": "main", "device": "cpu", "dtype": "float32", "code": "never"}


def _option(default: str, read: Callable[[ModelSpec, str, str], Any] = ModelSpec.get) -> Any:
    """Declare an option of specs: its default, and what reads it of a spec by its name."""
    return field(metadata={"default": default, "read": read})


def _one_of(default: str, *choices: str) -> Any:
    return _option(default, lambda spec, key, usual: spec.choice(key, choices, usual))


def _whole(default: str, least: int) -> Any:
    def read(spec: ModelSpec, key: str, usual: str) -> int | None:
        text = spec.get(key, usual)
        if text == "auto" == usual:
            return None
        if not text.isdecimal() or int(text) < least:
            raise SpecError(
                f"{key}={text!r} in {str(spec)!r}: give a whole number of at least {least}"
            )
        return int(text)

    return _option(default, read)


class _SpecOptions:
    """Options of specs, each declared once."""

    @classmethod
    def read(cls, spec: ModelSpec) -> Self:
        """Read the options of `spec`. Raises `SpecError` for a bad value."""
        declared = {item.name: item.metadata for item in fields(cast(Any, cls))}
        return cls(**{name: of["read"](spec, name, of["default"]) for name, of in declared.items()})

    @classmethod
    def defaults(cls) -> dict[str, str]:
        """Return the default of each as specs write it."""
        return {item.name: item.metadata["default"] for item in fields(cast(Any, cls))}


@dataclass(frozen=True)
class SharedOptions(_SpecOptions):
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
        Most tokens of one forward pass; ``auto`` lets the device decide.
    language
        What cuts sentences into words.
    """

    first: str = _one_of("auto", "auto", "spaced", "unspaced")
    punctuation: str = _one_of("keep", "keep", "context")
    unknown: str = _one_of("error", "error", "unk")
    batch_tokens: int | None = _whole("auto", 1)
    language: str = _option("en", lambda spec, key, usual: spec.choice(key, LANGUAGES, usual))


@dataclass(frozen=True)
class MaskedOptions(_SpecOptions):
    """Options of masked models.

    Attributes
    ----------
    metric
        One of `METRICS`; by default the one that Kauf & Ivanova (2023) recommend.
    restricted
        Normalise each position over tokens of its own class alone (Golan et al. 2023).
    exact
        Maximum number of words for which ``permutation`` is exact.
    orders
        Sampled orders beyond that, an even number.
    seed
        Seed of the sampled orders.
    """

    metric: str = _option("pll-word-l2r", lambda spec, key, usual: spec.choice(key, METRICS, usual))
    restricted: bool = _option(
        "no", lambda spec, key, usual: spec.choice(key, ("no", "yes"), usual) == "yes"
    )
    exact: int = _whole("10", 1)
    orders: int = _whole("100", 4)
    seed: int = _whole("0", 0)

    @classmethod
    def read(cls, spec: ModelSpec) -> Self:
        """Read the options of `spec`. Raises `SpecError` for a bad value."""
        options = super().read(spec)
        if options.orders % 2:
            raise SpecError(
                f"orders={options.orders} in {str(spec)!r}: give an even number, for orders are "
                "drawn in pairs, each with its reverse"
            )
        return options


@dataclass(frozen=True)
class CausalOptions(_SpecOptions):
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

    prefix: str = _option("auto")
    prompt: str = _option("none")
    end: str = _one_of("none", "none", "scored")
    words: str = _one_of("tokens", "tokens", "corrected")


#: What specs may have, and the defaults: of all models, of masked and of causal ones.
SHARED_OPTIONS = {**_LOADING, **SharedOptions.defaults()}
MASKED_OPTIONS = {**SHARED_OPTIONS, **MaskedOptions.defaults()}
CAUSAL_OPTIONS = {**SHARED_OPTIONS, **CausalOptions.defaults()}


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


def open_checkpoint(spec: ModelSpec) -> Checkpoint:
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
    device = torch_device(spec.get("device", _LOADING["device"]), spec)
    dtype = getattr(torch, spec.choice("dtype", DTYPES, _LOADING["dtype"]))
    revision = spec.get("revision", _LOADING["revision"])
    path = spec.path
    files = sorted(path.iterdir()) if path.is_dir() else [path] if path.is_file() else []
    stats = [(file.name, file.stat()) for file in files]
    stamp = " ".join(f"{name}:{of.st_mtime_ns}:{of.st_size}" for name, of in stats)
    run_code = spec.choice("code", ("never", "run"), _LOADING["code"]) == "run"
    key = (spec.location, revision, str(device), str(dtype), stamp, str(run_code))
    checkpoint = _OPEN.get(key)
    if checkpoint is None:
        checkpoint = _read(spec, device, dtype, run_code)
        _OPEN[key] = checkpoint
    return checkpoint


def _read(spec: ModelSpec, device: torch.device, dtype: torch.dtype, run_code: bool) -> Checkpoint:
    def loader_for(config: Any) -> Any:
        return AutoModelForMaskedLM if _kind(config, spec) == "masked" else AutoModelForCausalLM

    opened = open_network(source_of(spec), loader_for, dtype, repr(spec.location), run_code)
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
    limit = longest_input(model, tokenizer)
    return Checkpoint(kind, network, tokenizer, limit, mask_id, opened.code)


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
