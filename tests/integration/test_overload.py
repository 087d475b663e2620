"""More queries than a worker has slots: each is answered and decided once, tenants in turn, the rest refused."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from executor import Executor, pending, rows, until
from redis.asyncio import Redis
from serving import OneMemory, opened_with, quick_settings, serving

from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.serving.service import Service
from orion_recall.settings import RECALL_GROUP


def of(tenant: str) -> dict[str, Any]:
    return {"fragment": "Who feeds the gulls?", "options": {"tenant": tenant}}


class Order(OneMemory):
    """Notes whose search began, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.gate.clear()
        self.tenants: list[str] = []

    async def search(self, request: Any) -> Any:
        self.tenants.append(request.scope.tenant)
        return await super().search(request)


async def held(service: Service, count: int) -> None:
    async def reached() -> bool:
        return service.in_flight["queries"] + len(service.queue) == count

    await until(reached, f"{count} entries are held")


async def outcomes(executor: Executor, asked: list[str]) -> Counter[str]:
    """The outcomes of the queries: one reply and one decision each, and nothing left."""
    ended = [await executor.ended(entry_id) for entry_id in asked]
    replies = Counter(one["correlation_id"] for one in await executor.replies(executor.reply_to))
    assert len(replies) == len(asked) and set(replies.values()) == {1}
    decisions = [fields for _, fields in await rows(executor.redis, executor.decisions)]
    assert len(decisions) == len(asked)
    assert not await pending(executor.redis, executor.queries) and not await rows(executor.redis, executor.queries)
    return Counter(one.decisions[0]["outcome"] for one in ended)


@pytest.fixture
def source() -> Order:
    return Order()


async def test_a_tenant_beside_a_flood_has_its_turn_and_what_is_beyond_the_bound_learns_when_to_come_back(
    bus: Redis, bus_alone: EmbeddedEngines, tokens: TokenCounter, source: Order
) -> None:
    settings = quick_settings(bus_alone.redis_url, concurrency=1, max_waiting=10, tenants=("*",))
    executor = Executor(bus, settings.prefix)
    async with serving(settings, opened_with(source, tokens)) as (service, _):
        asked = [await executor.ask(of("flood")) for _ in range(30)]
        await held(service, 11)
        await until(lambda: _is(service.queue.turned_away["full"], 19), "what has no room is turned away")
        await executor.ended(asked[-1])
        told = (await executor.replies(executor.reply_to))[0]["payload"]
        assert told["error"]["type"] == told["bundle"]["stats"]["outcome"] == "refused"
        assert told["error"]["retry_after_ms"] >= 50
        asked += [await executor.ask(of("quiet")) for _ in range(3)]
        await until(lambda: _is(service.queue.turned_away["full"], 22), "the flood has made room for the quiet one")
        source.gate.set()
        assert await outcomes(executor, asked) == {"ok": 11, "refused": 22}
    assert source.tenants[:7] == ["flood", *["flood", "quiet"] * 3]
    await executor.close()


async def test_what_waited_in_a_worker_that_died_is_answered_once_and_its_waiting_is_not_counted_as_a_try(
    bus: Redis, bus_alone: EmbeddedEngines, tokens: TokenCounter, source: Order
) -> None:
    settings = quick_settings(bus_alone.redis_url, concurrency=1, tenants=("*",))
    executor = Executor(bus, settings.prefix)
    await bus.xgroup_create(executor.queries, RECALL_GROUP, id="0", mkstream=True)
    asked = [await executor.ask(of("ana")) for _ in range(8)]
    await bus.xreadgroup(RECALL_GROUP, "dead", {executor.queries: ">"}, count=8)
    async with serving(settings, opened_with(source, tokens)) as (service, _):
        await held(service, 8)
        await until(lambda: _counts_are(executor, {1: 7, 2: 1}), "only the one that was begun was tried twice")
        source.gate.set()
        assert await outcomes(executor, asked) == {"ok": 8}
        decided = [(await executor.ended(entry_id)).decision["deliveries"] for entry_id in asked]
        assert decided == [2] * 8
    await executor.close()


@pytest.mark.slow
async def test_a_worker_that_stops_answers_what_waits_and_one_that_is_cut_off_leaves_it_to_the_next(
    bus: Redis, bus_alone: EmbeddedEngines, tokens: TokenCounter, source: Order
) -> None:
    settings = quick_settings(bus_alone.redis_url, concurrency=1, tenants=("*",))
    executor = Executor(bus, settings.prefix)
    async with serving(settings, opened_with(source, tokens)) as (service, task):
        asked = [await executor.ask(of("ana")) for _ in range(5)]
        await held(service, 5)
        service.stop()
        source.gate.set()
        await task
    assert await outcomes(executor, asked) == {"ok": 5}
    source.gate.clear()
    with pytest.raises(asyncio.CancelledError):
        async with serving(settings, opened_with(source, tokens)) as (service, task):
            asked += [await executor.ask(of("ana")) for _ in range(5)]
            await held(service, 5)
            task.cancel()
            await asyncio.wait([task])
    assert len(await pending(bus, executor.queries)) == 5
    source.gate.set()
    async with serving(settings.changed(instance="the-next"), opened_with(source, tokens)):
        assert await outcomes(executor, asked) == {"ok": 10}
    await executor.close()


async def _is(found: int, wanted: int) -> bool:
    return found == wanted


async def _counts_are(executor: Executor, wanted: dict[int, int]) -> bool:
    return Counter((await pending(executor.redis, executor.queries)).values()) == wanted
