"""Serving one intake message: decode, handle, commit the receipt."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import Literal

from opentelemetry.trace import Tracer
from pydantic import BaseModel

from orion_recall.bus.addresses import ReplyRules
from orion_recall.bus.commit import Commit, Committed, Ending, ReplyAddress, commit_when_possible
from orion_recall.bus.envelope import Received, decode, encode
from orion_recall.bus.group_reader import Entry
from orion_recall.contracts import ErrorInfo
from orion_recall.errors import (
    ExpiredMessage,
    FailedMessage,
    InvalidMessage,
    MessageError,
    RecordError,
    RefusedMessage,
)
from orion_recall.memory.intake.handler import Handler
from orion_recall.memory.intake.record_failures import failed, is_away, may_pass
from orion_recall.settings import Settings
from orion_recall.tasks import errors_logged
from orion_recall.telemetry import ATTRIBUTE_COMMIT, Continued, continue_trace, span_of

log = logging.getLogger("orion_recall.memory")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 2.0
# Retries of a message that conflicts with another transaction.
_MOST_TRIES = 5
_ErrorKind = Literal["invalid", "expired", "refused", "failed"]


class MessageWorker:
    """Serves messages of one kind. While the record is away messages wait, and no more are taken.

    A message that the record refuses is answered `failed` and becomes a dead letter: it would always be refused.

    `forgive` tells the bus that an entry waits for the record, so that waiting never makes it poison. `server_time`
    is the clock of the bus: a ttl is counted on it.
    """

    def __init__(
        self,
        settings: Settings,
        committer: Ending,
        handler: Handler,
        *,
        forgive: Callable[[str], Awaitable[None]],
        server_time: Callable[[], float] = time.time,
        tracer: Tracer | None = None,
    ) -> None:
        self._settings, self._committer, self._handler = settings, committer, handler
        self._forgive, self._server_time, self._tracer = forgive, server_time, tracer
        self._name = span_of(handler.kind)
        self._stopping = asyncio.Event()
        self._source = {"name": "orion-recall", "node": settings.node, "instance": settings.instance}
        self._rules = ReplyRules.of(settings)

    def stop(self) -> None:
        """Stop waiting for a record that is away: those entries stay pending and are served later."""
        self._stopping.set()

    async def serve(self, entry: Entry) -> None:
        """One entry, from bytes to commit."""
        received = decode(entry, kind=self._handler.kind, max_bytes=self._settings.max_message_bytes)
        traced = continue_trace(received.trace, tracer=self._tracer, name=self._name)
        address, refused = self._rules.resolve_or_shared(received.reply_to)
        dead_reason = ""
        try:
            if entry.deliveries > self._settings.max_deliveries:
                message = f"delivered {entry.deliveries - 1} times without an answer"
                dead_reason = f"poison: {message}"
                receipt = self._nothing("failed", message)
            elif refused is not None:
                raise refused
            else:
                receipt = await self._receipt(received)
        except MessageError as error:
            receipt = self._nothing(_kind(error), str(error))
            dead_reason = f"{_kind(error)}: {error}" if isinstance(error, InvalidMessage | FailedMessage) else ""
        result = await self._commit(received, traced, receipt, address, dead_reason)
        if result == "reply_not_writable":
            result = await self._commit(received, traced, receipt, self._rules.shared, dead_reason)
        with errors_logged(f"entry {entry.id} is answered and acknowledged; what follows that failed"):
            self._tell(received, traced, receipt, result)

    def _tell(self, received: Received, traced: Continued, receipt: BaseModel, result: Committed) -> None:
        """End the span, and log. The receipt has gone out before."""
        traced.span.set_attribute(ATTRIBUTE_COMMIT, result)
        traced.span.end()
        fields = {
            "correlation_id": received.correlation_id[:200],
            "trace_id": traced.trace_id,
            "commit": result,
            **_counts(receipt),
        }
        log.info(self._name, extra={"fields": fields})

    async def _receipt(self, received: Received) -> BaseModel:
        if received.error is not None:
            raise received.error
        pause_s, tries = _FIRST_PAUSE_S, 1
        while True:
            left_s = self._time_left(received)
            try:
                return await self._handler.receipt(received, left_s)
            except RecordError as error:
                if is_away(error):
                    if pause_s == _FIRST_PAUSE_S:
                        log.warning("a message (%s) waits until Postgres is back: %s", self._handler.kind, error)
                    await self._forgive(received.entry.id)
                elif may_pass(error) and tries < _MOST_TRIES:
                    tries += 1
                else:
                    log.error("a message (%s) failed: %s", self._handler.kind, error)  # noqa: TRY400 (it says all)
                    raise failed(error) from error
                await self._wait(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _time_left(self, received: Received) -> float:
        """Seconds until the sender stops waiting; negative when it has stopped."""
        if received.expires_at is None:
            return math.inf
        # Our estimate of the server's clock may lag a little; no entry comes before its own time.
        return received.expires_at - max(self._server_time(), received.entry.added_at)

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
        receipt: BaseModel,
        address: ReplyAddress,
        dead_reason: str,
    ) -> Committed:
        reply = encode(
            self._handler.receipt_kind,
            # A memory without an id is rejected with the id null: only what has its default is left out.
            receipt.model_dump_json(exclude_defaults=True).encode(),
            correlation_id=received.correlation_id,
            source=self._source,
            trace=traced.trace,
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

    def _nothing(self, kind: _ErrorKind, message: str) -> BaseModel:
        return self._handler.nothing(ErrorInfo(type=kind, message=message))


def _kind(error: MessageError) -> _ErrorKind:
    if isinstance(error, ExpiredMessage):
        return "expired"
    if isinstance(error, FailedMessage):
        return "failed"
    return "refused" if isinstance(error, RefusedMessage) else "invalid"


def _counts(receipt: BaseModel) -> dict[str, int]:
    """The numbers of a receipt, for the log, without any text of a memory."""
    return {name: value for name, value in receipt.model_dump().items() if isinstance(value, int)}
