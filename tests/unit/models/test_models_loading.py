from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from orion_recall.errors import ModelError
from orion_recall.models.onnx_encoder import load_in_thread


def fails(error: Exception) -> int:
    raise error


async def test_what_was_loaded_is_given_and_every_failure_is_a_model_error():
    with ThreadPoolExecutor(1) as executor:
        assert await load_in_thread(executor, lambda: 7, "the model x") == 7
        with pytest.raises(ModelError, match="the model x could not be loaded: truncated"):
            await load_in_thread(executor, lambda: fails(RuntimeError("truncated")), "the model x")
        with pytest.raises(ModelError, match=r"^no such file$"):
            await load_in_thread(executor, lambda: fails(ModelError("no such file")), "the model x")
