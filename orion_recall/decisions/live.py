"""Decisions as they are taken: read off the bus, before they are in the log. Reading takes nothing away."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any, cast

from pydantic import ValidationError
from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.connect import caller_error, is_refusal
from orion_recall.bus.envelope import MESSAGE_FIELDS
from orion_recall.contracts import RecallDecisionV1
from orion_recall.tasks import BUS_S, Backoff
from orion_recall.values import Outcome

log = logging.getLogger("orion_recall.decisions")

_AT_ONCE = 100
_BLOCK_MS = 1000
Entries = list[tuple[bytes, dict[bytes, bytes]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFilter:
    """Which decisions are wanted: those that meet every condition given."""

    outcome: Outcome | None = None
    profile: str | None = None
    tenant: str | None = None
    slower_than_ms: float | None = None
    shadows: bool = False

    def takes(self, decision: RecallDecisionV1) -> bool:
        return (
            self.outcome in (None, decision.outcome)
            and self.profile in (None, decision.profile)
            and self.tenant in (None, decision.tenant)
            and (self.slower_than_ms is None or decision.latency_ms > self.slower_than_ms)
            and (self.shadows or decision.shadow_of is None)
        )


class LiveDecisions:
    """The decisions that come to a stream from now on; `tell` is called when the bus is lost, and when it is back.

    `blocking` is a client of its own: its reads wait for a second.
    """

    def __init__(self, blocking: Redis, stream: str, *, tell: Callable[[str], None] = log.warning) -> None:
        self.unreadable = 0
        self._blocking, self._stream, self._tell = blocking, stream, tell
        self._last: str | None = None

    async def start(self) -> None:
        """Note where the stream ends now. BusRefused: this login may not read it; BusUnavailable: it is away."""
        try:
            newest = cast("Entries", await self._blocking.xrevrange(self._stream, count=1))
        except (RedisError, OSError) as error:
            raise caller_error(error, f"to read {self._stream}") from error
        self._last = newest[0][0].decode() if newest else "0-0"

    async def read(self) -> AsyncGenerator[RecallDecisionV1]:
        """Each decision that came after `start`, until cancelled. While the bus is away it waits."""
        if self._last is None:
            await self.start()
        backoff = Backoff(*BUS_S)
        while True:
            try:
                entries = await self._next()
            except (RedisError, OSError) as error:
                if is_refusal(error):
                    raise caller_error(error, f"to read {self._stream}") from error
                if backoff.is_first:
                    self._tell("the bus is away; waiting for it")
                await backoff.wait()
                continue
            if not backoff.is_first:
                self._tell("the bus is back")
                backoff.reset()
            for entry_id, fields in entries:
                self._last = entry_id.decode()
                if (decision := self._decision(fields)) is not None:
                    yield decision

    async def _next(self) -> Entries:
        found = cast(
            "list[tuple[bytes, Entries]]",
            await self._blocking.xread({self._stream: self._last or "0-0"}, count=_AT_ONCE, block=_BLOCK_MS),
        )
        return [row for _, rows in found or [] for row in rows]

    def _decision(self, fields: dict[bytes, bytes]) -> RecallDecisionV1 | None:
        raw = next((fields[name] for name in MESSAGE_FIELDS if name in fields), b"")
        try:
            envelope: dict[str, Any] = json.loads(raw)
            return RecallDecisionV1.model_validate(envelope["payload"])
        except (ValueError, TypeError, KeyError, RecursionError, ValidationError) as error:
            self.unreadable += 1
            log.debug("a decision on %s cannot be read: %s", self._stream, error)
            return None
