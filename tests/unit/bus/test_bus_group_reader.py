from __future__ import annotations

from typing import Any, cast

from redis.asyncio import Redis

from orion_recall.bus.group_reader import GroupReader


class LargeEntries:
    """A stream without an end whose entries have so many bytes; notes how many are asked for."""

    def __init__(self) -> None:
        self.size, self.asked = 0, list[int]()

    async def xreadgroup(self, *_: object, count: int, **__: object) -> list[Any]:
        self.asked.append(count)
        return [(b"s", [(b"%d-0" % number, {b"envelope": b"x" * self.size}) for number in range(count)])]


async def test_after_large_entries_fewer_are_read_at_once() -> None:
    redis = LargeEntries()
    reader = GroupReader(cast("Redis", redis), cast("Redis", redis), stream="s", group="g", consumer="c")
    for redis.size in (100, 2 << 20, 20 << 20, 100, 100):
        await reader.read(10)
    assert redis.asked == [10, 10, 4, 1, 10]
