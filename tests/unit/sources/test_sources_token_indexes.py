"""Late interaction in every index alike: embedded, in the client's local mode, and behind REST calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orion_recall.index.points import Name
from orion_recall.index.texts import dense_forms
from orion_recall.models.sparse import SparseEncoder
from orion_recall.sources.vector_lexical import closeness
from tests.samples.index_kinds import IndexPlace
from tests.samples.source_samples import (
    ALL,
    CRANE,
    OURS,
    TENANT,
    HashingEmbedder,
    TokenEmbedder,
    changes,
    key,
    memory,
)
from tests.stand_ins.qdrant_process import QdrantStandIn

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")

KEYS = [key(one.id) for one in OURS]
QUESTION = "did the harbour crane get a gearbox"


@pytest.fixture(params=["edge", "local", "stand-in"])
def places(
    request: pytest.FixtureRequest, folder: Path, sparse: SparseEncoder, stand_in: QdrantStandIn
) -> IndexPlace:
    return IndexPlace(request.param, folder, sparse, stand_in)


async def expected(embedder: TokenEmbedder, text: str) -> dict[int, float]:
    """MaxSim in numpy."""
    asked = await embedder.query_tokens(text)
    _, held = await embedder.documents_with_tokens([dense_forms(one)[0] for one in OURS])
    return {one: float((asked @ tokens.T).max(axis=1).sum()) for one, tokens in zip(KEYS, held, strict=True)}


async def test_the_sum_of_the_nearest_is_what_numpy_says(places: IndexPlace):
    embedder = TokenEmbedder()
    wanted = await expected(embedder, QUESTION)
    async with places.index(embedder) as index:
        await index.apply(changes(*ALL))
        named = [Name(TENANT, label.casefold()).key for label in CRANE.entities]
        found = await closeness(index, embedder, QUESTION, [*KEYS, key("nobody"), key("crane", "other"), *named])
    assert not isinstance(found, str), "there is late interaction"
    assert found.keys() == {*KEYS, key("crane", "other")}, "only those asked for that are there, and no name"
    np.testing.assert_allclose([found[one] for one in KEYS], [wanted[one] for one in KEYS], atol=2e-3)
    assert max(KEYS, key=found.__getitem__) == key("crane")


async def test_what_was_not_said_anew_is_not_embedded_again_and_keeps_its_tokens(places: IndexPlace):
    embedder = TokenEmbedder()
    async with places.index(embedder) as index:
        await index.apply(changes(*OURS))
        before = await closeness(index, embedder, QUESTION, KEYS)
    embedder.asked.clear()
    async with places.index(embedder) as index:
        later = memory("later", "And then it rained.", session_id="s1")
        steps = changes(*OURS, later, start=2)
        await index.prepare(steps)
        await index.apply(steps)
        after = await closeness(index, embedder, QUESTION, KEYS)
    assert embedder.asked == [dense_forms(later)[0]]
    assert after == pytest.approx(before, abs=1e-3)


async def test_an_index_without_them_answers_as_before_and_says_what_makes_them(places: IndexPlace):
    plain, tokens = HashingEmbedder(), TokenEmbedder()
    async with places.index(plain) as index:
        await index.apply(changes(CRANE))
        assert "ORION_TOKEN_VECTORS" in str(await closeness(index, None, "crane", KEYS))
    async with places.index(tokens) as index:
        assert "memory rebuild index" in str(await closeness(index, tokens, "crane", KEYS))
        await index.apply(changes(*OURS))
        assert tokens.asked == [], "it has no room for them"
        assert set(await index.held()) == set(KEYS)


async def test_once_written_without_them_an_index_has_them_no_more(places: IndexPlace):
    tokens, plain = TokenEmbedder(), HashingEmbedder()
    async with places.index(tokens) as index:
        await index.apply(changes(CRANE))
        assert await index.without_tokens() is None
    async with places.index(plain) as index:
        await index.apply(changes(*OURS))
    async with places.index(tokens) as index:
        assert await index.without_tokens() is not None


async def test_other_tokens_of_the_same_model_are_not_compared(places: IndexPlace):
    other = TokenEmbedder()
    other.token_space = "hashing-32-another"
    async with places.index(TokenEmbedder()) as index:
        await index.apply(changes(CRANE))
    async with places.index(other) as index:
        assert "of another kind" in str(await index.without_tokens())
        await index.apply(changes(replace(CRANE, version=2)))
        assert set(await index.held()) == {key("crane", TENANT)}
