"""Reading beside a worker, and from a server: the same answers, and one tenant's only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from rdflib import URIRef

from orion_recall.errors import SourceError, TransientSourceError
from orion_recall.graph.stores.oxigraph import RdfGraph
from orion_recall.graph.stores.reader import GraphReader, open_graph_reader
from orion_recall.graph.stores.sparql import SparqlGraph
from orion_recall.graph.stores.sparql_client import SparqlClient, SparqlServer
from orion_recall.graph.vocabulary import tenant_graph
from orion_recall.settings import Settings
from tests.samples.source_samples import changes, memory
from tests.stand_ins.oxigraph import oxigraph

OURS = (memory("m1", 'Ana said "hi".', speaker="Ana"), memory("m2", "Bo rests.", speaker="Bo"))
THEIRS = memory("secret", "Eve knows.", speaker="Eve", tenant="other")
IDS = "SELECT ?id WHERE { ?memory <urn:orion:vocabulary:id> ?id } ORDER BY ?id"
NAMED = "SELECT ?id WHERE { GRAPH ?g { ?memory <urn:orion:vocabulary:id> ?id } } ORDER BY ?id"
US = tenant_graph("acme")
# Some seconds: a query of a folder cannot be stopped, and a longer one would run beside all other tests.
HEAVY = "SELECT (COUNT(*) AS ?n) WHERE { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i FILTER(?a = ?i) }"


@pytest.fixture(params=["folder", "server"])
async def reader(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[GraphReader]:
    async with AsyncExitStack() as stack:
        settings = Settings.read(data_dir=folder)
        if request.param == "server":
            server = await stack.enter_async_context(oxigraph())
            settings = settings.changed(sparql_url=server.url)
            graph = SparqlGraph(SparqlClient(SparqlServer(url=server.url)))
        else:
            graph = RdfGraph(folder / "graph")
        await graph.open()  # and it stays open: a worker runs
        stack.push_async_callback(graph.close)
        await graph.apply(changes(*OURS, THEIRS))
        yield await stack.enter_async_context(open_graph_reader(settings, timeout_s=20))


@pytest.mark.parametrize("query", [IDS, NAMED])
async def test_a_confined_query_sees_one_tenant(reader: GraphReader, query: str):
    found = await reader.table(query, graph=US, limit=10)
    assert (found.columns, found.rows, found.truncated) == (("id",), (("m1",), ("m2",)), False)
    assert (await reader.table(query, graph=tenant_graph("nobody"), limit=10)).rows == ()


async def test_rows_are_capped_and_that_is_said(reader: GraphReader):
    found = await reader.table(IDS, graph=US, limit=1)
    assert (found.rows, found.truncated) == ((("m1",),), True)


async def test_a_query_that_takes_too_long_is_given_up(folder: Path):
    graph = RdfGraph(folder / "graph")
    await graph.open()
    await graph.apply(changes(*(memory(f"m{n}", f"Ana met P{n}.", speaker="Ana") for n in range(6))))
    await graph.close()
    async with open_graph_reader(Settings.read(data_dir=folder), timeout_s=0.2) as reader:
        began = asyncio.get_running_loop().time()
        with pytest.raises(TransientSourceError, match=r"no answer within 0.2 s"):
            await reader.table(HEAVY, graph=URIRef(US), limit=10)
        assert asyncio.get_running_loop().time() - began < 30


async def test_a_folder_without_a_graph_says_what_to_do(folder: Path):
    with pytest.raises(SourceError, match=r"there is no graph in .*orion-recall up.*--data.*ORION_SPARQL_URL"):
        async with open_graph_reader(Settings.read(data_dir=folder), timeout_s=5):
            pass
    assert not (folder / "graph").exists()


async def test_a_server_that_is_away_is_a_source_error(folder: Path):
    settings = Settings.read(data_dir=folder, sparql_url="http://127.0.0.1:9/query")
    async with open_graph_reader(settings, timeout_s=5) as reader:
        with pytest.raises(TransientSourceError, match="cannot be reached"):
            await reader.table(IDS, graph=US, limit=1)
