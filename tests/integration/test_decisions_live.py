"""Decisions as they are taken, read off the bus by somebody who takes nothing away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from decision_samples import decision, envelope, publish
from deploy_servers import PREFIX, guarded_bus
from executor import until
from redis.asyncio import Redis

from orion_recall.bus.connect import connect
from orion_recall.contracts import RecallDecisionV1
from orion_recall.decisions.live import DecisionFilter, LiveDecisions
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import BusRefused, BusUnavailable
from orion_recall.tasks import cancel


@asynccontextmanager
async def followed(
    engines: EmbeddedEngines, stream: str
) -> AsyncGenerator[tuple[LiveDecisions, list[str], list[str]]]:
    """Somebody who follows the stream: the reader, the ids that came, and what was told of the bus."""
    ids: list[str] = []
    told: list[str] = []
    async with connect(engines.redis_url, blocking=True) as blocking:
        live = LiveDecisions(blocking, stream, tell=told.append)
        await live.start()

        async def read() -> None:
            async with aclosing(live.read()) as decisions:
                async for one in decisions:
                    ids.append(one.id)

        task = asyncio.create_task(read())
        try:
            yield live, ids, told
        finally:
            await cancel(task)


@pytest.fixture
async def stream(bus: Redis, prefix: str) -> AsyncGenerator[str]:
    name = f"{prefix}decisions"
    yield name
    await bus.delete(name)


async def test_what_comes_after_the_start_is_given_in_order_and_stays_on_the_stream(
    bus: Redis, bus_alone: EmbeddedEngines, stream: str
) -> None:
    await publish(bus, stream, envelope(decision()))
    made = [decision() for _ in range(250)]
    async with followed(bus_alone, stream) as (live, ids, _):
        await publish(bus, stream, *(envelope(one) for one in made[:200]))
        await publish(bus, stream, b"no JSON", envelope({"id": 7}), b"[]", *(envelope(one) for one in made[200:]))
        await until(lambda: _given(ids, 250), "all decisions")
    assert ids == [one["id"] for one in made]
    assert live.unreadable == 3
    assert await bus.xlen(stream) == 254
    assert await bus.xinfo_groups(stream) == []


async def test_a_bus_that_is_lost_is_waited_for(bus: Redis, bus_alone: EmbeddedEngines, stream: str) -> None:
    first, second = decision(), decision()
    async with followed(bus_alone, stream) as (_, ids, told):
        await publish(bus, stream, envelope(first))
        await until(lambda: _given(ids, 1), "the first")
        await bus_alone.valkey.stop()
        try:
            await until(lambda: _given(told, 1), "the loss")
        finally:
            await bus_alone.valkey.start()
        await publish(bus, stream, envelope(second))
        await until(lambda: _given(ids, 2), "the second")
    assert ids == [first["id"], second["id"]]
    assert told == ["the bus is away; waiting for it", "the bus is back"]


async def test_who_may_not_read_decisions_is_told_so_and_an_analyst_and_an_operator_may() -> None:
    async with guarded_bus() as guarded:
        for user in ("analyst", "operator"):
            async with connect(guarded.url(user), blocking=True) as redis:
                live = LiveDecisions(redis, f"{PREFIX}recall.decision.v1")
                await live.start()
                async with connect(guarded.url("worker")) as worker:
                    made = decision()
                    await publish(worker, f"{PREFIX}recall.decision.v1", envelope(made))
                assert (await anext(live.read())).id == made["id"]
        async with connect(guarded.url("client"), blocking=True) as redis:
            with pytest.raises(BusRefused, match=r"refuses to read mesh:recall\.decision\.v1"):
                await LiveDecisions(redis, f"{PREFIX}recall.decision.v1").start()


async def test_a_bus_that_is_not_there_at_the_start_is_an_error() -> None:
    async with connect("unix:///tmp/orion-nobody-listens-here.sock", blocking=True) as redis:
        with pytest.raises(BusUnavailable):
            await LiveDecisions(redis, "decisions").start()


@pytest.mark.parametrize(
    ("wanted", "takes"),
    [
        ({}, True),
        ({"outcome": "ok", "profile": "reflect.v1", "tenant": "default", "slower_than_ms": 9.9}, True),
        ({"outcome": "empty"}, False),
        ({"profile": "other.v1"}, False),
        ({"tenant": "other"}, False),
        ({"slower_than_ms": 10.0}, False),
        ({"slower_than_ms": 0}, True),
    ],
)
def test_a_decision_must_meet_every_condition(wanted: dict[str, Any], takes: bool) -> None:
    one = RecallDecisionV1.model_validate(decision())
    assert DecisionFilter(**wanted).takes(one) is takes


def test_a_shadows_decision_is_taken_where_shadows_are_wanted() -> None:
    one = RecallDecisionV1.model_validate(decision(shadow_of="875a5172-46c0-4014-94f6-ee2cdfb0d3b0"))
    assert not DecisionFilter().takes(one)
    assert DecisionFilter(shadows=True).takes(one)


async def _given(items: list[str], count: int) -> bool:
    return len(items) >= count
