"""Entries with ids far ahead of the clock: what a worker makes of the stream, and that nothing is lost by it."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from executor import Executor, command, info, rows, server_ms, until
from redis.asyncio import Redis
from redis.exceptions import ResponseError
from serving import OneMemory, opened_with, quick_settings, serving

from orion_recall.bus.renewal import AHEAD_MS, StreamRenewal
from orion_recall.cli.serving.status import problems_of, read_workers
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.memory.replicas.tombstones import Tombstones, TombstoneStream
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.settings import RECALL_GROUP, Settings

pytestmark = pytest.mark.slow

QUESTION = {"fragment": "Who feeds the gulls?"}
MOST = "18446744073709551615"
AHEAD = (f"{MOST}-{MOST}", f"{MOST}-0", "9999999999999-7", "day")
OURS = ("{query}", "{store}", "{query}:dead", "{decision}", "{decision}:dead", "{reply}", "{tombstone}")


async def id_of(redis: Redis, wanted: str) -> str:
    return f"{await server_ms(redis) + 86_400_000}-1" if wanted == "day" else wanted


def named(settings: Settings, stream: str) -> str:
    return stream.format(
        query=settings.query_stream,
        store=settings.intake_streams["stores"],
        decision=settings.decision_stream,
        reply=settings.reply_stream,
        tombstone=settings.tombstone_stream,
    )


@pytest.mark.parametrize("wanted", AHEAD)
async def test_an_entry_with_an_id_of_the_future_ends_no_intake(
    bus: Redis, bus_alone: EmbeddedEngines, tokens: TokenCounter, wanted: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = quick_settings(bus_alone.redis_url)
    executor = Executor(bus, settings.prefix)
    entry = await id_of(bus, wanted)
    async with serving(settings, opened_with(OneMemory(), tokens)) as (service, _):
        evil = json.dumps(executor.message(QUESTION, correlation_id="c-evil"))
        await executor.add({"envelope": evil}, entry_id=entry)

        async def is_anew() -> bool:
            return service.renewal.counts[settings.query_stream] > 0

        await until(is_anew, "a stream made anew")
        ended = await executor.ended(await executor.ask(QUESTION))
        assert ended.decision["outcome"] == "ok"
        assert f"{settings.query_stream} was made anew" in caplog.text

        async def is_told() -> bool:
            (worker,) = await read_workers(bus, settings, [settings.instance]) or [{"made_anew": None}]
            return worker["made_anew"] is not None and any(
                "made streams anew" in one for one, _ in problems_of(worker)
            )

        await until(is_told, "a word of it in the heartbeat")
        told = [one["correlation_id"] for one in await executor.replies(executor.reply_to)]
        assert told.count("c-evil") == 1, "who sent it is answered, too, and once"
    await executor.close()


async def test_a_worker_that_starts_finds_a_stream_that_takes_nothing(
    bus: Redis, bus_alone: EmbeddedEngines, tokens: TokenCounter
) -> None:
    settings = quick_settings(bus_alone.redis_url)
    executor = Executor(bus, settings.prefix)
    await executor.add({"envelope": "{"}, entry_id=f"{MOST}-{MOST}")
    with pytest.raises(ResponseError, match="exhausted"):
        await executor.ask(QUESTION)
    async with serving(settings, opened_with(OneMemory(), tokens)) as (service, _):

        async def is_anew() -> bool:
            return service.renewal.counts[settings.query_stream] > 0

        await until(is_anew, "a stream made anew")
        assert (await executor.ended(await executor.ask(QUESTION))).decision["outcome"] == "ok"

        async def is_dead() -> bool:
            return len(await rows(bus, executor.dead)) == 1

        await until(is_dead, "what was no message is a dead letter")
    await executor.close()


async def test_a_query_in_flight_when_its_stream_is_made_anew_is_answered_once(
    bus: Redis, bus_alone: EmbeddedEngines, tokens: TokenCounter
) -> None:
    settings, source = quick_settings(bus_alone.redis_url), OneMemory()
    executor = Executor(bus, settings.prefix)
    async with serving(settings, opened_with(source, tokens)) as (service, _):
        source.gate.clear()
        for number in range(3):
            await executor.ask(QUESTION, correlation_id=f"c-{number}")

        async def in_flight() -> bool:
            return source.waiting >= 3

        await until(in_flight, "three queries in flight")
        await executor.add({"envelope": "{"}, entry_id=f"{MOST}-{MOST}")

        async def is_anew() -> bool:
            return service.renewal.counts[settings.query_stream] > 0

        await until(is_anew, "a stream made anew")
        source.gate.set()
        assert (await executor.ended(await executor.ask(QUESTION, correlation_id="c-3"))).decision[
            "outcome"
        ] == "ok"

        async def all_answered() -> bool:
            return len(await executor.replies(executor.reply_to)) >= 4 and not await bus.xlen(executor.queries)

        await until(all_answered, "all answers")
        told = [one["correlation_id"] for one in await executor.replies(executor.reply_to)]
        assert sorted(one for one in told if one.startswith("c-")) == ["c-0", "c-1", "c-2", "c-3"]
    await executor.close()


@pytest.mark.parametrize("stream", OURS)
async def test_every_stream_of_ours_is_made_anew_with_its_entries_and_groups(
    bus: Redis, bus_alone: EmbeddedEngines, stream: str
) -> None:
    settings = quick_settings(bus_alone.redis_url)
    key, renewal = named(settings, stream), StreamRenewal(bus, settings)
    try:
        await bus.xgroup_create(key, RECALL_GROUP, id="0", mkstream=True)
        before: Any = [await bus.xadd(key, {"envelope": str(number), "more": "é"}) for number in range(150)]
        await renewal.renew()
        assert not renewal.counts
        await bus.xadd(key, {"envelope": "evil"}, id=f"{MOST}-{MOST}")
        await renewal.renew()
        assert renewal.counts == {key: 1}
        after = await rows(bus, key)
        assert [name.encode() for name, _ in after[:-1]] == before, "an id that is not ahead stays"
        assert [fields[b"envelope"] for _, fields in after] == [*(b"%d" % one for one in range(150)), b"evil"]
        assert int(after[-1][0].partition("-")[0]) <= await server_ms(bus)
        (group,) = await bus.xinfo_groups(key)
        assert (group["name"], group["last-delivered-id"]) == (RECALL_GROUP.encode(), b"0-0")
        await bus.xadd(key, {"envelope": "later"})
        await renewal.renew()
        assert renewal.counts == {key: 1}
    finally:
        await bus.unlink(key)


async def test_an_id_that_was_delivered_and_is_gone_is_noticed(bus: Redis, bus_alone: EmbeddedEngines) -> None:
    settings = quick_settings(bus_alone.redis_url)
    key, renewal = settings.query_stream, StreamRenewal(bus, settings)
    try:
        await bus.xgroup_create(key, RECALL_GROUP, id="0", mkstream=True)
        await bus.xadd(key, {"envelope": "evil"}, id=f"{MOST}-{MOST}")
        await bus.xreadgroup(RECALL_GROUP, "w", {key: ">"}, count=1)
        await bus.xack(key, RECALL_GROUP, f"{MOST}-{MOST}")
        await bus.xdel(key, f"{MOST}-{MOST}")
        await renewal.renew()
        assert renewal.counts == {key: 1}
        await bus.xadd(key, {"envelope": "later"})
    finally:
        await bus.unlink(key)


async def test_what_is_ahead_by_less_than_clocks_differ_or_is_no_stream_is_left_alone(
    bus: Redis, bus_alone: EmbeddedEngines
) -> None:
    settings = quick_settings(bus_alone.redis_url)
    renewal = StreamRenewal(bus, settings)
    near = f"{await server_ms(bus) + AHEAD_MS // 2}-0"
    await bus.xadd(settings.query_stream, {"envelope": "x"}, id=near)
    await bus.set(settings.reply_stream, "no stream", ex=60)
    await renewal.renew()
    assert not renewal.counts
    assert [name for name, _ in await rows(bus, settings.query_stream)] == [near]
    await bus.unlink(settings.query_stream, settings.reply_stream)


async def test_tombstones_are_read_before_and_after_their_stream_is_made_anew(
    bus: Redis, bus_alone: EmbeddedEngines
) -> None:
    settings = quick_settings(bus_alone.redis_url)
    known = Tombstones()
    stream, other = (TombstoneStream(bus, bus, settings.tombstone_stream, one) for one in (known, Tombstones()))
    try:
        await other.publish({1: 11})
        await bus.xadd(settings.tombstone_stream, {"positions": '{"2": 12}'}, id=f"{MOST}-{MOST}")
        with pytest.raises(Exception, match="far ahead of the clock"):
            await stream.catch_up()
        await StreamRenewal(bus, settings).renew()
        await other.publish({3: 13})
        await stream.catch_up()
        assert [known.hides(key, 10) for key in (1, 2, 3)] == [True, True, True]
    finally:
        await bus.unlink(settings.tombstone_stream)


async def test_a_published_query_chooses_no_id(
    bus: Redis, bus_alone: EmbeddedEngines, tokens: TokenCounter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "orion_recall.bus")
    settings = quick_settings(bus_alone.redis_url)
    executor = Executor(bus, settings.prefix)
    channel = settings.published_on["queries"][0]
    async with serving(settings, opened_with(OneMemory(), tokens)) as (service, _):
        for number, hostile in enumerate((f"{MOST}-{MOST}", "*", "MAXLEN", "NOMKSTREAM", "ID")):
            message = executor.message(QUESTION, id=hostile, correlation_id=f"c-{number}", entry_id=hostile)
            await command(bus, "PUBLISH", channel, json.dumps(message))

        async def all_answered() -> bool:
            return len(await executor.replies(executor.reply_to)) == 5

        await until(all_answered, "all answers")
        assert not service.renewal.counts
    errors = await info(bus, "errorstats")
    assert "made anew" not in caplog.text, errors
    await executor.close()
