"""The worker for messages about memories: decode a message, handle it, commit its receipt."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from opentelemetry.trace import Tracer
from pydantic import BaseModel

from orion_recall.bus.commit import Commit, CommitPort, Committed, ReplyAddress
from orion_recall.bus.delivery import Deliveries, Delivery
from orion_recall.bus.group_reader import Entry
from orion_recall.bus.signing.callers import Callers
from orion_recall.contracts import ErrorInfo, MemoryReceiptV1
from orion_recall.errors import (
    ErrorKind,
    FailedMessage,
    InvalidMessage,
    LateSignature,
    MessageError,
    RecordError,
)
from orion_recall.memory.intake.requests import Handler, failed, is_away, may_pass
from orion_recall.settings import Settings
from orion_recall.tasks import Backoff, Sleep, errors_logged, sleep
from orion_recall.telemetry import (
    ATTRIBUTE_COMMIT,
    ATTRIBUTE_OPERATION,
    ATTRIBUTE_RECORDS,
    OPERATIONS_OF_MESSAGES,
    span_of,
)

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
    """The numbers of a receipt, for the log, without any text of a memory."""
    return {name: value for name, value in receipt.model_dump().items() if isinstance(value, int)}
