"""The decision sink: reads decisions from the bus in batches, writes each once to Postgres, acknowledges and trims.

Nothing is acknowledged before it is committed. While Postgres is away the sink keeps its batch and reads no
further, so the rest stays on the stream. A row that Postgres refuses becomes a dead letter, alone; where the bus
refuses that too (no memory left, no right), it stays pending and is retried when it has been idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from importlib.resources import files
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, ResponseError

from orion_recall.bus.connect import BUS_AWAY, group_is_gone
from orion_recall.bus.group_reader import Entry, GroupReader, decoded
from orion_recall.postgres.pool import ACQUIRE_TIMEOUT_S, POSTGRES_ERRORS, Pool, reason, sqlstate
from orion_recall.settings import DECISIONS_GROUP, Settings
from orion_recall.tasks import BUS_S, POSTGRES_S, Backoff, in_time

log = logging.getLogger("orion_recall.decisions")

BATCH_ROWS = 500
BATCH_BYTES = 8 * 1024 * 1024
UPKEEP_EVERY_S = 5.0
# After a batch that was not full the sink pauses: a quiet bus costs ten statements a second, not one a decision.
_REST_S = 0.1
_GRACE_S = 5.0
# 21 cardinality, 22 data, 23 integrity, 54 too large or too deep: the row would be refused every time.
_REFUSED_CLASSES = ("21", "22", "23", "54")
_INSERT = files("orion_recall.decisions").joinpath("insert.sql").read_text("utf-8")
# Of the claim time of queries: half a minute by default. A batch waits for Postgres and is not refreshed.
CLAIM_IDLE_TIMES = 6
# XTRIM with ~ takes 10,000 entries at most at a time.
_TRIM_ROUNDS = 200
_MOST_ROUNDS = 50


Row = tuple[str, bytes]
"""One entry to persist: its id and its envelope."""


class DecisionSink:
    """One consumer of the decision stream: `run()` it until cancelled. Several may run, here and elsewhere.

    `blocking` is the client for reads that wait; by default `redis`, whose socket time-out must then exceed
    the block of one second. The pool may have been opened while Postgres was away. `lag` are decisions that were
    not in Postgres a few seconds ago; None when unknown.
    `counts` are of entries by outcome: rows written (`persisted`), rows that existed already (`repeated`), entries
    `set_aside` or `trimmed`; `held` is how often one stayed pending because neither Postgres nor the dead stream
    took it.
    """

    def __init__(
        self,
        redis: Redis,
        pool: Pool,
        settings: Settings,
        *,
        consumer: str | None = None,
        blocking: Redis | None = None,
    ) -> None:
        self.counts = Counter[str]()
        self.lag: int | None = None
        self.postgres_is_away = False
        self._redis, self._pool, self._settings = redis, pool, settings
        self._stream = settings.decision_stream
        self._reader = GroupReader(
            redis,
            blocking or redis,
            stream=self._stream,
            group=DECISIONS_GROUP,
            consumer=consumer or settings.instance,
        )
        # Set when the sink ends: writes are retried until then.
        self._stop = asyncio.Event()
        # What the bus refuses now: logged once, until it is taken again.
        self._refused: set[str] = set()
        self._next_upkeep = 0.0

    @property
    def lost(self) -> int:
        return self._reader.lost

    async def run(self) -> None:
        """Write decisions until cancelled; then finish the batch in flight within 5 s, while the pool is open."""
        self._stop.clear()
        try:
            await self._finish_own_pending()
            while True:
                began = time.monotonic()
                entries = await self._claim_and_trim() or await self._reader.read(BATCH_ROWS)
                await self._finish(entries)
                if len(entries) < BATCH_ROWS:
                    await asyncio.sleep(max(0.0, began + _REST_S - time.monotonic()))
        except asyncio.CancelledError:
            # A read that was cut off may have been answered: no other sink would claim its entries for a while.
            self._stop.set()
            with contextlib.suppress(TimeoutError):
                await in_time(self._finish_own_pending(), _GRACE_S)
            raise
        finally:
            await self._reader.leave()

    async def _finish_own_pending(self) -> None:
        """Entries pending for a consumer of this name.

        When the bus does not answer they stay pending, and are claimed when they have been idle.
        """
        after = "0-0"
        while True:
            try:
                await self._reader.create_group()
                found = cast(
                    "list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes] | None]]]]",
                    await self._redis.xreadgroup(
                        DECISIONS_GROUP, self._reader.consumer, {self._stream: after}, count=BATCH_ROWS
                    ),
                )
            except (*BUS_AWAY, ResponseError) as error:
                log.warning("pending decisions are left for later: %s", error)
                return
            rows = [row for _, of_stream in found or [] for row in of_stream]
            if not rows:
                return
            entries = [Entry(id=name.decode(), fields=fields or {}) for name, fields in rows]
            await self._finish(entries)
            after = entries[-1].id

    async def _claim_and_trim(self) -> list[Entry]:
        """Every few seconds: trim, read the lag, and claim what an expired sink left pending."""
        if time.monotonic() < self._next_upkeep:
            return []
        self.counts["trimmed"] += await self._trim()
        await self._read_lag()
        idle_ms = self._settings.claim_idle_ms
        claimed = await self._reader.claim(BATCH_ROWS, idle_ms * CLAIM_IDLE_TIMES)
        if not claimed:  # else there may be more: claim again next time
            self._next_upkeep = time.monotonic() + min(UPKEEP_EVERY_S, idle_ms / 1000)
        return claimed

    async def _read_lag(self) -> None:
        lag = None
        with contextlib.suppress(*BUS_AWAY, ResponseError):
            if (group := await _group(self._redis, self._stream)) is not None:
                unread = group.get("lag")
                lag = None if unread is None else int(unread) + int(group["pending"])
                self._reader.note_unfinished(lag)
        self.lag = lag

    async def _trim(self) -> int:
        """Trim what is persisted and older than ORION_DECISIONS_KEEP_S; never what is not acknowledged."""
        trimmed = 0
        try:
            if (group := await _group(self._redis, self._stream)) is None:
                return 0
            # The first entry id that is not acknowledged.
            milliseconds, sequence = id_parts(group["last-delivered-id"])
            if not int(group["pending"]):
                sequence += 1
            elif oldest := (await self._redis.xpending(self._stream, DECISIONS_GROUP))["min"]:
                milliseconds, sequence = min((milliseconds, sequence), id_parts(oldest))
            seconds, microseconds = await self._redis.time()  # pyright: ignore[reportUnknownMemberType]
            kept_ms = int(seconds) * 1000 + int(microseconds) // 1000 - self._settings.decisions_keep_s * 1000
            milliseconds, sequence = min((milliseconds, sequence), (kept_ms, 0))
            if milliseconds <= 0:
                return 0
            for _ in range(_TRIM_ROUNDS):
                gone = int(await self._redis.xtrim(self._stream, minid=f"{milliseconds}-{sequence}"))
                trimmed += gone
                if not gone:
                    break
        except (*BUS_AWAY, ResponseError) as error:
            log.debug("trimming %s: %s", self._stream, error)
        return trimmed

    async def _finish(self, entries: Sequence[Entry]) -> None:
        """Persist the entries, also when cancelled meanwhile."""
        if not entries:
            return
        work = asyncio.create_task(self._persist(entries))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            self._stop.set()
            await asyncio.wait({work}, timeout=_GRACE_S)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            raise

    async def _persist(self, entries: Sequence[Entry]) -> None:
        """Write, set aside what is refused, acknowledge. When stopping, the rest stays pending."""
        rows: list[Row] = []
        for entry in entries:
            envelope = entry.fields.get(b"envelope", entry.fields.get(b"data"))
            if envelope is not None:
                rows.append((entry.id, envelope))
            elif entry.fields:
                await self.set_aside(entry.id, b"", "the entry has no field envelope")
            else:
                await self._count_lost(entry.id)
        for batch in batches(rows):
            if not await self._write(batch):
                return

    async def _write(self, rows: Sequence[Row]) -> bool:
        """Write and acknowledge the rows, halving what is refused. False: stopped before Postgres took them."""
        backoff = Backoff(*POSTGRES_S)
        while True:
            try:
                async with self._pool.acquire(timeout=ACQUIRE_TIMEOUT_S) as connection:
                    status = await connection.execute(_INSERT, [envelope for _, envelope in rows])
            except POSTGRES_ERRORS as error:
                if (sqlstate(error) or "")[:2] in _REFUSED_CLASSES:
                    return await self._halve(rows, error)
                if self._stop.is_set():
                    return False
                if not self.postgres_is_away:
                    log.warning("decisions wait on the bus: %s", reason(error))
                self.postgres_is_away = True
                await self._read_lag()
                await backoff.wait(self._stop)
            else:
                if self.postgres_is_away:
                    log.warning("Postgres takes decisions again")
                self.postgres_is_away = False
                inserted = int(status.rpartition(" ")[2])
                self.counts["persisted"] += inserted
                self.counts["repeated"] += len(rows) - inserted
                await self._acknowledge([entry_id for entry_id, _ in rows])
                return True

    async def _halve(self, rows: Sequence[Row], error: Exception) -> bool:
        if len(rows) > 1:
            middle = len(rows) // 2
            return await self._write(rows[:middle]) and await self._write(rows[middle:])
        why = str(error).partition("\n")[0][:500]
        ((entry_id, envelope),) = rows
        if await self.set_aside(entry_id, envelope, f"{sqlstate(error)} {why}"):
            log.warning("decision entry %s is set aside: %s", entry_id, reason(error))
        return True

    async def _acknowledge(self, ids: Sequence[str]) -> None:
        await self._insist(
            "acknowledging decisions (they come again)",
            lambda: self._redis.xack(self._stream, DECISIONS_GROUP, *ids),
        )

    async def set_aside(self, entry_id: str, envelope: bytes, why: str) -> bool:
        """Put an entry that cannot be persisted on the dead stream, with the reason, and acknowledge it.

        False when the bus does not take it: the entry stays pending, and is claimed when it has been idle.
        """
        dead, settings = f"{self._stream}:dead", self._settings
        letter: dict[Any, Any] = {"entry_id": entry_id, "reason": why, "envelope": envelope}
        is_taken = await self._insist(
            "setting decisions aside (they stay pending and are tried again)",
            lambda: self._redis.xadd(dead, letter, maxlen=settings.dead_letters_cap, approximate=True),
        )
        if not is_taken:
            self.counts["held"] += 1
            return False
        await self._insist(
            "trimming dead letters to their bytes",
            lambda: _trim_to_bytes(self._redis, dead, settings.dead_letters_bytes),
        )
        await self._acknowledge([entry_id])
        self.counts["set_aside"] += 1
        return True

    async def _count_lost(self, entry_id: str) -> None:
        """Count an entry that was trimmed away while it was pending, and acknowledge it, counted or not.

        While it is pending nothing after it could be trimmed.
        """
        is_counted = await self._insist(
            "counting lost decisions (they go uncounted)", lambda: self._redis.incrby(f"{self._stream}:trimmed", 1)
        )
        if is_counted or not self._stop.is_set():  # else its successor counts it
            await self._acknowledge([entry_id])

    async def _insist(self, doing: str, once: Callable[[], Awaitable[Any]]) -> bool:
        """Whether the bus took it. False: it refused, or it was away until the sink ended."""
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


async def _trim_to_bytes(redis: Redis, stream: str, most: int) -> int:
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


async def _group(redis: Redis, stream: str) -> dict[str, Any] | None:
    groups: list[dict[str, Any]] = await redis.xinfo_groups(stream)
    return next((group for group in groups if decoded(group["name"]) == DECISIONS_GROUP), None)


async def are_persisted(redis: Redis, stream: str, until_ms: int) -> bool:
    """Whether every decision that came to the stream until then, by the clock of the bus, is acknowledged."""
    try:
        group = await _group(redis, stream)
    except ResponseError:  # nothing was ever decided here
        return True
    if group is None:
        return True
    if int(group["pending"]):
        oldest = (await redis.xpending(stream, DECISIONS_GROUP))["min"]
        if oldest is not None and id_parts(oldest)[0] <= until_ms:
            return False
    unread = await redis.xrange(stream, min=f"({decoded(group['last-delivered-id'])}", count=1)
    return not unread or id_parts(unread[0][0] or "0-0")[0] > until_ms


def id_parts(entry_id: bytes | str) -> tuple[int, int]:
    milliseconds, _, sequence = decoded(entry_id).partition("-")
    return int(milliseconds), int(sequence or 0)


def batches(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    start = size = 0
    for index, (_, envelope) in enumerate(rows):
        if index > start and size + len(envelope) > BATCH_BYTES:
            yield rows[start:index]
            start, size = index, 0
        size += len(envelope)
    if start < len(rows):
        yield rows[start:]
