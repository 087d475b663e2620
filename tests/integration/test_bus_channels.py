"""Queries that are published: each enters the stream once, and is then served like any other."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from executor import Executor, command, rows, until
from pydantic import SecretStr
from redis.asyncio import Redis
from serving import OneMemory, opened_with, quick_settings, serving

from orion_recall.bus import query_channels
from orion_recall.bus.connect import connect
from orion_recall.bus.query_channels import PublishedQueries, QueryChannels
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.serving.service import Service
from orion_recall.settings import Settings
from tests.stand_ins.mesh import FOUNDING, LATER, MeshDecision
from tests.stand_ins.proxy import Proxy
from tests.stand_ins.redis_servers import RedisServer

pytestmark = pytest.mark.slow


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A prefix on the bus; workers come and go."""

    redis: Redis
    settings: Settings
    executor: Executor
    tokens: TokenCounter

    @asynccontextmanager
    async def worker(self, **changes: object) -> AsyncGenerator[Service]:
        """A worker of another name that listens."""
        settings = self.settings.changed(**({"instance": f"w-{uuid4().hex[:6]}"} | changes))
        async with serving(settings, opened_with(OneMemory(), self.tokens)) as (service, _):
            yield service

    def query(self, **changes: Any) -> bytes:
        """A query as it is published, answered on a stream of the executor's."""
        return json.dumps(self.executor.message({"fragment": "Who feeds the gulls?"}, **changes)).encode()

    async def publish(self, data: bytes, channel: str = "recall.query.v1") -> int:
        """How many connections heard it."""
        return await command(self.redis, "PUBLISH", self.settings.prefix + channel, data)

    async def decisions(self) -> list[dict[str, Any]]:
        found = await rows(self.redis, self.settings.decision_stream)
        return [json.loads(fields[b"envelope"])["payload"] for _, fields in found]

    async def decided(self, count: int) -> list[dict[str, Any]]:
        """The decisions, once there are so many, and no entry waits."""

        async def reached() -> bool:
            return len(await self.decisions()) >= count and not await rows(self.redis, self.settings.query_stream)

        await until(reached, f"{count} decisions")
        return await self.decisions()


@pytest.fixture
async def scene(
    bus: Redis, bus_alone: EmbeddedEngines, tokens: TokenCounter, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Scene]:
    monkeypatch.setattr("orion_recall.bus.group_reader.BLOCK_MS", 100)
    settings = quick_settings(bus_alone.redis_url)
    executor = Executor(bus, settings.prefix)
    yield Scene(redis=bus, settings=settings, executor=executor, tokens=tokens)
    await executor.close()


async def heard(count: int, *services: Service) -> None:
    """Returns when every worker has put in, or left to others, that many messages."""

    async def reached() -> bool:
        counts = [service.channels.queries.counts for service in services]
        return all(one["received"] == count == one["entered"] + one["duplicate"] + one["dropped"] for one in counts)

    await until(reached, f"{count} messages heard by each of {len(services)}")


@pytest.mark.parametrize("state", [FOUNDING, LATER], ids=["founding", "later"])
async def test_what_is_published_is_answered_on_the_channel_that_it_names(state: Any, scene: Scene) -> None:
    channel, reply_to = state.request_channel, f"{scene.settings.prefix}{state.reply_prefix}:{uuid4()}"
    async with scene.worker(), scene.redis.pubsub() as answers:  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        told: Any = answers
        await told.subscribe(reply_to)
        assert await scene.publish(scene.query(reply_to=reply_to, correlation_id="c-1"), channel) == 1
        async with asyncio.timeout(60):
            while (message := await told.get_message(ignore_subscribe_messages=True, timeout=1.0)) is None:
                pass
        assert json.loads(message["data"])["correlation_id"] == "c-1"
        (decision,) = await scene.decided(1)
        assert (decision["corr_id"], decision["outcome"]) == ("c-1", "ok")


async def test_an_id_that_is_published_again_within_a_minute_enters_once_on_whatever_channel(scene: Scene) -> None:
    message = scene.query()
    async with scene.worker() as service:
        await scene.publish(message)
        await scene.publish(message, "orion:exec:request:RecallService")
        await scene.publish(message.replace(b"gulls", b"geese"))
        await heard(3, service)
        assert (service.channels.queries.counts["entered"], len(await scene.decided(1))) == (1, 1)
        key = f"{scene.settings.query_stream}:seen:{json.loads(message)['id']}"
        assert 0 < await scene.redis.pttl(key) <= query_channels.SEEN_S * 1000
        await scene.redis.delete(key)  # the minute is over
        await scene.publish(message)
        await heard(4, service)
        assert len(await scene.decided(2)) == 2


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff not JSON", "not JSON"),
        (b"[" * 3000, "nested"),
        (b'{"id": 7, "payload": {}}', "envelope.id"),
        (b"", "not JSON"),
    ],
    ids=["garbage", "deep", "wrong type", "nothing"],
)
async def test_what_cannot_be_read_is_answered_decided_and_dead_lettered_once(
    data: bytes, said: str, scene: Scene
) -> None:
    async with scene.worker() as first, scene.worker() as second:
        await scene.publish(data)
        await heard(1, first, second)
        (decision,) = await scene.decided(1)
    assert decision["outcome"] == "invalid"
    assert said in decision["error"]
    (reply,) = await scene.executor.replies(scene.executor.shared)
    assert reply["payload"]["bundle"]["items"] == []
    ((_, letter),) = await rows(scene.redis, scene.executor.dead)
    assert (letter[b"field:envelope"], letter[b"field:channel"]) == (data, scene.settings.query_stream.encode())


async def test_what_is_too_large_is_refused_and_only_its_size_and_its_ends_are_kept(scene: Scene) -> None:
    data = scene.query(padding="x" * 3000)
    async with scene.worker(max_query_bytes=2000) as first, scene.worker(max_query_bytes=2000) as second:
        await scene.publish(data)
        await heard(1, first, second)
        (decision,) = await scene.decided(1)
    assert decision["error"] == f"the message has {len(data)} bytes; at most 2000 are read (ORION_MAX_QUERY_BYTES)"
    ((_, letter),) = await rows(scene.redis, scene.executor.dead)
    assert letter[b"field:left_out_bytes"] == str(len(data)).encode()
    head, tail = letter[b"field:left_out_head"], letter[b"field:left_out_tail"]
    assert (len(head), len(tail)) == (1000, 500)
    assert data.startswith(head)
    assert data.endswith(tail)
    assert b"field:envelope" not in letter


async def test_a_worker_that_stops_unsubscribes_and_puts_in_what_it_has_heard(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    sending, may_send = asyncio.Event(), asyncio.Event()
    send = PublishedQueries._send  # pyright: ignore[reportPrivateUsage]

    async def held(self: PublishedQueries, batch: Any) -> str | None:
        sending.set()
        await may_send.wait()
        return await send(self, batch)

    monkeypatch.setattr(PublishedQueries, "_send", held)
    async with scene.worker() as service:
        await scene.publish(scene.query())
        await sending.wait()
        service.stop()

        async def nobody_listens() -> bool:
            return await scene.publish(b"nobody hears this", "recall.query.v1") == 0

        await until(nobody_listens, "an end of the subscription")
        may_send.set()
    # It has left: what it had heard waits in the stream for the next.
    async with scene.worker():
        decisions = await scene.decided(1)
    assert "ok" in [one["outcome"] for one in decisions]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[RedisServer]:
    started = RedisServer(tmp_path)
    await started.start()
    yield started
    await started.end()


async def test_the_subscription_is_made_again_after_the_server_was_started_again(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"redis://127.0.0.1:{server.port}/0"
    async with connect(url) as redis:
        channels = QueryChannels(url, ["one", "two"], PublishedQueries(redis, stream="queries", max_bytes=1000))
        running = asyncio.create_task(channels.run())
        await channels.opened.wait()
        await command(redis, "PUBLISH", "one", b'{"id": "a"}')

        async def entered(count: int) -> bool:
            return channels.queries.counts["entered"] == count

        await until(lambda: entered(1), "the first entry")
        await server.end()
        await until(lambda: _equals(channels, 0), "the loss to be seen")
        await server.start()
        await until(lambda: _equals(channels, 2), "both channels again")
        await command(redis, "PUBLISH", "two", b'{"id": "b"}')
        await until(lambda: entered(2), "the second entry")
        channels.stop()
        await running
    said = [record.getMessage() for record in caplog.records if "subscribing again" in record.getMessage()]
    assert len(said) == 1, "it is said once, however long it takes"


async def test_a_server_that_says_nothing_any_more_is_left_and_subscribed_to_again(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orion_recall.bus.query_channels.POLL_S", 0.02)
    now = [0.0]
    async with Proxy.before("127.0.0.1", server.port) as proxy, connect(f"redis://{proxy.host_and_port}") as redis:
        channels = QueryChannels(
            f"redis://{proxy.host_and_port}",
            ["one"],
            PublishedQueries(redis, stream="queries", max_bytes=1000),
            clock=lambda: now[0],
        )
        running = asyncio.create_task(channels.run())
        await channels.opened.wait()
        for _ in range(5):  # a server that answers is asked every ten seconds, and kept
            now[0] += 11

            async def answered() -> bool:
                return channels._heard_at == now[0]  # pyright: ignore[reportPrivateUsage]

            await until(answered, "an answer to the ping")
            assert channels.subscribed == {"one"}
        proxy.hang()
        for _ in range(2):
            now[0] += 11
        await until(lambda: _equals(channels, 0), "the silence to be seen")
        proxy.resume()

        async def back() -> bool:
            now[0] += 0.1  # an answer that does not come is not waited for
            return len(channels.subscribed) == 1

        await until(back, "the channel again")
        channels.stop()
        await running


async def test_what_waited_in_memory_until_its_id_may_be_forgotten_never_enters(
    bus: Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    queries = PublishedQueries(bus, stream=f"{prefix}recall.query.v1", max_bytes=1000)
    within_ms = int(query_channels.ENTERS_WITHIN_S * 1000)
    late_ms = await queries.server_ms() - within_ms - 1
    for number in range(600):  # more than one batch; said once
        queries.take(b"c", b'{"id": "late-%d"}' % number, since_ms=late_ms)
    queries.take(b"c", b'{"id": "in time"}', since_ms=late_ms + within_ms)
    queries.finish()
    await queries.run()
    ((_, fields),) = await rows(bus, f"{prefix}recall.query.v1")
    assert fields[b"envelope"] == b'{"id": "in time"}'
    assert (queries.counts["entered"], queries.counts["dropped"], queries.counts["duplicate"]) == (1, 600, 0)
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


@pytest.mark.parametrize("listeners", [1, 2])
async def test_of_a_burst_every_message_enters_once(server: RedisServer, listeners: int) -> None:
    url = f"redis://127.0.0.1:{server.port}/0"
    async with connect(url) as redis:
        workers = [
            QueryChannels(url, ["one"], PublishedQueries(redis, stream="queries", max_bytes=1000))
            for _ in range(listeners)
        ]
        running = [asyncio.create_task(worker.run()) for worker in workers]
        for worker in workers:
            await worker.opened.wait()
        burst = redis.pipeline(transaction=False)
        for number in range(3000):
            burst.execute_command("PUBLISH", "one", b'{"id": "m-%d"}' % number)  # pyright: ignore[reportUnknownMemberType]
        await burst.execute()

        async def all_heard() -> bool:
            return all(worker.queries.counts["received"] == 3000 for worker in workers)

        await until(all_heard, "the burst to be heard")
        for worker in workers:
            worker.stop()
        await asyncio.gather(*running)
        entries = [fields[b"envelope"] for _, fields in await rows(redis, "queries")]
        assert sorted(entries) == sorted(b'{"id": "m-%d"}' % number for number in range(3000))
        counts = [worker.queries.counts for worker in workers]
        assert sum(one["entered"] for one in counts) == 3000
        assert sum(one["duplicate"] for one in counts) == 3000 * (listeners - 1)
        assert sum(one["dropped"] for one in counts) == 0


async def _equals(channels: QueryChannels, count: int) -> bool:
    return len(channels.subscribed) == count


async def test_a_refused_entry_waits_and_what_comes_too_late_is_dropped_and_said_once(
    bus: Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def short_sleep(seconds: float, until: asyncio.Event | None) -> None:
        await asyncio.sleep(min(seconds, 0.06))

    now = [0.0]
    stream = f"{prefix}recall.query.v1"
    await bus.set(stream, "no stream", ex=60)
    queries = PublishedQueries(bus, stream=stream, max_bytes=1000, clock=lambda: now[0], sleep=short_sleep)
    running = asyncio.create_task(queries.run())
    since_ms = await queries.server_ms()
    queries.take(b"c", b'{"id": "stays"}', since_ms=since_ms)
    queries.take(b"c", b'{"id": "short", "ttl_ms": 2000}', since_ms=since_ms)

    async def refused() -> bool:
        return any("queries wait" in record.getMessage() for record in caplog.records)

    await until(refused, "the refusal to be said")
    now[0] = 3.0

    async def one_dropped() -> bool:
        return queries.counts["dropped"] == 1

    await until(one_dropped, "the one whose sender has gone to be dropped")
    await bus.delete(stream)
    queries.finish()
    await running
    (entry,) = await rows(bus, stream)
    assert entry[1][b"envelope"] == b'{"id": "stays"}'
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 2
    assert await bus.exists(f"{stream}:seen:short") == 0, "what did not enter is not marked as entered"


async def test_a_worker_whose_user_may_not_listen_serves_its_stream_and_says_what_to_do(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    opened = f"{scene.settings.prefix}open"
    await command(scene.redis, "ACL", "SETUSER", "deaf", "on", "nopass", "~*", "+@all", f"&{opened}")
    url = SecretStr((scene.settings.bus_url or "").replace("unix://", "unix://deaf:x@"))
    try:
        async with scene.worker(redis_url=url, query_channels=("open", "closed"), reply_channels=()) as service:
            assert service.channels.subscribed == {opened}
            assert "ORION_QUERY_CHANNELS" in caplog.text
            assert await scene.publish(scene.query(), "open") == 1
            await scene.executor.ask({"fragment": "Who feeds the gulls?"})
            assert [one["outcome"] for one in await scene.decided(2)] == ["ok", "ok"]
    finally:
        await command(scene.redis, "ACL", "DELUSER", "deaf")


@pytest.mark.parametrize("query_text", ["full", "hash"])
async def test_each_decision_is_published_once_in_the_form_that_the_mesh_reads(
    query_text: str, scene: Scene
) -> None:
    channel = f"{scene.settings.prefix}orion:recall:telemetry"
    changes = {"decision_channels": ("orion:recall:telemetry",), "query_text": query_text}
    async with scene.worker(**changes), scene.worker(**changes), scene.executor.listening(channel) as heard:
        for number in range(5):
            await scene.publish(scene.query(correlation_id=str(UUID(int=number))))
        await scene.publish(b'{"correlation_id": "00000000-0000-0000-0000-000000000009", "payload": {}}')
        decisions = await scene.decided(6)

        async def all_heard() -> bool:
            return len(heard) >= 6

        await until(all_heard, "a message for every decision")
    published = [MeshDecision.model_validate(one["payload"]) for one in heard]
    assert sorted(one.id for one in published) == sorted(one["id"] for one in decisions)
    assert {one["kind"] for one in heard} == {"recall.decision.v1"}
    assert {one["correlation_id"] for one in heard} == {one["corr_id"] for one in decisions}
    told = [one.query == "Who feeds the gulls?" for one in published if one.selected_ids]
    assert told == [query_text == "full"] * 5
