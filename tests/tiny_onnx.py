"""Small ONNX files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper


def tensor(name: str, array: np.ndarray) -> TensorProto:
    """A weight."""
    return numpy_helper.from_array(array, name)


def node(name: str, kind: str, inputs: Sequence[str], output: str) -> NodeProto:
    """An operation."""
    return helper.make_node(kind, inputs, [output], name=name)


def onnx_file(tensors: Sequence[TensorProto], nodes: Sequence[NodeProto]) -> bytes:
    """A whole file."""
    graph = helper.make_graph(nodes, "graph", [], [], tensors)
    return helper.make_model(graph).SerializeToString()


def quantised(name: str, weight: np.ndarray) -> tuple[list[TensorProto], NodeProto, np.ndarray]:
    """Store a weight in 8 bits: its tensors, the node that restores it, and what it restores."""
    scale = np.float32(np.abs(weight).max() / 100)
    zero = np.int8(-7)
    integers = (np.round(weight / scale) + zero).clip(-128, 127).astype(np.int8)
    names = [f"{name}_quantized", f"{name}_scale", f"{name}_zero_point"]
    arrays = [integers, np.array(scale, "f4"), np.array(zero, "i1")]
    tensors = [tensor(n, np.asarray(a)) for n, a in zip(names, arrays, strict=True)]
    restored = (integers.astype("f4") - zero) * scale
    return tensors, node(f"{name}_restore", "DequantizeLinear", names, f"{name}_out"), restored
