"""Our own client: many calls on one reply stream, and what it says without a reply, or when the bus refuses."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
from executor import command, rows, until
from redis.asyncio import Redis

from orion_recall.bus.connect import connect
from orion_recall.client import RecallClient
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import BusRefused, BusUnavailable, ReplyTimeout
from orion_recall.postgres.pool import Connection
from orion_recall.serving.service import Service


async def test_a_hundred_calls_in_flight_share_one_stream_and_each_gets_its_own_answer(
    service: Service, service_engines: EmbeddedEngines
) -> None:
    async with connect(service_engines.redis_url) as redis:
        async with RecallClient.connect(service_engines.redis_url, prefix="svc:") as client:
            limits = [1 + number % 3 for number in range(100)]
            replies = await asyncio.gather(
                *(client.recall("Who works where?", options={"k": limit}, timeout_s=30) for limit in limits)
            )
            assert [len(reply.bundle.items) for reply in replies] == limits
            assert len({reply.bundle.stats.decision_id for reply in replies}) == 100

            async def read_and_deleted() -> bool:
                return await redis.xlen(client.reply_stream) == 0

            await until(read_and_deleted, "a client deletes what it has read")
            assert await redis.exists(client.reply_stream) == 1
        assert await redis.exists(client.reply_stream) == 0, "gone with the client"


async def test_the_callers_correlation_id_is_that_of_the_decision(
    client: RecallClient, service_database: Connection
) -> None:
    name = uuid4()
    reply = await client.recall("Where does Ana work?", correlation_id=name)
    written = "SELECT corr_id FROM recall_decisions WHERE id = $1"

    async def in_the_log() -> bool:
        return await service_database.fetchval(written, reply.bundle.stats.decision_id) == str(name)

    await until(in_the_log, "the decision in Postgres")
    receipt = await client.feedback(correlation_id=name, used=["m-work"])
    assert receipt.recorded


async def test_no_reply_in_time_is_a_reply_timeout(bus: Redis, bus_alone: EmbeddedEngines, prefix: str) -> None:
    async with RecallClient.connect(bus_alone.redis_url, prefix=prefix) as client:
        began = time.monotonic()
        with pytest.raises(ReplyTimeout, match=r"no reply to recall\.query\.v1 within 1 s"):
            await client.recall("Is anybody there?", timeout_s=1.0)  # sending it is in that time
        assert time.monotonic() - began < 30
    ((_, fields),) = await rows(bus, f"{prefix}recall.query.v1")
    assert json.loads(fields[b"envelope"])["ttl_ms"] == 1000, "a late worker need not answer"


async def test_a_server_that_goes_away_is_a_bus_that_is_unavailable_and_one_that_returns_is_used_again(
    bus: Redis, bus_alone: EmbeddedEngines, prefix: str
) -> None:
    async with RecallClient.connect(bus_alone.redis_url, prefix=prefix) as client:
        await bus_alone.valkey.stop()
        try:
            with pytest.raises(BusUnavailable):
                await client.recall("Is anybody there?")
        finally:
            await bus_alone.valkey.start()
        asking = asyncio.create_task(client.recall("And now?"))
        await _reply_by_hand(bus, prefix, "Here I am.")
        assert (await asking).bundle.rendered == "Here I am."


async def test_replies_that_nobody_can_read_or_waits_for_disturb_no_call(
    bus: Redis, bus_alone: EmbeddedEngines, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "orion_recall.client")
    async with RecallClient.connect(bus_alone.redis_url, prefix=prefix) as client:
        for envelope in ("no JSON", "[]", "{}", '{"correlation_id": []}', "[" * 100_000):
            await bus.xadd(client.reply_stream, {"envelope": envelope})
        await bus.xadd(client.reply_stream, {"nothing": "here"})
        await bus.xadd(client.reply_stream, {"envelope": '{"correlation_id": "of-another-life", "payload": {}}'})
        asking = asyncio.create_task(client.recall("And now?"))
        await _reply_by_hand(bus, prefix, "Here I am.")
        assert (await asking).bundle.rendered == "Here I am."
    assert len(caplog.records) == 6


async def test_a_call_that_is_in_flight_when_the_client_closes_hears_of_it(
    bus: Redis, bus_alone: EmbeddedEngines, prefix: str
) -> None:
    async with RecallClient.connect(bus_alone.redis_url, prefix=prefix) as client:
        asking = asyncio.create_task(client.recall("Is anybody there?"))
        await until(lambda: _has_entries(bus, f"{prefix}recall.query.v1"), "the query is sent")
    with pytest.raises(BusUnavailable, match="closed"):
        await asking


async def test_a_cancelled_call_leaves_nothing_behind(bus: Redis, bus_alone: EmbeddedEngines, prefix: str) -> None:
    async with RecallClient.connect(bus_alone.redis_url, prefix=prefix) as client:
        first = asyncio.create_task(client.recall("Is anybody there?"))
        await until(lambda: _has_entries(bus, f"{prefix}recall.query.v1"), "the query is sent")
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await _reply_by_hand(bus, prefix, "Too late.")
        second = asyncio.create_task(client.recall("And now?"))
        await _reply_by_hand(bus, prefix, "Just in time.")
        assert (await second).bundle.rendered == "Just in time."


async def _has_entries(redis: Redis, stream: str) -> bool:
    return bool(await redis.xlen(stream))


async def _reply_by_hand(redis: Redis, prefix: str, rendered: str) -> None:
    """Answers the last query on the stream, and deletes it."""
    stream = f"{prefix}recall.query.v1"
    await until(lambda: _has_entries(redis, stream), "a query")
    (*_, (entry_id, fields)) = await rows(redis, stream)
    asked = json.loads(fields[b"envelope"])
    stats: dict[str, Any] = {"backend_counts": {}, "latency_ms": 1.0, "profile": "by-hand.v1"}
    payload: dict[str, Any] = {"bundle": {"rendered": rendered, "items": [], "stats": stats}}
    reply = {"correlation_id": asked["correlation_id"], "payload": payload}
    await redis.xadd(asked["reply_to"], {"envelope": json.dumps(reply)})
    await redis.xdel(stream, entry_id)


@pytest.mark.parametrize("created_at", ["2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00"])
async def test_a_reply_to_what_another_recall_led_to_is_delivered(client: RecallClient, created_at: str) -> None:
    """The worker's own link is not in the chain of a correlation id that strict readers refuse."""
    link = {"correlation_id": str(uuid4()), "kind": "recall.query.v1", "source": {"name": "x"}}
    reply = await client.recall(
        "Where does Ana work?",
        correlation_id=f"turn {created_at}",
        causality_chain=[link | {"created_at": created_at}],
        timeout_s=60,
    )
    assert reply.bundle.items[0].id == "m-work"


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
