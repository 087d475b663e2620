"""Consumers of the intake streams: one loop for each, which has messages handled and commits their receipts."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

from opentelemetry.trace import Tracer
from pydantic import BaseModel

from orion_recall.bus.commit import Commit, CommitPort, Committed, ReplyAddress
from orion_recall.bus.consumer_loop import ConsumerLimits, ConsumerLoop
from orion_recall.bus.delivery import Deliveries, Delivery
from orion_recall.bus.group_reader import Backlog, Entry, GroupReader
from orion_recall.bus.signing.callers import Callers
from orion_recall.contracts import ErrorInfo, MemoryReceiptV1
from orion_recall.errors import FailedMessage, InvalidMessage, LateSignature, MessageError, RecordError
from orion_recall.memory.intake.handlers import Handler, MessageHandlers
from orion_recall.memory.replicas.tombstones import TombstoneStream
from orion_recall.postgres.pool import Pool, is_connection_lost, sqlstate
from orion_recall.settings import Settings
from orion_recall.tasks import Backoff, Sleep, cancel, errors_logged, sleep
from orion_recall.telemetry import (
    ATTRIBUTE_COMMIT,
    ATTRIBUTE_OPERATION,
    ATTRIBUTE_RECORDS,
    OPERATIONS_OF_MESSAGES,
    span_of,
)

log = logging.getLogger("orion_recall.memory")

_AT_ONCE = 4
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 2.0
# Retries of a message that conflicts with another transaction.
_MOST_TRIES = 5
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


class MessageWorker:
    """Serves messages of one kind. While the record is away, messages wait and no more are taken.

    A message that the record refuses is answered `failed` and becomes a dead letter. `reset_delivery_count` tells
    the bus that an entry waits for the record, so that waiting never makes it poison.
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
        kind, self._name = handler.kind, span_of(handler.kind)
        self._deliveries = Deliveries(
            settings, committer, kind=kind, server_time=server_time, tracer=tracer, span=self._name, callers=callers
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
                receipt = self._handler.nothing(ErrorInfo(type="failed", message=message))
                dead_reason = f"poison: {message}"
            elif delivery.refused is not None:
                raise delivery.refused
            else:
                receipt = await self._receipt(delivery)
        except MessageError as error:
            receipt = self._handler.nothing(ErrorInfo(type=error.outcome, message=str(error)))
            if isinstance(error, InvalidMessage | FailedMessage | LateSignature):
                dead_reason = f"{error.outcome}: {error}"
        result = await self._commit(delivery, receipt, dead_reason)
        with errors_logged(f"entry {entry.id} is answered and acknowledged; what follows that failed"):
            self._follow_up(delivery, receipt, result)

    async def _receipt(self, delivery: Delivery) -> BaseModel:
        """The handler's receipt. While the record is away it waits, with the entry pending."""
        received, kind = delivery.received, self._handler.kind
        if received.error is not None:
            raise received.error
        backoff, tries = Backoff(_FIRST_WAIT_S, _LONGEST_WAIT_S, sleep=self._sleep), 1
        while True:
            try:
                return await self._handler.receipt(received, self._deliveries.time_left_s(delivery))
            except RecordError as error:
                cause = error.__cause__
                # A ValueError is the driver's own: it cannot encode the value.
                state = "22000" if isinstance(cause, ValueError) else (cause and sqlstate(cause)) or ""
                if is_connection_lost(error) and state != _TOOK_TOO_LONG:
                    if backoff.is_first:
                        log.warning("a message (%s) waits until Postgres is back: %s", kind, error)
                    await self._reset_delivery_count(received.entry.id)
                elif state.startswith(_MAY_PASS) and tries < _MOST_TRIES:
                    tries += 1
                else:
                    log.error("a message (%s) failed: %s", kind, error)  # noqa: TRY400 (it says all)
                    advice = next(advice for states, advice in _ADVICE if state.startswith(states))
                    raise FailedMessage(f"{error}; {advice}") from error
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
        fields: dict[str, object] = {
            "correlation_id": delivery.received.correlation_id[:200],
            "trace_id": delivery.traced.trace_id,
            "commit": result,
        }
        fields |= {name: value for name, value in receipt.model_dump().items() if isinstance(value, int)}
        log.info(self._name, extra={"fields": fields})


class IntakeConsumers:
    """All intake consumers: `run()` until `stop()`. Without a pool every message is refused: there is no record."""

    def __init__(
        self,
        settings: Settings,
        pool: Pool | None,
        tombstones: TombstoneStream,
        *,
        reader: Callable[[str], GroupReader],
        committer: Callable[[str], CommitPort],
        callers: Callable[[str], Callers | None] = lambda kind: None,
        are_persisted: Callable[[int], Awaitable[bool]],
        wake: Callable[[], None],
        tracer: Tracer | None = None,
    ) -> None:
        handlers = MessageHandlers(settings, pool, tombstones, are_persisted=are_persisted, wake=wake)
        limits = ConsumerLimits.of(settings, concurrency=_AT_ONCE)
        self._parts: dict[str, tuple[GroupReader, MessageWorker, ConsumerLoop]] = {}
        for name, handler in handlers.by_stream.items():
            stream = settings.intake_streams[name]
            intake = reader(stream)
            worker = MessageWorker(
                settings,
                committer(stream),
                handler,
                reset_delivery_count=intake.reset_delivery_count,
                server_time=intake.clock.earliest,
                tracer=tracer,
                callers=callers(handler.kind),
            )
            self._parts[name] = intake, worker, ConsumerLoop(intake, worker.serve, limits)

    @property
    def in_flight(self) -> Mapping[str, int]:
        return {name: loop.in_flight for name, (_, _, loop) in self._parts.items()}

    @property
    def backlogs(self) -> Mapping[str, Backlog]:
        """Unanswered entries by kind of message, for the kinds whose stream was looked at."""
        found = {name: reader.backlog for name, (reader, _, _) in self._parts.items()}
        return {name: backlog for name, backlog in found.items() if backlog is not None}

    @property
    def lost(self) -> Mapping[str, int]:
        return {name: reader.lost for name, (reader, _, _) in self._parts.items()}

    def stop(self) -> None:
        """Take nothing more; `run` returns when the entries in flight have ended."""
        for _, worker, loop in self._parts.values():
            loop.stop()
            worker.stop()

    async def run(self) -> None:
        tasks = [asyncio.create_task(loop.run()) for _, _, loop in self._parts.values()]
        try:
            await asyncio.gather(*tasks)
        finally:
            await cancel(*tasks)
