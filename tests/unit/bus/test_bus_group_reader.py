from __future__ import annotations

import asyncio
import time
from typing import Any, cast

from redis.asyncio import Redis

from orion_recall.bus.group_reader import Entry, GroupReader

AHEAD_S = 100.0


class Clock:
    """A server that knows what time it is, `AHEAD_S` ahead of ours, and says it after a while."""

    def __init__(self) -> None:
        self.way_there_s = self.way_back_s = 0.0

    async def time(self) -> tuple[int, int]:
        await asyncio.sleep(self.way_there_s)
        now = time.time() + AHEAD_S
        await asyncio.sleep(self.way_back_s)
        return int(now), int(now % 1 * 1e6)


async def test_the_servers_clock_is_read_from_quick_round_trips_and_slow_ones_do_not_spoil_it() -> None:
    clock = Clock()
    redis = cast("Redis", cast("Any", clock))
    reader = GroupReader(redis, redis, stream="s", group="g", consumer="c")

    def error_s() -> float:
        return abs(reader.server_time() - time.time() - AHEAD_S)

    assert error_s() > 99, "nothing is known before the first refresh"
    clock.way_back_s = 0.2
    await reader.refresh(())
    assert 0.05 < error_s() < 0.2, "better than nothing"
    clock.way_back_s = 0.0
    await reader.refresh(())
    assert error_s() < 0.04
    clock.way_there_s = 0.2
    await reader.refresh(())
    assert error_s() < 0.04


def test_an_entry_knows_when_it_arrived() -> None:
    assert Entry(id="1700000000123-7", fields={}).added_at == 1_700_000_000.123
