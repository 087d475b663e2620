from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import cast
from uuid import uuid4

import pytest
from decision_samples import decision, envelope, publish
from executor import until
from redis.asyncio import Redis

from orion_recall.bus.connect import connect
from orion_recall.decisions.sink import DecisionSink
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.postgres.pool import Pool
from orion_recall.settings import DECISIONS_GROUP, Settings


@pytest.fixture
async def redis(engines: EmbeddedEngines) -> AsyncGenerator[Redis]:
    client = connect(engines.redis_url)
    yield client
    await client.aclose()


@pytest.fixture
def settings() -> Settings:
    return Settings(prefix=f"{uuid4().hex}:", decisions_keep_s=0)


@pytest.fixture
def sink(redis: Redis, pool: Pool, settings: Settings) -> DecisionSink:
    return DecisionSink(redis, pool, settings, consumer="sink-1")


@asynccontextmanager
async def _running(sink: DecisionSink) -> AsyncGenerator[asyncio.Task[None]]:
    task = asyncio.create_task(sink.run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _has_rows(pool: Pool, count: int) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return await pool.fetchval("SELECT count(*) FROM recall_decisions") == count

    return check


def _is_idle(redis: Redis, stream: str) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        groups = await redis.xinfo_groups(stream)
        return all(group["pending"] == 0 and group["lag"] == 0 for group in groups)

    return check


async def _entries(redis: Redis, stream: str) -> list[tuple[bytes, dict[bytes, bytes]]]:
    return cast("list[tuple[bytes, dict[bytes, bytes]]]", await redis.xrange(stream))


async def test_decisions_that_were_there_before_and_that_come_later_are_persisted_and_acknowledged(
    redis: Redis, pool: Pool, settings: Settings, sink: DecisionSink
) -> None:
    await publish(redis, settings.decision_stream, envelope(decision()))
    async with _running(sink):
        await until(_has_rows(pool, 1), "the one that was there")
        await publish(redis, settings.decision_stream, envelope(decision()))
        await until(_has_rows(pool, 2), "the one that came later")
        await until(_is_idle(redis, settings.decision_stream), "acknowledged")
    assert sink.counts["persisted"] == 2


async def test_a_decision_that_comes_twice_is_one_row(
    redis: Redis, pool: Pool, settings: Settings, sink: DecisionSink
) -> None:
    twice = envelope(decision())
    await publish(redis, settings.decision_stream, twice, twice, envelope(decision()))
    async with _running(sink):
        await until(_has_rows(pool, 2), "both")
        await publish(redis, settings.decision_stream, twice)
        await until(_is_idle(redis, settings.decision_stream), "acknowledged")
    assert (sink.counts["persisted"], sink.counts["repeated"]) == (2, 2)
    assert await pool.fetchval("SELECT count(*) FROM recall_decisions") == 2


BAD = {
    "broken json": b'{"payload": {',
    "not utf-8": b'{"payload": "\xff"}',
    "no payload": b"{}",
    "payload is a list": b'{"payload": []}',
    "nul": envelope(decision(query="a\x00b")),
    "lone surrogate": envelope(decision(query="a\ud800b")),
    "id is no uuid": envelope(decision(id="seven")),
    "tokens is a word": envelope(decision(tokens="many")),
    "selected_ids is an object": envelope(decision(selected_ids={})),
    "outcome is unknown": envelope(decision(outcome="fine")),
    "no profile": envelope(decision(profile=None)),
    "too deep": b'{"payload": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
}


async def test_rows_that_postgres_refuses_are_set_aside_alone_with_the_reason(
    redis: Redis, pool: Pool, settings: Settings, sink: DecisionSink
) -> None:
    good = [envelope(decision()) for _ in BAD]
    mixed = [text for pair in zip(good, BAD.values(), strict=True) for text in pair]
    await publish(redis, settings.decision_stream, *mixed)
    await redis.xadd(settings.decision_stream, {"other": "field"})
    async with _running(sink):
        await until(_has_rows(pool, len(good)), "every good row")
        await until(_is_idle(redis, settings.decision_stream), "acknowledged")
    letters = [fields for _, fields in await _entries(redis, f"{settings.decision_stream}:dead")]
    assert [letter[b"envelope"] for letter in letters if letter[b"envelope"]] == list(BAD.values())
    assert all(letter[b"reason"] and letter[b"entry_id"] for letter in letters)
    assert sink.counts["set_aside"] == len(BAD) + 1


async def _pending(redis: Redis, stream: str) -> list[str]:
    rows = await redis.xpending_range(stream, DECISIONS_GROUP, min="-", max="+", count=100)
    return [cast("bytes", row["message_id"]).decode() for row in rows]


def _holds(redis: Redis, stream: str, ids: list[str]) -> Callable[[], Awaitable[bool]]:
    """Everything else was handed out and acknowledged."""

    async def check() -> bool:
        groups = await redis.xinfo_groups(stream)
        return [group["lag"] for group in groups] == [0] and await _pending(redis, stream) == ids

    return check


async def test_what_neither_postgres_nor_the_dead_stream_takes_stays_pending_and_holds_up_nothing(
    redis: Redis, pool: Pool, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "orion_recall.decisions")
    stream = settings.decision_stream
    patient = settings.changed(claim_idle_ms=600_000)  # what is pending is not looked at again in this test
    await redis.set(f"{stream}:dead", "taken")
    first, _, last = await publish(redis, stream, b"bad", envelope(decision()), b"worse")
    other = cast("bytes", await redis.xadd(stream, {"other": "field"})).decode()
    sink = DecisionSink(redis, pool, patient, consumer="sink-1")
    async with _running(sink):
        await until(_holds(redis, stream, [first, last, other]), "the refused are pending, the good one is not")
        await publish(redis, stream, envelope(decision()))
        await until(_has_rows(pool, 2), "one that came later")
        await until(_holds(redis, stream, [first, last, other]), "still")
        assert (sink.counts["held"], sink.counts["set_aside"]) == (3, 0), "tried once each"
        said = [record.message for record in caplog.records]
        assert len(said) == 1, said
        assert "stay pending" in said[0]
        # When it stops it tries once more; what is refused then is its successor's.
    assert await _pending(redis, stream) == [first, last, other]
    await redis.delete(f"{stream}:dead")
    async with _running(DecisionSink(redis, pool, patient, consumer="sink-1")):
        await until(_is_idle(redis, stream), "acknowledged")
    letters = [fields[b"entry_id"].decode() for _, fields in await _entries(redis, f"{stream}:dead")]
    assert sorted(letters) == [first, last, other]


async def test_a_held_decision_is_tried_again_by_itself_and_either_of_the_two_may_take_it(
    redis: Redis, pool: Pool, settings: Settings
) -> None:
    stream = settings.decision_stream
    await redis.set(f"{stream}:dead", "taken")
    sent = decision(outcome="postponed")
    (held,) = await publish(redis, stream, envelope(sent))
    sink = DecisionSink(redis, pool, settings.changed(claim_idle_ms=100), consumer="sink-1")

    async def tried_again() -> bool:
        return sink.counts["held"] >= 2

    async with _running(sink):
        await until(tried_again, "it is claimed when it has been idle", 60)
        assert await _pending(redis, stream) == [held]
        await pool.execute("ALTER TABLE recall_decisions DROP CONSTRAINT recall_decisions_outcome_check")
        await until(_has_rows(pool, 1), "Postgres takes it after all", 60)
        await until(_is_idle(redis, stream), "acknowledged")
    assert await pool.fetchval("SELECT id::text FROM recall_decisions") == sent["id"]


async def test_postgres_stopped_and_started_again_loses_nothing_and_is_told_once(
    redis: Redis,
    pool: Pool,
    settings: Settings,
    sink: DecisionSink,
    engines: EmbeddedEngines,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "orion_recall.decisions")
    stream = settings.decision_stream

    async def waits() -> bool:
        return sink.postgres_is_away and (sink.lag or 0) == 2

    async with _running(sink):
        await publish(redis, stream, envelope(decision()))
        await until(_has_rows(pool, 1), "before the stop")
        await engines.postgres.stop()
        try:
            await publish(redis, stream, envelope(decision()))
            await publish(redis, stream, envelope(decision()))
            await until(waits, "the sink waits for Postgres, two behind")
        finally:
            await engines.postgres.start()
        await until(_has_rows(pool, 3), "after the start")
        await until(_is_idle(redis, stream), "acknowledged")
    said = [record.message for record in caplog.records if record.name == "orion_recall.decisions"]
    assert len(said) == 2, said


async def test_a_sink_that_is_stopped_while_postgres_is_away_leaves_its_batch_for_its_successor(
    redis: Redis, pool: Pool, settings: Settings
) -> None:
    await pool.execute("ALTER TABLE recall_decisions RENAME TO not_yet")
    await publish(redis, settings.decision_stream, *(envelope(decision()) for _ in range(3)))
    first = DecisionSink(redis, pool, settings, consumer="sink-1")

    async def waits() -> bool:
        return first.postgres_is_away

    async with _running(first):
        await until(waits, "the sink waits")
        began = time.monotonic()
    assert time.monotonic() - began < 30
    summary = await redis.xpending(settings.decision_stream, DECISIONS_GROUP)
    assert summary["pending"] == 3
    await pool.execute("ALTER TABLE not_yet RENAME TO recall_decisions")
    async with _running(DecisionSink(redis, pool, settings, consumer="sink-1")):
        await until(_has_rows(pool, 3), "the successor of the same name takes them at once")
        await until(_is_idle(redis, settings.decision_stream), "acknowledged")


async def test_a_batch_in_hand_is_finished_when_the_sink_is_stopped(
    redis: Redis, pool: Pool, settings: Settings, sink: DecisionSink
) -> None:
    await publish(redis, settings.decision_stream, envelope(decision()))
    async with pool.acquire() as blocker:
        lock = blocker.transaction()
        async with lock:
            await blocker.execute("LOCK TABLE recall_decisions IN ACCESS EXCLUSIVE MODE")

            async def writes() -> bool:
                waiting = (
                    "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'recall_decisions'::regclass"
                )
                return await blocker.fetchval(waiting) == 1

            task = asyncio.create_task(sink.run())
            await until(writes, "the sink is in the middle of a write")
            task.cancel()
            await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await pool.fetchval("SELECT count(*) FROM recall_decisions") == 1
    assert await _is_idle(redis, settings.decision_stream)()


async def test_decisions_of_a_dead_sink_are_taken_over(redis: Redis, pool: Pool, settings: Settings) -> None:
    stream = settings.decision_stream
    await publish(redis, stream, envelope(decision()), envelope(decision()))
    await redis.xgroup_create(stream, DECISIONS_GROUP, id="0")
    await redis.xreadgroup(DECISIONS_GROUP, "dead", {stream: ">"})
    ids = [entry_id for entry_id, _ in await _entries(redis, stream)]
    # As if it had been silent for a minute; the first is pending, but no longer on the stream.
    await redis.xclaim(stream, DECISIONS_GROUP, "dead", 0, [*ids], idle=60_000)
    await redis.xdel(stream, ids[0])
    async with _running(DecisionSink(redis, pool, settings, consumer="sink-1")):
        await until(_has_rows(pool, 1), "the one that is still there")
        await until(_is_idle(redis, stream), "acknowledged")


@pytest.mark.parametrize("disaster", ["FLUSHALL", "DEL", "XGROUP DESTROY"])
async def test_a_vanished_stream_or_group_heals(
    redis: Redis, pool: Pool, settings: Settings, sink: DecisionSink, disaster: str
) -> None:
    stream = settings.decision_stream
    await publish(redis, stream, envelope(decision()))
    async with _running(sink):
        await until(_has_rows(pool, 1), "before")
        if disaster == "FLUSHALL":
            await redis.flushall()  # pyright: ignore[reportUnknownMemberType]
        elif disaster == "DEL":
            await redis.delete(stream)
        else:
            await redis.xgroup_destroy(stream, DECISIONS_GROUP)
        await publish(redis, stream, envelope(decision()))
        await until(_has_rows(pool, 2), "after")


async def test_persisted_entries_are_trimmed_but_never_one_that_is_not_acknowledged(
    redis: Redis, pool: Pool, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orion_recall.decisions.sink.UPKEEP_EVERY_S", 0.1)
    stream = settings.decision_stream
    ids = await publish(redis, stream, *(envelope(decision()) for _ in range(1000)))
    await redis.xgroup_create(stream, DECISIONS_GROUP, id="0")
    await redis.xreadgroup(DECISIONS_GROUP, "slow", {stream: ">"}, count=550)
    await redis.xack(stream, DECISIONS_GROUP, *ids[:500])
    sink = DecisionSink(redis, pool, settings, consumer="sink-1")

    async def trimmed() -> bool:
        return sink.counts["trimmed"] > 0

    async with _running(sink):
        await until(trimmed, "something is trimmed")
    oldest = (await _entries(redis, stream))[0][0].decode()
    assert ids.index(oldest) in range(1, 501)


async def test_what_was_trimmed_while_it_was_pending_is_counted_as_lost(
    redis: Redis, pool: Pool, settings: Settings
) -> None:
    stream = settings.decision_stream
    await publish(redis, stream, *(envelope(decision()) for _ in range(3)))
    await redis.xgroup_create(stream, DECISIONS_GROUP, id="0")
    await redis.xreadgroup(DECISIONS_GROUP, "sink-1", {stream: ">"})  # and then its process was killed
    await redis.xtrim(stream, maxlen=1, approximate=False)
    async with _running(DecisionSink(redis, pool, settings, consumer="sink-1")):
        await until(_has_rows(pool, 1), "what is left")
        await until(_is_idle(redis, stream), "everything acknowledged")
    assert await redis.get(f"{stream}:trimmed") == b"2"


async def test_entries_younger_than_the_settings_keep_stay_on_the_bus(
    redis: Redis, pool: Pool, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orion_recall.decisions.sink.UPKEEP_EVERY_S", 0.1)
    stream = settings.decision_stream
    await publish(redis, stream, *(envelope(decision()) for _ in range(300)))
    sink = DecisionSink(redis, pool, settings.changed(decisions_keep_s=3600), consumer="sink-1")

    async def looked() -> bool:
        return sink.lag == 0

    async with _running(sink):
        await until(_has_rows(pool, 300), "all")
        await until(looked, "another look at the stream")
    assert await redis.xlen(stream) == 300


async def test_decisions_that_cannot_be_persisted_are_kept_up_to_a_number_of_bytes(
    redis: Redis, pool: Pool, settings: Settings
) -> None:
    sink = DecisionSink(redis, pool, settings.changed(dead_letters_bytes=1 << 20))
    dead = f"{settings.decision_stream}:dead"
    for number in range(30):
        assert await sink.set_aside(f"{number}-0", b"x" * 100_000, "refused")
    kept = [fields[b"entry_id"] for _, fields in await _entries(redis, dead)]
    assert 5 <= len(kept) <= 10
    assert kept == [b"%d-0" % number for number in range(30 - len(kept), 30)]
    await redis.delete(dead)
