"""What the handlers of messages about memories share: interface, tenants, idempotent requests, record errors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, LiteralString, Protocol

from pydantic import BaseModel

from orion_recall.bus.envelope import Received
from orion_recall.bus.group_reader import Entry
from orion_recall.bus.signing.callers import tenant_of
from orion_recall.bus.signing.keys import Caller
from orion_recall.contracts import ErrorInfo, MemoryReceiptV1
from orion_recall.errors import FailedMessage, RecordError, RefusedMessage
from orion_recall.memory.record import sql as record_sql
from orion_recall.postgres.pool import Connection, Pool, borrow, is_connection_lost, sqlstate
from orion_recall.settings import Settings
from orion_recall.text.normal import storable
from orion_recall.text.redaction import Redaction

NO_RECORD = "this worker has no record: set ORION_POSTGRES_DSN to store and change memories"
_REDACTED = frozenset(("text", "title", "entities", "metadata"))


class Handler(Protocol):
    """Serves one kind of message."""

    @property
    def kind(self) -> str: ...
    @property
    def receipt_kind(self) -> str: ...

    async def receipt(self, received: Received, time_left_s: float) -> BaseModel:
        """The receipt for a message that could be read. `time_left_s`: until its sender stops waiting, or since.

        It may be served again: a worker may die before the receipt goes out. MessageError: it is not served.
        RecordError: nothing was done; the message waits while the record is away, and fails if it is refused.
        """
        ...

    def nothing(self, error: ErrorInfo) -> BaseModel: ...


def served_tenant(tenant: str | None, settings: Settings, caller: Caller | None = None) -> str:
    """The tenant, else the default one; RefusedMessage when this worker or the caller's key does not serve it."""
    name = tenant_of(storable(tenant) if tenant else None, caller, storable(settings.default_tenant))
    if not settings.serves(name):
        raise RefusedMessage(f"tenant {name!r} is not served here: ORION_TENANTS lists those that are")
    return name


def redacted_fields(fields: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The fields of a memory with what is not to be stored redacted: text, title, entities and metadata."""
    redaction = Redaction.at("store", settings.redact)
    if not redaction.kinds:
        return fields
    return {name: redaction.json(value) if name in _REDACTED else value for name, value in fields.items()}


def nothing_done(error: ErrorInfo) -> MemoryReceiptV1:
    """The receipt for a message about memories that is not served."""
    return MemoryReceiptV1(stored=0, unchanged=0, conflict=0, rejected=0, results=[], error=error)


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
    asked = message.model_dump(mode="json", exclude={"reply_to", "idempotency_key"})
    return hashlib.sha256(json.dumps([kind, asked], sort_keys=True).encode()).hexdigest()


# Codes and classes of SQLSTATE. 40: rolled back in favour of another transaction (serialization, deadlock).
# 55: another holds a lock. 0A000: a plan was made before the schema changed. 57014: a statement took too long; its
# class is that of a server that shuts down, but the same message may take too long every time.
_MAY_PASS = ("40", "55", "0A000", "57014")
_TOOK_TOO_LONG = "57014"
_AGAIN = "then send it again, or put it back with `orion-recall dead requeue`"
_ADVICE = (
    (
        ("42501",),
        f"give the worker's role its rights (`orion-recall migrate` as the schema's owner does), {_AGAIN}",
    ),
    (("3D", "28"), f"see whether ORION_POSTGRES_DSN names the right user, password and database, {_AGAIN}"),
    (
        ("3F", "42"),
        (
            "the schema is not the one of this version, or the worker's role may not use it: run `orion-recall "
            f"migrate`, or GRANT USAGE ON SCHEMA (that of ORION_POSTGRES_SCHEMA) to the role, {_AGAIN}"
        ),
    ),
    (("22", "23", "54"), "change what the message holds, and send it again"),
    (_MAY_PASS, "Postgres is busy: send it again later, in smaller parts if it is large"),
)


def is_away(error: RecordError) -> bool:
    """Whether Postgres is away, starting, full or read-only: a message waits for as long as that takes."""
    return is_connection_lost(error) and _state(error) != _TOOK_TOO_LONG


def may_pass(error: RecordError) -> bool:
    """Whether the same message may be served in a moment: somebody else was in its way."""
    return _state(error).startswith(_MAY_PASS)


def failed(error: RecordError) -> FailedMessage:
    """The message cannot be served: what is wrong, without values or secrets, and what to do."""
    state = _state(error)
    otherwise = f"the log of Postgres says more: put it right, {_AGAIN}"
    advice = next((advice for states, advice in _ADVICE if state.startswith(states)), otherwise)
    return FailedMessage(f"{error}; {advice}")


def _state(error: RecordError) -> str:
    if error.__cause__ is None:
        return ""
    if isinstance(error.__cause__, ValueError):  # the driver's own: it cannot encode the value
        return "22000"
    return sqlstate(error.__cause__) or ""
