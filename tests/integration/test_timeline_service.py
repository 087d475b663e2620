"""A whole service whose timeline is a table of the mesh's, in the database that its own record is in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from executor import until
from serving import caught_up, started_with_client
from timelines import run

from orion_recall.contracts import RecallReplyV1
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.settings import Settings
from tests.stand_ins.patient_profiles import patient_profiles

QUESTION = "What does the harbour crane need?"
OWN = {"id": "7", "text": "The harbour crane needs a new gearbox.", "source": "chat"}


def told(minutes: int) -> str:
    return (datetime.now(UTC) - timedelta(minutes=minutes)).replace(tzinfo=None).isoformat()


async def mirror(dsn: str) -> None:
    await run(
        dsn,
        "CREATE SCHEMA mesh",
        'CREATE TABLE mesh.collapse_mirror (id varchar, summary text, mantra text, "timestamp" varchar)',
        "INSERT INTO mesh.collapse_mirror VALUES "
        f"('7', 'The harbour crane needs grease.', 'Steady.', '{told(9)}'), "
        f"('8', 'The harbour crane needs paint.', NULL, '{told(5)}'), ('9', 'The crane is lost.', NULL, 'unknown')",
    )


async def answer(settings: Settings, expected: set[str]) -> RecallReplyV1:
    """The reply of a service with the own memory, once the items are those that are expected."""
    replies: list[RecallReplyV1] = []
    async with started_with_client(settings) as (service, client):
        receipt = await client.store([OWN | {"occurred_at": told(2) + "Z"}])
        await caught_up(service, receipt.position or 0)

        async def found() -> bool:
            replies.append(await client.recall(QUESTION, options={}))
            return {item.id for item in replies[-1].bundle.items} == expected

        await until(found, f"{expected} in the bundle")
    return replies[-1]


def settings_of(engines: EmbeddedEngines, database: str, folder: Path, prefix: str, **changes: Any) -> Settings:
    return Settings.read(
        redis_url=engines.redis_url, postgres_dsn=database, data_dir=folder / "data", prefix=prefix, reply_ttl_s=60,
        deadline_ms=20_000, profiles_dir=patient_profiles(folder), **changes,
    )  # fmt: skip


async def test_their_rows_are_cited_by_table_and_id_beside_an_own_memory_of_the_same_id(
    service_engines: EmbeddedEngines, database: str, tmp_path: Path, prefix: str
) -> None:
    await mirror(database)
    settings = settings_of(
        service_engines, database, tmp_path, prefix,
        timeline_table="mesh.collapse_mirror", timeline_columns="text=summary+mantra", timeline_tenant="default",
    )  # fmt: skip
    theirs = {"mesh.collapse_mirror:7", "mesh.collapse_mirror:8"}
    reply = await answer(settings, {"7", *theirs})
    items = {item.id: item for item in reply.bundle.items}
    assert {(items[name].source, items[name].source_ref) for name in theirs} == {
        ("sql_timeline", "mesh.collapse_mirror")
    }
    assert items["7"].source_ref == "chat"
    assert "gearbox" in items["7"].snippet
    assert "grease" in items["mesh.collapse_mirror:7"].snippet
    assert "Steady." in items["mesh.collapse_mirror:7"].snippet
    assert reply.bundle.stats.outcome == "ok"
