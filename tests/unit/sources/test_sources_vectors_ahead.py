"""Vectors that were asked for ahead are not made twice, whatever else is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orion_recall.models.onnx_encoder import Vectors
from orion_recall.sources.vectors_ahead import VectorsAhead


class Counting:
    """Embeds a text as its length, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        return np.array([[len(text), 1.0] for text in texts], dtype=np.float32)


async def test_what_was_made_ahead_is_there_when_it_is_asked_for() -> None:
    counting = Counting()
    ahead = VectorsAhead(counting)
    await ahead.embed_documents(["a", "bbb"])

    vectors = await ahead.embed_documents(["bbb", "cc", "a", "cc"])

    assert vectors[:, 0].tolist() == [3.0, 2.0, 1.0, 2.0]
    assert counting.asked == ["a", "bbb", "cc"]


async def test_a_few_hundred_are_kept_and_older_ones_made_again() -> None:
    counting = Counting()
    ahead = VectorsAhead(counting)
    texts = [f"text {number}" for number in range(601)]
    await ahead.embed_documents(texts)

    await ahead.embed_documents(texts[1:])
    assert len(counting.asked) == 601
    await ahead.embed_documents(texts[:1])

    assert counting.asked[601:] == ["text 0"]


async def test_nothing_is_nothing() -> None:
    counting = Counting()

    assert len(await VectorsAhead(counting).embed_documents([])) == 0
    assert counting.asked == []
