"""A task that is cancelled in the middle of a command ends, and does no harm to the next one."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from orion_recall.bus.connect import connect
from orion_recall.client import RecallClient
from orion_recall.engines.embedded import EmbeddedEngines

Entries = list[tuple[bytes, dict[bytes, bytes]]]
REPLY: dict[str, Any] = {
    "bundle": {"rendered": "", "items": [], "stats": {"backend_counts": {}, "latency_ms": 1.0, "profile": "p"}}
}


@pytest.mark.parametrize("steps", range(8))
async def test_a_command_that_is_cancelled_while_it_is_sent_ends(engines: EmbeddedEngines, steps: int) -> None:
    redis = connect(engines.redis_url)
    try:
        await redis.set("cancelling", "before")

        async def endless() -> None:
            while True:
                await redis.get("cancelling")

        task = asyncio.create_task(endless())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        _, still_running = await asyncio.wait([task], timeout=30)
        assert not still_running
        assert task.cancelled()
        assert await redis.get("cancelling") == b"before"
    finally:
        await redis.delete("cancelling")
        await redis.aclose()


async def test_a_time_limit_around_a_command_is_still_a_time_limit(engines: EmbeddedEngines) -> None:
    redis = connect(engines.redis_url)
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await redis.get("cancelling")
        assert await redis.get("cancelling") is None
    finally:
        await redis.aclose()


async def test_a_client_that_is_closed_right_after_a_reply_closes(engines: EmbeddedEngines) -> None:
    redis = connect(engines.redis_url)
    stream = "closing:recall.query.v1"
    try:
        async with asyncio.timeout(30):
            for _ in range(3):
                async with RecallClient.connect(engines.redis_url, prefix="closing:") as client:
                    asking = asyncio.create_task(client.recall("hello"))
                    while not (entries := cast("Entries", await redis.xrange(stream))):
                        await asyncio.sleep(0)
                    [(entry_id, fields)] = entries
                    query = json.loads(fields[b"envelope"])
                    answer = {"correlation_id": query["correlation_id"], "payload": REPLY}
                    await redis.xadd(query["reply_to"], {"envelope": json.dumps(answer)})
                    await redis.xdel(stream, entry_id)
                    assert (await asking).bundle.rendered == ""
    finally:
        await redis.delete(stream)
        await redis.aclose()
