"""A collection that a stranger made is searched, cited and kept to its scope."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from httpx import Headers
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from orion_recall.cli import doctor
from orion_recall.errors import ScopeNotKept, SourceError
from orion_recall.external.mappings import QdrantMapping
from orion_recall.external.qdrant import MappedCollection, MappedLexicalSource, MappedVectorSource, time_of
from orion_recall.index.qdrant.server import QdrantServer
from orion_recall.models.embedder import OnnxEmbedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.text.normal import content_words
from orion_recall.values import Hit, MemoryView, Question, Scope, SearchRequest

NOTES = [
    {"body": "The harbour crane lost its gearbox.", "head": {"line": "Crane"}, "at": "2026-03-01T10:00:00Z",
     "labels": ["harbour", "repair"], "whose": "acme", "link": "https://notes.example/1", "by": "Ana"},
    {"body": "Bo bakes bread on Fridays.", "at": "2026-03-05T10:00:00", "labels": "kitchen", "whose": "acme"},
    {"body": "The crane of another firm is red.", "at": "2026-03-05T10:00:00Z", "whose": "other"},
    {"title": "a point without a text", "whose": "acme"},
]  # fmt: skip
MAPPING = QdrantMapping.model_validate(
    {
        "name": "notes",
        "url": "http://nowhere.example",
        "collection": "their_notes",
        "vector": "meaning",
        "sparse": "words",
        "payload": {
            "text": "body", "title": "head.line", "time": "at", "uri": "link", "tags": "labels", "tenant": "whose",
            "speaker": "by",
        },
    }
)  # fmt: skip


@pytest.fixture(scope="module")
async def embedder() -> AsyncGenerator[OnnxEmbedder]:
    made = OnnxEmbedder()
    await made.load()
    yield made
    await made.close()


@pytest.fixture
async def collection(embedder: OnnxEmbedder) -> AsyncGenerator[MappedCollection]:
    client = AsyncQdrantClient(location=":memory:")
    await client.create_collection(
        "their_notes",
        vectors_config={"meaning": models.VectorParams(size=384, distance=models.Distance.COSINE)},
        sparse_vectors_config={"words": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    sparse = SparseEncoder()
    texts = [str(note.get("body", "nothing")) for note in NOTES]
    vectors = await embedder.embed_documents(texts)
    points: list[models.PointStruct] = []
    for number, (note, text, vector) in enumerate(zip(NOTES, texts, vectors, strict=True)):
        terms = sparse.encode_document(text)
        words = models.SparseVector(indices=list(terms.indices), values=list(terms.values))
        points.append(
            models.PointStruct(id=number, vector={"meaning": vector.tolist(), "words": words}, payload=dict(note))
        )
    await client.upsert("their_notes", points)
    made = MappedCollection(MAPPING, QdrantServer(client, "http://nowhere.example"))
    yield made
    await made.close()


def ask(text: str, **scope: Any) -> SearchRequest:
    terms = frozenset(content_words(text))
    question = Question(text=text, dense_text=text, keyword_text=text, terms=terms, now=0.0, text_hash="")
    return SearchRequest(question=question, scope=Scope(tenant=scope.pop("tenant", "acme"), **scope), limit=10)


def told(hit: Hit) -> MemoryView:
    assert hit.read is not None
    return hit.read()


async def test_both_arms_find_and_cite_what_strangers_wrote(
    collection: MappedCollection, embedder: OnnxEmbedder
) -> None:
    for arm in (MappedVectorSource(collection, embedder), MappedLexicalSource(collection, SparseEncoder())):
        hits = await arm.search(ask("what happened to the crane?"))
        memory = told(hits[0])
        assert (memory.id, memory.text, memory.title) == ("notes:0", "The harbour crane lost its gearbox.", "Crane")
        assert (memory.tags, memory.uri, memory.speaker) == (
            ("harbour", "repair"),
            "https://notes.example/1",
            "Ana",
        )
        assert (memory.ts, memory.source_ref) == (1772359200.0, "notes")
        assert all("another firm" not in told(hit).text for hit in hits)
        assert all(told(hit).text for hit in hits)


async def test_scopes_are_kept_and_what_is_not_mapped_is_refused(
    collection: MappedCollection, embedder: OnnxEmbedder
) -> None:
    arm = MappedVectorSource(collection, embedder)
    assert [told(hit).id for hit in await arm.search(ask("bread and the crane", tags=("kitchen",)))] == ["notes:1"]
    assert [told(hit).id for hit in await arm.search(ask("bread and the crane", since=1772500000.0))] == ["notes:1"]
    assert [told(hit).id for hit in await arm.search(ask("crane", tenant="other"))] == ["notes:2"]
    with pytest.raises(ScopeNotKept, match="no payload key for session"):
        await arm.search(ask("crane", session_id="s1"))


async def test_a_collection_of_one_tenant_says_nothing_to_others(
    collection: MappedCollection, embedder: OnnxEmbedder
) -> None:
    keys = MAPPING.payload.model_copy(update={"tenant": None})
    collection.mapping = MAPPING.model_copy(update={"tenant": "acme", "payload": keys})
    arm = MappedVectorSource(collection, embedder)
    assert await arm.search(ask("crane", tenant="other")) == []
    assert len(await arm.search(ask("bread and the crane"))) == 3


async def test_a_wrong_name_is_said_without_the_address(collection: MappedCollection) -> None:
    collection.mapping = MAPPING.model_copy(update={"collection": "elsewhere"})
    with pytest.raises(SourceError, match="the store 'notes': the server"):
        await collection.sample()


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (1_772_359_200, 1_772_359_200.0),
        (1_772_359_200_123, 1_772_359_200.123),
        (-1_772_359_200_000, -1_772_359_200.0),
        ("2026-03-01T10:00:00Z", 1_772_359_200.0),
        (10**400, None),
        (float("nan"), None),
        (float("inf"), None),
        ("soon", None),
        (True, None),
        ({"at": 3}, None),
    ],
)
def test_times_of_others_are_seconds_milliseconds_or_text_and_all_else_is_undated(
    written: Any, seconds: float | None
) -> None:
    assert time_of(written) == seconds


@pytest.mark.parametrize(("time_format", "unit"), [("epoch", 1), ("epoch_ms", 1000)])
async def test_a_scope_of_time_is_kept_to_in_the_unit_of_the_payload(
    collection: MappedCollection, embedder: OnnxEmbedder, time_format: str, unit: int
) -> None:
    client, began = collection._server.client, 1_772_500_000.0  # pyright: ignore[reportPrivateUsage]
    for number in (0, 1):
        await client.set_payload("their_notes", {"stamp": (began + 1000 * number) * unit}, points=[number])
    keys = MAPPING.payload.model_copy(update={"time": "stamp", "time_format": time_format})
    collection.mapping = MAPPING.model_copy(update={"payload": keys})
    arm = MappedVectorSource(collection, embedder)
    for scope, expected in (
        ({"since": began + 500}, ["notes:1"]),
        ({"until": began + 500}, ["notes:0"]),
        ({"as_of": began}, ["notes:0"]),
        ({"since": began, "until": began + 2000}, ["notes:0", "notes:1"]),
    ):
        memories = [told(hit) for hit in await arm.search(ask("bread and the crane", **scope))]
        assert sorted(memory.id for memory in memories) == expected
        assert all(memory.ts in (began, began + 1000) for memory in memories)


async def test_payloads_of_odd_types_cost_what_they_hold_and_no_more(
    collection: MappedCollection, embedder: OnnxEmbedder
) -> None:
    odd = {
        "body": 7, "head": ["no", "object"], "at": {"no": "time"}, "labels": [1, None, {"deep": 2}],
        "whose": "acme", "link": False, "by": ["Ana"],
    }  # fmt: skip
    client = collection._server.client  # pyright: ignore[reportPrivateUsage]
    await client.overwrite_payload("their_notes", odd, points=[1])
    memories = {
        (one := told(hit)).id: one for hit in await MappedVectorSource(collection, embedder).search(ask("x"))
    }
    read = memories["notes:1"]
    assert (read.text, read.title, read.ts, read.uri, read.speaker) == ("7", None, None, None, None)
    assert read.tags == ("1", "{'deep': 2}")
    "".join(read.tags).encode()
    assert memories["notes:0"].title == "Crane"


@pytest.mark.parametrize(("time_format", "is_told"), [("epoch", True), ("epoch_ms", False)])
async def test_doctor_says_when_times_in_seconds_are_in_milliseconds(
    collection: MappedCollection,
    embedder: OnnxEmbedder,
    monkeypatch: pytest.MonkeyPatch,
    time_format: str,
    is_told: bool,
) -> None:
    client = collection._server.client  # pyright: ignore[reportPrivateUsage]
    await client.set_payload("their_notes", {"stamp": 1_772_359_200_123}, points=[0])

    def opened(mapping: QdrantMapping) -> MappedCollection:
        return collection

    monkeypatch.setattr(doctor, "collection_of", opened)
    keys = MAPPING.payload.model_copy(update={"time": "stamp", "time_format": time_format})
    mapping = MAPPING.model_copy(update={"payload": keys})
    async with AsyncExitStack() as stack:
        finding = await doctor._qdrant(mapping, embedder, stack)  # pyright: ignore[reportPrivateUsage]
    assert any("epoch_ms" in problem for problem in finding.problems) == is_told


async def test_of_long_payloads_as_much_is_read_as_an_own_memory_may_hold(
    collection: MappedCollection, embedder: OnnxEmbedder
) -> None:
    vector = (await embedder.embed_documents(["a lighthouse"]))[0].tolist()
    payload = {
        "body": "lighthouse " * 20_000, "head": {"line": "h" * 9000}, "whose": "long", "by": "b" * 9000,
        "labels": [f"{place}" * 900 for place in range(900)], "link": "l" * 9000,
    }  # fmt: skip
    client = collection._server.client  # pyright: ignore[reportPrivateUsage]
    await client.upsert("their_notes", [models.PointStruct(id=9, vector={"meaning": vector}, payload=payload)])
    (hit,) = await MappedVectorSource(collection, embedder).search(ask("lighthouse", tenant="long"))
    read = told(hit)
    assert (len(read.text), len(read.title or ""), len(read.speaker or "")) == (100_000, 4096, 512)
    assert (len(read.uri or ""), len(read.tags), max(len(tag) for tag in read.tags)) == (4096, 256, 512)


async def test_conditions_that_the_server_refuses_are_the_querys_fault_and_not_the_stores(
    collection: MappedCollection, embedder: OnnxEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuses(*_: Any, **__: Any) -> None:
        raise UnexpectedResponse(400, "Bad Request", b'{"status":{"error":"Index required"}}', Headers())

    monkeypatch.setattr(collection._server.client, "query_points", refuses)  # pyright: ignore[reportPrivateUsage]
    arm = MappedVectorSource(collection, embedder)
    with pytest.raises(ScopeNotKept, match="Index required"):
        await arm.search(ask("crane", tags=("harbour",)))
    with pytest.raises(SourceError, match="Index required") as told_of:
        await arm.search(ask("crane"))
    assert not isinstance(told_of.value, ScopeNotKept)
