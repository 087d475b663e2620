"""Executors of the mesh as they are, with two workers listening: each call has one reply that they can read."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from orion_recall.bus.connect import connect
from orion_recall.engines.embedded import EmbeddedEngines
from tests.acceptance.processes import running_engines, start_worker, store_and_wait, wait_until
from tests.stand_ins.mesh import FOUNDING, LATER, MeshDecision, MeshExecutor, MeshReply, MeshState, decoded

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]
CALLS = 40
QUESTION = "what did Ana say about crate number {}?"


@pytest.fixture(scope="module")
async def place() -> AsyncGenerator[tuple[EmbeddedEngines, Path]]:
    """Engines and a folder that this module's tests share; every test starts workers of its own."""
    async with running_engines() as found:
        yield found


@dataclass(slots=True)
class Heard:
    """Every reply and every decision that is published, read as strictly as the mesh reads."""

    replies: Counter[str] = field(default_factory=Counter[str])
    decisions: Counter[str] = field(default_factory=Counter[str])
    ended: bool = False

    def take(self, channel: str, data: bytes) -> None:
        if data == b"the end":
            self.ended = True
            return
        envelope = decoded(data)
        if "result" in channel:
            MeshReply.model_validate(envelope.payload)
            self.replies[str(envelope.correlation_id)] += 1
        else:
            decision = MeshDecision.model_validate(envelope.payload)
            assert decision.corr_id == str(envelope.correlation_id)
            self.decisions[decision.corr_id] += 1


@asynccontextmanager
async def listening(redis: Redis, state: MeshState) -> AsyncGenerator[Heard]:
    """All that is published on the state's reply channels and its decision channel, until the block ends."""
    heard, pubsub = Heard(), cast("Any", redis).pubsub()

    async def listen() -> None:
        async for told in pubsub.listen():
            if told["type"] in ("message", "pmessage"):
                heard.take(told["channel"].decode(), told["data"])

    await pubsub.psubscribe(f"{state.reply_prefix}:*")
    await pubsub.subscribe(state.decision_channel)
    task = asyncio.create_task(listen())
    try:
        yield heard
        # What is heard comes in the order in which it was published: after this nothing more was.
        await cast("Any", redis).publish(state.decision_channel, b"the end")

        async def the_end() -> bool:
            if task.done():
                task.result()  # what a strict reader refused
            return heard.ended

        await wait_until(the_end, what="all that was published")
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await pubsub.aclose()


async def entries_added(redis: Redis) -> int:
    """How many entries the query stream has ever been given."""
    return int((await redis.xinfo_stream("recall.query.v1"))["entries-added"])


async def decisions_of(redis: Redis) -> list[dict[str, Any]]:
    rows: Any = await redis.xrange("recall.decision.v1")
    return [json.loads(fields[b"envelope"])["payload"] for _, fields in rows]


@asynccontextmanager
async def two_workers(place: tuple[EmbeddedEngines, Path], state: MeshState) -> AsyncGenerator[list[Any]]:
    """Two workers with memories; those that still run at the end are stopped."""
    engines, folder = place
    settings: dict[str, Any] = {"ORION_DECISION_CHANNELS": state.decision_channel, "ORION_CLAIM_IDLE_MS": "1000"}
    workers = await asyncio.gather(*(start_worker(engines, folder / uuid4().hex, **settings) for _ in range(2)))
    try:
        await store_and_wait(engines, *workers)
        yield list(workers)
        for worker in workers:
            if worker.running.process.poll() is None:
                assert await worker.stop() == 0
    finally:
        for worker in workers:
            worker.running.process.kill()
            worker.running.process.wait()


@dataclass(slots=True)
class Callers:
    """Executors that call, each on a connection of its own."""

    url: str
    state: MeshState
    asked: list[str] = field(default_factory=list[str])
    calls: list[asyncio.Task[MeshReply]] = field(default_factory=list[asyncio.Task[MeshReply]])

    def start(self, count: int) -> None:
        """So many calls more."""
        for _ in range(count):
            correlation_id = str(uuid4())
            self.calls.append(asyncio.create_task(self._call(len(self.asked), correlation_id)))
            self.asked.append(correlation_id)

    async def _call(self, number: int, correlation_id: str) -> MeshReply:
        async with connect(self.url) as own:
            _, reply = await MeshExecutor(own, self.state).rpc(
                QUESTION.format(number), correlation_id=correlation_id
            )
        return reply


@pytest.mark.parametrize("state", [FOUNDING, LATER], ids=["founding", "later"])
async def test_each_call_has_one_reply_and_one_decision_while_one_of_two_workers_is_killed(
    place: tuple[EmbeddedEngines, Path], state: MeshState
) -> None:
    async with two_workers(place, state) as (doomed, steady), connect(place[0].redis_url) as redis:
        callers, before = Callers(place[0].redis_url, state), await entries_added(redis)

        async def stopped_with_an_entry() -> bool:
            if all(call.done() for call in callers.calls):
                callers.start(5)
            doomed.send(signal.SIGCONT)
            await asyncio.sleep(0.01)
            doomed.send(signal.SIGSTOP)
            consumers = await redis.xinfo_consumers("recall.query.v1", "orion-recall")
            return {one["name"].decode(): one["pending"] for one in consumers}[doomed.ready["instance"]] > 0

        async with listening(redis, state) as heard:
            callers.start(CALLS // 2)
            steady.send(signal.SIGSTOP)  # or it might be the one that takes them all
            await wait_until(stopped_with_an_entry, what="an entry in the hands of the one that is to be killed")
            doomed.send(signal.SIGKILL)
            await doomed.ended()
            # It has heard all of it, too: what the other had not put in yet, it puts in, and nothing else.
            steady.send(signal.SIGCONT)
            callers.start(CALLS // 2)
            replies = await asyncio.gather(*callers.calls)
            assert all(reply.bundle.items for reply in replies)
        expected = dict.fromkeys(callers.asked, 1)
        assert len(expected) >= CALLS
        assert heard.replies == expected
        assert heard.decisions == expected
        counted = Counter(one["corr_id"] for one in await decisions_of(redis))
        assert {corr_id: counted[corr_id] for corr_id in expected} == expected
        assert await entries_added(redis) - before == len(expected), "each message is one entry"


@pytest.mark.parametrize("state", [FOUNDING, LATER], ids=["founding", "later"])
async def test_entries_of_its_work_queue_are_answered_as_its_calls_are(
    place: tuple[EmbeddedEngines, Path], state: MeshState
) -> None:
    async with two_workers(place, state), connect(place[0].redis_url) as redis:
        mesh = MeshExecutor(redis, state)
        async with listening(redis, state) as heard:
            asked = [
                mesh.message(QUESTION.format(number), reply_to=f"{state.reply_prefix}:{uuid4()}")
                for number in range(10)
            ]
            for message in asked:
                await mesh.enqueue(message)

            async def all_heard() -> bool:
                return len(heard.replies) == len(heard.decisions) == len(asked)

            await wait_until(all_heard, what="a reply and a decision for each")
        expected = {str(message.correlation_id): 1 for message in asked}
        assert heard.replies == heard.decisions == expected


@pytest.mark.parametrize("state", [FOUNDING, LATER], ids=["founding", "later"])
async def test_what_is_empty_is_no_mistake(place: tuple[EmbeddedEngines, Path], state: MeshState) -> None:
    async with two_workers(place, state), connect(place[0].redis_url) as redis:
        mesh = MeshExecutor(redis, state)
        nothing_asked = await mesh.rpc("")
        everywhere = await mesh.rpc(QUESTION.format(7), session_id="", node_id="", profile="")
        other_kind = await mesh.rpc(QUESTION.format(7), kind="recall.query.request", session_id=None)
        assert (nothing_asked[1].bundle.rendered, nothing_asked[1].bundle.items) == ("", [])
        assert everywhere[1].bundle.items
        assert other_kind[1].bundle.items
        ids = [str(reply.correlation_id) for reply, _ in (nothing_asked, everywhere, other_kind)]
        told = {one["corr_id"]: one["outcome"] for one in await decisions_of(redis)}
        assert [told[one] for one in ids] == ["empty", "ok", "ok"]
