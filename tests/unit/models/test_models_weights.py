"""Weights: found, checked, and converted to int8."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from orion_recall.errors import ModelError
from orion_recall.models import int8 as module
from orion_recall.models.int8 import CHECK_TEXTS, DIMENSION, INT8_SHA256, SAME_COSINE, Int8Encoder, int8_model
from orion_recall.models.onnx_encoder import (
    DEFAULT_MODEL,
    WHEEL_SHA256,
    OnnxEncoder,
    Vectors,
    Weights,
    find_weights,
)


def write_model(folder: Path, *, model: str = "onnx/model.onnx", tokenizer: str = "tokenizer.json") -> Path:
    """A folder laid out like a model, with a few bytes in place of weights."""
    for name in (model, tokenizer):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
    return folder


def test_the_wheels_weights_are_found_and_known(weights: Weights) -> None:
    assert (weights.name, weights.sha256) == (DEFAULT_MODEL, WHEEL_SHA256)
    assert find_weights(weights.model_path) == weights
    with pytest.raises(ModelError, match="no ONNX weights at /nowhere: expected"):
        find_weights(Path("/nowhere"))


@pytest.mark.parametrize(
    ("model", "tokenizer", "given"),
    [
        ("onnx/model.onnx", "tokenizer.json", "."),
        ("model.onnx", "tokenizer.json", "."),
        ("onnx/model.onnx", "tokenizer.json", "onnx/model.onnx"),
        ("onnx/mine.onnx", "onnx/tokenizer.json", "onnx/mine.onnx"),
    ],
)
def test_weights_at_a_path_have_their_folders_name(model: str, tokenizer: str, given: str, tmp_path: Path) -> None:
    write_model(tmp_path, model=model, tokenizer=tokenizer)
    found = find_weights(tmp_path / given)
    assert (found.name, found.model_path) == ((tmp_path / tokenizer).parent.name, tmp_path / model)
    assert found.tokenizer_path == tmp_path / tokenizer


def test_the_hash_covers_graph_and_tensors(tmp_path: Path) -> None:
    write_model(tmp_path)
    graph_alone = find_weights(tmp_path).sha256
    (tmp_path / "onnx" / "model.onnx_data").write_bytes(b"1")
    with_tensors = find_weights(tmp_path).sha256
    (tmp_path / "onnx" / "model.onnx_data").write_bytes(b"2")
    assert len({graph_alone, with_tensors, find_weights(tmp_path).sha256}) == 3


def tensors(weights: Weights) -> Path:
    return weights.model_path.with_name("model.onnx_data")


def test_the_same_weights_give_the_same_bytes_and_the_known_sha256(weights: Weights):
    one, other = (int8_model(tensors(weights), WHEEL_SHA256) for _ in range(2))
    assert one.onnx == other.onnx
    assert one.sha256 == other.sha256 == INT8_SHA256
    assert len(one.onnx) < 12_000_000
    assert (one.words.shape, one.positions.shape) == ((30_522, DIMENSION), (512, DIMENSION))


TEXTS = ["Where did Ann go?", "", "Berlin", "Ünïcode, 日本語 and 🎉", "word " * 400, "A kitten sat on the rug."]


@pytest.fixture(scope="module")
def encoder(weights: Weights) -> Int8Encoder:
    return Int8Encoder(weights)


def test_the_kept_vectors_are_those_of_the_two_forms(weights: Weights, encoder: Int8Encoder):
    fp32 = OnnxEncoder(weights).encode(CHECK_TEXTS)
    int8 = encoder.encode(CHECK_TEXTS)
    kept = np.load(module.__file__.replace("int8.py", "int8_reference.npy"))
    assert float((kept[0] * int8).sum(axis=1).mean()) > SAME_COSINE
    np.testing.assert_allclose(kept[1], fp32, atol=1e-4)
    assert 0.98 < float((fp32 * int8).sum(axis=1).min()) < 0.9999


def test_a_text_has_the_same_vectors_whatever_is_embedded_beside_it(encoder: Int8Encoder):
    together, states = encoder.encode_with_states(TEXTS)
    assert (together.shape, together.dtype) == ((len(TEXTS), 384), np.float32)
    for row, text in enumerate(TEXTS):
        alone, (theirs,) = encoder.encode_with_states([text])
        assert np.array_equal(alone[0], together[row])
        assert np.array_equal(theirs.states, states[row].states)
    assert np.array_equal(encoder.encode([*reversed(TEXTS)])[::-1], together)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize("share", [1.0, 0.11], ids=["far from fp32", "a little off"])
def test_where_int8_overflows_unsigned_weights_give_the_same_vectors(
    share: float, weights: Weights, encoder: Int8Encoder, monkeypatch: pytest.MonkeyPatch
):
    expected = encoder.encode(TEXTS)
    encode, first = Int8Encoder.encode, list[bool]()

    def wrong_at_first(self: Int8Encoder, texts: Sequence[str]) -> Vectors:
        found = encode(self, texts)
        if texts is not CHECK_TEXTS or first:
            return found
        first.append(True)
        found = (1 - share) * found + share * np.roll(found, 1, axis=1)
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    monkeypatch.setattr(Int8Encoder, "encode", wrong_at_first)
    assert np.array_equal(Int8Encoder(weights).encode(TEXTS), expected)


def test_weights_that_come_out_otherwise_are_refused(weights: Weights, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "INT8_SHA256", "0" * 64)
    with pytest.raises(ModelError, match=f"has the sha256 {INT8_SHA256}, expected 0000"):
        Int8Encoder(weights)
