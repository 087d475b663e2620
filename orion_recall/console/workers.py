"""The profiles that the running workers use, by their heartbeats."""

from __future__ import annotations

from collections.abc import Sequence

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.heartbeat import read_heartbeats
from orion_recall.settings import RECALL_GROUP, Settings


async def profiles_in_use(redis: Redis, settings: Settings) -> Sequence[str]:
    """Their names; none where no worker says so, or the bus is away: a page is of use without them."""
    try:
        consumers = await redis.xinfo_consumers(settings.query_stream, RECALL_GROUP)
        names = [_text(one["name"]) for one in consumers]
        heartbeats = await read_heartbeats(redis, [settings.worker_key(name) for name in names])
    except RedisError:
        return ()
    told = [one.get("profiles", "").split(",") for one in heartbeats if one is not None]
    return sorted({name for names in told for name in names if name})


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
