"""The checker that runs after every test on a bus can fail."""

from __future__ import annotations

from bus_leftovers import leftovers
from redis.asyncio import Redis


async def test_what_a_test_leaves_on_the_bus_is_found(bus: Redis, prefix: str) -> None:
    queries, lonely, reply = (f"{prefix}{name}" for name in ("recall.query.v1", "lonely", "recall.reply.v1:me"))
    await bus.xgroup_create(queries, "g", mkstream=True)
    entry_id = await bus.xadd(queries, {"envelope": "{}"})
    await bus.xreadgroup("g", "c", {queries: ">"})
    await bus.set(lonely, "for ever")
    await bus.xadd(reply, {"envelope": "{}"})
    await bus.expire(reply, 60)
    assert await leftovers(bus) == {
        queries: "pending entries: {'g': 1}",
        lonely: "a key that never expires",
        reply: "a caller's reply stream that is still there",
    }
    await bus.xack(queries, "g", entry_id)
    await bus.expire(lonely, 60)
    await bus.unlink(reply)
    assert await leftovers(bus) == {}
