"""The consumer loop of a stream: handles entries concurrently, up to a limit, and loses none.

Two loops run beside the entries in flight: one fills free slots with new entries and with those that dead consumers
left pending; one refreshes the entries held here, so that no other consumer claims them.

With a queue, entries are also read while all slots are taken. The queue says which one is next, and which are
turned away: answered at once that they cannot be served. What waits is pending on the bus like what is in flight,
and is claimed by others when this process ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from orion_recall.bus.group_reader import Entry, GroupReader
from orion_recall.errors import Overloaded
from orion_recall.settings import Settings
from orion_recall.tasks import sleep

log = logging.getLogger("orion_recall.bus")
_GRACE_S = 2.0
_MOST_AHEAD = 64
# So many answers to what was turned away may be on their way to the bus: it is read no faster than it takes them.
_MOST_TURNING = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """An entry that is turned away, with the error that its sender is told."""

    entry: Entry
    error: Overloaded


class EntryQueue(Protocol):
    """Entries that wait for a slot. `slots` may be in flight at once; meanwhile more is read after `pause_s`.

    `loop_was_late` hears by how much the event loop came too late.
    """

    def __len__(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def ids(self) -> Iterable[str]: ...
    @property
    def pause_s(self) -> float: ...
    def put(self, entry: Entry, *, first: bool = False) -> list[Turned]:
        """Let an entry wait, with `first` before others; gives what is turned away for it, which may be itself."""
        ...

    def take(self) -> Entry | Turned | None:
        """What is next: to be handled, or turned away; None when nothing waits."""

    def ended(self, seconds: float, *, is_busy: bool) -> None:
        """Hear that handling one took so long; `is_busy`: all slots were taken until then."""

    def loop_was_late(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerLimits:
    """Entries in flight at once, how often they are refreshed, and how long others' must be idle to be claimed."""

    concurrency: int
    refresh_ms: int
    claim_idle_ms: int

    @classmethod
    def of(cls, settings: Settings, *, concurrency: int) -> ConsumerLimits:
        return cls(concurrency=concurrency, refresh_ms=settings.refresh_ms, claim_idle_ms=settings.claim_idle_ms)


class ConsumerLoop:
    """Hands every entry of a reader to `handle`, which acknowledges it or raises.

    An entry whose handler raised stays pending, is claimed again, and in the end is poison. With a `queue`, what it
    turns away is handed to `turn_away`, which acknowledges it as well: all at once what one read brought.
    """

    def __init__(
        self,
        reader: GroupReader,
        handle: Callable[[Entry], Coroutine[Any, Any, None]],
        limits: ConsumerLimits,
        *,
        queue: EntryQueue | None = None,
        turn_away: Callable[[Sequence[Turned]], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self.claimed = 0
        self._reader, self._handle, self._limits = reader, handle, limits
        self._queue, self._turn_away = queue, turn_away
        # By task, not by entry: a group that was made again hands an entry out while it is still in flight.
        self._in_flight: dict[asyncio.Task[None], str] = {}
        self._turning: dict[asyncio.Task[None], Sequence[str]] = {}
        self._slot_free = asyncio.Event()
        self._reads_ahead_at = 0.0
        self._stopping = asyncio.Event()
        self._is_closed = False

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def waiting(self) -> int:
        return 0 if self._queue is None else len(self._queue)

    def stop(self) -> None:
        """Take nothing more; `run` returns when the entries in flight and those that wait have ended."""
        self._stopping.set()
        self._slot_free.set()

    async def run(self) -> None:
        """Serve until `stop()`; then let the last read or claim come back, and finish the entries held here.

        Cancelled, it gives those in flight two seconds; what is not finished then stays pending.
        """
        taking = asyncio.create_task(self._take_entries())
        loops = [taking, asyncio.create_task(self._refresh())]
        try:
            # Neither loop may end unseen: a worker that no longer takes or refreshes looks healthy.
            await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
            self.stop()
            await asyncio.wait([taking])
            while self._in_flight or self._turning:
                await asyncio.wait((*self._in_flight, *self._turning))
        finally:
            self._is_closed = True
            taking.cancel()
            if self._in_flight or self._turning:
                await asyncio.wait((*self._in_flight, *self._turning), timeout=_GRACE_S)
            rest = (*loops, *self._in_flight, *self._turning)
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
            await self._reader.leave()
        for task in loops:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    @property
    def _free(self) -> int:
        return (self._limits.concurrency if self._queue is None else self._queue.slots) - len(self._in_flight)

    async def _take_entries(self) -> None:
        """Claim and read in turn: at the same time each would fill the slots that the other has asked for."""
        clock, pause_s = asyncio.get_running_loop().time, self._limits.claim_idle_ms / 5000
        claims_at = clock() + pause_s
        while not self._stopping.is_set():
            if clock() >= claims_at:
                await self._claim()
                claims_at = clock() + pause_s
            if self._free > 0 and not self.waiting:
                self._reads_ahead_at = 0.0  # it was not waited for
                self._arrive(await self._reader.read(self._free))
            elif self._queue is None:
                await self._slot_is_free_within(claims_at - clock())
            else:
                await self._read_ahead(self._queue)

    async def _read_ahead(self, queue: EntryQueue) -> None:
        """Read what no worker had a free slot for, after a moment; what nobody has time for learns it at once."""
        clock = asyncio.get_running_loop().time
        await self._slot_is_free_within(self._reads_ahead_at - clock())
        if clock() < self._reads_ahead_at:
            return
        if self._reads_ahead_at:
            queue.loop_was_late(clock() - self._reads_ahead_at)
        while self._free <= 0 and not self._stopping.is_set():
            if sum(map(len, self._turning.values())) >= _MOST_TURNING:
                break
            found = await self._reader.read_waiting(_MOST_AHEAD)
            self._arrive(found)
            if len(found) < _MOST_AHEAD:
                break
        self._reads_ahead_at = clock() + queue.pause_s

    async def _claim(self) -> None:
        found: list[Entry] = []
        if self._queue is not None:
            found = await self._reader.take_over(_MOST_AHEAD, self._limits.claim_idle_ms)
        elif self._free >= 0:
            # One slot above the limit is for claims, or a busy worker would never take over from a dead one.
            found = await self._reader.claim(max(1, self._free), self._limits.claim_idle_ms)
        held = set(self._held)
        found = [entry for entry in found if entry.id not in held]
        self.claimed += len(found)
        self._arrive(found, are_claimed=True)

    async def _slot_is_free_within(self, pause_s: float) -> None:
        self._slot_free.clear()
        await sleep(pause_s, self._slot_free)

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(self._limits.refresh_ms / 1000)
            await self._reader.refresh(frozenset(self._held))

    @property
    def _held(self) -> Iterable[str]:
        waiting = () if self._queue is None else self._queue.ids
        return chain(self._in_flight.values(), chain.from_iterable(self._turning.values()), waiting)

    def _arrive(self, entries: Iterable[Entry], *, are_claimed: bool = False) -> None:
        turned: list[Turned] = []
        for entry in entries:
            if self._queue is None or (self._free > 0 and not self.waiting):
                self._start(entry)
            else:
                turned += self._queue.put(entry, first=are_claimed)
        self._turn(turned)

    def _start(self, entry: Entry) -> None:
        clock, began = asyncio.get_running_loop().time, asyncio.get_running_loop().time()
        task = asyncio.create_task(self._handled(entry))
        self._in_flight[task] = entry.id

        def ended(done: asyncio.Task[None]) -> None:
            if self._queue is not None and not done.cancelled():
                self._queue.ended(clock() - began, is_busy=self._free <= 0)
            entry_id = self._in_flight.pop(done)
            self._slot_free.set()
            _log_pending(done, [entry_id])
            self._fill()

        task.add_done_callback(ended)

    async def _handled(self, entry: Entry) -> None:
        if self._queue is not None and entry.deliveries > 1:
            await self._reader.begin(entry)
        await self._handle(entry)

    async def _turned(self, turned: Sequence[Turned]) -> None:
        assert self._turn_away is not None, "a queue that turns entries away needs somebody who tells their senders"
        for one in turned:
            if one.entry.deliveries > 1:
                await self._reader.begin(one.entry)
        await self._turn_away(turned)

    def _fill(self) -> None:
        turned: list[Turned] = []
        while self._queue is not None and not self._is_closed and self._free > 0:
            found = self._queue.take()
            if found is None:
                break
            if isinstance(found, Turned):
                turned.append(found)
            else:
                self._start(found)
        self._turn(turned)

    def _turn(self, turned: Sequence[Turned]) -> None:
        if not turned:
            return
        task = asyncio.create_task(self._turned(turned))
        self._turning[task] = [one.entry.id for one in turned]
        task.add_done_callback(lambda done: _log_pending(done, self._turning.pop(done)))


def _log_pending(done: asyncio.Task[None], entry_ids: Sequence[str]) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        log.error("entry %s stays pending: %r", ", ".join(entry_ids), error, exc_info=error)
