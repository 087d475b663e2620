"""Serving a stream: as many entries in hand as there are slots, none of them lost.

Two loops run beside the entries in hand: one takes as many entries as there are free slots, new ones and those that
others have left lying; one says that what is in hand is being worked on, so that nobody claims it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from orion_recall.bus.group_reader import Entry
from orion_recall.tasks import sleep

log = logging.getLogger("orion_recall.bus")
_GRACE_S = 2.0


class Intake(Protocol):
    """Where entries come from."""

    async def create_group(self) -> None: ...
    async def read(self, count: int) -> list[Entry]: ...
    async def claim(self, count: int, min_idle_ms: int) -> list[Entry]: ...
    async def refresh(self, ids: frozenset[str]) -> None: ...
    async def leave(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How many at once, how often what is in hand is refreshed, and after what silence others' is claimed."""

    concurrency: int
    refresh_ms: int
    claim_idle_ms: int


class Server:
    """Hands every entry of an intake to `handle`, which ends it (acknowledges it) or raises.

    An entry whose handler raised stays pending, is claimed again by somebody, and so comes to be poison.
    """

    def __init__(self, intake: Intake, handle: Callable[[Entry], Coroutine[Any, Any, None]], pace: Pace) -> None:
        self.claimed = 0
        self._intake, self._handle, self._pace = intake, handle, pace
        # By task, not by entry: a group that was made again hands an entry out while it is still in hand.
        self._in_hand: dict[asyncio.Task[None], str] = {}
        self._slot_free = asyncio.Event()
        self._stopping = asyncio.Event()

    @property
    def in_hand(self) -> int:
        """Entries being worked on."""
        return len(self._in_hand)

    def stop(self) -> None:
        """Take nothing more; `run` returns when what is in hand has ended."""
        self._stopping.set()
        self._slot_free.set()

    async def run(self) -> None:
        """Serve until `stop()`; then let the last read or claim come back, and finish what is held.

        Cancelled, it gives what is held two seconds; what is not finished then stays pending.
        """
        taking = asyncio.create_task(self._take_entries())
        loops = [taking, asyncio.create_task(self._refresh())]
        try:
            # Neither loop may end unseen: a worker that no longer takes or refreshes looks healthy.
            await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
            self.stop()
            await asyncio.wait([taking])
            while self._in_hand:
                await asyncio.wait(self._in_hand)
        finally:
            taking.cancel()
            if self._in_hand:
                await asyncio.wait(self._in_hand, timeout=_GRACE_S)
            rest = (*loops, *self._in_hand)
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
            await self._intake.leave()
        for task in loops:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _take_entries(self) -> None:
        """Claim and read in turn: side by side each would fill the slots that the other has asked for."""
        clock, pause_s = asyncio.get_running_loop().time, self._pace.claim_idle_ms / 5000
        claims_at = clock() + pause_s
        while not self._stopping.is_set():
            if clock() >= claims_at:
                await self._claim()
                claims_at = clock() + pause_s
            free = self._pace.concurrency - len(self._in_hand)
            if free > 0:
                for entry in await self._intake.read(free):
                    self._take(entry)
            else:
                await self._slot_is_free_within(claims_at - clock())

    async def _claim(self) -> None:
        free = self._pace.concurrency - len(self._in_hand)
        # One slot beyond the limit is open here, or a busy worker would never take over from a dead one.
        if free < 0:
            return
        for entry in await self._intake.claim(max(1, free), self._pace.claim_idle_ms):
            if entry.id not in self._in_hand.values():
                self.claimed += 1
                self._take(entry)

    async def _slot_is_free_within(self, pause_s: float) -> None:
        self._slot_free.clear()
        await sleep(pause_s, self._slot_free)

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(self._pace.refresh_ms / 1000)
            await self._intake.refresh(frozenset(self._in_hand.values()))

    def _take(self, entry: Entry) -> None:
        task = asyncio.create_task(self._handle(entry))
        self._in_hand[task] = entry.id
        task.add_done_callback(self._let_go)

    def _let_go(self, done: asyncio.Task[None]) -> None:
        entry_id = self._in_hand.pop(done)
        self._slot_free.set()
        if not done.cancelled() and (error := done.exception()) is not None:
            log.error("entry %s stays pending: %r", entry_id, error, exc_info=error)
