from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orion_recall.models.batching import Vector
from orion_recall.models.onnx_encoder import Vectors
from orion_recall.models.token_space import Tokens
from tests.bench.cpu_clock import EMBEDDING, Clock
from tests.bench.uncached import Recalls, UncachedEmbedder


class _RecordingGraph:
    """An embedder that keeps what it is asked."""

    name, dimension, weights_sha256 = "listener", 1, "0" * 64
    token_space, token_width = "listener", 1

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def embed_query(self, text: str) -> Vector:
        self.heard.append(text)
        return np.ones(1, dtype=np.float32)

    async def query_tokens(self, text: str) -> Tokens:
        self.heard.append(text)
        return np.ones((1, 1), dtype=np.float32)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return np.ones((len(texts), 1), dtype=np.float32)

    async def documents_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Tokens]]:
        return await self.embed_documents(texts), [np.ones((1, 1), dtype=np.float32) for _ in texts]


async def test_within_a_recall_a_question_is_one_text_and_in_the_next_one_another_by_spaces_alone() -> None:
    listener, recalls = _RecordingGraph(), Recalls()
    embedder = UncachedEmbedder(listener, recalls, Clock())

    for _ in range(2):
        recalls.begin()
        await embedder.embed_query("where is it?")
        await embedder.query_tokens("where is it?")

    assert len(listener.heard) == 4
    assert len(set(listener.heard)) == 2
    assert {text.strip() for text in listener.heard} == {"where is it?"}


async def test_the_embedding_is_a_stage_of_the_clock() -> None:
    ticks = iter(range(100))
    clock = Clock(lambda: float(next(ticks)))
    embedder = UncachedEmbedder(_RecordingGraph(), Recalls(), clock)

    with clock.measuring() as spent:
        await embedder.embed_query("where is it?")

    assert spent[EMBEDDING] == 1000
