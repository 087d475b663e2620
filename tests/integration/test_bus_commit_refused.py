"""A server that takes no writes for a while: the commit waits, nothing is said twice, nobody is called refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest
from executor import Executor, command, rows, until
from redis.asyncio import Redis

from orion_recall.bus.commit import Commit, Committer, Limits, ReplyAddress, commit_when_possible
from orion_recall.bus.connect import connect
from tests.stand_ins.ports import free_port
from tests.stand_ins.redis_servers import RedisServer

STREAM, DECISIONS = "recall.query.v1", "recall.decision.v1"
CHANNEL = "orion:exec:result:1"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[RedisServer]:
    """One of its own: it is made a replica."""
    one = RedisServer(tmp_path)
    try:
        await one.start()
        yield one
    finally:
        await one.end()


async def _replica(redis: Redis) -> None:
    await command(redis, "REPLICAOF", "127.0.0.1", free_port())


async def _master(redis: Redis) -> None:
    await command(redis, "REPLICAOF", "NO", "ONE")


async def _too_few_replicas(redis: Redis) -> None:
    await command(redis, "CONFIG", "SET", "min-replicas-to-write", 1)


async def _enough_replicas(redis: Redis) -> None:
    await command(redis, "CONFIG", "SET", "min-replicas-to-write", 0)


Turn = Callable[[Redis], Awaitable[None]]


@pytest.mark.parametrize(
    ("mode", "shut", "open_again"),
    [
        ("own", _replica, _master),
        ("own", _too_few_replicas, _enough_replicas),
        ("channel", _replica, _master),
        ("channel", _too_few_replicas, _enough_replicas),
    ],
)
async def test_a_commit_waits_for_a_server_that_takes_no_writes(
    server: RedisServer, mode: str, shut: Turn, open_again: Turn
) -> None:
    async with connect(f"redis://127.0.0.1:{server.port}") as redis:
        executor = Executor(redis, "")
        await redis.xgroup_create(STREAM, "g", id="0", mkstream=True)
        entry = await executor.ask({"fragment": "a"})
        await redis.xreadgroup("g", "c", {STREAM: ">"})
        committer = Committer(
            redis,
            stream=STREAM,
            group="g",
            decision_stream=DECISIONS,
            dead_stream="dead",
            limits=Limits(reply_maxlen=10, reply_ttl_s=60, decisions_cap=1000),
        )
        name = executor.reply_to if mode == "own" else CHANNEL
        address = ReplyAddress(mode="own" if mode == "own" else "channel", name=name)
        commit = Commit(entry_id=entry, address=address, reply=b'{"a": 1}', decision=b"{}")
        async with executor.listening(CHANNEL) as heard:
            await shut(redis)
            task = asyncio.create_task(commit_when_possible(committer, commit))

            async def tried_twice() -> bool:
                stats = await command(redis, "INFO", "commandstats")
                told = stats.get("cmdstat_evalsha", {})
                return told.get("calls", 0) + told.get("rejected_calls", 0) >= 3 or task.done()

            await until(tried_twice, "it is tried again and again")
            assert not task.done()
            await open_again(redis)
            assert await asyncio.wait_for(task, 60) == "committed"
            published = 1 if mode == "channel" else 0

            async def all_heard() -> bool:
                return len(heard) >= published

            await until(all_heard, "what was published is heard")
            assert len(heard) == published
        assert len(await rows(redis, executor.reply_to)) == 1 - published
        assert len(await rows(redis, DECISIONS)) == 1
