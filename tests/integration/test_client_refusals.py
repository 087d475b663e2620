"""What a caller is told when the bus is reached and says no: by a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from executor import command, until
from redis.asyncio import Redis

from orion_recall.client import RecallClient
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import BusRefused


@asynccontextmanager
async def user(bus: Redis, url: str, *rights: str) -> AsyncGenerator[str]:
    """The address for a user with all rights but what is taken away, as ACL SETUSER has it."""
    await command(bus, "ACL", "SETUSER", "caller", "reset", "on", ">secret", "~*", "&*", "+@all", *rights)
    try:
        yield url.replace("unix://", "unix://caller:secret@", 1)
    finally:
        await command(bus, "ACL", "DELUSER", "caller")


@pytest.mark.parametrize("rights", [["-xadd"], ["resetkeys", "~nothing:*"]])
async def test_a_user_who_may_not_send_is_refused(
    bus: Redis, bus_alone: EmbeddedEngines, prefix: str, rights: list[str]
):
    async with user(bus, bus_alone.redis_url, *rights) as url, RecallClient.connect(url, prefix=prefix) as client:
        with pytest.raises(BusRefused, match=r"refuses to take memory\.store\.v1: .*permission.*redis/users\.acl"):
            await client.store([{"id": "m", "text": "x"}], timeout_s=60)


async def test_a_user_who_may_not_read_replies_hears_of_it_and_does_not_wait(
    bus: Redis, bus_alone: EmbeddedEngines, prefix: str
):
    async with user(bus, bus_alone.redis_url, "-xread") as url, RecallClient.connect(url, prefix=prefix) as client:
        for _ in range(3):
            with pytest.raises(BusRefused, match=r"refuses to give replies: .*'xread'.*redis/users\.acl"):
                await client.recall("What?", timeout_s=3600)
    await bus.unlink(f"{prefix}recall.query.v1")


async def test_a_user_who_may_not_delete_replies_gets_them_all_the_same(
    bus: Redis, bus_alone: EmbeddedEngines, prefix: str
):
    async with (
        user(bus, bus_alone.redis_url, "-xdel", "-unlink") as url,
        RecallClient.connect(url, prefix=prefix) as client,
    ):
        stats = '{"backend_counts": {}, "latency_ms": 1, "profile": "by-hand.v1"}'
        for said in ("one", "two"):
            asking = asyncio.create_task(client.recall("What?", timeout_s=3600, correlation_id=f"c-{said}"))
            await until(lambda: _has_entries(bus, f"{prefix}recall.query.v1"), "the query is sent")
            reply = f'{{"bundle": {{"rendered": "{said}", "items": [], "stats": {stats}}}}}'
            envelope = f'{{"correlation_id": "c-{said}", "payload": {reply}}}'
            await bus.xadd(client.reply_stream, {"envelope": envelope})
            assert (await asking).bundle.rendered == said
            await bus.unlink(f"{prefix}recall.query.v1")
    assert await bus.unlink(client.reply_stream) == 1


@pytest.mark.parametrize(
    ("rights", "why"), [(["-ping"], "permission"), ([">other", "<secret"], "invalid username-password")]
)
async def test_a_user_who_is_not_let_in_is_refused_at_once_and_no_secret_is_told(
    bus: Redis, bus_alone: EmbeddedEngines, rights: list[str], why: str
):
    async with user(bus, bus_alone.redis_url, *rights) as url:
        with pytest.raises(BusRefused, match=f"no bus at unix:.*{why}") as caught:
            async with RecallClient.connect(url):
                pass
        assert "secret" not in str(caught.value)


async def _has_entries(redis: Redis, stream: str) -> bool:
    return bool(await redis.xlen(stream))
