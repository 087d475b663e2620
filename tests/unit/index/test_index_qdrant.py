"""The index on a Qdrant server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast
from uuid import uuid4

import httpx
import pytest
from qdrant_client import models as qm
from qdrant_client.http.exceptions import UnexpectedResponse

from orion_recall.errors import QueryNotTaken, SourceError, TransientSourceError
from orion_recall.index.points import FLOAT_FIELDS, KEYWORD_FIELDS, NUMBER_FIELDS, SPARSE_VECTORS
from orion_recall.index.qdrant.index import QdrantIndex
from orion_recall.index.qdrant.server import QdrantServer
from orion_recall.models.sparse import SparseEncoder
from orion_recall.values import Scope
from tests.samples.source_samples import ALL, OURS, TENANT, HashingEmbedder, changes, dense, key, lexical, memory
from tests.stand_ins.qdrant_process import QdrantStandIn, qdrant_stand_in

# Of a test run on a busy machine nobody may expect an answer within 0.3 s.
VECTORS: dict[str, qm.VectorParams] = dict.fromkeys(
    ("dense", "name"), qm.VectorParams(size=64, distance=qm.Distance.COSINE)
)


@pytest.fixture
def name() -> str:
    return f"test-{uuid4().hex}"


@asynccontextmanager
async def index_at(url: str, name: str, *, api_key: str | None = None) -> AsyncGenerator[QdrantIndex]:
    """An index that has sent nothing yet."""
    server = QdrantServer.at(url, api_key=api_key)
    server.aside_s, server.read_s = 10, 20
    one = QdrantIndex(server, name, HashingEmbedder(), SparseEncoder(), has_record=False)
    try:
        yield one
    finally:
        await one.close()


async def test_the_collection_is_made_with_its_vectors_and_payload_indexes(stand_in: QdrantStandIn, name: str):
    async with index_at(stand_in.url, name) as index:
        await index.open()
        info = await index.client.get_collection(name)
        assert info.config.params.vectors == VECTORS
        assert {
            one: params.modifier for one, params in (info.config.params.sparse_vectors or {}).items()
        } == dict.fromkeys(("text", "context", "entity"), qm.Modifier.IDF)
        assert set(info.payload_schema) == {*KEYWORD_FIELDS, *NUMBER_FIELDS, *FLOAT_FIELDS}
        assert index.position == 0
        assert index.copy == f"{stand_in.url}/{name}"


async def test_position_and_memories_survive_reopening_and_the_card_is_never_found(
    stand_in: QdrantStandIn, name: str
):
    async with index_at(stand_in.url, name) as first:
        await first.open()
        await first.apply(changes(*ALL))
    async with index_at(stand_in.url, name) as again:
        await again.open()
        assert again.position == 4
        vector = (await HashingEmbedder().embed_query("crane")).tolist()
        found = await again.search_dense(vector, Scope(tenant=TENANT), 100, -1.0)
        assert {hit for hit, _ in found} == {key(one.id) for one in OURS}


@pytest.mark.parametrize(
    ("vectors", "sparse", "said"),
    [
        ({"dense": qm.VectorParams(size=32, distance=qm.Distance.COSINE)}, True, "32 floats, and the model makes"),
        ({"dense": qm.VectorParams(size=64, distance=qm.Distance.DOT)}, True, "by Dot instead of Cosine"),
        ({"other": qm.VectorParams(size=64, distance=qm.Distance.COSINE)}, True, "no vector named dense"),
        (qm.VectorParams(size=64, distance=qm.Distance.COSINE), True, "no vector named dense"),
        ({"dense": qm.VectorParams(size=64, distance=qm.Distance.COSINE)}, True, "no vector named name"),
        (VECTORS, False, "no sparse vector named text"),
    ],
    ids=["dimension", "distance", "name", "unnamed", "names", "sparse"],
)
async def test_a_collection_of_another_shape_is_refused_with_advice_and_left_as_it_is(
    stand_in: QdrantStandIn, name: str, vectors: Any, sparse: bool, said: str
):
    async with index_at(stand_in.url, name) as index:
        client = index.client
        terms = {part: qm.SparseVectorParams(modifier=qm.Modifier.IDF) for part in SPARSE_VECTORS}
        await client.create_collection(
            name, vectors_config=vectors, sparse_vectors_config=terms if sparse else None
        )
        with pytest.raises(SourceError, match=f"{said}.*: give ORION_QDRANT_COLLECTION another name, or delete"):
            await index.open()
        info = await client.get_collection(name)
        assert (info.points_count, info.payload_schema) == (0, {})


async def test_points_of_others_are_refused_and_a_prepared_empty_collection_is_taken(
    stand_in: QdrantStandIn, name: str
):
    for collection, points in (
        (name, [qm.PointStruct(id=1, vector={}, payload={"title": "theirs"})]),
        (f"{name}-2", []),
    ):
        async with index_at(stand_in.url, collection) as index:
            client, words = index.client, index._requests  # pyright: ignore[reportPrivateUsage]
            await client.create_collection(
                collection,
                vectors_config=words.vectors(64),
                sparse_vectors_config=words.sparse_vectors(),
                hnsw_config=qm.HnswConfigDiff(m=32, ef_construct=200),  # the graph of the vectors is the operator's
            )
            if points:
                await client.upsert(collection, points)
                with pytest.raises(SourceError, match="holds points that orion-recall did not write: give"):
                    await index.open()
            else:
                await index.open()
                assert index.position == 0


async def test_what_was_written_to_a_collection_that_was_made_again_meanwhile_is_written_again(
    stand_in: QdrantStandIn, name: str, monkeypatch: pytest.MonkeyPatch
):
    async with index_at(stand_in.url, name) as one, index_at(stand_in.url, name) as other:
        await one.open()
        writes, write = 0, one._upsert  # pyright: ignore[reportPrivateUsage]

        async def lost_after_the_first(points: Any) -> None:
            nonlocal writes
            await write(points)
            writes += 1
            if writes == 1:
                await other.client.delete_collection(name)
                await other.open()

        monkeypatch.setattr(one, "_upsert", lost_after_the_first)
        many = [memory(f"m{number}", f"note number {number}") for number in range(80)]
        with pytest.raises(TransientSourceError, match="was created again or written by another"):
            await one.apply(changes(*many))
        await one.open()
        assert one.position == 0
        await one.apply(changes(*many))
        assert (one.position, len(await one.fetch([key(each.id) for each in many]))) == (80, 80)


async def test_after_a_writer_that_comes_back_late_all_is_applied_again(stand_in: QdrantStandIn, name: str):
    async with index_at(stand_in.url, name) as late, index_at(stand_in.url, name) as heir:
        await late.open()
        await heir.apply(changes(*ALL))
        with pytest.raises(TransientSourceError, match="written by another"):
            await late.apply(changes(*ALL[:1]))
        assert heir.position == 4
        await heir.open()
        assert heir.position == 0, "what the late one has written may be older than what was there"
        await heir.apply(changes(*ALL))
        assert heir.position == 4


async def test_a_server_that_is_away_at_first_is_found_by_the_first_call_when_it_is_there():
    vector, scope = (await HashingEmbedder().embed_query("crane")).tolist(), Scope(tenant=TENANT)
    with qdrant_stand_in() as mortal:
        mortal.kill()
        async with index_at(mortal.url, "late") as index:
            for call in (
                index.open(),
                index.search_dense(vector, scope, 5, 0.0),
                index.search_sparse(index.sparse.encode_query("crane"), scope, 5),
                index.find_entities("crane", TENANT, 5),
                index.fetch([1]),
                index.speakers(scope),
                index.apply(changes(*ALL)),
            ):
                with pytest.raises(TransientSourceError, match=mortal.url):
                    await call
            mortal.start()
            assert await dense(index, "crane") == []
            await index.apply(changes(*ALL))
            assert (await dense(index, "harbour crane gearbox"))[0] == "crane"
            mortal.kill()
            with pytest.raises(TransientSourceError, match=r"cannot be reached \(\w+Error\)"):
                await dense(index, "crane")
            mortal.start()
            await index.open()
            assert index.position == 0, "the stand-in keeps nothing"


async def test_the_key_is_sent_and_never_told(name: str, caplog: pytest.LogCaptureFixture):
    with qdrant_stand_in(key="hunter2") as locked:
        async with index_at(locked.url, name, api_key="hunter2") as index:
            await index.apply(changes(*ALL))
            assert await lexical(index, "gearbox") == ["crane", "order"]
        for wrong in ("hunter3", None):
            async with index_at(locked.url, name, api_key=wrong) as index:
                with pytest.raises(SourceError, match="refuses the key") as refused:
                    await index.open()
                assert "hunter" not in str(refused.value)
    assert "unencrypted" not in caplog.text, "on loopback nobody listens"
    async with index_at("http://qdrant.example:6333", name, api_key="hunter2"):
        assert "http://qdrant.example:6333 crosses the network unencrypted" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("status", [400, 422, 403])
async def test_a_refused_filter_is_the_querys_fault_and_a_refused_key_is_not(status: int) -> None:
    server = QdrantServer(cast("Any", None), "http://localhost:6333")

    async def refused() -> str:
        raise UnexpectedResponse(status, "no", b"{}", httpx.Headers())

    async def answered() -> str:
        return "an answer"

    with pytest.raises(QueryNotTaken if status != 403 else SourceError):
        await server.ask(refused())
    if status == 403:
        with pytest.raises(TransientSourceError, match="a moment ago"):
            await server.ask_if_well(answered)
    else:
        assert await server.ask_if_well(answered) == "an answer"
