"""While Postgres is away: nothing is lost, nothing counts as poison, and queries are answered without it."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from executor import Executor, info, pending, until
from serving import caught_up

from orion_recall.client import RecallClient
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.postgres.pool import open_connection
from orion_recall.serving.service import Service

pytestmark = pytest.mark.slow

KIND = "memory.store.v1"
WITH_OPTIONS: dict[str, Any] = {"fragment": "Where does Ana work?", "options": {}}


async def test_memories_and_decisions_wait_for_postgres_and_queries_do_not(
    service: Service, service_engines: EmbeddedEngines, executor: Executor, client: RecallClient, tenant: str
) -> None:
    stream = executor.prefix + KIND
    name = f"m-{uuid4().hex[:8]}"
    store = executor.message({"memories": [{"id": name, "tenant": tenant, "text": "It rained."}]}, kind=KIND)

    async def claims() -> int:
        stats = await info(executor.redis, "commandstats")
        return stats.get("cmdstat_xclaim", {}).get("calls", 0)

    async def sink_waits() -> bool:
        return service.background.sink is not None and service.background.sink.postgres_is_away

    await service_engines.postgres.stop()
    try:
        stored = await executor.add({"envelope": json.dumps(store)}, stream=stream)
        degraded = await executor.ended(await executor.ask(WITH_OPTIONS))
        assert degraded.decision["outcome"] == "degraded"
        assert degraded.decision["sources"]["sql_timeline"]["status"] == "failed"
        stats = degraded.own[0]["payload"]["bundle"]["stats"]
        assert (stats["outcome"], stats["sources"]["sql_timeline"]["status"]) == ("degraded", "failed")
        assert "Postgres" in stats["sources"]["sql_timeline"]["error"]
        assert degraded.own[0]["payload"]["bundle"]["items"][0]["id"] == "m-work"
        light = await client.recall("Where does Ana work?", profile="assist.light.v1", options={})
        assert light.bundle.stats.outcome == "ok", "a profile without the timeline does not miss it"

        # One that others have died of four times is tried once more, and waiting counts for nothing.
        again = executor.message(
            {"memories": [{"id": f"{name}-2", "tenant": tenant, "text": "It poured."}]}, kind=KIND
        )
        orphan = await executor.hand_to_a_dead_worker({"envelope": json.dumps(again)}, deliveries=4, stream=stream)

        async def counted_once() -> bool:
            return await pending(executor.redis, stream) == {stored: 1, orphan: 1}

        await until(counted_once, "delivery counts are reset")
        await until(sink_waits, "the sink waits")
        before = await claims()

        async def refreshed_for_a_while() -> bool:
            return await claims() >= before + 15

        await until(refreshed_for_a_while, "the store message has waited for several idle limits")
        assert await counted_once()
    finally:
        await service_engines.postgres.start()

    async def answered() -> bool:
        return not await executor.redis.xrange(stream, stored, orphan)

    await until(answered, "the store messages are answered")
    receipts = (await executor.replies(executor.reply_to))[-2:]
    assert [(one["kind"], one["payload"]["stored"]) for one in receipts] == [("memory.receipt.v1", 1)] * 2
    await caught_up(service, max(one["payload"]["position"] for one in receipts))
    connection = await open_connection(service_engines.postgres_dsn, name="test", statement_timeout_ms=5000)
    ids = [degraded.decision["id"], light.bundle.stats.decision_id]

    async def all_there() -> bool:
        found = await connection.fetch("SELECT outcome FROM recall_decisions WHERE id = ANY($1::uuid[])", ids)
        return sorted(row["outcome"] for row in found) == ["degraded", "ok"]

    await until(all_there, "the decisions are in Postgres")
    await connection.close()
