"""Old decisions, receipts and dead letters go: in batches, one worker at a time, by the days of each tenant."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from executor import rows

from orion_recall.bus.connect import connect
from orion_recall.decisions.removal import OLD_DECISIONS, Deleted, count_older, purge_older
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import RecordError
from orion_recall.memory.intake.consumers import trim_dead_letters
from orion_recall.memory.intake.handlers import OLD_REQUESTS
from orion_recall.postgres.periods import OldRows, Periods, Retention
from orion_recall.postgres.pool import Pool, open_pool

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
# Each takes the time, the number and the tenant.
TABLES = {
    "recall_decisions": (
        OLD_DECISIONS,
        "INSERT INTO recall_decisions (id, corr_id, profile, query, latency_ms, created_at, outcome, tenant) "
        "SELECT gen_random_uuid(), 'c', 'p.v1', 'q', 1, $1, 'ok', $3 FROM generate_series(1, $2::int)",
    ),
    "memory_requests": (
        OLD_REQUESTS,
        "INSERT INTO memory_requests (tenant, idempotency_key, request_hash, receipt, at) "
        "SELECT $3, gen_random_uuid()::text, 'hash', '{}', $1 FROM generate_series(1, $2::int)",
    ),
}
of_both = pytest.mark.parametrize("table", TABLES)


async def add(
    pool: Pool, days_ago: float, count: int = 1, *, table: str = "recall_decisions", tenant: str = "default"
) -> None:
    await pool.execute(TABLES[table][1], NOW - days_ago * DAY, count, tenant)


async def left(pool: Pool, table: str = "recall_decisions") -> int:
    return await pool.fetchval(f"SELECT count(*) FROM {table}")


async def gone(pool: Pool, expected: int, table: str = "recall_decisions") -> None:
    async with asyncio.timeout(30):
        while await left(pool, table) != expected:
            await asyncio.sleep(0.02)


@asynccontextmanager
async def running(
    pool: Pool, periods: Periods, old: OldRows, *, batch_rows: int = 1000
) -> AsyncGenerator[Retention]:
    retention = Retention(pool, periods, old)
    retention.every_s, retention.batch_rows, retention.pause_s = 0.05, batch_rows, 0.01
    task = asyncio.create_task(retention.run())
    yield retention
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_purge_takes_what_is_older_and_says_what_went(pool: Pool) -> None:
    for days_ago, count in ((40, 3), (31, 2), (35, 1), (29, 5)):
        await add(pool, days_ago, count)
    before = NOW - 30 * DAY
    would = await count_older(pool, before)
    assert await left(pool) == 11
    went = await purge_older(pool, before, batch_rows=2)
    assert went == would == Deleted(count=6, oldest=NOW - 40 * DAY, newest=NOW - 31 * DAY)
    assert await left(pool) == 5
    assert await purge_older(pool, before) == Deleted()


@of_both
async def test_a_worker_deletes_in_batches_and_keeps_the_young(
    pool: Pool, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "orion_recall")
    await add(pool, 8, 25, table=table)
    await add(pool, 6, 4, table=table)
    old = TABLES[table][0]
    async with running(pool, Periods(days=7), old, batch_rows=10) as retention:
        await gone(pool, 4, table)
        await add(pool, 9, 3, table=table)
        await gone(pool, 4, table)
        async with asyncio.timeout(30):  # what is gone is counted after that
            while retention.deleted < 28:
                await asyncio.sleep(0.02)
    assert retention.deleted == 28
    assert f"25 {old.what} older than 7 days are deleted" in caplog.text


@of_both
async def test_a_tenant_may_have_days_of_its_own_or_keep_all(pool: Pool, table: str) -> None:
    for tenant in ("ana", "ben", "cy"):
        for days_ago in (3, 10, 40):
            await add(pool, days_ago, table=table, tenant=tenant)
    async with running(pool, Periods(days=30, by_tenant={"ana": 7, "ben": None}), TABLES[table][0]):
        await gone(pool, 1 + 3 + 2, table)
    found = await pool.fetch(f"SELECT tenant, count(*) FROM {table} GROUP BY 1")
    assert {row["tenant"]: row["count"] for row in found} == {"ana": 1, "ben": 3, "cy": 2}


async def test_while_one_worker_deletes_the_others_leave_it_to_that_one(pool: Pool) -> None:
    await add(pool, 8, 2)
    async with pool.acquire() as connection, connection.transaction():
        assert await connection.fetchval("SELECT try_write_lock('decisions')")
        async with running(pool, Periods(days=7), OLD_DECISIONS) as other:
            await asyncio.sleep(0.3)
            assert (await left(pool), other.deleted) == (2, 0)
    async with running(pool, Periods(days=7), OLD_DECISIONS):
        await gone(pool, 0)


async def test_a_worker_waits_for_a_postgres_that_is_away_and_a_purge_says_so() -> None:
    pool = await open_pool("postgresql://nobody@127.0.0.1:1/none", name="test")
    try:
        with pytest.raises(RecordError, match="cannot be reached"):
            await purge_older(pool, NOW)
        async with running(pool, Periods(days=1), OLD_DECISIONS):
            await asyncio.sleep(0.2)
    finally:
        await pool.close()


async def test_letters_of_more_than_so_many_days_go_and_the_young_stay(bus_alone: EmbeddedEngines) -> None:
    streams, now = [f"{uuid4().hex}:dead" for _ in range(3)], 1_700_000_000.0
    async with connect(bus_alone.redis_url) as redis:
        for stream in streams[:2]:
            for days in (40, 31, 29, 0):
                await redis.xadd(stream, {"reason": f"{days}"}, id=f"{int(now * 1000) - days * 86_400_000}-1")
        assert [await trim_dead_letters(redis, streams, now - 30 * 86_400) for _ in range(2)] == [4, 0]
        for stream in streams[:2]:
            assert [fields[b"reason"] for _, fields in await rows(redis, stream)] == [b"29", b"0"]
        assert not await redis.exists(streams[2])
        await redis.unlink(*streams)
