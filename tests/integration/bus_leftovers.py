"""What a test may not leave on the bus."""

from __future__ import annotations

from typing import Any, cast

from redis.asyncio import Redis

_PERMANENT = (
    "recall.query.v1",
    "recall.query.v1:dead",
    "recall.reply.v1",
    "recall.decision.v1",
    "recall.decision.v1:dead",
    "recall.decision.v1:trimmed",
    *(
        name + dead
        for name in ("memory.store.v1", "memory.update.v1", "memory.delete.v1", "recall.feedback.v1")
        for dead in ("", ":dead")
    ),
    "memory.tombstone.v1",
)


async def leftovers(redis: Redis) -> dict[str, str]:
    """By key, what is wrong: pending entries, no time to live, a caller's reply stream that nobody deleted.

    Only streams with well-known names, under any prefix that ends in a colon, may stay for ever.
    """
    found: dict[str, str] = {}
    keys = cast("list[bytes]", await redis.keys())  # pyright: ignore[reportUnknownMemberType]
    for key in keys:
        name = key.decode("utf-8", "replace")
        if name.endswith(_PERMANENT) and (name in _PERMANENT or name.partition(":")[2] in _PERMANENT):
            if pending := await _pending(redis, key):
                found[name] = pending
        elif "recall.reply.v1:" in name:
            found[name] = "a caller's reply stream that is still there"
        elif await redis.ttl(key) == -1:
            found[name] = "a key that never expires"
    return found


async def _pending(redis: Redis, key: bytes) -> str:
    if cast("bytes", await redis.type(key)) != b"stream":
        return ""
    groups: list[dict[str, Any]] = await redis.xinfo_groups(cast("str", key))
    pending = {group["name"].decode(): group["pending"] for group in groups if group["pending"]}
    return f"pending entries: {pending}" if pending else ""
