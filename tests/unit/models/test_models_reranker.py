"""What does not need the library; what does is in tests/models."""

from __future__ import annotations

import math
import sys

import pytest

from orion_recall.errors import ModelError
from orion_recall.models.reranker import CrossEncoderReranker, sigmoid


async def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    reranker = CrossEncoderReranker("cross-encoder/ms-marco-MiniLM-L-6-v2")
    with pytest.raises(ModelError, match=r'pip install "orion-recall\[transformers\]"'):
        await reranker.load()
    with pytest.raises(ModelError, match="not loaded"):
        await reranker.scores("crane", ["boat"])
    await reranker.close()


def test_a_logit_of_any_size_is_a_share() -> None:
    assert sigmoid(0.0) == 0.5
    assert sigmoid(2.0) == pytest.approx(1 / (1 + math.exp(-2)))
    assert sigmoid(-1e9) == pytest.approx(0.0, abs=1e-20)
    assert sigmoid(1e9) == 1.0
