"""Files of recurrent networks, as `contstim.models.recurrent` describes and reads them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from contstim.errors import require_known
from contstim.files import replace_atomically
from contstim.models.recurrent import NETWORK_FORMAT, NETWORK_VERSION, RecurrentNetwork

#: Data types in which a file can store matrices.
STORAGES = ("float32", "float16", "int8")


def tensor_bytes(tensors: dict[str, Tensor], record: dict[str, Any]) -> bytes:
    """Return a safetensors file as bytes: tensors, and a JSON record as the tensor `record`."""
    data = np.frombuffer(json.dumps(record, ensure_ascii=False).encode(), dtype=np.uint8)
    contents = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    contents["record"] = torch.from_numpy(data.copy())
    return save(contents)


def write_tensors(path: Path, tensors: dict[str, Tensor], record: dict[str, Any]) -> None:
    """Write tensors and a JSON record to a safetensors file, atomically."""
    # `safetensors.torch.save_file` would make the file readable for its owner only.
    with replace_atomically(path) as temporary:
        temporary.write_bytes(tensor_bytes(tensors, record))


def save_network(
    path: Path, network: RecurrentNetwork, training: dict[str, Any], storage: str
) -> None:
    """Write a recurrent network to a safetensors file, optionally with matrices of less precision.

    With ``int8``, each row of a matrix is divided by a scale factor, which is stored too, so that
    its largest magnitude becomes 127, and rounded.

    Parameters
    ----------
    path
        File to write.
    network
        Network to save.
    training
        Record of the training (options, text, versions) as JSON values.
    storage
        Data type of the matrices: ``float32``, ``float16`` or ``int8``.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    require_known("storage type", storage, STORAGES)
    tensors: dict[str, Tensor] = {}
    for name, tensor in network.weights.items():
        values = tensor.detach().cpu()
        # Vectors, such as biases, are small and always stored as float32.
        if tensor.ndim < 2 or storage == "float32":
            tensors[name] = values
        elif storage == "float16":
            tensors[name] = values.half()
        else:
            # int8: scale the largest magnitude of each row to 127, and store the scale factors.
            scale = values.abs().amax(1) / 127
            # A row of zeros is divided by 1 instead of 0.
            scale = torch.where(scale > 0, scale, torch.ones_like(scale))
            tensors[name] = (values / scale[:, None]).round().to(torch.int8)
            tensors[name + ".scale"] = scale
    record = {
        "format": NETWORK_FORMAT,
        "version": NETWORK_VERSION,
        "config": asdict(network.config),
        "vocabulary": list(network.vocabulary.words),
        "training": training,
    }
    write_tensors(path, tensors, record)
