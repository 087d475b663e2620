from __future__ import annotations

import asyncio
import time
from pathlib import Path

import numpy as np
import pytest
from real_libraries import sentence_transformers, torch

from orion_recall.errors import ModelError
from orion_recall.models.transformers import CrossEncoderReranker

TEXTS = ["The harbour crane needs a gearbox.", "Bo sold the boat.", "", "It rained. " * 900, "日本語 \x00"] * 5


async def test_scores_are_the_sigmoids_of_the_logits_in_the_order_of_the_texts(judge: Path) -> None:
    reranker = CrossEncoderReranker(str(judge))
    await reranker.load()
    try:
        scores = await reranker.scores("what about the crane?", TEXTS)
        assert await reranker.scores("what about the crane?", []) == []
    finally:
        await reranker.close()
    logits = sentence_transformers.CrossEncoder(str(judge), device="cpu").predict(
        [("what about the crane?", text.replace("\x00", "\ufffd")[:4000]) for text in TEXTS],
        activation_fn=torch.nn.Identity(),
    )
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(-logits)), atol=1e-5)
    assert len({round(score, 4) for score in scores}) > 3


async def test_a_caller_who_gives_up_leaves_the_thread_to_the_next_one(judge: Path) -> None:
    reranker = CrossEncoderReranker(str(judge))
    await reranker.load()
    try:
        began = time.perf_counter()
        await reranker.scores("crane", TEXTS[:8])
        once_s = time.perf_counter() - began
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await reranker.scores("crane", TEXTS * 100)
        began = time.perf_counter()
        assert len(await reranker.scores("crane", TEXTS[:1])) == 1
        assert time.perf_counter() - began < 20 * once_s + 1
    finally:
        await reranker.close()


async def test_a_model_with_several_outputs_is_refused(classifier: Path) -> None:
    reranker = CrossEncoderReranker(str(classifier))
    with pytest.raises(ModelError, match="gives 3 numbers a pair"):
        await reranker.load()
    with pytest.raises(ModelError, match="not loaded"):
        await reranker.scores("crane", ["boat"])
    await reranker.close()


async def test_a_reranker_that_is_not_there_is_a_model_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    reranker = CrossEncoderReranker(str(tmp_path / "empty"))
    with pytest.raises(ModelError, match="empty could not be loaded"):
        await reranker.load()
    await reranker.close()
