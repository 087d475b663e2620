"""Consumers of the intake streams: one loop for each, which has messages handled and commits their receipts.

Their dead letters are trimmed by age.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from opentelemetry.trace import Tracer
from pydantic import BaseModel
from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.commit import Commit, CommitPort, Committed, ReplyAddress
from orion_recall.bus.consumer_loop import ConsumerLimits, ConsumerLoop
from orion_recall.bus.delivery import Deliveries, Delivery
from orion_recall.bus.group_reader import Backlog, Entry, GroupReader
from orion_recall.bus.signing.callers import Callers
from orion_recall.contracts import ErrorInfo, MemoryReceiptV1
from orion_recall.errors import FailedMessage, InvalidMessage, LateSignature, MessageError, RecordError
from orion_recall.memory.intake.handlers import Handler, MessageHandlers
from orion_recall.postgres.pool import is_connection_lost, sqlstate
from orion_recall.settings import Settings
from orion_recall.tasks import Backoff, Sleep, cancel, errors_logged, sleep
from orion_recall.telemetry import (
    ATTRIBUTE_COMMIT,
    ATTRIBUTE_OPERATION,
    ATTRIBUTE_RECORDS,
    OPERATIONS_OF_MESSAGES,
    span_of,
)

bus_log, log = logging.getLogger("orion_recall.bus"), logging.getLogger("orion_recall.memory")

# Most of them wait for the copies.
_AT_ONCE = 16
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
        deliveries: Deliveries,
        handler: Handler,
        *,
        reset_delivery_count: Callable[[str], Awaitable[None]],
        sleep: Sleep = sleep,
    ) -> None:
        self._deliveries, self._handler, self._name = deliveries, handler, span_of(handler.kind)
        self._reset_delivery_count, self._sleep = reset_delivery_count, sleep
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
    """All intake consumers: `run()` until `stop()`."""

    def __init__(
        self,
        settings: Settings,
        handlers: MessageHandlers,
        *,
        reader: Callable[[str], GroupReader],
        committer: Callable[[str], CommitPort],
        callers: Callable[[str], Callers | None] = lambda kind: None,
        tracer: Tracer | None = None,
    ) -> None:
        limits = ConsumerLimits.of(settings, concurrency=_AT_ONCE)
        self._parts: dict[str, tuple[GroupReader, MessageWorker, ConsumerLoop]] = {}
        for name, handler in handlers.by_stream.items():
            stream = settings.intake_streams[name]
            intake, kind = reader(stream), handler.kind
            deliveries = Deliveries(
                settings,
                committer(stream),
                kind=kind,
                server_time=intake.clock.earliest,
                tracer=tracer,
                span=span_of(kind),
                callers=callers(kind),
            )
            worker = MessageWorker(deliveries, handler, reset_delivery_count=intake.reset_delivery_count)
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


_TRIM_EVERY_S = 600.0


async def keep_dead_letters(redis: Redis, streams: Sequence[str], days: int, now: Callable[[], float]) -> None:
    """Trims the streams of dead letters until cancelled. Every worker may do it."""
    while True:
        try:
            if gone := await trim_dead_letters(redis, streams, now() - days * 86_400):
                bus_log.info("%d dead letters older than %d days are deleted", gone, days)
        except (RedisError, OSError) as error:
            bus_log.warning("old dead letters stay for now: %s", error)
        await asyncio.sleep(_TRIM_EVERY_S)


async def trim_dead_letters(redis: Redis, streams: Sequence[str], before_s: float) -> int:
    oldest = str(max(int(before_s * 1000), 0))
    return sum([int(await redis.xtrim(one, minid=oldest, approximate=False)) for one in streams])
