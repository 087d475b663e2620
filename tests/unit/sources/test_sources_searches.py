"""Searches by words and by meaning: query expansion, ties at the limit, vectors of texts read elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from orion_recall.errors import ModelError
from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.models.token_space import Tokens
from orion_recall.sources.vector_lexical import LexicalSource, TextVectors, VectorSource
from orion_recall.values import Question, Scope
from tests.samples.source_samples import HashingEmbedder, TokenEmbedder, key, request

Found = Sequence[tuple[int, float]]


class ToldIndex:
    """An index with fixed answers that notes what it was asked."""

    kind = "index"
    damage: str | None = None
    stalled: str | None = None

    def __init__(
        self, *, dense: Found = (), text: Found = (), context: Found = (), names: Sequence[tuple[str, ...]] = ()
    ) -> None:
        self.dense, self.forms, self.names = list(dense), [list(text), list(context)], names
        self.asked: list[tuple[object, ...]] = []

    async def search_dense(
        self, vector: Sequence[float], scope: Scope, limit: int, min_score: float
    ) -> list[tuple[int, float]]:
        self.asked.append((list(vector), scope, limit, min_score))
        return self.dense

    async def search_sparse(self, terms: SparseTerms, scope: Scope, limit: int) -> list[list[tuple[int, float]]]:
        self.asked.append((terms, scope, limit))
        return self.forms

    async def names_sharing_words(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, ...]]:
        return self.names[:limit]


async def test_the_other_names_of_what_is_named_in_full_are_searched_for(sparse: SparseEncoder) -> None:
    index = ToldIndex(names=[("Fjord Laboratories", "Fjord Labs"), ("Labs of Umbra", "Umbra")])
    await LexicalSource(index, sparse).search(request("what did Fjord Labs' crew mend", with_aliases=True))
    ((terms, *_),) = index.asked
    wanted = set(sparse.encode_query("what did Fjord Labs crew mend laboratories").indices)
    assert isinstance(terms, SparseTerms) and set(terms.indices) == wanted


async def test_the_vector_arm_embeds_the_dense_text_and_passes_scope_limit_and_threshold():
    embedder, scope = HashingEmbedder(), Scope(tenant="acme", session_id="s")
    index = ToldIndex(dense=[(key("a"), 0.9), (key("b"), 0.4)])
    hits = await VectorSource(index, embedder).search(request("the crane", scope=scope, limit=7, min_score=0.3))
    assert [(hit.key, hit.score) for hit in hits] == [(key("a"), 0.9), (key("b"), 0.4)]
    assert index.asked == [((await embedder.embed_query("the crane")).tolist(), scope, 7, 0.3)]


async def test_the_lexical_arm_adds_half_of_what_the_neighbours_say(sparse: SparseEncoder):
    index = ToldIndex(text=[(key("a"), 4.0), (key("b"), 3.0)], context=[(key("b"), 4.0), (key("c"), 2.0)])
    hits = await LexicalSource(index, sparse).search(request("the crane"))
    assert [(hit.key, hit.score) for hit in hits] == [(key("b"), 5.0), (key("a"), 4.0), (key("c"), 1.0)]
    terms = sparse.encode_query("the crane")
    assert [terms] == [asked[0] for asked in index.asked]


async def test_equal_scores_are_in_the_order_of_keys_and_the_limit_holds(sparse: SparseEncoder):
    found = [(key(name), 1.0) for name in "dcba"]
    hits = await LexicalSource(ToldIndex(text=found), sparse).search(request("crane", limit=3))
    assert [hit.key for hit in hits] == sorted(key(name) for name in "abcd")[:3]


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
