"""Ending a worker: what it holds is answered or left to others, and nothing is lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import pytest
from executor import Executor, pending, server_ms, until
from redis.asyncio import Redis
from serving import OneMemory, opened_with, quick_settings, serving

from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.settings import RECALL_GROUP, Settings

pytestmark = pytest.mark.slow

QUESTION = {"fragment": "Who feeds the gulls?"}


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A prefix with an executor; workers come and go."""

    executor: Executor
    settings: Settings
    source: OneMemory
    tokens: TokenCounter

    def worker(self, **changes: object) -> Any:
        """A worker over the gated source, as a context."""
        return serving(self.settings.changed(**changes), opened_with(self.source, self.tokens))

    async def in_flight(self, count: int) -> None:
        """Returns when the source is searching that many times."""

        async def reached() -> bool:
            return self.source.waiting == count

        await until(reached, f"{count} queries in flight")

    async def consumers(self, stream: str | None = None) -> set[str]:
        found = await self.executor.redis.xinfo_consumers(stream or self.executor.queries, RECALL_GROUP)
        return {consumer["name"].decode() for consumer in found}

    async def pending(self) -> int:
        return len(await pending(self.executor.redis, self.executor.queries))


def added_ms(entry_id: str) -> int:
    """When the entry arrived, by the server's clock."""
    return int(entry_id.partition("-")[0])


@pytest.fixture
async def scene(
    bus: Redis, bus_alone: EmbeddedEngines, tokens: TokenCounter, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Scene]:
    # A stop waits for the last read to come back.
    monkeypatch.setattr("orion_recall.bus.group_reader.BLOCK_MS", 100)
    settings = quick_settings(bus_alone.redis_url)
    executor = Executor(bus, settings.prefix)
    yield Scene(executor=executor, settings=settings, source=OneMemory(), tokens=tokens)
    await executor.close()


async def test_a_stopped_worker_answers_what_it_holds_and_leaves_the_group(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orion_recall.bus.consumer_loop._GRACE_S", 0.0)
    scene.source.gate.clear()
    async with scene.worker() as (service, serving_task):
        entry_ids = [await scene.executor.ask(QUESTION) for _ in range(3)]
        await scene.in_flight(3)
        service.stop()
        # The memories' side has nothing in flight and ends first; that does not cut the queries short.
        stores = scene.settings.intake_streams["stores"]

        async def stores_left() -> bool:
            return await scene.consumers(stores) == set()

        await until(stores_left, "the store consumer is gone")
        assert not serving_task.done()
        scene.source.gate.set()
        await serving_task
        for entry_id in entry_ids:
            assert (await scene.executor.ended(entry_id)).decision["outcome"] == "ok"
        assert await scene.consumers() == set()
        later = await scene.executor.ask(QUESTION)
        assert await scene.pending() == 0, "nobody takes it"
    await scene.executor.redis.xdel(scene.executor.queries, later)


async def test_a_worker_that_is_stopped_while_another_runs_loses_nothing(scene: Scene) -> None:
    async with scene.worker(instance="stays"):
        async with scene.worker(instance="goes") as (leaving, task):
            sent = [await scene.executor.ask(QUESTION, correlation_id=f"c-{number}") for number in range(20)]
            leaving.stop()
            sent += [await scene.executor.ask(QUESTION, correlation_id=f"c-{20 + number}") for number in range(20)]
            await task
        for entry_id in sent:
            await scene.executor.ended(entry_id)
        replies = await scene.executor.replies(scene.executor.reply_to)
        assert sorted(int(reply["correlation_id"][2:]) for reply in replies) == list(range(40))


async def test_a_cancelled_worker_leaves_what_it_holds_to_another(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orion_recall.bus.consumer_loop._GRACE_S", 0.1)
    scene.source.gate.clear()
    entry_id = await scene.executor.ask(QUESTION)
    with pytest.raises(asyncio.CancelledError):
        async with scene.worker(instance="killed") as (_, task):
            await scene.in_flight(1)
            task.cancel()
    assert await scene.pending() == 1
    assert await scene.consumers() == {"killed"}, "it still holds an entry"
    scene.source.gate.set()
    async with scene.worker(instance="heir"):
        ended = await scene.executor.ended(entry_id)
    assert (ended.decision["outcome"], ended.decision["deliveries"]) == ("ok", 2)
    assert ended.decision["worker"] == "heir"


async def test_a_worker_that_works_long_is_not_taken_for_dead(scene: Scene) -> None:
    scene.source.gate.clear()
    patient = {"claim_idle_ms": 3000}  # a machine that stands still for a moment is no dead worker
    async with scene.worker(instance="busy", **patient), scene.worker(instance="idle", **patient):
        entry_id = await scene.executor.ask(QUESTION)
        await scene.in_flight(1)
        redis, stream = scene.executor.redis, scene.executor.queries

        async def refreshed_past_the_limit() -> bool:
            return await server_ms(redis) - added_ms(entry_id) > 7000

        await until(refreshed_past_the_limit, "more than twice the idle limit")
        assert await pending(redis, stream) == {entry_id: 1}
        assert scene.source.waiting == 1
        scene.source.gate.set()
        ended = await scene.executor.ended(entry_id)
    assert (ended.decision["outcome"], ended.decision["deliveries"]) == ("ok", 1)


async def test_two_workers_that_hold_one_entry_answer_it_once(scene: Scene) -> None:
    scene.source.gate.clear()
    never = {"refresh_ms": 60_000, "claim_idle_ms": 60_000}
    async with scene.worker(instance="paused", **never) as (first, _):
        entry_id = await scene.executor.ask(QUESTION)
        await scene.in_flight(1)
        async with scene.worker(instance="heir") as (second, _):
            await scene.in_flight(2)
            scene.source.gate.set()
            await scene.executor.ended(entry_id)

            async def both_done() -> bool:
                return first.worker.counts["fenced"] + second.worker.counts["fenced"] == 1

            await until(both_done, "one of them was fenced")
        assert first.worker.counts["ok"] + second.worker.counts["ok"] == 1
        assert len((await scene.executor.ended(entry_id)).own) == 1


async def test_an_entry_whose_decision_cannot_be_written_waits_and_is_not_taken_for_poison(scene: Scene) -> None:
    redis, decisions = scene.executor.redis, scene.executor.decisions
    await redis.set(decisions, "no stream", ex=60)
    async with scene.worker(claim_idle_ms=100, refresh_ms=20):
        entry_id = await scene.executor.ask(QUESTION)

        async def long_past_the_idle_limit() -> bool:
            return await server_ms(redis) - added_ms(entry_id) > 1000

        await until(long_past_the_idle_limit, "a second")
        assert await scene.pending() == 1
        assert await scene.executor.replies(scene.executor.reply_to) == []
        await redis.unlink(decisions)
        ended = await scene.executor.ended(entry_id)
    assert (ended.decision["outcome"], ended.decision["deliveries"]) == ("ok", 1)
    assert len(ended.own) == 1
