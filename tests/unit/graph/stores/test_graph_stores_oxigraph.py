"""The embedded graph's folder: kept, rebuilt, guarded."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pyoxigraph
import pytest

from orion_recall.errors import EngineError, SourceError
from orion_recall.graph.stores import oxigraph as rdf
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


async def test_a_deleted_folder_is_rebuilt_the_same(graph: RdfGraph, folder: Path):
    before = await everything(graph)
    await graph.close()
    shutil.rmtree(folder / "graph")
    again = RdfGraph(folder / "graph")
    await again.open()
    assert again.position == 0
    await again.apply(changes(*ALL))
    assert await everything(again) == before
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


async def test_a_store_that_cannot_be_opened_is_an_error_with_advice(graph: RdfGraph, folder: Path):
    await graph.close()
    (folder / "graph" / "store" / "CURRENT").write_text("garbage\n")
    with pytest.raises(SourceError, match=r"cannot be opened .*delete the folder and it will be rebuilt"):
        await RdfGraph(folder / "graph").open()
    shutil.rmtree(folder / "graph")
    again = RdfGraph(folder / "graph")  # the broken one has let the folder go
    await again.open()
    await again.close()


async def test_the_loop_goes_on_while_a_closing_graph_waits_for_a_query(
    graph: RdfGraph, monkeypatch: pytest.MonkeyPatch
):
    began, go_on = threading.Event(), threading.Event()

    def until_the_loop_says_so(store: object, query: str) -> list[dict[str, str]]:
        began.set()
        return [{"went": "on"}] if go_on.wait(60) else []

    monkeypatch.setattr(rdf, "rows_of", until_the_loop_says_so)
    asking = asyncio.create_task(graph.select("SELECT * WHERE { ?s ?p ?o }"))
    await asyncio.to_thread(began.wait, 60)
    closing = asyncio.create_task(graph.close())
    await asyncio.sleep(0)
    go_on.set()
    await closing
    assert await asking == [{"went": "on"}]
    with pytest.raises(SourceError, match="is not open"):
        await graph.select("SELECT * WHERE { ?s ?p ?o }")


async def test_what_was_written_leaves_the_engines_log_after_so_many_changes_and_at_the_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rdf, "_FLUSH_AFTER", 3)
    flushed: list[int] = []
    flush = RdfGraph._flush  # pyright: ignore[reportPrivateUsage]

    def noted(graph: RdfGraph) -> None:
        flush(graph)
        flushed.append(graph.position)

    monkeypatch.setattr(RdfGraph, "_flush", noted)
    graph = RdfGraph(folder / "graph")
    await graph.open()
    await graph.apply(changes(*ALL))
    assert flushed == [4]
    await graph.apply(changes(*ALL[:1]))
    await graph.close()
    assert flushed == [4, 1]
