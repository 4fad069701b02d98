"""Folders of trained transformers, written atomically."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from contstim.errors import OutputError
from contstim.files import check_new_folder, replace_atomically
from contstim.models.hf.pretrained import silence_transformers
from contstim.training.encoders import CARD, RECORD
from contstim.training.encoders.base import ENCODER
from contstim.training.encoders.network import Encoder


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder for a checkpoint and rename it to `path` on success.

    Raises
    ------
    OutputError
        If the folder cannot be written.
    """
    with replace_atomically(path) as temporary, silence_transformers():
        temporary.mkdir(parents=True)
        try:
            yield temporary
        except SafetensorError as error:  # for example, if the disk is full
            raise OutputError(f"cannot write {path}: {error}") from None


def save_trained_networks(
    out: Path,
    encoder: Encoder,
    weights_by_name: Mapping[str, Mapping[str, torch.Tensor]],
    record: Mapping[str, Any],
    card: str,
) -> None:
    """Write the folder of a student or of an acceptability classifier.

    The folder contains one or more networks that were trained from different random initialisations
    and share the untrained weights of the encoder. A student is a single network.

    Parameters
    ----------
    out
        New folder.
    encoder
        Encoder from which training started.
    weights_by_name
        Trained weights of each network, as returned by `TrainableEncoder.trained_weights`, by the
        name of the network.
    record
        Training record as JSON values.
    card
        Model card in Markdown.

    Raises
    ------
    OutputError
        If the folder exists or cannot be written.
    """
    with new_folder(out) as temporary:
        encoder.network.save_pretrained(temporary / ENCODER)
        # Store each trained network in a file, without the untrained weights of the encoder.
        for name, weights in weights_by_name.items():
            tensors = {key: tensor.cpu().contiguous() for key, tensor in weights.items()}
            save_file(tensors, temporary / f"{name}.safetensors")
        encoder.tokenizer.save_pretrained(temporary / ENCODER)
        text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        (temporary / RECORD).write_text(text, "utf-8")
        (temporary / CARD).write_text(card, "utf-8")
        # Another process may have created the folder in the meantime.
        check_new_folder(out)


def describe_training(record: Mapping[str, Any]) -> str:
    """Return a sentence about the training for a model card."""
    training = record["training"]
    layers = training["layers"]
    # `layers` is the number of upper layers that were trained.
    trained_part = "all weights" if layers is None else f"head and upper layers: {layers}"
    return (
        f"Started from `{record['base']}`; trained: {trained_part}; epochs: {training['epochs']}, "
        f"batches of up to {training['batch']} sentences, seed {training['seed']}, "
        f"{training['seconds']:.0f} s."
    )
