"""Bringing the copies of the record - index and graph - up to date from the outbox.

Every copy keeps its own position, so a new or rebuilt one begins at zero and catches up by itself. To a copy that
several workers share only one of them writes at a time; the others wait for their turn.
"""

from __future__ import annotations

import asyncio
import logging

from orion_recall.errors import ModelError, RecordError, SourceError
from orion_recall.memory.record import Record
from orion_recall.memory.turns import Turn
from orion_recall.sources.source import Projection

log = logging.getLogger("orion_recall.memory")

_AT_ONCE = 200
_LOOK_EVERY_S = 0.25
_ASK_FOR_TURN_EVERY_S = 1.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0


class Projector:
    """Keeps one copy up to date: `run()` until cancelled. `copy` is the name the copy is registered under.

    `turn` is needed for a copy that is shared.
    """

    def __init__(self, record: Record, projection: Projection, *, copy: str, turn: Turn | None = None) -> None:
        assert turn is not None or not projection.shared, "a shared copy is written in turns"
        self._record, self._projection, self._copy, self._turn = record, projection, copy, turn
        self._wake = asyncio.Event()
        self._head: int | None = None
        self._reported: int | None = None
        self.error: str | None = None

    @property
    def kind(self) -> str:
        """What it keeps up to date: index or graph."""
        return self._projection.kind

    @property
    def behind(self) -> int | None:
        """Positions of the outbox, as last seen, that the copy does not hold yet; None before the first look."""
        return None if self._head is None else max(0, self._head - self._projection.position)

    def wake(self) -> None:
        """There is something new."""
        self._wake.set()

    async def run(self) -> None:
        """Apply what is new, look again when woken or after a moment; wait while the record is away."""
        pause_s = _FIRST_PAUSE_S
        try:
            while True:
                try:
                    next_look_s = await self._look()
                    self.error, pause_s = None, _FIRST_PAUSE_S
                except (RecordError, SourceError, ModelError) as error:
                    if self.error is None:
                        log.warning("the %s waits: %s", self._projection.kind, error)
                    self.error = str(error)
                    await self._end_turn()  # another worker may be able to
                    await asyncio.sleep(pause_s)
                    pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                    continue
                self._wake.clear()
                try:
                    async with asyncio.timeout(next_look_s):
                        await self._wake.wait()
                except TimeoutError:
                    pass
        finally:
            await self._end_turn()

    async def _look(self) -> float:
        """Catch up, when it is this process's turn; the seconds to the next look."""
        if self._turn is None:
            await self.catch_up()
            return _LOOK_EVERY_S
        if not await self._turn.is_mine():
            return _ASK_FOR_TURN_EVERY_S
        # Others may have written to it, and its server may have lost what was there: the position is read again.
        await self._projection.open()
        await self.catch_up()
        return _LOOK_EVERY_S

    async def _end_turn(self) -> None:
        if self._turn is not None:
            await self._turn.end()

    async def _report(self) -> None:
        position = self._projection.position
        await self._record.report(self._copy, self._projection.kind, position)
        self._reported = position

    async def catch_up(self) -> int:
        """Apply everything in the outbox after the copy's position; the new position."""
        projection = self._projection
        self._head = head = await self._record.head()
        if head < projection.position:
            # The record was put back to an earlier state, or this copy belongs to another one.
            raise SourceError(
                f"the {projection.kind} is ahead of the record (position {projection.position}, record {head}): "
                f"delete {'it' if projection.shared else 'its folder'}, and it will be rebuilt from this record"
            )
        moved = False
        while head > projection.position:
            changes = await self._record.changes(projection.position, _AT_ONCE)
            if not changes or (self._turn is not None and not await self._turn.is_mine()):
                break
            await projection.apply(changes)
            await self._report()
            moved = True
        # What was applied by a process that died before it could say so, and what was put back: it is told at once.
        if self._reported != projection.position and (projection.position or self._reported):
            await self._report()
        if not moved and self.error is not None:
            log.info("the %s goes on at position %d", projection.kind, projection.position)
        return projection.position
