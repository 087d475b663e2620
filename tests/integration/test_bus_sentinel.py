"""Real Sentinels over real servers: the master is killed or taken away while queries run."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from executor import Executor, command, until
from redis.asyncio import Redis
from redis.exceptions import ConnectionError, RedisError
from serving import OneMemory, opened_with, quick_settings, serving

from orion_recall.bus.connect import BUS_AWAY, connect
from orion_recall.models.tokenizer import TokenCounter
from tests.stand_ins.ports import free_port
from tests.stand_ins.redis_servers import SentinelSetup, sentinel_setup

pytestmark = pytest.mark.slow

QUESTION = {"fragment": "Who feeds the gulls?"}
EVERY_S = 0.02


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncGenerator[SentinelSetup]:
    """Fresh for every test: a failover cannot be taken back."""
    async with sentinel_setup(tmp_path) as running:
        yield running


class Asking:
    """Sends a query every 20 ms until told to stop; what the server did not take was not asked."""

    def __init__(self, executor: Executor) -> None:
        self.executor, self.sent, self.refused = executor, list[str](), 0
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            try:
                await self.executor.ask(QUESTION, correlation_id=f"c-{number}")
                self.sent.append(f"c-{number}")
            except (*BUS_AWAY, RedisError):
                self.refused += 1
            await asyncio.sleep(EVERY_S)

    async def stop(self) -> None:
        self._stop.set()
        await self._task


async def _counts(executor: Executor) -> tuple[dict[str, int], dict[str, int]]:
    """Replies and decisions by correlation id."""
    replies: dict[str, int] = {}
    for reply in await executor.replies(executor.reply_to):
        replies[reply["correlation_id"]] = replies.get(reply["correlation_id"], 0) + 1
    decisions: dict[str, int] = {}
    for decision in await executor.replies(executor.decisions):
        name = decision["payload"]["corr_id"]
        decisions[name] = decisions.get(name, 0) + 1
    return replies, decisions


async def _is_replica(port: int) -> bool:
    """Whether the server says that it is one; while it is away it has not said so."""
    try:
        async with Redis(port=port) as server:
            return (await command(server, "ROLE"))[0] == b"slave"
    except (*BUS_AWAY, RedisError):
        return False


async def _carried_over(setup: SentinelSetup, asking: Asking) -> int:
    """Of how many queries it is certain that the replica has them."""
    sent = len(asking.sent)
    async with Redis(port=setup.first.port, single_connection_client=True) as first:
        await first.set("after", sent)  # later than all of these; WAIT is for what its own connection has written
        assert await command(first, "WAIT", 1, 60_000) == 1
    return sent


async def _moved(setup: SentinelSetup) -> bool:
    return await setup.master_port() == setup.second.port


@pytest.mark.parametrize("blow", ["SENTINEL FAILOVER", *(one for one in ("SIGKILL", "SIGSTOP"))])
async def test_a_failover_under_queries_costs_what_replication_had_not_carried_over_and_no_more(
    blow: str, setup: SentinelSetup, tokens: TokenCounter
) -> None:
    settings = quick_settings(setup.url.replace("/0", "/0?socket_timeout=1"))
    async with serving(settings, opened_with(OneMemory(), tokens)), connect(settings.bus_url or "") as redis:
        executor = Executor(redis, settings.prefix)
        asking = Asking(executor)

        async def some(count: int) -> bool:
            return len(asking.sent) >= count

        await until(lambda: some(40), "queries before")
        carried = await _carried_over(setup, asking)
        if blow == "SENTINEL FAILOVER":
            async with Redis(port=setup.sentinels[0].port) as sentinel:
                await command(sentinel, "SENTINEL", "FAILOVER", "mesh")
        else:
            setup.first.send(signal.Signals[blow])
        struck_at = len(asking.sent)
        await until(lambda: _moved(setup), "the other server is the master")
        if blow == "SIGSTOP":
            # Back again once nobody asks it any more, and to be told that it is a replica now.
            await until(lambda: some(struck_at + 15), "queries to the new master")
            setup.first.send(signal.SIGCONT)
        # The other server is promoted first: what the former master takes until it hears of that is lost, too.
        if blow == "SENTINEL FAILOVER":
            await until(lambda: _is_replica(setup.first.port), "the former master is a replica")
        heard_at = len(asking.sent)
        await until(lambda: some(heard_at + 40), "queries after")
        await asking.stop()

        async def settled() -> bool:
            waiting = await redis.xlen(settings.query_stream)
            return waiting == 0

        await until(settled, "every query that the new master knows is answered")
        replies, decisions = await _counts(executor)
        # Every query has one reply and one decision on the bus that is left, and both or neither.
        assert replies == decisions
        assert set(replies.values()) == {1}
        lost = [name for name in asking.sent if name not in replies]
        # What was lost was sent just before the blow: replication is asynchronous.
        ended_at = heard_at if blow == "SENTINEL FAILOVER" else struck_at
        assert set(lost) <= set(asking.sent[carried : ended_at + 5])
        assert not set(lost) & set(asking.sent[-30:]), "nothing is lost after the failover"
        assert (await command(redis, "ROLE"))[0] == b"master"


async def test_what_no_sentinel_knows_is_named(setup: SentinelSetup) -> None:
    async with connect(setup.url.replace("/mesh/", "/mash/")) as redis:
        with pytest.raises(ConnectionError, match="knows no 'mash'"):
            await command(redis, "PING")
    nobody = free_port()
    async with connect(f"redis+sentinel://127.0.0.1:{nobody}/mesh") as redis:
        with pytest.raises(ConnectionError, match=f"127.0.0.1:{nobody}: .*Connect call failed"):
            await command(redis, "PING")


async def test_a_replica_that_a_sentinel_still_takes_for_the_master_is_not_written_to(setup: SentinelSetup) -> None:
    async with connect(setup.url) as redis, connect(f"redis://127.0.0.1:{setup.first.port}") as first:
        await command(redis, "PING")
        # Behind the Sentinels' back; they need a while to see it.
        await command(first, "REPLICAOF", "127.0.0.1", setup.second.port)
        with pytest.raises(BUS_AWAY):
            await redis.set("a", "b")
        with pytest.raises(ConnectionError, match="no longer the master"):
            await redis.set("a", "b")
