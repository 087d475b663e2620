"""The decision stream of a sink: batches to persist, acknowledgements, dead letters, trimming, lag."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, ResponseError

from orion_recall.bus.connect import BUS_AWAY, group_is_gone
from orion_recall.bus.group_reader import Entry, GroupReader, Healed
from orion_recall.settings import DECISIONS_GROUP, Settings
from orion_recall.tasks import BUS_S, Backoff

log = logging.getLogger("orion_recall.decisions")


_MOST_ROUNDS = 50


async def trim_to_bytes(redis: Redis, stream: str, most: int) -> int:
    """Trim the stream to `most` bytes, as MEMORY USAGE counts them; how many entries went.

    The newest entry stays. Nothing is trimmed where this user may not ask for it. RedisError: the bus refuses.
    """
    gone = 0
    for _ in range(_MOST_ROUNDS):
        try:
            used = cast("int | None", await cast("Any", redis).memory_usage(stream, samples=0))
        except NoPermissionError:
            return gone
        if used is None or used <= most:
            return gone
        length = int(await redis.xlen(stream))
        if length <= 1:
            return gone
        kept = max(1, int(length * most / used * 0.9))
        gone += int(await redis.xtrim(stream, maxlen=kept, approximate=False))
    return gone


# Of the claim time of queries: half a minute by default. A batch waits for Postgres and is not refreshed.
CLAIM_IDLE_TIMES = 6
# XTRIM with ~ takes 10,000 entries at most at a time.
_TRIM_ROUNDS = 200


class DecisionStream:
    """One consumer of the decision stream. Its writes are retried until `stop` is set."""

    def __init__(
        self, redis: Redis, blocking: Redis, settings: Settings, *, consumer: str, stop: asyncio.Event
    ) -> None:
        self.name = settings.decision_stream
        self.dead_name = f"{settings.decision_stream}:dead"
        self._redis, self._stop = redis, stop
        # What the bus refuses now: logged once, until it is taken again.
        self._refused: set[str] = set()
        self._dead_cap, self._dead_bytes = settings.dead_letters_cap, settings.dead_letters_bytes
        self._keep_ms = settings.decisions_keep_s * 1000
        self._claim_idle_ms = settings.claim_idle_ms * CLAIM_IDLE_TIMES
        self._reader = GroupReader(redis, blocking, stream=self.name, group=DECISIONS_GROUP, consumer=consumer)

    @property
    def healed(self) -> Healed:
        return self._reader.healed

    async def read(self, count: int) -> list[Entry]:
        """New decisions; waits about a second for the first."""
        return await self._reader.read(count)

    async def claim(self, count: int) -> list[Entry]:
        """Decisions whose sink has been idle for six times the claim time of queries."""
        return await self._reader.claim(count, self._claim_idle_ms)

    async def own_pending(self, after: str, count: int) -> list[Entry]:
        """Entries pending for a consumer of this name, after the id `after`.

        Empty when the bus does not answer: they stay pending, and are claimed when they have been idle.
        """
        try:
            await self._reader.create_group()
            found = cast(
                "list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes] | None]]]]",
                await self._redis.xreadgroup(
                    DECISIONS_GROUP, self._reader.consumer, {self.name: after}, count=count
                ),
            )
        except (*BUS_AWAY, ResponseError) as error:
            log.warning("pending decisions are left for later: %s", error)
            return []
        return [
            Entry(id=entry_id.decode(), fields=fields or {}) for _, rows in found or [] for entry_id, fields in rows
        ]

    async def acknowledge(self, ids: Sequence[str]) -> None:
        """Acknowledge entries that are persisted or set aside. What the bus refuses stays pending."""
        if ids:
            await self._insist(
                "acknowledging decisions (they come again)",
                lambda: self._redis.xack(self.name, DECISIONS_GROUP, *ids),
            )

    async def set_aside(self, entry_id: str, envelope: bytes, why: str) -> bool:
        """Put an entry that cannot be persisted on the dead stream, with the reason, and acknowledge it.

        False when the bus does not take it: the entry stays pending, and is claimed when it has been idle.
        """
        letter: dict[Any, Any] = {"entry_id": entry_id, "reason": why, "envelope": envelope}
        is_taken = await self._insist(
            "setting decisions aside (they stay pending and are tried again)",
            lambda: self._redis.xadd(self.dead_name, letter, maxlen=self._dead_cap, approximate=True),
        )
        if is_taken:
            await self._insist(
                "trimming dead letters to their bytes",
                lambda: trim_to_bytes(self._redis, self.dead_name, self._dead_bytes),
            )
            await self.acknowledge([entry_id])
        return is_taken

    async def count_lost(self, entry_id: str) -> None:
        """Count an entry that was trimmed away while it was pending, and acknowledge it, counted or not.

        While it is pending nothing after it could be trimmed.
        """
        is_counted = await self._insist(
            "counting lost decisions (they go uncounted)", lambda: self._redis.incrby(f"{self.name}:trimmed", 1)
        )
        if is_counted or not self._stop.is_set():  # else its successor counts it
            await self.acknowledge([entry_id])

    async def lag(self) -> int | None:
        """Decisions on the bus that are not acknowledged; None when unknown."""
        try:
            groups = await self._groups()
        except (*BUS_AWAY, ResponseError):
            return None
        for group in groups:
            unread = group.get("lag")
            found = None if unread is None else int(unread) + int(group["pending"])
            self._reader.note_unfinished(found)
            return found
        return None

    async def trim(self) -> int:
        """Trim what is persisted and older than ORION_DECISIONS_KEEP_S; never what is not acknowledged."""
        try:
            bound = await self._persisted_up_to()
            if bound is None:
                return 0
            seconds, microseconds = await self._redis.time()  # pyright: ignore[reportUnknownMemberType]
            oldest_kept = (int(seconds) * 1000 + int(microseconds) // 1000 - self._keep_ms, 0)
            milliseconds, sequence = min(bound, oldest_kept)
            if milliseconds <= 0:
                return 0
            return await self._trim_before(f"{milliseconds}-{sequence}")
        except (*BUS_AWAY, ResponseError) as error:
            log.debug("trimming %s: %s", self.name, error)
            return 0

    async def leave(self) -> None:
        """Delete this consumer from the group, unless it has pending entries."""
        await self._reader.leave()

    async def _trim_before(self, minimum: str) -> int:
        trimmed = 0
        for _ in range(_TRIM_ROUNDS):
            gone = int(await self._redis.xtrim(self.name, minid=minimum, approximate=True))
            trimmed += gone
            if gone == 0:
                break
        return trimmed

    async def _persisted_up_to(self) -> tuple[int, int] | None:
        """The first entry id that is not acknowledged, or None without a group."""
        for group in await self._groups():
            delivered = id_parts(group["last-delivered-id"])
            if not int(group["pending"]):
                return delivered[0], delivered[1] + 1
            summary = await self._redis.xpending(self.name, DECISIONS_GROUP)
            oldest = summary["min"]
            return min(delivered, id_parts(oldest)) if oldest is not None else delivered
        return None

    async def _groups(self) -> list[dict[str, Any]]:
        groups = await self._redis.xinfo_groups(self.name)
        return [group for group in groups if _text(group["name"]) == DECISIONS_GROUP]

    async def _insist(self, doing: str, once: Callable[[], Awaitable[Any]]) -> bool:
        """Whether the bus took it. False: it refused, or it was away until `stop` was set."""
        backoff = Backoff(*BUS_S)
        while True:
            try:
                await once()
            except BUS_AWAY as error:
                if self._stop.is_set():
                    log.warning("%s: the bus is away (%s)", doing, type(error).__name__)
                    return False
                await backoff.wait(self._stop)
            except ResponseError as error:
                if doing not in self._refused and not group_is_gone(error):
                    self._refused.add(doing)
                    log.error("%s: the bus refused: %s", doing, error)  # noqa: TRY400 (no fault of the program)
                return False
            else:
                self._refused.discard(doing)
                return True


async def are_persisted(redis: Redis, stream: str, until_ms: int) -> bool:
    """Whether every decision that came to the stream until then, by the clock of the bus, is acknowledged."""
    try:
        groups = await redis.xinfo_groups(stream)
    except ResponseError:  # nothing was ever decided here
        return True
    for group in groups:
        if _text(group["name"]) != DECISIONS_GROUP:
            continue
        if int(group["pending"]):
            oldest = (await redis.xpending(stream, DECISIONS_GROUP))["min"]
            if oldest is not None and id_parts(oldest)[0] <= until_ms:
                return False
        unread = await redis.xrange(stream, min=f"({_text(group['last-delivered-id'])}", count=1)
        return not unread or id_parts(unread[0][0] or "0-0")[0] > until_ms
    return True


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def id_parts(entry_id: bytes | str) -> tuple[int, int]:
    milliseconds, _, sequence = _text(entry_id).partition("-")
    return int(milliseconds), int(sequence or 0)
