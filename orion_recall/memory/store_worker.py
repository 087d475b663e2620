"""The path of one store message: decode, receive, commit the receipt."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Literal

from opentelemetry.trace import Tracer

from orion_recall.bus.addresses import ReplyRules
from orion_recall.bus.commit import Commit, Committed, Ending, ReplyAddress, commit_when_possible
from orion_recall.bus.consume import Entry
from orion_recall.bus.envelope import Received, decode, encode
from orion_recall.contracts import (
    RECEIPT_KIND,
    STORE_KIND,
    ErrorInfo,
    MemoryReceiptV1,
    MemoryStoreV1,
    read_message,
)
from orion_recall.errors import ExpiredMessage, InvalidMessage, MessageError, RecordError, RefusedMessage
from orion_recall.memory.receive import Store, receive
from orion_recall.settings import Settings
from orion_recall.telemetry import ATTRIBUTE_COMMIT, SPAN_STORE, Continued, continue_trace

log = logging.getLogger("orion_recall.memory")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 2.0


class StoreWorker:
    """Answers store messages. While the record is away it holds what it has, and so takes nothing more.

    `forgive` tells the bus that an entry waits for the record, so that waiting never makes it poison.
    """

    def __init__(
        self,
        settings: Settings,
        committer: Ending,
        record: Store | None,
        *,
        forgive: Callable[[str], Awaitable[None]],
        stored: asyncio.Event,
        tracer: Tracer | None = None,
    ) -> None:
        self._settings, self._committer, self._record = settings, committer, record
        self._forgive, self._stored, self._tracer = forgive, stored, tracer
        self._stopping = asyncio.Event()
        self._source = {"name": "orion-recall", "node": settings.node, "instance": settings.instance}
        self._rules = ReplyRules.of(settings)

    def stop(self) -> None:
        """Stop waiting for a record that is away: those entries stay pending and are served later."""
        self._stopping.set()

    async def serve(self, entry: Entry) -> None:
        """One entry, from bytes to commit."""
        received = decode(entry, kind=STORE_KIND, max_bytes=self._settings.max_message_bytes)
        traced = continue_trace(received.trace, tracer=self._tracer, name=SPAN_STORE)
        address, refused = self._rules.resolve_or_shared(received.reply_to)
        dead_reason = ""
        try:
            if entry.deliveries > self._settings.max_deliveries:
                message = f"delivered {entry.deliveries - 1} times without an answer"
                dead_reason = f"poison: {message}"
                receipt = _nothing("failed", message)
            elif refused is not None:
                raise refused
            else:
                receipt = await self._receipt(received)
        except MessageError as error:
            receipt = _nothing(_kind(error), str(error))
            dead_reason = f"invalid: {error}" if isinstance(error, InvalidMessage) else ""
        if receipt.stored:
            self._stored.set()
        result = await self._commit(received, traced, receipt, address, dead_reason)
        if result == "reply_not_writable":
            result = await self._commit(received, traced, receipt, self._rules.shared, dead_reason)
        traced.span.set_attribute(ATTRIBUTE_COMMIT, result)
        traced.span.end()
        log.info(
            "store",
            extra={
                "fields": {
                    "correlation_id": received.correlation_id[:200],
                    "trace_id": traced.trace_id,
                    "commit": result,
                    "stored": receipt.stored,
                    "unchanged": receipt.unchanged,
                    "conflict": receipt.conflict,
                    "rejected": receipt.rejected,
                }
            },
        )

    async def _receipt(self, received: Received) -> MemoryReceiptV1:
        if received.error is not None:
            raise received.error
        payload = read_message(MemoryStoreV1, received.payload, "payload")
        if self._record is None:
            raise RefusedMessage("this worker has no record: set ORION_POSTGRES_DSN to store memories")
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return await receive(payload, self._record, self._settings)
            except RecordError as error:
                if pause_s == _FIRST_PAUSE_S:
                    log.warning("a store message waits: %s", error)
                await self._forgive(received.entry.id)
                await self._wait(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _wait(self, pause_s: float) -> None:
        """Sleep; asyncio.CancelledError when stopping, which leaves the entry pending."""
        try:
            async with asyncio.timeout(pause_s):
                await self._stopping.wait()
        except TimeoutError:
            return
        raise asyncio.CancelledError

    async def _commit(
        self,
        received: Received,
        traced: Continued,
        receipt: MemoryReceiptV1,
        address: ReplyAddress,
        dead_reason: str,
    ) -> Committed:
        reply = encode(
            RECEIPT_KIND,
            # A memory without an id is rejected with the id null: only what has its default is left out.
            receipt.model_dump_json(exclude_defaults=True).encode(),
            correlation_id=received.correlation_id,
            source=self._source,
            trace=traced.carrier,
            causality_chain=received.onward_chain,
        )
        commit = Commit(
            entry_id=received.entry.id,
            address=address,
            reply=reply,
            dead_reason=dead_reason[:2000],
            correlation_id=received.correlation_id,
        )
        return await commit_when_possible(self._committer, commit)


def _kind(error: MessageError) -> Literal["invalid", "expired", "refused"]:
    if isinstance(error, ExpiredMessage):
        return "expired"
    return "refused" if isinstance(error, RefusedMessage) else "invalid"


def _nothing(kind: Literal["invalid", "expired", "refused", "failed"], message: str) -> MemoryReceiptV1:
    return MemoryReceiptV1(
        stored=0, unchanged=0, conflict=0, rejected=0, results=[], error=ErrorInfo(type=kind, message=message)
    )
