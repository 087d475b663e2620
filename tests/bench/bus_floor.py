"""The lower bound (floor) of a request and its reply over the bus, between two processes that do nothing else.

    python -m tests.bench.bus_floor URL

is the answering one: no schemas, no search, XREADGROUP, then one pipeline of XADD, XACK and XDEL for what was read.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from orion_recall.bus.connect import connect
from tests.bench.measure import Cost, cost, tree_cpu_s

_REQUESTS, _REPLIES, _GROUP = "bench:requests", "bench:replies", "bench"
_REPLY_BYTES, _REPLIES_KEPT = 8_192, 1000
_BLOCK_MS, _MOST_AT_ONCE = 2000, 64


async def bus_floor(url: str, echo_pid: int, *, request: bytes, rounds: int, in_flight: int) -> Cost:
    """`rounds` requests, `in_flight` of them at a time. CPU is the answering process's, as a worker's share."""
    async with connect(url) as redis, connect(url, blocking=True) as blocking:
        newest = cast("list[tuple[bytes, Any]]", await redis.xrevrange(_REPLIES, count=1))
        last = newest[0][0].decode() if newest else "0"
        taken_s: list[float] = []
        began_s = tree_cpu_s(echo_pid)
        for _ in range(max(1, rounds // in_flight)):
            began = time.perf_counter()
            await _send(redis, request, in_flight)
            last = await _receive(blocking, last, in_flight)
            taken_s.append(time.perf_counter() - began)
    return cost(taken_s, cpu_s=tree_cpu_s(echo_pid) - began_s, per_call=in_flight)


async def _send(redis: Redis, request: bytes, count: int) -> None:
    pipeline = redis.pipeline(transaction=False)
    for _ in range(count):
        pipeline.xadd(_REQUESTS, {b"envelope": request})
    await pipeline.execute()


async def _receive(blocking: Redis, last: str, count: int) -> str:
    while count > 0:
        found = cast("list[Any]", await blocking.xread({_REPLIES: last}, count=count, block=_BLOCK_MS))
        if not found:
            raise TimeoutError("the other end of the bus's floor does not answer")
        entries = found[0][1]
        last, count = entries[-1][0].decode(), count - len(entries)
    return last


async def echo(url: str) -> None:
    reply: dict[Any, Any] = {b"envelope": b"x" * _REPLY_BYTES}
    async with connect(url) as redis, connect(url, blocking=True) as blocking:
        with contextlib.suppress(ResponseError):  # the group is there
            await redis.xgroup_create(_REQUESTS, _GROUP, id="0", mkstream=True)
        print("ready", flush=True)
        while True:
            read = blocking.xreadgroup(_GROUP, "echo", {_REQUESTS: ">"}, count=_MOST_AT_ONCE, block=1000)
            pipeline = redis.pipeline(transaction=False)
            for _, entries in cast("list[Any]", await read) or []:
                for entry_id, _ in entries:
                    pipeline.xadd(_REPLIES, reply, maxlen=_REPLIES_KEPT, approximate=True)
                    pipeline.xack(_REQUESTS, _GROUP, entry_id)
                    pipeline.xdel(_REQUESTS, entry_id)
            await pipeline.execute()


if __name__ == "__main__":
    asyncio.run(echo(sys.argv[1]))
