"""Writing small ONNX files byte by byte: what the package `onnx` would write, without it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_CODES = {"f4": 1, "u1": 2, "i1": 3, "i4": 6, "i8": 7}


def varint(value: int) -> bytes:
    """Seven bits a byte, least significant first."""
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: int | str | bytes) -> bytes:
    """One field: a number, or a text, bytes or message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(name: str, array: np.ndarray) -> bytes:
    """A weight with its values as raw bytes."""
    dims = b"".join(field(1, n) for n in array.shape)
    kind = field(2, _CODES[array.dtype.str[1:]])
    return dims + kind + field(8, name) + field(9, array.tobytes())


def node(name: str, kind: str, inputs: Sequence[str], output: str) -> bytes:
    """An operation."""
    parts = [field(1, i) for i in inputs]
    return b"".join([*parts, field(2, output), field(3, name), field(4, kind)])


def onnx_file(tensors: Sequence[bytes], nodes: Sequence[bytes]) -> bytes:
    """A whole file."""
    graph = b"".join([*(field(1, n) for n in nodes), *(field(5, t) for t in tensors)])
    return field(1, 8) + field(7, graph)


def quantised(name: str, weight: np.ndarray) -> tuple[list[bytes], bytes, np.ndarray]:
    """Store a weight in 8 bits: its tensors, the node that restores it, and what it restores."""
    scale = np.float32(np.abs(weight).max() / 100)
    zero = np.int8(-7)
    integers = (np.round(weight / scale) + zero).clip(-128, 127).astype(np.int8)
    names = [f"{name}_quantized", f"{name}_scale", f"{name}_zero_point"]
    arrays = [integers, np.array(scale, "f4"), np.array(zero, "i1")]
    tensors = [tensor(n, np.asarray(a)) for n, a in zip(names, arrays, strict=True)]
    restored = (integers.astype("f4") - zero) * scale
    return tensors, node(f"{name}_restore", "DequantizeLinear", names, f"{name}_out"), restored
