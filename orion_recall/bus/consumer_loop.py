"""The consumer loop of a stream: handles entries concurrently, up to a limit, and loses none.

Two loops run beside the entries in flight: one fills free slots with new entries and with those that dead consumers
left pending; one refreshes the entries in flight, so that no other consumer claims them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from orion_recall.bus.group_reader import Entry
from orion_recall.settings import Settings
from orion_recall.tasks import sleep

log = logging.getLogger("orion_recall.bus")
_GRACE_S = 2.0


class EntryReader(Protocol):
    """Reads a stream as a member of a consumer group: a `GroupReader`, or a fake in tests."""

    async def create_group(self) -> None: ...
    async def read(self, count: int) -> list[Entry]: ...
    async def claim(self, count: int, min_idle_ms: int) -> list[Entry]: ...
    async def refresh(self, ids: frozenset[str]) -> None: ...
    async def leave(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerLimits:
    """Entries in flight at once, how often they are refreshed, and how long others' must be idle to be claimed."""

    concurrency: int
    refresh_ms: int
    claim_idle_ms: int

    @classmethod
    def of(cls, settings: Settings, *, concurrency: int) -> ConsumerLimits:
        """The limits that the settings state, with a concurrency of one's own."""
        return cls(concurrency=concurrency, refresh_ms=settings.refresh_ms, claim_idle_ms=settings.claim_idle_ms)


class ConsumerLoop:
    """Hands every entry of a reader to `handle`, which acknowledges it or raises.

    An entry whose handler raised stays pending, is claimed again, and in the end is poison.
    """

    def __init__(
        self, reader: EntryReader, handle: Callable[[Entry], Coroutine[Any, Any, None]], limits: ConsumerLimits
    ) -> None:
        self.claimed = 0
        self._reader, self._handle, self._limits = reader, handle, limits
        # By task, not by entry: a group that was made again hands an entry out while it is still in flight.
        self._in_flight: dict[asyncio.Task[None], str] = {}
        self._slot_free = asyncio.Event()
        self._stopping = asyncio.Event()

    @property
    def in_flight(self) -> int:
        """The number of entries in flight."""
        return len(self._in_flight)

    def stop(self) -> None:
        """Take nothing more; `run` returns when the entries in flight have ended."""
        self._stopping.set()
        self._slot_free.set()

    async def run(self) -> None:
        """Serve until `stop()`; then let the last read or claim come back, and finish the entries in flight.

        Cancelled, it gives them two seconds; what is not finished then stays pending.
        """
        taking = asyncio.create_task(self._take_entries())
        loops = [taking, asyncio.create_task(self._refresh())]
        try:
            # Neither loop may end unseen: a worker that no longer takes or refreshes looks healthy.
            await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
            self.stop()
            await asyncio.wait([taking])
            while self._in_flight:
                await asyncio.wait(self._in_flight)
        finally:
            taking.cancel()
            if self._in_flight:
                await asyncio.wait(self._in_flight, timeout=_GRACE_S)
            rest = (*loops, *self._in_flight)
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
            await self._reader.leave()
        for task in loops:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _take_entries(self) -> None:
        """Claim and read in turn: at the same time each would fill the slots that the other has asked for."""
        clock, pause_s = asyncio.get_running_loop().time, self._limits.claim_idle_ms / 5000
        claims_at = clock() + pause_s
        while not self._stopping.is_set():
            if clock() >= claims_at:
                await self._claim()
                claims_at = clock() + pause_s
            free = self._limits.concurrency - len(self._in_flight)
            if free > 0:
                for entry in await self._reader.read(free):
                    self._take(entry)
            else:
                await self._slot_is_free_within(claims_at - clock())

    async def _claim(self) -> None:
        free = self._limits.concurrency - len(self._in_flight)
        # One slot above the limit is for claims, or a busy worker would never take over from a dead one.
        if free < 0:
            return
        for entry in await self._reader.claim(max(1, free), self._limits.claim_idle_ms):
            if entry.id not in self._in_flight.values():
                self.claimed += 1
                self._take(entry)

    async def _slot_is_free_within(self, pause_s: float) -> None:
        self._slot_free.clear()
        await sleep(pause_s, self._slot_free)

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(self._limits.refresh_ms / 1000)
            await self._reader.refresh(frozenset(self._in_flight.values()))

    def _take(self, entry: Entry) -> None:
        task = asyncio.create_task(self._handle(entry))
        self._in_flight[task] = entry.id
        task.add_done_callback(self._let_go)

    def _let_go(self, done: asyncio.Task[None]) -> None:
        entry_id = self._in_flight.pop(done)
        self._slot_free.set()
        if not done.cancelled() and (error := done.exception()) is not None:
            log.error("entry %s stays pending: %r", entry_id, error, exc_info=error)
