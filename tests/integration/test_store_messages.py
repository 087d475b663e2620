"""`memory.store.v1`: exactly one receipt, each memory judged alone, nothing left pending."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from decision_samples import decision, envelope
from executor import Executor, pending, rows, until
from redis.asyncio import Redis
from serving import caught_up

from orion_recall.bus.commit import Committer
from orion_recall.bus.group_reader import GroupReader
from orion_recall.contracts import MemoryV1
from orion_recall.decisions.sink import _INSERT as INSERT  # pyright: ignore[reportPrivateUsage]
from orion_recall.decisions.sink import are_persisted
from orion_recall.memory.intake.consumers import IntakeConsumers
from orion_recall.memory.intake.handlers import MessageHandlers
from orion_recall.memory.record.compose import compose
from orion_recall.memory.record.record import Record
from orion_recall.memory.replicas.tombstones import Tombstones, TombstoneStream
from orion_recall.postgres.pool import Connection, Pool, open_pool
from orion_recall.serving.service import Service
from orion_recall.settings import RECALL_GROUP, Settings

KIND = "memory.store.v1"


class Storer:
    """Sends store messages with plain commands and reads their receipts."""

    def __init__(self, executor: Executor) -> None:
        self.executor, self.redis = executor, executor.redis
        self.stream = f"{executor.prefix}{KIND}"
        self.dead = f"{self.stream}:dead"

    async def send(self, memories: object, **envelope: Any) -> str:
        message = self.executor.message({"memories": memories}, kind=KIND, **envelope)
        return await self.executor.add({"envelope": json.dumps(message)}, stream=self.stream)

    async def receipts(self, entry_id: str, stream: str | None = None) -> list[dict[str, Any]]:
        """The envelopes that answer the entry, once it has been answered."""

        async def ended() -> bool:
            return not await self.redis.xrange(self.stream, entry_id, entry_id)

        await until(ended, f"{entry_id} is answered")
        return await self.executor.replies(stream or self.executor.reply_to, entry_id)

    async def receipt(self, memories: object, **envelope: Any) -> dict[str, Any]:
        """The payload of the one receipt."""
        (receipt,) = await self.receipts(await self.send(memories, **envelope))
        assert receipt["kind"] == "memory.receipt.v1"
        return receipt["payload"]

    async def letters(self, entry_id: str) -> list[dict[bytes, bytes]]:
        found = [fields for _, fields in await rows(self.redis, self.dead, entry_id)]
        return [fields for fields in found if fields[b"entry_id"] == entry_id.encode()]


@pytest.fixture
def storer(executor: Executor) -> Storer:
    return Storer(executor)


def memory(tenant: str, text: str = "The kettle is blue.", **fields: Any) -> dict[str, Any]:
    return {"id": f"m-{uuid4().hex[:8]}", "tenant": tenant, "text": text} | fields


async def test_a_batch_is_stored_and_found_once_the_receipts_position_is_reached(
    storer: Storer, service: Service, tenant: str
) -> None:
    batch = [memory(tenant, f"Kettle number {number} is blue.") for number in range(25)]
    receipt = await storer.receipt(batch)
    assert (receipt["stored"], receipt["unchanged"], receipt["conflict"], receipt["rejected"]) == (25, 0, 0, 0)
    assert [(one["id"], one["status"]) for one in receipt["results"]] == [(one["id"], "stored") for one in batch]
    assert receipt["position"] > 0
    await caught_up(service, receipt["position"])
    bundle = await storer.executor.answer({"fragment": "Which kettle is number 7?", "options": {"tenant": tenant}})
    assert bundle["bundle"]["items"][0]["id"] == batch[7]["id"]


async def test_bad_memories_are_rejected_with_reasons_and_hold_up_no_good_one(storer: Storer, tenant: str) -> None:
    good = memory(tenant)
    receipt = await storer.receipt(
        [
            {"id": "m-1", "tenant": tenant},
            {"tenant": tenant, "text": "No id."},
            memory(tenant, occurred_at="2026-03-01T09:30:00"),
            memory(tenant, kind="gossip"),
            memory("elsewhere"),
            memory(tenant, text=7),  # pyright: ignore[reportArgumentType]
            good,
        ]
    )
    assert [one["status"] for one in receipt["results"]] == ["rejected"] * 6 + ["stored"]
    reasons = [one.get("reason", "") for one in receipt["results"]]
    expected = (
        "memories.0.text",
        "memories.1.id",
        "no zone",
        "memories.3.kind",
        "'elsewhere'",
        "memories.5.text",
        "",
    )
    for reason, words in zip(reasons, expected, strict=True):
        assert words in reason
    assert [one["id"] for one in receipt["results"]][:2] == ["m-1", None]


async def test_text_that_no_store_can_hold_is_stored_without_it(
    storer: Storer, tenant: str, service_database: Connection
) -> None:
    receipt = await storer.receipt([memory(tenant, "a\x00b \ud800", tags=["\udfff"], metadata={"k\x00": ["\x00"]})])
    assert receipt["stored"] == 1
    text = await service_database.fetchval("SELECT text FROM memories WHERE tenant = $1", tenant)
    assert text == "a\ufffdb \ufffd"


INVALID: dict[str, tuple[dict[str, str], str]] = {
    "no envelope": ({"memories": "[]"}, "no field `envelope`"),
    "a query": (
        {"envelope": json.dumps({"kind": "recall.query.v1", "payload": {"fragment": "a"}})},
        "envelope.kind",
    ),
    "no memories": ({"envelope": json.dumps({"payload": {}})}, "payload.memories: Field required"),
    "too large a batch": ({"envelope": json.dumps({"payload": {"memories": [{}] * 1001}})}, "payload.memories"),
}


@pytest.mark.parametrize("name", INVALID)
async def test_an_invalid_store_message_is_answered_and_set_aside_as_it_was(name: str, storer: Storer) -> None:
    fields, says = INVALID[name]
    entry_id = await storer.executor.add(fields, stream=storer.stream)
    (receipt,) = await storer.receipts(entry_id, storer.executor.shared)
    error = receipt["payload"]["error"]
    assert (error["type"], str(UUID(receipt["correlation_id"]))) == ("invalid", receipt["correlation_id"])
    assert says in error["message"]
    assert receipt["payload"]["results"] == []
    (letter,) = await storer.letters(entry_id)
    assert letter[b"reason"].decode() == f"invalid: {error['message']}"
    original = {f"field:{key}".encode(): value.encode() for key, value in fields.items()}
    assert {key: value for key, value in letter.items() if key.startswith(b"field:")} == original


async def test_a_store_message_that_has_killed_its_workers_is_answered_set_aside_and_in_nobodys_way(
    storer: Storer, service: Service, tenant: str, service_database: Connection
) -> None:
    message = storer.executor.message({"memories": [memory(tenant)]}, kind=KIND)
    fields = {"envelope": json.dumps(message)}
    entry_id = await storer.executor.hand_to_a_dead_worker(
        fields, deliveries=service.settings.max_deliveries, stream=storer.stream
    )
    (receipt,) = await storer.receipts(entry_id)
    assert (receipt["kind"], receipt["correlation_id"]) == ("memory.receipt.v1", message["correlation_id"])
    assert (receipt["payload"]["error"]["type"], receipt["payload"]["results"]) == ("failed", [])
    assert "delivered 5 times without an answer" in receipt["payload"]["error"]["message"]
    (letter,) = await storer.letters(entry_id)
    assert letter[b"reason"].startswith(b"poison: delivered 5 times")
    assert letter[b"field:envelope"] == fields["envelope"].encode()
    later = memory(tenant)
    assert (await storer.receipt([later]))["stored"] == 1
    stored = await service_database.fetch("SELECT id FROM memories WHERE tenant = $1", tenant)
    assert [row["id"] for row in stored] == [later["id"]]


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
        MessageHandlers(
            settings,
            pool,
            TombstoneStream(redis, redis, settings.tombstone_stream, Tombstones()),
            are_persisted=partial(are_persisted, redis, settings.decision_stream),
            wake=lambda: None,
        ),
        reader=intake,
        committer=partial(Committer, redis, settings),
    )
    for name in settings.intake_streams.values():
        await intake(name).create_group()
    task = asyncio.create_task(serving.run())
    try:
        yield
    finally:
        serving.stop()
        await task


@pytest.mark.slow
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
        sent = [await send() for _ in range(20)]  # more than are served at once
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
