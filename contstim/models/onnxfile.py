"""Reading weights out of an ONNX file, without the package `onnx`.

An ONNX file is a message of protocol buffers: fields of a number and a value, one after the other.
Of a graph only three things are read here: its weights (initializers), their types, and which node
takes which of them. Numbers of fields and of element types are those of ``onnx.proto``, version 3
of the intermediate representation and later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contstim.errors import ModelFileError

__all__ = ["OnnxGraph", "read_onnx"]

Array = NDArray[Any]

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_FIXED = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}
_TYPES = {1: "<f4", 2: "u1", 3: "i1", 6: "<i4", 7: "<i8", 10: "<f2", 11: "<f8"}


@dataclass(frozen=True)
class _Node:
    """An operation: its kind and the names of what goes in."""

    kind: str
    inputs: tuple[str, ...]


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
    _nodes: dict[str, _Node] = field(repr=False)
    _maker: dict[str, _Node] = field(repr=False)

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
        if found is None or place >= len(found.inputs):
            raise ModelFileError(f"{str(self.path)!r} has no node {node!r}; it is another model")
        name = found.inputs[place]
        maker = self._maker.get(name)
        if maker is None:
            return self.weight(name).astype(np.float32)
        if maker.kind != "DequantizeLinear":
            raise ModelFileError(
                f"input {place} of {node!r} in {str(self.path)!r} is no weight but comes out of a "
                f"{maker.kind}; it is another model"
            )
        quantised, scale, *zero = (self.weight(part) for part in maker.inputs)
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
    ModelFileError
        If the file cannot be read, is damaged, or keeps its weights in another file.
    """
    try:
        data = memoryview(path.read_bytes())
    except OSError as error:
        raise ModelFileError(f"cannot read {str(path)!r}: {error.strerror}") from error
    weights: dict[str, Array] = {}
    nodes: dict[str, _Node] = {}
    maker: dict[str, _Node] = {}
    try:
        for graph in _parts(data, 7):
            for part in _parts(graph, 5):
                name, array = _tensor(part, path)
                weights[name] = array
            for part in _parts(graph, 1):
                texts = {n: [bytes(t).decode() for t in _parts(part, n)] for n in (1, 2, 3, 4)}
                node = _Node("".join(texts[4]), tuple(texts[1]))
                nodes["".join(texts[3])] = node
                maker.update(dict.fromkeys(texts[2], node))
    except ModelFileError:
        raise
    except (IndexError, ValueError, KeyError) as error:
        raise ModelFileError(f"{str(path)!r} is no ONNX file, or is damaged") from error
    if not weights:
        raise ModelFileError(f"{str(path)!r} is no ONNX file, or is damaged")
    return OnnxGraph(path, weights, nodes, maker)


def _tensor(data: memoryview, path: Path) -> tuple[str, Array]:
    """Read one weight: its name and its values."""
    dims: list[int] = []
    integers: list[int] = []
    raw, kind, name, elsewhere = b"", 0, "", False
    for number, wire, value in _fields(data):
        if number in (1, 5, 7):
            listed = [value] if wire == _VARINT else _varints(value)
            (dims if number == 1 else integers).extend(listed)
        elif number == 2:
            kind = value
        elif number == 8:
            name = bytes(value).decode()
        elif number in (4, 9, 10):
            raw += bytes(value)  # values of fixed size, in order
        elif number == 14:
            elsewhere = value == 1
    # Numbers of 16 bits that are not raw bytes are written in ways not read here.
    if elsewhere or kind not in _TYPES or (integers and _TYPES[kind][1] == "f"):
        raise ModelFileError(
            f"weight {name!r} of {str(path)!r} is kept in another file or is of element type "
            f"{kind}; only numbers in the file itself can be read"
        )
    if not integers:
        return name, np.frombuffer(raw, dtype=_TYPES[kind]).reshape(dims)
    # Negative numbers are written as 64 bits.
    signed = [value - (1 << 64) if value >> 63 else value for value in integers]
    return name, np.array(signed, dtype=np.int64).astype(_TYPES[kind]).reshape(dims)


def _parts(data: memoryview, number: int) -> Iterator[memoryview]:
    """Yield the values of one field, which are messages, texts or bytes."""
    return (value for n, wire, value in _fields(data) if n == number and wire == _LENGTH)


def _fields(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Yield number, kind and value of each field of a message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, wire, value
            continue
        if wire == _LENGTH:
            length, at = _varint(data, at)
        else:
            length = _FIXED[wire]
        if at + length > len(data):
            raise ValueError("truncated")
        yield number, wire, data[at : at + length]
        at += length


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Read a number of seven bits a byte, least significant first; return it and what is next."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _varints(data: memoryview) -> Iterator[int]:
    """Yield the numbers of a packed field."""
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value
