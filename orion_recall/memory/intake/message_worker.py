"""The worker for messages about memories: decode, handle, commit the receipt; and what their handlers share."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, LiteralString, Protocol

from opentelemetry.trace import Tracer
from pydantic import BaseModel

from orion_recall.bus.commit import Commit, CommitPort, Committed, ReplyAddress
from orion_recall.bus.delivery import Deliveries, Delivery
from orion_recall.bus.envelope import Received
from orion_recall.bus.group_reader import Entry
from orion_recall.bus.signing.callers import Callers, tenant_of
from orion_recall.bus.signing.keys import Caller
from orion_recall.contracts import ErrorInfo, MemoryReceiptV1, MemoryVerdictV1
from orion_recall.errors import (
    ErrorKind,
    FailedMessage,
    InvalidMessage,
    LateSignature,
    MessageError,
    RecordError,
    RefusedMessage,
)
from orion_recall.memory.record import sql as record_sql
from orion_recall.postgres.pool import Connection, Pool, borrow, is_connection_lost, sqlstate
from orion_recall.settings import Settings
from orion_recall.tasks import Backoff, Sleep, errors_logged, sleep
from orion_recall.telemetry import (
    ATTRIBUTE_COMMIT,
    ATTRIBUTE_OPERATION,
    ATTRIBUTE_RECORDS,
    OPERATIONS_OF_MESSAGES,
    span_of,
)
from orion_recall.text.normal import storable
from orion_recall.text.redaction import Redaction

NO_RECORD = "this worker has no record: set ORION_POSTGRES_DSN to store and change memories"
_REDACTED = frozenset(("text", "title", "entities", "metadata"))


class Handler(Protocol):
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


def receipt_of(results: Sequence[MemoryVerdictV1], **further: Any) -> MemoryReceiptV1:
    """The receipt with these verdicts, and how many there are of each."""
    counts = Counter(one.status for one in results if one.status != "matched")
    none = dict.fromkeys(("stored", "unchanged", "conflict", "rejected"), 0)
    return MemoryReceiptV1.model_validate({**none, **counts, **further, "results": list(results)})


def nothing_done(error: ErrorInfo) -> MemoryReceiptV1:
    return receipt_of((), error=error)


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
        ("3D", "28", "3F", "42"),
        "see that ORION_POSTGRES_DSN names the right user, password and database, that the schema is of this "
        "version (`orion-recall migrate` as its owner, which gives a worker's role its rights), and that the role "
        f"may use it (GRANT USAGE ON SCHEMA), {_AGAIN}",
    ),
    (("22", "23", "54"), "change what the message holds, and send it again"),
    (_MAY_PASS, "Postgres is busy: send it again later, in smaller parts if it is large"),
    (("",), f"the log of Postgres says more: put it right, {_AGAIN}"),
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
    advice = next(advice for states, advice in _ADVICE if state.startswith(states))
    return FailedMessage(f"{error}; {advice}")


def _state(error: RecordError) -> str:
    if error.__cause__ is None:
        return ""
    if isinstance(error.__cause__, ValueError):  # the driver's own: it cannot encode the value
        return "22000"
    return sqlstate(error.__cause__) or ""


log = logging.getLogger("orion_recall.memory")
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 2.0
# Retries of a message that conflicts with another transaction.
_MOST_TRIES = 5


class MessageWorker:
    """Serves messages of one kind. While the record is away, messages wait and no more are taken.

    A message that the record refuses is answered `failed` and becomes a dead letter: it would always be refused.

    `reset_delivery_count` tells the bus that an entry waits for the record, so that waiting never makes it poison.
    `server_time` is the clock of the bus: a ttl is counted on it. With `callers` only signed messages are served.
    """

    def __init__(
        self,
        settings: Settings,
        committer: CommitPort,
        handler: Handler,
        *,
        reset_delivery_count: Callable[[str], Awaitable[None]],
        server_time: Callable[[], float] = time.time,
        tracer: Tracer | None = None,
        callers: Callers | None = None,
        sleep: Sleep = sleep,
    ) -> None:
        self._handler, self._reset_delivery_count, self._sleep = handler, reset_delivery_count, sleep
        self._name = span_of(handler.kind)
        self._deliveries = Deliveries(
            settings,
            committer,
            kind=handler.kind,
            server_time=server_time,
            tracer=tracer,
            span=self._name,
            callers=callers,
        )
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Stop waiting for a record that is away: those entries stay pending and are served later."""
        self._stopping.set()

    async def serve(self, entry: Entry) -> None:
        delivery = await self._deliveries.open(entry)
        dead_reason = ""
        try:
            if (message := self._deliveries.poison(delivery)) is not None:
                receipt, dead_reason = self._nothing("failed", message), f"poison: {message}"
            elif delivery.refused is not None:
                raise delivery.refused
            else:
                receipt = await self._receipt(delivery)
        except MessageError as error:
            receipt = self._nothing(error.outcome, str(error))
            if isinstance(error, InvalidMessage | FailedMessage | LateSignature):
                dead_reason = f"{error.outcome}: {error}"
        result = await self._commit(delivery, receipt, dead_reason)
        with errors_logged(f"entry {entry.id} is answered and acknowledged; what follows that failed"):
            self._follow_up(delivery, receipt, result)

    async def _receipt(self, delivery: Delivery) -> BaseModel:
        """The handler's receipt. While the record is away it waits, with the entry pending."""
        received = delivery.received
        if received.error is not None:
            raise received.error
        backoff, tries = Backoff(_FIRST_WAIT_S, _LONGEST_WAIT_S, sleep=self._sleep), 1
        while True:
            left_s = self._deliveries.time_left_s(delivery)
            try:
                return await self._handler.receipt(received, left_s)
            except RecordError as error:
                if is_away(error):
                    if backoff.is_first:
                        log.warning("a message (%s) waits until Postgres is back: %s", self._handler.kind, error)
                    await self._reset_delivery_count(received.entry.id)
                elif may_pass(error) and tries < _MOST_TRIES:
                    tries += 1
                else:
                    log.error("a message (%s) failed: %s", self._handler.kind, error)  # noqa: TRY400 (it says all)
                    raise failed(error) from error
                await backoff.wait(self._stopping)
                if self._stopping.is_set():
                    raise asyncio.CancelledError from error  # leaves the entry pending

    async def _commit(self, delivery: Delivery, receipt: BaseModel, dead_reason: str) -> Committed:
        # A memory without an id is rejected with the id null: only what has its default is left out.
        payload = receipt.model_dump_json(exclude_defaults=True).encode()
        reply = self._deliveries.envelope(delivery, self._handler.receipt_kind, payload)

        def commit_to(address: ReplyAddress) -> Commit:
            return Commit(
                entry_id=delivery.received.entry.id,
                address=address,
                reply=reply,
                dead_reason=dead_reason[:2000],
                correlation_id=delivery.received.correlation_id,
                head=delivery.head,
            )

        return await self._deliveries.commit(delivery, commit_to)

    def _follow_up(self, delivery: Delivery, receipt: BaseModel, result: Committed) -> None:
        """End the span, and log. The receipt has gone out before."""
        span = delivery.traced.span
        span.set_attribute(ATTRIBUTE_COMMIT, result)
        if span.is_recording() and (operation := OPERATIONS_OF_MESSAGES.get(self._name)) is not None:
            span.set_attribute(ATTRIBUTE_OPERATION, operation)
            if isinstance(receipt, MemoryReceiptV1):
                span.set_attribute(ATTRIBUTE_RECORDS, receipt.stored + receipt.updated + receipt.deleted)
        span.end()
        fields = {
            "correlation_id": delivery.received.correlation_id[:200],
            "trace_id": delivery.traced.trace_id,
            "commit": result,
            **_counts(receipt),
        }
        log.info(self._name, extra={"fields": fields})

    def _nothing(self, kind: ErrorKind, message: str) -> BaseModel:
        return self._handler.nothing(ErrorInfo(type=kind, message=message))


def _counts(receipt: BaseModel) -> dict[str, int]:
    return {name: value for name, value in receipt.model_dump().items() if isinstance(value, int)}
