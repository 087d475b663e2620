"""Messages about memories that Postgres refuses: answered, set aside, and in nobody's way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from decision_samples import decision, envelope
from executor import Executor, pending, rows, until
from redis.asyncio import Redis

from orion_recall.bus.commit import Committer
from orion_recall.bus.group_reader import GroupReader
from orion_recall.contracts import MemoryV1
from orion_recall.decisions.sink import _INSERT as INSERT  # pyright: ignore[reportPrivateUsage]
from orion_recall.decisions.sink import are_persisted
from orion_recall.memory.intake.consumers import IntakeConsumers
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.tombstones import Tombstones, TombstoneStream
from orion_recall.postgres.pool import Pool, open_pool
from orion_recall.settings import RECALL_GROUP, Settings

pytestmark = pytest.mark.slow

MESSAGES: dict[str, dict[str, Any]] = {
    "memory.store.v1": {"memories": [{"id": "new", "text": "It rained."}]},
    "memory.update.v1": {"memories": [{"id": "old", "text": "It poured."}]},
    "memory.delete.v1": {"ids": ["old"]},
    "recall.feedback.v1": {"correlation_id": "c-1", "used": ["old"]},
}


@pytest.fixture
async def owner(database: str) -> AsyncGenerator[Pool]:
    """Of a record with one memory, and of a role `reader_...` that may read everything and write nothing."""
    pool = await open_pool(database, name="owner", max_size=1)
    await Record(pool).store([compose(MemoryV1(id="old", text="It drizzled."), "default")])
    yield pool
    await pool.close()


@pytest.fixture
async def reader(owner: Pool) -> AsyncGenerator[str]:
    role = f"reader_{uuid4().hex}"
    await owner.execute(f"CREATE ROLE {role}")
    await owner.execute(f"GRANT USAGE ON SCHEMA orion_recall TO {role}")
    await owner.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA orion_recall TO {role}")
    await owner.execute(f"GRANT UPDATE (metadata) ON memories TO {role}")  # enough to read them for a change
    yield role
    await owner.execute(f"DROP OWNED BY {role}")
    await owner.execute(f"DROP ROLE {role}")


@asynccontextmanager
async def desks(redis: Redis, pool: Pool, settings: Settings) -> AsyncGenerator[None]:
    """All four streams are served over the pool."""

    def intake(stream: str) -> GroupReader:
        return GroupReader(redis, redis, stream=stream, group=RECALL_GROUP, consumer="worker")

    serving = IntakeConsumers(
        settings,
        pool,
        TombstoneStream(redis, redis, settings.tombstone_stream, Tombstones()),
        reader=intake,
        committer=partial(Committer, redis, settings),
        are_persisted=partial(are_persisted, redis, settings.decision_stream),
        wake=lambda: None,
    )
    for name in settings.intake_streams.values():
        await intake(name).create_group()
    task = asyncio.create_task(serving.run())
    try:
        yield
    finally:
        serving.stop()
        await task


@pytest.mark.parametrize("kind", MESSAGES)
async def test_without_a_right_every_message_is_answered_set_aside_and_in_nobodys_way(
    kind: str, bus: Redis, prefix: str, database: str, owner: Pool, reader: str
) -> None:
    settings = Settings(prefix=prefix, acknowledge_ms=0)
    executor, stream = Executor(bus, prefix), f"{prefix}{kind}"

    async def send() -> str:
        message = executor.message(MESSAGES[kind], kind=kind)
        return await executor.add({"envelope": json.dumps(message)}, stream=stream)

    async def answered() -> bool:
        return await bus.xlen(stream) == 0 and not await pending(bus, stream)

    # Feedback must be about a decision that there is, or it is refused before it is kept.
    await owner.execute(INSERT, [envelope(decision(corr_id="c-1"))])
    joint = "&" if "?" in database else "?"
    pool = await open_pool(f"{database}{joint}role={reader}", name="reader", max_size=6)
    async with desks(bus, pool, settings):
        sent = [await send() for _ in range(6)]  # more than are served at once
        await until(answered, "every message is answered", timeout_s=60)
        letters = [fields for _, fields in await rows(bus, f"{stream}:dead")]
        assert sorted(fields[b"entry_id"].decode() for fields in letters) == sorted(sent)
        assert all(fields[b"reason"].startswith(b"failed: ") for fields in letters)
        receipts = await executor.replies(executor.reply_to)
        assert len(receipts) == len(sent)
        for receipt in receipts:
            error = receipt["payload"]["error"]
            assert error["type"] == "failed"
            assert "permission denied for table" in error["message"]
            assert "orion-recall migrate" in error["message"]
        await owner.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA orion_recall TO {reader}")
        await owner.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA orion_recall TO {reader}")
        await send()
        await until(answered, "the next one is answered", timeout_s=60)
        last = (await executor.replies(executor.reply_to))[len(sent)]
        assert last["payload"].get("error") is None
    await pool.close()
    await executor.close()
