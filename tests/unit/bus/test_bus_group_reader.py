from __future__ import annotations

import time
from typing import Any, cast

from redis.asyncio import Redis

from orion_recall.bus.group_reader import Backlog, Entry, GroupReader

AHEAD_S = 100.0


class Server:
    """A server that knows what time it is, `AHEAD_S` ahead of ours."""

    async def time(self) -> tuple[int, int]:
        now = time.time() + AHEAD_S
        return int(now), int(now % 1 * 1e6)

    async def xlen(self, stream: str) -> int:
        return 0


async def test_a_refresh_reads_the_servers_clock() -> None:
    redis = cast("Redis", cast("Any", Server()))
    reader = GroupReader(redis, redis, stream="s", group="g", consumer="c")
    assert not reader.clock.is_known
    await reader.refresh(())
    assert reader.clock.earliest() <= time.time() + AHEAD_S
    assert reader.clock.ahead_s < -AHEAD_S / 2


def test_an_entry_knows_when_it_arrived() -> None:
    assert Entry(id="1700000000123-7", fields={}).added_at == 1_700_000_000.123


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


def test_the_age_of_a_backlog_is_as_last_seen_and_grows_while_the_bus_is_not_seen() -> None:
    seen = Backlog(count=2, oldest_at=100.0, looked_at=103.0)
    assert (seen.age_s(103.5), seen.age_s(160.0)) == (3.0, 60.0)
    assert Backlog(count=0, oldest_at=None, looked_at=103.0).age_s(160.0) == 0
    assert Backlog(count=1, oldest_at=9e9, looked_at=103.0).age_s(103.0) == 0, (
        "its sender chose an id of the future"
    )
