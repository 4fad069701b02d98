"""Folders of trained models: members with their encoder, record and card, written in one step."""

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
    """Yield a folder for a checkpoint, which takes the name `path` when the block ends.

    Raises
    ------
    OutputError
        If the place cannot be written to.
    """
    with replace_atomically(path) as temporary, silence_transformers():
        temporary.mkdir(parents=True)
        try:
            yield temporary
        except SafetensorError as error:  # a full disk, by a name of its own
            raise OutputError(f"cannot write {path}: {error}") from None


def write_learnt(
    out: Path,
    encoder: Encoder,
    members: Mapping[str, Mapping[str, torch.Tensor]],
    record: Mapping[str, Any],
    card: str,
) -> None:
    """Write a folder, in one step.

    Parameters
    ----------
    out
        The folder, which must not be there.
    encoder
        What the members start from.
    members
        For each name its weights as `EncoderWithHead.trained` gives them.
    record
        JSON values.
    card
        What it is and what it reaches, as Markdown.

    Raises
    ------
    OutputError
        If the place is taken or cannot be written to.
    """
    with new_folder(out) as temporary:
        encoder.network.save_pretrained(temporary / ENCODER)
        for name, weights in members.items():
            tensors = {key: tensor.cpu().contiguous() for key, tensor in weights.items()}
            save_file(tensors, temporary / f"{name}.safetensors")
        encoder.tokenizer.save_pretrained(temporary / ENCODER)
        text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        (temporary / RECORD).write_text(text, "utf-8")
        (temporary / CARD).write_text(card, "utf-8")
        check_new_folder(out)


def training_line(record: Mapping[str, Any]) -> str:
    """Return the sentence of a card on how its model was trained."""
    training = record["training"]
    layers = training["layers"]
    what = "all weights" if layers is None else f"head and upper layers: {layers}"
    return (
        f"Started from `{record['base']}`; trained: {what}; passes: {training['epochs']}, batches "
        f"of up to {training['batch']} sentences, seed {training['seed']}, "
        f"{training['seconds']:.0f} s."
    )
