"""Dead letters that are too old go from every stream."""

from __future__ import annotations

from uuid import uuid4

from executor import rows

from orion_recall.bus.connect import connect
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.memory.intake.background import trim_dead_letters

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
