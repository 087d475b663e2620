"""How weights become int8, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orion_recall.errors import ModelError
from orion_recall.models.int8 import DIMENSION, INT8_SHA256, int8_model, quantised
from orion_recall.models.onnx_encoder import WHEEL_SHA256, Weights


def tensors(weights: Weights) -> Path:
    return weights.model_path.with_name("model.onnx_data")


def test_every_column_has_a_scale_of_its_own():
    weight = np.array([[1.0, -0.002, 0.0], [0.5, 0.001, 0.0], [-0.1, 0.0005, 0.0]], dtype=np.float32)
    low, scale = quantised(weight)
    assert low[:, 0].tolist() == [127, 64, -13]
    assert low[:, 1].tolist() == [-127, 64, 32]
    assert low[:, 2].tolist() == [0, 0, 0], "a column of zeros, too"
    assert (np.abs(low * scale - weight) <= scale / 2).all()


def test_the_same_weights_give_the_same_bytes_and_the_known_sha256(weights: Weights):
    one, other = (int8_model(tensors(weights), WHEEL_SHA256) for _ in range(2))
    assert one.onnx == other.onnx
    assert one.sha256 == other.sha256 == INT8_SHA256
    assert len(one.onnx) < 12_000_000
    assert (one.words.shape, one.positions.shape) == ((30_522, DIMENSION), (512, DIMENSION))


def test_the_sha256_stands_for_the_fp32_weights_as_well(weights: Weights):
    assert int8_model(tensors(weights), "another").sha256 != INT8_SHA256


def test_unsigned_weights_are_the_same_model(weights: Weights):
    made = int8_model(tensors(weights), WHEEL_SHA256, unsigned=True)
    assert made.sha256 == INT8_SHA256
    assert made.onnx != int8_model(tensors(weights), WHEEL_SHA256).onnx


@pytest.mark.parametrize("content", [b"", b"\0" * 4_000])
def test_a_file_of_another_size_is_refused(content: bytes, tmp_path: Path):
    (tmp_path / "data").write_bytes(content)
    with pytest.raises(ModelError, match="data"):
        int8_model(tmp_path / "data", WHEEL_SHA256)
    with pytest.raises(ModelError, match="cannot be read"):
        int8_model(tmp_path / "none", WHEEL_SHA256)


def test_a_file_that_is_too_long_is_refused(tmp_path: Path):
    with (tmp_path / "data").open("wb") as file:
        file.truncate(100_000_000)
    with pytest.raises(ModelError, match="expected 22565376"):
        int8_model(tmp_path / "data", WHEEL_SHA256)
