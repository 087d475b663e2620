"""The graph on a SPARQL server that comes and goes, and that others write to."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace

import pytest

from orion_recall.errors import SourceError, TransientSourceError
from orion_recall.graph.projection import METADATA_QUERY, plan_changes, run_plan, updates
from orion_recall.graph.stores.sparql import SparqlGraph
from orion_recall.graph.stores.sparql_client import SparqlClient, SparqlServer
from orion_recall.graph.vocabulary import ORION
from orion_recall.sources.graph import RdfSource
from orion_recall.values import Change
from tests.samples.source_samples import changes, key, memory, request
from tests.stand_ins.oxigraph import Oxigraph, oxigraph
from tests.stand_ins.servers import Answer, Asked, answering

ALL = tuple(memory(f"m{number}", f"Ana sees the Aurora, {number}.", speaker="Ana") for number in range(6))
POSITION = "<urn:orion:projection> <urn:orion:vocabulary:position>"


def graph_at(url: str, *, query_timeout_s: float = 10.0) -> SparqlGraph:
    return SparqlGraph(SparqlClient(SparqlServer(url=url), query_timeout_s=query_timeout_s))


def sparql_term(steps: Sequence[Change], held: int) -> Iterator[str]:
    """The requests for a graph that has nothing of what the steps tell."""
    return updates(run_plan(plan_changes(steps), lambda _: []), held, steps[-1].position)


@pytest.fixture
async def graph(empty_oxigraph: Oxigraph) -> AsyncIterator[SparqlGraph]:
    opened = graph_at(empty_oxigraph.url)
    await opened.open()
    yield opened
    await opened.close()


async def everything(graph: SparqlGraph) -> set[tuple[str, ...]]:
    rows = await graph.select("SELECT ?g ?s ?p ?o WHERE { GRAPH ?g { ?s ?p ?o } }")
    return {tuple(row[name] for name in "gspo") for row in rows}


async def positions(graph: SparqlGraph) -> list[str]:
    return [row["position"] for row in await graph.select(METADATA_QUERY) if "position" in row]


async def test_one_that_believes_to_be_elsewhere_writes_nothing_and_learns_where_the_graph_is(
    graph: SparqlGraph, empty_oxigraph: Oxigraph
):
    other = graph_at(empty_oxigraph.url)
    await other.open()
    await graph.apply(changes(*ALL))
    before = await everything(graph)
    await other.apply(changes(memory("late", "Bo is late."), start=1))
    assert other.position == 6
    assert await everything(graph) == before
    await other.apply(changes(memory("next", "Bo is next."), start=7))
    assert (other.position, set(await graph.fetch([key("next"), key("late")]))) == (7, {key("next")})
    await other.close()


async def test_what_a_server_carries_out_late_changes_nothing(graph: SparqlGraph, empty_oxigraph: Oxigraph):
    a, b, c = (memory(name, f"turn {name}", session_id="talk") for name in "abc")
    late = list(sparql_term(changes(a, c), 0))
    await graph.apply(changes(a, c))
    await graph.apply(changes(a, b, c, start=3))
    before = await everything(graph)
    for operation in late:
        await empty_oxigraph.update(operation)
    assert await everything(graph) == before
    assert await positions(graph) == ["5"]


async def test_a_graph_of_another_format_is_left_as_it_is_and_says_what_to_do(
    graph: SparqlGraph, empty_oxigraph: Oxigraph
):
    await empty_oxigraph.update(
        f"INSERT DATA {{ {POSITION} 9 . GRAPH <urn:orion:tenant:old> {{ <urn:a> <urn:p> 1 }} }}"
    )
    with pytest.raises(TransientSourceError, match="is of another format: empty its data set"):
        await graph.open()
    with pytest.raises(SourceError, match="is of another format"):
        await graph.select("SELECT * WHERE { ?s ?p ?o }")
    await empty_oxigraph.update("DROP ALL")
    await graph.open()
    await graph.apply(changes(*ALL))
    assert graph.position == 6


async def test_a_server_that_is_away_at_the_start_is_found_when_it_comes():
    async with oxigraph() as server:
        first = graph_at(server.url)
        await first.open()
        await first.apply(changes(*ALL))
        await first.close()
        await server.stop()
        graph = graph_at(server.url)
        with pytest.raises(TransientSourceError, match="cannot be reached"):
            await graph.open()
        assert graph.position == 0
        with pytest.raises(TransientSourceError, match="cannot be reached"):
            await graph.select("SELECT * WHERE { ?s ?p ?o }")
        with pytest.raises(TransientSourceError, match="cannot be reached"):
            await graph.apply(changes(*ALL))
        await server.start()
        assert set(await graph.fetch([key("m1")])) == {key("m1")}
        assert graph.position == 6
        await graph.close()


async def test_a_server_that_keeps_nothing_is_an_error_and_not_an_endless_loop():
    empty = b'{"head": {"vars": []}, "results": {"bindings": []}}'
    async with answering(lambda _: Answer(media_type="application/sparql-results+json", body=empty)) as stand_in:
        graph = graph_at(f"{stand_in.url}/query")
        await graph.open()
        with pytest.raises(SourceError, match="does not give back what was written"):
            await graph.apply(changes(*ALL))
        await graph.close()


STRANGE = [
    {"x": "1"},
    {"seed": "9", "hop": "1", "memory": "urn:orion:memory:1", "property": "p"},
    {"seed": "0", "hop": "1", "memory": "urn:theirs", "property": f"{ORION}id", "value": "1"},
]


@pytest.mark.parametrize("row", STRANGE, ids=str)
async def test_rows_that_were_not_asked_for_are_a_source_error(row: dict[str, str]):
    rows = [{name: {"type": "literal", "value": value} for name, value in row.items()}]
    body = json.dumps({"head": {"vars": list(row)}, "results": {"bindings": rows}}).encode()
    answer = Answer(media_type="application/sparql-results+json", body=body)

    def told(asked: Asked) -> Answer:
        nothing = b'{"head": {"vars": []}, "results": {"bindings": []}}'
        return replace(answer, body=nothing) if POSITION in asked.body.decode() else answer

    async with answering(told) as stand_in:
        graph = graph_at(f"{stand_in.url}/query")
        await graph.open()
        with pytest.raises(SourceError, match="does not fit the query"):
            await graph.fetch([1])
        with pytest.raises(SourceError, match="does not fit the query"):
            await graph.held()
        with pytest.raises(SourceError, match="does not fit the query"):
            await RdfSource(graph, OneName()).search(request("Aurora"))
        await graph.close()


class OneName:
    """Finds one entity in every text."""

    async def find_entities(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        return [("Aurora", 1.0)]
