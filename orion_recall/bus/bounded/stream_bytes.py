"""Bytes of a stream: the oldest entries are trimmed until it is within a limit."""

from __future__ import annotations

from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError

_MOST_ROUNDS = 50


async def trim_to_bytes(redis: Redis, stream: str, most: int) -> int:
    """Trim the stream to `most` bytes, as MEMORY USAGE counts them; how many entries went.

    The newest entry stays. Nothing is trimmed where this user may not ask for it. RedisError: the bus refuses.
    """
    gone = 0
    for _ in range(_MOST_ROUNDS):
        try:
            used = cast("int | None", await cast("Any", redis).memory_usage(stream, samples=0))
        except NoPermissionError:
            return gone
        if used is None or used <= most:
            return gone
        length = int(await redis.xlen(stream))
        if length <= 1:
            return gone
        kept = max(1, int(length * most / used * 0.9))
        gone += int(await redis.xtrim(stream, maxlen=kept, approximate=False))
    return gone
