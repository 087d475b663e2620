"""The lower bound (floor) of a request and its reply over the bus, between two processes that do nothing else."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, cast

from redis.asyncio import Redis

from orion_recall.bus.connect import connect
from tests.bench.bus_echo import REPLIES, REQUESTS
from tests.bench.measure import Cost, cost, tree_cpu_s

_BLOCK_MS = 2000
_IN_FLIGHT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class BusFloor:
    """One at a time and many at once. CPU is that of the answering process, as a worker's own share would be."""

    alone: Cost
    together: Cost


async def bus_floor(url: str, echo_pid: int, *, request: bytes, rounds: int) -> BusFloor:
    """`rounds` requests one at a time, then as many in batches of 32."""
    async with connect(url) as redis, connect(url, blocking=True) as blocking:
        asker = _Asker(redis, blocking, request)
        await asker.ask(1, times=5)  # connections are made, scripts of the server are warm
        alone = await _costs(asker, echo_pid, in_flight=1, times=rounds)
        together = await _costs(asker, echo_pid, in_flight=_IN_FLIGHT, times=max(1, rounds // _IN_FLIGHT))
    return BusFloor(alone=alone, together=together)


async def _costs(asker: _Asker, echo_pid: int, *, in_flight: int, times: int) -> Cost:
    began = tree_cpu_s(echo_pid)
    taken_s = await asker.ask(in_flight, times=times)
    return cost(taken_s, cpu_s=tree_cpu_s(echo_pid) - began, per_call=in_flight)


class _Asker:
    """Sends on one connection and reads replies on another."""

    def __init__(self, redis: Redis, blocking: Redis, request: bytes) -> None:
        self._redis, self._blocking = redis, blocking
        self._fields: dict[Any, Any] = {b"envelope": request}
        self._last = "$"

    async def ask(self, in_flight: int, *, times: int) -> list[float]:
        """Seconds from sending `in_flight` requests to the last of their replies, `times` times."""
        if self._last == "$":
            newest = cast("list[tuple[bytes, Any]]", await self._redis.xrevrange(REPLIES, count=1))
            self._last = newest[0][0].decode() if newest else "0"
        taken_s: list[float] = []
        for _ in range(times):
            began = time.perf_counter()
            await self._send(in_flight)
            await self._receive(in_flight)
            taken_s.append(time.perf_counter() - began)
        return taken_s

    async def _send(self, count: int) -> None:
        if count == 1:
            await self._redis.xadd(REQUESTS, self._fields)
            return
        pipeline = self._redis.pipeline(transaction=False)
        for _ in range(count):
            pipeline.xadd(REQUESTS, self._fields)
        await pipeline.execute()

    async def _receive(self, count: int) -> None:
        while count > 0:
            found = cast(
                "list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]",
                await self._blocking.xread({REPLIES: self._last}, count=count, block=_BLOCK_MS),
            )
            if not found:
                raise TimeoutError("the other end of the bus's floor does not answer")
            entries = found[0][1]
            self._last = entries[-1][0].decode()
            count -= len(entries)
