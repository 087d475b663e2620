"""Idempotent requests: a repeated one gets the stored receipt of the first, and changes nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import LiteralString

from pydantic import BaseModel

from orion_recall.bus.group_reader import Entry
from orion_recall.contracts import MemoryReceiptV1
from orion_recall.errors import RefusedMessage
from orion_recall.memory.record import sql as record_sql
from orion_recall.postgres.pool import Connection, Pool, borrow

_ANSWERED: LiteralString = (
    "SELECT request_hash, receipt FROM memory_requests WHERE tenant = $1 AND idempotency_key = $2"
)
_ANSWER: LiteralString = """
INSERT INTO memory_requests (tenant, idempotency_key, request_hash, receipt) VALUES ($1, $2, $3, $4::jsonb)
"""


async def answered_once(
    pool: Pool,
    tenant: str,
    key: str,
    request_hash: str,
    work: Callable[[Connection], Awaitable[MemoryReceiptV1]],
) -> MemoryReceiptV1:
    """The receipt of `work`, which is kept in the same transaction; the kept one when the key was used before.

    A receipt with an error changes nothing and is not kept. RefusedMessage: the key is another request's.
    """
    async with borrow(pool, "changing memories") as connection, connection.transaction():
        # Under the lock of all outbox writers: no two requests can be first with one key.
        await connection.execute(record_sql.LOCK_OUTBOX)
        found = await connection.fetchrow(_ANSWERED, tenant, key)
        if found is None:
            receipt = await work(connection)
            if receipt.error is None:
                kept = receipt.model_dump(mode="json", exclude_unset=True)
                await connection.execute(_ANSWER, tenant, key, request_hash, kept)
            return receipt
    if found["request_hash"] != request_hash:
        raise RefusedMessage("payload.idempotency_key: it was used for another request: take another key")
    return MemoryReceiptV1.model_validate(found["receipt"])


def key_of(given: str | None, stream: str, entry: Entry) -> str:
    """The key that a request is known by: the sender's, else its entry's, which is the same for every worker."""
    return f"key:{given}" if given is not None else f"entry:{stream}:{entry.id}"


def hash_of(kind: str, message: BaseModel) -> str:
    """SHA-256 over all that the request asks for."""
    asked = message.model_dump(mode="json", exclude={"reply_to", "idempotency_key"})
    return hashlib.sha256(json.dumps([kind, asked], sort_keys=True).encode()).hexdigest()
