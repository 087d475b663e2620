"""Vectors that were asked for ahead are not made twice, whatever else is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orion_recall.index.write_batch import VectorPrefetch
from orion_recall.models.onnx_encoder import Vectors
from orion_recall.models.token_space import Tokens


class Counting:
    """Embeds a text as its length, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        return np.array([[len(text), 1.0] for text in texts], dtype=np.float32)


async def test_what_was_made_ahead_is_there_when_it_is_asked_for() -> None:
    counting = Counting()
    ahead = VectorPrefetch(counting)
    await ahead.vectors(["a", "bbb"])

    vectors = await ahead.vectors(["bbb", "cc", "a", "cc"])

    assert [float(one.dense[0]) for one in vectors] == [3.0, 2.0, 1.0, 2.0]
    assert counting.asked == ["a", "bbb", "cc"]


class CountingTokens(Counting):
    """Gives a token for each word as well."""

    token_space, token_width = "counting", 1

    def __init__(self) -> None:
        super().__init__()
        self.in_tokens: list[str] = []

    async def query_tokens(self, text: str) -> Tokens:
        return np.array([[float(len(word))] for word in text.split()], dtype=np.float32)

    async def documents_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Tokens]]:
        self.in_tokens += texts
        return await self.embed_documents(texts), [await self.query_tokens(text) for text in texts]


async def test_a_text_is_embedded_once_for_its_vector_and_those_of_its_tokens() -> None:
    counting = CountingTokens()
    ahead = VectorPrefetch(counting)
    (plain,) = await ahead.vectors(["a bb"])
    ahead.with_tokens = True

    (both,) = await ahead.vectors(["a bb"])
    await ahead.vectors(["a bb"])
    ahead.with_tokens = False
    await ahead.vectors(["a bb"])

    assert plain.tokens is None
    assert both.tokens is not None
    assert both.tokens.tolist() == [[1.0], [2.0]]
    assert counting.asked == ["a bb", "a bb"], "the first time without tokens, the second with them"
