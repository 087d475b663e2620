"""An echo server for the bus's lower bound: reads requests as a consumer group, and answers with bytes of one size.

    python -m tests.bench.bus_echo URL REPLY_BYTES

No schemas, no search: XREADGROUP, then one pipeline of XADD, XACK and XDEL for what was read.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Any, cast

from redis.exceptions import ResponseError

from orion_recall.bus.connect import connect

REQUESTS, REPLIES, GROUP = "bench:requests", "bench:replies", "bench"
_MOST_AT_ONCE = 64
_REPLIES_KEPT = 1000


async def echo(url: str, reply_bytes: int) -> None:
    """Answer until cancelled."""
    reply: dict[Any, Any] = {b"envelope": b"x" * reply_bytes}
    async with connect(url) as redis, connect(url, blocking=True) as blocking:
        with contextlib.suppress(ResponseError):  # the group is there
            await redis.xgroup_create(REQUESTS, GROUP, id="0", mkstream=True)
        print("ready", flush=True)
        while True:
            found = cast(
                "list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]",
                await blocking.xreadgroup(GROUP, "echo", {REQUESTS: ">"}, count=_MOST_AT_ONCE, block=1000),
            )
            pipeline = redis.pipeline(transaction=False)
            for _, entries in found or []:
                for entry_id, _ in entries:
                    pipeline.xadd(REPLIES, reply, maxlen=_REPLIES_KEPT, approximate=True)
                    pipeline.xack(REQUESTS, GROUP, entry_id)
                    pipeline.xdel(REQUESTS, entry_id)
            await pipeline.execute()


if __name__ == "__main__":
    asyncio.run(echo(sys.argv[1], int(sys.argv[2])))
