"""Reading weights out of an ONNX file.

Of a graph only three things are read: its weights (initializers), its nodes, and which node takes
which weight.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contstim.errors import MissingExtraError, ModelFileError

__all__ = ["OnnxGraph", "read_onnx"]

Array = NDArray[Any]


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
    weights: dict[str, Array]
    _nodes: dict[str, Any] = field(repr=False)
    _maker: dict[str, Any] = field(repr=False)

    def weight(self, name: str) -> Array:
        """Return the weight called `name`. Raises `ModelFileError` if there is none."""
        if name not in self.weights:
            raise ModelFileError(f"{str(self.path)!r} has no weight {name!r}; it is another model")
        return self.weights[name]

    def operand(self, node: str, place: int) -> Array:
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
        found = self._nodes.get(node)
        if found is None or place >= len(found.input):
            raise ModelFileError(f"{str(self.path)!r} has no node {node!r}; it is another model")
        name = found.input[place]
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
        values: Array = (quantised.astype(np.float32) - offset) * np.float32(scale.reshape(-1)[0])
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
        raise ModelFileError(f"{str(path)!r} is no ONNX file, or is damaged") from error
    if not graph.initializer:
        raise ModelFileError(f"{str(path)!r} is no ONNX file, or is damaged")
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
