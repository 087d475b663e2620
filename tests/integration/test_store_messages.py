"""`memory.store.v1`: exactly one receipt, each memory judged alone, nothing left pending."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from executor import Executor, rows, until
from serving import caught_up

from orion_recall.postgres.pool import Connection
from orion_recall.serving.service import Service

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
