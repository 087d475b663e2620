"""The int8 form beside the fp32 model, and what becomes of it where it cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orion_recall.errors import ModelError
from orion_recall.models import int8 as module
from orion_recall.models.int8 import (
    CHECK_TEXTS,
    DIMENSION,
    INT8_SHA256,
    SAME_COSINE,
    Int8Encoder,
    Int8Model,
    OnnxGraph,
    int8_model,
)
from orion_recall.models.onnx_encoder import OnnxEncoder, Vectors, Weights
from orion_recall.models.token_space import WIDTH

TEXTS = ["Where did Ann go?", "", "Berlin", "Ünïcode, 日本語 and 🎉", "word " * 400, "A kitten sat on the rug."]


@pytest.fixture(scope="module")
def encoder(weights: Weights) -> Int8Encoder:
    return Int8Encoder(weights)


def test_the_kept_vectors_are_those_of_the_two_forms(weights: Weights, encoder: Int8Encoder):
    fp32 = OnnxEncoder(weights).encode(CHECK_TEXTS)
    int8 = encoder.encode(CHECK_TEXTS)
    kept = np.load(module.__file__.replace("int8.py", "int8_reference.npy"))
    np.testing.assert_allclose(kept[1], fp32, atol=1e-4)
    assert float((kept[0] * int8).sum(axis=1).mean()) > SAME_COSINE
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


def test_tokens_have_small_vectors_of_this_form(encoder: Int8Encoder):
    space = encoder.token_space()
    _, (whole,) = encoder.encode_with_states(["The kitten sat on the mat."])
    assert (space.width, space.document(whole).shape) == (WIDTH, (6, WIDTH))


def overflowing(monkeypatch: pytest.MonkeyPatch, share: float, *, unsigned_too: bool) -> None:
    """A processor whose sums overflow, by so much: what the check sees is not what it should see."""
    encode, opened = Int8Encoder.encode, Int8Encoder._open  # pyright: ignore[reportPrivateUsage]
    is_unsigned = False

    def noted(self: Int8Encoder, weights: Weights, *, unsigned: bool) -> None:
        nonlocal is_unsigned
        is_unsigned = unsigned
        opened(self, weights, unsigned=unsigned)

    def wrong(self: Int8Encoder, texts: Sequence[str]) -> Vectors:
        found = encode(self, texts)
        if is_unsigned and not unsigned_too:
            return found
        found = (1 - share) * found + share * np.roll(found, 1, axis=1)
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    monkeypatch.setattr(Int8Encoder, "_open", noted)
    monkeypatch.setattr(Int8Encoder, "encode", wrong)


@pytest.mark.parametrize("share", [1.0, 0.11], ids=["far from fp32", "a little off"])
def test_where_int8_overflows_unsigned_weights_give_the_same_vectors(
    share: float, weights: Weights, encoder: Int8Encoder, monkeypatch: pytest.MonkeyPatch
):
    expected = encoder.encode(TEXTS)
    overflowing(monkeypatch, share, unsigned_too=False)
    assert np.array_equal(Int8Encoder(weights).encode(TEXTS), expected)


def test_a_runtime_that_lacks_an_operator_is_told(weights: Weights, monkeypatch: pytest.MonkeyPatch):
    graph = OnnxGraph()
    graph.input("rows", (1, "tokens", DIMENSION))
    unknown = graph.model("m", graph.node("NobodyKnowsThis", ["rows"], ["out"]), (1, "tokens", DIMENSION))
    made = int8_model(weights.model_path.with_name("model.onnx_data"), weights.sha256)

    def another(tensors: Path, sha256: str, *, unsigned: bool) -> Int8Model:
        return replace(made, onnx=unknown)

    monkeypatch.setattr(module, "int8_model", another)
    with pytest.raises(ModelError, match="this ONNX Runtime cannot run it"):
        Int8Encoder(weights)


def test_weights_that_come_out_otherwise_are_refused(weights: Weights, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "INT8_SHA256", "0" * 64)
    with pytest.raises(ModelError, match=f"has the sha256 {INT8_SHA256}, expected 0000"):
        Int8Encoder(weights)
