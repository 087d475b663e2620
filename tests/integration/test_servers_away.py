"""Redis and Postgres killed, hung and slow in turn, while a whole worker answers queries through a TCP proxy.

Asked is over the bus's own socket, beside the proxy: what is measured is what the worker does.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psutil
import pytest
from executor import Ended, Executor, command, until
from redis.asyncio import Redis
from serving import OneMemory, opened_with, quick_settings, serving, started

from orion_recall.bus.connect import connect
from orion_recall.client import RecallClient
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import ReplyTimeout
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.postgres.pool import open_connection
from orion_recall.serving.service import Service
from orion_recall.settings import Settings
from tests.stand_ins.patient_profiles import patient_profiles
from tests.stand_ins.proxy import Proxy

pytestmark = pytest.mark.slow

DEADLINE_MS = 2000
# What a busy machine may add to a deadline.
SLACK_S = 20.0
QUESTION: dict[str, Any] = {"fragment": "Where does Ana work?", "options": {}}
# Connections that a worker may hold: the timeline's and the pool's; commands' and those of reads that block (five
# intakes, the sink's, the tombstones').
MOST_POSTGRES, MOST_REDIS = 4 + 6, 16 + 7


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A worker, its servers, what is between them, and an executor."""

    engines: EmbeddedEngines
    service: Service
    executor: Executor
    redis_way: Proxy
    postgres_way: Proxy

    async def asked(self, count: int = 3) -> list[tuple[float, Ended]]:
        """Queries at once, and how long each took."""

        async def one() -> tuple[float, Ended]:
            began = time.monotonic()
            entry = await self.executor.ask(QUESTION)
            ended = await self.executor.ended(entry)
            return time.monotonic() - began, ended

        return await asyncio.gather(*(one() for _ in range(count)))

    async def well(self) -> None:
        """Returns when a query is answered by every source, and the sink writes."""

        async def all_answer() -> bool:
            ((_, ended),) = await self.asked(1)
            sink = self.service.background.sink
            statuses = {source["status"] for source in ended.decision["sources"].values()}
            return statuses <= {"ok", "empty"} and sink is not None and not sink.postgres_is_away

        await until(all_answer, "a worker that is well", 90)

    def pid(self, name: str) -> int:
        return self.engines.pids[name]

    def signal(self, name: str, number: signal.Signals) -> None:
        """To a server and all its processes."""
        for one in (parent := psutil.Process(self.pid(name)), *parent.children(recursive=True)):
            one.send_signal(number)

    async def postgres_sessions(self) -> int:
        """The worker's sessions, as the server counts them."""
        connection = await open_connection(self.engines.postgres_dsn, name="looking", statement_timeout_ms=5000)
        try:
            return await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'orion-recall:%' "
                "AND application_name <> 'orion-recall:looking'"
            )
        finally:
            await connection.close()

    async def redis_clients(self) -> int:
        """The worker's connections, as the server counts them: all but the executor's own."""
        clients: bytes = await command(self.executor.redis, "CLIENT", "LIST")
        return sum(b" name=executor " not in client for client in clients.splitlines())


def tasks() -> Counter[str]:
    """How many tasks run each coroutine; those of the tests themselves and of their proxies are left out."""
    names = (getattr(task.get_coro(), "__qualname__", "?") for task in asyncio.all_tasks())
    return Counter(name for name in names if not name.startswith(("Proxy.", "test_", "_wrap_")))


@asynccontextmanager
async def own_engines() -> AsyncGenerator[EmbeddedEngines]:
    """Engines of this module's own, which come back when they are killed."""
    folder = Path(tempfile.mkdtemp(prefix="orion-away-", dir="/tmp"))
    folder.chmod(0o711)
    try:
        async with EmbeddedEngines.start(folder / "data") as engines:
            engines.supervise()
            yield engines
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
async def own() -> AsyncGenerator[EmbeddedEngines]:
    """The engines."""
    async with own_engines() as engines:
        yield engines


@asynccontextmanager
async def ways(engines: EmbeddedEngines) -> AsyncGenerator[tuple[Proxy, Proxy, dict[str, str]]]:
    """Proxies before Redis and Postgres, and the settings that lead through them."""
    host = parse_qs(urlsplit(engines.postgres_dsn).query)["host"][0]
    async with (
        Proxy.before_socket(engines.redis_url.removeprefix("unix://")) as redis_way,
        Proxy.before_socket(f"{host}/.s.PGSQL.5432") as postgres_way,
    ):
        yield (
            redis_way,
            postgres_way,
            {
                "redis_url": f"redis://{redis_way.host_and_port}?socket_timeout=1",
                "postgres_dsn": f"postgresql://orion@{postgres_way.host_and_port}/orion?sslmode=disable",
            },
        )


@pytest.fixture(scope="module")
async def running(own: EmbeddedEngines) -> AsyncGenerator[Scene]:
    """One worker that takes all the blows, one after the other."""
    async with AsyncExitStack() as stack:
        redis_way, postgres_way, addresses = await stack.enter_async_context(ways(own))
        settings = Settings.read(
            **addresses,
            data_dir=own.data_dir,
            prefix="away:",
            deadline_ms=DEADLINE_MS,
            profiles_dir=patient_profiles(own.data_dir),  # a source has all of it
            refresh_ms=100,
            claim_idle_ms=2000,
            instance="worker",
        )
        service = await stack.enter_async_context(started(settings))
        redis = await stack.enter_async_context(connect(f"{own.redis_url}?client_name=executor"))
        yield Scene(
            engines=own,
            service=service,
            executor=Executor(redis, settings.prefix),
            redis_way=redis_way,
            postgres_way=postgres_way,
        )


@pytest.fixture
async def scene(running: Scene) -> AsyncGenerator[Scene]:
    """The scene, well before; and after the test with the tasks of before, and no connection too many."""
    await running.well()
    before = tasks()
    yield running
    await running.well()

    async def as_before() -> bool:
        return not tasks() - before

    try:
        await until(as_before, "no task is left behind")
    except AssertionError:
        raise AssertionError(f"left behind: {tasks() - before}") from None

    async def connected_as_known() -> bool:
        # The servers and the proxies agree: nothing is half open on either side. A query that is given up is
        # cancelled over a connection of its own, which is there for a moment.
        postgres, redis = await running.postgres_sessions(), await running.redis_clients()
        known = running.postgres_way.connections, running.redis_way.connections
        return known == (postgres, redis) and postgres <= MOST_POSTGRES and redis <= MOST_REDIS

    await until(connected_as_known, "no connection is left behind, or one too many")
    await running.executor.close()


# Postgres: the bus is up, so every reply comes within its deadline.


async def _killed(scene: Scene) -> None:
    os.kill(scene.pid("postgres"), signal.SIGKILL)
    await scene.postgres_way.drop()


async def _nothing(scene: Scene) -> None:
    """It comes back by itself."""


Blow = Callable[[Scene], Awaitable[None]]


def _way(scene: Scene, server: str) -> Proxy:
    return scene.postgres_way if server == "postgres" else scene.redis_way


def signalled(server: str, number: signal.Signals) -> Blow:
    async def blow(scene: Scene) -> None:
        scene.signal(server, number)

    return blow


def refusing(server: str, *, ends: bool = False) -> Blow:
    async def blow(scene: Scene) -> None:
        way = _way(scene, server)
        await (way.listen() if ends else way.refuse())

    return blow


def silent(server: str, *, ends: bool = False) -> Blow:
    async def blow(scene: Scene) -> None:
        way = _way(scene, server)
        (way.resume if ends else way.hang)()

    return blow


def slow(server: str, delay_s: float) -> Blow:
    async def blow(scene: Scene) -> None:
        _way(scene, server).delay_s = delay_s

    return blow


def blows_on(server: str, **delays_s: float) -> dict[str, tuple[Blow, Blow]]:
    """What becomes of the server or the way to it, and how that ends."""
    process = "valkey" if server == "redis" else server
    return {
        "refusing": (refusing(server), refusing(server, ends=True)),
        "hung": (signalled(process, signal.SIGSTOP), signalled(process, signal.SIGCONT)),
        "silent": (silent(server), silent(server, ends=True)),
        **{name: (slow(server, delay_s), slow(server, 0.0)) for name, delay_s in delays_s.items()},
    }


POSTGRES = blows_on("postgres", slow=2 * DEADLINE_MS / 1000) | {"killed": (_killed, _nothing)}


@pytest.mark.parametrize("blow", POSTGRES)
async def test_postgres_costs_its_own_hits_and_nothing_else(blow: str, scene: Scene) -> None:
    strike, heal = POSTGRES[blow]
    await strike(scene)
    try:
        statuses = Counter[str]()
        # Six in a row in any case: the source is left alone after three, and tried again two seconds later.
        for _ in range(6):
            for took_s, ended in await scene.asked(2):
                assert took_s < DEADLINE_MS / 1000 + SLACK_S
                sources = ended.decision["sources"]
                statuses[sources["sql_timeline"]["status"]] += 1
                assert {sources[name]["status"] for name in ("vector", "lexical", "rdf")} <= {"ok", "empty"}
        replies = await scene.executor.replies(scene.executor.reply_to)
        assert set(Counter(reply["correlation_id"] for reply in replies).values()) == {1}
        if blow in ("refusing", "hung", "silent", "slow"):
            assert set(statuses) <= {"late", "failed"}, statuses
        if blow in ("hung", "silent", "slow"):
            assert statuses["late"] >= 1, "one that says nothing is late"
            assert statuses["failed"] >= 1, "and then left alone"
    finally:
        await heal(scene)


# Redis: while the bus is away nothing can be answered; afterwards every query is, once.


async def _cut_off(scene: Scene) -> None:
    await scene.redis_way.drop()


# `too_slow`: slower than the socket time-out.
REDIS = blows_on("redis", slow=0.1, too_slow=0.7) | {"cut off": (_cut_off, _nothing)}
# The executor's own socket hangs with it: the queries must be there before.
HUNG, WOKEN = REDIS.pop("hung")


@pytest.mark.parametrize("blow", REDIS)
async def test_a_bus_that_is_away_answers_every_query_once_when_it_is_back(blow: str, scene: Scene) -> None:
    strike, heal = REDIS[blow]
    before = [await scene.executor.ask(QUESTION) for _ in range(5)]
    await strike(scene)
    try:
        during = [await scene.executor.ask(QUESTION) for _ in range(5)]
        if blow == "slow":
            for took_s, ended in await scene.asked(2):
                assert took_s < DEADLINE_MS / 1000 + SLACK_S
                # On a busy machine a source may miss the deadline beside it; the query is answered all the same.
                assert ended.decision["outcome"] in {"empty", "degraded"}
        else:
            # Longer than the socket time-outs: what waits has been given up once.
            await asyncio.sleep(3.5)
    finally:
        await heal(scene)
    for entry in before + during:
        ended = await scene.executor.ended(entry)
        assert len(ended.decisions) == 1
    replies = Counter(reply["correlation_id"] for reply in await scene.executor.replies(scene.executor.reply_to))
    assert set(replies.values()) == {1}


async def test_a_bus_that_hangs_holds_up_everything_and_loses_nothing(scene: Scene) -> None:
    entries = [await scene.executor.ask(QUESTION) for _ in range(5)]
    await HUNG(scene)
    try:
        await asyncio.sleep(3.5)
    finally:
        await WOKEN(scene)
    for entry in entries:
        assert len((await scene.executor.ended(entry)).decisions) == 1
    for took_s, _ in await scene.asked(3):
        assert took_s < DEADLINE_MS / 1000 + SLACK_S, "answered at once again"


# Ending: a worker that is told to stop stops, whatever its servers say.


@pytest.mark.parametrize("hung", ["postgres", "redis"])
async def test_a_worker_stops_while_a_server_hangs_and_leaves_nothing_behind(
    hung: str, own: EmbeddedEngines, tokens: TokenCounter
) -> None:
    before = tasks()
    async with ways(own) as (redis_way, postgres_way, addresses):
        settings = quick_settings(addresses.pop("redis_url"), **addresses)
        way = redis_way if hung == "redis" else postgres_way
        async with serving(settings, opened_with(OneMemory(), tokens)) as (service, task):

            async def sink_writes() -> bool:
                return (
                    service.background.sink is not None
                    and service.background.sink.lag is not None
                    and bool(service.background.projectors == [])
                )

            await until(sink_writes, "the worker is at work")
            way.hang()
            await asyncio.sleep(0.5)
            service.stop()
            await asyncio.wait_for(task, 60)
        way.resume()

        async def all_closed() -> bool:
            return redis_way.connections == postgres_way.connections == 0

        await until(all_closed, "every connection is closed")

    async def as_before() -> bool:
        return not tasks() - before

    await until(as_before, "no task is left behind")
    async with connect(own.redis_url) as redis:
        await _remove(redis, settings.prefix)


async def test_a_client_may_have_more_calls_in_flight_than_its_pool_has_connections(own: EmbeddedEngines) -> None:
    async with RecallClient.connect(own.redis_url, prefix="nobody:") as client:
        calls = [client.recall("who?", timeout_s=5) for _ in range(300)]
        ended = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(one) for one in ended} == {ReplyTimeout}, "sent, every one of them, and answered by nobody"
    async with connect(own.redis_url) as redis:
        assert await redis.xlen("nobody:recall.query.v1") == 300
        await _remove(redis, "nobody:")


async def _remove(redis: Redis, prefix: str) -> None:
    keys: Any = await command(redis, "KEYS", f"{prefix}*")
    if keys:
        await redis.unlink(*keys)
