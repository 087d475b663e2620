"""Paths in a scope that is narrower than the tenant: what others said does not use up its ends."""

from __future__ import annotations

from test_memory_merges_graph import TENANT, graph, told

from orion_recall.contracts import MemoryV1
from orion_recall.graph.vocabulary import entity_iri
from orion_recall.graph.walks.path import PathBounds, find_path
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.postgres.pool import open_pool
from orion_recall.values import Scope

SISTERS = ("Mira", "Lea", "Zoe", "Ida", "Uma")


async def test_each_user_finds_what_he_said_himself(database: str) -> None:
    pool = await open_pool(database, name="paths", max_size=4)
    try:
        record = Record(pool)
        said = [
            {"id": name, "text": f"Ana's sister is {name}.", "user_id": name, "mentioned_at": 1.7e9}
            for name in SISTERS
        ]
        await record.store([compose(MemoryV1.model_validate(one), TENANT) for one in said])
        async with graph() as one:
            await told(record, one)
            for name in SISTERS:
                found = await find_path(
                    one,
                    TENANT,
                    str(entity_iri("Ana")),
                    via=("sister",),
                    now=1.8e9,
                    bounds=PathBounds(edges=16, scan=500, paths=2, memories=3, deadline_s=60.0),
                    scope=Scope(tenant=TENANT, user_id=name),
                )
                assert [path.entities for path in found.paths] == [("Ana", name)]
            everybodys = PathBounds(edges=16, scan=500, paths=2, memories=3, deadline_s=60.0)
            found = await find_path(
                one, TENANT, str(entity_iri("Ana")), via=("sister",), now=1.8e9, bounds=everybodys
            )
            assert len(found.paths) == 2
    finally:
        await pool.close()
