"""A caller that knows nothing but redis commands and JSON: what it sent, and every answer that came."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import uuid4

from redis.asyncio import Redis
from redis.exceptions import RedisError

from orion_recall.bus.connect import connect

_AWAY = (RedisError, OSError)
_PAUSE_S = 0.05
Noted = Callable[["Sent", bytes], None]


@dataclass(slots=True)
class Sent:
    """One message. `is_sure`: the bus has said that it has it; else it may or may not have come there.

    Times are of this process's monotonic clock. `about` is the sender's own.
    """

    name: str
    at: float
    ttl_ms: int | None = None
    is_sure: bool = False
    about: Any = None
    answers: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])

    @property
    def took_s(self) -> float | None:
        """Seconds until the first answer."""
        return self.answers[0][0] - self.at if self.answers else None


class Caller:
    """Sends messages to one stream, and collects all that comes on a reply stream of its own.

    `noted` gets every answer as it came. Outcomes are kept, and nothing else of an answer.
    """

    def __init__(self, redis: Redis, reading: Redis, kind: str, noted: Noted | None = None) -> None:
        self.sent: dict[str, Sent] = {}
        self._open: dict[str, Sent] = {}
        self.unknown = 0
        self.is_done = False
        self._last = "0"
        self.replies = f"recall.reply.v1:chaos-{uuid4().hex}"
        self._redis, self._reading, self._kind, self._noted = redis, reading, kind, noted

    async def send(self, payload: Mapping[str, Any], *, ttl_ms: int | None = None, about: Any = None) -> Sent:
        """Send one message; while the bus is away the message is not sure to be there."""
        name = uuid4().hex
        envelope = {"correlation_id": name, "kind": self._kind, "reply_to": self.replies, "payload": payload}
        message = json.dumps(envelope | ({} if ttl_ms is None else {"ttl_ms": ttl_ms}))
        return await self.send_raw(message, name, ttl_ms=ttl_ms, about=about)

    async def send_raw(
        self, message: str | bytes, name: str, *, ttl_ms: int | None = None, about: Any = None
    ) -> Sent:
        """The same with a message as it is, whose correlation id is `name`."""
        sent = self.sent[name] = self._open[name] = Sent(name, time.monotonic(), ttl_ms, about=about)
        with suppress(*_AWAY):
            await self._redis.xadd(self._kind, {"envelope": message})
            sent.is_sure = True
        return sent

    @property
    def sure(self) -> list[Sent]:
        """What the bus has said that it has."""
        return [sent for sent in self.sent.values() if sent.is_sure]

    @property
    def waiting(self) -> list[Sent]:
        """What is sure to be there and has no answer yet."""
        return [sent for sent in self._open.values() if sent.is_sure]

    async def all_answered(self, *, stalled_s: float) -> bool:
        """Wait for what is waited for; False when nothing more has come for so many seconds."""
        left, since = len(self.waiting), time.monotonic()
        while left:
            if time.monotonic() - since > stalled_s:
                return False
            await asyncio.sleep(_PAUSE_S)
            if (now_left := len(self.waiting)) != left:
                left, since = now_left, time.monotonic()
        return True

    def wait_no_longer(self) -> None:
        """What has no answer yet is not waited for any more."""
        self._open.clear()

    async def in_closed_loop(
        self, texts: Iterator[str], seconds: float, *, in_flight: int = 16, **options: Any
    ) -> tuple[list[Sent], float]:
        """Ask for so long with so many in flight at any time: what was asked, and the seconds it took."""
        began, asked = time.monotonic(), list[Sent]()
        while time.monotonic() - began < seconds:
            while len(self.waiting) >= in_flight:
                await asyncio.sleep(0.002)
            asked.append(await self.send({"fragment": next(texts), "options": options}))
        await self.all_answered(stalled_s=60)
        return asked, time.monotonic() - began

    async def read(self) -> None:
        """Collect answers until `is_done`, whatever happens to the bus."""
        while not self.is_done:
            await self.read_once()

    async def read_once(self) -> None:
        """Collect what comes within half a second."""
        try:
            found = cast("list[Any]", await self._reading.xread({self.replies: self._last}, count=500, block=500))
        except _AWAY:
            await asyncio.sleep(_PAUSE_S)
            return
        now = time.monotonic()
        for _, rows in found or []:
            for entry_id, fields in rows:
                self._last = entry_id.decode()
                self._count(fields[b"envelope"], now)

    def _count(self, raw: bytes, now: float) -> None:
        envelope = json.loads(raw)
        sent = self.sent.get(envelope["correlation_id"])
        if sent is None:
            self.unknown += 1
            return
        self._open.pop(sent.name, None)
        sent.answers.append((now, outcome_of(envelope["payload"])))
        if self._noted is not None:
            self._noted(sent, raw)


def outcome_of(payload: Mapping[str, Any]) -> str:
    """The outcome of a reply, the verdict of a receipt about one memory, or the kind of an error."""
    if payload.get("error"):
        return str(payload["error"]["type"])
    if payload.get("results"):
        return str(payload["results"][0]["status"])
    return str(payload.get("bundle", {}).get("stats", {}).get("outcome", "none told"))


@asynccontextmanager
async def caller_on(url: str, kind: str, noted: Noted | None = None) -> AsyncGenerator[Caller]:
    """A caller that reads its answers while the block runs."""
    async with connect(url) as redis, connect(url, blocking=True) as reading:
        caller = Caller(redis, reading, kind, noted)
        task = asyncio.create_task(caller.read())
        try:
            yield caller
        finally:
            caller.is_done = True
            await task
