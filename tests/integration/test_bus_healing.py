"""What the bus does to a worker, and that queries sent afterwards are answered, without spinning."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

import pytest
from executor import Executor, command, info, until
from redis.asyncio import Redis
from serving import OneMemory, opened_with, quick_settings, serving

from orion_recall.bus.connect import connect
from orion_recall.bus.consumer_loop import ConsumerLimits, ConsumerLoop
from orion_recall.bus.group_reader import GroupReader
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.settings import RECALL_GROUP, Settings

pytestmark = pytest.mark.slow

QUESTION = {"fragment": "Who feeds the gulls?"}


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A worker on a bus of its own, an executor beside it, and the source in between."""

    executor: Executor
    source: OneMemory
    engines: EmbeddedEngines

    @property
    def redis(self) -> Redis:
        return self.executor.redis

    async def is_answered(self) -> None:
        """A query sent now is answered."""
        ended = await self.executor.ended(await self.executor.ask(QUESTION))
        assert ended.decision["outcome"] == "ok"

    async def reads_block(self) -> None:
        """Returns when the worker waits for entries of its five intakes, and for tombstones."""

        async def all_of_them() -> bool:
            return (await info(self.redis, "clients"))["blocked_clients"] == 6

        await until(all_of_them, "six blocked reads")

    async def commands_within(self, seconds: float) -> int:
        """Commands that the server has run in that time."""
        before, begun = await self._commands(), time.monotonic()
        await until(passed(begun + seconds), f"{seconds} s")
        return await self._commands() - before

    async def _commands(self) -> int:
        return (await info(self.redis, "stats"))["total_commands_processed"]


def passed(moment: float) -> Callable[[], Awaitable[bool]]:
    """Whether the monotonic clock has come that far."""

    async def check() -> bool:
        return time.monotonic() >= moment

    return check


@pytest.fixture(scope="module")
async def worker(bus_alone: EmbeddedEngines, tokens: TokenCounter) -> AsyncGenerator[tuple[Settings, OneMemory]]:
    """One worker that takes all the blows of this file, one after the other."""
    settings, source = quick_settings(bus_alone.redis_url), OneMemory()
    async with serving(settings, opened_with(source, tokens)):
        yield settings, source


@pytest.fixture
async def scene(
    bus: Redis, bus_alone: EmbeddedEngines, worker: tuple[Settings, OneMemory]
) -> AsyncGenerator[Scene]:
    settings, source = worker
    executor = Executor(bus, settings.prefix)
    yield Scene(executor=executor, source=source, engines=bus_alone)
    source.gate.set()
    await executor.close()


async def _flush(scene: Scene) -> None:
    await command(scene.redis, "FLUSHALL")


async def _destroy(scene: Scene) -> None:
    assert await scene.redis.xgroup_destroy(scene.executor.queries, RECALL_GROUP) == 1


async def _delete(scene: Scene) -> None:
    assert await scene.redis.unlink(scene.executor.queries) == 1


async def _restart(scene: Scene) -> None:
    await scene.engines.valkey.stop()
    await scene.engines.valkey.start()


async def _kill_connections(scene: Scene) -> None:
    assert await command(scene.redis, "CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES") >= 2


async def _forget_scripts(scene: Scene) -> None:
    await command(scene.redis, "SCRIPT", "FLUSH")


async def _another_type(scene: Scene) -> None:
    await _delete(scene)
    before = await _wrong_types(scene)
    await scene.redis.set(scene.executor.queries, "no stream", ex=60)

    async def met() -> bool:
        return await _wrong_types(scene) >= before + 3

    await until(met, "the worker has met it")
    await scene.redis.unlink(scene.executor.queries)


async def _wrong_types(scene: Scene) -> int:
    """How often the server has refused a command for the type of its key, to whomever."""
    errors = await info(scene.redis, "errorstats")
    return errors.get("errorstat_WRONGTYPE", {}).get("count", 0)


BLOWS = {
    "FLUSHALL": _flush,
    "XGROUP DESTROY": _destroy,
    "DEL of the stream": _delete,
    "a stop and a start": _restart,
    "CLIENT KILL": _kill_connections,
    "SCRIPT FLUSH": _forget_scripts,
    "a key of another type": _another_type,
}


@pytest.mark.parametrize("blow", BLOWS)
async def test_queries_sent_after_it_are_answered_and_nothing_spins(blow: str, scene: Scene) -> None:
    await scene.is_answered()
    await scene.reads_block()
    await BLOWS[blow](scene)
    await scene.is_answered()
    await scene.is_answered()
    # Of each of five streams, 20 refreshes and 16 claims a second. A loop that spins runs thousands of commands.
    assert await scene.commands_within(0.3) < 1000


@pytest.mark.parametrize("blow", ["XGROUP DESTROY", "a stop and a start", "CLIENT KILL"])
async def test_queries_in_flight_when_it_happens_are_answered_once(blow: str, scene: Scene) -> None:
    scene.source.gate.clear()
    entry_ids = [await scene.executor.ask(QUESTION, correlation_id=f"c-{number}") for number in range(3)]

    async def all_in_flight() -> bool:
        return scene.source.waiting == 3

    await until(all_in_flight, "three queries in flight")
    await BLOWS[blow](scene)
    scene.source.gate.set()
    for entry_id in entry_ids:
        ended = await scene.executor.ended(entry_id)
        assert len(ended.decisions) == 1
    replies = await scene.executor.replies(scene.executor.reply_to)
    assert sorted(reply["correlation_id"] for reply in replies) == ["c-0", "c-1", "c-2"]


@pytest.mark.parametrize("blow", ["FLUSHALL", "DEL of the stream"])
async def test_queries_in_flight_that_the_server_lost_are_refused_and_hold_up_nothing(
    blow: str, scene: Scene
) -> None:
    scene.source.gate.clear()
    await scene.executor.ask(QUESTION)

    async def in_flight() -> bool:
        return scene.source.waiting == 1

    await until(in_flight, "a query in flight")
    await BLOWS[blow](scene)
    scene.source.gate.set()
    await scene.is_answered()
    assert len(await scene.executor.replies(scene.executor.reply_to)) == 1


async def test_what_was_queued_before_the_group_was_made_is_served(
    bus: Redis, bus_alone: EmbeddedEngines, tokens: TokenCounter
) -> None:
    settings = quick_settings(bus_alone.redis_url)
    executor = Executor(bus, settings.prefix)
    entry_id = await executor.ask(QUESTION)
    expired = await executor.ask(QUESTION, ttl_ms=0)
    async with serving(settings, opened_with(OneMemory(), tokens)):
        assert (await executor.ended(entry_id)).decision["outcome"] == "ok"
        assert (await executor.ended(expired)).decision["outcome"] == "expired"
    await executor.close()


async def test_a_worker_waits_for_a_bus_that_is_not_there_yet(
    bus: Redis, bus_alone: EmbeddedEngines, tokens: TokenCounter, caplog: pytest.LogCaptureFixture
) -> None:
    settings = quick_settings(bus_alone.redis_url)
    executor = Executor(bus, settings.prefix)
    await bus_alone.valkey.stop()

    async def told() -> bool:
        return any("waiting for the bus" in record.message for record in caplog.records)

    async def start_it() -> None:
        await until(told, "a word about the bus")
        await bus_alone.valkey.start()

    starting = asyncio.create_task(start_it())
    try:
        async with serving(settings, opened_with(OneMemory(), tokens)):
            assert (await executor.ended(await executor.ask(QUESTION))).decision["outcome"] == "ok"
    finally:
        await starting
    await executor.close()


async def test_while_the_bus_is_away_the_loops_do_not_spin(
    bus: Redis, bus_alone: EmbeddedEngines, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "orion_recall.bus")
    stream = f"{prefix}recall.query.v1"
    async with connect(bus_alone.redis_url) as redis, connect(bus_alone.redis_url, blocking=True) as blocking:
        reader = GroupReader(redis, blocking, stream=stream, group="g", consumer="w-1")
        await reader.create_group()
        server = ConsumerLoop(reader, _nothing, ConsumerLimits(concurrency=2, refresh_ms=10, claim_idle_ms=100))
        running = asyncio.create_task(server.run())
        await bus_alone.valkey.stop()
        try:

            async def all_have_tried() -> bool:
                return reader.repairs >= 3

            await until(all_have_tried, "a try of each loop")
            await until(passed(time.monotonic() + 1.0), "a second")
            # Three loops whose pauses grow 0.05, 0.1, 0.2, 0.4 … One that spins tries thousands of times.
            assert reader.repairs <= 60
            said = [record.message for record in caplog.records if stream in record.message]
            assert len(said) <= 3, "each loop says it once"
        finally:
            await bus_alone.valkey.start()
            server.stop()
            await running
    await bus.unlink(stream)


async def _nothing(entry: object) -> None:
    raise AssertionError("there are no entries")


async def test_what_an_emptied_stream_held_is_counted_once_and_a_deleted_group_loses_nothing(
    bus: Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    stream = f"{prefix}intake"
    readers = [GroupReader(bus, bus, stream=stream, group="g", consumer=name) for name in ("a", "b")]
    for reader in readers:
        await reader.create_group()
    for number in range(5):
        await bus.xadd(stream, {"envelope": str(number)})
    assert len(await readers[0].read_waiting(2)) == 2

    async def refreshed() -> None:
        for reader in readers:
            await reader.refresh(())
            await reader.read_waiting(1)  # a refresh without entries does not meet a missing group

    await refreshed()
    await bus.xgroup_destroy(stream, "g")
    await refreshed()
    assert [reader.lost for reader in readers] == [0, 0]

    await refreshed()
    await bus.unlink(stream)
    await bus.xadd(stream, {"envelope": "a sender goes on"})
    for reader in readers:
        await reader.read_waiting(1)
    assert sorted(reader.lost for reader in readers) == [0, 4]
    assert f"{stream} was emptied by somebody" in caplog.text
    await refreshed()
    assert sum(reader.lost for reader in readers) == 4, "it is counted once"
    await bus.unlink(stream)
