"""What a reader sees of the entries that wait for an answer, on a real bus."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from redis.asyncio import Redis

from orion_recall.bus.group_reader import Backlog, GroupReader


@pytest.fixture
async def reader(bus: Redis, prefix: str) -> AsyncGenerator[GroupReader]:
    """A reader of a stream with a group and without entries."""
    reader = GroupReader(bus, bus, stream=f"{prefix}intake", group="g", consumer="a")
    await reader.create_group()
    yield reader
    await bus.unlink(reader.stream)


async def looked(reader: GroupReader) -> Backlog:
    await reader.refresh(())
    assert reader.backlog is not None
    return reader.backlog


async def test_the_oldest_entry_that_is_not_answered_is_known_by_its_id(reader: GroupReader, bus: Redis) -> None:
    assert reader.backlog is None, "nobody has looked yet"
    assert ((await looked(reader)).count, (await looked(reader)).oldest_at) == (0, None)
    now_ms = int((await looked(reader)).looked_at * 1000)
    for age_ms in (60_000, 30_000, 1_000):
        await bus.xadd(reader.stream, {"envelope": "x"}, id=f"{now_ms - age_ms}-0")
    first, second = await reader.read_waiting(2)
    seen = await looked(reader)
    assert (seen.count, seen.oldest_at) == (3, (now_ms - 60_000) / 1000)
    assert 60 <= seen.age_s(seen.looked_at) < 120
    for entry, oldest_at in ((first, second.added_at), (second, None)):
        await bus.xack(reader.stream, reader.group, entry.id)
        await bus.xdel(reader.stream, entry.id)
        if oldest_at is not None:
            assert (await looked(reader)).oldest_at == oldest_at


async def test_entries_that_nobody_has_read_wait_since_they_were_seen(reader: GroupReader, bus: Redis) -> None:
    for _ in range(3):
        await bus.xadd(reader.stream, {"envelope": "x"})
    first, second = await looked(reader), await looked(reader)
    assert (first.count, first.oldest_at, second.oldest_at) == (3, first.looked_at, first.looked_at)
    assert second.looked_at > first.looked_at
    (entry,) = await reader.read_waiting(1)
    assert (await looked(reader)).oldest_at == entry.added_at
