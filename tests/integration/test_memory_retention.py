"""Answers to requests are kept for a week, dead letters for so many days."""

from __future__ import annotations

import asyncio
from uuid import uuid4

from executor import rows

from orion_recall.bus.connect import connect
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.memory.intake.background import KEPT_DAYS, keep_requests, trim_dead_letters
from orion_recall.postgres.periods import Periods
from orion_recall.postgres.pool import Pool

_ANSWER = """
INSERT INTO memory_requests (tenant, idempotency_key, request_hash, receipt, at)
SELECT 'acme', $1 || n, 'hash', '{}', now() - make_interval(hours => $2) FROM generate_series(1, $3::int) AS n
"""


async def left(pool: Pool, expected: int) -> None:
    async with asyncio.timeout(30):
        while await pool.fetchval("SELECT count(*) FROM memory_requests") != expected:
            await asyncio.sleep(0.02)


async def test_what_is_older_than_a_week_goes_and_the_rest_stays(pool: Pool) -> None:
    await pool.execute(_ANSWER, "old", KEPT_DAYS * 24 + 1, 25)
    await pool.execute(_ANSWER, "young", KEPT_DAYS * 24 - 1, 4)
    workers = [asyncio.create_task(keep_requests(pool, every_s=0.05, batch_rows=10)) for _ in range(2)]
    await left(pool, 4)
    await pool.execute(_ANSWER, "older", KEPT_DAYS * 24 + 1, 3)
    await left(pool, 4)
    assert not any(worker.done() for worker in workers)
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    kept = await pool.fetch("SELECT idempotency_key FROM memory_requests ORDER BY idempotency_key")
    assert [row["idempotency_key"] for row in kept] == ["young1", "young2", "young3", "young4"]


async def test_a_tenant_may_have_days_of_its_own_or_keep_all(pool: Pool) -> None:
    for tenant in ("ana", "ben", "cy"):
        for days in (1, 5, 20):
            answer = _ANSWER.replace("'acme'", f"'{tenant}'")
            await pool.execute(answer, f"{tenant}{days}-", days * 24, 1)
    periods = Periods(days=7, by_tenant={"ana": 2, "ben": None})
    worker = asyncio.create_task(keep_requests(pool, periods, every_s=0.05))
    await left(pool, 1 + 3 + 2)
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    rows = await pool.fetch("SELECT tenant, count(*) FROM memory_requests GROUP BY 1")
    assert {row["tenant"]: row["count"] for row in rows} == {"ana": 1, "ben": 3, "cy": 2}


NOW = 1_700_000_000.0
DAY_MS = 86_400_000


async def test_letters_of_more_than_so_many_days_go_and_the_young_stay(bus_alone: EmbeddedEngines) -> None:
    streams = [f"{uuid4().hex}:dead" for _ in range(3)]
    async with connect(bus_alone.redis_url) as redis:
        for stream in streams[:2]:
            for days in (40, 31, 29, 0):
                await redis.xadd(stream, {"reason": f"{days}"}, id=f"{int(NOW * 1000) - days * DAY_MS}-1")
        trimmed = [await trim_dead_letters(redis, streams, NOW - 30 * DAY_MS / 1000) for _ in range(2)]
        assert trimmed == [4, 0]
        for stream in streams[:2]:
            assert [fields[b"reason"] for _, fields in await rows(redis, stream)] == [b"29", b"0"]
        assert not await redis.exists(streams[2])
        await redis.unlink(*streams)
