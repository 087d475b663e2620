"""The index on a server: the collection and its metadata, what is refused, and servers that fail."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
from qdrant_client import models as qm

from orion_recall.errors import SourceError, TransientSourceError
from orion_recall.index.points import KEYWORD_FIELDS, NUMBER_FIELDS, SPARSE_VECTORS
from orion_recall.index.qdrant.index import QdrantIndex
from orion_recall.index.qdrant.server import QdrantServer, Timeouts
from orion_recall.index.told import TOLD_FIELDS
from orion_recall.models.sparse import SparseEncoder
from orion_recall.text.normal import number_of
from orion_recall.values import Scope
from tests.samples.source_samples import ALL, OURS, TENANT, HashingEmbedder, changes, dense, key, lexical, memory
from tests.stand_ins.qdrant_process import QdrantStandIn, qdrant_stand_in

# Of a test run on a busy machine nobody may expect an answer within 0.3 s.
LONG_TIMEOUTS = Timeouts(aside=10, read=20)
METADATA_KEY = number_of("card\x1f", "index")
VECTORS: dict[str, qm.VectorParams] = dict.fromkeys(
    ("dense", "name"), qm.VectorParams(size=64, distance=qm.Distance.COSINE)
)
SHORT_TIMEOUTS = Timeouts(aside=0.2, read=0.5, write=0.5)
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def name() -> str:
    return f"test-{uuid4().hex}"


@pytest.fixture
def private() -> Iterator[QdrantStandIn]:
    """A stand-in that may be killed."""
    with qdrant_stand_in() as one:
        yield one


@asynccontextmanager
async def index_at(
    url: str,
    name: str,
    *,
    embedder: HashingEmbedder | None = None,
    timeouts: Timeouts = LONG_TIMEOUTS,
    api_key: str | None = None,
) -> AsyncGenerator[QdrantIndex]:
    """An index that has sent nothing yet."""
    server = QdrantServer.at(url, api_key=api_key, timeouts=timeouts)
    one = QdrantIndex(server, name, embedder or HashingEmbedder(), SparseEncoder())
    try:
        yield one
    finally:
        await one.close()


@asynccontextmanager
async def answering(answer: Answer) -> AsyncGenerator[tuple[str, list[asyncio.StreamWriter]]]:
    """A server on loopback that does with every connection as it is told; its URL, and the open connections."""
    open_now: list[asyncio.StreamWriter] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_now.append(writer)
        try:
            await answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            open_now.remove(writer)
            writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}", open_now


def saying(status: str, body: str, kind: str = "application/json") -> Answer:
    """Every request is answered with this."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(f"{head}{body}".encode())
            await writer.drain()

    return answer


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Whatever is sent is read, and never answered."""
    while await reader.read(65536):
        pass


async def calls_of(index: QdrantIndex) -> list[Awaitable[Any]]:
    """Every kind of call."""
    scope = Scope(tenant=TENANT)
    vector = (await HashingEmbedder().embed_query("crane")).tolist()
    return [
        index.open(),
        index.search_dense(vector, scope, 5, 0.0),
        index.search_sparse(index.sparse.encode_query("crane"), scope, 5),
        index.find_entities("crane", TENANT, 5),
        index.fetch([1]),
        index.speakers(Scope(tenant=TENANT)),
        index.apply(changes(*ALL)),
    ]


async def test_the_collection_is_made_with_its_vectors_and_payload_indexes(stand_in: QdrantStandIn, name: str):
    async with index_at(stand_in.url, name) as index:
        await index.open()
        info = await index._server.client.get_collection(name)  # pyright: ignore[reportPrivateUsage]
        assert info.config.params.vectors == VECTORS
        assert {
            one: params.modifier for one, params in (info.config.params.sparse_vectors or {}).items()
        } == dict.fromkeys(("text", "context", "entity"), qm.Modifier.IDF)
        assert set(info.payload_schema) == {*KEYWORD_FIELDS, *NUMBER_FIELDS, "ts", *TOLD_FIELDS}
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


async def test_opening_again_sees_what_another_has_written(stand_in: QdrantStandIn, name: str):
    async with index_at(stand_in.url, name) as one, index_at(stand_in.url, name) as other:
        await one.open()
        await other.open()
        await one.apply(changes(*ALL))
        assert other.position == 0
        await other.open()
        assert other.position == 4
        assert await lexical(other, "gearbox") == ["crane", "order"]


async def test_several_that_start_together_make_one_collection(stand_in: QdrantStandIn, name: str):
    async with index_at(stand_in.url, name) as one, index_at(stand_in.url, name) as other:
        await asyncio.gather(one.open(), other.open(), one.open(), other.open())
        assert (one.position, other.position) == (0, 0)


async def test_an_index_made_by_another_model_is_refused_with_advice(stand_in: QdrantStandIn, name: str):
    async with index_at(stand_in.url, name) as first:
        await first.open()
        await first.apply(changes(*ALL))
    for other in (HashingEmbedder("another"), HashingEmbedder(weights="b" * 64)):
        async with index_at(stand_in.url, name, embedder=other) as refused:
            with pytest.raises(
                SourceError, match=r"was made with hashing .*configure that model, or give ORION_QDRANT_COLLECTION"
            ):
                await refused.open()
            with pytest.raises(SourceError, match="was made with hashing"):
                await dense(refused, "crane")
    async with index_at(stand_in.url, name) as again:
        await again.open()
        assert again.position == 4


@pytest.mark.parametrize(
    ("vectors", "sparse", "said"),
    [
        (
            {"dense": qm.VectorParams(size=32, distance=qm.Distance.COSINE)},
            True,
            "32 floats, and the model makes",
        ),
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
        client = index._server.client  # pyright: ignore[reportPrivateUsage]
        terms = {part: qm.SparseVectorParams(modifier=qm.Modifier.IDF) for part in SPARSE_VECTORS}
        await client.create_collection(
            name, vectors_config=vectors, sparse_vectors_config=terms if sparse else None
        )
        with pytest.raises(SourceError, match=f"{said}.*: give ORION_QDRANT_COLLECTION another name, or delete"):
            await index.open()
        info = await client.get_collection(name)
        assert (info.points_count, info.payload_schema) == (0, {})


async def test_a_sparse_vector_without_idf_is_refused(stand_in: QdrantStandIn, name: str):
    async with index_at(stand_in.url, name) as index:
        terms = {part: qm.SparseVectorParams() for part in SPARSE_VECTORS}
        await index._server.client.create_collection(  # pyright: ignore[reportPrivateUsage]
            name,
            vectors_config=VECTORS,
            sparse_vectors_config=terms,
        )
        with pytest.raises(SourceError, match="text without the modifier idf"):
            await index.open()


async def ours_but(index: QdrantIndex, name: str, point: qm.PointStruct) -> None:
    """A collection of our shape that holds one point."""
    client, words = index._server.client, index._requests  # pyright: ignore[reportPrivateUsage]
    await client.create_collection(
        name, vectors_config=words.vectors(64), sparse_vectors_config=words.sparse_vectors()
    )
    await client.upsert(name, [point])


async def test_points_of_others_are_refused_and_a_prepared_empty_collection_is_taken(
    stand_in: QdrantStandIn, name: str
):
    async with index_at(stand_in.url, name) as index:
        await ours_but(index, name, qm.PointStruct(id=1, vector={}, payload={"title": "theirs"}))
        with pytest.raises(SourceError, match="holds points that orion-recall did not write: give"):
            await index.open()
    async with index_at(stand_in.url, f"{name}-2") as index:
        client, words = index._server.client, index._requests  # pyright: ignore[reportPrivateUsage]
        await client.create_collection(
            f"{name}-2",
            vectors_config=words.vectors(64),
            sparse_vectors_config=words.sparse_vectors(),
            hnsw_config=qm.HnswConfigDiff(m=32, ef_construct=200),  # the graph of the vectors is the operator's
        )
        await index.open()
        assert index.position == 0


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"format": 6},
        {"format": 6, "model": "hashing", "dimension": 64, "weights_sha256": "a" * 64, "position": "x"},
        {"format": 99, "model": "hashing", "dimension": 64, "weights_sha256": "a" * 64, "position": 1},
    ],
    ids=["empty", "half", "position", "format"],
)
async def test_a_card_that_cannot_be_read_or_is_of_another_format_is_refused(
    stand_in: QdrantStandIn, name: str, payload: dict[str, Any]
):
    metadata = {"format": 6, "model": "hashing", "dimension": 64, "weights_sha256": "a" * 64, "position": 0}
    async with index_at(stand_in.url, name) as index:
        await index.open()
        made = await index._server.client.retrieve(name, [METADATA_KEY])  # pyright: ignore[reportPrivateUsage]
        told = made[0].payload or {}
        assert told == metadata | {"made": told["made"], "record": "", "tokens": ""}
        await index._server.client.upsert(  # pyright: ignore[reportPrivateUsage]
            name, [qm.PointStruct(id=METADATA_KEY, vector={}, payload=payload)]
        )
        with pytest.raises(SourceError, match=r"(metadata that cannot be read|has format 99): give ORION_QDRANT"):
            await index.open()


@pytest.mark.parametrize(
    ("version", "warns"), [("1.18.2", True), ("v1.9.0", True), ("1.19.0", False), ("2", False)]
)
async def test_a_server_that_counts_words_over_all_tenants_is_told_of_once(
    stand_in: QdrantStandIn,
    name: str,
    version: str,
    warns: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    async with index_at(stand_in.url, name) as index:

        async def info() -> qm.VersionInfo:
            return qm.VersionInfo(title="qdrant", version=version)

        monkeypatch.setattr(index._server.client, "info", info)  # pyright: ignore[reportPrivateUsage]
        for _ in range(2):
            await index.open()
            index._collection.recheck()  # pyright: ignore[reportPrivateUsage]
        assert [f"has version {version}" in line for line in caplog.messages if "version" in line] == [True] * warns


async def test_speakers_are_asked_once_and_known_at_once_when_they_are_ours(stand_in: QdrantStandIn, name: str):
    async with index_at(stand_in.url, name) as index:
        await index.apply(changes(*ALL))
        assert await index.speakers(Scope(tenant=TENANT)) == {"Ana", "Bo"}
        await index.apply(changes(memory("new", "hello", speaker="Cy"), start=9))
        assert await index.speakers(Scope(tenant=TENANT)) == {"Ana", "Bo", "Cy"}
        await index._server.client.delete_collection(name)  # pyright: ignore[reportPrivateUsage]
        assert await index.speakers(Scope(tenant=TENANT)) == {"Ana", "Bo", "Cy"}, "from what was known"


async def test_a_collection_that_was_deleted_is_made_again_and_begins_at_zero(stand_in: QdrantStandIn, name: str):
    async with index_at(stand_in.url, name) as index:
        await index.apply(changes(*ALL))
        await index._server.client.delete_collection(name)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(TransientSourceError, match=f"Not found: Collection `{name}` doesn't exist"):
            await dense(index, "crane")
        assert await dense(index, "crane") == []
        assert index.position == 0
        await index._server.client.delete_collection(name)  # pyright: ignore[reportPrivateUsage]
        await index.open()
        await index.apply(changes(*ALL))
        assert await lexical(index, "gearbox") == ["crane", "order"]


async def test_what_was_written_to_a_collection_that_was_made_again_meanwhile_is_written_again(
    stand_in: QdrantStandIn, name: str, monkeypatch: pytest.MonkeyPatch
):
    async with index_at(stand_in.url, name) as one, index_at(stand_in.url, name) as other:
        await one.open()
        collection = one._collection  # pyright: ignore[reportPrivateUsage]
        writes, write = 0, collection._write  # pyright: ignore[reportPrivateUsage]

        async def lost_after_the_first(points: Any) -> None:
            nonlocal writes
            await write(points)
            writes += 1
            if writes == 1:
                await other._server.client.delete_collection(name)  # pyright: ignore[reportPrivateUsage]
                await other.open()

        monkeypatch.setattr(collection, "_write", lost_after_the_first)
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


async def test_a_server_that_is_away_at_first_is_found_by_the_first_call_when_it_is_there(private: QdrantStandIn):
    private.kill()
    async with index_at(private.url, "late") as index:
        for call in await calls_of(index):
            with pytest.raises(TransientSourceError) as away:
                await call
            assert private.url in str(away.value)
        private.start()
        assert await dense(index, "crane") == []
        await index.apply(changes(*ALL))
        assert (await dense(index, "harbour crane gearbox"))[0] == "crane"
        private.kill()
        with pytest.raises(TransientSourceError, match=r"cannot be reached \(\w+Error\)"):
            await dense(index, "crane")
        private.start()
        await index.open()
        assert index.position == 0, "the stand-in keeps nothing"


@pytest.mark.asyncio(loop_scope="function")  # all tasks of its loop are its own
async def test_a_server_that_never_answers_costs_what_patience_allows_and_leaves_nothing_behind(name: str):
    async with answering(silent) as (url, connections), index_at(url, name, timeouts=SHORT_TIMEOUTS) as index:
        before = asyncio.all_tasks()
        for call in await calls_of(index):
            began = time.perf_counter()
            with pytest.raises(
                TransientSourceError, match=f"index at {url} (did not answer within|failed a moment ago)"
            ):
                await call
            assert time.perf_counter() - began < 30
        cancelled = asyncio.ensure_future(index.open())
        await asyncio.sleep(0.1)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        async with asyncio.timeout(30):
            while connections:
                await asyncio.sleep(0.01)
        assert len(asyncio.all_tasks()) <= len(before)


async def test_after_a_search_that_was_given_up_the_memories_are_not_waited_for(name: str):
    async with answering(silent) as (url, _), index_at(url, name, timeouts=Timeouts(read=20)) as index:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.6):
                await dense(index, "crane")
        with pytest.raises(TransientSourceError, match="asked again in two seconds"):  # and so not asked
            await index.fetch([1])


async def test_what_a_recall_can_do_without_is_not_waited_for_again_at_once(name: str):
    async with answering(silent) as (url, _), index_at(url, name, timeouts=SHORT_TIMEOUTS) as index:
        with pytest.raises(TransientSourceError, match=r"within 0\.2 s"):
            await index.speakers(Scope(tenant=TENANT))
        with pytest.raises(TransientSourceError, match="asked again in two seconds"):  # and so not asked
            await index.find_entities("crane", TENANT, 3)


@pytest.mark.parametrize(
    ("status", "body", "transient", "said"),
    [
        ("401 Unauthorized", '"Must provide an API key"', False, r"the key \(401\): check ORION_QDRANT_API_KEY"),
        ("403 Forbidden", "{}", False, r"refuses the key \(403\)"),
        ("404 Not Found", "<html>nginx</html>", False, "does not answer as Qdrant does .*check ORION_QDRANT_URL"),
        ("200 OK", "<html>hello</html>", False, "does not answer as Qdrant does .*check ORION_QDRANT_URL"),
        ("200 OK", '{"unexpected": 1, "result": "x"}', False, "does not answer as Qdrant does"),
        ("429 Too Many Requests", "{}", True, "answers 429"),
        ("500 Internal Server Error", '{"status": {"error": "Service internal error: full"}}', True, "500: .*full"),
        ("503 Service Unavailable", "", True, "answers 503"),
        ("400 Bad Request", '{"status": {"error": "Wrong input: bad\\nvector"}}', False, "Wrong input: bad vector"),
        ("400 Bad Request", '{"status": {"error": "Format error in JSON: my secret text"}}', False, r"\(400\)$"),
    ],
)  # fmt: skip
async def test_every_answer_that_is_none_is_told_by_what_can_be_done(
    name: str, status: str, body: str, transient: bool, said: str
):
    async with answering(saying(status, body)) as (url, _), index_at(url, name, timeouts=SHORT_TIMEOUTS) as index:
        with pytest.raises(SourceError, match=said) as failed:
            await index.open()
        assert isinstance(failed.value, TransientSourceError) == transient
        assert url in str(failed.value)
        assert "secret" not in str(failed.value)


async def test_a_server_that_hangs_up_is_away(name: str):
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()

    async with answering(hang_up) as (url, _), index_at(url, name, timeouts=SHORT_TIMEOUTS) as index:
        with pytest.raises(TransientSourceError, match=r"cannot be reached \(\w+\)"):
            await index.open()


async def test_the_key_is_sent_and_never_told(
    name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
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
