"""Merged names whose memories are forgotten, or whose merge is undone, leave the copies, and chains lead on."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from test_memory_merges import catch_up, held
from test_memory_merges_graph import TENANT, anew, graph, told

from orion_recall.contracts import MemoryV1
from orion_recall.index.embedded.index import EdgeIndex
from orion_recall.memory.forget.record import ForgetRecord, Target
from orion_recall.memory.names.merges import Merges, WantedMerge
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.models.sparse import SparseEncoder
from orion_recall.postgres.pool import Pool, open_connection
from tests.samples.source_samples import HashingEmbedder


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
        await one.clear_around(lambda place, count: None)
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
