from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from orion_recall.evaluation.word_vectors import WordVectors
from orion_recall.models.batching import Vector
from orion_recall.models.onnx_encoder import Vectors
from orion_recall.models.token_space import Tokens


class _Axes:
    """An embedder to which each text is an axis of its own, in the order in which it hears of them."""

    name, dimension, weights_sha256 = "axes", 8, "0" * 64
    token_space, token_width = "axes", 8

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def embed_query(self, text: str) -> Vector:
        return np.eye(8, dtype=np.float32)[7]

    async def query_tokens(self, text: str) -> Tokens:
        return np.eye(8, dtype=np.float32)[6:]

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return (await self.documents_with_tokens(texts))[0]

    async def documents_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Tokens]]:
        self.heard += texts
        rows = np.eye(8, dtype=np.float32)[len(self.heard) - len(texts) : len(self.heard)]
        return rows, [row[None, :] for row in rows]


async def test_a_text_is_the_mean_of_its_words_at_unit_length_with_the_tokens_of_each_of_them() -> None:
    embedder = _Axes()
    made = WordVectors(embedder)

    vectors, tokens = await made.documents_with_tokens(["Anvils, bells!", "bells"])

    assert embedder.heard == ["anvils", "bells"]
    assert vectors.dtype == np.float32
    assert vectors[0, :2].tolist() == pytest.approx([0.5**0.5, 0.5**0.5])
    assert vectors[1].tolist() == [0, 1, 0, 0, 0, 0, 0, 0]
    assert [one.shape for one in tokens] == [(2, 8), (1, 8)]


async def test_a_word_goes_through_the_model_once_and_a_question_as_ever() -> None:
    embedder = _Axes()
    made = WordVectors(embedder)

    await made.embed_documents(["bells"])
    await made.embed_documents(["bells and anvils", "…"])

    assert embedder.heard == ["bells", "and", "anvils", "nothing"]
    assert (await made.embed_query("bells"))[7] == 1
    assert len(await made.query_tokens("bells")) == 2
