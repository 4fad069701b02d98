"""Reading a checkpoint by transformers: a folder, a GGUF file or a name on the Hugging Face hub.

All that is read of a checkpoint is read here. A checkpoint is data: code that comes with it is not
run unless that was asked for, and then it is said which; no kernel that it names is fetched, its
index names no file outside its folder, and sizes beyond any network's are refused before anything
is built.
"""

from __future__ import annotations

import json
import logging
import re
import struct
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import CONFIG_MAPPING, AutoConfig, AutoTokenizer, PreTrainedConfig
from transformers.dynamic_module_utils import get_class_from_dynamic_module
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME, WEIGHTS_INDEX_NAME
from transformers.utils import logging as messages
from transformers.utils.hub import cached_file

from contstim.errors import MissingExtraError, ModelFileError
from contstim.files import digest_parts
from contstim.models import ModelSpec
from contstim.models.hf.network import FORWARD_ERRORS

#: What transformers raises for checkpoints that are missing, damaged or of another make.
LOAD_ERRORS = (
    *FORWARD_ERRORS,
    OSError,
    ArithmeticError,
    EOFError,
    SafetensorError,
    UnpicklingError,
    struct.error,
)

_UNLESS = " unless its spec says code=run (read it first: it can do all that you can do here)"

# Names of a configuration that count parts which are built one by one, and the most of each: some
# ten times what the largest networks have.
_PARTS = re.compile(r"layer|expert|block|head|stage")
_MOST_PARTS = 10_000


@contextmanager
def silence_transformers() -> Iterator[None]:
    """Silence transformers while it loads: what it would say is checked and raised here."""
    level, bars = messages.get_verbosity(), messages.is_progress_bar_enabled()
    messages.set_verbosity(logging.ERROR)
    # The switches of progress bars are untyped in transformers.
    switch: Any = messages
    switch.disable_progress_bar()
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            yield
    finally:
        messages.set_verbosity(level)
        if bars:
            switch.enable_progress_bar()


@dataclass(frozen=True)
class Source:
    """Where transformers finds a checkpoint: arguments common to its loaders."""

    name: str
    options: Mapping[str, str]
    on_hub: bool = False


def locate_checkpoint(spec: ModelSpec) -> Source:
    """Return where the checkpoint of a spec is: a folder, a GGUF file or a name on the hub.

    Raises
    ------
    ModelFileError
        If there is no such folder or file.
    MissingExtraError
        If reading GGUF needs a package that is not installed.
    """
    path = spec.path
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ModelFileError(f"no file {spec.location!r}; give the path of a GGUF file")
        for package in ("gguf", "accelerate"):
            if find_spec(package) is None:
                raise MissingExtraError(
                    f"reading {spec.location!r} needs the package {package}; install it with "
                    f"pip install {package}"
                )
        return Source(str(path.parent), {"gguf_file": path.name})
    if path.is_dir():
        return Source(str(path), {})
    if spec.location.startswith((".", "/", "~")) or path.exists():
        raise ModelFileError(
            f"{spec.location!r} is not a folder; give the folder of a checkpoint, a .gguf file or "
            "a name on the Hugging Face hub"
        )
    return Source(spec.location, {"revision": spec.get("revision", "main")}, on_hub=True)


@dataclass(frozen=True, eq=False)
class PretrainedNetwork:
    """What transformers made of a checkpoint.

    Attributes
    ----------
    config
        The configuration as it was read.
    network
        The network, in evaluation mode and without gradients, on the processor.
    tokenizer
        The tokenizer.
    missing
        Names of the network's weights that the checkpoint lacks, sorted.
    code
        SHA-256 of the code that came with it and was run, hexadecimal; empty if none was.
    """

    config: Any
    network: Any
    tokenizer: Any
    missing: list[str]
    code: str = ""


def load_pretrained(
    source: Source,
    loader_for: Callable[[Any], Any],
    dtype: torch.dtype,
    what: str,
    run_code: bool | None = None,
) -> PretrainedNetwork:
    """Read a checkpoint, from the local cache of the hub or else from the hub.

    Parameters
    ----------
    source
        Where it is.
    loader_for
        From the configuration to the class of transformers that loads the network.
    dtype
        Of the network's weights.
    what
        What is read, for messages.
    run_code
        Whether code that comes with the checkpoint may be run, where transformers has no type of
        that name; None where nobody can say so.

    Raises
    ------
    ModelFileError
        If it cannot be read, and whatever `loader_for` raises.
    """
    with silence_transformers():
        for local in (True, False) if source.on_hub else (True,):
            try:
                return _open(source, loader_for, dtype, what, local, run_code)
            except LOAD_ERRORS as error:
                if isinstance(error, ModelFileError):
                    raise
                reason: Exception = error
    if isinstance(reason, UnpicklingError):
        raise ModelFileError(
            f"cannot load {what}: its weights are a damaged pickle, or one of more than numbers, "
            "which is never run; use a checkpoint saved as safetensors"
        ) from reason
    where = (
        "it is not in the local cache of the Hugging Face hub, and the hub does not give it"
        if source.on_hub
        else "transformers cannot read it"
    )
    first_words = " ".join(str(reason).split())[:200] or type(reason).__name__
    raise ModelFileError(f"cannot load {what}: {where} ({first_words})") from reason


def _open(
    source: Source,
    loader_for: Callable[[Any], Any],
    dtype: torch.dtype,
    what: str,
    local: bool,
    run_code: bool | None,
) -> PretrainedNetwork:
    options: dict[str, Any] = {**source.options, "local_files_only": local}
    settings, _ = PreTrainedConfig.get_config_dict(source.name, **options)
    brings_code = "auto_map" in settings and settings.get("model_type") not in CONFIG_MAPPING
    if brings_code and not run_code:
        unless = "" if run_code is None else _UNLESS
        raise ModelFileError(
            f"cannot load {what}: it is a model of type {settings.get('model_type')!r} and runs "
            f"only by code that comes with it, which contstim never runs{unless}; use a checkpoint "
            "of a type that transformers has"
        )
    _check_settings(settings, what)
    _check_indices(source, options, what)
    trusted = brings_code and bool(run_code)
    config = AutoConfig.from_pretrained(source.name, trust_remote_code=trusted, **options)
    # A checkpoint may name a kernel of the hub here, which transformers would fetch and run.
    config._attn_implementation = config._experts_implementation = None
    tokenizer = AutoTokenizer.from_pretrained(source.name, trust_remote_code=trusted, **options)
    if trusted:
        network, missing = _by_its_code(source, config, dtype, options)
        code = _code_of(config, network, tokenizer)
        digest = digest_parts(code.values())
        names = ", ".join(code)
        print(f"{what} runs code that came with it: {names} (SHA-256 {digest})", file=sys.stderr)
    else:
        network, info = loader_for(config).from_pretrained(
            source.name,
            config=config,
            dtype=dtype,
            output_loading_info=True,
            trust_remote_code=False,
            **options,
        )
        missing, digest = [*info["missing_keys"], *info["mismatched_keys"]], ""
    network = network.eval().requires_grad_(False)
    return PretrainedNetwork(config, network, tokenizer, sorted(map(str, missing)), digest)


def _by_its_code(
    source: Source, config: Any, dtype: torch.dtype, options: Mapping[str, Any]
) -> tuple[Any, list[str]]:
    """Return the network that a checkpoint's own code makes, and the weights that it lacks.

    Such code is written for one version of transformers, whose ways of loading change more than
    those of computing. So it makes the network, and its weights are read here.
    """
    offered = config.auto_map
    names = ("AutoModelForMaskedLM", "AutoModelForCausalLM", "AutoModel")
    address = next((offered[name] for name in names if name in offered), None)
    if address is None:
        raise ModelFileError(f"its code names no language model but {', '.join(offered)}")
    place = {key: options[key] for key in ("revision", "local_files_only") if key in options}
    made_by = get_class_from_dynamic_module(address, source.name, **place)
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    lacking = "default" not in ROPE_INIT_FUNCTIONS
    ROPE_INIT_FUNCTIONS.setdefault("default", _plain_rotary)
    try:
        network = made_by(config)
    finally:
        torch.set_default_dtype(usual)
        if lacking:  # transformers' own networks look elsewhere
            del ROPE_INIT_FUNCTIONS["default"]
    tied: dict[int, list[str]] = {}
    for name, tensor in network.state_dict(keep_vars=True).items():
        tied.setdefault(id(tensor), []).append(name)
    index = cached_file(
        source.name, SAFE_WEIGHTS_INDEX_NAME, _raise_exceptions_for_missing_entries=False, **place
    )
    files = [SAFE_WEIGHTS_NAME]
    if index is not None:
        files = sorted({*json.loads(Path(index).read_text("utf-8"))["weight_map"].values()})
    missing = set(network.state_dict())
    for file in files:
        weights = load_file(str(cached_file(source.name, file, **place)))
        missing -= set(weights)
        network.load_state_dict(weights, strict=False)
    for names_of_one in tied.values():
        if not missing.issuperset(names_of_one):
            missing -= set(names_of_one)
    return network.to(dtype), sorted(missing)


def _code_of(*things: object) -> dict[str, bytes]:
    """Return the files of code from which things were made, by name, sorted."""
    modules = [sys.modules[type(thing).__module__] for thing in things]
    foreign = [m for m in modules if m.__name__.startswith("transformers_modules.")]
    folders = {Path(str(module.__file__)).parent for module in foreign}
    code = {file.name: file.read_bytes() for folder in folders for file in folder.glob("*.py")}
    return {name: text for name, text in sorted(code.items()) if text}


def _plain_rotary(config: Any, device: Any = None, *_: Any, **__: Any) -> tuple[Any, float]:
    """Return the frequencies of rotary positions and their scale: Su et al. (2021), section 3.2.2.

    Version 4 of transformers had it among `ROPE_INIT_FUNCTIONS`, where code made for it looks.
    """
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    powers = torch.arange(0, width, 2, dtype=torch.float32, device=device) / width
    return config.rope_theta**-powers, 1.0


def _check_settings(settings: Mapping[str, Any], what: str) -> None:
    """Refuse a configuration of more parts than any network has."""
    for name, value in _numbers(settings):
        if value > _MOST_PARTS and _PARTS.search(name):
            raise ModelFileError(
                f"cannot load {what}: its configuration has {name}={value}, and no network is "
                f"built with more than {_MOST_PARTS}; use a checkpoint that is not damaged"
            )


def _numbers(settings: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the whole numbers of a configuration by name, those of its parts included."""
    for name, value in settings.items():
        if isinstance(value, int):
            yield name, value
        elif isinstance(value, Mapping):
            yield from _numbers(value)


def _check_indices(source: Source, options: Mapping[str, Any], what: str) -> None:
    """Refuse an index of weight files that names anything but files of its folder."""
    if "gguf_file" in options:
        return
    for index in (SAFE_WEIGHTS_INDEX_NAME, WEIGHTS_INDEX_NAME):
        path = cached_file(
            source.name, index, _raise_exceptions_for_missing_entries=False, **options
        )
        if path is None:
            continue
        listed = json.loads(Path(path).read_text("utf-8"))
        files = listed.get("weight_map") if isinstance(listed, dict) else None
        if not isinstance(files, dict) or not files:
            raise ModelFileError(f"cannot load {what}: {index} lists no weights; it is damaged")
        for file in files.values():
            if not isinstance(file, str) or file in {"", "..", "."} or re.search(r"[/\\]", file):
                raise ModelFileError(
                    f"cannot load {what}: {index} names {file!r}, which is not a file of the "
                    "checkpoint's folder; use a checkpoint that is not damaged"
                )
