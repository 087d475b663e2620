"""The stream of tombstones, and what it says of the copies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import pytest
from executor import command, until
from redis.asyncio import Redis

from orion_recall.bus.connect import connect
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.memory.replicas.tombstones import Tombstones, TombstoneStream


@pytest.fixture
async def redis(engines: EmbeddedEngines) -> AsyncGenerator[Redis]:
    async with connect(engines.redis_url) as opened:
        yield opened


class Reader:
    """A worker that follows the stream: what it knows, and what it was told that copies have reached."""

    def __init__(self, redis: Redis, blocking: Redis, prefix: str) -> None:
        self.known, self.reached = Tombstones(), list[Mapping[int, int]]()
        self.known.reached = self.reached.append
        self.stream = TombstoneStream(redis, blocking, f"{prefix}memory.tombstone.v1", self.known)

    def knows(self, key: int) -> bool:
        return self.known.hides(key, 0)


@asynccontextmanager
async def following(engines: EmbeddedEngines, redis: Redis, prefix: str) -> AsyncGenerator[Reader]:
    async with connect(engines.redis_url, blocking=True) as blocking:
        reader = Reader(redis, blocking, prefix)
        await reader.stream.catch_up()
        task = asyncio.create_task(reader.stream.run(lambda: None))
        try:
            yield reader
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def heard(reader: Reader, writer: Reader, key: int) -> None:
    """Everything that was said so far."""
    await writer.stream.publish({key: 1})

    async def knows() -> bool:
        return reader.knows(key)

    await until(knows, "the last word is heard")


async def test_how_far_copies_have_come_is_heard_by_those_who_listen(
    engines: EmbeddedEngines, redis: Redis, prefix: str
) -> None:
    writer = Reader(redis, redis, prefix)
    async with following(engines, redis, prefix) as reader:
        await writer.stream.publish({11: 5})
        await writer.stream.reached({7: 5})
        await heard(reader, writer, 12)
        assert reader.knows(11)
        assert reader.reached == writer.reached == [{7: 5}]


async def test_whoever_comes_later_learns_what_was_changed_and_not_where_copies_were_then(
    engines: EmbeddedEngines, redis: Redis, prefix: str
) -> None:
    writer = Reader(redis, redis, prefix)
    await writer.stream.publish({11: 5})
    await writer.stream.reached({7: 5})
    async with following(engines, redis, prefix) as reader:
        await heard(reader, writer, 12)
        assert reader.knows(11)
        assert reader.reached == []


async def test_on_a_bus_that_was_away_what_was_said_before_is_no_news(
    engines: EmbeddedEngines, redis: Redis, prefix: str
) -> None:
    writer = Reader(redis, redis, prefix)
    async with following(engines, redis, prefix) as reader:
        await heard(reader, writer, 11)
        await writer.stream.reached({7: 5})
        await heard(reader, writer, 12)
        clients = (await command(redis, "CLIENT", "LIST")).decode().splitlines()
        waits = next(line for line in clients if " cmd=xread " in line)
        await command(redis, "CLIENT", "KILL", "ID", waits.partition(" ")[0].removeprefix("id="))
        await writer.stream.publish({13: 6})
        await heard(reader, writer, 14)
        assert reader.knows(13)
        assert reader.reached == [{7: 5}]
