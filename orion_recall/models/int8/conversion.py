"""Makes the int8 form of all-MiniLM-L6-v2 from its fp32 weights, in memory: 0.1 s of a core, the same bytes always.

Every weight matrix becomes int8 with a scale for each column; what it is multiplied with is brought to 8 bits as it
comes, with one scale for the whole text (dynamic quantisation). Everything else stays fp32. So a text's vectors
depend on what is in the same run: there is one text in a run.

Nothing is written to disk: making it takes as long as loading a file of it would save.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from orion_recall.errors import ModelError
from orion_recall.models.int8.onnx_bytes import OnnxGraph

DIMENSION, LAYERS, HEADS, INNER = 384, 6, 12, 1_536
WORDS, POSITIONS = 30_522, 512
_EPSILON = 1e-12

_Floats = npt.NDArray[np.float32]
_Bytes = npt.NDArray[np.int8] | npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8Model:
    """The model as ONNX, which takes the sum of `words` and `positions` for each token; `sha256` stands for all."""

    onnx: bytes
    words: _Floats
    """A row for each token of the vocabulary: mapped from the file, of which only pages in use take memory."""
    positions: _Floats
    sha256: str


def int8_model(tensors: Path, sha256: str, *, unsigned: bool = False) -> Int8Model:
    """The int8 form of the tensors in the wheel's file, whose model has that sha256. Raises `ModelError`.

    With `unsigned` each weight is stored as a number from 1 to 255 and 128 is taken from it: the same products and
    the same vectors to the last bit, slower, and without the sums of 16 bits that overflow on old processors.
    """
    found = _read(tensors)
    signed = _converted(found, unsigned=False)
    digest = hashlib.sha256(signed)
    digest.update(sha256.encode())  # it covers what stays fp32 and is not in the graph
    return Int8Model(
        onnx=_converted(found, unsigned=True) if unsigned else signed,
        words=found["words"],
        positions=found["positions"] + found["kinds"][0],
        sha256=digest.hexdigest(),
    )


def _read(file: Path) -> dict[str, _Floats]:
    """The tensors by name, mapped: the file has them one after the other, in this order and without a head."""
    d, inner = DIMENSION, INNER
    shapes = {
        "words": (WORDS, d),
        "kinds": (2, d),
        "positions": (POSITIONS, d),
        "norm.scale": (d,),
        "norm.bias": (d,),
    }
    for layer in range(LAYERS):
        of_layer: dict[str, tuple[int, ...]] = {f"{name}.weight": (d, d) for name in ("query", "key", "value")}
        of_layer |= {f"{name}.bias": (d,) for name in ("query", "key", "value")}
        of_layer |= {"out.weight": (d, d), "out.bias": (d,), "norm1.scale": (d,), "norm1.bias": (d,)}
        of_layer |= {"up.weight": (d, inner), "up.bias": (inner,), "down.weight": (inner, d), "down.bias": (d,)}
        of_layer |= {"norm2.scale": (d,), "norm2.bias": (d,)}
        shapes |= {f"{layer}.{name}": shape for name, shape in of_layer.items()}
    sizes = [int(np.prod(shape)) for shape in shapes.values()]
    try:
        words = np.memmap(file, dtype="<f4", mode="r", shape=shapes["words"])
        # A map of its own, which goes with the last of these: only `words` is kept.
        others = np.memmap(file, dtype="<f4", mode="r", offset=words.nbytes)
    except (OSError, ValueError) as error:
        raise ModelError(f"{file} cannot be read: {error}") from error
    if sum(sizes) != words.size + others.size:
        raise ModelError(f"{file} has {words.size + others.size} numbers, expected {sum(sizes)}")
    found = {"words": np.asarray(words)}
    start = 0
    for (name, shape), size in list(zip(shapes.items(), sizes, strict=True))[1:]:
        found[name] = np.asarray(others[start : start + size]).reshape(shape)
        start += size
    return found


def _converted(found: dict[str, _Floats], *, unsigned: bool) -> bytes:
    return _Conversion(found, unsigned=unsigned).model()


class _Conversion:
    """One graph, from the first normalisation to the states of the tokens."""

    def __init__(self, found: dict[str, _Floats], *, unsigned: bool) -> None:
        self._found, self._unsigned, self._graph = found, unsigned, OnnxGraph()

    def model(self) -> bytes:
        graph = self._graph
        graph.input("rows", (1, "tokens", DIMENSION))
        for name in ("ones", "zeros"):
            graph.input(name, ("tokens",))
        graph.tensor("zero", self._bytes(np.zeros((), dtype=np.int8)))
        states = self._normalised("norm", "rows")
        for layer in range(LAYERS):
            states = self._layer(f"{layer}.", states)
        return graph.model("all-MiniLM-L6-v2-int8", states, (1, "tokens", DIMENSION))

    def _layer(self, at: str, states: str) -> str:
        graph = self._graph
        attended = self._product(f"{at}out", self._attention(at, states))
        middle = self._normalised(f"{at}norm1", graph.node("Add", [attended, states], [f"{at}sum1"]))
        inner = graph.node("Gelu", [self._product(f"{at}up", middle)], [f"{at}gelu"], is_standard=False)
        changed = self._product(f"{at}down", inner)
        return self._normalised(f"{at}norm2", graph.node("Add", [changed, middle], [f"{at}sum2"]))

    def _attention(self, at: str, states: str) -> str:
        graph, found, parts = self._graph, self._found, ("query", "key", "value")
        weight, scale = quantised(np.concatenate([found[f"{at}{part}.weight"] for part in parts], axis=1))
        bias = np.concatenate([found[f"{at}{part}.bias"] for part in parts])
        low = [f"{at}states", f"{at}states.scale", f"{at}states.zero"]
        graph.node("DynamicQuantizeLinear", [states], low)
        inputs = [
            low[0],
            graph.tensor(f"{at}attention.weight", self._bytes(weight)),
            graph.tensor(f"{at}attention.bias", bias),
            low[1],
            graph.tensor(f"{at}attention.scale", scale),
            "",  # no mask: there is one text, as long as the run
            low[2],
            "zero",
        ]
        return graph.node("QAttention", inputs, [f"{at}attention"], is_standard=False, num_heads=HEADS)

    def _product(self, name: str, left: str) -> str:
        """The matrix product with the weights of that name, plus their bias."""
        graph, (weight, scale) = self._graph, quantised(self._found[f"{name}.weight"])
        inputs = [
            left,
            graph.tensor(f"{name}.weight", self._bytes(weight)),
            graph.tensor(f"{name}.scale", scale),
            "zero",
            graph.tensor(f"{name}.bias", self._found[f"{name}.bias"]),
        ]
        return graph.node("DynamicQuantizeMatMul", inputs, [name], is_standard=False)

    def _normalised(self, name: str, states: str) -> str:
        """LayerNormalization in three steps: ONNX Runtime has one operator for it, which is not vectorised.

        To InstanceNormalization the tokens are channels, so it takes as many scales and biases as there are tokens.
        """
        graph, scale, bias = self._graph, f"{name}.scale", f"{name}.bias"
        unit = graph.node("InstanceNormalization", [states, "ones", "zeros"], [f"{name}.unit"], epsilon=_EPSILON)
        scaled = graph.node("Mul", [unit, graph.tensor(scale, self._found[scale])], [f"{name}.scaled"])
        return graph.node("Add", [scaled, graph.tensor(bias, self._found[bias])], [name])

    def _bytes(self, values: npt.NDArray[np.int8]) -> _Bytes:
        return (values.view(np.uint8) ^ np.uint8(128)) if self._unsigned else values


def quantised(weight: _Floats) -> tuple[npt.NDArray[np.int8], _Floats]:
    """The weights as int8 from -127 to 127, and the scale of each column."""
    scale = np.maximum(np.abs(weight).max(axis=0), np.finfo(np.float32).tiny) / np.float32(127)
    return np.clip(np.rint(weight / scale), -127, 127).astype(np.int8), scale
