"""Merged names in the graph: it is what one built anew is; undone or forgotten, they leave no trace."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from test_memory_merges import catch_up, held

from orion_recall.contracts import MemoryV1
from orion_recall.graph.stores.oxigraph import RdfGraph
from orion_recall.graph.vocabulary import entity_iri
from orion_recall.graph.walks import PathBounds, find_path
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.memory.forget.record import ForgetRecord, Target
from orion_recall.memory.names.merges import Merges, WantedMerge
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.projector import Projector
from orion_recall.models.sparse import SparseEncoder
from orion_recall.postgres.pool import Pool, open_connection
from orion_recall.values import Scope
from tests.samples.source_samples import HashingEmbedder

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


async def test_edges_weights_and_labels_follow_a_merge_and_its_undoing(pool: Pool) -> None:
    record, merges = Record(pool), Merges(pool)
    await stored(record, *TOLD)
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


async def stored(record: Record, *memories: dict[str, Any]) -> None:
    await record.store([compose(MemoryV1.model_validate(one), TENANT) for one in memories])


async def merge(merges: Merges, *pairs: tuple[str, str]) -> list[int | None]:
    wanted = [WantedMerge(kind="entity", alias=alias, into=into) for alias, into in pairs]
    return [one.id for one in (await merges.merge(TENANT, wanted)).verdicts]


async def forget(database: str, target: Target) -> None:
    connection = await open_connection(database, name="forget", statement_timeout_ms=60_000)
    try:
        one = ForgetRecord(connection, target)
        await one.with_aliases()
        await one.begin(None)
        while await one.next_batch() is not None:
            pass
        await one.clear_around()
        await one.finish({})
    finally:
        await connection.close()


@pytest.mark.parametrize("target", [("user", "u1"), ("person", "Zanzibrok")])
async def test_a_forgotten_name_stays_in_no_copy_of_the_name_that_it_was_merged_into(
    target: Any, pool: Pool, database: str
) -> None:
    record, merges = Record(pool), Merges(pool)
    await stored(
        record,
        {"id": "a", "text": "Zanzibrok sold the boat.", "entities": ["Zanzibrok"], "user_id": "u1"},
        {"id": "b", "text": "Robert Miles oiled the crane.", "entities": ["Robert Miles"], "user_id": "u2"},
    )
    kind, value = target
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        index = EdgeIndex(Path(folder) / "index", HashingEmbedder(), SparseEncoder())
        await index.open()
        try:
            async with graph() as one:
                if kind == "user":
                    await merge(merges, ("Zanzibrok", "Robert Miles"))
                else:
                    await merge(merges, ("Zanzibrok", "Zanzi B."))
                    await merge(merges, ("Bob", "Robert Miles"))
                await told(record, one)
                await catch_up(record, index)
                await forget(database, Target.of(kind, TENANT, value))
                now = await told(record, one)
                await catch_up(record, index)
                assert now == await anew(record)
                assert not [triple for triple in now if "anzibrok" in str(triple)]
                assert not [point for point, _ in held(index).values() if "anzibrok" in str(point)]
                assert [one.alias for one in await merges.of(TENANT, undone=True)] == ["Bob"] * (kind == "person")
        finally:
            await index.close()


SISTERS = ("Mira", "Lea", "Zoe", "Ida", "Uma")


async def test_each_user_finds_what_he_said_himself(pool: Pool) -> None:
    """A scope is narrower than the tenant: what others said does not use up the ends of a path."""
    record = Record(pool)
    said = [
        {"id": name, "text": f"Ana's sister is {name}.", "user_id": name, "mentioned_at": 1.7e9} for name in SISTERS
    ]
    await record.store([compose(MemoryV1.model_validate(one), TENANT) for one in said])
    bounds = PathBounds(edges=16, scan=500, paths=2, memories=3, deadline_s=60.0)
    async with graph() as one:
        await told(record, one)
        for name in SISTERS:
            found = await find_path(
                one,
                TENANT,
                str(entity_iri("Ana")),
                via=("sister",),
                now=1.8e9,
                bounds=bounds,
                scope=Scope(tenant=TENANT, user_id=name),
            )
            assert [path.entities for path in found.paths] == [("Ana", name)]
        found = await find_path(one, TENANT, str(entity_iri("Ana")), via=("sister",), now=1.8e9, bounds=bounds)
        assert len(found.paths) == 2
