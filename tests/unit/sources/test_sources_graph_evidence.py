from __future__ import annotations

from pathlib import Path

from orion_recall.graph.stores.oxigraph import RdfGraph
from orion_recall.recall.ranking.score import evidence_of
from orion_recall.sources.graph_evidence import GraphEvidence
from tests.samples.source_samples import TENANT, changes, key, memory

MEMORIES = (
    memory("one", "Ida works at Fjord Labs."),
    memory("two", "Ida works at Fjord Labs. Ida is Ana's sister."),
    memory("none", "It rained."),
    memory("leak", "Ida works at Fjord Labs.", tenant="other"),
)


async def test_evidence_is_how_often_the_statements_of_a_memory_are_stated(folder: Path):
    graph = RdfGraph(folder / "graph")
    await graph.open()
    try:
        await graph.apply(changes(*MEMORIES))
        found = GraphEvidence(graph)
        keys = [key(name) for name in ("one", "two", "none")]
        assert await found.weights(TENANT, keys) == {key("one"): 2.0, key("two"): 3.0}
        assert await found.weights(TENANT, []) == {}
        assert await found.weights("other", keys) == {}, "of another tenant nothing is known"
        assert await evidence_of(keys, TENANT, found, weight=0.0, timeout_s=5.0) == {}
        assert key("two") in await evidence_of(keys, TENANT, found, weight=0.1, timeout_s=5.0)
        assert await evidence_of(keys, TENANT, None, weight=0.1, timeout_s=5.0) == {}
    finally:
        await graph.close()
    assert await evidence_of(keys, TENANT, found, weight=0.1, timeout_s=5.0) == {}, (
        "a graph that is away gives none"
    )
