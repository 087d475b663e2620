"""Whose a graph is: embedded, and on a SPARQL server that another record has filled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from source_samples import changes, key, memory, request

from orion_recall.errors import AnotherRecordsCopy, SourceError, TransientSourceError
from orion_recall.sources.rdf import RdfGraph, RdfSource
from orion_recall.sources.sparql import SparqlGraph
from orion_recall.sources.sparql_client import SparqlClient, SparqlServer
from tests.stand_ins.oxigraph import Oxigraph

OURS, THEIRS = "2026-11-01T00:00:00.000001Z", "2026-11-02T00:00:00.000002Z"
WORK, SHIP, LATER = (
    memory(name, text)
    for name, text in (
        ("work", "Ana works at Fjord Labs."),
        ("ship", "Bo repairs the Aurora."),
        ("later", "It rains."),
    )
)
Opener = Callable[[], RdfGraph | SparqlGraph]


@pytest.fixture(params=["embedded", "server"])
async def made(request: pytest.FixtureRequest, folder: Path, empty_oxigraph: Oxigraph) -> AsyncIterator[Opener]:
    """Makes graphs over the same data; an embedded one must be closed before the next is opened."""
    server = SparqlServer(url=empty_oxigraph.url)
    async with AsyncExitStack() as stack:

        def make() -> RdfGraph | SparqlGraph:
            one = RdfGraph(folder / "graph") if request.param == "embedded" else SparqlGraph(SparqlClient(server))
            stack.push_async_callback(one.close)
            return one

        yield make


async def everything(graph: RdfGraph | SparqlGraph) -> list[dict[str, str]]:
    rows = await graph.select(
        "SELECT ?s ?p ?o WHERE { { GRAPH ?g { ?s ?p ?o } } UNION { ?s ?p ?o } } ORDER BY ?s ?p ?o"
    )
    return [dict(row) for row in rows]


async def filled(made: Opener, record: str | None) -> None:
    """A graph with two memories, by the record of that mark, or by a version that knew no marks."""
    graph = made()
    await graph.open()
    if record is not None:
        graph.expect(record)
        await graph.adopt(None)
    await graph.apply(changes(WORK, SHIP))
    assert graph.record == record
    await graph.close()


async def test_a_graph_of_another_record_is_neither_read_nor_written(made: Opener):
    await filled(made, THEIRS)
    graph = made()
    graph.expect(OURS)
    for call in (
        graph.open,
        graph.check,
        lambda: graph.fetch([key("work")]),
        lambda: graph.apply(changes(LATER, start=3)),
        lambda: RdfSource(graph, None).search(request("Fjord Labs")),
        lambda: RdfSource(graph, None).search(request("is it")),
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
    assert (graph.position, graph.record) == (3, OURS)


async def test_a_graph_from_before_marks_is_adopted_by_the_record_whose_newest_memory_it_holds(made: Opener):
    await filled(made, None)
    graph = made()
    graph.expect(OURS)
    await graph.open()
    with pytest.raises(AnotherRecordsCopy, match="says of no record that it is its copy"):
        await graph.adopt(memory("ship", "Bo sold the Aurora."))
    with pytest.raises(AnotherRecordsCopy):
        await graph.adopt(LATER)
    assert graph.record is None
    await graph.adopt(SHIP)
    assert graph.record == OURS
    await graph.check()
    await graph.apply(changes(LATER, start=3))
    assert (graph.position, graph.record) == (3, OURS)
    await graph.close()
    other = made()
    other.expect(THEIRS)
    with pytest.raises(AnotherRecordsCopy):
        await other.open()


@pytest.fixture
async def shared(empty_oxigraph: Oxigraph) -> AsyncIterator[Callable[[], SparqlGraph]]:
    """Makes graphs on one server as a worker with a record has them."""
    async with AsyncExitStack() as stack:

        def make() -> SparqlGraph:
            one = SparqlGraph(SparqlClient(SparqlServer(url=empty_oxigraph.url)), has_record=True)
            stack.push_async_callback(one.close)
            return one

        yield make


async def test_before_the_record_is_known_only_an_empty_server_is_read(shared: Callable[[], SparqlGraph]):
    graph = shared()
    await graph.open()
    assert await everything(graph) == []
    first = shared()
    first.expect(OURS)
    await first.open()
    await first.apply(changes(WORK))
    await graph.open()
    for call in (lambda: graph.fetch([key("work")]), graph.check, lambda: graph.apply(changes(SHIP, start=2))):
        with pytest.raises(TransientSourceError, match="this record's mark is not known yet"):
            await call()
    graph.expect(OURS)
    assert set(await graph.fetch([key("work")])) == {key("work")}


async def test_a_server_without_a_mark_is_not_read_until_somebody_adopts_it(
    shared: Callable[[], SparqlGraph], empty_oxigraph: Oxigraph
):
    old = SparqlGraph(SparqlClient(SparqlServer(url=empty_oxigraph.url)))
    await old.open()
    await old.apply(changes(WORK))
    await old.close()
    one, other = shared(), shared()
    for graph in (one, other):
        graph.expect(OURS)
        await graph.open()
        with pytest.raises(TransientSourceError, match="it has no record's mark yet"):
            await graph.fetch([key("work")])
    await one.adopt(WORK)
    assert set(await other.fetch([key("work")])) == {key("work")}


async def test_of_two_records_that_meet_on_an_empty_server_one_has_it(shared: Callable[[], SparqlGraph]):
    one, other = shared(), shared()
    one.expect(OURS)
    other.expect(THEIRS)
    await one.open()
    await other.open()
    await one.apply(changes(WORK))
    before = await everything(one)
    with pytest.raises(AnotherRecordsCopy):
        await other.apply(changes(SHIP))
    assert await everything(one) == before


async def test_an_emptied_server_is_taken_without_a_restart(
    shared: Callable[[], SparqlGraph], empty_oxigraph: Oxigraph
):
    theirs, ours = shared(), shared()
    theirs.expect(THEIRS)
    ours.expect(OURS)
    await theirs.open()
    await theirs.apply(changes(WORK))
    with pytest.raises(AnotherRecordsCopy, match="ORION_SPARQL_URL"):
        await ours.check()
    await empty_oxigraph.update("DROP ALL")
    await ours.check()
    await ours.apply(changes(SHIP))
    assert set(await ours.fetch([key("work"), key("ship")])) == {key("ship")}
    with pytest.raises(AnotherRecordsCopy):
        await theirs.open()


async def test_two_marks_are_refused_to_both(shared: Callable[[], SparqlGraph], empty_oxigraph: Oxigraph):
    for mark in (OURS, THEIRS):
        await empty_oxigraph.update(
            f'INSERT DATA {{ <urn:orion:projection> <urn:orion:vocabulary:record> "{mark}" }}'
        )
    for mark in (OURS, THEIRS):
        graph = shared()
        graph.expect(mark)
        with pytest.raises(AnotherRecordsCopy):
            await graph.open()


async def test_a_dead_server_is_no_empty_one_for_a_question_that_names_nothing(empty_oxigraph: Oxigraph):
    source_of = SparqlGraph(SparqlClient(SparqlServer(url="http://127.0.0.1:9/query")))
    with pytest.raises(TransientSourceError, match="cannot be reached"):
        await source_of.open()
    with pytest.raises(SourceError, match="cannot be reached"):
        await RdfSource(source_of, Nothing()).search(request("is anybody there"))
    await source_of.close()
    well = SparqlGraph(SparqlClient(SparqlServer(url=empty_oxigraph.url)))
    await well.open()
    assert await RdfSource(well, Nothing()).search(request("is anybody there")) == []
    await well.close()


class Nothing:
    """Finds no entity in any text."""

    async def find_entities(self, text: str, tenant: str, limit: int) -> list[tuple[str, float]]:
        return []
