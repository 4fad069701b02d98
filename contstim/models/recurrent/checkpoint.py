"""Network files: one safetensors file with weights, configuration, vocabulary and record.

The tensors are the weights by name, and ``record``, bytes of UTF-8 JSON: format version,
configuration, vocabulary and how the network was trained. Nothing is ever unpickled. Matrices may
be stored as float32, float16 or int8 with one float32 scale a row, ``NAME.scale``; they are
float32 once loaded.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from contstim.errors import InputError, ModelFileError, UnknownNameError
from contstim.files import digest, replacing
from contstim.models.recurrent.config import STORAGES, NetworkConfig, TokenVocabulary
from contstim.models.recurrent.network import RecurrentNetwork

__all__ = ["load_network", "read_tensors", "save_network", "write_tensors"]

_FORMAT = "contstim recurrent network"
_VERSION = 1


def write_tensors(path: Path, tensors: dict[str, Tensor], record: dict[str, Any]) -> None:
    """Write tensors and a JSON record as one file, whole or not at all."""
    data = np.frombuffer(json.dumps(record, ensure_ascii=False).encode(), dtype=np.uint8)
    everything = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    everything["record"] = torch.from_numpy(data.copy())
    # Written by hand: the library's own writer makes files that only their owner can read.
    with replacing(path) as temporary:
        temporary.write_bytes(save(everything))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any], str]:
    """Read what `write_tensors` wrote: tensors, record, and the file's SHA-256."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise ModelFileError(f"there is no model file {str(path)!r}") from error
    except OSError as error:
        raise ModelFileError(f"cannot read model file {str(path)!r}: {error}") from error
    try:
        tensors = load(data)
        record = json.loads(tensors.pop("record").numpy().tobytes().decode())
    except (SafetensorError, KeyError, ValueError) as error:
        raise ModelFileError(
            f"{str(path)!r} is damaged or is no recurrent network of contstim; "
            "copy it anew, or train one with `contstim models train`"
        ) from error
    return tensors, record, digest(data)


def save_network(
    path: Path, network: RecurrentNetwork, training: dict[str, Any], storage: str
) -> None:
    """Write a network; `training` is the record of how it was made.

    Raises
    ------
    OutputError
        If `path` cannot be written.
    """
    if storage not in STORAGES:
        raise UnknownNameError.among("storage type", storage, STORAGES)
    tensors: dict[str, Tensor] = {}
    for name, tensor in network.weights.items():
        values = tensor.detach().cpu()
        if tensor.ndim < 2 or storage == "float32":
            tensors[name] = values
        elif storage == "float16":
            tensors[name] = values.half()
        else:
            # A row of zeros has scale 1; otherwise its largest magnitude becomes 127.
            scale = values.abs().amax(1) / 127
            scale = torch.where(scale > 0, scale, torch.ones_like(scale))
            tensors[name] = (values / scale[:, None]).round().to(torch.int8)
            tensors[name + ".scale"] = scale
    record = {
        "format": _FORMAT,
        "version": _VERSION,
        "config": asdict(network.config),
        "vocabulary": list(network.vocabulary.words),
        "training": training,
    }
    write_tensors(path, tensors, record)


def load_network(path: Path) -> tuple[RecurrentNetwork, dict[str, Any], str]:
    """Read a network, its training record and the file's SHA-256.

    Raises
    ------
    ModelFileError
        If the file is missing, truncated, or of another kind or version.
    """
    tensors, record, digest = read_tensors(path)
    foreign = f"{str(path)!r} is no recurrent network of contstim"
    if not isinstance(record, dict) or record.get("format") != _FORMAT:
        raise ModelFileError(f"{foreign}; choose a file that `contstim models train` wrote")
    if record.get("version") != _VERSION:
        raise ModelFileError(
            f"{str(path)!r} has format version {record.get('version')!r}, this contstim reads "
            f"version {_VERSION}; use the contstim that wrote it"
        )
    try:
        config = NetworkConfig(**record["config"])
        vocabulary = TokenVocabulary(tuple(record["vocabulary"]))
        training = dict(record["training"])
    except (KeyError, TypeError, ValueError, InputError) as error:
        raise ModelFileError(f"{foreign}: its record is damaged") from error
    weights: dict[str, Tensor] = {}
    for name, shape in config.shapes(vocabulary.n_outputs).items():
        tensor, scale = tensors.get(name), tensors.get(name + ".scale")
        if tensor is None or tuple(tensor.shape) != shape:
            raise ModelFileError(f"{foreign}: weights {name!r} are missing or of a wrong shape")
        weights[name] = tensor.float()
        if scale is not None:
            weights[name] *= scale[:, None]
    return RecurrentNetwork(config, vocabulary, weights), training, digest
