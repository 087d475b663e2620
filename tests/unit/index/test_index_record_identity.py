"""Whose a copy is: graph and index, embedded and on servers that another record has filled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from orion_recall.errors import AnotherRecordsCopy, TransientSourceError
from orion_recall.graph.stores.oxigraph import RdfGraph
from orion_recall.graph.stores.sparql import SparqlGraph
from orion_recall.graph.stores.sparql_client import SparqlClient, SparqlServer
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.index.qdrant.index import QdrantIndex
from orion_recall.index.qdrant.server import QdrantServer
from orion_recall.models.sparse import SparseEncoder
from orion_recall.sources.graph import RdfSource
from orion_recall.values import Scope
from tests.samples.source_samples import TENANT, HashingEmbedder, changes, key, memory, request
from tests.stand_ins.oxigraph import Oxigraph
from tests.stand_ins.qdrant_process import QdrantStandIn

OURS, THEIRS = "2026-11-01T00:00:00.000001Z", "2026-11-02T00:00:00.000002Z"
WORK, SHIP = memory("work", "Ana works at Fjord Labs."), memory("ship", "Bo repairs the Aurora.")
LATER = memory("later", "It rains.")
Copy = RdfGraph | SparqlGraph | EdgeIndex | QdrantIndex
Opener = Callable[[], Copy]


@pytest.fixture(params=["graph", "graph server", "index", "index server"])
async def made(
    request: pytest.FixtureRequest,
    folder: Path,
    sparse: SparseEncoder,
    empty_oxigraph: Oxigraph,
    stand_in: QdrantStandIn,
) -> AsyncIterator[Opener]:
    """Makes copies over the same data; an embedded one must be closed before the next is opened."""
    collection = f"test-{uuid4().hex}"
    makers: dict[str, Opener] = {
        "graph": lambda: RdfGraph(folder / "graph"),
        "graph server": lambda: SparqlGraph(SparqlClient(SparqlServer(url=empty_oxigraph.url))),
        "index": lambda: EdgeIndex(folder / "index", HashingEmbedder(), sparse),
        "index server": lambda: QdrantIndex(
            QdrantServer.at(stand_in.url), collection, HashingEmbedder(), sparse, has_record=False
        ),
    }
    async with AsyncExitStack() as stack:

        def make() -> Copy:
            one = makers[request.param]()
            stack.push_async_callback(one.close)
            return one

        yield make


def searches(copy: Copy) -> list[Callable[[], Awaitable[object]]]:
    """Every way to ask it."""
    if isinstance(copy, RdfGraph | SparqlGraph):
        return [
            lambda: RdfSource(copy, None).search(request("Fjord Labs")),
            lambda: RdfSource(copy, None).search(request("is it")),
        ]
    return [
        lambda: copy.search_dense([1.0] + [0.0] * 63, Scope(tenant=TENANT), 3, 0.0),
        lambda: copy.search_sparse(copy.sparse.encode_query("Aurora"), Scope(tenant=TENANT), 3),
        lambda: copy.find_entities("Aurora", TENANT, 3),
        lambda: copy.names_near([1.0] + [0.0] * 63, TENANT, 3),
        lambda: copy.speakers(Scope(tenant=TENANT)),
    ]


async def filled(made: Opener, record: str | None) -> None:
    """A graph with two memories, by the record of that mark, or by a version that knew no marks."""
    graph = made()
    await graph.open()
    if record is not None:
        graph.expect(record)
        await graph.adopt()
    await graph.apply(changes(WORK, SHIP))
    assert graph.database_identity == record
    await graph.close()


async def test_a_copy_of_another_record_is_neither_read_nor_written(made: Opener):
    await filled(made, THEIRS)
    graph = made()
    graph.expect(OURS)
    for call in (
        graph.open,
        graph.check,
        lambda: graph.fetch([key("work")]),
        lambda: graph.apply(changes(LATER, start=3)),
        *searches(graph),
    ):
        with pytest.raises(AnotherRecordsCopy, match=rf"the one made at {THEIRS}; this one was made at {OURS}"):
            await call()
    await graph.close()
    again = made()
    again.expect(THEIRS)
    await again.open()
    assert set(await again.fetch([key("work"), key("ship"), key("later")])) == {key("work"), key("ship")}


async def test_its_own_record_goes_on_where_it_was(made: Opener):
    await filled(made, OURS)
    graph = made()
    graph.expect(OURS)
    await graph.open()
    await graph.apply(changes(LATER, start=3))
    assert (graph.position, graph.database_identity) == (3, OURS)


async def test_before_the_record_is_known_only_an_empty_server_is_read(empty_oxigraph: Oxigraph):
    server = SparqlServer(url=empty_oxigraph.url)
    graph, first = (SparqlGraph(SparqlClient(server), has_record=True) for _ in range(2))
    await graph.open()
    assert await graph.select("SELECT ?s WHERE { { GRAPH ?g { ?s ?p ?o } } UNION { ?s ?p ?o } }") == []
    first.expect(OURS)
    await first.open()
    await first.apply(changes(WORK))
    await graph.open()
    for call in (lambda: graph.fetch([key("work")]), graph.check, lambda: graph.apply(changes(SHIP, start=2))):
        with pytest.raises(TransientSourceError, match="not read until this record's database identity is known"):
            await call()
    graph.expect(OURS)
    assert set(await graph.fetch([key("work")])) == {key("work")}
    await graph.close()
    await first.close()


async def test_a_collection_is_not_read_before_it_is_seen_to_be_of_the_record(
    stand_in: QdrantStandIn, sparse: SparseEncoder
):
    collection = f"test-{uuid4().hex}"
    async with AsyncExitStack() as stack:

        async def opened(*, has_record: bool) -> QdrantIndex:
            server = QdrantServer.at(stand_in.url)
            one = QdrantIndex(server, collection, HashingEmbedder(), sparse, has_record=has_record)
            stack.push_async_callback(one.close)
            await one.open()
            return one

        async def found(index: QdrantIndex) -> list[int]:
            hits, _ = await index.search_sparse(sparse.encode_query("Ana"), Scope(tenant=TENANT), 9)
            return [number for number, _ in hits]

        old, new = await opened(has_record=False), await opened(has_record=True)
        assert await found(new) == []
        await old.apply(changes(WORK))
        await new.open()
        with pytest.raises(TransientSourceError, match="this record's database identity is not known yet"):
            await found(new)
        new.expect(OURS)
        with pytest.raises(TransientSourceError, match="it has no database identity yet"):
            await found(new)
        await new.adopt()
        assert await found(new) == [key("work")]
        old.expect(THEIRS)
        with pytest.raises(AnotherRecordsCopy, match="ORION_QDRANT_COLLECTION another name"):
            await old.apply(changes(SHIP, start=2))
        assert await found(new) == [key("work")]
