"""The folder of a learnt model: a record, an encoder, and the weights of each member.

``contstim.json`` says what the model is and how it was made; ``encoder`` is a checkpoint as
transformers writes it; ``README.md`` is its card; ``NAME.safetensors`` holds a member's head and
those weights of the network in which it differs from the encoder. A folder appears under its name
when it is whole.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from contstim.errors import ModelFileError
from contstim.files import check_new_folder, replacing
from contstim.models.hf.checkpoint import digest_weights, quiet
from contstim.models.learnt import CARD, RECORD
from contstim.models.learnt.encoder import Encoder, Member, open_encoder


def _training(record: Mapping[str, Any]) -> str:
    training = record["training"]
    layers = training["layers"]
    what = "all weights" if layers is None else f"head and upper layers: {layers}"
    return (
        f"Started from `{record['base']}`; trained: {what}; passes: {training['epochs']}, batches "
        f"of up to {training['batch']} sentences, seed {training['seed']}, "
        f"{training['seconds']:.0f} s."
    )


def student_card(record: Mapping[str, Any]) -> str:
    """Return the card of a student from its record."""
    found, training = record["heldout"], record["training"]
    return (
        f"# Student of `{record['teacher']['spec']}`\n\n"
        "Estimates the teacher's sentence score in one pass, from the first token's vector "
        "(Salazar et al. 2020, section 2.2). Words have no share of it.\n\n"
        "| held-out sentences | Pearson | Spearman | root mean squared error | standard deviation "
        "of the teacher's scores |\n"
        "| ---: | ---: | ---: | ---: | ---: |\n"
        f"| {found['sentences']} | {found['pearson']:.4f} | {found['spearman']:.4f} | "
        f"{found['rmse']:.3f} | {found['sd']:.3f} |\n\n"
        f"{_training(record)} Learnt from {training['sentences']} sentences; "
        f"{training['left_out']} were left out, with words that one of the two cannot write or too "
        "long.\n"
    )


def classifier_card(record: Mapping[str, Any]) -> str:
    """Return the card of a classifier from its record."""
    lines = [
        "# Acceptability classifier",
        "",
        f"Labels: {record['task']}. The score is a judgement, not the probability of a sentence.",
        "",
        "Matthews' correlation on the development sets. The best was chosen on the second, so its "
        "figure there flatters it a little.",
        "",
        "| set | sentences | mean | sd | best | majority |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for part, mcc in record["mcc"].items():
        n = record["training"]["sentences"][part]
        lines.append(
            f"| {part} | {n} | {mcc['mean']:.3f} | {mcc['sd']:.3f} | {mcc['best']:.3f} | "
            f"{mcc['majority']:.3f} |"
        )
    seeds = ", ".join(str(row["seed"]) for row in record["restarts"])
    degenerate = ", ".join(str(row["seed"]) for row in record["degenerate"]) or "none"
    lines += [
        "",
        f"Restarts of seeds {seeds}; degenerate and replaced: {degenerate}. Majority of "
        f"{len(record['majority'])}.",
        "",
        _training(record),
        "",
    ]
    return "\n".join(lines)


_ENCODER = "encoder"


@dataclass(eq=False)
class Learnt:
    """A learnt model as loaded.

    Attributes
    ----------
    encoder
        Tokenizer and limits; its network is the first member's.
    members
        The networks that vote, mostly one.
    record
        What the folder says of itself.
    fingerprint
        SHA-256 of all weights and of the tokenizer.
    """

    encoder: Encoder
    members: tuple[Member, ...]
    record: dict[str, Any]
    fingerprint: str


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
        For each name its weights as `Member.trained` gives them.
    record
        JSON values.
    card
        What it is and what it reaches, as Markdown.

    Raises
    ------
    OutputError
        If the place is taken or cannot be written to.
    """
    with replacing(out) as temporary:
        temporary.mkdir(parents=True)
        with quiet():
            encoder.network.save_pretrained(temporary / _ENCODER)
        encoder.tokenizer.save_pretrained(temporary / _ENCODER)
        for name, weights in members.items():
            tensors = {key: tensor.cpu().contiguous() for key, tensor in weights.items()}
            save_file(tensors, temporary / f"{name}.safetensors")
        text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        (temporary / RECORD).write_text(text, "utf-8")
        (temporary / CARD).write_text(card, "utf-8")
        check_new_folder(out)


def read_learnt(folder: Path, record: dict[str, Any], names: Sequence[str], device: str) -> Learnt:
    """Load the members `names` of a folder whose record was read.

    Raises
    ------
    ModelFileError
        If a file is missing or damaged.
    """
    encoder = open_encoder(str(folder / _ENCODER), device)
    members = []
    for number, name in enumerate(names):
        path = folder / f"{name}.safetensors"
        try:
            weights = load_file(path)
        except (OSError, SafetensorError) as error:
            raise ModelFileError(
                f"cannot read {str(path)!r} ({error}); the folder is damaged"
            ) from None
        last = number + 1 == len(names)
        network = encoder.network if last else copy.deepcopy(encoder.network)
        members.append(_member(network, weights, encoder, path))
    digest = digest_weights(
        {
            f"{name} {key}": tensor
            for name, member in zip(names, members, strict=True)
            for part in (member.network, member.head)
            for key, tensor in part.state_dict().items()
        },
        encoder.tokenizer,
    )
    return Learnt(encoder, tuple(members), record, digest)


def _member(
    network: Any, weights: Mapping[str, torch.Tensor], encoder: Encoder, path: Path
) -> Member:
    parameters = dict(network.named_parameters())
    try:
        head_weight, head_bias = weights["head.weight"], weights["head.bias"]
        head = nn.Linear(encoder.width, len(head_bias))
        head.load_state_dict({"weight": head_weight, "bias": head_bias})
        with torch.no_grad():
            for name, tensor in weights.items():
                if name.startswith("network."):
                    parameters[name.removeprefix("network.")].copy_(tensor)
    except (KeyError, RuntimeError) as error:
        said = " ".join(str(error).split())[:200]
        raise ModelFileError(f"{str(path)!r} does not fit its encoder ({said})") from None
    head.eval().requires_grad_(False).to(encoder.device)
    return Member(network, head)
