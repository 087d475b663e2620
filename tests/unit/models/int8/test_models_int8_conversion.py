"""How weights become int8, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from orion_recall.errors import ModelError
from orion_recall.models.int8 import DIMENSION, INT8_SHA256, int8_model
from orion_recall.models.onnx_encoder import WHEEL_SHA256, Weights


def tensors(weights: Weights) -> Path:
    return weights.model_path.with_name("model.onnx_data")


def test_the_same_weights_give_the_same_bytes_and_the_known_sha256(weights: Weights):
    one, other = (int8_model(tensors(weights), WHEEL_SHA256) for _ in range(2))
    assert one.onnx == other.onnx
    assert one.sha256 == other.sha256 == INT8_SHA256
    assert len(one.onnx) < 12_000_000
    assert (one.words.shape, one.positions.shape) == ((30_522, DIMENSION), (512, DIMENSION))


@pytest.mark.parametrize("content", [b"", b"\0" * 4_000])
def test_a_file_of_another_size_is_refused(content: bytes, tmp_path: Path):
    (tmp_path / "data").write_bytes(content)
    with pytest.raises(ModelError, match="data"):
        int8_model(tmp_path / "data", WHEEL_SHA256)
    with pytest.raises(ModelError, match="cannot be read"):
        int8_model(tmp_path / "none", WHEEL_SHA256)
