from __future__ import annotations

from pathlib import Path

from orion_recall.graph.stores.oxigraph import RdfGraph, RowCache
from orion_recall.sources.graph import RdfSource
from tests.samples.source_samples import changes, memory, names, request

ROWS = [{"a": "1"}]


def test_rows_are_kept_until_something_is_written():
    kept = RowCache()
    assert kept.get("q") is None
    kept.keep("q", ROWS, kept.writes)
    assert kept.get("q") == ROWS
    kept.forget()
    assert kept.get("q") is None


def test_only_short_answers_to_the_last_queries_are_kept():
    kept = RowCache()
    kept.keep("long", ROWS * 500, kept.writes)
    kept.keep("wide", [{"a": "x" * 200_000}], kept.writes)
    for number in range(300):
        kept.keep(str(number), ROWS, kept.writes)
    assert (kept.get("long"), kept.get("wide")) == (None, None)
    assert kept.get("0") is None
    assert kept.get("299") == ROWS


async def test_a_write_is_seen_by_the_next_search(folder: Path):
    graph = RdfGraph(folder / "graph")
    await graph.open()
    one, other = (memory(name, "Bo repairs the Aurora.", entities=["Aurora"]) for name in ("one", "other"))
    arm = RdfSource(graph, None)
    await graph.apply(changes(one))
    for _ in range(2):
        assert names(await arm.search(request("Aurora")), [one, other]) == ["one"]
    await graph.apply(changes(other, start=2))
    assert set(names(await arm.search(request("Aurora")), [one, other])) == {"one", "other"}
    await graph.close()
