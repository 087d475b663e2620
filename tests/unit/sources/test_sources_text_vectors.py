"""Texts that no index holds are embedded once, kept by content, and compared as the index compares its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from orion_recall.errors import ModelError
from orion_recall.models.token_space import Tokens
from orion_recall.sources.text_vectors import TextVectors
from orion_recall.values import Question
from tests.samples.source_samples import HashingEmbedder, TokenEmbedder


def question(text: str) -> Question:
    return Question(text=text, dense_text=text, keyword_text=text, terms=frozenset(), now=0.0, text_hash="")


class Counting(TokenEmbedder):
    """Notes what it embeds; while `gate` is closed it waits, and after `most` texts it fails."""

    def __init__(self, *, most: int = 10_000) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = asyncio.Event()
        self.most = most

    async def documents_with_tokens(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float32], list[Tokens]]:
        self.begun.set()
        await self.gate.wait()
        if len(self.asked) + len(texts) > self.most:
            raise ModelError("away")
        return await super().documents_with_tokens(texts)


async def test_a_text_is_embedded_once_however_often_it_is_found() -> None:
    embedder = Counting()
    vectors = TextVectors(embedder)
    for _ in range(3):
        await vectors.embed(["the crane", "the boat", "the crane"])
    assert embedder.asked == ["the crane", "the boat"]
    await vectors.embed(["the boat", "the gull"])
    assert embedder.asked == ["the crane", "the boat", "the gull"]


async def test_recalls_at_the_same_time_embed_a_text_once() -> None:
    embedder = Counting()
    vectors = TextVectors(embedder)
    await asyncio.gather(*(vectors.embed(["the crane"]) for _ in range(5)))
    assert embedder.asked == ["the crane"]


async def test_texts_are_near_as_the_index_would_have_them() -> None:
    embedder = TokenEmbedder()
    vectors = TextVectors(embedder)
    texts = ["the crane is red", "a gull", "never embedded"]
    await vectors.embed(texts[:2])
    near, far, unknown = await vectors.nearness(question("the red crane"), texts)
    assert unknown is None
    assert near is not None and far is not None
    made, tokens = await embedder.documents_with_tokens(texts[:2])
    asked, words = await embedder.embed_query("the red crane"), await embedder.query_tokens("the red crane")
    for one, vector, theirs in zip((near, far), made, tokens, strict=True):
        assert one.cosine == pytest.approx(float(vector @ asked), abs=1e-3)
        assert one.late_interaction == pytest.approx(float((words @ theirs.T).max(axis=1).sum()), abs=5e-3)
    assert near.cosine > far.cosine


async def test_an_embedder_without_tokens_gives_the_cosine_alone() -> None:
    vectors = TextVectors(HashingEmbedder())
    await vectors.embed(["the crane"])
    (near,) = await vectors.nearness(question("the crane"), ["the crane"])
    assert near is not None
    assert (round(near.cosine, 2), near.late_interaction) == (1.0, None)


async def test_so_many_texts_are_kept_and_what_was_used_last_goes_last() -> None:
    embedder = Counting()
    vectors = TextVectors(embedder, most_kept=2)
    await vectors.embed(["a", "b"])
    await vectors.embed(["a"])
    await vectors.embed(["c"])
    assert [one is not None for one in await vectors.nearness(question("a"), ["a", "b", "c"])] == [
        True,
        False,
        True,
    ]


async def test_what_was_embedded_before_the_time_was_up_or_the_model_went_is_kept() -> None:
    texts = [f"note {number}" for number in range(20)]
    vectors = TextVectors(Counting(most=12))
    with pytest.raises(ModelError):
        await vectors.embed(texts)
    kept = await vectors.nearness(question("note"), texts)
    assert 0 < sum(one is not None for one in kept) < 20

    slow = Counting()
    vectors = TextVectors(slow)
    await vectors.embed(texts[:3])
    slow.gate.clear()
    slow.begun.clear()
    waiting = asyncio.create_task(vectors.embed(texts))
    await slow.begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    slow.gate.set()
    assert sum(one is not None for one in await vectors.nearness(question("note"), texts)) == 3
    await vectors.embed(texts)
    assert all(await vectors.nearness(question("note"), texts))
