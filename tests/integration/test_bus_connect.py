"""Connections: their errors, and that what is told to end ends."""

from __future__ import annotations

import asyncio

import pytest
from executor import command, info
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from orion_recall.bus.connect import connect, group_is_gone, without_secrets
from orion_recall.engines.embedded import EmbeddedEngines


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_loop_over_a_connection_ends_wherever_it_is_cancelled(
    blocking: bool, bus: Redis, bus_alone: EmbeddedEngines
) -> None:
    async with connect(bus_alone.redis_url, blocking=blocking) as redis:

        async def endless() -> None:
            while True:
                await command(redis, "ECHO", "a")

        # One step of the event loop later each time: the send, the wait for its end, the wait for the answer.
        for steps in range(1, 40):
            task = asyncio.create_task(endless())
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=30)
            assert done, f"it goes on, cancelled at step {steps}"
            assert await command(redis, "ECHO", "b") == b"b", f"another's answer, after step {steps}"


async def test_what_a_blocked_read_hears_of_a_vanished_group_is_known_as_that(bus: Redis, prefix: str) -> None:
    stream = f"{prefix}recall.query.v1"
    for vanish in (bus.unlink(stream), command(bus, "FLUSHALL")):
        await bus.xgroup_create(stream, "g", mkstream=True)
        reading = asyncio.create_task(command(bus, *f"XREADGROUP GROUP g c BLOCK 4000 STREAMS {stream} >".split()))
        while (await info(bus, "clients"))["blocked_clients"] < 1:
            await asyncio.sleep(0.001)
        await vanish
        with pytest.raises(ResponseError) as heard:
            await reading
        assert group_is_gone(heard.value)
    with pytest.raises(ResponseError) as heard:
        await bus.xreadgroup("g", "c", {stream: ">"})
    assert group_is_gone(heard.value)
    with pytest.raises(ResponseError) as heard:
        await command(bus, "NO-SUCH-COMMAND")
    assert not group_is_gone(heard.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:secret@host:6379/0", "redis://host:6379/0"),
        ("rediss://:secret@host", "rediss://host"),
        ("unix:///run/bus.sock", "unix:///run/bus.sock"),
        ("redis://user:se@cret@host", "redis://host"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert without_secrets(url) == shown
