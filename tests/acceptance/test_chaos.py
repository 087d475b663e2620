"""Workers that die, sleep or lose an engine: every query still gets one reply and one decision."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from orion_recall.engines.embedded import EmbeddedEngines
from tests.acceptance.processes import (
    CLAIM_IDLE_MS,
    WITH_SERVERS,
    assert_once_each,
    broken_copy,
    executor_for,
    running_engines,
    start_worker,
    store_and_wait,
    wait_until,
)

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]
QUERIES = 200


@pytest.fixture(scope="module")
async def place() -> AsyncGenerator[tuple[EmbeddedEngines, Path]]:
    """Engines and a folder that this module's tests share; every test starts workers of its own."""
    async with running_engines() as found:
        yield found


async def test_a_worker_that_is_killed_and_started_again_answers_every_query_once(
    place: tuple[EmbeddedEngines, Path],
) -> None:
    engines, folder = place
    first = await start_worker(engines, folder / "a")
    await store_and_wait(engines, first)
    async with executor_for(engines) as executor:
        asking = asyncio.create_task(executor.ask_many(QUERIES, every_s=0.005))

        async def some_answered() -> bool:
            await executor.all_answered()
            return len(executor.replies) >= 20

        await wait_until(some_answered, what="the first twenty replies")
        first.send(signal.SIGKILL)
        await first.ended()
        again = await start_worker(engines, folder / "a")
        await asking
        await assert_once_each(executor, engines)
        assert await again.stop() == 0


async def test_of_two_workers_one_is_killed_and_one_sleeps_past_the_claim_time(
    place: tuple[EmbeddedEngines, Path],
) -> None:
    engines, folder = place
    doomed, sleeper, steady = await asyncio.gather(
        start_worker(engines, folder / "b"),
        start_worker(engines, folder / "c"),
        start_worker(engines, folder / "d"),
    )
    await store_and_wait(engines, doomed, sleeper, steady)
    async with executor_for(engines) as executor:
        asking = asyncio.create_task(executor.ask_many(QUERIES, every_s=0.005))

        async def both_hold_some() -> bool:
            consumers: Any = await executor.redis.xinfo_consumers("recall.query.v1", "orion-recall")
            held = {consumer["name"].decode(): consumer["pending"] for consumer in consumers}
            return all(held.get(worker.ready["instance"], 0) > 0 for worker in (doomed, sleeper))

        await wait_until(both_hold_some, what="both workers to hold an entry")
        sleeper.send(signal.SIGSTOP)
        doomed.send(signal.SIGKILL)
        await doomed.ended()
        await asking

        async def everything_answered() -> bool:
            return await executor.all_answered()

        await wait_until(everything_answered, what="the steady worker to answer for all three")
        # The sleeper wakes up with entries in flight that others have answered: the fence stops it.
        await asyncio.sleep(CLAIM_IDLE_MS / 1000)
        sleeper.send(signal.SIGCONT)
        await assert_once_each(executor, engines)
        assert await sleeper.stop() == 0
        await executor.all_answered()
        assert {len(replies) for replies in executor.replies.values()} == {1}
        assert await steady.stop() == 0


async def test_postgres_away_for_a_whole_run_costs_the_timeline_and_no_decision() -> None:
    async with running_engines() as (engines, folder):
        worker = await start_worker(engines, folder / "a")
        await store_and_wait(engines, worker)
        async with executor_for(engines) as executor:
            await engines.postgres.stop()
            await executor.ask_many(QUERIES, options={})
            await wait_until(executor.all_answered, what="a reply to every query")
            stats = [replies[0]["bundle"]["stats"] for replies in executor.replies.values()]
            assert {stat["outcome"] for stat in stats} == {"degraded"}
            assert {stat["sources"]["sql_timeline"]["status"] for stat in stats} == {"failed"}
            # Whether anything answers is another question: these ask for crates that nobody ever spoke of. On a
            # machine with much else to do a source may be late with one of so many queries at once.
            others = [stat["sources"][name] for stat in stats for name in ("vector", "lexical", "rdf")]
            assert [one for one in others if one["status"] != "late" and not one["count"]] == []
            assert any(replies[0]["bundle"]["items"] for replies in executor.replies.values())
            await engines.postgres.start()
            await assert_once_each(executor, engines)
            assert await worker.stop() == 0


@pytest.mark.parametrize(
    ("broken", "file", "silent"),
    [("index", "index.json", {"vector", "lexical"}), ("graph", "store/CURRENT", {"rdf"})],
)
async def test_a_broken_copy_degrades_replies_and_is_named(
    place: tuple[EmbeddedEngines, Path], broken: str, file: str, silent: set[str]
) -> None:
    engines, folder = place
    data_dir = folder / f"broken-{broken}"
    whole = await start_worker(engines, data_dir)
    await store_and_wait(engines, whole)
    assert await whole.stop() == 0
    async with broken_copy(engines, data_dir, broken, file):
        worker = await start_worker(engines, data_dir)
        async with executor_for(engines) as executor:
            await executor.ask("where does crate number 7 stand, Ana?", options={}, profile="deep.graph.v1")
            await assert_once_each(executor, engines)
            bundle = executor.replies[executor.sent[0]][0]["bundle"]
            stats = bundle["stats"]
            assert stats["outcome"] == "degraded"
            failed = {name for name, source in stats["sources"].items() if source["status"] == "failed"}
            # A server that is away may come back, and its tokens are asked for; a broken file is not asked at all.
            late = {"late"} if WITH_SERVERS and broken == "index" else set[str]()
            assert failed == silent | late
            named = "SPARQL server" if WITH_SERVERS and broken == "graph" else broken
            assert all(named in stats["sources"][name]["error"] for name in silent)
            assert bundle["items"]
        assert await worker.stop() == 0
