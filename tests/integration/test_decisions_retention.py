"""Old decisions go in batches, one worker at a time, and it is said what went."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import pytest

from orion_recall.decisions.retention import Deleted, Retention, count_older, purge_older
from orion_recall.errors import RecordError
from orion_recall.postgres.periods import Periods
from orion_recall.postgres.pool import Pool, open_pool

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)


async def decide(
    pool: Pool, days_ago: float, count: int = 1, *, outcome: str = "ok", tenant: str | None = None
) -> None:
    await pool.execute(
        "INSERT INTO recall_decisions (id, corr_id, profile, query, latency_ms, created_at, outcome, tenant) "
        "SELECT gen_random_uuid(), 'c', 'p.v1', 'q', 1, $1, $2, $4 FROM generate_series(1, $3::int)",
        NOW - days_ago * DAY,
        outcome,
        count,
        tenant,
    )


async def left(pool: Pool) -> int:
    return await pool.fetchval("SELECT count(*) FROM recall_decisions")


async def gone(pool: Pool, expected: int) -> None:
    async with asyncio.timeout(30):
        while await left(pool) != expected:
            await asyncio.sleep(0.02)


async def test_a_purge_takes_what_is_older_and_says_what_went(pool: Pool) -> None:
    await decide(pool, 40, 3)
    await decide(pool, 31, 2)
    await decide(pool, 35, outcome="empty")
    await decide(pool, 29, 5)
    before = NOW - 30 * DAY
    would = await count_older(pool, before)
    assert await left(pool) == 11
    went = await purge_older(pool, before, batch_rows=2)
    assert went == would == Deleted(count=6, oldest=NOW - 40 * DAY, newest=NOW - 31 * DAY)
    assert await left(pool) == 5
    assert await purge_older(pool, before) == Deleted()


async def test_a_worker_deletes_in_batches_and_keeps_the_young(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "orion_recall.decisions")
    await decide(pool, 8, 25)
    await decide(pool, 6, 4)
    retention = Retention(pool, Periods(days=7), batch_rows=10, pause_s=0.01, every_s=0.05)
    running = asyncio.create_task(retention.run())
    await gone(pool, 4)
    await decide(pool, 9, 3)
    await gone(pool, 4)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert retention.deleted == 28
    assert "25 decisions older than 7 days are deleted" in caplog.text


async def test_a_tenant_may_have_days_of_its_own_or_keep_all(pool: Pool) -> None:
    for tenant in ("ana", "ben", "cy", None):
        for days_ago in (3, 10, 40):
            await decide(pool, days_ago, tenant=tenant)
    periods = Periods(days=30, by_tenant={"ana": 7, "ben": None})
    running = asyncio.create_task(Retention(pool, periods, every_s=0.05).run())
    await gone(pool, 1 + 3 + 2 + 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    rows = await pool.fetch("SELECT coalesce(tenant, '') AS tenant, count(*) FROM recall_decisions GROUP BY 1")
    assert {row["tenant"]: row["count"] for row in rows} == {"ana": 1, "ben": 3, "cy": 2, "": 2}


async def test_while_one_worker_deletes_the_others_leave_it_to_that_one(pool: Pool) -> None:
    await decide(pool, 8, 2)
    other = Retention(pool, Periods(days=7), every_s=0.05)
    async with pool.acquire() as connection:
        async with connection.transaction():
            assert await connection.fetchval("SELECT try_write_lock('decisions')")
            running = asyncio.create_task(other.run())
            await asyncio.sleep(0.3)
            assert (await left(pool), other.deleted) == (2, 0)
        await gone(pool, 0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_worker_waits_for_a_postgres_that_is_away_and_a_purge_says_so() -> None:
    pool = await open_pool("postgresql://nobody@127.0.0.1:1/none", name="test")
    try:
        with pytest.raises(RecordError, match="cannot be reached"):
            await purge_older(pool, NOW)
        running = asyncio.create_task(Retention(pool, Periods(days=1), every_s=0.01).run())
        await asyncio.sleep(0.2)
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    finally:
        await pool.close()
