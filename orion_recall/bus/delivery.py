"""Deliveries: decode and check one entry, and commit its reply; shared by all message consumers."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from opentelemetry.trace import Tracer

from orion_recall.bus.bounded import read_apart
from orion_recall.bus.commit import Commit, CommitPort, Committed, MessageHead, ReplyAddress, commit_when_possible
from orion_recall.bus.envelope import Received, decode, encode, raw_of, size_of
from orion_recall.bus.group_reader import Entry
from orion_recall.bus.signing.callers import Callers
from orion_recall.errors import RefusedMessage
from orion_recall.settings import Settings
from orion_recall.telemetry import SPAN_RECALL, Continued, continue_trace

log = logging.getLogger("orion_recall.bus")

_LONGEST = 512
_WARNED_EVERY_S = 60.0


class ReplyRules:
    """The allowed reply addresses: exact names, or prefixes that end in `*`.

    Replies without an address, or with a refused one, go to `shared`. `reserved` are our own streams and channels,
    which no rule may open.
    """

    def __init__(self, settings: Settings) -> None:
        self.shared = ReplyAddress(mode="shared", name=settings.reply_stream)
        self._streams = [settings.prefix + pattern for pattern in settings.reply_streams]
        self._channels = [settings.prefix + pattern for pattern in settings.reply_channels]
        streams = (settings.decision_stream, *settings.intake_streams.values())
        self._reserved = {
            *streams,
            *(f"{stream}:dead" for stream in streams),
            f"{settings.decision_stream}:trimmed",
            settings.tombstone_stream,
            *(channel for channels in settings.published_on.values() for channel in channels),
        }

    def resolve(self, reply_to: str | None) -> tuple[ReplyAddress, RefusedMessage | None]:
        """The address to reply to; with the reason where the requested one is refused."""
        if reply_to is None or reply_to == self.shared.name:
            return self.shared, None
        if len(reply_to) <= _LONGEST and reply_to not in self._reserved:
            if any(_matches(reply_to, pattern) for pattern in self._streams):
                return ReplyAddress(mode="own", name=reply_to), None
            if any(_matches(reply_to, pattern) for pattern in self._channels):
                return ReplyAddress(mode="channel", name=reply_to), None
        allowed = ", ".join((*self._streams, *self._channels))
        shown = reply_to if len(reply_to) <= 80 else f"{reply_to[:77]}..."
        return self.shared, RefusedMessage(
            f"reply_to {shown!r} is not an allowed address (allowed: {allowed}; "
            "set by ORION_REPLY_STREAMS and ORION_REPLY_CHANNELS)"
        )


def _matches(name: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1]) and len(name) >= len(pattern)
    return name == pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One delivered message: its content, its trace, its reply address, and when serving it began.

    `refused` says why the reply goes to the shared stream and not to the address that the sender named. `head` is
    there when the message is too large to be kept as a dead letter.
    """

    received: Received
    traced: Continued
    address: ReplyAddress
    refused: RefusedMessage | None
    started: float
    head: MessageHead | None = None

    @property
    def elapsed_s(self) -> float:
        return time.perf_counter() - self.started

    @property
    def elapsed_ms(self) -> float:
        return round(self.elapsed_s * 1000, 3)


class Deliveries:
    """Decodes the messages of one kind, and commits their replies. With `callers` they must be signed.

    `server_time` is the clock of the bus, 0 while that is not known: a ttl is counted on it, and answers have its
    time.
    """

    def __init__(
        self,
        settings: Settings,
        committer: CommitPort,
        *,
        kind: str,
        server_time: Callable[[], float] = time.time,
        tracer: Tracer | None = None,
        span: str = SPAN_RECALL,
        callers: Callers | None = None,
    ) -> None:
        self._callers = callers
        self._kind, self._span, self._tracer = kind, span, tracer
        self._max_bytes, self._max_deliveries = settings.max_bytes_of(kind), settings.max_deliveries
        # Several letters must fit: a single one would push out all others.
        self._most_kept = min(self._max_bytes, settings.dead_letters_bytes // 4)
        self._committer, self._server_time = committer, server_time
        self._rules = ReplyRules(settings)
        self._source = {"name": "orion-recall", "node": settings.node, "instance": settings.instance}
        self._warned_at = -math.inf

    async def open(self, entry: Entry) -> Delivery:
        """The delivery of an entry. It never fails: `received.error` says what could not be read.

        Of a large entry that is poison only the sender is read: reading it may have ended its workers.
        """
        started, size = time.perf_counter(), size_of(entry)
        is_poison = entry.deliveries > self._max_deliveries
        read = partial(
            decode, entry, kind=self._kind, max_bytes=self._max_bytes, sender_only=is_poison, now=self.now()
        )
        received = await read_apart(size, read)
        if self._callers is not None and not is_poison:
            received = await self._callers.checked(received)
        head: MessageHead | None = None
        if size > self._most_kept or entry.left_out:  # neither can be copied whole by the server
            head = await read_apart(size, partial(MessageHead.of, raw_of(entry) or b"", size=size))
        address, refused = self._rules.resolve(received.reply_to)
        if refused is not None and started - self._warned_at > _WARNED_EVERY_S:
            self._warned_at = started
            log.warning("a %s is refused, and who sent it hears nothing: %s", self._kind, refused)
        return Delivery(
            received=received,
            traced=continue_trace(received.trace, tracer=self._tracer, name=self._span),
            address=address,
            refused=refused,
            started=started,
            head=head,
        )

    def now(self) -> float:
        """Epoch seconds by the clock of the bus; by this machine's while that is not known."""
        return self._server_time() or time.time()

    def poison(self, delivery: Delivery) -> str | None:
        """Why the message is not served again; None while it was not delivered too often."""
        deliveries = delivery.received.entry.deliveries
        if deliveries <= self._max_deliveries:
            return None
        return f"delivered {deliveries - 1} times without an answer: its workers may have died of it"

    def time_left_s(self, delivery: Delivery) -> float:
        """Seconds until the sender stops waiting: negative once it has stopped, infinite without a ttl."""
        received = delivery.received
        if received.expires_at is None:
            return math.inf
        # Our reading of the server's clock may lag a little; an entry has not come before its time.
        return received.expires_at - max(self._server_time(), received.entry.added_at)

    def envelope(
        self, delivery: Delivery, kind: str, payload: bytes, *, correlation_id: str | None = None
    ) -> bytes:
        """A message of ours that follows from the delivery: under its correlation id, in its trace."""
        received = delivery.received
        return encode(
            kind,
            payload,
            correlation_id=received.correlation_id if correlation_id is None else correlation_id,
            source=self._source,
            trace=delivery.traced.trace,
            causality_chain=received.onward_chain,
            created_at=datetime.fromtimestamp(self.now(), UTC),
        )

    async def commit(self, delivery: Delivery, commit_to: Callable[[ReplyAddress], Commit]) -> Committed:
        """Commit to the reply address; where that cannot be written, commit anew to the shared reply stream."""
        result = await commit_when_possible(self._committer, commit_to(delivery.address))
        if result == "reply_not_writable":
            result = await commit_when_possible(self._committer, commit_to(self._rules.shared))
        return result
