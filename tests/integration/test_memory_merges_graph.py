"""Merged names in the graph of a real record: it is what one built anew is, and undoing leaves no trace."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from orion_recall.contracts import MemoryV1
from orion_recall.graph.stores.oxigraph import RdfGraph
from orion_recall.memory.names.merges import Merges, WantedMerge
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.projector import Projector
from orion_recall.postgres.pool import open_pool

TENANT = "default"
TOLD: list[dict[str, Any]] = [
    {"id": "a", "text": "I work at Fjord Labs.", "speaker": "Bob"},
    {"id": "b", "text": "Robert works at Fjord Labs.", "entities": ["Robert"]},
    {"id": "c", "text": "Robert moved to Oslo.", "entities": ["Robert"]},
    {"id": "d", "text": "Bob moved to Oslo.", "entities": ["Bob"], "occurred_at": 1772366400.0},
]


@asynccontextmanager
async def graph() -> AsyncGenerator[RdfGraph]:
    with tempfile.TemporaryDirectory(prefix="orion-test-", dir="/tmp") as made:
        one = RdfGraph(Path(made) / "graph")
        await one.open()
        try:
            yield one
        finally:
            await one.close()


async def told(record: Record, one: RdfGraph) -> set[tuple[str, ...]]:
    """All that the graph says, once it is up to date."""
    await Projector(record, one, copy="test").catch_up()
    rows = await one.select("SELECT ?s ?p ?o WHERE { GRAPH ?g { ?s ?p ?o } }")
    return {(row["s"], row["p"], row["o"]) for row in rows}


async def anew(record: Record) -> set[tuple[str, ...]]:
    async with graph() as one:
        return await told(record, one)


async def test_edges_weights_and_labels_follow_a_merge_and_its_undoing(database: str) -> None:
    pool = await open_pool(database, name="merges", max_size=2)
    record, merges = Record(pool), Merges(pool)
    try:
        await record.store([compose(MemoryV1.model_validate(one), TENANT) for one in TOLD])
        async with graph() as one:
            before = await told(record, one)
            wanted = [
                WantedMerge(kind="entity", alias="Bob", into="Robert"),
                WantedMerge(kind="relation", alias="moved to", into="lives in"),
            ]
            done = await merges.merge(TENANT, wanted)
            now = await told(record, one)
            assert now == await anew(record) != before
            assert not any("urn:orion:entity:bob" in triple for triple in now)
            robert = "urn:orion:entity:robert"
            assert (robert, "http://www.w3.org/2004/02/skos/core#hiddenLabel", "Bob") in now
            assert {value for _, name, value in now if name.endswith(":weight")} == {"2"}
            texts = {value for _, name, value in now if name.endswith(":text")}
            assert texts == {"Robert works at Fjord Labs", "Robert lives in Oslo"}
            await merges.undo(TENANT, [verdict.id or 0 for verdict in done.verdicts])
            assert await told(record, one) == await anew(record) == before
    finally:
        await pool.close()
