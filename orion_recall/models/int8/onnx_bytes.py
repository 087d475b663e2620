"""Writes models in the ONNX format: the few fields of its protobuf messages that a graph of tensors needs.

The package `onnx` does this too, in 33 MB, and what it writes differs from version to version. Ours is what the
sha256 of a model is made of, so it must not. https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_IR_VERSION, _OPSET = 8, 17
_MICROSOFT = "com.microsoft"
_FLOAT, _INT = 1, 2  # kinds of attributes
_TYPES = {np.dtype(np.float32): 1, np.dtype(np.uint8): 2, np.dtype(np.int8): 3}


class OnnxGraph:
    """A graph that is written node by node. Inputs, outputs and tensors are known by their names."""

    def __init__(self) -> None:
        self._nodes, self._tensors, self._inputs = bytearray(), bytearray(), bytearray()

    def tensor(self, name: str, values: npt.NDArray[Any]) -> str:
        """Adds a constant, float32, int8 or uint8; its name."""
        dims = b"".join(_number(1, size) for size in values.shape)
        raw = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
        self._tensors += _bytes(5, dims + _number(2, _TYPES[values.dtype]) + _text(8, name) + _bytes(9, raw))
        return name

    def input(self, name: str, shape: Sequence[int | str]) -> str:
        """Adds an input of float32; a size that is a text may be any. Its name."""
        self._inputs += _bytes(11, _value(name, shape))
        return name

    def node(
        self,
        operator: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        *,
        is_standard: bool = True,
        **attributes: float | int,
    ) -> str:
        """Adds a call of an operator, of ONNX itself or of ONNX Runtime's own; the name of its first output."""
        body = b"".join(_text(1, name) for name in inputs) + b"".join(_text(2, name) for name in outputs)
        body += _text(3, outputs[0]) + _text(4, operator)
        body += b"".join(_bytes(5, _attribute(name, value)) for name, value in sorted(attributes.items()))
        self._nodes += _bytes(1, body if is_standard else body + _text(7, _MICROSOFT))
        return outputs[0]

    def model(self, name: str, output: str, shape: Sequence[int | str]) -> bytes:
        """The model, whose one output is of float32."""
        graph = bytes(self._nodes) + _text(2, name) + bytes(self._tensors + self._inputs)
        graph += _bytes(12, _value(output, shape))
        operators = _bytes(8, _number(2, _OPSET)) + _bytes(8, _text(1, _MICROSOFT) + _number(2, 1))
        return _number(1, _IR_VERSION) + _bytes(7, graph) + operators


def _value(name: str, shape: Sequence[int | str]) -> bytes:
    sizes = (_number(1, size) if isinstance(size, int) else _text(2, size) for size in shape)
    dims = b"".join(_bytes(1, size) for size in sizes)
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, _TYPES[np.dtype(np.float32)]) + _bytes(2, dims)))


def _attribute(name: str, value: float | int) -> bytes:
    if isinstance(value, float):
        return _text(1, name) + _key(2, 5) + struct.pack("<f", value) + _number(20, _FLOAT)
    return _text(1, name) + _number(3, value) + _number(20, _INT)


def _number(field: int, value: int) -> bytes:
    return _key(field, 0) + _varint(value)


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _bytes(field: int, value: bytes | bytearray) -> bytes:
    return _key(field, 2) + _varint(len(value)) + value


def _key(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; every byte but the last has its highest bit set."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
