"""Where query text is not kept, none of it stays: not on the bus, not in Postgres, not in dead letters."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from executor import Executor, rows
from redis.asyncio import Redis
from serving import OneMemory, opened_with, quick_settings, serving

from orion_recall.bus.dead_letters import DeadLetters
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import InvalidMessage
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.postgres.pool import open_connection

pytestmark = pytest.mark.slow

SECRET = "what did my doctor say about the gulls?"
MESSAGES: tuple[dict[str, Any], ...] = (
    {"payload": {"fragment": SECRET, "intent": SECRET}},
    {"payload": {"fragment": [SECRET]}},
    {"payload": SECRET},
)


@pytest.mark.parametrize("mode", ["hash", "none"])
async def test_no_text_stays_anywhere(
    mode: str, bus: Redis, bus_alone: EmbeddedEngines, database: str, tokens: TokenCounter
) -> None:
    settings = quick_settings(
        bus_alone.redis_url, postgres_dsn=database, query_text=mode, query_hash_key="k", decisions_retention_days=1
    )
    executor = Executor(bus, settings.prefix)
    connection = await open_connection(database, name="test", statement_timeout_ms=5000)
    try:
        await connection.execute(
            "INSERT INTO recall_decisions (id, corr_id, profile, query, latency_ms, created_at, outcome) "
            "VALUES (gen_random_uuid(), 'old', 'p', 'q', 1, $1, 'ok')",
            datetime.now(UTC) - timedelta(days=2),
        )
        async with serving(settings, opened_with(OneMemory(), tokens)):
            ended = [await executor.ended(await executor.ask(**message)) for message in (*MESSAGES, MESSAGES[0])]
            broken = await executor.ended(await executor.add({"envelope": f'{{"payload": "{SECRET}'}))
            async with asyncio.timeout(30):
                while await connection.fetchval("SELECT count(*) FROM recall_decisions") != len(ended) + 1:
                    await asyncio.sleep(0.05)
        held = await connection.fetchval("SELECT string_agg(d::text, ' ') FROM recall_decisions AS d")
        queries = await connection.fetch("SELECT query FROM recall_decisions WHERE outcome = 'ok'")
    finally:
        await connection.close()
        await executor.close()
    assert [one.decision["outcome"] for one in (*ended, broken)] == ["ok", "invalid", "invalid", "ok", "invalid"]
    on_the_bus = [await rows(bus, stream) for stream in (executor.decisions, executor.dead, executor.shared)]
    assert [len(entries) > 0 for entries in on_the_bus] == [True, True, True]
    assert "doctor" not in f"{held} {on_the_bus} {ended} {broken}"
    assert "old" not in held, "what is older than the retention is deleted by the worker"
    assert {row["query"] for row in queries} == {ended[0].decision["query"]}, "equal queries can be grouped"
    assert ended[0].decision["query"].startswith("blake2b:") is (mode == "hash")
    assert ended[0].decision["query_chars"] == len(SECRET)


async def test_a_letter_without_its_message_says_so_and_is_not_put_back(
    bus: Redis, bus_alone: EmbeddedEngines, tokens: TokenCounter
) -> None:
    settings = quick_settings(bus_alone.redis_url, query_text="none")
    executor = Executor(bus, settings.prefix)
    letters = DeadLetters(bus, settings.query_stream)
    async with serving(settings, opened_with(OneMemory(), tokens)):
        await executor.ended(await executor.ask({"fragment": 7}))
    (letter,) = await letters.latest()
    assert (letter.withheld, letter.fields) == (True, {})
    assert letter.reason.startswith("invalid: payload.fragment")
    with pytest.raises(InvalidMessage, match="ORION_QUERY_TEXT"):
        await letters.requeue(letter)
    assert await letters.latest() == [letter]
    await executor.close()
