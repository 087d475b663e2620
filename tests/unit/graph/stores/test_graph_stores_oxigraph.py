"""The embedded graph's folder: kept, rebuilt, guarded."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pyoxigraph
import pytest

from orion_recall.errors import EngineError, SourceError
from orion_recall.graph.stores.oxigraph import RdfGraph
from orion_recall.sources.graph import RdfSource
from tests.samples.source_samples import changes, memory, names, request

ALL = (
    memory("work", "I work at Fjord Labs.", speaker="Ana", session_id="s1"),
    memory("place", "Fjord Labs is in Bergen.", session_id="s1"),
    memory("ship", "Bo repairs the Aurora.", entities=["Aurora"]),
    memory("leak", "Eve works at Fjord Labs.", tenant="other"),
)


@pytest.fixture
async def graph(folder: Path) -> AsyncIterator[RdfGraph]:
    opened = RdfGraph(folder / "graph")
    await opened.open()
    await opened.apply(changes(*ALL))
    yield opened
    await opened.close()


async def everything(graph: RdfGraph) -> set[tuple[str, ...]]:
    rows = await graph.select("SELECT ?g ?s ?p ?o WHERE { GRAPH ?g { ?s ?p ?o } }")
    return {tuple(row[name] for name in "gspo") for row in rows}


async def test_position_and_triples_survive_reopening(graph: RdfGraph, folder: Path):
    before = await everything(graph)
    await graph.close()
    again = RdfGraph(folder / "graph")
    await again.open()
    try:
        assert again.position == 4
        assert await everything(again) == before
    finally:
        await again.close()


async def test_a_graph_of_another_format_is_emptied_and_written_anew(
    graph: RdfGraph, folder: Path, caplog: pytest.LogCaptureFixture
):
    before = await everything(graph)
    await graph.close()
    store = pyoxigraph.Store(str(folder / "graph" / "store"))
    store.update("DELETE WHERE { <urn:orion:projection> <urn:orion:vocabulary:format> ?any }")
    store.update("INSERT DATA { GRAPH <urn:orion:tenant:acme> { <urn:orion:statement:1> <urn:p> 1 } }")
    del store
    again = RdfGraph(folder / "graph")
    await again.open()
    assert (again.position, await everything(again)) == (0, set())
    assert "is of another format: it is built anew" in caplog.text
    await again.apply(changes(*ALL))
    assert await everything(again) == before
    await again.close()


async def test_a_second_owner_is_refused_and_the_first_goes_on(graph: RdfGraph, folder: Path):
    with pytest.raises(EngineError, match=r"the graph .*already open in this process.*ORION_DATA_DIR"):
        await RdfGraph(folder / "graph").open()
    assert set(names(await RdfSource(graph, None).search(request("Fjord Labs")), ALL)) == {"work", "place"}


async def test_an_opening_that_is_cancelled_lets_the_folder_go_and_writes_nothing_after(folder: Path):
    opening = asyncio.create_task(RdfGraph(folder / "new").open())
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    again = RdfGraph(folder / "new")
    await again.open()
    await again.close()


async def test_a_store_that_cannot_be_opened_is_an_error_with_advice(graph: RdfGraph, folder: Path):
    await graph.close()
    (folder / "graph" / "store" / "CURRENT").write_text("garbage\n")
    with pytest.raises(SourceError, match=r"cannot be opened .*delete the folder and it will be rebuilt"):
        await RdfGraph(folder / "graph").open()
    shutil.rmtree(folder / "graph")
    again = RdfGraph(folder / "graph")  # the broken one has let the folder go
    await again.open()
    await again.close()
